"""Descent on the dual of a two-class kernel SVM: the best pair of variables again and again, on a working set.

Rows of two classes have one variable, alpha_i = (-u_i, u_i) / 2, whatever the multiclass loss:

    maximise over u:   sum_i y_i u_i - 1/2 u'K u ,   0 <= y_i u_i <= 2 C_i ;   y = -1, +1                      (1)
    gap     = sum_i max(S_i rise_i, S_i fall_i) ,   S = y - K u ,   u_i may move by fall_i <= 0 <= rise_i      (2)

(1) and (2) are twice the dual value and the gap of the problem. One round:

    choose      the samples whose gap counts, those inside their bounds, and neighbours that have moved before
    descend     by pairs on the square of K over them (``free_pairs``), until their gap is a small share of what it was
    tell        all n samples: this takes rows of K for those that moved, the costliest part by far

So a round goes deep, as samples that need not move are then back where they were; and sets grow from a few hundred
samples, as the first ones tell which of the others matter. Nothing lowers (1).

    paper, maths    here
    alpha           state.u                 (n,)
    K alpha         state.scores            (n, 1)
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.loops import CHUNK
from softmargin.core.certificate import duality_gap
from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import KernelBlockProblem
from softmargin.solvers.kernel_svm._dual_rows import first_rows, open_rows
from softmargin.solvers.kernel_svm._pair_loop import descend_free_pairs

__all__ = ["KernelPairDescent", "KernelPairState"]

Array = NDArray[Any]

ALONE = 500  # samples up to which all are one working set: their whole K costs no more than the rounds it saves
FIRST_SET = 300  # samples in the first working set of more
GROWTH = 2  # how many times larger the next one may be
TARGET = 0.02  # share of its gap that a round leaves of a working set ...
DEEP_TARGET = 0.001  # ... and where all its samples moved before, or there are no others: telling then costs little
ACTIVE_SHARE = 0.01  # a gap counts from this share of the mean gap
NEAR = 0.2  # a sample this near to its margin may well move after others did
UPDATES = 40  # a sample in one round at most


@dataclass
class KernelPairState:
    """Everything a run needs to go on."""

    u: Array  # (n,)
    scores: Array  # (n, 1) K u
    order: Array  # the samples that can move, shuffled: of those at bounds the first come first
    has_moved: Array  # (n,) samples whose rows of K were asked for: at hand, as far as memory goes
    largest_set: int


@dataclass(frozen=True)
class KernelPairDescent:
    """Descent by pairs on two classes; it has no settings. One step is one working set."""

    needs: ClassVar[tuple[type, ...]] = (KernelBlockProblem,)

    def start(self, problem: KernelBlockProblem, init: Any, rng: np.random.Generator) -> KernelPairState:
        """Begin at zero, or at a feasible point near ``init``."""
        if problem.n_classes != 2:
            raise IncompatibleError(
                f"KernelPairDescent needs two classes; this problem has {problem.n_classes}. Use KernelBlockDescent."
            )
        u = 2.0 * first_rows(problem, init)[:, 1]
        scores = problem.gram.scores(u[:, None])
        order = rng.permutation(open_rows(problem))
        return KernelPairState(u, scores, order, u != 0.0, ALONE if len(order) <= ALONE else FIRST_SET)

    def step(self, problem: KernelBlockProblem, state: KernelPairState) -> KernelPairState:
        """Make one round."""
        S, rise, fall = _slopes(problem, state)
        gaps = np.maximum(S * rise, S * fall)
        rows = _working_set(problem, state, S, gaps)
        m = len(rows)
        if m == 0:
            return state
        K = problem.gram.square(rows)
        S, rise, fall = _padded(S[rows], 0.0), _padded(rise[rows], 0.0), _padded(fall[rows], 0.0)
        diagonal = _padded(problem.gram.diagonal[rows], 1.0)
        share = DEEP_TARGET if m == problem.gram.n or state.has_moved[rows].all() else TARGET
        target = share * float(gaps[rows].sum())
        descend_free_pairs(K.reshape(-1), m, diagonal, S, rise, fall, np.zeros(len(S)), UPDATES * m, target)
        is_positive, C = problem.y[rows] == 1, 2.0 * problem.C[rows]
        used, left = np.where(is_positive, (-fall[:m], rise[:m]), (rise[:m], -fall[:m]))
        # Where a bound was reached u is that bound: sums of moves would miss it by rounding.
        size = np.where(left == 0.0, C, np.minimum(used, C))
        new = np.where(is_positive, size, -size)
        change = new - state.u[rows]
        problem.gram.add_change(state.scores, rows, change[:, None])
        state.u[rows] = new
        state.has_moved[rows] |= change != 0.0
        state.largest_set = max(GROWTH * m, state.largest_set)
        return state

    def point(self, problem: KernelBlockProblem, state: KernelPairState) -> Any:
        """Return the dual rows."""
        return problem.point(np.outer(state.u, (-0.5, 0.5)))

    def estimate(self, problem: KernelBlockProblem, state: KernelPairState) -> float:
        """Return the relative gap by the scores that were kept."""
        S, rise, fall = _slopes(problem, state)
        dual = float(np.abs(state.u).sum()) - 0.5 * float(state.u @ state.scores[:, 0])
        return duality_gap(dual + float(np.maximum(S * rise, S * fall).sum()), dual).residual

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> KernelPairState:
        """Rebuild the state from a checkpoint."""
        return KernelPairState(**arrays, **plain)


def _slopes(problem: KernelBlockProblem, state: KernelPairState) -> tuple[Array, Array, Array]:
    """Return the gradient of (1), and how far every variable may rise and fall."""
    is_positive = problem.y == 1
    used = np.abs(state.u)
    left = 2.0 * problem.C - used
    S = np.where(is_positive, 1.0, -1.0) - state.scores[:, 0]
    return S, np.where(is_positive, left, used), -np.where(is_positive, used, left)


def _working_set(problem: KernelBlockProblem, state: KernelPairState, S: Array, gaps: Array) -> Array:
    """Return the samples of a round, sorted; those inside their bounds may be half of it where there are too many.

    Neighbours take the room that is left. Those that never moved, whose rows are not at hand, are asked in only where
    rows cannot be kept: a round that overlooked them would be paid for again.
    """
    gram, order = problem.gram, state.order
    most = min(state.largest_set, gram.largest_square)
    size = np.abs(state.u[order])
    is_inside = (size > 0.0) & (size < 2.0 * problem.C[order])
    counts = ~is_inside & (gaps[order] > ACTIVE_SHARE * gaps[order].sum() / max(len(order), 1))
    inside, others = order[is_inside], order[counts]
    room = most - len(inside) - len(others)
    if room < 0:
        inside = inside[np.argsort(-gaps[inside], kind="stable")][: max(most // 2, most - len(others))]
        return np.sort(np.concatenate([inside, others])[:most])
    near = order[~is_inside & ~counts & (np.abs(S[order]) < NEAR)]
    if gram.has_room_for(np.union1d(np.flatnonzero(state.has_moved), others)):
        near = near[state.has_moved[near]]
    near = near[np.argsort(np.abs(S[near]), kind="stable")][:room]
    return np.sort(np.concatenate([inside, others, near]))


def _padded(values: Array, fill: float) -> Array:
    wide = np.full(-(-len(values) // CHUNK) * CHUNK, fill)
    wide[: len(values)] = values
    return wide
