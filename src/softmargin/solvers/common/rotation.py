"""Fewer coordinates for linear scores and a ridge, where X has fewer rows than columns: X w = A u, |w| = |u|.

The best w is a combination of rows of X. With X = A Q', Q with orthonormal columns, as many as X has independent rows,
it is w = Q u. A is the Cholesky factor of X X', pivoted, since rows may repeat; with Y the pivot rows of X and L those
of A, Q = Y' L^-T.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from softmargin.core.deadline import check_time
from softmargin.matrices.forms import laid_out
from softmargin.matrices.operator import adjoint_product, product, row_slices

__all__ = ["Rotation", "find_rotation"]

Array = NDArray[Any]


class Rotation(NamedTuple):
    """A, and the maps between w and u."""

    A: Any  # (n, r)
    rows: Any = None  # (r, d) Y; None where u is w
    factor: Array | None = None  # (r, r) L, lower triangular

    def inward(self, W: Array) -> Array:
        """Return u, the part of w in the span of the rows of X."""
        if self.factor is None:
            return W
        return np.asarray(solve_triangular(self.factor, product(self.rows, W), lower=True, check_finite=False))

    def outward(self, U: Array) -> Array:
        """Return w."""
        if self.factor is None:
            return U
        return adjoint_product(self.rows, solve_triangular(self.factor, U, lower=True, trans="T", check_finite=False))


def find_rotation(X: Any) -> Rotation:
    """Return the coordinates that suit X; a small CSR matrix with few zeros becomes an array."""
    X, (n, d) = laid_out(X), X.shape
    if not 0 < n < d:
        return Rotation(X)
    check_time(n * n * (d + float(n)))
    L, order, rank, _ = dpstrf(_gram(X), lower=True)
    L, order = np.tril(L)[:, :rank], order - 1
    A = np.empty((n, rank))
    A[order] = L
    return Rotation(A, X[order[:rank]], L[:rank])


def _gram(X: Any) -> Array:
    """Return X X' in float64."""
    if not isinstance(X, np.ndarray):
        wide = X.astype(np.float64)
        return np.asarray((wide @ wide.T).toarray())
    K = np.zeros((len(X), len(X)))
    for part in row_slices(X.shape[1], len(X)):
        block = X[:, part].astype(np.float64, copy=False)
        K += block @ block.T
    return K
