"""What stochastic solvers of a loss over a ball do alike: samples and their gradients, and the sliding inner loop.

Sample i is drawn with chance q_i in proportion to p_i |x_i|^2, so that no single one decides how long a step may be; a
batch B of m draws then gives  1/m sum over B of  p_i f'(s_i) x_i / q_i,  whose mean is the gradient of the losses.

Sliding (Lan and Zhou 2016, procedure CndG) solves a step of projected gradient by corners alone:

    minimise over the ball  <g, W> + beta / 2 |W - W0|^2 ,   by Frank-Wolfe until its gap is at most ``tol``
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.matrices.operator import row_squares
from softmargin.sets import Box

__all__ = ["SCAN", "batch_gradient", "sample_chances", "slide", "square_of_diameter", "widest"]

Array = NDArray[Any]
SCAN = 0.5  # what a corner costs for each entry of the weights, in entries of X


def sample_chances(problem: Any) -> tuple[Array, float]:
    """Return the chances q (n,), and sum_i p_i |x_i|^2."""
    squares = problem.weights * row_squares(problem.X)
    total = float(squares.sum())
    return (squares / total if total > 0.0 else np.full(len(squares), 1.0 / len(squares))), total


def widest(problem: Any, W: Array) -> int:
    """Return how many samples have as many entries as the weights: a batch should not be smaller."""
    n = len(problem.target)
    return min(n, max(1, round(n * W.size / max(problem.X.size, 1))))


def batch_gradient(
    problem: Any, drawn: Array, chances: Array, W: Array, intercept: Array, slopes: Array | None = None
) -> Array:
    """Return the gradient of the losses as a batch sees it, or its difference to where all slopes were ``slopes``."""
    rows = problem.X[drawn].astype(np.float64, copy=False)
    U = problem.loss.slope(np.asarray(rows @ W) + intercept, problem.target[drawn])
    U *= problem.weights[drawn, None]
    if slopes is not None:
        U -= slopes[drawn]
    U /= (len(drawn) * chances[drawn])[:, None]
    return np.asarray(rows.T @ U)


def square_of_diameter(ball: Any, shape: tuple[int, int]) -> float:
    """Return a bound on |V - W|^2 over the ball."""
    if isinstance(ball, Box):
        return float((ball.high - ball.low) ** 2 * shape[0] * shape[1])
    return float(4.0 * ball.radius**2)


def slide(ball: Any, g: Array, start: Array, beta: float, tol: float, max_corners: int) -> tuple[Array, int]:
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
