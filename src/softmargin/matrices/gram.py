"""The kernel matrix K_ij = k(x_i, x_j) + bias^2, never required to fit in memory.

    verb                   meaning                                          memory
    gram.scores(alpha)     K alpha, over the nonzero rows of alpha          one tile
    gram.add_change(...)   scores += K[:, index] change                     one tile; the rows that moved are cached
    gram.square(index)     K[index][:, index]                               the result
    gram.rows(index)       K[index], every column                           the result
    gram.diagonal          K_ii                                             n

Values come by tiles (``tiles.py``). Where all of K fits into most of ``cache_size``, every row that is used is cached.
Where it does not, the rows that ``add_change`` uses are cached as far as there is room: where few samples are support
vectors, few ever move. Other rows are computed again.

Cached and computed values may differ in their last digits, as may values of tiles of other shapes. So a run that is
continued first computes what was cached, tile by tile as before: ``gram.recall(gram.memory(gram.moment))``.

Threads (``core.threads``) compute the tiles of one call. Several may call at the same time after ``gram.share()``: all
of K is then computed at once, as what is cached must not depend on which of them comes first.
"""

import threading
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.errors import DataError
from softmargin.core.rounding import (
    Rounded,
    ScoreErrors,
    column_roundings,
    column_sums,
    gamma,
    norms,
    piece_roundings,
    squared_norm,
)
from softmargin.core.threads import n_threads
from softmargin.kernels.points import add_product
from softmargin.matrices.kernel_matrix import GramMemory, Judged, Moment, check_finite
from softmargin.matrices.operator import matmul, rmatmul, score_roundings, sum_roundings
from softmargin.matrices.row_store import RowStore, add_change, row_roundings, submatrix, sum_rows
from softmargin.matrices.tiles import TiledMatrix

__all__ = ["Gram", "GramMemory", "GramTuning", "Judged"]

Array = NDArray[Any]


class GramTuning(NamedTuple):
    """How the kernel matrix divides its memory."""

    store_share: float = 0.8  # of the budget for cached rows, where they are all of K; by hand: squares need the rest
    kept_share: float = 0.4  # the same, where they are some rows of K; by hand: squares have half of the budget
    dense_share: float = 0.1  # of the budget that an array of sparse rows which are nearly full may take; by hand
    tile_rows: int = 256  # of a tile, at most: its values stay in the processor's cache between operations; by hand
    probe_rows: int = 400  # on which a kernel of unknown kind is tested for symmetry and negative eigenvalues; by hand
    # Multiplications of BLAS in the time that a value takes in a sum of few columns, that a kernel value takes beside
    # its numbers, and that one of these takes: twice what was measured on ARM, as BLAS is faster elsewhere.
    thin: float = 5.0
    entry: float = 400.0
    number: float = 5.0


