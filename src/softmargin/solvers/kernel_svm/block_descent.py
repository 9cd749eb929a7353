"""Block descent on the dual of a kernel multiclass SVM: exact minimisation of one row of alpha at a time.

    visit row i:    alpha_i <- argmax of the dual over row i, the others fixed;   F += K_i (new - old)'

Three levels of memory, because a kernel value costs far more than its use:

    all n rows      scores F = K alpha; the gaps of the rows choose the working set         maths: kernel SVM, section 4
    working set     the square of K over its rows, in main memory; epochs over random pieces until its gap is a tenth.
                    They read it in float32, unless a round aims for a gap that this does not show
    piece           a few hundred rows whose square of K fits into the processor's cache: a few sweeps of visits, then
                    the scores of the rest of the working set are updated. A small set is one piece

Where few entries of alpha can move, as there are many classes, sweeps go over these alone, with a small square of K for
every class in the place of pieces (``_entry_squares``)                                    maths: kernel SVM, section 12

Updating all n scores takes n kernel values for every row that moves for the first time. So the set starts small, and
where it is small beside n a round goes deep: rows that need not move are then back where they were.

Pieces are random and drawn anew every epoch: rows of different pieces do not see each other's moves before the piece is
done, so fixed pieces, or pieces of one class, converge slowly. No visit lowers the dual value.

Where C is large and samples are alike, descent crawls. Six things end that                maths: kernel SVM, section 10

    prices          C begins small, and rises with a multiple of alpha that is nearly the solution for it
    equal samples   of different labels start at their bounds, where they cancel
    momentum        every epoch begins beyond the point of the last one (``push_on``)
    odd rows        a round on the few rows whose gaps are far above the others' comes before one on all that count
    Newton steps    on the free entries (``_face``) after every ten epochs of a round, every second one where the set is
                    one piece and every one on entries, as long as they take no more multiplications (``face_work``)
                    than the epochs before them, and than those that the round still needs at the pace of the last ones
    scale           the model is the multiple of alpha with the least gap

A round goes no further than the proof needs for which the run aims (``core.aim``).

    maths           here
    alpha, F        state.alpha, state.scores     (n, k), F = K alpha
    K_aa, act       K, rows
    tot             state.gaps.sum()
"""

import math
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.blocks import BLOCK, find_block
from softmargin.core.aim import wanted_residual
from softmargin.core.deadline import is_time_up, leaving, seconds_for, share_of_time, time_left
from softmargin.core.protocols import KernelBlockProblem
from softmargin.losses.multiclass_hinge import margins
from softmargin.solvers.common.contradictions import raise_contradictions
from softmargin.solvers.kernel_svm._descent_state import KernelBlockDescentTuning, KernelDescentState, epoch_work
from softmargin.solvers.kernel_svm._dual_rows import DualRowSolver, active_rows, first_rows, open_rows
from softmargin.solvers.kernel_svm._face import FaceTuning
from softmargin.solvers.kernel_svm._working_square import ROUNDING, WorkingSquare

__all__ = ["KernelBlockDescent", "KernelBlockDescentTuning", "KernelDescentState"]

