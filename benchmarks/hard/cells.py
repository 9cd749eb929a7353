"""What ``certified.py`` fits: every data set, raw and standardised, by every estimator; and by other libraries.

    raw             as the file has it: an array where at least half of the values are stored, else CSR
    standardised    what users are told to do: columns of mean 0 and variance 1 (arrays), rows of length 1 (sparse, more
                    columns than rows: texts), columns divided by their largest magnitude (other sparse)

Rows are shuffled by a seed and cut: a kernel matrix has at most KERNEL_ROWS rows, and a linear model sees as many rows
as hold LINEAR_VALUES stored values (20,000 of mnist's 60,000; all rows of every other set here).
"""

import math
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, issparse
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import maxabs_scale, normalize, scale
from sklearn.svm import SVC
from sklearn.svm import LinearSVC as Liblinear

from problems.shared.folders import data_folder
from softmargin import KernelSVC, L1BallClassifier, LinearSVC, SoftmaxRegression, TraceBallClassifier
from softmargin.data import available, load
from tools.common import OURS, UserError, choose

FORMS = ("raw", "standardised")
KERNEL_ROWS = 6000
LINEAR_VALUES = 3_000_000
_DENSE = 0.5  # share of stored values from which a set is an array
_SEED = 0
_KERNEL_MEGABYTES = 1000  # of LIBSVM's cache: as much as ours
# How long a peer is told to go on: its defaults, and until the budget ends it.
PATIENCE: dict[str, dict[str, float]] = {"default": {}, "patient": {"tol": 1e-6, "max_iter": 10**7}}


class Setting(NamedTuple):
    """An estimator of ours as a function of C (the radius of a ball), and the C that are fitted unless others are."""

    make: Callable[[float], Any]
    Cs: tuple[float, ...] = (1.0,)
    peers: tuple[str, ...] = ()
    """Those whose own problem is the nearest one; ``certify`` measures them by that."""
    has_kernel: bool = False


_OVR = {"multiclass": "one_vs_rest"}
_SQUARED = {**_OVR, "loss": "squared_hinge"}
SETTINGS = {
    "linear-ww": Setting(lambda C: LinearSVC(C), (0.01, 1.0, 100.0)),
    "linear-cs": Setting(lambda C: LinearSVC(C, multiclass="crammer_singer"), peers=("LIBLINEAR -s 4",)),
    "linear-ovr": Setting(lambda C: LinearSVC(C, **_OVR), peers=("LIBLINEAR -s 3",)),
    "linear-squared": Setting(lambda C: LinearSVC(C, **_SQUARED), peers=("LIBLINEAR -s 1 or 2",)),
    "kernel-ww": Setting(lambda C: KernelSVC(C), (1.0, 1000.0), has_kernel=True),
    "kernel-ovr": Setting(lambda C: KernelSVC(C, **_OVR), peers=("LIBSVM",), has_kernel=True),
    "kernel-squared": Setting(lambda C: KernelSVC(C, **_SQUARED), has_kernel=True),
    "softmax-l2": Setting(lambda C: SoftmaxRegression(C), (1.0, 1000.0), ("sklearn lbfgs", "sklearn newton-cg")),
    "softmax-l1": Setting(lambda C: SoftmaxRegression(C, l1_ratio=1.0), peers=("sklearn saga",)),
    "l1-ball": Setting(lambda C: L1BallClassifier(C)),
    "trace-ball": Setting(lambda C: TraceBallClassifier(C)),
}
PEERS: dict[str, Callable[..., Any]] = {
    "LIBLINEAR -s 4": lambda C, **more: Liblinear(C=C, multi_class="crammer_singer", **more),
    "LIBLINEAR -s 3": lambda C, **more: Liblinear(C=C, loss="hinge", **more),
    "LIBLINEAR -s 1 or 2": lambda C, **more: Liblinear(C=C, dual="auto", **more),
    "LIBSVM": lambda C, **more: SVC(C=C, cache_size=_KERNEL_MEGABYTES, **more),
    "sklearn lbfgs": lambda C, **more: LogisticRegression(C=C, **more),
    "sklearn newton-cg": lambda C, **more: LogisticRegression(C=C, solver="newton-cg", **more),
    "sklearn saga": lambda C, **more: LogisticRegression(C=C, l1_ratio=1.0, solver="saga", **more),
}


class Cell(NamedTuple):
    """One fit; ``contender`` is "softmargin" or a peer with its patience."""

    data: str
    form: str
    setting: str
    C: float
    tol: float
    contender: str


def names() -> list[str]:
    """List the data sets of the folder."""
    return [entry.name for entry in available(data_folder()) if entry.where != "embedded" or _is_in_folder(entry.name)]


