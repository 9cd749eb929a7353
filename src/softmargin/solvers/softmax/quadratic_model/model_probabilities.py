"""The probabilities of a quadratic model of the losses, whose gradient is that of the model.

    q_i = p_i + share_i (J(p_i) t_i + damping_i (t_i - mean of t_i over classes))                 maths: softmax, eq. 41

t_i is the move of the scores, share_i what the model has of the price of sample i. Where a model is minimised, its
gradient is within the bounds of the penalty, so q is a dual point that lacks terms of the second order only.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import jit
from softmargin.backends.lanes import WIDTH, keep, load, maximum, pointer, splat, store, total

__all__ = ["fill_probabilities"]

Array = NDArray[Any]


@jit
def fill_probabilities(
    P: Array, T: Array, C: Array, damping: Array, whole: Array, k: int, n_columns: int, out: Array
) -> None:
    """Write q to ``out``, cut at zero and scaled to probabilities; all are flat, with k numbers in a row.

    C are the prices that the model has, ``whole`` those of the losses; no class is pinned.
    """
    P_, T_, out_, listed = pointer(P), pointer(T), pointer(out), np.zeros(k)
    for c in range(n_columns):
        listed[c] = 1.0
    listed_, nothing = pointer(listed), splat(0.0)
    for i in range(damping.shape[0]):
        first, share = i * k, C[i] / whole[i] if whole[i] > 0.0 else 1.0
        means, sums, masses = nothing, nothing, nothing
        for o in range(first, first + k, WIDTH):
            t = load(T_, o)
            means = means + load(P_, o) * t
            sums = sums + t
        mean, middle = splat(total(means)), splat(total(sums) / n_columns)
        price, bend = splat(share), splat(share * damping[i])
        for o in range(first, first + k, WIDTH):
            p, t = load(P_, o), load(T_, o)
            q = maximum(p + price * p * (t - mean) + bend * load(listed_, o - first) * (t - middle), nothing)
            store(out_, o, q)
            masses = masses + q
        inverse = splat(1.0 / total(masses))
        for o in range(first, first + k, WIDTH):
            store(out_, o, load(out_, o) * inverse)
    keep(listed)
