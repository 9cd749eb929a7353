"""The Newton system of a piece of the linear L2-SVM, solved in the cheapest way (maths: squared hinge, section 7).

Which way, by the samples in I and the features d:

    few in I    Cholesky with one unknown per sample of I: with A the rows sqrt(C_i) (x_i - mu)' of I,
                (rho + A'A)^-1 r = (r - A' (rho + A A')^-1 A r) / rho ,    rho = 1 + lambda
    modest d    Cholesky in d unknowns; columns of a dense X are centred, so that a large offset costs no digits. The
                sum over I follows the samples that enter and leave I, as late pieces differ in few of them; where
                numbers are few, compiled steps have their own (``_newton_steps``)
    large d     conjugate gradients, with a mild diagonal preconditioner, only as exact as g is small
    sparse X    conjugate gradients first, with as many products as take the time of Cholesky, in the samples of I where
                d is large; where that is not exact enough, Cholesky solves this system and those after it
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.core.deadline import check_time, factor_work
from softmargin.core.threads import wide_blas
from softmargin.matrices.forms import FEW, is_thin
from softmargin.matrices.operator import numbers_per_row
from softmargin.matrices.rows import add_squares, as_rows, weighted_squares
from softmargin.solvers.common.conjugate_gradients import conjugate_gradients
from softmargin.solvers.common.hinge_newton import solve_positive
from softmargin.solvers.squared_hinge._newton_loop import fill_curvature, fill_scaled
from softmargin.solvers.squared_hinge._newton_state import NewtonState, Piece, PrimalNewtonTuning

__all__ = ["has_long_rows", "has_small_steps", "newton_move"]

Array = NDArray[Any]


def newton_move(state: NewtonState, piece: Piece, tuning: PrimalNewtonTuning) -> Array:
    """Return the Newton move of w, in the cheapest way."""
    m = int(np.count_nonzero(piece.prices))
    solve, work = _by_factor(state, m, tuning)
    if solve is None:
        return _solve_by_products(state, piece, tuning, tuning.max_products)[0]
    if not isinstance(state.X, np.ndarray) and not state.is_hard:
        most = min(int(work / (tuning.product * m * numbers_per_row(state.X) + tuning.call)), tuning.max_products)
        if most >= tuning.fewest_products:
            move, is_exact = _solve_by_products(state, piece, tuning, most)
            if is_exact:
                return move
            state.is_hard = True
    return solve(state, piece, tuning)


def _by_factor(state: NewtonState, m: int, tuning: PrimalNewtonTuning) -> tuple[Callable[..., Array] | None, float]:
    """Return how a system of m samples is best solved with a factor, if at all, and its BLAS multiplications."""
    d, is_sparse = len(state.weights), not isinstance(state.X, np.ndarray)
    if 0 < m < d and m * d <= FEW:
        return _solve_by_samples, float(m) ** 2 * d + m**3.0 / 3.0
    if d <= tuning.dense_features:
        entries = m * numbers_per_row(state.X) if is_sparse else m * float(d)
        making = min(tuning.scattered * entries**2 / max(m, 1), m * float(d) ** 2)
        return _solve_dense, making + factor_work(d) + tuning.touched * float(d) ** 2
    return (_solve_by_sparse_samples if is_sparse and 0 < m <= tuning.most_samples else None), m**3.0 / 3.0


def _solve_by_samples(state: NewtonState, piece: Piece, tuning: PrimalNewtonTuning) -> Array:
    """Return the Newton move of w from a system with one unknown per sample of I."""
    m, d = int(np.count_nonzero(piece.prices)), len(state.weights)
    check_time(float(m) ** 2 * d + factor_work(m))
    A = np.empty((m, d))
    fill_scaled(as_rows(state.X), state.mean + piece.centre, piece.prices, 0, A)
    rho, gram = 1.0 + state.damping, A @ A.T
    gram.flat[:: m + 1] += rho
    return (piece.right - A.T @ solve_positive(gram, A @ piece.right)) / rho


def _solve_by_sparse_samples(state: NewtonState, piece: Piece, tuning: PrimalNewtonTuning) -> Array:
    """Return the same, for sparse rows that are never centred one by one."""
    active = np.flatnonzero(piece.prices)
    m, rows, roots = len(active), state.X[active].astype(np.float64, copy=False), np.sqrt(piece.prices[active])
    check_time(factor_work(m))
    along = rows @ piece.centre
    gram = (rows @ rows.T).toarray()
    gram -= along[:, None] + (along - piece.centre @ piece.centre)
    gram *= np.multiply.outer(roots, roots)
    rho = 1.0 + state.damping
    gram.flat[:: m + 1] += rho
    u = roots * solve_positive(gram, roots * (rows @ piece.right - float(piece.centre @ piece.right)))
    return np.asarray(piece.right - rows.T @ u + float(u.sum()) * piece.centre) / rho


def _solve_dense(state: NewtonState, piece: Piece, tuning: PrimalNewtonTuning) -> Array:
    """Return the Newton move of w from a system with one unknown per feature."""
    d, prices = len(state.weights), piece.prices
    m = int(np.count_nonzero(prices))
    check_time(factor_work(d))
    is_first = d > 0 and not state.weights.any() and has_long_rows(state.X, tuning)
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
    return solve_positive(squares, piece.right)


def has_long_rows(X: Any, tuning: PrimalNewtonTuning) -> bool:
    """Say whether the squares of the rows take most of a step."""
    return bool(X.shape[1] > tuning.long if isinstance(X, np.ndarray) else X.nnz > tuning.long * X.shape[0])


def has_small_steps(X: Any, tuning: PrimalNewtonTuning) -> bool:
    """Say whether a compiled step takes less time than the calls of BLAS in its place."""
    n, d = X.shape
    if isinstance(X, np.ndarray):
        return bool(n * d**2 <= tuning.few)
    return bool(tuning.scattered * X.nnz**2 / max(n, 1) + d**3 <= tuning.few)


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
            with wide_blas(m * float(d) ** 2):
                squares += sign * (block[:m].T @ block[:m])
            left -= m
    return squares


def _solve_by_products(state: NewtonState, piece: Piece, tuning: PrimalNewtonTuning, most: int) -> tuple[Array, bool]:
    """Return the Newton move of w approximately, by conjugate gradients, and whether it is as exact as asked for."""
    rows, prices, centre, right = as_rows(state.X), piece.prices, piece.centre, piece.right
    active, squares, rho = np.flatnonzero(prices), np.zeros_like(right), 1.0 + state.damping
    weighted_squares(rows, prices, squares)
    scale = rho + tuning.diagonal_share * np.maximum(squares - piece.total * centre**2, 0.0)
    inverse = 1.0 / scale

    def product(v: Array, out: Array) -> None:
        fill_curvature(rows, active, prices, rho, piece.total, centre, v, out)

    # The gap is about |g|^2 / 2, so this is the root of the relative gap: the solution is as exact as w is near.
    primal = max(piece.primal, np.finfo(float).tiny)
    exactness = float(np.clip(np.linalg.norm(right) / np.sqrt(2.0 * primal), tuning.most_exact, tuning.least_exact))
    solved = conjugate_gradients(product, right, lambda V: V * inverse, exactness, is_euclidean=True, max_products=most)
    return solved.x, float(np.linalg.norm(solved.residual)) <= exactness * float(np.linalg.norm(right))
