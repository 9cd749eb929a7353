"""radius_path: one fit per radius of a ball, each from the solution of the last, each with its certificate."""

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from softmargin.core.errors import IncompatibleError
from softmargin.core.parameters import checked
from softmargin.core.threads import threads
from softmargin.estimators.frame.ball import BallEstimator
from softmargin.estimators.frame.path import FittedPath, along, demand_host
from softmargin.estimators.frame.warnings import warn_of_path
from softmargin.estimators.posing.parameters import PARAMETERS
from softmargin.sets.balls import checked_radius

__all__ = ["RadiusPath", "radius_path"]

Array = NDArray[Any]


@dataclass(frozen=True)
class RadiusPath(FittedPath):
    """The models along a path, by increasing radius: decreasing regularisation."""

    _setting = "radius"
    radii: Array  # (m,)
    estimators: list[Any]  # fitted, one per radius; those of a trace ball hold factors

    @property
    def _values(self) -> Array:
        return self.radii

    @property
    def is_on_boundary(self) -> Array:
        """Whether the weights touch the boundary; from the first radius on where they do not, nothing changes; (m,)."""
        return np.array([estimator.is_on_boundary_ for estimator in self.estimators])


def radius_path(
    estimator: Any, X: Any, y: Any, *, radii: Any = 10, eps: float = 1e-2, sample_weight: Any = None
) -> RadiusPath:
    """Fit a ball's estimator for every radius of a grid, each from the solution of the last; X is checked once.

    Parameters
    ----------
    estimator : L1BallClassifier, L1BallRegressor, TraceBallClassifier or TraceBallRegressor
        Its settings; it is not fitted itself. The budgets are those of one point of the path.
    X, y, sample_weight
        As in its ``fit``.
    radii : int or array, default=10
        The grid, or its size: it then goes from ``eps * estimator.radius`` to ``estimator.radius``, evenly in
        logarithm.
    eps : float, default=1e-2
        Length of such a grid: smallest radius / largest radius.

    Returns
    -------
    RadiusPath
        radii, estimators, coefs, intercepts, certificates, n_iters, statuses, is_on_boundary; by increasing radius.

    Examples
    --------
    >>> from softmargin import L1BallClassifier, radius_path
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
    >>> path = radius_path(L1BallClassifier(0.5), X, y, radii=[0.1, 0.5])
    >>> [round(float(abs(coef).sum()), 2) for coef in path.coefs]
    [0.1, 0.5]
    """
    if not isinstance(estimator, BallEstimator):
        raise IncompatibleError(
            f"estimator is a {type(estimator).__name__}; radius_path varies the radius of a ball. Give an L1Ball or a "
            "TraceBall estimator; for SoftmaxRegression there is softmax_path."
        )
    model = clone(estimator)
    model._check_parameters()
    demand_host(model, "radius_path")
    grid = _grid_of(radii, model.radius, eps)
    data = model._checked(X, y, sample_weight)
    fitted, results = [], []
    with threads(model.n_jobs):
        for result in along(model, data, "radius", grid):
            results.append(result._replace(point=None))
            fitted.append(copy.copy(model))
    warn_of_path(results, model.tol)
    return RadiusPath(grid, fitted)


def _grid_of(radii: Any, largest: Any, eps: float) -> Array:
    """Return the radii in increasing order: those given, or as many as asked for."""
    asked, eps = (checked(name, value, *PARAMETERS[name]) for name, value in (("radii", radii), ("eps", eps)))
    if not isinstance(asked, int):
        return np.sort(asked.ravel())
    largest = checked_radius(largest)
    return np.geomspace(eps * largest, largest, asked) if asked > 1 else np.array([largest])
