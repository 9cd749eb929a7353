"""Samples as kernels see them, and kernel values one tile at a time.

``Points`` are rows of X with what kernels need of them repeatedly: squared norms, the transpose, dense copies. A tile
is large enough for GEMM to run at full speed, and small enough that it takes some megabytes whatever the data.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.rounding import pieces
from softmargin.core.threads import row_shares, spread

__all__ = [
    "DENSE_COPIES",
    "TILE_NUMBERS",
    "Points",
    "add_product",
    "are_full",
    "products",
    "slices",
    "square_rows",
    "take_rows",
    "tile_shape",
]

Array = NDArray[Any]
_SIDE = 2048  # rows and columns of a tile
TILE_NUMBERS = _SIDE * _SIDE
_COPIED = 1 << 22  # numbers of X that the rows of one tile may fill, where they have to be copied
_STRIP = 1 << 16  # kernel values converted to float64 at once: they stay in the processor's cache until they are summed
_ROWS = 4096  # rows of a sparse matrix squared at once
_READ = 8.0  # multiplications of BLAS in the time that a number takes to come from main memory; 8 to 30 by timings


class DenseCopies(NamedTuple):
    """When sparse rows multiply faster as dense copies (GEMM)."""

    share: float = 0.03  # of the entries that must be stored; by hand
    longest: int = 4096  # features of a row that is copied; by hand
    fewest: int = 32  # rows on either side: with fewer, a copy of the other side costs more than the product; by hand


DENSE_COPIES = DenseCopies()


def slices(n: int, size: int) -> Iterator[slice]:
    """Yield slices of at most ``size`` that cover 0..n."""
    for first in range(0, n, size):
        yield slice(first, min(first + size, n))


def tile_shape(numbers_per_row: int) -> tuple[int, int]:
    """Return (rows, columns) of a tile between samples of so many numbers."""
    side = min(_SIDE, max(16, _COPIED // max(1, numbers_per_row)))
    return side, side


def take_rows(X: Any, index: Array) -> Any:
    """Return X[index]; threads copy shares of the rows of an array."""
    if not isinstance(X, np.ndarray):
        return X[index]
    shares = row_shares(len(index), _READ * X.shape[1])
    if len(shares) == 1:
        return X[index]
    out = np.empty((len(index), X.shape[1]), dtype=X.dtype)

    def copy(some: slice) -> None:
        np.take(X, index[some], axis=0, out=out[some], mode="wrap")  # "raise" would copy twice

    spread(copy, shares)
    return out


def square_rows(X: Array) -> Array:
    """Return the |x_i|^2 of an array, squared and summed in float64; (n,). Threads have shares of the rows."""
    shares = row_shares(X.shape[0], _READ * X.shape[1])
    if len(shares) == 1:
        return np.asarray(np.einsum("ij,ij->i", X, X, dtype=np.float64))
    return np.concatenate(spread(lambda some: np.einsum("ij,ij->i", X[some], X[some], dtype=np.float64), shares))


def add_product(out: Array, tile: Array, weights: Array) -> None:
    """Add ``tile @ weights`` to ``out``, in float64 whatever the tile is; that of a float64 one as a sum of sums.

    Parameters
    ----------
    out : float64 array of shape (m, k)
    tile : array of shape (m, n)
    weights : float64 array of shape (n, k)
    """
    if tile.dtype == np.float64:
        for part in pieces(len(weights)):
            out += tile[:, part] @ weights[part]
        return
    transposed = np.ascontiguousarray(weights.T)  # BLAS is faster on a few long rows than on a few thin columns
    for rows in slices(len(tile), max(1, _STRIP // max(1, tile.shape[1]))):
        out[rows] += (transposed @ tile[rows].astype(np.float64).T).T


class Points:
    """Samples as a kernel sees them.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    sqnorms : array of shape (n,), optional
        |x_i|^2, where they are known already.
    is_moved : bool, default=False
        Whether the rows are differences from an origin, each coordinate rounded.
    """

    def __init__(self, X: Any, sqnorms: Array | None = None, *, is_moved: bool = False) -> None:
        self.X = X
        self.is_moved = is_moved
        if sqnorms is not None:
            self.sqnorms = sqnorms

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def is_sparse(self) -> bool:
        """Whether X is a sparse matrix."""
        return not isinstance(self.X, np.ndarray)

    @cached_property
    def is_full(self) -> bool:
        """Whether X is sparse in form only, so that dense copies of its rows multiply faster."""
        n, d = self.X.shape
        return self.is_sparse and d <= DENSE_COPIES.longest and bool(self.X.nnz >= DENSE_COPIES.share * n * d)

    @property
    def dense_bytes(self) -> int:
        """How much memory X takes as an array."""
        return int(self.X.shape[0]) * int(self.X.shape[1]) * int(self.X.dtype.itemsize)

    @property
    def numbers_per_row(self) -> int:
        """How many numbers a copy of one row holds, on average."""
        n, d = self.X.shape
        return int(self.X.nnz) // max(1, n) if self.is_sparse and not self.is_full else int(d)

    @cached_property
    def sqnorms(self) -> Array:
        """|x_i|^2, squared and summed in float64; shape (n,)."""
        if not self.is_sparse:
            return square_rows(self.X)
        squares = np.empty(len(self))
        for rows in slices(len(self), _ROWS):
            part = self.X[rows].astype(np.float64)
            part.data *= part.data
            squares[rows] = np.asarray(part.sum(axis=1)).ravel()
        return squares

    @cached_property
    def transposed(self) -> Any:
        """X' ready for products: a view of an array, CSR of a sparse matrix."""
        return self.X.T.tocsr() if self.is_sparse else self.X.T

    @cached_property
    def dense(self) -> Array:
        """X as an array."""
        return np.asarray(self.X.toarray() if self.is_sparse else self.X)

    def take(self, index: Any) -> "Points":
        """Return some of the rows (a slice of an array is a view)."""
        rows = self.X[index] if isinstance(index, slice) else take_rows(self.X, index)
        return Points(rows, self.sqnorms[index])

    def mean(self) -> Array:
        """Return the mean of every column of dense points, in float64; (d,)."""
        return np.asarray(self.X.mean(axis=0, dtype=np.float64))

    def moved(self, origin: Array) -> "Points":
        """Return dense points relative to another origin, in float64."""
        return Points(np.subtract(self.X, origin, dtype=np.float64), is_moved=True)

    @property
    def lengths(self) -> Any:
        """How many numbers each row holds, (n,), or all of them: terms of a product beside zeros, at most."""
        return np.diff(self.X.indptr) if self.is_sparse else int(self.X.shape[1])

    @property
    def longest(self) -> int:
        """How many numbers a row holds at most."""
        return int(self.lengths.max(initial=0)) if self.is_sparse else int(self.X.shape[1])

    def widened(self) -> "Points":
        """Return the same rows in float64."""
        return Points(self.X.astype(np.float64, copy=False), self.sqnorms)


def are_full(left: Points, right: Points) -> bool:
    """Say whether dense copies of both sides pay."""
    return left.is_full and right.is_full and min(len(left), len(right)) >= DENSE_COPIES.fewest


def products(left: Points, right: Points) -> Array:
    """Return X_left X_right'; shape (len(left), len(right)), in the precision of X. One GEMM."""
    if are_full(left, right):
        return left.dense @ right.dense.T
    inner = left.X @ right.transposed
    return inner if isinstance(inner, np.ndarray) else np.asarray(inner.toarray())
