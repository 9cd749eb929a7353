"""The elastic net, and its two ends: l1 and l2.

    g(W) = l1 |W|_1 + l2 / 2 |W|^2                                                              spec 3.4, 3.5
    prox_t(v)  = soft(v, t l1) / (1 + t l2)
    g*(V)      = sum (|V| - l1)_+^2 / (2 l2)

Without l2 the conjugate is zero where |V| <= l1 everywhere, else infinite.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import compiled_struct
from softmargin.penalties.parts import demand_strengths, largest_scale, soft

__all__ = ["L1", "L2", "ElasticNet"]

Array = NDArray[Any]


@compiled_struct("prox_row")
class ElasticNet(NamedTuple):
    """l1 |W|_1 + l2 / 2 |W|^2."""

    l1: float = 1.0
    l2: float = 1.0

    def check(self) -> None:
        """Refuse numbers that make no sense."""
        demand_strengths(self, "l1", "l2")

    @property
    def is_convex(self) -> bool:
        """Yes."""
        return True

    @property
    def has_bound(self) -> bool:
        """Say whether there is any penalty at all."""
        return self.l1 > 0.0 or self.l2 > 0.0

    @property
    def ridge(self) -> float | None:
        """The strength of l2 where there is nothing else."""
        return self.l2 if self.l1 == 0.0 else None

    def value(self, W: Array) -> float:
        """Return g(W)."""
        return self.l1 * float(np.abs(W).sum()) + 0.5 * self.l2 * float(np.vdot(W, W))

    def prox(self, V: Array, t: Any) -> Array:
        """Return the minimiser of g(W) + |W - V|^2 / (2 t)."""
        return soft(V, t * self.l1) / (1.0 + t * self.l2)

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
        rest = V - self.l2 * W
        off = np.where(W != 0.0, rest - self.l1 * np.sign(W), soft(rest, self.l1))
        return np.linalg.norm(off, axis=1)


def L1(strength: float = 1.0) -> ElasticNet:
    """Return strength * |W|_1."""
    return ElasticNet(l1=strength, l2=0.0)


def L2(strength: float = 1.0) -> ElasticNet:
    """Return strength / 2 * |W|^2."""
    return ElasticNet(l1=0.0, l2=strength)
