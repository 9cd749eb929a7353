"""The compiled loops of block descent on kernel values: sweeps over a piece, and what its rows tell the others."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import jit
from softmargin.backends.lanes import WIDTH, pointer
from softmargin.backends.loops import shuffle

__all__ = ["spread", "sweep"]

Array = NDArray[Any]

COLUMNS = 4096  # of the scores handled at once: those of all classes stay in the second cache


@jit
def sweep(
    K: Array,
    block: Any,
    y: Array,
    C: Array,
    diagonal: Array,
    alpha: Array,
    size: int,
    scores: Array,
    k: int,
    m: int,
    order: Array,
    work: Any,
    random: Array,
    share: float,
    max_sweeps: int,
) -> float:
    """Pass over m rows until the gap met in a pass is at most ``share`` of the first one.

    K is (m, m), flat; scores is class-major (k, m), flat, so that a row's step adds a contiguous row of K to each class
    that changed. Returns the gap met in the first pass.
    """
    w = work.bare_workspace()
    K_, y_, C_, q_, a_, F_, order_ = (
        pointer(K),
        pointer(y),
        pointer(C),
        pointer(diagonal),
        pointer(alpha),
        pointer(scores),
        pointer(order),
    )
    n_tiles = work.lists.shape[1]
    for c in range(k, size):
        w.G[c] = w.start[c]
    met = 0.0
    for n_sweeps in range(max_sweeps):
        shuffle(order_, m, random)
        total = 0.0
        for t in range(m):
            i = order_[t]
            label = np.int64(y_[i])
            for c in range(k):
                w.G[c] = F_[c * m + i]
            w.G[label] -= 1.0
            gap, n_changed, _ = block.block_step(w.G, label, q_[i], C_[i], a_, i * size, w.tiles, n_tiles, w, 0.0)
            total += gap
            row = i * m
            for t_changed in range(n_changed):
                tile = w.changed[t_changed]
                for c in range(tile, min(tile + WIDTH, k)):
                    step = w.step[c]
                    if step != 0.0:
                        out = c * m
                        for j in range(m):
                            F_[out + j] += step * K_[row + j]
        if n_sweeps == 0:
            met = total
        if total <= share * met:
            break
    return met


@jit
def spread(K: Array, stride: int, index: Array, change: Array, k: int, scores: Array) -> None:
    """Add change' K[index] to scores.

    K is (stride, stride), flat, and read where it lies; change is (len(index), k), flat; scores is class-major
    (k, stride), flat. Most entries of change are zero: a row moves in a few classes only.
    """
    K_, index_, change_, F_ = pointer(K), pointer(index), pointer(change), pointer(scores)
    for first in range(0, stride, COLUMNS):
        m = min(COLUMNS, stride - first)
        for r in range(index.shape[0]):
            row = index_[r] * stride + first
            for c in range(k):
                step = change_[r * k + c]
                if step != 0.0:
                    out = c * stride + first
                    for j in range(m):
                        F_[out + j] += step * K_[row + j]
