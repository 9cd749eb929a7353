"""Problems for every solver name, and what a run gives, to be compared bit by bit."""

import dataclasses

import numpy as np
from scipy.sparse import csr_matrix

from softmargin.data import blobs
from softmargin.estimators.posing.auto import find_solver
from softmargin.kernels import Laplacian, Linear, Polynomial, Rbf
from softmargin.losses.entrywise import ENTRYWISE, Hinge
from softmargin.losses.joint import JOINT
from softmargin.matrices.gram import Gram
from softmargin.matrices.pair_gram import PairGram
from softmargin.penalties import L1, L2, ElasticNet, Group
from softmargin.problems import (
    L2SVM,
    Constrained,
    HingeSVM,
    KernelHinge,
    KernelMulticlassSVM,
    KernelOneVsOne,
    MulticlassSVM,
    OneVsRest,
    Penalized,
    softmax_problem,
)
from softmargin.problems.block_rows import Block, Form
from softmargin.problems.blocks import LocalBlocks
from softmargin.problems.summed import ConstrainedSum, PenalizedSum
from softmargin.sets import L1Ball, TraceBall
from softmargin.solvers.names import SAMPLING, SOLVERS

NAMES = [(kind, name) for kind, names in SOLVERS.items() for name in names]
TWO_CLASSES = ("pair_descent", "augmented_lagrangian")  # solvers of two classes only
ONE_COLUMN = ("trace ball", "newton")  # the same
SMOOTH_SUMS = ("lbfgs",)  # solvers of sums that refuse hinges
NO_INTERCEPT = ("dual_descent", "primal_dual_bfw")  # solvers of balls that refuse an unpenalised one


