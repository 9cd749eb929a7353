"""What binary SVMs with a free bias share, whichever way they charge a violated margin; linear or with a kernel.

    P(w, b) = 1/2 |w|^2 + sum_i loss_i([1 - y_i (<w, x_i> + b)]_+)                 b is not penalised
    D(a)    = sum a - 1/2 (ya)'K(ya) - 1/2 sum_i r_i a_i^2 ,   0 <= a <= upper,  y'a = 0
    w = sum_i a_i y_i x_i ,   scores F = K (ya) ,   xi_i = [1 - y_i (F_i + b)]_+

    problem     loss_i          upper     r_i           maths
    HingeSVM    C_i xi          C_i       0             kernel SVM, section 9
    L2SVM       C_i / 2 xi^2    inf       1 / C_i       squared hinge, section 1

Without a bias, b = 0 and the constraint y'a = 0 falls away. A sample with C_i = 0 has a_i = 0.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import Certificate, relative_gap
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.core.rounding import UNIT, Rounded, ScoreErrors, gamma, norms, squared_norm, totals
from softmargin.matrices.gram import Gram
from softmargin.matrices.operator import matmul, rmatmul, score_roundings
from softmargin.matrices.origin import NOWHERE, Origin
from softmargin.problems import margin_models
from softmargin.problems.checks import balanced, checked_prices, checked_signs, digest_of
from softmargin.problems.margin_models import IN_CACHE, BinaryData, MarginModels, cuts, margin_gap, stacked

__all__ = ["BiasPoint", "FreeBiasSVM"]

Array = NDArray[Any]


class BiasPoint(NamedTuple):
    """Dual variables, the bias, and the weights where they are known apart from the dual (linear, primal solvers)."""

    alpha: Array  # (n,)
    bias: float
    weights: Array | None = None  # (d,)


class FreeBiasSVM(MarginModels):
    """A binary SVM with a free bias; a subclass says what a violated margin costs.

    Parameters
    ----------
    gram : Gram
        The kernel matrix, with bias 0 where the bias here is free.
    y : array of shape (n,)
        -1 and +1.
    C : float or array of shape (n,)
    has_bias : bool, default=True
    is_expansion : bool, default=False
        Whether a model is made of the dual variables alone, also where the kernel is linear; with another kernel it
        always is.
    constant : float, default=0
        Where it is not zero, the value of the last column of X, whose weight gives the intercept of linear models: a
        penalised one, beside which there is no bias.
    origin : Origin, optional
        Where the rows of a linear kernel are rows less an origin (``matrices.origin``): points have the bias of these,
        linear models that of rows as they came.
    """

    name: ClassVar[str]
    point_type: ClassVar[type] = BiasPoint

    def __init__(
        self,
        gram: Gram,
        y: Array,
        *,
        C: float | Array = 1.0,
        has_bias: bool = True,
        is_expansion: bool = False,
        constant: float = 0.0,
        origin: Origin = NOWHERE,
    ) -> None:
        self.gram = gram
        self.is_expansion = is_expansion or not gram.is_linear
        self.y = checked_signs(y, gram, has_bias)
        self.C = checked_prices(C, gram.n)
        self.has_bias, self.constant, self.origin = has_bias, float(constant), origin

    @property
    def upper(self) -> Array:
        """The largest value of every dual variable; (n,)."""
        raise NotImplementedError

    @property
    def inverse_C(self) -> Array:
        """The r_i of the dual; (n,)."""
        raise NotImplementedError

    def best_bias(self, scores: Array) -> float:
        """Return the b that minimises P for these scores."""
        raise NotImplementedError

    @staticmethod
    def bias_at(z: Array, y: Array, C: Array) -> float:
        """Return the best bias of some samples, given z = y - F."""
        raise NotImplementedError

    def losses(self, xi: Array) -> Array:
        """Return what the slacks cost; (n,)."""
        return self.charged(self.C, xi, 0.0)[0]

    @staticmethod
    def charged(C: Array, xi: Array, errors: Any) -> tuple[Array, Array]:
        """Return what slacks cost, and bounds on the errors of that, given those of the slacks; of any shape."""
        raise NotImplementedError

    def gaps(self, alpha: Array, scores: Array, bias: float) -> Array:
        """Return each sample's part of the gap, given scores = K (ya); (n,)."""
        raise NotImplementedError

    def _nearest(self, alpha: Array) -> Array:
        """Return a feasible dual point near ``alpha``, where C > 0 for all samples."""
        raise NotImplementedError

    def feasible(self, alpha: Array) -> Array:
        """Return a feasible dual point near ``alpha``."""
        if alpha.shape != self.y.shape:
            raise DataError(f"a warm start needs alpha of shape {self.y.shape}; found {alpha.shape}. Start afresh.")
        return self._nearest(alpha) if self.C.any() else np.zeros_like(self.y)

    def zero(self) -> BiasPoint:
        """Return alpha = 0, with its best bias."""
        return BiasPoint(np.zeros_like(self.y), self.best_bias(np.zeros_like(self.y)))

    def as_binary(self) -> BinaryData:
        """Return the problem in plain numbers; only a linear kernel has them."""
        if not self.gram.is_linear:
            raise IncompatibleError(
                f"this solver needs the linear kernel; the kernel is {self.gram.kernel.name}. Use Smo."
            )
        return BinaryData(self.gram.X, self.y, self.C, self.name == "l2", self.has_bias, self.gram.bias)

    @staticmethod
    def points_of(parts: Sequence["FreeBiasSVM"], columns: Array, weights: Array, biases: Array) -> list[BiasPoint]:
        """Return feasible points near the signed dual columns of problems, (n, k), with these biases, (k,).

        The weights that the columns imply, (d, k), change where these are balanced: they are not used.
        """
        alphas = [part._inside(part.y * column)[0] for part, column in zip(parts, columns.T, strict=True)]
        each = zip(parts, alphas, biases, strict=True)
        return [BiasPoint(alpha, float(bias)) if alpha.any() else part.zero() for part, alpha, bias in each]

    def point(self, alpha: Array) -> BiasPoint:
        """Pair dual variables with the best bias for the scores they imply."""
        return BiasPoint(alpha, self.best_bias(self.gram.scores(self.y * alpha)))

    def slacks(self, scores: Array, bias: float) -> Array:
        """Return xi; shape (n,)."""
        return np.maximum(1.0 - self.y * (scores + bias), 0.0)

    def dual(self, alpha: Array) -> Rounded:
        """Return D at feasible coefficients near these: within their bounds, and y'a = 0 with a bias."""
        inside, operations = self._inside(alpha)
        return self._dual(inside, operations, self.gram.energy((self.y * inside)[:, None], operations))

    def _inside(self, alpha: Array) -> tuple[Array, int]:
        """Return feasible coefficients near these, and how many roundings they are away from exact ones."""
        alpha = np.where(self.C > 0.0, np.clip(alpha, 0.0, self.upper), 0.0)
        return balanced(alpha, self.y) if self.has_bias else (alpha, 0)

    def _dual(self, alpha: Array, operations: int, square: Rounded) -> Rounded:
        return _duals([self], alpha[None, :], [operations], [square])[0]

    def relative_gap(self, alpha: Array, scores: Array) -> float:
        """Return (P - D) / P at a feasible alpha and its best bias, given scores = K (ya), as exact as these."""
        bias = self.best_bias(scores)
        primal = 0.5 * float((self.y * alpha) @ scores) + float(self.losses(self.slacks(scores, bias)).sum())
        return relative_gap(primal, primal - float(self.gaps(alpha, scores, bias).sum()))

    def certificate(self, point: BiasPoint) -> Certificate:
        """Certify a point: P at the point, D at feasible coefficients near it; the scores are recomputed."""
        if point.weights is not None:
            return margin_gap(self._primal(point.weights, point.bias), self.dual(point.alpha))
        inside, operations = self._inside(point.alpha)
        judged = self.gram.judged((self.y * inside)[:, None], operations)
        dual = self._dual(inside, operations, judged.square)
        if not np.array_equal(inside, point.alpha):
            judged = self.gram.judged((self.y * point.alpha)[:, None], 0)
        losses = self._losses_at(judged.scores[:, 0], point, judged.errors)
        return margin_gap(judged.square.times(0.5) + losses, dual)

    @staticmethod
    def certificates_of(parts: Sequence[Any], points: Sequence[BiasPoint]) -> list[Certificate]:
        """Certify a point of each problem; those of the same rows share the products with them."""
        if not _share_rows(parts):
            return MarginModels.certificates_of(parts, points)
        each = cuts(len(parts), parts[0].gram.n, margin_models.AT_ONCE)
        return [found for cut in each for found in _certificates(parts[cut], points[cut])]

    def _losses_at(self, scores: Array, point: BiasPoint, errors: ScoreErrors) -> Rounded:
        return _losses([self], [point], scores[None, :], errors)[0]

    def _weights(self, point: BiasPoint) -> Array:
        """Return the weights of a linear kernel; (d,)."""
        if point.weights is not None:
            return point.weights
        return np.asarray(rmatmul(self.gram.X, self.dual_columns(point), 0.0)[:-1, 0])

    def linear_scores(self, W: Array) -> Array:
        """Return X W for weights of a linear kernel, (d, k); (n, k)."""
        without = np.vstack([W, np.zeros((1, W.shape[1]))])
        return np.concatenate([scores for _, scores in matmul(self.gram.X, without, 0.0)])

    def dual_columns(self, point: BiasPoint) -> Array:
        """Return the dual variables with their signs, w = sum_i x_i dual_i; (n, 1)."""
        return (self.y * point.alpha)[:, None]

    def warm_point(self, dual: Array) -> BiasPoint | None:
        """Return a feasible point near the dual column of a model; None where it has another shape."""
        return self.point(self.feasible(self.y * dual[:, 0])) if dual.shape == (len(self.y), 1) else None

    def primal_at(self, coef: Array, intercept: Array) -> Rounded:
        """Return P at the weights (1, d) and the bias (1,) of a linear model."""
        weights, bias = coef[0], float(intercept[0])
        if not self.constant:
            return self._primal(weights, float(self.origin.near(coef.T, intercept)[0]))
        # The weight of the constant is a rounded quotient; scores are charged for that, too.
        last = bias / self.constant
        return self._primal(np.append(weights, last), 0.0, 2.0 * UNIT * abs(last))

    def _primal(self, weights: Array, bias: float, error: float = 0.0) -> Rounded:
        """Return P at the weights of all columns of X, which are so far from the exact ones, and a bias."""
        column = weights[:, None]
        scores, point = self.linear_scores(column)[:, 0], BiasPoint(self.y, bias, weights)
        return squared_norm(weights, error).times(0.5) + self._losses_at(
            scores, point, _score_errors(self.gram, column)
        )

    def coef_and_intercept(self, point: BiasPoint) -> tuple[Array, Array]:
        """Return the weights of a linear kernel, (1, d), and the bias, (1,)."""
        return self._split(self._weights(point)[None, :], np.array([point.bias]))

    def _split(self, rows: Array, biases: Array) -> tuple[Array, Array]:
        """Return weights (k, d) and intercepts (k,), given the weights of all columns of X and the free biases."""
        if not self.constant:
            return rows, self.origin.far(rows.T, biases)
        return np.ascontiguousarray(rows[:, :-1]), self.constant * rows[:, -1]

    @staticmethod
    def coefs_of(parts: Sequence[Any], points: Sequence[BiasPoint]) -> tuple[Array, Array]:
        """Return the weights and biases of several linear problems; those of the same rows share a product."""
        if not _share_rows(parts) or any(point.weights is not None for point in points):
            return MarginModels.coefs_of(parts, points)
        W = rmatmul(parts[0].gram.X, _signed(parts, [point.alpha for point in points]), 0.0)[:-1]
        split: tuple[Array, Array] = parts[0]._split(np.ascontiguousarray(W.T), np.array([p.bias for p in points]))
        return split

    def free_bias(self, point: BiasPoint) -> Array:
        """Return the unpenalised bias; (1,)."""
        return np.array([point.bias])

    def expansion_point(self, dual: Array, intercept: Array) -> BiasPoint:
        """Return the point that the dual column (n, 1) and the bias (1,) of a model are, feasible or not."""
        return BiasPoint(self.y * dual[:, 0], float(intercept[0]))

    def fingerprint(self) -> str:
        """Return a hash of the data, the kernel and the prices."""
        settings = (self.name, self.has_bias, self.constant, self.gram.kernel)
        return digest_of(settings, self.gram.X, self.y, self.C)


