"""Newton's method over the l1 ball: features of all sizes, where gradient steps crawl.

    F(W) = min over b of sum_ic p_i f(s_ic + b_c, t_ic) + l2 / 2 |W|^2 ,    s = X W ,    |W|_1 <= radius
    v    = argmin of the quadratic model of F at W over |v|_1 <= radius          exactly, by its path (``_l1_model``)
    W   <- W + t (v - W) ,    t in [0, 1] by a line search: the ball is convex

The model has a block for every column, H_c = X' (diag h_c - h_c h_c' / sum h_c) X + l2 with h_ic = p_i f'', for losses
that charge every score by itself. A small share is added to its diagonal, and a far smaller one of the squares of the
features: losses with flat parts may leave nothing else. Whatever the units of the features are, the model is as good.

Source: ours; the path as in Osborne, Presnell and Turlach (2000); maths: ball, section 4.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import Array, ConstrainedProblem
from softmargin.matrices.rows import as_rows, weighted_squares
from softmargin.problems.constrained import BallPoint
from softmargin.sets import L1Ball
from softmargin.solvers.ball._class_hessian import class_hessian
from softmargin.solvers.ball._iterate import BallIterate, BallSolver
from softmargin.solvers.ball._l1_model import PathTuning, least_in_l1_ball
from softmargin.solvers.ball._objective import check_entrywise, checked_ball

__all__ = ["L1BallNewton", "L1BallNewtonState", "L1BallNewtonTuning"]

MOST_NUMBERS = 1e9  # of all blocks: 8 GB


class L1BallNewtonTuning(NamedTuple):
    """Constants of the models."""

    ridge: float = 1e-10  # share of its diagonal that is added to H; by hand
    faint: float = 1e-15  # share of the bound on the curvature of a feature that H_jj counts as at least; by hand
    growth: float = 100.0  # of this share, where F does not fall along a step; by hand
    path: PathTuning = PathTuning()


@dataclass(kw_only=True)
class L1BallNewtonState(BallIterate):
    """The point, and what is added to its models."""

    ridge: float


@dataclass(frozen=True)
class L1BallNewton(BallSolver):
    """Newton's method over an l1 ball; it has no settings. One step is one quadratic model."""

    tuning: L1BallNewtonTuning = L1BallNewtonTuning()

    state_type: ClassVar = L1BallNewtonState

    def start(self, problem: ConstrainedProblem, init: BallPoint | None, rng: np.random.Generator) -> L1BallNewtonState:
        """Begin at zero, or at ``init``."""
        checked_ball(problem, "L1BallNewton", "BallGradient", L1Ball)
        check_entrywise(problem, "L1BallNewton", "BallGradient")
        d, k = problem.shape
        if k * float(d) ** 2 > MOST_NUMBERS:
            raise IncompatibleError(
                f"L1BallNewton holds a matrix of all features per column, {k} of {d} x {d}; that is more than "
                f"{MOST_NUMBERS:.0e} numbers. Use BallWorkingSet."
            )
        return L1BallNewtonState.at(problem, init, ridge=self.tuning.ridge)

    def step(self, problem: ConstrainedProblem, state: L1BallNewtonState) -> L1BallNewtonState:
        """Minimise a model over the ball, and F on the way to its minimum."""
        ball = checked_ball(problem, "L1BallNewton", "BallGradient", L1Ball)
        H = self._hessians(problem, state)
        curved = np.stack([block @ w for block, w in zip(H, state.W.T, strict=True)], axis=1)
        right = curved - (state.Z + problem.l2 * state.W)
        v = least_in_l1_ball(H, right, ball.radius, self.tuning.path)
        if state.approach(problem, v) == 0.0:
            state.ridge *= self.tuning.growth
        return state

    def _hessians(self, problem: ConstrainedProblem, state: L1BallNewtonState) -> list[Array]:
        """Return the block of every column."""
        h = problem.weights[:, None] * problem.loss.bend(state.scores + state.intercept, problem.target)
        squares = np.empty(len(state.W))
        weighted_squares(as_rows(problem.X), problem.weights, squares)
        least = self.tuning.faint * problem.loss.curvature * squares
        blocks = [class_hessian(problem.X, column, is_centred=problem.fit_intercept) for column in h.T]
        for block in blocks:
            diagonal = np.einsum("jj->j", block)  # a view
            diagonal += state.ridge * (diagonal + least) + problem.l2
        return blocks
