"""softmax_path: one fit per C, each started at the solution of the last, each with its certificate."""

import math
import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from softmargin.core.certificate import Certificate
from softmargin.core.errors import DataError
from softmargin.core.parameters import check_all, checked
from softmargin.core.threads import threads
from softmargin.estimators.frame.data import Data
from softmargin.estimators.frame.path import along
from softmargin.estimators.frame.warnings import warn_of_path
from softmargin.estimators.posing.parameters import PARAMETERS
from softmargin.estimators.posing.softmax import convex_relative, pinned_column, priced_penalty, without_ridge
from softmargin.estimators.softmax_regression import SoftmaxRegression
from softmargin.losses.multinomial import one_hot, softmax
from softmargin.matrices.forms import canonical, thinned
from softmargin.matrices.operator import rmatmul
from softmargin.problems import softmax_problem

__all__ = ["SoftmaxPath", "grid_of", "softmax_path"]

Array = NDArray[Any]
LARGEST_PULL = 1e150  # of a gradient: its square is a number
RIDGE_GRID = (-4.0, 4.0)  # powers of ten, as in scikit-learn's LogisticRegressionCV


class SoftmaxPath(NamedTuple):
    """The models along a path, by increasing C: decreasing penalty."""

    Cs: Array  # (m,)
    coefs: Any  # (m, k, d), or (m, 1, d) for two classes; a list of CSR matrices where sparse results were asked for
    intercepts: Array  # (m, k) or (m, 1)
    classes: Array  # (k,)
    certificates: list[Certificate]
    n_iters: list[int]
    statuses: list[str]

    def plot(self, ax: Any = None, *, n_features: int = 10, feature_names: Any = None, **lines: Any) -> Any:
        """Plot the weights of the ``n_features`` features with the largest ones over C; needs matplotlib."""
        from softmargin.plots import PathDisplay

        how: dict[str, Any] = {"setting": "C", "n_features": n_features, "names": feature_names}
        return PathDisplay.from_weights(self.Cs, self.coefs, **how).plot(ax, **lines)


def softmax_path(
    X: Any,
    y: Any,
    *,
    Cs: Any = 30,
    l1_ratio: float = 1.0,
    penalty: Any = "elasticnet",
    eps: float = 1e-3,
    fit_intercept: bool = True,
    pinned: Any = None,
    solver: Any = "auto",
    tol: float = 1e-3,
    max_iter: int = 10_000,
    max_seconds: float | None = None,
    class_weight: Any = None,
    sample_weight: Any = None,
    sparse: bool = False,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> SoftmaxPath:
    """Fit SoftmaxRegression for every C of a grid, each from the solution of the last; X is checked once.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)
    y : array of shape (n,)
    Cs : int or array, default=30
        The grid, or its size. A grid of our own begins at the smallest C at which a weight is about to leave zero, and
        ends at 1 / eps times that; where no C has all weights zero (a ridge), it is 1e-4 .. 1e4.
    l1_ratio, penalty, fit_intercept, pinned, solver, tol, max_iter, max_seconds, class_weight, random_state, n_jobs
        As in SoftmaxRegression; the budgets are those of one point of the path.
    sample_weight : array of shape (n,), optional
    eps : float, default=1e-3
        Length of a grid of our own: smallest C / largest C.
    sparse : bool, default=False
        Return the weights as a list of CSR matrices.

    Returns
    -------
    SoftmaxPath
        Cs, coefs, intercepts, classes, certificates, n_iters, statuses; by increasing C.

    Examples
    --------
    >>> from softmargin import softmax_path
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
    >>> path = softmax_path(X, y, Cs=[0.1, 10.0])
    >>> [int((coef != 0).sum()) for coef in path.coefs]
    [0, 1]
    """
    check_all(locals(), PARAMETERS)
    priced_penalty(1.0, l1_ratio, penalty, default_ratio=1.0)  # refuses what does not go together
    model = SoftmaxRegression(
        l1_ratio=l1_ratio if isinstance(penalty, str) and penalty == "elasticnet" else 0.0,
        penalty=penalty,
        fit_intercept=fit_intercept,
        pinned=pinned,
        solver=solver,
        tol=tol,
        max_iter=max_iter,
        max_seconds=max_seconds,
        class_weight=class_weight,
        random_state=random_state,
    )
    data = model._checked(X, y, sample_weight)
    data = data._replace(X=thinned(canonical(data.X)))
    grid = grid_of(Cs, model, data, eps=eps)
    results, coefs, intercepts = [], [], []
    with threads(n_jobs):
        for result in along(model, data, "C", grid):
            results.append(result._replace(point=None))
            coefs.append(csr_matrix(model.coef_) if sparse else model.coef_)
            intercepts.append(model.intercept_)
    warn_of_path(results, tol)
    return SoftmaxPath(
        grid,
        coefs if sparse else np.stack(coefs),
        np.stack(intercepts),
        data.classes,
        [result.certificate for result in results],
        [result.n_iter for result in results],
        [result.status.value for result in results],
    )


def grid_of(Cs: Any, model: SoftmaxRegression, data: Data, *, eps: float = 1e-3) -> Array:
    """Return the C of a path in increasing order: those given, or as many as asked for."""
    asked = checked("Cs", Cs, *PARAMETERS["Cs"])
    if not isinstance(asked, int):
        return np.sort(asked.ravel())
    eps = checked("eps", eps, *PARAMETERS["eps"])
    least = _least_C(model, data)
    if least is None:
        return np.logspace(*RIDGE_GRID, asked)
    return np.geomspace(least, least / eps, asked)


def _least_C(model: SoftmaxRegression, data: Data) -> float | None:
    """Return the largest C at which W = 0 is optimal; None where there is no such C.

    It is optimal while -C G lies in the subdifferential of g at zero, with G the gradient of the losses at W = 0 and
    C = 1. Without its quadratic part, g has a finite conjugate exactly there, so ``reach`` finds the scale.
    """
    column = pinned_column(model.pinned, data.classes)
    _, penalty = priced_penalty(1.0, model.l1_ratio, model.penalty, pinned=column)
    hull = penalty if penalty.is_convex else convex_relative(penalty)
    if hull is None:
        return None
    hull = without_ridge(hull)
    weights = model._prices(data, 1.0)
    settings = {"n_classes": len(data.classes), "fit_intercept": bool(model.fit_intercept)}
    problem = softmax_problem(data.X, data.codes, C=weights, penalty=hull, **settings)
    U = softmax(problem.scores(problem.zero())) - one_hot(problem.y, problem.n_classes)
    U *= weights[:, None]
    pull = -rmatmul(data.X, U[:, 1:] if problem.is_pinned else U, 0.0)[:-1]
    with np.errstate(over="ignore"):
        size = float(np.linalg.norm(pull, axis=1).max(initial=0.0))
    if not size < LARGEST_PULL:
        raise DataError(
            f"the gradient at zero weights has length {size:.3g}: no grid of C can be found. Scale the features to "
            "values near 1, lower the weights of samples and classes, or give the grid as Cs."
        )
    scale = 1.0 / max(size, sys.float_info.min)
    share = 1.0
    for _ in range(2):  # once to find the size, once to be exact there
        scale *= 2.0 * share
        while (share := float(hull.reach(scale * pull))) == 1.0:
            scale *= 10.0
            if not math.isfinite(scale * float(np.abs(pull).max(initial=0.0))):
                return None
        if share == 0.0:
            return None
    return share * scale
