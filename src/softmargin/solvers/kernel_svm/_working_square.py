"""A working set of kernel block descent with its square of K: epochs over pieces, momentum, Newton steps.

See ``block_descent.py``; maths: kernel SVM, sections 4 and 10.
"""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.lanes import padded, zeros
from softmargin.blocks import find_block, new_workspace
from softmargin.core.deadline import OutOfTime, alarm, is_time_up
from softmargin.core.protocols import KernelBlockProblem
from softmargin.core.threads import n_threads, row_shares, spread
from softmargin.matrices.row_store import ADDED, add_rows, gather
from softmargin.solvers.common.momentum import extrapolate, next_momentum
from softmargin.solvers.kernel_svm._descent_state import epoch_work, pieces_of
from softmargin.solvers.kernel_svm._dual_rows import gap_of
from softmargin.solvers.kernel_svm._entry_squares import EntrySquares, near_entries
from softmargin.solvers.kernel_svm._face import FaceRows, face_step, face_work, free_classes
from softmargin.solvers.kernel_svm._piece_loop import SetRows, sweep_piece

__all__ = ["WorkingSquare"]

Array = NDArray[Any]
ROUNDING = 1e-15  # a share of C that rounding leaves


class WorkingSquare:
    """A working set with its square of K, of which epochs may read a copy in float32, where there is room for it.

    The copy is half as long, and a vector holds twice as many of its numbers. Its errors are in proportion to how far
    the rows of the set move: the update of all scores after a round is in float64, and the next one begins there.
    """

    def __init__(
        self, problem: KernelBlockProblem, state: Any, rows: Array, solver: Any, *, is_narrow: bool = False
    ) -> None:
        self.k, self.m, self.tuning, self.face_tuning = problem.n_classes, len(rows), solver.tuning, solver.face_tuning
        self.multiclass, self.loss, self.most_free = problem.multiclass, problem.loss, problem.gram.largest_square
        self.size = padded(self.k)
        self.gram, self.rows = problem.gram, rows
        self.y, self.C, self.diagonal = problem.y[rows], problem.C[rows], problem.gram.diagonal[rows]
        is_narrow = is_narrow and 3 * self.m**2 <= 2 * problem.gram.largest_square**2 and self._is_in_range()
        self.is_narrow = is_narrow
        self.fast_K = self.gram.narrow_square(rows) if is_narrow else self.K  # what epochs read
        self.block = find_block(problem.multiclass, solver.block)
        self.alpha = state.alpha[rows]
        self.scores = np.ascontiguousarray(state.scores[rows].T)
        self.n_pieces = pieces_of(self.tuning, self.m)
        most = -(-self.m // self.n_pieces)
        self.piece_alpha = zeros(most * self.size)
        # (pieces that are gathered at once, numbers of their squares)
        at_once = min(n_threads(), self.n_pieces)
        is_whole, K = self.n_pieces == 1, self.fast_K
        self.piece_K = K.reshape(1, -1) if is_whole else np.empty((at_once, most**2), K.dtype)
        self.change = np.empty(most * self.k, np.float32 if is_narrow else np.float64)
        self.work = new_workspace(self.k)
        self.first = self.last = self.alpha.copy(), self.scores.copy()
        self.momentum, self.gain = 1.0, 0.0
        self.sent_back = 0.0  # share of the rows that momentum led out of their bounds
        self.is_on_entries = False  # the last epoch was, and left no momentum
        self.work_done = 0.0  # multiplications of BLAS in the time of the last epoch
        self.random, self.damping = state.random.copy(), state.damping

    @property
    def patience(self) -> int:
        """Epochs between Newton steps; one on entries is as many sweeps as ten over pieces or more."""
        if self.is_on_entries:
            return 1
        return int(self.tuning.patience_alone if self.n_pieces == 1 else self.tuning.patience)

    @cached_property
    def K(self) -> Array:
        """The square in full precision: where epochs read a copy, Newton steps alone ask for it."""
        return np.asarray(self.gram.square(self.rows))

    def epoch(self, rng: np.random.Generator, *, is_single: bool, target: float = 0.0) -> float:
        """Descend on the entries that may move, where these are few; else visit every row as part of a random piece.

        Returns the gap that entries leave, or that was found on first visits: at the end of an epoch over pieces no
        row has seen the last moves of the others. ``target`` is the gap for which the round aims.
        """
        self.work_done = self.epoch_work
        entries = None if is_single else self._entries()
        self.is_on_entries = entries is not None
        if entries is not None:
            return self._entry_epoch(entries, target)
        t, is_alone = self.tuning, self.n_pieces == 1
        sweeps = (t.sweep_target_alone, t.max_sweeps_alone) if is_alone else (t.sweep_target, t.max_sweeps)
        sweeps = (1.0, 1) if is_single else sweeps
        if is_alone:
            return self._descend(np.arange(self.m), self.piece_K[0], *sweeps)
        pieces = np.array_split(rng.permutation(self.m), self.n_pieces)
        found = 0.0
        at_once = len(self.piece_K)
        for first in range(0, self.n_pieces, at_once):
            some = [np.sort(piece) for piece in pieces[first : first + at_once]]
            # Squares of pieces depend on nothing that moves: threads gather several before the first is visited.
            spread(lambda own: self._gather(*own), zip(some, self.piece_K, strict=False))
            for rows, K in zip(some, self.piece_K, strict=False):
                found += self._descend(rows, K, *sweeps)
                if is_time_up():
                    return found
        return found

    def _entry_epoch(self, squares: EntrySquares, target: float) -> float:
        """Descend on some entries; return the gap that is left."""
        t = self.tuning
        most = self.C if self.multiclass == "crammer_singer" else np.full(self.m, np.inf)
        part, how = squares.filled(self.fast_K, self.diagonal, self.C, most), (self.block, self.work, self.random)
        aim = max(t.entry_target * self._gap, t.entry_end * target)
        alpha, n_sweeps = squares.descend(part, self.alpha, self.scores, how, aim, t.entry_sweeps)
        n_changed = self._add_change(alpha - self.alpha)
        self.alpha, self.momentum, self.sent_back = alpha, 1.0, 0.0
        self.work_done = t.pace * n_sweeps * squares.n_values + ADDED * n_changed * self.m
        return self._gap

    def _entries(self) -> EntrySquares | None:
        """Return the entries that may move, where these are few."""
        t = self.tuning
        if self.k <= t.few_classes:
            return None
        is_near = near_entries(self.multiclass, self.alpha, self.scores, self.y, self.C, t.near_entry)
        squares = EntrySquares(is_near, self.y)
        share = max(t.entries, min(t.entries_alone, t.entries_of_class * self.k) / self.n_pieces)
        # Beside K, and a copy of half its length.
        room = self.most_free**2 - 1.5 * self.m**2
        return squares if 0 < squares.n_values <= min(share * self.m**2, room) else None

    @property
    def _gap(self) -> float:
        return gap_of(self.multiclass, self.alpha, self.scores.T, self.y, self.C)

    def _gather(self, rows: Array, out: Array) -> None:
        """Write the square of a piece into ``out``."""
        gather(self.fast_K.reshape(-1), self.m, rows, rows, out)

    def push_on(self) -> None:
        """Go on in the direction of the last epoch: Nesterov's momentum, which ends where the dual value falls.

        It leads many margins astray. So there is none where few entries can move: the next epoch is on these.
        """
        now, before = (self.alpha.copy(), self.scores.copy()), self.last
        if self._entries() is not None:
            self.momentum = 1.0
        following, beta = next_momentum(self.momentum)
        if beta > 0.0:
            wanted = np.empty_like(self.alpha)
            extrapolate(now[0], before[0], beta, wanted)
            extrapolate(now[1], before[1], beta, self.scores)
            self.alpha = self.loss.project(wanted, self.y, self.C)
            back = self.alpha - wanted
            back[np.abs(back) <= ROUNDING * self.C[:, None]] = 0.0
            self.sent_back = np.count_nonzero(back.any(axis=1)) / self.m
            self._add_change(back)
        self.last, self.momentum = now, following

    def turn_back(self) -> None:
        """Note the dual value; undo the last epoch, and the momentum, where it fell."""
        gain = self.gain_with(self.scores)
        if gain < self.gain:
            self.alpha, self.scores = (part.copy() for part in self.last)
            self.momentum = 1.0
        self.gain = max(self.gain, gain)

    def gain_with(self, scores: Array) -> float:
        """Return by how much the dual value rose since the first point, given the scores by class at this one."""
        change = self.alpha - self.first[0]
        return float(change[np.arange(self.m), self.y].sum() - 0.5 * np.vdot(change.T, scores + self.first[1]))

    def _is_in_range(self) -> bool:
        """Say whether products of dual variables and kernel values are far from the ends of float32."""
        widest = self.tuning.widest
        return bool(self.diagonal.min() > 1.0 / widest and max(self.diagonal.max(), self.C.max()) < widest)

    @property
    def epoch_work(self) -> float:
        """Multiplications of BLAS that take about as long as an epoch at most does."""
        return epoch_work(self.tuning, self.m)

    def face_step(self, credit: float) -> float:
        """Make a Newton step on the free entries, where a solve takes no more than ``credit``; return its work.

        One that leads nowhere is paid twice, so that there are fewer of them.
        """
        face = self.face_tuning
        if self.sent_back > self.tuning.settled:
            return 0.0
        if face_work(free_classes(self.multiclass, self.alpha, self.y, self.C), self.most_free, face.beside) > credit:
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
        self.gain = max(self.gain, self.gain_with(self.scores))
        return found.work

    def _descend(self, rows: Array, K: Array, target: float, max_sweeps: int) -> float:
        """Sweep over one piece with its square, then update the scores of the whole set."""
        whole = SetRows(self.y, self.C, self.diagonal, self.alpha, self.scores)
        how = (self.block, self.work, self.random, target, max_sweeps, alarm())
        change = self.change[: len(rows) * self.k]
        met, n_changed = sweep_piece(whole, rows, K, *how, self.piece_alpha, change)
        self._add(rows, change, n_changed)
        return float(met)

    def _add_change(self, change: Array) -> int:
        """Add what a change of alpha, (m, k), means for the scores of the set; return how many entries changed."""
        rows = np.flatnonzero(change.any(axis=1))
        some = change[rows].reshape(-1).astype(self.change.dtype, copy=False)
        n_changed = int(np.count_nonzero(some))
        self._add(rows, some, n_changed)
        return n_changed

    def _add(self, rows: Array, change: Array, n_changed: int) -> None:
        """Add what changes of some rows, so many of them not zero, mean for the scores of the set; they are flat."""
        K, scores = self.fast_K.reshape(-1), self.scores.reshape(-1)
        shares = row_shares(self.m, ADDED * n_changed)
        spread(lambda some: add_rows(K, self.m, rows, change, self.k, scores, some.start, some.stop), shares)
