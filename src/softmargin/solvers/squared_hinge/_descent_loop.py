"""Compiled passes of coordinate descent on the dual of the linear L2-SVM."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import jit
from softmargin.backends.lanes import pointer
from softmargin.backends.loops import shuffle

__all__ = ["Coordinates", "descend_coordinates"]

Array = NDArray[Any]


class Coordinates(NamedTuple):
    """The dual as the passes see it, and which samples they visit."""

    rows: Any  # of X
    y: Array  # (n,)
    inverse_C: Array  # (n,)
    curvature: Array  # (n,) |x_i|^2 + rho + 1 / C_i
    alpha: Array  # (n,)
    weights: Array  # (d,) sum of alpha_i y_i x_i
    balance: Array  # (2,) b, and rho
    gaps: Array  # (n,) gap of each sample when last visited
    order: Array  # (n,) samples
    random: Array  # (1,) state of the shuffle


@jit
def descend_coordinates(dual: Any, m: int, steepest: float, budget: int, target: float, alarm: Array) -> Any:
    """Pass over order[:m] until the gap found in one pass is at most ``target`` or ``budget`` visits are spent.

    A sample at zero whose gradient is above ``steepest``, the largest violation of the pass before, leaves the set.
    Returns what is left of m, the largest violation of the last pass, its gap, and the number of visits.
    """
    rows, y_, inverse_, curve_ = dual.rows.bare(), pointer(dual.y), pointer(dual.inverse_C), pointer(dual.curvature)
    alpha_, w_, b_ = pointer(dual.alpha), pointer(dual.weights), pointer(dual.balance)
    gaps_, order_, alarm_ = pointer(dual.gaps), pointer(dual.order), pointer(alarm)
    done = 0
    while True:
        shuffle(order_, m, dual.random)
        largest, total = 0.0, 0.0
        t = 0
        while t < m and alarm_[0] == 0:
            i = order_[t]
            done += 1
            begin, end = rows.entries(i)
            score = b_[0]
            for p in range(begin, end):
                score += rows.value(p) * w_[rows.column(i, p)]
            a, ridge, ahead = alpha_[i], inverse_[i], y_[i] * score - 1.0
            slack = max(-ahead, 0.0)
            gaps_[i] = 0.5 * (slack - a * ridge) * ((slack - a * ridge) / ridge) + a * (ahead + slack)
            total += gaps_[i]
            slope = ahead + a * ridge
            if a == 0.0 and slope >= 0.0:
                if slope > steepest:
                    m -= 1
                    order_[t], order_[m] = order_[m], i
                    continue
                t += 1
                continue
            largest = max(largest, abs(slope))
            new = max(a - slope / curve_[i], 0.0)
            if new != a:
                alpha_[i] = new
                move = (new - a) * y_[i]
                b_[0] += b_[1] * move
                for p in range(begin, end):
                    w_[rows.column(i, p)] += move * rows.value(p)
            t += 1
        if total <= target or done >= budget or m == 0 or alarm_[0] != 0:
            return m, largest, total, done
        steepest = largest if largest > 0.0 else np.inf
