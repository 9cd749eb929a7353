"""X on a device: products with X and X', Gram matrices and norms, of some rows at a time.

    verb                     meaning                            arguments and result
    X.times(W)               X W                                there
    X.adjoint(V)             X' V                               there
    X.columns(features)      some columns, as an array          there
    X.product(W) ...         the same, and bounds on norms      NumPy: an ``Operator``

Numbers of X keep their precision in memory; those of a tile are widened where it is used, so that products are of
float64 and sums in float64 whatever X is. A tile is some rows: ``X[rows]``.
"""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.arrays import Home, home_of, to_numpy
from softmargin.backends.sparse_arrays import csr_home, csr_like, is_sparse, parts_of, to_scipy, transposed
from softmargin.core.rounding import TINY
from softmargin.matrices.operator import Operator

__all__ = ["DeviceMatrix", "DeviceMatrixTuning", "device_matrix"]

Array = NDArray[Any]


class DeviceMatrixTuning(NamedTuple):
    """How much of a device tiles may take."""

    tile_share: float = 0.25  # of the memory that is left, for all that belongs to a tile; by hand
    arrays: int = 12  # of the size of a tile, that are in memory at once: X widened, scores, slopes, ...; counted
    numbers: int = 1 << 22  # of a tile where the device does not tell: 32 MB in float64; by hand
    fewest: int = 1 << 16  # the same, at least
    kept_share: float = 0.25  # of the memory that is left, for X in float64, and X' of a sparse X; by hand


_TUNING = DeviceMatrixTuning()


class DeviceMatrix(Operator):
    """A dense matrix on a device.

    Parameters
    ----------
    X : array of shape (n, d), float32 or float64
    home : Home
    constant : float, default=0.0
        Value of one more column, for products with NumPy arrays; 0 for none.
    """

    def __init__(self, X: Any, home: Home, constant: float = 0.0) -> None:
        self.X, self.home, self.constant = X, home, constant
        self.n, self.d = (int(side) for side in X.shape)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d), the constant column included."""
        return self.n, self.d + bool(self.constant)

    @property
    def nnz(self) -> int:
        """How many numbers X holds."""
        return self.n * self.d

    @property
    def longest(self) -> int:
        """How many numbers a row holds, at most."""
        return self.shape[1]

    @property
    def is_narrow(self) -> bool:
        """Whether X is float32."""
        return bool(self._values.dtype == self.home.xp.float32)

    @property
    def _values(self) -> Any:
        return self.X

    @cached_property
    def tile_numbers(self) -> int:
        """How many numbers a tile may have: a power of two, so that runs with about as much memory have the same."""
        free = self.home.free_bytes
        most = _TUNING.numbers if free is None else int(_TUNING.tile_share * free / (8 * _TUNING.arrays))
        return 1 << (max(_TUNING.fewest, most).bit_length() - 1)

    def has_room(self, more: int) -> bool:
        """Say whether X in float64 and so many numbers more for every row may be kept."""
        return self._fits(8 * self.n * (self.d + more))

    def _fits(self, size: int) -> bool:
        free = self.home.free_bytes
        return size <= (8 * self.tile_numbers if free is None else _TUNING.kept_share * free)

    def __getitem__(self, rows: slice) -> "DeviceMatrix":
        return type(self)(self._rows(rows), self.home, self.constant)

    def _rows(self, rows: slice) -> Any:
        return self.X[rows, :]

    def with_constant(self, value: float) -> "DeviceMatrix":
        """Return [X, value]."""
        return type(self)(self.X, self.home, value)

    @cached_property
    def _wide(self) -> Any:
        """X in float64: of a tile, which is soon forgotten."""
        return self.home.wide(self.X)

    def times(self, W: Any) -> Any:
        """Return X W, without the constant column, there."""
        return self.home.xp.matmul(self._wide, W)

    def adjoint(self, V: Any) -> Any:
        """Return X' V, without the constant column, there."""
        return self.home.xp.matmul(self.home.xp.matrix_transpose(self._wide), V)

    def square_sums(self, V: Any) -> Any:
        """Return (X * X)' V, there."""
        return self.home.xp.matmul(self.home.xp.matrix_transpose(self._wide * self._wide), V)

    def columns(self, features: Array | None = None) -> Any:
        """Return some columns as an array of float64, there."""
        if features is None:
            return self._wide
        return self.home.xp.take(self._wide, self.home.array(features), axis=1)

    def square_lengths(self) -> Any:
        """Return |x_i|^2, there; (n,)."""
        return self.home.xp.sum(self._wide * self._wide, axis=1)

    def is_finite(self) -> bool:
        """Say whether no number is NaN or infinite."""
        return bool(self.home.xp.all(self.home.xp.isfinite(self._values)))

    def host(self) -> Any:
        """Return X in the memory of the processor."""
        return np.asarray(to_numpy(self.X))

    def product(self, W: Array) -> Array:
        """Return [X, constant] W; NumPy."""
        scores = np.asarray(to_numpy(self.times(self.home.array(W[: self.d]))))
        return scores + self.constant * W[-1] if self.constant else scores

    def adjoint_product(self, U: Array) -> Array:
        """Return [X, constant]' U; NumPy."""
        Z = np.asarray(to_numpy(self.adjoint(self.home.array(U))))
        return np.vstack([Z, self.constant * U.sum(axis=0)]) if self.constant else Z

    def row_norms(self) -> Array:
        """Return bounds on the norms of the rows; NumPy."""
        squares = np.asarray(to_numpy(self.square_lengths()))
        return np.asarray(np.sqrt(squares + (self.constant**2 + self.shape[1] * TINY)))


