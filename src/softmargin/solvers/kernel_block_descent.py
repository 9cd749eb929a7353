"""Block descent on the dual of a kernel multiclass SVM: rows of alpha solved exactly, on three levels of memory.

    all n rows      scores F = K alpha are kept; their gaps choose the working set                    spec 2.6
    working set     the square of K over its rows, in main memory; epochs of pieces until its gap is a tenth
    piece           a few hundred rows whose square of K stays in the processor's cache: exact block steps, row after
                    row, a few sweeps; then the rest of the working set is told

    visit row i:    alpha_i <- argmax of the dual over row i, the others fixed;   F += K_i (new - old)'

The set grows from 4000 rows (2000 where K is kept), at most four times each round, so that early rounds, far from the
optimum, are cheap. Pieces are random and drawn anew every epoch: rows of one piece learn of the others only after the
piece is done, so fixed pieces, or pieces of one class, converge slowly. No visit lowers the dual value, and rows left
out are looked at again after every round.

    spec            here
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
from softmargin.solvers.parts.dual_rows import first_rows, open_rows
from softmargin.solvers.parts.gram_passes import gather, spread, sweep
from softmargin.solvers.parts.working_set import FIRST_SET, GROWTH, SET_TARGET, choose_rows, with_neighbours

__all__ = ["KernelBlockDescent", "KernelDescentState"]

Array = NDArray[Any]

PIECE = 512  # rows: 512 x 512 kernel values are 1 or 2 MB
SWEEP_TARGET = 0.3  # sweeps over a piece go on until their gap is this share of the first sweep's
MAX_SWEEPS = 5
# Telling all n rows costs n kernel values for every row that moved. Where they are not at hand, and the set holds all
# that counts, a round goes deeper, with the rows that may soon count.
DEEP_TARGET = 0.04
MAX_EPOCHS = 40  # over one working set (spec 2.6)
FIRST_STORED = 2000  # rows in the first working set where K is kept


@dataclass
class KernelDescentState:
    """Everything a run needs to go on: arrays and plain numbers, so that a checkpoint can hold it."""

    alpha: Array  # (n, k)
    scores: Array  # (n, k)
    gaps: Array  # (n,)
    order: Array  # the samples whose rows can move, shuffled: of equal gaps the first come first
    random: Array  # (1,) state of the shuffles
    largest_set: int


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

    def start(self, problem: Any, init: Any, rng: np.random.Generator) -> KernelDescentState:
        """Allocate; put in a warm start; settle the rows whose optimum needs no descent."""
        find_block(problem.multiclass, self.block)
        alpha = first_rows(problem, init)
        scores = problem.gram.scores(alpha)
        order = rng.permutation(open_rows(problem))
        random = rng.integers(1, 2**63, size=1, dtype=np.uint64)
        # Where K is kept, a row of the set costs a whole row of K: fewer to begin with.
        first = FIRST_STORED if problem.gram.is_stored else FIRST_SET
        return KernelDescentState(alpha, scores, problem.gaps(alpha, scores), order, random, first)

    def step(self, problem: Any, state: KernelDescentState) -> KernelDescentState:
        """Make one round on a working set, or one pass over all rows."""
        if self.working_set:
            most = min(state.largest_set, problem.gram.largest_square)
            state.largest_set = min(GROWTH * state.largest_set, problem.gram.n + 1)
            rows = choose_rows(problem, state.alpha, state.gaps, state.order, most)
            share = SET_TARGET
            if len(rows) < most and not problem.gram.is_at_hand:
                rows = with_neighbours(problem, state.scores, state.order, rows, most)
                share = DEEP_TARGET
            self._descend(problem, state, rows, share, MAX_SWEEPS, MAX_EPOCHS)
        else:
            for first in range(0, len(state.order), problem.gram.largest_square):
                rows = np.sort(state.order[first : first + problem.gram.largest_square])
                self._descend(problem, state, rows, 1.0, 1, 1)
        state.gaps = problem.gaps(state.alpha, state.scores)
        return state

    def point(self, problem: Any, state: KernelDescentState) -> Any:
        """Return the dual rows."""
        return problem.point(state.alpha.copy())

    def estimate(self, problem: Any, state: KernelDescentState) -> float:
        """Return the relative gap by the scores that were kept."""
        return float(problem.relative_gap(state.alpha, state.scores))

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> KernelDescentState:
        """Rebuild the state from a checkpoint."""
        return KernelDescentState(**arrays, **plain)

    def _descend(
        self, problem: Any, state: KernelDescentState, rows: Array, share: float, sweeps: int, epochs: int
    ) -> None:
        """Descend on some rows until their gap is this share of what it was, then tell all rows."""
        if len(rows) == 0:
            return
        rng = np.random.default_rng(state.random[0])
        part = _Part(problem, state, rows, find_block(problem.multiclass, self.block))
        target = share * float(state.gaps[rows].sum())
        for _ in range(epochs):
            if part.epoch(rng, sweeps) <= target:
                break
        state.random[:] = part.random
        change = part.rows - state.alpha[rows]
        state.alpha[rows] = part.rows
        problem.gram.add_change(state.scores, rows, change)


class _Part:
    """A working set with its square of K."""

    def __init__(self, problem: Any, state: KernelDescentState, rows: Array, block: Any) -> None:
        self.k, self.m = problem.n_classes, len(rows)
        self.size = padded(self.k)
        self.K = problem.gram.square(rows)
        self.block = block
        self.y, self.C, self.diagonal = problem.y[rows], problem.C[rows], problem.gram.diagonal[rows]
        self.rows = state.alpha[rows]
        self.scores = np.ascontiguousarray(state.scores[rows].T)
        self.n_pieces = -(-self.m // PIECE)
        self.piece_rows = zeros(PIECE * self.size)
        self.piece_K = np.empty(min(self.m, PIECE) ** 2, dtype=self.K.dtype)
        self.order = np.empty(PIECE, dtype=np.int64)
        self.work = new_workspace(self.k)
        self.random = state.random.copy()

    def epoch(self, rng: np.random.Generator, max_sweeps: int) -> float:
        """Visit every row in a piece of others, drawn anew; return the gap that was met on first visits."""
        pieces = np.array_split(rng.permutation(self.m), self.n_pieces)
        return sum(self._visit(np.sort(piece), max_sweeps) for piece in pieces)

    def _visit(self, piece: Array, max_sweeps: int) -> float:
        """Sweep over one piece, then pass its change on to all rows."""
        m = len(piece)
        alpha = self.piece_rows[: m * self.size]
        rows = alpha.reshape(m, self.size)[:, : self.k]
        rows[:] = old = self.rows[piece]
        scores = np.take(self.scores, piece, axis=1)  # contiguous, whatever the layout of what it is taken from
        self.order[:m] = np.arange(m)
        gather(self.K.reshape(-1), self.m, piece, self.piece_K)
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
            SWEEP_TARGET,
            max_sweeps,
        )
        self.rows[piece] = rows
        spread(self.K.reshape(-1), self.m, piece, (rows - old).reshape(-1), self.k, self.scores.reshape(-1))
        return float(met)