def _is_in_folder(name: str) -> bool:
    return any(data_folder().glob(f"{name}.*"))


def chosen(options: Namespace) -> list[Cell]:
    """Return the cells that are asked for: ours first, and the largest data first, so that no core waits at the end."""
    known = names()
    if not known:
        raise UserError(f"no data sets in {data_folder()}; set SOFTMARGIN_DATA.")
    data = choose("data set", options.data, known)
    settings = choose("setting", options.settings, list(SETTINGS))
    forms = choose("form", options.forms, list(FORMS))
    bytes_of = {name: sum(path.stat().st_size for path in data_folder().glob(f"{name}.*")) for name in data}
    cells = [
        Cell(name, form, setting, *more)
        for name, form, setting in product(sorted(data, key=lambda name: -bytes_of[name]), forms, settings)
        for more in product(
            options.C or SETTINGS[setting].Cs, options.tol, contenders(setting, with_peers=options.peers)
        )
    ]
    return sorted(cells, key=lambda cell: cell.contender != OURS)


def contenders(setting: str, *, with_peers: bool) -> Iterator[str]:
    """Yield who fits a setting: we, and its peers, each with its defaults and with patience."""
    yield OURS
    if with_peers:
        yield from (f"{peer}, {patience}" for peer in SETTINGS[setting].peers for patience in PATIENCE)


def estimator(cell: Cell, budget: float) -> Any:
    """Return what fits a cell, not fitted yet."""
    if cell.contender == OURS:
        model = SETTINGS[cell.setting].make(cell.C)
        return model.set_params(tol=cell.tol, max_seconds=budget, random_state=_SEED)
    peer, _, patience = cell.contender.rpartition(", ")
    return PEERS[peer](cell.C, **PATIENCE[patience]).set_params(random_state=_SEED)


class Sets:
    """The data of the cells; one set at a time stays in memory, with both forms."""

    def __init__(self, forms: Sequence[str] | None = None, most_rows: float = math.inf) -> None:
        self._has_both, self._most_rows = set(forms or FORMS) == set(FORMS), most_rows
        self._name: str | None = None
        self._forms: dict[str, Any] = {}
        self._y: Any = None

    def of(self, name: str, form: str, *, has_kernel: bool) -> tuple[Any, Any] | None:
        """Return X and y; None of a set with too many rows, and where another form that is asked for is the same."""
        if name != self._name:
            self._name, (X, self._y) = name, shuffled(name)
            self._forms = {"raw": X, "standardised": standardised(X)}
        X = self._forms[form]
        is_known = self._has_both and form != "raw" and _is_equal(X, self._forms["raw"])
        if is_known or X.shape[0] > self._most_rows:
            return None
        n = KERNEL_ROWS if has_kernel else max(int(LINEAR_VALUES / _values_of_a_row(X)), 1)
        return X[:n], self._y[:n]


def shuffled(name: str) -> tuple[Any, Any]:
    """Return the rows of the training part in a random order; an array where most values are stored."""
    parts = load(name, data_dir=data_folder())
    order = np.random.default_rng(_SEED).permutation(len(parts.y))
    X, y = parts.X[order], parts.y[order]
    is_array = not issparse(X) or X.nnz >= _DENSE * X.shape[0] * X.shape[1]
    X = X.astype(np.float64)
    return (np.asarray(X.toarray() if issparse(X) else X) if is_array else csr_matrix(X)), y


def standardised(X: Any) -> Any:
    """Return X in the form that its users are told to give it; see the top of this file."""
    if not issparse(X):
        return scale(X)
    return normalize(X) if X.shape[1] > X.shape[0] else csr_matrix(maxabs_scale(X))


def _is_equal(A: Any, B: Any) -> bool:
    """Say whether two forms are the same but for the digits that the files leave out."""
    return bool(np.allclose(A.data, B.data, rtol=1e-3, atol=1e-6)) if issparse(A) else bool(np.allclose(A, B))


def _values_of_a_row(X: Any) -> float:
    return X.nnz / X.shape[0] if issparse(X) else float(X.shape[1])


def small() -> Iterator[tuple[Any, Any]]:
    """Yield problems on which what a fit may need gets compiled: easy and badly scaled, dense and CSR."""
    rng = np.random.default_rng(_SEED)
    for k in (2, 3):
        y = np.arange(60) % k
        easy = rng.normal(size=(60, 4)) + y[:, None]
        for X in (easy, easy * np.array([1.0, 1e2, 1e4, 1.0])):
            yield from ((X, y), (csr_matrix(X), y))
