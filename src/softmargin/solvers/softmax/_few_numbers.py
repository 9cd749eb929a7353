"""Hessian, step and gradient of softmax losses by compiled loops, where numbers are so few that calls take longer.

    H[(j, c), (l, e)] = sum_i B_i[c, e] x_ij x_il ,      B_i[c, e] = C_i ([c = e] (p_ic + damping_i) - p_ic p_ie)
    L L' D = -G                                              L takes the place of H with its ridge
    G      = [X, 1]' C (P - Y) + ridge W

Samples are innermost in H, so that sums over them go along columns of X.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import jit

__all__ = ["LOOPS_PAY", "FewNumbers", "fill_in_loops", "fill_slopes", "newton_step"]

Array = NDArray[Any]
LOOPS_PAY = 1 << 20  # multiplications n m^2 of a Hessian of m entries, up to which loops take less time; by timings


class FewNumbers(NamedTuple):
    """The entries (j, c) of a Hessian, ordered by class, and what all of them share."""

    columns: Array  # (d, n)
    features: Array  # (m,)
    ends: Array  # (k + 1,): those of class c are features[ends[c] : ends[c + 1]]
    damping: Array  # (n,)


@jit
def fill_in_loops(few: FewNumbers, P: Array, C: Array, k: int, H: Array) -> None:
    """Write H, (m, m); P is (n * k,)."""
    columns, features, ends = few.columns, few.features, few.ends
    n, n_columns = C.shape[0], ends.shape[0] - 1
    weights, scaled = np.empty(n), np.empty(n)
    for c in range(n_columns):
        for e in range(c, n_columns):
            for i in range(n):
                p, q = P[i * k + c], P[i * k + e]
                weights[i] = C[i] * (p * (1.0 - p) + few.damping[i] if c == e else -p * q)
            for a in range(ends[c], ends[c + 1]):
                for i in range(n):
                    scaled[i] = weights[i] * columns[features[a], i]
                for b in range(max(a, ends[e]), ends[e + 1]):
                    sum_ = 0.0
                    for i in range(n):
                        sum_ += scaled[i] * columns[features[b], i]
                    H[a, b] = H[b, a] = sum_


@jit
def newton_step(
    columns: Array, H: Array, k: int, ridge: float, has_intercept: bool, G: Array, D: Array, T: Array
) -> bool:
    """Write the Newton step to D, as flat as G, and [X, 1] D to T; say whether H has a Cholesky factor.

    H is that of the losses; it gets the ridge, and its factor takes its place. A common shift of the intercepts of more
    than two classes, which leaves the losses unchanged, has a curvature.
    """
    m, size = H.shape[0], columns.shape[0]
    n_columns, x, shift = m // size, np.empty(m), 0.0
    if has_intercept:
        for a in range(size - 1, m, size):
            shift += H[a, a] / n_columns
    for a in range(m):
        if not (has_intercept and a % size == size - 1):
            H[a, a] += ridge
    for a in range(m):
        for b in range(a + 1):
            sum_ = 0.0
            for e in range(b):
                sum_ += H[a, e] * H[b, e]
            left = H[a, b] - sum_
            if n_columns > 1 and has_intercept and a % size == size - 1 and b % size == size - 1:
                left += shift
            if b < a:
                H[a, b] = left / H[b, b]
            elif left > 0.0:
                H[a, a] = math.sqrt(left)
            else:
                return False
        sum_ = G[a % size * k + a // size]
        for b in range(a):
            sum_ += H[a, b] * x[b]
        x[a] = -sum_ / H[a, a]
    for a in range(m - 1, -1, -1):
        sum_ = 0.0
        for b in range(a + 1, m):
            sum_ += H[b, a] * x[b]
        x[a] = (x[a] - sum_) / H[a, a]
        D[a % size * k + a // size] = x[a]
    for i in range(columns.shape[1]):
        for c in range(n_columns):
            sum_ = 0.0
            for j in range(size):
                sum_ += columns[j, i] * D[j * k + c]
            T[i * k + c] = sum_
    return True


@jit
def fill_slopes(few: FewNumbers, P: Array, target: Array, C: Array, k: int, ridge: float, W: Array, G: Array) -> None:
    """Write the gradient to G, but for its padding; a target of -1 is the class without a column."""
    n, n_columns = C.shape[0], few.ends.shape[0] - 1
    n_rows, n_penalised = few.columns.shape[0], W.shape[0] // k - 1
    pulls = np.empty(n)
    for c in range(n_columns):
        for i in range(n):
            pulls[i] = C[i] * (P[i * k + c] - (1.0 if target[i] == c else 0.0))
        for j in range(n_rows):
            sum_ = 0.0
            for i in range(n):
                sum_ += pulls[i] * few.columns[j, i]
            G[j * k + c] = sum_ + ridge * W[j * k + c] if j < n_penalised else sum_
