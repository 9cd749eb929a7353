"""Compiled sums of what a softmax stream keeps beside V: rows of X by their classes, and the square of (7).

maths: streams, section 2. Each reads its arrays once, and makes none of their size.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import jit
from softmargin.backends.lanes import pointer, pointer_to

__all__ = ["add_by_class", "balanced_squares"]

Array = NDArray[Any]


@jit
def add_by_class(rows: Any, y: Array, C: Array, sums: Array) -> None:
    """Add C_i x_i to the column of its class; sums (d, k), C-ordered."""
    bare, y_, C_, sums_, k = rows.bare(), pointer(y), pointer(C), pointer_to(sums, 0), sums.shape[1]
    for i in range(y.shape[0]):
        begin, end = bare.entries(i)
        for p in range(begin, end):
            sums_[bare.column(i, p) * k + np.int64(y_[i])] += C_[i] * bare.value(p)


@jit
def balanced_squares(V: Array, classes: Array, share: float, rho: Array, squares: Array) -> float:
    """Add the squared columns of (1 - share) V + s rho' - share classes to ``squares``, s = classes 1; return |s|^2.

    V is (d, m) and has the last m of the k columns that ``classes``, (d, k), has; rho and squares are (m,).
    """
    (d, m), k = V.shape, classes.shape[1]
    V_, classes_, rho_, squares_ = pointer_to(V, 0), pointer_to(classes, 0), pointer(rho), pointer(squares)
    kept, length = 1.0 - share, 0.0
    for j in range(d):
        row, own = j * k, j * k + k - m
        total = 0.0
        for c in range(k):
            total += classes_[row + c]
        length += total * total
        for c in range(m):
            part = kept * V_[j * m + c] + total * rho_[c] - share * classes_[own + c]
            squares_[c] += part * part
    return length
