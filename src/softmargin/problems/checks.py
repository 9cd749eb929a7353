"""Checks of labels and of C, and the balance of dual points, that the problems share."""

import hashlib
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.core.errors import DataError
from softmargin.core.rounding import gamma

__all__ = ["balanced", "checked_codes", "checked_prices", "checked_signs", "digest_of"]

Array = NDArray[Any]


def checked_codes(y: Any, n: int, n_classes: int | None) -> tuple[Array, int]:
    """Return class codes as int32, and the number of classes; refuse other labels."""
    codes = np.asarray(y)
    narrow = np.ascontiguousarray(codes.astype(np.int32, copy=False))
    if narrow.dtype != codes.dtype and not np.array_equal(narrow, codes):
        raise DataError("y must hold class codes 0..k-1 (integers below 2^31); encode the labels first.")
    if narrow.shape != (n,):
        raise DataError(f"X has {n} samples but y has shape {narrow.shape}; they must agree.")
    if n == 0:
        raise DataError("X has no samples; a classifier needs at least one row of every class.")
    least, most = int(narrow.min()), int(narrow.max())
    k = most + 1 if n_classes is None else n_classes
    if k < 2 or least < 0 or most >= k:
        raise DataError(
            f"y holds codes {least}..{most} for {k} classes; a classifier needs at least 2 classes coded 0..k-1."
        )
    return narrow, k


def checked_signs(y: Any, gram: Any, has_bias: bool) -> Array:
    """Return labels -1 and +1 as float64, one per sample; refuse others, and two biases."""
    if has_bias and gram.bias:
        raise DataError(f"the bias here is free; the kernel matrix must have bias 0, found {gram.bias}.")
    signs = np.ascontiguousarray(y, dtype=np.float64)
    if signs.shape != (gram.n,):
        raise DataError(f"X has {gram.n} samples but y has shape {signs.shape}; they must agree.")
    if gram.n == 0 or not np.isin(signs, (-1.0, 1.0)).all():
        raise DataError("a binary SVM needs at least one sample, and labels -1 and +1 only.")
    return signs


def checked_prices(C: Any, n: int) -> Array:
    """Return C as one float64 per sample; refuse what is negative or not finite."""
    if np.shape(C) not in ((), (n,)):
        raise DataError(f"C has shape {np.shape(C)} for {n} samples; give one number, or one per sample.")
    prices = np.full(n, C, dtype=np.float64)  # writable: Numba would compile loops again for a read-only array
    if not (prices.min(initial=0.0) >= 0.0 and prices.max(initial=0.0) < np.inf):  # NaN fails both
        raise DataError("C and sample weights must be finite and not negative.")
    return prices


def balanced(alpha: Array, y: Array) -> tuple[Array, int]:
    """Return dual variables with y'a = 0 for a >= 0, and how many roundings they are away from exact ones.

    The heavier side is scaled down to the other's sum; where rounding alone separates the two, nothing changes.
    """
    # Few variables of text are not zero, and a list is summed faster than an array.
    sums = [math.fsum(side[side != 0.0].tolist()) for side in (alpha[y > 0], alpha[y < 0])]
    if abs(sums[0] - sums[1]) <= gamma(len(alpha)) * min(sums):
        return alpha, len(alpha) + 2
    shares = [min(sums) / side if side > 0.0 else 0.0 for side in sums]
    return np.asarray(alpha * np.where(y > 0, *shares)), 4


def digest_of(settings: Any, X: Any, *arrays: Array) -> str:
    """Return a hash of settings (by their repr), a matrix and some arrays."""
    digest = hashlib.sha256(repr((settings, X.shape)).encode())
    parts = [X] if isinstance(X, np.ndarray) else [X.data, X.indices, X.indptr]
    for array in (*arrays, *parts):
        digest.update(str(array.dtype).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
