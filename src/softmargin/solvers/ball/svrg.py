"""Projected stochastic variance reduced gradient over a convex set, by batches.

    W <- project(W - length (Z~ + l2 W + 1/m sum over a batch of (slope_i(W) - slope_i(W~)) x_i / q_i))
    1 / length = L = l2 + curvature ((1 - 1/m) |sqrt(p) X|_2^2 + 1/m sum_i p_i |x_i|^2)

W~ is where the last full gradient Z~ = X' slopes was computed, at the end of the step before. A projection reads all of
W, so a batch holds as many entries of X as W has entries. Every W~ gets the best intercept. The length is halved after
a step in which the gap grew.

Source: Johnson and Zhang (2013); Xiao and Zhang (2014), with the last inner point kept; maths: ball, section 8. We
differ: their proofs need shorter steps, which we take only after the gap has grown. The objective may rise: only its
expectation falls.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from softmargin.core.deadline import is_time_up
from softmargin.core.parameters import NONE, Whole
from softmargin.core.protocols import Array, ConstrainedProblem
from softmargin.matrices.operator import product
from softmargin.problems.constrained import BallPoint
from softmargin.solvers.ball._batches import batch_gradient, sampling
from softmargin.solvers.ball._iterate import BallIterate, BallSolver
from softmargin.solvers.ball._objective import smoothness

__all__ = ["BallSvrg", "BallSvrgState", "BallSvrgTuning"]


class BallSvrgTuning(NamedTuple):
    """Constants of projected SVRG over a ball."""

    shorter: float = 0.5  # factor of the step length after a step in which the gap grew; by hand


@dataclass(kw_only=True)
class BallSvrgState(BallIterate):
    """Where the run stands, with the full gradient there, and how it draws."""

    chances: Array  # (n,)
    batch: int
    length: float
    seed: int


@dataclass(frozen=True)
class BallSvrg(BallSolver):
    """Settings of projected stochastic variance reduced gradient. One step is n samples and a full gradient.

    ``batch`` samples make an inner step; by default as many as have d k entries in all.
    """

    batch: int | None = None
    tuning: BallSvrgTuning = BallSvrgTuning()

    allowed: ClassVar = {"batch": (NONE, Whole(1))}
    state_type: ClassVar = BallSvrgState

    def start(self, problem: ConstrainedProblem, init: BallPoint | None, rng: np.random.Generator) -> BallSvrgState:
        """Compute the gradient of a first point, or of the one nearest to zero; choose the batch and the step size."""
        chances, total = sampling(problem)
        n, (d, k) = len(problem.target), problem.shape
        batch = min(n, self.batch or max(1, round(n * d * k / max(problem.X.size, 1))))
        curvature = (1.0 - 1.0 / batch) * smoothness(problem, rng) + problem.loss.curvature * total / batch
        length, seed = 1.0 / ((curvature + problem.l2) or 1.0), int(rng.integers(1 << 62))
        return BallSvrgState.at(problem, init, chances=chances, batch=batch, length=length, seed=seed)

    def step(self, problem: ConstrainedProblem, state: BallSvrgState) -> BallSvrgState:
        """Take batches of n samples in all, then compute the full gradient."""
        n = len(state.scores)
        rng = np.random.default_rng([state.seed, state.n_steps])
        slopes = problem.slopes(state.scores, state.intercept)
        for drawn in rng.choice(n, size=(-(-n // state.batch), state.batch), p=state.chances):
            if is_time_up():
                break
            V = batch_gradient(problem, drawn, state.chances, state.W, state.intercept, slopes)
            V += state.Z
            V += problem.l2 * state.W
            V *= -state.length
            V += state.W
            state.W = problem.ball.project(V)
        state.scores, before = product(problem.X, state.W), state.gap
        state.update(problem)
        if state.gap > before:
            state.length *= self.tuning.shorter
        return state
