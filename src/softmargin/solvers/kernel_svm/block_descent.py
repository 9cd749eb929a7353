"""Block descent on the dual of a kernel multiclass SVM: rows of alpha solved exactly, on three levels of memory.

    all n rows      scores F = K alpha are kept; their gaps choose the working set          maths: kernel SVM, section 4
    working set     the square of K over its rows, in main memory; epochs of pieces until its gap is a tenth
    piece           a few hundred rows whose square of K stays in the processor's cache: exact block steps, row after
                    row, a few sweeps; then the rest of the working set is told. A small set is one piece

    visit row i:    alpha_i <- argmax of the dual over row i, the others fixed;   F += K_i (new - old)'

Telling all n rows costs n kernel values for every row that moved and never moved before, and few rows ever do where the
optimum has few support vectors. So the set grows from 500 rows: eight times a round where most of its rows move, else
twice. Where it is small beside n, a round goes deeper: rows that need not move are then back where they were. And only
where the last round says that most will move are their rows of K computed at once, square and all.

Pieces are random and drawn anew every epoch: rows of one piece learn of the others only after the piece is done, so
fixed pieces, or pieces of one class, converge slowly. No visit lowers the dual value, and rows left out are looked at
again after every round.

    maths           here
    alpha, F        state.alpha, state.scores     (n, k), F = K alpha
    K_aa, act       K, rows
    tot             state.gaps.sum()
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.lanes import padded, zeros
from softmargin.blocks import find_block, new_workspace
from softmargin.core.protocols import KernelBlockProblem
from softmargin.matrices.row_store import gather
from softmargin.solvers.kernel_svm._block_loop import spread, sweep
from softmargin.solvers.kernel_svm._dual_rows import first_rows, open_rows
from softmargin.solvers.kernel_svm._working_set import SET_TARGET, choose_rows, with_neighbours

__all__ = ["KernelBlockDescent", "KernelDescentState"]

Array = NDArray[Any]

FIRST_SET = 500  # rows in the first working set
GROWTH, GROWTH_OF_MANY = 2, 8  # how many times larger the next one may be; where most rows of the last one moved
PIECE = 512  # rows: 512 x 512 kernel values are 1 or 2 MB
ALONE = 1024  # rows up to which a working set is one piece: gathering pieces would cost more than they save
# Sweeps over a piece go on until their gap is this share of the first sweep's, or there were so many.
SWEEPS = (0.3, 5)
SWEEPS_ALONE = (0.05, 20)
# A round goes deeper where telling all rows costs far more than descending: where they are SMALL times as many as the
# set; and where their values are not kept and the set holds all that counts, then with the rows that may soon count.
DEEP_TARGET = 0.04
SMALL = 8
MOST = 0.5  # share of a working set that moves where many samples are support vectors
MAX_EPOCHS = 40  # over one working set (maths: kernel SVM, section 8)


@dataclass
class KernelDescentState:
    """Everything a run needs to go on: arrays and plain numbers, so that a checkpoint can hold it."""

    alpha: Array  # (n, k)
    scores: Array  # (n, k)
    gaps: Array  # (n,)
    order: Array  # the samples whose rows can move, shuffled: of equal gaps the first come first
    random: Array  # (1,) state of the shuffles
    largest_set: int
    moved: float = 0.0  # share of the last working set


@dataclass(frozen=True)
class KernelBlockDescent:
    """Settings of the descent.

    Parameters
    ----------
    block : {"auto", "newton", "sort", "greedy", "projection"}
        How one row is solved, as in ``DualBlockDescent``.
    working_set : bool
        Work on the rows that matter; False passes over all rows, each once a step: plain exact block descent.
    """

    block: str = "auto"
    working_set: bool = True

    needs: ClassVar[tuple[type, ...]] = (KernelBlockProblem,)

    def start(self, problem: KernelBlockProblem, init: Any, rng: np.random.Generator) -> KernelDescentState:
        """Allocate; put in a warm start; settle the rows whose optimum needs no descent."""
        find_block(problem.multiclass, self.block)
        alpha = first_rows(problem, init)
        scores = problem.gram.scores(alpha)
        order = rng.permutation(open_rows(problem))
        random = rng.integers(1, 2**63, size=1, dtype=np.uint64)
        return KernelDescentState(alpha, scores, problem.gaps(alpha, scores), order, random, FIRST_SET)

    def step(self, problem: KernelBlockProblem, state: KernelDescentState) -> KernelDescentState:
        """Make one round on a working set, or one pass over all rows."""
        if self.working_set:
            n = problem.gram.n
            most = min(state.largest_set, problem.gram.largest_square)
            rows = choose_rows(problem, state.alpha, state.gaps, state.order, most, by_gap=state.moved > MOST)
            share = DEEP_TARGET if SMALL * len(rows) <= n else SET_TARGET
            if len(rows) < most and not problem.gram.has_room_for(rows):
                rows = with_neighbours(problem, state.scores, state.order, rows, most)
                share = DEEP_TARGET
            # A square of m rows, then those that move: m / n + moved of what all m rows of K cost.
            elif len(rows) / n + state.moved >= 1.0 and not problem.gram.is_linear:
                problem.gram.keep(rows)
            state.moved = self._descend(problem, state, rows, share, MAX_EPOCHS) / max(len(rows), 1)
            growth = GROWTH_OF_MANY if state.moved > MOST else GROWTH
            state.largest_set = min(max(growth * len(rows), FIRST_SET), n + 1)
        else:
            for first in range(0, len(state.order), problem.gram.largest_square):
                rows = np.sort(state.order[first : first + problem.gram.largest_square])
                self._descend(problem, state, rows, 1.0, 1)
        state.gaps = problem.gaps(state.alpha, state.scores)
        return state

    def point(self, problem: KernelBlockProblem, state: KernelDescentState) -> Any:
        """Return the dual rows."""
        return problem.point(state.alpha.copy())

    def estimate(self, problem: KernelBlockProblem, state: KernelDescentState) -> float:
        """Return the relative gap by the scores that were kept."""
        return float(problem.relative_gap(state.alpha, state.scores))

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> KernelDescentState:
        """Rebuild the state from a checkpoint."""
        return KernelDescentState(**arrays, **plain)

    def _descend(
        self, problem: KernelBlockProblem, state: KernelDescentState, rows: Array, share: float, epochs: int
    ) -> int:
        """Descend on some rows until their gap is this share of what it was, then tell all; return how many moved."""
        if len(rows) == 0:
            return 0
        rng = np.random.default_rng(state.random[0])
        part = _Part(problem, state, rows, find_block(problem.multiclass, self.block), is_once=epochs == 1)
        target = share * float(state.gaps[rows].sum())
        for _ in range(epochs):
            if part.epoch(rng) <= target:
                break
        state.random[:] = part.random
        change = part.rows - state.alpha[rows]
        state.alpha[rows] = part.rows
        problem.gram.add_change(state.scores, rows, change)
        return int(change.any(axis=1).sum())


class _Part:
    """A working set with its square of K."""

    def __init__(
        self, problem: KernelBlockProblem, state: KernelDescentState, rows: Array, block: Any, *, is_once: bool
    ) -> None:
        self.k, self.m = problem.n_classes, len(rows)
        self.size = padded(self.k)
        self.K = problem.gram.square(rows)
        self.block = block
        self.y, self.C, self.diagonal = problem.y[rows], problem.C[rows], problem.gram.diagonal[rows]
        self.rows = state.alpha[rows]
        self.scores = np.ascontiguousarray(state.scores[rows].T)
        self.n_pieces = 1 if self.m <= ALONE else -(-self.m // PIECE)
        self.sweeps = (1.0, 1) if is_once else SWEEPS_ALONE if self.n_pieces == 1 else SWEEPS
        most = -(-self.m // self.n_pieces)
        self.piece_rows = zeros(most * self.size)
        self.piece_K = self.K.reshape(-1) if self.n_pieces == 1 else np.empty(most**2, dtype=self.K.dtype)
        self.order = np.empty(most, dtype=np.int64)
        self.work = new_workspace(self.k)
        self.random = state.random.copy()

    def epoch(self, rng: np.random.Generator) -> float:
        """Visit every row in a piece of others, drawn anew; return the gap that was met on first visits."""
        pieces = np.array_split(rng.permutation(self.m), self.n_pieces)
        return sum(self._visit(np.sort(piece)) for piece in pieces)

    def _visit(self, piece: Array) -> float:
        """Sweep over one piece, then pass its change on to all rows."""
        m = len(piece)
        alpha = self.piece_rows[: m * self.size]
        rows = alpha.reshape(m, self.size)[:, : self.k]
        rows[:] = old = self.rows[piece]
        scores = np.take(self.scores, piece, axis=1)  # contiguous, whatever the layout of what it is taken from
        self.order[:m] = np.arange(m)
        if self.n_pieces > 1:
            gather(self.K.reshape(-1), self.m, piece, piece, self.piece_K)
        met = sweep(
            self.piece_K,
            self.block,
            self.y[piece],
            self.C[piece],
            self.diagonal[piece],
            alpha,
            self.size,
            scores.reshape(-1),
            self.k,
            m,
            self.order,
            self.work,
            self.random,
            *self.sweeps,
        )
        self.rows[piece] = rows
        spread(self.K.reshape(-1), self.m, piece, (rows - old).reshape(-1), self.k, self.scores.reshape(-1))
        return float(met)
