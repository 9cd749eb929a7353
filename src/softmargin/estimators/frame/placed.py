"""Estimators whose X lies on a device: checks of such data, rows as the posing of sums sees them, scores there.

X of PyTorch, CuPy, JAX or array-api-strict is computed where it lies, and the fitted arrays lie there too. Labels come
back in the library of y, as scikit-learn's array API support has it. Models (``model()``) hold NumPy arrays.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import column_or_1d, validate_data

from softmargin.backends.arrays import Home, home_of, is_foreign, moved, same_home, to_numpy
from softmargin.backends.sparse_arrays import csr_home, csr_like, is_sparse, parts_of
from softmargin.core.deadline import check_time
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.core.sparse import checked_sparse
from softmargin.estimators.frame.data import X_KINDS, Data, checked_weights, encoded
from softmargin.estimators.posing.fit import LARGEST_SQUARES
from softmargin.losses import on_device
from softmargin.losses.joint import JOINT
from softmargin.matrices.device_matrix import DeviceMatrix, device_matrix
from softmargin.matrices.operator import row_slices
from softmargin.models import probabilities
from softmargin.problems.blocks import LocalBlocks
from softmargin.problems.device_rows import device_block

__all__ = [
    "PlacedRows",
    "checked_matrix",
    "common_home",
    "exponentials",
    "labels_of_scores",
    "log_probabilities",
    "note_features",
    "placed",
    "placed_data",
    "placed_scores",
]

Array = NDArray[Any]
_FITTED = ("coef_", "intercept_", "coef_factors_")  # arrays of a linear model, which lie where X does


def common_home(X: Any, *others: tuple[str, Any]) -> Home:
    """Return where X, an array or a CSR matrix, and the others lie."""
    if is_sparse(X):
        csr_home(X)
        X = parts_of(X)[2]
    return same_home(X, *others)


def checked_matrix(X: Any, home: Home) -> Any:
    """Return X as a matrix of float32 or float64; refuse other types, NaN, infinity and huge values."""
    xp = home.xp
    if len(X.shape) != 2 or 0 in X.shape:
        raise DataError(f"X has shape {tuple(X.shape)}; a matrix (n, d) with at least one row and column is needed.")
    values = parts_of(X)[2] if is_sparse(X) else X
    if values.dtype not in (xp.float32, xp.float64):
        if not xp.isdtype(values.dtype, ("integral", "bool")):
            raise DataError(f"X has type {values.dtype}; float32 and float64 are computed with. Convert X first.")
        if is_sparse(X):
            indptr, indices, values = parts_of(X)
            X = csr_like(X, (indptr, indices, home.wide(values)), tuple(X.shape))
        else:
            X = home.wide(X)
    matrix = device_matrix(X)
    lengths = (tile.square_lengths() for _, tile in _tiles(matrix))
    with np.errstate(over="ignore", invalid="ignore"):
        square = float(sum(float(xp.sum(each)) for each in lengths))
    if not square <= LARGEST_SQUARES[np.float32 if matrix.is_narrow else np.float64]:
        if not matrix.is_finite():
            raise DataError("X holds NaN or infinity. Fill in or drop such values.")
        raise DataError(f"X holds values whose squares sum to {square:.3g}. Scale the features to values near 1.")
    return X


def _tiles(matrix: DeviceMatrix, width: int = 1) -> Any:
    """Yield slices of rows, and these rows."""
    per_row = max(1, width, matrix.nnz // max(1, matrix.n))
    for rows in row_slices(matrix.n, per_row, numbers=matrix.tile_numbers):
        check_time()
        yield rows, matrix[rows]


def note_features(estimator: Any, n_features: int) -> None:
    """Keep how many features a fit has seen; arrays have no names for them."""
    estimator.n_features_in_ = n_features
    estimator.__dict__.pop("feature_names_in_", None)


class PlacedRows(NamedTuple):
    """Checked rows on a device, as the posing of sums sees them."""

    matrix: DeviceMatrix
    y: Array  # (n,) codes or numbers; (n, k) numbers, or 0 and 1
    weights: Array  # (n,)
    labels: Array  # (k,) sorted classes; of a regressor nothing
    n_outputs: int = 0  # columns of y; none where it has one value per row

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and features."""
        return self.matrix.shape

    @property
    def n_features(self) -> int:
        """How many features."""
        return self.matrix.d

    @property
    def mass(self) -> Array:
        """The weight of every class; (k,)."""
        if self.n_outputs:
            return np.full(len(self.labels), self.weights.sum())
        return np.bincount(self.y, weights=self.weights, minlength=len(self.labels))

    @property
    def sums(self) -> Array:
        """The sum of the weights; (1,)."""
        return np.array([self.weights.sum()])

    def blocks(self, prices: Array, features: Any = None, width: int = 0) -> LocalBlocks:
        """Return one block: the price of every class, or of all rows, times a row's weight."""
        own = prices[self.y] if len(self.labels) and not self.n_outputs else prices[0]
        block: Any = device_block(self.matrix, self.y, own * self.weights)  # it has what passes ask of a Block
        return LocalBlocks([block])


