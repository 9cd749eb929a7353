"""The classifier and the regressor of a ball, whichever ball it is: what y means, and what is predicted.

y                     target t                                                   columns of W: rows of coef_
two classes           -1 and +1                                                  1
k classes             +1 for the own class, -1 for every other                   k
k labels              +1 where the sample has the label                          k
numbers (n,), (n, k)  themselves; NaN is missing, where there are k > 1          1, k
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, column_or_1d, validate_data

from softmargin.core.errors import DataError, IncompatibleError
from softmargin.estimators._ball import BallEstimator, Task, shares_of
from softmargin.estimators._base import X_KINDS, CertifiedClassifier, coded
from softmargin.estimators._callbacks import with_callbacks
from softmargin.estimators._weights import loss_prices
from softmargin.losses.entrywise import ENTRYWISE
from softmargin.losses.observed import Observed
from softmargin.models import LinearModel
from softmargin.models.shapes import log_probabilities

__all__ = ["BallClassifier", "BallRegressor"]

Array = NDArray[Any]
MARGINS = tuple(name for name, loss in ENTRYWISE.items() if loss.is_margin)


def _has_log_odds(clf: Any) -> bool:
    """Say whether scores are the log-odds of two classes; before the fit nobody knows how many there are."""
    return clf.loss == "logistic" and not clf._is_multilabel and len(getattr(clf, "classes_", ())) == 2


class BallClassifier(BallEstimator, CertifiedClassifier):
    """A classifier with one column of weights a class, or one for two classes, all in one ball."""

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
        verbose: int = 0,
    ) -> None:
        self.radius = radius
        self.l2 = l2
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        """Say that a sample may have several labels."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def _task(self, X: Any, y: Any, sample_weight: Any) -> Task:
        X, y = validate_data(self, X, y, multi_output=True, order="C", accept_large_sparse=True, **X_KINDS)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        kind = type_of_target(y, input_name="y")
        if kind == "multiclass-multioutput":
            raise DataError(
                f"y has shape {y.shape} and holds classes; one class a sample, shape (n,), or an indicator matrix of "
                "0 and 1 is needed. Fit one classifier a column."
            )
        self._is_multilabel = kind == "multilabel-indicator"
        if self._is_multilabel:
            if self.class_weight is not None:
                raise DataError(
                    f"class_weight={self.class_weight!r} needs one class a sample, but y has {y.shape[1]} labels a "
                    "sample; leave it out, or weigh the samples by sample_weight."
                )
            y = np.asarray(y.toarray() if hasattr(y, "toarray") else y)
            self.classes_ = np.arange(y.shape[1])
            return Task(X, y, sample_weight, np.where(y > 0, 1.0, -1.0), shares_of(len(y), sample_weight))
        y = column_or_1d(y, warn=True)
        self.classes_, codes = coded(y)
        k = len(self.classes_)
        own = codes[:, None] == (np.arange(1, 2) if k == 2 else np.arange(k))
        shares = loss_prices(codes, self.classes_, 1.0, self.class_weight, sample_weight)
        shares /= len(y) if sample_weight is None else sample_weight.sum()
        return Task(X, y, sample_weight, np.where(own, 1.0, -1.0), shares)

    def _entrywise(self, task: Task) -> Any:
        if self.loss not in MARGINS:
            raise IncompatibleError(f"loss={self.loss!r} is unknown; choose one of {', '.join(MARGINS)}.")
        return ENTRYWISE[self.loss]

    def _claim(self) -> dict[str, Any]:
        return {
            "problem": f"{self._norm} ball",
            "loss": self.loss,
            "radius": float(self.radius),
            "l2": float(self.l2),
        }

    def _predictor(self, info: dict[str, Any]) -> LinearModel:
        if self._is_multilabel:
            raise IncompatibleError(
                "a LinearModel has one class a row, but this classifier was fitted to several labels a row; keep the "
                "estimator, or fit one a label."
            )
        return LinearModel(self.classes_, self.coef_, self.intercept_, info)

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Train to the tolerance.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
            float32 and float64 in C or CSR order are used as they are, without a copy.
        y : array of shape (n,), or of shape (n, k) with 0 and 1
            One class a sample, or an indicator of the labels it has.
        sample_weight : array of shape (n,), optional
            A weight of 2 equals the sample given twice.
        """
        return self._fit(X, y, sample_weight)

    def decision_function(self, X: Any) -> Array:
        """Return the scores: (n, k), or (n,) for two classes (above zero means ``classes_[1]``)."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> Array:
        """Return the class with the highest score of every row, or an indicator of its labels."""
        return (self.decision_function(X) > 0).astype(int) if self._is_multilabel else super().predict(X)

    @available_if(_has_log_odds)
    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of ``predict_proba``."""
        return log_probabilities(self.decision_function(X))

    @available_if(_has_log_odds)
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of both classes; shape (n, 2). There are none but for ``loss="logistic"``."""
        return np.exp(self.predict_log_proba(X))


class BallRegressor(MultiOutputMixin, RegressorMixin, BallEstimator):
    """Least squares with one column of weights a target, all in one ball."""

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
        verbose: int = 0,
    ) -> None:
        self.radius = radius
        self.l2 = l2
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def _task(self, X: Any, y: Any, sample_weight: Any) -> Task:
        of_X = {"order": "C", "accept_large_sparse": True, **X_KINDS}
        of_y = {"ensure_2d": False, "dtype": np.float64, "ensure_all_finite": "allow-nan"}
        X, y = validate_data(self, X, y, validate_separately=(of_X, of_y))
        check_consistent_length(X, y)
        missing = np.isnan(y)
        if missing.any() and (y.ndim == 1 or y.shape[1] == 1 or missing.all()):
            raise DataError("Input y contains NaN: a missing target. Drop such samples; they say nothing here.")
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        self._is_flat = y.ndim == 1
        return Task(X, y, sample_weight, y.reshape(len(y), -1), shares_of(len(y), sample_weight))

    def _entrywise(self, task: Task) -> Any:
        loss = ENTRYWISE["squared"]
        return Observed(loss) if np.isnan(task.target).any() else loss

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Train to the tolerance.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
            float32 and float64 in C or CSR order are used as they are, without a copy.
        y : array of shape (n,) or (n, k)
            In (n, k), k > 1, NaN is a target that was not observed: it costs nothing.
        sample_weight : array of shape (n,), optional
            A weight of 2 equals the sample given twice.
        """
        return self._fit(X, y, sample_weight)

    def predict(self, X: Any) -> Array:
        """Return the predictions; (n,) or (n, k), as y was."""
        scores = self._scores(X)
        return scores[:, 0] if self._is_flat else scores
