"""The binary SVM with hinge loss and a free bias: what LIBSVM's C-SVC, and so scikit-learn's SVC, solves.

    P(a, b) = 1/2 (ya)'K(ya) + sum_i C_i [1 - y_i (F_i + b)]_+ ,   F = K (ya)       b is not penalised
    D(a)    = sum a - 1/2 (ya)'K(ya) ,   0 <= a <= C,  y'a = 0
    gap     = P - D

    LIBSVM              here
    alpha               alpha (n,)
    y_i alpha_i         dual_coef_ of scikit-learn's SVC
    -rho                bias

It only gives certificates: softmargin's own hinge problems penalise the bias, and no solver here solves this one.
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import Certificate, duality_gap
from softmargin.core.rounding import Rounded, gamma, total
from softmargin.matrices.gram import Gram
from softmargin.problems.checks import balanced, checked_prices, checked_signs, digest_of

__all__ = ["HingePoint", "HingeSVM"]

Array = NDArray[Any]


class HingePoint(NamedTuple):
    """Coefficients of the weights, w = sum_i a_i y_i phi(x_i), and the bias."""

    alpha: Array  # (n,)
    bias: float


class HingeSVM:
    """A binary hinge SVM with a free bias.

    Parameters
    ----------
    gram : Gram
        The kernel matrix, with bias 0.
    y : array of shape (n,)
        -1 and +1.
    C : float or array of shape (n,)
    """

    kind: ClassVar[str] = "kernel hinge with a free bias"  # no solver of ours

    def __init__(self, gram: Gram, y: Array, *, C: float | Array = 1.0) -> None:
        self.gram = gram
        self.y = checked_signs(y, gram)
        self.C = checked_prices(C, gram.n)

    def certificate(self, point: HingePoint) -> Certificate:
        """Certify a point: P at the point, D at feasible coefficients near it; the scores are recomputed."""
        scores, errors, square = self.gram.judged((self.y * point.alpha)[:, None], 0)
        slacks = 1.0 - self.y * (scores[:, 0] + point.bias)
        losses, each = np.maximum(slacks, 0.0), errors.of_slacks(slacks, scores[:, 0], point.bias)
        primal = square.times(0.5) + total(self.C * losses, self.C * (each + gamma(2) * losses))
        return duality_gap(primal, self.dual(point.alpha))

    def dual(self, alpha: Array) -> Rounded:
        """Return D at feasible coefficients near these: inside the box, and with y'a = 0."""
        alpha, operations = balanced(np.clip(alpha, 0.0, self.C), self.y)
        square = self.gram.energy((self.y * alpha)[:, None], operations)
        return total(alpha, gamma(operations) * alpha) - square.times(0.5)

    def fingerprint(self) -> str:
        """Return a hash of the data, the kernel and the prices."""
        return digest_of(("hinge", self.gram.bias, self.gram.kernel), self.gram.X, self.y, self.C)
