"""Sequential minimal optimisation of the binary L2-SVM: the best pair of dual variables again and again. Spec 1.6.

    minimise over a >= 0, y'a = 0:   1/2 (ya)'(K + diag(1/C))(ya) - sum a

Squared hinge loss is hinge loss with a hard margin on K + diag(1/C), so any SMO solves it. Without a bias the sum
y'a is free, and variables move one at a time.

Rows of K are costlier than updates, so they are opened in blocks. Each step looks at all samples, opens those that
violate optimality most, and moves pairs of open samples until their violation is a fifth of what it was overall. Rows
that are not needed are never computed. Where K does not fit into memory, each step takes the worst violators and the
free samples as a working set, with its own small K, and then updates all scores by one product.

    spec        here
    y a         state.u                 (n,)
    S           state.S                 (n,)   y - K u - u / C
    m - M       violation
    I_up, I_low rises, falls            may u_i grow; may it shrink
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.loops import CHUNK
from softmargin.core.protocols import FreeBiasProblem
from softmargin.problems.l2_svm import L2Point
from softmargin.solvers.squared_hinge._smo_loop import descend_pairs, descend_singles

__all__ = ["Smo", "SmoState"]

Array = NDArray[Any]

TARGET = 0.2  # how far a step drives down the violation of its samples
VIOLATING = 0.1  # share of the worst violation from which on a sample is worth a row of K
FIRST_SHARE = 1 / 16  # of all rows, opened at first
FEWEST_ROWS = 256  # opened at a time: fewer are no cheaper, as a product takes them together
GROWTH = 0.5  # of the open rows, opened next
FIRST_SET = 2000  # samples in the first working set; it doubles (spec 2.6: keep it large)
SET_PASSES = 10  # updates a sample in one working set
FEWEST_UPDATES = 256
REFRESH = 1e-3  # S is computed afresh when the violation has fallen to this share: rounding adds up


@dataclass
class SmoState:
    """Everything a run needs to go on."""

    u: Array  # (n,) y * alpha
    S: Array  # (n,)
    order: Array  # (n,) breaks ties among equal violators
    is_open: Array  # (n,) whose rows of K have been asked for
    set_size: int = FIRST_SET
    refreshed: float = math.inf  # violation when S was last computed afresh


@dataclass(frozen=True)
class Smo:
    """Sequential minimal optimisation; it has no settings. One step is at most n updates, or one working set."""

    needs: ClassVar[tuple[type, ...]] = (FreeBiasProblem,)

    def start(self, problem: FreeBiasProblem, init: Any, rng: np.random.Generator) -> SmoState:
        """Begin at alpha = 0, or at a feasible point near ``init``."""
        n = len(problem.y)
        u = np.zeros(n) if init is None else problem.y * problem.feasible(init.alpha)
        S = problem.y.copy() if init is None else _fresh(problem, u)
        # Rows of a given matrix cost nothing: all are open.
        return SmoState(u, S, rng.permutation(n), np.full(n, problem.gram.is_given))

    def step(self, problem: FreeBiasProblem, state: SmoState) -> SmoState:
        """Choose samples, and move their variables until their violation has clearly fallen."""
        y, u, gram = problem.y, state.u, problem.gram
        rises = (problem.C > 0) & ((y > 0) | (u < 0))
        falls = (problem.C > 0) & ((y < 0) | (u > 0))
        rise, fall, violation = _violations(state.S, rises, falls, problem.has_bias)
        if not violation > REFRESH * state.refreshed:
            state.S = _fresh(problem, u)
            rise, fall, violation = _violations(state.S, rises, falls, problem.has_bias)
            state.refreshed = violation
        if not violation > 0.0:
            return state
        state.refreshed = max(state.refreshed, violation)
        if gram.is_stored:
            _open_rows(state, rise, fall)
            K = gram.stored(np.flatnonzero(state.is_open))
            index = np.arange(gram.n)
            rises &= state.is_open
            falls &= state.is_open
            budget = max(FEWEST_UPDATES, gram.n)
        else:
            index = _working_set(state, rise, fall, gram.largest_square)
            K = gram.square(index)
            budget = max(FEWEST_UPDATES, SET_PASSES * len(index))
        u_new, S_new = _descend(problem, state, K, index, rises, falls, budget, TARGET * violation)
        if len(index) == gram.n:
            state.u, state.S = u_new, S_new
            return state
        moved = np.zeros(gram.n)
        moved[index] = u_new - u[index]
        state.u[index] = u_new  # not u + moved: what has become zero must be zero exactly
        state.S -= gram.scores(moved) + moved * problem.inverse_C
        return state

    def point(self, problem: FreeBiasProblem, state: SmoState) -> L2Point:
        """Return the dual variables with the best bias."""
        return L2Point(np.abs(state.u), problem.best_bias(_scores(problem, state)))

    def estimate(self, problem: FreeBiasProblem, state: SmoState) -> float:
        """Return the relative gap at the scores that the steps maintain."""
        return float(problem.relative_gap(np.abs(state.u), _scores(problem, state)))

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> SmoState:
        """Rebuild the state from a checkpoint."""
        return SmoState(**arrays, **plain)


def _fresh(problem: FreeBiasProblem, u: Array) -> Array:
    """Return S from its definition."""
    return problem.y - problem.gram.scores(u) - u * problem.inverse_C


def _scores(problem: FreeBiasProblem, state: SmoState) -> Array:
    """Return K u, as the steps maintain it."""
    return problem.y - state.u * problem.inverse_C - state.S


def _violations(S: Array, rises: Array, falls: Array, has_bias: bool) -> tuple[Array, Array, float]:
    """Return how much each sample wants to rise and to fall (-inf where it may not), and the overall violation."""
    top, bottom = float(S[rises].max(initial=-np.inf)), float(S[falls].min(initial=np.inf))
    violation = top - bottom if has_bias else max(top, -bottom)
    middle = 0.5 * (top + bottom) if has_bias and math.isfinite(violation) else 0.0
    return np.where(rises, S - middle, -np.inf), np.where(falls, middle - S, -np.inf), violation


def _worst_first(rise: Array, fall: Array, order: Array, threshold: float) -> Array:
    """Return the samples beyond the threshold, in turn the worst that wants to rise and the worst that wants to fall.

    Both sides must be there, as a pair needs one of each.
    """
    sides = []
    for wish in (rise, fall):
        side = order[wish[order] > threshold]
        sides.append(side[np.argsort(-wish[side], kind="stable")])
    ranks = np.concatenate([np.arange(len(side)) for side in sides])
    return _first_seen(np.concatenate(sides)[np.argsort(ranks, kind="stable")])


def _first_seen(index: Array) -> Array:
    """Drop repeated entries, in order."""
    return index[np.sort(np.unique(index, return_index=True)[1])]


def _open_rows(state: SmoState, rise: Array, fall: Array) -> None:
    """Open the rows of the worst violators, and of the variables that a warm start has already moved."""
    state.is_open |= state.u != 0.0
    n_open = int(state.is_open.sum())
    if n_open == len(rise):
        return
    size = int(max(FEWEST_ROWS, GROWTH * n_open if n_open else FIRST_SHARE * len(rise)))
    worst = max(rise.max(), fall.max())
    closed = state.order[~state.is_open[state.order]]
    state.is_open[_worst_first(rise, fall, closed, VIOLATING * worst)[:size]] = True


def _working_set(state: SmoState, rise: Array, fall: Array, largest: int) -> Array:
    """Choose the worst violators, then the samples with a nonzero variable, then further violators."""
    size = min(state.set_size, largest)
    state.set_size = min(2 * state.set_size, largest)
    violators = _worst_first(rise, fall, state.order, 0.0)
    free = np.flatnonzero(state.u)
    free = free[np.argsort(-np.maximum(rise, fall)[free], kind="stable")]
    half = max(2, size // 2)
    return np.sort(_first_seen(np.concatenate([violators[:half], free, violators[half:]]))[:size])


def _descend(
    problem: FreeBiasProblem,
    state: SmoState,
    K: Array,
    index: Array,
    rises: Array,
    falls: Array,
    budget: int,
    target: float,
) -> tuple[Array, Array]:
    """Move variables of the given samples, those that rise or fall; return their u and S."""
    m = len(index)

    def padded(values: Array, fill: float) -> Array:
        wide = np.full(-(-m // CHUNK) * CHUNK, fill)
        wide[:m] = values
        return wide

    u, S = padded(state.u[index], 0.0), padded(state.S[index], 0.0)
    up = padded(np.where(rises[index], 0.0, -np.inf), -np.inf)
    low = padded(np.where(falls[index], 0.0, np.inf), np.inf)
    # In the precision of K: |phi_i - phi_j|^2 of equal rows is then zero.
    diagonal = padded(problem.gram.diagonal[index].astype(K.dtype), 1.0)
    descend = descend_pairs if problem.has_bias else descend_singles
    descend(
        K.reshape(-1),
        m,
        padded(problem.y[index], 1.0),
        u,
        S,
        up,
        low,
        diagonal,
        padded(problem.inverse_C[index], 1.0),
        np.zeros(len(u)),
        budget,
        target,
    )
    return u[:m].copy(), S[:m].copy()
