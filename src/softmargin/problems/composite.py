"""Multinomial logistic regression with a separable penalty: a loss of linear scores, plus g.

    F(W, b) = sum_i C_i l_i(W' x_i + b) + g(W),      l_i(s) = log sum_c exp(s_c) - s_{y_i}         maths: softmax, eq. 1
    D(q)    = sum_i C_i H(q_i) - g*(-X' C (q - Y)),  q_i in the simplex, H the entropy             maths: softmax, eq. 4
              with an intercept also   sum_i C_i (q_i - y_i) = 0

All classes have weights (the symmetric form, as in scikit-learn); two classes have one column, the weights of the
second against the first. The intercept is not penalised. D is evaluated by ``problems.softmax_bound``. Where g is not
convex, or g* is nowhere finite near zero, the certificate is stationarity:

    residual = max_j dist(-G_j, subdifferential of g at W_j) / max_j |G_j at W = 0| ,     G = X' C (P - Y)

    paper 003           here
    w_K = 0 pinned      penalties.Pinned: with a penalty that is another problem, maths: softmax, eq. 1
"""

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import Certificate, duality_gap, relative_gap
from softmargin.core.deadline import is_time_up, time_left
from softmargin.core.errors import DataError
from softmargin.core.rounding import SLACK, Rounded, gamma, norms
from softmargin.losses.multinomial import softmax
from softmargin.matrices.forms import canonical
from softmargin.matrices.operator import longest_row, product, rmatmul, row_norms, sum_roundings
from softmargin.matrices.origin import Moved, moved
from softmargin.models import LinearModel
from softmargin.models.shapes import dense
from softmargin.penalties import ElasticNet, Pinned, checked
from softmargin.penalties.rounding import OPERATIONS, rounded_value
from softmargin.problems.checks import checked_codes, checked_prices, digest_of
from softmargin.problems.softmax_bound import SoftmaxBound

__all__ = ["Composite", "CompositePoint", "L1Composite", "RidgeComposite", "softmax_problem"]

Array = NDArray[Any]
_ENTRY = 1300.0  # multiplications of BLAS in the time that a score takes beside its own; by timings
_BOUND = 2.0  # time of a bound, without the search for the intercept, in that of the primal value; by timings
_SCARCE = 1e-12  # share of mass that a class without samples is taken to have in a first guess of the intercept


class CompositePoint(NamedTuple):
    """Weights and intercepts, and the dual point of solvers that maintain one; k = 1 for two classes."""

    weights: Array  # (d, k)
    intercept: Array  # (k,)
    dual: Array | None = None  # (n, n_classes) q; None: the probabilities of the weights


class _Evaluated(NamedTuple):
    loss: Rounded  # sum_i C_i l_i
    scores: Array  # (n, n_columns)
    P: Array  # probabilities, as ``softmax_rows`` has them
    apart: Array  # how far differences of a sample's scores may be from the exact ones, (n,)