class DeviceCsr(DeviceMatrix):
    """A CSR matrix on a device. Columns are picked by a product; X' is made, as products with it have a fixed order."""

    @property
    def _parts(self) -> tuple[Any, Any, Any]:
        return parts_of(self.X)

    @property
    def _values(self) -> Any:
        return self._parts[2]

    @property
    def nnz(self) -> int:
        """How many numbers X holds."""
        return int(self._values.shape[0])

    @cached_property
    def _is_kept(self) -> bool:
        """Whether there is room to keep X' and X in float64: values and positions, twice."""
        return self.home.free_bytes is None or self._fits(32 * self.nnz)

    def has_room(self, more: int) -> bool:
        """Say whether X in float64, X' and so many numbers more for every row may be kept."""
        return self._is_kept and self._fits(8 * self.n * more)

    def __getitem__(self, rows: slice) -> "DeviceMatrix":
        return self if rows == slice(0, self.n) and self._is_kept else super().__getitem__(rows)

    def _rows(self, rows: slice) -> Any:
        indptr, indices, values = self._parts
        first, last = int(indptr[rows.start]), int(indptr[rows.stop])
        own = indptr[rows.start : rows.stop + 1] - indptr[rows.start], indices[first:last], values[first:last]
        return csr_like(self.X, own, (rows.stop - rows.start, self.d))

    def _with_values(self, X: Any, change: Any) -> Any:
        indptr, indices, values = parts_of(X)
        return csr_like(X, (indptr, indices, change(values)), tuple(X.shape))

    @cached_property
    def _wide(self) -> Any:
        return self._with_values(self.X, self.home.wide) if self.is_narrow else self.X

    @cached_property
    def _transposed(self) -> Any:
        return transposed(self._wide)

    def times(self, W: Any) -> Any:
        """Return X W, without the constant column, there."""
        return self._wide @ W

    def adjoint(self, V: Any) -> Any:
        """Return X' V, without the constant column, there."""
        return self._transposed @ V

    def square_sums(self, V: Any) -> Any:
        """Return (X * X)' V, there."""
        return self._with_values(self._transposed, lambda values: values * values) @ V

    def columns(self, features: Array | None = None) -> Any:
        """Return some columns as an array of float64, there."""
        picked = np.arange(self.d) if features is None else features
        unit = np.zeros((self.d, len(picked)))
        unit[picked, np.arange(len(picked))] = 1.0
        return self.times(self.home.array(unit))

    def square_lengths(self) -> Any:
        """Return |x_i|^2, there; (n,)."""
        squares = self._with_values(self._wide, lambda values: values * values)
        return (squares @ self.home.full((self.d, 1), 1.0))[:, 0]

    def host(self) -> Any:
        """Return X in the memory of the processor."""
        return to_scipy(self.X)


def device_matrix(X: Any) -> DeviceMatrix:
    """Return a foreign array or sparse matrix as the matrix it is."""
    return DeviceCsr(X, csr_home(X)) if is_sparse(X) else DeviceMatrix(X, home_of(X))
