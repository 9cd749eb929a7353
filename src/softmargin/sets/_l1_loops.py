"""Compiled loops of the l1 ball: the threshold of its projection, and the entries shrunk by it.

No loop both writes entries and sums them: the compiler chooses between two orders of such a sum by how far the arrays
lie from each other, and the last digit would hang on that.
"""

import math
from typing import Any

from softmargin.backends.jit import inline, jit
from softmargin.core.protocols import Array

__all__ = ["level", "nearest_level", "pulled", "shrunk"]


@inline
def nearest_level(V: Any, radius: float, guess: float) -> float:
    """Return the theta of the projection: Newton's method on a convex, decreasing, piecewise linear function.

    From the left of the root it rises and ends after finitely many steps; from the right, one step leads to the left.
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
def level(V: Array, radius: float, guess: float) -> Any:
    """Return the theta >= 0 with sum [|V_j| - theta]_+ = radius; 0 where V is inside the ball."""
    return nearest_level(V, radius, guess)


@inline
def _scale_back(W: Any, radius: float) -> None:
    """Scale weights whose sizes sum to more than ``radius`` to that sum."""
    total = 0.0
    for j in range(W.shape[0]):
        total += abs(W[j])
    if total > radius:
        for j in range(W.shape[0]):
            W[j] *= radius / total


@jit
def shrunk(V: Array, theta: float, scale: float, radius: float, out: Array) -> None:
    """Write scale * sign(V) [|V| - theta]_+ , rescaled to sum to at most ``radius``: a large theta cancels digits."""
    for j in range(V.shape[0]):
        out[j] = math.copysign(abs(scale) * max(abs(V[j]) - theta, 0.0), scale * V[j])
    _scale_back(out, radius)


@jit
def pulled(V: Array, pulls: Array, radius: float, guess: float, out: Array) -> float:
    """Write sign(V_jc) [|V_jc| - theta pulls_j]_+ , of sum ``radius`` or, with theta = 0, less; return theta.

    Newton's method as in ``nearest_level``; V is (d, k), flat.
    """
    d = pulls.shape[0]
    k = V.shape[0] // d
    theta, is_left = max(guess, 0.0), False
    while not math.isnan(theta):
        total, pull = 0.0, 0.0
        for j in range(d):
            least = theta * pulls[j]
            for at in range(j * k, j * k + k):
                rest = abs(V[at]) - least
                if rest > 0.0:
                    total += rest
                    pull += pulls[j]
        if pull == 0.0:
            if is_left or theta == 0.0:
                break
            theta = 0.0
            continue
        new = theta + (total - radius) / pull
        if new == theta or (new < theta and (is_left or theta == 0.0)):
            break
        is_left = True
        theta = max(new, 0.0)
    for j in range(d):
        for at in range(j * k, j * k + k):
            out[at] = math.copysign(max(abs(V[at]) - theta * pulls[j], 0.0), V[at])
    _scale_back(out, radius)
    return theta
