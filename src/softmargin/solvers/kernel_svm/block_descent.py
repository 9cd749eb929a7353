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

Where C is large and samples are alike, descent crawls. Two things end that                maths: kernel SVM, section 10

    momentum        every epoch begins beyond the point of the last one (``push_on``)
    Newton steps    on the free entries (``_face``) after every ten epochs of a round, as long as they take no more
                    multiplications (``face_work``) than the epochs before them (``epoch_work``), and than those that
                    the round still needs at the pace of the last ten

    maths           here
    alpha, F        state.alpha, state.scores     (n, k), F = K alpha
    K_aa, act       K, rows
    tot             state.gaps.sum()
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.lanes import padded, zeros
from softmargin.blocks import BLOCK, find_block, new_workspace
from softmargin.core.deadline import OutOfTime, alarm, is_time_up, leaving, seconds_for, share_of_time
from softmargin.core.protocols import KernelBlockProblem
from softmargin.core.threads import row_shares, spread
from softmargin.losses.multiclass_hinge import margins
from softmargin.matrices.row_store import gather
from softmargin.solvers.common.momentum import extrapolate, next_momentum
from softmargin.solvers.kernel_svm._dual_rows import DualRowSolver, active_rows, first_rows, open_rows
from softmargin.solvers.kernel_svm._face import FaceRows, FaceTuning, face_step, face_work, free_classes
from softmargin.solvers.kernel_svm._piece_loop import KernelPiece, add_rows, sweep

__all__ = ["KernelBlockDescent", "KernelBlockDescentTuning", "KernelDescentState"]

