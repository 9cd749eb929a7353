"""Block descent on the dual of a joint multiclass SVM: one sample's row of dual variables at a time, solved exactly.

    visit sample i:   s = W'x_i;   alpha_i <- argmax of the dual over row i, the others fixed;   W += x_i (new - old)'

    plain          every sample in turn, in a fresh random order each pass          paper 004, Algorithm 1
    working set    passes over the samples (and classes) that still move            maths: linear SVM, section 4

A working set is used between two full passes. A full pass visits every sample and class and adds up the gaps of the
rows as it finds them. Rows that moved and hold more than 1 / 100 of the mean gap form the set, each with the tiles of
classes that are in play. Passes over the set follow until their gap is 1 / 5 of that of the full pass; rows that do not
move twice in a row leave the set early, and so do tiles. The next full pass visits everything again, so no row is left
out for good. No visit lowers the dual value: the bound never falls. The start has samples that are equal but for their
labels raised (``common.contradictions``), which no visit to one of them can do.

Two classes have one variable a row and one column of weights (``_two_classes``).
Several threads visit a working set of dense rows on the square of their inner products (``_set_square``).
After every few passes comes a step to the best point in the span of the moves of the passes before (``_span``).

    maths           here
    alpha, W        state.alpha, state.weights      rows padded to whole tiles (backends.lanes)
    act             state.order[:state.n_active]
    tot             state.full_gap
"""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.lanes import WIDTH, zeros
from softmargin.blocks import BLOCK, NOTHING, Workspace
from softmargin.core.aim import wanted_residual
from softmargin.core.deadline import alarm, has_time_for
from softmargin.core.parameters import OneOf
from softmargin.core.protocols import BlockDualProblem
from softmargin.matrices.operator import SCATTERED
from softmargin.matrices.rows import as_rows
from softmargin.problems.multiclass_svm import DualPoint
from softmargin.solvers.common.contradictions import raise_contradictions
from softmargin.solvers.common.resumable import Resumable
from softmargin.solvers.common.span import SpanTuning, due_moves, more_damping, next_span, note_move, note_point
from softmargin.solvers.linear_svm._block_loop import (
    BlockDual,
    Pace,
    Stand,
    Visits,
    demand_finite,
    descend,
    dual_value,
    make_rounds,
    open_first,
)
from softmargin.solvers.linear_svm._set_square import SetSquare
from softmargin.solvers.linear_svm._span import add_changes, spanned_rows
from softmargin.solvers.linear_svm._two_classes import (
    columns_of,
    held_alpha,
    held_weights,
    held_width,
    labels_of,
    seen_by_passes,
)

__all__ = ["DescentState", "DualBlockDescent", "pass_work", "step_passes"]

Array = NDArray[Any]


class DualBlockDescentTuning(NamedTuple):
    """The constants of the descent."""

    active_share: float = 0.01  # a row is active above this share of the mean gap: maths: linear SVM, section 6
    # Share of all rows above which a full pass costs little more than the set: maths: linear SVM, section 6
    largest_set: float = 0.7
    set_target: float = 0.2  # share of the full pass's gap at which a set is done: maths: linear SVM, section 6
    max_set_passes: int = 40  # over one set: maths: linear SVM, section 6
    least_visits: int = 1000  # of a step and of a round, where rows are few: they take as long as their calls
    least_of_one: int = 4000  # the same of one variable: such visits take 0.37 to 0.68 of the time; by hand
    patience: int = 2  # visits without a move before a row leaves the set: by hand
    slack: float = 0.1  # a class whose margin is violated by more than -slack stays in play: by hand
    stale: float = 0.8  # gap at the end of a pass, as a share of the gaps added up while W improved: by hand
    screen_again: float = 0.1  # screen when the gap is this share of that at the last screening: by hand
    visit: float = 1900.0  # multiplications of BLAS in the time of a visit to a row, beside its numbers: 230 ns
    entry: float = 3.0  # the same of a number of a row and a class, of which a visit makes two
    stored: float = 10.0  # the same of sparse rows; timings, x86: 3.5 to 8 times as long on mnist, tdt2 and 20ng
    visit_of_one: float = 200.0  # of a visit to one variable: 25 ns
    one: float = 0.65  # of the time of a number of a row and a class in a visit to one variable: 0.6 and 0.7


