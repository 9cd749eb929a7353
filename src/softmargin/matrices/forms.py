"""The forms in which solvers take X: C-ordered arrays or canonical CSR, and which of both is faster."""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from softmargin.core.errors import DataError
from softmargin.core.sparse import checked_sparse
from softmargin.matrices.operator import Operator

__all__ = ["FEW", "THIN", "Canonical", "canonical", "is_thin", "laid_out", "thinned", "with_constant"]

FEW = 1 << 22  # numbers of a sparse matrix that may become an array: 32 MB
THIN = 0.2  # share of stored entries up to which a loop over these is faster than BLAS on all; by hand
# Share of the entries that are not zero up to which an array becomes CSR. Visits to rows break even at 0.26, by timings
# of two classes; products and squares at 0.12 and 0.34, by ``operator.SCATTERED``.
THINNED = 0.1
LEAST_THINNED = 20_000  # numbers of an array: of a smaller one the conversion takes longer; by hand
LOOK = 64  # rows that are counted first; by hand


class Canonical(NamedTuple):
    """A matrix that ``canonical`` has returned: it is not read again."""

    X: Any


def canonical(X: Any, *, is_checked: bool = False) -> Any:
    """Return X as the solvers need it: C-ordered array or CSR, float32 or float64, sorted indices, no duplicate.

    X that already is so is returned without a copy, an operator as it is. A damaged sparse matrix is refused: a
    compiled loop would read beyond its arrays. ``is_checked`` says that ``checked_sparse`` has taken it.
    """
    if isinstance(X, Operator):
        return X
    if isinstance(X, Canonical):
        return X.X
    if isinstance(X, np.ndarray):
        if X.ndim != 2:
            raise DataError(f"X must be a matrix (2-D); found shape {X.shape}. Reshape it to (n_samples, n_features).")
        dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)
        return np.ascontiguousarray(X, dtype=dtype)
    X = (X if is_checked else checked_sparse(X)).tocsr()
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def thinned(X: Any) -> Any:
    """Return a large array of which few entries are not zero, such as codes of categories, as CSR; else X as it is.

    A look at some rows says of most arrays that they are none of these.
    """
    if not isinstance(X, np.ndarray) or X.size < LEAST_THINNED:
        return X
    some = X[:: max(len(X) // LOOK, 1)]
    if np.count_nonzero(some) > 1.5 * THINNED * some.size or np.count_nonzero(X) > THINNED * X.size:
        return X
    return csr_matrix(X)


def with_constant(X: Any, value: float) -> Any:
    """Return [X, value]: a constant column, whose weight is then penalised like every other."""
    X = canonical(X)
    n, d = X.shape
    if isinstance(X, np.ndarray):
        return np.hstack([X, np.full((n, 1), value, dtype=X.dtype)])
    indptr = X.indptr + np.arange(n + 1, dtype=X.indptr.dtype)
    is_old = np.ones(int(indptr[-1]), dtype=bool)
    is_old[indptr[1:] - 1] = False
    data, indices = np.full(len(is_old), value, dtype=X.dtype), np.full(len(is_old), d, dtype=X.indices.dtype)
    data[is_old], indices[is_old] = X.data[: X.indptr[-1]], X.indices[: X.indptr[-1]]
    return type(X)((data, indices, indptr), shape=(n, d + 1))


def is_thin(X: Any, *, share: float = THIN, short: int = 0) -> bool:
    """Say whether X is sparse with short rows: up to that share of all features, or ``short`` of them."""
    return not isinstance(X, np.ndarray) and bool(X.nnz <= max(share * X.shape[1], short) * X.shape[0])


def laid_out(X: Any, *, share: float = THIN, short: int = 0) -> Any:
    """Return X as an array where it is small and not thin, else as it is."""
    is_kept = isinstance(X, np.ndarray) or is_thin(X, share=share, short=short) or X.shape[0] * X.shape[1] > FEW
    return X if is_kept else X.toarray()
