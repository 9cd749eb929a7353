"""Sequential minimal optimisation of binary SVMs with a free bias: the best pair of dual variables again and again.

Maths: squared hinge, section 6.

    minimise over 0 <= a <= upper, y'a = 0:   1/2 (ya)'(K + diag(r))(ya) - sum a

Squared hinge loss, r = 1/C and no upper bound, is hinge loss with a hard margin on K + diag(1/C), so any SMO solves
both. Without a bias the sum y'a is free, and variables move one at a time.

Rows of K cost more than updates, so they are opened (computed and stored) in blocks. Each step evaluates the violations
of all samples, opens the rows of the worst violators, and moves pairs of open samples until their violation has fallen
to a fifth. Rows that are not needed are never computed. Where K does not fit into memory, each step takes the worst
violators and the samples with a nonzero variable as a working set, with its own small K, and then updates the scores of
all samples by one product.

    maths       here
    y a         state.u                 (n,)
    S           state.S                 (n,)   y - K u - r u
    m - M       violation
    I_up, I_low rises, falls            may u_i grow; may it shrink
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.deadline import alarm, share_of_time
from softmargin.core.protocols import FreeBiasProblem
from softmargin.problems.free_bias import BiasPoint
from softmargin.solvers.common.resumable import Resumable
from softmargin.solvers.common.rooms import rooms, sizes_after
from softmargin.solvers.common.smo_loop import DualVariables, descend_pairs, descend_singles

__all__ = ["Smo", "SmoState", "SmoTuning"]

Array = NDArray[Any]


class SmoTuning(NamedTuple):
    """How many rows are opened at once, and how far a step descends on them."""

    target: float = 0.2  # share to which a step reduces the violation of its samples: maths: squared hinge, section 10
    violating: float = 0.1  # share of the worst violation from which on a sample is worth a row of K; by hand
    first_share: float = 1 / 16  # of all rows, opened at first; by hand
    fewest_rows: int = 256  # opened at a time: fewer are no cheaper, as one product computes them together; by hand
    growth: float = 0.5  # of the open rows, opened next; by hand
    # Samples in the first working set; it doubles: maths: squared hinge, section 10, "keep the working set large"
    first_set: int = 2000
    set_passes: int = 10  # updates per sample of a working set; by hand
    fewest_updates: int = 256  # of one step; by hand
    refresh: float = 1e-3  # S is recomputed when the violation has fallen to this share, as rounding adds up; by hand
    share: float = 0.5  # of the time left, for updates on a working set; by hand
    check_every: int = 32  # updates between two tests of the violation; by hand


@dataclass
class SmoState:
    """Everything that a run needs to continue."""

    u: Array  # (n,) y * alpha
    S: Array  # (n,)
    order: Array  # (n,) breaks ties among equal violators
    is_open: Array  # (n,) whose rows of K have been opened
    set_size: int
    refreshed: float = math.inf  # violation when S was last recomputed

    positions: ClassVar[dict[str, str]] = {"order": "u"}


@dataclass(frozen=True)
class Smo(Resumable):
    """Sequential minimal optimisation; it has no settings. One step is at most n updates, or one working set."""

    tuning: SmoTuning = SmoTuning()

    needs: ClassVar[tuple[type, ...]] = (FreeBiasProblem,)
    state_type = SmoState

    def start(self, problem: FreeBiasProblem, init: BiasPoint | None, rng: np.random.Generator) -> SmoState:
        """Begin at alpha = 0, or at a feasible point near ``init``."""
        n = len(problem.y)
        u = np.zeros(n) if init is None else problem.y * problem.feasible(init.alpha)
        S = problem.y.copy() if init is None else _fresh(problem, u)
        # Rows of a given matrix cost nothing: all are open.
        return SmoState(u, S, rng.permutation(n), np.full(n, problem.gram.is_given), self.tuning.first_set)

    def step(self, problem: FreeBiasProblem, state: SmoState) -> SmoState:
        """Choose samples, and move their variables until their violation has clearly fallen."""
        u, gram, tuning = state.u, problem.gram, self.tuning
        room = rooms(problem.y > 0.0, np.abs(u), problem.upper)
        rises, falls = (problem.C > 0.0) & (room[0] > 0.0), (problem.C > 0.0) & (room[1] < 0.0)
        rise, fall, violation = _violations(state.S, rises, falls, problem.has_bias)
        if not violation > tuning.refresh * state.refreshed:
            state.S = _fresh(problem, u)
            rise, fall, violation = _violations(state.S, rises, falls, problem.has_bias)
            state.refreshed = violation
        if not violation > 0.0:
            return state
        state.refreshed = max(state.refreshed, violation)
        if gram.is_stored:
            _open_rows(state, rise, fall, tuning)
            K = gram.stored(np.flatnonzero(state.is_open))
            index, updates = np.arange(gram.n), gram.n
            rises &= state.is_open
            falls &= state.is_open
        else:
            index = _working_set(state, rise, fall, gram.largest_square)
            K, updates = gram.square(index), tuning.set_passes * len(index)
        variables = _gathered(problem, state, K, index, room, (rises, falls))
        descend = descend_pairs if problem.has_bias else descend_singles
        updates = max(tuning.fewest_updates, updates)
        # Where only some samples move, the scores of all have to be updated afterwards.
        with share_of_time(1.0 if len(index) == gram.n else tuning.share):
            descend(variables, updates, tuning.target * violation, tuning.check_every, alarm())
        m, y = len(index), problem.y[index]
        u_new = y * sizes_after(y > 0.0, variables.rise[:m], variables.fall[:m], problem.upper[index])
        S_new = variables.S[:m].copy()
        if len(index) == gram.n:
            state.u, state.S = u_new, S_new
            return state
        moved = np.zeros(gram.n)
        moved[index] = u_new - u[index]
        state.u[index] = u_new  # not u + moved: what has become zero must be zero exactly
        state.S -= gram.scores(moved) + moved * problem.inverse_C
        return state

    def point(self, problem: FreeBiasProblem, state: SmoState) -> BiasPoint:
        """Return the dual variables with the best bias."""
        return BiasPoint(np.abs(state.u), problem.best_bias(_scores(problem, state)))

    def estimate(self, problem: FreeBiasProblem, state: SmoState) -> float:
        """Return the relative gap at the scores that the steps maintain."""
        return problem.relative_gap(np.abs(state.u), _scores(problem, state))


def _fresh(problem: FreeBiasProblem, u: Array) -> Array:
    """Return S from its definition."""
    return np.asarray(problem.y - problem.gram.scores(u) - u * problem.inverse_C)


def _scores(problem: FreeBiasProblem, state: SmoState) -> Array:
    """Return K u, as the steps maintain it."""
    return np.asarray(problem.y - state.u * problem.inverse_C - state.S)


def _violations(S: Array, rises: Array, falls: Array, has_bias: bool) -> tuple[Array, Array, float]:
    """Return by how much each sample should rise and fall (-inf where it may not), and the overall violation."""
    top, bottom = float(S[rises].max(initial=-np.inf)), float(S[falls].min(initial=np.inf))
    violation = top - bottom if has_bias else max(top, -bottom)
    middle = 0.5 * (top + bottom) if has_bias and math.isfinite(violation) else 0.0
    return np.where(rises, S - middle, -np.inf), np.where(falls, middle - S, -np.inf), violation


def _worst_first(rise: Array, fall: Array, order: Array, threshold: float) -> Array:
    """Return the samples beyond the threshold, alternately the worst that should rise and the worst that should fall.

    Both sides must be there, as a pair needs one of each.
    """
    sides = []
    for violation in (rise, fall):
        side = order[violation[order] > threshold]
        sides.append(side[np.argsort(-violation[side], kind="stable")])
    ranks = np.concatenate([np.arange(len(side)) for side in sides])
    return _first_seen(np.concatenate(sides)[np.argsort(ranks, kind="stable")])


def _first_seen(index: Array) -> Array:
    """Drop repeated entries, in order."""
    return index[np.sort(np.unique(index, return_index=True)[1])]


def _open_rows(state: SmoState, rise: Array, fall: Array, tuning: SmoTuning) -> None:
    """Open the rows of the worst violators, and of the variables that a warm start has already moved."""
    state.is_open |= state.u != 0.0
    n_open = int(state.is_open.sum())
    if n_open == len(rise):
        return
    size = int(max(tuning.fewest_rows, tuning.growth * n_open if n_open else tuning.first_share * len(rise)))
    worst = max(rise.max(), fall.max())
    closed = state.order[~state.is_open[state.order]]
    state.is_open[_worst_first(rise, fall, closed, tuning.violating * worst)[:size]] = True


def _working_set(state: SmoState, rise: Array, fall: Array, largest: int) -> Array:
    """Choose the worst violators, then the samples with a nonzero variable, then further violators."""
    size = min(state.set_size, largest)
    state.set_size = min(2 * state.set_size, largest)
    violators = _worst_first(rise, fall, state.order, 0.0)
    free = np.flatnonzero(state.u)
    free = free[np.argsort(-np.maximum(rise, fall)[free], kind="stable")]
    half = max(2, size // 2)
    return np.sort(_first_seen(np.concatenate([violators[:half], free, violators[half:]]))[:size])


def _gathered(
    problem: FreeBiasProblem,
    state: SmoState,
    K: Array,
    index: Array,
    room: tuple[Array, Array],
    moves: tuple[Array, Array],
) -> DualVariables:
    """Return the variables of some samples with their rooms; ``moves`` says which may rise and which may fall."""
    rise, fall = (side[index] for side in room)
    up, low = np.where(moves[0][index], 0.0, -np.inf), np.where(moves[1][index], 0.0, np.inf)
    return DualVariables.of(
        K, state.S[index], rise, fall, problem.gram.diagonal[index], problem.inverse_C[index], up, low
    )
