"""Accelerated projected gradient over the trace-norm ball, with weights kept as factors of low rank.

    Z = W_t + beta (W_t - W_{t-1});   W_{t+1} = nearest point of the ball to M = Z - (X' R + l2 Z) / L , R: slopes at Z

W is U diag(s) V', so Z is two such matrices stacked, and M is known by its products: one or two sweeps of subspace
iteration (sets.truncated) update its leading triples, at four products of X and R with as many columns as the rank. No
array of shape (d, k) is allocated until the rank nears half of the smaller side. Scores are linear in W: those of Z are
combined from two points, and those of W_{t+1}, X U diag(s) V', use the product X U of the sweep.

L shrinks a little every time and doubles where <R(W_{t+1}) - R(Z), X D> + l2 |D|^2 > L |D|^2, D = W_{t+1} - Z.
The error of the triples, M' u - s v, is at most a share of the last |D|. A step computes at most a few times more
triples than the last one, so that first steps, whose rank may be high, stay cheap; such a step leads to a point of
lower rank, and the next one computes more.

Source: maths: ball, section 4; Beck and Teboulle (2009), restarted as in O'Donoghue and Candes (2015) where
<Z - W_{t+1}, W_{t+1} - W_t> > 0; momentum follows a changing L as in Scheinberg, Goldfarb and Bai (2014).
"""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from softmargin.core.protocols import Array, ConstrainedProblem
from softmargin.matrices.operator import row_squares
from softmargin.problems.constrained import BallPoint
from softmargin.sets import LowRank
from softmargin.sets.truncated import TruncationTuning, first_basis
from softmargin.solvers.ball._intercept import best_intercept
from softmargin.solvers.ball._iterate import check_smooth
from softmargin.solvers.ball._low_rank import FactorSolver, FactorState, StepMatrix, distance, first_factors, stack
from softmargin.solvers.ball._objective import fill_slopes, losses, slope_rise
from softmargin.solvers.ball.accelerated_gradient import LEAST_SHARE
from softmargin.solvers.common.momentum import extrapolate, next_momentum

__all__ = ["LowRankGradient", "LowRankGradientTuning", "LowRankState"]

_ROUNDING = 1e-14  # a step of this share of W says nothing about the curvature


class LowRankGradientTuning(NamedTuple):
    """Constants of accelerated gradient with factors."""

    shrink: float = 0.95  # factor of L before every iteration; by hand
    growth: float = 2.0  # least factor of L after a step that was too long; by hand
    more_triples: int = 4  # a step computes at most so many times the triples of the last one; by hand
    stale: float = 0.5  # P is computed again when the gap has fallen to this share; by hand
    accuracy: float = 0.1  # error of the singular triples, as a share of the last step; by hand
    triples: TruncationTuning = TruncationTuning()


@dataclass
class LowRankState(FactorState):
    """Two points, the best intercept, and the constant of the next step."""

    last_U: Array  # one iteration ago
    last_s: Array
    last_V: Array
    last_scores: Array
    intercept: Array  # (k,) the best at the last Z
    lipschitz: float
    ceiling: float  # a constant that holds anywhere
    momentum: float = 1.0
    gap: float = math.inf  # about P(W) - D, D being the dual value at the last Z
    primal: float = math.inf  # P when the gap was ...
    gap_then: float = math.inf

    grows: ClassVar[dict[str, tuple[str, int]]] = {
        **FactorState.grows,
        **{"last_U": ("last r", 1), "last_s": ("last r", 0), "last_V": ("last r", 1)},
    }

    def __post_init__(self) -> None:
        """Allocate the scratch."""
        self.Z_scores, self.change, self.R = (np.empty_like(self.scores) for _ in range(3))


