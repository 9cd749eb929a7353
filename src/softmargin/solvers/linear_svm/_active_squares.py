"""The Newton systems of a set J of samples that changes little from one to the next.

    M u = right ,    M = identity + rho sum_J C_i x_i x_i'                                 maths: linear SVM, section 10

x_i has the constant feature as its last entry. The sum is kept, and follows the samples that enter and leave J; where
these are more than J has, it is summed afresh. So does the factor of M, by Woodbury's identity: with B the columns
sqrt(rho C_i) x_i of the r samples that entered (s = 1) or left (s = -1) since M was factored,

    (M + B diag(s) B')^-1 = M^-1 - M^-1 B (diag(s) + B' M^-1 B)^-1 B' M^-1

until r is a fair share of the unknowns or rounding shows. Where J has far fewer samples than there are features, one
unknown per sample is enough: with A the rows sqrt(rho C_i) x_i' of J, u = right - A' (identity + A A')^-1 A right.
"""

from collections.abc import Callable
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsymv, dtrsm
from scipy.linalg.lapack import dpotrf, dpotrs, dsysv

from softmargin.core.deadline import check_time, factor_work
from softmargin.core.threads import wide_blas
from softmargin.matrices.forms import is_thin
from softmargin.matrices.operator import row_slices
from softmargin.matrices.products import adjoint
from softmargin.matrices.rows import add_squares, as_rows
from softmargin.solvers.common.hinge_newton import solve_positive
from softmargin.solvers.linear_svm._label_groups import BLOCK
from softmargin.solvers.linear_svm._scaled_factor import FactorTuning

__all__ = ["ActiveSquares", "WholeSquares"]

Array = NDArray[Any]
FEW_MOVED = 0.125  # of the unknowns: above, a new factor is the smaller work; timings with 781 of them
ROUGH = 1e-6  # residual of a solution by update, relative to the right-hand side; by hand
NARROW = 17  # unknowns up to which a compiled loop sums arrays faster than BLAS, the copy of their rows included
FEW_SAMPLES = 0.5  # of the features: below, a system in the samples is the smaller work; by hand


class _Factor(NamedTuple):
    """Of the matrix M of a set and rho, scaled to a diagonal of ones."""

    is_active: Array
    rho: float
    scale: Array
    root: Array


class WholeSquares:
    """The last sum over all samples of a problem that was asked for: the classes of one-vs-rest share it."""

    def __init__(self) -> None:
        self._lock, self._X, self._prices, self._sum = Lock(), None, np.zeros(0), np.zeros((0, 0))

    def of(self, X: Any, prices: Array, make: Callable[[], Array]) -> Array:
        """Return a copy of the sum for these rows and prices, which ``make`` computes unless it is known."""
        with self._lock:
            if X is not self._X or not np.array_equal(self._prices, prices):
                self._X, self._prices, self._sum = X, prices, make()
            return self._sum.copy()


