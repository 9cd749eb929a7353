"""The binary SVM with squared hinge loss and a free bias, linear or in the space of a kernel.

Maths: squared hinge, eqs. 1 and 2.

    P(w, b) = 1/2 |w|^2 + 1/2 sum_i C_i [1 - y_i (<w, x_i> + b)]_+^2              b is not penalised
    D(a)    = sum a - 1/2 (ya)'K(ya) - 1/2 sum_i a_i^2 / C_i ,   a >= 0,  y'a = 0
    gap = sum_i C_i/2 (xi_i - a_i/C_i)^2 + a_i (y_i (F_i + b) - 1 + xi_i)   each term >= 0, maths: squared hinge, eq. 8

    paper 000       here
    alpha           alpha (n,)
    C / 2 sum xi^2  as here; LIBLINEAR's C is half of ours (maths: notation, eq. 5)
"""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.core.rounding import gamma
from softmargin.problems.free_bias import BiasPoint, FreeBiasSVM
from softmargin.problems.margin_models import small_gram
from softmargin.sets import project_balanced
from softmargin.sets.balanced import balance_by_sort

__all__ = ["L2SVM"]

Array = NDArray[Any]


class L2SVM(FreeBiasSVM):
    """A binary L2-SVM; parameters as in ``FreeBiasSVM``."""

    name: ClassVar[str] = "l2"

    @property
    def kind(self) -> str:
        """The family of solvers: with a linear kernel, some find weights."""
        return "linear squared_hinge" if self.gram.is_linear else "kernel squared_hinge"

    @property
    def upper(self) -> Array:
        """No dual variable has a largest value; (n,)."""
        return np.full_like(self.C, np.inf)

    @property
    def inverse_C(self) -> Array:
        """1 / C_i, zero where C_i is zero: there a_i = 0 and nothing is divided; shape (n,)."""
        return np.divide(1.0, self.C, out=np.zeros_like(self.C), where=self.C > 0)

    def _nearest(self, alpha: Array) -> Array:
        inside = self.C > 0
        nearest = np.zeros_like(self.y)
        if self.has_bias:
            nearest[inside], _ = project_balanced(alpha[inside], self.y[inside], method="sort")
        else:
            nearest[inside] = np.maximum(alpha[inside], 0.0)
        return nearest

    def best_bias(self, scores: Array) -> float:
        """Return the b that minimises P for these scores: the root of sum_i C_i y_i [1 - y_i (F_i + b)]_+."""
        return self.bias_at(self.y - scores, self.y, self.C) if self.has_bias else 0.0

    @staticmethod
    def bias_at(z: Array, y: Array, C: Array) -> float:
        """Return the best bias of some samples, given z = y - F."""
        inside = C > 0
        return balance_by_sort(z[inside], y[inside], C[inside]) if inside.any() else 0.0

    def primal_point(self, weights: Array, bias: float, scores: Array) -> BiasPoint:
        """Pair linear weights with the dual point that their losses suggest: C xi, which is feasible at the best bias.

        At others the heavier side is scaled down. ``scores`` are about X w + bias.
        """
        return BiasPoint(self._inside(self.C * self.slacks(scores, 0.0))[0], bias, weights)

    @staticmethod
    def charged(C: Array, xi: Array, errors: Any) -> tuple[Array, Array]:
        """Return C/2 xi^2, and bounds on its errors; of any shape."""
        squares = xi**2
        return 0.5 * C * squares, C * (errors * (xi + errors) + gamma(4) * squares)

    def gaps(self, alpha: Array, scores: Array, bias: float) -> Array:
        """Return each sample's part of the gap, given scores = K (ya); shape (n,)."""
        xi = self.slacks(scores, bias)
        margins = self.y * (scores + bias) - 1.0
        return np.asarray(0.5 * self.C * (xi - alpha * self.inverse_C) ** 2 + alpha * (margins + xi))

    def small_problem(self) -> "L2SVM":
        """Return a problem of two rows that needs the same compiled loops."""
        signs = np.array([-1.0, 1.0])
        return L2SVM(small_gram(self.gram), signs, has_bias=self.has_bias, is_expansion=self.is_expansion)
