"""The joint multiclass SVM in the space of a kernel: Weston-Watkins or Crammer-Singer.

    W = sum_i phi(x_i) alpha_i',   |W|^2 = <alpha, K alpha>;   primal, dual and gap as in ``multiclass_svm.py``
                                                                                            maths: kernel SVM, section 1

The gap of a row is also its Frank-Wolfe gap: the most that any feasible row could gain along the gradient, scores - Y.

    paper 000               here
    alpha                   alpha          paper 004 has the opposite sign (maths: kernel SVM, section 1)
    K alpha                 scores         (n, k)
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.arrays import to_numpy
from softmargin.core.certificate import Certificate, relative_gap
from softmargin.core.rounding import UNIT, Rounded, gamma, total
from softmargin.losses.on_device import row_gaps
from softmargin.matrices.gram import Gram, Judged
from softmargin.problems.checks import digest_of
from softmargin.problems.joint_svm import JointSVM, spread
from softmargin.problems.margin_models import margin_gap, small_gram
from softmargin.problems.multiples import Multiples

__all__ = ["KernelMulticlassSVM", "KernelPoint"]

Array = NDArray[Any]
_SCALES = (0.5, 1.5)  # models that are further from their dual rows have gaps of more than a quarter


class KernelPoint(NamedTuple):
    """Dual variables; they are the model, unless it has another intercept than they imply."""

    alpha: Array  # (n, k)
    intercept: Array | None = None  # (k,)


class KernelMulticlassSVM(JointSVM):
    """A joint multiclass SVM on a kernel matrix.

    Parameters
    ----------
    gram : Gram
        The kernel matrix; its ``bias`` gives an intercept that is penalised like every other weight.
    y, C, multiclass, n_classes
        As in ``MulticlassSVM``.
    """

    kind: ClassVar[str] = "kernel hinge"
    point_type: ClassVar[type] = KernelPoint
    is_expansion = True

    def __init__(
        self,
        gram: Gram,
        y: Array,
        *,
        C: float | Array = 1.0,
        multiclass: str = "weston_watkins",
        n_classes: int | None = None,
    ) -> None:
        super().__init__(gram.n, y, C, multiclass, n_classes)
        self.gram = gram

    def zero(self) -> KernelPoint:
        """Return alpha = 0."""
        return KernelPoint(np.zeros((len(self.y), self.n_classes)))

    def point(self, alpha: Array) -> KernelPoint:
        """Make a point of dual variables."""
        return KernelPoint(alpha)

    def gaps(self, alpha: Array, scores: Array) -> Array:
        """Return gap_i of every row, given scores = K alpha; shape (n,)."""
        if self.gram.is_on_device:
            home, labels, C = self._there
            found = row_gaps(home.xp, self.multiclass, home.array(alpha), home.array(scores), labels, C)
            return np.asarray(to_numpy(found[:, 0]))
        inner = np.einsum("ij,ij->i", alpha, scores) - self._own(alpha)
        losses: Array = self.loss.value(scores, self.y)
        return np.asarray(inner + self.C * losses)

    @cached_property
    def _there(self) -> tuple[Any, Any, Any]:
        """Where the samples lie, and labels (n, k) and prices (n, 1) there."""
        home = self.gram.home
        labels = (self.y[:, None] == np.arange(self.n_classes)).astype(np.float64)
        return home, home.array(labels), home.array(self.C[:, None])

    def relative_gap(self, alpha: Array, scores: Array, gaps: Array | None = None, *, scale: float = 1.0) -> float:
        """Return (P - D) / P of the model scale alpha, given scores = K alpha, as exact as these; alpha is feasible.

        The gaps of alpha may be known.
        """
        if scale != 1.0:
            multiples = self._multiples(alpha, scores)
            return relative_gap(multiples.primal(scale), multiples.dual(scale))
        gaps = self.gaps(alpha, scores) if gaps is None else gaps
        dual = float(self._own(alpha).sum()) - 0.5 * float(np.vdot(alpha, scores))
        return relative_gap(dual + float(gaps.sum()), dual)

    def best_scale(self, alpha: Array, scores: Array, rows: Any = slice(None)) -> tuple[float, float]:
        """Return the t, near 1, with the least gap of t alpha, and that gap, given K alpha; of all rows or of some.

        Gaps of rows add up to that of all: maths: kernel SVM, section 10.
        """
        return self._multiples(alpha, scores, rows).best(*_SCALES)

    def certificate(self, point: KernelPoint) -> Certificate:
        """Certify a point: K alpha is recomputed, then P at the model and D at the nearest feasible dual rows.

        Rows that leave their bounds are also divided by the factor by which they do, and the better bound counts.
        """
        judged = self.gram.judged(point.alpha, self._operations + 1)  # one more: of the multiple
        multiples = {1.0, min(self.room(point.alpha), 1.0)} - {0.0}
        bounds = [self._bound(s * point.alpha, judged.square.times(s).times(s)) for s in multiples]
        return margin_gap(self._primal(point, judged), max(bounds, key=lambda bound: bound.lower))

    def _bound(self, rows: Array, square: Rounded) -> Rounded:
        """Return D at the feasible rows nearest to some, whose <alpha, K alpha> is known."""
        nearest = self.feasible(rows)
        is_near = (np.abs(nearest - rows) <= gamma(self._operations) * np.abs(nearest)).all()
        energy = square if is_near else self.gram.energy(nearest, self._operations)
        return self.linear_term(nearest) - energy.times(0.5)

    def _multiples(self, alpha: Array, scores: Array, rows: Any = slice(None)) -> Multiples:
        """Return what multiples of alpha are, given K alpha; of all rows or of some."""
        y = self.y[rows]
        energy, own = float(np.vdot(alpha, scores)), float(alpha[np.arange(len(y)), y].sum())
        return Multiples(energy, own, self.room(alpha, rows), self.loss.slopes(scores, y), self.C[rows])

    def at_prices(self, share: float) -> "KernelMulticlassSVM":
        """Return the problem of the same samples with this share of the prices C."""
        if share == 1.0:
            return self
        own: dict[str, Any] = {"multiclass": self.multiclass, "n_classes": self.n_classes}
        return KernelMulticlassSVM(self.gram, self.y, C=share * self.C, **own)

    def room(self, alpha: Array, rows: Any = slice(None)) -> float:
        """Return the largest multiple of alpha that keeps the bounds C; alpha has all rows or some."""
        most = alpha.max(axis=1) if self.multiclass == "crammer_singer" else -alpha.min(axis=1)
        some = most > 0.0
        return float(np.min(self.C[rows][some] / most[some], initial=np.inf))

    @property
    def certificate_work(self) -> Callable[[KernelPoint | None], float]:
        """How long a certificate takes; that of the zero point is not known.

        A kernel matrix on a device does not tell it; then there is no such attribute, either.
        """
        work_of, k = self.gram.scores_work, self.n_classes

        def work(point: KernelPoint | None) -> float:
            if point is None:
                return 0.0
            once = work_of(np.flatnonzero(point.alpha.any(axis=1)), k)
            return once if self.room(point.alpha) >= 1.0 else 2.0 * once

        return work

    def _primal(self, point: KernelPoint, judged: Judged) -> Rounded:
        """Return P at a model: that of its dual variables, with the intercept they imply or another."""
        scores, errors, square = judged
        bias = self.gram.bias
        implied = bias**2 * point.alpha.sum(axis=0)
        given = implied if point.intercept is None else point.intercept
        if np.any(np.abs(given - implied) > errors.level):
            if not bias:
                return Rounded(np.inf)
            # The intercept is the weight of a constant feature: its square is penalised instead of the implied one's.
            sizes = np.abs(implied) + np.abs(given)
            square += total((given**2 - implied**2) / bias**2, sizes * (errors.level + 8.0 * UNIT * sizes) / bias**2)
            scores = scores + (given - implied)
            errors = errors._replace(level=2.0 * errors.level + 4.0 * UNIT * sizes)
        return square.times(0.5) + self._losses(lambda: [(slice(None), scores)], errors)

    def primal(self, point: KernelPoint) -> Rounded:
        """Return P at a model."""
        return self._primal(point, self.gram.judged(point.alpha, self._operations))

    def dual(self, alpha: Array) -> Rounded:
        """Return D at the feasible rows nearest to alpha."""
        nearest = self.feasible(alpha)
        return self.linear_term(nearest) - self.gram.energy(nearest, self._operations).times(0.5)

    def expansion_point(self, dual: Array, intercept: Array) -> KernelPoint:
        """Return the point that the dual columns of a model and its intercept are, feasible or not."""
        return KernelPoint(spread(dual), spread(intercept[None, :])[0])

    def small_problem(self) -> "KernelMulticlassSVM":
        """Return a problem of two rows that needs the same compiled loops: these see kernel values alone."""
        small = small_gram(self.gram)
        return KernelMulticlassSVM(small, np.arange(2), multiclass=self.multiclass, n_classes=self.n_classes)

    def fingerprint(self) -> str:
        """Return a hash of the data, the kernel, the prices and the loss."""
        settings = (self.multiclass, self.n_classes, self.gram.bias, self.gram.kernel)
        return digest_of(settings, self.gram.X, self.y, self.C)
