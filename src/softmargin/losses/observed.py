"""An entrywise loss over the observed targets: entries whose target is NaN have loss 0.

With X = I the scores are the weights themselves, and their loss over the observed entries is matrix completion.
"""

from typing import Any, NamedTuple

import numpy as np

from softmargin.core.protocols import Array, EntrywiseLoss

__all__ = ["Observed"]


class Observed(NamedTuple):
    """A loss of ``losses.entrywise`` that skips missing targets."""

    inner: EntrywiseLoss

    @property
    def curvature(self) -> float:
        """The bound on the second derivative."""
        return float(self.inner.curvature)

    @property
    def is_margin(self) -> bool:
        """Whether targets are -1 and +1."""
        return bool(self.inner.is_margin)

    @property
    def compiled(self) -> Any:
        """The loss in compiled loops, which skip missing targets; None if the inner loss has none."""
        return getattr(self.inner, "compiled", None)

    def value(self, scores: Array, target: Array) -> Array:
        """Return f."""
        missing, target = _split(target)
        return np.where(missing, 0.0, self.inner.value(scores, target))

    def slope(self, scores: Array, target: Array) -> Array:
        """Return df/ds."""
        missing, target = _split(target)
        return np.where(missing, 0.0, self.inner.slope(scores, target))

    def bend(self, scores: Array, target: Array) -> Array:
        """Return the second derivative, where there is one."""
        missing, target = _split(target)
        return np.where(missing, 0.0, self.inner.bend(scores, target))

    def conjugate(self, u: Array, target: Array) -> Array:
        """Return f*: finite only at 0 where the target is missing."""
        missing, target = _split(target)
        return np.where(missing, np.where(u == 0.0, 0.0, np.inf), self.inner.conjugate(u, target))

    def dual_step(self, u: Array, scores: Array, target: Array, r: Array | float) -> Array:
        """Return the dual step of length r from u."""
        missing, target = _split(target)
        return np.where(missing, 0.0, self.inner.dual_step(u, scores, target, r))


def _split(target: Array) -> tuple[Array, Array]:
    """Return which targets are missing, and the targets with +1 in their place."""
    missing = np.isnan(target)
    return missing, np.where(missing, 1.0, target)
