"""Compiled passes of Newton's method on the linear L2-SVM: products with the rows of X, the bias, the step length.

The force of sample i is y_i C_i [1 - y_i (F_i + b)]_+, F the scores. All vectors are float64; X keeps its own type.
Loops use bare pointers: array indices that could be negative would be tested at every access.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import jit
from softmargin.backends.lanes import pointer
from softmargin.solvers.common.hinge_newton import MAX_PASSES, ROUNDING, exact_step

__all__ = [
    "CentredSamples",
    "PieceSums",
    "balanced_bias",
    "evaluate_piece",
    "fill_adjoint",
    "fill_curvature",
    "fill_piece_dual",
    "fill_products",
    "fill_scaled",
    "minimise_along",
]

Array = NDArray[Any]


class CentredSamples(NamedTuple):
    """Centred rows with their labels and prices."""

    rows: Any  # of X
    mean: Array  # (d,) subtracted from every row
    y: Array  # (n,)
    C: Array  # (n,)
    has_bias: bool


class PieceSums(NamedTuple):
    """What ``evaluate_piece`` writes."""

    prices: Array  # (n,) C_i in I = {xi_i > 0}, else 0
    right: Array  # (d,) -g_w + mu g_b
    best_gradient: Array  # (d,) g_w at the best bias
    centre: Array  # (d,) mu, of the centred rows


@jit
def fill_products(rows: Any, mean: Array, weights: Array, out: Array) -> None:
    """Write <x_i - mean, w>; the mean is zero for sparse X."""
    bare, mean_, weights_ = rows.bare(), pointer(mean), pointer(weights)
    for i in range(out.shape[0]):
        out[i] = bare.centred(i, mean_, weights_)


@jit
def fill_adjoint(rows: Any, mean: Array, u: Array, out: Array) -> None:
    """Write sum_i u_i (x_i - mean)."""
    bare, mean_, out_ = rows.bare(), pointer(mean), pointer(out)
    out[:] = 0.0
    for i in range(u.shape[0]):
        if u[i] != 0.0:
            begin, end = bare.entries(i)
            for p in range(begin, end):
                j = bare.column(i, p)
                out_[j] += u[i] * (bare.value(p) - mean_[j])


@jit
def fill_curvature(
    rows: Any, active: Array, prices: Array, rho: float, total: float, centre: Array, v: Array, out: Array
) -> None:
    """Write (rho + sum_i c_i (x_i - mu)(x_i - mu)') v over some rows, whose prices have this sum and mean mu."""
    bare, v_, out_ = rows.bare(), pointer(v), pointer(out)
    pull = 0.0
    for j in range(v.shape[0]):
        pull += centre[j] * v[j]
    pull *= total
    for j in range(v.shape[0]):
        out[j] = rho * v[j] - pull * centre[j]
    for i in active:
        begin, end = bare.entries(i)
        along = prices[i] * bare.product(i, v_, 1, 0)
        for p in range(begin, end):
            out_[bare.column(i, p)] += along * bare.value(p)


@jit
def fill_piece_dual(
    samples: CentredSamples, prices: Array, slack: Array, fall: Array, alpha: Array, weights: Array
) -> tuple[float, float]:
    """Write the dual point of the minimiser of a piece: a_i = C_i [slack_i - fall_i]_+ on I, both sides of one sum.

    ``weights`` becomes sum_i a_i y_i (x_i - mean). Returns the sum of a, and |weights|^2 + sum_i a_i^2 / C_i.
    """
    y, C, forces = samples.y, samples.C, np.empty(alpha.shape[0])
    above, below = 0.0, 0.0
    for i in range(alpha.shape[0]):
        alpha[i] = max(C[i] * (slack[i] - fall[i]), 0.0) if prices[i] > 0.0 else 0.0
    for i in range(alpha.shape[0]):
        above += alpha[i] if y[i] > 0.0 else 0.0
        below += alpha[i] if y[i] < 0.0 else 0.0
    least = min(above, below)
    up = least / above if samples.has_bias and above > 0.0 else 1.0
    down = least / below if samples.has_bias and below > 0.0 else 1.0
    linear, square = 0.0, 0.0
    for i in range(alpha.shape[0]):
        alpha[i] *= up if y[i] > 0.0 else down
        forces[i] = y[i] * alpha[i]
    for i in range(alpha.shape[0]):
        linear += alpha[i]
        square += alpha[i] * (alpha[i] / C[i]) if alpha[i] > 0.0 else 0.0
    fill_adjoint(samples.rows, samples.mean, forces, weights)
    for j in range(weights.shape[0]):
        square += weights[j] * weights[j]
    return linear, square


@jit
def fill_scaled(rows: Any, shift: Array, prices: Array, first: int, out: Array) -> tuple[int, int]:
    """Write the rows sqrt(c_i) (x_i - shift) with c_i > 0 from ``first`` on until ``out`` is full.

    Returns the next row, and how many were written.
    """
    bare, shift_, out_, d = rows.bare(), pointer(shift), pointer(out.reshape(-1)), out.shape[1]
    i, m = first, 0
    while i < prices.shape[0] and m < out.shape[0]:
        if prices[i] > 0.0:
            line = m * d
            for j in range(d):
                out_[line + j] = -shift_[j]
            begin, end = bare.entries(i)
            for p in range(begin, end):
                out_[line + bare.column(i, p)] += bare.value(p)
            # Scale last: x - shift is exact where both are large and close to each other.
            root = math.sqrt(prices[i])
            for j in range(d):
                out_[line + j] *= root
            m += 1
        i += 1
    return i, m


@jit
def evaluate_piece(
    samples: Any, weights: Array, scores: Array, bias: float, out: Any
) -> tuple[float, float, float, float, float, float]:
    """Write the prices and sums of the piece at (w, b).

    Returns the sum of forces (without a bias: zero), that of prices, P, and the best bias with P and |g_w|^2 there.
    """
    bare, mean_, y, C = samples.rows.bare(), pointer(samples.mean), samples.y, samples.C
    prices, forces, best_forces, centre = out
    forces_, best_forces_, centre_ = pointer(forces), pointer(best_forces), pointer(centre)
    forces[:] = 0.0
    best_forces[:] = 0.0
    centre[:] = 0.0
    best = balanced_bias(y, C, scores, bias) if samples.has_bias else bias
    pull, total, losses, best_losses = 0.0, 0.0, 0.0, 0.0
    for i in range(y.shape[0]):
        slack = max(1.0 - y[i] * (scores[i] + bias), 0.0)
        best_slack = max(1.0 - y[i] * (scores[i] + best), 0.0)
        price = C[i] if slack > 0.0 else 0.0
        force, best_force = y[i] * C[i] * slack, y[i] * C[i] * best_slack
        prices[i] = price
        pull += force
        total += price
        losses += 0.5 * C[i] * slack * slack
        best_losses += 0.5 * C[i] * best_slack * best_slack
        if price != 0.0 or best_force != 0.0:
            begin, end = bare.entries(i)
            for p in range(begin, end):
                j = bare.column(i, p)
                value = bare.value(p) - mean_[j]
                forces_[j] += force * value
                best_forces_[j] += best_force * value
                centre_[j] += price * value
    has_centre = samples.has_bias and total > 0.0
    pull = pull if has_centre else 0.0
    for j in range(weights.shape[0]):
        centre[j] = centre[j] / total if has_centre else 0.0
        forces[j] = forces[j] - weights[j] - pull * centre[j]
        best_forces[j] = weights[j] - best_forces[j]
    half, square = 0.0, 0.0
    for j in range(weights.shape[0]):
        half += 0.5 * weights[j] * weights[j]
        square += best_forces[j] * best_forces[j]
    return pull, total, half + losses, best, half + best_losses, square


@jit
def balanced_bias(y: Array, C: Array, scores: Array, start: float) -> float:
    """Return the b at which the forces sum to zero; the sum falls with b, so each evaluation narrows a bracket."""
    b, low, high = start, -math.inf, math.inf
    for _ in range(MAX_PASSES):
        total, size, bend = 0.0, 0.0, 0.0
        for i in range(y.shape[0]):
            slack = max(1.0 - y[i] * (scores[i] + b), 0.0)
            total += y[i] * C[i] * slack
            size += C[i] * slack
            bend += C[i] * (slack > 0.0)
        if abs(total) <= ROUNDING * size:
            break
        low, high = (b, high) if total > 0.0 else (low, b)
        new = b + total / bend
        if not low < new < high:
            new = 0.5 * (low + high)
        if new in (b, low, high):
            break
        b = new
    return b


@jit
def minimise_along(
    samples: Any, weights: Array, bias: float, scores: Array, move: Array, shift: float, slack: Array, fall: Array
) -> float:
    """Move weights and scores by the exact step along (move, shift); return the step. The last two are scratch."""
    y = samples.y
    fill_products(samples.rows, samples.mean, move, fall)
    for i in range(y.shape[0]):
        slack[i] = 1.0 - y[i] * (scores[i] + bias)
        fall[i] = y[i] * (fall[i] + shift)
    linear, quadratic = 0.0, 0.0
    for j in range(move.shape[0]):
        linear += weights[j] * move[j]
        quadratic += move[j] * move[j]
    t: float = exact_step(linear, quadratic, slack, fall, samples.C, math.inf)
    for j in range(move.shape[0]):
        weights[j] += t * move[j]
    for i in range(y.shape[0]):
        scores[i] += t * (y[i] * fall[i] - shift)
    return t
