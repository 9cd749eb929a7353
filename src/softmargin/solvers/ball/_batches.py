"""What stochastic solvers over a ball share: batches and their gradients, and sliding.

Sample i is drawn with probability q_i in proportion to p_i |x_i|^2, so that no single sample limits the step size; a
batch B of m draws then gives  1/m sum over B of  p_i f'(s_i) x_i / q_i,  whose mean is the gradient of the losses.

Sliding (Lan and Zhou 2016, procedure CndG) solves a projected-gradient step by corners alone:

    minimise over the ball  <g, W> + beta / 2 |W - W0|^2 ,   by Frank-Wolfe until its gap is at most ``tol``
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from softmargin.core.deadline import is_time_up
from softmargin.core.pieces import ConvexSet
from softmargin.core.protocols import Array, ConstrainedProblem
from softmargin.matrices.operator import adjoint_product, product, row_squares
from softmargin.problems.constrained import BallPoint
from softmargin.solvers.ball._iterate import BallSolver, check_smooth
from softmargin.solvers.ball._objective import smoothness


class SlidingPlan(NamedTuple):
    """The numbers of one iteration of accelerated sliding."""

    gamma: float  # weight of the new point in the average Y
    beta: float
    tol: float
    batch: int  # n: the exact gradient


@dataclass(kw_only=True)
class SamplingState:
    """What is known of the problem, and how a run draws."""

    intercept: Array  # (k,)
    chances: Array  # (n,) the probabilities q
    lipschitz: float
    seed: int
    t: int = 1
    n_drawn: int = 0


@dataclass(kw_only=True)
class SlidingState(SamplingState):
    """Both points of acceleration."""

    V: Array  # (d, k) where it slides from
    Y: Array  # (d, k) the average of the points


def sampling(problem: ConstrainedProblem) -> tuple[Array, float]:
    """Return the probabilities q (n,), and sum_i p_i |x_i|^2."""
    squares = problem.weights * row_squares(problem.X)
    total = float(squares.sum())
    return (squares / total if total > 0.0 else np.full(len(squares), 1.0 / len(squares))), total


def batch_gradient(
    problem: ConstrainedProblem, drawn: Array, chances: Array, W: Array, intercept: Array, slopes: Array | None = None
) -> Array:
    """Return the gradient of the losses by a batch, or its change since all slopes were ``slopes``."""
    rows = problem.X[drawn].astype(np.float64, copy=False)
    U = problem.loss.slope(np.asarray(rows @ W) + intercept, problem.target[drawn])
    U *= problem.weights[drawn, None]
    if slopes is not None:
        U -= slopes[drawn]
    U /= (len(drawn) * chances[drawn])[:, None]
    return np.asarray(rows.T @ U)


def sampled_gradient(
    problem: ConstrainedProblem,
    state: SamplingState,
    W: Array,
    batch: int,
    rng: np.random.Generator,
    anchor: tuple[Array, Array] | None = None,
) -> tuple[Array, float]:
    """Return the gradient of the objective at W by a batch, exactly where it is all samples; and what it read of X.

    ``anchor`` is all slopes at another point and the full gradient there, which reduces the variance of a batch.
    """
    n, X = len(problem.target), problem.X
    n_products = 2.0
    if batch < n:
        drawn = rng.choice(n, size=batch, p=state.chances)
        g = batch_gradient(problem, drawn, state.chances, W, state.intercept, anchor[0] if anchor else None)
        if anchor:
            g += anchor[1]
        else:
            n_products = 1.0
    else:
        g = adjoint_product(X, problem.slopes(product(X, W), state.intercept))
    g += problem.l2 * W
    return g, float(n_products * X.size * batch / n)


def slide(ball: ConvexSet, g: Array, start: Array, beta: float, tol: float, max_corners: int) -> tuple[Array, int]:
    """Return a point of the ball near the minimum of <g, W> + beta / 2 |W - start|^2, and how many corners it took."""
    W, h = start.copy(), g.copy()
    for count in range(1, max_corners + 1):
        if is_time_up():
            return W, count
        corner = ball.lmo(h)
        gap = float(np.vdot(h, W)) - corner.inner(h)
        if not gap > tol:
            return W, count
        square = corner.sqnorm() - 2.0 * corner.inner(W) + float(np.vdot(W, W))
        # Near a corner rounding may make the square zero or less; a length of 1 stays in the ball.
        length = gap / (beta * square) if beta * square > gap else 1.0
        W *= 1.0 - length
        corner.add_to(W, length)
        np.subtract(W, start, out=h)
        h *= beta
        h += g
    return W, max_corners


class SamplingSolver(BallSolver):
    """What methods on batches know of a problem, and how they draw."""

    tuning: Any  # with a scan_cost: of a corner per entry of the weights, in entries of X read

    def measured(self, problem: ConstrainedProblem, rng: np.random.Generator) -> dict[str, Any]:
        """Return what a first state knows of the problem, and its seed."""
        check_smooth(problem)
        lipschitz = (smoothness(problem, rng) + problem.l2) or 1.0
        return {"chances": sampling(problem)[0], "lipschitz": lipschitz, "seed": int(rng.integers(1 << 62))}

    def next_rng(self, state: SamplingState) -> np.random.Generator:
        """Return the generator of the next step."""
        state.n_drawn += 1
        return np.random.default_rng([state.seed, state.n_drawn - 1])

    def variance(self, problem: ConstrainedProblem, scores: Array, intercept: Array) -> float:
        """Bound the variance of a gradient by one sample, at a point with these scores."""
        slopes = problem.loss.slope(scores + intercept, problem.target)
        return sampling(problem)[1] * float(problem.weights @ (slopes**2).sum(axis=1))


class SlidingSolver(SamplingSolver):
    """Accelerated gradient on batches, with corners instead of projections."""

    max_corners: int

    def point(self, problem: ConstrainedProblem, state: SlidingState) -> BallPoint:
        """Return the averaged weights and the intercept."""
        return BallPoint(problem.inside(state.Y), state.intercept.copy())

    def advance(
        self,
        problem: ConstrainedProblem,
        state: SlidingState,
        plan: SlidingPlan,
        rng: np.random.Generator,
        anchor: tuple[Array, Array] | None = None,
    ) -> float:
        """Take the gradient between V and Y, slide from V, and average into Y; return how many entries of X it read."""
        Y = state.Y
        M = (1.0 - plan.gamma) * Y + plan.gamma * state.V
        g, n_read = sampled_gradient(problem, state, M, plan.batch, rng, anchor)
        state.V, n_corners = slide(problem.ball, g, state.V, plan.beta, plan.tol, self.max_corners)
        Y += plan.gamma * (state.V - Y)
        return float(n_read + self.tuning.scan_cost * n_corners * Y.size)