def _share_rows(parts: Sequence[FreeBiasSVM]) -> bool:
    """Say whether products with X serve all problems."""
    gram = parts[0].gram
    return gram.is_linear and all(part.gram is gram for part in parts)


def _certificates(parts: Sequence[FreeBiasSVM], points: Sequence[BiasPoint]) -> list[Certificate]:
    """Certify points of problems that share a linear kernel, with weights of their own or those of feasible duals."""
    gram, with_weights = parts[0].gram, {point.weights is not None for point in points}
    inside = [part._inside(point.alpha) for part, point in zip(parts, points, strict=True)]
    insides, operations = [alpha for alpha, _ in inside], [count for _, count in inside]
    are_feasible = all(np.array_equal(alpha, point.alpha) for alpha, point in zip(insides, points, strict=True))
    if len(with_weights) > 1 or not (are_feasible or True in with_weights):
        return MarginModels.certificates_of(parts, points)
    signed = _signed(parts, insides)
    if True in with_weights:
        W = np.column_stack([part._weights(point) for part, point in zip(parts, points, strict=True)])
        scores, errors = parts[0].linear_scores(W), _score_errors(gram, W)
        own, squares = [squared_norm(w) for w in W.T], gram.energies(signed, max(operations))
    else:
        scores, errors, _ = judged = gram.judged(signed, max(operations))
        own = squares = judged.squares(signed)
    scores, found = np.ascontiguousarray(scores.T), []
    for some in cuts(len(parts), gram.n, IN_CACHE):
        losses = _losses(parts[some], points[some], scores[some], errors.of(some))
        duals = _duals(parts[some], stacked(insides[some]), operations[some], squares[some])
        each = zip(own[some], losses, duals, strict=True)
        found += [margin_gap(square.times(0.5) + loss, dual) for square, loss, dual in each]
    return found


