"""Descent on the dual of a two-class kernel SVM: repeated steps on the best pair of variables of a working set.

Rows of two classes have one variable, alpha_i = (-u_i, u_i) / 2, whatever the multiclass loss:

    maximise over u:   sum_i y_i u_i - 1/2 u'K u ,   0 <= y_i u_i <= 2 C_i ;   y = -1, +1                      (1)
    gap     = sum_i max(S_i rise_i, S_i fall_i) ,   S = y - K u ,   u_i may move by fall_i <= 0 <= rise_i      (2)

(1) and (2) are twice the dual value and the gap of the problem. One round:

    choose      the samples inside their bounds, those whose gap counts, and neighbours that have moved before
    descend     by pairs on the square of K over them (``_pair_loop``), until their gap is a small share of what it was
    update      the scores of all n samples: this takes rows of K for those that moved, the costliest part by far

So a round goes deep: samples that need not move are then back where they were. Sets grow from a few hundred samples:
the first ones show which of the others matter. Nothing lowers (1).

    paper, maths    here
    alpha           state.u                 (n,)
    K alpha         state.scores            (n, 1)
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.loops import in_chunks
from softmargin.core.certificate import relative_gap
from softmargin.core.deadline import alarm, share_of_time
from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import KernelBlockProblem
from softmargin.solvers.common.working_set import by_score, choose_rows
from softmargin.solvers.kernel_svm._dual_rows import DualRowSolver, first_rows, open_rows
from softmargin.solvers.kernel_svm._pair_loop import Square, descend_free_pairs

__all__ = ["KernelPairDescent", "KernelPairDescentTuning", "KernelPairState"]

Array = NDArray[Any]


class KernelPairDescentTuning(NamedTuple):
    """The constants of the descent: by hand on the sets raced against LIBSVM (docs/results/peers.md), unless said."""

    alone: int = 500  # samples up to which all are one working set: their K costs no more than the rounds it saves
    first_set: int = 300  # samples in the first working set of more
    growth: int = 2  # how many times larger the next set may be: maths: kernel SVM, section 8
    target: float = 0.02  # share of its gap that a round leaves of a set ...
    deep_target: float = 0.001  # ... and where all its samples moved before, or there are no others: updates are cheap
    active_share: float = 0.01  # a gap counts above this share of the mean gap: maths: kernel SVM, section 8
    near: float = 0.2  # a sample this near to its margin may move after others did
    share: float = 0.5  # of the time left, for the descent; the rest updates the scores
    max_updates: int = 40  # per sample in one round
    check_every: int = 32  # updates between two evaluations of the gap


@dataclass
class KernelPairState:
    """Arrays and plain numbers, which a checkpoint holds."""

    u: Array  # (n,)
    scores: Array  # (n, 1) K u
    order: Array  # the samples that can move, shuffled: those at bounds are taken in this order
    has_moved: Array  # (n,) samples whose rows of K were computed: cached, as far as memory allows
    largest_set: int

    positions: ClassVar[dict[str, str]] = {"order": "u"}


@dataclass(frozen=True)
class KernelPairDescent(DualRowSolver[KernelPairState]):
    """Descent by pairs on two classes; it has no settings. One step is one working set."""

    tuning: KernelPairDescentTuning = KernelPairDescentTuning()

    state_type = KernelPairState

    def start(self, problem: KernelBlockProblem, init: Any, rng: np.random.Generator) -> KernelPairState:
        """Begin at zero, or at a feasible point near ``init``."""
        if problem.n_classes != 2:
            raise IncompatibleError(
                f"KernelPairDescent needs two classes; this problem has {problem.n_classes}. Use KernelBlockDescent."
            )
        u = 2.0 * first_rows(problem, init)[:, 1]
        scores = problem.gram.scores(u[:, None])
        order = rng.permutation(open_rows(problem))
        tuning = self.tuning
        first_set = tuning.alone if len(order) <= tuning.alone else tuning.first_set
        return KernelPairState(u, scores, order, u != 0.0, first_set)

    def step(self, problem: KernelBlockProblem, state: KernelPairState) -> KernelPairState:
        """Make one round."""
        S, rise, fall = _slopes(problem, state)
        gaps = np.maximum(S * rise, S * fall)
        rows = self._working_set(problem, state, S, gaps)
        m = len(rows)
        if m == 0:
            return state
        tuning = self.tuning
        S, rise, fall = in_chunks(S[rows], 0.0), in_chunks(rise[rows], 0.0), in_chunks(fall[rows], 0.0)
        diagonal = in_chunks(problem.gram.diagonal[rows], 1.0)
        square = Square(problem.gram.square(rows), diagonal, S, rise, fall, np.zeros(len(S)))
        share = tuning.deep_target if m == problem.gram.n or state.has_moved[rows].all() else tuning.target
        target = share * float(gaps[rows].sum())
        with share_of_time(tuning.share):
            descend_free_pairs(square, tuning.max_updates * m, target, tuning.check_every, alarm())
        is_positive, C = problem.y[rows] == 1, 2.0 * problem.C[rows]
        used, left = np.where(is_positive, (-fall[:m], rise[:m]), (rise[:m], -fall[:m]))
        # A variable that reached its bound is set to it: the sum of its moves misses it by rounding.
        size = np.where(left == 0.0, C, np.minimum(used, C))
        new = np.where(is_positive, size, -size)
        change = new - state.u[rows]
        problem.gram.add_change(state.scores, rows, change[:, None])
        state.u[rows] = new
        state.has_moved[rows] |= change != 0.0
        state.largest_set = max(tuning.growth * m, state.largest_set)
        return state

    def point(self, problem: KernelBlockProblem, state: KernelPairState) -> Any:
        """Return the dual rows."""
        return problem.point(np.outer(state.u, (-0.5, 0.5)))

    def estimate(self, problem: KernelBlockProblem, state: KernelPairState) -> float:
        """Return the relative gap by the updated scores."""
        S, rise, fall = _slopes(problem, state)
        dual = float(np.abs(state.u).sum()) - 0.5 * float(state.u @ state.scores[:, 0])
        return relative_gap(dual + float(np.maximum(S * rise, S * fall).sum()), dual)

    def _working_set(self, problem: KernelBlockProblem, state: KernelPairState, S: Array, gaps: Array) -> Array:
        """Return the samples of a round, sorted: those inside their bounds, those whose gap counts, and neighbours.

        Neighbours take the room that is left. Those that never moved, whose rows of K are not cached, are added only
        where rows cannot be cached: a round that left them out would cost its kernel values again.
        """
        gram, order, tuning = problem.gram, state.order, self.tuning
        most = min(state.largest_set, gram.largest_square)
        size = np.abs(state.u[order])
        is_inside = (size > 0.0) & (size < 2.0 * problem.C[order])
        rows = choose_rows(order, is_inside, gaps, most, share=tuning.active_share, sort_others=False)
        if len(rows) == most:
            return rows
        is_outside = np.ones(gram.n, dtype=bool)
        is_outside[rows] = False
        near = order[is_outside[order] & (np.abs(S[order]) < tuning.near)]
        if gram.has_room_for(np.union1d(np.flatnonzero(state.has_moved), rows)):
            near = near[state.has_moved[near]]
        return np.sort(np.concatenate([rows, by_score(near, -np.abs(S))[: most - len(rows)]]))


def _slopes(problem: KernelBlockProblem, state: KernelPairState) -> tuple[Array, Array, Array]:
    """Return the gradient of (1), and how far every variable may rise and fall."""
    is_positive = problem.y == 1
    used = np.abs(state.u)
    left = 2.0 * problem.C - used
    S = np.where(is_positive, 1.0, -1.0) - state.scores[:, 0]
    return S, np.where(is_positive, left, used), -np.where(is_positive, used, left)