Array = NDArray[Any]


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
        price = self._first_price(problem, order) if self.working_set and not alpha.any() else 1.0
        now, damping = problem.at_prices(price), self.face_tuning.damping
        if self.working_set:
            raise_contradictions(now, problem.gram.X, problem.gram.diagonal, alpha)
        gaps = now.gaps(alpha, scores)
        own = (order, random, self.tuning.first_set)
        return KernelDescentState(alpha, scores, gaps, *own, damping=damping, price=price)

    def _first_price(self, problem: KernelBlockProblem, rows: Array) -> float:
        """Return the share of C with which a fit begins: less than 1 where rows are stiff and many.

        Of few rows a factor takes less time than the epochs before it, and Newton steps end soon what crawls.
        """
        n, tuning = len(rows), self.tuning
        if n**3 / 6.0 <= tuning.patience * epoch_work(tuning, n) or not self._is_stiff(problem, rows).any():
            return 1.0
        return min(tuning.first_price / float(np.mean(problem.C[rows] * problem.gram.diagonal[rows])), 1.0)

    def step(self, problem: KernelBlockProblem, state: KernelDescentState) -> KernelDescentState:
        """Make one round on a working set, or one pass over all rows."""
        if state.price < 1.0:
            self._round(problem.at_prices(state.price), state)
            self._raise_price(problem, state)
            return state
        if self.working_set:
            self._round(problem, state)
        else:
            for first in range(0, len(state.order), problem.gram.largest_square):
                rows = np.sort(state.order[first : first + problem.gram.largest_square])
                self.descend(problem, state, rows, 1.0, 1)
        state.gaps = problem.gaps(state.alpha, state.scores)
        may_scale = self.working_set and self._is_stiff(problem, state.order).any()
        if may_scale and (state.epochs > self.tuning.patience or problem.room(state.alpha) > 1.0):
            state.scale, _ = problem.best_scale(state.alpha, state.scores)
        else:
            state.scale = 1.0
        return state

    def _raise_price(self, problem: KernelBlockProblem, state: KernelDescentState) -> None:
        """Let C rise, and alpha with it, where the gap at the C in force is small: maths: kernel SVM, eq. 35.

        Where alpha would rise little, or few entries are at C, C gets its own value at once.
        """
        tuning, alpha, scores = self.tuning, state.alpha, state.scores
        now = problem.at_prices(state.price)
        state.gaps = now.gaps(alpha, scores)
        is_held = _share_at_bounds(now, alpha) > tuning.held
        # A kernel that is not positive semidefinite may have rows that stand still beside a gap.
        if is_held and state.moved > 0.0 and now.relative_gap(alpha, scores, state.gaps) > tuning.price_gap:
            return
        own, energy = float(alpha[np.arange(len(problem.y)), problem.y].sum()), float(np.vdot(alpha, scores))
        most = 1.0 / state.price
        rise = min(own / energy, most) if energy > 0.0 else most
        state.price = state.price * rise if is_held and tuning.price_rise < rise < most else 1.0
        now = problem.at_prices(state.price)
        state.alpha, state.scores = now.feasible(rise * alpha), rise * scores
        raise_contradictions(now, problem.gram.X, problem.gram.diagonal, state.alpha)
        state.gaps = now.gaps(state.alpha, state.scores)
        state.epochs, state.has_odd, state.damping = 0, True, self.face_tuning.damping

    def _is_stiff(self, problem: KernelBlockProblem, rows: Any) -> Array:
        """Say of some rows whether many visits lie between zero and C."""
        return np.asarray(problem.C[rows] * problem.gram.diagonal[rows] > self.tuning.stiff)

    def point(self, problem: KernelBlockProblem, state: KernelDescentState) -> Any:
        """Return the model: the dual rows, or a multiple of them."""
        return problem.point(state.scale * state.alpha)

    def estimate(self, problem: KernelBlockProblem, state: KernelDescentState) -> float:
        """Return the relative gap between the model and the dual rows, by the updated scores."""
        gaps = state.gaps if state.price == 1.0 else None
        return problem.relative_gap(state.alpha, state.scores, gaps, scale=state.scale)

    def _round(self, problem: KernelBlockProblem, state: KernelDescentState) -> None:
        """Choose a working set and descend on it, after its odd rows."""
        tuning, gram = self.tuning, problem.gram
        self._descend_on_odd(problem, state)
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
        share = max(share, self._enough(problem, state, rows))
        state.moved = self.descend(problem, state, rows, share, tuning.max_epochs) / max(len(rows), 1)
        growth = tuning.growth_of_many if state.moved > tuning.most else tuning.growth
        state.largest_set = min(max(growth * len(rows), tuning.first_set), gram.n + 1)

    def _enough(self, problem: KernelBlockProblem, state: KernelDescentState, rows: Array) -> float:
        """Return the share of the gaps of some rows that may be left, beside those of the others, where a run ends."""
        gap, all_gaps = float(state.gaps[rows].sum()), float(state.gaps.sum())
        left = self.tuning.enough * wanted_residual() * _dual_value(problem, state) - (all_gaps - gap)
        return left / gap if gap > 0.0 else 0.0

    def _descend_on_odd(self, problem: KernelBlockProblem, state: KernelDescentState) -> None:
        """Descend on the rows whose gaps are far above the mean of the rows that count, for at most an epoch's time.

        These are often samples that are like one of another class, whose entries must grow far together: that one is
        of the set, too. Where all rows crawl none is odd, and where odd ones gain little others are worth more.
        """
        tuning, gram, epochs, damping = self.tuning, problem.gram, state.epochs, state.damping
        if not state.has_odd or epochs > tuning.patience or not self._is_stiff(problem, state.order).any():
            return
        rows = active_rows(problem, state, state.gaps, share=tuning.active_share)
        if len(rows) <= tuning.alone:
            return
        odd = rows[self._is_stiff(problem, rows) & (state.gaps[rows] > tuning.odd * state.gaps[rows].mean())]
        if not 0 < len(odd) <= gram.largest_rows or not gram.has_room_for(odd):
            return
        likeness = 2.0 * gram.rows(odd) - gram.diagonal
        likeness[np.arange(len(odd)), odd] = -np.inf
        odd = np.union1d(odd, np.intersect1d(likeness.argmax(axis=1), state.order))
        most = int(epoch_work(tuning, len(rows)) / epoch_work(tuning, len(odd)))
        if most > 1:
            before = _dual_value(problem, state)
            self.descend(problem, state, odd, tuning.crawl_target, min(most, tuning.max_epochs))
            after = _dual_value(problem, state)
            state.has_odd = after - before > tuning.odd_gain * after
            state.gaps, state.epochs, state.damping = problem.gaps(state.alpha, state.scores), epochs, damping

    def descend(
        self, problem: KernelBlockProblem, state: KernelDescentState, rows: Array, share: float, epochs: int
    ) -> int:
        """Descend on some rows until their gap is this share of what it was, then update all scores.

        Returns how many rows moved.
        """
        if len(rows) == 0:
            return 0
        rng = np.random.default_rng(state.random[0])
        gap, value = max(float(state.gaps[rows].sum()), 0.0), max(_dual_value(problem, state), 0.0)
        target = share * gap
        if state.price < 1.0:
            target = max(target, 0.5 * self.tuning.price_gap * value)
        patience, is_single, before, n_before = self.tuning.patience, epochs == 1, math.inf, 0
        # Errors of float32 are in proportion to the moves, and these to the root of the gap.
        is_sharp = is_single or target <= self.tuning.narrow * math.sqrt(value * min(gap, value))
        is_narrow = state.may_be_narrow and not is_sharp
        part = WorkingSquare(problem, state, rows, self, is_narrow=is_narrow)
        with self._time_of_epochs(problem, rows):
            for n_epochs in range(1, epochs + 1):
                found = part.epoch(rng, is_single=is_single, target=target)
                state.credit += part.work_done
                state.work += part.work_done
                part.turn_back()
                if found <= target or n_epochs == epochs or is_time_up():
                    break
                is_long = n_epochs > patience and n_epochs % self.tuning.look == 0
                if is_long and self._is_done(problem, part, rows, target):
                    break
                if n_epochs == 1:
                    before = found
                elif n_epochs % part.patience == 0:
                    left = _steps_left(before, found, target) * (n_epochs - n_before) * part.work_done
                    newton = part.face_step(min(state.credit, left))
                    state.credit -= newton
                    state.work += newton
                    before, n_before = found, n_epochs
                part.push_on()
            if n_epochs > patience and not part.is_on_entries and not is_time_up():
                part.epoch(rng, is_single=False)  # without momentum: it leaves large gaps
        state.random[:], state.damping, state.epochs = part.random, part.damping, n_epochs
        return self._take(problem, state, rows, part)

    def _take(self, problem: KernelBlockProblem, state: KernelDescentState, rows: Array, part: WorkingSquare) -> int:
        """Take the rows of a set where a round led them, and update all scores; return how many rows moved.

        Where samples are so alike that float32 does not tell them apart, its gain is not one: then none is taken.
        """
        before, change = state.scores.copy() if part.is_narrow else None, part.alpha - state.alpha[rows]
        problem.gram.add_change(state.scores, rows, change)
        if before is not None:
            gain = part.gain_with(state.scores[rows].T)
            state.may_be_narrow = gain >= self.tuning.held_gain * part.gain_with(part.scores)
            if gain < 0.0:
                state.scores = before
                return 0
        state.alpha[rows] = part.alpha
        return int(change.any(axis=1).sum())

    def _is_done(self, problem: KernelBlockProblem, part: WorkingSquare, rows: Array, target: float) -> bool:
        """Say whether a multiple of the rows, near to them, has the gap for which a round aims.

        A set of one piece goes on: its epochs and Newton steps take little time.
        """
        if part.n_pieces == 1:
            return False
        scale, gap = problem.best_scale(part.alpha, part.scores.T, rows)
        return abs(scale - 1.0) <= self.tuning.scale_off and gap <= target

    def _time_of_epochs(self, problem: KernelBlockProblem, rows: Array) -> Any:
        """Return the time that epochs over some rows may take, as a context: the rest is for the update of scores."""
        if time_left() == math.inf:
            return nullcontext()
        if problem.gram.is_kept(rows):
            return leaving(self.tuning.update * seconds_for(problem.gram.scores_work(rows, problem.n_classes)))
        return share_of_time(self.tuning.share)


def _share_at_bounds(problem: KernelBlockProblem, alpha: Array) -> float:
    """Return the share of sum_i alpha_iy that is at bounds C, and rises with them."""
    own = alpha[np.arange(len(problem.y)), problem.y]
    weights = own[:, None] if problem.multiclass == "crammer_singer" else np.maximum(-alpha, 0.0)
    held, total = weights[weights >= (1.0 - ROUNDING) * problem.C[:, None]].sum(), own.sum()
    return float(held / total) if total > 0.0 else 0.0


def _dual_value(problem: KernelBlockProblem, state: KernelDescentState) -> float:
    """Return D at alpha, by the updated scores."""
    own = state.alpha[np.arange(len(problem.y)), problem.y]
    return float(own.sum() - 0.5 * np.vdot(state.alpha, state.scores))


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
