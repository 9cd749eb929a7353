"""Newton's method on the primal of the linear L2-SVM: few iterations, and robust to huge C and badly scaled X.

    P(w, b) = 1/2 |w|^2 + 1/2 sum_i C_i [1 - y_i (<w, x_i> + b)]_+^2                     maths: squared hinge, section 7

P is quadratic on every piece where the set I = {i : xi_i > 0} stays the same. One step minimises the current piece and
goes from (w, b) towards its minimiser, by the step that minimises P exactly: P along a line is piecewise quadratic too.
The bias is eliminated from the linear system, which leaves, with mu the C-weighted mean of I and M its total price,

    (identity + sum_I C_i (x_i - mu)(x_i - mu)') dw = -g_w + mu g_b ,    db = -g_b / M - <mu, dw>
    g_w = w - sum_i C_i xi_i y_i x_i ,    g_b = -sum_i C_i xi_i y_i

At the best b for w, g_b = 0: then a = C xi is feasible and the duality gap is exactly |g_w|^2 / 2. The descent itself
does not set b to that value: it would leave few samples in I, and the next piece would be a poor model.

    few in I    Cholesky with one unknown per sample of I: with A the rows sqrt(C_i) (x_i - mu)' of I,
                (identity + A'A)^-1 r = r - A' (identity + A A')^-1 A r
    modest d    Cholesky in d unknowns; columns of a dense X are centred, so that a large offset costs no digits
    large d     conjugate gradients, with a mild diagonal preconditioner, only as exact as g is small

Source: the finite Newton method of Keerthi and DeCoste (2005). We differ: the bias is not penalised, and eliminated.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from softmargin.core.certificate import relative_gap
from softmargin.core.deadline import check_time
from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import SquaredHingeProblem
from softmargin.matrices.operator import FEW, is_thin, laid_out
from softmargin.matrices.rows import add_squares, as_rows
from softmargin.problems.free_bias import BiasPoint
from softmargin.solvers.common.conjugate_gradients import conjugate_gradients
from softmargin.solvers.common.resumable import Resumable
from softmargin.solvers.squared_hinge._newton_loop import (
    CentredSamples,
    PieceSums,
    evaluate_piece,
    fill_adjoint,
    fill_products,
    fill_scaled,
    minimise_along,
)

__all__ = ["NewtonState", "PrimalNewton", "PrimalNewtonTuning"]

Array = NDArray[Any]


class PrimalNewtonTuning(NamedTuple):
    """When each way to solve the Newton system is used, and how exactly it is solved."""

    dense_features: int = 2000  # most features for which a dense Hessian is formed; by hand
    block: int = 1 << 16  # numbers of X converted to float64 at once, at least: they stay in the cache; by hand
    short: int = 16  # entries per row up to which a loop over pairs of them replaces BLAS; by hand
    least_exact: float = 0.03  # relative residual at which conjugate gradients may stop; by hand
    most_exact: float = 1e-12  # the smallest residual asked of them; by hand
    diagonal_share: float = 0.01  # of the diagonal in the preconditioner; measured: 1 takes more products on text
    max_products: int = 500  # of one solve by conjugate gradients; by hand


@dataclass
class NewtonState:
    """The iterate, which a checkpoint holds, and scratch."""

    weights: Array  # (d,)
    bias: float  # of the centred columns
    mean: Array  # (d,) subtracted from the columns
    scores: Array  # (n,) of the centred columns
    X: Any = field(default=None, init=False, repr=False)  # (n, d) as given, or as an array; scratch from here on
    samples: CentredSamples | None = field(default=None, init=False, repr=False)
    piece: "_Piece | None" = field(default=None, init=False, repr=False)  # at the iterate, once evaluated
    sums: PieceSums = field(init=False, repr=False)
    slack: Array = field(init=False, repr=False)  # (n,)
    fall: Array = field(init=False, repr=False)  # (n,)

    def __post_init__(self) -> None:
        """Allocate the scratch."""
        prices, self.slack, self.fall = np.empty((3, len(self.scores)))
        self.sums = PieceSums(prices, *np.empty((3, len(self.weights))))


class _Piece(NamedTuple):
    """The quadratic piece of P at (w, b)."""

    prices: Array  # (n,) C_i in I, else 0
    total: float  # M
    centre: Array  # (d,) mu, of the centred columns
    right: Array  # (d,) -g_w + mu g_b
    pull: float  # g_b
    primal: float  # P(w, b)
    residual: float  # relative gap at the best bias


@dataclass(frozen=True)
class PrimalNewton(Resumable):
    """Newton's method in (w, b), for the linear kernel; it has no settings. One step is one iteration."""

    tuning: PrimalNewtonTuning = PrimalNewtonTuning()

    needs: ClassVar[tuple[type, ...]] = (SquaredHingeProblem,)
    state_type = NewtonState

    def start(self, problem: SquaredHingeProblem, init: BiasPoint | None, rng: np.random.Generator) -> NewtonState:
        """Begin at w = 0, or at the weights of ``init``."""
        gram = problem.gram
        if not gram.is_linear:
            raise IncompatibleError(f"PrimalNewton needs the linear kernel; the kernel is {gram.kernel.name}. Use Smo.")
        n, d = gram.X.shape
        state = NewtonState(np.zeros(d), 0.0, np.zeros(d), np.zeros(n))
        samples = self._samples(problem, state)
        if isinstance(state.X, np.ndarray) and d <= self.tuning.dense_features and problem.has_bias:
            state.mean[:] = state.X.mean(axis=0, dtype=np.float64)
        if init is not None:
            if init.weights is None:
                fill_adjoint(samples.rows, state.mean, problem.y * problem.feasible(init.alpha), state.weights)
            else:
                state.weights[:] = init.weights
            fill_products(samples.rows, state.mean, state.weights, state.scores)
            state.bias = problem.best_bias(state.scores)
        return state

    def step(self, problem: SquaredHingeProblem, state: NewtonState) -> NewtonState:
        """Minimise the quadratic piece, and P on the line towards its minimiser."""
        piece = self._evaluate(problem, state)
        move = _solve(state, piece, self.tuning)
        shift = -float(piece.centre @ move) - (piece.pull / piece.total if piece.total > 0.0 else 0.0)
        iterate, scratch = (state.weights, state.bias, state.scores), (state.slack, state.fall)
        state.bias += shift * minimise_along(state.samples, *iterate, move, shift, *scratch)
        state.piece = None
        return state

    def point(self, problem: SquaredHingeProblem, state: NewtonState) -> Any:
        """Return the weights with their best bias, and the dual point that their losses imply."""
        bias = problem.best_bias(state.scores) - float(state.mean @ state.weights)
        return problem.primal_point(state.weights.copy(), bias)

    def estimate(self, problem: SquaredHingeProblem, state: NewtonState) -> float:
        """Return the relative gap at the best bias."""
        return self._evaluate(problem, state).residual

    def _samples(self, problem: SquaredHingeProblem, state: NewtonState) -> CentredSamples:
        """Return the samples; they are prepared once per run."""
        if state.samples is None:
            state.X = laid_out(problem.gram.X, short=self.tuning.short)
            state.samples = CentredSamples(as_rows(state.X), state.mean, problem.y, problem.C, problem.has_bias)
        return state.samples

    def _evaluate(self, problem: SquaredHingeProblem, state: NewtonState) -> _Piece:
        """Return the current piece; each is evaluated once."""
        if state.piece is not None:
            return state.piece
        samples, weights = self._samples(problem, state), state.weights
        prices, forces, best_forces, centre = state.sums
        pull, total, losses, best_losses = evaluate_piece(samples, state.scores, state.bias, state.sums)
        if problem.has_bias and total > 0.0:
            centre /= total
        else:
            pull, centre[:] = 0.0, 0.0
        half_square = 0.5 * float(weights @ weights)
        best, gradient = half_square + best_losses, weights - best_forces
        residual = relative_gap(best, best - 0.5 * float(gradient @ gradient))
        right = -pull * centre - (weights - forces)
        state.piece = _Piece(prices, total, centre, right, -pull, half_square + losses, residual)
        return state.piece


