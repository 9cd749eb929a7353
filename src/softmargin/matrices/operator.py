"""X as a whole: products in NumPy and compiled loops, one block of rows at a time, in float64 whatever X is.

The augmented matrix is [X, bias]: every sample has one constant feature (0 where there is no intercept), so weights are
(d + 1, k). Blocks bound the memory: float32 data are converted one block at a time, never as a whole. Threads
(``core.threads``) compute several blocks at a time; these and the order of sums stay as they are.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.core.rounding import PIECE, TINY, column_roundings, column_sums, piece_roundings, pieces
from softmargin.core.threads import n_threads, row_shares, spread
from softmargin.kernels.points import square_rows

__all__ = [
    "SCATTERED",
    "Operator",
    "add_adjoint_product",
    "adjoint_product",
    "column_norms",
    "longest_row",
    "matmul",
    "mean_square",
    "numbers_per_row",
    "product",
    "rmatmul",
    "row_blocks",
    "row_norms",
    "row_slices",
    "row_squares",
    "score_roundings",
    "sum_roundings",
    "transposed_times",
]

Array = NDArray[Any]
_BLOCK_NUMBERS = 1 << 17  # numbers of X processed at once: 1 MB in float64
SUMMED_ROWS = 1 << 12  # rows summed at once: sums of sums have fewer roundings (maths: rounding, eq. 9)
_BLOCK_WORTH = 8  # numbers of X in a block of rows, at least, for each number of the product that it adds; by hand
SCATTERED = 8.5  # BLAS multiplications in the time of one that scatters its result; a ratio of timings
_AHEAD = 8  # blocks that a thread computes before their results are used; by hand


class Operator:
    """X known by what it does to NumPy arrays: its numbers lie on a device (``device_matrix``)."""

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        raise NotImplementedError

    @property
    def nnz(self) -> int:
        """How many numbers X holds."""
        raise NotImplementedError

    @property
    def longest(self) -> int:
        """How many numbers a row holds, at most."""
        raise NotImplementedError

    def product(self, W: Array) -> Array:
        """Return X W."""
        raise NotImplementedError

    def adjoint_product(self, U: Array) -> Array:
        """Return X' U."""
        raise NotImplementedError

    def row_norms(self) -> Array:
        """Return bounds on the norms of the rows."""
        raise NotImplementedError


