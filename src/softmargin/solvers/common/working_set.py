"""Working sets: the few variables that a solver optimises for a while before it returns to all of them.

Every scheme takes what already moves freely and what violates its optimality condition most. They differ because the
cost of a variable does:

    solver                          the set                                    why
    linear_svm.block_descent        rows with a gap above a share of the       each visit yields the gap of its row: no
                                    mean; idle rows leave early                sort, no limit, a compiled partition
    softmax.dual_descent            the same, with a far larger share          every row keeps a part of the gap
    kernel_svm.block_descent,       rows between corners, and rows with a      the square of K over the set has to fit
    kernel_svm.projected_gradient,  gap above a share: ``choose_rows``         into memory
    kernel_svm.splitting
    kernel_svm.pair_descent         the same, and rows near the margin         a row of K costs more than its descent
    squared_hinge.smo               worst violators, in turn those that rise   with a free bias one variable rises as
                                    and those that fall; free variables        another falls: a set needs both
    softmax.prox_newton             blocks that violate most, up to twice the  a model of the whole set is minimised, so
                                    nonzero ones: ``largest``                  its size is limited by the support
    ball.working_set                features in use and those of the largest   the same, for the columns of X
                                    gradients: ``largest``
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["by_score", "choose_rows", "largest"]

Array = NDArray[Any]


def by_score(items: Array, scores: Array) -> Array:
    """Return the items with the largest scores[item] first, equal ones in the order given."""
    return items[np.argsort(-scores[items], kind="stable")]


def largest(scores: Array, most: int) -> Array:
    """Return the positions of the ``most`` largest scores, or of all, sorted; give inf to those that must stay."""
    if most >= len(scores):
        return np.arange(len(scores))
    return np.sort(np.argpartition(-scores, most - 1)[:most])


def choose_rows(
    order: Array, is_free: Array, gaps: Array, most: int, *, share: float, sort_others: bool = True
) -> Array:
    """Return the free rows of ``order`` and those whose gap exceeds this share of the mean, at most ``most``, sorted.

    is_free[t] says whether the row order[t] is away from its bounds; gaps has an entry for every row, chosen from or
    not. Where there are too many, free rows may be half of those that stay: the ones with the largest gaps. Of the
    others those with the largest gaps stay too, or the first of ``order`` where ``sort_others`` is False.
    """
    mine = gaps[order]
    free = order[is_free]
    others = order[~is_free & (mine > share * mine.sum() / max(len(order), 1))]
    if len(free) + len(others) > most:
        free = by_score(free, gaps)[: max(most // 2, most - len(others))]
        others = by_score(others, gaps) if sort_others else others
    return np.sort(np.concatenate([free, others])[:most])
