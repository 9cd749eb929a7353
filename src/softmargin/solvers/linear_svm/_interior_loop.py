"""Compiled passes of the interior point over its complementary pairs.

Arrays are flat. Row i has m pairs (lower, s) in a row, and either as many pairs (upper, t), "separate" (Weston-Watkins;
two classes), or one, "joint" (Crammer-Singer). maths: linear SVM, section 7, has the equations.

A loop that adds up writes nothing: where it does, the compiler compares addresses and may have another order of the sum
for arrays that lie close together, so that a run and its resumption could differ in their last bits.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import jit

__all__ = [
    "Pairs",
    "aim",
    "joint_moves",
    "joint_pull",
    "joint_stiffness",
    "longest_step",
    "recentre",
    "separate_moves",
    "separate_pull",
    "separate_stiffness",
]

Array = NDArray[Any]


class Pairs(NamedTuple):
    """The variables, or a move of them, or what their products shall become."""

    lower: Array  # beta, the distance from 0
    upper: Array  # the distance from the upper bound
    s: Array  # the multiplier of lower
    t: Array  # the multiplier of upper


@jit
def separate_stiffness(now: Pairs, stiffness: Array) -> None:
    """Write theta, the change of beta by a change of its margin."""
    for p in range(stiffness.shape[0]):
        stiffness[p] = 1.0 / (now.s[p] / now.lower[p] + now.t[p] / now.upper[p])


@jit
def separate_pull(now: Pairs, stiffness: Array, low: Array, high: Array, excess: Array, pull: Array) -> None:
    """Write the move of beta where no margin moves."""
    for p in range(pull.shape[0]):
        pull[p] = stiffness[p] * (low[p] / now.lower[p] - high[p] / now.upper[p] + excess[p])


@jit
def separate_moves(
    now: Pairs, stiffness: Array, low: Array, high: Array, excess: Array, pull: Array, dh: Array, move: Pairs
) -> None:
    """Write the moves of all variables, given those of the margins."""
    for p in range(pull.shape[0]):
        change = pull[p] + stiffness[p] * dh[p]
        move.lower[p] = change
        move.upper[p] = -change
        move.s[p] = (low[p] - now.s[p] * change) / now.lower[p]
        move.t[p] = (high[p] + now.t[p] * change) / now.upper[p]


@jit
def joint_stiffness(now: Pairs, stiffness: Array, slope: Array) -> None:
    """Write a = beta / s of every pair, and of every row the root of 1 / (upper / t + sum a)."""
    n = slope.shape[0]
    m = stiffness.shape[0] // max(n, 1)
    for i in range(n):
        for p in range(i * m, (i + 1) * m):
            stiffness[p] = now.lower[p] / now.s[p]
        total = now.upper[i] / now.t[i]
        for p in range(i * m, (i + 1) * m):
            total += stiffness[p]
        slope[i] = 1.0 / np.sqrt(total)


@jit
def joint_pull(
    now: Pairs, stiffness: Array, slope: Array, low: Array, high: Array, excess: Array, pull: Array, rise: Array
) -> None:
    """Write the moves of beta where no margin moves, and those of t."""
    n = slope.shape[0]
    m = stiffness.shape[0] // max(n, 1)
    for i in range(n):
        for p in range(i * m, (i + 1) * m):
            pull[p] = low[p] / now.s[p] + stiffness[p] * excess[p]
        total = high[i] / now.t[i]
        for p in range(i * m, (i + 1) * m):
            total += pull[p]
        rise[i] = total * slope[i] * slope[i]
        for p in range(i * m, (i + 1) * m):
            pull[p] -= stiffness[p] * rise[i]


@jit
def joint_moves(
    stiffness: Array, slope: Array, excess: Array, pull: Array, rise: Array, dh: Array, move: Pairs
) -> None:
    """Write the moves of all variables, given those of the margins."""
    n = slope.shape[0]
    m = stiffness.shape[0] // max(n, 1)
    for i in range(n):
        mean = 0.0
        for p in range(i * m, (i + 1) * m):
            mean += stiffness[p] * dh[p]
        mean *= slope[i] * slope[i]
        move.t[i] = rise[i] + mean
        for p in range(i * m, (i + 1) * m):
            move.lower[p] = pull[p] + stiffness[p] * (dh[p] - mean)
            move.s[p] = move.t[i] - dh[p] - excess[p]
        total = 0.0
        for p in range(i * m, (i + 1) * m):
            total += move.lower[p]
        move.upper[i] = -total


@jit
def longest_step(x: Array, dx: Array) -> float:
    """Return the largest a with x + a dx >= 0; infinite where none falls."""
    # The reciprocal is the largest of all -dx / x: one maximum, no branch.
    fastest = 0.0
    for p in range(x.shape[0]):
        fastest = max(fastest, -dx[p] / x[p])
    return 1.0 / fastest if fastest > 0.0 else np.inf


@jit
def aim(x: Array, z: Array, dx: Array, dz: Array, mu: float, out: Array) -> None:
    """Write by how much the products x z miss mu, less dx dz, what a move of both adds to them."""
    for p in range(x.shape[0]):
        out[p] = mu - x[p] * z[p] - dx[p] * dz[p]


@jit
def recentre(
    x: Array, z: Array, dx: Array, dz: Array, a: float, mu: float, width: float, aims: Array, out: Array
) -> None:
    """Write aims that also bring products which a step a would leave outside mu / width .. mu width back there."""
    for p in range(x.shape[0]):
        product = (x[p] + a * dx[p]) * (z[p] + a * dz[p])
        wanted = min(max(product, mu / width), mu * width) - product
        out[p] = aims[p] + max(wanted, -mu * width)