class Gram(TiledMatrix):
    """Kernel values between the training samples.

    Parameters
    ----------
    kernel : kernel object
    X : array or CSR matrix of shape (n, d); the (n, n) kernel matrix itself for a precomputed kernel
    bias, cache_size
        As in ``KernelMatrix``.
    tuning : GramTuning, optional
    """

    def __init__(
        self, kernel: Any, X: Any, *, bias: float = 0.0, cache_size: float = 1000.0, tuning: GramTuning | None = None
    ) -> None:
        tuning = tuning or GramTuning()
        super().__init__(kernel, X, bias, cache_size, tuning)
        some = int(tuning.kept_share * self.budget) // (max(1, self.n) * int(self.dtype.itemsize))
        self._store = RowStore(self.n, self.n if self.is_stored else some, self.dtype)
        self._last: tuple[Array, Array] = (np.empty(0, dtype=np.intp), np.empty((0, 0), dtype=self.dtype))
        self._calls: list[Array] = []  # the rows that each call of ``keep`` cached
        self._square_after, self._ordered_after = 0, -1
        self._n_sharers, self._lock = 1, threading.RLock()

    @property
    def is_stored(self) -> bool:
        """Whether memory may hold all of K: it is given, or fits into the store."""
        return self.is_given or self._store_bytes <= self.tuning.store_share * self.budget

    def scores_work(self, index: Array, k: int) -> float:
        """Return how many multiplications of BLAS take as long as ``wide_scores`` of k columns at most does.

        Only the rows at ``index`` of these columns are not zero.
        """
        t: GramTuning = self.tuning
        numbers = float(self.points.numbers_per_row)
        if self.is_linear:
            return 2.0 * t.number * self.n * numbers * k
        is_known = self.is_given | (self.dtype == np.float64) & self._store.has(index)
        missing = len(index) - np.count_nonzero(is_known)
        return float(self.n) * (t.thin * len(index) * k + (t.entry + t.number * numbers) * missing)

    def is_kept(self, index: Array) -> bool:
        """Say whether no values of the rows at ``index`` must be computed any more."""
        return self.is_given or self.is_linear or bool(self._store.has(index).all())

    def has_room_for(self, index: Array) -> bool:
        """Say whether the rows at ``index`` are cached or can be: then their values are computed once."""
        return self.is_given or self.is_linear or self._store.has_room_for(index)

    @property
    def _store_bytes(self) -> int:
        return self.n**2 * int(self.dtype.itemsize)

    @property
    def _room(self) -> int:
        """Numbers that ``square`` or ``rows`` may fill: what a store of all of K leaves; else half the budget."""
        left = self.budget - self._store_bytes if self.is_stored and not self.is_given else self.budget // 2
        return left // (int(self.dtype.itemsize) * self._n_sharers)

    @property
    def largest_square(self) -> int:
        """How many rows ``square`` can return within the budget."""
        return max(2, int(self._room**0.5))

    @property
    def largest_rows(self) -> int:
        """How many rows ``rows`` can return within the budget."""
        return max(1, self._room // self.n)

    def share(self) -> bool:
        """Get ready for calls by several threads at the same time; False where K does not fit: then they must not."""
        if n_threads() > 1:
            self._n_sharers = n_threads()
            if self.is_stored and not (self.is_given or self.is_linear):
                self.keep(np.arange(self.n))
        return self.is_stored or self.is_linear

    def stored(self, index: Array) -> Array:
        """Return K, (n, n), in which the rows at ``index`` hold values; only where ``is_stored``.

        This is the store itself, not a copy: do not write to it. A given matrix is without the bias.
        """
        if self.is_given:
            return np.asarray(self.X)
        self._put_in_order()
        self.keep(index)
        return self._store.values

    def _put_in_order(self) -> None:
        if self._ordered_after < 0:
            self._store.put_in_order()
            self._ordered_after = len(self._calls)

    def keep(self, index: Array) -> None:
        """Compute the rows at ``index`` that are not cached and cache them, while there is room."""
        if self.is_given or self._store.has(index).all():
            return
        with self._lock:
            if self._n_sharers > 1 and self.is_stored:
                self._put_in_order()
                index = np.arange(self.n)
            self._keep(index)

    def _keep(self, index: Array) -> None:
        missing, place = self._store.places_for(index)
        if len(missing) == 0:
            return
        if len(missing) == self.n:
            self._fill_square(self._store.values, missing)
        else:
            self._fill(self._store.values, place, missing)
        self._store.place[missing] = place
        self._calls.append(missing)

    @property
    def moment(self) -> Moment:
        """What is cached now, for ``memory``; it costs nothing."""
        return Moment(len(self._calls), self._last[0], self._square_after, self._ordered_after)

    def memory(self, moment: Moment) -> GramMemory:
        """Return what was cached at a moment, for ``recall``."""
        calls = self._calls[: moment.n_calls]
        rows = np.concatenate(calls) if calls else np.empty(0, dtype=np.intp)
        return GramMemory(rows, np.cumsum([len(call) for call in calls], dtype=np.intp), *moment[1:])

    def recall(self, memory: GramMemory) -> None:
        """Cache what another kernel matrix of the same samples had cached, computed in the same tiles."""
        rows, ends, square = (np.asarray(part, dtype=np.intp) for part in memory[:3])
        named = np.concatenate([rows, square])
        if ((named < 0) | (named >= self.n)).any():
            raise DataError(f"the checkpoint names kernel rows beyond the {self.n} samples. Start afresh.")
        self._store = RowStore(self.n, self._store.most, self.dtype)
        self._last = (square[:0], np.empty((0, 0), dtype=self.dtype))
        self._calls, self._square_after, self._ordered_after = [], 0, -1
        for n_calls, call in enumerate(np.split(rows, ends)):
            if n_calls == memory.ordered_after:
                self._put_in_order()
            if n_calls == memory.square_after and len(square):
                self.square(square)
            self.keep(call)

    def part(self, index: Array) -> "Gram":
        """Return the kernel matrix of some of the samples; those of their rows that are cached here are cached there.

        ``memory`` does not know of these: it is for runs that are not continued.
        """
        X = self.X[index]
        sizes: dict[str, Any] = {"bias": self.bias, "cache_size": self.budget / 1e6, "tuning": self.tuning}
        part = Gram(self.kernel, X[:, index] if self.is_given else X, **sizes)
        rows, place = part._store.places_for(np.flatnonzero(self._store.has(index)))
        if len(rows):
            part._store.values[place] = self._store.values[self._store.place[index[rows]]][:, index]
            part._store.place[rows] = place
        return part

    def rows(self, index: Array) -> Array:
        """Return K[index]; shape (len(index), n)."""
        if self.is_stored and not self.is_given:
            self.keep(index)
            return np.asarray(self._store.values[self._store.place[index]])
        values = np.empty((len(index), self.n), dtype=self.dtype)
        self._fill(values, np.arange(len(index)), index)
        return values

    def square(self, index: Array) -> Array:
        """Return K[index][:, index]: do not write to it, as the last one is cached."""
        if self._n_sharers > 1:
            return self._square(index)
        if not np.array_equal(self._last[0], index):
            self._last = (index[:0], np.empty((0, 0), dtype=self.dtype))  # there are never two squares in memory
            self._last = (index.copy(), self._square(index))
            self._square_after = len(self._calls)
        return self._last[1]

    def narrow_square(self, index: Array) -> Array:
        """Return K[index][:, index] in float32: of cached rows in one pass, without a copy in float64."""
        if self.is_given or self.dtype == np.float32 or not self._store.has(index).all():
            return self.square(index).astype(np.float32, copy=False)
        values = np.empty((len(index), len(index)), dtype=np.float32)
        self._store.square(index, values)
        return values

    def _square(self, index: Array) -> Array:
        all_rows = np.arange(self.n)
        if self.is_stored and not self.is_given and np.array_equal(index, all_rows):
            self.keep(index)
            if np.array_equal(self._store.place, all_rows):
                return self._store.values
        if self.is_given:
            values = submatrix(np.asarray(self.X), index, index)
            if self.bias:
                values += values.dtype.type(self.bias**2)
            return values
        values = np.empty((len(index), len(index)), dtype=self.dtype)
        new = np.flatnonzero(~self._store.has(index))
        if len(new) == len(index):
            self._fill_square(values, index)
        else:
            self._store.square(index, values)
            self._fill(values, new, index[new], index)
        return values

    def scores(self, alpha: Array) -> Array:
        """Return K alpha in float64; alpha is (n,) or (n, k), and only its nonzero rows are used."""
        columns = alpha.reshape(self.n, -1)
        index = np.flatnonzero(columns.any(axis=1))
        if len(index) == 0:
            return np.zeros(alpha.shape)
        if self.is_linear:
            weights = rmatmul(self.X, columns, self.bias)
            out = np.concatenate([scores for _, scores in matmul(self.X, weights, self.bias)])
        else:
            if self.is_stored:
                self.keep(index)
            is_kept = self.is_given | self._store.has(index)
            kept, left = index[is_kept], index[~is_kept]
            out = self._kept_sums(kept, columns[kept])
            out += self._sums(slice(0, self.n), self.n, left, columns[left])
        if np.isfinite(columns).all():  # else the cause is alpha, and the certificate will show it
            check_finite(out)
        return out.reshape(alpha.shape)

    def judged(self, alpha: Array, operations: int) -> Judged:
        """Return K alpha and <alpha, K alpha>, as every kernel matrix does; of a linear kernel by its weights."""
        if not self.is_linear:
            return super().judged(alpha, operations)
        lengths = self.lengths
        weights = rmatmul(self.X, alpha, self.bias)
        scores = np.concatenate([part for _, part in matmul(self.X, weights, self.bias)])
        slope = gamma(sum_roundings(self.X, alpha.shape[1]) + operations) * (lengths @ np.abs(alpha))
        slope += gamma(score_roundings(self.X) + 12) * norms(weights, axis=0)
        return self._judged(alpha, scores, ScoreErrors(lengths[:, None], slope[None, :], np.zeros(len(slope))))

    def wide_scores(self, alpha: Array) -> Array:
        """Return K alpha by kernel values in float64, unless they are given."""
        if self.dtype == np.float64 or self.is_given:
            return self.scores(alpha)
        index = np.flatnonzero(alpha.any(axis=1))
        return self._sums(slice(0, self.n), self.n, index, alpha[index], is_wide=True)

    def sum_roundings(self, m: int) -> int:
        """Return how many roundings a sum of ``wide_scores`` has: over rows that are cached, then over tiles."""
        cached = max(row_roundings(m), column_roundings(m))
        if self.is_given or (self.is_stored and self.dtype == np.float64):
            return cached
        return max(cached, piece_roundings(m) + -(-m // self._tile[1])) + 1

    def energy(self, alpha: Array, operations: int) -> Rounded:
        """Return <alpha, K alpha> alone, as ``judged`` does."""
        if not self.is_linear:
            return super().energy(alpha, operations)
        weights, errors = self._weights_of(alpha, operations)
        return squared_norm(weights, float(np.linalg.norm(errors)))

    def energies(self, alpha: Array, operations: int) -> list[Rounded]:
        """Return the same of every column, of a linear kernel."""
        weights, errors = self._weights_of(alpha, operations)
        return [squared_norm(column, float(error)) for column, error in zip(weights.T, errors, strict=True)]

    def _weights_of(self, alpha: Array, operations: int) -> tuple[Array, Array]:
        """Return X' alpha, (d + 1, k), and how far its columns may be from the exact ones, (k,)."""
        errors = gamma(sum_roundings(self.X, alpha.shape[1]) + operations) * (self.lengths @ np.abs(alpha))
        return rmatmul(self.X, alpha, self.bias), errors

    def add_change(self, scores: Array, index: Array, change: Array) -> None:
        """Add K[:, index] change to scores, (n, k), right after ``square(index)``, which is used again.

        Rows of zeros cost nothing; the rows of K that the others need are cached while there is room.
        """
        if self.is_linear or self.is_given:
            alpha = np.zeros_like(scores)
            alpha[index] = change
            scores += self.scores(alpha)
            return
        is_moved = change.any(axis=1)
        self.keep(index[is_moved])
        is_kept = self._store.has(index)
        kept, left = is_moved & is_kept, is_moved & ~is_kept
        add_change(scores, self._store.values, self._store.place[index[kept]], change[kept])
        if left.any():
            outside = np.delete(np.arange(self.n), index)
            inside = np.zeros_like(change)
            add_product(inside, self.square(index), np.where(left[:, None], change, 0.0))
            scores[index] += inside
            scores[outside] += self._sums(outside, len(outside), index[left], change[left])

    def _kept_sums(self, index: Array, values: Array) -> Array:
        """Return K[:, index] values, for rows that are cached or given; K is symmetric."""
        if not self.is_given:
            return sum_rows(self._store.values, self._store.place[index], values)
        return np.asarray(sum_rows(np.asarray(self.X), index, values) + self.bias**2 * column_sums(values))
