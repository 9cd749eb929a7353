"""The samples that a quadratic model of the losses is made of: all, or a few that say most.

The gradient of a model is exact, so whatever lowers it is a direction in which the true objective falls, whatever its
Hessian is. That allows the Hessian to be summed over few samples: i is drawn with probability

    min(1, per_feature s_i),      s_i = sum over features j in play of  kappa_i x_ij^2 / sum_i' kappa_i' x_i'j^2

kappa being a sample's price times its curvature, and then counts 1 / probability. Every feature is thus seen by about
``per_feature`` samples, or by all it has. Where that makes most samples, all are taken.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from softmargin.backends.jit import jit
from softmargin.matrices.columns import as_columns, transposed
from softmargin.matrices.rows import DenseRows, as_rows, weighted_squares
from softmargin.solvers.parts.softmax_steps import matrix_of

__all__ = ["Sample", "density", "draw", "with_constant"]

Array = NDArray[Any]
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


@dataclass
class Sample:
    """The samples that a model is made of."""

    rows: Array | None  # None: all
    X: Any
    columns: Any
    C: Array  # (m,)
    P: Array  # (m * k,)
    damping: Array  # (m,)
    least: Array  # (d + 1,) curvature that a feature has at least

    def table(self, features: Array) -> Array:
        """Return some columns as a matrix, one to a row."""
        columns = self.columns
        if isinstance(columns, DenseRows):
            return columns.X.reshape(-1, columns.d)[features]
        shape = (len(columns.indptr) - 1, columns.d)
        return csr_array((columns.data, columns.indices, columns.indptr), shape=shape)[features].toarray()

    def of(self, rows: Array, prices: Array, least: Array, has_constant: bool) -> "Sample":
        """Return some of the samples, at other prices."""
        X = self.X[rows]
        P = np.ascontiguousarray(self.P.reshape(len(self.C), -1)[rows]).reshape(-1)
        return Sample(rows, X, with_constant(X, has_constant), prices, P, self.damping[rows], least)


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
    top = matrix_of(problem, P).max(axis=1)
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
