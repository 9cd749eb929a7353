"""Accelerated projected gradient over the trace-norm ball, with weights kept as factors of low rank.

    minimise over W in the ball:   f(W) + l2 / 2 |W|^2 ,     f(W) = min over b of sum_i p_i loss(W' x_i + b, t_i)

    Z = W_t + beta (W_t - W_{t-1});   W_{t+1} = nearest point of the ball to M = Z - (X' R + l2 Z) / L , R: slopes at Z

W is U diag(s) V', so Z is two such stacked, and M is only multiplied with: its leading triples come from the last ones
by a sweep or two of subspace iteration (sets.truncated), at four products of X and R with as many columns as the rank.
No array of shape (d, k) is made until the rank nears half of the smaller side. Scores are linear in W: those of Z are
combined from two points, and those of W_{t+1} = X U diag(s) V' use the product X U of the sweep.

L shrinks a little every time and doubles where <R(W_{t+1}) - R(Z), X D> + l2 |D|^2 > L |D|^2, D = W_{t+1} - Z.
Singular vectors are as exact as the steps are long: what M' u - s v leaves is at most a share of the last |D|. A step
looks for a few times more triples than the last one at most, so that first steps, whose rank may be high, stay cheap;
then it is a step to a point of lower rank, and the next looks further.

    spec 1.5     here              shape
    X            U, s, V           (d, r), (r,), (k, r)
    W = A X      scores            (n, k)     without the intercept
    TSVD         leading           right basis kept in ``basis`` (k, b)

Source: spec 1.4 and 1.5 (stacked factors); Beck and Teboulle (2009), restarted as in O'Donoghue and Candes (2015) where
<Z - W_{t+1}, W_{t+1} - W_t> > 0; momentum follows a changing L as in Scheinberg, Goldfarb and Bai (2014).
"""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.core.protocols import ConstrainedProblem
from softmargin.matrices.operator import row_squares
from softmargin.problems.constrained import BallPoint
from softmargin.sets import LowRank
from softmargin.sets.truncated import SPARE, first_basis, leading
from softmargin.solvers.ball._entry_loops import best_intercept, fill_slopes, losses, slope_rise
from softmargin.solvers.ball._low_rank import StepMatrix, distance, first_factors, stack

__all__ = ["LowRankGradient", "LowRankState"]

Array = NDArray[Any]
EASIER = 0.95  # how much smaller a constant is tried every time
HARDER = 2.0
LEAST = 1e-20  # but never below this share of one that holds anywhere: slopes may vanish for ever
GROWTH = 4  # how many times more singular triples a step looks for, at most
ROUNDING = 1e-14  # a step of this share of W says nothing about the curvature
STALE = 0.5  # P is computed again when the gap has fallen so much
INEXACT = 0.1  # error of the singular triples, as a share of the last step


