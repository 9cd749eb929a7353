"""``check_set``: nearest points, corners and least values of a closed convex set of weights."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["check_set"]

Array = NDArray[Any]
CLOSE = 1e-13
INSIDE = 1e-9  # relative: how far outside rounding may put a point
SHAPES = ((1, 1), (1, 4), (5, 1), (3, 2), (4, 4))
RIDGES = (0.0, 1e-3, 1.0, 50.0)


def check_set(ball: Any, *, seed: int = 0) -> None:
    """Hold a set to the contract of ``softmargin.core.pieces.ConvexSet``.

    project         is in the set and stays there; no point of the set is nearer; two points do not move apart
    lmo             is a corner of the set at which <W, G> is least
    least           the least value of l2 / 2 |W|^2 + <Z, W> is reached, and no point of the set is below it
    size            is at most 1 exactly in the set

    Parameters
    ----------
    ball : ConvexSet
        What to check.
    seed : int, default=0
        Of the matrices.
    """
    rng = np.random.default_rng(seed)
    for shape in SHAPES:
        extent = _reach(ball.lmo(rng.standard_normal(shape)).toarray())
        for scale in (1e-2, 1.0, 1e3):
            V, other = (scale * extent * rng.standard_normal(shape) for _ in range(2))
            V[rng.random(shape) < 0.3] = 0.0
            if scale == 1.0:
                V = extent * np.sign(V)  # ties
            _check_nearest(ball, V, other)
            _check_corner(ball, V, ball.project(other))
            for l2 in RIDGES:
                _check_least(ball, V, ball.project(other), l2)


def _fail(ball: Any, sentence: str) -> None:
    raise AssertionError(f"{ball!r}: {sentence}.")


def _reach(*points: Array) -> float:
    """Return the size of the numbers in play, for rounding."""
    return max(1e-300, *(float(np.abs(point).max(initial=0.0)) for point in points))


def _check_inside(ball: Any, W: Array, what: str) -> None:
    if not ball.size(W) <= 1.0 + INSIDE:
        _fail(ball, f"{what} is outside: its size is {ball.size(W)}")


def _check_nearest(ball: Any, V: Array, other: Array) -> None:
    kept = V.copy()
    W, candidate = np.asarray(ball.project(V)), np.asarray(ball.project(other))
    if W.shape != V.shape or not np.array_equal(V, kept):
        _fail(ball, f"project of shape {V.shape} has shape {W.shape}, or changes its argument")
    _check_inside(ball, W, "the nearest point")
    near = CLOSE * V.size * _reach(V, W)
    again = ball.project(W)
    if not np.abs(again - W).max() <= near:
        _fail(ball, f"the nearest point to {W.tolist()}, which is in the set, is {again.tolist()}")
    square = CLOSE * V.size * _reach(V, other, W, candidate) ** 2
    if not np.vdot(V - W, candidate - W) <= square:
        _fail(ball, f"{candidate.tolist()} or a point towards it is nearer to {V.tolist()} than {W.tolist()}")
    moved, apart = np.linalg.norm(W - candidate), np.linalg.norm(V - other)
    if not moved <= apart + CLOSE * V.size * _reach(V, other, W, candidate):
        _fail(ball, "the nearest points of two matrices are further apart than these")


def _check_corner(ball: Any, G: Array, feasible: Array) -> None:
    corner = ball.lmo(G)
    W = corner.toarray()
    if W.shape != G.shape:
        _fail(ball, f"the corner for a matrix of shape {G.shape} has shape {W.shape}")
    _check_inside(ball, W, "the corner")
    rounding = CLOSE * G.size * _reach(G) * _reach(W, feasible)
    if not abs(corner.inner(G) - np.vdot(W, G)) <= rounding:
        _fail(ball, f"the corner's inner product is {corner.inner(G)}, but that of its array is {np.vdot(W, G)}")
    if not np.vdot(W, G) <= np.vdot(feasible, G) + rounding:
        _fail(ball, f"<W, G> is {np.vdot(W, G)} at the corner, but {np.vdot(feasible, G)} at another point")


def _check_least(ball: Any, Z: Array, feasible: Array, l2: float) -> None:
    def value(W: Array) -> float:
        return 0.5 * l2 * float(np.vdot(W, W)) + float(np.vdot(Z, W))

    least = ball.least(Z, l2)
    best = ball.lmo(Z).toarray() if l2 == 0.0 else ball.project(-Z / l2)
    reach = _reach(best, feasible, Z / l2 if l2 > 0.0 else best)
    rounding = 10.0 * CLOSE * Z.size * reach * (_reach(Z) + l2 * reach)
    if not abs(least - value(best)) <= rounding:
        _fail(ball, f"least is {least} with l2 = {l2}, but the value at the minimiser is {value(best)}")
    if not least <= value(feasible) + rounding:
        _fail(ball, f"least is {least} with l2 = {l2}, but a point of the set has {value(feasible)}")
