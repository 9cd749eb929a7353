"""The best split of what equal samples of both labels add to w: where dual coordinate descent starts.

    keep   net = sum over y = 1 of a_i - sum over y = -1 of a_i     of each set of equal samples: w stays the same
    maximise the rest of the dual:   sum_i a_i - 1/2 sum_i a_i^2 / C_i      squared hinge
                                     sum_i a_i ,   a_i <= C_i               hinge

One variable at a time gets there in C |x|^2 passes.                                        maths: squared hinge, eq. 27
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["split_anew"]

Array = NDArray[Any]


def split_anew(alpha: Array, signs: Array, prices: Array, sets: Array, *, is_squared: bool) -> Array:
    """Return the variables (m, k) of m samples, in sets 0, 1, ... of equal ones, with the same net of each set."""
    is_up = signs > 0

    def sums(values: Array, where: Any = True) -> Array:
        found = np.zeros((int(sets.max(initial=-1)) + 1, alpha.shape[1]))
        np.add.at(found, sets, np.where(where, values, 0.0))
        return found[sets]

    if not is_squared:
        room = prices - alpha
        ups, downs = sums(room, is_up), sums(room, ~is_up)
        mine = np.where(is_up, ups, downs)
        share = np.divide(np.minimum(ups, downs), mine, out=np.zeros_like(mine), where=mine > 0.0)
        return np.asarray(alpha + room * share)
    ups, downs = sums(prices, is_up), sums(prices, ~is_up)
    # Shares a_i / C_i are equal on each side, and add up to 2 where neither side is at zero.
    mine, others, net = np.where(is_up, ups, downs), np.where(is_up, downs, ups), sums(signs * alpha)
    is_mixed, net = (mine > 0.0) & (others > 0.0), np.where(is_up, net, -net)
    both, mine = np.where(is_mixed, mine + others, 1.0), np.where(is_mixed, mine, 1.0)
    share = np.maximum(np.maximum((net + 2.0 * others) / both, net / mine), 0.0)
    return np.asarray(np.where(is_mixed, prices * share, alpha))
