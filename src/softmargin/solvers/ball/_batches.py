"""What stochastic solvers over a ball share: batches and their gradients, and sliding.

Sample i is drawn with probability q_i in proportion to p_i |x_i|^2, so that no single sample limits the step size; a
batch B of m draws then gives  1/m sum over B of  p_i f'(s_i) x_i / q_i,  whose mean is the gradient of the losses.

Sliding (Lan and Zhou 2016, procedure CndG) solves a projected-gradient step by corners alone:

    minimise over the ball  <g, W> + beta / 2 |W - W0|^2 ,   by Frank-Wolfe until its gap is at most ``tol``
"""

from typing import NamedTuple, Protocol

import numpy as np

from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import Array, ConstrainedProblem, ConvexSet
from softmargin.matrices.operator import adjoint_product, product, row_squares

__all__ = ["Anchor", "Averaging", "SlidingPlan", "batch_gradient", "check_counts", "sampling", "slide", "sliding_step"]

_SCAN_COST = 0.5  # of a corner per entry of the weights, in entries of X read; by hand


class SlidingPlan(NamedTuple):
    """The numbers of one iteration of accelerated sliding."""

    gamma: float  # weight of the new point in the average Y
    beta: float
    tol: float
    batch: int  # n: the exact gradient
    max_corners: int


class Anchor(NamedTuple):
    """The full gradient at another point, which reduces the variance of a batch."""

    slopes: Array  # (n, k)
    Z: Array  # (d, k) X' slopes


class Averaging(Protocol):
    """What sliding reads and moves of a solver's state."""

    Y: Array  # (d, k) the average of the points
    intercept: Array  # (k,)
    chances: Array  # (n,) the probabilities q


def check_counts(**counts: int | None) -> None:
    """Refuse counts below 1."""
    for name, count in counts.items():
        if count is not None and count < 1:
            raise IncompatibleError(f"{name}={count!r} was asked for; give at least 1.")


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


def sliding_step(
    problem: ConstrainedProblem,
    state: Averaging,
    V: Array,
    plan: SlidingPlan,
    rng: np.random.Generator,
    anchor: Anchor | None = None,
) -> tuple[Array, float]:
    """Take the gradient between V and Y, slide from V, and average into Y; return the new V and the cost.

    The cost counts entries of X read.
    """
    n, X, Y = len(problem.target), problem.X, state.Y
    M = (1.0 - plan.gamma) * Y + plan.gamma * V
    n_products = 1.0 if plan.batch < n and anchor is None else 2.0
    if plan.batch < n:
        drawn = rng.choice(n, size=plan.batch, p=state.chances)
        g = batch_gradient(problem, drawn, state.chances, M, state.intercept, None if anchor is None else anchor.slopes)
        if anchor is not None:
            g += anchor.Z
    else:
        g = adjoint_product(X, problem.slopes(product(X, M), state.intercept))
    g += problem.l2 * M
    V, n_corners = slide(problem.ball, g, V, plan.beta, plan.tol, plan.max_corners)
    Y += plan.gamma * (V - Y)
    return V, n_products * X.size * plan.batch / n + _SCAN_COST * n_corners * V.size


def slide(ball: ConvexSet, g: Array, start: Array, beta: float, tol: float, max_corners: int) -> tuple[Array, int]:
    """Return a point of the ball near the minimum of <g, W> + beta / 2 |W - start|^2, and how many corners it took."""
    W, h = start.copy(), g.copy()
    for count in range(1, max_corners + 1):
        corner = ball.lmo(h)
        gap = float(np.vdot(h, W)) - corner.inner(h)
        if not gap > tol:
            return W, count
        square = corner.sqnorm() - 2.0 * corner.inner(W) + float(np.vdot(W, W))
        length = min(1.0, gap / (beta * square))
        W *= 1.0 - length
        corner.add_to(W, length)
        np.subtract(W, start, out=h)
        h *= beta
        h += g
    return W, max_corners
