"""The contenders of ``scs_table``: each takes rows, labels -1 and +1 and settings, and returns what it learnt.

    wolfe, scs            paper 002's own, its errata corrected; scs improved has the library's defaults
    pegasos               as many draws as PASSES passes have
    block descent         KernelSVC to a proven gap; beyond MOST_EXACT rows on a sample
    nystroem              KernelSVC on features of landmarks, to a proven gap of that problem
    sklearn SVC           beyond MOST_EXACT rows on a sample; it has a bias
    sklearn nystroem+sgd  with a bias; where the features would not fit, a block at a time, one pass

Paper 002's methods stop at the gap that they see themselves, after STEPS steps or at the cap; nothing is certified on
their clock. The others are timed as a user calls them.
"""

import math
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

TOL = 1e-3
STEPS = 300
PASSES = 5
MOST_WHOLE = 12_000  # rows of which Wolfe's method may store all kernel values
MOST_EXACT = 20_000
MOST_FEATURES = 200_000_000  # numbers in the features of all rows that may be stored at once
BLOCK = 20_000  # rows a time, where they are not all stored
SIGNS = np.array([-1.0, 1.0])


class Settings(NamedTuple):
    """The settings that all contenders share."""

    lam: float
    gamma: float
    seed: int
    cap: float
    n_components: int


class Fitted(NamedTuple):
    """A classifier, the seconds it took, the rows it was trained on, and how many vectors a prediction needs."""

    predict: Callable[[Any], np.ndarray]
    seconds: float
    rows: int
    n_vectors: int


def is_possible(name: str, n: int) -> bool:
    """Say whether a contender can be given n rows."""
    return name != "wolfe" or n <= MOST_WHOLE


def stepper(name: str, most_steps: Callable[[int, Any], int]) -> Callable[[Any, np.ndarray, Settings], Fitted]:
    """Return the fit of one of paper 002's methods, by its name in the benchmark folder."""

    def fit(X: Any, y: np.ndarray, settings: Settings) -> Fitted:
        from benchmark_utils.hinge_solvers import METHODS
        from softmargin.kernels import Rbf
        from softmargin.problems import KernelHinge

        method = METHODS[name]
        started = time.perf_counter()
        problem = KernelHinge(Rbf(settings.gamma), X, y, lam=settings.lam)
        state = method.start(problem, None, np.random.default_rng(settings.seed))
        for _ in range(most_steps(problem.n, method)):
            state = method.step(problem, state)
            if method.estimate(problem, state) <= TOL or time.perf_counter() - started > settings.cap:
                break
        point = method.point(problem, state)
        seconds = time.perf_counter() - started
        return Fitted(*_expansion(problem, point, seconds))

    return fit


def _expansion(problem: Any, point: Any, seconds: float) -> tuple[Callable[[Any], np.ndarray], float, int, int]:
    from softmargin.models import KernelExpansion

    used = np.flatnonzero(point.alpha)
    support = point.samples[used]
    vectors, coef = np.asarray(problem.X[support]), point.alpha[used, None]
    model = KernelExpansion(SIGNS, problem.kernel, vectors, support, problem.n, coef, np.zeros(1))
    return model.predict, seconds, len(point.samples), len(used)


def kernel_svc(n: int, settings: Settings, **more: Any) -> Any:
    """Return our estimator of the problem on n rows."""
    from softmargin import KernelSVC

    return KernelSVC(
        1.0 / (settings.lam * n),
        gamma=settings.gamma,
        multiclass="one_vs_rest",
        fit_intercept=False,
        tol=TOL,
        max_seconds=settings.cap,
        n_components=settings.n_components,
        random_state=settings.seed,
        **more,
    )


def block_descent(X: Any, y: np.ndarray, settings: Settings) -> Fitted:
    """Fit our exact solver."""
    X, y = sampled(X, y, settings.seed)
    model = kernel_svc(len(y), settings, solver="block_descent", approximation=None)
    return timed(model, X, y)


def nystroem(X: Any, y: np.ndarray, settings: Settings) -> Fitted:
    """Fit a linear SVM on features of landmarks; it draws rows where the features of all would fill its cache."""
    model = kernel_svc(len(y), settings, approximation="nystroem")
    fitted = timed(model, X, y)
    is_drawn = model.certificate_.kind == "sample gap"
    rows = int(1e6 * model.cache_size / (4 * fitted.n_vectors)) if is_drawn else len(y)
    return fitted._replace(rows=rows)


def sklearn_svc(X: Any, y: np.ndarray, settings: Settings) -> Fitted:
    """Fit scikit-learn's SVC."""
    from sklearn.svm import SVC

    X, y = sampled(X, y, settings.seed)
    model = SVC(C=1.0 / (settings.lam * len(y)), gamma=settings.gamma, tol=TOL, cache_size=1000.0)
    return timed(model, X, y)


def sklearn_nystroem(X: Any, y: np.ndarray, settings: Settings) -> Fitted:
    """Fit scikit-learn's Nystroem features and SGD on the hinge."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import SGDClassifier
    from sklearn.pipeline import make_pipeline

    size = min(settings.n_components, len(y))
    features = Nystroem(gamma=settings.gamma, n_components=size, random_state=settings.seed)
    linear = SGDClassifier(alpha=settings.lam, random_state=settings.seed)
    model = make_pipeline(features, linear)
    if len(y) * size <= MOST_FEATURES:
        return timed(model, X, y, size)
    started = time.perf_counter()
    features.fit(*sampled(X, y, settings.seed))
    rows = 0
    while rows < len(y) and time.perf_counter() - started < settings.cap:
        block = slice(rows, rows + BLOCK)
        linear.partial_fit(features.transform(X[block]), y[block], classes=SIGNS)
        rows = min(rows + BLOCK, len(y))
    return Fitted(model.predict, time.perf_counter() - started, rows, size)


def sampled(X: Any, y: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return all rows, or a sample of as many as exact solvers are given."""
    if len(y) <= MOST_EXACT:
        return X, y
    rows = np.sort(np.random.default_rng(seed).choice(len(y), MOST_EXACT, replace=False))
    return np.asarray(X[rows]), y[rows]


def timed(model: Any, X: Any, y: np.ndarray, n_vectors: int | None = None) -> Fitted:
    """Fit an estimator; its support vectors are counted where their number is not known."""
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cap may come before the gap
        model.fit(X, y)
    seconds = time.perf_counter() - started
    return Fitted(model.predict, seconds, len(y), len(model.support_) if n_vectors is None else n_vectors)


def _few_steps(n: int, method: Any) -> int:
    return STEPS


def _few_passes(n: int, method: Any) -> int:
    return math.ceil(PASSES * n / method.block)


FITS = {
    "wolfe": stepper("wolfe-paper", _few_steps),
    "pegasos": stepper("pegasos", _few_passes),
    "scs": stepper("scs-paper", _few_steps),
    "scs improved": stepper("scs", _few_steps),
    "block descent": block_descent,
    "nystroem": nystroem,
    "sklearn SVC": sklearn_svc,
    "sklearn nystroem+sgd": sklearn_nystroem,
}
