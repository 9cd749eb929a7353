"""The classifier and the regressor of a ball, whichever ball it is: what y means, and what is predicted.

y                     target t                                                   columns of W: rows of coef_
two classes           -1 and +1                                                  1
k classes             +1 for the own class, -1 for every other                   k
k > 2, a joint loss   1 for the own class, 0 for every other                     k
k labels              +1 where the sample has the label                          k
numbers (n,), (n, k)  themselves; NaN is missing, where there are k > 1          1, k
"""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from softmargin.backends.arrays import home_of, is_foreign, to_numpy
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.core.labels import naming_bad_labels
from softmargin.core.parameters import OneOf
from softmargin.core.sparse import checked_sparse
from softmargin.estimators.frame.ball import BallEstimator
from softmargin.estimators.frame.classifier import CertifiedClassifier
from softmargin.estimators.frame.data import FIT_KINDS, Data, checked_weights, encoded
from softmargin.estimators.frame.fit import at_one_moment
from softmargin.estimators.frame.placed import exponentials, log_probabilities
from softmargin.estimators.posing.ball import MARGINS, ball_claim, class_target, number_target, shares
from softmargin.estimators.posing.fit import demand_modest
from softmargin.losses.entrywise import ENTRYWISE
from softmargin.losses.joint import JOINT
from softmargin.models import LinearModel, LinearRegressor

__all__ = ["BallClassifier", "BallRegressor"]

Array = NDArray[Any]


def _has_log_odds(clf: Any) -> bool:
    """Say whether scores are logarithms of probabilities: multinomial, or logistic for two classes.

    Never of "logistic" before the fit, which finds how many classes there are.
    """
    n_classes = int(getattr(clf, "classes_", np.empty(0)).shape[0])
    return clf.loss == "multinomial" or (clf.loss == "logistic" and not clf._is_multilabel and n_classes == 2)


class BallClassifier(BallEstimator, CertifiedClassifier):
    """A classifier with one column of weights per class, or one for two classes, all in one ball."""

    _allowed: ClassVar = {"loss": (OneOf(*MARGINS, *JOINT),)}
    _is_multilabel = False

    def __init__(
        self,
        radius: float = 1.0,
        *,
        l2: float = 1e-4,
        loss: str = "smooth_hinge",
        fit_intercept: bool = True,
        solver: Any = "auto",
        tol: float = 1e-3,
        max_iter: int = 10_000,
        max_seconds: float | None = None,
        class_weight: Any = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        device: str | None = None,
        verbose: int = 0,
    ) -> None:
        self._take_settings(locals())

    def __sklearn_tags__(self) -> Any:
        """Declare that a sample may have several labels."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def _checked(self, X: Any, y: Any, sample_weight: Any) -> Data:
        X, y = checked_sparse(X), checked_sparse(y, "y")
        ready = self._ready_data(X, y, sample_weight)
        if ready is not None:
            return ready
        with naming_bad_labels(y):
            X, y = validate_data(self, X, y, multi_output=True, **FIT_KINDS)
            kind = type_of_target(y, input_name="y")
        demand_modest(X)
        sample_weight = checked_weights(sample_weight, X)
        if kind == "multiclass-multioutput":
            raise DataError(
                f"y has shape {y.shape} and holds classes; one class per sample, shape (n,), or an indicator matrix of "
                "0 and 1 is needed. Fit one classifier per column."
            )
        if kind != "multilabel-indicator":
            y = column_or_1d(y, warn=True)
            return Data(X, y, sample_weight, *encoded(y))
        if self.loss in JOINT:
            raise DataError(
                f"loss={self.loss!r} needs one class per sample, but y has {y.shape[1]} labels per sample; use one of "
                f"{', '.join(MARGINS)}."
            )
        if self.class_weight is not None:
            raise DataError(
                f"class_weight={self.class_weight!r} needs one class per sample, but y has {y.shape[1]} labels per "
                "sample; leave it out, or weigh the samples by sample_weight."
            )
        y = np.asarray(y.toarray() if hasattr(y, "toarray") else y)
        return Data(X, y, sample_weight, np.arange(y.shape[1]))

    def _target(self, data: Data) -> tuple[tuple[Array, Any], Array]:
        parts = shares(len(data.y), data.codes, data.classes, self.class_weight, data.sample_weight)
        if data.codes is None:
            return (np.where(data.y > 0, 1.0, -1.0), ENTRYWISE[self.loss]), parts
        return class_target(self.loss, data.codes, len(data.classes)), parts

    def _claim(self) -> dict[str, Any]:
        return ball_claim(self._norm, self.loss, self.radius, self.l2)

    def _predictor(self, info: dict[str, Any]) -> Any:
        if self._is_multilabel:
            raise IncompatibleError(
                "a LinearModel has one class per row, but this classifier was fitted to several labels per row; keep "
                "the estimator, or fit one per label."
            )
        return LinearModel(to_numpy(self.classes_), self._coef(), to_numpy(self.intercept_), info)

    @at_one_moment
    def decision_function(self, X: Any) -> Array:
        """Return the scores: (n, k), or (n,) for two classes (above zero means ``classes_[1]``)."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    @at_one_moment
    def predict(self, X: Any) -> Array:
        """Return the class with the highest score of every row, or an indicator of its labels."""
        if not self._is_multilabel:
            return super().predict(X)
        is_above = self.decision_function(X) > 0
        if not is_foreign(is_above):
            return np.asarray(is_above, dtype=int)
        xp = home_of(is_above).xp
        return xp.astype(is_above, xp.int64)

    @available_if(_has_log_odds)
    @at_one_moment
    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of ``predict_proba``."""
        return log_probabilities(self.decision_function(X))

    @available_if(_has_log_odds)
    @at_one_moment
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of every class; shape (n, k). Only the losses of regression have them.

        These are "multinomial", and "logistic" for two classes.
        """
        return exponentials(self.predict_log_proba(X))


