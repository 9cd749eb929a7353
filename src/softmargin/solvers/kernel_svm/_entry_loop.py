"""Sweeps of exact block steps over the entries of alpha that may be nonzero, compiled, with momentum.

An entry (i, c) needs the score F_ic alone, and its step changes the scores of the entries of class c. So every class
has its own square of K, over the samples with an entry in it, which is far smaller than that over all rows where there
are many classes. Entries are numbered class by class; matrices are flat.                maths: kernel SVM, section 12
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import inline, jit
from softmargin.backends.lanes import WIDTH, keep, pointer
from softmargin.backends.loops import shuffle
from softmargin.blocks import NEVER

__all__ = ["EntryRows", "descend_on_entries", "fill_squares"]

Array = NDArray[Any]
ROUNDING = 1e-15  # a share of C that rounding leaves


class EntryRows(NamedTuple):
    """The entries of some rows."""

    K: Array  # the squares of the classes, one after the other
    place: Array  # (entries,) where the row of an entry begins in K
    first: Array  # (entries,) the first entry of its class
    size: Array  # (entries,) how many entries its class has
    ends: Array  # (rows + 1,) where the entries of a row begin in ``order``
    order: Array  # (entries,) by row, that of the label first
    diagonal: Array  # (rows,)
    C: Array  # (rows,)
    most: Array  # (rows,) of the label's entry


@jit
def fill_squares(K: Array, stride: int, part: Any, rows: Array) -> None:
    """Write the squares of all classes; ``rows`` has the row of every entry.

    Their rows lie in the order of the samples, so that a visit reads memory in one piece.
    """
    K_, rows_, out_ = pointer(K), pointer(rows), pointer(part.K)
    at = 0
    for s in range(part.order.shape[0]):
        e = part.order[s]
        part.place[e] = at
        row, first, m = rows_[e] * stride, part.first[e], part.size[e]
        for j in range(m):
            out_[at + j] = K_[row + rows_[first + j]]
        at += m


@inline
def _add_entry(part: Any, K_: Any, moved_: Any, e: int, step: Any) -> None:
    """Add what a step of an entry means for the scores of its class."""
    at, first = part.place[e], part.first[e]
    for j in range(part.size[e]):
        moved_[first + j] += step * K_[at + j]


@inline
def _step_of_one(G: Any, q: float, C: float, row: Any) -> tuple[float, int]:
    """Minimise over a row of one entry beside the label's, which comes first; return its gap, and whether it moved.

    All losses have this block there.                                                    maths: kernel SVM, eq. 12
    """
    b, h = row[0], G[1] - G[0]
    gap = C * max(h, 0.0) - b * h
    if gap <= ROUNDING * b:
        return gap, 0
    b = min(max(b + 0.5 * h / q, 0.0), C)
    row[0], row[1] = b, -b
    return gap, 1


@jit
def _sweep(
    part: EntryRows, alpha: Array, F: Array, moved: Array, order: Array, block: Any, work: Any, random: Array
) -> float:
    """Visit all rows in a fresh order; return the gap found. What is added to the scores is in ``moved``."""
    w = work.bare_workspace()
    row = np.zeros(work.numbers.shape[1])
    K_, F_, moved_, alpha_, entry_ = pointer(part.K), pointer(F), pointer(moved), pointer(alpha), pointer(part.order)
    row_, order_ = pointer(row), pointer(order)
    shuffle(order_, order.shape[0], random)
    found = 0.0
    for t in range(order.shape[0]):
        i = order_[t]
        begin, m = part.ends[i], part.ends[i + 1] - part.ends[i]
        n_tiles = (m + WIDTH - 1) // WIDTH
        for s in range(m):
            e = entry_[begin + s]
            w.G[s] = F_[e] + moved_[e]
            row_[s] = alpha_[e]
        w.G[0] -= 1.0
        if m == 2:
            gap, n_changed = _step_of_one(w.G, part.diagonal[i], part.C[i], row_)
        else:
            for s in range(m, n_tiles * WIDTH):
                w.G[s] = NEVER
                row_[s] = 0.0
            gap, n_changed, _ = block.block_step(w.G, 0, part.diagonal[i], part.C[i], row_, 0, w.tiles, n_tiles, w, 0.0)
        found += gap
        if n_changed > 0:
            for s in range(m):
                e = entry_[begin + s]
                step = moved.dtype.type(row_[s] - alpha_[e])
                alpha_[e] = row_[s]
                if step != 0.0:
                    _add_entry(part, K_, moved_, e, step)
    keep(row)
    return found


@jit
def _flush(F: Array, moved: Array) -> None:
    """Add to the scores what was summed for them."""
    for e in range(F.shape[0]):
        F[e] += moved[e]
    moved[:] = 0


@jit
def _push_on(
    part: EntryRows, beta: float, alpha: Array, F: Array, last: Array, last_F: Array, moved: Array, z: Array
) -> None:
    """Go on in the direction of the last sweep, as far as the bounds let each row go."""
    for e in range(alpha.shape[0]):
        z[e] = alpha[e] + beta * (alpha[e] - last[e])
        last[e] = alpha[e]
    for e in range(F.shape[0]):
        now = F[e]
        F[e] = now + beta * (now - last_F[e])
        last_F[e] = now
    K_, moved_ = pointer(part.K), pointer(moved)
    for i in range(part.C.shape[0]):
        own = 0.0
        begin, end = part.ends[i], part.ends[i + 1]
        for s in range(begin + 1, end):
            e = part.order[s]
            alpha[e] = -min(max(-z[e], 0.0), part.C[i])
        for s in range(begin + 1, end):
            own -= alpha[part.order[s]]
        if own > part.most[i]:
            for s in range(begin + 1, end):
                alpha[part.order[s]] *= part.most[i] / own
            own = 0.0
            for s in range(begin + 1, end):
                own -= alpha[part.order[s]]
        alpha[part.order[begin]] = own
        for s in range(begin, end):
            e = part.order[s]
            back = alpha[e] - z[e]
            if abs(back) > ROUNDING * part.C[i]:
                _add_entry(part, K_, moved_, e, moved.dtype.type(back))


@jit
def _gain(part: EntryRows, alpha: Array, F: Array, first: Array, first_F: Array) -> float:
    """Return by how much the dual value rose since the first point."""
    gain = 0.0
    for i in range(part.C.shape[0]):
        e = part.order[part.ends[i]]
        gain += alpha[e] - first[e]
    for e in range(alpha.shape[0]):
        gain -= 0.5 * (alpha[e] - first[e]) * (F[e] + first_F[e])
    return gain


@jit
def descend_on_entries(
    part: EntryRows,
    alpha: Array,
    F: Array,
    block: Any,
    work: Any,
    random: Array,
    target: float,
    max_sweeps: int,
    alarm: Array,
) -> int:
    """Sweep over the entries, whose values and scores are given, until the gap found is at most ``target``.

    Between sweeps there is momentum, which ends where the dual value falls. Returns how many sweeps there were.
    """
    moved, order = np.zeros(F.shape[0], part.K.dtype), np.arange(part.C.shape[0])
    first, first_F, last, last_F, z = alpha.copy(), F.copy(), alpha.copy(), F.copy(), alpha.copy()
    momentum, most = 1.0, 0.0
    n_sweeps = 0
    while n_sweeps < max_sweeps:
        n_sweeps += 1
        found = _sweep(part, alpha, F, moved, order, block, work, random)
        _flush(F, moved)
        gain = _gain(part, alpha, F, first, first_F)
        if gain < most:
            alpha[:] = last
            F[:] = last_F
            momentum = 1.0
        most = max(most, gain)
        if found <= target or alarm[0] != 0 or n_sweeps == max_sweeps:
            break
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        _push_on(part, (momentum - 1.0) / following, alpha, F, last, last_F, moved, z)
        _flush(F, moved)
        momentum = following
    return n_sweeps
