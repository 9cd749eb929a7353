"""MCP, SCAD, l0 and their group forms: penalties that stop growing, so that large weights are not shrunk.

    MCP    slope (strength - |w| / gamma)_+                                                maths: softmax, eqs. 17 to 19
    SCAD   slope strength up to |w| = strength, then falling in a line to zero at |w| = a strength
    l0     strength for every entry that is not zero

``shrink(v, t)`` is a global minimiser of g(w) + (w - v)^2 / (2 t) for every t > 0. While 1 / t outweighs the falling
slope (t < gamma, t < a - 1) the objective is convex, and |w| = |v| - t slope(|w|) has one solution. Else it is concave
where the slope falls: the minimiser is |v|, or the minimiser left of there, whichever is better. Zero is written as
0 v, so that NaN stays NaN.

Grouped: g(W) = sum_j inner(|W_j|_2), prox_t(v) = v shrink(|v|_2, t) / |v|_2 keeps or drops whole features.
``SparseGroup`` is the convex group penalty.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from softmargin.backends.jit import compiled_struct
from softmargin.core.protocols import Array
from softmargin.penalties.parts import TINY, demand, demand_strengths, entry_by_entry, row_norms, sublinear

__all__ = ["L0", "MCP", "SCAD", "GroupL0", "GroupMCP", "GroupSCAD", "Grouped"]


@sublinear
@compiled_struct("shrink", prox_row=entry_by_entry)
class MCP(NamedTuple):
    """The minimax concave penalty: strength |w| - w^2 / (2 gamma) up to |w| = gamma strength, then constant."""

    strength: float = 1.0
    gamma: float = 3.0

    def check(self) -> None:
        """Refuse invalid numbers."""
        demand_strengths(self, "strength")
        demand(0.0 < self.gamma < math.inf, self, "gamma must be above 0 and finite; L1 is the limit of a large gamma")

    def value(self, W: Array) -> float:
        """Return g(W)."""
        size = np.minimum(np.abs(W), self.gamma * self.strength)
        return float(np.sum(size * (self.strength - size / (2.0 * self.gamma))))

    def slope(self, size: Array) -> Array:
        """Return the derivative at |w| = size."""
        return np.maximum(self.strength - size / self.gamma, 0.0)

    def shrink(self, v: float, t: float) -> float:
        """Return the prox of one number."""
        size = abs(v)
        if t < self.gamma:
            slope = (self.gamma * self.strength - size) / (self.gamma - t)
            kept = max(size - t * min(max(slope, 0.0), self.strength), 0.0)
        else:
            kept = size if size > self.strength * math.sqrt(t * self.gamma) else 0.0 * size
        return math.copysign(kept, v)


@sublinear
@compiled_struct("shrink", prox_row=entry_by_entry)
class SCAD(NamedTuple):
    """The smoothly clipped absolute deviation: strength |w| near zero, constant from |w| = a strength on."""

    strength: float = 1.0
    a: float = 3.7

    def check(self) -> None:
        """Refuse invalid numbers."""
        demand_strengths(self, "strength")
        demand(2.0 < self.a < math.inf, self, "a must be above 2 and finite; 3.7 is usual, L1 the limit of a large a")

    def value(self, W: Array) -> float:
        """Return g(W)."""
        size = np.minimum(np.abs(W), self.a * self.strength)
        bend = np.maximum(size - self.strength, 0.0)
        return float(np.sum(self.strength * size - bend * bend / (2.0 * (self.a - 1.0))))

    def slope(self, size: Array) -> Array:
        """Return the derivative at |w| = size."""
        return np.clip((self.a * self.strength - size) / (self.a - 1.0), 0.0, self.strength)

    def shrink(self, v: float, t: float) -> float:
        """Return the prox of one number."""
        size = abs(v)
        slope = self.strength
        if t < self.a - 1.0:
            slope = min(max((self.a * self.strength - size) / (self.a - 1.0 - t), 0.0), slope)
        elif t < self.a + 1.0:
            slope = 0.0 if size > 0.5 * self.strength * (self.a + 1.0 + t) else slope
        else:
            slope = 0.0 if size > self.strength * math.sqrt(t * (self.a + 1.0)) else slope
        return math.copysign(max(size - t * slope, 0.0), v)


@sublinear
@compiled_struct("shrink", prox_row=entry_by_entry)
class L0(NamedTuple):
    """Strength times the number of entries that are not zero."""

    strength: float = 1.0

    def check(self) -> None:
        """Refuse invalid numbers."""
        demand_strengths(self, "strength")

    def value(self, W: Array) -> float:
        """Return g(W)."""
        return self.strength * float(np.count_nonzero(W))

    def slope(self, size: Array) -> Array:
        """Return the derivative at |w| = size; infinite at zero, where g jumps."""
        return np.where(size == 0.0, math.inf, 0.0)

    def shrink(self, v: float, t: float) -> float:
        """Return the prox of one number."""
        return v if v * v > 2.0 * t * self.strength else 0.0 * v


@sublinear
@compiled_struct("prox_row")
class Grouped(NamedTuple):
    """inner(|W_j|_2), summed over features; ``inner`` is a penalty with ``shrink`` and ``slope``, such as MCP."""

    inner: Any

    def check(self) -> None:
        """Refuse an inner penalty that is not a sum over entries."""
        missing = [name for name in ("shrink", "slope", "value") if not hasattr(self.inner, name)]
        demand(not missing, self, f"the inner penalty has no {' and no '.join(missing)}; give one like MCP, SCAD or L0")
        if hasattr(self.inner, "check"):
            self.inner.check()

    def value(self, W: Array) -> float:
        """Return g(W)."""
        return float(self.inner.value(row_norms(W)))

    def prox_row(self, row: Any, first: int, k: int, t: float) -> None:
        """Replace a row by its prox."""
        square = 0.0
        for c in range(first, first + k):
            square += row[c] * row[c]
        norm = math.sqrt(square)
        if norm > 0.0:
            scale = self.inner.shrink(norm, t) / norm
            for c in range(first, first + k):
                row[c] *= scale

    def distance(self, W: Array, V: Array) -> Array:
        """Return the distance of each row of V to the (Frechet) subdifferential at W; shape (d,)."""
        norms = row_norms(W)
        slope = self.inner.slope(norms)
        away = row_norms(V - np.where(norms > 0.0, slope, 0.0) * W / np.maximum(norms, TINY))
        return np.where(norms > 0.0, away, np.maximum(away - slope, 0.0))[:, 0]


def GroupMCP(strength: float = 1.0, gamma: float = 3.0) -> Grouped:
    """Return MCP of the norm of every feature's row."""
    return Grouped(MCP(strength, gamma))


def GroupSCAD(strength: float = 1.0, a: float = 3.7) -> Grouped:
    """Return SCAD of the norm of every feature's row."""
    return Grouped(SCAD(strength, a))


def GroupL0(strength: float = 1.0) -> Grouped:
    """Return strength times the number of features in use."""
    return Grouped(L0(strength))
