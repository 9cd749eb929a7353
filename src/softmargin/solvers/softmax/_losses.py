"""The losses of multinomial regression at a point, along lines through it, and their gradient.

    S = [X, 1] W        P = softmax(S)        losses = sum_i C_i l_i(S_i)        G = [X, 1]' C (P - Y)

Arrays are flat, one row after the other, ``stride_of`` numbers a row: whole tiles of classes (softmax_steps); or the
one column of two classes, without padding: there vectors go along the samples (logistic_line).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.losses.softmax import NEVER, loss_along, residuals
from softmargin.matrices.products import adjoint, times
from softmargin.solvers.softmax._steps import matrix_of, width_of
from softmargin.solvers.softmax._two_classes import logistic_along

__all__ = ["SoftmaxLosses", "stride_of", "unpadded"]

Array = NDArray[Any]


def stride_of(problem: Any) -> int:
    """Return how many numbers a row of weights or scores has."""
    return 1 if problem.is_pinned else width_of(problem)


def unpadded(problem: Any, flat: Array) -> Array:
    """View a flat array as a matrix without its padding; shape (rows, n_columns)."""
    return matrix_of(problem, flat, stride_of(problem))


class SoftmaxLosses:
    """The losses of one problem; X may be laid out in another way than the problem has it."""

    def __init__(self, problem: Any, X: Any) -> None:
        self.problem, self.X = problem, X
        self.k = stride_of(problem)
        self.labels = np.asarray(problem.target == 0, dtype=np.float64)

    def fill_scores(self, W: Array, S: Array) -> None:
        """Write [X, 1] W to S."""
        self.fill_move(W, S)
        if self.k > 1:
            S.reshape(-1, self.k)[:, self.problem.n_columns :] = NEVER

    def fill_move(self, D: Array, T: Array) -> None:
        """Write [X, 1] D to T."""
        times(self.X, D, self.problem.bias, self.k, T)

    def along(self, S: Array, T: Array, length: float, new: Array, P: Array) -> tuple[float, float, float]:
        """Write S + length T to ``new``, its probabilities to P; return losses, slope and curvature along T there."""
        problem = self.problem
        if self.k > 1:
            return loss_along(S, T, length, problem.target, problem.C, self.k, False, new, P)
        return logistic_along(S, T, length, self.labels, problem.C, new, P)

    def fill_gradient(self, P: Array, U: Array, G: Array) -> None:
        """Write C (P - Y) to U and [X, 1]' U to G."""
        problem = self.problem
        if self.k > 1:
            residuals(P, problem.target, problem.C, self.k, U)
        else:
            np.subtract(P, self.labels, out=U)
            U *= problem.C
        adjoint(self.X, U, problem.bias, self.k, G)

    def own(self, P: Array) -> Array:
        """Return the probability of every sample's own class; (n,)."""
        if self.k > 1:
            return P.reshape(-1, self.k)[np.arange(len(self.labels)), self.problem.target]
        return np.where(self.labels == 1.0, P, 1.0 - P)
