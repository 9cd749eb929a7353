"""The convex hull of given atoms: a set that is known by its corners alone.

    nearest point      sum_j lambda_j a_j ,  lambda in the simplex: Wolfe's method for the point of least norm of a - V
    least value        l2 / 2 |W|^2 + <Z, W>  >=  min_j <G, a_j> - l2 / 2 |W0|^2 ,   G = Z + l2 W0 ,   for any W0

The second line is convexity at W0; with W0 the nearest point to -Z / l2 both sides are equal but for rounding.

Source: Wolfe (1976), *Finding the nearest point in a polytope*; paper 001, Appendix B.9, where only corners are asked
for.
"""

import hashlib
import math
from functools import cached_property
from typing import Any

import numpy as np

from softmargin.core.errors import DataError
from softmargin.core.protocols import Array
from softmargin.core.rounding import SLACK, Rounded, gamma, norms
from softmargin.sets.atoms import LowRank

__all__ = ["Hull"]

_ROUNDING = 1e-9  # how far from the hull a point may be, in lengths of the longest atom
_LAST = 1e-14  # of the squared length: a step that gains less is rounding
_EMPTY = 1e-14  # an atom with less weight is dropped
_STEPS = 10  # Wolfe's method ends after so many times as many steps as there are atoms, at the latest


class Hull:
    """All convex combinations of atoms.

    Parameters
    ----------
    atoms : array of shape (m, d, k), or (m, d) for one target
        Its corners; others may be among them.
    """

    def __init__(self, atoms: Any) -> None:
        atoms = np.array(atoms, dtype=np.float64, order="C")
        self.atoms = atoms[:, :, None] if atoms.ndim == 2 else atoms
        if self.atoms.ndim != 3 or 0 in self.atoms.shape or not np.isfinite(self.atoms).all():
            raise DataError(f"atoms have shape {atoms.shape}; finite numbers of shape (m, d, k) or (m, d) are needed.")
        self._flat = self.atoms.reshape(len(self.atoms), -1)

    def __repr__(self) -> str:
        """Name the atoms by a hash: fingerprints of problems hold it."""
        return f"Hull({self.atoms.shape}, {hashlib.sha256(self.atoms.tobytes()).hexdigest()[:16]})"

    @cached_property
    def _sizes(self) -> Array:
        """Norms of the columns of all atoms; (m, k)."""
        return norms(self.atoms, axis=1)

    @cached_property
    def _longest(self) -> float:
        return float(np.linalg.norm(self._flat, axis=1).max())

    def project(self, V: Array) -> Array:
        """Return the nearest point."""
        used, weights = self._nearest(V)
        return np.asarray((weights @ self._flat[used]).reshape(V.shape))

    def lmo(self, G: Array) -> LowRank:
        """Return the atom with the least <W, G>."""
        k = G.shape[1]
        return LowRank(self.atoms[int((self._flat @ G.ravel()).argmin())], np.ones(k), np.eye(k))

    def least(self, Z: Array, l2: float) -> float:
        """Return the least value of l2 / 2 |W|^2 + <Z, W>."""
        W = self.project(-Z / l2) if l2 > 0.0 else np.zeros(Z.shape)
        return float((self._flat @ (Z + l2 * W).ravel()).min()) - 0.5 * l2 * float(np.vdot(W, W))

    def least_below(self, Z: Array, l2: float, errors: Array) -> Rounded:
        """Return the least value, for columns of Z within these Euclidean distances of exact ones; (k,)."""
        W = self.project(-Z / l2) if l2 > 0.0 else np.zeros(Z.shape)
        heights, square = self._flat @ (Z + l2 * W).ravel(), 0.5 * l2 * float(np.vdot(W, W))
        # <G, a_j> is a sum of products of terms of two roundings; an error of Z costs its columns times those of a_j.
        own = gamma(Z.size + 4) * (np.abs(self._flat) @ (np.abs(Z) + l2 * np.abs(W)).ravel())
        charge = float((self._sizes @ errors + own).max()) + gamma(Z.size + 4) * square
        return Rounded(float(heights.min()), SLACK * charge) - Rounded(square)

    def size(self, W: Array) -> float:
        """Return 1: nothing is said of how far inside a point is; inf outside."""
        return 1.0 if self.excess(W) < math.inf else math.inf

    def excess(self, W: Array) -> float:
        """Return the distance to an exact point of the hull as a share of W, the largest of all columns."""
        used, weights = self._nearest(W)
        parts = (weights @ self._flat[used]).reshape(W.shape)
        rounding = gamma(len(used) + 4) * (weights @ self._sizes[used])
        away = SLACK * (norms(W - parts, axis=0) + rounding)
        if not float(away.sum()) <= _ROUNDING * self._longest:
            return math.inf
        lengths = np.linalg.norm(W, axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.where(away > 0.0, SLACK * away / lengths, 0.0).max())

    def squared_diameter(self, shape: tuple[int, int]) -> float:
        """Return a bound on |V - W|^2 over the set."""
        return 4.0 * float(np.square(self._flat - self._flat.mean(axis=0)).sum(axis=1).max())

    def _nearest(self, V: Array) -> tuple[Array, Array]:
        """Return which atoms the nearest point to V uses, and their weights, which are positive and sum to 1."""
        points = self._flat - V.ravel()
        squares = np.einsum("jt,jt->j", points, points)
        used, weights = np.array([int(squares.argmin())]), np.ones(1)
        small = _LAST * float(squares.max())
        for _ in range(_STEPS * len(points)):
            x = weights @ points[used]
            heights = points @ x
            best = int(heights.argmin())
            if not float(x @ x) - heights[best] > small or best in used:
                break
            used, weights = _with(points, np.append(used, best), np.append(weights, 0.0))
        return used, weights / weights.sum()


def _with(points: Array, used: Array, weights: Array) -> tuple[Array, Array]:
    """Return the point of least norm on the affine hull of these, or where the way there leaves their convex hull."""
    while True:
        gram = points[used] @ points[used].T
        system = np.block([[gram, np.ones((len(used), 1))], [np.ones((1, len(used))), np.zeros((1, 1))]])
        new = np.linalg.lstsq(system, np.append(np.zeros(len(used)), 1.0), rcond=None)[0][:-1]
        leaves = new <= _EMPTY
        if not leaves.any():
            return used, new
        length = float((weights[leaves] / np.maximum(weights[leaves] - new[leaves], _EMPTY)).min())
        weights = weights + min(length, 1.0) * (new - weights)
        is_kept = weights > _EMPTY
        is_kept[np.argmax(weights)] = True
        if is_kept.all():
            is_kept[np.argmin(weights)] = False  # rounding: something has to go
        used, weights = used[is_kept], weights[is_kept]
        if len(used) == 1:
            return used, np.ones(1)