class Composite(SoftmaxBound):
    """Penalised multinomial regression with one C for every sample.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        float32 or float64; used as it comes. Or rows less an origin (``matrices.origin``): points have the intercept
        of these, models that of rows as they came.
    y : int array of shape (n,)
        Class codes 0 .. k-1.
    C : float or array of shape (n,)
        Price of one unit of loss, per sample.
    penalty : Penalty
        A member of ``softmargin.penalties``, or one of your own.
    n_classes : int, optional
        k; by default the largest code plus one.
    fit_intercept : bool, default=True
    """

    kind: ClassVar[str] = "softmax"
    point_type: ClassVar[type] = CompositePoint
    can_skip_bound: ClassVar[bool] = True

    def __init__(
        self,
        X: Any,
        y: Array,
        *,
        C: float | Array = 1.0,
        penalty: Any,
        n_classes: int | None = None,
        fit_intercept: bool = True,
    ) -> None:
        X, self.origin = moved(X)
        self.X = canonical(X)
        n = self.X.shape[0]
        self.y, self.n_classes = checked_codes(y, n, n_classes)
        self.C = checked_prices(C, n)
        self.penalty = checked(penalty)
        if isinstance(self.penalty, Pinned):
            self.penalty.check_classes(self.n_classes)
        self.fit_intercept = fit_intercept
        self.is_pinned = self.n_classes == 2  # the first of two classes has the score zero
        self.n_columns = 1 if self.is_pinned else self.n_classes
        # The column of every sample's label; -1 where it is pinned.
        self.target = self.y - 1 if self.is_pinned else self.y

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the weights: (d, k), or (d, 1) for two classes."""
        return self.X.shape[1], self.n_columns

    @property
    def bias(self) -> float:
        """The value of the constant feature that carries the intercept: 1, or 0 where there is none."""
        return 1.0 if self.fit_intercept else 0.0

    def zero(self) -> CompositePoint:
        """Return W = 0 with the best intercept for it: the logarithm of the classes' masses.

        Where the penalty forbids zero, W is the nearest that it allows.
        """
        intercept = np.zeros(self.n_columns)
        if self.fit_intercept and self.C.any():
            logs = np.log(np.maximum(self._mass / self._mass.sum(), _SCARCE))
            intercept = logs[1:] - logs[:1] if self.is_pinned else logs - logs.mean()
        return CompositePoint(self._nearest_to_zero(), intercept)

    def _nearest_to_zero(self) -> Array:
        return np.asarray(self.penalty.prox(np.zeros(self.shape), 1.0))

    def checked_point(self, init: CompositePoint | None) -> CompositePoint:
        """Return where to start: ``init``, if it has the right shape, or zero."""
        if init is None:
            return self.zero()
        if np.shape(init.weights) != self.shape or np.shape(init.intercept) != self.shape[1:]:
            raise DataError(
                f"a warm start needs weights of shape {self.shape} and as many intercepts as columns; found "
                f"{np.shape(init.weights)} and {np.shape(init.intercept)}. Start afresh, or fit the same features."
            )
        intercept = np.asarray(init.intercept, dtype=np.float64) * self.bias
        is_fit = init.dual is not None and init.dual.shape == (len(self.y), self.n_classes)
        dual = init.dual if is_fit else None
        return CompositePoint(np.asarray(init.weights, dtype=np.float64), intercept, dual)

    def scores(self, point: CompositePoint) -> Array:
        """Return the scores of all classes, the pinned one included; shape (n, n_classes), one class after the other.

        In that order NumPy goes along whole columns where it sums the few classes of every row.
        """
        own = self._own_scores(point)
        return np.hstack([np.zeros_like(own), own]) if self.is_pinned else own

    def _own_scores(self, point: CompositePoint) -> Array:
        """Return the scores of the classes that have weights, in that order; shape (n, n_columns)."""
        scores = np.asfortranarray(product(self.X, point.weights))
        scores += self.bias * point.intercept
        return scores

    def primal(self, point: CompositePoint) -> Rounded:
        """Return F(W, b)."""
        return self.losses(point) + rounded_value(self.penalty, point.weights)

    def losses(self, point: CompositePoint) -> Rounded:
        """Return sum_i C_i l_i, without the penalty."""
        return self._evaluated(point).loss

    def _evaluated(self, point: CompositePoint) -> "_Evaluated":
        scores = self._own_scores(point)
        # Two scores, each less the largest: twice the error of one, and as much again for rounding the differences.
        share = 2.0 * gamma(longest_row(self.X) + 8)
        sizes, shift = norms(point.weights, axis=0).max(initial=0.0), np.abs(point.intercept).max(initial=0.0)
        apart = share * (sizes * self._row_norms + self.bias * shift)
        apart += 2.0 * np.max(self.origin.errors(point.weights, point.intercept))
        loss, P = self._rows.losses(scores, apart)
        return _Evaluated(loss, scores, P, apart)

    def certificate(self, point: CompositePoint) -> Certificate:
        """Certify a point: the scores are recomputed."""
        before = time_left()
        loss, scores, P, apart = self._evaluated(point)
        primal = loss + rounded_value(self.penalty, point.weights)
        needed = _BOUND * (before - time_left())  # no number without a deadline
        if not np.isfinite(primal.upper):
            return Certificate("stationarity", primal.upper, -np.inf, np.nan)
        if not (self.penalty.is_convex and self.penalty.has_bound):
            return self._stationarity(point.weights, primal, P, apart)
        bound = self._best_bound(point.dual, scores, P, primal, loss.value, needed)
        # q = Y is feasible, with D = -g*(0): zero, where the penalty is least at W = 0.
        is_least = bound.lower < 0.0 and self.penalty.conjugate(np.zeros(self.shape)) == 0.0
        return duality_gap(primal, Rounded(0.0) if is_least else bound)

    def certificate_work(self, point: CompositePoint | None) -> float:
        """Return about how many multiplications take as long as a certificate: two products, and passes over scores."""
        return float(2.0 * self.X.size * self.n_columns + _ENTRY * len(self.y) * self.n_classes)

    @cached_property
    def _row_norms(self) -> Array:
        return row_norms(self.X)

    def _gradient(self, P: Array) -> tuple[Array, Array]:
        """Return X' C (P - Y), and the same for the intercept: (d, n_columns) and (n_columns,)."""
        gradient = rmatmul(self.X, self._rows.pulls(*self._rows.off_label(P)), self.bias)
        return gradient[:-1], gradient[-1]

    @cached_property
    def _null_size(self) -> float:
        """The largest gradient of a feature at W = 0: the scale of stationarity."""
        gradient, _ = self._gradient(softmax(self.scores(self.zero())))
        return float(np.linalg.norm(gradient, axis=1).max(initial=0.0))

    def _stationarity(self, weights: Array, primal: Rounded, P: Array, apart: Array) -> Certificate:
        """Certify that a point is stationary; nothing is proven of the optimum."""
        if is_time_up():
            return Certificate("stationarity", primal.upper, -np.inf, np.inf)
        U = self._rows.pulls(*self._rows.off_label(P))
        gradient = rmatmul(self.X, U, self.bias)
        residual = self._residual(weights, gradient[:-1], gradient[-1])
        # Errors of scores change a probability by the share expm1(2 apart) at most. Besides it has k + 4 ULPS + 4
        # roundings, and distances twice k.
        roundings = sum_roundings(self.X, self.n_columns)
        changes = np.where(apart < 0.25, 4.0 * apart * norms(U, axis=1), 2.0 * self.C)
        error = float(
            norms(changes, axis=0) + gamma(roundings + 3 * self.n_classes + OPERATIONS) * norms(U.ravel(), axis=0)
        )
        error *= max(float(self._column_norms.max(initial=0.0)), self.bias * math.sqrt(len(U)))
        rounding = SLACK * error / (self._null_size or 1.0) + gamma(self.n_classes + OPERATIONS) * residual
        return Certificate("stationarity", primal.upper, -np.inf, residual + rounding, rounding)

    def _residual(self, weights: Array, gradient: Array, off_mass: Array) -> float:
        distance = float(self.penalty.distance(weights, -gradient).max(initial=0.0))
        worst = max(distance, float(np.abs(off_mass).max(initial=0.0)))
        return worst / self._null_size if self._null_size > 0.0 else worst

    def rough_residual(self, weights: Array, primal: float, gradient: Array) -> float:
        """Guess the residual at W where the intercept is about its best; gradient = X' C (P - Y), (d, n_columns).

        At s = 1 the gap is g(W) + g*(-G) + <W, G>. A smaller s adds a term of second order in 1 - s, which at s = 0 is
        all the losses: it is taken to be (1 - s)^2 of them.
        """
        if not (self.penalty.is_convex and self.penalty.has_bound):
            return self._residual(weights, gradient, np.zeros(1))
        share = self.penalty.reach(-gradient)
        value = self.penalty.value(weights)
        gap = value + self.penalty.conjugate(-share * gradient) + share * float(np.vdot(weights, gradient))
        gap += (1.0 - share) ** 2 * (primal - value)
        return relative_gap(primal, primal - gap)

    def warm_point(self, weights: Array, intercept: Array) -> CompositePoint | None:
        """Return the point that the weights of a model, (d, k), are; None where they have another shape."""
        return self.point_of(weights, intercept) if np.shape(weights) == self.shape else None

    def point_of(self, weights: Array, intercept: Array) -> CompositePoint:
        """Return the point of the weights, (d, k), and the intercept of a model."""
        return CompositePoint(weights, self.origin.near(weights, intercept))

    def model_point(self, coef: Array, intercept: Array) -> CompositePoint:
        """Return the point that the weights of a model, in scikit-learn's shapes, are."""
        return self.point_of(dense(coef).astype(np.float64, copy=False).T, intercept)

    def coef_and_intercept(self, point: CompositePoint) -> tuple[Array, Array]:
        """Return the weights in scikit-learn's shapes: (k, d) and (k,), or one row for two classes.

        A pinned class has the intercept zero: only differences of intercepts matter.
        """
        intercept = np.array(self.origin.far(point.weights, point.intercept))
        if isinstance(self.penalty, Pinned):
            intercept -= intercept[int(self.penalty.class_code)]
        elif self.origin.is_elsewhere and not self.is_pinned:
            intercept -= intercept.mean()
        return np.ascontiguousarray(point.weights.T), intercept

    def model(self, point: CompositePoint, classes: Array, info: Mapping[str, Any] | None = None) -> LinearModel:
        """Return the model that a point is; it has probabilities."""
        return LinearModel(classes, *self.coef_and_intercept(point), {"problem": "softmax", **(info or {})})

    def with_penalty(self, penalty: Any) -> "Composite":
        """Return the problem of the same data with another penalty."""
        settings = {"C": self.C, "n_classes": self.n_classes, "fit_intercept": self.fit_intercept}
        return softmax_problem(Moved(self.X, self.origin), self.y, penalty=penalty, **settings)

    def small_problem(self) -> "Composite | None":
        """Return a problem of two rows that needs the same compiled loops; None where SciPy narrowed the indices."""
        X = self.X[:2]
        if not isinstance(X, np.ndarray) and X.indices.dtype != self.X.indices.dtype:
            return None
        settings = {"n_classes": self.n_classes, "fit_intercept": self.fit_intercept}
        return softmax_problem(X, np.arange(2), penalty=self.penalty, **settings)

    def fingerprint(self) -> str:
        """Return a hash of the data, the prices, the penalty and whether there is an intercept."""
        settings = ("composite", self.penalty, self.n_classes, self.fit_intercept)
        return digest_of(settings, self.X, self.y, self.C)