def _solve(state: NewtonState, piece: _Piece, tuning: PrimalNewtonTuning) -> Array:
    """Return the Newton move of w, in the cheapest way."""
    m, d = int(np.count_nonzero(piece.prices)), len(state.weights)
    if 0 < m < d and m * d <= FEW:
        return _solve_by_samples(state, piece)
    return (_solve_by_products if d > tuning.dense_features else _solve_dense)(state, piece, tuning)


def _solve_by_samples(state: NewtonState, piece: _Piece) -> Array:
    """Return the Newton move of w from a system with one unknown per sample of I."""
    m, d = int(np.count_nonzero(piece.prices)), len(state.weights)
    check_time(float(m) ** 2 * (d + m / 3.0))
    A = np.empty((int(np.count_nonzero(piece.prices)), len(state.weights)))
    fill_scaled(as_rows(state.X), state.mean + piece.centre, piece.prices, 0, A)
    return piece.right - A.T @ _solve_positive(np.eye(len(A)) + A @ A.T, A @ piece.right)


def _solve_dense(state: NewtonState, piece: _Piece, tuning: PrimalNewtonTuning) -> Array:
    """Return the Newton move of w from a system with one unknown per feature."""
    rows, d = as_rows(state.X), len(state.weights)
    check_time(d**3.0 / 3.0)
    if is_thin(state.X, short=tuning.short):
        hessian = np.multiply.outer(-piece.total * piece.centre, piece.centre)
        add_squares(rows, piece.prices, hessian)
    else:
        hessian, shift = np.zeros((d, d)), state.mean + piece.centre
        first, left = 0, int(np.count_nonzero(piece.prices))
        # Every block adds a whole (d, d) product, so blocks are larger than that.
        block = np.empty((min(left, max(tuning.block, 2 * d * d) // max(d, 1)), d))
        while left > 0:
            check_time(len(block) * float(d) ** 2)
            first, m = fill_scaled(rows, shift, piece.prices, first, block)
            hessian += block[:m].T @ block[:m]
            left -= m
    hessian.flat[:: d + 1] += 1.0
    return _solve_positive(hessian, piece.right)


def _solve_positive(hessian: Array, right: Array) -> Array:
    """Solve by Cholesky, from the upper triangle alone; by eigenvalues where rounding has lost the identity."""
    if not len(right):
        return right
    x: Array
    _, x, failed = dposv(hessian.T, right, lower=True)  # the upper triangle by rows is the lower one by columns
    if failed:
        values, vectors = np.linalg.eigh(hessian, UPLO="U")
        x = vectors @ ((vectors.T @ right) / np.maximum(values, 1.0))
    return x


def _solve_by_products(state: NewtonState, piece: _Piece, tuning: PrimalNewtonTuning) -> Array:
    """Return the Newton move of w approximately, by conjugate gradients."""
    active = piece.prices > 0.0
    rows, prices = state.X[active].astype(np.float64, copy=False), piece.prices[active]
    total, centre, right = piece.total, piece.centre, piece.right
    squares = np.square(rows) if isinstance(rows, np.ndarray) else rows.multiply(rows)
    scale = 1.0 + tuning.diagonal_share * np.maximum(squares.T @ prices - total * centre**2, 0.0)

    def product(v: Array, out: Array) -> None:
        np.add(v, rows.T @ (prices * (rows @ v)), out=out)
        out -= (total * float(centre @ v)) * centre

    # The gap is about |g|^2 / 2, so this is the root of the relative gap: the solution is as exact as w is near.
    primal = max(piece.primal, np.finfo(float).tiny)
    exactness = float(np.clip(np.linalg.norm(right) / np.sqrt(2.0 * primal), tuning.most_exact, tuning.least_exact))
    return conjugate_gradients(
        product, right, lambda V: V / scale, exactness, is_euclidean=True, max_products=tuning.max_products
    ).x
