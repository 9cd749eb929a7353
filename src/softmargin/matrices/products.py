"""Products of all of X with the padded weights of the solvers: BLAS where X is dense and classes are many.

    times(X, W, bias, k, out)             out = [X, bias] W          (n * k,)
    adjoint(X, U, bias, k, out)           out = [X, bias]' U         ((d + 1) * k,)

Weights and scores are flat, row-major, float64, k padded to whole tiles (backends.lanes), or one column without
padding; the last row of W belongs to the constant feature ``bias``, 0 where there is none. ``operator`` has the same
products for certificates, without padding.

BLAS is fastest with many columns. For few classes a loop takes several rows at a time, so that weights are loaded once
for all of them. Threads (``core.threads``) have equal shares of the rows.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import jit
from softmargin.backends.lanes import WIDTH, load, pointer, splat, store
from softmargin.core.threads import row_shares, spread
from softmargin.matrices.operator import numbers_per_row, row_blocks, transposed_times
from softmargin.matrices.rows import some_rows
from softmargin.matrices.sparse_products import add_adjoint, fill_scores

__all__ = ["adjoint", "times"]

Array = NDArray[Any]
BLOCK_NUMBERS = 1 << 20  # numbers of X multiplied at once: 8 MB in float64
NARROW = 3 * WIDTH  # classes up to which our loop multiplies dense X: 1.8 to 2.2 times as fast as BLAS with so many
SHORT = 32  # features up to which BLAS has the adjoint faster, too; timings, with four columns
TOGETHER = 8  # rows that the adjoint takes at once
_SUM_WORTH = 4  # multiplications of a thread, at least, for each number of the product that it adds; by hand


def times(X: Any, W: Array, bias: float, k: int, out: Array) -> None:
    """Write [X, bias] W to ``out``."""

    def some(rows: slice) -> None:
        scores = out[rows.start * k : rows.stop * k]
        if not isinstance(X, np.ndarray):
            fill_scores(some_rows(X, rows), W, k, scores)
        elif 1 < k <= NARROW:
            _times_dense(X[rows].reshape(-1), W, bias, k, scores)
            return
        elif k == 1 and X.dtype == np.float64:
            np.dot(X[rows], W[:-1], out=scores)
        else:
            weights, own = W[:-k].reshape(-1, k), scores.reshape(-1, k)
            for inner, block in row_blocks(X[rows], k, numbers=BLOCK_NUMBERS):
                np.matmul(block, weights, out=own[inner])
        if bias:
            scores.reshape(-1, k)[:] += bias * W[-k:]

    spread(some, row_shares(X.shape[0], numbers_per_row(X) * k))


def adjoint(X: Any, U: Array, bias: float, k: int, out: Array) -> None:
    """Write [X, bias]' U to ``out``."""

    def summed(rows: slice) -> Array:
        weights, slopes = out if len(shares) == 1 else np.empty_like(out), U[rows.start * k : rows.stop * k]
        if k == 1 and isinstance(X, np.ndarray) and X.dtype == np.float64:
            np.dot(slopes, X[rows], out=weights[:-1])
            weights[-1] = bias * slopes.sum() if bias else 0.0
            return weights
        weights[:] = 0.0
        if isinstance(X, np.ndarray) and k == WIDTH and X.shape[1] > SHORT:
            _add_adjoint_of_tile(X[rows].reshape(-1), slopes, bias, weights)
            return weights
        sums, own = weights.reshape(-1, k), slopes.reshape(-1, k)
        if isinstance(X, np.ndarray):
            for inner, block in row_blocks(X[rows], k, numbers=max(BLOCK_NUMBERS, 4 * out.size)):
                sums[:-1] += transposed_times(block, own[inner])
        else:
            add_adjoint(some_rows(X, rows), slopes, k, weights)
        if bias:
            sums[-1] = bias * own.sum(axis=0)
        return weights

    shares = row_shares(X.shape[0], numbers_per_row(X) * k, worth=_SUM_WORTH * out.size)
    first, *others = spread(summed, shares)
    out[:] = first
    for part in others:
        out += part


