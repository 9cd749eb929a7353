"""Which rows of a kernel problem are worth a round of their own (maths: kernel SVM, section 4)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.core.protocols import KernelBlockProblem
from softmargin.losses.multiclass_hinge import margins
from softmargin.solvers.kernel_svm._dual_rows import is_between

__all__ = ["SET_TARGET", "choose_rows", "with_neighbours"]

Array = NDArray[Any]

ACTIVE_SHARE = 0.01  # a row counts when its gap exceeds this share of the mean gap
SET_TARGET = 0.1  # a round brings the gap of its rows down to this share; maths: kernel SVM, section 8 has 0.2
NEAR = 0.2  # a margin this far from being violated may well be violated after a deep round


def choose_rows(
    problem: KernelBlockProblem, alpha: Array, gaps: Array, order: Array, most: int, *, by_gap: bool = True
) -> Array:
    """Return the rows of ``order`` between corners and those with a gap that counts, sorted.

    Where there are too many, rows between corners may be half of those that stay. The largest gaps stay; unless asked
    for ``by_gap``, of the rows at corners the first ones: where few will move in the end, the largest gaps are often
    those of neighbours. What is left out carries at most a hundredth of the gap, unless more than ``most`` rows count.
    """
    mine = gaps[order]
    is_inside = is_between(problem.multiclass, alpha[order], problem.y[order], problem.C[order])
    between = order[is_inside]
    others = order[~is_inside & (mine > ACTIVE_SHARE * mine.sum() / max(len(order), 1))]
    if len(between) + len(others) > most:
        between = _by_gap(between, gaps)[: max(most // 2, most - len(others))]
        others = _by_gap(others, gaps) if by_gap else others
    return np.sort(np.concatenate([between, others])[:most])


def _by_gap(rows: Array, gaps: Array) -> Array:
    return np.asarray(rows[np.argsort(-gaps[rows], kind="stable")])


def with_neighbours(problem: KernelBlockProblem, scores: Array, order: Array, rows: Array, most: int) -> Array:
    """Add the rows of ``order`` whose margins are nearly violated, the nearest first, while there is room; sorted."""
    rest = np.setdiff1d(order, rows, assume_unique=True)
    y = problem.y[rest]
    h = margins(scores[rest], y)
    h[np.arange(len(y)), y] = -np.inf
    largest = h.max(axis=1)
    nearest = rest[np.argsort(-largest, kind="stable")][: max(most - len(rows), 0)]
    near = nearest[: int((largest > -NEAR).sum())]
    return np.sort(np.concatenate([rows, near]))
