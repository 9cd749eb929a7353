"""svm_path: one SVM per C, each from the dual variables of the last, each with its certificate."""

import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from softmargin.backends.arrays import on_host
from softmargin.core.errors import IncompatibleError
from softmargin.core.parameters import checked
from softmargin.core.threads import threads
from softmargin.estimators.frame.data import Data
from softmargin.estimators.frame.path import FittedPath, along, demand_host
from softmargin.estimators.frame.svm import SvmClassifier
from softmargin.estimators.frame.warnings import warn_of_path
from softmargin.estimators.posing.parameters import PARAMETERS

__all__ = ["SvmPath", "grid_of", "svm_path"]

Array = NDArray[Any]


class GridTuning(NamedTuple):
    """How far a grid of our own goes."""

    largest: float = 1e3  # C times the mean |x|^2 at its end; by hand: more is a model without regularisation


TUNING = GridTuning()


@dataclass(frozen=True)
class SvmPath(FittedPath):
    """The models along a path, by increasing C: decreasing regularisation."""

    _setting = "C"
    Cs: Array  # (m,)
    estimators: list[Any]  # fitted, one per C

    @property
    def _values(self) -> Array:
        return self.Cs


def svm_path(estimator: Any, X: Any, y: Any, *, Cs: Any = 10, sample_weight: Any = None) -> SvmPath:
    """Fit an SVM for every C of a grid, each from the dual variables of the last; X is checked once.

    Kernel values that are cached serve all points.

    Parameters
    ----------
    estimator : LinearSVC or KernelSVC
        Its settings; it is not fitted itself. The budgets are those of one point of the path.
    X, y, sample_weight
        As in its ``fit``.
    Cs : int or array, default=10
        The grid, or its size. A grid of our own is even in logarithm. It begins at 1 / sum_i p_i k_ii, with k_ii the
        squared length of sample i and p_i its price at C = 1: there and below, (nearly) every sample violates its
        margin, and a smaller C scales the model without changing what it predicts. It ends where C times the mean k_ii
        is 1000.

    Returns
    -------
    SvmPath
        Cs, estimators, coefs, intercepts, certificates, n_iters, statuses; by increasing C.

    Examples
    --------
    >>> from softmargin import LinearSVC, svm_path
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
    >>> path = svm_path(LinearSVC(random_state=0), X, y, Cs=[0.1, 1.0])
    >>> path.statuses
    ['converged', 'converged']
    """
    if not isinstance(estimator, SvmClassifier):
        raise IncompatibleError(
            f"estimator is a {type(estimator).__name__}; svm_path varies the C of a LinearSVC or a KernelSVC. For "
            "SoftmaxRegression there is softmax_path, for models in a ball radius_path."
        )
    model = clone(estimator)
    model._check_parameters()
    demand_host(model, "svm_path")
    data = model._checked(on_host(X, "svm_path"), y, sample_weight)
    grid = grid_of(Cs, model, data)
    fitted, results = [], []
    with threads(model.n_jobs):
        for result in along(model, data, "C", grid):
            results.append(result._replace(point=None))
            fitted.append(copy.copy(model))
    warn_of_path(results, model.tol)
    return SvmPath(grid, fitted)


def grid_of(Cs: Any, model: SvmClassifier, data: Data) -> Array:
    """Return the C of a path in increasing order: those given, or as many as asked for."""
    asked = checked("Cs", Cs, *PARAMETERS["Cs"])
    if not isinstance(asked, int):
        return np.sort(asked.ravel())
    prices = model._prices(data, 1.0)
    total = float(prices @ model._squares(data)) or 1.0  # rows of zeros: any C has the same model
    return np.geomspace(1.0 / total, TUNING.largest * max(prices.sum(), 1.0) / total, asked)
