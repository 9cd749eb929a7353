"""Who is measured by ``profiles.py``, and on which data: each kind of model with ``solver="auto"``, and scs."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from machine.scaling_cases import low_rank
from tools.common import load_benchmark

TOL = 1e-3
_LARGEST_PIXEL = 255.0
_TARGETS = {"n": 6000, "d": 300, "k": 150}


class Case(NamedTuple):
    """An estimator, its data, and the rows of K that it keeps."""

    make: Callable[[], Any]
    data: Callable[[], tuple[Any, Any]]
    about: str
    kernel_rows: int = 0


def _real(name: str, rows: int | None = None, *, dense: bool = False) -> Callable[[], tuple[Any, Any]]:
    """Return a loader of the first rows of a data set: pixels in [0, 1], texts of unit length."""

    def loaded() -> tuple[Any, Any]:
        from sklearn.preprocessing import normalize

        load_benchmark()  # shows its modules
        from benchmark_utils.folders import data_folder
        from softmargin.data import load

        found = load(name, data_dir=data_folder())
        X, y = found.X[:rows], found.y[:rows]
        X = X / _LARGEST_PIXEL if name == "mnist" else X
        if dense:
            return np.ascontiguousarray(X.toarray(), dtype=np.float64), y
        return normalize(X).astype(np.float64), y

    return loaded


def _estimator(name: str, **settings: Any) -> Callable[[], Any]:
    def make() -> Any:
        import softmargin

        return getattr(softmargin, name)(tol=TOL, random_state=0, **settings)

    return make


_MNIST, _NEWS = _real("mnist", 10_000, dense=True), _real("news20")
_SQUARED = {"loss": "squared_hinge", "multiclass": "one_vs_rest"}
_CRAMMER = {"multiclass": "crammer_singer"}
_EXACT = {"approximation": None}
CASES = {
    "LinearSVC dense": Case(_estimator("LinearSVC", C=0.1), _MNIST, "mnist"),
    "LinearSVC dense, Crammer-Singer": Case(_estimator("LinearSVC", C=0.1, **_CRAMMER), _MNIST, "mnist"),
    "LinearSVC sparse": Case(_estimator("LinearSVC"), _NEWS, "news20"),
    "LinearSVC sparse, Crammer-Singer": Case(_estimator("LinearSVC", **_CRAMMER), _NEWS, "news20"),
    "LinearSVC squared hinge dense": Case(_estimator("LinearSVC", C=0.1, **_SQUARED), _MNIST, "mnist"),
    "LinearSVC squared hinge sparse": Case(_estimator("LinearSVC", **_SQUARED), _real("news20", 4000), "news20"),
    "KernelSVC squared hinge rbf": Case(
        _estimator("KernelSVC", **_SQUARED, **_EXACT), _real("a9a", 6000, dense=True), "a9a", 6000
    ),
    "KernelSVC rbf": Case(_estimator("KernelSVC", **_EXACT), _real("letter", 6000, dense=True), "letter", 6000),
    "KernelSVC scs": Case(
        _estimator("KernelSVC", solver="scs", multiclass="one_vs_rest", max_iter=200),
        _real("a9a", dense=True),
        "a9a, 200 steps",
        2000,
    ),
    "Softmax l2 dense": Case(_estimator("SoftmaxRegression"), _MNIST, "mnist"),
    "Softmax l2 sparse": Case(_estimator("SoftmaxRegression"), _NEWS, "news20"),
    "Softmax l1 sparse": Case(_estimator("SoftmaxRegression", l1_ratio=1.0), _NEWS, "news20"),
    "L1Ball sparse": Case(_estimator("L1BallClassifier", radius=300.0), _NEWS, "news20"),
    "TraceBall": Case(_estimator("TraceBallRegressor", radius=4.5), lambda: low_rank(_TARGETS), "made up, rank 5"),
}
