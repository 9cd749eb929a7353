"""Cached rows of a symmetric matrix K, to be copied or summed.

    store.place[i]          the place of row i in store.values; -1 where it is not cached
    store.places_for(...)   places for missing rows: the next free ones
    store.put_in_order()    from now on row i is in place i, for loops over all of K

Places are used in sequence: rows far apart would each occupy a large page of memory.
"""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import jit
from softmargin.backends.lanes import keep, pointer
from softmargin.core.deadline import check_time
from softmargin.core.threads import n_around, row_shares, spread
from softmargin.kernels.points import slices

__all__ = ["ADDED", "RowStore", "add_change", "add_rows", "gather", "row_roundings", "submatrix", "sum_rows"]

Array = NDArray[Any]
_SUMMED = 128  # rows of a tile whose product BLAS makes: with the columns below 1 MB in float64
_WIDTH = 1024
# The same where there are several threads, in this sum or in other items: they queue for the interpreter before and
# after each tile.
_LONG_WIDTH = 4096
ADDED = 5.0  # multiplications of BLAS in the time of one in ``add_rows``, which waits for memory; 4.6 to 6.6 by timings
_COPIED = 20.0  # the same for a number that is copied into a tile for BLAS; 15 to 30 by timings
_ROWS, _COLUMNS = 128, 256  # of a tile of K that all classes use: a quarter of a megabyte stays in the second cache
_GATHERED = 16  # multiplications of BLAS in the time that a number far from the last takes; 8 to 30 by timings


class RowStore:
    """Room for some rows.

    Parameters
    ----------
    n : int
        Numbers in a row.
    most : int
        Rows there is room for; n for all.
    dtype : NumPy dtype
    """

    def __init__(self, n: int, most: int, dtype: Any) -> None:
        self.n, self.most, self.dtype = n, most, dtype
        self.place = np.full(n, -1, dtype=np.int64)
        self._is_in_order = False

    @cached_property
    def values(self) -> Array:
        """Memory of all places, (most, n); free places are not initialised."""
        return np.empty((self.most, self.n), dtype=self.dtype)

    def has(self, index: Array) -> Array:
        """Say for each row at ``index`` whether it is cached."""
        return np.asarray(self.place[index] >= 0)

    def has_room_for(self, index: Array) -> bool:
        """Say whether the rows at ``index``, which are distinct, are cached or could be."""
        return self._n_kept + int((~self.has(index)).sum()) <= self.most

    @property
    def _n_kept(self) -> int:
        return int((self.place >= 0).sum())

    def put_in_order(self) -> None:
        """Give every row the place of its own number; rows in other places are dropped."""
        if not self._is_in_order:
            self.place[self.place != np.arange(self.n)] = -1
            self._is_in_order = True

    def places_for(self, index: Array) -> tuple[Array, Array]:
        """Return the rows at ``index`` that are missing, as far as there is room, and free places for them."""
        missing = np.unique(index[~self.has(index)])
        if self._is_in_order:
            return missing, missing
        first = self._n_kept
        missing = missing[: self.most - first]
        return missing, first + np.arange(len(missing))

    def square(self, index: Array, out: Array) -> None:
        """Write K[index][:, index] into out, (m, m), except the rows that are not cached."""
        gather(self.values.reshape(-1), self.n, self.place[index], index.astype(np.int64), out.reshape(-1))


def sum_rows(K: Array, place: Array, weights: Array) -> Array:
    """Return K[place]' weights, (n, k), in float64; weights is (len(place), k), K is (any, n).

    Of a row of weights most entries are often zero: they are skipped where that is faster. Either way a sum has
    ``row_roundings(len(place))`` roundings.
    """
    if _are_few(K, weights):
        return np.ascontiguousarray(_sum_entries(K, place, weights, _SUMMED).T)
    shares = row_shares(K.shape[1], weights.size)
    width = _WIDTH if n_around() == 1 else _LONG_WIDTH
    return np.concatenate(spread(lambda columns: _sum_rows(K[:, columns], place, weights, width), shares))


def _sum_rows(K: Array, place: Array, weights: Array, width: int) -> Array:
    out, weights = np.zeros((weights.shape[1], K.shape[1])), np.ascontiguousarray(weights.T)
    parts = [(part, _as_slice(place[part])) for part in slices(len(place), _SUMMED)]
    for columns in slices(K.shape[1], width):
        across, sums = K[:, columns], out[:, columns]
        for part, rows in parts:
            check_time()
            sums += weights[:, part] @ across[rows]
    return np.ascontiguousarray(out.T)


def _as_slice(index: Array) -> Any:
    """Return a slice where the index is one: then a view of these rows will do."""
    return slice(index[0], index[-1] + 1) if (np.diff(index) == 1).all() else index


def add_change(scores: Array, K: Array, place: Array, change: Array) -> None:
    """Add K[place]' change to scores, (n, k) float64; of a row of change most entries are often zero."""
    if _are_few(K, change):
        scores += _sum_entries(K, place, change, max(1, len(place))).T
    else:
        scores += sum_rows(K, place, change)


