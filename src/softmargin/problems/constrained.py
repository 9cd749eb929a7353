"""A loss of linear scores, entry by entry or row by row, over a convex set of weights.

    P(W, b) = sum_i p_i sum_c f(s_ic, t_ic) + l2 / 2 |W|^2 ,    s_i = W' x_i + b ,    W in the ball
                                                                                               maths: ball, eqs. 1 and 2
    D(U)    = min over the ball of { l2 / 2 |W|^2 + <Z, W> } - sum_i p_i sum_c f*(u_ic, t_ic) ,   Z = X' (p U)
              with an intercept also   sum_i p_i u_ic = 0

The weights p of the samples sum to one, unless class weights scale them. The certificate takes the better of two dual
points: U = f'(s) at the best intercept for W, and the solver's own. Where l2 = 0 the former gives the Frank-Wolfe gap
<G, W> - min over the ball of <G, .>.

    paper 001        here
    x, X             weights (d, k); k = 1 for one target
    y, Y             U (n, k), without the 1/n
    z = A'y          Z (d, k), with the 1/n
    tau, lambda, mu  ball.radius, l2
"""

import copy
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import Certificate, duality_gap, relative_gap
from softmargin.core.deadline import OutOfTime, check_time, leaving, time_left
from softmargin.core.parameters import NOT_NEGATIVE, checked
from softmargin.core.pieces import ConvexSet, EntrywiseLoss
from softmargin.core.rounding import Rounded, gamma, norms, squared_norm
from softmargin.problems.checks import digest_of
from softmargin.problems.linear_losses import BallPoint, LinearLosses
from softmargin.sets import LowRank, TraceBall
from softmargin.sets.truncated import values_work

__all__ = ["BallPoint", "Constrained"]

Array = NDArray[Any]
_ENTRY = 2000.0  # multiplications of BLAS in the time that a score takes beside its own; by timings
INSIDE = 1.0 - 1e-6  # a point that uses less of the ball does not touch its boundary


