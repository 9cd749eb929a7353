"""The compiled loop of block descent on a square of kernel values small enough for the processor's cache."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import jit
from softmargin.backends.lanes import WIDTH, pointer
from softmargin.solvers.parts.block_passes import shuffle

__all__ = ["sweep"]

Array = NDArray[Any]


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
    n_tiles = work.tiles.shape[0]
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
