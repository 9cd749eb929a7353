"""The joint multiclass SVM, linear or in the space of a kernel: Weston-Watkins or Crammer-Singer.

    minimise over W:                P(W) = 1/2 |W|^2 + sum_i C_i l_i(W' x_i)             maths: linear SVM, eqs. 4 and 8
    maximise over feasible alpha:   D(alpha) = sum_i alpha_{i,y_i} - 1/2 |X' alpha|^2,   W = X' alpha
    gap:   P(X' alpha) - D(alpha) = sum_i gap_i,   gap_i = <alpha_i, s_i - e_{y_i}> + C_i l_i(s_i) >= 0
                                                                                                maths: linear SVM, eq. 9

With a kernel, W = sum_i phi(x_i) alpha_i' and |W|^2 = <alpha, K alpha>. The gap of a row is also its Frank-Wolfe gap:
the most that any feasible row could gain along the gradient, scores - Y.

    paper 004 (Walrus)      here
    -beta_i, sum beta_i     alpha[i]       (k,)    off-label entries are <= 0, the row sums to zero
    w                       weights        (d+1, k), the last row belongs to the constant feature

    paper 000               here
    alpha                   alpha          paper 004 has the opposite sign (maths: kernel SVM, section 1)
    K alpha                 scores         (n, k)

The intercept is the weight of a constant feature ``bias``, penalised like every other weight. Models of two classes
have one column, second class minus first, as in scikit-learn.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import Certificate, relative_gap
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.core.rounding import SLACK, UNIT, Rounded, ScoreErrors, gamma, norms, squared_norm, total
from softmargin.losses import LOSSES
from softmargin.matrices.gram import Gram, Judged
from softmargin.matrices.operator import canonical, longest_row, matmul, rmatmul, row_norms, sum_roundings
from softmargin.problems.checks import checked_codes, checked_prices, digest_of
from softmargin.problems.margin_models import BinaryData, MarginModels, margin_gap, small_gram

__all__ = [
    "DualPoint",
    "KernelMulticlassSVM",
    "KernelPoint",
    "MulticlassSVM",
]

Array = NDArray[Any]
# Dual rows sum to zero, so that one column of two classes, second minus first, gives both.
_PAIR = np.array([-0.5, 0.5])
_SMALL = 1e-9  # relative: errors of the losses up to which nobody needs to know which margins count


class DualPoint(NamedTuple):
    """Dual variables and the weights they imply."""

    alpha: Array  # (n, k)
    weights: Array  # (d + 1, k) = [X, bias]' alpha


class KernelPoint(NamedTuple):
    """Dual variables; they are the model, unless it has another intercept than they imply."""

    alpha: Array  # (n, k)
    intercept: Array | None = None  # (k,)


class _JointSVM(MarginModels):
    """What the linear and the kernel problem share: labels, prices, the loss and the set of its dual rows."""

    def __init__(self, n: int, y: Array, C: float | Array, multiclass: str, n_classes: int | None) -> None:
        if multiclass not in LOSSES:
            raise IncompatibleError(f"multiclass={multiclass!r} is unknown; choose one of {', '.join(LOSSES)}.")
        self.y, self.n_classes = checked_codes(y, n, n_classes)
        self.C = checked_prices(C, n)
        self.multiclass = multiclass
        self.loss: Any = LOSSES[multiclass]

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
        return _collapsed(point.alpha)

    def warm_point(self, dual: Array) -> Any:
        """Return a feasible point near the dual columns of a model; None where they have another shape."""
        if dual.shape != (len(self.y), 1 if self.n_classes == 2 else self.n_classes):
            return None
        return self.point(self.feasible(_spread(dual)))

    def point(self, alpha: Array) -> Any:
        """Make a point of dual variables."""
        raise NotImplementedError


def _collapsed(columns: Array) -> Array:
    return columns[:, 1:] - columns[:, :1] if columns.shape[1] == 2 else columns


def _spread(columns: Array) -> Array:
    return columns * _PAIR if columns.shape[1] == 1 else columns


class MulticlassSVM(_JointSVM):
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
    def _norms(self) -> Array:
        """The norms of [x_i, bias]; shape (n,)."""
        return row_norms(self.X, self.bias)

    def primal(self, weights: Array) -> Rounded:
        """Return P(W), for any weights of shape (d + 1, k)."""
        return squared_norm(weights).times(0.5) + self.losses(weights)

    def losses(self, weights: Array) -> Rounded:
        """Return sum_i C_i l_i, for any weights of shape (d + 1, k)."""
        sizes = gamma(longest_row(self.X) + 12) * norms(weights, axis=0)
        errors = ScoreErrors(self._norms[:, None], sizes[None, :], np.zeros(self.n_classes))
        return self._losses(lambda: matmul(self.X, weights, self.bias), errors)

    def primal_at(self, coef: Array, intercept: Array) -> Rounded:
        """Return P at the weights of a model."""
        weights = self.model_point(coef, intercept).weights
        # The weight of the intercept is a rounded quotient. Scores are charged for twelve operations, it among them.
        error = 2.0 * UNIT * float(np.linalg.norm(weights[-1]))
        return squared_norm(weights, error).times(0.5) + self.losses(weights)

    def model_point(self, coef: Array, intercept: Array) -> DualPoint:
        """Return the weights of a model, no dual variables; of all with the difference w, -w/2 and w/2 cost least."""
        last = intercept / self.bias if self.bias else np.zeros(len(coef))
        weights = np.ascontiguousarray(_spread(np.vstack([coef.T, last])))
        return DualPoint(np.empty((0, self.n_classes)), weights)

    def dual(self, alpha: Array) -> Rounded:
        """Return D at the feasible point near alpha, with W = [X, bias]' alpha recomputed."""
        alpha = self.feasible(alpha)
        weights = rmatmul(self.X, alpha, self.bias)
        error = float(np.linalg.norm(self.weight_errors(alpha)))
        return self.linear_term(alpha) - squared_norm(weights, error).times(0.5)

    def weight_errors(self, alpha: Array) -> Array:
        """Bound how far the columns of [X, bias]' alpha are from those of the feasible point near alpha; (k,)."""
        roundings = sum_roundings(self.X, self.n_classes) + self._operations
        return np.asarray(gamma(roundings) * (self._norms @ np.abs(alpha)))

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
    def points_of(parts: Sequence["MulticlassSVM"], columns: Array, biases: Array) -> list[DualPoint]:
        """Return feasible points near the dual columns of problems of two classes on the same rows; no free biases."""
        alphas = [part.feasible(_spread(column[:, None])) for part, column in zip(parts, columns.T, strict=True)]
        weights = rmatmul(parts[0].X, np.column_stack([_collapsed(alpha) for alpha in alphas]), parts[0].bias)
        return [DualPoint(alpha, _spread(mine[:, None])) for alpha, mine in zip(alphas, weights.T, strict=True)]

    @staticmethod
    def certificates_of(parts: Sequence[Any], points: Sequence[DualPoint]) -> list[Certificate]:
        """Certify a point of each problem; those of two classes on the same rows share the products with them.

        Where w = w_1 - w_0 and w_1 = -w_0, P = 1/4 |w|^2 + sum_i C_i [1 - y_i <w, x_i>]_+; the dual likewise.
        """
        first, X = parts[0], parts[0].X
        if not all(part.X is X and part.bias == first.bias for part in parts) or not all(map(_is_pair, parts, points)):
            return MarginModels.certificates_of(parts, points)
        W = np.column_stack([_collapsed(point.weights) for point in points])
        scores = np.concatenate([block for _, block in matmul(X, W, first.bias)])
        columns = np.column_stack([_collapsed(point.alpha) for point in points])
        V = rmatmul(X, columns, first.bias)
        wrong = gamma(sum_roundings(X, len(parts)) + first._operations) * (first._norms @ np.abs(columns))
        sizes = gamma(longest_row(X) + 12) * norms(W, axis=0)
        found = []
        for c, (part, point) in enumerate(zip(parts, points, strict=True)):
            errors = ScoreErrors(first._norms[:, None], sizes[None, c : c + 1], np.zeros(1))
            slacks = 1.0 - (2.0 * part.y - 1.0) * scores[:, c]
            xi = np.maximum(slacks, 0.0)
            losses = total(part.C * xi, part.C * (errors.of_slacks(slacks, scores[:, c], 0.0) + gamma(2) * xi))
            primal = squared_norm(W[:, c]).times(0.5).times(0.5) + losses
            energy = squared_norm(V[:, c], float(wrong[c])).times(0.5).times(0.5)
            found.append(margin_gap(primal, part.linear_term(point.alpha) - energy))
        return found

    def coef_and_intercept(self, point: DualPoint) -> tuple[Array, Array]:
        """Return the weights in scikit-learn's shapes: (k, d) and (k,), or one row for two classes."""
        columns = _collapsed(point.weights)
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
            radius = np.sqrt(2.0 * gap) * self._norms[rows]
            inside, alpha = self.loss.screened(scores, self.y[rows], self.C[rows], radius)
            found.append(inside + rows.start)
            values.append(alpha)
        return np.concatenate(found), np.concatenate(values)


