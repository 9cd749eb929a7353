"""Samples ordered by label, and the products of an interior point with them.

A sample of class y has one margin for every other class j, in ascending order:

    margins(W)[i]   = (W_j - W_y)' x_i                                (m,), m = k - 1
    adjoint(U)      = sum_i x_i sum_j U_ij (e_y - e_j)'               (D, k), minus the transpose of ``margins``
    newton_matrix   = identity + sum_i x_i x_i' (x) E M_i E' ,   E = [e_y - e_j] over j

Samples of one label share y and j, so every product is one of BLAS per label. D counts the features that are not zero
everywhere, and the constant one where there is one. Two classes need one column, that of class 1 minus class 0 divided
by the root of 2, and no order by label.

With more classes the rows of W sum to zero, and so do those of all moves. In the unknowns Z_c = W_c - W_k the matrix is
the one above without the blocks of the last class, and with (I - 11' / k) in the place of the identity.

A feature far from zero for its spread, a date or a number of an account, is nearly a multiple of the constant one, and
sums of their squares lose what parts them. The Newton matrix is then that of features less their means m,

    x'w + bias b = (x - m)'w + bias (b + m'w / bias) ,     V = T Z ,   T = [identity, 0; -m' / bias, 1]

with T'T in the place of the identity; all else stays as it is.                          maths: linear SVM, section 7
"""

import math
from collections.abc import Iterator
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.deadline import check_time
from softmargin.core.protocols import BlockDualProblem
from softmargin.core.threads import wide_blas
from softmargin.matrices.forms import THIN, is_thin, laid_out, with_constant
from softmargin.matrices.operator import adjoint_product, product, row_slices, row_squares
from softmargin.matrices.origin import far_columns
from softmargin.matrices.rows import add_squares, as_rows
from softmargin.problems.multiclass_svm import DualPoint
from softmargin.solvers.linear_svm._class_squares import (
    Columns,
    add_squares_of_classes,
    as_columns,
    joint_weights,
    scattered_weights,
    separate_weights,
)

__all__ = ["STEEPEST", "LabelGroups", "best_multiple", "given_point", "steepness", "used_columns"]

Array = NDArray[Any]
BLOCK = 1 << 16  # numbers of scaled rows at once, at least: they stay in the cache
STEEPEST = 1e12  # C |x|^2 up to which the last class has no unknowns: beyond, 3 of 24 drawn problems were not certified
SINGLE_THIN = 0.1  # as ``THIN``, beside BLAS of float32; timings on mnist


class _Group(NamedTuple):
    """Consecutive samples of one label."""

    rows: slice
    X: Any  # these rows
    label: int
    others: Array  # (m,)


