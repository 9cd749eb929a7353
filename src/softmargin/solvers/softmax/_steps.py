"""What all solvers of multinomial regression do alike: padded weights, scores, probabilities, gradient, intercept.

W    ((d + 1) * k,)  flat; the last row is the intercept; k padded to whole tiles, padding zero
S    (n * k,)        scores [X, 1] W; padding NEVER
P    (n * k,)        probabilities; padding zero
G    ((d + 1) * k,)  gradient of the losses, [X, 1]' C (P - Y)
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.lanes import padded, zeros
from softmargin.losses.multinomial import intercept_step
from softmargin.losses.softmax import NEVER, loss_along, residuals, softmax_rows
from softmargin.matrices.products import adjoint, times
from softmargin.problems.composite import CompositePoint

__all__ = [
    "fill_gradient",
    "fill_probabilities",
    "fill_scores",
    "improve_intercept",
    "is_entrywise",
    "matrix_of",
    "pack",
    "unpack",
    "width_of",
]

Array = NDArray[Any]
MAX_HALVINGS = 30


def width_of(problem: Any) -> int:
    """Return k, padded."""
    return padded(problem.n_columns)


def matrix_of(problem: Any, flat: Array, k: int | None = None) -> Array:
    """View a flat array of k numbers a row, padded by default, as a matrix without padding; shape (rows, n_columns)."""
    return flat.reshape(-1, k or width_of(problem))[:, : problem.n_columns]


def pack(problem: Any, point: CompositePoint, k: int | None = None) -> Array:
    """Return W, flat, k numbers a row, padded by default."""
    W = zeros((len(point.weights) + 1) * (k or width_of(problem)))
    matrix = matrix_of(problem, W, k)
    matrix[:-1], matrix[-1] = point.weights, point.intercept
    return W


def unpack(problem: Any, W: Array, k: int | None = None) -> CompositePoint:
    """Return the point of a flat W, as a copy; intercepts of all classes have mean zero."""
    matrix = matrix_of(problem, W, k)
    intercept = matrix[-1] * problem.bias
    return CompositePoint(matrix[:-1].copy(), intercept if problem.is_pinned else intercept - intercept.mean())


def fill_scores(problem: Any, W: Array, S: Array) -> None:
    """Write [X, 1] W to S."""
    k = width_of(problem)
    times(problem.X, W, problem.bias, k, S)
    S.reshape(-1, k)[:, problem.n_columns :] = NEVER


def fill_probabilities(problem: Any, S: Array, P: Array) -> float:
    """Write softmax(S) to P; return the sum of the losses."""
    return float(softmax_rows(S, problem.target, problem.C, width_of(problem), problem.is_pinned, P))


def fill_gradient(problem: Any, P: Array, U: Array, G: Array) -> None:
    """Write C (P - Y) to U (which may be P) and [X, 1]' U to G."""
    k = width_of(problem)
    residuals(P, problem.target, problem.C, k, U)
    adjoint(problem.X, U, problem.bias, k, G)


def improve_intercept(problem: Any, W: Array, S: Array, P: Array, loss: float) -> float:
    """Make a Newton step in the intercept, halved until the losses fall; W, S and P follow. Return the losses."""
    if not problem.fit_intercept:
        return loss
    k = width_of(problem)
    mass = np.bincount(problem.y, weights=problem.C, minlength=problem.n_classes)
    step = np.zeros(k)
    step[: problem.n_columns], _ = intercept_step(
        matrix_of(problem, P), problem.C, mass[1:] if problem.is_pinned else mass
    )
    move, scores = np.tile(step, len(problem.y)), np.empty_like(S)
    length = 1.0
    for _ in range(MAX_HALVINGS):
        new, _, _ = loss_along(S, move, length, problem.target, problem.C, k, problem.is_pinned, scores, P)
        if new <= loss:
            W[-k:] += length * step
            S[:] = scores
            return float(new)
        length /= 2.0
    return fill_probabilities(problem, S, P)


def is_entrywise(penalty: Any) -> bool:
    """Say whether a penalty of a row is the sum over its entries, by trying a few."""
    for size in (1e-3, 0.3, 2.0, 1e3):
        for pair in (np.array([[1.0, 0.7]]), np.array([[1.0, -0.4]])):
            together = penalty.value(size * pair)
            apart = penalty.value(size * pair[:, :1]) + penalty.value(size * pair[:, 1:])
            if not (together == apart or abs(together - apart) <= 1e-9 * abs(apart)):
                return False
    return True
