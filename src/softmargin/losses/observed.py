"""An entrywise loss over the observed targets: entries whose target is NaN have loss 0.

With X = I the scores are the weights themselves, and their loss over the observed entries is matrix completion.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from softmargin.core.pieces import Array, EntrywiseLoss

__all__ = ["Observed"]


class Observed(NamedTuple):
    """A loss of ``losses.entrywise`` that skips missing targets."""

    inner: EntrywiseLoss

    @property
    def curvature(self) -> float:
        """The bound on the second derivative."""
        return float(self.inner.curvature)

    @property
    def dual_curvature(self) -> float:
        """The bound on the second derivative of the conjugate."""
        return float(self.inner.dual_curvature)

    @property
    def steepest(self) -> float:
        """The bound on the slope."""
        return float(self.inner.steepest)

    @property
    def is_margin(self) -> bool:
        """Whether targets are -1 and +1."""
        return bool(self.inner.is_margin)

    @property
    def is_joint(self) -> bool:
        """Whether it is a loss of rows: never."""
        return False

    @property
    def compiled(self) -> Any:
        """The loss in compiled loops, which skip missing targets; None if the inner loss has none."""
        return getattr(self.inner, "compiled", None)

    def value(self, scores: Array, target: Array) -> Array:
        """Return f."""
        return _where_observed(target, lambda t: self.inner.value(scores, t))

    def slope(self, scores: Array, target: Array) -> Array:
        """Return df/ds."""
        return _where_observed(target, lambda t: self.inner.slope(scores, t))

    def bend(self, scores: Array, target: Array) -> Array:
        """Return the second derivative, where there is one."""
        return _where_observed(target, lambda t: self.inner.bend(scores, t))

    def conjugate(self, u: Array, target: Array) -> Array:
        """Return f*: finite only at 0 where the target is missing."""
        seen = _where_observed(target, lambda t: self.inner.conjugate(u, t))
        return np.where(np.isnan(target) & (u != 0.0), np.inf, seen)

    def dual_step(self, u: Array, scores: Array, target: Array, r: Array | float) -> Array:
        """Return the dual step of length r from u."""
        return _where_observed(target, lambda t: self.inner.dual_step(u, scores, t, r))


def _where_observed(target: Array, function: Callable[[Array], Array]) -> Array:
    """Return a function of the targets; 0 where there is none, with +1 in its place."""
    missing = np.isnan(target)
    return np.where(missing, 0.0, function(np.where(missing, 1.0, target)))
