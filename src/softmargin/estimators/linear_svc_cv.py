"""LinearSVCCV: LinearSVC with C chosen by cross-validation along warm-started paths."""

from typing import Any, ClassVar

from softmargin.estimators.frame.cross_validation import CrossValidated, Grid
from softmargin.estimators.frame.data import Data
from softmargin.estimators.linear_svc import LinearSVC
from softmargin.estimators.svm_path import grid_of

__all__ = ["LinearSVCCV"]


class LinearSVCCV(CrossValidated, LinearSVC):
    r"""LinearSVC with C chosen by cross-validation.

    Per fold, one path goes from the smallest C to the largest: each fit starts at the dual variables of the last and
    ends with its own certificate. The C with the best mean score is then fitted to all data.

    Parameters
    ----------
    Cs : int or array, default=10
        The grid of C, or its size: a grid of our own is that of ``svm_path``, on all data.
    {cv, scoring, refit, early_end, coarse_tol}
    multiclass, loss, fit_intercept, intercept_scaling, solver, tol, max_iter, max_seconds, class_weight, random_state
        As in LinearSVC; the budgets are those of one fit.
    {decision_function_shape, probability}
    {n_jobs, verbose}

    Attributes
    ----------
    C_ : float
        The C that was chosen.
    Cs_ : array of shape (n_Cs,)
    scores_ : array of shape (n_folds, n_Cs)
        NaN where a point was given up.
    residuals_ : array of shape (n_folds, n_Cs)
        The residual of the certificate of every fit to a fold: its relative duality gap.
    {mean_score_}
    classes_, coef_, intercept_, support_, dual_coef_, certificate_, dual_gap_, status_, n_iter_, trace_
        As in LinearSVC, of the model fitted to all data.

    Examples
    --------
    >>> from softmargin import LinearSVCCV
    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], [0, 0, 0, 1, 1, 1]
    >>> clf = LinearSVCCV([0.01, 1.0], cv=3, random_state=0).fit(X, y)
    >>> clf.C_, clf.scores_.shape
    (1.0, (3, 2))
    """

    _estimator: ClassVar[Any] = LinearSVC

    def __init__(
        self,
        Cs: Any = 10,
        *,
        cv: Any = None,
        scoring: Any = None,
        refit: bool = True,
        early_end: bool = True,
        coarse_tol: float = 1e-2,
        multiclass: str = "weston_watkins",
        loss: str = "hinge",
        fit_intercept: bool | str = True,
        intercept_scaling: float = 1.0,
        decision_function_shape: str = "ovr",
        solver: Any = "auto",
        tol: float = 1e-3,
        max_iter: int = 10_000,
        max_seconds: float | None = None,
        class_weight: Any = None,
        probability: str | bool | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self._take_settings(locals())

    @property
    def C(self) -> float:
        """The C that was chosen."""
        return self.C_

    def _grid(self, data: Data) -> Grid:
        return Grid(grid_of(self.Cs, self, data)[None, :])
