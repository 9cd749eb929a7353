"""What a stream keeps of the rows it has seen: sums that bound the objective of all these rows from below.

    hinge      D = sum_i alpha_{i,y_i} - 1/2 |V|^2 ,         V = sum_i x_i alpha_i'                maths: streams, eq. 4
    softmax    D = sum_i C_i H(q_i) - |V|^2 / (2 ridge) ,    V = sum_i C_i x_i (q_i - y_i)'        maths: streams, eq. 5

Every row adds the dual variables that it has when it leaves, and these are feasible: D is a lower bound on the
optimum of all rows seen, in memory that does not grow with their number. So is every point between it and zero, with
the value s L - s^2 Q for the two terms L and Q of D; the best s costs nothing. Errors: maths: rounding, section 1.

A free intercept of the softmax asks for sum_i C_i (q_i - y_i) = 0. The rows are gone, but one rho for all of them makes
q_i <- (1 - share) q_i + share rho balanced, and needs only the sums of x over the classes (maths: streams, eq. 6).

Rows of two classes have one variable each, and a compiled pass sums them (``_pair_sums``): NumPy's passes over small
chunks would take longer than learning from them.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.core.rounding import SLACK, TINY, UNIT, Rounded, gamma, norms, squared_norm, total
from softmargin.losses.multinomial import entropy, off_label
from softmargin.matrices.operator import add_adjoint_product, row_norms, row_slices
from softmargin.matrices.rows import as_rows
from softmargin.problems._class_sums import add_by_class, balanced_squares
from softmargin.problems._pair_sums import LEAST, PairSums, hinge_losses, logistic_losses, pair_margins, pair_sums
from softmargin.problems.composite import RidgeComposite
from softmargin.problems.multiclass_svm import MulticlassSVM

__all__ = ["SeenHinge", "SeenSoftmax", "losses_of_pairs"]

Array = NDArray[Any]
PAIR_ROWS = 1 << 16  # rows of two classes summed at once: more of them have more roundings, fewer take longer
BELOW_ONE = 1.0 - gamma(2 * 2 + 8)  # of a probability off the label, whatever rounds


class _Sum:
    """A sum of matrices of one shape, with bounds on the Euclidean norms of its columns and of their errors."""

    def __init__(self, rows: int, columns: int) -> None:
        self.value, self.reach, self.error = np.zeros((rows, columns)), np.zeros(columns), np.zeros(columns)

    def add(self, value: Array, reach: Any, share: float) -> None:
        """Add a matrix whose columns have norms of at most ``reach``, one for all or one each, and errors of a share.

        Nothing is changed in place, so that a shallow copy stays as it was.
        """
        self.value = self.value + value
        self.reach = SLACK * (self.reach + reach)
        self.error = SLACK * (self.error + share * reach + UNIT * self.reach)

    def add_rows(self, add: Callable[[Array], object], n: int, reach: Array, share: float) -> None:
        """Let a function add n rows to a copy: a matrix of their own would take two passes more, and its memory.

        ``share`` is that of the products and of their sum, by at least n operations each.
        """
        self.error = SLACK * (self.error + share * reach + gamma(n) * self.reach)
        self.reach = SLACK * (self.reach + reach)
        self.value = self.value.copy()
        add(self.value)

    def square(self) -> Rounded:
        """Return the squared norm."""
        return _square_of(np.einsum("ij,ij->j", self.value, self.value), self.error, self.value.size)


def _square_of(squares: Array, error: Array, size: int) -> Rounded:
    """Return the squared norm of a matrix of so many numbers, given those of its columns and their errors."""
    square, far = float(squares.sum()), SLACK * float(np.linalg.norm(error))
    change, lost = far * (2.0 * math.sqrt(square) + far), size * TINY if square or far else 0.0
    return Rounded(square, SLACK * (gamma(size + 1) * square + lost + change))


def _best_multiple(linear: Rounded, square: Rounded) -> Rounded:
    """Return the largest s L - s^2 / 2 Q over s in [0, 1]; not below zero, its value at s = 0."""
    if not linear.value > 0.0:
        return Rounded(0.0)
    s = min(1.0, linear.value / square.value) if square.value > 0.0 else 1.0
    value = linear.times(s) - square.times(s).times(s).times(0.5)
    return value if value.lower > 0.0 else Rounded(0.0)


def losses_of_pairs(problem: Any, bias: float, w: Array, *, factor: float, is_logistic: bool) -> Rounded:
    """Return the losses of rows of two classes by the scores factor <w, [x, bias]>."""
    size, margins, errors = math.sqrt(squared_norm(w).upper), np.empty(len(problem.y)), np.empty(len(problem.y))
    pair_margins(as_rows(problem.X, bias), problem.y, w, factor, size, margins, errors)
    if not is_logistic:
        return Rounded(*hinge_losses(problem.C, margins, errors))
    softs = np.abs(margins)
    np.negative(softs, out=softs)
    np.log1p(np.exp(softs, out=softs), out=softs)
    return Rounded(*logistic_losses(problem.C, margins, errors, softs))


def _blocks_of_pairs(
    problem: Any, bias: float, shares: Array, *, is_logistic: bool
) -> Iterator[tuple[int, Array, Array, PairSums]]:
    """Yield the number of rows, V, X'C Y and other sums of blocks of rows: sums of sums have fewer roundings."""
    rows, d, logs = as_rows(problem.X, bias), problem.X.shape[1], np.empty((2, 0))
    shares = np.minimum(np.maximum(shares, 0.0), BELOW_ONE if is_logistic else 1.0)
    if is_logistic:
        logs = np.empty((2, len(shares)))
        np.log(np.maximum(shares, LEAST, out=logs[0]), out=logs[0])
        np.log1p(np.negative(shares, out=logs[1]), out=logs[1])
    for some in row_slices(len(shares), 1, numbers=PAIR_ROWS):
        V, classes = np.zeros(d + 1), np.zeros(2 * d if is_logistic else 0)
        sums = pair_sums(rows, problem.y, problem.C, shares, logs, V, classes, some.start, some.stop)
        yield some.stop - some.start, V, classes, sums


