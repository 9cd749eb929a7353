"""Kernels of the user: any callable, or a kernel matrix computed beforehand."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.core.errors import DataError, IncompatibleError
from softmargin.kernels.points import Points

__all__ = ["CallableKernel", "Precomputed"]

Array = NDArray[Any]


@dataclass(frozen=True)
class CallableKernel:
    """k(A, B) -> matrix of shape (len(A), len(B)), as scikit-learn's SVC takes it; called on blocks of rows."""

    function: Callable[[Any, Any], Any]

    name: ClassVar[str] = "callable"
    is_psd: ClassVar[bool] = False  # unknown

    def block(self, left: Points, right: Points) -> Array:
        """Return k(a, b) for all pairs; shape (len(left), len(right))."""
        found = self.function(left.X, right.X)
        values = np.asarray(found.toarray() if hasattr(found, "toarray") else found, dtype=left.X.dtype)
        if values.shape != (len(left), len(right)):
            raise DataError(
                f"the kernel function returned shape {values.shape} for {len(left)} and {len(right)} rows; "
                f"it must return a matrix of shape ({len(left)}, {len(right)})."
            )
        return values

    def diagonal(self, points: Points) -> Array:
        """Return k(a, a), one small square block at a time; shape (n,)."""
        size = 128
        parts = [points.take(slice(first, first + size)) for first in range(0, len(points), size)]
        return np.concatenate([np.diagonal(self.block(part, part)) for part in parts]).astype(np.float64)


@dataclass(frozen=True)
class Precomputed:
    """X is itself the kernel matrix: (n, n) for training, (m, n) against the n training samples for prediction."""

    name: ClassVar[str] = "precomputed"
    is_psd: ClassVar[bool] = False  # unknown

    def block(self, left: Points, right: Points) -> Array:
        """Refuse: entries of a given matrix are found by position."""
        raise IncompatibleError(
            "a precomputed kernel has no function of two samples; look its values up in the matrix."
        )

    def diagonal(self, points: Points) -> Array:
        """Return the diagonal of the given matrix; shape (n,)."""
        return np.asarray(points.X.diagonal(), dtype=np.float64)
