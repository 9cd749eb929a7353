"""Compiled sums over rows of two classes, for what a stream proves: each reads its rows once.

    w        (d + 1,) a model: its score of a row is factor <w, [x_i, bias]>, positive for the second class
    size     its Euclidean norm
    share    (n,) in [0, 1]: the dual variable of a row as a share of C_i; for the softmax, the probability of the class
             that is not its label, below 1

Exponentials and logarithms are NumPy's, which has vectors for them; compiled loops would call one after the other.

These are the sums of ``problems.seen`` and of the losses, with the same bounds on their errors (maths: rounding,
sections 1 and 5), and share no code with the solvers. A sum over m rows has m roundings, in any order.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import inline, jit
from softmargin.backends.lanes import pointer
from softmargin.core.rounding import SLACK, TINY, ULPS, UNIT, gamma

__all__ = ["LEAST", "PairSums", "hinge_losses", "logistic_losses", "pair_margins", "pair_sums"]

Array = NDArray[Any]
LEAST = float(np.finfo(np.float64).tiny)  # of normal numbers
# Roundings of two classes, as ``losses.multinomial`` counts them.
ENTROPY_SHARE = gamma(2 + 4 * ULPS + 8)
LOSS_SHARE = gamma(3 * 2 + 12 * ULPS)


class PairSums(NamedTuple):
    """Sums over some rows, u_i = C_i share_i for the second class, and less than zero for the first."""

    duals: float  # |u_i|
    pull: float  # u_i
    reach: float  # |x_i| |u_i|
    prices: float  # |x_i| C_i
    entropy: float  # C_i H(share_i)
    entropy_error: float
    first: float  # C_i of the first class
    second: float  # C_i of the second class


@inline
def _length(square: float, d: int) -> float:
    """Bound a norm whose squares may have underflown."""
    return float(np.sqrt(square + (d + 1) * TINY))


@jit
def pair_margins(rows: Any, y: Array, w: Array, factor: float, size: float, margins: Array, errors: Array) -> None:
    """margins[i] = +-factor <w, [x_i, bias]>, positive where the label's score is; errors[i] bounds its error."""
    bare, y_, w_, d = rows.bare(), pointer(y), pointer(w), rows.d
    margins_, errors_ = pointer(margins), pointer(errors)
    for i in range(y.shape[0]):
        begin, end = bare.entries(i)
        # Two sums each: an addition waits for the one before it.
        score, other, square, other_square = bare.bias * w_[d], 0.0, bare.bias * bare.bias, 0.0
        p = begin
        while p + 2 <= end:
            x, z = bare.value(p), bare.value(p + 1)
            score += x * w_[bare.column(i, p)]
            other += z * w_[bare.column(i, p + 1)]
            square += x * x
            other_square += z * z
            p += 2
        if p < end:
            x = bare.value(p)
            score += x * w_[bare.column(i, p)]
            square += x * x
        score += other
        share = (end - begin + 12) * UNIT
        margins_[i] = factor * score if y_[i] == 1 else -factor * score
        errors_[i] = SLACK * share / (1.0 - share) * abs(factor) * size * _length(square + other_square, d)


@jit
def hinge_losses(C: Array, margins: Array, errors: Array) -> tuple[float, float]:
    """Return the sum of C_i [1 - margin_i]_+, and a bound on its error."""
    value, change = 0.0, 0.0
    for i in range(C.shape[0]):
        slack, error = 1.0 - margins[i], errors[i] + 4.0 * UNIT
        value += C[i] * max(slack, 0.0)
        if not slack < -error:
            change += C[i] * error
    return value, SLACK * (_lost(C.shape[0]) * value + change)


@jit
def logistic_losses(C: Array, margins: Array, errors: Array, softs: Array) -> tuple[float, float]:
    """Return the sum of C_i log(1 + exp(-margin_i)), and a bound on its error; softs = log(1 + exp(-|margin|))."""
    value, change = 0.0, 0.0
    for i in range(C.shape[0]):
        loss, apart = max(-margins[i], 0.0) + softs[i], 2.0 * errors[i]
        value += C[i] * loss
        apart *= min(2.0 * loss, 1.0) if apart <= 1.0 else 1.0
        change += C[i] * (apart + LOSS_SHARE * loss + 4.0 * LEAST)
    return value, SLACK * (_lost(C.shape[0]) * value + change)


@inline
def _lost(n: int) -> float:
    """Return what n products and their sum lose, as a share of it."""
    share = (n + 10) * UNIT
    return SLACK * share / (1.0 - share)


@jit
def pair_sums(
    rows: Any, y: Array, C: Array, share: Array, logs: Array, V: Array, classes: Array, begin: int, end: int
) -> PairSums:
    """Add u_i [x_i, bias] to V, (d + 1,), for rows begin .. end - 1; for the softmax, C_i x_i to its class, too.

    ``classes`` is (2 d,), both classes of a feature side by side, or empty for the hinge; ``logs``, (2, n), has
    log(share) and log(1 - share), or is empty.
    """
    bare, V_, classes_, d, is_logistic = rows.bare(), pointer(V), pointer(classes), rows.d, classes.shape[0] > 0
    y_, C_, share_ = pointer(y), pointer(C), pointer(share)
    duals, pull, reach, prices, entropy, entropy_error = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    first, second = 0.0, 0.0
    for i in range(begin, end):
        price, label, q = C_[i], np.int64(y_[i]), share_[i]
        u = price * q if label == 1 else -price * q
        if u == 0.0 and not is_logistic:
            continue
        square = bare.bias * bare.bias
        start, stop = bare.entries(i)
        for p in range(start, stop):
            x, j = bare.value(p), bare.column(i, p)
            square += x * x
            V_[j] += u * x
            if is_logistic:
                classes_[2 * j + label] += price * x
        V_[d] += u * bare.bias
        length = _length(square, d)
        duals += abs(u)
        pull += u
        reach += length * abs(u)
        prices += length * price
        if label == 1:
            second += price
        else:
            first += price
        if is_logistic:
            depth = -logs[1, i]
            value = (1.0 - q) * depth - q * logs[0, i]
            entropy += price * value
            entropy_error += price * ENTROPY_SHARE * (value + q * (2.0 + depth))
    return PairSums(duals, pull, reach, prices, entropy, entropy_error, first, second)
