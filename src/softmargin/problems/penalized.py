"""An entrywise loss of linear scores with a separable convex penalty: the lasso, ridge regression, and their relatives.

    P(W, b) = sum_i p_i sum_c f(s_ic, t_ic) + g(W) ,    s_i = W' x_i + b                  maths: penalised losses, eq. 1
    D(U)    = -g*(-Z) - sum_i p_i sum_c f*(u_ic, t_ic) ,    Z = X' (p U)                                        eq. 2
              with an intercept also   sum_i p_i u_ic = 0

The dual point of W is s f'(s_ic) at the best intercept for W; the share s <= 1 brings -Z to where g* is finite. So the
weights of any solver or library can be certified. The intercept is not penalised.
"""

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import Certificate, duality_gap, relative_gap
from softmargin.core.errors import IncompatibleError
from softmargin.core.pieces import EntrywiseLoss
from softmargin.core.rounding import Rounded, gamma, norms
from softmargin.penalties import checked
from softmargin.penalties.rounding import OPERATIONS, outward, rounded_conjugate, rounded_value
from softmargin.problems.checks import digest_of
from softmargin.problems.linear_losses import BallPoint, LinearLosses

__all__ = ["Penalized"]

Array = NDArray[Any]
_OPERATIONS = 12  # roundings of a score beside its product


class Penalized(LinearLosses):
    """A loss of linear scores with a penalty.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        float32 or float64; not copied.
    target : array of shape (n,) or (n, k)
        What the scores should be; -1 and +1 for a margin loss.
    loss : EntrywiseLoss
        From ``losses.entrywise``.
    penalty : Penalty
        A convex member of ``softmargin.penalties`` with at least one positive strength.
    weights : array of shape (n,), optional
        Weights p of the samples; by default 1 / n.
    fit_intercept : bool, default=True
    """

    kind: ClassVar[str] = "penalized"

    def __init__(
        self,
        X: Any,
        target: Array,
        *,
        loss: EntrywiseLoss,
        penalty: Any,
        weights: Array | None = None,
        fit_intercept: bool = True,
    ) -> None:
        super().__init__(X, target, loss, weights, fit_intercept)
        self.penalty = checked(penalty)
        if not (self.penalty.is_convex and self.penalty.has_bound):
            raise IncompatibleError(
                f"penalty={penalty} was asked for: without a convex penalty that grows with the weights, no bound "
                "can be proven. Give one of positive strength."
            )

    def zero(self) -> BallPoint:
        """Return W = 0, or the nearest that the penalty allows, with the best intercept for it."""
        weights = self.penalty.prox(np.zeros(self.shape), 1.0)
        return BallPoint(weights, self.best_intercept(self.scores(weights)))

    def checked_point(self, init: BallPoint | None) -> BallPoint:
        """Return where to start: ``init``, if its shape fits, or zero."""
        if init is None:
            return self.zero()
        self.check_shape(init)
        return BallPoint(np.ascontiguousarray(init.weights, dtype=np.float64), np.array(init.intercept))

    def primal(self, point: BallPoint) -> Rounded:
        """Return P; inf where the penalty forbids the weights."""
        return self._value(point, self.scores(point.weights))

    def _value(self, point: BallPoint, scores: Array) -> Rounded:
        W = point.weights
        sizes = np.where(W.any(axis=0), norms(W, axis=0), 0.0)
        return self.losses_at(point, scores, sizes, _OPERATIONS) + rounded_value(self.penalty, W)

    def dual(self, U: Array) -> Rounded:
        """Return D at feasible dual variables near U, or near a share of it where g* is infinite."""
        Z, away, conjugates = self._pulled(U)
        penalty = rounded_conjugate(self.penalty, -Z, np.broadcast_to(away, Z.shape))
        scale, hair = 1.0, gamma(OPERATIONS)
        if not math.isfinite(penalty.value):
            scale = float(self.penalty.reach(outward(-Z, np.broadcast_to(away, Z.shape), 2 * OPERATIONS)))
        while not math.isfinite(penalty.value) and hair < 1.0:
            scale, hair = scale * (1.0 - hair), 2.0 * hair
            Z, away, conjugates = self._pulled(scale * U)
            penalty = rounded_conjugate(self.penalty, -Z, np.broadcast_to(away, Z.shape))
        return (penalty + conjugates).times(-1.0)

    def certificate(self, point: BallPoint) -> Certificate:
        """Return the duality gap at a point, from scores computed afresh."""
        scores = self.scores(point.weights)
        bound = self.dual(self.dual_point(scores, self.best_intercept(scores, point.intercept)))
        # U = 0 is feasible, with D = -g*(0): zero, where the penalty is least at W = 0.
        is_least = not bound.lower >= 0.0 and self.penalty.conjugate(np.zeros(self.shape)) == 0.0
        return duality_gap(self._value(point, scores), Rounded(0.0) if is_least else bound)

    def rough_gap(self, W: Array, losses: float, Z: Array, conjugates: float) -> float:
        """Guess the relative gap at W: Z = X' (p U), and ``conjugates`` at U, are of a dual point near its own.

        A share s < 1 of U adds a term of second order in 1 - s, which at s = 0 is all the losses.
        """
        value, share = self.penalty.value(W), float(self.penalty.reach(-Z))
        bound = -self.penalty.conjugate(-share * Z) - share * conjugates
        return relative_gap(losses + value, bound - (1.0 - share) ** 2 * losses)

    def fingerprint(self) -> str:
        """Return a hash of the data, the loss and the penalty."""
        settings = ("penalized", self.loss, self.penalty, self.fit_intercept)
        return digest_of(settings, self.X, self.target, self.weights)
