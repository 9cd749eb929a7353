"""Losses of linear scores: what problems over a set, and problems with a penalty, have in common.

    L(W, b) = sum_i p_i sum_c f(s_ic, t_ic) ,    s_i = W' x_i + b
    -L*(U)  = -sum_i p_i sum_c f*(u_ic, t_ic) ,  with an intercept   sum_i p_i u_ic = 0

A loss of whole rows (``losses.joint``) has f(s_i, y_i) and f*(u_i, y_i) in the place of the sums over c; its targets
are rows e_y. A problem adds a function of W, and to the dual the least value of that function plus <Z, W>, Z = X'(p U).
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.deadline import is_time_up
from softmargin.core.errors import DataError
from softmargin.core.pieces import EntrywiseLoss
from softmargin.core.rounding import SLACK, TINY, ULPS, UNIT, Rounded, column_roundings, column_sums, gamma, total
from softmargin.losses.joint import checked_rows, labels_of, with_labels
from softmargin.losses.multinomial import excess_mass, mixed, off_label, without_absent
from softmargin.losses.observed import Observed
from softmargin.matrices.forms import canonical
from softmargin.matrices.operator import adjoint_product, longest_row, product, row_norms, sum_roundings
from softmargin.matrices.origin import moved
from softmargin.models import LinearModel
from softmargin.problems.checks import checked_prices
from softmargin.sets import LowRank

__all__ = ["BallPoint", "LinearLosses", "PullSums", "Pulled"]

Array = NDArray[Any]
_ROUNDINGS = 4 * ULPS + 8  # of a loss or a conjugate: two functions in units of two roundings each, and products
_MAX_STEPS = 100  # of Newton's method for the intercept; a guard, not a target
_ROUNDING = 1e-15
_LEVEL = 1e-13  # relative size below which a sum of slopes over many samples is rounding
_TINIEST = np.finfo(np.float64).tiny
_FAR = 1e100  # an intercept this large comes from a step without curvature


class BallPoint(NamedTuple):
    """Weights, intercepts, and the dual variables of solvers that maintain them."""

    weights: Any  # (d, k) array, or LowRank
    intercept: Array  # (k,)
    dual: Array | None = None  # (n, k)


class Pulled(NamedTuple):
    """What dual variables do to the weights, and what they cost."""

    Z: Array  # (d, k) X' (p U)
    away: Array  # (k,) how far columns of Z may be from the exact ones
    conjugates: Rounded  # sum_i p_i sum_c f*


class PullSums(NamedTuple):
    """Sums over rows, of which those of all rows together make a ``Pulled``; k columns, 1 of a joint loss's rows."""

    Z: Array  # (d, k) X' V,  V = p U
    sizes: Array  # (3, k) |x|'|V|, the sums of V and of |V|
    conjugates: Array  # (3, k) p f*, |p f*|, and bounds on the errors of the first
    classes: Array  # (2, k) p and p |x| of the rows of every class, for a joint loss
    rows: Array  # (2,) how many, and the sum of |x|

    def pulled(self, of_X: int, of_V: int, is_joint: bool, has_intercept: bool) -> Pulled:
        """Return the pull of dual variables balanced in real arithmetic, by the roundings of sums over X and V.

        With an intercept, sum_i p_i u_ic = 0: the positive or the negative side of a column shrinks by what is left of
        the sum, or all rows mix with one other. A column whose sides rounding hides is zero.
        """
        (d, k), (n, length) = self.Z.shape, self.rows.tolist()
        reach, sums, sizes = self.sizes
        shares, moved, is_clear = np.zeros(1), np.zeros(k), np.ones(k, dtype=bool)
        if has_intercept:
            left = np.abs(sums) + gamma(of_V + k + 4) * sizes + n * TINY
            if is_joint:
                shares, moved = self._mixed(left)
            else:
                # The larger side holds half of the sizes, or more.
                shares = SLACK * 2.0 * left / np.where(sizes > 0.0, sizes, TINY)
                is_clear = shares < 1.0
                shares = np.where(is_clear, shares, 0.0)
        away = (gamma(of_X + k + 2) + shares) * np.where(is_clear, reach, 0.0) + moved
        away += TINY * (length + n * d)
        # Conjugates are 0 at 0, and convex.
        value, size, errors = self.conjugates if is_joint else np.where(is_clear, self.conjugates, 0.0)
        error = float(errors.sum() + (size * shares).sum()) + gamma(n * k + 1) * float(size.sum()) + n * k * TINY
        return Pulled(np.where(is_clear, self.Z, 0.0), away, Rounded(float(value.sum()), SLACK * error))

    def _mixed(self, left: Array) -> tuple[Array, Array]:
        """Return the share of tau - e_y in rows that it balances, and how far that moves columns of Z; (1,) and (k,).

        0 <= tau_c <= 2 mass_c / mass, the same for all rows.
        """
        mass, lengths = self.classes
        has_mass = mass > 0.0
        if not has_mass.any():
            return np.zeros(1), np.zeros(len(mass))
        share = min(SLACK * float((left[has_mass] / mass[has_mass]).max()), 1.0)
        return np.array([share]), SLACK * share * (2.0 * mass / mass.sum() * lengths.sum() + lengths)


