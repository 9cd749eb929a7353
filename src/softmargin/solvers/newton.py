"""Finite Newton on the primal of the linear L2-SVM: few iterations, and no trouble with huge C or badly scaled X.

    P(w, b) = 1/2 |w|^2 + 1/2 sum_i C_i [1 - y_i (<w, x_i> + b)]_+^2                                       spec 1.8

P is quadratic on every piece where the set I = {i : xi_i > 0} stays the same. One step minimises the piece at hand and
goes from (w, b) to its minimiser as far as P falls, exactly: P along a line is piecewise quadratic too. The bias is
eliminated from the linear system, which leaves, with mu the C-weighted mean of I and M its total price,

    (identity + sum_I C_i (x_i - mu)(x_i - mu)') dw = -g_w + mu g_b ,    db = -g_b / M - <mu, dw>
    g_w = w - sum_i C_i xi_i y_i x_i ,    g_b = -sum_i C_i xi_i y_i

At the best b for w, g_b = 0: then a = C xi is feasible and the duality gap is exactly |g_w|^2 / 2. The descent itself
does not jump to that b: it would leave few samples in I, and the next piece would be a poor model.

    modest d    Cholesky; columns of a dense X are centred, so that a large offset costs no digits
    large d     conjugate gradients, with a mild diagonal preconditioner, only as exact as g is small
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from softmargin.core.certificate import duality_gap
from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import FreeBiasProblem
from softmargin.matrices.operator import row_blocks
from softmargin.problems.l2_svm import L2Point

__all__ = ["NewtonState", "PrimalNewton"]

Array = NDArray[Any]

MODEST = 2000  # features for which a dense Hessian is formed
BLOCK = 1 << 20  # numbers of X widened to float64 at once
THIN = 0.1  # share of nonzero numbers below which a sparse product is faster than a dense one
LEAST_EXACT = 0.03  # relative residual at which conjugate gradients may stop
MOST_EXACT = 1e-12
MILD = 0.01  # share of the diagonal in the preconditioner; all of it takes more products on text
MAX_PRODUCTS = 500
MAX_PASSES = 100
ROUNDING = 1e-15


@dataclass
class NewtonState:
    """Where the descent stands."""

    weights: Array  # (d,)
    bias: float  # of the centred columns
    mean: Array  # (d,) subtracted from the columns
    scores: Array  # (n,) of the centred columns


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
        X = problem.gram.X
        d = X.shape[1]
        mean = np.zeros(d)
        if isinstance(X, np.ndarray) and d <= MODEST and problem.has_bias:
            mean = X.mean(axis=0, dtype=np.float64)
        weights = np.zeros(d)
        if init is not None:
            alpha = problem.feasible(init.alpha)
            weights = _adjoint(X, mean, problem.y * alpha) if init.weights is None else np.array(init.weights)
        state = NewtonState(weights, 0.0, mean, _products(X, mean, weights))
        if init is not None:
            state.bias = problem.best_bias(state.scores)
        return state

    def step(self, problem: Any, state: NewtonState) -> NewtonState:
        """Minimise the quadratic piece at hand; go there as far as P falls."""
        y, C, inside = problem.y, problem.C, problem.C > 0.0
        slack = 1.0 - y * (state.scores + state.bias)
        piece = _Piece((slack > 0.0) & inside, *_gradient(problem, state, state.bias))
        solve = _solve_by_products if len(state.weights) > MODEST else _solve_dense
        move, centre = solve(problem, state, piece)
        total = float(C[piece.active].sum())
        shift = -piece.pull / total - float(centre @ move) if problem.has_bias and total > 0.0 else 0.0
        scores = _products(problem.gram.X, state.mean, move)
        fall = y * (scores + shift)
        length = _exact_step(state.weights, move, slack[inside], fall[inside], C[inside])
        state.weights = state.weights + length * move
        state.bias += length * shift
        state.scores += length * scores
        return state

    def point(self, problem: Any, state: NewtonState) -> L2Point:
        """Return the weights with their best bias, and the dual point that their losses suggest."""
        bias = problem.best_bias(state.scores) - float(state.mean @ state.weights)
        return problem.primal_point(state.weights.copy(), bias)

    def estimate(self, problem: Any, state: NewtonState) -> float:
        """Return the relative gap at the best bias."""
        bias = problem.best_bias(state.scores)
        gradient, _ = _gradient(problem, state, bias)
        losses = 0.5 * float(problem.C @ np.square(problem.slacks(state.scores, bias)))
        primal = 0.5 * float(state.weights @ state.weights) + losses
        return duality_gap(primal, primal - 0.5 * float(gradient @ gradient)).residual

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> NewtonState:
        """Rebuild the state from a checkpoint."""
        return NewtonState(**arrays, **plain)


class _Piece(NamedTuple):
    """A quadratic piece of P, seen from (w, b)."""

    active: Array  # (n,) I
    gradient: Array  # (d,) g_w
    pull: float  # g_b


def _blocks(X: Any, mean: Array) -> Iterator[tuple[slice, Any]]:
    """Yield (rows, block): rows of X in float64, less the mean."""
    for rows, block in row_blocks(X, 1, numbers=BLOCK):
        yield rows, block - mean if mean.any() else block


def _products(X: Any, mean: Array, weights: Array) -> Array:
    """Return the scores of all samples; shape (n,)."""
    return np.concatenate([np.asarray(block @ weights) for _, block in _blocks(X, mean)])


def _adjoint(X: Any, mean: Array, u: Array) -> Array:
    """Return sum_i u_i x_i; shape (d,)."""
    total = np.zeros(X.shape[1])
    for rows, block in _blocks(X, mean):
        total += block.T @ u[rows]
    return total


def _gradient(problem: Any, state: NewtonState, bias: float) -> tuple[Array, float]:
    """Return g_w and g_b (0 where there is no bias)."""
    forces = problem.y * problem.C * problem.slacks(state.scores, bias)
    pull = -float(forces.sum()) if problem.has_bias else 0.0
    return state.weights - _adjoint(problem.gram.X, state.mean, forces), pull


def _solve_dense(problem: Any, state: NewtonState, piece: _Piece) -> tuple[Array, Array]:
    """Return the Newton move of w, and mu."""
    X, active = problem.gram.X, piece.active
    prices = np.where(active, problem.C, 0.0)
    centre = np.zeros(X.shape[1])
    if problem.has_bias and active.any():
        centre = _adjoint(X, state.mean, prices) / prices.sum()
    hessian = np.eye(X.shape[1])
    for rows, block in _blocks(X, state.mean):
        hessian += _weighted_square(block[active[rows]], centre, problem.C[rows][active[rows]])
    return _solve_positive(hessian, piece.pull * centre - piece.gradient), centre


def _weighted_square(rows: Any, centre: Array, prices: Array) -> Array:
    """Return sum_i C_i (x_i - mu)(x_i - mu)' over some rows; shape (d, d)."""
    roots = np.sqrt(prices)[:, None]
    if not isinstance(rows, np.ndarray):
        if rows.nnz < THIN * rows.shape[0] * rows.shape[1]:
            scaled = rows.multiply(roots).tocsr()
            cross = np.outer(rows.T @ prices, centre)
            return (scaled.T @ scaled).toarray() - cross - cross.T + prices.sum() * np.outer(centre, centre)
        rows = rows.toarray()
    scaled = (rows - centre) * roots
    return scaled.T @ scaled