def placed_data(estimator: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Data, PlacedRows]:
    """Check data on a device, or check them here and move them there; set what a fit says of its features."""
    if getattr(estimator, "probability", None) not in (None, False):
        raise IncompatibleError(
            "probabilities are fitted to held-out scores in the memory of the processor; use probability=None, or "
            "pass X as a NumPy array."
        )
    names = None
    if not is_foreign(X):
        X, y, sample_weight = estimator._checked(X, to_numpy(y), to_numpy(sample_weight))[:3]
        X, names = moved(X, str(estimator.device)), vars(estimator).get("feature_names_in_")
    home = common_home(X, ("y", y), ("sample_weight", sample_weight))
    X = checked_matrix(X, home)
    values, classes, n_outputs = _classes(estimator, y) if is_classifier(estimator) else _numbers(y)
    if len(values) != X.shape[0]:
        raise DataError(f"X has {X.shape[0]} samples, y has {len(values)}; they must agree.")
    weights = checked_weights(to_numpy(sample_weight), np.empty((len(values), 0)))
    weights = np.ones(len(values)) if weights is None else weights
    if not (np.isfinite(weights).all() and (weights >= 0.0).all()):
        raise DataError("sample_weight must be finite and not negative; found a NaN, infinite or negative weight.")
    note_features(estimator, int(X.shape[1]))
    if names is not None:
        estimator.feature_names_in_ = names
    for name in ("support_", "dual_coef_"):  # only a fit in the memory of the processor has them
        estimator.__dict__.pop(name, None)
    rows = PlacedRows(device_matrix(X), values, weights, classes, n_outputs)
    return Data(X, y, sample_weight, classes if len(classes) else None), rows


def _classes(estimator: Any, y: Any) -> tuple[Array, Array, int]:
    """Return codes (n,) or an indicator (n, k) of labels, the classes, and the columns of the indicator."""
    labels = np.asarray(to_numpy(y))
    if labels.ndim == 2 and labels.shape[1] > 1 and type_of_target(labels) == "multilabel-indicator":
        loss, class_weight = getattr(estimator, "loss", None), getattr(estimator, "class_weight", None)
        if not estimator.__sklearn_tags__().classifier_tags.multi_label or loss in JOINT or class_weight is not None:
            raise DataError(
                f"y has {labels.shape[1]} labels per sample; a ball with an entrywise loss takes them, without "
                "class_weight. Else pass one class per sample."
            )
        return (labels > 0).astype(np.int64), np.arange(labels.shape[1]), labels.shape[1]
    classes, codes = encoded(column_or_1d(labels, warn=True))
    return codes, classes, 0


def _numbers(y: Any) -> tuple[Array, Array, int]:
    """Return the targets of a regressor, and their columns."""
    values = np.asarray(to_numpy(y), dtype=np.float64)
    if values.ndim not in (1, 2) or not np.isfinite(values).all():
        raise DataError(
            "y must be (n,) or (n, k) without NaN or infinity where X lies on a device; pass NumPy arrays where "
            "targets were not observed."
        )
    return values, np.empty(0), 0 if values.ndim == 1 else values.shape[1]


def placed(attributes: dict[str, Any], X: Any, y: Any) -> dict[str, Any]:
    """Return fitted attributes where X lies; the classes go with y."""
    home = common_home(X)

    def there(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(there(each) for each in value)
        return home.array(value) if isinstance(value, np.ndarray) else value

    own = {name: there(value) if name in _FITTED else value for name, value in attributes.items()}
    if "classes_" in own and is_foreign(y):
        own["classes_"] = home.array(own["classes_"])
    return own


def placed_scores(estimator: Any, X: Any, factors: tuple[Any, ...]) -> Any:
    """Return X times some matrices on a device + intercept_, (n, k), there, one tile at a time."""
    home = home_of(factors[0])
    if not is_foreign(X):
        if estimator.device is None:
            raise DataError(
                f"the model lies on {home.device}, X is in the memory of the processor; pass X where the model is, or "
                "predict with model(), which holds NumPy arrays."
            )
        X = moved(validate_data(estimator, checked_sparse(X), reset=False, **X_KINDS), str(estimator.device))
    common_home(X, ("the model", factors[0]))
    X = checked_matrix(X, home)
    if X.shape[1] != estimator.n_features_in_:
        raise DataError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} expects {estimator.n_features_in_}."
        )
    parts = []
    for _, tile in _tiles(device_matrix(X), max(int(each.shape[1]) for each in factors)):
        scores = tile.times(factors[0])
        for each in factors[1:]:
            scores = home.xp.matmul(scores, each)
        parts.append(scores + estimator.intercept_)
    return home.xp.concat(parts, axis=0)


def labels_of_scores(scores: Any, classes: Any) -> Any:
    """Return the label with the highest score of every row, in the library of the classes."""
    xp = home_of(scores).xp
    codes = xp.astype(scores > 0.0, xp.int64) if len(scores.shape) == 1 else xp.argmax(scores, axis=1)
    return xp.take(classes, codes, axis=0) if is_foreign(classes) else classes[to_numpy(codes)]


def log_probabilities(scores: Any) -> Any:
    """Return the logarithms of the softmax of scores, where they lie."""
    if not is_foreign(scores):
        return probabilities.log_probabilities(scores)
    return on_device.log_probabilities(home_of(scores).xp, scores)


def exponentials(logs: Any) -> Any:
    """Return exp, where the numbers lie."""
    return home_of(logs).xp.exp(logs) if is_foreign(logs) else np.exp(logs)
