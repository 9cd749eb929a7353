"""A loss of linear scores whose rows lie in blocks, here or on other machines, with a penalty or over a ball.

    P(W) = sum over blocks sum_i p_i f(W' [x_i, constant], t_i) + g(W)                  maths: penalised losses, eq. 1
    D(U) = -g*(-Z) - sum over blocks sum_i p_i f*(u_i, t_i) ,    Z = X' (p U)                                    eq. 2
           with an unpenalised constant also   sum_i p_i u_i = 0

How losses are summed over blocks, and what a point is, stands in ``summed_losses``.

    problem         loss                          constant        g
    softmax         multinomial; two classes:     free            any convex penalty with a bound
                    logistic
    squared hinge   squared hinge, entrywise      free, or not    1/2 |W|^2
    hinge           joint, or entrywise           not, or free    1/2 |W|^2
    ball            any smooth one                free            l2 / 2 |W|^2, W in a ball
"""

import math
from typing import Any, ClassVar

import numpy as np

from softmargin.core.certificate import Certificate
from softmargin.core.errors import IncompatibleError
from softmargin.core.pieces import Array
from softmargin.core.rounding import Rounded, squared_norm
from softmargin.penalties import checked
from softmargin.penalties.rounding import OPERATIONS, outward, rounded_conjugate, rounded_value
from softmargin.problems.block_rows import Form
from softmargin.problems.blocks import Blocks
from softmargin.problems.constrained import INSIDE
from softmargin.problems.linear_losses import Pulled
from softmargin.problems.summed_losses import SummedLosses, SummedPoint

__all__ = ["ConstrainedSum", "PenalizedSum"]


class PenalizedSum(SummedLosses):
    """The losses with a convex penalty that grows with the weights."""

    takes_scales: ClassVar[bool] = True

    def __init__(self, blocks: Blocks, form: Form, penalty: Any) -> None:
        super().__init__(blocks, form)
        self.penalty = checked(penalty)
        if not (self.penalty.is_convex and self.penalty.has_bound):
            raise IncompatibleError(
                f"penalty={penalty} was asked for: over blocks of rows a convex penalty is needed that grows with the "
                "weights, as no bound can be proven without one. Give one of positive strength."
            )

    @property
    def kind(self) -> str:
        """The family of solvers: of a ridge, or of any penalty."""
        return "summed ridge" if self.ridge > 0.0 else "summed penalty"

    @property
    def is_entrywise(self) -> bool:
        """Whether g is a sum over the entries of W."""
        return bool(self.penalty.is_entrywise)

    @property
    def ridge(self) -> float:
        """The strength of the penalty where it is ridge / 2 |W|^2; else 0."""
        return float(getattr(self.penalty, "ridge", None) or 0.0)

    def value(self, W: Array) -> float:
        """Return g(W)."""
        return float(self.penalty.value(self.form.penalised(W)))

    def prox(self, V: Array, t: Any) -> Array:
        """Return the minimiser of g(W) + |W - V|^2 / (2 t); t is a number, or (d + 1, 1)."""
        W = V.copy()
        rows = self.form.penalised(W)
        rows[:] = self.penalty.prox(rows.copy(), t if np.ndim(t) == 0 else self.form.penalised(t))
        return W

    def _rounded_value(self, W: Array) -> Rounded:
        return rounded_value(self.penalty, self.form.penalised(W))

    def _bound(self, pulled: Pulled) -> Rounded:
        Z, away, conjugates = pulled
        return (rounded_conjugate(self.penalty, -Z, np.broadcast_to(away, Z.shape)) + conjugates).times(-1.0)

    def _reach(self, pulled: Pulled) -> float:
        away = np.broadcast_to(pulled.away, pulled.Z.shape)
        return float(self.penalty.reach(outward(-pulled.Z, away, 2 * OPERATIONS)))

    def _rough_bound(self, Z: Array, conjugates: float, losses: float) -> float:
        # A share s < 1 of U adds a term of second order in 1 - s, which at s = 0 is all the losses.
        share = float(self.penalty.reach(-Z))
        return float(-self.penalty.conjugate(-share * Z)) - share * conjugates - (1.0 - share) ** 2 * losses

    def _settings(self) -> Any:
        return ("penalized sum", self.penalty)


class ConstrainedSum(SummedLosses):
    """The losses with a ridge penalty, over a convex set of weights."""

    kind: ClassVar[str] = "summed ball"
    takes_scales: ClassVar[bool] = False
    is_entrywise: ClassVar[bool] = False
    ridge: ClassVar[float] = 0.0

    def __init__(self, blocks: Blocks, form: Form, ball: Any, l2: float = 0.0) -> None:
        super().__init__(blocks, form)
        if not self.is_smooth:
            raise IncompatibleError("over a ball, blocks of rows need a smooth loss; use loss='smooth_hinge'.")
        self.ball, self.l2 = ball, float(l2)

    def value(self, W: Array) -> float:
        """Return l2 / 2 |W|^2, for weights inside the ball."""
        rows = self.form.penalised(W)
        return 0.5 * self.l2 * float(np.vdot(rows, rows))

    def prox(self, V: Array, t: Any) -> Array:
        """Return the minimiser of l2 / 2 |W|^2 + |W - V|^2 / (2 t) over the ball; all of its rows have the same t."""
        t, W = float(np.ravel(t)[0]), V.copy()
        rows = self.form.penalised(W)
        rows[:] = self.ball.project(rows / (1.0 + t * self.l2))
        return W

    def _rounded_value(self, W: Array) -> Rounded:
        excess, square = self._excess(W), squared_norm(self.form.penalised(W).copy()).times(0.5).times(self.l2)
        return square.widened(excess * (2.0 + excess) * square.value) if excess < math.inf else Rounded(math.inf)

    def _excess(self, W: Array) -> float:
        return float(self.ball.excess(self.form.penalised(W).copy()))

    def _bound(self, pulled: Pulled) -> Rounded:
        least: Rounded = self.ball.least_below(pulled.Z, self.l2, pulled.away)
        return least - pulled.conjugates

    def _rough_bound(self, Z: Array, conjugates: float, losses: float) -> float:
        return float(self.ball.least(Z, self.l2)) - conjugates

    def is_inactive(self, point: SummedPoint) -> bool:
        """Say whether the point lies inside the ball: then a larger radius changes nothing."""
        return bool(self.ball.size(self.form.penalised(point.weights)) < INSIDE)

    def certificate(self, point: SummedPoint) -> Certificate:
        """Return the gap at a point, under the name it has over a ball."""
        found = super().certificate(point)
        return found if self.l2 > 0.0 else found._replace(kind="Frank-Wolfe gap")

    def _settings(self) -> Any:
        return ("constrained sum", self.ball, self.l2)
