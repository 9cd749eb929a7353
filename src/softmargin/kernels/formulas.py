"""The kernels: of the inner product (linear, polynomial, sigmoid), of the distance (rbf, laplacian), and given ones.

Each is a frozen dataclass: ``block(left, right)`` has k(a, b) for all pairs of rows, (len(left), len(right)), and
``diagonal(points)`` has k(a, a), (n,). ``is_psd`` says whether the matrix is positive semi-definite for all data.
``errors(points)`` bounds the rounding of float64 values (maths: rounding, section 4).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.core.errors import DataError, IncompatibleError
from softmargin.core.rounding import SLACK, ULPS, UNIT, KernelErrors, gamma
from softmargin.core.sparse import checked_sparse
from softmargin.kernels.points import DENSE_COPIES, Points, are_full, products, slices

__all__ = ["CallableKernel", "Laplacian", "Linear", "Polynomial", "Precomputed", "Rbf", "Sigmoid", "errors_of"]

Array = NDArray[Any]
_LOST_NARROW = 1e-5  # rounding of the exponent beyond which float32 does not suffice
_LOST = 2.0**-33  # the same for float64: 1.2e-10, far below any tolerance
_STRIP = 2048  # rows whose coordinate differences are squared at once
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

    def errors(self, points: Points) -> KernelErrors:
        """Bound the rounding errors of values between these points."""
        return KernelErrors(gamma(points.longest + 2) * points.sqnorms, np.sqrt(points.sqnorms))


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

    def errors(self, points: Points) -> KernelErrors:
        """Bound the rounding errors of values between these points."""
        largest = (abs(self.gamma) * points.sqnorms + abs(self.coef0)) ** self.degree
        return KernelErrors(gamma(self.degree * (points.longest + 4) + ULPS) * largest, np.sqrt(largest))


@dataclass(frozen=True)
class Sigmoid(_OfProduct):
    """k(a, b) = tanh(gamma <a, b> + coef0); rarely positive semi-definite."""

    gamma: float
    coef0: float = 0.0

    name: ClassVar[str] = "sigmoid"
    is_psd: ClassVar[bool] = False

    def _values(self, inner: Array) -> Array:
        return np.tanh(_affine(inner, self.gamma, self.coef0), out=inner)

    def errors(self, points: Points) -> KernelErrors:
        """Bound the rounding errors of values between these points: no slope of tanh exceeds 1."""
        inner = abs(self.gamma) * points.sqnorms + abs(self.coef0)
        return KernelErrors(gamma(points.longest + 4) * inner + ULPS * UNIT, np.ones(len(points)))


class _OfDistance:
    is_psd: ClassVar[bool] = True

    def diagonal(self, points: Points) -> Array:
        """Return k(a, a) = 1."""
        return np.ones(len(points))

    def errors(self, points: Points) -> KernelErrors:
        """Bound the rounding errors of values from coordinate differences: t e^-t < 1 for every exponent t."""
        both = gamma(points.X.shape[1] + 8 + 2.0 * ULPS)  # a unit in the last place is two roundings
        return KernelErrors(np.full(len(points), 0.5 * both), np.ones(len(points)))


@dataclass(frozen=True)
class Rbf(_OfDistance):
    """k(a, b) = exp(-gamma |a - b|^2), computed as |a|^2 + |b|^2 - 2 <a, b>: one GEMM and one exp.

    Far from the origin that cancels. ``origin`` is then a better one; where digits are lost all the same, the squared
    distances are sums of squared differences.
    """

    gamma: float

    name: ClassVar[str] = "rbf"

    def origin(self, points: Points) -> Array | None:
        """Return the mean of dense points, where the distances from zero are too long and those from it are not."""
        if points.is_sparse or not self._lost(points) > _LOST:
            return None
        mean = points.mean()
        return mean if self._lost(points.moved(mean)) <= _LOST else None

    def block(
        self, left: Points, right: Points, values: Callable[..., Array] | None = None, *, is_near: bool = False
    ) -> Array:
        """Return k(a, b) for all pairs; ``values``, as ``_rbf_values``, makes those of float64 products.

        ``is_near`` says that the points are some of those that ``are_near`` is true of.
        """
        kind = left.X.dtype
        if not is_near and self.is_too_narrow(kind, left, right):
            left, right = left.widened(), right.widened()
        if not is_near and left.X.dtype == np.float64 and self.cancels(left, right):
            exponent = _squared_differences(left, right)
            exponent *= -self.gamma
            return np.exp(exponent, out=exponent).astype(kind, copy=False)
        inner = products(left, right)
        make = values if values is not None and inner.dtype == np.float64 and inner.flags.c_contiguous else _rbf_values
        return make(inner, 2.0 * self.gamma, self.gamma * left.sqnorms, self.gamma * right.sqnorms).astype(
            kind, copy=False
        )

    def are_near(self, points: Points) -> bool:
        """Say whether products between any of these points, as they are or in float64, are exact enough."""
        return not (self.is_too_narrow(points.X.dtype, points, points) or self._lost(points) > _LOST)

    def is_too_narrow(self, kind: Any, left: Any, right: Any) -> bool:
        """Say whether numbers of this type are too short for the exponents."""
        longest = max(left.sqnorms.max(initial=0.0), right.sqnorms.max(initial=0.0))
        return bool(np.finfo(kind).eps * self.gamma * longest > _LOST_NARROW)

    def cancels(self, left: Any, right: Any) -> bool:
        """Say whether exponents by inner products lose digits in float64, and differences of coordinates do not."""
        return max(self._lost(left), self._lost(right)) > _LOST and _has_differences(left)

    def _parts(self, points: Points) -> Array:
        """Bound the part of every point in the rounding error of an exponent in float64; shape (n,)."""
        # A product of two rows has as many terms as the shorter one. gamma is convex: below its chord to the longest.
        shares = (points.lengths + 10.0) / (points.longest + 10.0)
        return np.asarray(2.0 * gamma(points.longest + 10) * shares * self.gamma * points.sqnorms)

    def _lost(self, points: Points) -> float:
        """Return the largest part; where it is small, that of a point that is the longest in both senses."""
        most = 2.0 * gamma(points.longest + 10) * self.gamma * float(points.sqnorms.max(initial=0.0))
        return most if most <= _LOST else float(self._parts(points).max(initial=0.0))

    def errors(self, points: Points) -> KernelErrors:
        """Bound the rounding errors of values between these points: by either way to compute the distances."""
        errors, parts = super().errors(points), self._parts(points)
        rows = parts + 0.5 * gamma(2.0 * ULPS)
        if _has_differences(points):  # beyond the limit no value comes by products: SLACK is for those next to it
            rows = np.where(parts > SLACK * _LOST, errors.rows, np.maximum(rows, errors.rows))
        else:  # no two values of an rbf kernel differ by more than 1; below the limit, e^t - 1 is about t
            rows = np.where(parts > 2.0**-21, 1.0, rows)
        if points.is_moved:  # by one rounding of every coordinate; no slope of e^(-gamma d^2) exceeds sqrt(2 gamma / e)
            rows = rows + math.sqrt(2.0 * self.gamma / math.e) * UNIT * np.sqrt(points.sqnorms)
        return errors._replace(rows=rows)


def _rbf_values(inner: Array, scale: float, left: Array, right: Array) -> Array:
    """Turn inner products into exp(min(scale inner_ij - left_i - right_j, 0)), in place."""
    inner *= inner.dtype.type(scale)
    inner -= left.astype(inner.dtype)[:, None]
    inner -= right.astype(inner.dtype)
    # Rounding may make a squared distance negative; no kernel value exceeds 1.
    np.minimum(inner, 0.0, out=inner)
    return np.exp(inner, out=inner)


def _has_differences(points: Points) -> bool:
    """Say whether rows may be copied to arrays, for differences of coordinates."""
    return not points.is_sparse or points.X.shape[1] <= DENSE_COPIES.longest


def _squared_differences(left: Points, right: Points) -> Array:
    """Return |a - b|^2 for all pairs, one strip at a time: no digit cancels."""
    from scipy.spatial.distance import cdist

    strips = [cdist(left.dense, right.take(rows).dense, "sqeuclidean") for rows in slices(len(right), _STRIP)]
    return np.hstack(strips) if strips else np.empty((len(left), 0))


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

    def errors(self, points: Points) -> KernelErrors:
        """Return no errors: the given values define the kernel."""
        largest = max(float(points.X.max()), -float(points.X.min())) if len(points) else 0.0
        return KernelErrors(np.zeros(len(points)), np.full(len(points), np.sqrt(largest)))


@dataclass(frozen=True)
class ComputedMatrix(Precomputed):
    """The same where the matrix comes from one of our kernels, and its sign is known: nothing is to be checked."""

    is_psd: ClassVar[bool] = True


def errors_of(kernel: Any, points: Points) -> KernelErrors:
    """Bound the rounding errors of a kernel; the values of one that does not tell define it."""
    if hasattr(kernel, "errors"):
        told: KernelErrors = kernel.errors(points)
        return told
    return KernelErrors(np.zeros(len(points)), np.sqrt(np.abs(kernel.diagonal(points))))