class RidgeComposite(Composite):
    """The same with the penalty ridge / 2 |W|^2: smooth, so that Newton and quasi-Newton methods apply."""

    kind: ClassVar[str] = "softmax ridge"

    @property
    def ridge(self) -> float:
        """The strength of the penalty."""
        return float(self.penalty.ridge)

    def _nearest_to_zero(self) -> Array:
        return np.zeros(self.shape)


class L1Composite(Composite):
    """The same with the penalty strength |W|_1, for which there is an interior point."""

    kind: ClassVar[str] = "softmax l1"

    @property
    def strength(self) -> float:
        """The strength of the penalty."""
        return float(self.penalty.l1)

    @property
    def largest_strength(self) -> float:
        """The strength from which on all weights are zero."""
        gradient, _ = self._gradient(softmax(self.scores(self.zero())))
        return float(np.abs(gradient).max(initial=0.0))


def softmax_problem(X: Any, y: Array, *, penalty: Any, **settings: Any) -> Composite:
    """Build a ``Composite``; a ``RidgeComposite`` or a ``L1Composite`` where the penalty is a ridge or l1 alone.

    Examples
    --------
    >>> import numpy as np
    >>> from softmargin import Lbfgs, penalties, softmax_problem, solve
    >>> rows, codes = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1])
    >>> problem = softmax_problem(rows, codes, penalty=penalties.L2(0.5))
    >>> solve(problem, Lbfgs()).status.value
    'converged'
    """
    kind = Composite if getattr(penalty, "ridge", None) is None else RidgeComposite
    if isinstance(penalty, ElasticNet) and penalty.l1 > 0.0 and penalty.l2 == 0.0:
        kind = L1Composite
    return kind(X, y, penalty=penalty, **settings)
