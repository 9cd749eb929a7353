"""What the weights of samples and classes mean: a weight of 2 is the sample given twice. Never imports scikit-learn."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.core.errors import DataError
from softmargin.kernels import find_gamma
from softmargin.matrices.operator import row_blocks

__all__ = ["gamma_of", "loss_prices"]

Array = NDArray[Any]


def loss_prices(
    codes: Array, classes: Array, C: float, class_weight: Any = None, sample_weight: Array | None = None
) -> Array:
    """Return C_i = C * class_weight[y_i] * sample_weight_i; shape (n,).

    ``class_weight`` is None, "balanced" (n / (k * count)), or a mapping from label to weight.
    """
    if not (isinstance(C, int | float | np.number) and math.isfinite(C) and C > 0):
        raise DataError(f"C must be a finite number > 0; found {C!r}. Small C regularises more.")
    weights = np.ones(len(codes)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise DataError("sample_weight must be finite and not negative; found a NaN, infinite or negative weight.")
    if not weights.any():
        raise DataError("sample_weight is zero for every sample; at least one must be positive.")
    return C * weights * _class_weights(classes, codes, weights, class_weight)[codes]


def _class_weights(classes: Array, codes: Array, sample_weight: Array, class_weight: Any) -> Array:
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise DataError(f"class_weight={class_weight!r} is unknown; use None, 'balanced' or a mapping.")
        mass = np.bincount(codes, weights=sample_weight, minlength=len(classes))
        return np.where(mass > 0, mass.sum() / (len(classes) * np.where(mass > 0, mass, 1.0)), 0.0)
    if not isinstance(class_weight, Mapping):
        raise DataError(
            f"class_weight must be None, 'balanced' or a mapping from label to weight; found {class_weight!r}."
        )
    labels = classes.tolist()
    unknown = [label for label in class_weight if label not in labels]
    if unknown:
        raise DataError(f"class_weight names {unknown}, which are not among the labels {labels[:10]}.")
    return np.array([float(class_weight.get(label, 1.0)) for label in labels])


def gamma_of(gamma: Any, X: Any, sample_weight: Array | None = None) -> float:
    """Return gamma as a number: that of ``find_gamma``, where a weight of 2 counts as the sample given twice."""
    if sample_weight is None or gamma != "scale":
        return find_gamma(gamma, X)
    total = float(sample_weight.sum()) * X.shape[1]
    mean = sum(float(weights @ entries) for entries, weights in _weighted_entries(X, sample_weight)) / total
    spread, mass = 0.0, 0.0
    for entries, weights in _weighted_entries(X, sample_weight):
        spread += float(weights @ (entries - mean) ** 2)
        mass += float(weights.sum())
    variance = (spread + (total - mass) * mean**2) / total
    return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0


def _weighted_entries(X: Any, sample_weight: Array) -> Iterator[tuple[Array, Array]]:
    """Yield the stored numbers of X, each with the weight of its row, a block of rows at a time."""
    for rows, block in row_blocks(X, 1):
        if isinstance(block, np.ndarray):
            yield block.ravel(), np.repeat(sample_weight[rows], block.shape[1])
        else:
            yield block.data, np.repeat(sample_weight[rows], np.diff(block.indptr))
