"""KernelSVCCV: KernelSVC with C and gamma chosen by cross-validation along warm-started paths."""

from typing import Any, ClassVar

import numpy as np

from softmargin.core.parameters import checked
from softmargin.estimators.frame.cross_validation import CrossValidated, Grid
from softmargin.estimators.frame.data import Data
from softmargin.estimators.frame.fold_paths import RowData
from softmargin.estimators.kernel_svc import KernelSVC
from softmargin.estimators.posing.kernels import EXACT_ROWS, looks_at_samples
from softmargin.estimators.posing.parameters import PARAMETERS
from softmargin.estimators.posing.svm import cache_megabytes
from softmargin.estimators.svm_path import grid_of
from softmargin.kernels.formulas import ComputedMatrix
from softmargin.matrices.gram import Gram

__all__ = ["KernelSVCCV"]


class KernelSVCCV(CrossValidated, KernelSVC):
    r"""KernelSVC with C and gamma chosen by cross-validation.

    Per fold and per gamma, one path goes from the smallest C to the largest: each fit starts at the dual variables of
    the last and ends with its own certificate. Where the kernel matrices of all samples, one for each gamma, fit into
    ``cache_size``, they are computed once, for all folds and for their scores. The pair with the best mean score is
    then fitted to all data.

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
    _most_parts = 8  # with kernel values at hand, a first fit costs little more than a later one; by hand
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

    def _row_data(self, data: Data, grid: Grid) -> list[RowData]:
        """Compute the kernel matrix of all samples for every gamma, where they fit: folds and scores share it."""
        kernels = [self._probe(row, 0)._kernel_for(data.X, data.sample_weight) for row in grid.rows]
        n = data.X.shape[0]
        megabytes = len(kernels) * n**2 * data.X.dtype.itemsize / 1e6
        is_shared = (
            (self.scoring is None or isinstance(self.scoring, str))  # a function may look at X
            and all(kernel.is_psd and kernel.name != "linear" for kernel in kernels)
            and not looks_at_samples(self.solver)
            and not (self.approximation == "nystroem" or n > EXACT_ROWS)
            and megabytes <= cache_megabytes(self.cache_size, data.X)
        )
        if not is_shared:
            return super()._row_data(data, grid)
        room = 2.0 * n**2 * data.X.dtype.itemsize / 1e6  # of which the matrix takes half
        matrices = [Gram(kernel, data.X, cache_size=room).square(np.arange(n)) for kernel in kernels]
        return [RowData(data._replace(X=K), True, {"kernel": ComputedMatrix()}) for K in matrices]

    def _probe(self, row: Any, seed: int) -> Any:
        return super()._probe("scale" if row is None else row, seed)
