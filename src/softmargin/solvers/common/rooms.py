"""How far dual variables with a sign, u = y a, may move: 0 <= a <= upper, where upper may be infinite.

y = +1    fall = -a ,           rise = upper - a
y = -1    fall = a - upper ,    rise = a
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["rooms", "sizes_after"]

Array = NDArray[Any]


def rooms(is_positive: Array, sizes: Array, upper: Array) -> tuple[Array, Array]:
    """Return how far every variable may rise and fall; ``sizes`` are the a."""
    left = upper - sizes
    return np.where(is_positive, left, sizes), -np.where(is_positive, sizes, left)


def sizes_after(is_positive: Array, rise: Array, fall: Array, upper: Array) -> Array:
    """Return the a after moves that have changed the rooms."""
    used, left = np.where(is_positive, (-fall, rise), (rise, -fall))
    # A variable that reached its bound is set to it: the sum of its moves misses it by rounding.
    return np.where(left == 0.0, upper, np.minimum(used, upper))
