"""Where a row of weights should lie: adding one number to all classes of a feature changes no probability.

    s_j = argmin over s of g(W_j - s 1)                                                            maths: softmax, eq. 3

Block descent hardly moves along that direction, as the losses curve along each entry alone; a weak penalty is then the
only force. The slope of g along it is that of its Moreau envelope, (v - prox_t(v)) / t with a tiny t: it falls with s,
so bisection finds its zero, for all rows at once: first among the entries of a row, where g may have a kink (with l1
the zero is always there), then between two of them.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import jit
from softmargin.backends.lanes import keep, pointer
from softmargin.core.pieces import Penalty

__all__ = ["best_shifts", "centre", "shifted_rows"]

Array = NDArray[Any]
SMOOTH = 1e-10  # t, as a share of the largest entry of a row
NEAR = 1e-7  # a shift so near an entry makes that entry zero
NOISE = np.finfo(float).eps / SMOOTH  # rounding of the slope of one entry
HALVINGS = 45  # bisection to the last digits
TINY = 1e-300  # t of a row that is zero


def best_shifts(penalty: Penalty, W: Array) -> Array:
    """Return what to subtract from every row so that a convex g falls most; shape (d,)."""
    size = np.abs(W).max(axis=1, initial=0.0)
    shifts = np.zeros(len(W))
    rows = np.flatnonzero(size > 0.0)

    def slope(rows: Array, s: Array) -> Array:
        V = W[rows] - s[:, None]
        t = SMOOTH * size[rows, None]
        return np.asarray(((V - penalty.prox(V, t)) / t).sum(axis=1))

    around, noise = NEAR * size, NOISE * W.shape[1]
    rows = rows[(slope(rows, -around[rows]) < 0.0) | (slope(rows, around[rows]) > 0.0)]
    entries, at = np.sort(W[rows], axis=1), np.arange(len(rows))
    first, last = np.zeros(len(rows), dtype=np.intp), np.full(len(rows), W.shape[1] - 1)
    while (last - first).max(initial=0) > 1:
        middle = (first + last) // 2
        is_below = slope(rows, entries[at, middle]) > 0.0
        first, last = np.where(is_below, middle, first), np.where(is_below, last, middle)
    low, high = entries[at, first], entries[at, last]
    for end in (0, 1):
        s = (low, high)[end]
        found = (slope(rows, s - around[rows]) > noise) & (slope(rows, s + around[rows]) < -noise)
        shifts[rows[found]] = s[found]
        rows, low, high = rows[~found], low[~found], high[~found]
    # Where all between two entries is best, as with l1 and an even number of classes, neither is made zero.
    s = 0.5 * (low + high)
    is_flat = np.abs(slope(rows, s)) <= noise
    shifts[rows[is_flat]] = s[is_flat]
    rows, low, high = rows[~is_flat], low[~is_flat], high[~is_flat]
    for _ in range(HALVINGS if len(rows) else 0):
        s = 0.5 * (low + high)
        is_below = slope(rows, s) > 0.0
        low, high = np.where(is_below, s, low), np.where(is_below, high, s)
    shifts[rows] = 0.5 * (low + high)
    return shifts


@jit
def shifted_rows(penalty: Any, W: Array, k: int, n_columns: int, rows: Array) -> Array:
    """Return which rows a shift improves, as ``best_shifts`` measures it: True where the penalty falls."""
    W_, work = pointer(W), np.zeros(n_columns)
    new = pointer(work)
    is_shifted = np.zeros(rows.shape[0], dtype=np.bool_)
    for b in range(rows.shape[0]):
        first = rows[b] * k
        size = 0.0
        for c in range(n_columns):
            size = max(size, abs(W_[first + c]))
        for shift in (-NEAR * size, NEAR * size):
            for c in range(n_columns):
                new[c] = W_[first + c] - shift
            penalty.prox_row(new, 0, n_columns, max(SMOOTH * size, TINY))
            slope = 0.0
            for c in range(n_columns):
                slope += W_[first + c] - shift - new[c]
            is_shifted[b] = is_shifted[b] or shift * slope > 0.0
    keep(work)
    return is_shifted


def centre(penalty: Penalty, W: Array, k: int, n_columns: int, rows: Array) -> float:
    """Shift rows of a flat W, ``k`` numbers each, to where a convex g is least; return by how much g falls."""
    rows = rows[shifted_rows(penalty, W, k, n_columns, rows)]
    if len(rows) == 0:
        return 0.0
    matrix = W.reshape(-1, k)[:, :n_columns]
    old = matrix[rows]
    new = old - best_shifts(penalty, old)[:, None]
    gain = float(penalty.value(old) - penalty.value(new))
    if not gain > 0.0:
        return 0.0
    matrix[rows] = new
    return gain
