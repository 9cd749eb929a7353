"""Data of a fit: what needs no conversion, labels as codes, weights as float64."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight

from softmargin.core.errors import DataError
from softmargin.core.labels import naming_bad_labels
from softmargin.core.parameters import as_numbers, shown
from softmargin.estimators.posing.fit import LARGEST_SQUARES, sample_weights, sum_of_squares
from softmargin.matrices.forms import canonical
from softmargin.matrices.row_store import submatrix

__all__ = [
    "FIT_KINDS",
    "X_KINDS",
    "Data",
    "checked_labels",
    "checked_weights",
    "encoded",
    "is_ready",
    "ready_labels",
]

Array = NDArray[Any]
X_KINDS: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
FIT_KINDS: dict[str, Any] = {**X_KINDS, "order": "C", "accept_large_sparse": True}
_EXACT = 2.0**53  # below it, a float64 without a fraction is one whole number and no other


class Data(NamedTuple):
    """Checked data."""

    X: Any
    y: Array
    sample_weight: Array | None
    classes: Any = None  # (k,) sorted labels of a classifier
    codes: Any = None  # (n,) position of every label among them, where each sample has one

    def take(self, rows: Array, *, is_pairwise: bool = False) -> "Data":
        """Return some of the samples; a kernel matrix has them in its columns, too."""
        X = self.held_out(rows, rows, is_pairwise=True) if is_pairwise else canonical(self.X[rows])
        weight = None if self.sample_weight is None else self.sample_weight[rows]
        return Data(X, self.y[rows], weight, self.classes, None if self.codes is None else self.codes[rows])

    def held_out(self, train: Array, test: Array, *, is_pairwise: bool = False) -> Any:
        """Return the rows of X for a model of the samples ``train`` to predict."""
        if not is_pairwise:
            return self.X[test]
        return submatrix(self.X, test, train) if isinstance(self.X, np.ndarray) else canonical(self.X[test][:, train])


def is_ready(X: Any) -> bool:
    """Say whether X needs no conversion: a C-ordered array or CSR matrix, not empty, of modest float32 or float64.

    Nothing is refused here: scikit-learn's checks have the last word on what is not ready.
    """
    values: Any = X
    if type(X) is np.ndarray:
        is_plain = X.flags.c_contiguous
    else:
        is_plain = issparse(X) and X.format == "csr"
        values = X.data if is_plain else None
    if not is_plain or X.ndim != 2 or 0 in X.shape or X.dtype not in (np.float64, np.float32):
        return False
    return bool(sum_of_squares(values) <= LARGEST_SQUARES[X.dtype.type])


def ready_labels(y: Any) -> tuple[Array, Array] | None:
    """Return the sorted classes of y and the code of every label; None where y may not be labels of a classifier.

    Labels are whole numbers or text, of at least two classes. More than two that are many for so few samples may be
    meant as numbers.
    """
    if type(y) is not np.ndarray or y.ndim != 1 or y.dtype.kind not in "biufU":
        return None
    labels = y
    if y.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            labels = y.astype(np.int64)
        if not (labels == y).all():
            return None
    classes, codes = _sorted_and_coded(labels)
    if y.dtype.kind == "f" and not (np.abs(classes) < _EXACT).all():
        return None
    is_fine = len(classes) == 2 or 2 < len(classes) <= 0.5 * len(y)
    return (classes.astype(y.dtype, copy=False), codes) if is_fine else None


def _sorted_and_coded(y: Array) -> tuple[Array, Array]:
    """Return the sorted labels that y has, and the code of every one; whole numbers near each other are counted."""
    if y.dtype.kind == "i" and len(y):
        least, most = int(y.min()), int(y.max())
        if most - least <= len(y):
            places = np.subtract(y, least, dtype=np.int64).astype(np.int32)
            is_there = np.bincount(places) > 0
            if is_there.all():
                return np.arange(least, most + 1), places
            return np.flatnonzero(is_there) + least, (np.cumsum(is_there, dtype=np.int32) - np.int32(1))[places]
    classes, codes = np.unique(y, return_inverse=True)
    return classes, codes


def encoded(y: Array) -> tuple[Array, Array]:
    """Return the classes of y, at least two, and the code of every label."""
    with naming_bad_labels(y):
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise DataError(
            f"y has 1 class ({classes.tolist()[0]!r}) in {len(y)} samples; a classifier needs at least 2 classes."
        )
    return classes, codes


def checked_labels(classes: Any) -> Array:
    """Return the sorted labels of at least two classes that a user names: a list, a range, an array or a column."""
    if isinstance(classes, range) or hasattr(classes, "__array__"):
        classes = np.asarray(classes)
    values = as_numbers(classes)  # None where the labels are text
    is_list = isinstance(classes, list | tuple | np.ndarray) and (values is None or bool(np.isfinite(values).all()))
    kind = type_of_target(classes, input_name="classes") if is_list else ""
    if kind not in ("binary", "multiclass") or len(np.unique(classes)) < 2:
        raise DataError(f"classes must hold at least 2 classes, a list of labels; found {shown(classes)}.")
    return np.unique(classes)


def checked_weights(sample_weight: Any, X: Any) -> Array | None:
    """Return weights of the samples as float64, one per row of X; None where none are given."""
    return None if sample_weight is None else _check_sample_weight(sample_weights(sample_weight), X, dtype=np.float64)