class LabelGroups:
    """The samples with a price, ordered by label where there are more than two classes."""

    def __init__(self, problem: BlockDualProblem, order: Array) -> None:
        self.k, self.bias, self.order = problem.n_classes, problem.bias, order
        is_all = len(order) == len(problem.y) and bool((np.diff(order) == 1).all())
        X, self.used = problem.X if is_all else problem.X[order], used_columns(problem.X)
        self.n_features = problem.X.shape[1]
        self.X = laid_out(X if len(self.used) == self.n_features else X[:, self.used])
        self.y, self.C = problem.y[order], problem.C[order]
        self.n, self.d = self.X.shape
        self.array: Array | None = None  # (n, D) rows for sums of squares, once made
        self.by_feature: list[Columns] | None = None  # of every label, for sums of squares by stored entries, once made
        self.D = self.d + int(self.bias != 0.0)
        self.n_columns = 1 if self.k == 2 else self.k
        self.n_blocks = 1 if self.k == 2 else self.k - int(steepness(problem) <= STEEPEST)
        self.signs = np.where(self.y == 1, math.sqrt(0.5), -math.sqrt(0.5))  # of e_y - e_j in the one column
        self.means = self._far_means() if self.bias else None
        self.groups = self._grouped()

    def _far_means(self) -> Array | None:
        """Return the means of features that are far from zero for their spread, zero of others, (d,); None of none."""
        found = far_columns(self.X)
        return None if found is None else np.where(found.is_far, found.means, 0.0)

    def inward(self, right: Array) -> Array:
        """Return T' right, where V = T Z: the right side for the unknowns Z of shifted features."""
        if self.means is None:
            return right
        return np.vstack([right[:-1] - np.outer(self.means, right[-1] / self.bias), right[-1]])

    def outward(self, Z: Array) -> Array:
        """Return V = T Z: the constant feature bears what the means of the others bring."""
        return Z if self.means is None else np.vstack([Z[:-1], Z[-1] - (self.means / self.bias) @ Z[:-1]])

    def _grouped(self) -> list[_Group]:
        """Return the samples of each label; none for two classes, which need no order."""
        ends = np.searchsorted(self.y, np.arange(self.k + 1)).tolist() if self.k > 2 else []
        labels = range(self.k) if self.k > 2 else ()
        return [
            _Group(slice(ends[c], ends[c + 1]), self.X[ends[c] : ends[c + 1]], c, np.delete(np.arange(self.k), c))
            for c in labels
            if ends[c] < ends[c + 1]
        ]

    def some(self, keep: Array) -> "LabelGroups":
        """Return these samples alone, in their order, with the same unknowns."""
        part = copy(self)
        part.X, part.y, part.C, part.order = self.X[keep], self.y[keep], self.C[keep], self.order[keep]
        part.n, part.signs, part.array, part.by_feature = len(keep), self.signs[keep], None, None
        part.groups = part._grouped()
        return part

    @staticmethod
    def find_order(problem: BlockDualProblem) -> Array:
        """Return the samples with a price, by label where there are more than two classes."""
        order = np.flatnonzero(problem.C > 0.0)
        return order if problem.n_classes == 2 else order[np.argsort(problem.y[order], kind="stable")]

    def columns(self, W: Array) -> Array:
        """Return weights (features + 1, k) whose rows sum to zero as the unknowns (D, columns)."""
        mine = W[self._places()]
        return mine if self.k > 2 else (mine[:, 1:] - mine[:, :1]) * math.sqrt(0.5)

    def weights(self, V: Array) -> Array:
        """Return unknowns (D, columns) as weights (features + 1, k)."""
        W = np.zeros((self.n_features + 1, self.k))
        W[self._places()] = V if self.k > 2 else V * np.array([-math.sqrt(0.5), math.sqrt(0.5)])
        return W

    def primal(self, V: Array, margins: Array, *, is_joint: bool) -> float:
        """Return 1/2 |W|^2 and the losses at h = ``margins`` (n, m): of the worst pair of a row, or of all."""
        losses = np.maximum(margins, 0.0)
        of_rows = losses.max(axis=1, initial=0.0) if is_joint else losses.sum(axis=1)
        return 0.5 * float(np.vdot(V, V)) + float(self.C @ of_rows)

    def point(self, problem: BlockDualProblem, beta: Array, V: Array) -> DualPoint:
        """Return the point with alpha_ij = -beta_ij for wrong classes j, made feasible, and these unknowns."""
        rows, alpha = np.zeros((self.n, self.k)), np.zeros((len(problem.y), self.k))
        rows[np.arange(self.k) != self.y[:, None]] = -beta.reshape(-1)
        alpha[self.order] = rows
        return DualPoint(problem.feasible(alpha), self.weights(V))

    def _places(self) -> Array:
        """Return which rows of the weights are unknown."""
        return np.append(self.used, self.n_features) if self.bias else self.used

    def all_columns(self, Z: Array) -> Array:
        """Return W of zero sums from the unknowns of the Newton matrix, (D, blocks)."""
        if self.n_blocks == self.n_columns:
            return Z
        mean = Z.sum(axis=1, keepdims=True) / self.k
        return np.hstack([Z - mean, -mean])

    def margins(self, V: Array) -> Array:
        """Return (W_j - W_y)' x_i; (n, m)."""
        if self.k == 2:
            return self._times(self.X, -2.0 * V) * self.signs[:, None]
        out = np.empty((self.n, self.k - 1))
        for rows, X, label, others in self.groups:
            out[rows] = self._times(X, V[:, others] - V[:, [label]])
        return out

    def adjoint(self, U: Array) -> Array:
        """Return sum_i x_i sum_j U_ij (e_y - e_j)' in the unknowns; (D, columns)."""
        if self.k == 2:
            return self._adjoint(self.X, 2.0 * self.signs[:, None] * U)
        out = np.zeros((self.D, self.k))
        for rows, X, label, others in self.groups:
            part = self._adjoint(X, U[rows])
            out[:, others] -= part
            out[:, label] += part.sum(axis=1)
        return out

    def _times(self, X: Any, V: Array) -> Array:
        out = product(X, V[: self.d])
        return out + self.bias * V[self.d] if self.bias else out

    def _adjoint(self, X: Any, U: Array) -> Array:
        out = np.zeros((self.D, U.shape[1]))
        out[: self.d] = adjoint_product(X, U)
        if self.bias:
            out[self.d] = self.bias * U.sum(axis=0)
        return out

    def _parts(self, rows: slice) -> Iterator[slice]:
        """Yield parts of some rows: scaled copies of them stay in the cache, and are larger than what they add."""
        width = max(self.D, 1)
        for part in row_slices(rows.stop - rows.start, width, numbers=max(BLOCK, 2 * width * width)):
            yield slice(rows.start + part.start, rows.start + part.stop)

    def newton_matrix(self, stiffness: Array, slope: Array | None, dtype: Any = np.float64) -> Array:
        """Return the upper triangle of the Newton matrix; stiffness (n, m), slope (n,) or None: M_i = diag - a a'."""
        size = self.n_blocks * self.D
        H = np.zeros((size, size), dtype)
        if self.k == 2:
            self._add_gram(slice(0, self.n), self.X, 2.0 * stiffness[:, 0], H)
        blocks = H.reshape(self.n_blocks, self.D, self.n_blocks, self.D)
        is_scattered = self._is_scattered(slope is not None, dtype)
        if is_scattered:
            self._add_scattered(stiffness, slope, H)
        for rows, X, label, others in () if is_scattered else self.groups:
            for p, j in enumerate(others):
                gram = np.zeros((self.D, self.D), dtype)
                self._add_gram(rows, X, stiffness[rows, p], gram)
                first, second = min(j, label), max(j, label)
                blocks[first, :, first] += gram
                if second < self.n_blocks:
                    blocks[second, :, second] += gram
                    blocks[first, :, second] -= gram
            if slope is not None:
                self._subtract_joint(rows, label, others, stiffness[rows] * slope[rows, None], H)
        if self.means is not None:
            self._add_identity_of_shifted(blocks, self.means)
            return H
        H.flat[:: size + 1] += 1.0
        if self.n_blocks < self.n_columns:
            np.einsum("cjej->cej", blocks)[...] -= 1.0 / self.k
        return H

    def _add_identity_of_shifted(self, blocks: Array, means: Array) -> None:
        """Add what 1/2 |W|^2 is in the unknowns of shifted features: T'T in the place of the identity."""
        T = np.eye(self.D)
        T[-1, :-1] = -means / self.bias
        for c, e in np.ndindex(self.n_blocks, self.n_blocks):
            share = float(c == e) - (1.0 / self.k if self.n_blocks < self.n_columns else 0.0)
            blocks[c, :, e] += share * (T.T @ T)

    def _is_scattered(self, is_joint: bool, dtype: Any) -> bool:
        """Say whether squares of stored entries, for many classes at once, take less time than BLAS on all."""
        if isinstance(self.X, np.ndarray):
            return False
        share = self.X.nnz / max(self.n * self.d, 1)
        return scattered_weights(self.k, self.n_blocks, share, is_joint=is_joint, dtype=dtype) > 0

    def _add_scattered(self, stiffness: Array, slope: Array | None, H: Array) -> None:
        """Add the squares of all labels to the upper triangle of H, by stored entries."""
        if self.by_feature is None:
            whole = with_constant(self.X, self.bias) if self.bias else self.X
            self.by_feature = [as_columns(whole[rows]) for rows, *_ in self.groups]
        for columns, (rows, _, label, others) in zip(self.by_feature, self.groups, strict=True):
            a = stiffness[rows]
            if slope is None:
                weights = separate_weights(a, label, others, self.n_blocks)
            else:
                weights = joint_weights(a, a * slope[rows, None], label, others, self.n_blocks)
            add_squares_of_classes(columns, weights, H)
        blocks = H.reshape(self.n_blocks, self.D, self.n_blocks, self.D)
        for one in range(self.n_blocks):
            for two in range(one + 1, self.n_blocks):
                block = blocks[one, :, two]
                block += np.triu(block, 1).T

    def _add_gram(self, rows: slice, X: Any, weights: Array, out: Array) -> None:
        """Add sum_i weights_i x_i x_i' of some rows, X without the constant feature."""
        d, bias = self.d, self.bias
        if is_thin(self.X, share=THIN if out.dtype == np.float64 else SINGLE_THIN):
            upper = np.zeros((d, d))
            add_squares(as_rows(X), weights, upper)
            out[:d, :d] += upper + np.triu(upper, 1).T
            if bias:
                sums = bias * (X.T @ weights)
                out[:d, d] += sums
                out[d, :d] += sums
                out[d, d] += bias**2 * weights.sum()
            return
        roots = np.sqrt(weights).astype(out.dtype, copy=False)
        for part in self._parts(rows):
            check_time(float(part.stop - part.start) * self.D**2)
            scaled = self._rows(part, out.dtype) * roots[part.start - rows.start : part.stop - rows.start, None]
            with wide_blas(scaled.size * float(self.D)):
                out += scaled.T @ scaled

    def _rows(self, part: slice, dtype: Any) -> Array:
        """Return some rows as an array, with the constant feature; one of all rows is kept."""
        if self.array is None or self.array.dtype != dtype:
            self.array = np.empty((self.n, self.D), dtype)
            self.array[:, : self.d] = self.X if isinstance(self.X, np.ndarray) else self.X.toarray()
            if self.means is not None:
                self.array[:, : self.d] = self.X - self.means
            if self.bias:
                self.array[:, self.d] = self.bias
        return np.asarray(self.array[part])

    def _subtract_joint(self, rows: slice, label: int, others: Array, slopes: Array, H: Array) -> None:
        """Subtract x x' (x) (E a)(E a)' of every row."""
        size = len(H)
        for part in row_slices(rows.stop - rows.start, size, numbers=max(BLOCK, 2 * H.size)):
            check_time(float(part.stop - part.start) * size**2)
            a = slopes[part]
            full = np.empty((len(a), self.k), H.dtype)
            full[:, others] = -a
            full[:, label] = a.sum(axis=1)
            block = self._rows(slice(rows.start + part.start, rows.start + part.stop), H.dtype)
            scaled = (full[:, : self.n_blocks, None] * block[:, None, :]).reshape(len(a), size)
            with wide_blas(scaled.size * float(size)):
                H -= scaled.T @ scaled


def best_multiple(beta: Array, implied: Array) -> tuple[float, float]:
    """Return the dual value at the best multiple of beta in (0, 1], and this multiple; ``implied`` = adjoint(beta)."""
    own, square = float(beta.sum()), float(np.vdot(implied, implied))
    multiple = min(1.0, own / square) if square > 0.0 else 1.0
    return multiple * own - 0.5 * multiple**2 * square, multiple


def given_point(problem: BlockDualProblem, init: DualPoint | None) -> DualPoint | None:
    """Return the point of a warm start, with feasible dual rows and the weights it has."""
    if init is None:
        return None
    point: DualPoint = problem.point(problem.feasible(init.alpha))
    return point if init.weights is None else DualPoint(point.alpha, init.weights)


def used_columns(X: Any) -> Array:
    """Return the features that are not zero everywhere."""
    if isinstance(X, np.ndarray):
        return np.flatnonzero(X.any(axis=0))
    return np.flatnonzero(np.bincount(X.indices, minlength=X.shape[1]))


def steepness(problem: BlockDualProblem) -> float:
    """Return the largest C |x|^2."""
    return float((problem.C * (row_squares(problem.X) + problem.bias**2)).max(initial=0.0))
