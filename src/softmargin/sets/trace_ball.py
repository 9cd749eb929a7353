"""The trace-norm ball: matrices whose singular values sum to at most the radius. Maths: ball, section 3.

The nearest point has the same singular vectors; its singular values are the projection of theirs on the l1 ball: only
those above a common threshold remain. The corners are the matrices radius * u v' of rank one.
"""

import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.linalg import svd
from scipy.linalg.blas import dnrm2
from scipy.sparse.linalg import svds

from softmargin.core.deadline import check_time
from softmargin.core.protocols import Array
from softmargin.core.rounding import Rounded, gamma
from softmargin.sets.atoms import LowRank
from softmargin.sets.balls import Ball, L1Ball, by_rounding, threshold
from softmargin.sets.truncated import Triples, svd_work, values_work

__all__ = ["TraceBall"]

SMALL = 64  # a matrix with at most so many rows or columns gets a full decomposition; by hand
# Assumed, not proven: LAPACK's singular values are those of a matrix within gamma(8 (d + k)) |Z| of Z. Its guide says
# "a modest polynomial of d and k"; measured on matrices up to 20 x 10, the distance is below gamma(d + k) |Z|.
_SVD = 8


class TraceBall(Ball):
    """All W with sum of singular values <= radius."""

    @cached_property
    def _of_values(self) -> L1Ball:
        """The l1 ball of singular values."""
        return L1Ball(self.radius)

    def project(self, V: Array) -> Array:
        """Return the nearest point, by all singular values."""
        return self.nearest(V).toarray()

    def nearest(self, V: Array) -> LowRank:
        """Return the nearest point by its singular triples."""
        if not V.any():
            return LowRank.zero(V.shape)
        check_time(svd_work(V.shape))
        U, s, Vt = svd(V, full_matrices=False)
        return self.shrink(Triples(U, s, Vt.T, None))

    def shrink(self, triples: Triples, most: int | None = None) -> LowRank:
        """Return the nearest point of rank at most ``most`` to a matrix given by its leading triples."""
        kept = self.shrunk(triples.s[:most])
        r = int((kept > 0.0).sum())
        # Copies: a view would keep all the triples, and its layout would not survive a checkpoint.
        return LowRank(triples.U[:, :r].copy(), kept[:r].copy(), triples.V[:, :r].copy())

    def shrunk(self, s: Array) -> Array:
        """Return the singular values of the nearest point."""
        return self._of_values.project(s)

    def theta(self, s: Array) -> float:
        """Return the threshold by which singular values shrink."""
        return 0.0 if s.sum() <= self.radius else threshold(s, self.radius)

    def leading(self, G: Array, size: int) -> tuple[Array, Array, Array]:
        """Return U, s and V' of the ``size`` largest singular values; their order is not fixed."""
        if min(G.shape) <= SMALL or 2 * size >= min(G.shape) or not G.any():
            check_time(svd_work(G.shape))
            U, s, Vt = svd(G, full_matrices=False)
            return U[:, :size], s[:size], Vt[:size]
        check_time()
        U, s, Vt = svds(G, k=size, rng=0)
        return U, s, Vt

    def lmo(self, G: Array) -> LowRank:
        """Return the corner at the largest singular value of G."""
        U, _, Vt = self.leading(G, 1)
        return LowRank(-U[:, :1], np.array([self.radius]), Vt[:1].T)

    def least(self, Z: Array, l2: float) -> float:
        """Return the least value of l2 / 2 |W|^2 + <Z, W>, by the singular values of Z."""
        return self.least_by(_singular_values(Z), l2)

    def least_by(self, s: Array, l2: float) -> float:
        """Do the same, given the singular values of Z; those that shrink to zero may be left out."""
        return self._of_values.least(s, l2)

    def size(self, W: Any) -> float:
        """Return the sum of singular values / radius."""
        if not isinstance(W, LowRank) and not W.any():
            return 0.0
        s = W.orthogonal().s if isinstance(W, LowRank) else _singular_values(W)
        return float(s.sum()) / self.radius

    def excess(self, W: Any) -> float:
        """Return a bound on size - 1; inf beyond rounding.

        No sum of singular values exceeds sum_r |s_r| |U_r| |V_r|; by LAPACK it may be less.
        """
        roundings = _SVD * sum(W.shape) * math.sqrt(min(W.shape))
        if isinstance(W, LowRank):
            spread = W.spread()
            value = min(spread, float(W.orthogonal().s.sum())) if spread > self.radius else spread
        else:
            spread = float(np.linalg.norm(W))
            value = float(_singular_values(W).sum()) if np.isfinite(spread) else math.inf
        return by_rounding((value + gamma(roundings) * spread) / self.radius - 1.0, 4.0 * roundings)

    def least_below(self, Z: Array, l2: float, errors: Array) -> Rounded:
        """Return the least value, for columns of Z within these Euclidean distances of exact ones; (k,).

        Singular values move by no more than Z does, each and all together (Mirsky).
        """
        check_time(values_work(Z.shape))
        whole = float(np.linalg.norm(errors)) + gamma(_SVD * sum(Z.shape)) * float(np.linalg.norm(Z))
        return self._of_values.bound_by(_singular_values(Z), l2, whole, whole)


def _singular_values(W: Array) -> Array:
    """Return the singular values; that of one row or column is its length."""
    return np.array([dnrm2(W.ravel())]) if 1 in W.shape else svd(W, compute_uv=False)