def _solve_positive(hessian: Array, right: Array) -> Array:
    """Solve by Cholesky; by eigenvalues where rounding has eaten the identity in a huge Hessian."""
    if not len(right):
        return right
    try:
        return cho_solve(cho_factor(hessian, check_finite=False), right, check_finite=False)
    except LinAlgError:
        values, vectors = np.linalg.eigh(hessian)
        return vectors @ ((vectors.T @ right) / np.maximum(values, 1.0))


def _solve_by_products(problem: Any, state: NewtonState, piece: _Piece) -> tuple[Array, Array]:
    """Return about the Newton move of w, and mu."""
    rows = problem.gram.X[piece.active].astype(np.float64, copy=False)
    prices = problem.C[piece.active]
    total = float(prices.sum())
    centre = (rows.T @ prices) / total if problem.has_bias and total > 0.0 else np.zeros(len(state.weights))
    squares = np.square(rows) if isinstance(rows, np.ndarray) else rows.multiply(rows)
    scale = 1.0 + MILD * np.maximum(squares.T @ prices - total * centre**2, 0.0)

    def product(v: Array) -> Array:
        return v + rows.T @ (prices * (rows @ v)) - (total * float(centre @ v)) * centre

    right = piece.pull * centre - piece.gradient
    # The gap is about |g|^2 / 2, so this is the root of the relative gap: it says how near the end is.
    losses = 0.5 * float(problem.C @ np.square(problem.slacks(state.scores, state.bias)))
    primal = max(0.5 * float(state.weights @ state.weights) + losses, np.finfo(float).tiny)
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


def _exact_step(weights: Array, move: Array, slack: Array, fall: Array, C: Array) -> float:
    """Return the t that minimises 1/2 |w + t dw|^2 + 1/2 sum C [slack - t fall]_+^2, by Newton within a bracket."""
    linear, quadratic = float(weights @ move), float(move @ move)
    low, high, t = 0.0, np.inf, 1.0
    steepest = abs(linear - float((C * fall) @ np.maximum(slack, 0.0)))
    for _ in range(MAX_PASSES):
        left = slack - t * fall
        on = left > 0.0
        slope = linear + t * quadratic - float((C[on] * fall[on]) @ left[on])
        if abs(slope) <= ROUNDING * steepest:
            break
        low, high = (t, high) if slope < 0.0 else (low, t)
        new = t - slope / (quadratic + float(C[on] @ fall[on] ** 2)) if quadratic > 0.0 else t
        if not low < new < high:
            new = 0.5 * (low + high) if np.isfinite(high) else 2.0 * t
        if new in (t, low, high):
            break
        t = new
    return t
