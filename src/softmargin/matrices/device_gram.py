"""The kernel matrix K_ij = k(x_i, x_j) + bias^2 of samples that lie on a device.

    verb                   meaning                                 where the result is
    gram.scores(alpha)     K alpha                                 NumPy, float64
    gram.add_change(...)   scores += K[:, index] change            NumPy, float64
    gram.rows(index)       K[index], every column                  NumPy
    gram.square(index)     K[index][:, index]                      on the device
    gram.inverse(index, shift)   products with (K[index][:, index] + shift I)^-1    on the device

What is large never leaves the device: X, tiles of K, the working square. Values come by GEMM, one tile at a time, in
the precision of X, and are summed in float64; ``judged`` computes them in float64. Where K fits into its share of
``cache_size``, ``scores`` keeps it, as strips of rows, for solvers that ask again and again; ``add_change``, once a
round, computes its tiles. Nothing depends on what was computed
before, so that a checkpoint has nothing to remember.
"""

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.arrays import home_of, to_numpy
from softmargin.backends.shifted_inverse import BLOCK, ShiftedInverse
from softmargin.core.deadline import check_time
from softmargin.kernels.on_device import DevicePoints, block, demand_formula, kernel_sums, tile_side
from softmargin.kernels.points import slices
from softmargin.matrices.kernel_matrix import GramMemory, KernelMatrix, Moment, check_finite

__all__ = ["DeviceGram", "DeviceTuning"]

Array = NDArray[Any]
_SQUARES = 1.5  # in memory at once: K and its factor
_STACKED = 2.0  # the same where K is in memory beside the strips it is made of
_BLOCKS = 4  # columns of blocks that a factor is made of


class DeviceTuning(NamedTuple):
    """How the kernel matrix divides the memory of a device."""

    store_share: float = 0.5  # of the budget, for all of K; by hand
    square_share: float = 0.9  # of what K leaves, for a square and its inverse: tiles take the rest; by hand
    most_rows: int = 120_000  # of a square: beyond it the factor takes over ten seconds, even on a large GPU; by hand
    probe_rows: int = 400  # as for every kernel matrix (GramTuning)


