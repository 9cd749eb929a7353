"""Models in a ball with the radius chosen by cross-validation along warm-started paths."""

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.parameters import checked
from softmargin.estimators.frame.ball import BallEstimator
from softmargin.estimators.frame.cross_validation import CrossValidated, Grid
from softmargin.estimators.frame.data import Data
from softmargin.estimators.l1_ball import L1BallClassifier, L1BallRegressor
from softmargin.estimators.posing.parameters import PARAMETERS
from softmargin.estimators.trace_ball import TraceBallClassifier, TraceBallRegressor
from softmargin.matrices.operator import row_squares

__all__ = ["L1BallClassifierCV", "L1BallRegressorCV", "TraceBallClassifierCV", "TraceBallRegressorCV"]

Array = NDArray[Any]


class GridTuning(NamedTuple):
    """The ends of a grid of our own, in units of ``_unit``."""

    smallest: float = 0.1  # by hand: scores are then small beside their targets
    largest: float = 100.0  # by hand: few data need more, and a ball that has no effect is an InactiveBallWarning


TUNING = GridTuning()


class _RadiusCV(CrossValidated, BallEstimator):
    """A model in a ball whose radius is chosen.

    Parameters
    ----------
    radii : int or array, default=10
        The grid of radii, or its size: a grid of our own goes from 0.1 to 100, evenly in logarithm, times the radius at
        which one feature alone reaches the size of the targets.

    Attributes
    ----------
    radius_ : float
        The radius that was chosen.
    radii_ : array of shape (n_radii,)
    scores_ : array of shape (n_folds, n_radii)
        NaN where a point was given up.
    residuals_ : array of shape (n_folds, n_radii)
        The residual of the certificate of every fit to a fold: its relative duality gap.
    """

    _along = ("radius", "radii")

    @property
    def radius(self) -> float:
        """The radius that was chosen."""
        return self.radius_

    def _grid(self, data: Data) -> Grid:
        asked = checked("radii", self.radii, *PARAMETERS["radii"])
        if isinstance(asked, int):
            return Grid(_unit(data) * np.geomspace(TUNING.smallest, TUNING.largest, asked)[None, :])
        return Grid(np.sort(asked.ravel())[None, :])


def _unit(data: Data) -> float:
    """Return the size of the targets (1, or the deviation of numbers) over the largest one of a feature."""
    columns = row_squares(np.ascontiguousarray(data.X.T) if isinstance(data.X, np.ndarray) else data.X.T.tocsr())
    feature = float(np.sqrt(columns.max(initial=0.0) / len(data.y)))
    target = 1.0 if data.classes is not None else float(np.nanmax(np.nanstd(data.y, axis=0)))
    return (target or 1.0) / (feature or 1.0)


