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

from softmargin.backends.jit import jit
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
        bend, largest = _bend(direction, image)
        length = size / bend if bend > 0.0 else math.inf
        if not length * largest < LONGEST:  # H is singular along the direction: no gain there
            break
        edge = _length_to_edge(x, direction, radius)
        if not length < edge:
            _go(edge, direction, image, x, residual)
            return Solved(x, residual, True)
        square = _go(length, direction, image, x, residual)
        ahead = metric(residual)
        size = _turn(residual, ahead, size, direction)
        if not is_euclidean:
            square = size
    return Solved(x, residual, False)


@jit
def _bend(direction: Array, image: Array) -> tuple[float, float]:
    """Return <p, H p>, and the largest entry of p without its sign: infinite where p is not finite."""
    bend, largest = 0.0, 0.0
    for j in range(direction.shape[0]):
        bend += direction[j] * image[j]
    for j in range(direction.shape[0]):
        size = abs(direction[j])
        largest = size if size > largest else largest
    return bend, largest if math.isfinite(bend) else math.inf


@jit
def _go(length: float, direction: Array, image: Array, x: Array, residual: Array) -> float:
    """Go so far along p; return the square of the residual there."""
    for j in range(x.shape[0]):
        x[j] += length * direction[j]
    for j in range(x.shape[0]):
        residual[j] -= length * image[j]
    square = 0.0
    for j in range(x.shape[0]):
        square += residual[j] * residual[j]
    return square


@jit
def _turn(residual: Array, ahead: Array, last: float, direction: Array) -> float:
    """Turn p to the metric's step from the residual, conjugate to the steps before; return <residual, step>."""
    size = 0.0
    for j in range(residual.shape[0]):
        size += residual[j] * ahead[j]
    share = size / last
    for j in range(residual.shape[0]):
        direction[j] = share * direction[j] + ahead[j]
    return size


def _length_to_edge(x: Array, direction: Array, radius: float) -> float:
    """Return the t >= 0 with |x + t direction| = radius."""
    if radius == math.inf:
        return math.inf
    square, along = float(direction @ direction), float(x @ direction)
    room = max(radius * radius - float(x @ x), 0.0)
    root = float(np.sqrt(along * along + square * room))
    return room / (along + root) if along > 0.0 else (root - along) / square
