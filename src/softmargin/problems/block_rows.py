"""Some rows of data that lie in blocks, and what a pass (``summed_passes``) asks of them: products, losses, Grams.

Rows are taken some thousand at a time: no array but X has the length of the block times k. Rows elsewhere, as those of
``device_rows``, answer the same questions.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_solve

from softmargin.core.pieces import Array
from softmargin.losses.joint import labels_of
from softmargin.losses.multinomial import one_hot
from softmargin.losses.smoothed import Bent, bent, curvature_diagonal, curvature_times
from softmargin.matrices.forms import with_constant
from softmargin.matrices.operator import numbers_per_row, row_slices
from softmargin.problems.checks import digest_of
from softmargin.problems.linear_losses import LinearLosses

__all__ = ["Block", "Curved", "Form", "Inverse", "Rows", "solved_here"]

Inverse = Callable[[Array], Array]  # (d + 1, k) to the same

_FLAT = 1e-12  # share of the largest curvature of some rows that rounding hides
_NUMBERS = 1 << 18  # of X, or of the scores, that are processed at once: 2 MB, about a processor's cache


class Block(NamedTuple):
    """Some of the rows."""

    X: Any  # (n, d) array or CSR matrix, float32 or float64
    y: Array  # (n,) class codes; numbers of a regressor, or 0 and 1 for several labels, also (n, k)
    weights: Array  # (n,) price of each row's loss

    def pieces(self, form: "Form", width: int = 1, numbers: int = 0) -> Iterator["Rows"]:
        """Yield some rows after the others; ``width`` is how many numbers a row has while it is processed.

        ``numbers`` are those of the sum: pieces are as large, so that adding to it costs less than they do.
        """
        X, y, weights = self
        own = max(form.n_columns, numbers_per_row(X), width)
        for rows in row_slices(X.shape[0], own, numbers=max(_NUMBERS, numbers)):
            yield Rows(_laid_out(X[rows]), form.targets(y[rows]), _laid_out(weights[rows]))

    def bent_pieces(self, form: "Form", W: Array, width: float) -> Iterator[tuple["Rows", Array]]:
        """Yield rows that have curvature at W, and theirs."""
        for rows in self.pieces(form, numbers=W.size):
            yield rows.with_curvature(rows.bent(form.loss, width, rows.times(W, form.constant)).bends)

    def inverse(self, factors: Sequence[Array]) -> Inverse:
        """Return what solves with L L' for each of some L, lower triangles, every one for its share of the columns."""
        return partial(solved_here, factors)

    def digest(self) -> str:
        """Return a hash of the rows."""
        return digest_of("block", self.X, np.asarray(self.y), self.weights)


def solved_here(factors: Sequence[Array], V: Array) -> Array:
    """Solve with L L' for each of some L, every one for its share of the columns of V."""
    columns = np.split(V, len(factors), axis=1)
    solved = [cho_solve((L, True), own, check_finite=False) for L, own in zip(factors, columns, strict=True)]
    return np.hstack(solved)


def _laid_out(values: Any) -> Any:
    """Return numbers in float64, those of an array in one order and where BLAS expects them.

    Numbers that came from another machine may begin at any byte: BLAS would add them in another order.
    """
    if isinstance(values, np.ndarray):
        return np.require(values, np.float64, ["C", "A"])
    return values.astype(np.float64, copy=False)


class Form(NamedTuple):
    """What is summed over the rows."""

    loss: Any  # of losses.entrywise or losses.joint
    n_columns: int  # k
    constant: float = 0.0  # value of the constant feature; 0 for none
    is_free: bool = False  # its weight is not penalised

    def targets(self, y: Array) -> Array:
        """Return the targets of codes or numbers; (n, k)."""
        if self.loss.is_joint:
            return one_hot(y, self.n_columns)
        if not self.loss.is_margin:
            return np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        if y.ndim == 2:
            return np.where(y > 0, 1.0, -1.0)
        codes = np.arange(self.n_columns) if self.n_columns > 1 else np.ones(1)
        return np.where(y[:, None] == codes, 1.0, -1.0)

    @property
    def is_penalised(self) -> bool:
        """Whether there is a constant feature whose weight is penalised."""
        return self.constant != 0.0 and not self.is_free

    def penalised(self, W: Array) -> Array:
        """Return the rows of W that the penalty sees."""
        return W if self.is_penalised else W[:-1]


