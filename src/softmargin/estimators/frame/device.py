"""Kernel classifiers whose X may lie on a device: checks of such data, predictions there, and the way back to NumPy."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, column_or_1d

from softmargin.backends.arrays import home_of, is_foreign, moved, same_home, to_numpy
from softmargin.backends.sparse_arrays import is_sparse
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.estimators.frame.data import Data, checked_weights, encoded
from softmargin.estimators.frame.fit import at_one_moment
from softmargin.estimators.frame.placed import checked_matrix, labels_of_scores, note_features
from softmargin.estimators.frame.svm import SvmClassifier
from softmargin.estimators.posing.svm import cache_megabytes
from softmargin.kernels.on_device import kernel_scores

__all__ = ["DeviceClassifier"]

Array = NDArray[Any]
_FITTED = ("support_", "n_support_", "dual_coef_", "intercept_")  # arrays that lie where X does


def _array(X: Any) -> Any:
    """Return X; refuse a sparse matrix."""
    if is_sparse(X):
        raise IncompatibleError("X is sparse, and kernels on a device take arrays; pass X.to_dense() or X.toarray().")
    return X


class DeviceClassifier(SvmClassifier):
    """A classifier that takes X where it lies."""

    support_vectors_: Any

    def _placed(self, X: Any) -> Any:
        return X

    def _checked(self, X: Any, y: Any, sample_weight: Any) -> Data:
        if self.probability not in (None, False) and (is_foreign(X) or self.device is not None):
            raise IncompatibleError(
                "probabilities are fitted to held-out scores in the memory of the processor; use probability=None, or "
                "pass X as a NumPy array, with device=None."
            )
        if not is_foreign(X):
            data = super()._checked(X, to_numpy(y), to_numpy(sample_weight))
            return data if self.device is None else data._replace(X=self._moved(data.X))
        home = same_home(_array(X), ("y", y), ("sample_weight", sample_weight))
        X = checked_matrix(X, home)
        labels: Array = column_or_1d(to_numpy(y), warn=True)
        if len(labels) != X.shape[0]:
            raise DataError(f"X has {X.shape[0]} samples, y has {len(labels)}; they must agree.")
        note_features(self, int(X.shape[1]))
        weights = checked_weights(to_numpy(sample_weight), np.empty((len(labels), 0)))
        return Data(X, y, weights, *encoded(labels))

    def _moved(self, X: Any) -> Any:
        if not isinstance(X, np.ndarray):
            raise IncompatibleError(f"X is sparse, and device={self.device!r} takes arrays; pass X.toarray().")
        return moved(X, str(self.device))

    def _at_home(self, attributes: dict[str, Any], data: Data) -> dict[str, Any]:
        """Return fitted attributes where X lies; the classes go with y."""
        if not is_foreign(data.X):
            return attributes
        home = home_of(data.X)
        there = {name: home.array(attributes[name]) for name in _FITTED}
        classes = home.array(data.classes) if is_foreign(data.y) else data.classes
        return {**attributes, **there, "classes_": classes}

    @at_one_moment
    def decision_function(self, X: Any) -> Any:
        """Return the scores: (n, k), or (n,) for two classes (above zero means ``classes_[1]``); where X lies."""
        check_is_fitted(self)
        vectors = self.support_vectors_
        if not is_foreign(vectors):
            return super().decision_function(X)
        home = home_of(vectors)
        if not is_foreign(X):
            if self.device is None:
                raise DataError(
                    f"the model lies on {home.device}, X is in the memory of the processor; pass X where the model "
                    "is, or predict with model(), which holds NumPy arrays."
                )
            X = self._moved(np.asarray(X))
        same_home(_array(X), ("the model", vectors))
        X = checked_matrix(X, home)
        if X.shape[1] != self.n_features_in_:
            raise DataError(f"X has {X.shape[1]} features, but {type(self).__name__} expects {self.n_features_in_}.")
        budget = 1e6 * cache_megabytes(self.cache_size, X)
        weights = home.xp.matrix_transpose(self.dual_coef_)
        scores = kernel_scores(self._kernel, vectors, X, home, weights, budget) + self.intercept_
        return scores[:, 0] if self.dual_coef_.shape[0] == 1 else scores

    @at_one_moment
    def predict(self, X: Any) -> Any:
        """Return the label with the highest score for every row of X; in the library of y."""
        check_is_fitted(self)
        if not is_foreign(self.support_vectors_):
            return super().predict(X)
        return labels_of_scores(self.decision_function(X), self.classes_)
