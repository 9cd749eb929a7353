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
from softmargin.matrices.operator import row_blocks
from softmargin.matrices.rows import as_rows
from softmargin.problems.l2_svm import L2Point
from softmargin.solvers.parts.newton_passes import (
    add_squares,
    balanced_bias,
    exact_step,
    fill_adjoint,
    fill_forces,
    fill_products,
)

__all__ = ["NewtonState", "PrimalNewton"]

Array = NDArray[Any]

MODEST = 2000  # features for which a dense Hessian is formed
BLOCK = 1 << 16  # numbers of X widened to float64 at once, at least: few stay in the cache
FEW = 1 << 22  # numbers that rows may have to be laid out as an array
THIN, SHORT = 0.2, 16  # share of nonzero numbers, or their number in a row, up to which squares need no BLAS
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
    forces: Array = field(init=False, repr=False)  # (n,)
    move_scores: Array = field(init=False, repr=False)  # (n,)

    def __post_init__(self) -> None:
        """Allocate the scratch."""
        self.X = None
        self.forces, self.move_scores = np.empty_like(self.scores), np.empty_like(self.scores)


@dataclass(frozen=True)
class PrimalNewton:
    """Newton's method in (w, b), for the linear kernel; it has no settings. One step is one iteration."""

    needs: ClassVar[tuple[type, ...]] = (FreeBiasProblem,)

    def start(self, problem: Any, init: Any, rng: np.random.Generator) -> NewtonState:
        """Begin at w = 0, or at the weights of ``init``."""
        if not problem.gram.is_linear:
            raise IncompatibleError(
                f"PrimalNewton needs the linear kernel; the kernel is {problem.gram.kernel.name}. Use Smo."
            )
        X = _laid_out(problem.gram.X)
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

    def step(self, problem: Any, state: NewtonState) -> NewtonState:
        """Minimise the quadratic piece at hand; go there as far as P falls."""
        y, C = problem.y, problem.C
        gradient, pull, losses = _gradient(problem, state, state.bias)
        slack = 1.0 - y * (state.scores + state.bias)
        piece = _Piece((slack > 0.0) & (C > 0.0), gradient, pull, losses)
        move, centre = _solve(problem, state, piece)
        total = float(C[piece.active].sum())
        shift = -pull / total - float(centre @ move) if problem.has_bias and total > 0.0 else 0.0
        fill_products(as_rows(state.X), state.mean, move, state.move_scores)
        fall = y * (state.move_scores + shift)
        length = exact_step(float(state.weights @ move), float(move @ move), slack, fall, C)
        state.weights = state.weights + length * move
        state.bias += length * shift
        state.scores += length * state.move_scores
        return state

    def point(self, problem: Any, state: NewtonState) -> L2Point:
        """Return the weights with their best bias, and the dual point that their losses suggest."""
        bias = problem.best_bias(state.scores) - float(state.mean @ state.weights)
        return problem.primal_point(state.weights.copy(), bias)

    def estimate(self, problem: Any, state: NewtonState) -> float:
        """Return the relative gap at the best bias."""
        bias = balanced_bias(problem.y, problem.C, state.scores, state.bias) if problem.has_bias else 0.0
        gradient, _, losses = _gradient(problem, state, bias)
        primal = 0.5 * float(state.weights @ state.weights) + losses
        return duality_gap(primal, primal - 0.5 * float(gradient @ gradient)).residual

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> NewtonState:
        """Rebuild the state from a checkpoint."""
        return NewtonState(**arrays, **plain)


def _laid_out(X: Any) -> Any:
    """Return X as an array where it is small and sparse in name only."""
    is_array = isinstance(X, np.ndarray)
    return X if is_array or _is_thin(X) or np.prod(X.shape) > FEW else X.toarray()


def _is_thin(X: Any) -> bool:
    """Say whether squares of sparse rows are best summed entry by entry."""
    return bool(X.nnz <= max(THIN * X.shape[1], SHORT) * X.shape[0])


class _Piece(NamedTuple):
    """A quadratic piece of P, seen from (w, b)."""

    active: Array  # (n,) I
    gradient: Array  # (d,) g_w
    pull: float  # g_b
    losses: float  # 1/2 sum C xi^2


