"""Losses of one score against one target, entry by entry: value, slope, curvature, conjugate and dual step.

    f(s, t)          a score s and its target t;  a matrix of them is a sum over its entries      maths: ball, section 2
    f*(u, t)         sup over s of u s - f(s, t);  inf outside its domain, which always holds 0
    dual step        argmax over u of  s u - f*(u, t) - (u - u0)^2 / (2 r)

For margin losses t = -1 or +1, f(s, t) = h(w) and f*(u, t) = h*(t u) with w = t s. ``curvature`` bounds the second
derivative, ``steepest`` the first, ``dual_curvature`` the second derivative of the conjugate; ``compiled`` is the same
loss for compiled loops. All arguments are arrays of one shape, or broadcast to it; nothing is written in place.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, xlog1py, xlogy

from softmargin.core.pieces import Array, EntrywiseLoss
from softmargin.losses.compiled_entries import MAX_STEPS, ROUNDING, LogisticEntropy, PiecewiseQuadratic

__all__ = ["ENTRYWISE", "Hinge", "Logistic", "SmoothHinge", "Squared", "SquaredHinge"]


@dataclass(frozen=True)
class _Clipped:
    """Losses with the slope sign clip(w - m, low, high), w = sign s: piecewise quadratic."""

    curvature: float = 1.0
    is_margin: bool = True

    is_joint: ClassVar = False
    dual_curvature: ClassVar = 1.0
    compiled: ClassVar[PiecewiseQuadratic]

    @property
    def steepest(self) -> float:
        """The bound on the slope."""
        return max(-self.compiled.low, self.compiled.high)

    def _folded(self, target: Array) -> tuple[Any, Any]:
        """Return sign and m: the loss is one of sign * score - m."""
        return (target, 1.0) if self.is_margin else (1.0, target)

    def slope(self, scores: Array, target: Array) -> Array:
        """Return df/ds."""
        sign, m = self._folded(target)
        return np.asarray(sign * np.clip(sign * scores - m, self.compiled.low, self.compiled.high))

    def bend(self, scores: Array, target: Array) -> Array:
        """Return the second derivative, where there is one."""
        sign, m = self._folded(target)
        w = sign * scores
        return np.asarray((w > m + self.compiled.low) & (w < m + self.compiled.high), dtype=np.float64)

    def conjugate(self, u: Array, target: Array) -> Array:
        """Return f*."""
        sign, m = self._folded(target)
        y = sign * u
        return np.where((y >= self.compiled.low) & (y <= self.compiled.high), 0.5 * y**2 + m * y, np.inf)

    def dual_step(self, u: Array, scores: Array, target: Array, r: Array | float) -> Array:
        """Return the dual step of length r from u."""
        sign, m = self._folded(target)
        y = (sign * u + r * (sign * scores - m)) / (1.0 + r)
        return np.asarray(sign * np.clip(y, self.compiled.low, self.compiled.high))


@dataclass(frozen=True)
class SmoothHinge(_Clipped):
    """The hinge with its corner rounded off over a width, times that width: quadratic from the margin 1 - width to 1.

    Over its width it rises to the hinge as the width falls, by half of it at most: lower bounds are those of the hinge.
    """

    width: float = 1.0

    @property
    def compiled(self) -> PiecewiseQuadratic:  # type: ignore[override]
        """The same for compiled loops."""
        return PiecewiseQuadratic(-self.width, 0.0, is_margin=True)

    def value(self, scores: Array, target: Array) -> Array:
        """Return f."""
        short: Array = np.maximum(1.0 - target * scores, 0.0)
        return np.where(short > self.width, self.width * (short - 0.5 * self.width), 0.5 * short**2)


class SquaredHinge(_Clipped):
    """Half the square of the hinge."""

    compiled: ClassVar = PiecewiseQuadratic(-np.inf, 0.0, is_margin=True)

    def value(self, scores: Array, target: Array) -> Array:
        """Return f."""
        return 0.5 * np.maximum(1.0 - target * scores, 0.0) ** 2


@dataclass(frozen=True)
class Squared(_Clipped):
    """Half the squared difference."""

    is_margin: bool = False

    compiled: ClassVar = PiecewiseQuadratic(-np.inf, np.inf, is_margin=False)

    def value(self, scores: Array, target: Array) -> Array:
        """Return f."""
        return 0.5 * (scores - target) ** 2

    def slope(self, scores: Array, target: Array) -> Array:
        """Return df/ds, which is never clipped."""
        return scores - target

    def bend(self, scores: Array, target: Array) -> Array:
        """Return the second derivative."""
        return np.ones(np.broadcast_shapes(np.shape(scores), np.shape(target)))


@dataclass(frozen=True)
class Logistic:
    """The logistic loss of the margin."""

    curvature: float = 0.25
    steepest: float = 1.0
    is_margin: bool = True

    is_joint: ClassVar = False
    dual_curvature: ClassVar = np.inf
    compiled: ClassVar = LogisticEntropy()

    def value(self, scores: Array, target: Array) -> Array:
        """Return f."""
        return np.asarray(np.logaddexp(0.0, -target * scores))

    def slope(self, scores: Array, target: Array) -> Array:
        """Return df/ds."""
        return np.asarray(-target * expit(-target * scores))

    def bend(self, scores: Array, target: Array) -> Array:
        """Return the second derivative."""
        p = expit(target * scores)
        return np.asarray(p * (1.0 - p))

    def conjugate(self, u: Array, target: Array) -> Array:
        """Return f*."""
        y = target * u
        inside = (y >= -1.0) & (y <= 0.0)
        q = np.where(inside, -y, 0.5)
        return np.where(inside, xlogy(q, q) + xlog1py(1.0 - q, -q), np.inf)

    def dual_step(self, u: Array, scores: Array, target: Array, r: Array | float) -> Array:
        """Return the dual step of length r from u: the root of (y - y0) / r = w + log(-y / (1 + y)), y = -expit(-v).

        In v the equation is g(v) = v - w - (expit(-v) + y0) / r = 0 with g' >= 1: Newton's method inside a bracket.
        """
        w, y0 = np.broadcast_arrays(target * scores, target * u)
        r = np.broadcast_to(r, w.shape)
        # expit lies in (0, 1), which brackets the root.
        low, high = w + y0 / r, w + (1.0 + y0) / r
        v = np.clip(w, low, high)
        for _ in range(MAX_STEPS):
            q = expit(-v)
            g = v - w - (q + y0) / r
            low, high = np.where(g < 0.0, v, low), np.where(g > 0.0, v, high)
            new = v - g / (1.0 + q * (1.0 - q) / r)
            new = np.where((new > low) & (new < high), new, 0.5 * (low + high))
            is_done = np.abs(new - v) <= ROUNDING * (1.0 + np.abs(v))
            v = np.where(g == 0.0, v, new)
            if (is_done | (g == 0.0)).all():
                break
        return np.asarray(-target * expit(-v))


@dataclass(frozen=True)
class Hinge:
    """The hinge, whose corner no smooth method minimises."""

    curvature: float = np.inf
    steepest: float = 1.0
    is_margin: bool = True

    is_joint: ClassVar = False
    dual_curvature: ClassVar = 0.0

    def value(self, scores: Array, target: Array) -> Array:
        """Return f."""
        return np.maximum(1.0 - target * scores, 0.0)

    def slope(self, scores: Array, target: Array) -> Array:
        """Return df/ds, 0 at the corner."""
        return np.asarray(-target * (target * scores < 1.0))

    def bend(self, scores: Array, target: Array) -> Array:
        """Return the second derivative, where there is one."""
        return np.zeros(np.broadcast_shapes(np.shape(scores), np.shape(target)))

    def conjugate(self, u: Array, target: Array) -> Array:
        """Return f*."""
        y = target * u
        return np.where((y >= -1.0) & (y <= 0.0), y, np.inf)

    def dual_step(self, u: Array, scores: Array, target: Array, r: Array | float) -> Array:
        """Return the dual step of length r from u."""
        return np.asarray(target * np.clip(target * u + r * (target * scores - 1.0), -1.0, 0.0))


ENTRYWISE: dict[str, EntrywiseLoss] = {
    "smooth_hinge": SmoothHinge(),
    "squared_hinge": SquaredHinge(),
    "logistic": Logistic(),
    "squared": Squared(),
}
