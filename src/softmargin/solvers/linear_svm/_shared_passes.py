"""Passes of dual block descent by two threads: each visits rows of its own, and their moves are added.

A pass is cut into segments of rows. Two of them are visited at the same time, each with a copy of the weights W of that
moment, so that neither thread sees the moves of the other. Then

    alpha += t D ,   W += t X'D ,   t = min(1, (sum_i D_{i,y_i} - <W, X'D>) / |X'D|^2)                              (1)

for the sum D of their moves: t is the best step, as the dual is a quadratic, and alpha + D is feasible, as the moves
are those of different rows. Each thread raises the dual value by its own moves, so their sum points upwards, and no
step (1) lowers it. Where segments are a small part of all rows, few rows that matter to each other are visited at the
same time, and a pass brings nearly as much as that of one thread. Halves of all rows do not work.
                                                                                         maths: linear SVM, section 9
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.deadline import alarm
from softmargin.core.threads import n_threads, spread
from softmargin.solvers.linear_svm._block_loop import BlockDual, Visits, descend

__all__ = ["SharedTuning", "descend_shared"]

Array = NDArray[Any]


class SharedTuning(NamedTuple):
    """How a pass is cut: maths: linear SVM, section 9."""

    threads: int = 2  # at most: all correct what the rows have in common, and four took 2.4 times the passes on mnist
    segment: float = 2e6  # multiplications of a segment, at least: a millisecond, of which waking is a tenth
    copies: float = 4.0  # multiplications of a segment, at least, for each weight that is copied and added; by hand
    together: float = 0.25  # share of a pass that is visited at the same time, at most


class _Visited(NamedTuple):
    """What a thread did with a segment."""

    gap: float
    n_kept: int
    n_visits: int
    rows: Array  # of the segment
    before: Array  # their dual variables before


def descend_shared(
    structs: tuple[BlockDual, Visits, Any], m: int, is_full: bool, target: float, budget: int
) -> tuple[float, int, int]:
    """Do what ``descend`` does, by two threads where there are rows enough for them."""
    passes, done, ring = _Passes(*structs), 0, alarm()
    while True:
        length = passes.segment_length(m)
        if length == 0:
            total, m, n_visits = descend(*structs, m, is_full, target, budget - done, ring)
            return total, m, done + n_visits
        total, m, n_visits = passes.make(m, length, is_full, ring)
        done += n_visits
        if total <= target or done >= budget or m == 0 or ring[0] != 0:
            return total, m, done


class _Passes:
    """Passes by several threads, with copies of the weights."""

    tuning: ClassVar[SharedTuning] = SharedTuning()

    def __init__(self, dual: BlockDual, visits: Visits, work: Any) -> None:
        self.dual, self.visits, self.work = dual, visits, work
        self.alpha = dual.alpha.reshape(len(dual.y), -1)
        self.size = min(n_threads(), self.tuning.threads)
        self.copies: list[tuple[Array, Any]] = []  # weights and scratch of every thread

    def segment_length(self, m: int) -> int:
        """Return how many of m rows a segment has; 0 where one thread is faster."""
        if self.size == 1:
            return 0
        rows, tuning = self.dual.rows, self.tuning
        n_numbers = rows.X.size if hasattr(rows, "X") else rows.data.size
        per_row = self.alpha.size / self.alpha.shape[0] * n_numbers / self.alpha.shape[0]
        least = max(tuning.segment, tuning.copies * self.dual.weights.size) / max(per_row, 1.0)
        return int(np.ceil(least)) if least <= tuning.together * m / self.size else 0

    def make(self, m: int, length: int, is_full: bool, ring: Array) -> tuple[float, int, int]:
        """Visit order[:m] once; return the gap found, how many rows stay, which come first then, and the visits."""
        order, size = self.visits.order, self.size
        if self.visits.is_permuted:
            rng = np.random.default_rng(self.visits.random)
            order[:m] = rng.permutation(order[:m])
            self.visits.random[:] = rng.integers(1, 2**63, dtype=np.uint64)
        while len(self.copies) < size:
            self.copies.append((np.empty_like(self.dual.weights), type(self.work)(*map(np.copy, self.work))))
        n_segments = size * -(-m // (size * length))
        ends = [m * part // n_segments for part in range(n_segments + 1)]
        gap, n_visits, kept, dropped = 0.0, 0, list[Array](), list[Array]()
        for first in range(0, n_segments, size):
            cuts = [slice(ends[first + t], ends[first + t + 1]) for t in range(size)]
            found = spread(lambda own: self.visit(own[0], own[1], is_full, ring), enumerate(cuts))
            self.add(found)
            for cut, mine in zip(cuts, found, strict=True):
                gap, n_visits = gap + mine.gap, n_visits + mine.n_visits
                kept.append(order[cut][: mine.n_kept])
                dropped.append(order[cut][mine.n_kept :])
        n_kept = sum(map(len, kept))
        order[:m] = np.concatenate([*kept, *dropped])
        return gap, n_kept, n_visits

    def visit(self, t: int, cut: slice, is_full: bool, ring: Array) -> _Visited:
        """Visit a segment with a copy of the weights."""
        weights, work = self.copies[t]
        weights[:] = self.dual.weights
        rows = self.visits.order[cut].copy()
        before = self.alpha[rows]
        own = self.visits._replace(order=self.visits.order[cut], is_permuted=False)
        dual = self.dual._replace(weights=weights)
        gap, n_kept, n_visits = descend(dual, own, work, len(rows), is_full, np.inf, 0, ring)
        return _Visited(gap, n_kept, n_visits, rows, before)

    def add(self, found: list[_Visited]) -> None:
        """Make the step (1), where alpha has moved already."""
        weights, y = self.dual.weights, self.dual.y
        change = -len(found) * weights
        for own, _ in self.copies:
            change += own
        rise, square = -float(weights @ change), float(change @ change)
        for mine in found:
            labels = y[mine.rows]
            rise += float((self.alpha[mine.rows, labels] - mine.before[np.arange(len(labels)), labels]).sum())
        if rise < square:
            t = max(rise / square, 0.0)
            change *= t
            for mine in found:
                self.alpha[mine.rows] = mine.before + t * (self.alpha[mine.rows] - mine.before)
        weights += change
