"""A quadratic model of the losses around W with its Hessian written out, for few entries of W.

    q(D) = <G, D> + 1/2 <D, H D> + g(W + D)
    H[(j, c), (l, e)] = sum_i B_i[c, e] x_ij x_il ,      B_i[c, e] = C_i ([c = e] (p_ic + damping_i) - p_ic p_ie)

The same q as by samples. H is formed (hessians, _feature_pairs)

    one column, thin rows       from pairs of nonzeros of every row, in a compiled loop
    one column, few numbers     in a compiled loop (_few_numbers)
    one column                  as Z Z', with Z the columns times sqrt(B_i)
    few features                as one product of all products of two features, which are cached from one model to the
                                next, with all products of two classes
    many entries, few classes   pair of classes by pair, from the samples that may confuse the two
    else                        as one product for what couples the classes, and one per class for the rest

H of many entries has single precision: it is a model, G and the search along D are exact.

After that no sample is visited (written_out).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.deadline import check_time
from softmargin.matrices.rows import DenseRows, as_rows
from softmargin.solvers.softmax._feature_pairs import fill_class_pairs, n_pairs, scatter
from softmargin.solvers.softmax._few_numbers import LOOPS_PAY, FewNumbers, fill_in_loops
from softmargin.solvers.softmax.quadratic_model.by_samples import LossExpansion, QuadraticModel, used
from softmargin.solvers.softmax.quadratic_model.hessians import (
    LITTLE,
    fill_from_rows,
    hessian_by_classes,
    hessian_by_pairs,
)
from softmargin.solvers.softmax.quadratic_model.samples import Layout, density
from softmargin.solvers.softmax.quadratic_model.written_out import FAST, JumpTuning, WrittenOut

__all__ = [
    "DenseModel",
    "DenseTuning",
    "affords_all",
    "forming_cost",
    "is_looped",
    "is_needed",
    "is_worth_while",
]

Array = NDArray[Any]


class DenseTuning(NamedTuple):
    """Constants of the choice of this model, and of its minimisation."""

    most_entries: int = 2000  # H of these is 32 MB; by hand
    usual_passes: int = 60  # over a model by samples, against which H is weighed; by hand
    loss_cost: float = 30.0  # multiply-adds that the losses of a sample are worth, per tile of classes; by hand
    afforded: float = 5.0  # cost of H of all samples, as a multiple of the rest of a step; by hand
    accuracy: float = 1e-4  # of H of all samples: change of the last pass over the first: passes are cheap; by hand
    max_passes: int = 2000  # over H of all samples; by hand
    most_needed: int = 3000  # entries of an H of all samples where passes over samples do not end: 72 MB; by hand
    most_numbers: float = 5e7  # in the columns of these entries: 400 MB; by hand
    faint: float = 1e-4  # share of the largest weight of a pair of classes below which H leaves a sample out; by hand
    pair: float = 3e6  # multiply-adds of one product in the time that a pair of classes takes beside its own; by timing
    jumps: JumpTuning = JumpTuning()


def is_looped(X: Any) -> bool:
    """Return whether the pairs of sparse rows are best summed one by one."""
    if isinstance(X, np.ndarray):
        return False
    own, d = X.nnz / max(X.shape[0], 1), X.shape[1]
    return bool(own * own / 2.0 <= d * d / (2.0 * FAST) + d)


def forming_cost(layout: Layout, m: int, k: int) -> float:
    """Return the multiply-adds of a loop over samples, per sample, in the time that forming H of m entries takes."""
    X = layout.X
    if k == 1 and is_looped(X):
        own = density(X) * X.shape[1]
        return float(own + density(X) * m * own / 2.0)
    size = n_pairs(X.shape[1] + 1) * n_pairs(k) if layout.has_pairs else m * m / 2.0 if k == 1 else m * m
    return float(size / FAST + m)


def is_worth_while(cost: float, m: int, X: Any, max_passes: int, tuning: DenseTuning) -> bool:
    """Return whether H of m entries, and a pass over it, cost less than passes over the samples, 2 m density each."""
    by_samples = 2.0 * m * density(X)
    is_small = 0 < m <= tuning.most_entries and m * m <= FAST * X.shape[0] * by_samples
    return is_small and cost <= min(tuning.usual_passes, max_passes) * by_samples


def affords_all(cost: float, X: Any, n_tiles: int, tuning: DenseTuning) -> bool:
    """Return whether H may be summed over all samples, for a better model than with few."""
    return bool(cost <= tuning.afforded * n_tiles * (3.0 * density(X) * X.shape[1] + tuning.loss_cost))


def is_needed(m: int, n_rows: int, n: int, tuning: DenseTuning) -> bool:
    """Return whether H of m entries in so many rows is small enough, though passes over n samples seemed cheaper."""
    return tuning.most_entries < m <= tuning.most_needed and n_rows * n <= tuning.most_numbers


class DenseModel(QuadraticModel, WrittenOut):
    """A model in the entries (features[e], classes[e]) of W, ordered by class."""

    def __init__(self, around: LossExpansion, features: Array, classes: Array, tuning: DenseTuning) -> None:
        super().__init__(around, features if around.losses.problem.n_columns == 1 else used(features))
        self.features, self.classes, self.tuning = features, classes, tuning
        self.at = features * self.losses.k + classes
        self.table: Array | None = None  # (m, n) the columns, where H is made of them
        self.is_large = len(features) > tuning.most_entries
        work = len(self.samples.C) * len(features) ** 2.0
        self.goes_by_pairs = self.is_large and n_pairs(self.problem.n_columns) * tuning.pair <= work / 2.0
        check_time(work * (LITTLE if self.goes_by_pairs else 1.0))
        H, is_free = self.hessian(), features == self.problem.X.shape[1]
        curvature = self.samples.floored(H.diagonal(), features)
        entries = self.problem.penalty, H, curvature, self.G[self.at], is_free, self.W[self.at]
        WrittenOut.__init__(self, *entries, tuning.jumps)

    def hessian(self) -> Array:
        """Return H, (m, m)."""
        problem, samples, m = self.problem, self.samples, len(self.features)
        (n, d), k = samples.X.shape, problem.n_columns
        P = self.losses.matrix(samples.P)
        if k == 1:
            if isinstance(samples.columns, DenseRows) and n * m**2 < LOOPS_PAY:
                H = np.empty((m, m))
                columns, ends = samples.columns.X.reshape(-1, n), np.array([0, m])
                fill_in_loops(FewNumbers(columns, self.features, ends, samples.damping), samples.P, samples.C, 1, H)
                return H
            prices = samples.C * (P[:, 0] * (1.0 - P[:, 0]) + samples.damping)
            if is_looped(samples.X):
                place, H = np.full(d + 1, m), np.empty((m, m))
                place[self.features] = np.arange(m)
                fill_from_rows(as_rows(samples.X), place, prices, H)
                return H
            self.table = samples.table(self.features)
            Z = self.table * np.sqrt(prices)
            return np.asarray(Z @ Z.T)
        if samples.pairs is not None:
            products, H = np.empty((n_pairs(k), n)), np.empty((m, m))
            fill_class_pairs(samples.P, samples.C, samples.damping, self.losses.k, k, products)
            scatter(samples.pairs @ products.T, self.features, self.classes, d + problem.fit_intercept, k, H)
            return H
        row_of = np.searchsorted(self.rows, self.features)
        if self.goes_by_pairs:
            return hessian_by_pairs(samples.rows_at(self.rows), row_of, self.classes, P, samples, self.tuning.faint)
        X = (
            np.ascontiguousarray(samples.rows_at(self.rows).T)
            if self.is_large
            else samples.table(self.rows).astype(np.float64, copy=False)
        )
        return hessian_by_classes(X, row_of, self.classes, P, samples)

    def minimise(self, accuracy: float, max_passes: int) -> bool:
        """Pass over the entries until a pass changes less than ``accuracy`` times the first; return whether cut off."""
        is_cut = self.descend(accuracy, max_passes)
        self.work += self.visits
        self.V[self.at] = self.point
        return is_cut

    def squared_length(self) -> float:
        """Return <D, H D>."""
        return float((self.point - self.start) @ self.response)

    def penalised(self) -> tuple[Array, Array]:
        """Return the entries of W and V that are penalised."""
        own = ~self.is_free
        return self.start[own, None], self.point[own, None]

    def slope(self) -> float:
        """Return <G, D>."""
        return float(self.slopes @ (self.point - self.start))

    def dual(self, T: Array) -> Array:
        """Return the probabilities of the model, where it is one of all samples that couples classes; (n * k,).

        Those of two classes at the weights prove as much as is asked, with fewer operations.
        """
        is_whole = self.problem.n_columns > 1 and self.samples.rows is None and self.samples.is_coupled
        return self.probabilities(T) if is_whole and self.problem.penalty.has_bound else super().dual(T)

    def scores_move(self) -> Array | None:
        """Return [X, 1] D of all samples, (n, k), where H was made of their columns."""
        if self.table is None or self.samples.rows is not None:
            return None
        return np.asarray(((self.point - self.start) @ self.table)[:, None])