def _is_pair(part: MulticlassSVM, point: DualPoint) -> bool:
    """Say whether a problem has two classes, and a feasible point whose columns are opposite."""
    alpha, weights = point
    is_pair = part.n_classes == 2 and len(alpha) == len(part.y) and np.array_equal(part.feasible(alpha), alpha)
    return bool(is_pair and np.array_equal(weights[:, 0], -weights[:, 1]))


class KernelMulticlassSVM(_JointSVM):
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
        inner = np.einsum("ij,ij->i", alpha, scores) - self._own(alpha)
        losses: Array = self.loss.value(scores, self.y)
        return np.asarray(inner + self.C * losses)

    def relative_gap(self, alpha: Array, scores: Array) -> float:
        """Return (P - D) / P at a feasible alpha, given scores = K alpha, as exact as these."""
        primal = 0.5 * float(np.vdot(alpha, scores)) + float(self.C @ self.loss.value(scores, self.y))
        return relative_gap(primal, primal - float(self.gaps(alpha, scores).sum()))

    def certificate(self, point: KernelPoint) -> Certificate:
        """Certify a point: K alpha is recomputed, then P at the model and D at the nearest feasible dual rows."""
        nearest = self.feasible(point.alpha)
        judged = self.gram.judged(point.alpha, self._operations)
        is_near = (np.abs(nearest - point.alpha) <= gamma(self._operations) * np.abs(nearest)).all()
        square = judged.square if is_near else self.gram.energy(nearest, self._operations)
        return margin_gap(self._primal(point, judged), self.linear_term(nearest) - square.times(0.5))

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
        return KernelPoint(_spread(dual), _spread(intercept[None, :])[0])

    def small_problem(self) -> "KernelMulticlassSVM":
        """Return a problem of two rows that needs the same compiled loops: these see kernel values alone."""
        small = small_gram(self.gram)
        return KernelMulticlassSVM(small, np.arange(2), multiclass=self.multiclass, n_classes=self.n_classes)

    def fingerprint(self) -> str:
        """Return a hash of the data, the kernel, the prices and the loss."""
        settings = (self.multiclass, self.n_classes, self.gram.bias, self.gram.kernel)
        return digest_of(settings, self.gram.X, self.y, self.C)
