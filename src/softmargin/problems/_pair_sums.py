"""Compiled sums over rows of two classes, for what a stream proves: each reads its rows once.

    w        (d + 1,) a model: its score of a row is factor <w, [x_i, bias]>, positive for the second class
    size     its Euclidean norm
    share    (n,) in [0, 1]: the dual variable of a row as a share of C_i; for the softmax, the probability of the class
             that is not its label

These are the sums of ``problems.seen`` and of the losses, with the same bounds on their errors (maths: rounding,
sections 1 and 5), and share no code with the solvers. A sum over m rows has m roundings, in any order.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import inline, jit
from softmargin.backends.lanes import pointer
from softmargin.core.rounding import SLACK, TINY, ULPS, UNIT, gamma

__all__ = ["PairSums", "pair_losses", "pair_sums"]

Array = NDArray[Any]
LEAST = float(np.finfo(np.float64).tiny)  # of normal numbers
# Roundings of two classes, as ``losses.multinomial`` counts them.
ENTROPY_SHARE = gamma(2 + 4 * ULPS + 8)
LOSS_SHARE = gamma(3 * 2 + 12 * ULPS)
INSIDE = 1.0 - gamma(2 * 2 + 8)  # times a probability that may be 1: below 1, whatever rounds


class PairSums(NamedTuple):
    """Sums over some rows, u_i = C_i share_i for the second class, and less than zero for the first."""

    duals: float  # |u_i|
    pull: float  # u_i
    reach: float  # |x_i| |u_i|
    prices: float  # |x_i| C_i
    entropy: float  # C_i H(share_i)
    entropy_error: float


@inline
def _length(square: float, d: int) -> float:
    """Bound a norm whose squares may have underflown."""
    return float(np.sqrt(square + (d + 1) * TINY))


@jit
def pair_losses(
    rows: Any, y: Array, C: Array, w: Array, factor: float, size: float, is_logistic: bool
) -> tuple[float, float]:
    """Return the sum of C_i l_i, hinge or logistic, and a bound on its error."""
    bare, y_, C_, w_, d = rows.bare(), pointer(y), pointer(C), pointer(w), rows.d
    value, change = 0.0, 0.0
    for i in range(y.shape[0]):
        begin, end = bare.entries(i)
        score, square = bare.bias * w_[d], bare.bias * bare.bias
        for p in range(begin, end):
            x = bare.value(p)
            score += x * w_[bare.column(i, p)]
            square += x * x
        margin = factor * score if y_[i] == 1 else -factor * score
        share = (end - begin + 12) * UNIT
        error = SLACK * share / (1.0 - share) * abs(factor) * size * _length(square, d)
        if is_logistic:
            loss = max(-margin, 0.0) + math.log1p(math.exp(-abs(margin)))
            value += C_[i] * loss
            apart = 2.0 * error
            apart *= min(2.0 * loss, 1.0) if apart <= 1.0 else 1.0
            change += C_[i] * (apart + LOSS_SHARE * loss + 4.0 * LEAST)
        else:
            error += 4.0 * UNIT
            slack = 1.0 - margin
            value += C_[i] * max(slack, 0.0)
            if not slack < -error:
                change += C_[i] * error
    share = (y.shape[0] + 10) * UNIT
    return value, SLACK * (SLACK * share / (1.0 - share) * value + change)


@jit
def pair_sums(rows: Any, y: Array, C: Array, share: Array, V: Array, classes: Array, begin: int, end: int) -> PairSums:
    """Add u_i [x_i, bias] to V, (d + 1,), for rows begin .. end - 1; for the softmax, C_i x_i to its class, too.

    ``classes`` is (2 d,), the classes one after the other, or empty for the hinge. Shares are brought into
    [0, 1] first, those of the softmax below 1.
    """
    bare, V_, classes_, d, is_logistic = rows.bare(), pointer(V), pointer(classes), rows.d, classes.shape[0] > 0
    y_, C_, share_ = pointer(y), pointer(C), pointer(share)
    duals, pull, reach, prices, entropy, entropy_error = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(begin, end):
        price, label, q = C_[i], np.int64(y_[i]), min(max(share_[i], 0.0), 1.0)
        if is_logistic:
            q *= INSIDE
        u = price * q if label == 1 else -price * q
        square = bare.bias * bare.bias
        first, last = bare.entries(i)
        for p in range(first, last):
            x, j = bare.value(p), bare.column(i, p)
            square += x * x
            V_[j] += u * x
            if is_logistic:
                classes_[label * d + j] += price * x
        V_[d] += u * bare.bias
        length = _length(square, d)
        duals += abs(u)
        pull += u
        reach += length * abs(u)
        prices += length * price
        if is_logistic:
            depth = -math.log1p(-q)
            value = (1.0 - q) * depth - q * math.log(max(q, LEAST))
            entropy += price * value
            entropy_error += price * ENTROPY_SHARE * (value + q * (2.0 + depth))
    return PairSums(duals, pull, reach, prices, entropy, entropy_error)
