"""Frank-Wolfe on the dual of a kernel SVM, all variables in one step.

    minimise f(alpha) = 1/2 <alpha, K alpha> - <alpha, Y>   over the dual set,   gradient G = K alpha - Y
    s = a corner of the set that minimises <s, G>;   d = s - alpha;   alpha += g d
    g = min(1, <d, -G> / <d, K d>)        "optimal": f falls as far as it can
    g = 2 / (t + 2)                       "oblivious": t counts the steps

    solver            problem                     alpha                 Y              corner
    FrankWolfe        joint, kernel               rows (n, k)           one-hot        of every row by itself
    FreeFrankWolfe    hinge with a free bias      u = y a, (n,)         y              of {0 <= a <= C, y'a = 0}

A corner seldom changes from one step to the next: K s is stored, and only the rows of K whose corners changed are
used. <d, -G> is the duality gap itself (maths: kernel SVM, sections 2 and 9).

    paper 000       here                    shape
    alpha           alpha                   (n, k)     paper 004 has the opposite sign
    K alpha         scores                  (n, k)     updated after every step
    s, K s          corners, corner_scores  (n, k)
    gamma_t         step                    ()
    t               n_done                  ()

Source: paper 000, Algorithm 2, and the Frank-Wolfe method of its Section 2. We differ: the best step is 1 where
<d, K d> <= <d, -G>, so that nothing is divided by zero (zero or equal rows); the paper computes K d anew.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.core.parameters import OneOf
from softmargin.core.protocols import FreeHingeProblem, KernelBlockProblem
from softmargin.problems.free_bias import BiasPoint
from softmargin.solvers.common.resumable import Resumable
from softmargin.solvers.kernel_svm._dual_rows import DualRowSolver, corner, first_rows

__all__ = ["STEP_RULES", "CornerState", "FrankWolfe", "FreeFrankWolfe"]

Array = NDArray[Any]
STEP_RULES = ("optimal", "oblivious")


@dataclass
class CornerState:
    """The current point and the corners of the last step."""

    alpha: Array  # (n, k) or (n,)
    scores: Array
    corners: Array
    corner_scores: Array
    n_done: int = 0


def _first_state(problem: Any, alpha: Array) -> CornerState:
    """Start at alpha; the corners start at 0."""
    return CornerState(alpha, problem.gram.scores(alpha), np.zeros_like(alpha), np.zeros_like(alpha))


def _towards(problem: Any, state: CornerState, corners: Array, gap: float, step_rule: str) -> CornerState:
    """Move all variables towards their corner by one common step."""
    state.corner_scores += problem.gram.scores(corners - state.corners)
    state.corners = corners
    if step_rule == "oblivious":
        step = 2.0 / (state.n_done + 2.0)
    else:
        gap = max(gap, 0.0)  # rounding may make it negative
        curvature = float(np.vdot(corners - state.alpha, state.corner_scores - state.scores))
        step = 1.0 if curvature <= gap else gap / curvature
    for kept, towards in ((state.alpha, corners), (state.scores, state.corner_scores)):
        kept *= 1.0 - step
        kept += step * towards
    state.n_done += 1
    return state


@dataclass(frozen=True)
class FrankWolfe(DualRowSolver[CornerState]):
    """Matrix-wise Frank-Wolfe on a joint SVM.

    Parameters
    ----------
    step_rule : {"optimal", "oblivious"}
        How far a step goes.
    """

    step_rule: str = "optimal"

    allowed: ClassVar = {"step_rule": (OneOf(*STEP_RULES),)}
    state_type = CornerState
    runs_on_device = True

    def start(self, problem: KernelBlockProblem, init: Any, rng: np.random.Generator) -> CornerState:
        """Allocate, from a first point or from nothing."""
        return _first_state(problem, first_rows(problem, init))

    def step(self, problem: KernelBlockProblem, state: CornerState) -> CornerState:
        """Find every row's corner and move towards all of them."""
        corners = corner(problem.multiclass, state.scores, problem.y, problem.C)
        gap = float(problem.gaps(state.alpha, state.scores).sum())
        return _towards(problem, state, corners, gap, self.step_rule)


@dataclass(frozen=True)
class FreeFrankWolfe(Resumable):
    """Frank-Wolfe on the hinge with a free bias.

    Parameters
    ----------
    step_rule : {"optimal", "oblivious"}
        How far a step goes.
    """

    step_rule: str = "optimal"

    allowed: ClassVar = {"step_rule": (OneOf(*STEP_RULES),)}
    needs: ClassVar[tuple[type, ...]] = (FreeHingeProblem,)
    state_type = CornerState
    runs_on_device = True

    def start(self, problem: FreeHingeProblem, init: BiasPoint | None, rng: np.random.Generator) -> CornerState:
        """Allocate, from a first point or from nothing."""
        a = np.zeros(len(problem.y)) if init is None else problem.feasible(init.alpha)
        return _first_state(problem, problem.y * a)

    def step(self, problem: FreeHingeProblem, state: CornerState) -> CornerState:
        """Find the corner and move towards it."""
        corners = problem.y * problem.corner(state.scores)
        bias = problem.best_bias(state.scores)
        gap = float(problem.gaps(np.abs(state.alpha), state.scores, bias).sum())
        return _towards(problem, state, corners, gap, self.step_rule)

    def point(self, problem: FreeHingeProblem, state: CornerState) -> BiasPoint:
        """Return the dual variables with the best bias."""
        return BiasPoint(np.abs(state.alpha), problem.best_bias(state.scores))

    def estimate(self, problem: FreeHingeProblem, state: CornerState) -> float:
        """Return the relative gap by the updated scores."""
        return problem.relative_gap(np.abs(state.alpha), state.scores)
