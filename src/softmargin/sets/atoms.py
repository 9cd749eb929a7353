"""Matrices that are cheap to multiply and to add: corners of sets, and weights of low rank.

    SingleEntry   value at (j, c), zero elsewhere              a corner of the l1 ball or of the simplex
    LowRank       U diag(s) V'                                 a corner of the trace ball has rank 1; of a box, any

Both know their shape, ``toarray()``, ``times(X)`` = X W, ``inner(G)`` = <W, G>, ``sqnorm()`` = |W|^2 and
``add_to(W, step)``: W += step * it.
"""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.linalg import qr, svd

from softmargin.core.protocols import Array
from softmargin.core.rounding import norms

__all__ = ["LowRank", "SingleEntry"]


class SingleEntry(NamedTuple):
    """A matrix with one entry that is not zero."""

    j: int
    c: int
    value: float
    shape: tuple[int, int]

    def toarray(self) -> Array:
        """Return it as an array."""
        W = np.zeros(self.shape)
        W[self.j, self.c] = self.value
        return W

    def times(self, X: Any) -> Array:
        """Return X W; fast if X is stored by columns."""
        column = X[:, [self.j]]
        scores = np.zeros((X.shape[0], self.shape[1]))
        scores[:, self.c] = np.asarray(column.toarray() if hasattr(column, "toarray") else column)[:, 0]
        scores *= self.value  # after float32 has been widened
        return scores

    def inner(self, G: Array) -> float:
        """Return <W, G>."""
        return self.value * float(G[self.j, self.c])

    def sqnorm(self) -> float:
        """Return |W|^2."""
        return self.value**2

    def add_to(self, W: Array, step: float) -> None:
        """Add a multiple of it to an array."""
        W[self.j, self.c] += step * self.value


class LowRank(NamedTuple):
    """U diag(s) V', with U (d, r), s (r,) and V (k, r); the columns of U and V need not be orthogonal."""

    U: Array
    s: Array
    V: Array

    @classmethod
    def zero(cls, shape: tuple[int, int]) -> Self:
        """Return the zero matrix, of rank 0."""
        return cls(np.zeros((shape[0], 0)), np.zeros(0), np.zeros((shape[1], 0)))

    @property
    def shape(self) -> tuple[int, int]:
        """(d, k)."""
        return self.U.shape[0], self.V.shape[0]

    @property
    def rank(self) -> int:
        """How many columns the factors have."""
        return len(self.s)

    def toarray(self) -> Array:
        """Return it as an array."""
        return (self.U * self.s) @ self.V.T

    def times(self, X: Any) -> Array:
        """Return X W, by the factors."""
        return (np.asarray(X @ self.U) * self.s) @ self.V.T

    def inner(self, G: Array) -> float:
        """Return <W, G>."""
        return float(np.vdot((self.U * self.s), G @ self.V))

    def add_to(self, W: Array, step: float) -> None:
        """Add a multiple of it to an array."""
        W += (step * self.U * self.s) @ self.V.T

    def sqnorm(self) -> float:
        """Return |W|^2."""
        return float(np.vdot((self.U.T @ self.U) * np.outer(self.s, self.s), self.V.T @ self.V))

    def column_sizes(self) -> Array:
        """Return sum_r |U_r| |s_r| |V_cr|, bounds on the norms of the columns; (k,)."""
        return np.asarray((norms(self.U, axis=0) * np.abs(self.s)) @ np.abs(self.V).T)

    def spread(self) -> float:
        """Return sum_r |U_r| |s_r| |V_r|, a bound on the sum of singular values."""
        return float((norms(self.U, axis=0) * np.abs(self.s)) @ norms(self.V, axis=0))

    def orthogonal(self) -> "LowRank":
        """Return the same matrix with orthonormal columns in U and V, and s >= 0 in descending order: its triples."""
        left, right = (qr(factor) for factor in (self.U, self.V))
        U, s, Vt = svd((left[1] * self.s) @ right[1].T, full_matrices=False)
        return LowRank(left[0] @ U, s, right[0] @ Vt.T)
