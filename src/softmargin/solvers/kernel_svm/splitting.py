"""Splitting on working sets for the dual of a kernel multiclass SVM: one inverse a round, whatever C.

    minimise f(alpha) = 1/2 <alpha, K alpha> - sum_i alpha_{i, y_i}   over the dual rows

A round moves some rows, A of them, and keeps the others. The quadratic and the constraints each have a copy of the
rows, A and Z, that must agree (the alternating direction method of multipliers); U is the multiplier over rho:

    M   = (K_aa + rho I)^-1                              once a round
    A   = A_0 + M (rho (Z - U - A_0) - G_0)              G_0: gradient at A_0, where the round begins
    T   = r A + (1 - r) Z + U                            over-relaxation
    Z   = nearest feasible rows to T ;   U = T - Z

U = -G_0 / rho belongs to the point where a round begins: at a solution K alpha - Y = -rho U. With U = 0 every round
would repeat a transient. Z is feasible; the one of the largest dual gain is kept, so that no round lowers the dual
value. The number of iterations hardly depends on C, whose only place is the set of feasible rows.

    maths           here                shape
    alpha, F        alpha, scores       (n, k)     F = K alpha, kept up to date
    act, K_aa       rows, K             (m,), (m, m)
    the inverse     M                   (m, m)
    rho (Z - U - A_0) - G_0   pull      (m, k)

Nested starts. Rows of large gaps among all n are the odd ones, and at first there are far more than a set holds. So the
first rounds choose from some samples, drawn; when the mean gap of these is a small share of that of the others, they
have no more to say, and several times as many are in play.

A set is kept, and with it its inverse, where it holds nearly all of the gap and another would be no smaller.

Precision. Where kernel values are float32, scores that are sums of them have an error that no round removes. Once the
gap by these scores is so small, they are computed by values in float64, and so is what a round adds to them. The
square and its inverse stay: their errors shrink with the changes that they multiply. A smaller rho suits the last
rounds; in the first ones it would make no gain within a round, and where none is made it rises.

Everything is an operation on whole arrays, also on a device. Source: maths: kernel SVM, section 11; Boyd et al. (2011).
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.deadline import check_time, is_time_up, share_of_time
from softmargin.core.protocols import KernelBlockProblem
from softmargin.solvers.kernel_svm._dual_rows import (
    DualRowSolver,
    active_rows,
    first_rows,
    open_rows,
    working_rows,
)

__all__ = ["Splitting", "SplittingState", "SplittingTuning"]

Array = NDArray[Any]


class SplittingTuning(NamedTuple):
    """The constants of splitting, most of them measured: maths: kernel SVM, section 11."""

    rho: float = 3.0  # times the mean of K_ii; 1.5 to 6 work as well
    late_share: float = 1.0 / 3.0  # of rho, below the relative gap ``late``: fewer iterations end a fit; measured
    late: float = float(np.finfo(np.float32).eps) ** 0.5  # sums of float32 values show no smaller gap
    firmer: float = 2.0  # times rho, after a round that gained nothing; by hand
    relaxation: float = 1.7
    first_set: int = 4000  # rows in the first working set
    growth: int = 2  # how many times larger the next set may be
    active_share: float = 0.02  # a gap counts above this share of the mean gap
    look: int = 10  # iterations between two looks at gap and gain
    set_target: float = 0.03  # share of its gap that a round leaves
    set_steps: int = 300  # most iterations of one round
    first_play: int = 60_000  # samples that the first rounds choose from, at least; by hand
    play_growth: int = 2  # how many times more are in play next
    play_share: float = 0.2  # of the mean gap of the others: a smaller one brings these into play; by hand
    kept_share: float = 0.1  # of the gap in play: what the last set may miss ...
    kept_size: float = 1.1  # ... and how many times the rows of another one it may have, to be kept; by hand
    share: float = 0.5  # of the time left, for the iterations of a round; the rest updates the scores; by hand


@dataclass
class SplittingState:
    """Arrays and plain numbers, which a checkpoint holds."""

    alpha: Array  # (n, k)
    scores: Array  # (n, k)
    gaps: Array  # (n,) at these scores
    order: Array  # the samples whose rows can move, shuffled: rows of equal gaps are taken in this order
    largest_set: int
    in_play: int  # so many of them are chosen from
    rows: Array  # the last working set
    rho: float  # times the mean of K_ii
    is_wide: bool = False  # scores are sums of float64 values

    positions: ClassVar[dict[str, str]] = {"order": "alpha", "rows": "alpha", "in_play": "order"}
    grows: ClassVar[dict[str, tuple[str, int]]] = {"rows": ("m", 0)}


@dataclass(frozen=True)
class Splitting(DualRowSolver[SplittingState]):
    """Settings of splitting.

    Parameters
    ----------
    tuning : SplittingTuning
    """

    tuning: SplittingTuning = SplittingTuning()

    state_type = SplittingState
    runs_on_device = True

    def start(self, problem: KernelBlockProblem, init: Any, rng: np.random.Generator) -> SplittingState:
        """Allocate, from a first point or from nothing."""
        alpha = first_rows(problem, init)
        order = rng.permutation(open_rows(problem))
        in_play = self._first_play(len(order)) if init is None else len(order)
        scores = problem.gram.scores(alpha)
        own = (order, self.tuning.first_set, in_play, np.empty(0, dtype=np.intp), self.tuning.rho)
        return SplittingState(alpha, scores, problem.gaps(alpha, scores), *own)

    def _first_play(self, n: int) -> int:
        """Return how many of n samples are in play first: n over a power of the growth, so that no few come last."""
        tuning, in_play = self.tuning, n
        while in_play >= tuning.play_growth * tuning.first_play:
            in_play = -(-in_play // tuning.play_growth)
        return in_play

    def step(self, problem: KernelBlockProblem, state: SplittingState) -> SplittingState:
        """Choose a working set, bring its gap down to a share, and update the scores of all rows."""
        tuning, gram = self.tuning, problem.gram
        is_late = self.estimate(problem, state) <= tuning.late
        if is_late and not state.is_wide:
            self._widen(problem, state)
        state.rows = rows = self._rows(problem, state)
        state.largest_set = min(tuning.growth * state.largest_set, gram.n + 1)
        if len(rows) == 0:
            return state
        part, old = working_rows(problem, rows), state.alpha[rows]
        rho = state.rho * (tuning.late_share if is_late else 1.0) * float(gram.diagonal[rows].mean())
        with share_of_time(tuning.share):
            new = _split(part, old, state.scores[rows], rho, tuning)
        change = new - old
        if not change.any():
            state.rows, state.rho = rows[:0], tuning.firmer * state.rho
            return state
        state.alpha[rows] = new
        if state.is_wide:
            state.scores += gram.wide_scores(_spread(change, rows, state.alpha.shape))
        else:
            gram.add_change(state.scores, rows, change)
        state.gaps = problem.gaps(state.alpha, state.scores)
        return state

    def estimate(self, problem: KernelBlockProblem, state: SplittingState) -> float:
        """Return the relative gap by the updated scores."""
        return problem.relative_gap(state.alpha, state.scores, state.gaps)

    def _widen(self, problem: KernelBlockProblem, state: SplittingState) -> None:
        """Compute the scores by values in float64."""
        state.is_wide = True
        if problem.gram.dtype != np.float64:
            state.scores = problem.gram.wide_scores(state.alpha)
            state.gaps = problem.gaps(state.alpha, state.scores)

    def _rows(self, problem: KernelBlockProblem, state: SplittingState) -> Array:
        """Return the working set: another one, or the last where that is no larger and misses little of its gap."""
        tuning, order, gaps, last = self.tuning, state.order, state.gaps, state.rows
        inside, outside = order[: state.in_play], order[state.in_play :]
        if len(outside) and gaps[inside].mean() <= tuning.play_share * gaps[outside].mean():
            state.in_play = min(tuning.play_growth * state.in_play, len(order))
        rows = active_rows(problem, state, gaps, share=tuning.active_share, in_play=state.in_play)
        gap = gaps[order[: state.in_play]].sum()
        is_kept = len(last) <= tuning.kept_size * len(rows) and gap - gaps[last].sum() <= tuning.kept_share * gap
        return last if len(last) and is_kept else rows


def _spread(change: Array, rows: Array, shape: tuple[int, ...]) -> Array:
    """Return the change of all rows."""
    out = np.zeros(shape)
    out[rows] = change
    return out


def _split(part: Any, old: Array, scores: Array, rho: float, tuning: SplittingTuning) -> Array:
    """Return the feasible rows of the largest dual gain that the iterations meet; (m, k).

    ``part`` are HostRows or DeviceRows: the iterations run where its square of K lies.
    """
    M = part.inverse(rho)
    if M is None:
        return old
    first, scores, labels = part.here(old), part.here(scores), part.labels
    G = scores - labels
    target = tuning.set_target * part.gap(first, scores)
    iterate = part.iteration(M, first, G, rho, tuning.relaxation)
    best, most_gain = first, 0.0
    Z, U, pull = first, -G / rho, (0.0 * G).T
    for t in range(1, tuning.set_steps + 1):
        check_time()
        Z, U, pull = iterate(Z, U, pull)
        if t % tuning.look:
            continue
        change = Z - first
        Z_scores = scores + part.product(change)
        gain = part.inner(change, labels) - 0.5 * part.inner(change, scores + Z_scores)
        if gain > most_gain:
            best, most_gain = Z, gain
        if not part.gap(Z, Z_scores) > target or is_time_up():
            break
    return np.asarray(part.back(best))
