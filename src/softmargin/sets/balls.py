"""Convex sets of weights, entry by entry: the l1 ball, the simplex, the box.

    project(V)     the nearest point of the set                                            |W - V| least
    lmo(G)         the corner that goes furthest against G                                 <W, G> least
    least(Z, l2)   min over the set of l2 / 2 |W|^2 + <Z, W>: what the dual value of a problem asks for    spec 1.1
    size(W)        how much of the set W uses: at most 1 inside it, 1 on its boundary

W, V, G and Z are arrays (d, k); the l1 ball and the simplex take all entries together. ``lmo`` gives an atom.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.errors import DataError
from softmargin.sets.atoms import SingleEntry, Whole

__all__ = ["Box", "L1Ball", "Simplex", "checked_radius", "threshold"]

Array = NDArray[Any]


def checked_radius(radius: Any) -> float:
    """Return a radius as a float; refuse what is not positive and finite."""
    if not (np.isfinite(radius) and radius > 0.0):
        raise DataError(f"radius must be positive and finite; found {radius}.")
    return float(radius)


def threshold(sizes: Array, radius: float) -> float:
    """Return the theta with sum_j [sizes_j - theta]_+ = radius, for sizes that sum to radius or more (Michelot)."""
    active = sizes[sizes >= sizes.max() - radius]  # theta is at least max - radius, which may round to max
    while True:
        theta = (active.sum() - radius) / len(active)
        rest = active[active > theta]
        if len(rest) == len(active) or len(rest) == 0:
            return float(theta)
        active = rest


def _least(ball: Any, Z: Array, l2: float) -> float:
    if l2 == 0.0:
        return float(ball.lmo(Z).inner(Z))
    W = ball.project(-Z / l2)
    return 0.5 * l2 * float(np.vdot(W, W)) + float(np.vdot(Z, W))


class L1Ball(NamedTuple):
    """All W with sum |W_jc| <= radius."""

    radius: float

    def project(self, V: Array) -> Array:
        """Return the nearest point: every entry shrinks by the same amount."""
        sizes = np.abs(V)
        if sizes.sum() <= self.radius:
            return np.array(V, dtype=np.float64)
        W = np.maximum(sizes - threshold(sizes.ravel(), self.radius), 0.0)
        # The subtraction loses digits where V is far outside: what rounding left too much is taken back.
        total = W.sum()
        if total > self.radius:
            W *= self.radius / total
        return np.copysign(W, V)

    def lmo(self, G: Array) -> SingleEntry:
        """Return the corner at the largest entry of G."""
        j, c = np.unravel_index(int(np.abs(G).argmax()), G.shape)
        return SingleEntry(int(j), int(c), float(-np.copysign(self.radius, G[j, c])), G.shape)

    def least(self, Z: Array, l2: float) -> float:
        """Return the least value of l2 / 2 |W|^2 + <Z, W>: -|R|^2 / (2 l2) - theta radius, R = [|Z| - theta]_+.

        Any theta >= 0 gives a lower bound, so that no rounding of it can make one that is too high.
        """
        sizes = np.abs(Z)
        if l2 == 0.0:
            return -self.radius * float(sizes.max())
        theta = threshold(sizes.ravel(), l2 * self.radius) if sizes.sum() > l2 * self.radius else 0.0
        theta = max(theta, 0.0)
        R = np.maximum(sizes - theta, 0.0)
        return -float(np.vdot(R, R)) / (2.0 * l2) - theta * self.radius

    def squared_diameter(self, shape: tuple[int, int]) -> float:
        """Return a bound on |V - W|^2 over the set."""
        return 4.0 * self.radius**2

    def size(self, W: Array) -> float:
        """Return sum |W_jc| / radius."""
        return float(np.abs(W).sum()) / self.radius


class Simplex(NamedTuple):
    """All W >= 0 with sum W_jc = radius."""

    radius: float

    def project(self, V: Array) -> Array:
        """Return the nearest point."""
        # The threshold may be negative: shift V so that it is not.
        shift = max(0.0, float(self.radius - V.max()))
        theta = threshold((V + shift).ravel(), self.radius)
        return np.maximum(V + (shift - theta), 0.0)

    def lmo(self, G: Array) -> SingleEntry:
        """Return the corner at the least entry of G."""
        j, c = np.unravel_index(int(G.argmin()), G.shape)
        return SingleEntry(int(j), int(c), self.radius, G.shape)

    def least(self, Z: Array, l2: float) -> float:
        """Return the least value of l2 / 2 |W|^2 + <Z, W>."""
        return _least(self, Z, l2)

    def squared_diameter(self, shape: tuple[int, int]) -> float:
        """Return a bound on |V - W|^2 over the set."""
        return 4.0 * self.radius**2

    def size(self, W: Array) -> float:
        """Return 1: every point is on the boundary; inf outside."""
        return 1.0 if W.min() >= 0.0 and abs(W.sum() - self.radius) <= 1e-9 * self.radius else np.inf


class Box(NamedTuple):
    """All W with low <= W_jc <= high."""

    low: float
    high: float

    def project(self, V: Array) -> Array:
        """Return the nearest point."""
        return np.clip(V, self.low, self.high)

    def lmo(self, G: Array) -> Whole:
        """Return the corner against the signs of G."""
        return Whole(np.where(G > 0.0, self.low, self.high))

    def least(self, Z: Array, l2: float) -> float:
        """Return the least value of l2 / 2 |W|^2 + <Z, W>."""
        return _least(self, Z, l2)

    def squared_diameter(self, shape: tuple[int, int]) -> float:
        """Return a bound on |V - W|^2 over the set."""
        return float((self.high - self.low) ** 2 * shape[0] * shape[1])

    def size(self, W: Array) -> float:
        """Return how far W goes from the middle of the box, as a share of the way to its sides."""
        half = 0.5 * (self.high - self.low)
        return float(np.abs(W - (self.low + half)).max() / half)
