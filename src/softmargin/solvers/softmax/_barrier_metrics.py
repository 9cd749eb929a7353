"""Preconditioners of the Hessian of the losses plus a diagonal that differs from entry to entry, as a barrier adds it.

    H = sum_i C_i (diag p_i - p_i p_i') (x) x_i x_i' + diag theta                                 maths: softmax, eq. 46

    each class       one matrix per class (_class_grams), or with many features the diagonal
    whole            H in single precision, on the entries that can move: those whose theta does not outweigh the losses

What all classes share, W + v 1', changes no probability: on it H is the diagonal E_j = sum_c theta_jc. ``deflated``
solves for it exactly, and leaves the rest to a preconditioner that need not know of it.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.lanes import zeros
from softmargin.core.deadline import check_time
from softmargin.matrices.cholesky import solve_factored
from softmargin.solvers.common.conjugate_gradients import Metric
from softmargin.solvers.softmax._class_grams import ClassGramTuning, MadeMetric, affords_class_grams, each_class
from softmargin.solvers.softmax._preconditioner import factored, unit_roots
from softmargin.solvers.softmax._ridge_objective import RidgeObjective, WeightedRows, class_squares
from softmargin.solvers.softmax.quadratic_model.hessians import LITTLE, hessian_by_pairs
from softmargin.solvers.softmax.quadratic_model.samples import Samples

__all__ = ["WholeTuning", "class_metric", "whole_metric"]

Array = NDArray[Any]


class WholeTuning(NamedTuple):
    """Which entries and samples a whole H has."""

    most_entries: int = 10_000  # 400 MB, and as much for its factor; by hand
    held: float = 100.0  # theta over the curvature of the losses from which on an entry is solved by itself; by hand
    faint: float = 1e-4  # share of a pair's largest weight below which H leaves a sample out; as DenseTuning


def class_metric(
    objective: RidgeObjective,
    rows: WeightedRows,
    theta: Array,
    per_feature: float,
    rng: np.random.Generator,
    tuning: ClassGramTuning,
) -> MadeMetric:
    """Build matrices of single classes of some rows, or diagonals; theta is (d + 1, k), zero for the intercept."""
    if affords_class_grams(*objective.shape, tuning):
        made = each_class(objective, rows, theta, per_feature, rng, tuning)
    else:
        diagonal = _own_curvature(objective, rows) + theta
        diagonal[diagonal == 0.0] = 1.0
        made = MadeMetric(lambda V: V / diagonal.ravel(), 0.0)
    return made._replace(solve=_deflated(made.solve, theta, objective))


def whole_metric(
    objective: RidgeObjective, rows: WeightedRows, theta: Array, tuning: WholeTuning
) -> tuple[MadeMetric | None, int]:
    """Factor H of some rows on the entries that can move, and say how many these are; None where they are too many."""
    X, P = rows.X, objective.matrix(rows.P)
    own = _own_curvature(objective, rows)[:, : P.shape[1]]
    held = theta[:, : P.shape[1]]
    classes, features = np.nonzero(((own > 0.0) & (held <= tuning.held * own)).T)
    m = len(classes)
    if not 0 < m <= tuning.most_entries:
        return None, m
    work = LITTLE * len(rows.C) * m**2 + m**3 / 6.0
    check_time(work)
    samples = Samples(X, rows.C, rows.P, np.zeros(len(rows.C)), np.zeros(1))
    used, row_of = np.unique(features, return_inverse=True)
    H = hessian_by_pairs(samples.rows_at(used), row_of, classes, P, samples, tuning.faint)
    scales = unit_roots((own + held)[features, classes])
    H /= scales.astype(H.dtype)
    H /= scales.astype(H.dtype)[:, None]
    np.einsum("jj->j", H)[:] += held[features, classes] / np.square(scales)
    check_time()
    factor = np.asarray(factored(H.astype(np.float32, copy=False)).T)
    diagonal = np.where(own + held > 0.0, own + held, 1.0)

    def solve(V: Array) -> Array:
        flat = zeros(len(V))
        right, out = objective.matrix(V), objective.matrix(flat)
        out[:] = right / diagonal
        x = right[features, classes] / scales
        size = float(np.abs(x).max())
        if size > 0.0:  # into the range of float32
            z = (x / size).astype(np.float32)
            solve_factored(factor, z)
            out[features, classes] = z * (size / scales)
        return flat

    return MadeMetric(_deflated(solve, theta, objective), work), m


def _own_curvature(objective: RidgeObjective, rows: WeightedRows) -> Array:
    """Return the diagonal of the Hessian of the losses; (d + 1, k)."""
    P = rows.P.reshape(-1, objective.k)
    curvature = P * (1.0 - P) * rows.C[:, None]
    return np.vstack([class_squares(rows.X, curvature), objective.problem.bias * curvature.sum(axis=0)])


def _deflated(metric: Metric, theta: Array, objective: RidgeObjective) -> Metric:
    """Return a metric that solves for what all classes share by itself."""
    problem, k, m = objective.problem, objective.k, objective.problem.n_columns
    if problem.is_pinned:
        return metric
    theta = theta[:, :m]
    sums = theta.sum(axis=1, keepdims=True)
    inverse = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0.0)

    def solve(V: Array) -> Array:
        right = V.reshape(-1, k).copy()
        shared = right[:, :m].sum(axis=1, keepdims=True) * inverse
        right[:, :m] -= theta * shared
        right[-1, :m] -= right[-1, :m].mean()
        out = metric(right.ravel()).reshape(-1, k)[:, :m]
        shared -= (theta * out).sum(axis=1, keepdims=True) * inverse
        right[:, :m] = out + shared
        right[-1, :m] -= right[-1, :m].mean()
        return right.ravel()

    return solve
