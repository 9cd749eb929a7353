"""Values and conjugates of penalties with proven errors. Maths: rounding, section 5.

Every penalty in its own file is plain arithmetic. What is relied on here, for one without a ``conjugate_within``:

    value        is a sum over entries or rows of numbers >= 0, each with at most ``OPERATIONS + k`` roundings
    conjugate    does not fall where entries of |V| grow (so it is for every g that sees |W| only), and
                 (1 + e) V makes up for k + ``OPERATIONS`` roundings of a row's part if e is their relative error
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.core.rounding import Rounded, gamma

__all__ = ["FLOOR", "OPERATIONS", "outward", "rounded_conjugate", "rounded_value"]

Array = NDArray[Any]
OPERATIONS = 32
FLOOR = 2.0**-500  # squares of numbers from here on do not underflow


def rounded_value(penalty: Any, W: Array) -> Rounded:
    """Return g(W): where squares underflow, it lies between the values at zero and at ``FLOOR`` in their places."""
    value, share = float(penalty.value(W)), gamma(W.size + W.shape[1] + OPERATIONS)
    error = share * abs(value)
    is_small = (np.abs(W) < FLOOR) & (W != 0.0)
    if is_small.any() and math.isfinite(value):
        low, high = (float(penalty.value(np.where(is_small, np.copysign(size, W), W))) for size in (0.0, FLOOR))
        error += max(high - low, 0.0) + 2.0 * share * abs(high)
    return Rounded(value, error)


def outward(V: Array, error: Array, operations: int) -> Array:
    """Return V with every entry further from zero, by its error and by so many relative roundings."""
    return np.asarray(V + np.copysign(error + gamma(operations) * np.abs(V) + FLOOR, V))


def rounded_conjugate(penalty: Any, V: Array, error: Array) -> Rounded:
    """Return g*, infinite or not above its upper end anywhere within ``error`` (d, k) of V and of V (1 - 2u)."""
    if hasattr(penalty, "conjugate_within"):
        most = float(penalty.conjugate_within(V, error))
    else:
        most = float(penalty.conjugate(outward(V, error, V.shape[1] + OPERATIONS)))
        most += gamma(V.size + OPERATIONS) * abs(most)
    if not math.isfinite(most):
        return Rounded(math.inf)
    value = min(float(penalty.conjugate(V)), most)
    return Rounded(value, most - value)
