"""Where a row of weights should lie: adding one number to all classes of a feature changes no probability.

    s_j = argmin over s of g(W_j - s 1)                                                            maths: softmax, eq. 3

Block descent hardly moves along that direction, as the losses curve along each entry alone; a weak penalty is then the
only force. The slope of g along it is that of its Moreau envelope, (v - prox_t(v)) / t with a tiny t: it falls with s,
so bisection finds its zero: first among the entries of a row, where g may have a kink (with l1 the zero is always
there), then between two of them.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import inline, jit
from softmargin.backends.lanes import pointer
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
    shifts = np.zeros(len(W))
    _fill_shifts(penalty, np.ascontiguousarray(W), np.sort(W, axis=1), shifts)
    return shifts


@jit
def _slope(penalty: Any, row: Array, s: float, t: float, work: Array) -> float:
    """Return minus the derivative of g(row - s 1) by s, of its envelope with t; ``work`` has room for a row."""
    row_, new, k = pointer(row), pointer(work), row.shape[0]
    for c in range(k):
        new[c] = row_[c] - s
    penalty.prox_row(new, 0, k, t)
    moved = 0.0
    for c in range(k):
        moved += row_[c] - s - new[c]
    return moved / t


@inline
def _size(row: Array) -> float:
    row_, size = pointer(row), 0.0
    for c in range(row.shape[0]):
        size = max(size, abs(row_[c]))
    return size


@inline
def _falls(penalty: Any, row: Array, size: float, work: Array) -> bool:
    """Say whether g falls where the row is shifted, one way or the other; its largest entry has this ``size``."""
    near, t = NEAR * size, max(SMOOTH * size, TINY)
    return bool(_slope(penalty, row, -near, t, work) < 0.0 or _slope(penalty, row, near, t, work) > 0.0)


@jit
def _fill_shifts(penalty: Any, W: Array, sorted_rows: Array, shifts: Array) -> None:
    """Write the best shift of every row, given its entries in order."""
    work = np.zeros(W.shape[1])
    for j in range(W.shape[0]):
        size = _size(W[j])
        if _falls(penalty, W[j], size, work):
            shifts[j] = _best_shift(penalty, W[j], sorted_rows[j], size, work)


@jit
def _best_shift(penalty: Any, row: Array, entries: Array, size: float, work: Array) -> float:
    """Return the zero of the slope: among the sorted entries, or between two of them."""
    near, t, noise = NEAR * size, max(SMOOTH * size, TINY), NOISE * row.shape[0]
    first, last = 0, row.shape[0] - 1
    while last - first > 1:
        middle = (first + last) // 2
        if _slope(penalty, row, entries[middle], t, work) > 0.0:
            first = middle
        else:
            last = middle
    low, high = entries[first], entries[last]
    for s in (low, high):
        is_kink = _slope(penalty, row, s - near, t, work) > noise
        if is_kink and _slope(penalty, row, s + near, t, work) < -noise:
            return float(s)
    # Where all between two entries is best, as with l1 and an even number of classes, neither is made zero.
    s = 0.5 * (low + high)
    if abs(_slope(penalty, row, s, t, work)) <= noise:
        return float(s)
    for _ in range(HALVINGS):
        if _slope(penalty, row, s, t, work) > 0.0:
            low = s
        else:
            high = s
        s = 0.5 * (low + high)
    return float(s)


@jit
def shifted_rows(penalty: Any, W: Array, k: int, n_columns: int, rows: Array) -> Array:
    """Return which rows a shift improves, as ``best_shifts`` measures it: True where the penalty falls."""
    work = np.zeros(n_columns)
    is_shifted = np.zeros(rows.shape[0], dtype=np.bool_)
    for b in range(rows.shape[0]):
        row = W[rows[b] * k : rows[b] * k + n_columns]
        is_shifted[b] = _falls(penalty, row, _size(row), work)
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
