"""SoftmaxRegressionCV: C and l1_ratio chosen by cross-validation along warm-started paths."""

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.metrics import get_scorer, log_loss, make_scorer
from sklearn.model_selection import check_cv
from sklearn.utils import Bunch
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import _check_method_params

from softmargin.core.errors import DataError
from softmargin.core.parameters import Number, checked, shown
from softmargin.core.threads import threads
from softmargin.estimators.frame.callbacks import with_callbacks
from softmargin.estimators.frame.fit import Data, at_one_moment
from softmargin.estimators.frame.warnings import warn_of_path
from softmargin.estimators.posing.fit import loss_prices
from softmargin.estimators.posing.parameters import PARAMETERS
from softmargin.estimators.posing.softmax import pinned_column, priced_penalty, ratios_to_try
from softmargin.estimators.softmax_path import grid_of, path_results
from softmargin.estimators.softmax_regression import SoftmaxRegression
from softmargin.matrices.operator import canonical
from softmargin.problems import CompositePoint
from softmargin.run import Result, Status, Trace

__all__ = ["SoftmaxRegressionCV"]

Array = NDArray[Any]


def _as_score(score: Any) -> float:
    """Return a score as a float; NaN is one, for rows that cannot be scored."""
    is_nan = isinstance(score, float | np.floating) and bool(np.isnan(score))
    return math.nan if is_nan else float(checked("what scoring returns", score, Number(is_finite=False)))


