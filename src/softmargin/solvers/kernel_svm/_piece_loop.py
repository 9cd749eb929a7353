"""Sweeps of exact block steps over the rows of a piece, compiled, and what their moves add to the scores of a set.

The scores of a piece are stored by class, so that the step of a row adds contiguous rows of K. What is added since a
piece, or a tile of scores, was begun is summed in the precision of ``change`` and then added to the scores, which are
float64: float32 makes errors in proportion to the moves, not to the scores.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import jit
from softmargin.backends.lanes import WIDTH, pointer
from softmargin.backends.loops import shuffle

__all__ = ["KernelPiece", "SetRows", "sweep", "sweep_piece"]

Array = NDArray[Any]


class KernelPiece(NamedTuple):
    """The m rows of a piece; matrices are flat."""

    K: Array  # (m, m)
    y: Array  # (m,)
    C: Array  # (m,)
    diagonal: Array  # (m,)
    alpha: Array  # (m, k)      k padded to whole tiles
    F: Array  # (k, m) scores at first
    moved: Array  # (k, m) added since: the step of a row adds a contiguous row of K to each class that changed
    order: Array  # (m,) or longer: scratch


class SetRows(NamedTuple):
    """The rows of a working set."""

    y: Array  # (n,)
    C: Array  # (n,)
    diagonal: Array  # (n,)
    alpha: Array  # (n, k)
    F: Array  # (k, n) scores


@jit
def sweep(
    piece: KernelPiece, block: Any, k: int, work: Any, random: Array, target: float, max_sweeps: int, alarm: Array
) -> float:
    """Pass over all rows until the gap found in a pass is at most ``target`` times that of the first one.

    It ends early at the alarm. Returns the gap found in the first pass.
    """
    w = work.bare_workspace()
    K_, y_, C_, q_ = pointer(piece.K), pointer(piece.y), pointer(piece.C), pointer(piece.diagonal)
    a_, F_, moved_, order_ = pointer(piece.alpha), pointer(piece.F), pointer(piece.moved), pointer(piece.order)
    m, size, n_tiles = piece.y.shape[0], work.numbers.shape[1], work.lists.shape[1]
    for c in range(k, size):
        w.G[c] = w.start[c]
    met = 0.0
    for n_sweeps in range(max_sweeps):
        shuffle(order_, m, random)
        total = 0.0
        for t in range(m):
            if alarm[0] != 0:
                break
            i = order_[t]
            label = np.int64(y_[i])
            for c in range(k):
                w.G[c] = F_[c * m + i] + moved_[c * m + i]
            w.G[label] -= 1.0
            gap, n_changed, _ = block.block_step(w.G, label, q_[i], C_[i], a_, i * size, w.tiles, n_tiles, w, 0.0)
            total += gap
            row = i * m
            for t_changed in range(n_changed):
                tile = w.changed[t_changed]
                for c in range(tile, min(tile + WIDTH, k)):
                    step = piece.moved.dtype.type(w.step[c])
                    if step != 0.0:
                        out = c * m
                        for j in range(m):
                            moved_[out + j] += step * K_[row + j]
        if n_sweeps == 0:
            met = total
        if total <= target * met or alarm[0] != 0:
            break
    return met


@jit
def sweep_piece(
    whole: SetRows,
    rows: Array,
    K: Array,
    block: Any,
    work: Any,
    random: Array,
    target: float,
    max_sweeps: int,
    alarm: Array,
    alpha: Array,
    change: Array,
) -> tuple[float, int]:
    """Sweep over the rows of a set that are a piece, with their square K, and write how alpha changed there.

    ``alpha`` is scratch, (m, k) padded; ``change`` is (m, k), both flat. Returns what ``sweep`` does, and how many
    entries changed. One call, as threads queue for the interpreter before and after each.
    """
    m, k, size = rows.shape[0], whole.alpha.shape[1], work.numbers.shape[1]
    F = np.empty(k * m)
    for i in range(m):
        for c in range(k):
            alpha[i * size + c] = whole.alpha[rows[i], c]
            F[c * m + i] = whole.F[c, rows[i]]
    own = (whole.y[rows], whole.C[rows], whole.diagonal[rows])
    piece = KernelPiece(K, own[0], own[1], own[2], alpha[: m * size], F, np.zeros(k * m, change.dtype), np.arange(m))
    met = sweep(piece, block, k, work, random, target, max_sweeps, alarm)
    n_changed = 0
    for i in range(m):
        for c in range(k):
            step = alpha[i * size + c] - whole.alpha[rows[i], c]
            change[i * k + c] = step
            n_changed += step != 0.0
            whole.alpha[rows[i], c] = alpha[i * size + c]
    return met, n_changed