def _losses(
    parts: Sequence[FreeBiasSVM], points: Sequence[BiasPoint], scores: Array, errors: ScoreErrors
) -> list[Rounded]:
    """Return the sums of the losses of problems on the same rows at points with these scores, (k, n)."""
    biases = np.array([point.bias for point in points]).reshape(len(points), -1)  # of pairs in one one for every entry
    if parts[0].origin.is_elsewhere:  # what the intercept of a model of moved rows brings
        each = zip(parts, points, biases, strict=True)
        own = [part.origin.errors(part._weights(point)[:, None], bias) for part, point, bias in each]
        errors = errors._replace(level=errors.level + np.concatenate(own))
    slacks = 1.0 - stacked([part.y for part in parts]) * (scores + biases)
    charged = parts[0].charged(
        stacked([part.C for part in parts]), np.maximum(slacks, 0.0), errors.of_slacks(slacks, scores, biases)
    )
    return totals(*charged)


def _duals(
    parts: Sequence[FreeBiasSVM], alphas: Array, operations: Sequence[int], squares: Sequence[Rounded]
) -> list[Rounded]:
    """Return D of problems at feasible dual variables, (k, n), so many roundings away from exact ones."""
    ridges = alphas * (alphas * stacked([part.inverse_C for part in parts]))  # alpha^2 would underflow first
    shares = np.array([gamma(2 * count + 4) for count in operations])
    sums = totals(alphas, shares * alphas.sum(axis=1)), totals(ridges, shares * ridges.sum(axis=1))
    return [own - (square + ridge).times(0.5) for own, ridge, square in zip(*sums, squares, strict=True)]


def _score_errors(gram: Gram, W: Array) -> ScoreErrors:
    """Bound the errors of the scores of weights, (d, k)."""
    sizes = gamma(score_roundings(gram.X) + 10) * norms(W, axis=0)
    return ScoreErrors(gram.lengths[:, None], sizes[None, :], np.zeros(len(sizes)))


def _signed(parts: Sequence[FreeBiasSVM], alphas: Sequence[Array]) -> Array:
    """Return the dual variables with their signs, one column per problem; (n, k)."""
    return np.column_stack([part.y * alpha for part, alpha in zip(parts, alphas, strict=True)])
