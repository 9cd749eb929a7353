"""The samples that a quadratic model of the losses is made of: all, or a few that say most.

The gradient of a model is exact, so whatever lowers it is a direction in which the true objective falls, whatever its
Hessian is. That allows the Hessian to be summed over few samples: i is drawn with probability

    min(1, per_feature s_i),      s_i = sum over features j in play of  kappa_i x_ij^2 / sum_i' kappa_i' x_i'j^2

kappa being a sample's price times its curvature, and then counts 1 / probability. Every feature is thus seen by about
``per_feature`` samples, or by all it has. Where that makes most samples, all are taken.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import jit
from softmargin.matrices.columns import as_columns, transposed
from softmargin.matrices.layout import FEW, laid_out
from softmargin.matrices.rows import DenseRows, as_rows, weighted_squares
from softmargin.solvers.softmax._losses import unpadded
from softmargin.solvers.softmax.quadratic_model.hessian import n_pairs, pairs_of

__all__ = ["Layout", "Sample", "density", "draw", "with_constant"]

Array = NDArray[Any]
THIN = 0.4  # share of nonzero numbers up to which X is not laid out: passes go along its columns, without BLAS
PAIRED = 32  # features up to which their products are kept: beyond, most of them are in no model
MOST_DRAWN = 0.5  # share of the samples above which drawing saves nothing
LEAST_DRAWN = 1 / 8  # share of the samples that are drawn at least: fewer would not make a step cheaper
UNSEEN = 0.03  # share of a feature's curvature, summed over all samples, that the drawn ones may not go below
LEAST_CURVATURE = 1e-3  # share of the largest possible curvature that a sample is drawn for at least


def density(X: Any) -> float:
    """Return the share of X that a loop over its entries sees."""
    return 1.0 if isinstance(X, np.ndarray) else X.nnz / max(X.shape[0] * X.shape[1], 1)


def with_constant(X: Any, has_constant: bool) -> Any:
    """Return columns of X, and a constant one where there is an intercept."""
    if not has_constant:
        return as_columns(transposed(X))
    n, d = X.shape
    if isinstance(X, np.ndarray):
        columns = np.empty((d + 1, n), dtype=X.dtype)
        columns[:d], columns[d] = X.T, 1.0
        return as_columns(columns)
    columns = transposed(X)
    kind = columns.indices.dtype
    return as_columns(
        type(columns)(
            (
                np.concatenate([columns.data, np.ones(n, dtype=X.dtype)]),
                np.concatenate([columns.indices, np.arange(n, dtype=kind)]),
                np.append(columns.indptr, columns.indptr[-1:] + kind.type(n)),
            ),
            shape=(d + 1, n),
        )
    )


class Layout:
    """X of all samples as models want it: as an array where it is small and sparse in name only.

    Columns, and products of two features for models of several classes, are made where they are first asked for.
    """

    def __init__(self, problem: Any) -> None:
        X = problem.X
        self.X = laid_out(X, share=THIN)
        self.has_constant = bool(problem.fit_intercept)
        few_pairs = X.shape[1] <= PAIRED and X.shape[0] * n_pairs(X.shape[1] + 1) <= FEW
        self.has_pairs = problem.n_columns > 1 and isinstance(self.X, np.ndarray) and few_pairs

    @cached_property
    def columns(self) -> Any:
        """The columns of X, and a constant one where there is an intercept."""
        return with_constant(self.X, self.has_constant)

    @cached_property
    def pairs(self) -> Array | None:
        """(n_pairs, n) all products of two features, the constant one included, where there are few."""
        if not self.has_pairs:
            return None
        return pairs_of(np.vstack([self.X.T, np.ones((int(self.has_constant), len(self.X)))]))

    def gather(self, every: "Sample", drawn: tuple[Array, Array, Array] | None, is_dense: bool) -> "Sample":
        """Return all samples, or those drawn, with the columns or the products that a model needs."""
        every.pairs = self.pairs if is_dense else None
        if drawn is not None:
            some = every.of(*drawn)
            some.columns = None if is_dense else with_constant(some.X, self.has_constant)
            return some
        if not is_dense or (isinstance(self.X, np.ndarray) and not self.has_pairs):
            every.columns = self.columns
        return every


@dataclass
class Sample:
    """The samples that a model is made of."""

    rows: Array | None  # None: all
    X: Any
    columns: Any  # None: the model does not need them
    C: Array  # (m,)
    P: Array  # (m * k,)
    damping: Array  # (m,)
    least: Array  # (d + 1,) curvature that a feature has at least
    pairs: Array | None = None  # (n_pairs, m) products of two features, where there are few

    def table(self, features: Array) -> Array:
        """Return some columns as a matrix, one to a row; the constant one has the number d."""
        if isinstance(self.columns, DenseRows):
            return self.columns.X.reshape(-1, self.columns.d)[features]
        n, d = self.X.shape
        own = features[features < d]
        table = np.ones((len(features), n))
        table[: len(own)] = (self.X[:, own] if isinstance(self.X, np.ndarray) else self.X[:, own].toarray()).T
        return table

    def of(self, rows: Array, prices: Array, least: Array) -> "Sample":
        """Return some of the samples, at other prices and without columns."""
        X = self.X[rows]
        P = np.ascontiguousarray(self.P.reshape(len(self.C), -1)[rows]).reshape(-1)
        pairs = None if self.pairs is None else self.pairs[:, rows]
        return Sample(rows, X, None, prices, P, self.damping[rows], least, pairs)


def draw(
    problem: Any, P: Array, features: Array, per_feature: float, more: float, rng: np.random.Generator
) -> tuple[Array, Array, Array] | None:
    """Draw samples for a model of some features, ``more`` times as many as usual.

    Returns which, their prices, and the least curvature of every feature; or None where all samples are needed.
    """
    n, d = problem.X.shape
    wanted = more * max(per_feature * (len(features) + 1), LEAST_DRAWN * n)
    if wanted > n:
        return None
    top = unpadded(problem, P).max(axis=1)
    kappa = problem.C * (top * (1.0 - top) + LEAST_CURVATURE / 4.0)
    if not kappa.any():
        return None
    rows = as_rows(problem.X)
    sums, inverse, share = np.empty(d), np.zeros(d), np.empty(n)
    weighted_squares(rows, kappa, sums)
    seen = features[sums[features] > 0.0]
    inverse[seen] = 1.0 / sums[seen]
    _weighted_squares_of_rows(rows, inverse, share)
    chance = np.minimum(wanted / (len(features) + 1) * kappa * (share + 1.0 / kappa.sum()), 1.0)
    if not chance.sum() < MOST_DRAWN * n:
        return None
    drawn = np.flatnonzero(rng.random(n) < chance)
    return drawn, problem.C[drawn] / chance[drawn], UNSEEN * np.append(sums, kappa.sum())


@jit
def _weighted_squares_of_rows(rows: Any, weights: Array, out: Array) -> None:
    """out[i] = sum_j weights_j x_ij^2."""
    rows_ = rows.bare()
    for i in range(out.shape[0]):
        begin, end = rows_.entries(i)
        sum_ = 0.0
        for p in range(begin, end):
            sum_ += weights[rows_.column(i, p)] * rows_.value(p) * rows_.value(p)
        out[i] = sum_
