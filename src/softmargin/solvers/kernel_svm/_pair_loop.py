"""The compiled loop of two-class descent without a bias: repeated steps on the best pair of dual variables.

    maximise over u:   sum_i y_i u_i - 1/2 u'K u ,   u_i y_i in [0, C_i]
    S = y - K u  is the gradient;   fall_i <= 0 <= rise_i  is how far u_i may move

No sum of u is fixed, so one variable could move at a time. But two similar samples would then alternate, each undoing
part of the other's step, many times where C is large. A step on the pair ends that at once.

    i    gains most by itself:   S_i d - 1/2 K_ii d^2 ,  d = S_i / K_ii within its room
    j    gains most after it, i giving way where it has room:   S_j - d K_ij for S_j,  K_jj - K_ij^2 / K_ii for K_jj
    both move to the optimum of their square

All gains are doubled. Source: pairs for SVMs without a bias are those of Steinwart, Hush and Scovel (2011), "Training
SVMs without offset"; we differ: the second variable is chosen from all, not from a few neighbours.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import inline, jit
from softmargin.backends.lanes import pointer
from softmargin.backends.loops import CHUNK, largest_of

__all__ = ["Square", "descend_free_pairs"]

Array = NDArray[Any]
# Share of K_jj that is left of it at least, where i gives way: rounding may leave nothing of equal rows.
SMALLEST = 1e-9


class Square(NamedTuple):
    """The problem on m samples; vectors are padded to whole chunks, with no room to move."""

    K: Array  # (m, m)
    diagonal: Array  # (m,) K_ii > 0
    S: Array  # (m,) gradient, updated
    rise: Array  # (m,) updated
    fall: Array  # (m,) updated
    gain: Array  # (m,) scratch


class _Pair(NamedTuple):
    """What two variables gain by their moves."""

    S_i: float
    S_j: float
    K_ii: float
    K_ij: float
    K_jj: float


@inline
def _within(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


@inline
def _gain(p: _Pair, d_i: float, d_j: float) -> float:
    return d_i * (2.0 * p.S_i - p.K_ii * d_i) + d_j * (2.0 * p.S_j - p.K_jj * d_j) - 2.0 * p.K_ij * d_i * d_j


@inline
def _best_move(p: _Pair, low_i: float, high_i: float, low_j: float, high_j: float) -> tuple[float, float]:
    """Return how far both variables of a pair move: to the top of the square, else to the best point of its edges."""
    determinant = p.K_ii * p.K_jj - p.K_ij * p.K_ij
    if determinant > SMALLEST * p.K_ii * p.K_jj:
        d_i = (p.K_jj * p.S_i - p.K_ij * p.S_j) / determinant
        d_j = (p.K_ii * p.S_j - p.K_ij * p.S_i) / determinant
        if low_i <= d_i <= high_i and low_j <= d_j <= high_j:
            return d_i, d_j
    # Rounding must not leave a pair where it is: the first variable alone gains.
    best_i, best_j = _within(p.S_i / p.K_ii, low_i, high_i), 0.0
    best = _gain(p, best_i, best_j)
    for edge in range(4):
        if edge < 2:
            d_i = low_i if edge == 0 else high_i
            d_j = _within((p.S_j - p.K_ij * d_i) / p.K_jj, low_j, high_j)
        else:
            d_j = low_j if edge == 2 else high_j
            d_i = _within((p.S_i - p.K_ij * d_j) / p.K_ii, low_i, high_i)
        found = _gain(p, d_i, d_j)
        if found > best:
            best, best_i, best_j = found, d_i, d_j
    return best_i, best_j


@jit
def descend_free_pairs(square: Square, budget: int, target: float, check_every: int, alarm: Array) -> int:
    """Move pairs until the gap, sum_i max(S_i rise_i, S_i fall_i), is at most ``target``; return how many moved.

    The gap is evaluated before every ``check_every``-th pair; at most ``budget`` pairs move, and none
    after the alarm.
    """
    K_, q_, S_ = pointer(square.K), pointer(square.diagonal), pointer(square.S)
    rise_, fall_, gain_ = pointer(square.rise), pointer(square.fall), pointer(square.gain)
    m = square.K.shape[0]
    end = (m + CHUNK - 1) // CHUNK * CHUNK
    d_i, d_j, row_i, row_j = 0.0, 0.0, 0, 0
    done = 0
    while True:
        best, at = 0.0, -1
        for first in range(0, end, CHUNK):
            for t in range(first, min(first + CHUNK, m)):
                S_[t] -= d_i * np.float64(K_[row_i + t]) + d_j * np.float64(K_[row_j + t])
                d = _within(S_[t] / q_[t], fall_[t], rise_[t])
                gain_[t] = d * (2.0 * S_[t] - q_[t] * d)
            found = largest_of(gain_, first)
            if found > best:
                best, at = found, first
        if at < 0 or done >= budget or alarm[0] != 0:
            return done
        if done % check_every == 0:
            gap = 0.0
            for t in range(m):
                gap += max(S_[t] * rise_[t], S_[t] * fall_[t])
            if gap <= target:
                return done
        i = at
        while gain_[i] != best:
            i += 1
        row_i = i * m
        d = _within(S_[i] / q_[i], fall_[i], rise_[i])
        give = 1.0 / q_[i] if fall_[i] < d < rise_[i] else 0.0
        best, at = 0.0, -1
        for first in range(0, end, CHUNK):
            for t in range(first, min(first + CHUNK, m)):
                k = np.float64(K_[row_i + t])
                s = S_[t] - d * k
                q = max(q_[t] - give * k * k, SMALLEST * q_[t])
                d_j = _within(s / q, fall_[t], rise_[t])
                gain_[t] = d_j * (2.0 * s - q * d_j)
            gain_[i] = 0.0
            found = largest_of(gain_, first)
            if found > best:
                best, at = found, first
        d_i, d_j, row_j = d, 0.0, row_i
        if at >= 0:
            j = at
            while gain_[j] != best:
                j += 1
            row_j = j * m
            K_ij = np.float64(K_[row_i + j])
            pair = _Pair(S_[i], S_[j], q_[i], K_ij, q_[j])
            d_i, d_j = _best_move(pair, fall_[i], rise_[i], fall_[j], rise_[j])
            rise_[j] -= d_j
            fall_[j] -= d_j
        rise_[i] -= d_i
        fall_[i] -= d_i
        done += 1
