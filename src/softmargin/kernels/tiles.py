"""Kernel values a tile at a time: how large a tile is, and float64 sums over its values.

A tile is large enough for GEMM to run at full speed, and small enough that it costs megabytes whatever the data.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["TILE_COLUMNS", "TILE_ROWS", "add_product", "slices", "tile_shape"]

Array = NDArray[Any]
TILE_ROWS, TILE_COLUMNS = 2048, 2048
_COPIED = 1 << 22  # numbers of X that the rows of one tile may fill, where they have to be copied
_STRIP = 1 << 16  # kernel values widened at once: they stay in the processor's cache until they are summed


def slices(n: int, size: int) -> Iterator[slice]:
    """Yield slices of at most ``size`` that cover 0..n."""
    for first in range(0, n, size):
        yield slice(first, min(first + size, n))


def tile_shape(numbers_a_row: int) -> tuple[int, int]:
    """Return (rows, columns) of a tile between samples of so many numbers."""
    most = max(16, _COPIED // max(1, numbers_a_row))
    return min(TILE_ROWS, most), min(TILE_COLUMNS, most)


def add_product(out: Array, tile: Array, weights: Array) -> None:
    """Add ``tile @ weights`` to ``out``, in float64 whatever the tile is.

    Parameters
    ----------
    out : float64 array of shape (m, k)
    tile : array of shape (m, n)
    weights : float64 array of shape (n, k)
    """
    if tile.dtype == np.float64:
        out += tile @ weights
        return
    transposed = np.ascontiguousarray(weights.T)  # BLAS is faster on a few long rows than on a few thin columns
    for rows in slices(len(tile), max(1, _STRIP // max(1, tile.shape[1]))):
        out[rows] += (transposed @ tile[rows].astype(np.float64).T).T
