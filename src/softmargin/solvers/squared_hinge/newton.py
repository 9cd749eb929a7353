"""Finite Newton on the primal of the linear L2-SVM: few iterations, and no trouble with huge C or badly scaled X.

    P(w, b) = 1/2 |w|^2 + 1/2 sum_i C_i [1 - y_i (<w, x_i> + b)]_+^2                                       spec 1.8

P is quadratic on every piece where the set I = {i : xi_i > 0} stays the same. One step minimises the piece at hand and
goes from (w, b) to its minimiser as far as P falls, exactly: P along a line is piecewise quadratic too. The bias is
eliminated from the linear system, which leaves, with mu the C-weighted mean of I and M its total price,

    (identity + sum_I C_i (x_i - mu)(x_i - mu)') dw = -g_w + mu g_b ,    db = -g_b / M - <mu, dw>
    g_w = w - sum_i C_i xi_i y_i x_i ,    g_b = -sum_i C_i xi_i y_i

At the best b for w, g_b = 0: then a = C xi is feasible and the duality gap is exactly |g_w|^2 / 2. The descent itself
does not jump to that b: it would leave few samples in I, and the next piece would be a poor model.

    few in I    Cholesky in as many unknowns as I has samples: with A the rows sqrt(C_i) (x_i - mu)' of I,
                (identity + A'A)^-1 r = r - A' (identity + A A')^-1 A r
    modest d    Cholesky in d unknowns; columns of a dense X are centred, so that a large offset costs no digits
    large d     conjugate gradients, with a mild diagonal preconditioner, only as exact as g is small
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from softmargin.core.certificate import duality_gap
from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import FreeBiasProblem
from softmargin.matrices.layout import FEW, is_thin, laid_out
from softmargin.matrices.rows import add_squares, as_rows
from softmargin.problems.l2_svm import L2Point
from softmargin.solvers.squared_hinge._newton_loop import (
    fill_adjoint,
    fill_products,
    fill_scaled,
    look,
    walk,
)

__all__ = ["NewtonState", "PrimalNewton"]

Array = NDArray[Any]

MODEST = 2000  # features for which a dense Hessian is formed
BLOCK = 1 << 16  # numbers of X widened to float64 at once, at least: few stay in the cache
SHORT = 16  # numbers in a row up to which squares need no BLAS
LEAST_EXACT = 0.03  # relative residual at which conjugate gradients may stop
MOST_EXACT = 1e-12
MILD = 0.01  # share of the diagonal in the preconditioner; all of it takes more products on text
MAX_PRODUCTS = 500


@dataclass
class NewtonState:
    """Where the descent stands: arrays and plain numbers, so that a checkpoint can hold it, and scratch."""

    weights: Array  # (d,)
    bias: float  # of the centred columns
    mean: Array  # (d,) subtracted from the columns
    scores: Array  # (n,) of the centred columns
    X: Any = field(init=False, repr=False)  # (n, d) as it comes, or laid out; scratch from here on
    piece: Any = field(init=False, repr=False)  # what the estimate saw, where the next step begins
    prices: Array = field(init=False, repr=False)  # (n,)
    sums: Array = field(init=False, repr=False)  # (3, d)
    slack: Array = field(init=False, repr=False)  # (n,)
    fall: Array = field(init=False, repr=False)  # (n,)

    def __post_init__(self) -> None:
        """Allocate the scratch."""
        self.X = self.piece = None
        self.prices, self.slack, self.fall = np.empty((3, len(self.scores)))
        self.sums = np.empty((3, len(self.weights)))


class _Piece(NamedTuple):
    """A quadratic piece of P, seen from (w, b)."""

    prices: Array  # (n,) C_i in I, else 0
    total: float  # M
    centre: Array  # (d,) mu, of the centred columns
    gradient: Array  # (d,) g_w
    pull: float  # g_b
    primal: float  # P(w, b)
    residual: float  # relative gap at the best bias


@dataclass(frozen=True)
class PrimalNewton:
    """Newton's method in (w, b), for the linear kernel; it has no settings. One step is one iteration."""

    needs: ClassVar[tuple[type, ...]] = (FreeBiasProblem,)

    def start(self, problem: FreeBiasProblem, init: Any, rng: np.random.Generator) -> NewtonState:
        """Begin at w = 0, or at the weights of ``init``."""
        if not problem.gram.is_linear:
            raise IncompatibleError(
                f"PrimalNewton needs the linear kernel; the kernel is {problem.gram.kernel.name}. Use Smo."
            )
        X = laid_out(problem.gram.X, short=SHORT)
        n, d = X.shape
        mean = np.zeros(d)
        if isinstance(X, np.ndarray) and d <= MODEST and problem.has_bias:
            mean = X.mean(axis=0, dtype=np.float64)
        state = NewtonState(np.zeros(d), 0.0, mean, np.zeros(n))
        state.X = X
        if init is not None:
            if init.weights is None:
                fill_adjoint(as_rows(X), mean, problem.y * problem.feasible(init.alpha), state.weights)
            else:
                state.weights[:] = init.weights
            fill_products(as_rows(X), mean, state.weights, state.scores)
            state.bias = problem.best_bias(state.scores)
        return state

    def step(self, problem: FreeBiasProblem, state: NewtonState) -> NewtonState:
        """Minimise the quadratic piece at hand; go there as far as P falls."""
        piece = _seen(problem, state)
        move = _solve(state, piece)
        shift = -float(piece.centre @ move) - (piece.pull / piece.total if piece.total > 0.0 else 0.0)
        vectors = (state.weights, state.bias, state.scores, move, shift, state.slack, state.fall)
        state.bias += shift * walk(as_rows(state.X), state.mean, problem.y, problem.C, *vectors)
        state.piece = None
        return state

    def point(self, problem: FreeBiasProblem, state: NewtonState) -> L2Point:
        """Return the weights with their best bias, and the dual point that their losses suggest."""
        bias = problem.best_bias(state.scores) - float(state.mean @ state.weights)
        return problem.primal_point(state.weights.copy(), bias)

    def estimate(self, problem: FreeBiasProblem, state: NewtonState) -> float:
        """Return the relative gap at the best bias."""
        return _seen(problem, state).residual

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> NewtonState:
        """Rebuild the state from a checkpoint."""
        return NewtonState(**arrays, **plain)


