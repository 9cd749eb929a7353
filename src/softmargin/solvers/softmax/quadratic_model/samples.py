"""The samples over which a quadratic model sums the Hessian of the losses: all, or a few that contribute most.

The gradient of a model is exact, so whatever lowers the model is a direction in which the true objective falls,
whatever its Hessian is. That allows the Hessian to be summed over few samples: i is drawn with probability

    min(1, per_feature s_i),      s_i = sum over features j in play of  kappa_i x_ij^2 / sum_i' kappa_i' x_i'j^2

kappa being a sample's price times its curvature, and then weighs 1 / probability. Every feature is thus seen by about
``per_feature`` samples, or by all it has. Where that makes most samples, all are taken.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack

from softmargin.backends.jit import jit
from softmargin.core.protocols import CompositeProblem
from softmargin.matrices.forms import laid_out
from softmargin.matrices.rows import DenseRows, as_rows, transposed, weighted_squares
from softmargin.solvers.softmax._feature_pairs import has_few_pairs, pairs_of
from softmargin.solvers.softmax._losses import SoftmaxLosses

__all__ = ["Layout", "SampleTuning", "Samples", "density", "draw", "with_constant"]

Array = NDArray[Any]
TINY = 1e-300  # the curvature of a feature that is zero everywhere
IN_RANGE = 1e9  # single precision holds the squares of such numbers, times prices and summed


class SampleTuning(NamedTuple):
    """Constants of the layout of X and of the draws of samples."""

    thin: float = 0.4  # share of nonzeros up to which X stays sparse: passes go along its columns, no BLAS; by hand
    paired: int = 32  # features whose products are cached; measured: with 64 (digits, l1) a fit took 3 times as long
    most_drawn: float = 0.5  # share of the samples above which drawing saves nothing; by hand
    least_drawn: float = 1 / 8  # share of the samples drawn at least: fewer do not make a step cheaper; by hand
    unseen: float = 0.03  # least curvature of a feature, as a share of that over all samples; by hand
    least_curvature: float = 1e-3  # a sample is drawn for at least this share of the largest possible; by hand


def density(X: Any) -> float:
    """Return the share of X that a loop over its entries visits."""
    return 1.0 if isinstance(X, np.ndarray) else float(X.nnz / max(X.shape[0] * X.shape[1], 1))


def with_constant(X: Any, has_constant: bool) -> Any:
    """Return the columns of X, and a constant one where there is an intercept."""
    columns = transposed(X)
    if has_constant:
        one = np.ones((1, X.shape[0]), dtype=X.dtype)
        is_array = isinstance(X, np.ndarray)
        columns = np.concatenate([columns, one]) if is_array else vstack([columns, csr_matrix(one)], format="csr")
    return as_rows(columns)


@dataclass
class Samples:
    """The samples of a model, and the Hessian of their losses by the scores: C_i (diag p_i - p_i p_i' + damping_i)."""

    X: Any  # (m, d)
    C: Array  # (m,)
    P: Array  # (m * k,)
    damping: Array  # (m,)
    least: Array  # (d + 1,) curvature that a feature has at least
    stretch: float = 1.0  # factor on all curvatures of blocks
    rows: Array | None = None  # which samples; None: all
    columns: Any = None  # of X, where the model needs them
    pairs: Array | None = None  # (n_pairs, m) products of two features, where there are few

    @cached_property
    def is_coupled(self) -> bool:
        """Whether the Hessian couples the classes."""
        return bool(self.P.any())

    def floored(self, curvature: Array, features: Array) -> Array:
        """Keep the curvatures of blocks away from zero, where a step would be endless; stretch them."""
        return np.asarray(self.stretch * np.maximum(curvature, self.least[features] + TINY))

    def curvature(self, losses: SoftmaxLosses, move: Array) -> float:
        """Return sum_i C_i <m_i, (diag p_i - p_i p_i' + damping_i) m_i> of a move of the scores, (m * k,)."""
        P, M = losses.matrix(self.P), losses.matrix(move)
        PM = P * M
        each = np.einsum("ic,ic->i", PM, M) - PM.sum(axis=1) ** 2 + self.damping * np.einsum("ic,ic->i", M, M)
        return float(self.C @ each)

    def table(self, features: Array) -> Array:
        """Return some columns as a matrix, one per row; the constant one has the number d."""
        if isinstance(self.columns, DenseRows):
            return np.asarray(self.columns.X.reshape(-1, self.columns.d)[features])
        n, d = self.X.shape
        own = features[features < d]
        table = np.ones((len(features), n))
        table[: len(own)] = (self.X[:, own] if isinstance(self.X, np.ndarray) else self.X[:, own].toarray()).T
        return table

    def rows_at(self, features: Array) -> Array:
        """Return the same numbers one sample per row, in single precision where squares of these keep their range."""
        n, d = self.X.shape
        own = features[features < d]
        some = self.X[:, own] if isinstance(self.X, np.ndarray) else self.X[:, own].toarray()
        sizes = np.abs(some).max(axis=0, initial=0.0)
        is_far = (sizes > 0.0) & ((sizes < 1.0 / IN_RANGE) | (sizes > IN_RANGE))
        table = np.ones((n, len(features)), dtype=np.float64 if is_far.any() else np.float32)
        table[:, : len(own)] = some
        return table


class Layout:
    """X of all samples as models need it: as an array where it is small and not really sparse.

    Columns, and products of two features for models of several classes, are made when they are first used.
    """

    def __init__(self, problem: CompositeProblem, tuning: SampleTuning) -> None:
        X = problem.X
        self.X = laid_out(X, share=tuning.thin)
        self.has_constant = bool(problem.fit_intercept)
        self.has_pairs = problem.n_columns > 1 and has_few_pairs(self.X, tuning.paired)

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

    def gather(self, every: Samples, drawn: tuple[Array, Array, Array] | None, is_dense: bool) -> Samples:
        """Return all samples, or those drawn, with the columns or the products of features that a model needs."""
        every.pairs = self.pairs if is_dense else None
        if drawn is None:
            if not is_dense or (isinstance(self.X, np.ndarray) and not self.has_pairs):
                every.columns = self.columns
            return every
        rows, C, least = drawn
        X, P = self.X[rows], np.ascontiguousarray(every.P.reshape(len(every.C), -1)[rows]).reshape(-1)
        return replace(
            every,
            X=X,
            C=C,
            P=P,
            damping=every.damping[rows],
            least=least,
            rows=rows,
            columns=None if is_dense else with_constant(X, self.has_constant),
            pairs=None if every.pairs is None else every.pairs[:, rows],
        )


def draw(
    losses: SoftmaxLosses,
    P: Array,
    features: Array,
    per_feature: float,
    more: float,
    seed: list[int],
    tuning: SampleTuning,
) -> tuple[Array, Array, Array] | None:
    """Draw samples for a model of some features, ``more`` times as many as usual.

    Returns which, their prices, and the least curvature of every feature; or None where all samples are needed.
    """
    problem = losses.problem
    n, d = problem.X.shape
    wanted = more * max(per_feature * (len(features) + 1), tuning.least_drawn * n)
    if wanted > n:
        return None
    top = losses.matrix(P).max(axis=1)
    kappa = problem.C * (top * (1.0 - top) + tuning.least_curvature / 4.0)
    if not kappa.any():
        return None
    rows = as_rows(problem.X)
    sums, inverse, share = np.empty(d), np.zeros(d), np.empty(n)
    weighted_squares(rows, kappa, sums)
    seen = features[sums[features] > 0.0]
    inverse[seen] = 1.0 / sums[seen]
    _weighted_squares_of_rows(rows, inverse, share)
    chance = np.minimum(wanted / (len(features) + 1) * kappa * (share + 1.0 / kappa.sum()), 1.0)
    if not chance.sum() < tuning.most_drawn * n:
        return None
    drawn = np.flatnonzero(np.random.default_rng(seed).random(n) < chance)
    return drawn, problem.C[drawn] / chance[drawn], tuning.unseen * np.append(sums, kappa.sum())


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
