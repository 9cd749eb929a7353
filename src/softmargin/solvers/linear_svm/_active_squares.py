"""The Newton systems of a set J of samples that changes little from one to the next.

    (identity + sum_J c_i x_i x_i') u = right                                              maths: linear SVM, section 10

x_i has the constant feature as its last entry. The sum is kept, and follows the samples that enter and leave J; where
these are more than J has, it is summed afresh. Where J has far fewer samples than there are features, one unknown per
sample is enough: with A the rows sqrt(c_i) x_i' of J, u = right - A' (identity + A A')^-1 A right.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from softmargin.core.deadline import check_time
from softmargin.matrices.operator import is_thin
from softmargin.matrices.rows import add_squares, as_rows
from softmargin.solvers.common.hinge_newton import solve_positive
from softmargin.solvers.linear_svm.interior_point import InteriorPointTuning

__all__ = ["ActiveSquares"]

Array = NDArray[Any]
FEW_SAMPLES = 0.5  # of the features: below, a system in the samples is the smaller work; by hand


class ActiveSquares:
    """The systems of sets of samples of X, with weights c."""

    def __init__(self, X: Any, bias: float, weights: Array) -> None:
        self.X, self.bias, self.weights = X, bias, weights
        self.D = X.shape[1] + 1
        self.held = np.zeros(len(weights), dtype=bool)
        self.squares: Array | None = None  # the upper triangle

    def solve(self, is_active: Array, right: Array) -> Array:
        """Return the solution for the set of the samples that are active."""
        m = int(np.count_nonzero(is_active))
        if m < FEW_SAMPLES * self.D:
            return self._solve_by_samples(np.flatnonzero(is_active), right)
        check_time(self.D**3.0 / 3.0)
        change = is_active != self.held
        if self.squares is None or np.count_nonzero(change) > m:
            self.squares = self._sum(np.flatnonzero(is_active))
        else:
            moved = np.flatnonzero(change)
            A = self._scaled(moved)
            self.squares += (A * np.where(is_active[moved], 1.0, -1.0)[:, None]).T @ A
        self.held = is_active
        matrix = self.squares.copy()
        matrix.flat[:: self.D + 1] += 1.0
        return _solve_scaled(matrix, right)

    def _sum(self, rows: Array) -> Array:
        """Return the upper triangle of sum c_i x_i x_i' over some samples."""
        d, c = self.D - 1, self.weights[rows]
        if is_thin(self.X):
            squares, some, upper = np.zeros((self.D, self.D)), self.X[rows], np.zeros((d, d))
            add_squares(as_rows(some), c, upper)
            squares[:d, :d] = upper
            squares[:d, d] = self.bias * (some.T @ c)
            squares[d, d] = self.bias**2 * c.sum()
            return squares
        A = self._scaled(rows)
        return A.T @ A

    def _scaled(self, rows: Array) -> Array:
        """Return the rows sqrt(c_i) x_i' of some samples."""
        A = np.empty((len(rows), self.D))
        some = self.X[rows]
        A[:, :-1] = some if isinstance(some, np.ndarray) else some.toarray()
        A[:, -1] = self.bias
        A *= np.sqrt(self.weights[rows])[:, None]
        return A

    def _solve_by_samples(self, rows: Array, right: Array) -> Array:
        check_time(len(rows) ** 2.0 * (len(rows) / 3.0))
        roots = np.sqrt(self.weights[rows])
        if isinstance(self.X, np.ndarray):
            A = self._scaled(rows)
            gram = A @ A.T
            gram.flat[:: len(rows) + 1] += 1.0
            return np.asarray(right - A.T @ solve_positive(gram, A @ right))
        some = self.X[rows].astype(np.float64, copy=False)
        gram = (some @ some.T).toarray()
        gram += self.bias**2
        gram *= np.multiply.outer(roots, roots)
        gram.flat[:: len(rows) + 1] += 1.0
        u = roots * solve_positive(gram, roots * (some @ right[:-1] + self.bias * right[-1]))
        return np.asarray(right - np.append(some.T @ u, self.bias * u.sum()))


def _solve_scaled(matrix: Array, right: Array) -> Array:
    """Solve from the upper triangle, scaled to a diagonal of ones: features may have any units."""
    tuning, size = InteriorPointTuning(), len(right)
    scale = 1.0 / np.sqrt(matrix.flat[:: size + 1])
    matrix *= scale
    matrix *= scale[:, None]
    ridge = 0.0
    while ridge <= 1.0:
        _, x, failed = dposv(matrix.T, scale * right, lower=True)
        if not failed:
            return np.asarray(scale * x)
        ridge = max(tuning.ridge_growth * ridge, tuning.least_ridge)
        matrix.flat[:: size + 1] = 1.0 + ridge
    raise np.linalg.LinAlgError("no factor of the Newton matrix")
