"""Cheap approximations of the Hessian of F: where L-BFGS starts, and what preconditions conjugate gradients.

    Hessian of class c with itself      sum_i C_i p_ic (1 - p_ic) x_i x_i' + ridge        x_i with the constant feature

    none        the identity
    diagonal    its diagonal
    gram        the mean of these matrices over the classes, scaled to the diagonal of every class; one matrix per class
                where d is small

What all classes share, W + v 1', changes no probability: the Hessian maps such matrices to ridge times themselves, and
those whose rows sum to zero to their like. ``apart`` solves for the first exactly, and for the others among themselves:
the matrices of single classes know nothing of that, and conjugate gradients would take three times as many products.

A Gram matrix needs only enough rows to tell d directions apart. ``sample_rows`` draws them by their curvature
C_i (1 - |p_i|^2): row i is kept with probability pi_i = min(1, curvature_i / tau), and then counts 1 / pi_i times, so
that the expected Hessian is the true one, and the rows that matter most are all kept.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import spotrf, spotrs  # as cho_factor and cho_solve, without their layers

from softmargin.core.deadline import has_time_for
from softmargin.core.threads import row_shares, spread, wide_blas
from softmargin.matrices.rows import as_rows, fill_scaled
from softmargin.solvers.common.conjugate_gradients import Metric
from softmargin.solvers.softmax._ridge_objective import RidgeObjective, WeightedRows, class_squares

__all__ = [
    "PRECONDITIONERS",
    "GramMetric",
    "MetricTuning",
    "apart",
    "curvatures",
    "factored",
    "make_metric",
    "sample_rows",
    "scaled_rows",
    "unit_roots",
]

Array = NDArray[Any]
PRECONDITIONERS = ("auto", "none", "diagonal", "gram")
SCALED = 8.0  # multiplications of BLAS in the time that a number takes to be read, scaled and written
FAINT = 1e-12  # share of the largest curvature below which a row changes no digit that matters
SILENT = 1e-9  # an entry beside a unit diagonal below which it is left out: float32 rounds to 6e-8
SHIFT = 1e-6  # about the rounding of a float32 Gram matrix with unit diagonal; ten times as much after every failure


class MetricTuning(NamedTuple):
    """When a Gram matrix is formed, and of which rows. All by hand: no measurement is recorded."""

    max_features: int = 3000  # for which a Gram matrix is formed
    # Multiplications for a Gram matrix, per multiplication of one product with X, up to which it is formed. BLAS forms
    # it, and makes products with a dense X; those with a sparse X take several times as long per number.
    worth_sparse: float = 300.0
    worth_dense: float = 50.0
    features_per_class: int = 50  # up to which every class has a matrix of its own
    least_rows: int = 1000  # of a Gram matrix ...
    rows_per_feature: int = 4  # ... or this many per feature
    max_rounds: int = 5  # to find the tau of a sample
    least_diagonal: float = 1e-4  # share of its bound: far from the optimum curvature vanishes, slopes do not


class GramMetric(NamedTuple):
    """A preconditioner, and how near to singular the matrix that all classes share is."""

    solve: Metric
    pivot: float = 1.0  # the least of its Cholesky factor, whose diagonal is 1 where features are uncorrelated


def _solve_shared(factor: Any, scales: Array, V: Array) -> Array:
    """Solve with scale_c A scale_c for class c, A in its Cholesky factor; scales is (d + 1, k)."""
    right = V.reshape(scales.shape) / scales
    size = float(np.abs(right).max())
    if not size > 0.0:
        return V
    right /= size  # into the range of float32
    solved, _ = spotrs(factor, right.astype(np.float32))
    solved = solved * (size / scales)
    return np.asarray(solved.ravel())


def _solve_each(inverses: Array, V: Array) -> Array:
    """Solve with one matrix per class; inverses is (k, d + 1, d + 1)."""
    m, size, _ = inverses.shape
    right = V.reshape(size, -1)
    out = np.zeros_like(right)
    out[:, :m] = np.matmul(inverses, right.T[:m, :, None])[:, :, 0].T
    return out.ravel()


def make_metric(
    name: str, objective: RidgeObjective, rows: WeightedRows, rng: np.random.Generator, tuning: MetricTuning
) -> GramMetric:
    """Build the preconditioner of that name from some rows."""
    X, n_columns = rows.X, objective.problem.n_columns
    n, d = X.shape
    nnz, worth = (X.size, tuning.worth_dense) if isinstance(X, np.ndarray) else (X.nnz, tuning.worth_sparse)
    m = min(n, max(tuning.least_rows, tuning.rows_per_feature * (d + 1)))
    if name == "auto":
        forming = m * (d + 1.0) ** 2
        is_worth = d <= tuning.max_features and forming <= worth * nnz * objective.k and has_time_for(forming)
        name = "gram" if is_worth else "diagonal"
    if name == "none":
        return GramMetric(lambda V: V)
    if name == "diagonal":
        diagonal = _diagonal(objective, rows, tuning)
        return GramMetric(apart(lambda V: V / diagonal, objective))
    keep, counts = _draw(objective, rows, m, rng, tuning)
    P, prices = objective.matrix(rows.P), rows.C
    if keep is not None:
        P, prices = P[keep], prices[keep] * counts
    curvature = P * (1.0 - P) * prices[:, None]
    if n_columns > 1 and d <= tuning.features_per_class:
        inverses = _inverse_grams(objective, X if keep is None else X[keep], curvature, tuning)
        return GramMetric(apart(partial(_solve_each, inverses), objective))
    diagonal = _diagonal(objective, rows, tuning)
    squares = objective.matrix(diagonal).mean(axis=1)
    factor = _shared_factor(objective, X, keep, curvature.mean(axis=1), squares)
    solve = apart(partial(_solve_shared, factor, np.sqrt(diagonal).reshape(d + 1, -1)), objective)
    return GramMetric(solve, float(np.abs(np.diagonal(factor)).min()))


def apart(metric: Metric, objective: RidgeObjective) -> Metric:
    """Return a metric that solves for what all classes share by itself, and for the rest by ``metric``."""
    problem, k, m = objective.problem, objective.k, objective.problem.n_columns
    if problem.is_pinned:
        return metric

    def solve(V: Array) -> Array:
        right = V.reshape(-1, k).copy()
        shared = right[:, :m].mean(axis=1, keepdims=True)
        right[:, :m] -= shared
        out = metric(right.ravel()).reshape(-1, k)[:, :m]
        right[:, :m] = out - out.mean(axis=1, keepdims=True)
        if objective.ridge > 0.0:  # intercepts have none, and their gradient has no such part
            right[:-1, :m] += shared[:-1] / objective.ridge
        return right.ravel()

    return solve


def sample_rows(
    objective: RidgeObjective, rows: WeightedRows, m: int, rng: np.random.Generator, tuning: MetricTuning
) -> WeightedRows:
    """Return about m rows that represent all, or all where there are no more."""
    keep, counts = _draw(objective, rows, m, rng, tuning)
    if keep is None:
        return rows
    return WeightedRows(rows.X[keep], rows.P.reshape(-1, objective.k)[keep].ravel(), rows.C[keep] * counts)


def _draw(
    objective: RidgeObjective, rows: WeightedRows, m: int, rng: np.random.Generator, tuning: MetricTuning
) -> tuple[Array | None, Array]:
    """Draw about m rows: their indices, None for all, and how many rows each of them represents."""
    curvature = curvatures(rows, objective.k)
    n = len(curvature)
    if m >= n or not curvature.max() > 0.0:
        return None, np.ones(0)
    curvature[curvature < FAINT * curvature.max()] = 0.0
    tau = 0.0
    kept = np.zeros(n, dtype=bool)
    for _ in range(tuning.max_rounds):  # tau such that the probabilities sum to m
        tau = float(curvature[~kept].sum()) / max(m - int(kept.sum()), 1)
        more = curvature > tau
        if (more == kept).all():
            break
        kept = more
    keep = np.flatnonzero(rng.random(n) * tau < curvature)
    return keep, np.maximum(tau / curvature[keep], 1.0)


def curvatures(rows: WeightedRows, k: int) -> Array:
    """Return C_i (1 - |p_i|^2): how much the loss of each row bends."""
    P = rows.P.reshape(-1, k)
    return np.asarray(rows.C * (P[:, 0] * (1.0 - P[:, 0]) if k == 1 else 1.0 - np.einsum("ic,ic->i", P, P)))


def _diagonal(objective: RidgeObjective, rows: WeightedRows, tuning: MetricTuning) -> Array:
    """Return the diagonal of the Hessian of some rows, at least a share of its bound."""
    P, problem = rows.P.reshape(-1, objective.k), objective.problem
    curvature = P - np.square(P)
    curvature *= rows.C[:, None]
    diagonal = np.empty((rows.X.shape[1] + 1, objective.k))
    diagonal[:-1] = class_squares(rows.X, curvature) + objective.ridge
    diagonal[-1] = problem.bias * curvature.sum(axis=0)
    return np.maximum(diagonal.ravel(), tuning.least_diagonal * objective.diagonal_bound)


def _shared_factor(objective: RidgeObjective, X: Any, keep: Array | None, weights: Array, squares: Array) -> Any:
    """Return the Cholesky factor of sum_i weights_i x_i x_i' + ridge, scaled to unit diagonal.

    The sum is over the rows ``keep``, None for all. ``squares`` is about its diagonal: a scale that suits float32.
    """
    inverse = 1.0 / unit_roots(squares)
    A = scaled_rows(X, keep, np.sqrt(weights), inverse, objective.problem.bias)
    with wide_blas(A.size * float(A.shape[1])):
        H = A.T @ A
    diagonal = np.einsum("jj->j", H)  # a view
    diagonal[:-1] += objective.ridge * np.square(inverse[:-1])
    scale = unit_roots(diagonal)
    H /= scale
    H /= scale[:, None]
    return factored(H)


def scaled_rows(X: Any, keep: Array | None, roots: Array, inverse: Array, bias: float) -> Array:
    """Return rows of [X, bias], None for all, times ``roots``, their columns times ``inverse``, in float32."""
    m, d = len(roots), X.shape[1]
    rows, which = as_rows(X, bias), np.arange(m) if keep is None else keep
    A = np.zeros((m, d + 1), dtype=np.float32)
    spread(lambda some: fill_scaled(rows, which[some], roots[some], inverse, A[some]), row_shares(m, SCALED * d))
    return A


def unit_roots(squares: Any) -> Any:
    """Return the roots; 1 where a square is 0."""
    return np.sqrt(np.where(squares > np.finfo(squares.dtype).tiny, squares, 1.0))


def factored(H: Array) -> Any:
    """Return the Cholesky factor of a matrix with unit diagonal, shifted until it is positive definite.

    Entries far below the rounding are zero in it: products of two of them are no normal numbers of float32, with which
    processors take many times as long.
    """
    shift = SHIFT
    H[np.abs(H) < SILENT] = 0.0
    while shift < 1.0:
        shifted = H.copy()
        np.einsum("jj->j", shifted)[:] += shift
        factor, failure = spotrf(shifted.T, overwrite_a=True)
        if not failure:
            return factor
        shift *= 10.0
    return np.eye(len(H), dtype=H.dtype)


def _inverse_grams(objective: RidgeObjective, X: Any, curvature: Array, tuning: MetricTuning) -> Array:
    """Return the inverse Gram matrices of the classes."""
    n, d = X.shape
    A = np.empty((d + 1, n))  # weights go along its rows
    A[:-1] = (X if isinstance(X, np.ndarray) else X.toarray()).T
    A[-1] = objective.problem.bias
    grams = np.empty((curvature.shape[1], d + 1, d + 1))
    scaled = np.empty_like(A)
    for gram, weights in zip(grams, np.ascontiguousarray(curvature.T), strict=True):
        np.multiply(A, weights, out=scaled)
        with wide_blas(A.size * float(d)):
            np.matmul(scaled, A.T, out=gram)
    diagonals = np.einsum("cjj->cj", grams)  # a view
    diagonals[:, :-1] += objective.ridge
    np.maximum(diagonals, tuning.least_diagonal * objective.matrix(objective.diagonal_bound).T, out=diagonals)
    scales = np.sqrt(diagonals)
    scales = scales[:, :, None] * scales[:, None, :]
    return np.asarray(np.linalg.inv(grams / scales + SHIFT * np.eye(d + 1)) / scales)
