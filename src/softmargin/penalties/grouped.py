"""A penalty of one number, laid on the l2 norm of each feature's row: whole features come and go.

g(W) = sum_j inner(|W_j|_2),   prox_t(v) = v shrink(|v|_2, t) / |v|_2                        spec 3.4

It is for penalties that are not convex; ``SparseGroup`` is the convex one.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import compiled_struct
from softmargin.penalties.non_convex import L0, MCP, SCAD
from softmargin.penalties.parts import demand, row_norms, sublinear

__all__ = ["GroupL0", "GroupMCP", "GroupSCAD", "Grouped"]

Array = NDArray[Any]
TINY = float(np.finfo(np.float64).tiny)


@sublinear
@compiled_struct("prox_row")
class Grouped(NamedTuple):
    """inner(|W_j|_2), summed over features; ``inner`` is a penalty with ``shrink`` and ``slope``, such as MCP."""

    inner: Any

    def check(self) -> None:
        """Refuse an inner penalty that is not made of one number's."""
        missing = [name for name in ("shrink", "slope", "value") if not hasattr(self.inner, name)]
        demand(not missing, self, f"the inner penalty has no {' and no '.join(missing)}; give one like MCP, SCAD or L0")
        if hasattr(self.inner, "check"):
            self.inner.check()

    def value(self, W: Array) -> float:
        """Return g(W)."""
        return self.inner.value(row_norms(W))

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
