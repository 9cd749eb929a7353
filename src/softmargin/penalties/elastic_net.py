"""The elastic net, its special cases l1 and l2, and the same within bounds.

    g(W) = l1 |W|_1 + l2 / 2 |W|^2                                                         maths: softmax, eqs. 9 and 14
    prox_t(v)  = soft(v, t l1) / (1 + t l2)
    g*(V)      = sum (|V| - l1)_+^2 / (2 l2);  without l2 zero where |V| <= l1 everywhere, else infinite

    g(W) = the same where low <= W <= high, else infinite
    prox_t(v)  = clip(soft(v, t l1) / (1 + t l2), low, high)
    g*(V)      = sum V w - l1 |w| - l2 / 2 w^2  at  w = clip(soft(V, l1) / l2, low, high)

Without l2 that w is an end of the box wherever |V| > l1.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from softmargin.backends.jit import compiled_struct
from softmargin.core.protocols import Array
from softmargin.core.rounding import gamma, total
from softmargin.penalties.parts import (
    convex,
    demand,
    demand_strengths,
    elastic_value,
    largest_scale,
    off_subdifferential,
    soft,
)
from softmargin.penalties.rounding import FLOOR, OPERATIONS

__all__ = ["L1", "L2", "Box", "ElasticNet", "Nonnegative"]


@convex
@compiled_struct("prox_row")
class ElasticNet(NamedTuple):
    """l1 |W|_1 + l2 / 2 |W|^2."""

    l1: float = 1.0
    l2: float = 1.0

    @property
    def ridge(self) -> float | None:
        """The strength of l2 where l1 = 0; None else."""
        return self.l2 if self.l1 == 0.0 else None

    def value(self, W: Array) -> float:
        """Return g(W)."""
        return elastic_value(W, self.l1, self.l2)

    def prox(self, V: Array, t: Any) -> Array:
        """Return the minimiser of g(W) + |W - V|^2 / (2 t)."""
        return np.asarray(soft(V, t * self.l1) / (1.0 + t * self.l2))

    def prox_row(self, row: Any, first: int, k: int, t: float) -> None:
        """Replace a row by its prox."""
        threshold = t * self.l1
        shrink = 1.0 / (1.0 + t * self.l2)
        for c in range(first, first + k):
            row[c] = (max(row[c] - threshold, 0.0) + min(row[c] + threshold, 0.0)) * shrink

    def conjugate(self, V: Array) -> float:
        """Return g*(V)."""
        beyond = np.maximum(np.abs(V) - self.l1, 0.0)
        if self.l2 > 0.0:
            return float(np.vdot(beyond, beyond)) / (2.0 * self.l2)
        return math.inf if beyond.any() else 0.0

    def reach(self, V: Array) -> float:
        """Return the largest s in [0, 1] with g*(s V) finite."""
        return 1.0 if self.l2 > 0.0 else largest_scale(float(np.abs(V).max(initial=0.0)), self.l1)

    def distance(self, W: Array, V: Array) -> Array:
        """Return the distance of each row of V to the subdifferential at W; shape (d,)."""
        return np.asarray(np.linalg.norm(off_subdifferential(V - self.l2 * W, W, self.l1), axis=1))


@convex
@compiled_struct("prox_row")
class Box(NamedTuple):
    """low <= W <= high, plus l1 |W|_1 + l2 / 2 |W|^2; an end may be infinite."""

    low: float = -1.0
    high: float = 1.0
    l1: float = 0.0
    l2: float = 0.0

    def check(self) -> None:
        """Refuse invalid numbers."""
        demand_strengths(self, "l1", "l2")
        demand(self.low <= self.high, self, "low must not be above high")
        demand(self.low < math.inf and self.high > -math.inf, self, "the box must hold a finite number")

    @property
    def has_bound(self) -> bool:
        """Whether the box is bounded or any strength is positive."""
        return self.l1 > 0.0 or self.l2 > 0.0 or (self.low > -math.inf and self.high < math.inf)

    def value(self, W: Array) -> float:
        """Return g(W)."""
        if np.any((self.low > W) | (self.high < W)):
            return math.inf
        return elastic_value(W, self.l1, self.l2)

    def prox(self, V: Array, t: Any) -> Array:
        """Return the minimiser of g(W) + |W - V|^2 / (2 t)."""
        return np.asarray(np.clip(soft(V, t * self.l1) / (1.0 + t * self.l2), self.low, self.high))

    def prox_row(self, row: Any, first: int, k: int, t: float) -> None:
        """Replace a row by its prox."""
        threshold = t * self.l1
        shrink = 1.0 / (1.0 + t * self.l2)
        for c in range(first, first + k):
            best = (max(row[c] - threshold, 0.0) + min(row[c] + threshold, 0.0)) * shrink
            row[c] = min(max(best, self.low), self.high)

    def conjugate(self, V: Array) -> float:
        """Return g*(V)."""
        best = self._best(V)
        return float(np.vdot(V, best)) - self.value(best) if np.isfinite(best).all() else math.inf

    def _best(self, V: Array) -> Array:
        """Return the w that attains g*(V); infinite where none does."""
        pull = soft(V, self.l1)
        with np.errstate(over="ignore"):
            best = pull / self.l2 if self.l2 > 0.0 else np.where(pull == 0.0, 0.0, np.copysign(math.inf, pull))
        return np.clip(best, self.low, self.high)

    def conjugate_within(self, V: Array, error: Array) -> float:
        """Return a number that g* exceeds nowhere within ``error`` of V: it is convex, so largest at an end."""
        most = np.full(V.shape, -math.inf)
        share, away = gamma(OPERATIONS), error + gamma(OPERATIONS) * np.abs(V) + FLOOR
        for end in (V - away, V + away):
            best = self._best(end)
            if not np.isfinite(best).all():
                return math.inf
            gain, cost = best * end, self.l1 * np.abs(best) + 0.5 * self.l2 * best**2
            most = np.maximum(most, gain - cost + share * (np.abs(gain) + cost))
        return total(most).upper

    def reach(self, V: Array) -> float:
        """Return the largest s in [0, 1] with g*(s V) finite."""
        if self.l2 > 0.0:
            return 1.0
        up = float(V.max(initial=0.0)) if self.high == math.inf else 0.0
        down = float(-V.min(initial=0.0)) if self.low == -math.inf else 0.0
        return largest_scale(max(up, down), self.l1)

    def distance(self, W: Array, V: Array) -> Array:
        """Return the distance of each row of V to the subdifferential at W, infinite outside the box; shape (d,)."""
        off = off_subdifferential(V - self.l2 * W, W, self.l1)
        # At an end of the box the subdifferential is unbounded, away from the box.
        off = np.where(self.high <= W, np.minimum(off, 0.0), off)
        off = np.where(self.low >= W, np.maximum(off, 0.0), off)
        off = np.where((self.low > W) | (self.high < W), math.inf, off)
        return np.asarray(np.linalg.norm(off, axis=1))


def Nonnegative(l1: float = 0.0, l2: float = 0.0) -> Box:
    """Return W >= 0, plus l1 sum W + l2 / 2 |W|^2."""
    return Box(low=0.0, high=math.inf, l1=l1, l2=l2)


def L1(strength: float = 1.0) -> ElasticNet:
    """Return strength * |W|_1."""
    return ElasticNet(l1=strength, l2=0.0)


def L2(strength: float = 1.0) -> ElasticNet:
    """Return strength / 2 * |W|^2."""
    return ElasticNet(l1=0.0, l2=strength)
