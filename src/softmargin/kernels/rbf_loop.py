"""Values of the rbf kernel from inner products, in one compiled pass: NumPy makes five, with a slower exp."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import jit
from softmargin.backends.lanes import WIDTH, exp, keep, load, maximum, pointer, splat, store

__all__ = ["rbf_values"]

Array = NDArray[Any]


def rbf_values(inner: Array, scale: float, left: Array, right: Array) -> Array:
    """Turn inner products, (m, n) float64, into exp(min(scale inner_ij - left_i - right_j, 0)), in place."""
    _rbf_values(inner.reshape(-1), scale, left, right)
    return inner


@jit
def _rbf_values(inner: Array, scale: float, left: Array, right: Array) -> None:
    inner_, right_ = pointer(inner), pointer(right)
    n = right.shape[0]
    end = n // (2 * WIDTH) * 2 * WIDTH
    zero, factor = splat(0.0), splat(scale)
    last = np.zeros(WIDTH)
    last_ = pointer(last)
    for i in range(left.shape[0]):
        row, own = i * n, splat(left[i])
        for j in range(0, end, 2 * WIDTH):
            # How far below zero the exponent is: no rounding makes a value exceed 1.
            a = maximum(own + load(right_, j) - factor * load(inner_, row + j), zero)
            b = maximum(own + load(right_, j + WIDTH) - factor * load(inner_, row + j + WIDTH), zero)
            a, b = exp(zero - a), exp(zero - b)
            store(inner_, row + j, a)
            store(inner_, row + j + WIDTH, b)
        for first in range(end, n, WIDTH):
            m = min(WIDTH, n - first)
            for t in range(m):
                last_[t] = max(left[i] + right_[first + t] - scale * inner_[row + first + t], 0.0)
            store(last_, 0, exp(zero - load(last_, 0)))
            for t in range(m):
                inner_[row + first + t] = last_[t]
    keep(last)
