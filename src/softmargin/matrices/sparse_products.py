"""Products of sparse rows with an array of a few columns, compiled: sums over rows that lie far apart in memory.

    scores = X W        (n, k)      the rows of W are asked for some entries ahead of their use
    sums  += X' U       (d, k)      columns of U that are all zero in a row cost nothing, as most dual variables are

Arrays are flat, row-major, float64, and need no padding: k is any number of columns.
"""

from typing import Any

from numpy.typing import NDArray

from softmargin.backends.jit import inline, jit
from softmargin.backends.lanes import WIDTH, any_nonzero, load, pointer, splat, store
from softmargin.matrices.rows import add_row_times

__all__ = ["add_adjoint", "fill_scores"]

Array = NDArray[Any]


@jit
def fill_scores(rows: Any, W: Array, k: int, scores: Array) -> None:
    """Write X W to ``scores``; the constant feature of the rows is left out."""
    rows_, W_, scores_ = rows.bare(), pointer(W), pointer(scores)
    zero, last = splat(0.0), k - WIDTH
    for i in range(scores.shape[0] // k):
        begin, end = rows_.entries(i)
        if k < WIDTH:
            for c in range(k):
                scores_[i * k + c] = rows_.product(i, W_, k, c)
        else:
            for first in range(0, k, 4 * WIDTH):
                # Up to four tiles stay in registers during the loop over features; a missing one repeats the last.
                o0, o1 = min(first, last), min(first + WIDTH, last)
                o2, o3 = min(first + 2 * WIDTH, last), min(first + 3 * WIDTH, last)
                if o0 == o3:
                    a0 = zero
                    for p in range(begin, end):
                        a0 = a0 + splat(rows_.value(p)) * load(W_, rows_.column(i, p) * k + o0)
                    store(scores_, i * k + o0, a0)
                elif o1 == o3:
                    a0, a1 = zero, zero
                    for p in range(begin, end):
                        value, row = splat(rows_.value(p)), rows_.column(i, p) * k
                        a0, a1 = a0 + value * load(W_, row + o0), a1 + value * load(W_, row + o1)
                    store(scores_, i * k + o0, a0)
                    store(scores_, i * k + o1, a1)
                else:
                    tiles = (o0, o1, o2, o3)
                    a0, a1, a2, a3 = add_row_times(rows_, i, W_, k, tiles, (zero, zero, zero, zero))
                    store(scores_, i * k + o0, a0)
                    store(scores_, i * k + o1, a1)
                    store(scores_, i * k + o2, a2)
                    store(scores_, i * k + o3, a3)


@inline
def _add_tile(rows: Any, i: int, u: Any, k: int, o: int, sums: Any) -> None:
    """Add x_i u' to one tile of the sums."""
    begin, end = rows.entries(i)
    for p in range(begin, end):
        q = rows.column(i, p) * k + o
        store(sums, q, load(sums, q) + splat(rows.value(p)) * u)


@jit
def add_adjoint(rows: Any, U: Array, k: int, sums: Array) -> None:
    """Add X' U to ``sums``; the constant feature of the rows is left out."""
    rows_, U_, sums_ = rows.bare(), pointer(U), pointer(sums)
    for i in range(U.shape[0] // k):
        begin, end = rows_.entries(i)
        o, own = 0, i * k
        while o + 4 * WIDTH <= k:
            o0, o1, o2, o3 = o, o + WIDTH, o + 2 * WIDTH, o + 3 * WIDTH
            u0, u1, u2, u3 = load(U_, own + o0), load(U_, own + o1), load(U_, own + o2), load(U_, own + o3)
            if any_nonzero(u0) or any_nonzero(u1) or any_nonzero(u2) or any_nonzero(u3):
                for p in range(begin, end):
                    rows_.fetch_ahead(i, p, sums_, k, (o0, o1, o2, o3))
                    value, row = splat(rows_.value(p)), rows_.column(i, p) * k
                    store(sums_, row + o0, load(sums_, row + o0) + value * u0)
                    store(sums_, row + o1, load(sums_, row + o1) + value * u1)
                    store(sums_, row + o2, load(sums_, row + o2) + value * u2)
                    store(sums_, row + o3, load(sums_, row + o3) + value * u3)
            o += 4 * WIDTH
        while o + WIDTH <= k:
            u0 = load(U_, own + o)
            if any_nonzero(u0):
                _add_tile(rows_, i, u0, k, o, sums_)
            o += WIDTH
        while o < k:
            u = U_[own + o]
            if u != 0.0:
                for p in range(begin, end):
                    sums_[rows_.column(i, p) * k + o] += u * rows_.value(p)
            o += 1
