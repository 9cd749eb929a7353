"""The optimum of a binary SVM with a free bias, from CVXPY and Clarabel: independent of everything in softmargin."""

import functools
from typing import NamedTuple

import cvxpy as cp
import numpy as np

from reference.optimum import _minimise


class L2Optimum(NamedTuple):
    value: float
    scores: np.ndarray  # (n,) without the bias
    bias: float


def l2_optimum(K, y, C, *, has_bias=True):
    """Minimise 1/2 u'Ku + 1/2 sum C xi^2, xi = [1 - y (Ku + b)]_+, for a given kernel matrix."""
    K, C = np.asarray(K, dtype=np.float64), np.broadcast_to(np.asarray(C, dtype=np.float64), len(y))
    return _optimum(K.tobytes(), np.asarray(y, dtype=np.float64).tobytes(), C.tobytes(), has_bias, is_squared=True)


def hinge_optimum(K, y, C):
    """Minimise 1/2 u'Ku + sum C xi, xi = [1 - y (Ku + b)]_+, for a given kernel matrix."""
    K, C = np.asarray(K, dtype=np.float64), np.broadcast_to(np.asarray(C, dtype=np.float64), len(y))
    y = np.asarray(y, dtype=np.float64)
    return _optimum(K.tobytes(), y.tobytes(), C.tobytes(), has_bias=True, is_squared=False)


@functools.cache
def _optimum(K, y, C, has_bias, is_squared):
    y, C = np.frombuffer(y), np.frombuffer(C)
    values, vectors = np.linalg.eigh(np.frombuffer(K).reshape(len(y), len(y)))
    kept = values > 1e-12 * max(values.max(), 1e-300)
    R = vectors[:, kept] * np.sqrt(values[kept])  # K = R R', so w = R'u
    w, b = cp.Variable(max(R.shape[1], 1)), cp.Variable()
    scores = R @ w if R.shape[1] else np.zeros(len(y)) * w[0]
    xi = cp.pos(1 - cp.multiply(y, scores + b))
    losses = cp.multiply(C, cp.square(xi) / 2 if is_squared else xi)
    value = _minimise(cp.sum_squares(w) / 2 + cp.sum(losses), [] if has_bias else [b == 0])
    return L2Optimum(value, np.asarray(scores.value), float(b.value))


def nearest_balanced(beta, y):
    """Return the nearest point of {a >= 0, <a, y> = 0}."""
    a = cp.Variable(len(beta))
    _minimise(cp.sum_squares(a - beta), [a >= 0, y @ a == 0])
    return a.value
