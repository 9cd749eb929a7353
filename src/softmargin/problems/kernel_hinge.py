"""The binary kernel SVM with hinge loss, certified on a sample: the problem of stochastic solvers on millions of rows.

    f(w) = lam / 2 |w|^2 + sum_i p_i [1 - y_i <w, phi(x_i)>]_+ ,     sum p = 1              maths: sampled kernel, eq. 1
    D(a) = sum_i p_i a_i - |sum_i p_i a_i y_i phi(x_i)|^2 / (2 lam) ,     0 <= a <= 1

w is an expansion over some samples S, w = sum_{i in S} alpha_i phi(x_i). On the sample the weights are p_i / sum_S p:
f_S and D_S. Their gap is a proof for S alone (``sample gap``); where S is all samples, or all of them can be looked at,
it is one for the whole problem (``duality gap``). ``held_out`` estimates f from fresh samples, with a band.

    paper 002           here
    beta, alpha, Q^k    w, alpha (m,), the kernel matrix of S
    w_i                 y_i
    no constant         lam: without one the optimum is alpha = y / n and nothing is learnt, maths: errata 002.1
    1 / (C n)           lam, for the C of an SVC
"""

from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import Certificate
from softmargin.core.errors import DataError
from softmargin.core.rounding import UNIT, Rounded, gamma, total
from softmargin.kernels import Points
from softmargin.kernels.formulas import errors_of
from softmargin.kernels.points import add_product, slices, tile_shape
from softmargin.matrices.forms import canonical
from softmargin.matrices.gram import Gram
from softmargin.problems.checks import checked_prices, digest_of
from softmargin.problems.margin_models import MarginModels, margin_gap

__all__ = ["Estimate", "ExpansionPoint", "KernelHinge"]

Array = NDArray[Any]
_ENTRY = 200.0  # multiplications of BLAS in the time that a kernel value takes beside its own; by timings
_CALL = 3e6  # the same for a certificate of no kernel values


class ExpansionPoint(NamedTuple):
    """Coefficients of w over some samples, and dual variables of these."""

    samples: Array  # (m,) which they are
    alpha: Array  # (m,) w = sum alpha_i phi(x_i)
    dual: Array  # (m,) in [0, 1]


class Estimate(NamedTuple):
    """A mean over fresh samples: f lies within ``band`` of ``value`` with the stated confidence."""

    value: float
    band: float
    confidence: float


