"""The whole Hessian of F, class after class: H[c size + j, c' size + j'], the intercept last in every class.

    H = sum_i C_i (diag(p_i) - p_i p_i') (x) a_i a_i' + ridge,      a_i with the constant feature              spec 3.7

    two classes     A' diag(C p (1 - p)) A, entry by entry where rows are thin, else by BLAS
    more            blocks of B_c' A, minus B'B;   A with rows sqrt(C_i) a_i,  B_c = diag(p_c) A,  B = [B_1 ... B_k]

All intercepts of more than two classes may be shifted together for nothing: H is given a curvature in that direction,
where the gradient has no part.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.matrices.operator import row_slices
from softmargin.matrices.rows import add_squares, as_rows
from softmargin.solvers.softmax._ridge_objective import RidgeModel

__all__ = ["fill_hessian"]

Array = NDArray[Any]
BLOCK = 1 << 16  # numbers of scaled rows at once, at least: few stay in the cache


def fill_hessian(model: RidgeModel, H: Array) -> None:
    """Write the upper triangle of the Hessian at the model's P; without an intercept, size is r, else r + 1."""
    r, k = model.X.shape[1], model.problem.n_columns
    H[:] = 0.0
    (_add_two if model.k == 1 else _add_many)(model, H)
    blocks = H.reshape(k, len(H) // k, k, len(H) // k)
    np.einsum("cjcj->cj", blocks)[:, :r] += model.problem.ridge  # a view, as the next one
    if model.k > 1 and model.problem.fit_intercept:
        intercepts = blocks[:, r, :, r]
        intercepts += np.einsum("cc->c", intercepts).mean()


def _add_two(model: RidgeModel, H: Array) -> None:
    """Add the curvature of two classes."""
    X, r = model.X, model.X.shape[1]
    curvature = model.problem.C * model.P * (1.0 - model.P)
    if isinstance(X, np.ndarray):
        roots = np.sqrt(curvature)
        for part in _slices(model, H):
            scaled = X[part] * roots[part, None]
            H[:r, :r] += scaled.T @ scaled
    else:
        add_squares(as_rows(X), curvature, H)
    if model.problem.fit_intercept:
        H[:, r] = model.sums(curvature)


def _add_many(model: RidgeModel, H: Array) -> None:
    """Add the curvature of more than two classes."""
    X, r, k = model.X, model.X.shape[1], model.problem.n_columns
    size, roots = len(H) // k, np.sqrt(model.problem.C)
    P = np.ascontiguousarray(model.matrix(model.P).T)
    blocks = np.einsum("cjcl->cjl", H.reshape(k, size, k, size))  # a view
    for part in _slices(model, H):
        A = np.empty((size, part.stop - part.start))  # samples along its rows, so that p goes along, too
        A[:r] = (X[part] if isinstance(X, np.ndarray) else X[part].toarray()).T
        A[r:] = 1.0
        A *= roots[part]
        B = (P[:, None, part] * A).reshape(len(H), -1)
        H -= B @ B.T
        blocks += (B @ A.T).reshape(k, size, size)


def _slices(model: RidgeModel, H: Array) -> Any:
    """Yield slices of the samples: every one of them adds a whole Hessian, so they are larger than that."""
    return row_slices(model.n, len(H), numbers=max(BLOCK, 2 * H.size))