def row_slices(n: int, width: int, *, numbers: int = _BLOCK_NUMBERS) -> Iterator[slice]:
    """Yield slices of rows, ``width`` numbers each, of about ``numbers`` numbers."""
    size = max(1, numbers // max(1, width))
    for first in range(0, n, size):
        yield slice(first, min(first + size, n))


def row_blocks(X: Any, k: int, *, numbers: int = _BLOCK_NUMBERS) -> Iterator[tuple[slice, Any]]:
    """Yield (slice, float64 block) so that neither a block of X nor its k scores has many more than ``numbers``."""
    for rows in row_slices(X.shape[0], max(k, numbers_per_row(X)), numbers=numbers):
        yield rows, _wide_block(X, rows)


def numbers_per_row(X: Any) -> int:
    """Return how many numbers of X a row holds, on average."""
    n, d = X.shape
    return int(d if isinstance(X, np.ndarray) else X.nnz // max(n, 1))


def _wide_block(X: Any, rows: slice) -> Any:
    block = X if rows == slice(0, X.shape[0]) else X[rows]
    return block.astype(np.float64, copy=False)


def matmul(X: Any, W: Array, bias: float) -> Iterator[tuple[slice, Array]]:
    """Yield (rows, scores) with scores = [X, bias] W, one block of rows at a time."""

    def scored(rows: slice) -> tuple[slice, Array]:
        is_dense = isinstance(X, np.ndarray)
        scores = _dense_scores(_wide_block(X, rows), W[:-1]) if is_dense else _sparse_scores(X, rows, W[:-1])
        scores += bias * W[-1]
        return rows, scores

    blocks = row_slices(X.shape[0], max(W.shape[1], numbers_per_row(X)))
    at_once = 1 if n_threads() == 1 else _AHEAD * n_threads()
    while some := list(islice(blocks, at_once)):
        yield from spread(scored, some)


def _dense_scores(block: Array, W: Array) -> Array:
    """Return X W of some rows; sums over many features are sums of sums over pieces of them."""
    # Dense scores come one class after the other: where a row has few, NumPy goes along whole columns.
    scores = W[:PIECE].T @ block[:, :PIECE].T
    for features in islice(pieces(len(W)), 1, None):
        scores += W[features].T @ block[:, features].T
    return np.asarray(scores.T)


def _sparse_scores(X: Any, rows: slice, W: Array) -> Array:
    """Return X W of some rows of a canonical CSR matrix, which are not copied."""
    from softmargin.matrices.rows import some_rows  # imported where they are used: listing data needs no compiler
    from softmargin.matrices.sparse_products import fill_scores

    _check_sizes(X.shape[1], len(W))
    scores = np.empty((rows.stop - rows.start, W.shape[1]))
    if scores.size:
        weights = np.ascontiguousarray(W, dtype=np.float64)
        fill_scores(some_rows(X, rows), weights.reshape(-1), W.shape[1], scores.reshape(-1))
    return scores


def _sparse_sums(X: Any, rows: slice, U: Array) -> Array:
    """Return X' U of some rows of a canonical CSR matrix, which are not copied; U has these rows only."""
    sums = np.zeros((X.shape[1], U.shape[1]))
    _add_sparse_sums(X, rows, U, sums)
    return sums


def _add_sparse_sums(X: Any, rows: slice, U: Array, sums: Array) -> None:
    """Add X' U of some rows to C-ordered sums for a canonical CSR matrix."""
    from softmargin.matrices.rows import some_rows
    from softmargin.matrices.sparse_products import add_adjoint

    _check_sizes(rows.stop - rows.start, len(U))
    _check_sizes(X.shape[1], len(sums))
    if U.size:
        duals = np.ascontiguousarray(U, dtype=np.float64)
        add_adjoint(some_rows(X, rows), duals.reshape(-1), U.shape[1], sums.reshape(-1))


def _check_sizes(found: int, needed: int) -> None:
    """Refuse factors that do not fit: a compiled loop would read beyond its arrays."""
    if found != needed:
        raise ValueError(f"The factors of a product do not fit: {found} rows or columns of X, {needed} of the array.")


def score_roundings(X: Any) -> int:
    """Return how many roundings a sum of ``matmul`` has at most."""
    return piece_roundings(X.shape[1]) if isinstance(X, np.ndarray) else longest_row(X)


def rmatmul(X: Any, alpha: Array, bias: float) -> Array:
    """Return [X, bias]' alpha; shape (d + 1, k)."""
    W = np.empty((X.shape[1] + 1, alpha.shape[1]))
    W[:-1] = adjoint_product(X, alpha)
    W[-1] = bias * column_sums(alpha)
    return W


def product(X: Any, W: Array) -> Array:
    """Return X W, without the constant feature; shape (n, k)."""
    if isinstance(X, Operator):
        return X.product(W)
    shares = row_shares(X.shape[0], numbers_per_row(X) * W.shape[1])
    is_dense = isinstance(X, np.ndarray)
    if len(shares) == 1 and (X.dtype == np.float64 or not is_dense):
        return np.asarray(X @ W) if is_dense else _sparse_scores(X, slice(0, X.shape[0]), W)
    scores = np.empty((X.shape[0], W.shape[1]))

    def fill(share: slice) -> None:
        if not is_dense:
            scores[share] = _sparse_scores(X, share, W)
            return
        for rows, block in row_blocks(X[share], W.shape[1]):
            scores[share][rows] = block @ W

    spread(fill, shares)
    return scores


def adjoint_product(X: Any, U: Array) -> Array:
    """Return X' U, without the constant feature; shape (d, k). Sums over many rows are sums of sums over blocks."""
    if isinstance(X, Operator):
        return X.adjoint_product(U)
    length = _summed_rows(X, U.shape[1])
    if X.dtype == np.float64 and length >= X.shape[0]:
        return _adjoint_of_block(X, U)
    W = np.zeros((X.shape[1], U.shape[1]))
    blocks = row_slices(X.shape[0], 1, numbers=length)
    while some := list(islice(blocks, n_threads())):
        for part in spread(lambda rows: _block_sums(X, rows, U[rows]), some):
            W += part
    return W


def add_adjoint_product(X: Any, U: Array, sums: Array) -> None:
    """Add X' U to C-ordered sums, (d, k): one row of a sparse X after the other."""
    if isinstance(X, np.ndarray) or n_threads() > 1:
        sums += adjoint_product(X, U)
    else:
        _add_sparse_sums(X, slice(0, X.shape[0]), U, sums)


def _block_sums(X: Any, rows: slice, U: Array) -> Array:
    """Return X' U of some rows."""
    return transposed_times(_wide_block(X, rows), U) if isinstance(X, np.ndarray) else _sparse_sums(X, rows, U)


def transposed_times(X: Array, U: Array) -> Array:
    """Return X' U of arrays as (U' X)': where U has 2 to 50 columns BLAS takes 0.3 to 0.9 of the time."""
    return np.asarray(U.T @ X).T


def _adjoint_of_block(X: Any, U: Array) -> Array:
    """Return X' U, each thread with some of the features, or of the columns of U where X is sparse."""
    work = X.shape[0] * (U.shape[1] if isinstance(X, np.ndarray) else numbers_per_row(X))
    shares, rows = row_shares(X.shape[1] if isinstance(X, np.ndarray) else U.shape[1], work), slice(0, X.shape[0])
    if len(shares) == 1:
        return _block_sums(X, rows, U)
    if isinstance(X, np.ndarray):
        return np.concatenate(spread(lambda features: transposed_times(X[:, features], U), shares))
    return np.concatenate(spread(lambda columns: _sparse_sums(X, rows, U[:, columns]), shares), axis=1)


def _summed_rows(X: Any, k: int) -> int:
    """Return how many rows ``adjoint_product`` sums at once."""
    d, width = X.shape[1], max(1, numbers_per_row(X))
    most = SUMMED_ROWS if X.dtype == np.float64 else _BLOCK_NUMBERS // width
    return int(max(most, _BLOCK_WORTH * d * k // width, 1))


def sum_roundings(X: Any, k: int) -> int:
    """Return how many roundings a sum of ``rmatmul`` has, over a block and over the blocks."""
    n, length = int(X.shape[0]), _summed_rows(X, k)
    return max(min(length, n) + -(-n // length), column_roundings(n))


def row_squares(X: Any) -> Array:
    """Return |x_i|^2; (n,)."""
    if isinstance(X, np.ndarray):
        return square_rows(X)
    from softmargin.matrices.rows import as_rows, squared_norms

    squares = np.empty(X.shape[0])
    squared_norms(as_rows(X), squares)
    return squares


def mean_square(X: Any) -> float:
    """Return the mean of |x_i|^2 over the rows of an array or a CSR matrix."""
    values = X if isinstance(X, np.ndarray) else X.data
    return float(np.vdot(values, values) / X.shape[0])


def row_norms(X: Any, bias: float = 0.0) -> Array:
    """Return bounds on the norms of [x_i, bias]; (n,), infinite where a square overflows."""
    if isinstance(X, Operator):
        return X.row_norms()
    with np.errstate(over="ignore"):
        return np.asarray(np.sqrt(row_squares(X) + (bias**2 + X.shape[1] * TINY)))


def column_norms(X: Any) -> Array:
    """Return bounds on the norms of the columns of X; (d,), infinite where a square overflows."""
    with np.errstate(over="ignore"):
        if isinstance(X, np.ndarray):
            squares = np.einsum("ij,ij->j", X, X, dtype=np.float64)
        else:
            from softmargin.matrices.rows import as_rows, weighted_squares

            squares = np.empty(X.shape[1])
            weighted_squares(as_rows(X), np.ones(X.shape[0]), squares)
        return np.asarray(np.sqrt(squares + X.shape[0] * TINY))


def longest_row(X: Any) -> int:
    """Return how many entries a row holds at most."""
    if isinstance(X, Operator):
        return X.longest
    return int(X.shape[1] if isinstance(X, np.ndarray) else np.diff(X.indptr).max(initial=0))
