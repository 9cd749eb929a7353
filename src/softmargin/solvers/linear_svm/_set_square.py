"""A working set of dense rows by several threads: descent on the square of their inner products.

A visit to a row of d features and k classes costs 2 d k multiplications, one visit after the other. On the square
K = X_a X_a' of a working set a, kernel block descent (``kernel_svm.block_descent``) visits pieces of some hundred rows,
a few times each, and a visit costs k for each row of the piece. What is left can be spread over threads: the square
itself, and the scores of the whole set after each piece. At the end W += X_a' (change of alpha_a). The square has at
most as many numbers as X.
                                                                                       maths: linear SVM, section 9
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.protocols import BlockDualProblem
from softmargin.core.threads import n_threads
from softmargin.kernels.points import take_rows
from softmargin.matrices.operator import product, rmatmul
from softmargin.solvers.kernel_svm.block_descent import KernelBlockDescent, KernelDescentState
from softmargin.solvers.linear_svm._inner_products import with_inner_products

__all__ = ["SetSquare", "SquareTuning"]

Array = NDArray[Any]


class SquareTuning(NamedTuple):
    """When a square pays: maths: linear SVM, section 9."""

    least_features: int = 512  # rows of a piece: with fewer features a visit to a row of X is cheaper than one there
    least_rows: int = 256  # of a set, below which waking threads takes longer than it saves; by hand
    passes: float = 40.0  # over a set that its square replaces: as many as there are at most
    epochs: int = 20  # over a square, at most: these take about as long as so many passes by one thread
    room: float = 4.0  # of the kernel matrix, in squares: it keeps one, and half of its memory is for rows


class SetSquare:
    """The working sets of one problem."""

    tuning: ClassVar[SquareTuning] = SquareTuning()

    def __init__(self, problem: BlockDualProblem, block: Any) -> None:
        self.problem, self.block = problem, block

    def may_pay(self) -> bool:
        """Say whether there may be sets whose rows are visited faster on their square."""
        X = self.problem.X
        return n_threads() > 1 and isinstance(X, np.ndarray) and X.shape[1] >= self.tuning.least_features

    def pays(self, m: int) -> bool:
        """Say whether m rows are visited faster on their square."""
        X, t, p = self.problem.X, self.tuning, n_threads()
        if not self.may_pay() or m < t.least_rows:
            return False
        # m^2 d / (2 p) multiplications make the square; a pass over the rows of X takes 2 m d k, one after the other.
        return bool(m * m <= X.size and m <= 4.0 * t.passes * self.problem.n_classes * p)

    def descend(self, rows: Array, alpha: Array, weights: Array, random: Array, target: float) -> float:
        """Descend on some rows until their gap is ``target``; return it.

        Parameters
        ----------
        alpha : array of shape (n, k); its rows are changed
        weights : array of shape (d + 1, k); changed
        random : array of shape (1,), the state of the shuffles; changed
        """
        problem, m = self.problem, len(rows)
        X = take_rows(problem.X, rows)
        megabytes = self.tuning.room * m * m * X.dtype.itemsize / 1e6
        part = with_inner_products(problem, X, rows, megabytes)
        before = alpha[rows]
        scores = product(X, weights[:-1]) + problem.bias * weights[-1]
        state = KernelDescentState(before.copy(), scores, part.gaps(before, scores), np.arange(m), random, m)
        gap = float(state.gaps.sum())
        if gap > target:
            descent = KernelBlockDescent(block=self.block)
            descent.descend(part, state, np.arange(m), target / gap, self.tuning.epochs)
            alpha[rows] = state.alpha
            weights += rmatmul(X, state.alpha - before, problem.bias)
            gap = float(part.gaps(state.alpha, state.scores).sum())
        return gap
