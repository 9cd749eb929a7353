"""Scores, probabilities, losses and gradient of multinomial regression, at a point and along lines through it.

    S = [X, 1] W        P = softmax(S)        losses = sum_i C_i l_i(S_i),  l_i(s) = log sum_c exp(s_c) - s_target
    U = C (P - Y)       gradient by the scores            G = [X, 1]' U     gradient by W
    C (P T - P <P, T>)  Hessian by the scores, times a direction T

    W, G          ((d + 1) * k,)  flat; the last row is the intercept
    S, P, U, T    (n * k,)        one row per sample

A row has k numbers: one per column of W, padded to whole tiles of classes (``width_of``). Padding is zero in W, G and
P, and ``NEVER`` in S. Two classes need one column: the score of the first class is pinned to zero, the column is the
log-odds of the second, and ``target`` is 0 for the second class and -1 for the first. Solvers whose loops go along the
samples keep this column without padding: k = 1, the compact layout.
"""

from functools import cached_property
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import inline, jit
from softmargin.backends.lanes import (
    WIDTH,
    exp,
    largest,
    load,
    log1p,
    maximum,
    padded,
    pointer,
    splat,
    store,
    total,
    zeros,
)
from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import CompositeProblem
from softmargin.losses.multinomial import intercept_step
from softmargin.matrices.products import adjoint, times
from softmargin.problems.composite import CompositePoint
from softmargin.solvers.common.resumable import Resumable

__all__ = ["NEVER", "CompositeSolver", "SoftmaxLosses", "softmax_row", "width_of"]

Array = NDArray[Any]
State = TypeVar("State", bound="CompositeState")
NEVER = -1e300  # the score of a padding class: its probability is zero
MAX_HALVINGS = 30  # of the intercept's step: rounding hides 2^-30 of it


def width_of(problem: CompositeProblem) -> int:
    """Return how many numbers a row has in whole tiles."""
    return padded(problem.n_columns)


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

    def __init__(self, problem: CompositeProblem, X: Any = None, *, is_compact: bool = False) -> None:
        self.problem = problem
        self.X = problem.X if X is None else X
        self.k = 1 if is_compact and problem.is_pinned else width_of(problem)

    @cached_property
    def labels(self) -> Array:
        """Of two classes: 1 for samples of the second, else 0; shape (n,)."""
        return np.asarray(self.problem.target == 0, dtype=np.float64)

    @cached_property
    def mass(self) -> Array:
        """The sum of the prices of every class that has a column; (n_columns,)."""
        problem = self.problem
        return np.bincount(problem.y, weights=problem.C, minlength=problem.n_classes)[-problem.n_columns :]

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
        return self.along(S, S, 0.0, S, P)[0]

    def along(self, S: Array, T: Array, length: float, new: Array, P: Array) -> tuple[float, float, float]:
        """Write S + length T to ``new``, its probabilities to P; return losses, slope and curvature along T there."""
        problem = self.problem
        found: tuple[float, float, float]
        if self.k > 1:
            found = loss_along(S, T, length, problem.target, problem.C, self.k, problem.is_pinned, new, P)
        else:
            found = logistic_along(S, T, length, self.labels, problem.C, new, P)
        return found

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

    def fill_curvature(self, P: Array, T: Array, C: Array, out: Array) -> None:
        """Write C (P T - P <P, T>) of some rows, with prices C, to ``out``, which may be T."""
        if self.k > 1:
            curvature_times(P, T, C, self.k, out)
        else:
            np.multiply(T, C * P * (1.0 - P), out=out)

    def improve_intercept(self, W: Array, S: Array, P: Array) -> float:
        """Write softmax(S) to P; move the intercept in W and S by a Newton step that lowers the losses: return them."""
        problem, k = self.problem, self.k
        loss = self.fill_probabilities(S, P)
        if not problem.fit_intercept:
            return loss
        step = np.zeros(k)
        step[: problem.n_columns], _ = intercept_step(self.matrix(P), problem.C, self.mass)
        move, scores = np.tile(step, len(problem.y)), np.empty_like(S)
        length = 1.0
        for _ in range(MAX_HALVINGS):
            new, _, _ = self.along(S, move, length, scores, P)
            if new <= loss:
                W[-k:] += length * step
                S[:] = scores
                return new
            length /= 2.0
        return self.fill_probabilities(S, P)

    def off_label(self, P: Array) -> Array:
        """Return the probability of all classes but every sample's own; (n,)."""
        P = self.matrix(P)
        if self.problem.is_pinned:
            return np.asarray(np.abs(self.labels - P[:, 0]))
        return np.asarray(1.0 - P[np.arange(len(P)), self.problem.target])


class CompositeState(Protocol):
    """What states of solvers for any penalty have: W, the gradient G of the losses, flat, and the losses."""

    W: Array
    G: Array
    loss: float


class CompositeSolver(Resumable, Generic[State]):
    """What solvers for any penalty share."""

    needs: ClassVar[tuple[type, ...]] = (CompositeProblem,)
    is_compact: ClassVar[bool] = False

    def point(self, problem: CompositeProblem, state: State) -> CompositePoint:
        """Return the weights and the intercept."""
        return SoftmaxLosses(problem, is_compact=self.is_compact).unpack(state.W)

    def estimate(self, problem: CompositeProblem, state: State) -> float:
        """Estimate the residual from the last gradient."""
        matrix = SoftmaxLosses(problem, is_compact=self.is_compact).matrix
        weights = matrix(state.W)[:-1]
        primal = state.loss + problem.penalty.value(weights)
        return problem.rough_residual(weights, primal, matrix(state.G)[:-1])

    def _demand_convex(self, problem: CompositeProblem) -> None:
        if not problem.penalty.is_convex:
            raise IncompatibleError(
                f"{type(self).__name__} needs a convex penalty; {problem.penalty!r} is not. Use BlockProxGradient."
            )


