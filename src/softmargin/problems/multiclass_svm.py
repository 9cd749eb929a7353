"""The linear joint multiclass SVM: Weston-Watkins or Crammer-Singer.

    minimise over W:                P(W) = 1/2 |W|^2 + sum_i C_i l_i(W' x_i)             maths: linear SVM, eqs. 4 and 8
    maximise over feasible alpha:   D(alpha) = sum_i alpha_{i,y_i} - 1/2 |X' alpha|^2,   W = X' alpha
    gap:   P(X' alpha) - D(alpha) = sum_i gap_i,   gap_i = <alpha_i, s_i - e_{y_i}> + C_i l_i(s_i) >= 0
                                                                                                maths: linear SVM, eq. 9

    paper 004 (Walrus)      here
    -beta_i, sum beta_i     alpha[i]       (k,)    off-label entries are <= 0, the row sums to zero
    w                       weights        (d+1, k), the last row belongs to the constant feature

The intercept is the weight of a constant feature ``bias``, penalised like every other weight. Models of two classes
have one column, second class minus first, as in scikit-learn.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import Certificate
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.core.rounding import UNIT, Rounded, gamma, squared_norm, totals
from softmargin.matrices.forms import canonical
from softmargin.matrices.operator import matmul, rmatmul
from softmargin.problems import margin_models
from softmargin.problems.checks import digest_of
from softmargin.problems.joint_svm import JointSVM, collapsed, spread
from softmargin.problems.margin_models import IN_CACHE, BinaryData, MarginModels, cuts, margin_gap, stacked
from softmargin.problems.sized_columns import SizedColumns

__all__ = [
    "DualPoint",
    "MulticlassSVM",
]

Array = NDArray[Any]


class DualPoint(NamedTuple):
    """Dual variables and the weights they imply."""

    alpha: Array  # (n, k)
    weights: Array  # (d + 1, k) = [X, bias]' alpha


class MulticlassSVM(JointSVM):
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

    kind: ClassVar[str] = "linear hinge"
    point_type: ClassVar[type] = DualPoint
    is_expansion = False

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
        self.X = canonical(X)
        super().__init__(self.X.shape[0], y, C, multiclass, n_classes)
        self.bias = float(bias)
        if not np.isfinite(self.bias):
            raise DataError(f"bias must be finite; found {bias!r}.")

    def zero(self) -> DualPoint:
        """Return alpha = 0."""
        return DualPoint(np.zeros((len(self.y), self.n_classes)), np.zeros((self.X.shape[1] + 1, self.n_classes)))

    def point(self, alpha: Array) -> DualPoint:
        """Pair dual variables with W = [X, bias]' alpha, recomputed."""
        return DualPoint(alpha, rmatmul(self.X, alpha, self.bias))

    @cached_property
    def _columns(self) -> SizedColumns:
        return SizedColumns(self.X, self.bias)

    def primal(self, weights: Array) -> Rounded:
        """Return P(W), for any weights of shape (d + 1, k)."""
        return squared_norm(weights).times(0.5) + self.losses(weights)

    def losses(self, weights: Array) -> Rounded:
        """Return sum_i C_i l_i, for any weights of shape (d + 1, k)."""
        return self._losses(lambda: matmul(self.X, weights, self.bias), self._columns.score_errors(weights))

    def primal_at(self, coef: Array, intercept: Array) -> Rounded:
        """Return P at the weights of a model."""
        weights = self.model_point(coef, intercept).weights
        # The weight of the intercept is a rounded quotient. Scores are charged for twelve operations, it among them.
        error = 2.0 * UNIT * float(np.linalg.norm(weights[-1]))
        return squared_norm(weights, error).times(0.5) + self.losses(weights)

    def model_point(self, coef: Array, intercept: Array) -> DualPoint:
        """Return the weights of a model, no dual variables; of all with the difference w, -w/2 and w/2 cost least."""
        last = intercept / self.bias if self.bias else np.zeros(len(coef))
        weights = np.ascontiguousarray(spread(np.vstack([coef.T, last])))
        return DualPoint(np.empty((0, self.n_classes)), weights)

    def dual(self, alpha: Array) -> Rounded:
        """Return D at the feasible point near alpha, with W = [X, bias]' alpha recomputed."""
        alpha = self.feasible(alpha)
        weights = self._columns.weights(alpha, self._operations, self.y)
        return self.linear_term(alpha) - self._columns.square(*weights).times(0.5)

    def weight_reach(self, alpha: Array) -> tuple[Array, float]:
        """Bound the norms of the columns of W, (k,), and their errors as a share where rows are added one by one."""
        return self._columns.norms @ np.abs(alpha), gamma(len(self.y) + 2 + self._operations)

    def certificate(self, point: DualPoint) -> Certificate:
        """Certify a point: P(W), D(alpha), relative gap."""
        return margin_gap(self.primal(point.weights), self.dual(point.alpha))

    def as_binary(self) -> BinaryData:
        """Return a problem of two classes in plain numbers: it is twice this one, with twice its C."""
        # maths: notation, eq. 4.
        if self.n_classes != 2:
            raise IncompatibleError(f"this solver needs problems of two classes; found {self.n_classes}.")
        return BinaryData(self.X, 2.0 * self.y - 1.0, 2.0 * self.C, False, False, self.bias)

    @staticmethod
    def points_of(parts: Sequence["MulticlassSVM"], columns: Array, weights: Array, biases: Array) -> list[DualPoint]:
        """Return feasible points near the dual columns of problems of two classes on the same rows.

        ``weights``, (d, k), are those that the dual variables imply; ``biases`` are the intercepts, which need not be.
        """
        W = np.vstack([weights, biases / parts[0].bias if parts[0].bias else np.zeros_like(biases)])
        found = []
        for part, column, w in zip(parts, columns.T, W.T, strict=True):
            inside = np.clip(column, 2.0 * part.C * (part.y - 1.0), 2.0 * part.C * part.y)
            found.append(DualPoint(spread(inside[:, None]), spread(w[:, None])))
        return found

    @staticmethod
    def certificates_of(parts: Sequence[Any], points: Sequence[DualPoint]) -> list[Certificate]:
        """Certify a point of each problem; those of two classes on the same rows share the products with them.

        Where w = w_1 - w_0 and w_1 = -w_0, P = 1/4 |w|^2 + sum_i C_i [1 - y_i <w, x_i>]_+; the dual likewise.
        """
        first = parts[0]
        if not all(part.X is first.X and part.bias == first.bias and part.n_classes == 2 for part in parts):
            return MarginModels.certificates_of(parts, points)
        each = cuts(len(parts), len(first.y), margin_models.AT_ONCE)
        return [found for cut in each for found in _of_pairs(parts[cut], points[cut])]

    def coef_and_intercept(self, point: DualPoint) -> tuple[Array, Array]:
        """Return the weights in scikit-learn's shapes: (k, d) and (k,), or one row for two classes."""
        columns = collapsed(point.weights)
        return np.ascontiguousarray(columns[:-1].T), self.bias * columns[-1]

    def small_problem(self) -> "MulticlassSVM | None":
        """Return a problem of two rows that needs the same compiled loops; None where SciPy narrowed the indices."""
        X = self.X[:2]
        if not isinstance(X, np.ndarray) and X.indices.dtype != self.X.indices.dtype:
            return None
        return MulticlassSVM(X, self.y[:2], multiclass=self.multiclass, n_classes=self.n_classes, bias=self.bias)

    def fingerprint(self) -> str:
        """Return a hash of the data, the prices, the loss and the intercept."""
        return digest_of((self.multiclass, self.n_classes, self.bias), self.X, self.y, self.C)

    def screened(self, point: DualPoint) -> tuple[Array, Array]:
        """Return (rows, alpha rows) proven to be optimal already: gap-safe screening, maths: linear SVM, section 5.

        ``|W - W*|^2 <= gap``: no score difference of sample i is further than ``sqrt(2 |x_i|^2 gap)`` from its optimum.
        """
        gap = self.certificate(point).gap
        found, values = [], []
        for rows, scores in matmul(self.X, point.weights, self.bias):
            radius = np.sqrt(2.0 * gap) * self._columns.norms[rows]
            inside, alpha = self.loss.screened(scores, self.y[rows], self.C[rows], radius)
            found.append(inside + rows.start)
            values.append(alpha)
        return np.concatenate(found), np.concatenate(values)


