"""Variance-reduced conditional gradient sliding (STORC): rounds of accelerated gradient that correct a full gradient.

    a round starts at W = V = Y with the full gradient, and has N iterations t = 1, 2, ...:
        M = (1 - gamma) Y + gamma V ;   g = the gradient at W, corrected by a batch's difference between M and W
        V <- argmin over the ball of <g, V'> + beta / 2 |V' - V|^2 , by corners up to ``tol``
        Y <- (1 - gamma) Y + gamma V

    gamma = 2 / (t + 1) ,    beta = 3 L / t ,    tol = 2 L D^2 / (N t)
    strongly convex:   N = sqrt(32 L / l2) ,       D^2 = 2 gap(W) / l2 >= |W - W*|^2
    general:           N = 2^(round / 2 + 2) ,     D = the diameter of the ball

Source: Hazan and Luo (2016), whose w, x, y, z are W, V, Y, M; maths: ball, section 8. We differ: the gap of W bounds D
where the paper halves it; a batch has 96 N samples, of which the proofs need far more, or is exact where those are all;
an iteration uses at most ``max_corners`` corners; every W gets the best intercept.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from softmargin.core.deadline import is_time_up
from softmargin.core.errors import IncompatibleError
from softmargin.core.parameters import NONE, Truth, Whole
from softmargin.core.protocols import ConstrainedProblem
from softmargin.matrices.operator import product
from softmargin.problems.constrained import BallPoint
from softmargin.solvers.ball._batches import SlidingPlan, SlidingSolver, SlidingState
from softmargin.solvers.ball._iterate import BallIterate

__all__ = ["Storc", "StorcState", "StorcTuning"]


class StorcTuning(NamedTuple):
    """Constants of STORC."""

    batch_share: int = 96  # a batch holds so many times N samples; maths: ball, section 9
    scan_cost: float = 0.5  # of a corner per entry of the weights, in entries of X read; by hand


@dataclass(kw_only=True)
class StorcState(BallIterate, SlidingState):
    """The start of the round with its full gradient, and how far the round is."""

    round: int = 1


@dataclass(frozen=True)
class Storc(SlidingSolver):
    """Settings of variance-reduced conditional gradient sliding. One step is about a pass, or the end of a round.

    Parameters
    ----------
    strongly_convex : bool, optional
        Which variant; by default the strongly convex one if l2 > 0.
    batch : int, optional
        Samples of one iteration; by default 96 N.
    max_corners : int
        Most corners of one iteration.
    """

    strongly_convex: bool | None = None
    batch: int | None = None
    max_corners: int = 100
    tuning: StorcTuning = StorcTuning()

    allowed: ClassVar = {"strongly_convex": (NONE, Truth()), "batch": (NONE, Whole(1)), "max_corners": (Whole(1),)}
    state_type: ClassVar = StorcState

    def start(self, problem: ConstrainedProblem, init: BallPoint | None, rng: np.random.Generator) -> StorcState:
        """Compute the gradient of a first point, or of the one nearest to zero."""
        if self.strongly_convex and problem.l2 == 0.0:
            raise IncompatibleError(
                "strongly_convex=True needs l2 > 0; found l2 = 0. Use strongly_convex=False, or give an l2."
            )
        empty = np.empty(0)
        state = StorcState.at(problem, init, V=empty, Y=empty, **self.measured(problem, rng))
        state.V, state.Y = state.W.copy(), state.W.copy()
        return state

    def step(self, problem: ConstrainedProblem, state: StorcState) -> StorcState:
        """Slide for about a pass, or until the round ends."""
        n, L = len(problem.target), state.lipschitz
        rng = self.next_rng(state)
        N, square = self._round(problem, state)
        batch = min(n, self.batch or self.tuning.batch_share * N)
        anchor = problem.slopes(state.scores, state.intercept), state.Z
        total = 0.0
        while total < problem.X.size and state.t <= N and not is_time_up():
            t = state.t
            plan = SlidingPlan(2.0 / (t + 1), 3.0 * L / t, 2.0 * L * square / (N * t), batch)
            total += self.advance(problem, state, plan, rng, anchor)
            state.t += 1
        if state.t > N:
            state.W, state.V = state.Y.copy(), state.Y.copy()
            state.scores = product(problem.X, state.W)
            state.update(problem)
            state.round += 1
            state.t = 1
        return state

    def _round(self, problem: ConstrainedProblem, state: StorcState) -> tuple[int, float]:
        """Return N and D^2 of the round."""
        square = problem.ball.squared_diameter(problem.shape)
        if problem.l2 == 0.0 or self.strongly_convex is False:
            return math.ceil(2.0 ** (state.round / 2 + 2)), square
        known = 2.0 * state.gap * state.primal(problem) / problem.l2 if math.isfinite(state.gap) else square
        return math.ceil(math.sqrt(32.0 * state.lipschitz / problem.l2)), min(known, square)

    def estimate(self, problem: ConstrainedProblem, state: StorcState) -> float:
        """Return the gap where a round begins; within one there is no full gradient, and nothing is known."""
        return state.gap if state.t == 1 else math.inf
