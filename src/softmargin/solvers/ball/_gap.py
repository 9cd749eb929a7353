"""What solvers of a loss over a ball do alike: the smoothness of the losses, and the gap at hand."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import duality_gap
from softmargin.matrices.operator import adjoint_product, product

__all__ = ["relative_gap", "smoothness", "square_of_norm"]

Array = NDArray[Any]
N_POWERS = 30
MARGIN = 1.02  # power iterations end a little below the norm


def square_of_norm(X: Any, weights: Array, rng: np.random.Generator) -> float:
    """Return about |diag(weights)^(1/2) X|_2^2, from below, by power iterations."""
    v = rng.standard_normal((X.shape[1], 1))
    value = 0.0
    for _ in range(N_POWERS):
        size = float(np.linalg.norm(v))
        if size == 0.0:
            break
        v = adjoint_product(X, weights[:, None] * product(X, v / size))
        value = float(np.linalg.norm(v))
    return value


def smoothness(problem: Any, rng: np.random.Generator) -> float:
    """Return a Lipschitz constant of the gradient of the losses, without the ridge."""
    return problem.loss.curvature * MARGIN * square_of_norm(problem.X, problem.weights, rng)


def relative_gap(problem: Any, W: Array, scores: Array, intercept: Array, Z: Array) -> float:
    """Return the gap at W, given its scores, the best intercept for them, and Z = X' slopes; one projection."""
    primal = problem.losses(scores, intercept) + 0.5 * problem.l2 * float(np.vdot(W, W))
    U = problem.loss.slope(scores + intercept, problem.target)
    return duality_gap(primal, problem.bound(U, Z)).residual