@dataclass
class DescentState:
    """Arrays and plain numbers, which a checkpoint holds, and scratch."""

    alpha: Array  # (n * k,)      k padded; 1 for two classes
    weights: Array  # ((d + 1) * k,)
    order: Array  # (n,) samples; the first n_open can move, the first n_active are in the working set
    gaps: Array  # (n,) gap of each row when last visited, 0 where it did not move
    idle: Array  # (n,) visits without a move
    live: Array  # (n * words,) bit t of a row: tile t is in play
    sqnorms: Array  # (n,)
    random: Array  # (1,) state of the shuffle
    moves: Array  # (1 + r, alpha and weights): their values at the last step in the span of the moves, r moves; or none
    n_open: int
    n_active: int = 0  # 0: the next pass is a full one
    visits_left: int = 0
    full_gap: float = math.inf
    gap: float = math.inf  # summed over the last pass
    screened: float = math.inf  # gap at the last screening
    passes_left: int = 0  # before the next step in the span of the moves
    interval: int = 0  # passes between two of them
    n_useless: int = 0  # of them in a row
    span_dual: float = 0.0  # value after the last one
    n_spans: int = 0  # such steps made
    damping: float = 0.0  # of the next one
    n_rounds: int = 0  # of full passes, or over a set
    loop: Any = field(default=None, init=False, repr=False)  # the structs of the compiled passes, made by the first one

    positions: ClassVar[dict[str, str]] = {"order": "gaps", "n_open": "order", "n_active": "order"}
    tiles: ClassVar[dict[str, tuple[str, str]]] = {"live": ("gaps", "alpha")}
    grows: ClassVar[dict[str, tuple[str, int]]] = {"moves": ("moves", 0)}


