"""Block descent on the dual of a kernel multiclass SVM: exact minimisation of one row of alpha at a time.

    visit row i:    alpha_i <- argmax of the dual over row i, the others fixed;   F += K_i (new - old)'

Three levels of memory, because a kernel value costs far more than its use:

    all n rows      scores F = K alpha; the gaps of the rows choose the working set         maths: kernel SVM, section 4
    working set     the square of K over its rows, in main memory; epochs over random pieces until its gap is a tenth
    piece           a few hundred rows whose square of K fits into the processor's cache: a few sweeps of visits, then
                    the scores of the rest of the working set are updated. A small set is one piece

Updating all n scores takes n kernel values for every row that moves for the first time. So the set starts small, and
where it is small beside n a round goes deep: rows that need not move are then back where they were.

Pieces are random and drawn anew every epoch: rows of different pieces do not see each other's moves before the piece is
done, so fixed pieces, or pieces of one class, converge slowly. No visit lowers the dual value.

Where C is large and samples are alike, descent crawls long after it has found which entries are free. So a round on
all rows that count, after one that left most of the gap, ends with a Newton step on the free entries (``_face``), as
long as such steps take no more multiplications (``face_work``) than the epochs before them (``epoch_work``).

    maths           here
    alpha, F        state.alpha, state.scores     (n, k), F = K alpha
    K_aa, act       K, rows
    tot             state.gaps.sum()
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import jit
from softmargin.backends.lanes import WIDTH, padded, pointer, zeros
from softmargin.backends.loops import shuffle
from softmargin.blocks import BLOCK, find_block, new_workspace
from softmargin.core.deadline import OutOfTime, alarm, is_time_up, share_of_time
from softmargin.core.protocols import KernelBlockProblem
from softmargin.core.threads import row_shares, spread
from softmargin.losses.multiclass_hinge import margins
from softmargin.matrices.row_store import gather
from softmargin.solvers.kernel_svm._dual_rows import DualRowSolver, active_rows, first_rows, open_rows
from softmargin.solvers.kernel_svm._face import FaceRows, FaceTuning, face_step, face_work, free_classes

__all__ = ["KernelBlockDescent", "KernelBlockDescentTuning", "KernelDescentState"]

Array = NDArray[Any]
COLUMNS = 4096  # of the scores updated at once: those of all classes stay in the second cache


class KernelBlockDescentTuning(NamedTuple):
    """The constants of the descent."""

    first_set: int = 500  # rows in the first working set: by hand, for data with few support vectors
    growth: int = 2  # how many times larger the next set may be: maths: kernel SVM, section 8
    growth_of_many: int = 8  # the same where most rows of the last set moved: by hand
    most: float = 0.5  # share of a set that moves where many samples are support vectors: by hand
    active_share: float = 0.01  # a gap counts above this share of the mean gap: maths: kernel SVM, section 8
    near: float = 0.2  # a margin this far from being violated may be violated after a deep round: by hand
    set_target: float = 0.1  # share of its gap that a round leaves: by hand; maths: kernel SVM, section 8 has 0.2
    deep_target: float = 0.04  # the same where updating all scores costs far more than the descent: by hand
    small: int = 8  # n is so many times the set where it does: by hand
    share: float = 0.5  # of the time left, for the epochs over a set; the rest updates the scores; by hand
    max_epochs: int = 40  # over one working set: maths: kernel SVM, section 8
    piece: int = 512  # rows: 512 x 512 kernel values are 1 or 2 MB, a second cache
    alone: int = 1024  # rows up to which a set is one piece, as gathering costs more than it saves: by hand
    # Sweeps over a piece go on until their gap is this share of the first one's, or there were so many: by hand.
    sweep_target: float = 0.3
    max_sweeps: int = 5
    sweep_target_alone: float = 0.05
    max_sweeps_alone: int = 20
    crawl: float = 0.3  # share of the gap that a round leaves where Newton steps are worth their time: by hand
    pace: float = 25.0  # multiplications of BLAS in the time that a visit takes per row of the piece: by hand


@dataclass
class KernelDescentState:
    """Arrays and plain numbers, which a checkpoint holds."""

    alpha: Array  # (n, k)
    scores: Array  # (n, k)
    gaps: Array  # (n,)
    order: Array  # the samples whose rows can move, shuffled: rows of equal gaps are taken in this order
    random: Array  # (1,) state of the shuffles
    largest_set: int
    moved: float = 0.0  # share of the last working set
    credit: float = 0.0  # multiplications of epochs, less those of Newton steps
    is_crawling: bool = False  # the last round left most of the gap, on a set of all rows that count

    positions: ClassVar[dict[str, str]] = {"order": "gaps"}


@dataclass(frozen=True)
class KernelBlockDescent(DualRowSolver[KernelDescentState]):
    """Settings of the descent.

    Parameters
    ----------
    block : {"auto", "newton", "sort", "greedy", "projection"} or block object
        How one row is minimised, as in ``DualBlockDescent``.
    working_set : bool
        Descend on working sets; False passes over all rows, each once per step: plain exact block descent.
    tuning : KernelBlockDescentTuning
    face_tuning : FaceTuning
        Of Newton steps.
    """

    block: Any = "auto"
    working_set: bool = True
    tuning: KernelBlockDescentTuning = KernelBlockDescentTuning()
    face_tuning: FaceTuning = FaceTuning()

    allowed: ClassVar = {"block": BLOCK}
    state_type = KernelDescentState

    def start(self, problem: KernelBlockProblem, init: Any, rng: np.random.Generator) -> KernelDescentState:
        """Allocate, from a first point or from nothing."""
        find_block(problem.multiclass, self.block)
        alpha = first_rows(problem, init)
        scores = problem.gram.scores(alpha)
        order = rng.permutation(open_rows(problem))
        random = rng.integers(1, 2**63, size=1, dtype=np.uint64)
        return KernelDescentState(alpha, scores, problem.gaps(alpha, scores), order, random, self.tuning.first_set)

    def step(self, problem: KernelBlockProblem, state: KernelDescentState) -> KernelDescentState:
        """Make one round on a working set, or one pass over all rows."""
        before, is_whole = float(state.gaps.sum()), False
        if self.working_set:
            is_whole = self._round(problem, state)
        else:
            for first in range(0, len(state.order), problem.gram.largest_square):
                rows = np.sort(state.order[first : first + problem.gram.largest_square])
                self._descend(problem, state, rows, 1.0, 1)
        state.gaps = problem.gaps(state.alpha, state.scores)
        state.is_crawling = is_whole and bool(state.gaps.sum() > self.tuning.crawl * before)
        return state

    def _round(self, problem: KernelBlockProblem, state: KernelDescentState) -> bool:
        """Choose a working set and descend on it; say whether it held all rows that count."""
        tuning, gram = self.tuning, problem.gram
        most = min(state.largest_set, gram.largest_square)
        # Where few rows move in the end, the largest gaps are often those of neighbours: then any of the rows will do.
        by_gap = state.moved > tuning.most
        rows = active_rows(problem, state, state.gaps, share=tuning.active_share, sort_others=by_gap)
        share = tuning.deep_target if tuning.small * len(rows) <= gram.n else tuning.set_target
        if len(rows) < most and not gram.has_room_for(rows):
            # Their kernel values are computed again every round, and the set holds all that counts: go deeper, with
            # the rows that may soon count.
            rows = _with_neighbours(problem, state, rows, most, tuning.near)
            share = tuning.deep_target
        # A square of m rows, then those that move: m / n + moved of what all m rows of K cost.
        elif len(rows) / gram.n + state.moved >= 1.0 and not gram.is_linear:
            gram.keep(rows)
        state.moved = self._descend(problem, state, rows, share, tuning.max_epochs) / max(len(rows), 1)
        growth = tuning.growth_of_many if state.moved > tuning.most else tuning.growth
        state.largest_set = min(max(growth * len(rows), tuning.first_set), gram.n + 1)
        return bool(len(rows) < most or len(rows) == gram.largest_square)

    def _descend(
        self, problem: KernelBlockProblem, state: KernelDescentState, rows: Array, share: float, epochs: int
    ) -> int:
        """Descend on some rows until their gap is this share of what it was, then update all scores.

        Returns how many rows moved.
        """
        if len(rows) == 0:
            return 0
        rng = np.random.default_rng(state.random[0])
        part = _WorkingSquare(problem, state, rows, self)
        target = share * float(state.gaps[rows].sum())
        with share_of_time(self.tuning.share):
            for _ in range(epochs):
                state.credit += part.epoch_work
                if part.epoch(rng, is_single=epochs == 1) <= target or is_time_up():
                    break
            if epochs > 1 and state.is_crawling and not is_time_up():
                work = part.face_step(state.credit)
                state.credit = state.credit - work if work < np.inf else 0.0
        state.random[:] = part.random
        change = part.alpha - state.alpha[rows]
        state.alpha[rows] = part.alpha
        problem.gram.add_change(state.scores, rows, change)
        return int(change.any(axis=1).sum())


def _with_neighbours(
    problem: KernelBlockProblem, state: KernelDescentState, rows: Array, most: int, near: float
) -> Array:
    """Add the other rows whose margins are nearly violated, the nearest first, while there is room; sorted."""
    rest = np.setdiff1d(state.order, rows, assume_unique=True)
    y = problem.y[rest]
    h = margins(state.scores[rest], y)
    h[np.arange(len(y)), y] = -np.inf
    largest = h.max(axis=1)
    nearest = rest[np.argsort(-largest, kind="stable")][: max(most - len(rows), 0)]
    return np.sort(np.concatenate([rows, nearest[: int((largest > -near).sum())]]))


class _WorkingSquare:
    """A working set with its square of K."""

    def __init__(
        self, problem: KernelBlockProblem, state: KernelDescentState, rows: Array, solver: KernelBlockDescent
    ) -> None:
        self.k, self.m, self.tuning, self.face_tuning = problem.n_classes, len(rows), solver.tuning, solver.face_tuning
        self.multiclass, self.most_free = problem.multiclass, problem.gram.largest_square
        self.size = padded(self.k)
        self.K = problem.gram.square(rows)
        self.block = find_block(problem.multiclass, solver.block)
        self.y, self.C, self.diagonal = problem.y[rows], problem.C[rows], problem.gram.diagonal[rows]
        self.alpha = state.alpha[rows]
        self.scores = np.ascontiguousarray(state.scores[rows].T)
        self.n_pieces = 1 if self.m <= self.tuning.alone else -(-self.m // self.tuning.piece)
        most = -(-self.m // self.n_pieces)
        self.piece_alpha = zeros(most * self.size)
        self.piece_K = self.K.reshape(-1) if self.n_pieces == 1 else np.empty(most**2, dtype=self.K.dtype)
        self.order = np.empty(most, dtype=np.int64)
        self.work = new_workspace(self.k)
        self.random = state.random.copy()

    def epoch(self, rng: np.random.Generator, *, is_single: bool) -> float:
        """Visit every row as part of a random piece; return the gap found on first visits."""
        t = self.tuning
        sweeps = (t.sweep_target_alone, t.max_sweeps_alone) if self.n_pieces == 1 else (t.sweep_target, t.max_sweeps)
        pieces = np.array_split(rng.permutation(self.m), self.n_pieces)
        found = 0.0
        for piece in pieces:
            found += self._descend(np.sort(piece), *((1.0, 1) if is_single else sweeps))
            if is_time_up():
                break
        return found

    @property
    def epoch_work(self) -> float:
        """Multiplications of BLAS that take about as long as an epoch at most does."""
        t, m = self.tuning, float(self.m)
        visits = t.max_sweeps_alone * m * m if self.n_pieces == 1 else m * (t.max_sweeps * m / self.n_pieces + m)
        return t.pace * visits

    def face_step(self, credit: float) -> float:
        """Make a Newton step on the free entries, where a solve takes no more than ``credit``; return its work.

        It comes after all epochs: the scores of the set stay as they were.
        """
        face = self.face_tuning
        if face_work(free_classes(self.multiclass, self.alpha, self.y, self.C), self.most_free, face)[0] > credit:
            return 0.0
        part = FaceRows(self.multiclass, self.K, self.y, self.C, self.diagonal)
        try:
            self.alpha, work = face_step(part, self.alpha, np.ascontiguousarray(self.scores.T), self.most_free, face)
        except OutOfTime:  # what the epochs found is worth its update
            return 0.0
        return work

    def _descend(self, rows: Array, target: float, max_sweeps: int) -> float:
        """Sweep over one piece, then update the scores of the whole set."""
        m = len(rows)
        alpha = self.piece_alpha[: m * self.size]
        new = alpha.reshape(m, self.size)[:, : self.k]
        new[:] = old = self.alpha[rows]
        scores = np.take(self.scores, rows, axis=1)  # contiguous, whatever the layout of what it is taken from
        self.order[:m] = np.arange(m)
        if self.n_pieces > 1:
            gather(self.K.reshape(-1), self.m, rows, rows, self.piece_K)
        piece = _KernelPiece(
            self.piece_K, self.y[rows], self.C[rows], self.diagonal[rows], alpha, scores.reshape(-1), self.order
        )
        met = sweep(piece, self.block, self.k, self.work, self.random, target, max_sweeps, alarm())
        self.alpha[rows] = new
        K, scores, change = self.K.reshape(-1), self.scores.reshape(-1), new - old
        shares = row_shares(self.m, float(np.count_nonzero(change)))
        spread(
            lambda some: add_rows(K, self.m, rows, change.reshape(-1), self.k, scores, some.start, some.stop), shares
        )
        return float(met)


class _KernelPiece(NamedTuple):
    """The m rows of a piece; matrices are flat."""

    K: Array  # (m, m)
    y: Array  # (m,)
    C: Array  # (m,)
    diagonal: Array  # (m,)
    alpha: Array  # (m, k)      k padded to whole tiles
    F: Array  # (k, m) scores: the step of a row adds a contiguous row of K to each class that changed
    order: Array  # (m,) or longer: scratch


@jit
def sweep(
    piece: _KernelPiece, block: Any, k: int, work: Any, random: Array, target: float, max_sweeps: int, alarm: Array
) -> float:
    """Pass over all rows until the gap found in a pass is at most ``target`` times that of the first one.

    It ends early at the alarm. Returns the gap found in the first pass.
    """
    w = work.bare_workspace()
    K_, y_, C_, q_ = pointer(piece.K), pointer(piece.y), pointer(piece.C), pointer(piece.diagonal)
    a_, F_, order_ = pointer(piece.alpha), pointer(piece.F), pointer(piece.order)
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
        if total <= target * met or alarm[0] != 0:
            break
    return met


@jit
def add_rows(K: Array, stride: int, index: Array, change: Array, k: int, scores: Array, begin: int, end: int) -> None:
    """Add change' K[index] to the columns begin .. end of scores.

    K is (stride, stride), change (len(index), k) and scores (k, stride), all flat. Most entries of change are zero: a
    row moves in a few classes only.
    """
    K_, index_, change_, F_ = pointer(K), pointer(index), pointer(change), pointer(scores)
    for first in range(begin, end, COLUMNS):
        m = min(COLUMNS, end - first)
        for r in range(index.shape[0]):
            row = index_[r] * stride + first
            for c in range(k):
                step = change_[r * k + c]
                if step != 0.0:
                    out = c * stride + first
                    for j in range(m):
                        F_[out + j] += step * K_[row + j]