class _ClassifierCV(_RadiusCV):
    def __init__(
        self,
        radii: Any = 10,
        *,
        cv: Any = None,
        scoring: Any = None,
        refit: bool = True,
        early_end: bool = True,
        coarse_tol: float = 1e-2,
        l2: float = 1e-4,
        loss: str = "smooth_hinge",
        fit_intercept: bool = True,
        solver: Any = "auto",
        tol: float = 1e-3,
        max_iter: int = 10_000,
        max_seconds: float | None = None,
        class_weight: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self._take_settings(locals())


class _RegressorCV(_RadiusCV):
    def __init__(
        self,
        radii: Any = 10,
        *,
        cv: Any = None,
        scoring: Any = None,
        refit: bool = True,
        early_end: bool = True,
        coarse_tol: float = 1e-2,
        l2: float = 1e-4,
        fit_intercept: bool = True,
        solver: Any = "auto",
        tol: float = 1e-3,
        max_iter: int = 10_000,
        max_seconds: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self._take_settings(locals())


class L1BallClassifierCV(_ClassifierCV, L1BallClassifier):
    r"""L1BallClassifier with the radius chosen by cross-validation.

    Per fold, one path goes from the smallest radius to the largest: each fit starts at the solution of the last and
    ends with its own certificate. The radius with the best mean score is then fitted to all data.

    Parameters
    ----------
    {radii, cv, scoring, refit, early_end, coarse_tol}
    l2, loss, fit_intercept, solver, tol, max_iter, max_seconds, class_weight, random_state
        As in L1BallClassifier; the budgets are those of one fit.
    {n_jobs, verbose}

    Attributes
    ----------
    {radius_, radii_, scores_, residuals_, mean_score_}
    classes_, coef_, intercept_, is_on_boundary_, certificate_, dual_gap_, status_, n_iter_, trace_
        As in L1BallClassifier, of the model fitted to all data.

    Examples
    --------
    >>> from softmargin import L1BallClassifierCV
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
    >>> clf = L1BallClassifierCV([0.1, 0.5], cv=2).fit(X, y)
    >>> clf.scores_.shape
    (2, 2)
    """

    _estimator: ClassVar[Any] = L1BallClassifier


class L1BallRegressorCV(_RegressorCV, L1BallRegressor):
    r"""L1BallRegressor with the radius chosen by cross-validation, as L1BallClassifierCV does; the score is R^2.

    Parameters
    ----------
    {radii, cv, scoring, refit, early_end, coarse_tol}
    l2, fit_intercept, solver, tol, max_iter, max_seconds, random_state
        As in L1BallRegressor; the budgets are those of one fit.
    {n_jobs, verbose}

    Attributes
    ----------
    {radius_, radii_, scores_, residuals_, mean_score_}
    coef_, intercept_, is_on_boundary_, certificate_, dual_gap_, status_, n_iter_, trace_
        As in L1BallRegressor, of the model fitted to all data.

    Examples
    --------
    >>> from softmargin import L1BallRegressorCV
    >>> reg = L1BallRegressorCV([0.1, 0.5], cv=2).fit([[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 2.0, 3.0])
    >>> reg.radius_
    0.5
    """

    _estimator: ClassVar[Any] = L1BallRegressor


class TraceBallClassifierCV(_ClassifierCV, TraceBallClassifier):
    r"""TraceBallClassifier with the radius chosen by cross-validation, as L1BallClassifierCV does.

    Parameters
    ----------
    {radii, cv, scoring, refit, early_end, coarse_tol}
    l2, loss, fit_intercept, solver, tol, max_iter, max_seconds, class_weight, random_state
        As in TraceBallClassifier; the budgets are those of one fit.
    {n_jobs, verbose}

    Attributes
    ----------
    {radius_, radii_, scores_, residuals_, mean_score_}
    classes_, coef_, coef_factors_, intercept_, is_on_boundary_, certificate_, dual_gap_, status_, n_iter_, trace_
        As in TraceBallClassifier, of the model fitted to all data.

    Examples
    --------
    >>> from softmargin import TraceBallClassifierCV
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
    >>> clf = TraceBallClassifierCV([0.1, 0.5], cv=2).fit(X, y)
    >>> clf.scores_.shape
    (2, 2)
    """

    _estimator: ClassVar[Any] = TraceBallClassifier


class TraceBallRegressorCV(_RegressorCV, TraceBallRegressor):
    r"""TraceBallRegressor with the radius chosen by cross-validation, as L1BallRegressorCV does.

    Parameters
    ----------
    {radii, cv, scoring, refit, early_end, coarse_tol}
    l2, fit_intercept, solver, tol, max_iter, max_seconds, random_state
        As in TraceBallRegressor; the budgets are those of one fit.
    {n_jobs, verbose}

    Attributes
    ----------
    {radius_, radii_, scores_, residuals_, mean_score_}
    coef_, coef_factors_, intercept_, is_on_boundary_, certificate_, dual_gap_, status_, n_iter_, trace_
        As in TraceBallRegressor, of the model fitted to all data.

    Examples
    --------
    >>> from softmargin import TraceBallRegressorCV
    >>> reg = TraceBallRegressorCV([0.1, 0.5], cv=2).fit([[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 2.0, 3.0])
    >>> reg.radius_
    0.5
    """

    _estimator: ClassVar[Any] = TraceBallRegressor