@jit
def _times_dense(X: Array, W: Array, bias: float, k: int, out: Array) -> None:
    X_, W_, out_ = pointer(X), pointer(W), pointer(out)
    n, d = out.shape[0] // k, W.shape[0] // k - 1
    for i in range(0, n, 4):
        # Four rows; a missing one repeats the last.
        r0, r1, r2, r3 = i, min(i + 1, n - 1), min(i + 2, n - 1), min(i + 3, n - 1)
        x0, x1, x2, x3 = r0 * d, r1 * d, r2 * d, r3 * d
        for o in range(0, k - k % (3 * WIDTH), 3 * WIDTH):
            # Three tiles: with four rows, as many sums as registers hold.
            b = splat(bias)
            a00 = a01 = a02 = a03 = b * load(W_, d * k + o)
            a10 = a11 = a12 = a13 = b * load(W_, d * k + o + WIDTH)
            a20 = a21 = a22 = a23 = b * load(W_, d * k + o + 2 * WIDTH)
            for j in range(d):
                w0, w1, w2 = load(W_, j * k + o), load(W_, j * k + o + WIDTH), load(W_, j * k + o + 2 * WIDTH)
                x = splat(np.float64(X_[x0 + j]))
                a00, a10, a20 = a00 + x * w0, a10 + x * w1, a20 + x * w2
                x = splat(np.float64(X_[x1 + j]))
                a01, a11, a21 = a01 + x * w0, a11 + x * w1, a21 + x * w2
                x = splat(np.float64(X_[x2 + j]))
                a02, a12, a22 = a02 + x * w0, a12 + x * w1, a22 + x * w2
                x = splat(np.float64(X_[x3 + j]))
                a03, a13, a23 = a03 + x * w0, a13 + x * w1, a23 + x * w2
            for r, s0, s1, s2 in ((r0, a00, a10, a20), (r1, a01, a11, a21), (r2, a02, a12, a22), (r3, a03, a13, a23)):
                store(out_, r * k + o, s0)
                store(out_, r * k + o + WIDTH, s1)
                store(out_, r * k + o + 2 * WIDTH, s2)
        for o in range(k - k % (3 * WIDTH), k, WIDTH):
            a0 = a1 = a2 = a3 = splat(bias) * load(W_, d * k + o)
            for j in range(d):
                w = load(W_, j * k + o)
                a0 = a0 + splat(np.float64(X_[x0 + j])) * w
                a1 = a1 + splat(np.float64(X_[x1 + j])) * w
                a2 = a2 + splat(np.float64(X_[x2 + j])) * w
                a3 = a3 + splat(np.float64(X_[x3 + j])) * w
            for r, s in ((r0, a0), (r1, a1), (r2, a2), (r3, a3)):
                store(out_, r * k + o, s)


@jit
def _add_adjoint_of_tile(X: Array, U: Array, bias: float, out: Array) -> None:
    """Add [X, bias]' U for one tile of columns."""
    X_, U_, out_ = pointer(X), pointer(U), pointer(out)
    n, d = U.shape[0] // WIDTH, out.shape[0] // WIDTH - 1
    whole = n - n % TOGETHER
    for i in range(0, whole, TOGETHER):
        r = i * WIDTH
        u0, u1, u2, u3 = load(U_, r), load(U_, r + WIDTH), load(U_, r + 2 * WIDTH), load(U_, r + 3 * WIDTH)
        r += 4 * WIDTH
        u4, u5, u6, u7 = load(U_, r), load(U_, r + WIDTH), load(U_, r + 2 * WIDTH), load(U_, r + 3 * WIDTH)
        for j in range(d):
            x = i * d + j
            s = splat(np.float64(X_[x])) * u0 + splat(np.float64(X_[x + d])) * u1
            s = s + (splat(np.float64(X_[x + 2 * d])) * u2 + splat(np.float64(X_[x + 3 * d])) * u3)
            t = splat(np.float64(X_[x + 4 * d])) * u4 + splat(np.float64(X_[x + 5 * d])) * u5
            t = t + (splat(np.float64(X_[x + 6 * d])) * u6 + splat(np.float64(X_[x + 7 * d])) * u7)
            store(out_, j * WIDTH, load(out_, j * WIDTH) + (s + t))
    for i in range(whole, n):
        u = load(U_, i * WIDTH)
        for j in range(d):
            store(out_, j * WIDTH, load(out_, j * WIDTH) + splat(np.float64(X_[i * d + j])) * u)
    for i in range(n):
        store(out_, d * WIDTH, load(out_, d * WIDTH) + splat(bias) * load(U_, i * WIDTH))
