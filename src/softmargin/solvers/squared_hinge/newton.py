"""Newton's method on the primal of the linear L2-SVM: few iterations, and robust to huge C and badly scaled X.

    P(w, b) = 1/2 |w|^2 + 1/2 sum_i C_i [1 - y_i (<w, x_i> + b)]_+^2                     maths: squared hinge, section 7

P is quadratic on every piece where the set I = {i : xi_i > 0} stays the same. One step minimises the current piece and
goes from (w, b) towards its minimiser, by the step that minimises P exactly: P along a line is piecewise quadratic too.
The bias is eliminated from the linear system, which leaves, with mu the C-weighted mean of I and M its total price,

    (identity + sum_I C_i (x_i - mu)(x_i - mu)') dw = -g_w + mu g_b ,    db = -g_b / M - <mu, dw>
    g_w = w - sum_i C_i xi_i y_i x_i ,    g_b = -sum_i C_i xi_i y_i

Where features differ in scale, weak directions make the whole move too long, and a few samples that meet their kinks
soon hold back all of it. Then lambda |dw|^2 / 2 is added to the model, so that the matrix is (1 + lambda) identity and
the sum: lambda is the curvature along the move that was cut short, grows with every other one, and goes with the first
that is not.

At the best b for w, g_b = 0: then a = C xi is feasible and the duality gap is exactly |g_w|^2 / 2. The descent itself
does not set b to that value: it would leave few samples in I, and the next piece would be a poor model.

    few in I    Cholesky with one unknown per sample of I: with A the rows sqrt(C_i) (x_i - mu)' of I,
                (rho + A'A)^-1 r = (r - A' (rho + A A')^-1 A r) / rho ,    rho = 1 + lambda
    modest d    Cholesky in d unknowns; columns of a dense X are centred, so that a large offset costs no digits. The
                sum over I follows the samples that enter and leave I, as late pieces differ in few of them
    large d     conjugate gradients, with a mild diagonal preconditioner, only as exact as g is small; where they take
                more work than Cholesky in the samples of I, that finishes

The minimiser of a piece implies a dual point too, a_i = C_i (1 - y_i f_i) on I, f its scores: w = sum a y x holds there
exactly. Where it has negative entries, these become zero, both sides are scaled to one sum, and the whole to the best
multiple (maths: squared hinge, section 7). On data of wild scales it bounds the optimum long before a = C xi does.

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
from softmargin.matrices.operator import FEW, SCATTERED, is_thin, laid_out
from softmargin.matrices.rows import add_squares, as_rows, weighted_squares
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
    fewest_products: int = 50  # of one solve, however few samples there are; by hand
    most_samples: int = 3000  # with one unknown each, for sparse X of many features: 72 MB; by hand
    scattered: float = SCATTERED  # BLAS multiplications in the time of one that scatters its result
    kept_features: int = 1000  # most for which the sum over I is kept between steps: 8 MB for every class; by hand
    long: int = 100  # entries per row above which the squares of rows take most of a step; by hand
    sampled: int = 8  # rows per feature of the first sum over I, where all rows are many more; by hand
    cut: float = 0.3  # a step below this part of its move was cut short: lambda grows; measured on mnist 0..255
    whole: float = 0.4  # a step above it was not: the next move has no lambda
    growth: float = 10.0  # of lambda


@dataclass
class NewtonState:
    """The iterate, which a checkpoint holds, and scratch."""

    weights: Array  # (d,)
    bias: float  # of the centred columns
    mean: Array  # (d,) subtracted from the columns
    scores: Array  # (n,) of the centred columns
    alpha: Array  # (n,) the best dual point that a piece implied
    held: Array  # (n,) prices of the rows in ``squares``; empty where that is not kept
    squares: Array  # (d, d) sum of held_i (x_i - mean)(x_i - mean)', its upper triangle
    bound: float = 0.0  # the dual value at alpha
    drift: int = 0  # rows by which ``squares`` was changed since it was summed afresh
    damping: float = 0.0  # lambda
    is_hard: bool = False  # conjugate gradients took too much work
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
    is_behind: bool  # the losses there imply no better dual point than an earlier piece, or zero


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
        is_kept = d <= min(self.tuning.kept_features, self.tuning.dense_features) and _has_long_rows(
            gram.X, self.tuning
        )
        held, squares = (np.zeros(n), np.zeros((d, d))) if is_kept else (np.zeros(0), np.zeros((0, 0)))
        state = NewtonState(np.zeros(d), 0.0, np.zeros(d), np.zeros(n), np.zeros(n), held, squares)
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
        length = minimise_along(state.samples, *iterate, move, shift, *scratch)
        state.bias += shift * length
        _adapt_damping(state, length, move, piece.right, self.tuning)
        if piece.is_behind:
            _note_dual(problem, state, piece)
        state.piece = None
        return state

    def point(self, problem: SquaredHingeProblem, state: NewtonState) -> Any:
        """Return the weights with their best bias, and the better of the dual points of their losses and of a piece."""
        bias = problem.best_bias(state.scores) - float(state.mean @ state.weights)
        if self._evaluate(problem, state).is_behind:
            return BiasPoint(state.alpha.copy(), bias, state.weights.copy())
        return problem.primal_point(state.weights.copy(), bias)

    def estimate(self, problem: SquaredHingeProblem, state: NewtonState) -> float:
        """Return the relative gap at the best bias."""
        return self._evaluate(problem, state).residual

    def primal_value(self, problem: SquaredHingeProblem, state: NewtonState) -> float:
        """Return P at the iterate."""
        return self._evaluate(problem, state).primal

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
        own = best - 0.5 * float(gradient @ gradient)
        residual = relative_gap(best, max(own, state.bound))
        right = -pull * centre - (weights - forces)
        state.piece = _Piece(
            prices, total, centre, right, -pull, half_square + losses, residual, is_behind=own <= state.bound
        )
        return state.piece


def _adapt_damping(state: NewtonState, length: float, move: Array, right: Array, tuning: PrimalNewtonTuning) -> None:
    """Choose lambda by the length of the last step."""
    square = float(move @ move)
    curvature = float(move @ right) / square if square > 0.0 else 0.0
    if length < tuning.cut:
        state.damping = max(tuning.growth * state.damping, curvature)
    elif length > tuning.whole:
        state.damping = 0.0


def _solve(state: NewtonState, piece: _Piece, tuning: PrimalNewtonTuning) -> Array:
    """Return the Newton move of w, in the cheapest way."""
    m, d = int(np.count_nonzero(piece.prices)), len(state.weights)
    if 0 < m < d and m * d <= FEW:
        return _solve_by_samples(state, piece)
    if d <= tuning.dense_features:
        return _solve_dense(state, piece, tuning)
    may_factor = 0 < m <= tuning.most_samples and not isinstance(state.X, np.ndarray)
    if state.is_hard and may_factor:
        return _solve_by_sparse_samples(state, piece)
    move, is_exact = _solve_by_products(state, piece, tuning, may_factor=may_factor)
    if is_exact:
        return move
    state.is_hard = True
    return _solve_by_sparse_samples(state, piece) if may_factor else move


def _solve_by_samples(state: NewtonState, piece: _Piece) -> Array:
    """Return the Newton move of w from a system with one unknown per sample of I."""
    m, d = int(np.count_nonzero(piece.prices)), len(state.weights)
    check_time(float(m) ** 2 * (d + m / 3.0))
    A = np.empty((m, d))
    fill_scaled(as_rows(state.X), state.mean + piece.centre, piece.prices, 0, A)
    rho, gram = 1.0 + state.damping, A @ A.T
    gram.flat[:: m + 1] += rho
    return (piece.right - A.T @ _solve_positive(gram, A @ piece.right)) / rho


def _solve_by_sparse_samples(state: NewtonState, piece: _Piece) -> Array:
    """Return the same, for sparse rows that are never centred one by one."""
    active = np.flatnonzero(piece.prices)
    m, rows, roots = len(active), state.X[active].astype(np.float64, copy=False), np.sqrt(piece.prices[active])
    check_time(m**3.0 / 3.0)
    along = rows @ piece.centre
    gram = (rows @ rows.T).toarray()
    gram -= along[:, None] + (along - piece.centre @ piece.centre)
    gram *= np.multiply.outer(roots, roots)
    rho = 1.0 + state.damping
    gram.flat[:: m + 1] += rho
    u = roots * _solve_positive(gram, roots * (rows @ piece.right - float(piece.centre @ piece.right)))
    return np.asarray(piece.right - rows.T @ u + float(u.sum()) * piece.centre) / rho


def _solve_dense(state: NewtonState, piece: _Piece, tuning: PrimalNewtonTuning) -> Array:
    """Return the Newton move of w from a system with one unknown per feature."""
    d, prices = len(state.weights), piece.prices
    m = int(np.count_nonzero(prices))
    check_time(d**3.0 / 3.0)
    is_first = d > 0 and not state.weights.any() and _has_long_rows(state.X, tuning)
    stride = m // (2 * tuning.sampled * d) if is_first else 0
    if stride > 1:  # the first piece is a poor model of P: some rows tell as much of it, and the diagonal of all
        few = np.zeros_like(prices)
        few[np.flatnonzero(prices)[::stride]] = stride * prices[np.flatnonzero(prices)[::stride]]
        squares = _squares(state, few, tuning)
        diagonal = np.zeros(d)
        weighted_squares(as_rows(state.X), prices, diagonal)
        diagonal -= state.mean * (2.0 * piece.total * piece.centre + piece.total * state.mean)
        squares.flat[:: d + 1] = np.maximum(squares.flat[:: d + 1], diagonal)
    elif len(state.held):
        change = prices - state.held
        state.drift += int(np.count_nonzero(change))
        if state.drift > m or not state.held.any():
            state.squares, state.drift, change = np.zeros((d, d)), 0, prices
        state.squares += _squares(state, change, tuning)
        state.held[:] = prices
        squares = state.squares.copy()
    else:
        squares = _squares(state, prices, tuning)
    squares -= np.multiply.outer(piece.total * piece.centre, piece.centre)
    squares.flat[:: d + 1] += 1.0 + state.damping
    return _solve_positive(squares, piece.right)


def _has_long_rows(X: Any, tuning: PrimalNewtonTuning) -> bool:
    """Say whether the squares of the rows take most of a step."""
    return bool(X.shape[1] > tuning.long if isinstance(X, np.ndarray) else X.nnz > tuning.long * X.shape[0])


def _squares(state: NewtonState, prices: Array, tuning: PrimalNewtonTuning) -> Array:
    """Return the upper triangle of sum_i c_i (x_i - mean)(x_i - mean)'; prices may be negative."""
    rows, d = as_rows(state.X), len(state.weights)
    squares = np.zeros((d, d))
    if is_thin(state.X, short=tuning.short):
        check_time(tuning.scattered * state.X.nnz**2 / max(len(prices), 1))
        add_squares(rows, prices, squares)
        return squares
    for sign in (1.0, -1.0) if prices.min(initial=0.0) < 0.0 else (1.0,):
        one_sided = np.maximum(sign * prices, 0.0)
        first, left = 0, int(np.count_nonzero(one_sided))
        # Every block adds a whole (d, d) product, so blocks are larger than that.
        block = np.empty((min(left, max(tuning.block, 2 * d * d) // max(d, 1)), d))
        while left > 0:
            check_time(len(block) * float(d) ** 2)
            first, m = fill_scaled(rows, state.mean, one_sided, first, block)
            squares += sign * (block[:m].T @ block[:m])
            left -= m
    return squares


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


def _solve_by_products(
    state: NewtonState, piece: _Piece, tuning: PrimalNewtonTuning, *, may_factor: bool
) -> tuple[Array, bool]:
    """Return the Newton move of w approximately, by conjugate gradients, and whether it is as exact as asked for."""
    active = piece.prices > 0.0
    rows, prices = state.X[active].astype(np.float64, copy=False), piece.prices[active]
    total, centre, right, rho = piece.total, piece.centre, piece.right, 1.0 + state.damping
    squares = np.square(rows) if isinstance(rows, np.ndarray) else rows.multiply(rows)
    scale = rho + tuning.diagonal_share * np.maximum(squares.T @ prices - total * centre**2, 0.0)

    columns, pull, inverse = rows.T, total * centre, 1.0 / scale

    def product(v: Array, out: Array) -> None:
        np.multiply(v, rho, out=out)
        out += columns @ (prices * (rows @ v))
        if total > 0.0:
            out -= float(centre @ v) * pull

    # The gap is about |g|^2 / 2, so this is the root of the relative gap: the solution is as exact as w is near.
    primal = max(piece.primal, np.finfo(float).tiny)
    exactness = float(np.clip(np.linalg.norm(right) / np.sqrt(2.0 * primal), tuning.most_exact, tuning.least_exact))
    budget = tuning.max_products
    if may_factor:  # as much work as Cholesky in the samples
        factor = len(prices) ** 3.0 / (3.0 * tuning.scattered)
        budget = int(np.clip(factor / (2.0 * rows.nnz + 1.0), min(tuning.fewest_products, budget), budget))
    solved = conjugate_gradients(
        product, right, lambda V: V * inverse, exactness, is_euclidean=True, max_products=budget
    )
    return solved.x, float(np.linalg.norm(solved.residual)) <= exactness * float(np.linalg.norm(right))


def _note_dual(problem: SquaredHingeProblem, state: NewtonState, piece: _Piece) -> None:
    """Keep the dual point of the minimiser of the piece, if it has the largest dual value so far."""
    ahead = np.where(piece.prices > 0.0, np.maximum(problem.C * (state.slack - state.fall), 0.0), 0.0)
    alpha = ahead
    if problem.has_bias:
        net, both = float(problem.y @ ahead), float(ahead.sum())
        sides = np.maximum([0.5 * (both + net), 0.5 * (both - net)], np.finfo(float).tiny)
        alpha = ahead * np.where(problem.y > 0.0, *(sides.min() / sides))
    weights = np.empty_like(state.weights)
    fill_adjoint(as_rows(state.X), state.mean, problem.y * alpha, weights)
    linear, square = float(alpha.sum()), float(weights @ weights + alpha @ (alpha * problem.inverse_C))
    bound = 0.5 * linear * (linear / square) if square > 0.0 else 0.0  # of the best multiple
    if bound > state.bound:
        state.alpha, state.bound = alpha * (linear / square), bound
