"""A preconditioner with one Gram matrix per class, each of the rows that matter to its class.

    A_c = sum_i w_ic x_i x_i' + bend_c ,    w_ic = C_i p_ic (1 - p_ic)                    x_i with the constant feature

bend_c is the diagonal that the penalty adds: a ridge, or that of a barrier.

Row i is kept for class c with probability min(1, per_feature l_ic), and then counts 1 / probability times, with

    l_ic = w_ic sum_j x_ij^2 / s_jc ,       s_jc = sum_i w_ic x_ij^2                          a bound on its leverage

so that every feature is seen by some rows, also one that few rows have: where draws by curvature alone miss it, its
curvature would be the ridge, and its step endless. What a sample lacks of s_jc is added to the diagonal. How many rows
per feature pay is for the caller to find out: few where the matrices are needed roughly, all where few rows bend.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from softmargin.backends.lanes import zeros
from softmargin.core.deadline import check_time
from softmargin.core.threads import row_shares, spread, wide_blas
from softmargin.matrices.cholesky import solve_factored
from softmargin.matrices.operator import SCATTERED, row_blocks
from softmargin.matrices.products import times
from softmargin.solvers.common.conjugate_gradients import Metric
from softmargin.solvers.softmax._preconditioner import SCALED, apart, factored, scaled_rows, unit_roots
from softmargin.solvers.softmax._ridge_objective import RidgeObjective, WeightedRows, class_squares

__all__ = [
    "ClassGramTuning",
    "MadeMetric",
    "affords_class_grams",
    "class_grams",
    "each_class",
    "making_work",
    "products_work",
]

Array = NDArray[Any]
# Multiplications of BLAS in the time of one of a product with a dense X, which has few columns, as SCATTERED is for a
# sparse X; and in the time of what is called for one class.
THIN = 4.0
CALLS = 4e6
SOLVED = 5.0  # multiplications of BLAS in the time that a number of a factor takes in a solution: 0.4 ms for 616,000
VANISHED = 1e-150  # sums of curvature below are zero: their inverses times squares would overflow


class ClassGramTuning(NamedTuple):
    """When these matrices are formed, and of how many rows."""

    max_features: int = 3000  # by hand
    most_numbers: float = 5e7  # in all matrices together: 200 MB; by hand
    least_rows: float = 1000.0  # of a class, where features are few; by hand


class MadeMetric(NamedTuple):
    """A preconditioner, and the multiplications in BLAS that it took."""

    solve: Metric
    work: float


def affords_class_grams(d: int, k: int, tuning: ClassGramTuning) -> bool:
    """Return whether one matrix of d features for each of k classes is small enough."""
    return bool(d <= tuning.max_features and k * (d + 1.0) ** 2 <= tuning.most_numbers)


def products_work(X: Any, k: int) -> float:
    """Return the work of a product with X and one with X', for k classes: multiplications in BLAS."""
    reads: float = THIN * X.size if isinstance(X, np.ndarray) else SCATTERED * X.nnz
    return 2.0 * k * reads


def making_work(X: Any, k: int, per_feature: float, tuning: ClassGramTuning) -> float:
    """Return the work of these matrices beforehand, with the choice of rows and all calls."""
    n, d = X.shape
    m = min(float(n), max(per_feature * (d + 1.0), tuning.least_rows))
    own: float = (0.5 * m + d / 6.0) * d**2 + SCALED * m * d + CALLS
    return k * own + products_work(X, k)


def class_grams(
    objective: RidgeObjective, rows: WeightedRows, per_feature: float, rng: np.random.Generator, tuning: ClassGramTuning
) -> MadeMetric:
    """Build the preconditioner from rows with their probabilities, about ``per_feature`` of them for every feature."""
    bend = np.full((rows.X.shape[1] + 1, objective.k), objective.ridge)
    bend[-1] = 0.0
    made = each_class(objective, rows, bend, per_feature, rng, tuning)
    return made._replace(solve=apart(made.solve, objective))


def each_class(
    objective: RidgeObjective,
    rows: WeightedRows,
    bend: Array,
    per_feature: float,
    rng: np.random.Generator,
    tuning: ClassGramTuning,
) -> MadeMetric:
    """Build the same without regard to what all classes share; ``bend`` is (d + 1, k)."""
    problem, X, k = objective.problem, rows.X, objective.k
    d = X.shape[1]
    P = rows.P.reshape(-1, k)
    curvature = P * (1.0 - P)
    curvature *= rows.C[:, None]
    sums = np.vstack([class_squares(X, curvature), problem.bias * curvature.sum(axis=0)])
    shares = _leverages(X, sums, problem.bias) * curvature
    shares *= max(per_feature, tuning.least_rows / (d + 1.0))
    kept = [np.flatnonzero(rng.random(len(P)) < shares[:, c]) for c in range(problem.n_columns)]
    scales = np.ones((d + 1, k))

    def factor_of(c: int) -> Array:
        check_time()
        keep = kept[c]
        weights = curvature[keep, c] / np.minimum(shares[keep, c], 1.0)
        scales[:, c] = unit_roots(sums[:, c] + bend[:, c])
        A = scaled_rows(X, keep, np.sqrt(weights), 1.0 / scales[:, c], problem.bias)
        with wide_blas(A.size * float(d)):
            H = A.T @ A
        entries = np.einsum("jj->j", H)  # a view
        entries += bend[:, c] / np.square(scales[:, c])
        np.maximum(entries, 1.0, out=entries)
        return np.asarray(factored(H).T)

    sizes = np.array([len(keep) for keep in kept])
    # Threads that each have the rows of a class need memory for them; where these are many, they share those of one.
    is_spread = float(sizes.sum()) * d <= tuning.most_numbers
    factors = spread(factor_of, range(len(kept))) if is_spread else [factor_of(c) for c in range(len(kept))]
    work = float((0.5 * sizes + d / 6.0).sum()) * d**2
    return MadeMetric(partial(_solve, factors, scales), work)


def _solve(factors: list[Array], scales: Array, V: Array) -> Array:
    """Solve with one Cholesky factor per class, lower triangles; scales is (d + 1, k)."""
    right = V.reshape(scales.shape) / scales
    out = np.zeros_like(right)
    sizes = np.abs(right).max(axis=0)

    def solve(some: slice) -> None:
        for c, factor in enumerate(factors[some], some.start):
            if sizes[c] > 0.0:  # into the range of float32
                x = (right[:, c] / sizes[c]).astype(np.float32)
                solve_factored(factor, x)
                out[:, c] = x

    spread(solve, row_shares(len(factors), SOLVED * float(len(scales)) ** 2))
    out *= sizes / scales
    return out.ravel()


def _leverages(X: Any, sums: Array, bias: float) -> Array:
    """Return sum_j x_ij^2 / s_jc, the constant feature included; shape (n, k)."""
    (n, d), k = X.shape, sums.shape[1]
    flat, shares = zeros(sums.size), zeros(n * k)
    inverse, out = flat.reshape(d + 1, k), shares.reshape(n, k)
    np.divide(1.0, sums, out=inverse, where=sums > VANISHED)
    if isinstance(X, np.ndarray):
        for part, block in row_blocks(X, k):
            out[part] = np.square(block) @ inverse[:-1] + bias * inverse[-1]
        return out
    squares = csr_matrix((np.square(X.data), X.indices, X.indptr), shape=(n, d))
    times(squares, flat, bias, k, shares)
    return out