class BallRegressor(MultiOutputMixin, RegressorMixin, BallEstimator):
    """Least squares with one column of weights per target, all in one ball."""

    def __init__(
        self,
        radius: float = 1.0,
        *,
        l2: float = 1e-4,
        fit_intercept: bool = True,
        solver: Any = "auto",
        tol: float = 1e-3,
        max_iter: int = 10_000,
        max_seconds: float | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        device: str | None = None,
        verbose: int = 0,
    ) -> None:
        self._take_settings(locals())

    def _checked(self, X: Any, y: Any, sample_weight: Any) -> Data:
        of_y = {"ensure_2d": False, "dtype": np.float64, "ensure_all_finite": "allow-nan"}
        X, y = validate_data(self, checked_sparse(X), checked_sparse(y, "y"), validate_separately=(FIT_KINDS, of_y))
        check_consistent_length(X, y)
        demand_modest(X)
        missing = np.isnan(y)
        if missing.any() and (y.ndim == 1 or y.shape[1] == 1 or missing.all()):
            raise DataError("Input y contains NaN: a missing target. Drop such samples; they say nothing here.")
        demand_modest(y[~missing], "y")
        return Data(X, y, checked_weights(sample_weight, X))

    def _target(self, data: Data) -> tuple[tuple[Array, Any], Array]:
        return number_target(data.y), shares(len(data.y), sample_weight=data.sample_weight)

    def _claim(self) -> dict[str, Any]:
        return ball_claim(self._norm, "squared", self.radius, self.l2, self._shape())

    def _predictor(self, info: dict[str, Any]) -> Any:
        return LinearRegressor(self._coef(), np.atleast_1d(to_numpy(self.intercept_)), self._is_flat, info)

    @at_one_moment
    def predict(self, X: Any) -> Array:
        """Return the predictions; (n,) or (n, k), as y was."""
        scores = self._scores(X)
        return scores[:, 0] if self._is_flat else scores

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of the variance of y that is predicted, R^2."""
        from sklearn.metrics import r2_score  # as scikit-learn's own: a fit needs none of its metrics

        found = to_numpy(self.predict(X))
        return float(r2_score(to_numpy(y), found, sample_weight=to_numpy(sample_weight)))
