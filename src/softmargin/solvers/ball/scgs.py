"""Stochastic conditional gradient sliding: accelerated gradient on batches, with corners instead of projections.

    M = (1 - gamma) Y + gamma V ;   g = the gradient at M, by a batch
    V <- argmin over the ball of <g, V'> + beta / 2 |V' - V|^2 , by corners up to ``tol``
    Y <- (1 - gamma) Y + gamma V

    iteration t     gamma       beta            tol                         batch
    l2 = 0          3/(t + 2)   4 L / (t + 2)   L D^2 / (t (t + 1))         v (t + 2)^3 / (L D)^2
    l2 > 0          2/(t + 1)   2 L / t         8 L e / (l2 N t)            l2 v N (t + 1)^2 / (4 L^2 e)

With l2 > 0 a phase has N = 4 sqrt(2 L / l2) iterations, begins again at Y with t = 1, and halves e, a bound on F - F*.
D is the diameter of the ball, v (sigma^2 of Lan and Zhou) the variance of a gradient by one sample, at the first point.

Source: Lan and Zhou (2016), whose x, y, z are V, Y, M; maths: ball, section 8. We differ: a batch of all samples or
more is the exact gradient; the ridge is never sampled; an iteration uses at most ``max_corners`` corners; every step
ends with the best intercept.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from softmargin.core.deadline import is_time_up
from softmargin.core.parameters import Whole
from softmargin.core.protocols import ConstrainedProblem
from softmargin.matrices.operator import product
from softmargin.problems.constrained import BallPoint
from softmargin.solvers.ball._batches import SlidingPlan, SlidingSolver, SlidingState
from softmargin.solvers.ball._intercept import best_intercept

__all__ = ["Scgs", "ScgsState", "ScgsTuning"]

_LEAST_EXCESS = 1e-300  # a tolerance below rounding changes nothing, but zero would be divided by


class ScgsTuning(NamedTuple):
    """Constants of stochastic conditional gradient sliding."""

    scan_cost: float = 0.5  # of a corner per entry of the weights, in entries of X read; by hand


@dataclass(kw_only=True)
class ScgsState(SlidingState):
    """Where the run stands, and the phase."""

    variance: float
    excess: float  # e at the start of the first phase
    phase: int = 0


@dataclass(frozen=True)
class Scgs(SlidingSolver):
    """Settings of stochastic conditional gradient sliding; an iteration takes at most ``max_corners`` corners."""

    max_corners: int = 100
    tuning: ScgsTuning = ScgsTuning()

    allowed: ClassVar = {"max_corners": (Whole(1),)}
    state_type: ClassVar = ScgsState

    def start(self, problem: ConstrainedProblem, init: BallPoint | None, rng: np.random.Generator) -> ScgsState:
        """Measure smoothness, variance and excess at a first point, or at the one nearest to zero."""
        weights, intercept, _ = problem.checked_point(init)
        scores = problem.scores(weights)
        b = best_intercept(problem, scores, intercept)
        variance = self.variance(problem, scores, b)
        excess = problem.losses(scores, b) + 0.5 * problem.l2 * float(np.vdot(weights, weights))
        more = self.measured(problem, rng)
        return ScgsState(V=weights, Y=weights.copy(), intercept=b, variance=variance, excess=excess, **more)

    def step(self, problem: ConstrainedProblem, state: ScgsState) -> ScgsState:
        """Slide for about a pass, then find the intercept."""
        rng, total = self.next_rng(state), 0.0
        while total < problem.X.size and not is_time_up():
            plan, is_last = self._plan(problem, state)
            total += self.advance(problem, state, plan, rng)
            state.t += 1
            if is_last:
                state.V, state.t = state.Y.copy(), 1
                state.phase += 1
        if problem.fit_intercept:
            state.intercept = best_intercept(problem, product(problem.X, state.Y), state.intercept)
        return state

    def _plan(self, problem: ConstrainedProblem, state: ScgsState) -> tuple[SlidingPlan, bool]:
        """Return gamma, beta, tol and the batch, and whether this iteration ends a phase."""
        L, v, t, l2, n = state.lipschitz, state.variance, state.t, problem.l2, len(problem.target)
        if l2 == 0.0:
            square, N = problem.ball.squared_diameter(problem.shape), math.inf
            gamma, beta, tol = 3.0 / (t + 2), 4.0 * L / (t + 2), L * square / (t * (t + 1))
            batch = v * (t + 2) ** 3 / (L**2 * square)
        else:
            N = math.ceil(4.0 * math.sqrt(2.0 * L / l2))
            e = max(state.excess * 0.5**state.phase, _LEAST_EXCESS)
            gamma, beta, tol = 2.0 / (t + 1), 2.0 * L / t, 8.0 * L * e / (l2 * N * t)
            batch = l2 * v * N * (t + 1) ** 2 / (4.0 * L**2 * e)
        return SlidingPlan(gamma, beta, tol, max(1, math.ceil(min(batch, n)))), t >= N

    def estimate(self, problem: ConstrainedProblem, state: ScgsState) -> float:
        """Return inf: without a full gradient nothing is known."""
        return math.inf
