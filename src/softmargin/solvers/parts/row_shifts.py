"""Where a row of weights should lie: adding one number to all classes of a feature changes no probability.

    s_j = argmin over s of g(W_j - s 1)                                                                  spec 3.1

Block descent hardly moves along that direction, as each entry alone bends the losses; a weak penalty is then the only
force. The slope of g along it is that of its Moreau envelope, (v - prox_t(v)) / t with a tiny t: it falls with s, so
bisection finds its zero, for all rows at once.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["best_shifts"]

Array = NDArray[Any]
SMOOTH = 1e-10  # t, as a share of the largest entry of a row
NEAR = 1e-7  # a shift so near an entry makes that entry zero
HALVINGS = 45


def best_shifts(penalty: Any, W: Array) -> Array:
    """Return what to subtract from every row so that a convex g falls most; shape (d,)."""
    size = np.abs(W).max(axis=1, initial=0.0)
    shifts = np.zeros(len(W))
    rows = np.flatnonzero(size > 0.0)

    def pull(s: Array) -> Array:
        V = W[rows] - s[:, None]
        t = SMOOTH * size[rows, None]
        return ((V - penalty.prox(V, t)) / t).sum(axis=1)

    around = NEAR * size[rows]
    rows = rows[(pull(-around) < 0.0) | (pull(around) > 0.0)]
    low, high = W[rows].min(axis=1), W[rows].max(axis=1)
    for _ in range(HALVINGS if len(rows) else 0):
        middle = 0.5 * (low + high)
        is_below = pull(middle) > 0.0
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    found = 0.5 * (low + high)
    off = np.abs(W[rows] - found[:, None])
    nearest = off.argmin(axis=1)
    at = np.arange(len(rows))
    shifts[rows] = np.where(off[at, nearest] <= NEAR * size[rows], W[rows, nearest], found)
    return shifts
