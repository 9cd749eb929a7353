"""Accelerated projected gradient over a convex set, with adaptive restart.

    V = W_t + beta (W_t - W_{t-1});   W_{t+1} = the point of the ball nearest to V - F'(V) / M ,   M_j = L m_j + l2

Scores of V are combined from those of two points: an iteration makes one product with X and one with X'. The intercept
is no coordinate of the descent: every V gets the best one for its scores. L bounds the curvature of the losses along
the last step, measured in the scores: it shrinks a little before every iteration, and grows where
<f'(W_{t+1}) - f'(V), D> > L <D, m D> with D = W_{t+1} - V. No norm of X is computed. The slopes at V are a dual point
too: P(W) - D(U) is a duality gap for one more projection, computed every few steps.

Over an l1 ball, features have steps of their own: m_j is the root of the largest curvature along column j, halfway
between one step for all, which is short for features of small numbers or few samples, and the steps of single features,
which are long for correlated ones. The nearest point is that in the norm of M: entries shrink by theta / M_j. Other
sets have m = 1.

Here U (n, k) are the weighted slopes at V and G = X' U.

Source: Beck and Teboulle (2009) with the restart of O'Donoghue and Candes (2015); the momentum follows a changing L as
in Scheinberg, Goldfarb and Bai (2014) (``common.momentum``). Maths: ball, eq. 14.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from softmargin.core.certificate import relative_gap
from softmargin.core.deadline import check_time
from softmargin.core.protocols import Array, ConstrainedProblem
from softmargin.matrices.rows import as_rows, weighted_squares
from softmargin.problems.constrained import BallPoint
from softmargin.sets import Box, Hull, L1Ball, Shaped, Simplex
from softmargin.solvers.ball import _objective as objective
from softmargin.solvers.ball._intercept import best_intercept
from softmargin.solvers.ball._iterate import BallSolver, check_smooth
from softmargin.solvers.common.momentum import extrapolate, next_momentum

__all__ = ["BallGradient", "BallGradientState", "BallGradientTuning"]

FAINT = 1e-16  # share of the largest curvature below which a column is constant zero, or rounding
LEAST_SHARE = 1e-20  # L stays above this share of a bound that always holds: where gradients vanish it would underflow


class BallGradientTuning(NamedTuple):
    """Constants of accelerated projected gradient over a ball."""

    shrink: float = 0.95  # factor of L before every iteration; by hand
    growth: float = 1.3  # least factor of L after a step that was too long; by hand
    gap_every: int = 3  # iterations from one gap to the next; by hand
    # Power of a column's curvature in m. Gap after 277 steps on mnist (0..255): 5.4e-2 with 0, 8.2e-3 with 1/2,
    # 1.3e-2 with 1; on avila at radius 30 only 1/2 reaches 1e-3 in 2 s; segment, vehicle, wine, glass hardly differ.
    own: float = 0.5


@dataclass
class BallGradientState:
    """Everything a run needs to go on: arrays and plain numbers, so that a checkpoint can hold it, and scratch."""

    W: Array  # (d, k)
    S: Array  # (n, k) scores, without the intercept
    last_W: Array  # one iteration ago
    last_S: Array
    intercept: Array  # (k,) the best at S
    last_intercept: Array  # one iteration ago
    metric: Array  # (d,) m
    lipschitz: float  # L, of f alone
    ceiling: float  # a bound on L that always holds
    momentum: float = 1.0
    theta: float = 0.0  # threshold of the last projection
    gap: float = math.inf
    n_done: int = 0

    def __post_init__(self) -> None:
        """Allocate the scratch."""
        self.V, self.G, self.D = (np.empty_like(self.W) for _ in range(3))
        self.V_scores, self.U = np.empty_like(self.S), np.empty_like(self.S)


@dataclass(frozen=True)
class BallGradient(BallSolver):
    """Settings of accelerated projected gradient; ``restart`` drops the momentum when a step turns back."""

    restart: bool = True
    tuning: BallGradientTuning = BallGradientTuning()

    state_type: ClassVar = BallGradientState

    def start(self, problem: ConstrainedProblem, init: BallPoint | None, rng: np.random.Generator) -> BallGradientState:
        """Allocate, from a first point or from zero."""
        check_smooth(problem)
        self._check(problem)
        point = problem.checked_point(init)
        W = np.array(point.weights, dtype=np.float64)
        S = np.ascontiguousarray(problem.scores(W))
        squares = np.empty(problem.X.shape[1])
        weighted_squares(as_rows(problem.X), problem.weights, squares)
        squares *= problem.loss.curvature
        metric = self._metric(problem, squares)
        ceiling = float((squares / metric).sum()) or 1.0  # where X is zero, any number will do
        # A step along one column meets at least the curvature of that column.
        first = max(float((squares / metric).max()), LEAST_SHARE * ceiling)
        return BallGradientState(
            W, S, W.copy(), S.copy(), point.intercept, point.intercept.copy(), metric, first, ceiling
        )

    def _metric(self, problem: Any, squares: Array) -> Array:
        """Return m, given the largest curvature along every column."""
        if not isinstance(problem.ball, L1Ball):
            return np.ones(len(squares))
        return np.maximum(squares, FAINT * float(squares.max()) or 1.0) ** self.tuning.own

    def _check(self, problem: Any) -> None:
        objective.checked_ball(problem, "BallGradient", "LowRankGradient", L1Ball, Simplex, Box, Shaped, Hull)

    def _ridge(self, problem: Any) -> float:
        """Return the curvature that is known beside that of the losses."""
        return float(problem.l2)

    def _land(self, problem: Any, state: BallGradientState, pulls: Array, out: Array) -> None:
        """Write the point where a step from V ends, given 1 / M."""
        D = state.D
        np.multiply(state.V, problem.l2, out=D)
        D += state.G
        D *= -pulls[:, None]
        D += state.V
        if isinstance(problem.ball, L1Ball):
            state.theta = problem.ball.pull_into(D, pulls, state.theta, out)
        else:
            out[:] = problem.ball.project(D)

    def _gap(self, problem: Any, W: Array, losses: float, G: Array, conjugates: float) -> float:
        """Return the relative gap at W and the slopes whose product with X' is G."""
        primal = losses + 0.5 * problem.l2 * float(np.vdot(W, W))
        return relative_gap(primal, problem.ball.least(G, problem.l2) - conjugates)

    def step(self, problem: ConstrainedProblem, state: BallGradientState) -> BallGradientState:
        """Make one iteration."""
        l2, top = self._ridge(problem), float(state.metric.max())
        before = state.lipschitz * top + l2
        state.lipschitz = max(self.tuning.shrink * state.lipschitz, LEAST_SHARE * state.ceiling)
        momentum, beta = next_momentum(state.momentum, (state.lipschitz * top + l2) / before)
        V, S, U, G, D = state.V, state.V_scores, state.U, state.G, state.D
        extrapolate(state.W, state.last_W, beta, V)
        extrapolate(state.S, state.last_S, beta, S)
        b = best_intercept(problem, S, state.intercept + beta * (state.intercept - state.last_intercept))
        objective.fill_slopes(problem, S, b, U)
        objective.fill_adjoint(problem.X, U, G)
        # The new point overwrites the one before last.
        new, new_S = state.last_W, state.last_S
        while True:
            check_time()
            M = state.lipschitz * state.metric + l2
            self._land(problem, state, 1.0 / M, new)
            np.subtract(new, V, out=D)
            objective.fill_scores(problem.X, new, new_S)
            intercept = best_intercept(problem, new_S, b)
            rise = objective.slope_rise(problem, new_S, intercept, U, S)
            square = float(state.metric @ np.einsum("jc,jc->j", D, D))
            if square == 0.0 or not rise > state.lipschitz * square or state.lipschitz >= state.ceiling:
                break
            state.lipschitz = min(max(self.tuning.growth * state.lipschitz, rise / square), state.ceiling)
        if state.n_done % self.tuning.gap_every == 0:
            losses = objective.losses(problem, new_S, intercept)
            state.gap = self._gap(problem, new, losses, G, objective.conjugates(problem, S, b))
        D *= M[:, None]
        turned = float(np.vdot(D, new)) < float(np.vdot(D, state.W))
        state.momentum = 1.0 if self.restart and turned else momentum
        state.W, state.last_W = new, state.W
        state.S, state.last_S = new_S, state.S
        state.intercept, state.last_intercept = intercept, state.intercept
        state.n_done += 1
        return state