@dataclass(frozen=True)
class DualBlockDescent(Resumable):
    """Settings of the descent.

    Parameters
    ----------
    block : {"auto", "newton", "sort", "greedy", "projection"} or block object
        How one row is minimised; "auto" is Newton for Weston-Watkins and the projection for Crammer-Singer. "sort" is
        the paper's Algorithm 2, "greedy" Shark's scheme, which leaves KKT violations of 1e-6 as the paper's code does;
        ``WestonWatkinsGreedy(accuracy=1e-4)`` of ``softmargin.blocks`` leaves others.
    working_set : bool
        Pass over the samples and classes that still move; False is the paper's plain Algorithm 1.
    order : {"permuted", "cyclic"}
        A fresh random order every pass, or 0, 1, 2, ...
    screening : bool
        Remove rows for good once the gap proves their optimum (maths: linear SVM, section 5).
    tuning : DualBlockDescentTuning
    span_tuning : SpanTuning
        Of the steps in the span of the last moves.
    """

    block: Any = "auto"
    working_set: bool = True
    order: str = "permuted"
    screening: bool = False
    tuning: DualBlockDescentTuning = DualBlockDescentTuning()
    span_tuning: SpanTuning = SpanTuning()

    allowed: ClassVar = {
        "block": BLOCK,
        "order": (OneOf("permuted", "cyclic"),),
    }
    needs: ClassVar[tuple[type, ...]] = (BlockDualProblem,)
    state_type = DescentState

    def start(self, problem: BlockDualProblem, init: Any, rng: np.random.Generator) -> DescentState:
        """Allocate, from a first point or from nothing; rows with x_i = 0 get their optimum at once."""
        n, k, size = len(problem.y), problem.n_classes, held_width(problem)
        sqnorms, order = np.empty(n), np.empty(n, dtype=np.int64)
        n_open = open_first(as_rows(problem.X, problem.bias), problem.C, NOTHING, sqnorms, order)
        demand_finite(sqnorms)
        numbers = zeros((n + problem.X.shape[1] + 1) * size)
        alpha, weights = numbers[: n * size], numbers[n * size :]
        rows = np.zeros((n, k)) if init is None else problem.feasible(init.alpha)
        closed = order[n_open:]
        if len(closed):
            empty = closed[sqnorms[closed] < NOTHING]
            rows[empty] = problem.loss.at_zero_scores(problem.y[empty], problem.C[empty], k)
        if self.working_set:
            raise_contradictions(problem, problem.X, sqnorms, rows)
        held_alpha(problem, rows, alpha)
        if init is not None:
            held_weights(problem, problem.point(rows).weights, weights)
        if size == 1:
            sqnorms *= 2.0  # of the rows of the passes
        # Few classes have too few tiles to leave any out.
        words = -(-(size // WIDTH) // 64) if self.working_set and size > 2 * WIDTH else 0
        return DescentState(
            alpha=alpha,
            weights=weights,
            order=order,
            gaps=np.zeros(n),
            idle=np.zeros(n, dtype=np.uint8),
            live=np.zeros(n * words, dtype=np.uint64),
            sqnorms=sqnorms,
            random=rng.integers(1, 2**63, size=1, dtype=np.uint64),
            moves=np.empty((0, len(numbers))),
            n_open=n_open,
            passes_left=self.span_tuning.after,
        )

    def step(self, problem: BlockDualProblem, state: DescentState) -> DescentState:
        """Make one full pass, or passes over the working set that cost about as much; where rows are few, several."""
        if state.loop is None:
            state.loop = self.structs(problem, state)
        if not self.working_set:
            state.gap, _, _ = descend(*state.loop, state.n_open, True, math.inf, 0, alarm())
            state.full_gap = state.gap
            self._screen_where_due(problem, state)
            return state
        self._span(problem, state)
        square = SetSquare(problem, self.block)
        if state.n_active and square.pays(state.n_active):
            rows, target = np.sort(state.order[: state.n_active]), self.tuning.set_target * state.full_gap
            alpha, weights = columns_of(problem, state.alpha, state.weights)
            state.gap, state.n_active = square.descend(rows, alpha, weights, state.random, target), 0
            held_alpha(problem, alpha, state.alpha)
            held_weights(problem, weights, state.weights)
            state.n_rounds += 1
            return state
        self._make_rounds(problem, state, 1 if self.screening or square.may_pay() else 1 + state.passes_left)
        return state

    def _make_rounds(self, problem: BlockDualProblem, state: DescentState, most: int) -> None:
        """Make a full pass, or passes over the working set; where rows are few, more rounds of both follow.

        There are at most so many that a step in the span of the moves comes in time; one where the set may go to its
        square, or rows may be screened.
        """
        tuning, is_full = self.tuning, state.n_active == 0
        # Where tiles are left out, passes over a set are cheaper whatever its size.
        largest = tuning.largest_set if len(state.live) == 0 else 1.0
        pace = Pace(
            *(tuning.set_target, tuning.max_set_passes, _least_visits(problem, tuning), tuning.active_share, largest),
            *(tuning.stale, wanted_residual()),
        )
        at = Stand(state.n_active, state.visits_left, state.full_gap)
        state.gap, at, n_rounds = make_rounds(*state.loop, at, pace, state.n_open, most, alarm())
        state.n_active, state.visits_left, state.full_gap = at
        state.passes_left -= n_rounds - 1
        state.n_rounds += n_rounds
        if is_full:
            self._screen_where_due(problem, state)

    def _span(self, problem: BlockDualProblem, state: DescentState) -> None:
        """After some passes, go to the best point in the span of the last moves."""
        if state.passes_left > 0:
            state.passes_left -= 1
            return
        tuning, n, size = self.span_tuning, len(problem.y), held_width(problem)
        most = due_moves(state.moves.shape[1], tuning)
        if most == 0 or not has_time_for(SCATTERED * tuning.moves * state.moves.shape[1]):
            return
        loop, _, work = state.loop
        dual = dual_value(loop.y, state.alpha, state.weights, size)
        every = math.ceil(tuning.share * max(tuning.entry * n * size / pass_work(problem), 1.0))
        if len(state.moves) == 0:
            state.moves = np.empty((1, state.moves.shape[1]))
            note_point(state)
            state.interval, state.passes_left, state.span_dual = every, every - 1, dual
            return
        move = note_move(state, most)
        alpha = state.alpha.reshape(n, size)
        new = spanned_rows(problem, alpha, state.weights, state.moves[1:], state.damping, tuning.rank)
        change, rise = new - alpha, zeros(len(state.weights))
        add_changes(loop.rows, change.reshape(-1), work, rise)
        gain = float(change[np.arange(n), loop.y].sum() - (state.weights + 0.5 * rise) @ rise)
        if gain > 0.0:
            alpha[:] = new
            state.weights += rise
            move[0][:] += change.reshape(-1)
            move[1][:] += rise
            state.damping *= tuning.fall
        else:
            state.damping = float(more_damping(state.damping, state.sqnorms, tuning))
        note_point(state)
        next_span(state, every, max(gain, 0.0), dual, tuning)

    def _screen_where_due(self, problem: BlockDualProblem, state: DescentState) -> None:
        """Screen after a full pass where the gap has clearly fallen."""
        if self.screening and state.gap <= self.tuning.screen_again * state.screened:
            self._screen(problem, state)
            state.n_active = 0  # rows of the set may be fixed now

    def work_done(self, state: DescentState) -> float:
        """Count the rounds so far: where rows are few, a step makes several."""
        return float(state.n_rounds)

    def point(self, problem: BlockDualProblem, state: DescentState) -> Any:
        """Return the dual rows and the weights; the certificate recomputes X' alpha, which the weights drift from."""
        return DualPoint(*columns_of(problem, state.alpha, state.weights))

    def estimate(self, problem: BlockDualProblem, state: DescentState) -> float:
        """Estimate the relative gap from the gaps of the rows, summed as the last pass found them."""
        primal = dual_value(labels_of(problem), state.alpha, state.weights, held_width(problem)) + state.gap
        return self.tuning.stale * state.gap / primal if primal > 0 else math.inf

    def structs(self, problem: BlockDualProblem, state: DescentState) -> tuple[BlockDual, Visits, Workspace]:
        """Return the structs of the compiled passes."""
        rows, block, work = seen_by_passes(problem, self.block)
        dual = BlockDual(rows, block, labels_of(problem), problem.C, state.sqnorms, state.alpha, state.weights)
        visits = (state.order, state.gaps, state.idle, state.live, state.random)
        settings = (self.order == "permuted", self.tuning.patience, self.tuning.slack)
        return dual, Visits(*visits, *settings), work

    def _screen(self, problem: BlockDualProblem, state: DescentState) -> None:
        """Set the rows whose optimum is proven to it, and visit them no more."""
        state.screened = state.gap
        rows, values = problem.screened(self.point(problem, state))
        alpha, _ = columns_of(problem, state.alpha, state.weights)
        alpha[rows] = values
        held_alpha(problem, alpha, state.alpha)
        held_weights(problem, problem.point(alpha).weights, state.weights)
        inside = state.order[: state.n_open]
        is_fixed = np.isin(inside, rows)
        state.order[: state.n_open] = np.concatenate([inside[~is_fixed], inside[is_fixed]])
        state.n_open -= int(is_fixed.sum())
        state.moves, state.n_spans = state.moves[:0], 0  # these rows have moved


def _least_visits(problem: BlockDualProblem, tuning: DualBlockDescentTuning) -> int:
    """Return how many visits a step and a round make at least, where rows are few."""
    return tuning.least_of_one if held_width(problem) == 1 else tuning.least_visits


def step_passes(problem: BlockDualProblem) -> float:
    """Return how many passes a step makes at most, where rows are few."""
    return max(1.0, _least_visits(problem, DualBlockDescentTuning()) / max(len(problem.y), 1))


def pass_work(problem: BlockDualProblem) -> float:
    """Return how many multiplications of BLAS take about as long as a pass over all rows; by timings on one core."""
    tuning = DualBlockDescentTuning()
    X = problem.X
    visit, columns = tuning.visit, float(problem.n_classes)
    if held_width(problem) == 1:
        visit, columns = tuning.visit_of_one, tuning.one
    numbers = tuning.entry * X.size if isinstance(X, np.ndarray) else tuning.stored * X.nnz
    return visit * len(problem.y) + 2.0 * numbers * columns