class ActiveSquares:
    """The systems of sets of samples of X, with prices C; ``whole`` may know the sum over all of them."""

    def __init__(self, X: Any, bias: float, prices: Array, whole: WholeSquares | None = None) -> None:
        self.X, self.bias, self.prices = X, bias, prices
        self.whole = WholeSquares() if whole is None else whole
        self.D = X.shape[1] + 1
        self.held = np.zeros(len(prices), dtype=bool)
        self.squares = np.zeros((0, 0))  # the upper triangle of the sum over those held, once there is one
        self.factor: _Factor | None = None

    def solve(self, is_active: Array, rho: float, right: Array) -> Array:
        """Return the solution for the set of the samples that are active."""
        m = int(np.count_nonzero(is_active))
        if m < FEW_SAMPLES * self.D:
            return self._solve_by_samples(np.flatnonzero(is_active), rho, right)
        check_time(factor_work(self.D))
        change = is_active != self.held
        if not self.squares.size or np.count_nonzero(change) > m:
            if np.array_equal(is_active, self.prices > 0.0):
                self.squares = self.whole.of(self.X, self.prices, lambda: self._sum(is_active))
            else:
                self.squares = self._sum(is_active)
        else:
            self._add(np.where(change, np.where(is_active, self.prices, -self.prices), 0.0), self.squares)
        self.held = is_active
        if self.factor is not None and self.factor.rho == rho:
            found = self._solve_by_update(self.factor, is_active, right)
            if found is not None:
                return found
        self.factor = self._factored(is_active, rho)
        if self.factor is None:  # a sample far larger than all others has left, and with it the digits of the others
            self.squares = self._sum(is_active)
            self.factor = self._factored(is_active, rho)
        if self.factor is None:
            raise np.linalg.LinAlgError("no factor of the Newton matrix")
        x, _ = dpotrs(self.factor.root, self.factor.scale * right, lower=True)
        return np.asarray(self.factor.scale * x)

    def _factored(self, is_active: Array, rho: float) -> _Factor | None:
        """Factor M; where rounding leaves no factor a ridge is added until there is one, but none above 1."""
        tuning, matrix, ridge = FactorTuning(), rho * self.squares, 0.0
        matrix.flat[:: self.D + 1] += 1.0
        if not (matrix.flat[:: self.D + 1] > 0.0).all():
            return None
        scale = 1.0 / np.sqrt(matrix.flat[:: self.D + 1])
        matrix *= scale
        matrix *= scale[:, None]
        while ridge <= 1.0:
            # The upper triangle by rows is the lower by columns.
            with wide_blas(self.D**3.0 / 3.0):
                root, failed = dpotrf(matrix.T, lower=True, clean=False)
            if not failed:
                return _Factor(is_active, rho, scale, root)
            ridge = max(tuning.growth * ridge, tuning.least_ridge)
            matrix.flat[:: self.D + 1] = 1.0 + ridge
        return None

    def _solve_by_update(self, old: _Factor, is_active: Array, right: Array) -> Array | None:
        """Solve by the factor of another set and the samples that moved; None where that is more work, or too rough."""
        moved = np.flatnonzero(is_active != old.is_active)
        if len(moved) > FEW_MOVED * self.D:
            return None
        B = (self._wide(self.X[moved]) * np.sqrt(old.rho * self.prices[moved])[:, None] * old.scale).T
        T = dtrsm(1.0, old.root, np.column_stack([B, old.scale * right]), lower=True)
        T, t = T[:, :-1], T[:, -1]
        small = T.T @ T
        small.flat[:: len(moved) + 1] += np.where(is_active[moved], 1.0, -1.0)
        if len(moved):
            *_, c, failed = dsysv(small, T.T @ t)
            if failed:
                return None
            t = t - T @ c
        u = old.scale * dtrsm(1.0, old.root, t[:, None], lower=True, trans_a=1)[:, 0]
        left = old.scale * (right - u - dsymv(old.rho, self.squares.T, u, lower=True))
        return u if np.linalg.norm(left) <= ROUGH * np.linalg.norm(old.scale * right) else None

    def _sum(self, is_active: Array) -> Array:
        """Return sum C_i x_i x_i' over a set of samples."""
        squares = np.zeros((self.D, self.D))
        self._add(np.where(is_active, self.prices, 0.0), squares)
        return squares

    def _add(self, c: Array, squares: Array) -> None:
        """Add sum c_i x_i x_i' over all samples; c is zero for most, and may be negative."""
        if is_thin(self.X) or self.D <= NARROW:
            add_squares(as_rows(self.X), c, squares)
            if self.bias:
                last = np.empty(self.D)
                adjoint(self.X, c, self.bias, 1, last)
                squares[:, -1] += self.bias * last
            return
        for sign in (1.0, -1.0):
            rows = np.flatnonzero(sign * c > 0.0)
            for part in row_slices(len(rows), self.D, numbers=max(BLOCK, squares.size)):
                check_time(float(part.stop - part.start) * self.D**2)
                A = self._wide(self.X[rows[part]])
                A *= np.sqrt(sign * c[rows[part]])[:, None]
                with wide_blas(A.size * float(self.D)):
                    squares += sign * (A.T @ A)

    def _wide(self, some: Any) -> Array:
        """Return rows of X as an array, with the constant feature."""
        A = np.empty((some.shape[0], self.D))
        A[:, :-1] = some if isinstance(some, np.ndarray) else some.toarray()
        A[:, -1] = self.bias
        return A

    def _solve_by_samples(self, rows: Array, rho: float, right: Array) -> Array:
        check_time(factor_work(len(rows)))
        roots, some = np.sqrt(rho * self.prices[rows]), self.X[rows]
        if isinstance(some, np.ndarray):
            A = self._wide(some) * roots[:, None]
            gram = A @ A.T
            gram.flat[:: len(rows) + 1] += 1.0
            return np.asarray(right - A.T @ solve_positive(gram, A @ right))
        some = some.astype(np.float64, copy=False)
        gram = (some @ some.T).toarray()
        gram += self.bias**2
        gram *= np.multiply.outer(roots, roots)
        gram.flat[:: len(rows) + 1] += 1.0
        u = roots * solve_positive(gram, roots * (some @ right[:-1] + self.bias * right[-1]))
        return np.asarray(right - np.append(some.T @ u, self.bias * u.sum()))
