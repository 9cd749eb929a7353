"""Kernel values between training samples, computed one tile at a time by the threads of ``core.threads``.

Values come by GEMM in the precision of X; sums over them are float64. Nothing is cached here: ``gram.py`` does.
"""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.deadline import check_time
from softmargin.core.threads import n_threads, spread
from softmargin.kernels import Linear, Points, Precomputed, Rbf
from softmargin.kernels.points import (
    DENSE_COPIES,
    TILE_NUMBERS,
    add_product,
    products,
    slices,
    take_rows,
    tile_shape,
)
from softmargin.kernels.rbf_loop import place_rbf_values, rbf_values
from softmargin.matrices.forms import canonical
from softmargin.matrices.gram_checks import checked_matrix
from softmargin.matrices.kernel_matrix import KernelMatrix
from softmargin.matrices.operator import row_norms

__all__ = ["THREAD_TILES", "TiledMatrix"]

Array = NDArray[Any]


class ThreadTiles(NamedTuple):
    """How tiles are cut where there are several threads."""

    columns: int = 512  # with 256 rows 1 MB, at most: each thread has a second cache of its own
    tiles: int = 4  # for each thread, at the least, so that all end at about the same time; by hand
    rows: int = 32  # of a tile, at the least: BLAS rearranges the other side for each tile; by hand


THREAD_TILES = ThreadTiles()