def _are_few(K: Array, weights: Array) -> bool:
    """Say whether sums that skip zeros take less time than copies of rows for BLAS, and its products."""
    n_entries = np.count_nonzero(weights)
    return bool(K.flags.c_contiguous and ADDED * n_entries < weights.size + _COPIED * len(weights))


def _sum_entries(K: Array, place: Array, weights: Array, at_once: int) -> Array:
    """Return weights' K[place], (k, n), as a sum of sums over so many rows at once, without their zeros."""
    n, k = K.shape[1], weights.shape[1]
    weights, values, out = np.ascontiguousarray(weights, dtype=np.float64), K.reshape(-1), np.zeros((k, n))
    sums, work = out.reshape(-1), ADDED * np.count_nonzero(weights)

    def sum_columns(some: slice) -> None:
        for first in range(some.start, some.stop, _LONG_WIDTH):
            last = min(first + _LONG_WIDTH, some.stop)
            for part in slices(len(place), at_once):
                check_time()
                add_rows(values, n, place[part], weights[part].reshape(-1), k, sums, first, last)

    spread(sum_columns, row_shares(n, work))
    return out


def row_roundings(m: int) -> int:
    """Return how many roundings a sum of ``sum_rows`` over m rows has."""
    return min(m, _SUMMED) + -(-m // _SUMMED)


def gather(K: Array, stride: int, rows: Array, columns: Array, out: Array) -> None:
    """Write K[rows][:, columns] into out, except where a row is negative.

    K is (any, stride), flat; out is (len(rows), len(columns)), flat. NumPy's fancy indexing is slower.
    """
    m = len(columns)
    shares = row_shares(len(rows), _GATHERED * m)
    spread(lambda some: _gather(K, stride, rows[some], columns, out[some.start * m : some.stop * m]), shares)


def submatrix(K: Array, rows: Any, columns: Any) -> Array:
    """Return K[rows][:, columns] of a C-ordered array, in one pass; NumPy makes two, with a copy between them."""
    rows, columns = np.arange(K.shape[0])[rows], np.arange(K.shape[1])[columns]  # masks and negative positions, too
    out = np.empty((len(rows), len(columns)), dtype=K.dtype)
    gather(K.reshape(-1), K.shape[1], rows, columns, out.reshape(-1))
    return out


@jit
def _gather(K: Array, stride: int, rows: Array, columns: Array, out: Array) -> None:
    K_, rows_, columns_, out_ = pointer(K), pointer(rows), pointer(columns), pointer(out)
    m = columns.shape[0]
    for i in range(rows.shape[0]):
        row = rows_[i] * stride
        if row >= 0:
            for j in range(m):
                out_[i * m + j] = K_[row + columns_[j]]


@jit
def add_rows(K: Array, stride: int, index: Array, change: Array, k: int, scores: Array, begin: int, end: int) -> None:
    """Add change' K[index] to the columns begin .. end of scores.

    K is (any, stride), change (len(index), k) and scores (k, stride), all flat. Most entries of change are zero: a
    row moves in a few classes only. Four rows that move in the same class are added at once, so that scores are read
    and written a quarter as often, and all classes take their turn at a tile of K before the next one is read.
    """
    n = index.shape[0]
    n_tiles = (n + _ROWS - 1) // _ROWS
    ends, places, steps = np.empty(n_tiles * k + 1, np.int64), np.empty(n * k, np.int64), np.empty(n * k, change.dtype)
    sums = np.empty(k * _COLUMNS, change.dtype)
    K_, index_, change_, F_ = pointer(K), pointer(index), pointer(change), pointer(scores)
    ends_, places_, steps_, sums_ = pointer(ends), pointer(places), pointer(steps), pointer(sums)
    ends_[0] = met = 0
    for tile in range(n_tiles):
        for c in range(k):
            for r in range(tile * _ROWS, min((tile + 1) * _ROWS, n)):
                step = change_[r * k + c]
                if step != 0.0:
                    places_[met] = index_[r] * stride
                    steps_[met] = step
                    met += 1
            ends_[tile * k + c + 1] = met
    for first in range(begin, end, _COLUMNS):
        m = min(_COLUMNS, end - first)
        for j in range(k * _COLUMNS):
            sums_[j] = 0
        for part in range(n_tiles * k):
            p, stop, out = ends_[part], ends_[part + 1], part % k * _COLUMNS
            while p + 4 <= stop:
                r0, r1, r2, r3 = places_[p], places_[p + 1], places_[p + 2], places_[p + 3]
                s0, s1, s2, s3 = steps_[p], steps_[p + 1], steps_[p + 2], steps_[p + 3]
                for j in range(m):
                    sums_[out + j] += (
                        s0 * K_[r0 + first + j]
                        + s1 * K_[r1 + first + j]
                        + s2 * K_[r2 + first + j]
                        + s3 * K_[r3 + first + j]
                    )
                p += 4
            while p < stop:
                row, step = places_[p] + first, steps_[p]
                for j in range(m):
                    sums_[out + j] += step * K_[row + j]
                p += 1
        for c in range(k):
            for j in range(m):
                F_[c * stride + first + j] += sums_[c * _COLUMNS + j]
    keep(ends)
    keep(places)
    keep(steps)
    keep(sums)
