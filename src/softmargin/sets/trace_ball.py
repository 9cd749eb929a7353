"""The trace-norm ball: matrices whose singular values sum to at most the radius. Spec 1.5.

The nearest point has the same singular vectors, and the singular values nearest to theirs: only those above the common
threshold remain. Its corners are the matrices radius * u v' of rank one.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import svd, svdvals
from scipy.sparse.linalg import svds

from softmargin.sets.atoms import LowRank
from softmargin.sets.balls import threshold

__all__ = ["TraceBall"]

Array = NDArray[Any]
SMALL = 64  # a matrix with fewer rows or columns is decomposed as a whole


class TraceBall(NamedTuple):
    """All W with sum of singular values <= radius."""

    radius: float

    def project(self, V: Array) -> Array:
        """Return the nearest point, by all singular values."""
        return self.nearest(V).toarray()

    def nearest(self, V: Array) -> LowRank:
        """Return the nearest point by its factors, which are orthogonal."""
        U, s, Vt = svd(V, full_matrices=False)
        kept = self.shrunk(s)
        r = int((kept > 0.0).sum())
        return LowRank(U[:, :r], kept[:r], Vt[:r].T)

    def shrunk(self, s: Array) -> Array:
        """Return the nearest singular values that the ball allows."""
        return s if s.sum() <= self.radius else np.maximum(s - threshold(s, self.radius), 0.0)

    def lmo(self, G: Array) -> LowRank:
        """Return the corner at the largest singular value of G."""
        if min(G.shape) <= SMALL:
            U, _, Vt = svd(G, full_matrices=False)
        else:
            U, _, Vt = svds(G, k=1, rng=0)
        return LowRank(-U[:, :1], np.array([self.radius]), Vt[:1].T)

    def least(self, Z: Array, l2: float) -> float:
        """Return the least value of l2 / 2 |W|^2 + <Z, W>, by the singular values of Z."""
        s = svdvals(Z)
        if l2 == 0.0:
            return -self.radius * float(s[0])
        p = self.shrunk(s / l2)
        return 0.5 * l2 * float(p @ p) - float(s @ p)

    def size(self, W: Any) -> float:
        """Return the sum of singular values / radius."""
        return float(svdvals(W.toarray() if isinstance(W, LowRank) else W).sum()) / self.radius