def draw(kind, name, seed):
    """Return a function that makes one problem of this kind, each time anew, and the solver of that name for it."""
    rng = np.random.default_rng(seed)
    k = 2 if name in TWO_CLASSES or (kind, name) == ONE_COLUMN else int(rng.choice([2, 3, 5]))
    n, d = int(rng.integers(40, 140)), int(rng.integers(2, 12))
    X, y = blobs(n, d, k, seed=int(rng.integers(1000)), separation=float(rng.choice([0.5, 1.0, 2.0])))
    X = X.astype(rng.choice([np.float64, np.float64, np.float32]))
    X = csr_matrix(np.where(rng.random(X.shape) < 0.5, X, 0.0).astype(X.dtype)) if rng.random() < 0.4 else X
    C = float(rng.choice([0.1, 1.0, 10.0])) * (rng.random(n) if rng.random() < 0.3 else np.ones(n))
    has_bias, is_split = bool(rng.random() < 0.5), bool(rng.random() < 0.5)
    kernel = [Rbf(0.3), Laplacian(0.2), Polynomial(0.2, 3, 1.0), Linear()][int(rng.integers(4))]
    # All of K, some rows of it, less than one row.
    cache_size = [1000.0, float(rng.uniform(0.05, 1.5)) * n * n * 8e-6, 1e-4][int(rng.choice([0, 1, 1, 2]))]
    cache_size = 1000.0 if name == "qp" else cache_size  # a program needs all of K
    multiclass = str(rng.choice(["weston_watkins", "crammer_singer"]))
    multiclass = "weston_watkins" if name in ("walrus", "shark") else multiclass
    parts = range(k) if is_split else range(1, 2)
    penalty = [L1(0.5), Group(0.5), ElasticNet(0.3, 0.3)][int(rng.integers(3))]
    loss, l2 = ENTRYWISE[str(rng.choice(["smooth_hinge", "logistic"]))], 0.1

    def split(make):
        problems = [make(y == c) for c in parts]
        return OneVsRest(problems) if is_split else problems[0]

    def gram(kernel=kernel):
        return Gram(kernel, X, bias=float(has_bias), cache_size=cache_size)

    def make():
        if kind == "linear hinge":
            if is_split:
                return split(lambda mine: MulticlassSVM(X, mine, C=C, n_classes=2, bias=float(has_bias)))
            return MulticlassSVM(X, y, C=C, n_classes=k, bias=float(has_bias), multiclass=multiclass)
        if kind == "linear squared_hinge":
            K = Gram(Linear(), X, cache_size=cache_size)
            return split(lambda mine: L2SVM(K, 2.0 * mine - 1.0, C=C, has_bias=has_bias))
        if kind == "kernel squared_hinge":
            K = Gram(Rbf(0.3) if kernel == Linear() else kernel, X, cache_size=cache_size)
            return split(lambda mine: L2SVM(K, 2.0 * mine - 1.0, C=C, has_bias=has_bias))
        if kind == "kernel hinge with a free bias":
            K = Gram(kernel, X, cache_size=cache_size)
            return split(lambda mine: HingeSVM(K, 2.0 * mine - 1.0, C=C))
        if kind == "kernel hinge without a free bias":
            K = gram()
            return split(lambda mine: HingeSVM(K, 2.0 * mine - 1.0, C=C, has_bias=False))
        if kind == "one-vs-one":
            K = PairGram(kernel, X, y, k, bias=0.0 if has_bias else 0.5, cache_size=cache_size)
            return KernelOneVsOne(K, C, loss=HingeSVM if is_split else L2SVM, has_bias=has_bias)
        if kind == "kernel hinge":
            K = gram()
            if is_split:
                return split(lambda mine: KernelMulticlassSVM(K, mine, C=C, n_classes=2))
            return KernelMulticlassSVM(K, y, C=C, n_classes=k, multiclass=multiclass)
        if kind == SAMPLING:
            return split(lambda mine: KernelHinge(kernel, X, 2.0 * mine - 1.0, lam=1e-2, bias=float(has_bias)))
        if kind == "softmax ridge":
            return softmax_problem(X, y, penalty=L2(0.5), C=C, fit_intercept=has_bias)
        if kind == "softmax l1":
            return softmax_problem(X, y, penalty=L1(0.5), C=C, fit_intercept=has_bias)
        if kind == "softmax":
            return softmax_problem(X, y, penalty=penalty, C=C, fit_intercept=has_bias)
        if kind.startswith("summed"):
            rows = LocalBlocks([Block(X[:30], y[:30], C[:30]), Block(X[30:], y[30:], C[30:])])
            smooth = Form(JOINT["multinomial"] if k > 2 else loss, k if k > 2 else 1, float(has_bias), has_bias)
            if kind == "summed ball":
                return ConstrainedSum(rows, smooth, L1Ball(2.0), l2)
            if kind == "summed penalty":
                return PenalizedSum(rows, smooth, L1(0.5))
            has_corners = is_split and name not in SMOOTH_SUMS
            return PenalizedSum(rows, Form(JOINT[multiclass], k, 1.0) if has_corners else smooth, L2(0.5))
        target = np.where(y[:, None] == np.arange(k if k > 2 else 1), 1.0, -1.0)
        if kind == "penalized":
            return Penalized(X, target, loss=loss, penalty=penalty, fit_intercept=has_bias)
        ball = L1Ball(2.0) if kind.startswith("l1 ball") else TraceBall(1.5)
        bias = has_bias and name not in NO_INTERCEPT
        if not kind.endswith("hinge"):
            return Constrained(X, target, loss=loss, ball=ball, l2=l2, fit_intercept=bias)
        if k > 2:
            return Constrained(X, np.eye(k)[y], loss=JOINT[multiclass], ball=ball, l2=l2, fit_intercept=bias)
        return Constrained(X, target, loss=Hinge(), ball=ball, l2=l2, fit_intercept=bias)

    return make, find_solver(name, make())


def leaves(value, name=""):
    """Yield every number and array of a state, a point or a result by its name."""
    if dataclasses.is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        for key, part in value.items():
            yield from leaves(part, f"{name}.{key}")
    elif isinstance(value, list | tuple):
        for i, part in enumerate(value):
            yield from leaves(part, f"{name}.{i}")
    else:
        yield name, value


def bits(value):
    """Return every number of a value as bytes, by its name."""
    found = {}
    for name, leaf in leaves(value):
        array = np.asarray(leaf)
        found[name] = (array.shape, array.dtype.str, array.tobytes()) if array.dtype != object else repr(leaf)
    return found


def differences(one, other):
    """Return the names under which two values differ in their bits."""
    left, right = bits(one), bits(other)
    return sorted(name for name in left.keys() | right.keys() if left.get(name) != right.get(name))


def outcome(result, first=0):
    """Return what must be the same after a resume: everything but seconds, certificates from pass ``first`` on."""
    trace = [(row.iteration, row.certificate) for row in result.trace if row.iteration >= first]
    return result.point, result.certificate, result.status.value, result.n_iter, trace
