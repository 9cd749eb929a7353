"""Steps of probabilities that have a life of their own beside scores: the dual half of primal-dual Newton methods.

    q = softmax(s) ,  linearised at q:   dq = J(q) (s - log q) ,   J(q) = diag q - q q'           maths: softmax, eq. 37

Rows are kept as log q, so that small probabilities keep their digits.
"""

import math
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["across", "followed", "log_softmax", "log_step", "lower_others"]

Array = NDArray[Any]
FEW = 7  # columns up to which NumPy adds a row from left to right, and is slower than one column after the other


def across(ufunc: np.ufunc, rows: Array) -> Array:
    """Reduce every row by a ufunc of two arguments; (n, 1)."""
    if rows.shape[1] > FEW:
        return np.asarray(ufunc.reduce(rows, axis=1, keepdims=True))
    return np.asarray(reduce(ufunc, rows.T))[:, None]


def log_softmax(scores: Array) -> Array:
    """Return the logarithms of the probabilities."""
    logs = scores - across(np.maximum, scores)
    logs -= np.log(across(np.add, np.exp(logs)))
    return np.asarray(logs)


def log_step(logs: Array, q: Array, scores: Array) -> Array:
    """Return the Newton step of log q towards these scores: J(q) (s - log q) / q."""
    delta = scores - logs
    delta -= np.einsum("ic,ic->i", q, delta)[:, None]
    return np.asarray(delta)


def followed(logs: Array, q: Array, scores: Array, floor: float) -> Array:
    """Return log q after a step towards these scores, at least to the floor or softmax(s): maths: softmax, eq. 38."""
    delta = log_step(logs, q, scores)
    fall = np.minimum(delta, 0.0)
    new = logs + np.where(delta > 0.0, np.log1p(np.abs(delta)), -np.log1p(fall * (0.5 * fall - 1.0)))
    return log_softmax(np.maximum(new, np.minimum(log_softmax(scores), math.log(floor))))


def lower_others(logs: Array, labels: Array, share: float) -> None:
    """Leave a share < 1 of all probabilities but those of the labels, in place: maths: softmax, eq. 43."""
    own = (np.arange(len(logs)), labels)
    logs += math.log(share)
    logs[own] = -math.inf
    logs[own] = np.log1p(-across(np.add, np.exp(logs))[:, 0])
