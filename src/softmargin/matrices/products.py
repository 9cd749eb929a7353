"""Products of the whole X with padded weights, as the solvers keep them: BLAS where X is dense, compiled where sparse.

    times(X, W, bias, k, out)             out = [X, bias] W          (n * k,)
    adjoint(X, U, bias, k, out)           out = [X, bias]' U         ((d + 1) * k,)

Weights and scores are flat, row-major, float64, k padded to whole tiles (backends.lanes), or one column without
padding; the last row of W belongs to the constant feature ``bias``, 0 where there is none. ``operator`` does the same
for the judge, without padding.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import jit
from softmargin.backends.lanes import WIDTH, load, pointer, splat, store
from softmargin.matrices.operator import row_blocks
from softmargin.matrices.rows import as_rows

__all__ = ["adjoint", "times"]

Array = NDArray[Any]
BLOCK_NUMBERS = 1 << 20


def times(X: Any, W: Array, bias: float, k: int, out: Array) -> None:
    """Write [X, bias] W to ``out``."""
    if isinstance(X, np.ndarray):
        weights, scores = W.reshape(-1, k), out.reshape(-1, k)
        for rows, block in row_blocks(X, k, numbers=BLOCK_NUMBERS):
            np.matmul(block, weights[:-1], out=scores[rows])
        if bias:
            scores += bias * weights[-1]
    else:
        (_times if k > 1 else _times_column)(as_rows(X, bias), W, k, out)


def adjoint(X: Any, U: Array, bias: float, k: int, out: Array) -> None:
    """Write [X, bias]' U to ``out``."""
    out[:] = 0.0
    if isinstance(X, np.ndarray):
        weights, scores = out.reshape(-1, k), U.reshape(-1, k)
        for rows, block in row_blocks(X, k, numbers=max(BLOCK_NUMBERS, 4 * out.size)):
            weights[:-1] += block.T @ scores[rows]
        if bias:
            weights[-1] = bias * scores.sum(axis=0)
    else:
        (_adjoint if k > 1 else _adjoint_column)(as_rows(X, bias), U, k, out)


@jit
def _times(rows: Any, W: Array, k: int, out: Array) -> None:
    rows_, W_, out_ = rows.bare(), pointer(W), pointer(out)
    last = W.shape[0] - k
    bias = splat(rows_.bias)
    last_tile = k - WIDTH
    for i in range(out.shape[0] // k):
        begin, end = rows_.entries(i)
        for o0 in range(0, k, 4 * WIDTH):
            # Up to four tiles at once stay in registers while the features go by; a missing one repeats the last.
            o1, o2, o3 = min(o0 + WIDTH, last_tile), min(o0 + 2 * WIDTH, last_tile), min(o0 + 3 * WIDTH, last_tile)
            a0 = bias * load(W_, last + o0)
            a1 = bias * load(W_, last + o1)
            a2 = bias * load(W_, last + o2)
            a3 = bias * load(W_, last + o3)
            if o0 + 2 * WIDTH > last_tile:
                for p in range(begin, end):
                    value = splat(rows_.value(p))
                    row = rows_.column(i, p) * k
                    a0 = a0 + value * load(W_, row + o0)
                    a1 = a1 + value * load(W_, row + o1)
                a2, a3 = a1, a1
            else:
                for p in range(begin, end):
                    value = splat(rows_.value(p))
                    row = rows_.column(i, p) * k
                    a0 = a0 + value * load(W_, row + o0)
                    a1 = a1 + value * load(W_, row + o1)
                    a2 = a2 + value * load(W_, row + o2)
                    a3 = a3 + value * load(W_, row + o3)
            store(out_, i * k + o0, a0)
            store(out_, i * k + o1, a1)
            store(out_, i * k + o2, a2)
            store(out_, i * k + o3, a3)


@jit
def _adjoint(rows: Any, U: Array, k: int, out: Array) -> None:
    rows_, U_, out_ = rows.bare(), pointer(U), pointer(out)
    last = out.shape[0] - k
    bias = splat(rows_.bias)
    for i in range(U.shape[0] // k):
        begin, end = rows_.entries(i)
        for o in range(0, k, WIDTH):
            u = load(U_, i * k + o)
            store(out_, last + o, load(out_, last + o) + bias * u)
        for p in range(begin, end):
            value = splat(rows_.value(p))
            row = rows_.column(i, p) * k
            for o in range(0, k, WIDTH):
                store(out_, row + o, load(out_, row + o) + value * load(U_, i * k + o))


@jit
def _times_column(rows: Any, W: Array, k: int, out: Array) -> None:
    rows_, W_, out_ = rows.bare(), pointer(W), pointer(out)
    constant = rows_.bias * W[-1]
    for i in range(out.shape[0]):
        begin, end = rows_.entries(i)
        score = constant
        for p in range(begin, end):
            score += rows_.value(p) * W_[rows_.column(i, p)]
        out_[i] = score


@jit
def _adjoint_column(rows: Any, U: Array, k: int, out: Array) -> None:
    rows_, U_, out_ = rows.bare(), pointer(U), pointer(out)
    total = 0.0
    for i in range(U.shape[0]):
        begin, end = rows_.entries(i)
        u = U_[i]
        total += u
        for p in range(begin, end):
            out_[rows_.column(i, p)] += u * rows_.value(p)
    out[-1] += rows_.bias * total
