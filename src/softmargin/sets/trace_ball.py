"""The trace-norm ball: matrices whose singular values sum to at most the radius. Maths: ball, section 3.

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
from softmargin.sets.truncated import Triples

__all__ = ["TraceBall"]

Array = NDArray[Any]
SMALL = 64  # a matrix with at most so many rows or columns gets a full decomposition; by hand


class TraceBall(NamedTuple):
    """All W with sum of singular values <= radius."""

    radius: float

    def project(self, V: Array) -> Array:
        """Return the nearest point, by all singular values."""
        return self.nearest(V).toarray()

    def nearest(self, V: Array) -> LowRank:
        """Return the nearest point by its factors, which are orthogonal."""
        U, s, Vt = svd(V, full_matrices=False)
        return self.shrink(Triples(U, s, Vt.T, None))

    def shrink(self, triples: Triples, most: int | None = None) -> LowRank:
        """Return the nearest point, of rank ``most`` at most, to a matrix given by its leading triples."""
        kept = self.shrunk(triples.s[:most])
        r = int((kept > 0.0).sum())
        # Copies: a view would keep all the triples, and its layout would not survive a checkpoint.
        return LowRank(triples.U[:, :r].copy(), kept[:r].copy(), triples.V[:, :r].copy())

    def shrunk(self, s: Array) -> Array:
        """Return the nearest singular values that the ball allows."""
        kept = np.maximum(s - self.theta(s), 0.0)
        # The subtraction loses digits where s is far outside: what rounding left too much is taken back.
        total = kept.sum()
        return kept * (self.radius / total) if total > self.radius else kept

    def theta(self, s: Array) -> float:
        """Return by how much singular values shrink."""
        return 0.0 if s.sum() <= self.radius else threshold(s, self.radius)

    def leading(self, G: Array, size: int) -> tuple[Array, Array, Array]:
        """Return U, s and V' of the ``size`` largest singular values; their order is not fixed."""
        if min(G.shape) <= SMALL or 2 * size >= min(G.shape) or not G.any():
            U, s, Vt = svd(G, full_matrices=False)
            return U[:, :size], s[:size], Vt[:size]
        U, s, Vt = svds(G, k=size, rng=0)
        return U, s, Vt

    def lmo(self, G: Array) -> LowRank:
        """Return the corner at the largest singular value of G."""
        U, _, Vt = self.leading(G, 1)
        return LowRank(-U[:, :1], np.array([self.radius]), Vt[:1].T)

    def least(self, Z: Array, l2: float) -> float:
        """Return the least value of l2 / 2 |W|^2 + <Z, W>, by the singular values of Z."""
        return self.least_by(svdvals(Z), l2)

    def least_by(self, s: Array, l2: float) -> float:
        """Do the same, given the singular values of Z, sorted; those that shrink to zero may be left out.

        It is -|p|^2 / (2 l2) - theta radius, p = [s - theta]_+: any theta >= 0 gives a lower bound, so that no rounding
        of it can make one that is too high.
        """
        if l2 == 0.0:
            return -self.radius * float(s[0])
        theta = max(TraceBall(l2 * self.radius).theta(s), 0.0)
        p = np.maximum(s - theta, 0.0)
        return -float(p @ p) / (2.0 * l2) - theta * self.radius

    def squared_diameter(self, shape: tuple[int, int]) -> float:
        """Return a bound on |V - W|^2 over the set."""
        return 4.0 * self.radius**2

    def size(self, W: Any) -> float:
        """Return the sum of singular values / radius."""
        s = W.orthogonal().s if isinstance(W, LowRank) else svdvals(W)
        return float(s.sum()) / self.radius