class LinearLosses:
    """A loss of linear scores, of ``losses.entrywise`` or ``losses.joint``.

    Parameters
    ----------
    X, target, loss, weights, fit_intercept
        As a problem takes them.
    """

    point_type: ClassVar[type] = BallPoint

    def __init__(self, X: Any, target: Array, loss: EntrywiseLoss, weights: Array | None, fit_intercept: bool) -> None:
        X, self.origin = moved(X)
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
        if loss.is_joint:
            checked_rows(self.target)
        self.loss: Any = loss  # of known kind where it is asked for more than an entrywise loss has
        self.weights = checked_prices(1.0 / n if weights is None else weights, n)
        self.fit_intercept = fit_intercept

    @property
    def shape(self) -> tuple[int, int]:
        """(d, k)."""
        return self.X.shape[1], self.target.shape[1]

    def check_shape(self, init: BallPoint) -> None:
        """Refuse a start of another shape."""
        if init.weights.shape != self.shape or np.shape(init.intercept) != self.shape[1:]:
            raise DataError(
                f"a warm start needs weights of shape {self.shape} and as many intercepts as targets; found "
                f"{init.weights.shape} and {np.shape(init.intercept)}. Start afresh, or fit the same features."
            )

    def scores(self, weights: Any) -> Array:
        """Return X W, without an intercept; (n, k)."""
        if not (isinstance(weights, LowRank) or weights.any()):
            return np.zeros((self.X.shape[0], weights.shape[1]))
        return weights.times(self.X) if isinstance(weights, LowRank) else product(self.X, weights)

    def losses(self, scores: Array, intercept: Array) -> float:
        """Return sum_i p_i sum_c f(s_ic + b_c, t_ic)."""
        return float(self.weights @ self.loss.value(scores + intercept, self.target).sum(axis=1))

    def slopes(self, scores: Array, intercept: Array) -> Array:
        """Return p_i f'(s_ic + b_c, t_ic); (n, k). Its product with X' is the gradient of the losses."""
        return np.asarray(self.weights[:, None] * self.loss.slope(scores + intercept, self.target))

    def best_intercept(self, scores: Array, start: Array | None = None) -> Array:
        """Return the b that minimises the losses of these scores; zero without an intercept.

        An entrywise loss has one problem a column: the sum of slopes rises with b, and Newton's method stays inside a
        bracket that every evaluation narrows. At a deadline it ends with the b it has.
        """
        k = self.shape[1]
        if not (self.fit_intercept and self.weights.any()):
            return np.zeros(k)
        b = np.zeros(k) if start is None else np.array(start, dtype=np.float64)
        if self.loss.is_joint:
            return np.asarray(b + self.loss.best_intercept(scores + b, self.target, self.weights))
        low, high = np.full(k, -np.inf), np.full(k, np.inf)
        for _ in range(_MAX_STEPS):
            slope, size, bend = self._sums_at(scores, b)
            is_done = np.abs(slope) <= _LEVEL * size
            if is_done.all() or is_time_up():
                break
            low, high = np.where(slope < 0.0, b, low), np.where(slope > 0.0, b, high)
            with np.errstate(over="ignore"):  # without curvature the step leaves the bracket and is not taken
                new = b - slope / np.maximum(bend, _TINIEST)
            is_inside = (new > low) & (new < high) & (np.abs(new) < _FAR)
            if not is_inside.all():
                outwards = b - np.sign(slope) * (1.0 + 2.0 * np.abs(b))
                is_bracketed = np.isfinite(low) & np.isfinite(high)
                middle = np.where(is_bracketed, 0.5 * np.add(low, high, where=is_bracketed, out=np.zeros(k)), outwards)
                new = np.where(is_inside, new, middle)
            new = np.where(is_done, b, new)
            if (np.abs(new - b) <= _ROUNDING * (1.0 + np.abs(b))).all():
                break
            b = new
        return b

    def _sums_at(self, scores: Array, b: Array) -> tuple[Array, Array, Array]:
        U, bends = self.loss.slope(scores + b, self.target), self.loss.bend(scores + b, self.target)
        return self.weights @ U, self.weights @ np.abs(U), self.weights @ bends

    def dual_point(self, scores: Array, intercept: Array) -> Array:
        """Return U = f'(s + b), balanced; (n, k)."""
        return self.balanced(self.loss.slope(scores + intercept, self.target))

    def balanced(self, U: Array) -> Array:
        """Return dual variables near U: with an intercept, sum_i p_i u_ic = 0 up to rounding; (n, k)."""
        return self.balanced_by(U, self.balance_sums(U)) if self.fit_intercept else U

    def balance_sums(self, U: Array, mass: Array | None = None) -> Array:
        """Return what these rows add to the balance of U, given the mass of every class in all rows; (2, k).

        Of an entrywise loss: the sums of the positive and of the negative dual variables.
        """
        if self.loss.is_joint:
            mass = self.weights @ self.target if mass is None else mass
            off = without_absent(self.loss.feasible(U, self.target), mass)
            return np.stack([excess_mass(off, labels_of(self.target), self.weights), self.weights @ self.target])
        return np.stack([self.weights @ np.maximum(U, 0.0), self.weights @ np.maximum(-U, 0.0)])

    def balanced_by(self, U: Array, sums: Array) -> Array:
        """Return the dual variables of these rows that are balanced, given the sums of all rows; (n, k)."""
        if self.loss.is_joint:
            excess, mass = sums
            off = without_absent(self.loss.feasible(U, self.target), mass)
            off = mixed(off, labels_of(self.target), excess, mass)
            return with_labels(off, off.sum(axis=1), self.target)
        # Shrink the side with the larger sum: the conjugate's domain holds 0, so U stays inside it.
        up, down = sums
        less = np.minimum(up, down)
        shares = np.where(U > 0.0, less / np.where(up > 0.0, up, 1.0), less / np.where(down > 0.0, down, 1.0))
        return np.asarray(shares * U)

    @cached_property
    def _lengths(self) -> Array:
        """Bounds on the norms of the samples; (n,)."""
        return row_norms(self.X)

    def losses_at(self, point: BallPoint, scores: Array, sizes: Array, operations: int, excess: float = 0.0) -> Rounded:
        """Return the losses of scores without the intercept; the weights may be outside their set by a share.

        ``sizes`` are the norms of the columns of the weights, (k,), a score has so many roundings beside its product.
        """
        longest = longest_row(self.X)
        slope = (gamma(longest + operations) + excess) * sizes
        # Weights of zero have exact scores, the intercept itself.
        level = 4.0 * UNIT * np.abs(point.intercept) + longest * TINY
        level = np.where(sizes > 0.0, level + self.origin.errors(point.weights, point.intercept, excess), 0.0)
        return self._losses(scores, point.intercept, slope, level)

    def _losses(self, scores: Array, intercept: Array, slope: Array, level: Array) -> Rounded:
        """Return the sum of losses, where scores have errors up to |x_i| slope_c + level_c."""
        values = self.loss.value(scores + intercept, self.target)
        terms = self.weights[:, None] * values
        if self.loss.is_joint:
            away = self._lengths * float(slope.max()) + float(level.max())
            return total(terms, self.weights @ self.loss.errors(values, scores + intercept, self.target, away))
        slopes = np.abs(self.slopes(scores, intercept))
        # |f(s + e) - f(s)| is at most |f'(s)| e + curvature / 2 e^2, and steepest * e.
        near = float((self._lengths @ slopes) @ slope + slopes.sum(axis=0) @ level)
        squares = float(self.weights @ self._lengths**2 * (slope @ slope) + self.weights.sum() * (level @ level))
        far = float(self.weights @ self._lengths * slope.sum() + self.weights.sum() * level.sum())
        bent = self.loss.curvature * squares if squares > 0.0 else 0.0
        errors = min(near + bent, self.loss.steepest * far if far > 0.0 else 0.0)
        return total(terms, errors + float(self._own_errors(terms).sum()))

    def _own_errors(self, terms: Array) -> Array:
        """Bound the errors of losses or conjugates whose values are these, times p, by columns; (k,)."""
        return np.asarray(gamma(_ROUNDINGS) * np.abs(terms).sum(axis=0) + _ROUNDINGS * TINY * self.weights.sum())

    def _pulled(self, U: Array) -> Pulled:
        """Return what feasible dual variables near U do to the weights, and cost: maths: rounding, section 6."""
        of_X, of_V = sum_roundings(self.X, self.shape[1]), column_roundings(len(self.target))
        return self.pull_sums(U).pulled(of_X, of_V, self.loss.is_joint, self.fit_intercept)

    def pull_sums(self, U: Array) -> "PullSums":
        """Return what these rows add to the pull of dual variables near U."""
        U = self._in_domain(U)
        V = self.weights[:, None] * U
        sizes, lengths = np.abs(V), self._lengths
        terms, errors = self._conjugates(U, sizes)
        classes = self.target if self.loss.is_joint else np.zeros((len(U), 1))
        return PullSums(
            adjoint_product(self.X, V),
            np.stack([lengths @ sizes, column_sums(V), sizes.sum(axis=0)]),
            np.stack([terms.sum(axis=0), np.abs(terms).sum(axis=0), errors]),
            np.stack([self.weights @ classes, (self.weights * lengths) @ classes]),
            np.array([len(U), lengths.sum()]),
        )

    def _conjugates(self, U: Array, sizes: Array) -> tuple[Array, Array]:
        """Return the conjugates times p, and bounds on the errors of their sums, (k,) or (1,); sizes = p |U|."""
        if self.loss.is_joint:
            values, errors = self.loss.conjugate_of(*off_label(U, labels_of(self.target)))
            return self.weights[:, None] * values[:, None], np.array([self.weights @ errors])
        terms = self.weights[:, None] * self.loss.conjugate(U, self.target)
        # A conjugate is a sum of two terms, one of them at most |t u|.
        errors = self._own_errors(terms) + 2.0 * gamma(_ROUNDINGS) * np.nansum(sizes * np.abs(self.target), axis=0)
        return terms, errors

    def _in_domain(self, U: Array) -> Array:
        """Return dual variables near U in the domain of the conjugate; (n, k)."""
        if self.loss.is_joint:
            off = self.loss.feasible(U, self.target)
            U = with_labels(off, off.sum(axis=1), self.target)
        if self.loss.is_margin:
            U = self.target * np.clip(self.target * U, -self.loss.steepest, 0.0)
        if isinstance(self.loss, Observed):
            U = np.where(np.isnan(self.target), 0.0, U)
        return U

    def warm_point(self, weights: Any, intercept: Array) -> BallPoint | None:
        """Return the point that the weights of a model, (d, k), are; None where they have another shape."""
        return self.point_of(weights, intercept) if weights.shape == self.shape else None

    def point_of(self, weights: Any, intercept: Array) -> BallPoint:
        """Return the point of the weights, (d, k), and the intercept of a model."""
        return BallPoint(weights, self.origin.near(weights, intercept))

    def coef_and_intercept(self, point: BallPoint) -> tuple[Array, Array]:
        """Return the weights in scikit-learn's shapes: (k, d) and (k,); without the negative zeros of projections."""
        weights = point.weights.toarray() if isinstance(point.weights, LowRank) else point.weights
        coef = np.array(weights.T, order="C")
        coef += 0.0
        return coef, np.array(self.origin.far(point.weights, point.intercept))

    def model(self, point: BallPoint, classes: Array, info: Mapping[str, Any] | None = None) -> LinearModel:
        """Return the model that a point is."""
        return LinearModel(classes, *self.coef_and_intercept(point), info or {})
