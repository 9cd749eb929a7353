"""Compiled passes of the augmented Lagrangian over its samples, and whole Newton steps where there are few numbers.

A Newton step on a thousand samples of ten features takes less time than its calls of BLAS and LAPACK: there one call
makes all of a step of the run. It looks at every sample, and sums the squares of J afresh.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import jit
from softmargin.matrices.cholesky import solve_in_place
from softmargin.solvers.common.hinge_newton import exact_step, fill_squares

__all__ = ["ROUNDING", "Numbers", "few_newton_steps", "new_shares", "numbers_of"]

Array = NDArray[Any]
ROUNDING = 1e-14  # of P: what is left of the gap is not lowered


class Numbers(NamedTuple):
    """What weights and shares imply, in numbers."""

    primal: float
    dual: float  # at the best multiple of the new shares
    multiple: float
    is_done: bool  # psi is minimised so far that new shares bring more


@jit
def new_shares(
    y: Array, prices: Array, slack: Array, shares: Array, rho: float, new: Array, forces: Array
) -> tuple[float, float, float]:
    """Write clip(b + rho z) and what they pull with; return sum C [z]_+, sum C b, and sum C ([z]_+ - b z)."""
    for i in range(slack.shape[0]):
        new[i] = min(max(shares[i] + rho * slack[i], 0.0), 1.0)
        forces[i] = y[i] * prices[i] * new[i]
    losses, own, rest = 0.0, 0.0, 0.0
    for i in range(slack.shape[0]):
        loss = max(slack[i], 0.0)
        losses += prices[i] * loss
        own += prices[i] * new[i]
        rest += prices[i] * (loss - new[i] * slack[i])
    return losses, own, rest


@jit
def numbers_of(weights: Array, implied: Array, losses: float, own: float, rest: float) -> Numbers:
    """Return what weights, and those that the new shares imply, say with these sums."""
    half, square, distance = 0.0, 0.0, 0.0
    for j in range(weights.shape[0]):
        half += 0.5 * weights[j] * weights[j]
        square += implied[j] * implied[j]
        distance += (weights[j] - implied[j]) ** 2
    primal = half + losses
    multiple = min(1.0, own / square) if square > 0.0 else 1.0
    dual = multiple * own - 0.5 * multiple**2 * square
    return Numbers(primal, dual, multiple, 0.5 * distance <= max(rest, ROUNDING * primal))


@jit
def few_newton_steps(
    rows: Any,
    y: Array,
    prices: Array,
    iterate: tuple[Array, Array, Array],
    rho: float,
    enough: float,
    growth: float,
    most: int,
) -> tuple[float, bool]:
    """Minimise psi and take the new shares, until the gap is ``enough`` or for so many Newton steps, over an array.

    ``iterate`` has the weights, the shares and the new ones. Returns rho, and whether all systems had a factor: after
    one that has none no step is made.
    """
    weights, shares, latest = iterate
    n, d, D = y.shape[0], rows.d, weights.shape[0]
    slack, forces, fall, corners, scaled = np.empty((5, n))
    implied, move, squares, none = np.empty(D), np.empty(D), np.empty((D, D)), np.zeros(d)
    for i in range(n):
        slack[i] = 1.0 - y[i] * rows.dot(i, weights)
    for newton in range(most + 1):
        losses, own, rest = new_shares(y, prices, slack, shares, rho, latest, forces)
        implied[:] = 0.0
        for i in range(n):
            if forces[i] != 0.0:
                rows.push(i, forces[i], implied)
        found = numbers_of(weights, implied, losses, own, rest)
        if found.is_done:
            shares[:] = latest
            rho *= growth
            if found.primal - found.dual <= enough:
                break
        if newton == most:
            break
        if found.is_done:
            continue
        move[:] = 0.0
        for i in range(n):
            scaled[i] = rho * prices[i] if 0.0 < latest[i] < 1.0 else 0.0
            if scaled[i] > 0.0:
                rows.push(i, scaled[i], move)
        fill_squares(rows, none, scaled, squares)
        for j in range(D):
            squares[j, D - 1] = rows.bias * move[j]
        for j in range(D):
            squares[j, j] += 1.0
            move[j] = implied[j] - weights[j]
        if not solve_in_place(squares, move):
            return rho, False
        linear, quadratic = 0.0, 0.0
        for j in range(D):
            linear += weights[j] * move[j]
            quadratic += move[j] * move[j]
        for i in range(n):
            fall[i] = y[i] * rows.dot(i, move)
            corners[i] = slack[i] + shares[i] / rho
            scaled[i] = rho * prices[i]
        length = exact_step(linear, quadratic, corners, fall, scaled, 1.0 / rho)
        for j in range(D):
            weights[j] += length * move[j]
        for i in range(n):
            slack[i] -= length * fall[i]
    return rho, True