class DeviceGram(KernelMatrix):
    """Kernel values between training samples on a device.

    Parameters
    ----------
    kernel : Linear, Polynomial, Sigmoid or Rbf
    X : array of shape (n, d) of an array API namespace, float32 or float64
    bias, cache_size
        As in ``KernelMatrix``; memory of the device.
    tuning : DeviceTuning, optional
    """

    is_on_device = True
    is_given = False
    is_linear = False  # products go by kernel values, whatever the kernel
    is_stored = False  # in the memory of the processor

    def __init__(
        self, kernel: Any, X: Any, *, bias: float = 0.0, cache_size: float = 1000.0, tuning: DeviceTuning | None = None
    ) -> None:
        super().__init__(kernel, bias, cache_size, tuning or DeviceTuning())
        demand_formula(kernel)
        self.home = home_of(X)
        self.samples = DevicePoints(X, self.home)
        origin = kernel.origin(self.samples) if hasattr(kernel, "origin") else None
        self.points = self.samples if origin is None else self.samples.moved(origin)
        self.n, self.dtype = len(self.samples), self.samples.dtype
        self._side = tile_side(self.budget, self.points.longest)
        self._last: tuple[Array, Any] = (np.empty(0, dtype=np.intp), None)
        self._last_inverse: tuple[float, ShiftedInverse] | None = None  # of the last square

    @property
    def X(self) -> Array:
        """A copy of the samples, in the memory of the processor."""
        return np.asarray(to_numpy(self.samples.X))

    def vectors(self, index: Array) -> Any:
        """Return the samples at ``index``, on the device."""
        return self.samples.take(index).X

    @property
    def _store_bytes(self) -> int:
        """Bytes that all of K takes where it is kept, else 0."""
        needed = self.n**2 * int(self.points.dtype.itemsize)
        return needed if needed <= self.tuning.store_share * self.budget else 0

    @property
    def largest_square(self) -> int:
        """How many rows ``square`` can return within the budget, with room for the inverse."""
        room = self.tuning.square_share * (self.budget - self._store_bytes)
        numbers = int(room) // self.points.dtype.itemsize
        squares = _SQUARES if self.home.is_writable else _STACKED
        # squares m^2 + _BLOCKS m min(m, BLOCK) numbers, solved for m.
        side = int(math.sqrt(numbers / (squares + _BLOCKS)))
        if side > BLOCK:
            half = _BLOCKS * BLOCK / (2.0 * squares)
            side = int(math.sqrt(half**2 + numbers / squares) - half)
        return int(max(2, min(side, self.tuning.most_rows)))

    @property
    def largest_rows(self) -> int:
        """How many rows ``rows`` can return within half the budget."""
        return int(max(1, self.budget // (2 * self.n * self.points.dtype.itemsize)))

    def scores(self, alpha: Array) -> Array:
        """Return K alpha in float64; alpha is (n,) or (n, k), and only its nonzero rows are used."""
        columns = alpha.reshape(self.n, -1)
        index = np.flatnonzero(columns.any(axis=1))
        out = self._sums(index, columns[index])
        if np.isfinite(columns).all():  # else the cause is alpha, and the certificate will show it
            check_finite(out)
        return out.reshape(alpha.shape)

    def add_change(self, scores: Array, index: Array, change: Array) -> None:
        """Add K[:, index] change to scores, (n, k); rows of zeros cost nothing."""
        is_moved = change.any(axis=1)
        scores += self._computed_sums(index[is_moved], change[is_moved])

    def square(self, index: Array) -> Any:
        """Return K[index][:, index], on the device; the last one is kept."""
        if not np.array_equal(self._last[0], index):
            self._last, self._last_inverse = (index[:0], None), None  # there are never two squares in memory
            self._last = (index.copy(), self._square(index))
        return self._last[1]

    def inverse(self, index: Array, shift: float) -> ShiftedInverse:
        """Return products with (K[index][:, index] + shift I)^-1; the last ones are kept, as the square is."""
        K = self.square(index)
        if self._last_inverse is None or self._last_inverse[0] != shift:
            self._last_inverse = None  # there are never two in memory
            self._last_inverse = shift, ShiftedInverse(K, shift, self.home)
        return self._last_inverse[1]

    def _square(self, index: Array) -> Any:
        return self._whole(index, self.points.take(index))

    def rows(self, index: Array) -> Array:
        """Return K[index]; shape (len(index), n)."""
        return np.asarray(to_numpy(self._whole(index, self.points)))

    def _whole(self, index: Array, columns: DevicePoints) -> Any:
        """Return rows of K between these points, with the bias."""
        strips = self._computed(index, columns)
        strips = (strip + self.bias**2 for strip in strips) if self.bias else strips
        return self.home.stacked(strips, (len(index), len(columns)))

    def _computed(self, index: Array, columns: DevicePoints) -> Iterator[Any]:
        """Yield strips of rows of K[index], without the bias, between these points."""
        for part in slices(len(index), max(1, self._side**2 // max(1, len(columns)))):
            check_time()
            yield block(self.kernel, self.points.take(index[part]), columns)

    @cached_property
    def _strips(self) -> list[Any]:
        """All of K."""
        return list(self._computed(np.arange(self.n), self.points))

    def _sums(self, index: Array, values: Array) -> Array:
        """Return K[:, index] values, (n, k), by values in the precision of X."""
        if len(index) == 0:
            return np.zeros((self.n, values.shape[1]))
        if not self._store_bytes:
            return self._computed_sums(index, values)
        home = self.home
        weights, at = home.array(values), home.array(index)
        parts = []
        for strip in self._strips:
            check_time()
            strip = strip if len(index) == self.n else home.xp.take(strip, at, axis=1)
            parts.append(home.xp.matmul(home.wide(strip), weights))
        return self._with_bias(to_numpy(home.xp.concat(parts, axis=0)), values)

    def wide_scores(self, alpha: Array) -> Array:
        """Return K alpha, (n, k), by kernel values in float64."""
        index = np.flatnonzero(alpha.any(axis=1))
        if self.points.dtype == np.float64:
            return self._sums(index, alpha[index])
        return self._computed_sums(index, alpha[index], is_wide=True)

    def _computed_sums(self, index: Array, values: Array, *, is_wide: bool = False) -> Array:
        points, weights = self.points, self.home.array(values)
        sums = kernel_sums(self.kernel, points, points, weights, self._side, at=index, is_wide=is_wide)
        return self._with_bias(to_numpy(sums), values)

    def _with_bias(self, sums: Array, values: Array) -> Array:
        return np.asarray(sums + self.bias**2 * values.sum(axis=0))

    def _probe(self, index: Array) -> Array:
        return np.asarray(to_numpy(self._square(index)), dtype=np.float64)

    def share(self) -> bool:
        """Refuse calls by several threads: a device does one after the other anyway."""
        return False

    @property
    def moment(self) -> Moment:
        """Nothing is remembered."""
        return Moment(0, np.empty(0, dtype=np.intp), 0, -1)

    def memory(self, moment: Moment) -> GramMemory:
        """Return what a checkpoint holds: nothing."""
        nothing = np.empty(0, dtype=np.intp)
        return GramMemory(nothing, nothing, *moment[1:])

    def recall(self, memory: GramMemory) -> None:
        """Go on after a checkpoint: there is nothing to compute first."""
