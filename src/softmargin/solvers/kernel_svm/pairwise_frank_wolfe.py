"""Pairwise Frank-Wolfe on the dual of a kernel multiclass SVM, one row at a time.

    visit sample i:   move weight from the worst corner in use to the best one, as far as the dual value rises

    Crammer-Singer    a row is a simplex with corners 0 and C (e_y - e_j): the weights are alpha itself.
                      g = min(weight, (h_+ - h_-) / (2 K_ii)),   h_j = 1 + F_ij - F_iy, 0 for the corner 0
    Weston-Watkins    a row is a box, a product of segments: pairs of corners are coordinates. One coordinate step per
                      visit, on the entry that gains most: b_j = clip(b_j + h_j / (2 K_ii), 0, C),   b_j = -alpha_ij

Two entries of a row move at a visit, so a visit costs two additions of K[i] whatever k is. Unlike plain Frank-Wolfe it
converges linearly. The loop is in ``_row_loop``. Source: maths: kernel SVM, section 3.
"""

from dataclasses import dataclass
from typing import Any

from softmargin.core.protocols import KernelBlockProblem
from softmargin.solvers.kernel_svm._row_loop import PAIR_RULES, RowSolver

__all__ = ["PairwiseFrankWolfe"]


@dataclass(frozen=True)
class PairwiseFrankWolfe(RowSolver):
    """Pairwise steps row by row; it has no settings."""

    def rule(self, problem: KernelBlockProblem) -> Any:
        """Return the exchange of two corners (Crammer-Singer), or the step on one coordinate (Weston-Watkins)."""
        return PAIR_RULES[problem.multiclass]()
