"""The joint multiclass SVM, linear: Weston-Watkins or Crammer-Singer.

    minimise over W in R^{d x k}:   P(W) = 1/2 |W|^2 + sum_i C_i l_i(W' x_i)                            spec 2.1
    maximise over feasible alpha:   D(alpha) = sum_i alpha_{i,y_i} - 1/2 |X' alpha|^2,   W = X' alpha
    gap:   P(X' alpha) - D(alpha) = sum_i gap_i,   gap_i = <alpha_i, s_i - e_{y_i}> + C_i l_i(s_i) >= 0  spec 2.2

    paper 004 (Walrus)      here
    -beta_i, sum beta_i     alpha[i]       (k,)    off-label entries are <= 0, the row sums to zero
    w                       weights        (d+1, k), the last row belongs to the constant feature

The intercept is the weight of a constant feature ``bias`` and is penalised like every other weight.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import Certificate, duality_gap
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.losses import LOSSES
from softmargin.matrices.operator import canonical, matmul, rmatmul, row_slices
from softmargin.problems.checks import FEASIBLE, checked_codes, checked_prices, digest_of

__all__ = ["DualPoint", "MulticlassSVM"]

Array = NDArray[Any]


class DualPoint(NamedTuple):
    """Dual variables and the weights they imply."""

    alpha: Array  # (n, k)
    weights: Array  # (d + 1, k) = [X, bias]' alpha


class MulticlassSVM:
    """A linear joint multiclass SVM with one C for every sample.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        float32 or float64; used as it comes.
    y : int array of shape (n,)
        Class codes 0 .. k-1.
    C : float or array of shape (n,)
        Price of one unit of loss, per sample.
    multiclass : {"weston_watkins", "crammer_singer"}
        Which loss.
    n_classes : int, optional
        k; by default the largest code plus one.
    bias : float, default=0
        Value of the constant feature; 0 means no intercept.
    """

    def __init__(
        self,
        X: Any,
        y: Array,
        *,
        C: float | Array = 1.0,
        multiclass: str = "weston_watkins",
        n_classes: int | None = None,
        bias: float = 0.0,
    ) -> None:
        if multiclass not in LOSSES:
            raise IncompatibleError(f"multiclass={multiclass!r} is unknown; choose one of {', '.join(LOSSES)}.")
        self.X = canonical(X)
        n = self.X.shape[0]
        self.y, self.n_classes = checked_codes(y, n, n_classes)
        self.C = checked_prices(C, n)
        self.multiclass = multiclass
        self.loss = LOSSES[multiclass]
        self.bias = float(bias)
        if not np.isfinite(self.bias):
            raise DataError(f"bias must be finite; found {bias!r}.")

    def point(self, alpha: Array) -> DualPoint:
        """Pair dual variables with W = [X, bias]' alpha, computed afresh."""
        return DualPoint(alpha, rmatmul(self.X, alpha, self.bias))

    def feasible(self, alpha: Array) -> Array:
        """Return a feasible dual point near ``alpha`` (any warm start becomes a valid one)."""
        if alpha.shape != (len(self.y), self.n_classes):
            raise DataError(
                f"a warm start needs alpha of shape {(len(self.y), self.n_classes)}; found {alpha.shape}. "
                "Start afresh, or fit on the same samples and classes."
            )
        return self.loss.project(alpha, self.y, self.C)

    def primal(self, weights: Array) -> float:
        """Return P(W), for any weights of shape (d + 1, k)."""
        total = 0.5 * float(np.vdot(weights, weights))
        for rows, scores in matmul(self.X, weights, self.bias):
            total += float(self.C[rows] @ self.loss.value(scores, self.y[rows]))
        return total

    def dual(self, point: DualPoint) -> float:
        """Return D(alpha), or -inf where alpha is not feasible."""
        if not (self._is_feasible(point.alpha) and self._belong_together(point)):
            return -np.inf
        own = point.alpha[np.arange(len(self.y)), self.y]
        return float(own.sum() - 0.5 * np.vdot(point.weights, point.weights))

    def _is_feasible(self, alpha: Array) -> bool:
        """Check every row of alpha, a block at a time."""
        blocks = row_slices(len(self.y), self.n_classes)
        outside = [self.loss.infeasibility(alpha[rows], self.y[rows], self.C[rows]) for rows in blocks]
        return bool(np.max(outside) <= FEASIBLE)

    def _belong_together(self, point: DualPoint) -> bool:
        """Check weights = [X, bias]' alpha along one direction: the bound is no bound for other weights."""
        probe = np.cos(np.arange(self.n_classes))[:, None]
        distance = np.abs(point.weights @ probe - rmatmul(self.X, point.alpha @ probe, self.bias)).max(initial=0.0)
        return bool(distance <= FEASIBLE * np.abs(point.weights).max(initial=0.0))

    def certificate(self, point: DualPoint) -> Certificate:
        """Judge a point: P(W), D(alpha), relative gap."""
        return duality_gap(self.primal(point.weights), self.dual(point))

    def fingerprint(self) -> str:
        """Return a hash of the data, the prices, the loss and the intercept."""
        return digest_of((self.multiclass, self.n_classes, self.bias), self.X, self.y, self.C)

    def settled(self, point: DualPoint) -> tuple[Array, Array]:
        """Return (rows, alpha rows) proven to be optimal already: gap-safe screening, spec 2.9.

        ``|W - W*|^2 <= gap``: no score difference of sample i is further than ``sqrt(2 |x_i|^2 gap)`` from its optimum.
        """
        certificate = self.certificate(point)
        # primal - bound may round to nothing or less, but no proof is finer than the digits it is made of.
        noise = 64 * np.finfo(float).eps * (abs(certificate.primal) + float(np.abs(point.alpha).sum()))
        gap = max(certificate.gap, 0.0) + noise
        found, values = [], []
        for rows, scores in matmul(self.X, point.weights, self.bias):
            block = self.X[rows].astype(np.float64, copy=False)
            square = block.multiply(block).sum(axis=1) if hasattr(block, "multiply") else (block**2).sum(axis=1)
            sqnorms = np.asarray(square, dtype=np.float64).ravel() + self.bias**2
            inside, alpha = self.loss.settled(scores, self.y[rows], self.C[rows], np.sqrt(2.0 * sqnorms * gap))
            found.append(inside + rows.start)
            values.append(alpha)
        return np.concatenate(found), np.concatenate(values)
