"""KernelSVCCV: KernelSVC with C and gamma chosen by cross-validation along warm-started paths."""

from typing import Any, ClassVar

import numpy as np

from softmargin.core.parameters import checked
from softmargin.estimators.frame.cross_validation import CrossValidated, Grid
from softmargin.estimators.frame.data import Data
from softmargin.estimators.kernel_svc import KernelSVC
from softmargin.estimators.posing.parameters import PARAMETERS
from softmargin.estimators.svm_path import grid_of

__all__ = ["KernelSVCCV"]


class KernelSVCCV(CrossValidated, KernelSVC):
    r"""KernelSVC with C and gamma chosen by cross-validation.

    Per fold and per gamma, one path goes from the smallest C to the largest: each fit starts at the dual variables of
    the last, has the kernel values that were computed, and ends with its own certificate. The pair with the best mean
    score is then fitted to all data.

    Parameters
    ----------
    Cs : int or array, default=10
        The grid of C, or its size: a grid of our own is that of ``svm_path``, on all data, for each gamma.
    gammas : sequence of float, "scale" and "auto", default=("scale",)
        What to choose gamma from; "scale" and "auto" look at all data. Without effect for kernels that have none.
    {cv, scoring, refit, early_end, coarse_tol}
    kernel, degree, coef0, multiclass, loss, fit_intercept, intercept_scaling, solver, tol, max_iter, max_seconds
        As in KernelSVC; the budgets are those of one fit.
    class_weight, cache_size, approximation, n_components, random_state
        As in KernelSVC; every fit that is under way may fill ``cache_size``.
    {decision_function_shape, probability}
    {n_jobs, verbose}

    Attributes
    ----------
    C_ : float
        The C that was chosen.
    gamma_ : float or None
        The gamma that was chosen; None where the kernel has none.
    Cs_ : array of shape (n_Cs,), or (n_gammas, n_Cs) where every gamma has a grid of its own
    gammas_ : array of shape (n_gammas,)
    scores_ : array of shape (n_folds, n_gammas, n_Cs)
        NaN where a point was given up.
    residuals_ : array of shape (n_folds, n_gammas, n_Cs)
        The residual of the certificate of every fit to a fold: its relative duality gap.
    {mean_score_}
    classes_, support_, support_vectors_, n_support_, dual_coef_, intercept_, coef_
        As in KernelSVC, of the model fitted to all data; so are the certificate and what belongs to it.
    {certificate_, dual_gap_, status_, n_iter_, trace_}

    Examples
    --------
    >>> from softmargin import KernelSVCCV
    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], [0, 0, 1, 1, 0, 0]
    >>> clf = KernelSVCCV([10.0], gammas=[0.1, 1.0], cv=2, random_state=0).fit(X, y)
    >>> clf.scores_.shape
    (2, 2, 1)
    """

    _estimator: ClassVar[Any] = KernelSVC
    _across = ("gamma", "gammas")
    gamma_: Any

    def __init__(
        self,
        Cs: Any = 10,
        *,
        gammas: Any = ("scale",),
        cv: Any = None,
        scoring: Any = None,
        refit: bool = True,
        early_end: bool = True,
        coarse_tol: float = 1e-2,
        kernel: Any = "rbf",
        degree: int = 3,
        coef0: float = 0.0,
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
        cache_size: float | str = "auto",
        approximation: str | None = "auto",
        n_components: int = 500,
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
    def gamma(self) -> Any:
        """The gamma that was chosen."""
        return "scale" if self.gamma_ is None else self.gamma_

    def _grid(self, data: Data) -> Grid:
        seed = self._seed()
        asked = [self._probe(checked("gammas", gamma, *PARAMETERS["gamma"]), seed) for gamma in self.gammas]
        kernels = [model._kernel_for(data.X, data.sample_weight) for model in asked]
        widths = dict.fromkeys(getattr(kernel, "gamma", None) for kernel in kernels)  # each once
        models = [self._probe("scale" if width is None else width, seed) for width in widths]
        return Grid(np.stack([grid_of(self.Cs, model, data) for model in models]), list(widths))

    def _probe(self, row: Any, seed: int) -> Any:
        return super()._probe("scale" if row is None else row, seed)
