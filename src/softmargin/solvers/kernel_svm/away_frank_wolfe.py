"""Frank-Wolfe with away steps on the dual of a kernel multiclass SVM, one row at a time.

    visit sample i:   d = s - alpha_i towards the best corner s, or d = alpha_i - v away from the worst corner v in use,
                      whichever has the larger <d, -G_i>;   alpha_i += g d
    g = min(limit, <d, -G_i> / (K_ii |d|^2)) ,   limit = 1 towards s;  away from v, where its weight becomes zero

    Crammer-Singer    a row is a simplex: corners and weights are those of ``pairwise_frank_wolfe``
    Weston-Watkins    a row is a box, a product of segments: v is the worse end of every segment that lies between its
                      ends, and the limit the least of them

Plain Frank-Wolfe can only shrink the weight of a corner, never remove it, and so zigzags near the optimum; this does
not. One common step for all rows would be limited by the smallest weight of n rows, so rows go one by one. The loop is
in ``_row_loop``.

Source: Guelat and Marcotte (1986); Lacoste-Julien and Jaggi (2015), which Theorem 2 of paper 000 cites; maths: kernel
SVM, section 3.
"""

from dataclasses import dataclass
from typing import Any

from softmargin.core.protocols import KernelBlockProblem
from softmargin.solvers.kernel_svm._row_loop import AWAY_RULES, RowSolver

__all__ = ["AwayFrankWolfe"]


@dataclass(frozen=True)
class AwayFrankWolfe(RowSolver):
    """Away steps row by row; it has no settings."""

    def rule(self, problem: KernelBlockProblem) -> Any:
        """Return the step towards the best corner or away from the worst."""
        return AWAY_RULES[problem.multiclass]()