class SeenHinge:
    """The sums of a joint hinge loss.

    Parameters
    ----------
    problem : MulticlassSVM
        Some rows: it tells the shapes.
    """

    def __init__(self, problem: MulticlassSVM) -> None:
        self.V = _Sum(problem.X.shape[1] + 1, problem.n_classes)
        self.linear = Rounded(0.0)

    def add(self, problem: MulticlassSVM, alpha: Array) -> None:
        """Add rows and their dual variables: (n, k), or those of two classes as shares of C, (n,)."""
        if alpha.ndim == 1:
            for m, v, _, sums in _blocks_of_pairs(problem, problem.bias, alpha, is_logistic=False):
                self.V.add(np.column_stack([-v, v]), SLACK * sums.reach, gamma(m + 4))
                self.linear += Rounded(sums.duals, SLACK * gamma(m + 4) * sums.duals)
            return
        alpha = problem.feasible(alpha)

        def add(sums: Array) -> None:
            add_adjoint_product(problem.X, alpha, sums[:-1])
            sums[-1] += problem.bias * alpha.sum(axis=0)

        self.V.add_rows(add, len(alpha), *problem.weight_reach(alpha))
        self.linear += problem.linear_term(alpha)

    def bound(self) -> Rounded:
        """Return a lower bound on the objective of all rows added."""
        return _best_multiple(self.linear, self.V.square())


