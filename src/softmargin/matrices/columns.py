"""X one feature at a time: the columns of X are the rows of X', with the same verbs.

    verb                                           meaning                                              cost
    columns.scores(j, U, k, start, tiles, m, out)  out = start + U' x^j     on m tiles of classes       nnz(x^j) m
    columns.add(j, step, tiles, m, R, k)           R += x^j step'           on m tiles of classes       nnz(x^j) m
    columns.sqnorm(j)                              |x^j|^2                                              nnz(x^j)
    columns.entries(j), .column(j, p), .value(p)   entry p of feature j: its sample, its value

U and R are (n + 1, k), flat: the last row stands for the constant feature that columns do not have.
"""

from typing import Any

import numpy as np

from softmargin.matrices.rows import CsrRows, DenseRows, as_rows

__all__ = ["as_columns", "transposed"]


def transposed(X: Any) -> Any:
    """Return X' in row-major order: one copy in the precision of X."""
    return np.ascontiguousarray(X.T) if isinstance(X, np.ndarray) else X.T.tocsr()


def as_columns(X_transposed: Any) -> DenseRows | CsrRows:
    """View the result of ``transposed`` as columns of X, without a copy."""
    return as_rows(X_transposed, 0.0)
