"""Synthetic data with known classes, for tests and benchmarks."""

from __future__ import annotations

from typing import Any

import numpy as np

from softmargin.core.errors import DataError

__all__ = ["blobs"]


def blobs(
    n: int,
    d: int,
    k: int,
    *,
    seed: int | np.random.Generator,
    sparse: bool = False,
    density: float = 0.1,
    separation: float = 1.0,
    dtype: Any = np.float64,
) -> tuple[Any, np.ndarray]:
    """Draw rows from k Gaussian classes: x_i = mean of class y_i + unit noise.

    Class means are themselves Gaussian with standard deviation `separation`. Classes are as equal in
    size as n allows, so all k appear when n >= k.

    Parameters
    ----------
    n, d, k : int
        Rows, columns, classes.
    seed : int or numpy.random.Generator
    sparse : bool
        Return CSR with the same number of entries, ``max(1, round(density * d))``, in every row.
    density : float
        Share of entries kept in a sparse row.
    separation : float
        0 makes the classes alike; 1 lets them overlap; large values separate them.
    dtype : numpy dtype

    Returns
    -------
    X : ndarray or scipy.sparse.csr_matrix, shape (n, d)
    y : ndarray of int64, shape (n,)
        Labels 0 .. k - 1.
    """
    if min(n, d, k) < 1:
        raise DataError(f"blobs needs at least one row, column and class; asked for n={n}, d={d}, k={k}.")
    if sparse and not 0.0 < density <= 1.0:
        raise DataError(f"density must lie in (0, 1]; got {density}.")
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n, dtype=np.int64) % k)
    means = separation * rng.standard_normal((k, d))
    if not sparse:
        return (means[y] + rng.standard_normal((n, d))).astype(dtype), y

    from scipy.sparse import csr_matrix

    entries = max(1, round(density * d))
    # Sorted draws with repetition, spread apart by 0, 1, 2, ...: strictly increasing columns in one go.
    columns = np.sort(rng.integers(0, d - entries + 1, size=(n, entries)), axis=1) + np.arange(entries)
    values = means[y[:, np.newaxis], columns] + rng.standard_normal((n, entries))
    ends = np.arange(0, n * entries + 1, entries)
    index_type = np.int32 if max(d, n * entries) <= np.iinfo(np.int32).max else np.int64
    parts = (values.ravel().astype(dtype), columns.ravel().astype(index_type), ends.astype(index_type))
    return csr_matrix(parts, shape=(n, d)), y
