"""The whole Hessian of F, class after class: H[c size + j, c' size + j'], the intercept last in every class.

    H = sum_i C_i (diag(p_i) - p_i p_i') (x) a_i a_i' + ridge,  a_i with the constant feature     maths: softmax, eq. 26

    two classes     A' diag(C p (1 - p)) A, entry by entry where rows are thin, else by BLAS
    more            blocks of B_c' A, minus B'B;   A with rows sqrt(C_i) a_i,  B_c = diag(p_c) A,  B = [B_1 ... B_k]

A common shift of the intercepts of more than two classes leaves F unchanged: H gets a curvature in that direction, to
which the gradient is orthogonal.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.matrices.operator import row_slices
from softmargin.matrices.products import adjoint
from softmargin.matrices.rows import add_squares, as_rows
from softmargin.solvers.softmax._ridge_objective import RidgeObjective

__all__ = ["fill_hessian"]

Array = NDArray[Any]
BLOCK = 1 << 16  # least numbers of scaled rows at once: they stay in the cache


def fill_hessian(objective: RidgeObjective, H: Array) -> None:
    """Write the upper triangle of the Hessian at the P of the objective; size is r, or r + 1 with an intercept."""
    r, k = objective.X.shape[1], objective.problem.n_columns
    H[:] = 0.0
    (_add_two if objective.k == 1 else _add_many)(objective, H)
    blocks = H.reshape(k, len(H) // k, k, len(H) // k)
    np.einsum("cjcj->cj", blocks)[:, :r] += objective.problem.ridge  # a view, as the next one
    if objective.k > 1 and objective.problem.fit_intercept:
        intercepts = blocks[:, r, :, r]
        intercepts += np.einsum("cc->c", intercepts).mean()


def _add_two(objective: RidgeObjective, H: Array) -> None:
    """Add the curvature of two classes."""
    X, r = objective.X, objective.X.shape[1]
    curvature = objective.problem.C * objective.P * (1.0 - objective.P)
    if isinstance(X, np.ndarray):
        roots = np.sqrt(curvature)
        for part in _slices(objective, H):
            scaled = X[part] * roots[part, None]
            H[:r, :r] += scaled.T @ scaled
    else:
        add_squares(as_rows(X), curvature, H)
    if objective.problem.fit_intercept:
        sums = np.empty(r + 1)
        adjoint(X, curvature, 1.0, 1, sums)
        H[:, r] = sums


def _add_many(objective: RidgeObjective, H: Array) -> None:
    """Add the curvature of more than two classes."""
    X, r, k = objective.X, objective.X.shape[1], objective.problem.n_columns
    size, roots = len(H) // k, np.sqrt(objective.problem.C)
    P = np.ascontiguousarray(objective.matrix(objective.P).T)
    blocks = np.einsum("cjcl->cjl", H.reshape(k, size, k, size))  # a view
    for part in _slices(objective, H):
        A = np.empty((size, part.stop - part.start))  # samples along its rows, as in P
        A[:r] = (X[part] if isinstance(X, np.ndarray) else X[part].toarray()).T
        A[r:] = 1.0
        A *= roots[part]
        B = (P[:, None, part] * A).reshape(len(H), -1)
        H -= B @ B.T
        blocks += (B @ A.T).reshape(k, size, size)


def _slices(objective: RidgeObjective, H: Array) -> Any:
    """Yield slices of the samples, each larger than the Hessian, as each adds to all of it."""
    return row_slices(objective.n, len(H), numbers=max(BLOCK, 2 * H.size))
