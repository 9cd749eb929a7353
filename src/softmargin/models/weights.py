"""The weights of linear models, (k, d): an array, a sparse matrix, or factors of low rank, which stay so in files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from softmargin.core.errors import DataError
from softmargin.core.sparse import checked_sparse
from softmargin.core.threads import row_shares, spread
from softmargin.kernels.points import slices
from softmargin.models.shapes import check_columns, dense, floats, matrix
from softmargin.sets import LowRank

__all__ = ["checked_coef", "coef_arrays", "linear_scores", "stored_coef"]

_FACTORS = {"coef_left": "U", "coef_values": "s", "coef_right": "V"}
# Numbers of float32 rows that are converted to float64 at once: X is never copied as a whole.
_BLOCK_NUMBERS = 1 << 22


def checked_coef(coef: Any) -> Any:
    """Return weights as an array, a CSR matrix, or factors; refuse what are no numbers, and factors that do not fit."""
    if not isinstance(coef, LowRank):
        return checked_sparse(coef, "coef").tocsr() if hasattr(coef, "tocsr") else floats(coef)
    U, s, V = (floats(factor) for factor in coef)
    if U.ndim != 2 or V.ndim != 2 or s.shape != (U.shape[1],) or s.shape != (V.shape[1],):
        raise DataError(
            f"the factors of coef have shapes {U.shape}, {s.shape} and {V.shape}; (k, r), (r,) and (d, r) are needed."
        )
    return LowRank(U, s, V)


def coef_arrays(coef: Any) -> dict[str, np.ndarray]:
    """Return weights as the arrays of a file."""
    if isinstance(coef, LowRank):
        return {name: getattr(coef, factor) for name, factor in _FACTORS.items()}
    return {"coef": dense(coef)}


def stored_coef(arrays: Mapping[str, np.ndarray]) -> Any:
    """Return the weights that the arrays of a file are; KeyError where some are missing."""
    return arrays["coef"] if "coef" in arrays else LowRank(*(arrays[name] for name in _FACTORS))


def linear_scores(X: Any, coef: Any, intercept: np.ndarray) -> np.ndarray:
    """Return X coef' + intercept; (n, k)."""
    X = matrix(X)
    check_columns(X, coef.shape[1])
    if isinstance(coef, LowRank):
        return np.asarray(_product(X, coef.V) @ (coef.U * coef.s).T + intercept)
    return np.asarray(_product(X, coef.T) + intercept)


def _product(X: Any, weights: Any) -> np.ndarray:
    # The caller reports non-finite scores, with the row; NumPy's own warning names none.
    with np.errstate(over="ignore", invalid="ignore"):
        if not isinstance(weights, np.ndarray):
            return dense(X @ weights)
        shares = row_shares(X.shape[0], weights.size if isinstance(X, np.ndarray) else X.nnz / max(1, X.shape[0]))
        is_converted = isinstance(X, np.ndarray) and X.dtype != weights.dtype
        if not is_converted and len(shares) == 1:
            return np.asarray(X @ weights)
        scores = np.empty((X.shape[0], weights.shape[1]), dtype=np.result_type(X.dtype, weights.dtype))

        def fill(share: slice) -> None:
            own = X[share]
            length = max(1, _BLOCK_NUMBERS // max(1, X.shape[1])) if is_converted else own.shape[0]
            for rows in slices(own.shape[0], length):
                scores[share][rows] = own[rows] @ weights

        spread(fill, shares)
        return scores
