"""Frank-Wolfe for a loss over a convex set: towards the corner that minimises the linearised objective.

    S = the corner with the least <G, S> ;    W <- W + eta (S - W) ,   eta in [0, 1] the best on the line

One step is one corner, and computes the full gradient G = Z + l2 W, Z = X' slopes: it costs a pass whatever the set.
The scores of the corner alone update those of W: one column of X, or X times one singular vector.

Source: Frank and Wolfe (1956); paper 001, eq. (2); maths: ball, eq. 21. We differ: eta, here ``length``, comes from a
line search. The rate is 1 / t; the estimate is the gap of the certificate, or the Frank-Wolfe gap for a trace ball.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from softmargin.core.pieces import Atom
from softmargin.core.protocols import ConstrainedProblem
from softmargin.problems.constrained import BallPoint
from softmargin.sets import SingleEntry
from softmargin.solvers.ball._iterate import BallIterate, BallIterateTuning, BallSolver, line_along

__all__ = ["BallCornerState", "BallFrankWolfe"]


@dataclass
class BallCornerState(BallIterate):
    """Where the run stands, and the next corner."""

    corner: Atom | None = field(init=False, repr=False, default=None)  # scratch: found again after a restart

    def relative_gap(self, problem: ConstrainedProblem, corner: Atom | None = None) -> float:
        """Find the next corner, and return the gap by it."""
        self.corner = problem.ball.lmo(self.Z + problem.l2 * self.W)
        return super().relative_gap(problem, self.corner)


@dataclass(frozen=True)
class BallFrankWolfe(BallSolver):
    """Frank-Wolfe with an exact line search; it has no settings."""

    tuning: BallIterateTuning = BallIterateTuning()

    state_type: ClassVar = BallCornerState

    def start(self, problem: ConstrainedProblem, init: BallPoint | None, rng: np.random.Generator) -> BallCornerState:
        """Compute the scores and the gradient of a first point, or of the one nearest to zero."""
        return BallCornerState.at(problem, init)

    def step(self, problem: ConstrainedProblem, state: BallCornerState) -> BallCornerState:
        """Go towards the corner, and find the next one."""
        W, corner = state.W, state.corner or problem.ball.lmo(state.Z + problem.l2 * state.W)
        X = problem.columns() if isinstance(corner, SingleEntry) else problem.X  # a single entry reads one column
        move = np.asarray(corner.times(X)) - state.scores
        inner, square = corner.inner(W), float(np.vdot(W, W))
        line, shift = line_along(
            problem, state, move, cross=inner - square, square=corner.sqnorm() - 2.0 * inner + square
        )
        length = line.search(1.0, self.tuning)
        W *= 1.0 - length
        corner.add_to(W, length)
        state.scores += length * move
        state.intercept = state.intercept + length * shift
        state.update(problem, self.tuning.refresh)
        return state
