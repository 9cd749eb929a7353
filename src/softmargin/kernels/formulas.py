"""The kernels: of the inner product (linear, polynomial, sigmoid), of the distance (rbf, laplacian), and given ones.

Each is a frozen dataclass: ``block(left, right)`` has k(a, b) for all pairs of rows, (len(left), len(right)), and
``diagonal(points)`` has k(a, a), (n,). ``is_psd`` says whether the matrix is positive semi-definite for all data.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.core.errors import DataError, IncompatibleError
from softmargin.core.sparse import checked_sparse
from softmargin.kernels.points import Points, are_full, products, slices

__all__ = ["CallableKernel", "Laplacian", "Linear", "Polynomial", "Precomputed", "Rbf", "Sigmoid"]

Array = NDArray[Any]
_LOST = 1e-5  # rounding of the exponent beyond which float32 does not suffice
_PIECE = 128  # rows of the square blocks from which the diagonal of a callable kernel is read


class _OfProduct:
    """A kernel that ``_values`` computes from inner products, in place."""

    def block(self, left: Points, right: Points) -> Array:
        """Return k(a, b) for all pairs."""
        return self._values(products(left, right))

    def diagonal(self, points: Points) -> Array:
        """Return k(a, a)."""
        return self._values(points.sqnorms.copy())

    def _values(self, inner: Array) -> Array:
        return inner


@dataclass(frozen=True)
class Linear(_OfProduct):
    """k(a, b) = <a, b>."""

    name: ClassVar[str] = "linear"
    is_psd: ClassVar[bool] = True


def _affine(inner: Array, gamma: float, coef0: float) -> Array:
    inner *= gamma
    inner += coef0
    return inner


@dataclass(frozen=True)
class Polynomial(_OfProduct):
    """k(a, b) = (gamma <a, b> + coef0)^degree."""

    gamma: float
    degree: int = 3
    coef0: float = 0.0

    name: ClassVar[str] = "polynomial"

    @property
    def is_psd(self) -> bool:
        """Whether the kernel matrix is positive semi-definite for all data."""
        return self.coef0 >= 0 and self.gamma >= 0

    def _values(self, inner: Array) -> Array:
        return np.power(_affine(inner, self.gamma, self.coef0), self.degree, out=inner)


@dataclass(frozen=True)
class Sigmoid(_OfProduct):
    """k(a, b) = tanh(gamma <a, b> + coef0); rarely positive semi-definite."""

    gamma: float
    coef0: float = 0.0

    name: ClassVar[str] = "sigmoid"
    is_psd: ClassVar[bool] = False

    def _values(self, inner: Array) -> Array:
        return np.tanh(_affine(inner, self.gamma, self.coef0), out=inner)


class _OfDistance:
    is_psd: ClassVar[bool] = True

    def diagonal(self, points: Points) -> Array:
        """Return k(a, a) = 1."""
        return np.ones(len(points))


@dataclass(frozen=True)
class Rbf(_OfDistance):
    """k(a, b) = exp(-gamma |a - b|^2), computed as |a|^2 + |b|^2 - 2 <a, b>: one GEMM and one exp."""

    gamma: float

    name: ClassVar[str] = "rbf"

    def block(self, left: Points, right: Points) -> Array:
        """Return k(a, b) for all pairs."""
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


@dataclass(frozen=True)
class Laplacian(_OfDistance):
    """k(a, b) = exp(-gamma |a - b|_1)."""

    gamma: float

    name: ClassVar[str] = "laplacian"

    def block(self, left: Points, right: Points) -> Array:
        """Return k(a, b) for all pairs."""
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


def _narrow(X: Any) -> Any:
    """Return CSR with the 32-bit indices that manhattan_distances requires."""
    if X.indices.dtype == X.indptr.dtype == np.int32:
        return X
    return type(X)((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)


@dataclass(frozen=True)
class CallableKernel:
    """k(A, B) -> matrix of shape (len(A), len(B)), as scikit-learn's SVC takes it; called on blocks of rows."""

    function: Callable[[Any, Any], Any]

    name: ClassVar[str] = "callable"
    is_psd: ClassVar[bool] = False  # unknown

    def block(self, left: Points, right: Points) -> Array:
        """Return k(a, b) for all pairs."""
        found = checked_sparse(self.function(left.X, right.X), "the kernel")
        values = np.asarray(found.toarray() if hasattr(found, "toarray") else found, dtype=left.X.dtype)
        if values.shape != (len(left), len(right)):
            raise DataError(
                f"the kernel function returned shape {values.shape} for {len(left)} and {len(right)} rows; "
                f"it must return a matrix of shape ({len(left)}, {len(right)})."
            )
        return values

    def diagonal(self, points: Points) -> Array:
        """Return k(a, a), one small square block at a time."""
        parts = [points.take(rows) for rows in slices(len(points), _PIECE)]
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
        """Return the diagonal of the given matrix."""
        return np.asarray(points.X.diagonal(), dtype=np.float64)