class TiledMatrix(KernelMatrix):
    """A kernel matrix whose values are computed when they are asked for.

    Parameters
    ----------
    kernel : kernel object
    X : array or CSR matrix of shape (n, d); the (n, n) kernel matrix itself for a precomputed kernel
    bias, cache_size, tuning
        As in ``KernelMatrix``; tiles have ``tuning.tile_rows`` rows at most.
    """

    is_on_device = False

    def __init__(self, kernel: Any, X: Any, bias: float, cache_size: float, tuning: Any) -> None:
        super().__init__(kernel, bias, cache_size, tuning)
        X = canonical(X)
        self.is_given = isinstance(kernel, Precomputed)
        if self.is_given and not kernel.is_psd:
            X = checked_matrix(X)
        self.samples = self.points = Points(X)
        if not self.is_given and self.samples.is_full and self.samples.dense_bytes <= tuning.dense_share * self.budget:
            self.points = Points(self.samples.dense, self.samples.sqnorms)
        origin = kernel.origin(self.points) if hasattr(kernel, "origin") else None
        self.points = self.points if origin is None else self.points.moved(origin)
        self.n = len(self.points)
        self.dtype = X.dtype
        # What holds of all samples need not be asked of every tile: small ones take as long as the question.
        self._how: dict[str, Any] = {}
        if isinstance(kernel, Rbf):
            with np.errstate(over="ignore", invalid="ignore"):
                self._how = {"values": rbf_values, "is_near": kernel.are_near(self.points)}
        height, width = tile_shape(1 if self.is_given else self.points.numbers_per_row)
        self._tile = min(height, tuning.tile_rows), width

    @property
    def X(self) -> Any:
        """The samples."""
        return self.samples.X

    @property
    def is_linear(self) -> bool:
        """Whether K = X X' + bias^2, so that products need no kernel value."""
        return isinstance(self.kernel, Linear)

    def vectors(self, index: Array) -> Any:
        """Return the samples at ``index``; None where the matrix was given."""
        return None if self.is_given else take_rows(self.X, index)

    @cached_property
    def lengths(self) -> Array:
        """Norms of [x_i, bias]; shape (n,)."""
        return row_norms(self.X, self.bias)

    def _sums(self, at: Any, m: int, index: Array, values: Array, *, is_wide: bool = False) -> Array:
        """Return K[at][:, index] values, one tile at a time, in float64 if ``is_wide``; ``at`` names m samples."""
        out = np.zeros((m, values.shape[1]))
        height, width = self._tile
        for part in slices(len(index), width):
            right = self._part(index[part], is_wide)

            def add_tile(down: slice, right: Any = right, part: slice = part) -> None:
                left = self._part(down if isinstance(at, slice) else at[down], is_wide)
                check_time()
                # No variable holds the tile: there would be two in memory.
                add_product(out[down], self._between(left, right), values[part])

            spread(add_tile, slices(m, height))
        return out

    def _part(self, at: Any, is_wide: bool = False) -> Any:
        """Return some of the samples: their points, in float64 if ``is_wide``, or their positions in a given matrix."""
        if self.is_given:
            return at
        points = self.points.take(at)
        return points.widened() if is_wide else points

    def _between(self, left: Any, right: Any) -> Array:
        """Return K[left][:, right], computed; an array of the caller's own."""
        values: Array
        if self.is_given:
            both = not (isinstance(left, slice) or isinstance(right, slice))
            values = np.array(self.X[np.ix_(left, right) if both else (left, right)])
        else:
            # check_finite reports what overflows, with advice.
            with np.errstate(over="ignore", invalid="ignore"):
                values = self.kernel.block(left, right, **self._how)
        if self.bias:
            values += values.dtype.type(self.bias**2)
        return values

    def _write(self, out: Array, rows: Array, across: slice, left: Any, right: Any) -> None:
        """Set out[rows, across] = K[left][:, right]."""
        if self._how.get("is_near") and self.dtype == np.float64:
            gamma = self.kernel.gamma
            how = (2.0 * gamma, gamma * left.sqnorms, gamma * right.sqnorms, float(self.bias**2))
            place_rbf_values(products(left, right), *how, out, rows, across.start)
        else:
            out[rows, across] = self._between(left, right)

    def _cut(self, m: int, n: int) -> tuple[int, int]:
        """Return (rows, columns) of the tiles of m x n values."""
        height, width = self._tile
        if n_threads() == 1:
            return height, width
        own, width = THREAD_TILES, min(width, THREAD_TILES.columns)
        return min(height, max(own.rows, -(-m * -(-n // width) // (own.tiles * n_threads())))), width

    def _fill(self, out: Array, at: Array, index: Array, columns: Array | None = None) -> None:
        """Set out[at] = K[index][:, columns]; None stands for all columns."""
        m = self.n if columns is None else len(columns)
        height, width = self._cut(len(index), m)
        # Few or thin rows are multiplied with all samples at once: these cache the transpose that sparse products need.
        whole = self.points.is_sparse and not (self.points.is_full and len(index) >= DENSE_COPIES.fewest)
        if whole:
            share = -(-len(index) // n_threads())
            height, width = max(1, min(TILE_NUMBERS // max(1, m), share)), max(1, m)
        everything = self.points if columns is None else self._part(columns)

        def fill_tile(tile: tuple[slice, slice]) -> None:
            inner, across = tile
            check_time()
            right = everything if whole else self._part(across if columns is None else columns[across])
            self._write(out, at[inner], across, self._part(index[inner]), right)

        spread(fill_tile, ((inner, across) for inner in slices(len(index), height) for across in slices(m, width)))

    def _fill_square(self, out: Array, index: Array) -> None:
        """Set out = K[index][:, index]; K is symmetric, so half of it is computed."""
        height, width = self._cut(len(index) // 2, len(index))

        def fill_tile(tile: tuple[slice, slice]) -> None:
            down, rest = tile
            check_time()
            across = slice(down.start + rest.start, down.start + rest.stop)
            rows = np.arange(down.start, down.stop)
            self._write(out, rows, across, self._part(index[down]), self._part(index[across]))
            out[across, down] = out[down, across].T

        downs = slices(len(index), height)
        spread(fill_tile, ((down, rest) for down in downs for rest in slices(len(index) - down.start, width)))

    def _probe(self, index: Array) -> Array:
        part = self._part(index)
        return self._between(part, part).astype(np.float64)
