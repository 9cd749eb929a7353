"""Kernels of the distance: rbf and laplacian."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.kernels.points import Points, are_full, products

__all__ = ["Laplacian", "Rbf"]

Array = NDArray[Any]
_LOST = 1e-5  # rounding of the exponent beyond which float32 does not suffice


@dataclass(frozen=True)
class Rbf:
    """k(a, b) = exp(-gamma |a - b|^2), computed as |a|^2 + |b|^2 - 2 <a, b>: one GEMM and one exp."""

    gamma: float

    name: ClassVar[str] = "rbf"
    is_psd: ClassVar[bool] = True

    def block(self, left: Points, right: Points) -> Array:
        """Return k(a, b) for all pairs; shape (len(left), len(right))."""
        kind = left.X.dtype
        longest = max(left.sqnorms.max(initial=0.0), right.sqnorms.max(initial=0.0))
        if np.finfo(kind).eps * self.gamma * longest > _LOST:
            # Far from the origin |a|^2 + |b|^2 - 2 <a, b> cancels: float32 would lose the distance.
            left, right = left.widened(), right.widened()
        exponent = products(left, right)
        exponent *= exponent.dtype.type(2.0 * self.gamma)
        exponent -= (self.gamma * left.sqnorms).astype(exponent.dtype)[:, None]
        exponent -= (self.gamma * right.sqnorms).astype(exponent.dtype)
        # Rounding may make a squared distance negative; no kernel value exceeds 1.
        np.minimum(exponent, 0.0, out=exponent)
        return np.exp(exponent, out=exponent).astype(kind, copy=False)

    def diagonal(self, points: Points) -> Array:
        """Return k(a, a) = 1; shape (n,)."""
        return np.ones(len(points))


@dataclass(frozen=True)
class Laplacian:
    """k(a, b) = exp(-gamma |a - b|_1)."""

    gamma: float

    name: ClassVar[str] = "laplacian"
    is_psd: ClassVar[bool] = True

    def block(self, left: Points, right: Points) -> Array:
        """Return k(a, b) for all pairs; shape (len(left), len(right))."""
        if left.is_sparse and not are_full(left, right):
            from sklearn import config_context
            from sklearn.metrics.pairwise import manhattan_distances  # SciPy's cdist takes no sparse rows

            with config_context(assume_finite=True):  # the caller reports NaN, with the row
                distances: Array = manhattan_distances(_narrow(left.X), _narrow(right.X))
        else:
            from scipy.spatial.distance import cdist

            distances = cdist(left.dense, right.dense, "cityblock")
        distances *= -self.gamma
        values: Array = np.exp(distances, out=distances).astype(left.X.dtype, copy=False)
        return values

    def diagonal(self, points: Points) -> Array:
        """Return k(a, a) = 1; shape (n,)."""
        return np.ones(len(points))


def _narrow(X: Any) -> Any:
    """Return CSR with the 32-bit indices that manhattan_distances requires."""
    if X.indices.dtype == X.indptr.dtype == np.int32:
        return X
    return type(X)((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)
