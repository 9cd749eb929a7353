"""Samples ordered by label, and the products of an interior point with them.

A sample of class y has one margin for every other class j, in ascending order:

    margins(W)[i]   = (W_j - W_y)' x_i                                (m,), m = k - 1
    adjoint(U)      = sum_i x_i sum_j U_ij (e_y - e_j)'               (D, k), minus the transpose of ``margins``
    newton_matrix   = identity + sum_i x_i x_i' (x) E M_i E' ,   E = [e_y - e_j] over j

Samples of one label share y and j, so every product is one of BLAS per label. D counts the constant feature where there
is one. Two classes need one column, that of class 1 minus class 0 divided by the root of 2, and no order by label.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.deadline import check_time
from softmargin.core.protocols import BlockDualProblem
from softmargin.core.threads import wide_blas
from softmargin.matrices.operator import adjoint_product, is_thin, laid_out, product, row_slices
from softmargin.matrices.rows import add_squares, as_rows

__all__ = ["LabelGroups"]

Array = NDArray[Any]
BLOCK = 1 << 16  # numbers of scaled rows at once, at least: they stay in the cache


class _Group(NamedTuple):
    """Consecutive samples of one label."""

    rows: slice
    label: int
    others: Array  # (m,)


class LabelGroups:
    """The samples with a price, ordered by label where there are more than two classes."""

    def __init__(self, problem: BlockDualProblem, order: Array) -> None:
        self.k, self.bias, self.order = problem.n_classes, problem.bias, order
        is_all = len(order) == len(problem.y) and bool((np.diff(order) == 1).all())
        self.X = laid_out(problem.X if is_all else problem.X[order])
        self.y, self.C = problem.y[order], problem.C[order]
        self.n, self.d = self.X.shape
        self.D = self.d + int(self.bias != 0.0)
        self.n_columns = 1 if self.k == 2 else self.k
        self.signs = np.where(self.y == 1, math.sqrt(0.5), -math.sqrt(0.5))  # of e_y - e_j in the one column
        ends = np.searchsorted(self.y, np.arange(self.k + 1)) if self.k > 2 else np.zeros(1, dtype=int)
        labels = range(self.k) if self.k > 2 else ()
        self.groups = [
            _Group(slice(int(ends[c]), int(ends[c + 1])), c, np.delete(np.arange(self.k), c))
            for c in labels
            if ends[c] < ends[c + 1]
        ]

    @staticmethod
    def find_order(problem: BlockDualProblem) -> Array:
        """Return the samples with a price, by label where there are more than two classes."""
        order = np.flatnonzero(problem.C > 0.0)
        return order if problem.n_classes == 2 else order[np.argsort(problem.y[order], kind="stable")]

    def columns(self, W: Array) -> Array:
        """Return weights (d + 1, k) whose rows sum to zero as the unknowns (D, columns)."""
        return W[: self.D] if self.k > 2 else (W[: self.D, 1:] - W[: self.D, :1]) * math.sqrt(0.5)

    def weights(self, V: Array) -> Array:
        """Return unknowns (D, columns) as weights (d + 1, k)."""
        W = np.zeros((self.d + 1, self.k))
        W[: self.D] = V if self.k > 2 else V * np.array([-math.sqrt(0.5), math.sqrt(0.5)])
        return W

    def margins(self, V: Array) -> Array:
        """Return (W_j - W_y)' x_i; (n, m)."""
        if self.k == 2:
            return self._times(slice(0, self.n), -2.0 * V) * self.signs[:, None]
        out = np.empty((self.n, self.k - 1))
        for rows, label, others in self.groups:
            out[rows] = self._times(rows, V[:, others] - V[:, [label]])
        return out

    def adjoint(self, U: Array) -> Array:
        """Return sum_i x_i sum_j U_ij (e_y - e_j)' in the unknowns; (D, columns)."""
        if self.k == 2:
            return self._adjoint(slice(0, self.n), 2.0 * self.signs[:, None] * U)
        out = np.zeros((self.D, self.k))
        for rows, label, others in self.groups:
            part = self._adjoint(rows, U[rows])
            out[:, others] -= part
            out[:, label] += part.sum(axis=1)
        return out

    def _times(self, rows: slice, V: Array) -> Array:
        out = product(self.X[rows], V[: self.d])
        return out + self.bias * V[self.d] if self.bias else out

    def _adjoint(self, rows: slice, U: Array) -> Array:
        out = np.zeros((self.D, U.shape[1]))
        out[: self.d] = adjoint_product(self.X[rows], U)
        if self.bias:
            out[self.d] = self.bias * U.sum(axis=0)
        return out

    def _parts(self, rows: slice) -> Iterator[slice]:
        """Yield parts of some rows: scaled copies of them stay in the cache, and are larger than what they add."""
        width = max(self.D, 1)
        for part in row_slices(rows.stop - rows.start, width, numbers=max(BLOCK, 2 * width * width)):
            yield slice(rows.start + part.start, rows.start + part.stop)

    def newton_matrix(self, stiffness: Array, slope: Array | None) -> Array:
        """Return the upper triangle of the Newton matrix; stiffness (n, m), slope (n,) or None: M_i = diag - a a'."""
        size = self.n_columns * self.D
        H = np.zeros((size, size))
        if self.k == 2:
            self._add_gram(slice(0, self.n), 2.0 * stiffness[:, 0], H)
        blocks = H.reshape(self.n_columns, self.D, self.n_columns, self.D)
        for rows, label, others in self.groups:
            for p, j in enumerate(others):
                gram = np.zeros((self.D, self.D))
                self._add_gram(rows, stiffness[rows, p], gram)
                blocks[j, :, j] += gram
                blocks[label, :, label] += gram
                first, second = min(j, label), max(j, label)
                blocks[first, :, second] -= gram
            if slope is not None:
                self._subtract_joint(rows, label, others, stiffness[rows] * slope[rows, None], H)
        H.flat[:: size + 1] += 1.0
        return H

    def _add_gram(self, rows: slice, weights: Array, out: Array) -> None:
        """Add sum_i weights_i x_i x_i', the constant feature included."""
        d, bias = self.d, self.bias
        if is_thin(self.X):
            upper = np.zeros((d, d))
            add_squares(as_rows(self.X[rows]), weights, upper)
            out[:d, :d] += upper + np.triu(upper, 1).T
            if bias:
                sums = bias * (self.X[rows].T @ weights)
                out[:d, d] += sums
                out[d, :d] += sums
                out[d, d] += bias**2 * weights.sum()
            return
        roots = np.sqrt(weights)
        for part in self._parts(rows):
            check_time(float(part.stop - part.start) * self.D**2)
            mine = roots[part.start - rows.start : part.stop - rows.start]
            scaled = self._rows(part)
            scaled *= mine[:, None]
            with wide_blas(scaled.size * float(self.D)):
                out += scaled.T @ scaled

    def _rows(self, part: slice) -> Array:
        """Return some rows as an array of their own, with the constant feature."""
        block = np.empty((part.stop - part.start, self.D))
        block[:, : self.d] = self.X[part] if isinstance(self.X, np.ndarray) else self.X[part].toarray()
        if self.bias:
            block[:, self.d] = self.bias
        return block

    def _subtract_joint(self, rows: slice, label: int, others: Array, slopes: Array, H: Array) -> None:
        """Subtract x x' (x) (E a)(E a)' of every row."""
        size = len(H)
        for part in row_slices(rows.stop - rows.start, size, numbers=max(BLOCK, 2 * H.size)):
            check_time(float(part.stop - part.start) * size**2)
            a = slopes[part]
            full = np.empty((len(a), self.k))
            full[:, others] = -a
            full[:, label] = a.sum(axis=1)
            block = self._rows(slice(rows.start + part.start, rows.start + part.stop))
            scaled = (full[:, :, None] * block[:, None, :]).reshape(len(a), size)
            with wide_blas(scaled.size * float(size)):
                H -= scaled.T @ scaled
