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

from softmargin.core.rounding import Rounded, gamma, total
from softmargin.matrices.gram import Gram
from softmargin.problems.checks import balanced
from softmargin.problems.free_bias import FreeBiasSVM
from softmargin.problems.margin_models import small_gram
from softmargin.sets.balanced import balanced_corner, balanced_quantile

__all__ = ["HingeSVM"]

Array = NDArray[Any]


class HingeSVM(FreeBiasSVM):
    """A binary hinge SVM with a free bias; parameters as in ``FreeBiasSVM``, but a bias there always is.

    Without one, or with a penalised one, it is a ``KernelMulticlassSVM`` of two classes with half its C.
    """

    name: ClassVar[str] = "hinge"
    kind: ClassVar[str] = "kernel hinge with a free bias"

    def __init__(self, gram: Gram, y: Array, *, C: float | Array = 1.0, is_expansion: bool = False) -> None:
        super().__init__(gram, y, C=C, is_expansion=is_expansion)

    @property
    def upper(self) -> Array:
        """C; (n,)."""
        return self.C

    @property
    def inverse_C(self) -> Array:
        """Zero: the dual has no square of its own; (n,)."""
        return np.zeros_like(self.C)

    def _nearest(self, alpha: Array) -> Array:
        return balanced(np.clip(alpha, 0.0, self.C), self.y)[0]

    def best_bias(self, scores: Array) -> float:
        """Return the b that minimises P for these scores: where the slopes of the losses change sign."""
        return balanced_quantile(self.y - scores, self.y, self.C)

    def corner(self, scores: Array) -> Array:
        """Return the feasible a that maximises <a, 1 - y F>: its value is the least sum of the losses; (n,)."""
        return balanced_corner(self.y - scores, self.y, self.C)

    def losses(self, xi: Array) -> Array:
        """Return C xi; (n,)."""
        return np.asarray(self.C * xi)

    def gaps(self, alpha: Array, scores: Array, bias: float) -> Array:
        """Return each sample's part of the gap, given scores = K (ya); shape (n,)."""
        slopes = 1.0 - self.y * (scores + bias)
        return np.asarray(np.maximum(slopes * (self.C - alpha), -slopes * alpha))

    def small_problem(self) -> "HingeSVM":
        """Return a problem of two rows that needs the same compiled loops."""
        return HingeSVM(small_gram(self.gram), np.array([-1.0, 1.0]), is_expansion=self.is_expansion)

    def _losses(self, xi: Array, errors: Array) -> Rounded:
        return total(self.losses(xi), self.C * (errors + gamma(2) * xi))
