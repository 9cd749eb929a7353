"""The frame of every classifier: labels as codes, scores, and the label of the highest one."""

from typing import Any

from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from softmargin.backends.arrays import home_of, is_foreign, to_numpy
from softmargin.core.labels import naming_bad_labels
from softmargin.core.sparse import checked_sparse
from softmargin.core.threads import threads
from softmargin.estimators.frame.data import FIT_KINDS, X_KINDS, Data, checked_weights, encoded, is_ready, ready_labels
from softmargin.estimators.frame.fit import CertifiedEstimator, at_one_moment
from softmargin.estimators.frame.looks import ClassifierLooks
from softmargin.estimators.frame.placed import labels_of_scores, placed_scores
from softmargin.estimators.posing.fit import demand_modest, loss_prices
from softmargin.models import LinearModel

__all__ = ["CertifiedClassifier"]

Array = NDArray[Any]


class CertifiedClassifier(ClassifierMixin, ClassifierLooks, CertifiedEstimator):
    """A classifier that is trained to a certificate; a subclass also says which problem it solves (``_claim``)."""

    def _checked(self, X: Any, y: Any, sample_weight: Any) -> Data:
        X = checked_sparse(X)
        ready = self._ready_data(X, y, sample_weight)
        if ready is not None:
            return ready
        with naming_bad_labels(y):
            X, y = validate_data(self, X, y, **FIT_KINDS)
        labels = encoded(y)
        demand_modest(X)
        return Data(X, y, checked_weights(sample_weight, X), *labels)

    def _ready_data(self, X: Any, y: Any, sample_weight: Any) -> Data | None:
        """Return data that need no conversion; None where scikit-learn's checks have the last word."""
        labels = ready_labels(y)
        if labels is None or not is_ready(X) or len(y) != X.shape[0]:
            return None
        # As scikit-learn's validate_data does: the features of an array have no names.
        self.n_features_in_ = X.shape[1]
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return Data(X, y, checked_weights(sample_weight, X), *labels)

    def _prices(self, data: Data, C: Any) -> Array:
        return loss_prices(data.codes, data.classes, C, self.class_weight, data.sample_weight)

    def _predictor(self, info: dict[str, Any]) -> Any:
        return LinearModel(to_numpy(self.classes_), to_numpy(self.coef_), to_numpy(self.intercept_), info)

    def _factors_there(self) -> tuple[Any, ...]:
        """Return matrices on a device whose product, (d, k), are the weights; none where they are NumPy's."""
        coef = vars(self).get("coef_")
        return (home_of(coef).xp.matrix_transpose(coef),) if is_foreign(coef) else ()

    @at_one_moment
    def decision_function(self, X: Any) -> Array:
        """Return the scores: (n, k), or (n,) for two classes (above zero means ``classes_[1]``)."""
        check_is_fitted(self)
        if factors := self._factors_there():
            scores = placed_scores(self, X, factors)
            return scores[:, 0] if scores.shape[1] == 1 else scores
        X = self._rows_like_fitted(X)
        with threads(self.n_jobs):
            return self._predictor({}).decision_function(X)

    def _rows_like_fitted(self, X: Any) -> Any:
        """Return X after a check that it has the columns of the training data."""
        check_is_fitted(self)
        is_alike = is_ready(X) and X.shape[1] == self.n_features_in_ and not hasattr(self, "feature_names_in_")
        return X if is_alike else validate_data(self, checked_sparse(X), reset=False, **X_KINDS)

    @at_one_moment
    def predict(self, X: Any) -> Array:
        """Return the label with the highest score for every row of X."""
        scores = self.decision_function(X)
        if is_foreign(scores):
            return labels_of_scores(scores, self.classes_)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows whose label is predicted."""
        from sklearn.metrics import accuracy_score  # as scikit-learn's own: a fit needs none of its metrics

        found = to_numpy(self.predict(X))
        return float(accuracy_score(to_numpy(y), found, sample_weight=to_numpy(sample_weight)))
