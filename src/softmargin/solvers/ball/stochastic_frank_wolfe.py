"""Stochastic Frank-Wolfe: towards the corner that a batch of samples asks for.

    g = the gradient at W by a batch of m samples ;    S = the corner with the least <g, S> ;    W <- W + eta (S - W)

    eta = 2 / (t + 1) ,     m = v (t + 1)^2 / (L D)^2 ,     t = 1, 2, ...

D is the diameter of the ball, v the variance of a gradient by one sample, at the first point. The rate is 1 / t.

Source: Hazan and Luo (2016), Section 2, whose G^2 is v; it is the "stochastic FW" of paper 001, Figure 2. We differ: a
batch of all samples or more is the exact gradient; the ridge is never sampled; every step ends with the best intercept.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from softmargin.core.deadline import is_time_up
from softmargin.core.parameters import NONE, Whole
from softmargin.core.protocols import Array, ConstrainedProblem
from softmargin.matrices.operator import product
from softmargin.problems.constrained import BallPoint
from softmargin.solvers.ball._batches import SamplingSolver, SamplingState, sampled_gradient
from softmargin.solvers.ball._intercept import best_intercept

__all__ = ["BallStochasticFrankWolfe", "StochasticFrankWolfeState", "StochasticFrankWolfeTuning"]


class StochasticFrankWolfeTuning(NamedTuple):
    """Constants of stochastic Frank-Wolfe."""

    scan_cost: float = 0.5  # of a corner per entry of the weights, in entries of X read; by hand


@dataclass(kw_only=True)
class StochasticFrankWolfeState(SamplingState):
    """Where the run stands."""

    W: Array  # (d, k)
    growth: float  # m / (t + 1)^2


@dataclass(frozen=True)
class BallStochasticFrankWolfe(SamplingSolver):
    """Settings of stochastic Frank-Wolfe; ``batch`` samples make a gradient, by default more and more of them."""

    batch: int | None = None
    tuning: StochasticFrankWolfeTuning = StochasticFrankWolfeTuning()

    allowed: ClassVar = {"batch": (NONE, Whole(1))}
    state_type: ClassVar = StochasticFrankWolfeState

    def start(
        self, problem: ConstrainedProblem, init: BallPoint | None, rng: np.random.Generator
    ) -> StochasticFrankWolfeState:
        """Measure smoothness and variance at a first point, or at the one nearest to zero."""
        weights, intercept, _ = problem.checked_point(init)
        scores, known = problem.scores(weights), self.measured(problem, rng)
        b = best_intercept(problem, scores, intercept)
        square = known["lipschitz"] ** 2 * problem.ball.squared_diameter(problem.shape)
        growth = self.variance(problem, scores, b) / square if square > 0.0 else math.inf
        return StochasticFrankWolfeState(W=np.array(weights), intercept=b, growth=growth, **known)

    def step(self, problem: ConstrainedProblem, state: StochasticFrankWolfeState) -> StochasticFrankWolfeState:
        """Go towards corners for about a pass, then find the intercept."""
        rng, total, n = self.next_rng(state), 0.0, len(problem.target)
        while total < problem.X.size and not is_time_up():
            batch = self.batch or max(1, math.ceil(min(state.growth * (state.t + 1) ** 2, n)))
            g, n_read = sampled_gradient(problem, state, state.W, min(batch, n), rng)
            eta = 2.0 / (state.t + 1)
            corner = problem.ball.lmo(g)
            if float(np.vdot(g, state.W)) > corner.inner(g):  # else no corner is better than W
                state.W *= 1.0 - eta
                corner.add_to(state.W, eta)
            total += n_read + self.tuning.scan_cost * state.W.size
            state.t += 1
        if problem.fit_intercept:
            state.intercept = best_intercept(problem, product(problem.X, state.W), state.intercept)
        return state

    def estimate(self, problem: ConstrainedProblem, state: StochasticFrankWolfeState) -> float:
        """Return inf: without a full gradient nothing is known."""
        return math.inf
