"""The gap of the multiples t alpha of a joint kernel SVM's dual rows: in t it is a quadratic in pieces.

    P(t) = t^2 / 2 E + sum C [1 + t d]_+ ,     D(s) = s own - s^2 / 2 E                     maths: kernel SVM, eq. 34

with E = <alpha, K alpha>, own = sum_i alpha_iy, d the ``slopes`` of the loss, and the s nearest to t that keeps the
bounds. A hinge bends where t = -1 / d, D where t leaves the bounds: between two bends the best t is known.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Multiples"]

Array = NDArray[Any]


class Multiples(NamedTuple):
    """What multiples of dual rows are, in numbers: all rows or some."""

    energy: float  # <alpha, K alpha>
    own: float  # sum_i alpha_iy
    within: float  # the largest multiple that keeps the bounds
    slopes: Array  # (m, r) of the hinges of each row
    prices: Array  # (m,)

    def primal(self, t: float) -> float:
        """Return P(t alpha)."""
        hinges = np.maximum(1.0 + t * self.slopes, 0.0).sum(axis=1)
        return 0.5 * t * t * self.energy + float(self.prices @ hinges)

    def dual(self, t: float) -> float:
        """Return D(s alpha) at the s nearest to t that keeps the bounds."""
        s = min(t, self.within)
        return s * self.own - 0.5 * s * s * self.energy

    def best(self, least: float, most: float) -> tuple[float, float]:
        """Return the t between two numbers, 1 among them, with the least gap, and that gap."""
        d = self.slopes
        is_on, bends = d > -1.0 / most, (d > -1.0 / least) & (d <= -1.0 / most)
        weights = np.broadcast_to(self.prices[:, None], d.shape)
        level, slope = float(weights[is_on].sum()), float(weights[is_on] @ d[is_on])
        d, weights = d[bends], weights[bends]
        order = np.argsort(d)  # -1 / d from small to large
        d, weights = d[order], weights[order]
        corners = -1.0 / d
        # The slope of all hinges before each bend, and after the last one.
        steep = slope + np.append(np.cumsum((weights * d)[::-1])[::-1], 0.0)

        def gap(t: float) -> float:
            losses = level + t * slope + float(weights @ np.maximum(1.0 + t * d, 0.0))
            return 0.5 * t * t * self.energy + losses - self.dual(t)

        inside = min(max(self.within, least), most)
        candidates = [
            1.0,
            _least(2.0 * self.energy, steep - self.own, corners, least, inside),
            _least(self.energy, steep, corners, inside, most),
        ]
        return min(((gap(t), t) for t in candidates), key=lambda found: found[0])[::-1]


def _least(curvature: float, slopes: Array, corners: Array, first: float, last: float) -> float:
    """Return the t in [first, last] where curvature t + slopes, which jumps up at the corners, changes its sign."""
    if not curvature > 0.0:
        return last
    ends = np.clip(np.append(corners, last), first, last)
    piece = min(int(np.searchsorted(curvature * ends + slopes, 0.0)), len(corners))
    start = first if piece == 0 else ends[piece - 1]
    return float(min(max(-slopes[piece] / curvature, start), ends[piece]))
