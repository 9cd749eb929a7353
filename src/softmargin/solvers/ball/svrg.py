"""Projected stochastic variance reduced gradient over a convex set, by batches.

    minimise over W in the ball:   sum_i p_i sum_c f(s_ic, t_ic) + l2 / 2 |W|^2 ,     s = X W + b

    W <- project(W - length (Z~ + l2 W + 1/m sum over a batch of (slope_i(W) - slope_i(W~)) x_i / q_i))

W~ is where the last full gradient Z~ = X' slopes was computed, at the end of the step before. A projection touches all
of W: a batch is as large as makes its own entries as many as those. The intercept is found anew at every W~.

    Xiao, Zhang     here                shape
    x, x~           W, and W at a step's start
    eta             length              ()         1 / L, halved after a step in which the gap grew
    L                                   ()         l2 + curvature ((1 - 1/m) |sqrt(p) X|_2^2 + 1/m sum_i p_i |x_i|^2)
    q_i             chances             (n,)

Source: Johnson and Zhang (2013); Xiao and Zhang (2014), with the last inner point kept; spec 1.4. We differ: their
proofs ask for shorter steps, which are not taken until the gap asks too. The objective may rise: only
its expectation falls.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import ConstrainedProblem
from softmargin.matrices.operator import adjoint_product, product
from softmargin.problems.constrained import BallPoint
from softmargin.solvers.ball._batches import batch_gradient, sample_chances, widest
from softmargin.solvers.ball._gap import smoothness
from softmargin.solvers.ball._line_search import gap_at_hand, look

__all__ = ["BallSvrg", "BallSvrgState"]

Array = NDArray[Any]
SHORTER = 0.5


@dataclass
class BallSvrgState:
    """Where the run stands, with the full gradient there, and how it draws."""

    W: Array  # (d, k)
    scores: Array  # (n, k) X W
    intercept: Array  # (k,)
    Z: Array  # (d, k)
    chances: Array  # (n,)
    batch: int
    length: float
    gap: float
    seed: int
    n_steps: int = 0


@dataclass(frozen=True)
class BallSvrg:
    """Settings of projected stochastic variance reduced gradient. One step is n samples and a full gradient.

    Parameters
    ----------
    batch : int, optional
        Samples of one inner step; by default as many as have d k entries in all.
    """

    batch: int | None = None

    needs: ClassVar[tuple[type, ...]] = (ConstrainedProblem,)

    def __post_init__(self) -> None:
        """Refuse a batch that is none."""
        if self.batch is not None and self.batch < 1:
            raise IncompatibleError(f"batch={self.batch!r} was asked for; give at least 1, or None.")

    def start(self, problem: Any, init: Any, rng: np.random.Generator) -> BallSvrgState:
        """Compute the gradient of a first point, or of the one next to zero; choose the batch and the step size."""
        weights, intercept, _ = problem.checked_point(init)
        scores = problem.scores(weights)
        b = problem.best_intercept(scores, intercept)
        chances, total = sample_chances(problem)
        batch = min(len(scores), self.batch or widest(problem, weights))
        curvature = (1.0 - 1.0 / batch) * smoothness(problem, rng) + problem.loss.curvature * total / batch
        state = BallSvrgState(
            weights,
            scores,
            b,
            adjoint_product(problem.X, problem.slopes(scores, b)),
            chances,
            batch=batch,
            length=1.0 / ((curvature + problem.l2) or 1.0),
            gap=math.inf,
            seed=int(rng.integers(1 << 62)),
        )
        state.gap = gap_at_hand(problem, state)
        return state

    def step(self, problem: Any, state: BallSvrgState) -> BallSvrgState:
        """Walk over n samples, then compute the gradient of all."""
        n = len(state.scores)
        rng = np.random.default_rng([state.seed, state.n_steps])
        n_batches = -(-n // state.batch)
        slopes = problem.slopes(state.scores, state.intercept)
        for drawn in rng.choice(n, size=(n_batches, state.batch), p=state.chances):
            V = batch_gradient(problem, drawn, state.chances, state.W, state.intercept, slopes)
            V += state.Z
            V += problem.l2 * state.W
            V *= -state.length
            V += state.W
            state.W = problem.ball.project(V)
        state.scores = product(problem.X, state.W)
        look(problem, state)
        gap = gap_at_hand(problem, state)
        if gap > state.gap:
            state.length *= SHORTER
        state.gap = gap
        return state

    def point(self, problem: Any, state: BallSvrgState) -> BallPoint:
        """Return the weights and the intercept."""
        return BallPoint(state.W.copy(), state.intercept.copy())

    def estimate(self, problem: Any, state: BallSvrgState) -> float:
        """Return the gap at hand."""
        return state.gap

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> BallSvrgState:
        """Rebuild the state from a checkpoint."""
        return BallSvrgState(**arrays, **plain)