@inline
def softmax_row(S: Any, first: int, k: int, is_pinned: bool, P: Any, out: int) -> Any:
    """Write the probabilities of scores S[first : first + k] to P[out : out + k]; return log sum exp."""
    top = splat(0.0 if is_pinned else -np.inf)
    for o in range(0, k, WIDTH):
        top = maximum(load(S, first + o), top)
    highest = largest(top)
    top = splat(highest)
    sums = splat(0.0)
    for o in range(0, k, WIDTH):
        e = exp(load(S, first + o) - top)
        store(P, out + o, e)
        sums = sums + e
    mass = total(sums)
    if is_pinned:
        mass += np.exp(-highest)
    inverse = splat(1.0 / mass)
    for o in range(0, k, WIDTH):
        store(P, out + o, load(P, out + o) * inverse)
    return highest + np.log(mass)


@jit
def softmax_rows(S: Array, target: Array, C: Array, k: int, is_pinned: bool, P: Array) -> float:
    """Fill P with the probabilities of all rows; return the sum of the losses."""
    S_, P_ = pointer(S), pointer(P)
    loss = 0.0
    for i in range(target.shape[0]):
        partition = softmax_row(S_, i * k, k, is_pinned, P_, i * k)
        own = S_[i * k + target[i]] if target[i] >= 0 else 0.0
        loss += C[i] * (partition - own)
    return loss


@jit
def loss_along(
    S: Array, T: Array, length: float, target: Array, C: Array, k: int, is_pinned: bool, new: Array, P: Array
) -> tuple[float, float, float]:
    """Write S + length T to ``new`` and its probabilities to P; return the losses and their first two derivatives."""
    S_, T_, new_, P_ = pointer(S), pointer(T), pointer(new), pointer(P)
    step = splat(length)
    loss, slope, bend = 0.0, 0.0, 0.0
    for i in range(target.shape[0]):
        first = i * k
        for o in range(first, first + k, WIDTH):
            store(new_, o, load(S_, o) + step * load(T_, o))
        partition = softmax_row(new_, first, k, is_pinned, P_, first)
        mean_lanes, square_lanes = splat(0.0), splat(0.0)
        for o in range(first, first + k, WIDTH):
            t = load(T_, o)
            weighted = load(P_, o) * t
            mean_lanes = mean_lanes + weighted
            square_lanes = square_lanes + weighted * t
        mean = total(mean_lanes)
        own, own_move = 0.0, 0.0
        if target[i] >= 0:
            own, own_move = new_[first + target[i]], T_[first + target[i]]
        loss += C[i] * (partition - own)
        slope += C[i] * (mean - own_move)
        bend += C[i] * (total(square_lanes) - mean * mean)
    return loss, slope, bend


@jit
def residuals(P: Array, target: Array, C: Array, k: int, U: Array) -> None:
    """Write C (P - e_target) to U; U may be P."""
    P_, U_ = pointer(P), pointer(U)
    for i in range(target.shape[0]):
        price = splat(C[i])
        for o in range(0, k, WIDTH):
            store(U_, i * k + o, load(P_, i * k + o) * price)
        if target[i] >= 0:
            U_[i * k + target[i]] -= C[i]


@jit
def curvature_times(P: Array, T: Array, C: Array, k: int, out: Array) -> None:
    """Write C (P T - P <P, T>) to out, row by row; out may be T."""
    P_, T_, out_ = pointer(P), pointer(T), pointer(out)
    for i in range(C.shape[0]):
        first = i * k
        mean_lanes = splat(0.0)
        for o in range(0, k, WIDTH):
            mean_lanes = mean_lanes + load(P_, first + o) * load(T_, first + o)
        mean, price = splat(total(mean_lanes)), splat(C[i])
        for o in range(0, k, WIDTH):
            store(out_, first + o, price * load(P_, first + o) * (load(T_, first + o) - mean))


@jit
def logistic_along(
    S: Array, T: Array, length: float, labels: Array, C: Array, new: Array, P: Array
) -> tuple[float, float, float]:
    """Write S + length T to ``new`` and the probability of the second class to P; return loss, slope and curvature."""
    n = S.shape[0]
    S_, T_, new_, P_ = pointer(S), pointer(T), pointer(new), pointer(P)
    step, nothing = splat(length), splat(0.0)
    whole = n - n % WIDTH
    for o in range(0, whole, WIDTH):
        s = load(S_, o) + step * load(T_, o)
        store(new_, o, s)
        store(P_, o, exp(nothing - maximum(s, nothing - s)))
    for i in range(whole, n):
        new[i] = S[i] + length * T[i]
        P[i] = np.exp(-abs(new[i]))
    loss, slope, bend = 0.0, 0.0, 0.0
    for i in range(n):
        s, e = new[i], P[i]
        inverse = 1.0 / (1.0 + e)
        second = inverse if s >= 0.0 else e * inverse
        loss += C[i] * (log1p(e) + max(s, 0.0) - labels[i] * s)
        slope += C[i] * T[i] * (second - labels[i])
        bend += C[i] * T[i] * T[i] * (e * inverse * inverse)
    for i in range(n):
        P[i] = (1.0 if new[i] >= 0.0 else P[i]) / (1.0 + P[i])
    return loss, slope, bend
