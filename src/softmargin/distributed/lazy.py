"""Predictions of Dask collections, computed where the rows are, and only when they are asked for."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

__all__ = ["mapped"]


def mapped(predict: Callable[[Any], Any], X: Any) -> Any:
    """Return ``predict`` of all partitions as a Dask array: (n,) or (n, k), as it is of some rows."""
    is_array = hasattr(X, "chunks")
    row = np.zeros((1, X.shape[1])) if is_array else X._meta.reindex([0]).fillna(0.0)
    nothing = np.asarray(predict(row))[:0]
    work = partial(_of_rows, predict, nothing)
    if not is_array:
        return X.map_partitions(work, meta=nothing)
    if len(X.chunks[1]) > 1:
        X = X.rechunk({1: -1})
    how: dict[str, Any] = {"drop_axis": 1} if nothing.ndim == 1 else {"chunks": (X.chunks[0], (nothing.shape[1],))}
    return X.map_blocks(work, dtype=nothing.dtype, meta=nothing, **how)


def _of_rows(predict: Callable[[Any], Any], nothing: Any, X: Any) -> Any:
    return predict(X) if X.shape[0] else nothing
