"""The minimum of F along a line, about: Newton's method in one dimension, within a bracket.

F is convex, and a trial costs only exponentials (parts.ridge_model), so the search goes on until the slope has fallen
to a share of what it was.
"""

import math
from typing import Any

from numpy.typing import NDArray

from softmargin.solvers.softmax._ridge_objective import RidgeModel, RidgeState

__all__ = ["search_line"]

Array = NDArray[Any]
FLAT = 0.2  # share of the first slope at which the search ends
LARGEST = 10.0  # a trial is at most this many times as long as the one before
ROUNDING = 1e-14  # share of F by which it may rise for want of digits
MAX_TRIALS = 40


def search_line(model: RidgeModel, state: RidgeState, D: Array, slope: float, first: float = 1.0) -> float:
    """Go from the state's point along D, a direction with ``slope`` < 0 that the model has been aimed at.

    Returns the length of the step; 0 where rounding hides every fall.
    """
    low, high, length = 0.0, math.inf, first if first < math.inf else 1.0
    highest = state.value + ROUNDING * abs(state.value)
    for _ in range(MAX_TRIALS):
        value, rise, bend = model.attempt(state, length)
        if abs(rise) <= -FLAT * slope and value <= highest:
            break
        if rise < 0.0 and value < math.inf:
            low = length
        else:
            high = length
        new = length - rise / bend if bend > 0.0 else math.inf
        if not low < new < high:
            new = 0.5 * (low + high) if high < math.inf else math.inf
        length = min(new, LARGEST * length)
    else:
        length = low
        value, _, _ = model.attempt(state, length)
    if not value <= highest:
        model.stay(state)
        return 0.0
    model.accept(state, D, length, value)
    return length
