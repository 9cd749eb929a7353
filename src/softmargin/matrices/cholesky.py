"""Solving with a Cholesky factor and one vector at a time.

    H x = b ,    H = L L'          L z = b by rows, then L' x = z by rows as well

Both loops go along the rows of L, in the order in which they lie in memory: a solution takes no longer than reading L
twice. LAPACK's takes four times as long for one vector (x86, 700 rows). Small systems are factored and solved by one
loop: a call of LAPACK takes as long as 30 unknowns do.
"""

import math
from typing import Any

from numpy.typing import NDArray

from softmargin.backends.jit import jit

__all__ = ["solve_factored", "solve_in_place", "solve_lower", "solve_upper"]

Array = NDArray[Any]


@jit
def solve_factored(L: Array, x: Array) -> None:
    """Replace x by the solution of L L' x = x; L is (d, d), row-major, and only its lower triangle is read."""
    solve_lower(L, x)
    solve_upper(L, x)


@jit
def solve_lower(L: Array, x: Array) -> None:
    """Replace x by the solution of L x = x, with as many rows of L as x has."""
    for i in range(x.shape[0]):
        row = L[i]
        known = row[i] - row[i]  # a zero of the same kind of number
        for j in range(i):
            known += row[j] * x[j]
        x[i] = (x[i] - known) / row[i]


@jit
def solve_upper(L: Array, x: Array) -> None:
    """Replace x by the solution of L' x = x, with as many rows of L as x has."""
    for i in range(x.shape[0] - 1, -1, -1):
        row = L[i]
        x[i] /= row[i]
        own = x[i]
        for j in range(i):
            x[j] -= own * row[j]


@jit
def solve_in_place(H: Array, x: Array) -> bool:
    """Replace x by the solution of H x = x, and the upper triangle of H, which alone is read, by L'.

    Returns whether H is positive definite to rounding; else both are of no use.
    """
    d = x.shape[0]
    for i in range(d):
        if not 0.0 < H[i, i] < math.inf:
            return False
        root = math.sqrt(H[i, i])
        for j in range(i, d):
            H[i, j] /= root
        x[i] /= root
        for j in range(i + 1, d):
            share = H[i, j]
            for other in range(j, d):
                H[j, other] -= share * H[i, other]
            x[j] -= share * x[i]
    for i in range(d - 1, -1, -1):
        known = 0.0
        for j in range(i + 1, d):
            known += H[i, j] * x[j]
        x[i] = (x[i] - known) / H[i, i]
    return True
