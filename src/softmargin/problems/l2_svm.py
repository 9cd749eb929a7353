"""The binary SVM with squared hinge loss and a free bias, linear or in the space of a kernel.

Maths: squared hinge, eqs. 1 and 2.

    P(w, b) = 1/2 |w|^2 + 1/2 sum_i C_i [1 - y_i (<w, x_i> + b)]_+^2              b is not penalised
    D(a)    = sum a - 1/2 (ya)'K(ya) - 1/2 sum_i a_i^2 / C_i ,   a >= 0,  y'a = 0
    w = sum_i a_i y_i x_i ,   scores F = K (ya) ,   xi_i = [1 - y_i (F_i + b)]_+
    gap = sum_i C_i/2 (xi_i - a_i/C_i)^2 + a_i (y_i (F_i + b) - 1 + xi_i)   each term >= 0, maths: squared hinge, eq. 8

Without a bias, b = 0 and the constraint y'a = 0 falls away. A sample with C_i = 0 has a_i = 0.

    paper 000       here
    alpha           alpha (n,)
    C / 2 sum xi^2  as here; LIBLINEAR's C is half of ours (maths: notation, eq. 5)
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import Certificate, duality_gap, relative_gap
from softmargin.core.errors import DataError
from softmargin.core.rounding import Rounded, ScoreErrors, gamma, norms, squared_norm, total
from softmargin.matrices.gram import Gram
from softmargin.matrices.operator import longest_row, matmul, rmatmul
from softmargin.problems.checks import balanced, checked_prices, checked_signs, digest_of
from softmargin.problems.multiclass_svm import MarginModels, small_gram
from softmargin.sets import project_balanced
from softmargin.sets.balanced import balance_by_sort

__all__ = ["L2SVM", "L2Point"]

Array = NDArray[Any]


class L2Point(NamedTuple):
    """Dual variables, the bias, and the weights where they are known apart from the dual (linear, primal solvers)."""

    alpha: Array  # (n,)
    bias: float
    weights: Array | None = None  # (d,)


class L2SVM(MarginModels):
    """A binary L2-SVM.

    Parameters
    ----------
    gram : Gram
        The kernel matrix, with bias 0: the bias here is free.
    y : array of shape (n,)
        -1 and +1.
    C : float or array of shape (n,)
    has_bias : bool, default=True
    is_expansion : bool, default=False
        Whether a model is made of the dual variables alone, also where the kernel is linear; with another kernel it
        always is.
    """

    def __init__(
        self, gram: Gram, y: Array, *, C: float | Array = 1.0, has_bias: bool = True, is_expansion: bool = False
    ) -> None:
        self.gram = gram
        self.is_expansion = is_expansion or not gram.is_linear
        self.y = checked_signs(y, gram)
        self.C = checked_prices(C, gram.n)
        self.has_bias = has_bias

    @property
    def kind(self) -> str:
        """The family of solvers: with a linear kernel, some find weights."""
        return "linear squared_hinge" if self.gram.is_linear else "kernel squared_hinge"

    @property
    def inverse_C(self) -> Array:
        """1 / C_i, zero where C_i is zero: there a_i = 0 and nothing is divided; shape (n,)."""
        return np.divide(1.0, self.C, out=np.zeros_like(self.C), where=self.C > 0)

    def feasible(self, alpha: Array) -> Array:
        """Return the nearest feasible dual point."""
        if alpha.shape != self.y.shape:
            raise DataError(f"a warm start needs alpha of shape {self.y.shape}; found {alpha.shape}. Start afresh.")
        inside = self.C > 0
        nearest = np.zeros_like(self.y)
        if self.has_bias and inside.any():
            nearest[inside], _ = project_balanced(alpha[inside], self.y[inside], method="sort")
        else:
            nearest[inside] = np.maximum(alpha[inside], 0.0)
        return nearest

    def best_bias(self, scores: Array) -> float:
        """Return the b that minimises P for these scores: the root of sum_i C_i y_i [1 - y_i (F_i + b)]_+."""
        if not (self.has_bias and self.C.any()):
            return 0.0
        inside = self.C > 0
        return balance_by_sort((self.y - scores)[inside], self.y[inside], self.C[inside])

    def zero(self) -> L2Point:
        """Return alpha = 0, with its best bias."""
        return L2Point(np.zeros_like(self.y), self.best_bias(np.zeros_like(self.y)))

    def point(self, alpha: Array) -> L2Point:
        """Pair dual variables with the best bias for the scores they imply."""
        return L2Point(alpha, self.best_bias(self.gram.scores(self.y * alpha)))

    def primal_point(self, weights: Array, bias: float) -> L2Point:
        """Pair linear weights with the dual point that their losses suggest: Proj(C xi)."""
        scores = self._linear_scores(weights)
        return L2Point(self.feasible(self.C * self.slacks(scores, bias)), bias, weights)

    def slacks(self, scores: Array, bias: float) -> Array:
        """Return xi; shape (n,)."""
        return np.maximum(1.0 - self.y * (scores + bias), 0.0)

    def gaps(self, alpha: Array, scores: Array, bias: float) -> Array:
        """Return each sample's part of the gap, given scores = K (ya); shape (n,)."""
        xi = self.slacks(scores, bias)
        margins = self.y * (scores + bias) - 1.0
        return np.asarray(0.5 * self.C * (xi - alpha * self.inverse_C) ** 2 + alpha * (margins + xi))

    def dual(self, alpha: Array) -> Rounded:
        """Return D at feasible coefficients near these: not negative, none where C = 0, and y'a = 0 with a bias."""
        inside, operations = self._inside(alpha)
        return self._dual(inside, operations, self.gram.energy((self.y * inside)[:, None], operations))

    def _inside(self, alpha: Array) -> tuple[Array, int]:
        """Return feasible coefficients near these, and how many roundings they are away from exact ones."""
        alpha = np.where(self.C > 0.0, np.maximum(alpha, 0.0), 0.0)
        return balanced(alpha, self.y) if self.has_bias else (alpha, 0)

    def _dual(self, alpha: Array, operations: int, square: Rounded) -> Rounded:
        ridge = alpha * (alpha * self.inverse_C)  # alpha^2 would underflow first
        share = gamma(2 * operations + 4)
        return total(alpha, share * alpha) - (square + total(ridge, share * ridge)).times(0.5)

    def relative_gap(self, alpha: Array, scores: Array) -> float:
        """Return (P - D) / P at a feasible alpha and its best bias, given scores = K (ya), as exact as these."""
        bias = self.best_bias(scores)
        primal = 0.5 * float((self.y * alpha) @ scores + self.C @ self.slacks(scores, bias) ** 2)
        return relative_gap(primal, primal - float(self.gaps(alpha, scores, bias).sum()))

    def certificate(self, point: L2Point) -> Certificate:
        """Certify a point: the scores are recomputed."""
        if point.weights is not None:
            return duality_gap(self.primal_at(point.weights[None, :], np.array([point.bias])), self.dual(point.alpha))
        inside, operations = self._inside(point.alpha)
        judged = self.gram.judged((self.y * inside)[:, None], operations)
        dual = self._dual(inside, operations, judged.square)
        if not np.array_equal(inside, point.alpha):
            judged = self.gram.judged((self.y * point.alpha)[:, None], 0)
        losses = self._losses(judged.scores[:, 0], point.bias, judged.errors)
        return duality_gap(judged.square.times(0.5) + losses, dual)

    def _losses(self, scores: Array, bias: float, errors: ScoreErrors) -> Rounded:
        slacks = 1.0 - self.y * (scores + bias)
        xi, each = np.maximum(slacks, 0.0), errors.of_slacks(slacks, scores, bias)
        return total(0.5 * self.C * xi**2, self.C * (each * (xi + each) + gamma(4) * xi**2))

    def _linear_scores(self, weights: Array) -> Array:
        column = np.append(weights, 0.0)[:, None]
        return np.concatenate([scores[:, 0] for _, scores in matmul(self.gram.X, column, 0.0)])

    def dual_columns(self, point: L2Point) -> Array:
        """Return the dual variables with their signs, w = sum_i x_i dual_i; (n, 1)."""
        return (self.y * point.alpha)[:, None]

    def warm_point(self, dual: Array) -> L2Point | None:
        """Return a feasible point near the dual column of a model; None where it has another shape."""
        return self.point(self.feasible(self.y * dual[:, 0])) if dual.shape == (len(self.y), 1) else None

    def primal_at(self, coef: Array, intercept: Array) -> Rounded:
        """Return P at the weights (1, d) and the bias (1,) of a linear model."""
        weights, bias, X = coef[0], float(intercept[0]), self.gram.X
        size = gamma(longest_row(X) + 8) * norms(weights[:, None], axis=0)
        errors = ScoreErrors(self.gram.lengths[:, None], size[:, None], np.zeros(1))
        return squared_norm(weights).times(0.5) + self._losses(self._linear_scores(weights), bias, errors)

    def coef_and_intercept(self, point: L2Point) -> tuple[Array, Array]:
        """Return the weights of a linear kernel, (1, d), and the bias, (1,)."""
        weights = point.weights
        if weights is None:
            weights = rmatmul(self.gram.X, self.dual_columns(point), 0.0)[:-1, 0]
        return weights[None, :], np.array([point.bias])

    def free_bias(self, point: L2Point) -> Array:
        """Return the unpenalised bias; (1,)."""
        return np.array([point.bias])

    def expansion_point(self, dual: Array, intercept: Array) -> L2Point:
        """Return the point that the dual column (n, 1) and the bias (1,) of a model are, feasible or not."""
        return L2Point(self.y * dual[:, 0], float(intercept[0]))

    def small_problem(self) -> "L2SVM":
        """Return a problem of two rows that needs the same compiled loops."""
        return L2SVM(
            small_gram(self.gram), np.array([-1.0, 1.0]), has_bias=self.has_bias, is_expansion=self.is_expansion
        )

    def fingerprint(self) -> str:
        """Return a hash of the data, the kernel and the prices."""
        settings = ("l2", self.has_bias, self.gram.bias, self.gram.kernel)
        return digest_of(settings, self.gram.X, self.y, self.C)