def _gradient(problem: Any, state: NewtonState, bias: float) -> tuple[Array, float, float]:
    """Return g_w, g_b (0 where there is no bias) and the losses."""
    if state.X is None:
        state.X = _laid_out(problem.gram.X)
    losses = fill_forces(problem.y, problem.C, state.scores, bias, state.forces)
    gradient = np.empty_like(state.weights)
    fill_adjoint(as_rows(state.X), state.mean, state.forces, gradient)
    np.subtract(state.weights, gradient, out=gradient)
    return gradient, -float(state.forces.sum()) if problem.has_bias else 0.0, losses


def _solve(problem: Any, state: NewtonState, piece: _Piece) -> tuple[Array, Array]:
    """Return the Newton move of w, and mu, in the cheapest way."""
    m, d = int(piece.active.sum()), len(state.weights)
    if 0 < m < d and m * d <= FEW:
        return _solve_by_samples(problem, state, piece)
    return (_solve_by_products if d > MODEST else _solve_dense)(problem, state, piece)


def _solve_by_samples(problem: Any, state: NewtonState, piece: _Piece) -> tuple[Array, Array]:
    """Return the Newton move of w, and mu, from a system with one unknown a sample of I."""
    rows, prices = state.X[piece.active], problem.C[piece.active]
    rows = (rows if isinstance(rows, np.ndarray) else rows.toarray()) - state.mean
    centre = (prices @ rows) / prices.sum() if problem.has_bias else np.zeros(rows.shape[1])
    A = np.sqrt(prices)[:, None] * (rows - centre)
    right = piece.pull * centre - piece.gradient
    return right - A.T @ _solve_positive(np.eye(len(A)) + A @ A.T, A @ right), centre


def _solve_dense(problem: Any, state: NewtonState, piece: _Piece) -> tuple[Array, Array]:
    """Return the Newton move of w, and mu."""
    X, d = state.X, state.X.shape[1]
    prices = np.where(piece.active, problem.C, 0.0)
    total, centre = float(prices.sum()), np.zeros(d)
    if problem.has_bias and total > 0.0:
        fill_adjoint(as_rows(X), state.mean, prices, centre)
        centre /= total
    hessian = np.eye(d)
    if not isinstance(X, np.ndarray) and _is_thin(X):
        add_squares(as_rows(X), prices, hessian)
        hessian -= np.multiply.outer(total * centre, centre)
    else:
        # Every block adds a whole (d, d) product, so blocks are larger than that.
        for rows, block in row_blocks(X[piece.active], 1, numbers=max(BLOCK, 2 * d * d)):
            block = block if isinstance(block, np.ndarray) else block.toarray()
            scaled = (block - (state.mean + centre)) * np.sqrt(prices[piece.active][rows])[:, None]
            hessian += scaled.T @ scaled
    return _solve_positive(hessian, piece.pull * centre - piece.gradient), centre


def _solve_positive(hessian: Array, right: Array) -> Array:
    """Solve by Cholesky, of which the upper triangle will do; by eigenvalues where rounding has eaten the identity."""
    if not len(right):
        return right
    _, x, trouble = dposv(hessian.T, right, lower=True)  # what is the upper triangle by rows is the lower by columns
    if trouble:
        values, vectors = np.linalg.eigh(hessian, UPLO="U")
        x = vectors @ ((vectors.T @ right) / np.maximum(values, 1.0))
    return x


def _solve_by_products(problem: Any, state: NewtonState, piece: _Piece) -> tuple[Array, Array]:
    """Return about the Newton move of w, and mu."""
    rows = state.X[piece.active].astype(np.float64, copy=False)
    prices = problem.C[piece.active]
    total = float(prices.sum())
    centre = (rows.T @ prices) / total if problem.has_bias and total > 0.0 else np.zeros(len(state.weights))
    squares = np.square(rows) if isinstance(rows, np.ndarray) else rows.multiply(rows)
    scale = 1.0 + MILD * np.maximum(squares.T @ prices - total * centre**2, 0.0)

    def product(v: Array) -> Array:
        return v + rows.T @ (prices * (rows @ v)) - (total * float(centre @ v)) * centre

    right = piece.pull * centre - piece.gradient
    # The gap is about |g|^2 / 2, so this is the root of the relative gap: it says how near the end is.
    primal = max(0.5 * float(state.weights @ state.weights) + piece.losses, np.finfo(float).tiny)
    exactness = float(np.clip(np.linalg.norm(right) / np.sqrt(2.0 * primal), MOST_EXACT, LEAST_EXACT))
    return _conjugate_gradients(product, right, scale, exactness), centre


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
