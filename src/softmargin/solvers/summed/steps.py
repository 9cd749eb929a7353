"""What steps over blocks of rows share: matrices that precondition them, and shorter steps."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky

from softmargin.core.protocols import SummedProblem
from softmargin.solvers.common.conjugate_gradients import Metric

__all__ = ["factored", "is_lower", "metric_at", "seen_by_penalty", "shorter"]

Array = NDArray[Any]
JITTER = 1e-13  # share of the largest diagonal that is added to a matrix, or of F by which it may rise: rounding


def seen_by_penalty(problem: SummedProblem, W: Array) -> Array:
    """Return W with zeros where the penalty does not see it."""
    out = np.zeros(W.shape)
    problem.form.penalised(out)[:] = problem.form.penalised(W)
    return out


def is_lower(value: float, before: float, change: float) -> bool:
    """Say whether F fell by the change that was asked for, but for rounding."""
    return bool(value <= before + change + JITTER * abs(before))


def shorter(problem: SummedProblem, W: Array, D: Array, width: float, before: float, n_lengths: int) -> float:
    """Return the best of the lengths 1/2, 1/4, ... of a step, one pass for all; 0 where none lowers F."""
    lengths = 0.5 ** np.arange(1.0, n_lengths + 1.0)
    losses = problem.along(W, D, lengths, width)
    values = [loss + problem.value(W + t * D) for t, loss in zip(lengths, losses, strict=True)]
    best = int(np.argmin(values))
    return float(lengths[best]) if values[best] < before else 0.0


def metric_at(problem: SummedProblem, W: Array, width: float, most_numbers: int) -> Metric:
    """Return a preconditioner: inverses of a Gram matrix for every column, of one for all, or of the diagonal."""
    (d, k), seen = problem.shape, seen_by_penalty(problem, np.ones(problem.shape))
    # The curvature of a hinge is that of other rows in every column; one of all columns does for a smooth loss.
    wanted = (1,) if problem.is_smooth else (k, 1)
    n_grams = next((n for n in wanted if n * d**2 <= most_numbers), 0)
    # What is left out has the trace of the ridge.
    M = problem.metric(W, width, n_grams, problem.ridge * d)
    if not n_grams:
        diagonal = M + problem.ridge * seen
        diagonal = np.where(diagonal > 0.0, diagonal, 1.0).ravel()
        return lambda v: v / diagonal
    inverse = problem.inverse([factored(own + np.diag(problem.ridge * seen[:, 0])) for own in M])
    is_joint = problem.form.loss.is_joint

    def times(v: Array) -> Array:
        V = v.reshape(d, k)
        # All columns of a joint loss may be shifted alike: H is the ridge there, which the matrices do not know.
        shared = V.mean(axis=1, keepdims=True) if is_joint else np.zeros((d, 1))
        solved = inverse(V - shared)
        if is_joint:
            solved += shared / problem.ridge - solved.mean(axis=1, keepdims=True)
        return np.asarray(solved.ravel())

    return times


def factored(M: Array) -> Array:
    """Return the Cholesky factor of a matrix that is singular by rounding, or along an intercept."""
    diagonal = np.diag(M).copy()
    jitter = JITTER * max(float(diagonal.max()), np.finfo(np.float64).tiny)
    while True:
        M[np.diag_indices(len(M))] = diagonal + jitter
        try:
            return np.asarray(cholesky(M, lower=True, check_finite=False))
        except np.linalg.LinAlgError:
            jitter *= 100.0
            if not jitter < math.inf:
                raise
