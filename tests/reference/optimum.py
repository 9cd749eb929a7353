"""The optimum of a multiclass SVM or of one block, from CVXPY and Clarabel: independent of everything in softmargin."""

import functools
import warnings

import cvxpy as cp
import numpy as np

from helpers import augmented

TIGHT = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}


def svm_optimum(problem):
    """Return the least primal value of a MulticlassSVM."""
    A = augmented(problem)
    return _svm(A.tobytes(), A.shape, problem.y.tobytes(), problem.C.tobytes(), problem.n_classes, problem.multiclass)[
        0
    ]


def svm_weights(problem):
    """Return the minimiser W of a MulticlassSVM; shape (d + 1, k)."""
    A = augmented(problem)
    return _svm(A.tobytes(), A.shape, problem.y.tobytes(), problem.C.tobytes(), problem.n_classes, problem.multiclass)[
        1
    ]


@functools.cache
def _svm(A, shape, y, C, k, multiclass):
    A, y, C = np.frombuffer(A).reshape(shape), np.frombuffer(y, dtype=np.int32), np.frombuffer(C)
    own = np.eye(k)[y]
    W = cp.Variable((shape[1], k))
    scores = A @ W
    margins = scores - cp.sum(cp.multiply(scores, own), axis=1, keepdims=True) @ np.ones((1, k)) + (1 - own)
    loss = cp.sum(cp.pos(margins), axis=1) if multiclass == "weston_watkins" else cp.max(margins, axis=1)
    value = _minimise(cp.sum_squares(W) / 2 + C @ loss, [])
    return value, W.value


def block_minimiser(multiclass, v, C):
    """Return the b that minimises 1/2 b'(I + 11')b - v'b over the set of the block."""
    b = cp.Variable(len(v))
    limit = [b <= C] if multiclass == "weston_watkins" else [cp.sum(b) <= C]
    _minimise((cp.sum_squares(b) + cp.sum(b) ** 2) / 2 - v @ b, [b >= 0, *limit])
    return b.value


def _minimise(objective, constraints):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "may be inaccurate": 1e-11 is more than any test here asks
        return float(cp.Problem(cp.Minimize(objective), constraints).solve(solver="CLARABEL", **TIGHT))
