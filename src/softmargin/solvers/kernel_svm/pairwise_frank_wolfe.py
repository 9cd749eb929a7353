"""Pairwise Frank-Wolfe on the dual of a kernel multiclass SVM, one row at a time.

    visit sample i:   move weight from the worst corner in use to the best one, as far as the dual value rises

    Crammer-Singer    a row is a simplex with corners 0 and C (e_y - e_j): the weights are alpha itself.
                      g = min(weight, (h_+ - h_-) / (2 K_ii)),   h_j = 1 + F_ij - F_iy, 0 for the corner 0
    Weston-Watkins    a row is a box, a product of segments: pairs of corners are coordinates. One coordinate step a
                      visit, on the entry that gains most: b_j = clip(b_j + h_j / (2 K_ii), 0, C),   b_j = -alpha_ij

Two entries of a row move at a visit, so a visit costs two additions of K[i] whatever k is. One pass visits every sample
once, in a fresh random order. Unlike plain Frank-Wolfe it converges linearly.

    maths           here
    F               state.scores, class-major
    h_+, h_-        h[best], h[worst]       (row_steps)

Source: maths: kernel SVM, section 3.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from softmargin.core.protocols import KernelBlockProblem
from softmargin.solvers.kernel_svm._row_loop import PAIR_RULES, RowState, pass_over_rows, start_rows

__all__ = ["PairwiseFrankWolfe"]


@dataclass(frozen=True)
class PairwiseFrankWolfe:
    """Pairwise steps row by row; it has no settings."""

    needs: ClassVar[tuple[type, ...]] = (KernelBlockProblem,)

    def start(self, problem: KernelBlockProblem, init: Any, rng: np.random.Generator) -> RowState:
        """Allocate, from a first point or from nothing."""
        return start_rows(problem, init, rng)

    def step(self, problem: KernelBlockProblem, state: RowState) -> RowState:
        """Visit every sample once: one exchange (Crammer-Singer) or one coordinate (Weston-Watkins) each."""
        return pass_over_rows(problem, state, PAIR_RULES[problem.multiclass]())

    def point(self, problem: KernelBlockProblem, state: RowState) -> Any:
        """Return the dual rows."""
        return problem.point(state.alpha.copy())

    def estimate(self, problem: KernelBlockProblem, state: RowState) -> float:
        """Return the relative gap by the scores that were kept."""
        return float(problem.relative_gap(state.alpha, state.scores.T))

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> RowState:
        """Rebuild the state from a checkpoint."""
        return RowState(**arrays, **plain)
