"""Small matrices that are sparse in form only: BLAS on an array is faster."""

from typing import Any

import numpy as np

__all__ = ["FEW", "is_thin", "laid_out"]

FEW = 1 << 22  # numbers of a matrix that may become an array: 32 MB
THIN = 0.2  # share of stored entries up to which a loop over these is faster than BLAS on all; by hand


def is_thin(X: Any, *, share: float = THIN, short: int = 0) -> bool:
    """Say whether X is sparse with short rows: up to that share of all features, or ``short`` of them."""
    return not isinstance(X, np.ndarray) and bool(X.nnz <= max(share * X.shape[1], short) * X.shape[0])


def laid_out(X: Any, *, share: float = THIN, short: int = 0) -> Any:
    """Return X as an array where it is small and not thin, else as it is."""
    is_kept = isinstance(X, np.ndarray) or is_thin(X, share=share, short=short) or X.shape[0] * X.shape[1] > FEW
    return X if is_kept else X.toarray()