Array = NDArray[Any]
ROUNDING = 1e-15  # a share of C that rounding leaves


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
    crawl_target: float = 0.01  # the same after a round of more than ``patience`` epochs: momentum needs time; by hand
    small: int = 8  # n is so many times the set where it does: by hand
    share: float = 0.5  # of the time left, for the epochs over a set; the rest computes kernel rows; by hand
    update: float = 2.0  # where these are cached, time for so many updates of the scores is left: by hand
    max_epochs: int = 200  # over one working set: by hand; maths: kernel SVM, section 8 has 40, without momentum
    piece: int = 512  # rows: 512 x 512 kernel values are 1 or 2 MB, a second cache
    alone: int = 1024  # rows up to which a set is one piece, as gathering costs more than it saves: by hand
    # Sweeps over a piece go on until their gap is this share of the first one's, or there were so many: by hand.
    sweep_target: float = 0.3
    max_sweeps: int = 5
    sweep_target_alone: float = 0.05
    max_sweeps_alone: int = 20
    patience: int = 10  # epochs of a round between Newton steps: by hand; easy rounds end before
    # Rows that momentum leads out of their bounds: above this share, half of the entries would leave a face; measured.
    settled: float = 0.04
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
    damping: float = 0.0  # of the next Newton step
    epochs: int = 0  # of the last round

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
        gaps, damping = problem.gaps(alpha, scores), self.face_tuning.damping
        return KernelDescentState(alpha, scores, gaps, order, random, self.tuning.first_set, damping=damping)

    def step(self, problem: KernelBlockProblem, state: KernelDescentState) -> KernelDescentState:
        """Make one round on a working set, or one pass over all rows."""
        if self.working_set:
            self._round(problem, state)
        else:
            for first in range(0, len(state.order), problem.gram.largest_square):
                rows = np.sort(state.order[first : first + problem.gram.largest_square])
                self.descend(problem, state, rows, 1.0, 1)
        state.gaps = problem.gaps(state.alpha, state.scores)
        return state

    def _round(self, problem: KernelBlockProblem, state: KernelDescentState) -> None:
        """Choose a working set and descend on it."""
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
        if state.epochs > tuning.patience:
            share = tuning.crawl_target
        state.moved = self.descend(problem, state, rows, share, tuning.max_epochs) / max(len(rows), 1)
        growth = tuning.growth_of_many if state.moved > tuning.most else tuning.growth
        state.largest_set = min(max(growth * len(rows), tuning.first_set), gram.n + 1)

    def descend(
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
        patience, is_single, before = self.tuning.patience, epochs == 1, math.inf
        with self._time_of_epochs(problem, rows):
            for n_epochs in range(1, epochs + 1):
                state.credit += part.epoch_work
                found = part.epoch(rng, is_single=is_single)
                part.turn_back()
                if found <= target or n_epochs == epochs or is_time_up():
                    break
                if n_epochs == 1:
                    before = found
                elif n_epochs % patience == 0:
                    left = _steps_left(before, found, target) * patience * part.epoch_work
                    state.credit -= part.face_step(min(state.credit, left))
                    before = found
                part.push_on()
            if n_epochs > patience and not is_time_up():
                part.epoch(rng, is_single=False)  # without momentum: it leaves large gaps
        state.random[:], state.damping, state.epochs = part.random, part.damping, n_epochs
        change = part.alpha - state.alpha[rows]
        state.alpha[rows] = part.alpha
        problem.gram.add_change(state.scores, rows, change)
        return int(change.any(axis=1).sum())

    def _time_of_epochs(self, problem: KernelBlockProblem, rows: Array) -> Any:
        """Return the time that epochs over some rows may take, as a context: the rest is for the update of scores."""
        if problem.gram.is_kept(rows):
            return leaving(self.tuning.update * seconds_for(problem.gram.scores_work(rows, problem.n_classes)))
        return share_of_time(self.tuning.share)


def _steps_left(before: float, now: float, target: float) -> float:
    """Return how many steps lead from ``now`` to ``target`` if each is as good as that from ``before`` to ``now``."""
    return math.log(target / now) / math.log(now / before) if 0.0 < target < now < before else math.inf


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
        self.multiclass, self.loss, self.most_free = problem.multiclass, problem.loss, problem.gram.largest_square
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
        self.first = self.last = self.alpha.copy(), self.scores.copy()
        self.momentum, self.gain = 1.0, 0.0
        self.sent_back = 0.0  # share of the rows that momentum led out of their bounds
        self.random, self.damping = state.random.copy(), state.damping

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

    def push_on(self) -> None:
        """Go on in the direction of the last epoch: Nesterov's momentum, which ends where the dual value falls."""
        now, before = (self.alpha.copy(), self.scores.copy()), self.last
        following, beta = next_momentum(self.momentum)
        if beta > 0.0:
            wanted = np.empty_like(self.alpha)
            extrapolate(now[0], before[0], beta, wanted)
            extrapolate(now[1], before[1], beta, self.scores)
            self.alpha = self.loss.project(wanted, self.y, self.C)
            back = self.alpha - wanted
            back[np.abs(back) <= ROUNDING * self.C[:, None]] = 0.0
            rows = np.flatnonzero(back.any(axis=1))
            self.sent_back = len(rows) / self.m
            self._add(rows, back[rows])
        self.last, self.momentum = now, following

    def turn_back(self) -> None:
        """Note the dual value; undo the last epoch, and the momentum, where it fell."""
        gain = self._gain()
        if gain < self.gain:
            self.alpha, self.scores = (part.copy() for part in self.last)
            self.momentum = 1.0
        self.gain = max(self.gain, gain)

    def _gain(self) -> float:
        """Return by how much the dual value rose since the first point."""
        change = self.alpha - self.first[0]
        return float(change[np.arange(self.m), self.y].sum() - 0.5 * np.vdot(change.T, self.scores + self.first[1]))

    @property
    def epoch_work(self) -> float:
        """Multiplications of BLAS that take about as long as an epoch at most does."""
        t, m = self.tuning, float(self.m)
        visits = t.max_sweeps_alone * m * m if self.n_pieces == 1 else m * (t.max_sweeps * m / self.n_pieces + m)
        return t.pace * visits

    def face_step(self, credit: float) -> float:
        """Make a Newton step on the free entries, where a solve takes no more than ``credit``; return its work.

        One that leads nowhere is paid twice, so that there are fewer of them.
        """
        face = self.face_tuning
        if self.sent_back > self.tuning.settled:
            return 0.0
        if face_work(free_classes(self.multiclass, self.alpha, self.y, self.C), self.most_free, face)[0] > credit:
            return 0.0
        part = FaceRows(self.multiclass, self.K, self.y, self.C, self.diagonal)
        try:
            found = face_step(part, self.alpha, self.scores.T, self.most_free, self.damping, face)
        except OutOfTime:  # what the epochs found is worth its update
            return 0.0
        self.damping = found.damping
        if found.alpha is self.alpha:
            return 2.0 * found.work
        self.alpha, self.scores, self.momentum = found.alpha, np.ascontiguousarray(found.scores.T), 1.0
        self.gain = max(self.gain, self._gain())
        return found.work

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
        piece = KernelPiece(
            self.piece_K, self.y[rows], self.C[rows], self.diagonal[rows], alpha, scores.reshape(-1), self.order
        )
        met = sweep(piece, self.block, self.k, self.work, self.random, target, max_sweeps, alarm())
        self.alpha[rows] = new
        self._add(rows, new - old)
        return float(met)

    def _add(self, rows: Array, change: Array) -> None:
        """Add what changes of some rows mean for the scores of the set."""
        K, scores, values = self.K.reshape(-1), self.scores.reshape(-1), change.reshape(-1)
        shares = row_shares(self.m, float(np.count_nonzero(change)))
        spread(lambda some: add_rows(K, self.m, rows, values, self.k, scores, some.start, some.stop), shares)
