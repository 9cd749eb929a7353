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
from softmargin.matrices.gram import Gram
from softmargin.problems.checks import FEASIBLE, checked_prices, checked_signs, digest_of

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

    def feasible(self, alpha: Array) -> Array:
        """Return a feasible point near ``alpha``: inside the box, the heavier side scaled down to the other's sum."""
        inside = np.clip(alpha, 0.0, self.C)
        sums = np.array([inside[self.y > 0].sum(), inside[self.y < 0].sum()])
        shares = sums.min() / np.where(sums > 0, sums, 1.0)
        return np.asarray(inside * np.where(self.y > 0, shares[0], shares[1]))

    def primal(self, point: HingePoint, scores: Array) -> float:
        """Return P, given scores = K (ya)."""
        xi = np.maximum(1.0 - self.y * (scores + point.bias), 0.0)
        return 0.5 * float((self.y * point.alpha) @ scores) + float(self.C @ xi)

    def dual(self, alpha: Array, scores: Array) -> float:
        """Return D, given scores = K (ya), or -inf where alpha is not feasible."""
        is_inside = alpha.min() >= 0.0 and bool((alpha <= self.C * (1.0 + FEASIBLE)).all())
        if not (is_inside and abs(float(self.y @ alpha)) <= FEASIBLE * float(alpha.sum())):
            return -np.inf
        return float(alpha.sum()) - 0.5 * float((self.y * alpha) @ scores)

    def certificate(self, point: HingePoint) -> Certificate:
        """Certify a point: P at the point, D at feasible coefficients near it; the scores are recomputed."""
        scores = self.gram.scores(self.y * point.alpha)
        alpha = self.feasible(point.alpha)
        own = scores if np.array_equal(alpha, point.alpha) else self.gram.scores(self.y * alpha)
        return duality_gap(self.primal(point, scores), self.dual(alpha, own))

    def fingerprint(self) -> str:
        """Return a hash of the data, the kernel and the prices."""
        return digest_of(("hinge", self.gram.bias, self.gram.kernel), self.gram.X, self.y, self.C)