def _seen(problem: FreeBiasProblem, state: NewtonState) -> _Piece:
    """Return the piece at hand, looked at once."""
    if state.X is None:
        state.X = laid_out(problem.gram.X, short=SHORT)
    if state.piece is None:
        forces, best_forces, centre = state.sums
        pull, total, losses, best_losses = look(
            as_rows(state.X),
            state.mean,
            problem.y,
            problem.C,
            state.scores,
            state.bias,
            problem.has_bias,
            state.prices,
            forces,
            best_forces,
            centre,
        )
        if problem.has_bias and total > 0.0:
            centre /= total
        else:
            pull, centre[:] = 0.0, 0.0
        half_square = 0.5 * float(state.weights @ state.weights)
        best, left = half_square + best_losses, state.weights - best_forces
        residual = duality_gap(best, best - 0.5 * float(left @ left)).residual
        gradient = state.weights - forces
        state.piece = _Piece(state.prices, total, centre, gradient, -pull, half_square + losses, residual)
    return state.piece


def _solve(state: NewtonState, piece: _Piece) -> Array:
    """Return the Newton move of w, in the cheapest way."""
    m, d = int(np.count_nonzero(piece.prices)), len(state.weights)
    if 0 < m < d and m * d <= FEW:
        return _solve_by_samples(state, piece)
    return (_solve_by_products if d > MODEST else _solve_dense)(state, piece)


def _solve_by_samples(state: NewtonState, piece: _Piece) -> Array:
    """Return the Newton move of w from a system with one unknown a sample of I."""
    A = np.empty((int(np.count_nonzero(piece.prices)), len(state.weights)))
    fill_scaled(as_rows(state.X), state.mean + piece.centre, piece.prices, 0, A)
    right = piece.pull * piece.centre - piece.gradient
    return right - A.T @ _solve_positive(np.eye(len(A)) + A @ A.T, A @ right)


def _solve_dense(state: NewtonState, piece: _Piece) -> Array:
    """Return the Newton move of w from a system with one unknown a feature."""
    rows, d = as_rows(state.X), len(state.weights)
    if is_thin(state.X, short=SHORT):
        hessian = np.multiply.outer(-piece.total * piece.centre, piece.centre)
        add_squares(rows, piece.prices, hessian)
    else:
        hessian, shift = np.zeros((d, d)), state.mean + piece.centre
        first, left = 0, int(np.count_nonzero(piece.prices))
        # Every block adds a whole (d, d) product, so blocks are larger than that.
        block = np.empty((min(left, max(BLOCK, 2 * d * d) // max(d, 1)), d))
        while left > 0:
            first, m = fill_scaled(rows, shift, piece.prices, first, block)
            hessian += block[:m].T @ block[:m]
            left -= m
    hessian.flat[:: d + 1] += 1.0
    return _solve_positive(hessian, piece.pull * piece.centre - piece.gradient)


def _solve_positive(hessian: Array, right: Array) -> Array:
    """Solve by Cholesky, of which the upper triangle will do; by eigenvalues where rounding has eaten the identity."""
    if not len(right):
        return right
    _, x, trouble = dposv(hessian.T, right, lower=True)  # what is the upper triangle by rows is the lower by columns
    if trouble:
        values, vectors = np.linalg.eigh(hessian, UPLO="U")
        x = vectors @ ((vectors.T @ right) / np.maximum(values, 1.0))
    return x


def _solve_by_products(state: NewtonState, piece: _Piece) -> Array:
    """Return about the Newton move of w."""
    active = piece.prices > 0.0
    rows, prices = state.X[active].astype(np.float64, copy=False), piece.prices[active]
    total, centre = piece.total, piece.centre
    squares = np.square(rows) if isinstance(rows, np.ndarray) else rows.multiply(rows)
    scale = 1.0 + MILD * np.maximum(squares.T @ prices - total * centre**2, 0.0)

    def product(v: Array) -> Array:
        return v + rows.T @ (prices * (rows @ v)) - (total * float(centre @ v)) * centre

    right = piece.pull * centre - piece.gradient
    # The gap is about |g|^2 / 2, so this is the root of the relative gap: it says how near the end is.
    primal = max(piece.primal, np.finfo(float).tiny)
    exactness = float(np.clip(np.linalg.norm(right) / np.sqrt(2.0 * primal), MOST_EXACT, LEAST_EXACT))
    return _conjugate_gradients(product, right, scale, exactness)


def _conjugate_gradients(product: Callable[[Array], Array], right: Array, scale: Array, exactness: float) -> Array:
    """Solve product(x) = right to a relative residual, preconditioned by the diagonal ``scale``."""
    x, residual = np.zeros_like(right), right.copy()
    direction = residual / scale
    size = float(residual @ direction)
    target = exactness * float(np.linalg.norm(right))
    for _ in range(MAX_PRODUCTS):
        if np.linalg.norm(residual) <= target:
            break
        image = product(direction)
        length = size / float(direction @ image)
        x += length * direction
        residual -= length * image
        ahead = residual / scale
        size, last = float(residual @ ahead), size
        direction = ahead + (size / last) * direction
    return x
