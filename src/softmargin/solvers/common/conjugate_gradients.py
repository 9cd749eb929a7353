"""Preconditioned conjugate gradients, within a ball where one is asked for (Steihaug).

    minimise  1/2 <x, H x> - <right, x>      by products with H alone

The residual right - H x is measured in the norm of the inverse metric, the one in which the method makes it small.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["N_VECTORS", "Solved", "conjugate_gradients"]

Array = NDArray[Any]
N_VECTORS = 4  # rows of scratch
MAX_PRODUCTS = 250
LONGEST = 1e30  # number that a step may hold


class Solved(NamedTuple):
    """What was found."""

    x: Array
    residual: Array  # right - H x
    at_edge: bool  # x lies on the ball


def conjugate_gradients(
    product: Callable[[Array, Array], None],
    right: Array,
    metric: Any,
    exactness: float,
    work: Array,
    *,
    radius: float = math.inf,
) -> Solved:
    """Solve H x = right until the residual has fallen to ``exactness``, or x meets the ball |x| <= radius.

    ``product(v, out)`` writes H v; ``work`` is (N_VECTORS, size), and what is returned lives in it.
    """
    x, residual, direction, image = work
    x[:] = 0.0
    residual[:] = right
    ahead = metric.solve(residual)
    direction[:] = ahead
    size = float(residual @ ahead)
    target = exactness * exactness * size
    for _ in range(MAX_PRODUCTS):
        if not size > target:
            break
        product(direction, image)
        bend = float(direction @ image)
        length = size / bend if bend > 0.0 else math.inf
        if not length * float(np.abs(direction).max()) < LONGEST:  # about the kernel of H: nothing is gained there
            break
        edge = _length_to_edge(x, direction, radius)
        if not length < edge:
            x += edge * direction
            residual -= edge * image
            return Solved(x, residual, True)
        x += length * direction
        residual -= length * image
        ahead = metric.solve(residual)
        size, last = float(residual @ ahead), size
        direction *= size / last
        direction += ahead
    return Solved(x, residual, False)


def _length_to_edge(x: Array, direction: Array, radius: float) -> float:
    """Return the t >= 0 with |x + t direction| = radius."""
    if radius == math.inf:
        return math.inf
    square, along = float(direction @ direction), float(x @ direction)
    room = max(radius * radius - float(x @ x), 0.0)
    root = float(np.sqrt(along * along + square * room))
    return room / (along + root) if along > 0.0 else (root - along) / square
