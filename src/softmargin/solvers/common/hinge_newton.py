"""What Newton's methods for hinges share: the least value along a line, sums of squares, positive definite systems."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from softmargin.backends.jit import jit
from softmargin.backends.lanes import keep, pointer
from softmargin.core.threads import wide_blas

__all__ = ["MAX_PASSES", "ROUNDING", "exact_step", "fill_squares", "solve_positive"]

Array = NDArray[Any]
MAX_PASSES = 100  # guard against an endless search: Newton on these functions needs a few passes
ROUNDING = 1e-15


@jit
def exact_step(linear: float, quadratic: float, slack: Array, fall: Array, C: Array, knee: float) -> float:
    """Return the t with the least 1/2 |w + t dw|^2 + sum_i C_i l(slack_i - t fall_i), by Newton in a bracket.

    ``linear`` is <w, dw>, ``quadratic`` is |dw|^2; l(s) = [s]_+^2 / 2 goes on as a line from the knee, which may be
    infinite.
    """
    low, high, t = 0.0, math.inf, 1.0
    steepest = linear
    for i in range(slack.shape[0]):
        steepest -= C[i] * fall[i] * min(max(slack[i], 0.0), knee)
    for _ in range(MAX_PASSES):
        slope, bend = linear + t * quadratic, quadratic
        for i in range(slack.shape[0]):
            left = slack[i] - t * fall[i]
            if left > 0.0:
                slope -= C[i] * fall[i] * min(left, knee)
                bend += C[i] * fall[i] * fall[i] * (left < knee)
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


@jit
def fill_squares(rows: Any, shift: Array, prices: Array, out: Array) -> None:
    """Write the upper triangle of sum_i c_i (x_i - shift)(x_i - shift)' over the rows of an array with c_i > 0.

    ``out`` is (d, d), or larger. Each entry is a sum along two columns, as rows of few features are too short for
    vectors.
    """
    d, line, m = shift.shape[0], out.shape[1], 0
    for i in range(prices.shape[0]):
        m += prices[i] > 0.0
    columns, scaled, weights = np.empty(d * m), np.empty(m), np.empty(m)
    bare, shift_, out_ = rows.bare(), pointer(shift), pointer(out.reshape(-1))
    columns_, scaled_, weights_ = pointer(columns), pointer(scaled), pointer(weights)
    at = 0
    for i in range(prices.shape[0]):
        if prices[i] > 0.0:
            weights_[at] = prices[i]
            first, _ = bare.entries(i)
            for j in range(d):
                columns_[j * m + at] = bare.value(first + j) - shift_[j]
            at += 1
    for j in range(d):
        for at in range(m):
            scaled_[at] = weights_[at] * columns_[j * m + at]
        for other in range(j, d):
            total = 0.0
            for at in range(m):
                total += scaled_[at] * columns_[other * m + at]
            out_[j * line + other] = total
    keep(columns)
    keep(scaled)
    keep(weights)


def solve_positive(hessian: Array, right: Array) -> Array:
    """Solve by Cholesky, from the upper triangle alone; by eigenvalues where rounding has lost the identity."""
    if not len(right):
        return right
    x: Array
    with wide_blas(len(right) ** 3.0 / 3.0):
        _, x, failed = dposv(hessian.T, right, lower=True)  # the upper triangle by rows is the lower one by columns
    if failed:
        values, vectors = np.linalg.eigh(hessian, UPLO="U")
        x = vectors @ ((vectors.T @ right) / np.maximum(values, 1.0))
    return x
