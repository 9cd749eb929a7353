"""A linear classifier: scores X coef' + intercept, and the label with the highest score."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from softmargin.core.errors import DataError, ModelFileError
from softmargin.core.files import read_archive, write_archive

__all__ = ["LinearModel"]

_KIND = "LinearModel"
_ARRAYS = ("classes", "coef", "intercept")
# float32 rows meet float64 weights in blocks of this many numbers, so that X is never doubled as a whole.
_BLOCK_NUMBERS = 1 << 22


@dataclass(frozen=True, eq=False)
class LinearModel:
    """A trained linear classifier: labels, weights, and how they were found.

    Two classes are one row of weights, as in scikit-learn: a score above zero means ``classes[1]``.

    Parameters
    ----------
    classes : ndarray, shape (k,)
        Labels, all different: numbers, bools or text (object arrays of text are stored as text).
    coef : ndarray, shape (k, d), or (1, d) for two classes
    intercept : ndarray, shape (k,), or (1,) for two classes
    info : mapping
        How it was trained, in JSON-able values: problem, multiclass, C, fit_intercept,
        intercept_scaling, class_weight, tol, certificate, ...
    """

    classes: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray
    info: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        classes = _plain_labels(self.classes)
        coef, intercept = (_floats(array) for array in (self.coef, self.intercept))
        k = len(classes)
        if k < 2 or len(np.unique(classes)) != k:
            raise DataError(f"a model needs at least 2 classes, all different; got {classes.tolist()}.")
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
        """Score every row.

        Parameters
        ----------
        X : array or sparse matrix, shape (n, d)
            Another number of columns is an error; see `fit_columns`.

        Returns
        -------
        scores : ndarray, shape (n, k), or (n,) for two classes
        """
        X = _matrix(X)
        if X.shape[1] != self.n_features:
            raise DataError(
                f"X has {X.shape[1]} columns; the model was trained on {self.n_features}. "
                "If X is sparse and only ends early or late, use model.fit_columns(X)."
            )
        scores = _product(X, self.coef.T) + self.intercept
        if not np.isfinite(scores).all():
            row = int(np.argmin(np.isfinite(scores).all(axis=1)))
            raise DataError(
                f"the scores of row {row} (from 0) are not finite: X holds NaN, infinity or huge values. "
                "Fill in or drop such values."
            )
        return scores[:, 0] if len(self.classes) == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """Return the label of the highest score for every row, shape (n,)."""
        scores = self.decision_function(X)
        winners = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        labels: np.ndarray = self.classes[winners]
        return labels

    def fit_columns(self, X: Any) -> Any:
        """Return sparse `X` with exactly the model's columns: short rows are padded, extra columns ignored.

        LIBSVM files end at their highest used column, so a test file is often narrower, sometimes
        wider, than its training file; LIBLINEAR reads them the same way. A column that was never seen
        in training has weight zero. Dense `X` of another width is an error, as its columns cannot be told.

        Parameters
        ----------
        X : array or sparse matrix, shape (n, any)
        """
        X = _matrix(X)
        if X.shape[1] == self.n_features:
            return X
        if isinstance(X, np.ndarray):
            raise DataError(
                f"X has {X.shape[1]} columns; the model was trained on {self.n_features}. "
                "Only sparse data may be padded or cut."
            )
        if X.shape[1] > self.n_features:
            return X[:, : self.n_features]
        return type(X)((X.data, X.indices, X.indptr), shape=(X.shape[0], self.n_features))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as one archive (see `softmargin.core.files`), whole or not at all; no pickle."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        write_archive(path, kind=_KIND, arrays=arrays, meta=self.info)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LinearModel:
        """Read a model written by `save`; ModelFileError if it is anything else, or damaged."""
        arrays, info = read_archive(path, kind=_KIND)
        missing = [name for name in _ARRAYS if name not in arrays]
        if missing:
            raise ModelFileError(f"{os.fspath(path)!r} is damaged: arrays {', '.join(missing)} are missing.")
        try:
            return cls(**{name: arrays[name] for name in _ARRAYS}, info=info)
        except DataError as problem:
            raise ModelFileError(f"{os.fspath(path)!r} is damaged: {problem}") from problem


def _plain_labels(classes: Any) -> np.ndarray:
    labels = np.asarray(classes)
    if labels.ndim != 1:
        raise DataError(f"classes has shape {labels.shape}; one label a class, shape (k,), is needed.")
    if labels.dtype.kind in ("O", "T"):
        if not all(isinstance(label, str) for label in labels.tolist()):
            kinds = sorted({type(label).__name__ for label in labels.tolist()})
            raise DataError(f"labels are {', '.join(kinds)}; use numbers only, or text only.")
        labels = labels.astype(str)
    if labels.dtype.kind not in "biufUS":
        raise DataError(f"labels of type {labels.dtype} cannot be stored; use numbers or text.")
    return labels


def _floats(array: Any) -> np.ndarray:
    array = np.asarray(array)
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


def _matrix(X: Any) -> Any:
    """Dense X as an array of real numbers, sparse X as CSR; anything else is an error."""
    if hasattr(X, "tocsr"):
        return X.tocsr()
    X = np.asarray(X)
    if X.ndim != 2:
        raise DataError(f"X has shape {X.shape}; a matrix (n, d) is needed. Use X.reshape(1, -1) for one row.")
    if X.dtype.kind == "O":
        try:
            X = X.astype(np.float64)
        except (TypeError, ValueError) as problem:
            raise DataError(f"X holds values that are no numbers ({problem}).") from problem
    if X.dtype.kind not in "biuf":
        raise DataError(f"X has type {X.dtype}; real numbers are needed.")
    return X


def _product(X: Any, weights: np.ndarray) -> np.ndarray:
    # Non-finite results are reported by the caller, with the row; NumPy's own warning names none.
    with np.errstate(over="ignore", invalid="ignore"):
        if not isinstance(X, np.ndarray) or X.dtype == weights.dtype:
            return np.asarray(X @ weights)
        rows = max(1, _BLOCK_NUMBERS // max(1, X.shape[1]))
        scores = np.empty((X.shape[0], weights.shape[1]), dtype=np.result_type(X.dtype, weights.dtype))
        for start in range(0, X.shape[0], rows):
            scores[start : start + rows] = X[start : start + rows] @ weights
        return scores
