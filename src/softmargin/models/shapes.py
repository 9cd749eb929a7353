"""What all kinds of models share: checks of labels, data and scores, and labels from scores."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from softmargin.core.archive import write_archive
from softmargin.core.errors import DataError, IncompatibleError, ModelFileError
from softmargin.core.sparse import checked_sparse
from softmargin.models.probabilities import calibrated_logs, log_probabilities

__all__ = [
    "Classifier",
    "Predictor",
    "check_columns",
    "checked_labels",
    "checked_scores",
    "dense",
    "floats",
    "matrix",
    "require_arrays",
]


class Predictor:
    """A trained model: what all kinds have.

    Attributes
    ----------
    intercept : ndarray, shape (k,)
    info : mapping
        How it was trained, in JSON-able values.
    """

    intercept: np.ndarray
    info: Mapping[str, Any]

    @property
    def n_features(self) -> int:
        """Number of columns of X."""
        raise NotImplementedError

    @property
    def has_probabilities(self) -> bool:
        """Whether scores give probabilities: of softmax and two-class logistic models, and of calibrated ones."""
        is_logistic = self.info.get("loss") == "logistic" and len(self.intercept) == 1
        return self.has_log_odds or is_logistic or self.info.get("calibration") is not None

    @property
    def has_log_odds(self) -> bool:
        """Whether scores are logarithms of probabilities, up to one constant per row: softmax models only."""
        return self.info.get("problem") == "softmax" or self.info.get("loss") == "multinomial"

    def stored(self) -> tuple[dict[str, np.ndarray], Mapping[str, Any]]:
        """Return what a file holds: the arrays and the meta of `docs/format.md`; the kind is the name of the class."""
        raise NotImplementedError

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as one archive (see `softmargin.core.archive`), whole or not at all; no pickle."""
        arrays, meta = self.stored()
        write_archive(path, kind=type(self).__name__, arrays=arrays, meta=meta)

    def fit_columns(self, X: Any) -> Any:
        """Return sparse `X` with exactly the model's columns: short rows are padded, extra columns ignored.

        LIBSVM files end at their highest used column, so a test file is often narrower, sometimes wider, than its
        training file; LIBLINEAR reads them the same way. A column that training never saw has no weight. Dense `X` of
        another width is an error, as nothing says which columns are missing.

        Parameters
        ----------
        X : array or sparse matrix, shape (n, any)
        """
        X, d = matrix(X), self.n_features
        if X.shape[1] == d:
            return X
        if isinstance(X, np.ndarray):
            raise DataError(
                f"X has {X.shape[1]} columns; the model was trained on {d}. Only sparse data may be padded or cut."
            )
        return X[:, :d] if X.shape[1] > d else type(X)((X.data, X.indices, X.indptr), shape=(X.shape[0], d))


class Classifier(Predictor):
    """A trained classifier: what all kinds of them are and can do.

    Two classes have one row of weights, as in scikit-learn: a score above zero means ``classes[1]``.

    Attributes
    ----------
    classes : ndarray, shape (k,)
        Labels, all different: numbers, bools or text (object arrays of text are stored as text).
    intercept : ndarray, shape (k,), or (1,) for two classes
    info : mapping
        How it was trained, in JSON-able values.
    """

    classes: np.ndarray

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the scores of every row.

        Parameters
        ----------
        X : array or sparse matrix, shape (n, d)
            Another number of columns is an error; see `fit_columns`.

        Returns
        -------
        scores : ndarray, shape (n, k), or (n,) for two classes
        """
        raise NotImplementedError

    def log_probabilities_of(self, scores: np.ndarray) -> np.ndarray:
        """Return the logarithm of every class's probability, from scores (n, k) or (n,); shape (n, k)."""
        if not self.has_probabilities:
            raise IncompatibleError(
                "this model has no probabilities: it is no softmax model, and was not calibrated. Use "
                "decision_function, or train SoftmaxRegression, or an SVM with probability='sigmoid'."
            )
        calibration = self.info.get("calibration")
        if calibration is None:
            return log_probabilities(scores)
        return calibrated_logs(scores, calibration)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithm of every class's probability, shape (n, k); a model that has none refuses."""
        return self.log_probabilities_of(self.decision_function(X))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of every class, shape (n, k); a model that has none refuses."""
        return np.asarray(np.exp(self.predict_log_proba(X)))

    def predict(self, X: Any) -> np.ndarray:
        """Return the label of the highest score for every row, shape (n,)."""
        scores = self.decision_function(X)
        codes = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        labels: np.ndarray = self.classes[codes]
        return labels


def checked_labels(classes: Any) -> np.ndarray:
    """Return labels as a plain array; refuse fewer than 2, equal ones, and what no file can hold."""
    labels = np.asarray(classes)
    if labels.ndim != 1:
        raise DataError(f"classes has shape {labels.shape}; one label per class, shape (k,), is needed.")
    if labels.dtype.kind in ("O", "T"):
        if not all(isinstance(label, str) for label in labels.tolist()):
            kinds = sorted({type(label).__name__ for label in labels.tolist()})
            raise DataError(f"labels are {', '.join(kinds)}; use numbers only, or text only.")
        labels = labels.astype(str)
    if labels.dtype.kind not in "biufUS":
        raise DataError(f"labels of type {labels.dtype} cannot be stored; use numbers or text.")
    if len(labels) < 2 or len(np.unique(labels)) != len(labels):
        raise DataError(f"a model needs at least 2 classes, all different; got {labels.tolist()}.")
    return labels


def dense(array: Any) -> np.ndarray:
    """Return an array, or a sparse matrix as one."""
    return np.asarray(array.toarray() if hasattr(array, "toarray") else array)


def floats(array: Any) -> np.ndarray:
    """Return an array of float32 or float64."""
    numbers: np.ndarray = np.asarray(array)
    if numbers.dtype.kind not in "biuf":
        raise DataError(f"weights and vectors must be real numbers; found type {numbers.dtype}.")
    return numbers if numbers.dtype in (np.float32, np.float64) else numbers.astype(np.float64)


def matrix(X: Any) -> Any:
    """Return dense X as an array of real numbers, sparse X as CSR; anything else is an error."""
    if hasattr(X, "tocsr"):
        return checked_sparse(X).tocsr()
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


def check_columns(X: Any, n_features: int) -> None:
    """Refuse another number of columns than the model was trained on."""
    if X.shape[1] != n_features:
        raise DataError(
            f"X has {X.shape[1]} columns; the model was trained on {n_features}. "
            "If X is sparse and only ends early or late, use model.fit_columns(X)."
        )


def checked_scores(scores: np.ndarray, n_classes: int) -> np.ndarray:
    """Return scores (n, k), or (n,) for two classes; refuse NaN and infinity, and name the row."""
    if not np.isfinite(scores).all():
        row = int(np.argmin(np.isfinite(scores).all(axis=1)))
        raise DataError(
            f"the scores of row {row} (from 0) are not finite: X holds NaN, infinity or huge values. "
            "Fill in or drop such values."
        )
    return scores[:, 0] if n_classes == 2 else scores


def require_arrays(arrays: Mapping[str, np.ndarray], names: Sequence[str], path: str | os.PathLike[str]) -> None:
    """Refuse an archive without the arrays of the model."""
    missing = [name for name in names if name not in arrays]
    if missing:
        raise ModelFileError(f"{os.fspath(path)!r} is damaged: arrays {', '.join(missing)} are missing.")
