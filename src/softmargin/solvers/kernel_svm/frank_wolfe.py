"""Frank-Wolfe on the dual of a kernel multiclass SVM, all rows in one step.

    minimise f(alpha) = 1/2 <alpha, K alpha> - sum_i alpha_{i, y_i}   over the dual rows,   gradient G = K alpha - Y
    s = the corner of every row that minimises <s, G>;   d = s - alpha;   alpha += g d,   g = min(1, <d, -G> / <d, K d>)

A corner seldom changes from one step to the next: K s is stored, and only the rows of K whose corners changed are
used. <d, -G> is the duality gap itself (maths: kernel SVM, section 2).

    paper 000       here                    shape
    alpha           alpha                   (n, k)     paper 004 has the opposite sign
    K alpha         scores                  (n, k)     updated after every step
    s, K s          corners, corner_scores  (n, k)
    t               step                    ()

Source: paper 000, Algorithm 2; maths: kernel SVM, section 2. We differ: the step is 1 where <d, K d> <= <d, -G>, so
that nothing is divided by zero (zero or equal rows); the paper computes K d anew.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.core.protocols import KernelBlockProblem
from softmargin.solvers.kernel_svm._dual_rows import DualRowSolver, corner, first_rows

__all__ = ["CornerState", "FrankWolfe"]

Array = NDArray[Any]


@dataclass
class CornerState:
    """The current point and the corners of the last step."""

    alpha: Array  # (n, k)
    scores: Array  # (n, k)
    corners: Array  # (n, k)
    corner_scores: Array  # (n, k)


@dataclass(frozen=True)
class FrankWolfe(DualRowSolver[CornerState]):
    """Matrix-wise Frank-Wolfe with the best step; it has no settings."""

    state_type = CornerState

    def start(self, problem: KernelBlockProblem, init: Any, rng: np.random.Generator) -> CornerState:
        """Allocate, from a first point or from nothing; the corners start at 0."""
        alpha = first_rows(problem, init)
        return CornerState(alpha, problem.gram.scores(alpha), np.zeros_like(alpha), np.zeros_like(alpha))

    def step(self, problem: KernelBlockProblem, state: CornerState) -> CornerState:
        """Find every row's corner and move towards all of them by one common step."""
        corners = corner(problem.multiclass, state.scores, problem.y, problem.C)
        state.corner_scores += problem.gram.scores(corners - state.corners)
        state.corners = corners
        gap = max(float(problem.gaps(state.alpha, state.scores).sum()), 0.0)  # rounding may make it negative
        curvature = float(np.vdot(corners - state.alpha, state.corner_scores - state.scores))
        step = 1.0 if curvature <= gap else gap / curvature
        for kept, towards in ((state.alpha, corners), (state.scores, state.corner_scores)):
            kept *= 1.0 - step
            kept += step * towards
        return state
