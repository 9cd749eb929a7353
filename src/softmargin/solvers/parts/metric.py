"""Cheap stand-ins for the Hessian of F: what L-BFGS starts from, and what preconditions conjugate gradients.

    Hessian of class c with itself      sum_i C_i p_ic (1 - p_ic) x_i x_i' + ridge        x_i with the constant feature

    none        the identity
    diagonal    its diagonal
    gram        the mean over classes of these matrices, for every class times its share; each class its own where
                d is small

A Gram matrix needs no more rows than it takes to tell d directions apart. ``thinned`` draws rows by their curvature
C_i (1 - |p_i|^2): row i is kept with probability pi_i = min(1, curvature_i / tau), and then counts 1 / pi_i times, so
that the expected Hessian is the true one, and the rows that matter most are all there.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse import csr_matrix

from softmargin.core.errors import IncompatibleError
from softmargin.solvers.parts.ridge_model import RidgeModel, Rows, class_squares

__all__ = ["PRECONDITIONERS", "Identity", "demand_preconditioner", "make_metric", "thinned"]

Array = NDArray[Any]
PRECONDITIONERS = ("auto", "none", "diagonal", "gram")

MODEST = 3000  # features for which a Gram matrix is formed
WORTH = 300.0  # numbers multiplied for a Gram matrix, per number multiplied for a product: BLAS is that much faster
FEW = 50  # features for which every class has its own
LEAST_ROWS = 1000  # rows that a Gram matrix is made of ...
ROWS_PER_FEATURE = 4  # ... or this many per feature
MAX_THINNINGS = 5
NOTHING = 1e-200  # a curvature below this cannot be divided by
LEAST = 1e-4  # a diagonal is at least this share of its largest: far from the optimum curvature vanishes, slopes do not
FAINT = 1e-12  # share of the largest curvature below which a row is left out
SHIFT = 1e-6  # added to a Gram matrix with unit diagonal, in float32; ten times as much after every failure


def demand_preconditioner(name: str) -> None:
    """Refuse a preconditioner that does not exist."""
    if name not in PRECONDITIONERS:
        raise IncompatibleError(f"preconditioner={name!r} is unknown; choose {', '.join(PRECONDITIONERS)}.")


class Identity:
    """No metric."""

    def solve(self, V: Array) -> Array:
        """Return V."""
        return V


class Diagonal(NamedTuple):
    """Every number on its own scale."""

    diagonal: Array  # ((d + 1) * k,)

    def solve(self, V: Array) -> Array:
        """Return V / diagonal."""
        return V / self.diagonal


class SharedGram(NamedTuple):
    """Scale_c A scale_c for class c: the correlations A of all classes together, and the class's own diagonal."""

    factor: Any  # Cholesky of A
    scales: Array  # (d + 1, k)

    def solve(self, V: Array) -> Array:
        """Solve for every class."""
        right = V.reshape(self.scales.shape) / self.scales
        size = float(np.abs(right).max())
        if not size > 0.0:
            return V
        right /= size  # so that float32 holds it
        return (cho_solve(self.factor, right.astype(np.float32), check_finite=False) * (size / self.scales)).ravel()


class ClassGrams(NamedTuple):
    """A matrix for every class: its inverse."""

    inverses: Array  # (k, d + 1, d + 1)

    def solve(self, V: Array) -> Array:
        """Solve for every class."""
        m, size, _ = self.inverses.shape
        right = V.reshape(size, -1)
        out = np.zeros_like(right)
        out[:, :m] = np.matmul(self.inverses, right.T[:m, :, None])[:, :, 0].T
        return out.ravel()


def make_metric(name: str, model: RidgeModel, rows: Rows, rng: np.random.Generator) -> Any:
    """Build the metric of that name, as the rows see it."""
    X, n_columns = rows.X, model.problem.n_columns
    n, d = X.shape
    nnz = X.size if isinstance(X, np.ndarray) else X.nnz
    m = min(n, max(LEAST_ROWS, ROWS_PER_FEATURE * (d + 1)))
    numbers = m * (d + 1.0) ** 2
    if name == "auto":
        name = "gram" if d <= MODEST and numbers <= WORTH * nnz * model.k else "diagonal"
    if name == "none":
        return Identity()
    diagonal = _diagonal(model, rows)
    if name == "diagonal":
        return Diagonal(diagonal)
    rows = thinned(model, rows, m, rng)
    P = model.matrix(rows.P)
    curvature = P * (1.0 - P) * rows.C[:, None]
    if n_columns > 1 and d <= FEW:
        return _class_grams(model, rows.X, curvature)
    return SharedGram(_shared_factor(model, rows.X, curvature.mean(axis=1)), np.sqrt(diagonal).reshape(d + 1, -1))


