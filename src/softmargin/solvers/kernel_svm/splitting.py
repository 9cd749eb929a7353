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
    relaxation: float = 1.7
    first_set: int = 4000  # rows in the first working set
    growth: int = 2  # how many times larger the next set may be
    active_share: float = 0.02  # a gap counts above this share of the mean gap
    look: int = 10  # iterations between two looks at gap and gain
    set_target: float = 0.1  # share of its gap that a round leaves
    set_steps: int = 300  # most iterations of one round
    share: float = 0.5  # of the time left, for the iterations of a round; the rest updates the scores; by hand


@dataclass
class SplittingState:
    """Arrays and plain numbers, which a checkpoint holds."""

    alpha: Array  # (n, k)
    scores: Array  # (n, k)
    order: Array  # the samples whose rows can move, shuffled: rows of equal gaps are taken in this order
    largest_set: int

    positions: ClassVar[dict[str, str]] = {"order": "alpha"}


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
        return SplittingState(alpha, problem.gram.scores(alpha), order, self.tuning.first_set)

    def step(self, problem: KernelBlockProblem, state: SplittingState) -> SplittingState:
        """Choose a working set, bring its gap down to a tenth, and update the scores of all rows."""
        tuning, gram = self.tuning, problem.gram
        rows = active_rows(problem, state, problem.gaps(state.alpha, state.scores), share=tuning.active_share)
        state.largest_set = min(tuning.growth * state.largest_set, gram.n + 1)
        if len(rows) == 0:
            return state
        part, old = working_rows(problem, rows), state.alpha[rows]
        rho = tuning.rho * float(gram.diagonal[rows].mean())
        with share_of_time(tuning.share):
            new = _split(part, old, state.scores[rows], rho, tuning)
        change = new - old
        if change.any():
            state.alpha[rows] = new
            gram.add_change(state.scores, rows, change)
        return state


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
    best, most_gain, Z, U = first, 0.0, first, -G / rho
    for t in range(1, tuning.set_steps + 1):
        check_time()
        A = first + M @ (rho * (Z - U - first) - G)
        T = tuning.relaxation * A + (1.0 - tuning.relaxation) * Z + U
        Z = part.nearest(T)
        U = T - Z
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