@dataclass(frozen=True)
class LowRankGradient(FactorSolver):
    """Settings of accelerated gradient with factors; ``restart`` drops the momentum when a step turns back."""

    restart: bool = True
    tuning: LowRankGradientTuning = LowRankGradientTuning()

    state_type: ClassVar[type[LowRankState]] = LowRankState

    def start(self, problem: ConstrainedProblem, init: BallPoint | None, rng: np.random.Generator) -> LowRankState:
        """Allocate, from a first point or from zero."""
        check_smooth(problem)
        W, intercept = first_factors(problem, self.ball(problem), init)
        scores = np.ascontiguousarray(problem.scores(W))
        # The square of the norm of X lies between the sum of the squares and its share of the smaller side.
        most = problem.loss.curvature * float(problem.weights @ row_squares(problem.X)) or 1.0
        lipschitz, ceiling = most / min(problem.X.shape) + problem.l2, most + problem.l2
        basis, b = first_basis(W, self.tuning.triples), best_intercept(problem, scores, intercept)
        return self.state_type(*W, scores, basis, math.inf, *W, scores.copy(), b, lipschitz, ceiling)

    def step(self, problem: ConstrainedProblem, state: LowRankState) -> LowRankState:
        """Make one iteration."""
        ball, tuning, before = self.ball(problem), self.tuning, state.lipschitz
        state.lipschitz = max(tuning.shrink * before, LEAST_SHARE * state.ceiling)
        momentum, beta = next_momentum(state.momentum, state.lipschitz / before)
        S, change, R = state.Z_scores, state.change, state.R
        extrapolate(state.scores, state.last_scores, beta, S)
        b = state.intercept = best_intercept(problem, S, state.intercept)
        fill_slopes(problem, S, b, R)
        W, last = state.weights, LowRank(state.last_U, state.last_s, state.last_V)
        Z = stack((1.0 + beta, W), (-beta, last)) if beta > 0.0 else W
        # The scores of the new point overwrite those of the one before last.
        new_scores = state.last_scores
        while True:
            L = state.lipschitz
            matrix = StepMatrix(problem.X, Z._replace(s=(1.0 - problem.l2 / L) * Z.s), R, 1.0 / L)
            most = tuning.more_triples * state.basis.shape[1]
            top, new = self.nearest(ball, matrix, state, most, new_scores)
            np.subtract(new_scores, S, out=change)
            bend = _most_bend(problem, change)
            length = distance(new, Z)
            allowed = (L - problem.l2) * length**2
            is_rounding = length <= _ROUNDING * float(np.linalg.norm(new.s))
            if not bend > allowed or is_rounding or state.lipschitz >= state.ceiling:
                break
            rise = slope_rise(problem, new_scores, best_intercept(problem, new_scores, b), R, S)
            if not rise > allowed:
                break
            state.lipschitz = min(max(tuning.growth * L, rise / length**2 + problem.l2), state.ceiling)
        # P(W) - D(R) with f(W) <= f(Z) + <R, change> + bend / 2, and Fenchel's equality at Z.
        least = ball.least_by(matrix.gradient_values(), problem.l2)
        ridge = 0.5 * problem.l2 * float(new.s @ new.s)
        state.gap = max(float(np.vdot(R, new_scores)) + ridge + 0.5 * bend - least, 0.0)
        if not state.gap > tuning.stale * state.gap_then:
            state.primal, state.gap_then = losses(problem, new_scores, b) + ridge, state.gap
        # <change, moved> of the scores stands for <D, W_{t+1} - W_t> in the restart test.
        moved = np.subtract(new_scores, state.scores, out=S)
        turn = float(problem.weights @ np.einsum("ic,ic->i", change, moved))
        state.momentum = 1.0 if self.restart and turn < 0.0 else momentum
        state.length = length
        state.last_U, state.last_s, state.last_V = W
        state.U, state.s, state.V = new
        state.basis = top.V[:, : new.rank + tuning.triples.spare].copy()
        state.scores, state.last_scores = new_scores, state.scores
        return state

    def point(self, problem: ConstrainedProblem, state: LowRankState) -> BallPoint:
        """Return the weights by their factors, and the best intercept for them."""
        return BallPoint(state.weights, best_intercept(problem, state.scores, state.intercept))

    def estimate(self, problem: ConstrainedProblem, state: LowRankState) -> float:
        """Estimate the relative gap by the singular values of the last sweep."""
        return state.gap / state.primal if state.primal > 0.0 else 0.0


def _most_bend(problem: ConstrainedProblem, change: Array) -> float:
    """Bound <R(W) - R(Z), change> by the curvature; the intercept, which is free, absorbs the mean."""
    p = problem.weights
    most = p @ np.einsum("ic,ic->i", change, change)
    if problem.fit_intercept and p.any():
        mean = p @ change
        most -= float(mean @ mean) / float(p.sum())
    return problem.loss.curvature * max(float(most), 0.0)
