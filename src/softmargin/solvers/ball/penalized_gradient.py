"""Accelerated proximal gradient (FISTA) for entrywise losses with a convex penalty.

    V = W_t + beta (W_t - W_{t-1});   W_{t+1} = prox_{g / L}(V - L'(V) / L)

It is accelerated gradient over a ball (``solvers.ball.accelerated_gradient``), with the prox of the penalty in place of
the nearest point: the same momentum, intercept, and curvature along the step.

Source: Beck and Teboulle (2009), restarted as in O'Donoghue and Candes (2015). Maths: penalised losses, section 3.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from softmargin.core.protocols import Array, PenalizedProblem
from softmargin.problems.linear_losses import BallPoint
from softmargin.solvers.ball.accelerated_gradient import BallGradient, BallGradientState

__all__ = ["PenalizedGradient"]


@dataclass(frozen=True)
class PenalizedGradient(BallGradient):
    """Settings of accelerated proximal gradient; ``restart`` drops the momentum when a step turns back.

    Examples
    --------
    >>> import numpy as np
    >>> from softmargin import Penalized, PenalizedGradient, penalties, solve
    >>> from softmargin.losses.entrywise import ENTRYWISE
    >>> rows, target = np.array([[0.0], [1.0], [3.0]]), np.array([[0.0], [1.5], [2.5]])
    >>> problem = Penalized(rows, target, loss=ENTRYWISE["squared"], penalty=penalties.L1(0.1))
    >>> solve(problem, PenalizedGradient(), rng=0).status.value
    'converged'
    """

    needs: ClassVar[tuple[type, ...]] = (PenalizedProblem,)

    def point(self, problem: Any, state: BallGradientState) -> BallPoint:
        """Return the weights and the intercept."""
        return BallPoint(state.W.copy(), state.intercept.copy())

    def _check(self, problem: Any) -> None:
        """Take any: a problem has refused a penalty without a bound."""

    def _ridge(self, problem: Any) -> float:
        return 0.0

    def _metric(self, problem: Any, squares: Array) -> Array:
        return np.ones(len(squares))

    def _land(self, problem: Any, state: BallGradientState, pulls: Array, out: Array) -> None:
        length = 1.0 / state.lipschitz
        out[:] = problem.penalty.prox(state.V - length * state.G, length)

    def _gap(self, problem: Any, W: Array, losses: float, G: Array, conjugates: float) -> float:
        return float(problem.rough_gap(W, losses, G, conjugates))
