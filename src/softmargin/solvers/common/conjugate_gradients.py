"""Preconditioned conjugate gradients, within a ball where a radius is given (Steihaug).

    minimise  1/2 <x, H x> - <right, x>      by products with H alone

The residual right - H x is measured in the norm of the inverse metric, in which the method itself works, or in the
Euclidean norm.

Source: Hestenes and Stiefel (1952); Steihaug (1983) for the ball.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.lanes import zeros
from softmargin.core.deadline import is_time_up

__all__ = ["Metric", "Solved", "conjugate_gradients"]

Array = NDArray[Any]
Metric = Callable[[Array], Array]  # a preconditioner: the inverse of a matrix like H, times a vector
LONGEST = 1e30  # entries of a step stay far below the largest float64


class Solved(NamedTuple):
    """The solution, its residual, and whether the ball stopped it."""

    x: Array
    residual: Array  # right - H x
    at_edge: bool  # x lies on the ball


def conjugate_gradients(
    product: Callable[[Array, Array], None],
    right: Array,
    metric: Metric,
    exactness: float,
    *,
    radius: float = math.inf,
    is_euclidean: bool = False,
    max_products: int = 250,
) -> Solved:
    """Solve H x = right until the residual has fallen to the share ``exactness``, or x meets the ball |x| <= radius.

    ``product(v, out)`` writes H v; ``is_euclidean`` chooses the norm of the residual. The default of ``max_products``
    was chosen by hand.
    """
    x, residual, direction, image = zeros(4, len(right))
    residual[:] = right
    ahead = metric(residual)
    direction[:] = ahead
    size = float(residual @ ahead)
    square = float(residual @ residual) if is_euclidean else size
    target = exactness * exactness * square
    for _ in range(max_products):
        if not square > target or is_time_up():
            break
        product(direction, image)
        bend = float(direction @ image)
        length = size / bend if bend > 0.0 else math.inf
        if not length * float(np.abs(direction).max()) < LONGEST:  # H is singular along the direction: no gain there
            break
        edge = _length_to_edge(x, direction, radius)
        if not length < edge:
            x += edge * direction
            residual -= edge * image
            return Solved(x, residual, True)
        x += length * direction
        residual -= length * image
        ahead = metric(residual)
        size, last = float(residual @ ahead), size
        square = float(residual @ residual) if is_euclidean else size
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
