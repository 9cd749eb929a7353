"""Small matrices that are sparse in name only: they are quicker as arrays."""

from typing import Any

import numpy as np

__all__ = ["FEW", "is_thin", "laid_out"]

FEW = 1 << 22  # numbers that may be laid out as an array
THIN = 0.2  # share of nonzero numbers up to which BLAS on all of them takes longer than a loop over these


def is_thin(X: Any, *, share: float = THIN, short: int = 0) -> bool:
    """Say whether X is sparse, and its rows have few numbers: up to that share of all, or ``short`` of them."""
    return not isinstance(X, np.ndarray) and bool(X.nnz <= max(share * X.shape[1], short) * X.shape[0])


def laid_out(X: Any, *, share: float = THIN, short: int = 0) -> Any:
    """Return X as an array where it is small and not thin, else as it is."""
    is_kept = isinstance(X, np.ndarray) or is_thin(X, share=share, short=short) or X.shape[0] * X.shape[1] > FEW
    return X if is_kept else X.toarray()
