"""What Frank-Wolfe methods over a ball do alike: the look at a point, its gap, and the search along a line, on scores.

    phi(t) = sum_ic p_i f(s_ic + t m_ic, t_ic) + l2 / 2 |W + t D|^2 ,     m = X D + shift

Newton's method on phi', inside a bracket; losses that are pieces of quadratics end it exactly after a few trials. The
intercept moves along the line by ``shift``, which is what a Newton step for it would answer to the move of the scores.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import duality_gap
from softmargin.matrices.operator import adjoint_product, product
from softmargin.sets import Entry, TraceBall
from softmargin.sets.trace_ball import SMALL
from softmargin.solvers.ball._gap import relative_gap

__all__ = ["answer_of_intercept", "corner_scores", "gap_at_hand", "look", "search"]

Array = NDArray[Any]
FLAT = 1e-4  # share of the first slope at which a search ends
MAX_TRIALS = 30
REFRESH = 50  # steps after which scores that are kept up to date are computed anew


def look(problem: Any, state: Any) -> None:
    """Bring the intercept and Z = X' slopes up to date with the weights; the scores too, now and then."""
    state.n_steps += 1
    if state.n_steps % REFRESH == 0:
        state.scores = product(problem.X, state.W)
    state.intercept = problem.best_intercept(state.scores, state.intercept)
    state.Z = adjoint_product(problem.X, problem.slopes(state.scores, state.intercept))


def gap_at_hand(problem: Any, state: Any, corner: Any = None) -> float:
    """Return the relative gap at a state that has been looked at; by a corner where singular values cost too much."""
    W = state.W
    if not isinstance(problem.ball, TraceBall) or (corner is None and min(W.shape) <= SMALL):
        return relative_gap(problem, W, state.scores, state.intercept, state.Z)
    G = state.Z + problem.l2 * W
    corner = problem.ball.lmo(G) if corner is None else corner
    primal = problem.losses(state.scores, state.intercept) + 0.5 * problem.l2 * float(np.vdot(W, W))
    return duality_gap(primal, primal - float(np.vdot(G, W)) + corner.inner(G)).residual


def corner_scores(problem: Any, corner: Any) -> Array:
    """Return X times a corner; a single entry touches one column."""
    return np.asarray(corner.times(problem.columns if isinstance(corner, Entry) else problem.X))


def answer_of_intercept(problem: Any, scores: Array, intercept: Array, move: Array) -> Array:
    """Return how fast the best intercept changes when the scores do; zero without an intercept. Shape (k,)."""
    if not problem.fit_intercept:
        return np.zeros(len(intercept))
    bend = problem.weights[:, None] * problem.loss.bend(scores + intercept, problem.target)
    total = bend.sum(axis=0)
    return np.where(total > 0.0, -(bend * move).sum(axis=0) / np.where(total > 0.0, total, 1.0), 0.0)


def search(
    loss: Any,
    weights: Array,
    target: Array,
    scores: Array,
    move: Array,
    *,
    cross: float,
    square: float,
    largest: float,
) -> float:
    """Return about the t in [0, largest] with the least phi(t); 0 where it does not fall.

    Parameters
    ----------
    weights, target, scores, move : arrays that broadcast to one shape
        Of the entries that move; the scores hold the intercept.
    cross, square : float
        l2 <W, D> and l2 |D|^2.
    largest : float
        The longest step allowed.
    """

    def rise_at(t: float) -> float:
        return float(np.vdot(weights * loss.slope(scores + t * move, target), move)) + cross + t * square

    def bend_at(t: float) -> float:
        return float(np.vdot(weights * loss.bend(scores + t * move, target), move * move)) + square

    low, high, is_open = 0.0, largest, True  # open: phi' at ``high`` is not known to be positive
    t, rise = 0.0, rise_at(0.0)
    flat = -FLAT * rise
    if rise >= 0.0:
        return 0.0
    for _ in range(MAX_TRIALS):
        bend = bend_at(t)
        new = t - rise / bend if bend > 0.0 else (high if rise < 0.0 else low)
        if is_open:
            new = min(new, high)
        if not (low < new < high or (is_open and new == high)):
            new = 0.5 * (low + high)
        t = new
        rise = rise_at(t)
        if abs(rise) <= flat or (rise <= 0.0 and t == largest):
            return t
        if rise < 0.0:
            low = t
        else:
            high, is_open = t, False
    return low