class SeenSoftmax:
    """The sums of a ridge multinomial regression.

    Parameters
    ----------
    problem : RidgeComposite
        Some rows: it tells the shapes, the ridge and whether there is an intercept.
    """

    def __init__(self, problem: RidgeComposite) -> None:
        d, k = problem.X.shape[1], problem.n_classes
        self.ridge, self.fit_intercept, self.n_columns = problem.ridge, problem.fit_intercept, problem.n_columns
        self.V, self.pulls, self.entropies = _Sum(d, problem.n_columns), _Sum(1, k), Rounded(0.0)
        self.mass, self.n = np.zeros(k), 0
        self.classes = _Sum(d, k if self.fit_intercept else 0)  # sum of C_i x_i over each class

    def add(self, problem: RidgeComposite, P: Array) -> None:
        """Add rows and their probabilities, (n, k); those of the labels are 1 less the sums of the others.

        Of two classes, (n,) are the probabilities that are not the label's.
        """
        self.n += len(P)
        if P.ndim == 1:
            for m, v, classes, sums in _blocks_of_pairs(problem, 0.0, P, is_logistic=True):
                share = gamma(m + 8)
                self.V.add(-v[:-1, None], SLACK * sums.reach, share)
                self.entropies += Rounded(sums.entropy, SLACK * (sums.entropy_error + share * sums.entropy))
                if self.fit_intercept:
                    self.mass = self.mass + np.array([sums.first, sums.second])
                    self.pulls.add(np.array([[sums.pull, -sums.pull]]), SLACK * sums.duals, share)
                    self.classes.add(classes.reshape(-1, 2), SLACK * sums.prices, share)
            return
        n, k = P.shape
        off, rest = off_label(P, problem.y)
        off *= (1.0 - gamma(2 * k + 8)) / max(float(rest.max()), 1.0)
        rest = off.sum(axis=1)
        values, errors = entropy(off, rest)
        self.entropies += total(problem.C * values, problem.C * errors)
        U = off * problem.C[:, None]
        U[np.arange(n), problem.y] = -problem.C * rest
        own, share = U[:, -self.n_columns :], SLACK * gamma(n + k + 2)
        length = float(norms(row_norms(problem.X), axis=0))
        reach = length * norms(own, axis=0)
        self.V.add_rows(lambda sums: add_adjoint_product(problem.X, own, sums), n, reach, share)
        if self.fit_intercept:
            self.mass = self.mass + np.bincount(problem.y, weights=problem.C, minlength=k)
            self.pulls.add(U.sum(axis=0, keepdims=True), np.abs(U).sum(axis=0), share)
            prices = np.sqrt(np.bincount(problem.y, weights=np.square(problem.C), minlength=k))
            rows = as_rows(problem.X)
            self.classes.add_rows(
                lambda sums: add_by_class(rows, problem.y, problem.C, sums), n, length * prices, share
            )

    def bound(self) -> Rounded:
        """Return a lower bound on the objective of all rows added; 0 until every class has had a row."""
        share, linear = 0.0, self.entropies
        if self.fit_intercept:
            if not self.mass.all():
                return Rounded(0.0)
            above = np.maximum(self.pulls.value[0] + self.pulls.error, 0.0)
            share = SLACK * float((above / (self.mass + above)).max())
            linear = linear.times(max((1.0 - share) * (1.0 - 4.0 * UNIT), 0.0))
        square = self._balanced(share)
        square = square.times(1.0 / self.ridge)
        return _best_multiple(linear, square.widened(UNIT * square.value))

    def _balanced(self, share: float) -> Rounded:
        """Return |V|^2 of the balanced point; the entropy of rho is left out, as it is not negative."""
        if share == 0.0:
            return self.V.square()
        price, classes, own = float(self.mass.sum()), self.classes, slice(-self.n_columns, None)
        rho = np.maximum(share * self.mass - (1.0 - share) * self.pulls.value[0], 0.0) / price  # times the share
        tiny = gamma(self.n + len(rho) + 16)  # the masses are sums over all rows
        wrong = self.pulls.error / price + tiny * (rho + share * self.mass / price)
        squares = np.zeros(self.n_columns)
        length = balanced_squares(self.V.value, classes.value, share, rho[own], squares)
        error = math.sqrt(length + len(classes.value) * TINY) * wrong
        error += float(classes.error.sum()) * rho + share * classes.error
        error += tiny * (float(classes.reach.sum()) * rho + share * classes.reach)
        error = SLACK * (error[own] + self.V.error + gamma(8) * self.V.reach)
        return _square_of(squares, error, self.V.value.size)
