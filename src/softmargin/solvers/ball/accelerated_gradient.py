"""Accelerated projected gradient over a convex set, with adaptive restart.

    minimise over W in the ball:   F(W) = f(W) + l2 / 2 |W|^2 ,     f(W) = min over b of sum_i p_i loss(W' x_i + b, t_i)

    V = W_t + beta (W_t - W_{t-1});   W_{t+1} = the point of the ball next to V - F'(V) / (L + l2)

Scores are linear in W, so those of V are combined from those of two points: one product with X and one with X' make an
iteration. The intercept is no coordinate of the descent: the best one is found for the scores of every V.

L is a bound on the curvature of f along the step that was made, seen in the scores: it shrinks a little every time, and
grows where <f'(W_{t+1}) - f'(V), D> > L |D|^2 with D = W_{t+1} - V. No norm of X is computed.

    spec 1.1, 1.4    here
    x, v             W, V
    y                U (n, k), weighted: the slopes at V
    z                G (d, k), with the 1/n: X' U
    mu, tau          l2, ball.radius

The slopes at V are a dual point too: P(W) - D(U) is a duality gap for one projection more, asked every few iterations.

Source: Beck and Teboulle (2009), restarted as in O'Donoghue and Candes (2015) where <V - W_{t+1}, W_{t+1} - W_t> > 0;
momentum follows a changing L as in Scheinberg, Goldfarb and Bai (2014). Spec 1.4.
"""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import duality_gap
from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import ConstrainedProblem
from softmargin.matrices.rows import as_rows, weighted_squares
from softmargin.problems.constrained import BallPoint
from softmargin.sets import Box, L1Ball, Simplex
from softmargin.solvers.ball._entry_loops import best_intercept, conjugates, fill_slopes, losses, slope_rise
from softmargin.solvers.ball._l1_loops import fill_adjoint, fill_scores, project_into

__all__ = ["BallGradient", "GradientState"]

Array = NDArray[Any]
EASIER = 0.95  # how much smaller a constant is tried every time
HARDER = 1.3  # how much larger at least, where it was too small
LEAST = 1e-20  # but never below this share of one that holds anywhere: gradients may vanish for ever
GAP_EVERY = 3


@dataclass
class GradientState:
    """Everything a run needs to go on: arrays and plain numbers, so that a checkpoint can hold it, and scratch."""

    W: Array  # (d, k)
    S: Array  # (n, k) scores, without the intercept
    last_W: Array  # one iteration ago
    last_S: Array
    intercept: Array  # (k,)
    lipschitz: float  # of f alone
    ceiling: float  # a constant that holds anywhere
    momentum: float = 1.0
    theta: float = 0.0  # level of the last projection
    gap: float = math.inf
    n_done: int = 0
    V: Array = field(init=False, repr=False)  # scratch from here on
    V_scores: Array = field(init=False, repr=False)
    U: Array = field(init=False, repr=False)
    G: Array = field(init=False, repr=False)
    D: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Allocate the scratch."""
        self.V, self.G, self.D = (np.empty_like(self.W) for _ in range(3))
        self.V_scores, self.U = np.empty_like(self.S), np.empty_like(self.S)


@dataclass(frozen=True)
class BallGradient:
    """Settings of accelerated projected gradient. One step is one iteration.

    Parameters
    ----------
    restart : bool
        Forget the momentum when a step turned back.
    """

    restart: bool = True

    needs: ClassVar[tuple[type, ...]] = (ConstrainedProblem,)

    def start(self, problem: Any, init: Any, rng: np.random.Generator) -> GradientState:
        """Allocate, from a first point or from zero."""
        if not isinstance(problem.ball, L1Ball | Simplex | Box):
            raise IncompatibleError(
                f"BallGradient needs an l1 ball, a simplex or a box; the set is {problem.ball!r}. "
                "Use a solver of the trace-norm ball."
            )
        point = problem.checked_point(init)
        W = np.array(point.weights, dtype=np.float64)
        S = np.ascontiguousarray(problem.scores(W))
        squares = np.empty(problem.X.shape[1])
        weighted_squares(as_rows(problem.X), problem.weights, squares)
        squares *= problem.loss.curvature
        ceiling = float(squares.sum()) or 1.0  # where X is zero, any will do
        # A column's own square is the least that a step along it meets.
        first = max(float(squares.max()), LEAST * ceiling)
        return GradientState(W, S, W.copy(), S.copy(), point.intercept, first, ceiling)

    def step(self, problem: Any, state: GradientState) -> GradientState:
        """Make one iteration."""
        l2, before = problem.l2, state.lipschitz + problem.l2
        state.lipschitz = max(EASIER * state.lipschitz, LEAST * state.ceiling)
        following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * (state.lipschitz + l2) / before * state.momentum**2))
        beta = (state.momentum - 1.0) / following
        V, S, U, G, D = state.V, state.V_scores, state.U, state.G, state.D
        for at, now, last in ((V, state.W, state.last_W), (S, state.S, state.last_S)):
            np.subtract(now, last, out=at)
            at *= beta
            at += now
        state.intercept = best_intercept(problem, S, state.intercept)
        fill_slopes(problem, S, state.intercept, U)
        fill_adjoint(problem.X, U, G)
        # What was the last point becomes room for the new one.
        new, new_S = state.last_W, state.last_S
        while True:
            length = 1.0 / (state.lipschitz + l2)
            np.multiply(G, -length, out=D)
            D += (1.0 - length * l2) * V
            state.theta = project_into(problem.ball, D, state.theta, new)
            np.subtract(new, V, out=D)
            fill_scores(problem.X, new, new_S)
            intercept = best_intercept(problem, new_S, state.intercept)
            rise = slope_rise(problem, new_S, intercept, U, S)
            square = float(np.vdot(D, D))
            if square == 0.0 or not rise > state.lipschitz * square or state.lipschitz >= state.ceiling:
                break
            state.lipschitz = min(max(HARDER * state.lipschitz, rise / square), state.ceiling)
        if state.n_done % GAP_EVERY == 0:
            state.gap = self._gap(problem, state, new, new_S, intercept)
        turned = float(np.vdot(D, new)) < float(np.vdot(D, state.W))
        state.momentum = 1.0 if self.restart and turned else following
        state.W, state.last_W = new, state.W
        state.S, state.last_S = new_S, state.S
        state.intercept = intercept
        state.n_done += 1
        return state

    def _gap(self, problem: Any, state: GradientState, W: Array, scores: Array, intercept: Array) -> float:
        """Return the relative gap between the new point and the dual point of V."""
        primal = losses(problem, scores, intercept) + 0.5 * problem.l2 * float(np.vdot(W, W))
        bound = problem.ball.least(state.G, problem.l2) - conjugates(problem, state.V_scores, state.intercept)
        return duality_gap(primal, bound).residual

    def point(self, problem: Any, state: GradientState) -> BallPoint:
        """Return the weights and the intercept."""
        return BallPoint(state.W.copy(), state.intercept.copy())

    def estimate(self, problem: Any, state: GradientState) -> float:
        """Return the gap as it was last computed."""
        return state.gap

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> GradientState:
        """Rebuild the state from a checkpoint."""
        return GradientState(**arrays, **plain)
