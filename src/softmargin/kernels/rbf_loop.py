"""Values of the rbf kernel from inner products, in one compiled pass: NumPy makes five, with a slower exp."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import jit
from softmargin.backends.lanes import WIDTH, exp, keep, load, maximum, pointer, splat, store

__all__ = ["place_rbf_values", "rbf_values"]

Array = NDArray[Any]


def rbf_values(inner: Array, scale: float, left: Array, right: Array) -> Array:
    """Turn inner products, (m, n) float64, into exp(min(scale inner_ij - left_i - right_j, 0)), in place."""
    place_rbf_values(inner, scale, left, right, 0.0, inner, np.arange(len(inner)), 0)
    return inner


def place_rbf_values(
    inner: Array, scale: float, left: Array, right: Array, shift: float, out: Array, rows: Array, first: int
) -> None:
    """Set out[rows, first : first + n] to these values plus ``shift``: no pass copies them to their place.

    inner and out are float64 and contiguous; rows is (m,).
    """
    _place(inner.reshape(-1), scale, left, right, shift, out.reshape(-1), out.shape[1], rows, first)


@jit
def _place(
    inner: Array,
    scale: float,
    left: Array,
    right: Array,
    shift: float,
    out: Array,
    stride: int,
    rows: Array,
    first: int,
) -> None:
    inner_, right_, out_ = pointer(inner), pointer(right), pointer(out)
    n = right.shape[0]
    end = n // (2 * WIDTH) * 2 * WIDTH
    zero, factor, more = splat(0.0), splat(scale), splat(shift)
    last = np.zeros(WIDTH)
    last_ = pointer(last)
    for i in range(left.shape[0]):
        row, own, to = i * n, splat(left[i]), rows[i] * stride + first
        for j in range(0, end, 2 * WIDTH):
            # How far below zero the exponent is: no rounding makes a value exceed 1.
            a = maximum(own + load(right_, j) - factor * load(inner_, row + j), zero)
            b = maximum(own + load(right_, j + WIDTH) - factor * load(inner_, row + j + WIDTH), zero)
            a, b = exp(zero - a), exp(zero - b)
            store(out_, to + j, a + more)
            store(out_, to + j + WIDTH, b + more)
        for j in range(end, n, WIDTH):
            m = min(WIDTH, n - j)
            for t in range(m):
                last_[t] = max(left[i] + right_[j + t] - scale * inner_[row + j + t], 0.0)
            store(last_, 0, exp(zero - load(last_, 0)))
            for t in range(m):
                out_[to + j + t] = last_[t] + shift
    keep(last)
