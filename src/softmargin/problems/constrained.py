"""An entrywise loss of linear scores over a convex set of weights.

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
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import Certificate, duality_gap, relative_gap
from softmargin.core.errors import DataError
from softmargin.core.parameters import NOT_NEGATIVE, checked
from softmargin.core.protocols import ConvexSet, EntrywiseLoss
from softmargin.core.rounding import SLACK, TINY, ULPS, UNIT, Rounded, gamma, norms, squared_norm, total
from softmargin.losses.observed import Observed
from softmargin.matrices.operator import adjoint_product, canonical, longest_row, product, row_norms
from softmargin.models import LinearModel
from softmargin.problems.checks import checked_prices, digest_of
from softmargin.sets import LowRank, TraceBall

__all__ = ["BallPoint", "Constrained"]

Array = NDArray[Any]
_ROUNDINGS = 4 * ULPS + 8  # of a loss or a conjugate: two functions in units of two roundings each, and products
_MAX_STEPS = 100  # of Newton's method for the intercept; a guard, not a target
_ROUNDING = 1e-15
_LEVEL = 1e-13  # relative size below which a sum of slopes over many samples is rounding
_FAR = 1e100  # an intercept this large comes from a step without curvature
_INSIDE = 1.0 - 1e-6  # a point that uses less of the ball does not touch its boundary


class BallPoint(NamedTuple):
    """Weights, intercepts, and the dual variables of solvers that maintain them."""

    weights: Any  # (d, k) array, or LowRank
    intercept: Array  # (k,)
    dual: Array | None = None  # (n, k)


class Constrained:
    """A loss of linear scores with a ridge penalty, over a convex set.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        float32 or float64; not copied.
    target : array of shape (n,) or (n, k)
        What the scores should be; -1 and +1 for a margin loss.
    loss : EntrywiseLoss
        From ``losses.entrywise``; ``losses.observed.Observed`` of one where some targets are NaN.
    ball : ConvexSet
        From ``sets``.
    l2 : float
        Strength of the ridge penalty.
    weights : array of shape (n,), optional
        Weights p of the samples; by default 1 / n.
    fit_intercept : bool, default=False
    """

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
        self.X = canonical(X)
        n = self.X.shape[0]
        target = np.ascontiguousarray(target, dtype=np.float64)
        self.target = target[:, None] if target.ndim == 1 else target
        if self.target.ndim != 2 or len(self.target) != n or n == 0 or 0 in (*self.X.shape, *self.target.shape):
            raise DataError(f"X has shape {self.X.shape} and the target {target.shape}; rows must agree and exist.")
        seen = self.target[~np.isnan(self.target)] if isinstance(loss, Observed) else self.target
        if not np.isfinite(seen).all():
            raise DataError("the target holds NaN or infinity. Fill in or drop such values.")
        if loss.is_margin and not (np.abs(seen) == 1.0).all():
            raise DataError("a margin loss needs targets -1 and +1 only; use the squared loss for other numbers.")
        self.loss, self.l2 = loss, float(checked("l2", l2, NOT_NEGATIVE))
        self.ball: Any = ball  # of a known kind to most callers
        self.weights = checked_prices(1.0 / n if weights is None else weights, n)
        self.fit_intercept = fit_intercept
        self._columns: Any = None

    @property
    def kind(self) -> str:
        """The family of solvers, by the set."""
        return "trace ball" if isinstance(self.ball, TraceBall) else "l1 ball"

    @property
    def shape(self) -> tuple[int, int]:
        """(d, k)."""
        return self.X.shape[1], self.target.shape[1]

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
        if init.weights.shape != self.shape or np.shape(init.intercept) != self.shape[1:]:
            raise DataError(
                f"a warm start needs weights of shape {self.shape} and as many intercepts as targets; found "
                f"{init.weights.shape} and {np.shape(init.intercept)}. Start afresh, or fit the same features."
            )
        weights = init.weights.toarray() if isinstance(init.weights, LowRank) else init.weights
        weights = np.ascontiguousarray(weights, dtype=np.float64)
        return BallPoint(self.ball.project(weights), np.array(init.intercept))

    def scores(self, weights: Any) -> Array:
        """Return X W, without an intercept; (n, k)."""
        return weights.times(self.X) if isinstance(weights, LowRank) else product(self.X, weights)

    def losses(self, scores: Array, intercept: Array) -> float:
        """Return sum_i p_i sum_c f(s_ic + b_c, t_ic)."""
        return float(self.weights @ self.loss.value(scores + intercept, self.target).sum(axis=1))

    def slopes(self, scores: Array, intercept: Array) -> Array:
        """Return p_i f'(s_ic + b_c, t_ic); (n, k). Its product with X' is the gradient of the losses."""
        return self.weights[:, None] * self.loss.slope(scores + intercept, self.target)

    def best_intercept(
        self,
        scores: Array,
        start: Array | None = None,
        sums_at: Callable[[Array], Any] | None = None,
    ) -> Array:
        """Return the b that minimises the losses of these scores, column by column; zero without an intercept.

        The sum of slopes rises with b: Newton's method inside a bracket that every evaluation narrows. ``sums_at(b)``
        returns the sums over samples of p f', p |f'| and p f'', each (k,); solvers may pass a compiled one.
        """
        k = self.shape[1]
        if not (self.fit_intercept and self.weights.any()):
            return np.zeros(k)
        b = np.zeros(k) if start is None else np.array(start, dtype=np.float64)
        low, high = np.full(k, -np.inf), np.full(k, np.inf)
        for _ in range(_MAX_STEPS):
            slope, size, bend = self._sums_at(scores, b) if sums_at is None else sums_at(b)
            is_done = np.abs(slope) <= _LEVEL * size
            if is_done.all():
                break
            low, high = np.where(slope < 0.0, b, low), np.where(slope > 0.0, b, high)
            with np.errstate(over="ignore"):  # without curvature the step leaves the bracket and is not taken
                new = b - slope / np.maximum(bend, np.finfo(float).tiny)
            outwards = b - np.sign(slope) * (1.0 + 2.0 * np.abs(b))
            is_bracketed = np.isfinite(low) & np.isfinite(high)
            middle = np.where(is_bracketed, 0.5 * np.add(low, high, where=is_bracketed, out=np.zeros(k)), outwards)
            new = np.where((new > low) & (new < high) & (np.abs(new) < _FAR), new, middle)
            new = np.where(is_done, b, new)
            if (np.abs(new - b) <= _ROUNDING * (1.0 + np.abs(b))).all():
                break
            b = new
        return b

    def _sums_at(self, scores: Array, b: Array) -> tuple[Array, Array, Array]:
        U, bends = self.loss.slope(scores + b, self.target), self.loss.bend(scores + b, self.target)
        return self.weights @ U, self.weights @ np.abs(U), self.weights @ bends

    def dual_point(self, scores: Array, intercept: Array) -> Array:
        """Return U = f'(s + b), with an intercept scaled so that sum_i p_i u_ic = 0 up to rounding; (n, k)."""
        U = self.loss.slope(scores + intercept, self.target)
        if self.fit_intercept:
            # Shrink the side with the larger sum: the conjugate's domain holds 0, so U stays inside it.
            up = self.weights @ np.maximum(U, 0.0)
            down = self.weights @ np.maximum(-U, 0.0)
            less = np.minimum(up, down)
            U = np.where(U > 0.0, less / np.where(up > 0.0, up, 1.0), less / np.where(down > 0.0, down, 1.0)) * U
        return U

    def bound(self, U: Array, Z: Array) -> float:
        """Return D, given Z = X' (p U)."""
        conjugate = float(self.weights @ self.loss.conjugate(U, self.target).sum(axis=1))
        return float(self.ball.least(Z, self.l2)) - conjugate

    def relative_gap(self, W: Array, scores: Array, intercept: Array, Z: Array) -> float:
        """Return the relative gap at W, given its scores, the best intercept for them, and Z = X' slopes."""
        primal = self.losses(scores, intercept) + 0.5 * self.l2 * float(np.vdot(W, W))
        return relative_gap(primal, self.bound(self.loss.slope(scores + intercept, self.target), Z))

    @cached_property
    def _lengths(self) -> Array:
        """Bounds on the norms of the samples; (n,)."""
        return row_norms(self.X)

    def primal(self, point: BallPoint) -> Rounded:
        """Return P; inf where the weights are outside the ball by more than rounding.

        By rounding alone, the exact weights are those of the point, scaled back into the ball.
        """
        return self._value(point, self.scores(point.weights))

    def _value(self, point: BallPoint, scores: Array) -> Rounded:
        W, excess = point.weights, self.ball.excess(point.weights)
        if not excess < np.inf:
            return Rounded(np.inf)
        operations, longest = 12, longest_row(self.X)
        if isinstance(W, LowRank):
            # Products with r columns come twice: in these scores, and in the array that the model holds.
            sizes, spread, operations = W.column_sizes(), W.spread(), 2 * W.rank + 12
            square = Rounded(W.sqnorm(), gamma(sum(W.shape) + W.rank**2 + operations) * spread**2)
        else:
            sizes, square = np.where(W.any(axis=0), norms(W, axis=0), 0.0), squared_norm(W)
        square = square.widened(excess * (2.0 + excess) * square.value)
        slope = (gamma(longest + operations) + excess) * sizes
        # Weights of zero have exact scores, the intercept itself.
        level = np.where(sizes > 0.0, 4.0 * UNIT * np.abs(point.intercept) + longest * TINY, 0.0)
        return self._losses(scores, point.intercept, slope, level) + square.times(0.5).times(self.l2)

    def _losses(self, scores: Array, intercept: Array, slope: Array, level: Array) -> Rounded:
        """Return the sum of losses, where scores have errors up to |x_i| slope_c + level_c."""
        p = self.weights[:, None]
        terms = p * self.loss.value(scores + intercept, self.target)
        slopes = np.abs(self.slopes(scores, intercept))
        # |f(s + e) - f(s)| is at most |f'(s)| e + curvature / 2 e^2, and steepest * e.
        near = float((self._lengths @ slopes) @ slope + slopes.sum(axis=0) @ level)
        squares = float(self.weights @ self._lengths**2 * (slope @ slope) + self.weights.sum() * (level @ level))
        far = float(self.weights @ self._lengths * slope.sum() + self.weights.sum() * level.sum())
        errors = min(near + self.loss.curvature * squares, self.loss.steepest * far)
        return total(terms, errors + self._own_errors(terms))

    def _own_errors(self, terms: Array) -> float:
        """Bound the errors of losses or conjugates whose values are these, times p."""
        return gamma(_ROUNDINGS) * float(np.abs(terms).sum()) + _ROUNDINGS * TINY * self.shape[1] * float(
            self.weights.sum()
        )

    def dual(self, U: Array) -> Rounded:
        """Return D at feasible dual variables near U: maths: rounding, section 6."""
        U, shares = self._feasible(U)
        V = self.weights[:, None] * U
        sizes, (n, d) = np.abs(V), self.X.shape
        terms = self.weights[:, None] * self.loss.conjugate(U, self.target)
        # The conjugate is a sum of two terms, one of them at most |t u|; it falls with U, as it is 0 at 0.
        errors = self._own_errors(terms) + 2.0 * gamma(_ROUNDINGS) * float(np.nansum(sizes * np.abs(self.target)))
        errors += float(np.abs(terms).sum(axis=0) @ shares)
        away = (gamma(n + 2) + shares) * (self._lengths @ sizes) + TINY * (self._lengths.sum() + n * d)
        least: Rounded = self.ball.least_below(adjoint_product(self.X, V), self.l2, away)
        return least - total(terms, errors)

    def _feasible(self, U: Array) -> tuple[Array, Array]:
        """Return U in the domain of the conjugate, and the share of itself by which it may have to shrink; (k,).

        With an intercept, sum_i p_i u_ic = 0: the positive or the negative side shrinks by what is left of the sum.
        A column whose sides rounding hides is zero.
        """
        if self.loss.is_margin:
            U = self.target * np.clip(self.target * U, -self.loss.steepest, 0.0)
        if isinstance(self.loss, Observed):
            U = np.where(np.isnan(self.target), 0.0, U)
        if not self.fit_intercept:
            return U, np.zeros(self.shape[1])
        V = self.weights[:, None] * U
        sizes = np.abs(V).sum(axis=0)
        left = np.abs(V.sum(axis=0)) + gamma(len(V) + 1) * sizes + len(V) * TINY
        # The larger side holds half of the sizes, or more.
        shares = SLACK * 2.0 * left / np.where(sizes > 0.0, sizes, TINY)
        is_clear = shares < 1.0
        return np.where(is_clear, U, 0.0), np.where(is_clear, shares, 0.0)

    def certificate(self, point: BallPoint) -> Certificate:
        """Return the duality gap at a point, from scores computed afresh."""
        scores = self.scores(point.weights)
        duals = [self.dual_point(scores, self.best_intercept(scores, point.intercept))]
        if point.dual is not None and not self.fit_intercept:
            duals.append(point.dual)
        # U = 0 is feasible, and no objective is negative: D there is at least 0.
        bounds = [Rounded(0.0), *(self.dual(U) for U in duals)]
        bound = max((each for each in bounds if not np.isnan(each.lower)), key=lambda each: each.lower)
        certificate = duality_gap(self._value(point, scores), bound)
        return certificate if self.l2 > 0.0 else certificate._replace(kind="Frank-Wolfe gap")

    def is_inactive(self, point: BallPoint) -> bool:
        """Say whether the point lies inside the ball: then a larger radius changes nothing."""
        return bool(self.ball.size(point.weights) < _INSIDE)

    def within(self, ball: Any) -> "Constrained":
        """Return the problem of the same data over another set; the data, and what was made of them, are shared."""
        other = copy.copy(self)
        other.ball = ball
        return other

    def warm_point(self, weights: Any, intercept: Array) -> BallPoint | None:
        """Return the point that the weights of a model, (d, k), are; None where they have another shape."""
        return BallPoint(weights, intercept) if weights.shape == self.shape else None

    def coef_and_intercept(self, point: BallPoint) -> tuple[Array, Array]:
        """Return the weights in scikit-learn's shapes: (k, d) and (k,); without the negative zeros of projections."""
        weights = point.weights.toarray() if isinstance(point.weights, LowRank) else point.weights
        coef = np.array(weights.T, order="C")
        coef += 0.0
        return coef, np.array(point.intercept)

    def model(self, point: BallPoint, classes: Array, info: Mapping[str, Any] | None = None) -> LinearModel:
        """Return the model that a point is."""
        return LinearModel(classes, *self.coef_and_intercept(point), info or {})

    def fingerprint(self) -> str:
        """Return a hash of the data, the loss, the ball and the ridge penalty."""
        settings = ("constrained", self.loss, self.ball, self.l2, self.fit_intercept)
        return digest_of(settings, self.X, self.target, self.weights)
