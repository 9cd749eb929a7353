"""F of multinomial regression with a ridge, at one point and along lines through it: what smooth solvers share.

    F(W, b) = sum_i C_i l_i(W' x_i + b) + ridge / 2 |W|^2                                                      spec 3.1

Scores are linear in W, so a line W + t D costs one product T = [X, 1] D, and F, its slope and its curvature at any t
cost n k exponentials. Every trial leaves its scores and probabilities behind: the one that is accepted costs no more.

    W, G     state.weights, state.gradient     ((d + 1) * k,)   flat; the last row is the intercept
    S        state.scores                      (n * k,)
    P, T     model.P, model.T                  (n * k,)         probabilities at S, or at the last trial; X D

k is padded to whole tiles (softmax_steps); two classes have one column, k = 1 without padding: there vectors go along
the samples (logistic_line). X may be given in other coordinates than the problem's: then so are W and G.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from softmargin.backends.lanes import zeros
from softmargin.losses.softmax import curvature_times
from softmargin.matrices.operator import row_blocks
from softmargin.matrices.products import adjoint, times
from softmargin.problems.composite import CompositePoint
from softmargin.solvers.common.conjugate_gradients import N_VECTORS
from softmargin.solvers.softmax._losses import SoftmaxLosses

__all__ = ["RidgeModel", "RidgeState", "Rows", "awake", "class_squares", "whole"]

Array = NDArray[Any]
FRESH = 20  # steps after which scores are computed anew: added up, they drift
SMALL_BLOCK = 1 << 14  # numbers of it squared at once


@dataclass
class RidgeState:
    """A point with all that F says about it."""

    weights: Array  # ((d + 1) * k,)
    gradient: Array  # ((d + 1) * k,) of F
    scores: Array  # (n * k,)
    value: float  # F
    n_steps: int


class Rows(NamedTuple):
    """Samples with their probabilities and prices: all of them, or some that stand for all."""

    X: Any
    P: Array  # (n * k,)
    C: Array  # (n,)


class RidgeModel:
    """Scratch and oracles of one problem."""

    def __init__(self, problem: Any, X: Any = None) -> None:
        self.problem = problem
        self.X = problem.X if X is None else X
        self.n, d = self.X.shape
        self.losses = SoftmaxLosses(problem, self.X, is_compact=True)
        self.k = self.losses.k
        self.P, self.T, self.trial = (zeros(self.n * self.k) for _ in range(3))
        self.size = (d + 1) * self.k
        self.free = self.size - self.k  # where the intercept begins, which nobody penalises
        self.along = (0.0, 0.0, 0.0)  # the penalty along D: ridge times |W|^2 / 2, <W, D>, |D|^2

    def begin(self, point: CompositePoint) -> RidgeState:
        """Return the state of a point."""
        state = RidgeState(self.losses.pack(point), zeros(self.size), zeros(self.n * self.k), 0.0, 0)
        self.renew(state)
        self._fill_gradient(state)
        return state

    @cached_property
    def largest(self) -> Array:
        """What the diagonal of the Hessian can be at most, as p (1 - p) <= 1/4; 1 where that is nothing."""
        quarter = 0.25 * self.problem.C[:, None]
        squares = class_squares(self.X, quarter)[:, 0] + self.problem.ridge
        squares = np.append(squares, self.problem.bias * quarter.sum())
        return np.repeat(np.where(squares > 0.0, squares, 1.0), self.k)

    @cached_property
    def work(self) -> Array:
        """The scratch of conjugate gradients."""
        return zeros(N_VECTORS, self.size)

    def matrix(self, flat: Array) -> Array:
        """View a flat array without its padding; shape (rows, n_columns)."""
        return self.losses.matrix(flat)

    def point(self, state: RidgeState) -> CompositePoint:
        """Return the point of a state, as a copy; intercepts of all classes have mean zero."""
        return self.losses.unpack(state.weights)

    def estimate(self, state: RidgeState) -> float:
        """Guess the residual from the gradient at hand."""
        of_losses = state.gradient[: self.free] - self.problem.ridge * state.weights[: self.free]
        matrix = self.matrix(state.weights)[:-1]
        return float(self.problem.rough_residual(matrix, state.value, self.matrix(of_losses)))

    def renew(self, state: RidgeState) -> None:
        """Compute scores, probabilities and F from the weights."""
        self.losses.fill_scores(state.weights, state.scores)
        self.return_to(state)

    def return_to(self, state: RidgeState) -> None:
        """Compute probabilities and F from the scores, as after a checkpoint."""
        W = state.weights[: self.free]
        self.T[:] = 0.0
        self.along = (0.5 * self.problem.ridge * float(W @ W), 0.0, 0.0)
        state.value, _, _ = self.attempt(state, 0.0)

    def aim(self, state: RidgeState, D: Array) -> None:
        """Look along D."""
        self.losses.fill_move(D, self.T)
        W, V, ridge = state.weights[: self.free], D[: self.free], self.problem.ridge
        self.along = (0.5 * ridge * float(W @ W), ridge * float(W @ V), ridge * float(V @ V))

    def bend(self) -> float:
        """Return the curvature of F along D at the point itself, before any trial."""
        C = self.problem.C
        if self.k == 1:
            np.multiply(C, self.P * (1.0 - self.P), out=self.trial)
            self.trial *= self.T
        else:
            curvature_times(self.P, self.T, C, self.k, self.trial)
        return float(self.trial @ self.T) + self.along[2]

    def attempt(self, state: RidgeState, length: float) -> tuple[float, float, float]:
        """Return F at W + length D, its slope and its curvature; P follows."""
        losses, slope, bend = self.losses.along(state.scores, self.T, length, self.trial, self.P)
        penalty, linear, quadratic = self.along
        value = losses + penalty + length * (linear + 0.5 * length * quadratic)
        return value, slope + linear + length * quadratic, bend + quadratic

    def accept(self, state: RidgeState, D: Array, length: float, value: float) -> None:
        """Go to the last trial, W + length D."""
        state.weights += length * D
        state.scores, self.trial = self.trial, state.scores
        state.value = value
        state.n_steps += 1
        if state.n_steps % FRESH == 0:
            self.renew(state)
        self._fill_gradient(state)

    def stay(self, state: RidgeState) -> None:
        """Refuse all trials."""
        self.return_to(state)
        state.n_steps += 1

    def hessian_times(self, rows: Rows, V: Array, T: Array, out: Array) -> None:
        """Write the Hessian of F, as some rows see it, times V to ``out``; T is scratch of rows * k."""
        times(rows.X, V, self.problem.bias, self.k, T)
        if self.k == 1:
            T *= rows.C * rows.P * (1.0 - rows.P)
        else:
            curvature_times(rows.P, T, rows.C, self.k, T)
        adjoint(rows.X, T, self.problem.bias, self.k, out)
        out[: self.free] += self.problem.ridge * V[: self.free]

    def sums(self, u: Array) -> Array:
        """Return sum_i u_i [x_i, 1], for one number a sample; shape (d + 1,)."""
        out = np.empty(self.X.shape[1] + 1)
        adjoint(self.X, u, 1.0, 1, out)
        return out

    def _fill_gradient(self, state: RidgeState) -> None:
        self.losses.fill_gradient(self.P, self.trial, state.gradient)
        state.gradient[: self.free] += self.problem.ridge * state.weights[: self.free]


def awake(problem: Any, state: Any) -> RidgeModel:
    """Return the scratch that a state holds as ``model``, made anew after a checkpoint."""
    if state.model is None:
        state.model = RidgeModel(problem)
        state.model.return_to(state)
    return state.model


def whole(model: RidgeModel) -> Rows:
    """Return all rows."""
    return Rows(model.X, model.P, model.problem.C)


def class_squares(X: Any, weights: Array) -> Array:
    """Return sum_i weights_ic x_ij^2; shape (d, k), with one column of weights or whole tiles."""
    if isinstance(X, np.ndarray):
        # Small blocks: their squares then stay in the cache, and need no fresh pages.
        blocks = row_blocks(X, weights.shape[1], numbers=max(SMALL_BLOCK, 4 * X.shape[1] * weights.shape[1]))
        return sum((np.square(block).T @ weights[rows] for rows, block in blocks), np.zeros((X.shape[1], 1)))
    squares, k = csr_matrix((np.square(X.data), X.indices, X.indptr), shape=X.shape), weights.shape[1]
    out = np.empty((X.shape[1] + 1) * k)
    adjoint(squares, weights.ravel(), 0.0, k, out)
    return out[:-k].reshape(-1, k)