class KernelHinge(MarginModels):
    """A binary hinge SVM in the space of a kernel, of which a solver looks at samples.

    Parameters
    ----------
    kernel : kernel object
    X : array or CSR matrix of shape (n, d)
        A memory-mapped array will do: only the rows that are used are read.
    y : array of shape (n,)
        -1 and +1.
    lam : float
        Strength of the regularisation; 1 / (C n) for the C of an SVC.
    weights : array of shape (n,), optional
        How much every sample counts; all alike by default.
    bias : float, default=0.0
        Value of a constant feature beside those of the kernel.
    most_values : int, default=0
        Kernel values that a certificate may compute: where n times the size of S is no more, the gap is that of the
        whole problem.
    first_fresh : int, default=0
        Samples before it have been looked at: none of them is drawn to test a step.
    scale : float, default=1.0
        Multiplies primal and bound of certificates, to give them in the units of the objective that users know.
    """

    kind: ClassVar[str] = "sampled kernel"
    point_type: ClassVar[type] = ExpansionPoint
    is_expansion = True

    def __init__(
        self,
        kernel: Any,
        X: Any,
        y: Array,
        *,
        lam: float,
        weights: Array | None = None,
        bias: float = 0.0,
        most_values: int = 0,
        first_fresh: int = 0,
        scale: float = 1.0,
    ) -> None:
        self.kernel, self.X = kernel, canonical(X)
        self.n = int(self.X.shape[0])
        self.y = np.ascontiguousarray(y, dtype=np.float64)
        if self.y.shape != (self.n,) or self.n == 0 or not (np.abs(self.y) == 1.0).all():
            raise DataError(f"a binary SVM needs labels -1 and +1, one per sample; X has {self.n} samples.")
        if not (np.isfinite(lam) and lam > 0.0):
            raise DataError(f"lam must be positive and finite; found {lam}.")
        self.lam, self.bias, self.most_values = float(lam), float(bias), int(most_values)
        self.scale, self.first_fresh = float(scale), int(first_fresh)
        self.weights = checked_prices(1.0 if weights is None else weights, self.n)
        if not self.weights.any():
            raise DataError("all sample weights are zero; nothing can be learnt.")

    @cached_property
    def gram(self) -> Gram:  # type: ignore[override]
        """The kernel matrix, computed when it is first used."""
        return Gram(self.kernel, self.X, bias=self.bias)

    def zero(self) -> ExpansionPoint:
        """Return w = 0, an expansion over no sample."""
        return ExpansionPoint(np.empty(0, dtype=np.intp), np.empty(0), np.empty(0))

    def points(self, index: Array) -> Points:
        """Return some samples in the form that kernels take; they are read and copied."""
        return Points(np.asarray(self.X[index]) if isinstance(self.X, np.ndarray) else self.X[index])

    def block(self, left: Points, right: Points) -> Array:
        """Return the kernel values of all pairs, the constant feature included, in float64."""
        values: Array = self.kernel.block(left, right).astype(np.float64)
        values += self.bias**2
        return values

    def shares(self, index: Array) -> Array:
        """Return how much each sample of S counts in it; sums to one."""
        weights = self.weights[index]
        mass = float(weights.sum())
        return weights / mass if mass > 0.0 else np.full(len(index), 1.0 / max(len(index), 1))

    def value(self, square: float, scores: Array, y: Array, shares: Array) -> float:
        """Return f on some samples, given |w|^2 and their scores."""
        return 0.5 * self.lam * square + float(shares @ np.maximum(1.0 - y * scores, 0.0))

    def best_bound(self, mass: float, square: float, largest: float) -> float:
        """Return the largest D(s a) over the scales s, given sum p a, |sum p a y phi|^2 and max a."""
        scale = self._best_scale(mass, square, largest)
        return scale * mass - scale**2 * max(square, 0.0) / (2.0 * self.lam)

    def _best_scale(self, mass: float, square: float, largest: float) -> float:
        # maths: sampled kernel, section 2.
        if mass <= 0.0 or largest <= 0.0:
            return 0.0
        return min(self.lam * mass / square if square > 0.0 else np.inf, 1.0 / largest)

    def sum_over(self, points: Points, alpha: Array, at: Any, *, is_wide: bool = False) -> Array:
        """Return scores sum_i alpha_i k(x_i, .) at some samples (an index or a slice), a tile at a time.

        alpha is (m,) or (m, c). Kernel values are in the precision of X, or in float64 if ``is_wide``.
        """
        rows = np.arange(self.n)[at] if isinstance(at, slice) else at
        columns = alpha[:, None] if alpha.ndim == 1 else alpha
        scores = np.zeros((len(rows), columns.shape[1]))
        height, width = tile_shape(points.numbers_per_row)
        for left in slices(len(rows), height):
            here = self.points(rows[left])
            here = here.widened() if is_wide else here
            for right in slices(len(points), width):
                part = points.take(right)
                tile = self.kernel.block(here, part.widened() if is_wide else part)
                add_product(scores[left], tile, columns[right])
        scores += self.bias**2 * columns.sum(axis=0)
        return scores.reshape(len(rows), *alpha.shape[1:])

    def certificate(self, point: ExpansionPoint) -> Certificate:
        """Certify an expansion on its sample, or on all samples where ``most_values`` allows; nothing is cached."""
        index, alpha = np.asarray(point.samples), np.asarray(point.alpha, dtype=np.float64)
        is_all = len(index) == self.n
        is_whole = is_all or self.n * len(index) <= self.most_values
        at = np.arange(self.n) if is_whole else index
        own = index if is_whole else slice(None)
        points, y, shares = self.points(index), self.y[at], self.shares(at)
        suggested = self._dual_of(alpha, y[own], shares[own])
        duals = [suggested] if is_whole and not is_all else [np.clip(point.dual, 0.0, 1.0), suggested]
        columns = np.column_stack([alpha, *(shares[own] * dual * y[own] for dual in duals)])
        # Kernel values are computed once, for w and all dual points.
        all_scores, all_errors = self._judged(points, columns, at)
        scores, errors = all_scores[:, 0], all_errors[:, 0]
        square, *squares = (
            total(column * mine, 2.0 * np.abs(column) * wrong)
            for column, mine, wrong in zip(columns.T, all_scores[own].T, all_errors[own].T, strict=True)
        )
        slacks = 1.0 - y * scores
        losses, each = np.maximum(slacks, 0.0), np.where(slacks > -errors, errors, 0.0)
        primal = square.times(0.5 * self.lam) + total(shares * losses, shares * (each + gamma(self.n + 8) * losses))
        bounds = (self._dual(dual, shares[own], energy) for dual, energy in zip(duals, squares, strict=True))
        bound = max(bounds, key=lambda each: each.lower)
        certificate = margin_gap(primal.times(self.scale), bound.times(self.scale))
        return certificate if is_whole else certificate._replace(kind="sample gap")

    def certificate_work(self, point: ExpansionPoint | None) -> float:
        """Return about how many multiplications take as long as a certificate: one kernel value per pair."""
        m = 0 if point is None else len(point.samples)
        rows = self.n if self.n * m <= self.most_values else m
        return float((self.X.size / self.n + _ENTRY) * rows * m + _CALL)

    def _judged(self, points: Points, columns: Array, at: Array) -> tuple[Array, Array]:
        """Return the scores of expansions (m, c) at some samples, in float64, and bounds on their errors; (n, c)."""
        scores, sizes = self.sum_over(points, columns, at, is_wide=True), np.abs(columns)
        there, here = errors_of(self.kernel, points), errors_of(self.kernel, self.points(at))
        share, mass = gamma(len(columns) + self.n + 16), sizes.sum(axis=0)
        errors = np.outer(here.rows, mass) + share * np.outer(here.sizes, there.sizes @ sizes)
        return scores, errors + (there.rows @ sizes + share * (self.bias**2 * mass + 1.0))

    def _dual(self, dual: Array, shares: Array, square: Rounded) -> Rounded:
        """Return the largest D(s a) over the scales s, given |sum p a y phi|^2, for a multiple feasible for certain."""
        mass = total(shares * dual)
        scale = self._best_scale(mass.value, square.value, float(dual.max(initial=0.0))) * (1.0 - 4.0 * UNIT)
        share = gamma(self.n + 8)
        gain, cost = mass.times(scale), square.times(scale).times(scale).times(0.5 / self.lam)
        value = gain.widened(share * gain.value) - cost.widened(share * abs(cost.value))
        return value if value.lower > 0.0 else Rounded(0.0)  # D(0) = 0

    def _dual_of(self, alpha: Array, y: Array, shares: Array) -> Array:
        """Return the dual variables that coefficients suggest: alpha_i = p_i a_i y_i / lam."""
        return np.clip(np.divide(self.lam * y * alpha, shares, out=np.zeros_like(alpha), where=shares > 0.0), 0.0, 1.0)

    def held_out(self, point: ExpansionPoint, index: Array, confidence: float = 0.95) -> Estimate:
        """Estimate f from samples that were not trained on, with Hoeffding's band (maths: sampled kernel, section 2).

        Losses lie between 0 and 1 + B, B the largest score of |w| on these samples.
        """
        points = self.points(np.asarray(point.samples))
        scores = self.sum_over(points, point.alpha, index)
        square = float(point.alpha @ self.sum_over(points, point.alpha, np.asarray(point.samples)))
        value = self.value(square, scores, self.y[index], self.shares(index))
        largest = 1.0 + float(np.abs(scores).max(initial=0.0))
        return Estimate(value, largest * np.sqrt(np.log(2.0 / (1.0 - confidence)) / (2.0 * len(index))), confidence)

    def dual_columns(self, point: ExpansionPoint) -> Array:
        """Return the coefficients of w; (n, 1)."""
        column = np.zeros((self.n, 1))
        column[point.samples, 0] = point.alpha
        return column

    def warm_point(self, dual: Array) -> ExpansionPoint | None:
        """Return the point that the coefficients of a model are; None where they have another shape."""
        if dual.shape != (self.n, 1):
            return None
        samples = np.flatnonzero(dual[:, 0])
        return ExpansionPoint(samples, dual[samples, 0], np.zeros(len(samples)))

    def small_problem(self) -> None:
        """Return None: next to nothing is compiled for solvers of samples."""
        return None

    def fingerprint(self) -> str:
        """Return a hash of the data, the kernel and the regularisation."""
        return digest_of(("kernel hinge", self.kernel, self.lam, self.bias), self.X, self.y, self.weights)