@dataclass
class LowRankState:
    """Everything a run needs to go on: arrays and plain numbers, so that a checkpoint can hold it, and scratch."""

    U: Array  # (d, r)
    s: Array  # (r,)
    V: Array  # (k, r)
    scores: Array  # (n, k)
    last_U: Array  # one iteration ago
    last_s: Array
    last_V: Array
    last_scores: Array
    intercept: Array  # (k,) the best at the last Z
    basis: Array  # (k, b) right singular vectors of the last M
    lipschitz: float
    ceiling: float  # a constant that holds anywhere
    momentum: float = 1.0
    length: float = math.inf  # |D| of the last step
    gap: float = math.inf  # about P(W) - D, D being the dual value at the last Z
    primal: float = math.inf  # P when the gap was ...
    gap_then: float = math.inf
    Z_scores: Array = field(init=False, repr=False)  # scratch from here on
    change: Array = field(init=False, repr=False)
    R: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Allocate the scratch."""
        self.Z_scores, self.change, self.R = (np.empty_like(self.scores) for _ in range(3))

    @property
    def weights(self) -> LowRank:
        """W."""
        return LowRank(self.U, self.s, self.V)


@dataclass(frozen=True)
class LowRankGradient:
    """Settings of accelerated gradient with factors. One step is one iteration.

    Parameters
    ----------
    restart : bool
        Forget the momentum when a step turned back.
    """

    restart: bool = True

    needs: ClassVar[tuple[type, ...]] = (ConstrainedProblem,)

    def start(self, problem: Any, init: Any, rng: np.random.Generator) -> LowRankState:
        """Allocate, from a first point or from zero."""
        W, intercept = first_factors(problem, init, "LowRankGradient")
        scores = np.ascontiguousarray(problem.scores(W))
        # The square of the norm of X lies between the sum of the squares and its share of the smaller side.
        most = problem.loss.curvature * float(problem.weights @ row_squares(problem.X)) or 1.0
        return LowRankState(
            *W,
            scores,
            *W,
            scores.copy(),
            best_intercept(problem, scores, intercept),
            first_basis(W),
            most / min(problem.X.shape) + problem.l2,
            most + problem.l2,
        )

    def step(self, problem: Any, state: LowRankState) -> LowRankState:
        """Make one iteration."""
        before = state.lipschitz
        state.lipschitz = max(EASIER * before, LEAST * state.ceiling)
        following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * state.lipschitz / before * state.momentum**2))
        beta = (state.momentum - 1.0) / following
        S, change, R = state.Z_scores, state.change, state.R
        np.subtract(state.scores, state.last_scores, out=S)
        S *= beta
        S += state.scores
        b = state.intercept = best_intercept(problem, S, state.intercept)
        fill_slopes(problem, S, b, R)
        W, last = state.weights, LowRank(state.last_U, state.last_s, state.last_V)
        Z = stack((1.0 + beta, W), (-beta, last)) if beta > 0.0 else W
        # What was the last point becomes room for the scores of the new one.
        new_scores = state.last_scores
        while True:
            L = state.lipschitz
            matrix = StepMatrix(problem.X, Z._replace(s=(1.0 - problem.l2 / L) * Z.s), R, 1.0 / L)
            top = leading(
                matrix,
                state.basis,
                problem.ball.theta,
                accuracy=INEXACT * state.length,
                most=GROWTH * state.basis.shape[1],
            )
            new = problem.ball.shrink(top)
            matrix.scores(top, new, new_scores)
            np.subtract(new_scores, S, out=change)
            bend = _most_bend(problem, change)
            length = distance(new, Z)
            allowed = (L - problem.l2) * length**2
            is_rounding = length <= ROUNDING * float(np.linalg.norm(new.s))
            if not bend > allowed or is_rounding or state.lipschitz >= state.ceiling:
                break
            rise = slope_rise(problem, new_scores, best_intercept(problem, new_scores, b), R, S)
            if not rise > allowed:
                break
            state.lipschitz = min(max(HARDER * L, rise / length**2 + problem.l2), state.ceiling)
        # P(W) - D(R) with f(W) <= f(Z) + <R, change> + bend / 2, and Fenchel's equality at Z.
        least = problem.ball.least_by(matrix.gradient_values(), problem.l2)
        ridge = 0.5 * problem.l2 * float(new.s @ new.s)
        state.gap = max(float(np.vdot(R, new_scores)) + ridge + 0.5 * bend - least, 0.0)
        if not state.gap > STALE * state.gap_then:
            state.primal, state.gap_then = losses(problem, new_scores, b) + ridge, state.gap
        # The turn is seen in the scores: <change, moved> there is what <D, W_{t+1} - W_t> is here.
        moved = np.subtract(new_scores, state.scores, out=S)
        turn = float(problem.weights @ np.einsum("ic,ic->i", change, moved))
        state.momentum = 1.0 if self.restart and turn < 0.0 else following
        state.length = length
        state.basis = top.V[:, : new.rank + SPARE].copy()
        state.last_U, state.last_s, state.last_V = W
        state.U, state.s, state.V = new
        state.scores, state.last_scores = new_scores, state.scores
        return state

    def point(self, problem: Any, state: LowRankState) -> BallPoint:
        """Return the weights by their factors, and the best intercept for them."""
        W = LowRank(*(factor.copy() for factor in state.weights))
        return BallPoint(W, best_intercept(problem, state.scores, state.intercept))

    def estimate(self, problem: Any, state: LowRankState) -> float:
        """Guess the relative gap by the singular values at hand."""
        return state.gap / state.primal if state.primal > 0.0 else 0.0

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> LowRankState:
        """Rebuild the state from a checkpoint."""
        return LowRankState(**arrays, **plain)


def _most_bend(problem: Any, change: Array) -> float:
    """Return the most that <R(W) - R(Z), change> can be, by the curvature; a free intercept takes the mean away."""
    p = problem.weights
    most = p @ np.einsum("ic,ic->i", change, change)
    if problem.fit_intercept and p.any():
        mean = p @ change
        most -= float(mean @ mean) / float(p.sum())
    return problem.loss.curvature * max(float(most), 0.0)
