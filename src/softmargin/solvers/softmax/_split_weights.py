"""Weights as differences of two positive parts, with a barrier: what an interior point keeps of an l1 penalty.

    W = U - V ,   strength |W|_1 = strength sum (U + V) at U V = 0 ;     barrier   -strength width sum (log U + log V)
    t in (-1, 1), the slope of |W|:   U (1 - t) = width ,  V (1 + t) = width                      maths: softmax, eq. 44

One Newton step on these equations, where W moves by D, moves t by

    dt = theta (D - centre) ,     theta = 1 / (U / (1 - t) + V / (1 + t)) ,
    centre = width / (1 - t) - width / (1 + t) - W

so that strength theta is the curvature that the penalty has in the system of D.                  maths: softmax, eq. 45
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Move", "SplitWeights", "divided"]

Array = NDArray[Any]
INSIDE = 0.99  # share of the way to the boundary that slopes go at most; by hand, as interior points have it
EDGE = 0.995  # the same of the parts of W
LEAST_ROOM = 1e-16  # of a slope, to the boundary: about the rounding of one


class Move(NamedTuple):
    """A Newton step of W, of both parts and of the slopes; all (d, k)."""

    W: Array
    up: Array
    down: Array
    slopes: Array


@dataclass
class SplitWeights:
    """W, its parts and its slopes, all (d, k), at a width of the barrier; the arrays are changed in place."""

    W: Array
    up: Array
    down: Array
    slopes: Array
    strength: float
    width: float

    def __post_init__(self) -> None:
        """Compute what the system of a step needs."""
        self.above = np.maximum(1.0 - self.slopes, LEAST_ROOM)
        self.below = np.maximum(1.0 + self.slopes, LEAST_ROOM)
        self.theta = 1.0 / (self.up / self.above + self.down / self.below)
        self.centre = self.width / self.above - self.width / self.below - self.W

    def slopes_at_rest(self) -> Array:
        """Return t - theta centre: the slopes that a step D = 0 of the weights would lead to."""
        return np.asarray(self.slopes - self.theta * self.centre)

    def move(self, D: Array) -> Move:
        """Return the step of everything that belongs to a step D of W."""
        dt = self.theta * (D - self.centre)
        up = (self.width + self.up * dt) / self.above - self.up
        down = (self.width - self.down * dt) / self.below - self.down
        return Move(D, up, down, dt)

    def longest(self, move: Move) -> float:
        """Return how far both parts may go, so that they remain positive."""
        least = min(float((move.up / self.up).min(initial=0.0)), float((move.down / self.down).min(initial=0.0)))
        return -EDGE / least if least < 0.0 else math.inf

    def along(self, move: Move, length: float) -> tuple[float, float, float]:
        """Return the penalty and its barrier at a length of the step, with their first two derivatives by it."""
        value, slope, bend = 0.0, 0.0, 0.0
        for part, step in ((self.up, move.up), (self.down, move.down)):
            new = part + length * step
            share = step / new
            value += float(new.sum()) - self.width * float(np.log(new).sum())
            slope += float(step.sum()) - self.width * float(share.sum())
            bend += self.width * float(np.vdot(share, share))
        return self.strength * value, self.strength * slope, self.strength * bend

    def go(self, move: Move, length: float) -> None:
        """Move the weights by a length of the step, and the slopes by all of it that keeps them inside."""
        self.W += length * move.W
        self.up += length * move.up
        self.down += length * move.down
        most = max(
            float((move.slopes / self.above).max(initial=0.0)), float((-move.slopes / self.below).max(initial=0.0))
        )
        self.slopes += min(1.0, INSIDE / most if most > 0.0 else 1.0) * move.slopes


def divided(W: Array, width: float) -> tuple[Array, Array, Array]:
    """Return both parts of W and its slopes where the barrier is least: eq. 44 holds."""
    root = np.hypot(W, width)
    larger = 0.5 * (width + root + np.abs(W))
    smaller = 0.5 * width * (width + root) / larger
    return np.where(W > 0.0, larger, smaller), np.where(W > 0.0, smaller, larger), W / (width + root)