def thinned(model: RidgeModel, rows: Rows, m: int, rng: np.random.Generator) -> Rows:
    """Return about m rows that stand for all, or all where there are no more."""
    P = rows.P.reshape(-1, model.k)
    curvature = rows.C * (P[:, 0] * (1.0 - P[:, 0]) if model.k == 1 else 1.0 - np.einsum("ic,ic->i", P, P))
    n = len(curvature)
    if m >= n or not curvature.max() > 0.0:
        return rows
    curvature[curvature < FAINT * curvature.max()] = 0.0
    tau = 0.0
    kept = np.zeros(n, dtype=bool)
    for _ in range(MAX_THINNINGS):  # tau such that the probabilities sum to m
        tau = float(curvature[~kept].sum()) / max(m - int(kept.sum()), 1)
        more = curvature > tau
        if (more == kept).all():
            break
        kept = more
    keep = np.flatnonzero(rng.random(n) * tau < curvature)
    counts = np.maximum(tau / curvature[keep], 1.0)
    return Rows(rows.X[keep], np.ascontiguousarray(P[keep]).ravel(), rows.C[keep] * counts)


def _diagonal(model: RidgeModel, rows: Rows) -> Array:
    """Return the diagonal of the Hessian, as the rows see it; nowhere next to nothing."""
    P = rows.P.reshape(-1, model.k)
    curvature = P * (1.0 - P) * rows.C[:, None]
    diagonal = np.empty((rows.X.shape[1] + 1, model.k))
    diagonal[:-1] = class_squares(rows.X, curvature) + model.problem.ridge
    diagonal[-1] = model.problem.bias * curvature.sum(axis=0)
    return np.maximum(diagonal.ravel(), LEAST * model.largest)


def _shared_factor(model: RidgeModel, X: Any, weights: Array) -> Any:
    """Return the Cholesky factor of sum_i weights_i x_i x_i' + ridge, scaled to unit diagonal."""
    roots = np.sqrt(weights)
    constant = model.problem.bias * roots
    A = np.empty((len(roots), X.shape[1] + 1), dtype=np.float32)
    if isinstance(X, np.ndarray):
        scaled = X * roots[:, None]
        scale = _roots(np.einsum("ij,ij->j", scaled, scaled) + model.problem.ridge)
        A[:, :-1] = scaled / scale
    else:
        data = X.data * np.repeat(roots, np.diff(X.indptr))
        scale = _roots(np.bincount(X.indices, weights=data * data, minlength=X.shape[1]) + model.problem.ridge)
        data = (data / scale[X.indices]).astype(np.float32)
        A[:, :-1] = csr_matrix((data, X.indices, X.indptr), shape=X.shape).toarray()
    A[:, -1] = constant / _roots(constant @ constant)
    H = A.T @ A
    H[np.diag_indices(len(H) - 1)] += model.problem.ridge / np.square(scale)
    return _factored(H)


def _roots(squares: Any) -> Any:
    """Return the roots; 1 where there is next to nothing."""
    return np.sqrt(np.where(squares > NOTHING, squares, 1.0))


def _factored(H: Array) -> Any:
    """Return the Cholesky factor of a matrix with unit diagonal, shifted until there is one."""
    shift = SHIFT
    while shift < 1.0:
        try:
            return cho_factor(H + shift * np.eye(len(H), dtype=H.dtype), check_finite=False)
        except LinAlgError:
            shift *= 10.0
    return cho_factor(np.eye(len(H), dtype=H.dtype), check_finite=False)


def _class_grams(model: RidgeModel, X: Any, curvature: Array) -> ClassGrams:
    """Return the metric made of the curvature of each class."""
    n, d = X.shape
    A = np.empty((n, d + 1))
    A[:, :-1] = X if isinstance(X, np.ndarray) else X.toarray()
    A[:, -1] = model.problem.bias
    grams = np.stack([(A * weights[:, None]).T @ A for weights in curvature.T])
    diagonals = np.einsum("cjj->cj", grams)  # a view
    diagonals[:, :-1] += model.problem.ridge
    np.maximum(diagonals, LEAST * model.matrix(model.largest).T, out=diagonals)
    scales = np.sqrt(diagonals)
    scales = scales[:, :, None] * scales[:, None, :]
    return ClassGrams(np.linalg.inv(grams / scales + SHIFT * np.eye(d + 1)) / scales)
