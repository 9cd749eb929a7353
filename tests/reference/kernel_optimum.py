"""The optimum of a kernel multiclass SVM, by CVXPY and Clarabel on its dual: independent of all in softmargin."""

import functools

import cvxpy as cp
import numpy as np

from reference.optimum import _minimise


def kernel_optimum(K, y, C, multiclass, k):
    """Return the greatest dual value, which is the least primal value, for a positive semi-definite K (n, n)."""
    K = np.ascontiguousarray(K, dtype=np.float64)
    y, C = np.asarray(y, dtype=np.int64), np.broadcast_to(np.asarray(C, dtype=np.float64), len(K))
    return _dual(K.tobytes(), y.tobytes(), C.tobytes(), multiclass, k)


@functools.cache
def _dual(K, y, C, multiclass, k):
    y, C = np.frombuffer(y, dtype=np.int64), np.frombuffer(C)
    values, vectors = np.linalg.eigh(np.frombuffer(K).reshape(len(y), len(y)))
    root = (vectors * np.sqrt(np.maximum(values, 0.0))).T  # K = root' root
    is_own = np.eye(k)[y]
    # Minus the off-label entries, b >= 0; the label's own entry is their sum.
    b = cp.Variable((len(y), k), nonneg=True)
    own = cp.sum(b, axis=1)
    alpha = cp.multiply(is_own, cp.reshape(own, (len(y), 1), order="C") @ np.ones((1, k))) - b
    limit = [b <= C[:, None] @ np.ones((1, k))] if multiclass == "weston_watkins" else [own <= C]
    constraints = [cp.multiply(b, is_own) == 0, *limit]
    return -_minimise(cp.sum_squares(root @ alpha) / 2 - cp.sum(own), constraints)
