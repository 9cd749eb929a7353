"""Weighted squares of sparse rows for many weights at once, added to the blocks of a Newton matrix.

    blocks (c, e) += sum_i (E M_i E')_ce x_i x_i'        over the samples of one label, for classes c <= e

The products x_if x_ig of a sample are the same for all weights: they are made once for twelve of these, whose sums for
one f and all g stay in the cache. A Weston-Watkins sample has k - 1 different weights, each in up to three blocks; a
Crammer-Singer sample has one for every block.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import jit
from softmargin.backends.lanes import WIDTH, load, pointer, splat, store, zeros
from softmargin.core.deadline import check_time
from softmargin.core.threads import row_shares, spread
from softmargin.matrices.operator import SCATTERED
from softmargin.matrices.rows import CsrRows, as_rows

__all__ = [
    "Columns",
    "Weights",
    "add_squares_of_classes",
    "as_columns",
    "joint_weights",
    "scattered_weights",
    "separate_weights",
]

Array = NDArray[Any]
GROUP = 3 * WIDTH  # weights at a time; by timings on mnist: four take twice as long
FEWEST_SCATTERED = 4  # classes for which the sums of stored entries are made together; by timings
SCATTERED_SQUARE = 0.2  # square of the share of stored entries up to which these are faster than BLAS, where twelve
# weights are used in full; by timings on mnist, with a third to spare
SINGLE_SCATTERED_SQUARE = 0.12  # the same beside BLAS of float32


class Columns(NamedTuple):
    """Sparse rows, and where the entries of each feature are among theirs."""

    rows: CsrRows
    samples: Array  # (nnz,) by feature: the row of an entry
    places: Array  # (nnz,) and its place among the entries of all rows
    starts: Array  # (D + 1,) of the entries of a feature


class Weights(NamedTuple):
    """Weights of squares, and to which blocks these are added."""

    values: Array  # (n, w)
    goals: Array  # (g, 4) weight, c, e with c <= e, and the sign


def scattered_weights(k: int, n_blocks: int, share: float, *, is_joint: bool, dtype: Any) -> int:
    """Return how many weights of a sample are summed, groups filled up; 0 where BLAS on all entries takes less time.

    ``share`` of the entries are stored.
    """
    by_blas, weights = k - 1, k - 1
    if is_joint:
        by_blas, weights = k - 1 + n_blocks**2, n_blocks * (n_blocks + 1) // 2
    filled = -(-weights // GROUP) * GROUP
    worth = SCATTERED_SQUARE if dtype == np.float64 else SINGLE_SCATTERED_SQUARE
    return filled if k >= FEWEST_SCATTERED and share**2 * filled <= worth * by_blas else 0


def as_columns(X: Any) -> Columns:
    """Return a canonical CSR matrix with its entries by feature."""
    by_feature = type(X)((np.arange(1.0, X.nnz + 1.0), X.indices, X.indptr), shape=X.shape).tocsc()
    rows = as_rows(X)
    assert isinstance(rows, CsrRows)
    return Columns(rows, by_feature.indices, by_feature.data.astype(np.int64) - 1, by_feature.indptr)


def separate_weights(theta: Array, label: int, others: Array, n_blocks: int) -> Weights:
    """Return the weights of M_i = diag(theta_i)."""
    goals = []
    for w, j in enumerate(others):
        one, two = min(j, label), max(j, label)
        goals += [(w, one, one, 1), (w, two, two, 1), (w, one, two, -1)]
    return Weights(theta, np.array([goal for goal in goals if goal[2] < n_blocks], dtype=np.int64))


def joint_weights(a: Array, slopes: Array, label: int, others: Array, n_blocks: int) -> Weights:
    """Return the weights of M_i = diag(a_i) - slopes_i slopes_i'."""
    full = np.zeros((len(a), len(others) + 1))
    full[:, others], full[:, label] = -slopes, slopes.sum(axis=1)
    diagonal = np.zeros_like(full)
    diagonal[:, others], diagonal[:, label] = a, a.sum(axis=1)
    pairs = [(c, e) for c in range(n_blocks) for e in range(c, n_blocks)]
    values = np.empty((len(a), len(pairs)))
    for w, (c, e) in enumerate(pairs):
        values[:, w] = -full[:, c] * full[:, e]
        if c == e:
            values[:, w] += diagonal[:, c]
        elif label in (c, e):
            values[:, w] -= diagonal[:, e if c == label else c]
    return Weights(values, np.array([(w, c, e, 1) for w, (c, e) in enumerate(pairs)], dtype=np.int64))


def add_squares_of_classes(columns: Columns, weights: Weights, H: Array) -> None:
    """Add weighted squares to the upper triangle of every block of H, (blocks D, blocks D)."""
    D, (n, w) = columns.rows.d, weights.values.shape
    values = zeros(n, -(-w // GROUP) * GROUP)
    values[:, :w] = weights.values
    work = SCATTERED * w * float(len(columns.places)) ** 2 / max(n, 1)
    check_time(work)
    n_shares = len(row_shares(D, work / D))
    # Features in turn, as the first ones have the most entries behind them. Each has rows of H of its own.
    spread(lambda first: _add(columns, values.reshape(-1), weights.goals, first, n_shares, H), range(n_shares))


@jit
def _add(columns: Any, values: Array, goals: Array, first: int, step: int, H: Array) -> None:
    """Add the squares of every ``step``-th feature from ``first`` on with all that follow it."""
    rows, D = columns.rows.bare(), columns.rows.d
    width = len(values) // max(len(columns.rows.indptr) - 1, 1)
    sums = np.zeros(D * GROUP)
    sums_, values_ = pointer(sums), pointer(values)
    for group in range(0, width, GROUP):
        for f in range(first, D, step):
            sums[f * GROUP :] = 0.0
            for r in range(columns.starts[f], columns.starts[f + 1]):
                i, p = int(columns.samples[r]), int(columns.places[r])
                own, at = splat(rows.value(p)), i * width + group
                w0, w1 = own * load(values_, at), own * load(values_, at + WIDTH)
                w2 = own * load(values_, at + 2 * WIDTH)
                _, end = rows.entries(i)
                for q in range(p, end):
                    at, value = rows.column(i, q) * GROUP, splat(rows.value(q))
                    store(sums_, at, load(sums_, at) + value * w0)
                    store(sums_, at + WIDTH, load(sums_, at + WIDTH) + value * w1)
                    store(sums_, at + 2 * WIDTH, load(sums_, at + 2 * WIDTH) + value * w2)
            for goal in range(goals.shape[0]):
                w = goals[goal, 0] - group
                if 0 <= w < GROUP:
                    line, start, sign = H[goals[goal, 1] * D + f], goals[goal, 2] * D, goals[goal, 3]
                    for g in range(f, D):
                        line[start + g] += sign * sums[g * GROUP + w]
