"""The binary SVM with hinge loss and a free bias: paper 000, eqs. 1 and 2; LIBSVM's C-SVC, so scikit-learn's SVC.

Maths: kernel SVM, section 9.

    P(w, b) = 1/2 |w|^2 + sum_i C_i [1 - y_i (<w, x_i> + b)]_+                     b is not penalised
    D(a)    = sum a - 1/2 (ya)'K(ya) ,   0 <= a <= C,  y'a = 0
    gap     = sum_i C_i xi_i + a_i (y_i (F_i + b) - 1)                             each term >= 0

    paper 000       LIBSVM              here
    alpha           alpha               alpha (n,)
                    y_i alpha_i         dual_coef_ of scikit-learn's SVC
    b               -rho                bias
"""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.core.rounding import gamma
from softmargin.problems.checks import balanced
from softmargin.problems.free_bias import FreeBiasSVM
from softmargin.problems.margin_models import small_gram
from softmargin.sets.balanced import balanced_corner, balanced_quantile

__all__ = ["HingeSVM"]

Array = NDArray[Any]


class HingeSVM(FreeBiasSVM):
    """A binary hinge SVM with a free bias; parameters as in ``FreeBiasSVM``.

    Without one, or with a penalised one, it is also a ``KernelMulticlassSVM`` of two classes with half its C.
    """

    name: ClassVar[str] = "hinge"

    @property
    def kind(self) -> str:
        """The family of solvers."""
        return "kernel hinge with a free bias" if self.has_bias else "kernel hinge without a free bias"

    @property
    def upper(self) -> Array:
        """C; (n,)."""
        return self.C

    @property
    def inverse_C(self) -> Array:
        """Zero: the dual has no square of its own; (n,)."""
        return np.zeros_like(self.C)

    def _nearest(self, alpha: Array) -> Array:
        inside = np.clip(alpha, 0.0, self.C)
        return balanced(inside, self.y)[0] if self.has_bias else inside

    def best_bias(self, scores: Array) -> float:
        """Return the b that minimises P for these scores: where the slopes of the losses change sign."""
        return self.bias_at(self.y - scores, self.y, self.C) if self.has_bias else 0.0

    @staticmethod
    def bias_at(z: Array, y: Array, C: Array) -> float:
        """Return the best bias of some samples, given z = y - F."""
        return balanced_quantile(z, y, C)

    def corner(self, scores: Array) -> Array:
        """Return the feasible a that maximises <a, 1 - y F>: its value is the least sum of the losses; (n,)."""
        if not self.has_bias:
            return np.where(self.y * scores < 1.0, self.C, 0.0)
        return balanced_corner(self.y - scores, self.y, self.C)

    @staticmethod
    def charged(C: Array, xi: Array, errors: Any) -> tuple[Array, Array]:
        """Return C xi, and bounds on its errors; of any shape."""
        return C * xi, C * (errors + gamma(2) * xi)

    def gaps(self, alpha: Array, scores: Array, bias: float) -> Array:
        """Return each sample's part of the gap, given scores = K (ya); shape (n,)."""
        slopes = 1.0 - self.y * (scores + bias)
        return np.asarray(np.maximum(slopes * (self.C - alpha), -slopes * alpha))

    def small_problem(self) -> "HingeSVM":
        """Return a problem of two rows that needs the same compiled loops."""
        signs = np.array([-1.0, 1.0])
        return HingeSVM(small_gram(self.gram), signs, has_bias=self.has_bias, is_expansion=self.is_expansion)
