"""The compiled loops of sequential minimal optimisation: the best pair (or single variable) again and again.

    u = y a ,   S_i = y_i - F_i - r_i u_i  = -y_i grad_i ,   F = K u                     maths: squared hinge, section 6
    fall_i <= 0 <= rise_i  is how far u_i may move: up to 0 or without end (squared hinge, r = 1 / C), or between 0 and
                           y C (hinge, r = 0)
    up_i  = 0 where u_i may rise, else -inf ;   low_i = 0 where u_i may fall, else +inf

All loops go by chunks of samples that stay in the first cache: a plain loop that the compiler vectorises, then the
largest value of the chunk in lanes (compilers leave loops that search for a maximum scalar). Arrays of samples are
padded to whole chunks with up = -inf, low = inf; K has n columns and no padding.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import inline, jit
from softmargin.backends.lanes import WIDTH, largest, load, maximum, pointer
from softmargin.backends.loops import CHUNK, in_chunks, largest_of

__all__ = ["DualVariables", "descend_pairs", "descend_singles"]

Array = NDArray[Any]
# Share of K_ii + K_jj that |phi_i - phi_j|^2 counts at least: rounding leaves nothing of equal samples, or less.
SMALLEST = 1e-12
NOTHING = 1e-300  # instead of a curvature of zero: the step ends at a bound


class DualVariables(NamedTuple):
    """The dual variables of some samples, with their square of K; all but K and n are padded to whole chunks."""

    K: Array  # (n * n,) row-major; only rows of samples with up = 0 or low = 0 are read
    n: int
    S: Array
    rise: Array
    fall: Array
    up: Array
    low: Array
    diagonal: Array  # K_ii, in the precision of K
    ridge: Array  # r_i
    gain: Array  # scratch

    @staticmethod
    def of(
        K: Array, S: Array, rise: Array, fall: Array, diagonal: Array, ridge: Array, up: Array, low: Array
    ) -> "DualVariables":
        """Pad the vectors of some samples."""
        return DualVariables(
            K.reshape(-1),
            len(S),
            in_chunks(S, 0.0),
            in_chunks(rise, 0.0),
            in_chunks(fall, 0.0),
            in_chunks(up, -np.inf),
            in_chunks(low, np.inf),
            # In the precision of K: |phi_i - phi_j|^2 of equal rows is then zero.
            in_chunks(diagonal.astype(K.dtype), 1.0),
            in_chunks(ridge, 1.0),
            in_chunks(np.zeros(len(S)), 0.0),
        )


@inline
def _largest_sum(left: Any, right: Any, first: int) -> float:
    """Return the largest left_t + right_t of a chunk."""
    a0 = load(left, first) + load(right, first)
    a1 = load(left, first + WIDTH) + load(right, first + WIDTH)
    p = first + 2 * WIDTH
    while p < first + CHUNK:
        a0 = maximum(a0, load(left, p) + load(right, p))
        a1 = maximum(a1, load(left, p + WIDTH) + load(right, p + WIDTH))
        p += 2 * WIDTH
    return largest(maximum(a0, a1))


@inline
def _smallest_sum(left: Any, right: Any, n: int) -> float:
    """Return the smallest left_t + right_t of all samples."""
    least = np.inf
    for t in range(n):
        least = min(least, left[t] + right[t])
    return least


@jit
def descend_pairs(variables: Any, budget: int, target: float, check_every: int, alarm: Array) -> int:
    """Move pairs (i, j), u_i += step, u_j -= step, until the violation m - M is at most ``target``.

    i has the largest S of those that may rise; j, of those that may fall, has the largest gain with it (second order).
    The violation is tested every ``check_every`` updates; the alarm ends the loop. Returns the number of updates made.
    """
    K, n, S, rise, fall, up, low, diagonal, ridge, gain = variables
    K_, S_, rise_, fall_, up_, low_ = pointer(K), pointer(S), pointer(rise), pointer(fall), pointer(up), pointer(low)
    diagonal_, ridge_, gain_ = pointer(diagonal), pointer(ridge), pointer(gain)
    end = (n + CHUNK - 1) // CHUNK * CHUNK
    m, at = -np.inf, 0
    for first in range(0, end, CHUNK):
        found = _largest_sum(S_, up_, first)
        if found > m:
            m, at = found, first
    done = 0
    while done < budget and m > -np.inf and alarm[0] == 0:
        if done % check_every == 0 and m - _smallest_sum(S_, low_, n) <= target:
            break
        i = at
        while S_[i] + up_[i] != m:
            i += 1
        row_i = i * n
        own, shift = diagonal_[i], ridge_[i] + NOTHING
        best, at = 0.0, -1
        for first in range(0, end, CHUNK):
            for t in range(first, min(first + CHUNK, n)):
                apart = m - (S_[t] + low_[t])
                apart = apart if apart > 0.0 else 0.0
                both = own + diagonal_[t]
                distance = both - 2.0 * np.float64(K_[row_i + t])
                least = SMALLEST * both
                distance = distance if distance > least else least
                gain_[t] = apart * apart / (distance + shift + ridge_[t])
            found = largest_of(gain_, first)
            if found > best:
                best, at = found, first
        if at < 0:
            break
        j = at
        while gain_[j] != best:
            j += 1
        row_j = j * n
        both = own + diagonal_[j]
        distance = max(both - 2.0 * np.float64(K_[row_i + j]), SMALLEST * both)
        step = min((m - S_[j]) / (distance + shift + ridge_[j]), rise_[i], -fall_[j])
        rise_[i] -= step
        fall_[i] -= step
        rise_[j] += step
        fall_[j] += step
        up_[i], low_[i] = 0.0 if rise_[i] > 0.0 else -np.inf, 0.0
        low_[j], up_[j] = 0.0 if fall_[j] < 0.0 else np.inf, 0.0
        S_[i] -= step * ridge_[i]
        S_[j] += step * ridge_[j]
        m, at = -np.inf, 0
        for first in range(0, end, CHUNK):
            for t in range(first, min(first + CHUNK, n)):
                S_[t] -= step * (np.float64(K_[row_i + t]) - np.float64(K_[row_j + t]))
            found = _largest_sum(S_, up_, first)
            if found > m:
                m, at = found, first
        done += 1
    return done


@jit
def descend_singles(variables: Any, budget: int, target: float, check_every: int, alarm: Array) -> int:
    """Without a bias no sum is fixed: move one variable at a time, until |S_i| <= ``target`` for all that can move.

    The variable is the one with the largest gain S_i^2 / (K_ii + r_i). Arguments as in ``descend_pairs``.
    """
    K, n, S, rise, fall, up, low, diagonal, ridge, gain = variables
    K_, S_, rise_, fall_, up_, low_ = pointer(K), pointer(S), pointer(rise), pointer(fall), pointer(up), pointer(low)
    diagonal_, ridge_, gain_ = pointer(diagonal), pointer(ridge), pointer(gain)
    end = (n + CHUNK - 1) // CHUNK * CHUNK
    i = 0
    while i < n and up_[i] < 0.0 and low_[i] > 0.0:
        i += 1
    if i == n:
        return 0
    # The first pass moves nothing: it reads the row of a sample that can move, as others may hold anything, also NaN.
    step, row, done = 0.0, i * n, -1
    while True:
        best, at = 0.0, -1
        for first in range(0, end, CHUNK):
            for t in range(first, min(first + CHUNK, n)):
                S_[t] -= step * np.float64(K_[row + t])
                upwards, downwards = S_[t] + up_[t], -(S_[t] + low_[t])
                move = upwards if upwards > downwards else downwards
                move = move if move > 0.0 else 0.0
                gain_[t] = move * move / (diagonal_[t] + ridge_[t])
            found = largest_of(gain_, first)
            if found > best:
                best, at = found, first
        done += 1
        if at < 0 or done >= budget or alarm[0] != 0:
            return done
        if done % check_every == 0:
            worst = 0.0
            for t in range(n):
                worst = max(worst, max(S_[t] + up_[t], -(S_[t] + low_[t])))
            if worst <= target:
                return done
        i = at
        while gain_[i] != best:
            i += 1
        step = min(max(S_[i] / (diagonal_[i] + ridge_[i]), fall_[i]), rise_[i])
        rise_[i] -= step
        fall_[i] -= step
        up_[i] = 0.0 if rise_[i] > 0.0 else -np.inf
        low_[i] = 0.0 if fall_[i] < 0.0 else np.inf
        S_[i] -= step * ridge_[i]
        row = i * n
