"""The sparse group penalty, and the group penalty: they drop whole features, and entries within a feature.

g(W) = group sum_j |W_j|_2 + l1 |W|_1 + l2 / 2 |W|^2                                        maths: softmax, eq. 15
prox_t(v)  = u (1 - t group / |u|_2)_+ / (1 + t l2),  u = soft(v, t l1)
g*(V)      = sum_j (|soft(V_j, l1)|_2 - group)_+^2 / (2 l2)

Without l2 the conjugate is zero where |soft(V_j, l1)|_2 <= group for all rows, else infinite.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from softmargin.backends.jit import compiled_struct
from softmargin.core.protocols import Array
from softmargin.penalties.parts import TINY, convex, elastic_value, off_subdifferential, row_norms, soft

__all__ = ["Group", "SparseGroup"]

EPS = float(np.finfo(np.float64).eps)


@convex
@compiled_struct("prox_row")
class SparseGroup(NamedTuple):
    """group sum_j |W_j|_2 + l1 |W|_1 + l2 / 2 |W|^2."""

    group: float = 1.0
    l1: float = 1.0
    l2: float = 0.0

    @property
    def is_entrywise(self) -> bool:
        """Whether the norm of rows is left out."""
        return self.group == 0.0

    def value(self, W: Array) -> float:
        """Return g(W)."""
        return self.group * float(row_norms(W).sum()) + elastic_value(W, self.l1, self.l2)

    def prox(self, V: Array, t: Any) -> Array:
        """Return the minimiser of g(W) + |W - V|^2 / (2 t)."""
        U = soft(V, t * self.l1)
        norms = row_norms(U)
        return np.asarray(U * (np.maximum(norms - t * self.group, 0.0) / np.maximum(norms, TINY) / (1.0 + t * self.l2)))

    def prox_row(self, row: Any, first: int, k: int, t: float) -> None:
        """Replace a row by its prox."""
        threshold = t * self.l1
        square = 0.0
        for c in range(first, first + k):
            kept = max(row[c] - threshold, 0.0) + min(row[c] + threshold, 0.0)
            square += kept * kept
            row[c] = kept
        norm = math.sqrt(square)
        scale = max(norm - t * self.group, 0.0) / max(norm, TINY) / (1.0 + t * self.l2)
        for c in range(first, first + k):
            row[c] *= scale

    def conjugate(self, V: Array) -> float:
        """Return g*(V)."""
        beyond = np.maximum(row_norms(soft(V, self.l1)) - self.group, 0.0)
        if self.l2 > 0.0:
            return float(np.vdot(beyond, beyond)) / (2.0 * self.l2)
        return math.inf if beyond.any() else 0.0

    def reach(self, V: Array) -> float:
        """Return the largest s in [0, 1] with g*(s V) finite.

        |soft(s V_j, l1)| = |U_j| is convex and grows with s, so Newton's method from s = 1 decreases to the root of the
        worst row and never overshoots. One step gives s = (group |U_j|_2 + l1 |U_j|_1) / <U_j, V_j>.
        """
        if self.l2 > 0.0:
            return 1.0
        s, hair = 1.0, EPS
        while True:
            U = soft(s * V, self.l1)
            norms = row_norms(U)[:, 0]
            beyond = norms > self.group
            if not beyond.any():
                return s
            U = U[beyond]
            level = self.group * norms[beyond] + self.l1 * np.abs(U).sum(axis=1)
            newton = float(np.min(level / np.maximum(np.einsum("jc,jc->j", U, V[beyond]), TINY)))
            # Rounding may leave g* infinite at the computed root; where squares underflow, well below it too.
            s = min(newton, s * (1.0 - hair))
            hair *= 2.0

    def distance(self, W: Array, V: Array) -> Array:
        """Return the distance of each row of V to the subdifferential at W; shape (d,)."""
        norms = row_norms(W)
        rest = V - self.l2 * W - self.group * W / np.maximum(norms, TINY)
        off = row_norms(off_subdifferential(rest, W, self.l1))
        return np.where(norms > 0.0, off, np.maximum(off - self.group, 0.0))[:, 0]


def Group(strength: float = 1.0) -> SparseGroup:
    """Return strength * sum_j |W_j|_2: a feature is used by all classes or by none."""
    return SparseGroup(group=strength, l1=0.0, l2=0.0)
