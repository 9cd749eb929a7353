"""Frank-Wolfe for a loss over a convex set: towards the corner that the gradient points away from.

    minimise over W in the ball:   sum_i p_i sum_c f(s_ic, t_ic) + l2 / 2 |W|^2 ,     s = X W + b                    (2)

    S = the corner with the least <G, S> ;    W <- W + eta (S - W) ,   eta in [0, 1] the best on the line

One step is one corner, for which the full gradient is computed: its cost is that of a pass whatever the set. The scores
follow by the corner's alone: one column of X, or X times one singular vector.

    paper 001       here                shape
    x               W                   (d, k)
    grad f          G = Z + l2 W        (d, k)     Z = X' slopes
    x~              corner
    eta             length              ()
    Ax              scores              (n, k)     kept up to date

Source: Frank and Wolfe (1956); paper 001, eq. (2); spec 1.4, 1.5. We differ: eta is searched for. The rate is 1 / t;
the gap at hand is the certificate's, or the one of the corner for a trace ball.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.core.protocols import ConstrainedProblem
from softmargin.matrices.operator import adjoint_product
from softmargin.problems.constrained import BallPoint
from softmargin.solvers.ball._line_search import (
    answer_of_intercept,
    corner_scores,
    gap_at_hand,
    look,
    search,
)

__all__ = ["BallFrankWolfe", "CornerState"]

Array = NDArray[Any]


@dataclass
class CornerState:
    """Where the run stands, and the corner ahead."""

    W: Array  # (d, k)
    scores: Array  # (n, k) X W
    intercept: Array  # (k,)
    Z: Array  # (d, k)
    n_steps: int = 0
    corner: Any = field(init=False, repr=False, default=None)  # scratch: found again after a restart


@dataclass(frozen=True)
class BallFrankWolfe:
    """Frank-Wolfe with the best step; it has no settings."""

    needs: ClassVar[tuple[type, ...]] = (ConstrainedProblem,)

    def start(self, problem: Any, init: Any, rng: np.random.Generator) -> CornerState:
        """Compute the scores and the gradient of a first point, or of the one next to zero."""
        weights, intercept, _ = problem.checked_point(init)
        scores = problem.scores(weights)
        b = problem.best_intercept(scores, intercept)
        return CornerState(weights, scores, b, adjoint_product(problem.X, problem.slopes(scores, b)))

    def step(self, problem: Any, state: CornerState) -> CornerState:
        """Go towards the corner ahead, and find the next one."""
        W, corner = state.W, self._corner(problem, state)
        move = corner_scores(problem, corner) - state.scores
        shift = answer_of_intercept(problem, state.scores, state.intercept, move)
        inner, square = corner.inner(W), float(np.vdot(W, W))
        length = search(
            problem.loss,
            problem.weights[:, None],
            problem.target,
            state.scores + state.intercept,
            move + shift,
            cross=problem.l2 * (inner - square),
            square=problem.l2 * (corner.sqnorm() - 2.0 * inner + square),
            largest=1.0,
        )
        W *= 1.0 - length
        corner.add_to(W, length)
        state.scores += length * move
        state.intercept = state.intercept + length * shift
        look(problem, state)
        state.corner = None
        return state

    def point(self, problem: Any, state: CornerState) -> BallPoint:
        """Return the weights and the intercept."""
        return BallPoint(state.W.copy(), state.intercept.copy())

    def estimate(self, problem: Any, state: CornerState) -> float:
        """Return the gap at hand."""
        return gap_at_hand(problem, state, self._corner(problem, state))

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> CornerState:
        """Rebuild the state from a checkpoint."""
        return CornerState(**arrays, **plain)

    def _corner(self, problem: Any, state: CornerState) -> Any:
        if state.corner is None:
            state.corner = problem.ball.lmo(state.Z + problem.l2 * state.W)
        return state.corner
