"""Which rows of a kernel problem are worth a round of their own (spec 2.6)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.solvers.parts.dual_rows import is_between

__all__ = ["ACTIVE_SHARE", "FIRST_SET", "SET_TARGET", "choose_rows"]

Array = NDArray[Any]

ACTIVE_SHARE = 0.01  # a row counts when its gap exceeds this share of the mean gap
SET_TARGET = 0.1  # a round brings the gap of its rows down to this share; spec 2.6 has 0.2
FIRST_SET = 4000  # rows in the first working set; each round may double it


def choose_rows(problem: Any, alpha: Array, gaps: Array, order: Array, most: int) -> Array:
    """Return the rows of ``order`` between corners and those with a gap that counts, in that order.

    Where there are too many, the largest gaps stay. What is left out carries at most a hundredth of the gap, unless
    more than ``most`` rows count.
    """
    mine = gaps[order]
    counts = mine > ACTIVE_SHARE * mine.sum() / max(len(order), 1)
    counts |= is_between(problem.multiclass, alpha[order], problem.y[order], problem.C[order])
    rows, mine = order[counts], mine[counts]
    if len(rows) > most:
        rows = rows[np.sort(np.argsort(-mine, kind="stable")[:most])]
    return rows
