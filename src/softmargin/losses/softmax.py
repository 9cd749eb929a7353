"""The multinomial logistic loss in compiled loops over rows of scores.

    p_c = exp(s_c) / sum exp(s)          loss = sum_i C_i (log sum_c exp(s_ic) - s_i,target)
    U = C (p - e_target)                 gradient by the scores
    C (p t - p <p, t>)                   Hessian by the scores, times a direction t

Scores are flat rows of k numbers, k padded to whole tiles with ``NEVER`` (a padding class has probability zero).
Two classes need one column: the score of the first class is then pinned to zero. Such a column is the log-odds of
class 1, and ``target`` is 0 for class 1 and -1 for class 0.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import inline, jit
from softmargin.backends.lanes import WIDTH, exp, largest, load, maximum, pointer, splat, store, total

__all__ = ["NEVER", "curvature_times", "loss_along", "residuals", "softmax_row", "softmax_rows"]

Array = NDArray[Any]
NEVER = -1e300


@inline
def softmax_row(S: Any, first: int, k: int, is_pinned: bool, P: Any, out: int) -> float:
    """Write the probabilities of scores S[first : first + k] to P[out : out + k]; return log sum exp."""
    top = splat(0.0 if is_pinned else -np.inf)
    for o in range(0, k, WIDTH):
        top = maximum(load(S, first + o), top)
    highest = largest(top)
    top = splat(highest)
    sums = splat(0.0)
    for o in range(0, k, WIDTH):
        e = exp(load(S, first + o) - top)
        store(P, out + o, e)
        sums = sums + e
    mass = total(sums)
    if is_pinned:
        mass += np.exp(-highest)
    inverse = splat(1.0 / mass)
    for o in range(0, k, WIDTH):
        store(P, out + o, load(P, out + o) * inverse)
    return highest + np.log(mass)


@jit
def softmax_rows(S: Array, target: Array, C: Array, k: int, is_pinned: bool, P: Array) -> float:
    """Fill P with the probabilities of all rows; return the sum of the losses."""
    S_, P_ = pointer(S), pointer(P)
    loss = 0.0
    for i in range(target.shape[0]):
        partition = softmax_row(S_, i * k, k, is_pinned, P_, i * k)
        own = S_[i * k + target[i]] if target[i] >= 0 else 0.0
        loss += C[i] * (partition - own)
    return loss


@jit
def loss_along(
    S: Array, T: Array, length: float, target: Array, C: Array, k: int, is_pinned: bool, new: Array, P: Array
) -> tuple[float, float, float]:
    """Write S + length T to ``new`` and its probabilities to P; return the losses and their first two derivatives."""
    S_, T_, new_, P_ = pointer(S), pointer(T), pointer(new), pointer(P)
    step = splat(length)
    loss, slope, bend = 0.0, 0.0, 0.0
    for i in range(target.shape[0]):
        first = i * k
        for o in range(first, first + k, WIDTH):
            store(new_, o, load(S_, o) + step * load(T_, o))
        partition = softmax_row(new_, first, k, is_pinned, P_, first)
        mean_lanes, square_lanes = splat(0.0), splat(0.0)
        for o in range(first, first + k, WIDTH):
            t = load(T_, o)
            weighted = load(P_, o) * t
            mean_lanes = mean_lanes + weighted
            square_lanes = square_lanes + weighted * t
        mean = total(mean_lanes)
        own, own_move = 0.0, 0.0
        if target[i] >= 0:
            own, own_move = new_[first + target[i]], T_[first + target[i]]
        loss += C[i] * (partition - own)
        slope += C[i] * (mean - own_move)
        bend += C[i] * (total(square_lanes) - mean * mean)
    return loss, slope, bend


@jit
def residuals(P: Array, target: Array, C: Array, k: int, U: Array) -> None:
    """Write C (P - e_target) to U; U may be P."""
    P_, U_ = pointer(P), pointer(U)
    for i in range(target.shape[0]):
        price = splat(C[i])
        for o in range(0, k, WIDTH):
            store(U_, i * k + o, load(P_, i * k + o) * price)
        if target[i] >= 0:
            U_[i * k + target[i]] -= C[i]


@jit
def curvature_times(P: Array, T: Array, C: Array, k: int, out: Array) -> None:
    """Write C (P T - P <P, T>) to out, row by row; out may be T."""
    P_, T_, out_ = pointer(P), pointer(T), pointer(out)
    for i in range(C.shape[0]):
        first = i * k
        mean_lanes = splat(0.0)
        for o in range(0, k, WIDTH):
            mean_lanes = mean_lanes + load(P_, first + o) * load(T_, first + o)
        mean, price = splat(total(mean_lanes)), splat(C[i])
        for o in range(0, k, WIDTH):
            store(out_, first + o, price * load(P_, first + o) * (load(T_, first + o) - mean))
