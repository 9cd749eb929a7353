"""Compiled passes of Newton's method on the linear L2-SVM: products with the rows of X, the bias, the length of a step.

    fill_products   out_i = <x_i - mean, w>                         mean: zero for sparse X
    fill_adjoint    out = sum_i u_i (x_i - mean)                    rows with u_i = 0 are not touched
    add_squares     H += sum_i c_i x_i x_i'                         upper triangle, rows with c_i = 0 not touched
    fill_forces     out_i = y_i C_i [1 - y_i (F_i + b)]_+           returns the losses, 1/2 sum C xi^2
    balanced_bias   the b with sum of the forces zero               Newton on a monotone, piecewise linear function
    exact_step      the t with the least 1/2 |w + t dw|^2 + 1/2 sum_i C_i [slack_i - t fall_i]_+^2

All vectors are float64; X is used as it comes.
"""

import math
from typing import Any

from numpy.typing import NDArray

from softmargin.backends.jit import jit

__all__ = ["add_squares", "balanced_bias", "exact_step", "fill_adjoint", "fill_forces", "fill_products"]

Array = NDArray[Any]
MAX_PASSES = 100
ROUNDING = 1e-15


@jit
def fill_products(rows: Any, mean: Array, weights: Array, out: Array) -> None:
    """Write the scores of the centred rows."""
    bare = rows.bare()
    for i in range(out.shape[0]):
        begin, end = bare.entries(i)
        score = 0.0
        for p in range(begin, end):
            j = bare.column(i, p)
            score += (bare.value(p) - mean[j]) * weights[j]
        out[i] = score


@jit
def fill_adjoint(rows: Any, mean: Array, u: Array, out: Array) -> None:
    """Write the sum of the centred rows, each times its u."""
    bare = rows.bare()
    out[:] = 0.0
    for i in range(u.shape[0]):
        if u[i] != 0.0:
            begin, end = bare.entries(i)
            for p in range(begin, end):
                j = bare.column(i, p)
                out[j] += u[i] * (bare.value(p) - mean[j])


@jit
def add_squares(rows: Any, prices: Array, H: Array) -> None:
    """Add the upper triangle of sum_i c_i x_i x_i' to H, for rows whose columns ascend."""
    bare = rows.bare()
    for i in range(prices.shape[0]):
        if prices[i] != 0.0:
            begin, end = bare.entries(i)
            for p in range(begin, end):
                scaled = prices[i] * bare.value(p)
                line = H[bare.column(i, p)]
                for q in range(p, end):
                    line[bare.column(i, q)] += scaled * bare.value(q)


@jit
def fill_forces(y: Array, C: Array, scores: Array, bias: float, out: Array) -> float:
    """Write the forces; return the losses."""
    losses = 0.0
    for i in range(y.shape[0]):
        slack = max(1.0 - y[i] * (scores[i] + bias), 0.0)
        out[i] = y[i] * C[i] * slack
        losses += 0.5 * C[i] * slack * slack
    return losses


@jit
def balanced_bias(y: Array, C: Array, scores: Array, start: float) -> float:
    """Return the b at which the forces sum to zero: it falls with b, and every look at it narrows a bracket."""
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
def exact_step(linear: float, quadratic: float, slack: Array, fall: Array, C: Array) -> float:
    """Return the t, by Newton's method within a bracket; ``linear`` is <w, dw>, ``quadratic`` is |dw|^2."""
    low, high, t = 0.0, math.inf, 1.0
    steepest = linear
    for i in range(slack.shape[0]):
        steepest -= C[i] * fall[i] * max(slack[i], 0.0)
    for _ in range(MAX_PASSES):
        slope, bend = linear + t * quadratic, quadratic
        for i in range(slack.shape[0]):
            left = slack[i] - t * fall[i]
            if left > 0.0:
                slope -= C[i] * fall[i] * left
                bend += C[i] * fall[i] * fall[i]
        if abs(slope) <= ROUNDING * abs(steepest):
            break
        low, high = (t, high) if slope < 0.0 else (low, t)
        new = t - slope / bend if bend > 0.0 else t
        if not low < new < high:
            new = 0.5 * (low + high) if high < math.inf else 2.0 * t
        if new in (t, low, high):
            break
        t = new
    return t
