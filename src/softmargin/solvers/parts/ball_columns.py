"""Compiled helpers of the l1 ball: the exact level of its projection, and products with X that skip what is zero.

    level(V, radius, guess)          the theta >= 0 with sum [|V_j| - theta]_+ = radius; 0 inside the ball
    shrunk(V, theta, scale, r, out)  out = scale * sign(V) [|V| - theta]_+ , inside the ball of radius r
    times(rows, W, k, out)           out = X W
    add_rows(rows, D, k, out)        out += X' D, only the rows where D is not zero; returns how many entries

V, W, D and out are flat, row-major, float64. ``add_rows`` on the rows of X' (matrices.columns) adds X D.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import inline, jit
from softmargin.matrices.operator import adjoint_product, product
from softmargin.matrices.rows import as_rows
from softmargin.sets import L1Ball

__all__ = ["add_rows", "columns_of", "fill_adjoint", "fill_scores", "level", "nearest_level", "project_into", "shrunk"]

Array = NDArray[Any]


@inline
def nearest_level(V: Any, radius: float, guess: float) -> float:
    """Return the theta of the projection: Newton's method on a convex, falling, piecewise linear function.

    From the left it climbs and ends after finitely many steps; a guess to the right lands on the left at once.
    """
    theta = max(guess, 0.0)
    is_left = False
    while not math.isnan(theta):
        total, count = 0.0, 0
        for j in range(V.shape[0]):
            rest = abs(V[j]) - theta
            total += max(rest, 0.0)
            count += rest > 0.0
        if count == 0:
            if is_left or theta == 0.0:
                return theta
            theta = 0.0
            continue
        new = theta + (total - radius) / count
        if new == theta or (new < theta and (is_left or theta == 0.0)):
            return theta
        is_left = True
        theta = max(new, 0.0)
    return theta


@jit
def level(V: Array, radius: float, guess: float) -> float:
    """Return the theta >= 0 with sum [|V_j| - theta]_+ = radius; 0 where V is inside the ball."""
    return nearest_level(V, radius, guess)


@jit
def shrunk(V: Array, theta: float, scale: float, radius: float, out: Array) -> None:
    """Write scale * sign(V) [|V| - theta]_+ , made to sum to ``radius`` at most: a large theta leaves few digits."""
    total = 0.0
    for j in range(V.shape[0]):
        rest = abs(scale) * max(abs(V[j]) - theta, 0.0)
        total += rest
        out[j] = math.copysign(rest, scale * V[j])
    if total > radius:
        for j in range(V.shape[0]):
            out[j] *= radius / total


@jit
def times(rows: Any, W: Array, k: int, out: Array) -> None:
    """Write X W."""
    bare = rows.bare()
    for i in range(out.shape[0] // k):
        begin, end = bare.entries(i)
        for c in range(k):
            score = 0.0
            for p in range(begin, end):
                score += bare.value(p) * W[bare.column(i, p) * k + c]
            out[i * k + c] = score


@jit
def add_rows(rows: Any, D: Array, k: int, out: Array) -> int:
    """Add X' D, touching only the rows where D is not zero; return how many entries were touched."""
    bare = rows.bare()
    touched = 0
    for i in range(D.shape[0] // k):
        for c in range(k):
            step = D[i * k + c]
            if step != 0.0:
                begin, end = bare.entries(i)
                touched += end - begin
                for p in range(begin, end):
                    out[bare.column(i, p) * k + c] += step * bare.value(p)
    return touched


def columns_of(problem: Any) -> Any:
    """View the columns of X as rows of X'."""
    return as_rows(problem.columns.T)


def fill_scores(X: Any, W: Array, out: Array) -> None:
    """Write X W, (n, k): BLAS where X is dense, compiled where it is sparse."""
    if isinstance(X, np.ndarray):
        out[:] = product(X, W)
    else:
        times(as_rows(X), W.reshape(-1), W.shape[1], out.reshape(-1))


def fill_adjoint(X: Any, U: Array, out: Array) -> None:
    """Write X' U, (d, k)."""
    if isinstance(X, np.ndarray):
        out[:] = adjoint_product(X, U)
    else:
        out[:] = 0.0
        add_rows(as_rows(X), U.reshape(-1), U.shape[1], out.reshape(-1))


def project_into(ball: Any, V: Array, guess: float, out: Array) -> float:
    """Write the point of the ball next to V; return the level of an l1 ball, a good guess for the next."""
    if not isinstance(ball, L1Ball):
        out[:] = ball.project(V)
        return 0.0
    theta = level(V.reshape(-1), ball.radius, guess)
    shrunk(V.reshape(-1), theta, 1.0, ball.radius, out.reshape(-1))
    return float(theta)