def _of_pairs(parts: Sequence[MulticlassSVM], points: Sequence[DualPoint]) -> list[Certificate]:
    """Certify points of problems of two classes on the same rows, together where all have opposite columns."""
    first, groups = parts[0], cuts(len(parts), len(parts[0].y), IN_CACHE)
    if not all(_are_pairs(parts[some], points[some]) for some in groups):
        return MarginModels.certificates_of(parts, points)
    w, alpha = (stacked([collapsed(point[i])[:, 0] for point in points]).T for i in (1, 0))
    scores = np.ascontiguousarray(np.concatenate([block for _, block in matmul(first.X, w, first.bias)]).T)
    errors, (V, wrong) = first._columns.score_errors(w), first._columns.weights(alpha, first._operations)
    columns, found = np.ascontiguousarray(alpha.T), []
    for some in groups:
        signs, C = 2.0 * stacked([part.y for part in parts[some]]) - 1.0, stacked([part.C for part in parts[some]])
        slacks, own = 1.0 - signs * scores[some], 0.5 * signs * columns[some]
        xi = np.maximum(slacks, 0.0)
        losses = totals(C * xi, C * (errors.of(some).of_slacks(slacks, scores[some]) + gamma(2) * xi))
        terms = totals(own, gamma(first._operations) * own.sum(axis=1))
        for c, loss, term in zip(range(len(parts))[some], losses, terms, strict=True):
            primal = squared_norm(w[:, c]).times(0.5).times(0.5) + loss
            energy = first._columns.square(V[:, c], wrong[:, c]).times(0.5).times(0.5)
            found.append(margin_gap(primal, term - energy))
    return found


def _are_pairs(parts: Sequence[MulticlassSVM], points: Sequence[DualPoint]) -> bool:
    """Say whether points of problems of two classes are feasible, and their columns opposite."""
    if not all(len(point.alpha) == len(parts[0].y) for point in points):
        return False
    alpha, W = (stacked([point[i] for point in points]) for i in (0, 1))
    own = np.where(stacked([part.y for part in parts]) == 1, alpha[:, :, 1], alpha[:, :, 0])
    are_opposite = np.array_equal(alpha[:, :, 0], -alpha[:, :, 1]) and np.array_equal(W[:, :, 0], -W[:, :, 1])
    return are_opposite and bool((own >= 0.0).all() and (own <= stacked([part.C for part in parts])).all())