class SoftmaxRegressionCV(SoftmaxRegression):
    r"""SoftmaxRegression with C and l1_ratio chosen by cross-validation.

    Per fold and per l1_ratio, one path goes from the smallest C to the largest: each fit starts at the solution of the
    last and ends with its own certificate. The pair with the best mean score is then fitted to all data.

    Parameters
    ----------
    Cs : int or array, default=10
        The grid of C, or its size: a grid of our own is that of ``softmax_path``, on all data, for each l1_ratio.
    l1_ratios : sequence of float, default=(0.0,)
        What to choose l1_ratio from.
    cv : int, splitter, iterable or None, default=None
        Folds, as in scikit-learn; None is 5 stratified folds.
    scoring : str, callable or None, default=None
        How a model is scored on rows it has not seen, as in scikit-learn; None is accuracy. "neg_log_loss" scores the
        probabilities.
    refit : bool, default=True
        False takes the mean of the best weights of every fold instead, and of their C and l1_ratio; the certificate
        then says how far that mean is from the optimum.
    penalty, fit_intercept, pinned, solver, tol, max_iter, max_seconds, class_weight, random_state, n_jobs, verbose
        As in SoftmaxRegression; the budgets are those of one fit.

    Attributes
    ----------
    C_ : float
        The C that was chosen.
    l1_ratio_ : float
        The l1_ratio that was chosen; None with a penalty object.
    Cs_ : array of shape (n_Cs,), or (n_l1_ratios, n_Cs) where every l1_ratio has a grid of its own
    l1_ratios_ : array of shape (n_l1_ratios,)
    scores_ : array of shape (n_folds, n_l1_ratios, n_Cs)
    mean_score_ : float
        The best mean over the folds: the score of the chosen C and l1_ratio.
    residuals_ : array of shape (n_folds, n_l1_ratios, n_Cs)
        The residual of the certificate of every fit.
    classes_, coef_, intercept_, certificate_, dual_gap_, status_, n_iter_, trace_
        As in SoftmaxRegression, of the model fitted to all data.

    Notes
    -----
    The weights along the paths are not kept; ``softmax_path`` returns them.
    """

    def __init__(
        self,
        Cs: Any = 10,
        *,
        l1_ratios: Any = (0.0,),
        cv: Any = None,
        scoring: Any = None,
        refit: bool = True,
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

    warm_start = False  # a path starts at the solution for the last C

    def _stream_refusal(self) -> str:
        return "cross-validation needs all rows at once; use SoftmaxRegression(C=...).partial_fit."

    def _chosen(self) -> tuple[Any, Any]:
        return self.C_, self.l1_ratio_ or 0.0

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> Self:
        """Choose C and l1_ratio, and train on all data.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional
            A weight of 2 equals the sample given twice. Scores on held-out rows are weighted too; with scikit-learn's
            metadata routing, only where the scorer asks for it.
        **params
            For the splitter and the scorer (``groups``, say), where metadata routing is enabled.
        """
        return self._become(self._twin()._fit(X, y, sample_weight, **params))

    @with_callbacks
    def _fit(self, X: Any, y: Any, sample_weight: Any, **params: Any) -> Self:
        self._check_parameters()
        data = self._checked(X, y, sample_weight)
        routed = self._routed("fit", data.sample_weight, params)
        folds = self._folds(data, routed.splitter.split)
        with threads(self.n_jobs):
            points = self._choose(data, folds, routed.scorer.score)
            return self._train(data) if self.refit else self._take_mean(data, points)

    def _folds(self, data: Data, split_params: dict[str, Any]) -> list[tuple[Array, Array]]:
        """Return the rows of every fold, for training and for testing."""
        splitter = check_cv(self.cv, data.y, classifier=True)
        folds = list(splitter.split(data.X, data.y, **split_params))
        if not folds:
            raise DataError(f"cv must give at least one pair of rows (train, test); found none in {shown(self.cv)}.")
        return folds

    def _choose(self, data: Data, folds: list[Any], score_params: dict[str, Any]) -> list[CompositePoint]:
        """Score every pair on every fold, and set what was chosen; return the best weights of every fold."""
        asked = checked("l1_ratios", self.l1_ratios, *PARAMETERS["l1_ratios"]).ravel()
        ratios = ratios_to_try(self.penalty, asked.tolist())
        X = canonical(data.X)
        settings: dict[str, Any] = {"n_classes": len(data.classes), "fit_intercept": bool(self.fit_intercept)}
        prices = loss_prices(data.codes, data.classes, 1.0, self.class_weight, data.sample_weight)
        column = pinned_column(self.pinned, data.classes)
        penalties = [priced_penalty(1.0, ratio, self.penalty, pinned=column)[1] for ratio in ratios]
        grids = np.stack([grid_of(self.Cs, X, data.codes, prices, g, **settings) for g in penalties])
        scores, residuals = np.empty((len(folds), *grids.shape)), np.empty((len(folds), *grids.shape))
        probe = SoftmaxRegression()  # for scorers to ask; its weights are set for every fit
        probe.classes_, probe.n_features_in_ = data.classes, data.X.shape[1]
        scorer = self._scorer(data.classes)
        how = {"solver": self.solver, "stop": self._stop(), "seed": self._seed()}
        results: list[Result] = []
        points = []
        for f, (train, test) in enumerate(folds):
            weight = None if data.sample_weight is None else data.sample_weight[train]
            prices = loss_prices(data.codes[train], data.classes, 1.0, self.class_weight, weight)
            X_train, X_test, y_test = canonical(X[train]), X[test], data.y[test]
            own_params = _check_method_params(X, params=score_params, indices=test)
            best = -np.inf
            for r, (g, grid) in enumerate(zip(penalties, grids, strict=True)):
                path = path_results(X_train, data.codes[train], prices, grid, g, **how, **settings)
                for c, result in enumerate(path):
                    probe.coef_, probe.intercept_ = result.point.weights.T, result.point.intercept
                    score = scores[f, r, c] = _as_score(scorer(probe, X_test, y_test, **own_params))
                    residuals[f, r, c] = result.certificate.residual
                    results.append(result._replace(point=None))  # the weights of all would fill the memory
                    if score > best or c == r == 0:
                        best, best_point = score, result.point
            points.append(best_point)
        warn_of_path(results, self.tol, stacklevel=5)
        self._set_choice(grids, np.array(ratios), scores)
        self.residuals_ = residuals
        return points

    def _set_choice(self, grids: Array, ratios: Array, scores: Array) -> None:
        means = scores.mean(axis=0)
        best = [np.unravel_index(own.argmax(), own.shape) for own in ([means] if self.refit else scores)]
        self.C_ = float(np.mean([grids[pair] for pair in best]))
        chosen = float(np.mean([ratios[pair[0]] for pair in best]))
        self.l1_ratio_ = chosen if isinstance(self.penalty, str) else None
        self.Cs_ = grids[0] if (grids == grids[0]).all() else grids
        self.l1_ratios_ = ratios
        self.scores_ = scores
        self.mean_score_ = float(means.max())

    def _take_mean(self, data: Data, points: list[CompositePoint]) -> Self:
        """Keep the mean of the folds' weights, certified for the problem with the mean C and l1_ratio."""
        posed = self._pose(data)
        mean = CompositePoint(*(np.mean(parts, axis=0) for parts in zip(*points, strict=True)))
        result = Result(mean, posed.problem.certificate(mean), Status.STOPPED, Trace(), 0, 0.0, 0.0)
        self._keep(result, {"classes_": data.classes, **posed.attributes(mean)}, len(data.y))
        return self

    def _scorer(self, classes: Array | None = None) -> Any:
        if self.scoring == "neg_log_loss" and classes is not None:
            # Held-out rows may lack a class.
            return make_scorer(log_loss, greater_is_better=False, response_method="predict_proba", labels=classes)
        return get_scorer("accuracy" if self.scoring is None else self.scoring)

    def _routed(self, method: str, sample_weight: Any, params: dict[str, Any]) -> Any:
        """Return what splitter and scorer are given."""
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        if get_config().get("enable_metadata_routing", False):
            return process_routing(self, method, **weights, **params)
        if params:
            raise ValueError(
                f"{method} got {', '.join(params)}, which go to the splitter or the scorer; that needs "
                "sklearn.set_config(enable_metadata_routing=True)."
            )
        return Bunch(splitter=Bunch(split={}), scorer=Bunch(score=weights))

    @at_one_moment
    def score(self, X: Any, y: Any, *, sample_weight: Any = None, **params: Any) -> float:
        """Score predictions for X by ``scoring``."""
        routed = self._routed("score", sample_weight, params)
        return float(self._scorer(self.classes_)(self, X, y, **routed.scorer.score))

    def get_metadata_routing(self) -> Any:
        """Say which metadata go to the splitter and which to the scorer."""
        to_score = MethodMapping().add(caller="score", callee="score").add(caller="fit", callee="score")
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
            .add(scorer=self._scorer(), method_mapping=to_score)
        )
