"""Scores, probabilities, losses and gradient of multinomial regression, at a point and along lines through it.

    S = [X, 1] W        P = softmax(S)        losses = sum_i C_i l_i(S_i)        G = [X, 1]' C (P - Y)

    W, G    ((d + 1) * k,)  flat; the last row is the intercept
    S, P    (n * k,)        one row per sample

A row has k numbers: one per column of W, padded to whole tiles of classes (``width_of``). Padding is zero in W, G and
P, and ``NEVER`` in S. Solvers whose loops go along the samples keep the one column of two classes without padding:
k = 1, the compact layout (``stride_of``).
"""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.lanes import padded, zeros
from softmargin.losses.multinomial import intercept_step
from softmargin.losses.softmax import NEVER, loss_along, residuals, softmax_rows
from softmargin.matrices.products import adjoint, times
from softmargin.problems.composite import CompositePoint
from softmargin.solvers.softmax._two_classes import logistic_along

__all__ = ["SoftmaxLosses", "stride_of", "unpadded", "width_of"]

Array = NDArray[Any]
MAX_HALVINGS = 30


def width_of(problem: Any) -> int:
    """Return how many numbers a row has in whole tiles."""
    return padded(problem.n_columns)


def stride_of(problem: Any) -> int:
    """Return how many numbers a row has in the compact layout."""
    return 1 if problem.is_pinned else width_of(problem)


def unpadded(problem: Any, flat: Array) -> Array:
    """View a flat array in the compact layout as a matrix without padding; shape (rows, n_columns)."""
    return flat.reshape(-1, stride_of(problem))[:, : problem.n_columns]


class SoftmaxLosses:
    """The losses of one problem.

    Parameters
    ----------
    problem : CompositeProblem
    X : array or CSR matrix of shape (n, d), optional
        The data in another layout, or in other coordinates, than the problem has them.
    is_compact : bool, default=False
        Whether two classes have one column without padding.
    """

    def __init__(self, problem: Any, X: Any = None, *, is_compact: bool = False) -> None:
        self.problem = problem
        self.X = problem.X if X is None else X
        self.k = stride_of(problem) if is_compact else width_of(problem)

    @cached_property
    def labels(self) -> Array:
        """Of two classes: 1 for samples of the second, else 0; shape (n,)."""
        return np.asarray(self.problem.target == 0, dtype=np.float64)

    def matrix(self, flat: Array) -> Array:
        """View a flat array as a matrix without padding; shape (rows, n_columns)."""
        return flat.reshape(-1, self.k)[:, : self.problem.n_columns]

    def pack(self, point: CompositePoint) -> Array:
        """Return the flat W of a point."""
        W = zeros((len(point.weights) + 1) * self.k)
        matrix = self.matrix(W)
        matrix[:-1], matrix[-1] = point.weights, point.intercept
        return W

    def unpack(self, W: Array) -> CompositePoint:
        """Return the point of a flat W, as a copy; intercepts of all classes have mean zero."""
        matrix, problem = self.matrix(W), self.problem
        intercept = matrix[-1] * problem.bias
        return CompositePoint(matrix[:-1].copy(), intercept if problem.is_pinned else intercept - intercept.mean())

    def fill_scores(self, W: Array, S: Array) -> None:
        """Write [X, 1] W to S."""
        self.fill_move(W, S)
        if self.k > 1:
            S.reshape(-1, self.k)[:, self.problem.n_columns :] = NEVER

    def fill_move(self, D: Array, T: Array) -> None:
        """Write [X, 1] D to T, the change of the scores where W moves by D; its padding is zero."""
        times(self.X, D, self.problem.bias, self.k, T)

    def fill_probabilities(self, S: Array, P: Array) -> float:
        """Write softmax(S) to P; return the losses."""
        problem = self.problem
        if self.k > 1:
            return float(softmax_rows(S, problem.target, problem.C, self.k, problem.is_pinned, P))
        return self.along(S, np.zeros_like(S), 0.0, np.empty_like(S), P)[0]

    def along(self, S: Array, T: Array, length: float, new: Array, P: Array) -> tuple[float, float, float]:
        """Write S + length T to ``new``, its probabilities to P; return losses, slope and curvature along T there."""
        problem = self.problem
        if self.k > 1:
            return loss_along(S, T, length, problem.target, problem.C, self.k, problem.is_pinned, new, P)
        return logistic_along(S, T, length, self.labels, problem.C, new, P)

    def fill_residuals(self, P: Array, U: Array) -> None:
        """Write C (P - Y) to U, which may be P."""
        problem = self.problem
        if self.k > 1:
            residuals(P, problem.target, problem.C, self.k, U)
        else:
            np.subtract(P, self.labels, out=U)
            U *= problem.C

    def fill_gradient(self, P: Array, U: Array, G: Array) -> None:
        """Write C (P - Y) to U, which may be P, and [X, 1]' U to G."""
        self.fill_residuals(P, U)
        adjoint(self.X, U, self.problem.bias, self.k, G)

    def improve_intercept(self, W: Array, S: Array, P: Array, loss: float) -> float:
        """Make a Newton step in the intercept, halved until the losses fall; update W, S and P. Return the losses."""
        problem, k = self.problem, self.k
        if not problem.fit_intercept:
            return loss
        mass = np.bincount(problem.y, weights=problem.C, minlength=problem.n_classes)
        step = np.zeros(k)
        step[: problem.n_columns], _ = intercept_step(
            self.matrix(P), problem.C, mass[1:] if problem.is_pinned else mass
        )
        move, scores = np.tile(step, len(problem.y)), np.empty_like(S)
        length = 1.0
        for _ in range(MAX_HALVINGS):
            new, _, _ = self.along(S, move, length, scores, P)
            if new <= loss:
                W[-k:] += length * step
                S[:] = scores
                return float(new)
            length /= 2.0
        return self.fill_probabilities(S, P)

    def own(self, P: Array) -> Array:
        """Return the probability of every sample's own class; (n,)."""
        P = self.matrix(P)
        if self.problem.is_pinned:
            return np.where(self.labels == 1.0, P[:, 0], 1.0 - P[:, 0])
        return P[np.arange(len(P)), self.problem.target]