class Rows(NamedTuple):
    """Some rows of a block, in float64: what a pass asks of them; ``device_rows`` has the same elsewhere."""

    X: Any
    target: Array  # (n, k)
    weights: Array  # (n,)

    def times(self, W: Array, constant: float) -> Array:
        """Return [X, constant] W; (n, k)."""
        return np.asarray(self.X @ W[:-1] + constant * W[-1])

    def adjoint(self, V: Array, constant: float) -> Array:
        """Return [X, constant]' V; (d + 1, k)."""
        return np.vstack([np.asarray(self.X.T @ V), constant * V.sum(axis=0)])

    def square_sums(self, V: Array, constant: float) -> Array:
        """Return the sums of squares of [X, constant], times V; (d + 1, k)."""
        squares = self.X**2 if isinstance(self.X, np.ndarray) else self.X.power(2)
        return np.vstack([np.asarray(squares.T @ V), constant**2 * V.sum(axis=0)])

    def dot(self, left: Array, right: Any) -> float:
        """Return the sum of all products."""
        return float(np.vdot(left, right))

    def bent(self, loss: Any, width: float, scores: Array) -> Bent:
        """Return the loss of scores up to second order."""
        return bent(loss, width, scores, self.target)

    def values(self, loss: Any, scores: Array) -> Array:
        """Return the loss of scores, corners included; (n,)."""
        return np.asarray(loss.value(scores, self.target).sum(axis=1))

    def with_curvature(self, bends: Array) -> tuple["Rows", Array]:
        """Return the rows that have curvature, and theirs: a hinge is flat but at its corners. All where most have."""
        is_bent = bends.max(axis=1) > _FLAT * bends.max(initial=0.0)
        if 2 * np.count_nonzero(is_bent) > len(is_bent):
            return self, bends
        return Rows(self.X[is_bent], self.target[is_bent], self.weights[is_bent]), bends[is_bent]

    def curvature_times(self, loss: Any, bends: Array, moves: Array) -> Array:
        """Return the second derivative times a move of the scores; (n, k)."""
        return curvature_times(loss, bends, moves, self.target)

    def mean_curvature(self, loss: Any, bends: Array) -> Array:
        """Return the diagonal of the second derivative, its mean over the columns; (n, 1)."""
        return np.asarray(self.curvature_diagonal(loss, bends).mean(axis=1, keepdims=True))

    def curvature_diagonal(self, loss: Any, bends: Array) -> Array:
        """Return the diagonal of the second derivative; (n, k)."""
        return curvature_diagonal(loss, bends, self.target)

    def shared(self, bends: Array, constant: float, features: Array, columns: Array) -> Array:
        """Return sum_i m_i m_i' ,  m_ie = a_ij b_ic / sqrt(sum(b_i))  for entries e = (j, c) of W; (m, m)."""
        shares = bends / np.sqrt(np.maximum(bends.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny))
        M = with_constant(self.X, constant)[:, features]
        if isinstance(M, np.ndarray):
            M *= shares[:, columns]
            return np.asarray(M.T @ M)
        M.data *= shares[np.repeat(np.arange(M.shape[0]), np.diff(M.indptr)), columns[M.indices]]
        return np.asarray((M.T @ M).toarray())

    def curved(self, bends: Array, constant: float, features: Array | None = None) -> "Curved":
        """Return [X, constant], or some of its columns, of rows with curvature, as an array."""
        is_bent = bends.any(axis=1)
        X, labels = self.X, labels_of(self.target)
        if not is_bent.all():
            X, labels, bends = X[is_bent], labels[is_bent], bends[is_bent]
        if features is not None:
            X = X[:, features[features < X.shape[1]]]
        dense = X if isinstance(X, np.ndarray) else X.toarray()
        return Curved(np.hstack([dense, np.full((len(dense), 1), constant)]), bends, labels)

    def problem(self, form: Form) -> LinearLosses:
        """Return the losses of these rows, for a certificate."""
        X = with_constant(self.X, form.constant) if form.is_penalised else self.X
        return LinearLosses(X, self.target, form.loss, self.weights, form.is_free)


class Curved(NamedTuple):
    """Rows with curvature, and Gram matrices of them."""

    A: Array  # (n, d)
    bends: Array  # (n, k)
    labels: Array  # (n,)

    def gram(self, column: int, label: int | None = None) -> Array:
        """Return A' diag(b_c) A, of all rows or of those with a label."""
        weights = self.bends[:, column]
        is_used = weights > 0.0 if label is None else (weights > 0.0) & (self.labels == label)
        A, weights = (self.A, weights) if is_used.all() else (self.A[is_used], weights[is_used])
        B = A * np.sqrt(weights)[:, None]
        return np.asarray(B.T @ B)  # of one array: BLAS computes half of it

    def without(self, spare: float) -> "Curved":
        """Return the rows without those curvatures whose matrices b_c a a' have a trace of ``spare`` at most."""
        squares = np.einsum("ij,ij->i", self.A, self.A)
        return self._replace(bends=np.where(self.bends * squares[:, None] > spare, self.bends, 0.0))

    def shared(self) -> Array:
        """Return sum_i a_i a_i' (x) b b' / sum(b); (d k, d k)."""
        shares = self.bends / np.sqrt(self.bends.sum(axis=1, keepdims=True))
        M = (self.A[:, :, None] * shares[:, None, :]).reshape(len(self.A), -1)
        return np.asarray(M.T @ M)
