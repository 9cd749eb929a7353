"""The logistic loss of two classes along a line, in one compiled pass over the samples.

    loss(t) = sum_i C_i (log(1 + exp(s_i)) - y_i s_i),   s = S + t T,   y_i = 1 for the second class, 0 for the first
    log(1 + exp(s)) = max(s, 0) + log(1 + e),   e = exp(-|s|) <= 1
    log(1 + e) = 2 artanh(z) = 2 (z + z^3 / 3 + z^5 / 5 + ...),   z = e / (2 + e) <= 1/3

The series keeps all digits of losses far below one, and has no call that would keep the loop from being vectorised.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import inline, jit
from softmargin.backends.lanes import WIDTH, exp, load, maximum, pointer, splat, store

__all__ = ["logistic_along"]

Array = NDArray[Any]
N_TERMS = 16  # of the series: the next one is below the last digit


@jit
def logistic_along(
    S: Array, T: Array, length: float, labels: Array, C: Array, new: Array, P: Array
) -> tuple[float, float, float]:
    """Write S + length T to ``new`` and the probability of the second class to P; return loss, slope and curvature."""
    n = S.shape[0]
    S_, T_, new_, P_ = pointer(S), pointer(T), pointer(new), pointer(P)
    step, nothing = splat(length), splat(0.0)
    whole = n - n % WIDTH
    for o in range(0, whole, WIDTH):
        s = load(S_, o) + step * load(T_, o)
        store(new_, o, s)
        store(P_, o, exp(nothing - maximum(s, nothing - s)))
    for i in range(whole, n):
        new[i] = S[i] + length * T[i]
        P[i] = np.exp(-abs(new[i]))
    loss, slope, bend = 0.0, 0.0, 0.0
    for i in range(n):
        s, e = new[i], P[i]
        inverse = 1.0 / (1.0 + e)
        P[i] = inverse if s >= 0.0 else e * inverse
        loss += C[i] * (_log1p(e) + max(s, 0.0) - labels[i] * s)
        slope += C[i] * T[i] * (P[i] - labels[i])
        bend += C[i] * T[i] * T[i] * (e * inverse * inverse)
    return loss, slope, bend


@inline
def _log1p(e: float) -> float:
    """Return log(1 + e) for 0 <= e <= 1."""
    z = e / (2.0 + e)
    square = z * z
    series = 1.0 / (2 * N_TERMS + 1)
    for term in range(N_TERMS - 1, -1, -1):
        series = series * square + 1.0 / (2 * term + 1)
    return 2.0 * z * series
