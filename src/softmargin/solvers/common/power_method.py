"""The power method: the largest eigenvalue of a positive semidefinite matrix, by products with it alone."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.core.deadline import check_time

__all__ = ["largest_eigenvalue"]

Array = NDArray[Any]
_TINY = float(np.finfo(float).tiny)


def largest_eigenvalue(
    product: Callable[[Array], Array], v: Array, *, steps: int, change: float | None = None
) -> float:
    """Return the largest eigenvalue from below; 0 where the matrix is zero.

    Parameters
    ----------
    product : callable
        Multiplies the matrix by an array like ``v``.
    v : array of shape (size,) or (size, m)
        Where to start: one vector, or m at once, of which the best counts.
    steps : int
        Most products.
    change : float, optional
        Stop where a step raises the value by less than this share; by default make all steps.
    """
    axis = None if v.ndim == 1 else 0
    value, norm = 0.0, np.linalg.norm(v, axis=axis)
    for _ in range(steps):
        check_time()
        v = product(v / np.maximum(norm, _TINY))
        norm = np.linalg.norm(v, axis=axis)
        value, before = float(np.max(norm)), value
        if value == 0.0 or (change is not None and not value > before * (1.0 + change)):
            break
    return value
