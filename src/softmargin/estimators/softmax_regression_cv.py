"""SoftmaxRegressionCV: C and l1_ratio chosen by cross-validation along warm-started paths."""

from typing import Any, ClassVar, Self

import numpy as np

from softmargin.core.parameters import checked
from softmargin.estimators.frame.cross_validation import CrossValidated, Grid
from softmargin.estimators.frame.data import Data
from softmargin.estimators.frame.race import Race
from softmargin.estimators.posing.parameters import PARAMETERS
from softmargin.estimators.posing.softmax import ratios_to_try
from softmargin.estimators.softmax_path import grid_of
from softmargin.estimators.softmax_regression import SoftmaxRegression
from softmargin.problems import CompositePoint
from softmargin.run import Result, Status, Trace

__all__ = ["SoftmaxRegressionCV"]


class SoftmaxRegressionCV(CrossValidated, SoftmaxRegression):
    r"""SoftmaxRegression with C and l1_ratio chosen by cross-validation.

    Per fold and per l1_ratio, one path goes from the smallest C to the largest: each fit starts at the solution of the
    last and ends with its own certificate. The pair with the best mean score is then fitted to all data.

    Parameters
    ----------
    Cs : int or array, default=10
        The grid of C, or its size: a grid of our own is that of ``softmax_path``, on all data, for each l1_ratio.
    l1_ratios : sequence of float, default=(0.0,)
        What to choose l1_ratio from.
    {cv}
    scoring : str, callable or None, default=None
        How a model is scored on rows it has not seen, as in scikit-learn; None is accuracy. "neg_log_loss" scores the
        probabilities.
    refit : bool, default=True
        False takes the mean of the best weights of every fold instead, and of their C and l1_ratio; the certificate
        then says how far that mean is from the optimum, and no point ends early.
    {early_end, coarse_tol}
    penalty, fit_intercept, pinned, solver, tol, max_iter, max_seconds, class_weight, random_state
        As in SoftmaxRegression; the budgets are those of one fit.
    {n_jobs, verbose}

    Attributes
    ----------
    C_ : float
        The C that was chosen.
    l1_ratio_ : float
        The l1_ratio that was chosen; None with a penalty object.
    Cs_ : array of shape (n_Cs,), or (n_l1_ratios, n_Cs) where every l1_ratio has a grid of its own
    l1_ratios_ : array of shape (n_l1_ratios,)
    scores_ : array of shape (n_folds, n_l1_ratios, n_Cs)
        As scikit-learn's LogisticRegressionCV has them without legacy attributes. NaN where a point was given up.
    residuals_ : array of shape (n_folds, n_l1_ratios, n_Cs)
        The residual of the certificate of every fit to a fold: its relative duality gap.
    {mean_score_}
    classes_, coef_, intercept_, certificate_, dual_gap_, status_, n_iter_, trace_
        As in SoftmaxRegression, of the model fitted to all data.

    Notes
    -----
    The weights along the paths are not kept; ``softmax_path`` returns them.

    Examples
    --------
    >>> from softmargin import SoftmaxRegressionCV
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
    >>> clf = SoftmaxRegressionCV([0.1, 10.0], cv=2).fit(X, y)
    >>> clf.scores_.shape
    (2, 1, 2)
    """

    _estimator: ClassVar[Any] = SoftmaxRegression
    _across = ("l1_ratio", "l1_ratios")
    l1_ratio_: Any

    def __init__(
        self,
        Cs: Any = 10,
        *,
        l1_ratios: Any = (0.0,),
        cv: Any = None,
        scoring: Any = None,
        refit: bool = True,
        early_end: bool = True,
        coarse_tol: float = 1e-2,
        penalty: Any = "elasticnet",
        fit_intercept: bool = True,
        pinned: Any = None,
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

    @property
    def C(self) -> float:
        """The C that was chosen."""
        return self.C_

    @property
    def l1_ratio(self) -> float:
        """The l1_ratio that was chosen."""
        return self.l1_ratio_ or 0.0

    @property
    def _averages_folds(self) -> bool:
        return not self.refit

    def _grid(self, data: Data) -> Grid:
        asked = checked("l1_ratios", self.l1_ratios, *PARAMETERS["l1_ratios"]).ravel()
        ratios = ratios_to_try(self.penalty, asked.tolist())
        return Grid(np.stack([grid_of(self.Cs, self._probe(ratio, 0), data) for ratio in ratios]), ratios)

    def _take_choice(self, grid: Grid, race: Race) -> None:
        super()._take_choice(grid, race)
        if not isinstance(self.penalty, str):
            self.l1_ratio_ = None

    def _take_mean(self, data: Data, models: list[Any]) -> Self:
        """Keep the mean of the folds' weights, certified for the problem with the mean C and l1_ratio."""
        posed = self._pose(data)
        weights = np.mean([model.coef_ for model in models], axis=0)
        mean = CompositePoint(weights.T, np.mean([model.intercept_ for model in models], axis=0))
        result = Result(mean, posed.problem.certificate(mean), Status.STOPPED, Trace(), 0, 0.0, 0.0)
        self._keep(result, {"classes_": data.classes, **posed.attributes(mean)}, len(data.y))
        return self
