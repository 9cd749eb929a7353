"""Rows of X with what kernels ask of them again and again: squared lengths, transpose, and dense copies."""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.kernels.tiles import slices

__all__ = ["FEW", "Points", "are_full", "products"]

Array = NDArray[Any]
# Sparse rows that are at least this full, and no longer than this, multiply faster as dense copies (GEMM) ...
_FULL = 0.03
_LONG = 4096
# ... unless there are so few of them on one side that the copy of the other costs more than the product.
FEW = 32
_ROWS = 4096  # rows of a sparse matrix squared at once


class Points:
    """Samples as a kernel sees them.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    sqnorms : array of shape (n,), optional
        |x_i|^2, where they are known already.
    """

    def __init__(self, X: Any, sqnorms: Array | None = None) -> None:
        self.X = X
        if sqnorms is not None:
            self.sqnorms = sqnorms

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def is_sparse(self) -> bool:
        """Say whether X is a sparse matrix."""
        return not isinstance(self.X, np.ndarray)

    @cached_property
    def is_full(self) -> bool:
        """Say whether X is sparse in form only, so that dense copies of its rows multiply faster."""
        n, d = self.X.shape
        return self.is_sparse and d <= _LONG and self.X.nnz >= _FULL * n * d

    @property
    def numbers_a_row(self) -> int:
        """How many numbers a copy of one row holds, on average."""
        n, d = self.X.shape
        return int(self.X.nnz) // max(1, n) if self.is_sparse and not self.is_full else int(d)

    @cached_property
    def sqnorms(self) -> Array:
        """|x_i|^2, squared and summed in float64; shape (n,)."""
        if not self.is_sparse:
            return np.einsum("ij,ij->i", self.X, self.X, dtype=np.float64)
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
        return np.asarray(self.X.toarray()) if self.is_sparse else self.X

    def take(self, index: Any) -> "Points":
        """Return some of the rows (a slice of an array is a view)."""
        return Points(self.X[index], self.sqnorms[index])

    def widened(self) -> "Points":
        """Return the same rows in float64."""
        return Points(self.X.astype(np.float64, copy=False), self.sqnorms)


def are_full(left: Points, right: Points) -> bool:
    """Say whether dense copies of both sides pay."""
    return left.is_full and right.is_full and min(len(left), len(right)) >= FEW


def products(left: Points, right: Points) -> Array:
    """Return X_left X_right'; shape (len(left), len(right)), in the precision of X. One GEMM."""
    if are_full(left, right):
        return left.dense @ right.dense.T
    inner = left.X @ right.transposed
    return inner if isinstance(inner, np.ndarray) else np.asarray(inner.toarray())
