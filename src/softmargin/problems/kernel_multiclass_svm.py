"""The joint multiclass SVM in the space of a kernel: Weston-Watkins or Crammer-Singer.

    alpha (n, k), feasible rows as in multiclass_svm;   scores F = K alpha;   W = sum_i phi(x_i) alpha_i'      spec 2.1
    P = 1/2 <alpha, F> + sum_i C_i l_i(F_i) ,    D = sum_i alpha_{i,y_i} - 1/2 <alpha, F>
    P - D = sum_i gap_i ,   gap_i = <alpha_i, F_i - e_{y_i}> + C_i l_i(F_i) >= 0                               spec 2.2

The gap of a row is also its Frank-Wolfe gap: the most that any feasible row could gain along the gradient F - Y.

    paper 000       here
    alpha           alpha           paper 004 has the opposite sign, spec 2.1
    K alpha         scores
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import Certificate, duality_gap
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.losses import LOSSES
from softmargin.matrices.gram import Gram
from softmargin.matrices.operator import row_slices
from softmargin.problems.checks import FEASIBLE, checked_codes, checked_prices, digest_of

__all__ = ["KernelMulticlassSVM", "KernelPoint"]

Array = NDArray[Any]


class KernelPoint(NamedTuple):
    """Dual variables; they are the model."""

    alpha: Array  # (n, k)


class KernelMulticlassSVM:
    """A joint multiclass SVM on a kernel matrix.

    Parameters
    ----------
    gram : Gram
        The kernel matrix; its ``bias`` gives an intercept that is penalised like every other weight.
    y : int array of shape (n,)
        Class codes 0 .. k-1.
    C : float or array of shape (n,)
        Price of one unit of loss, per sample.
    multiclass : {"weston_watkins", "crammer_singer"}
    n_classes : int, optional
        k; by default the largest code plus one.
    """

    def __init__(
        self,
        gram: Gram,
        y: Array,
        *,
        C: float | Array = 1.0,
        multiclass: str = "weston_watkins",
        n_classes: int | None = None,
    ) -> None:
        if multiclass not in LOSSES:
            raise IncompatibleError(f"multiclass={multiclass!r} is unknown; choose one of {', '.join(LOSSES)}.")
        self.gram = gram
        self.y, self.n_classes = checked_codes(y, gram.n, n_classes)
        self.C = checked_prices(C, gram.n)
        self.multiclass = multiclass
        self.loss = LOSSES[multiclass]

    def point(self, alpha: Array) -> KernelPoint:
        """Make a point of dual variables."""
        return KernelPoint(alpha)

    def feasible(self, alpha: Array) -> Array:
        """Return a feasible dual point near ``alpha`` (any warm start becomes a valid one)."""
        if alpha.shape != (len(self.y), self.n_classes):
            raise DataError(
                f"a warm start needs alpha of shape {(len(self.y), self.n_classes)}; found {alpha.shape}. "
                "Start afresh, or fit on the same samples and classes."
            )
        return self.loss.project(alpha, self.y, self.C)

    def gaps(self, alpha: Array, scores: Array) -> Array:
        """Return gap_i of every row, given scores = K alpha; shape (n,)."""
        rows = np.arange(len(self.y))
        inner = np.einsum("ij,ij->i", alpha, scores) - alpha[rows, self.y]
        return inner + self.C * self.loss.value(scores, self.y)

    def primal(self, alpha: Array, scores: Array) -> float:
        """Return P, given scores = K alpha."""
        return 0.5 * float(np.vdot(alpha, scores)) + float(self.C @ self.loss.value(scores, self.y))

    def dual(self, alpha: Array, scores: Array) -> float:
        """Return D, given scores = K alpha, or -inf where alpha is not feasible."""
        blocks = row_slices(len(self.y), self.n_classes)
        outside = [self.loss.infeasibility(alpha[rows], self.y[rows], self.C[rows]) for rows in blocks]
        if not np.max(outside) <= FEASIBLE:
            return -np.inf
        own = alpha[np.arange(len(self.y)), self.y]
        return float(own.sum()) - 0.5 * float(np.vdot(alpha, scores))

    def relative_gap(self, alpha: Array, scores: Array) -> float:
        """Return (P - D) / P at a feasible alpha, given scores = K alpha, exact as far as these are."""
        primal = self.primal(alpha, scores)
        return duality_gap(primal, primal - float(self.gaps(alpha, scores).sum())).residual

    def certificate(self, point: KernelPoint) -> Certificate:
        """Judge a point: K alpha is computed afresh, then P, D and the relative gap."""
        scores = self.gram.scores(point.alpha)
        return duality_gap(self.primal(point.alpha, scores), self.dual(point.alpha, scores))

    def fingerprint(self) -> str:
        """Return a hash of the data, the kernel, the prices and the loss."""
        settings = (self.multiclass, self.n_classes, self.gram.bias, self.gram.kernel)
        return digest_of(settings, self.gram.X, self.y, self.C)
