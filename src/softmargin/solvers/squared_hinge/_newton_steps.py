"""The compiled end of a Newton step on the linear L2-SVM, and whole steps where there are few numbers.

    move        the minimiser of the piece, less w               ``_newton_systems``, or here where systems are small
    go          to the least P along it; lambda by how far that was; the dual point of the piece, where it is better
    evaluate    the next piece

A step on a hundred rows takes less time than one call of Python or LAPACK: there one call makes several.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import jit
from softmargin.matrices.cholesky import solve_in_place
from softmargin.matrices.rows import add_squares
from softmargin.solvers.common.hinge_newton import fill_squares
from softmargin.solvers.squared_hinge._newton_loop import (
    CentredSamples,
    PieceSums,
    evaluate_piece,
    fill_piece_dual,
    minimise_along,
)

__all__ = ["At", "Iterate", "Pace", "go", "make_steps"]

Array = NDArray[Any]
Numbers = tuple[float, float, float, float, float, float]  # of a piece, as ``evaluate_piece`` returns them


class Iterate(NamedTuple):
    """The vectors of a state."""

    weights: Array  # (d,)
    decisions: Array  # (n,) scores
    alpha: Array  # (n,) the best dual point that a piece implied
    slack: Array  # (n,) scratch
    fall: Array  # (n,) scratch


class At(NamedTuple):
    """Its numbers."""

    bias: float
    bound: float  # the dual value at alpha
    damping: float  # lambda


class Pace(NamedTuple):
    """The constants of a step: ``PrimalNewtonTuning`` has them."""

    cut: float
    whole: float
    growth: float
    near: float


@jit
def go(
    samples: CentredSamples, iterate: Iterate, at: At, sums: PieceSums, numbers: Numbers, move: Array, pace: Pace
) -> At:
    """Go along a move of the weights to the least P; choose lambda by the length; keep the dual point of the piece."""
    pull, total, primal, _, best, best_square = numbers
    along, square, shift = 0.0, 0.0, pull / total if total > 0.0 else 0.0
    for j in range(move.shape[0]):
        along += move[j] * sums.right[j]
        square += move[j] * move[j]
        shift -= sums.centre[j] * move[j]
    length = minimise_along(
        samples, iterate.weights, at.bias, iterate.decisions, move, shift, iterate.slack, iterate.fall
    )
    damping, bound = at.damping, at.bound
    if length < pace.cut:
        damping = max(pace.growth * damping, along / square if square > 0.0 else 0.0)
    elif length > pace.whole:
        damping = 0.0
    # The minimum of the piece is a bound at best: far below P it proves nothing.
    if best - 0.5 * best_square <= bound and 0.5 * along <= pace.near * primal:
        bound = _keep_dual(samples, iterate, sums.prices, bound)
    return At(at.bias + shift * length, bound, damping)


@jit
def _keep_dual(samples: CentredSamples, iterate: Iterate, prices: Array, bound: float) -> float:
    """Keep the dual point of the minimiser of the piece, if it has the largest dual value so far; return this."""
    alpha, weights = np.empty_like(iterate.alpha), np.empty_like(iterate.weights)
    linear, square = fill_piece_dual(samples, prices, iterate.slack, iterate.fall, alpha, weights)
    value = 0.5 * linear * (linear / square) if square > 0.0 else 0.0  # of the best multiple
    if value <= bound:
        return bound
    iterate.alpha[:] = alpha * (linear / square)
    return value


@jit
def make_steps(
    samples: CentredSamples,
    iterate: Iterate,
    at: At,
    sums: PieceSums,
    numbers: Numbers,
    pace: Pace,
    is_array: bool,
    most: int,
    tol: float,
) -> tuple[At, Numbers, bool]:
    """Make some Newton steps, with one unknown per feature, until the relative gap is at most ``tol``.

    Returns where they lead, with the numbers of the piece there, and whether all systems had a factor: the step of one
    that has none is not made.
    """
    d = iterate.weights.shape[0]
    squares, shift = np.empty((d, d)), np.empty(d)
    for _ in range(most):
        if is_array:
            for j in range(d):
                shift[j] = samples.mean[j] + sums.centre[j]
            fill_squares(samples.rows, shift, sums.prices, squares)
        else:
            total = numbers[1]
            for i in range(d):
                for j in range(d):
                    squares[i, j] = -total * sums.centre[i] * sums.centre[j]
            add_squares(samples.rows, sums.prices, squares)
        for j in range(d):
            squares[j, j] += 1.0 + at.damping
            shift[j] = sums.right[j]
        if not solve_in_place(squares, shift):
            return at, numbers, False
        at = go(samples, iterate, at, sums, numbers, shift, pace)
        numbers = evaluate_piece(samples, iterate.weights, iterate.decisions, at.bias, sums)
        if numbers[4] - max(numbers[4] - 0.5 * numbers[5], at.bound) <= tol * numbers[4]:
            break
    return at, numbers, True
