"""F of multinomial regression with a ridge, at a point and along lines through it: what its smooth solvers share.

    F(W, b) = sum_i C_i l_i(W' x_i + b) + ridge / 2 |W|^2                                          maths: softmax, eq. 1
    H V     = X' C (P T - P <P, T>) + ridge V,      T = X V                                       maths: softmax, eq. 25

Scores are linear in W, so a line W + t D costs one product T = [X, 1] D, and F, its slope and its curvature at any t
cost n k exponentials. Every trial leaves its scores and probabilities behind, so accepting one costs no more.

    W, G     state.weights, state.gradient     ((d + 1) * k,)   flat; the last row is the intercept
    S        state.scores                      (n * k,)
    P, T     objective.P, objective.T          (n * k,)         probabilities at S, or at the last trial; X D

Rows are compact (_losses): two classes have one column, k = 1, without padding. Where X is rotated, so are W and G.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from softmargin.backends.lanes import zeros
from softmargin.core.certificate import relative_gap
from softmargin.core.protocols import RidgeProblem
from softmargin.core.threads import row_shares, spread
from softmargin.matrices.forms import laid_out
from softmargin.matrices.operator import row_blocks, transposed_times
from softmargin.matrices.products import adjoint, times
from softmargin.problems.composite import CompositePoint
from softmargin.solvers.common.resumable import Resumable
from softmargin.solvers.common.rotation import Rotation
from softmargin.solvers.softmax._feature_pairs import has_few_pairs, pairs_of
from softmargin.solvers.softmax._few_numbers import LOOPS_PAY, FewNumbers, fill_slopes
from softmargin.solvers.softmax._losses import SoftmaxLosses

__all__ = ["Damping", "RidgeObjective", "RidgeSolver", "RidgeState", "WeightedRows", "class_squares"]

Array = NDArray[Any]
State = TypeVar("State", bound="RidgeState")
REFRESH = 20  # steps after which scores are recomputed: rounding accumulates in the sums
FULL = 0.5  # share of nonzeros above which a small X becomes an array: on made-up rows it is as fast from 0.3 on
PAIRED = 32  # features whose products are kept, as prox-Newton keeps them
PAIRED_CLASSES = 4  # at least: with three (dna, 32 features) a fit took 1.2 to 1.3 times as long
PAIRS_PAY = 1 << 22  # multiplications of a Hessian from which on they are worth their calls; by timings
ROUGH_PAYS = 1 << 20  # the same of single precision
ROUGH = 0.1  # share of the ridge by which the rounding of a Hessian in single precision may change it; by hand
FAINT = 1e-10  # share of the largest factor below which one is zero there: products of subnormal numbers are slow
IN_RANGE = 1e15  # of squares that single precision has
CACHED = 1 << 15  # numbers of X squared at once: they stay in the cache


@dataclass
class RidgeState:
    """A point, with F and its gradient there."""

    weights: Array  # ((d + 1) * k,)
    gradient: Array  # ((d + 1) * k,) of F
    scores: Array  # (n * k,)
    value: float  # F
    n_steps: int
    objective: "RidgeObjective | None" = field(init=False, repr=False, default=None)


class WeightedRows(NamedTuple):
    """Samples with their probabilities and prices: all of them, or some that represent all."""

    X: Any
    P: Array  # (n * k,)
    C: Array  # (n,)


class RidgeObjective:
    """F of one problem, its derivatives, and scratch."""

    def __init__(self, problem: RidgeProblem, rotation: Rotation | None = None) -> None:
        self.problem, self.rotation = problem, rotation or Rotation(laid_out(problem.X, share=FULL))
        self.X, self.ridge = self.rotation.A, problem.ridge  # a solver may have it fall to that of the problem
        self.n, d = self.X.shape
        self.losses = SoftmaxLosses(problem, self.X, is_compact=True)
        self.matrix, self.k = self.losses.matrix, self.losses.k
        self.P, self.T, self.trial = (zeros(self.n * self.k) for _ in range(3))
        self.size = (d + 1) * self.k
        self.n_penalised = self.size - self.k  # all but the intercept

    @property
    def shape(self) -> tuple[int, int]:
        """(d, k) of the weights, rotated where X is, without padding."""
        return self.X.shape[1], self.problem.n_columns

    def begin(self, state_type: type[State], init: CompositePoint | None, **more: Any) -> State:
        """Return the state of ``init``, or of zero; ``more`` are the fields that a solver adds."""
        point = self.problem.checked_point(init)
        point = CompositePoint(self.rotation.inward(point.weights), point.intercept)
        W, G, S = self.losses.pack(point), zeros(self.size), zeros(self.n * self.k)
        state = state_type(weights=W, gradient=G, scores=S, value=0.0, n_steps=0, **more)
        state.objective = self
        self.recompute(state)
        self.fill_gradient(state)
        return state

    @cached_property
    def diagonal_bound(self) -> Array:
        """The largest diagonal that the Hessian can have, as p (1 - p) <= 1/4; 1 where that is 0."""
        quarter = 0.25 * self.problem.C[:, None]
        squares = class_squares(self.X, quarter)[:, 0] + self.problem.ridge
        squares = np.append(squares, self.problem.bias * quarter.sum())
        return np.repeat(np.where(squares > 0.0, squares, 1.0), self.k)

    @cached_property
    def rows(self) -> Array | None:
        """(n, r) [X, 1], or X without intercept, as whole Hessians are made of it, where X is an array; else None.

        In single precision where there is much to sum and its rounding does not matter: it moves the eigenvalues by
        about 2^-22 of the largest entry, and none is below the ridge.
        """
        X, n_constant = self.X, int(self.problem.fit_intercept)
        if not isinstance(X, np.ndarray):
            return None
        rows = np.ones((self.n, X.shape[1] + n_constant), dtype=np.float32 if self._is_rough(X) else np.float64)
        rows[:, : X.shape[1]] = X
        return rows

    def narrowed(self, factors: Array) -> Array:
        """Return factors of the rows, not negative, in their precision."""
        if self.rows is None or self.rows.dtype == np.float64:
            return factors
        return np.where(factors > FAINT * factors.max(initial=0.0), factors, 0.0).astype(np.float32)

    def _is_rough(self, X: Array) -> bool:
        if self.n * self._unknowns**2 < ROUGH_PAYS or self.ridge < 1.0 / IN_RANGE:
            return False
        square = max(float(np.einsum("ij,ij->j", X, X).max(initial=0.0)), self.n)
        return bool(square < IN_RANGE and 2.0**-22 * square * self.problem.C.max() <= ROUGH * self.ridge)

    @cached_property
    def few(self) -> FewNumbers | None:
        """What loops make the whole Hessian of, where it takes so few multiplications."""
        if self.rows is None or self.n * self._unknowns**2 >= LOOPS_PAY:
            return None
        size, k = self.rows.shape[1], self.problem.n_columns
        features, ends = np.tile(np.arange(size), k), size * np.arange(k + 1)
        return FewNumbers(np.ascontiguousarray(self.rows.T), features, ends, np.zeros(self.n))

    @cached_property
    def pairs(self) -> Array | None:
        """(n_pairs, n) all products of two features, the constant one included, where there are few; else None."""
        is_small = self.problem.n_columns < PAIRED_CLASSES or self.n * self._unknowns**2 < PAIRS_PAY
        if is_small or self.rows is None or not has_few_pairs(self.X, PAIRED):
            return None
        return pairs_of(np.ascontiguousarray(self.rows.T))

    @property
    def _unknowns(self) -> int:
        return int(self.problem.n_columns * (self.X.shape[1] + 1))

    @property
    def all_rows(self) -> WeightedRows:
        """All samples."""
        return WeightedRows(self.X, self.P, self.problem.C)

    def recompute(self, state: RidgeState) -> None:
        """Compute scores, probabilities and F from the weights."""
        self.losses.fill_scores(state.weights, state.scores)
        self.evaluate(state)

    def evaluate(self, state: RidgeState) -> None:
        """Compute probabilities and F from the scores."""
        W = state.weights[: self.n_penalised]
        losses = self.losses.fill_probabilities(state.scores, self.P)
        state.value = losses + 0.5 * self.ridge * float(W @ W)

    def line(self, state: RidgeState, D: Array) -> "RidgeLine":
        """Return F along D; it holds until the next line."""
        self.losses.fill_move(D, self.T)
        return self.line_of(state, D)

    def line_of(self, state: RidgeState, D: Array) -> "RidgeLine":
        """Return F along D, of which T holds the scores already."""
        W, V, ridge = state.weights[: self.n_penalised], D[: self.n_penalised], self.ridge
        return RidgeLine(self, state, D, 0.5 * ridge * float(W @ W), ridge * float(W @ V), ridge * float(V @ V))

    def hessian_times(self, rows: WeightedRows, V: Array, T: Array, out: Array) -> None:
        """Write H V to ``out``, with the losses of ``rows`` alone; T is scratch of rows * k."""
        times(rows.X, V, self.problem.bias, self.k, T)
        self.losses.fill_curvature(rows.P, T, rows.C, T)
        adjoint(rows.X, T, self.problem.bias, self.k, out)
        out[: self.n_penalised] += self.ridge * V[: self.n_penalised]

    def fill_gradient(self, state: RidgeState) -> None:
        """Compute the gradient of F from the probabilities."""
        if self.few is not None:
            problem = self.problem
            fill_slopes(
                *(self.few, self.P, problem.target, problem.C, self.k, self.ridge), state.weights, state.gradient
            )
            return
        self.losses.fill_gradient(self.P, self.trial, state.gradient)
        state.gradient[: self.n_penalised] += self.ridge * state.weights[: self.n_penalised]


class RidgeLine(NamedTuple):
    """F(W + t D) from the point of a state."""

    objective: RidgeObjective
    state: RidgeState
    D: Array
    penalty: float  # ridge / 2 |W|^2
    linear: float  # ridge <W, D>
    quadratic: float  # ridge |D|^2

    def curvature(self) -> float:
        """Return the second derivative at the start, before any trial."""
        at = self.objective
        at.losses.fill_curvature(at.P, at.T, at.problem.C, at.trial)
        return float(at.trial @ at.T) + self.quadratic

    def first_length(self, slope: float) -> float:
        """Return the Newton step from the start; 1 where the line does not bend."""
        curvature = self.curvature()
        return -slope / curvature if curvature > 0.0 else 1.0

    def evaluate(self, length: float) -> tuple[float, float, float]:
        """Return F at W + length D, its slope and its curvature; P becomes the probabilities there."""
        at = self.objective
        losses, slope, curvature = at.losses.along(self.state.scores, at.T, length, at.trial, at.P)
        value = losses + self.penalty + length * (self.linear + 0.5 * length * self.quadratic)
        return value, slope + self.linear + length * self.quadratic, curvature + self.quadratic

    def accept(self, length: float, value: float) -> None:
        """Move to the last trial, at ``length``."""
        state, at = self.state, self.objective
        state.weights += length * self.D
        state.scores, at.trial = at.trial, state.scores
        state.value = value
        state.n_steps += 1
        if state.n_steps % REFRESH == 0:
            at.recompute(state)
        at.fill_gradient(state)

    def reject(self) -> None:
        """Stay at the start."""
        self.objective.evaluate(self.state)
        self.state.n_steps += 1


class Damping(NamedTuple):
    """A share of its largest possible diagonal, added to a Hessian that gave a far too long step: nearly singular."""

    least: float = 1e-4  # the first share; by hand
    factor: float = 10.0  # between one share and the next; by hand
    short: float = 0.03  # a step below this share of its predicted length asks for more damping; by hand

    def after(self, damping: float, length: float, predicted: float = 1.0) -> float:
        """Return the next damping: less after a step of about the predicted length, else more, at most 1."""
        if length >= self.short * predicted:
            return damping / self.factor if damping > self.least else 0.0
        return min(max(self.least, self.factor * damping), 1.0)


class RidgeSolver(Resumable, Generic[State]):
    """What the solvers of ridge problems share: all but the step."""

    needs: ClassVar[tuple[type, ...]] = (RidgeProblem,)

    def point(self, problem: RidgeProblem, state: State) -> CompositePoint:
        """Return the current point, as a copy; intercepts of all classes have mean zero."""
        objective = self._objective(problem, state)
        point = objective.losses.unpack(state.weights)
        return point._replace(weights=objective.rotation.outward(point.weights))

    def estimate(self, problem: RidgeProblem, state: State) -> float:
        """Estimate the residual from the cached gradient: by eq. 6 the gap is |gradient|^2 / (2 ridge), W's part."""
        objective, value = self._objective(problem, state), state.value
        own, more = objective.n_penalised, objective.ridge - problem.ridge
        W, slopes = state.weights[:own], state.gradient[:own]
        if more != 0.0:
            slopes, value = slopes - more * W, value - 0.5 * more * float(W @ W)
        if problem.ridge == 0.0:
            weights, gradient = (objective.matrix(flat) for flat in (W, slopes))
            return problem.rough_residual(weights, value, gradient)
        return relative_gap(value, value - float(slopes @ slopes) / (2.0 * problem.ridge))

    def _new_objective(self, problem: RidgeProblem) -> RidgeObjective:
        return RidgeObjective(problem)

    def _objective(self, problem: RidgeProblem, state: State) -> RidgeObjective:
        """Return the objective of a state, built again after a checkpoint."""
        if state.objective is None:
            state.objective = self._rebuilt(problem, state)
            state.objective.evaluate(state)
        return state.objective

    def _rebuilt(self, problem: RidgeProblem, state: State) -> RidgeObjective:
        return self._new_objective(problem)


def class_squares(X: Any, weights: Array) -> Array:
    """Return sum_i weights_ic x_ij^2; shape (d, k), with one column of weights or whole tiles."""
    k = weights.shape[1]
    if isinstance(X, np.ndarray):
        n, d = X.shape

        def summed(some: slice) -> Any:
            blocks, own = row_blocks(X[some], k, numbers=max(CACHED, 4 * d * k)), weights[some]
            return sum((transposed_times(np.square(block), own[rows]) for rows, block in blocks), np.zeros((d, 1)))

        return np.asarray(sum(spread(summed, row_shares(n, d * k))))
    squares = csr_matrix((np.square(X.data), X.indices, X.indptr), shape=X.shape)
    out = np.empty((X.shape[1] + 1) * k)
    adjoint(squares, weights.ravel(), 0.0, k, out)
    return out[:-k].reshape(-1, k)
