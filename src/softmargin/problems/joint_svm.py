"""What joint multiclass SVMs share: labels, prices, the loss and the set of its dual rows.

Models of two classes have one column, second class minus first, as in scikit-learn.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.core.errors import DataError, IncompatibleError
from softmargin.core.rounding import SLACK, UNIT, Rounded, ScoreErrors, gamma, total
from softmargin.losses import LOSSES
from softmargin.problems.checks import checked_codes, checked_prices
from softmargin.problems.margin_models import MarginModels

__all__ = ["JointSVM", "collapsed", "spread"]

Array = NDArray[Any]
_SMALL = 1e-9  # relative: errors of the losses up to which nobody needs to know which margins count


class JointSVM(MarginModels):
    """A joint multiclass SVM, linear or with a kernel; a subclass says what its points are."""

    losses_known: ClassVar[Mapping[str, Any]] = LOSSES

    def __init__(self, n: int, y: Array, C: float | Array, multiclass: str, n_classes: int | None) -> None:
        known = self.losses_known
        if multiclass not in known:
            raise IncompatibleError(f"multiclass={multiclass!r} is unknown; choose one of {', '.join(known)}.")
        self.y, self.n_classes = checked_codes(y, n, n_classes)
        self.C = checked_prices(C, n)
        self.multiclass = multiclass
        self.loss: Any = known[multiclass]

    def feasible(self, alpha: Array) -> Array:
        """Return a feasible dual point near ``alpha`` (any warm start becomes a valid one)."""
        if alpha.shape != (len(self.y), self.n_classes):
            raise DataError(
                f"a warm start needs alpha of shape {(len(self.y), self.n_classes)}; found {alpha.shape}. "
                "Start afresh, or fit on the same samples and classes."
            )
        nearest: Array = self.loss.project(alpha, self.y, self.C)
        return nearest

    @property
    def _operations(self) -> int:
        """Roundings between a dual row and the feasible one it stands for, and of sums over its k entries."""
        return 3 * self.n_classes + 16

    def _losses(self, blocks: Callable[[], Iterable[tuple[slice, Array]]], errors: ScoreErrors) -> Rounded:
        """Return sum_i C_i l_i, given blocks of rows of the scores and their errors."""
        # Four further roundings: of the margin 1 + s_c - s_y, beside those of the scores.
        each = errors.rows @ errors.slope.max(axis=1) + (errors.level.max() + 4.0 * UNIT)
        value = sum(float(self.C[rows] @ self.loss.value(scores, self.y[rows])) for rows, scores in blocks())
        change = 2.0 * (self.n_classes - 1) * float(self.C @ each)  # as if all margins were about to be positive
        if not change <= _SMALL * value:
            known = ((rows, self.loss.change(scores, self.y[rows], each[rows])) for rows, scores in blocks())
            change = sum(float(self.C[rows] @ changes) for rows, changes in known)
        return Rounded(value, SLACK * (gamma(len(self.y) + self.n_classes + 8) * value + change))

    def linear_term(self, alpha: Array) -> Rounded:
        """Return sum_i alpha_{i,y_i} of feasible rows: minus the sum of all others."""
        own = self._own(alpha)
        return total(own).widened(gamma(self._operations) * float(np.abs(own).sum()))

    def _own(self, alpha: Array) -> Array:
        """Return alpha_{i,y_i}; shape (n,)."""
        return alpha[np.arange(len(self.y)), self.y]

    def dual_columns(self, point: Any) -> Array:
        """Return alpha, or one column for two classes."""
        return collapsed(point.alpha)

    def warm_point(self, dual: Array) -> Any:
        """Return a feasible point near the dual columns of a model; None where they have another shape."""
        if dual.shape != (len(self.y), 1 if self.n_classes == 2 else self.n_classes):
            return None
        return self.point(self.feasible(spread(dual)))

    def point(self, alpha: Array) -> Any:
        """Make a point of dual variables."""
        raise NotImplementedError


def collapsed(columns: Array) -> Array:
    """Return columns of classes as a model has them: one, second minus first, where there are two."""
    return columns[:, 1:] - columns[:, :1] if columns.shape[1] == 2 else columns


def spread(columns: Array) -> Array:
    """Return the columns of all classes, given those of a model: two opposite ones where it has one."""
    if columns.shape[1] != 1:
        return columns
    both = np.empty((len(columns), 2))  # a product with a row of two numbers takes four times as long
    np.multiply(columns[:, 0], -0.5, out=both[:, 0])
    np.multiply(columns[:, 0], 0.5, out=both[:, 1])
    return both