class Constrained(LinearLosses):
    """A loss of linear scores with a ridge penalty, over a convex set.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        float32 or float64; not copied.
    target : array of shape (n,) or (n, k)
        What the scores should be; -1 and +1 for a margin loss, a 1 at the label and zeros for a joint loss.
    loss : EntrywiseLoss
        From ``losses.entrywise`` or ``losses.joint``; ``losses.observed.Observed`` of an entrywise one where some
        targets are NaN.
    ball : ConvexSet
        From ``sets``.
    l2 : float
        Strength of the ridge penalty.
    weights : array of shape (n,), optional
        Weights p of the samples; by default 1 / n.
    fit_intercept : bool, default=False
    """

    can_skip_bound: ClassVar[bool] = True

    def __init__(
        self,
        X: Any,
        target: Array,
        *,
        loss: EntrywiseLoss,
        ball: ConvexSet,
        l2: float = 0.0,
        weights: Array | None = None,
        fit_intercept: bool = False,
    ) -> None:
        super().__init__(X, target, loss, weights, fit_intercept)
        self.l2 = float(checked("l2", l2, NOT_NEGATIVE))
        self.ball: Any = ball  # of a known kind to most callers
        self._columns: Any = None

    @property
    def kind(self) -> str:
        """The family of solvers, by the set, and whether the loss is smooth."""
        family = "trace ball" if isinstance(self.ball, TraceBall) else "l1 ball"
        return family if self.loss.curvature < np.inf else f"{family} hinge"

    def columns(self) -> Any:
        """Return X by columns: CSC, or a Fortran-ordered array. The first call makes the copy."""
        if self._columns is None:
            self._columns = np.asfortranarray(self.X) if isinstance(self.X, np.ndarray) else self.X.tocsc()
        return self._columns

    def zero(self) -> BallPoint:
        """Return the point of the ball nearest to W = 0, with the best intercept for it."""
        weights = self.ball.project(np.zeros(self.shape))
        return BallPoint(weights, self.best_intercept(self.scores(weights)))

    def inside(self, weights: Array) -> Array:
        """Return a copy of the weights; those that left the ball by more than rounding go to its nearest point."""
        is_kept = self.ball.excess(weights) < np.inf or not np.isfinite(weights).all()
        return np.array(weights if is_kept else self.ball.project(weights))

    def checked_point(self, init: BallPoint | None) -> BallPoint:
        """Return where to start: the point of the ball nearest to ``init``, if its shape fits, or to zero."""
        if init is None:
            return self.zero()
        self.check_shape(init)
        weights = init.weights.toarray() if isinstance(init.weights, LowRank) else init.weights
        weights = np.ascontiguousarray(weights, dtype=np.float64)
        return BallPoint(self.ball.project(weights), np.array(init.intercept))

    def bound(self, U: Array, Z: Array) -> float:
        """Return D, given Z = X' (p U)."""
        conjugate = float(self.weights @ self.loss.conjugate(U, self.target).sum(axis=1))
        return float(self.ball.least(Z, self.l2)) - conjugate

    def relative_gap(self, W: Array, scores: Array, intercept: Array, Z: Array) -> float:
        """Return the relative gap at W, given its scores, the best intercept for them, and Z = X' slopes."""
        primal = self.losses(scores, intercept) + 0.5 * self.l2 * float(np.vdot(W, W))
        return relative_gap(primal, self.bound(self.loss.slope(scores + intercept, self.target), Z))

    def primal(self, point: BallPoint) -> Rounded:
        """Return P; inf where the weights are outside the ball by more than rounding.

        By rounding alone, the exact weights are those of the point, scaled back into the ball.
        """
        return self._value(point, self.scores(point.weights))

    def _value(self, point: BallPoint, scores: Array) -> Rounded:
        W, excess = point.weights, self.ball.excess(point.weights)
        if not excess < np.inf:
            return Rounded(np.inf)
        operations = 12
        if isinstance(W, LowRank):
            # Products with r columns come twice: in these scores, and in the array that the model holds.
            sizes, spread, operations = W.column_sizes(), W.spread(), 2 * W.rank + 12
            square = Rounded(W.sqnorm(), gamma(sum(W.shape) + W.rank**2 + operations) * spread**2)
        else:
            sizes, square = np.where(W.any(axis=0), norms(W, axis=0), 0.0), squared_norm(W)
        square = square.widened(excess * (2.0 + excess) * square.value)
        return self.losses_at(point, scores, sizes, operations, excess) + square.times(0.5).times(self.l2)

    def dual(self, U: Array) -> Rounded:
        """Return D at feasible dual variables near U: maths: rounding, section 6."""
        check_time()
        Z, away, conjugates = self._pulled(U)
        least: Rounded = self.ball.least_below(Z, self.l2, away)
        return least - conjugates

    def certificate(self, point: BallPoint) -> Certificate:
        """Return the duality gap at a point, from scores computed afresh."""
        before = time_left()
        scores = self.scores(point.weights)
        primal = self._value(point, scores)
        needed = before - time_left()  # about what a bound takes, too; no number without a deadline
        # U = 0 is feasible, and no objective is negative: D there is at least 0.
        bounds = [Rounded(0.0)]
        try:
            if time_left() < needed:
                raise OutOfTime
            with leaving(needed):
                intercept = self.best_intercept(scores, point.intercept)
            bounds.append(self.dual(self.dual_point(scores, intercept)))
            if point.dual is not None:
                bounds.append(self.dual(self.balanced(point.dual)))
        except OutOfTime:
            pass
        bound = max((each for each in bounds if not np.isnan(each.lower)), key=lambda each: each.lower)
        certificate = duality_gap(primal, bound)
        return certificate if self.l2 > 0.0 else certificate._replace(kind="Frank-Wolfe gap")

    def certificate_work(self, point: BallPoint | None) -> float:
        """Return about how many multiplications take as long as a certificate: two products, and passes over scores."""
        decomposing = 2.0 * values_work(self.shape) if isinstance(self.ball, TraceBall) else 0.0
        return float(self.shape[1] * (2.0 * self.X.size + _ENTRY * len(self.target)) + decomposing)

    def is_inactive(self, point: BallPoint) -> bool:
        """Say whether the point lies inside the ball: then a larger radius changes nothing."""
        return bool(self.ball.size(point.weights) < INSIDE)

    def within(self, ball: Any) -> "Constrained":
        """Return the problem of the same data over another set; the data, and what was made of them, are shared."""
        other = copy.copy(self)
        other.ball = ball
        return other

    def small_problem(self) -> "Constrained | None":
        """Return a problem of two rows that needs the same compiled loops; None where SciPy narrowed the indices."""
        X = self.X[:2]
        if not isinstance(X, np.ndarray) and X.indices.dtype != self.X.indices.dtype:
            return None
        settings = {"loss": self.loss, "ball": self.ball, "l2": self.l2, "fit_intercept": self.fit_intercept}
        return Constrained(X, self.target[:2], **settings)

    def fingerprint(self) -> str:
        """Return a hash of the data, the loss, the ball and the ridge penalty."""
        settings = ("constrained", self.loss, self.ball, self.l2, self.fit_intercept)
        return digest_of(settings, self.X, self.target, self.weights)
