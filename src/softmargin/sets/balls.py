"""Convex sets of weights, entry by entry: the l1 ball, the simplex, the box.

    project(V)     the nearest point of the set: |W - V| is least
    lmo(G)         a corner that minimises <W, G>, as an atom
    least(Z, l2)   the minimum of l2 / 2 |W|^2 + <Z, W> over the set, a term of the dual value     maths: ball, eq. 2
    least_below    the same as a proven lower bound, for Z within known errors                maths: rounding, section 6
    size(W)        how much of the set W uses: at most 1 inside it, 1 on its boundary
    excess(W)      by which share W is outside, at most; inf where that is more than rounding

W, V, G and Z are arrays (d, k); the l1 ball and the simplex constrain all entries together.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from softmargin.core.parameters import POSITIVE, CheckedFields, checked
from softmargin.core.protocols import Array
from softmargin.core.rounding import SLACK, TINY, UNIT, Rounded, gamma
from softmargin.sets._l1_loops import level, pulled, shrunk
from softmargin.sets.atoms import LowRank, SingleEntry

__all__ = [
    "Ball",
    "Box",
    "L1Ball",
    "Simplex",
    "by_rounding",
    "checked_radius",
    "lower_bound",
    "threshold",
]

_ROUNDING = 1e-9  # relative: how far the sum over a simplex may be from its radius


def checked_radius(radius: Any) -> float:
    """Return a radius as a float; refuse one that is not positive and finite."""
    return float(checked("radius", radius, POSITIVE))


def threshold(sizes: Array, radius: float) -> float:
    """Return the theta with sum_j [sizes_j - theta]_+ = radius, for sizes that sum to radius or more (Michelot)."""
    active = sizes[sizes >= sizes.max() - radius]  # theta is at least max - radius, which may round to max
    while True:
        theta = (active.sum() - radius) / len(active)
        rest = active[active > theta]
        if len(rest) == len(active) or len(rest) == 0:
            return float(theta)
        active = rest


def by_rounding(share: float, operations: float) -> float:
    """Return a share outside a set, not negative; inf where it is more than that many roundings, or no number."""
    share += 4.0 * UNIT  # of a sum that is rounded once, a division and a subtraction
    return max(share, 0.0) if share <= gamma(operations + 16) else math.inf


def _exact_sum(sizes: Array, radius: float) -> float:
    """Return the sum, rounded once; inf where it is far above the radius, or no number."""
    with np.errstate(over="ignore"):
        is_near = 0.5 * float(sizes.sum()) <= radius
    return math.fsum(sizes[sizes != 0.0]) if is_near else math.inf


def lower_bound(sizes: Array, theta: float, radius: float, l2: float, most: float, whole: float) -> Rounded:
    """Return -|R|^2 / (2 l2) - theta radius, R = [sizes - theta]_+ , which for no theta is above the least value.

    The sizes are within ``most`` of exact ones each, and within ``whole`` all together. Exact sizes and theta + most
    give R or less, at the price radius * most; exact sizes and theta give R within ``whole``: the cheaper one is
    charged. Where l2 = 0, theta is the largest size, and R = 0.
    """
    R = np.maximum(sizes - theta, 0.0)
    square, charge, ridge = float(np.vdot(R, R)), radius * most, 0.0
    operations = int(np.count_nonzero(R)) + 8
    if l2 > 0.0:
        ridge = square / (2.0 * l2)
        charge = min(charge, (math.sqrt(square) + whole) * whole / l2) + operations * TINY / l2
    own = gamma(operations) * (ridge + abs(theta) * radius) + TINY
    return Rounded(-ridge - theta * radius, SLACK * (charge + own))


@dataclass(frozen=True)
class Ball(CheckedFields):
    """What sets of a radius share; the simplex is one, too."""

    radius: float

    allowed: ClassVar = {"radius": (POSITIVE,)}

    def least(self: Any, Z: Array, l2: float) -> float:
        """Return the least value of l2 / 2 |W|^2 + <Z, W>."""
        if l2 == 0.0:
            return float(self.lmo(Z).inner(Z))
        W = self.project(-Z / l2)
        return 0.5 * l2 * float(np.vdot(W, W)) + float(np.vdot(Z, W))

    def squared_diameter(self, shape: tuple[int, int]) -> float:
        """Return a bound on |V - W|^2 over the set."""
        return 4.0 * self.radius**2


class L1Ball(Ball):
    """All W with sum |W_jc| <= radius."""

    def project(self, V: Array) -> Array:
        """Return the nearest point: every entry shrinks by the same amount."""
        sizes = np.abs(V)
        if sizes.sum() <= self.radius:
            return np.array(V, dtype=np.float64)
        W = np.maximum(sizes - threshold(sizes.ravel(), self.radius), 0.0)
        # The subtraction cancels digits where V is far outside: scale back into the ball.
        total = W.sum()
        if total > self.radius:
            W *= self.radius / total
        return np.copysign(W, V)

    def level(self, V: Array, guess: float = 0.0) -> float:
        """Return the threshold of the projection of V, from a guess; 0 inside the ball. Compiled."""
        return float(level(V.reshape(-1), self.radius, guess))

    def shrink_into(self, V: Array, theta: float, scale: float, out: Array) -> None:
        """Write scale * sign(V) [|V| - theta]_+ , rescaled into the ball where rounding left it. Compiled."""
        shrunk(V.reshape(-1), theta, scale, self.radius, out.reshape(-1))

    def pull_into(self, V: Array, pulls: Array, guess: float, out: Array) -> float:
        """Write the W of the ball with the least sum_jc (W_jc - V_jc)^2 / pulls_j; (d, k) and (d,). Compiled.

        Entries shrink by theta pulls_j; theta is returned, a guess for the next one.
        """
        return float(pulled(V.reshape(-1), pulls, self.radius, guess, out.reshape(-1)))

    def lmo(self, G: Array) -> SingleEntry:
        """Return the corner at the largest entry of G."""
        j, c = np.unravel_index(int(np.abs(G).argmax()), G.shape)
        return SingleEntry(int(j), int(c), float(-np.copysign(self.radius, G[j, c])), G.shape)

    def least(self, Z: Array, l2: float) -> float:
        """Return the least value of l2 / 2 |W|^2 + <Z, W>: -|R|^2 / (2 l2) - theta radius, R = [|Z| - theta]_+.

        Any theta >= 0 gives a lower bound, so rounding of theta cannot make the bound too high.
        """
        sizes = np.abs(Z)
        if l2 == 0.0:
            return -self.radius * float(sizes.max())
        theta = max(threshold(sizes.ravel(), l2 * self.radius), 0.0) if sizes.sum() > l2 * self.radius else 0.0
        R = np.maximum(sizes - theta, 0.0)
        return -float(np.vdot(R, R)) / (2.0 * l2) - theta * self.radius

    def size(self, W: Array) -> float:
        """Return sum |W_jc| / radius."""
        return float(np.abs(W).sum()) / self.radius

    def excess(self, W: Array) -> float:
        """Return a bound on size - 1; inf beyond rounding."""
        return by_rounding(_exact_sum(np.abs(W), self.radius) / self.radius - 1.0, W.size)

    def least_below(self, Z: Array, l2: float, errors: Array) -> Rounded:
        """Return the least value, for columns of Z within these Euclidean distances of exact ones; (k,)."""
        return self.bound_by(np.abs(Z), l2, float(errors.max()), float(np.linalg.norm(errors)))

    def bound_by(self, sizes: Array, l2: float, most: float, whole: float) -> Rounded:
        """Do the same, given the sizes of the entries of Z and their errors, largest and all together."""
        theta = float(sizes.max())
        if l2 > 0.0:
            theta = max(threshold(sizes.ravel(), l2 * self.radius), 0.0) if sizes.sum() > l2 * self.radius else 0.0
        return lower_bound(sizes, theta, self.radius, l2, most, whole)


class Simplex(Ball):
    """All W >= 0 with sum W_jc = radius."""

    def project(self, V: Array) -> Array:
        """Return the nearest point."""
        # The threshold may be negative: shift V to make it positive.
        shift = max(0.0, float(self.radius - V.max()))
        theta = threshold((V + shift).ravel(), self.radius)
        W = np.maximum(V + (shift - theta), 0.0)
        # The subtraction cancels digits where V is far outside: scale to the radius.
        total = W.sum()
        return W * (self.radius / total) if total > 0.0 else self.lmo(-V).toarray()

    def lmo(self, G: Array) -> SingleEntry:
        """Return the corner at the least entry of G."""
        j, c = np.unravel_index(int(G.argmin()), G.shape)
        return SingleEntry(int(j), int(c), self.radius, G.shape)

    def size(self, W: Array) -> float:
        """Return 1: every point is on the boundary; inf outside."""
        return 1.0 if W.min() >= 0.0 and abs(W.sum() - self.radius) <= _ROUNDING * self.radius else np.inf

    def excess(self, W: Array) -> float:
        """Return a bound on |sum / radius - 1|; inf beyond rounding."""
        share = abs(_exact_sum(W, self.radius) / self.radius - 1.0)
        return by_rounding(share, W.size) if W.min() >= 0.0 else math.inf

    def least_below(self, Z: Array, l2: float, errors: Array) -> Rounded:
        """Return the least value, for columns of Z within these Euclidean distances of exact ones; (k,)."""
        theta = -float(Z.min())
        if l2 > 0.0:
            shift = max(0.0, l2 * self.radius - theta)
            theta = threshold((shift - Z).ravel(), l2 * self.radius) - shift
        return lower_bound(-Z, theta, self.radius, l2, float(errors.max()), float(np.linalg.norm(errors)))


@dataclass(frozen=True)
class Box:
    """All W with low <= W_jc <= high."""

    low: float
    high: float

    least = Ball.least

    def project(self, V: Array) -> Array:
        """Return the nearest point."""
        return np.clip(V, self.low, self.high)

    def lmo(self, G: Array) -> LowRank:
        """Return the corner against the signs of G."""
        k = G.shape[1]
        return LowRank(np.where(G > 0.0, self.low, self.high), np.ones(k), np.eye(k))

    def squared_diameter(self, shape: tuple[int, int]) -> float:
        """Return a bound on |V - W|^2 over the set."""
        return float((self.high - self.low) ** 2 * shape[0] * shape[1])

    def size(self, W: Array) -> float:
        """Return the largest distance of an entry from the middle of the box, as a share of half its width."""
        half = 0.5 * (self.high - self.low)
        return float(np.abs(W - (self.low + half)).max() / half)

    def excess(self, W: Array) -> float:
        """Return by which share of its bound an entry is outside; inf beyond rounding."""
        nearest = self.project(W)
        outside = nearest != W
        if not outside.any():
            return 0.0
        away = np.abs(W - nearest)[outside]
        with np.errstate(divide="ignore"):
            return by_rounding(float((away / np.abs(nearest[outside])).max()), 0)

    def least_below(self, Z: Array, l2: float, errors: Array) -> Rounded:
        """Return the least value, for columns of Z within these Euclidean distances of exact ones; (k,).

        At W in the box with the gradient G, no V is below the value at W less |G| |W - V|, nor less G^2 / (2 l2). For
        an exact Z the least value is where W is, or within its error / l2 of that.
        """
        W, doubt = self.lmo(Z).toarray(), np.zeros(Z.shape)
        if l2 > 0.0:
            W = self.project(-Z / l2)
            doubt = gamma(2) * (l2 * np.abs(W) + np.abs(Z)) + TINY
        G = l2 * W + Z
        size = np.abs(G) + doubt
        # Where rounding hides the sign of G, any corner may be the best one.
        slack = size * np.where(np.abs(G) > doubt, np.abs(W - self.lmo(G).toarray()), self.high - self.low)
        whole = float(np.linalg.norm(errors))
        charge = max(abs(self.low), abs(self.high)) * math.sqrt(len(Z)) * float(errors.sum())
        if l2 > 0.0:
            slack = np.minimum(slack, size * size / (2.0 * l2))
            charge = min(charge, (float(np.linalg.norm(W)) + whole / l2) * whole)
        ridge, inner = 0.5 * l2 * W * W, Z * W
        own = gamma(Z.size + 8) * float((ridge + np.abs(inner) + slack).sum()) + 8 * Z.size * TINY
        return Rounded(float((ridge + inner - slack).sum()), SLACK * (charge + own))
