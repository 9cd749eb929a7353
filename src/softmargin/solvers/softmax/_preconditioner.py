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
from softmargin.matrices.operator import row_slices
from softmargin.solvers.softmax._ridge_objective import RidgeModel, Rows, class_squares

__all__ = ["PRECONDITIONERS", "Identity", "demand_preconditioner", "make_metric", "thinned"]

Array = NDArray[Any]
PRECONDITIONERS = ("auto", "none", "diagonal", "gram")

MODEST = 3000  # features for which a Gram matrix is formed
# Numbers multiplied for a Gram matrix, per number multiplied for a product, up to which it is worth while. BLAS makes
# the matrix; products with a dense X are made by it, too, those with a sparse one take several times as long a number.
WORTH_SPARSE, WORTH_DENSE = 300.0, 50.0
FEW = 50  # features for which every class has its own
LEAST_ROWS = 1000  # rows that a Gram matrix is made of ...
ROWS_PER_FEATURE = 4  # ... or this many per feature
MAX_THINNINGS = 5
BLOCK = 1 << 14  # numbers of a dense X scaled at once
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
    nnz, worth = (X.size, WORTH_DENSE) if isinstance(X, np.ndarray) else (X.nnz, WORTH_SPARSE)
    m = min(n, max(LEAST_ROWS, ROWS_PER_FEATURE * (d + 1)))
    numbers = m * (d + 1.0) ** 2
    if name == "auto":
        name = "gram" if d <= MODEST and numbers <= worth * nnz * model.k else "diagonal"
    if name == "none":
        return Identity()
    if name == "diagonal":
        return Diagonal(_diagonal(model, rows))
    drawn = _drawn(model, rows, m, rng)
    P, prices = model.matrix(rows.P), rows.C
    if drawn is not None:
        P, prices = P[drawn.keep], prices[drawn.keep] * drawn.counts
    curvature = P * (1.0 - P) * prices[:, None]
    keep = None if drawn is None else drawn.keep
    if n_columns > 1 and d <= FEW:
        return _class_grams(model, X if keep is None else X[keep], curvature)
    diagonal = _diagonal(model, rows)
    squares = model.matrix(diagonal).mean(axis=1)
    return SharedGram(
        _shared_factor(model, X, keep, curvature.mean(axis=1), squares), np.sqrt(diagonal).reshape(d + 1, -1)
    )


def thinned(model: RidgeModel, rows: Rows, m: int, rng: np.random.Generator) -> Rows:
    """Return about m rows that stand for all, or all where there are no more."""
    drawn = _drawn(model, rows, m, rng)
    if drawn is None:
        return rows
    P = rows.P.reshape(-1, model.k)[drawn.keep]
    return Rows(rows.X[drawn.keep], P.ravel(), rows.C[drawn.keep] * drawn.counts)


class _Drawn(NamedTuple):
    """Rows that stand for all."""

    keep: Array  # (m,) which
    counts: Array  # (m,) for how many


def _drawn(model: RidgeModel, rows: Rows, m: int, rng: np.random.Generator) -> _Drawn | None:
    """Draw about m rows; None where there are no more."""
    P = rows.P.reshape(-1, model.k)
    curvature = rows.C * (P[:, 0] * (1.0 - P[:, 0]) if model.k == 1 else 1.0 - np.einsum("ic,ic->i", P, P))
    n = len(curvature)
    if m >= n or not curvature.max() > 0.0:
        return None
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
    return _Drawn(keep, np.maximum(tau / curvature[keep], 1.0))


def _diagonal(model: RidgeModel, rows: Rows) -> Array:
    """Return the diagonal of the Hessian, as the rows see it; nowhere next to nothing."""
    P = rows.P.reshape(-1, model.k)
    curvature = P * (1.0 - P) * rows.C[:, None]
    diagonal = np.empty((rows.X.shape[1] + 1, model.k))
    diagonal[:-1] = class_squares(rows.X, curvature) + model.problem.ridge
    diagonal[-1] = model.problem.bias * curvature.sum(axis=0)
    return np.maximum(diagonal.ravel(), LEAST * model.largest)


def _shared_factor(model: RidgeModel, X: Any, keep: Array | None, weights: Array, squares: Array) -> Any:
    """Return the Cholesky factor of sum_i weights_i x_i x_i' + ridge, scaled to unit diagonal.

    ``keep`` are the rows that are summed, None for all; ``squares`` is about the diagonal, so that float32 holds them.
    """
    m, d = len(weights), X.shape[1]
    roots, inverse = np.sqrt(weights), 1.0 / _roots(squares)
    A = np.empty((m, d + 1), dtype=np.float32)
    A[:, -1] = model.problem.bias * roots * inverse[-1]
    if isinstance(X, np.ndarray):
        # Blocks that memory in use has room for: fresh pages cost more than what is done with them.
        for part in row_slices(m, d, numbers=BLOCK):
            block = X[part if keep is None else keep[part]] * roots[part, None]
            block *= inverse[:-1]
            A[part, :-1] = block
    else:
        X = X if keep is None else X[keep]
        data = (X.data * np.repeat(roots, np.diff(X.indptr)) * inverse[X.indices]).astype(np.float32)
        A[:, :-1] = csr_matrix((data, X.indices, X.indptr), shape=X.shape).toarray()
    H = A.T @ A
    diagonal = np.einsum("jj->j", H)  # a view
    diagonal[:-1] += model.problem.ridge * np.square(inverse[:-1])
    scale = _roots(diagonal)
    H /= scale
    H /= scale[:, None]
    return _factored(H)


def _roots(squares: Any) -> Any:
    """Return the roots; 1 where there is next to nothing."""
    return np.sqrt(np.where(squares > np.finfo(squares.dtype).tiny, squares, 1.0))


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
    A = np.empty((d + 1, n))  # so that weights go along its rows
    A[:-1] = (X if isinstance(X, np.ndarray) else X.toarray()).T
    A[-1] = model.problem.bias
    grams = np.empty((curvature.shape[1], d + 1, d + 1))
    scaled = np.empty_like(A)
    for gram, weights in zip(grams, np.ascontiguousarray(curvature.T), strict=True):
        np.multiply(A, weights, out=scaled)
        np.matmul(scaled, A.T, out=gram)
    diagonals = np.einsum("cjj->cj", grams)  # a view
    diagonals[:, :-1] += model.problem.ridge
    np.maximum(diagonals, LEAST * model.matrix(model.largest).T, out=diagonals)
    scales = np.sqrt(diagonals)
    scales = scales[:, :, None] * scales[:, None, :]
    return ClassGrams(np.linalg.inv(grams / scales + SHIFT * np.eye(d + 1)) / scales)
