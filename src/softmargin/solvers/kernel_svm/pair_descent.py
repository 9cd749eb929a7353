"""Descent on the dual of a two-class kernel SVM: repeated steps on the best pair of variables of a working set.

    maximise over u:   sum_i y_i u_i - 1/2 u'K u ,   0 <= y_i u_i <= c_i ;   y = -1, +1                        (1)
    gap     = sum_i max(S_i rise_i, S_i fall_i) ,   S = y - K u - b ,   u_i may move by fall_i <= 0 <= rise_i  (2)

    solver               problem                                                                       c_i     b
    KernelPairDescent    joint, two classes: alpha_i = (-u_i, u_i) / 2; (1), (2) are twice its own     2 C_i   0
    FreePairDescent      hinge with a free bias: u = y a, sum u = 0, one rises as the other falls      C_i     the best

One round:

    choose      the samples inside their bounds, those whose gap counts, and neighbours that have moved before
    descend     by pairs on the square of K over them (``_pair_loop``; ``common.smo_loop`` where sum u = 0), until their
                gap, or their violation, is a small share of what it was
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
from softmargin.core.protocols import FreeHingeProblem, KernelBlockProblem
from softmargin.problems.free_bias import BiasPoint
from softmargin.solvers.common.resumable import Resumable
from softmargin.solvers.common.rooms import rooms, sizes_after
from softmargin.solvers.common.smo_loop import DualVariables, descend_pairs
from softmargin.solvers.common.working_set import by_score, choose_rows
from softmargin.solvers.kernel_svm._dual_rows import first_rows, open_rows
from softmargin.solvers.kernel_svm._pair_loop import Square, descend_free_pairs

__all__ = ["FreePairDescent", "KernelPairDescent", "KernelPairDescentTuning", "KernelPairState"]

Array = NDArray[Any]


class KernelPairDescentTuning(NamedTuple):
    """The constants of the descent: by hand on the sets raced against LIBSVM (docs/results/peers.md), unless said."""

    alone: int = 500  # samples up to which all are one working set: their K costs no more than the rounds it saves
    first_set: int = 300  # samples in the first working set of more
    growth: float = 2.0  # how many times larger the next set may be: maths: kernel SVM, section 8
    few: float = 0.0  # share of the largest set below which so few samples moved that the next set ...
    growth_of_few: float = 1.1  # ... grows by this alone: its square would hold values that nobody needs
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


class PairRounds(Resumable):
    """What both descents share: a subclass says which problem it is, and how pairs move."""

    tuning: KernelPairDescentTuning

    state_type = KernelPairState

    def bounds(self, problem: Any) -> Array:
        """Return c; (n,)."""
        raise NotImplementedError

    def level(self, problem: Any, state: KernelPairState) -> float:
        """Return b."""
        raise NotImplementedError

    def descend(self, problem: Any, rows: Array, slopes: "_Slopes", share: float) -> tuple[Array, Array]:
        """Move pairs of ``rows`` until little is left to gain; return how far each may rise and fall thereafter."""
        raise NotImplementedError

    def begin(self, problem: Any, u: Array, order: Array) -> KernelPairState:
        """Return the first state."""
        scores = problem.gram.scores(u[:, None])
        tuning = self.tuning
        first_set = tuning.alone if len(order) <= tuning.alone else tuning.first_set
        return KernelPairState(u, scores, order, u != 0.0, first_set)

    def step(self, problem: Any, state: KernelPairState) -> KernelPairState:
        """Make one round."""
        slopes = self.slopes(problem, state)
        rows = self.working_set(problem, state, slopes)
        m = len(rows)
        if m == 0:
            return state
        tuning = self.tuning
        share = tuning.deep_target if m == problem.gram.n or state.has_moved[rows].all() else tuning.target
        with share_of_time(tuning.share):
            rise, fall = self.descend(problem, rows, slopes.at(rows), share)
        is_positive = problem.y[rows] == 1
        size = sizes_after(is_positive, rise, fall, self.bounds(problem)[rows])
        new = np.where(is_positive, size, -size)
        change = new - state.u[rows]
        problem.gram.add_change(state.scores, rows, change[:, None])
        state.u[rows] = new
        state.has_moved[rows] |= change != 0.0
        is_few = np.count_nonzero(change) < tuning.few * state.largest_set
        growth = tuning.growth_of_few if is_few else tuning.growth
        state.largest_set = max(int(growth * m), state.largest_set)
        return state

    def estimate(self, problem: Any, state: KernelPairState) -> float:
        """Return the relative gap by the updated scores."""
        dual = float(np.abs(state.u).sum()) - 0.5 * float(state.u @ state.scores[:, 0])
        return relative_gap(dual + float(self.slopes(problem, state).gaps.sum()), dual)

    def slopes(self, problem: Any, state: KernelPairState) -> "_Slopes":
        """Return the gradient of (1), how far every variable may move, and the gaps."""
        is_positive = problem.y == 1
        S = np.where(is_positive, 1.0, -1.0) - state.scores[:, 0] - self.level(problem, state)
        return _Slopes(S, *rooms(is_positive, np.abs(state.u), self.bounds(problem)))

    def working_set(self, problem: Any, state: KernelPairState, slopes: "_Slopes") -> Array:
        """Return the samples of a round, sorted: those inside their bounds, those whose gap counts, and neighbours.

        Neighbours take the room that is left. Those that never moved, whose rows of K are not cached, are added only
        where rows cannot be cached: a round that left them out would cost its kernel values again.
        """
        gram, order, tuning = problem.gram, state.order, self.tuning
        most = min(state.largest_set, gram.largest_square)
        is_inside = (slopes.rise[order] > 0.0) & (slopes.fall[order] < 0.0)
        rows = choose_rows(order, is_inside, slopes.gaps, most, share=tuning.active_share, sort_others=False)
        if len(rows) == most:
            return rows
        is_outside = np.ones(gram.n, dtype=bool)
        is_outside[rows] = False
        near = order[is_outside[order] & (np.abs(slopes.S[order]) < tuning.near)]
        if gram.has_room_for(np.union1d(np.flatnonzero(state.has_moved), rows)):
            near = near[state.has_moved[near]]
        return np.sort(np.concatenate([rows, by_score(near, -np.abs(slopes.S))[: most - len(rows)]]))


class _Slopes(NamedTuple):
    S: Array  # (n,)
    rise: Array  # (n,)
    fall: Array  # (n,)

    @property
    def gaps(self) -> Array:
        return np.asarray(np.maximum(self.S * self.rise, self.S * self.fall))

    def at(self, rows: Array) -> "_Slopes":
        return _Slopes(self.S[rows], self.rise[rows], self.fall[rows])


@dataclass(frozen=True)
class KernelPairDescent(PairRounds):
    """Descent by pairs on the joint SVM of two classes; it has no settings. One step is one working set."""

    tuning: KernelPairDescentTuning = KernelPairDescentTuning()

    needs: ClassVar[tuple[type, ...]] = (KernelBlockProblem,)

    def start(self, problem: KernelBlockProblem, init: Any, rng: np.random.Generator) -> KernelPairState:
        """Begin at zero, or at a feasible point near ``init``."""
        if problem.n_classes != 2:
            raise IncompatibleError(
                f"KernelPairDescent needs two classes; this problem has {problem.n_classes}. Use KernelBlockDescent."
            )
        return self.begin(problem, 2.0 * first_rows(problem, init)[:, 1], rng.permutation(open_rows(problem)))

    def bounds(self, problem: KernelBlockProblem) -> Array:
        """Return 2 C; (n,)."""
        return 2.0 * problem.C

    def level(self, problem: KernelBlockProblem, state: KernelPairState) -> float:
        """Return zero: a penalised bias is a part of K."""
        return 0.0

    def descend(self, problem: KernelBlockProblem, rows: Array, slopes: _Slopes, share: float) -> tuple[Array, Array]:
        """Move pairs until the gap of the set is a small share of what it was."""
        m, tuning = len(rows), self.tuning
        S, rise, fall = (in_chunks(values, 0.0) for values in slopes)
        diagonal = in_chunks(problem.gram.diagonal[rows], 1.0)
        square = Square(problem.gram.square(rows), diagonal, S, rise, fall, np.zeros(len(S)))
        target = share * float(slopes.gaps.sum())
        descend_free_pairs(square, tuning.max_updates * m, target, tuning.check_every, alarm())
        return rise[:m], fall[:m]

    def point(self, problem: KernelBlockProblem, state: KernelPairState) -> Any:
        """Return the dual rows."""
        return problem.point(np.outer(state.u, (-0.5, 0.5)))


@dataclass(frozen=True)
class FreePairDescent(PairRounds):
    """Descent by pairs on the hinge with a free bias; it has no settings. One step is one working set."""

    tuning: KernelPairDescentTuning = KernelPairDescentTuning(alone=1000, few=0.2)

    needs: ClassVar[tuple[type, ...]] = (FreeHingeProblem,)

    def start(self, problem: FreeHingeProblem, init: BiasPoint | None, rng: np.random.Generator) -> KernelPairState:
        """Begin at zero, or at a feasible point near ``init``."""
        u = np.zeros(len(problem.y)) if init is None else problem.y * problem.feasible(init.alpha)
        return self.begin(problem, u, rng.permutation(np.flatnonzero(problem.C > 0.0)))

    def bounds(self, problem: FreeHingeProblem) -> Array:
        """Return C; (n,)."""
        return problem.upper

    def level(self, problem: FreeHingeProblem, state: KernelPairState) -> float:
        """Return the best bias at the updated scores."""
        return problem.best_bias(state.scores[:, 0])

    def descend(self, problem: FreeHingeProblem, rows: Array, slopes: _Slopes, share: float) -> tuple[Array, Array]:
        """Move pairs until their violation is a small share of what it was."""
        m, tuning = len(rows), self.tuning
        S, rise, fall = slopes
        rises, falls = rise > 0.0, fall < 0.0
        up, low = np.where(rises, 0.0, -np.inf), np.where(falls, 0.0, np.inf)
        K, diagonal = problem.gram.square(rows), problem.gram.diagonal[rows]
        variables = DualVariables.of(K, S, rise, fall, diagonal, np.zeros(m), up, low)
        violation = float(S[rises].max(initial=-np.inf) - S[falls].min(initial=np.inf))
        descend_pairs(variables, tuning.max_updates * m, share * violation, tuning.check_every, alarm())
        return variables.rise[:m], variables.fall[:m]

    def working_set(self, problem: FreeHingeProblem, state: KernelPairState, slopes: _Slopes) -> Array:
        """Return the samples of a round, sorted: as for any descent by pairs, but both sides of the bias have some.

        The bias is that of one sample or a few: on one side of it many may violate their margins, and none beyond.
        """
        if len(state.order) <= self.tuning.alone:
            return np.sort(state.order)
        rows = super().working_set(problem, state, slopes)
        S, most = slopes.S, min(state.largest_set, problem.gram.largest_square)
        is_chosen = np.zeros(len(S), dtype=bool)
        is_chosen[rows] = True
        sides = [state.order[is_chosen[state.order] & side[state.order]] for side in (S > 0.0, S <= 0.0)]
        is_down = len(sides[0]) >= len(sides[1])  # those that fall are too few
        few, many = sides[::-1] if is_down else sides
        missing = min(len(many), most // 2) - len(few)
        if missing <= 0:
            return rows
        can_move = slopes.fall < 0.0 if is_down else slopes.rise > 0.0
        others = state.order[can_move[state.order] & ~is_chosen[state.order]]
        few = np.concatenate([few, by_score(others, -S if is_down else S)[:missing]])
        return np.sort(np.concatenate([few, many[: most - len(few)]]))

    def point(self, problem: FreeHingeProblem, state: KernelPairState) -> BiasPoint:
        """Return the dual variables with the best bias."""
        return BiasPoint(np.abs(state.u), self.level(problem, state))
