"""A linear classifier: scores X coef' + intercept, and the label with the highest score."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from softmargin.core.errors import DataError, IncompatibleError
from softmargin.core.files import blaming, read_archive, write_archive
from softmargin.core.sparse import checked_sparse
from softmargin.kernels.points import slices
from softmargin.models.shapes import (
    Classifier,
    check_columns,
    checked_labels,
    checked_scores,
    dense,
    floats,
    log_probabilities,
    matrix,
    require_arrays,
)

__all__ = ["LinearModel"]

_KIND = "LinearModel"
_ARRAYS = ("classes", "coef", "intercept")
# Numbers of float32 rows that are converted to float64 at once: X is never copied as a whole.
_BLOCK_NUMBERS = 1 << 22


@dataclass(frozen=True, eq=False)
class LinearModel(Classifier):
    """A trained linear classifier; see `Classifier` for classes, intercept and info.

    Parameters
    ----------
    classes, intercept
    coef : ndarray or sparse matrix, shape (k, d), or (1, d) for two classes
    info
        problem, multiclass, C, fit_intercept, intercept_scaling, class_weight, tol, certificate, ... Models of the
        problem "softmax" have probabilities.
    """

    classes: np.ndarray
    coef: Any
    intercept: np.ndarray
    info: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        classes = checked_labels(self.classes)
        coef = checked_sparse(self.coef, "coef").tocsr() if hasattr(self.coef, "tocsr") else floats(self.coef)
        intercept = floats(self.intercept)
        k = len(classes)
        rows = 1 if k == 2 else k
        if coef.ndim != 2 or coef.shape[0] != rows:
            raise DataError(f"coef has shape {coef.shape}; {k} classes need shape ({rows}, d).")
        if intercept.shape != (rows,):
            raise DataError(f"intercept has shape {intercept.shape}; {k} classes need shape ({rows},).")
        for name, value in (("classes", classes), ("coef", coef), ("intercept", intercept)):
            object.__setattr__(self, name, value)

    @property
    def n_features(self) -> int:
        """Number of columns d the model was trained on."""
        return int(self.coef.shape[1])

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the scores X coef' + intercept of every row, shape (n, k), or (n,) for two classes."""
        X = matrix(X)
        check_columns(X, self.n_features)
        return checked_scores(_product(X, self.coef.T) + self.intercept, len(self.classes))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithm of every class's probability, shape (n, k); an SVM has none and refuses."""
        if not self.has_probabilities:
            raise IncompatibleError(
                "this model has no probabilities: it was not trained as a softmax model. Use decision_function, or "
                "train SoftmaxRegression."
            )
        return log_probabilities(self.decision_function(X))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of every class, shape (n, k); an SVM has none and refuses."""
        return np.asarray(np.exp(self.predict_log_proba(X)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as one archive (see `softmargin.core.files`), whole or not at all; no pickle."""
        arrays = {name: dense(getattr(self, name)) for name in _ARRAYS}
        write_archive(path, kind=_KIND, arrays=arrays, meta=self.info)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LinearModel:
        """Read a model written by `save`; ModelFileError if it is anything else, or damaged."""
        arrays, info = read_archive(path, kind=_KIND)
        require_arrays(arrays, _ARRAYS, path)
        with blaming(path, advice="Train again."):
            return cls(**{name: arrays[name] for name in _ARRAYS}, info=info)


def _product(X: Any, weights: Any) -> np.ndarray:
    # The caller reports non-finite scores, with the row; NumPy's own warning names none.
    with np.errstate(over="ignore", invalid="ignore"):
        if not isinstance(weights, np.ndarray):
            return dense(X @ weights)
        if not isinstance(X, np.ndarray) or X.dtype == weights.dtype:
            return np.asarray(X @ weights)
        scores = np.empty((X.shape[0], weights.shape[1]), dtype=np.result_type(X.dtype, weights.dtype))
        for rows in slices(X.shape[0], max(1, _BLOCK_NUMBERS // max(1, X.shape[1]))):
            scores[rows] = X[rows] @ weights
        return scores
