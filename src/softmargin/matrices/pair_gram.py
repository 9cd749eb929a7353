"""The kernel matrix of one-vs-one, where every pair of classes has a problem on its own rows: values by class.

Samples are counted class by class: s = 0 .. n-1, those of class c from ``first[c]`` on. A *cell* (s, c) holds the
kernel values of sample s with the members of class c. The pair (c, e) reads two cells of a sample, (s, c) and (s, e),
and the cell of its own class is one for all its pairs. Cells are computed when they are asked for.

    blocks.open(wanted)        compute cells, (k, n) says which; False where they do not fit beside each other
    blocks.place[c, s]         where a cell begins in ``blocks.values``; -1 where it is not open
    blocks.pair_scores(dual)   scores of every sample in all pairs of its class, from dual variables (n, k)

Where memory is full all cells are dropped, and those that are wanted are computed again. Threads (``core.threads``)
compute the tiles of one call: of cells, those of some samples with a class; of scores, those of some members of a class
with all samples.
"""

from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.deadline import check_time
from softmargin.core.errors import DataError
from softmargin.core.rounding import KernelErrors
from softmargin.core.threads import n_threads, spread
from softmargin.kernels.points import slices
from softmargin.matrices.gram import Gram
from softmargin.matrices.kernel_matrix import GramMemory, Moment, check_finite
from softmargin.matrices.row_store import gather

__all__ = ["PairGram", "PairGramTuning"]

Array = NDArray[Any]


class PairGramTuning(NamedTuple):
    """How much memory there is, and how the work is cut."""

    share: float = 0.8  # of ``cache_size``, as for rows of a whole kernel matrix; by hand
    fewest: int = 64  # samples of a pair whose cells are held at once at the least, whatever ``cache_size``; by hand
    tile: int = 1 << 17  # values of a tile of small classes: 1 MB, a second cache
    tiles: int = 4  # for each thread, at the least, so that all end at about the same time; by hand
    narrow: int = 32  # rows of such a tile, at the least: BLAS rearranges the other side for each tile; by hand
    # Cells that one of several threads sums at once: they queue for the interpreter before and after each sum.
    summed: int = 1 << 19


class _Tile(NamedTuple):
    """Cells of some samples with a class, and where they are put."""

    c: int
    samples: Array
    at: int


class PairGram(Gram):
    """Kernel values between training samples, by pairs of classes.

    Parameters
    ----------
    kernel, X, bias, cache_size
        As of ``Gram``.
    codes : array of shape (n,)
        Class codes 0 .. k-1.
    n_classes : int
    """

    pair_tuning: ClassVar[PairGramTuning] = PairGramTuning()

    def __init__(
        self, kernel: Any, X: Any, codes: Array, n_classes: int, *, bias: float = 0.0, cache_size: float = 1000.0
    ) -> None:
        super().__init__(kernel, X, bias=bias, cache_size=cache_size)
        self.codes, self.k = np.asarray(codes), n_classes
        self.order = np.argsort(self.codes, kind="stable")  # (n,) sample s is row order[s] of X
        self.sizes = np.bincount(self.codes, minlength=n_classes)
        self.first = np.concatenate([[0], np.cumsum(self.sizes)])
        own = self.pair_tuning
        largest = int(np.sort(self.sizes)[-2:].sum())
        needed = int(self.sizes.sum()) * int(self.n)  # of all cells
        room = max(int(own.share * self.budget) // int(self.dtype.itemsize), own.fewest * largest)
        self.room = min(room, needed)
        self.place = np.full((n_classes, self.n), -1, dtype=np.int64)
        self._used = 0

    def of_rows(self, rows: Array) -> Gram:
        """Return the kernel matrix of some rows, with a share of the memory: that of its values among all pairs'."""
        pairs = (self.sizes[:, None] + self.sizes) ** 2
        cells = (int(pairs.sum()) - int(np.trace(pairs))) / 2
        own = self.budget / 1e6 * min(1.0, len(rows) ** 2 / max(cells, 1.0))
        if not self.is_given:
            return Gram(self.kernel, self.X[rows], bias=self.bias, cache_size=own)
        return Gram(self.kernel, self.X[rows][:, rows] + self.X.dtype.type(self.bias**2), cache_size=own)

    @property
    def value_errors(self) -> KernelErrors:
        """Bounds on the rounding errors of kernel values, the bias included; by rows of X."""
        errors = self._errors
        return errors._replace(sizes=np.sqrt(errors.sizes**2 + self.bias**2)) if self.bias else errors

    @cached_property
    def most_rows(self) -> Array:
        """How many samples of a pair can have their cells open at once, at the least two; for every pair."""
        first, second = np.triu_indices(self.k, 1)
        return np.asarray(np.maximum(2, self.room // np.maximum(1, self.sizes[first] + self.sizes[second])))

    @cached_property
    def values(self) -> Array:
        """Memory of all cells; what is free is not initialised."""
        return np.empty(self.room, dtype=self.dtype)

    @cached_property
    def _members(self) -> list[Any]:
        """The samples of every class, as ``_part`` gives them."""
        return [self._part(self._rows_of(c)) for c in range(self.k)]

    def _rows_of(self, c: int) -> Array:
        return self.order[self.first[c] : self.first[c + 1]]

    def open(self, wanted: Array) -> bool:
        """Compute the cells that are ``wanted``, (k, n), and not open; say whether all of them fit into memory."""
        missing = [np.flatnonzero(mine) for mine in wanted & (self.place < 0)]
        if self._numbers(missing) > self.room - self._used:
            missing = [np.flatnonzero(mine) for mine in wanted]
            if self._numbers(missing) > self.room:
                return False
            self._forget()
        self._fill_cells(missing)
        return True

    def _numbers(self, samples: list[Array]) -> int:
        return sum(len(mine) * size for mine, size in zip(samples, self.sizes.tolist(), strict=True))

    def _forget(self) -> None:
        self.place.fill(-1)
        self._used, self._calls = 0, []

    def _fill_cells(self, samples: list[Array]) -> None:
        """Compute the cells of some samples with every class."""
        tiles, end, members = [], self._used, self._members
        even = self._even(sum(map(len, samples)))
        for c, (mine, size) in enumerate(zip(samples, self.sizes.tolist(), strict=True)):
            # Many rows with a small class make a tile: each costs as much as thousands of values beside these.
            height = min(max(self._tile[0], self.pair_tuning.tile // max(1, size)), even)
            for part in slices(len(mine), height):
                tiles.append(_Tile(c, mine[part], end))
                end += len(mine[part]) * size

        def fill(tile: _Tile) -> None:
            check_time()
            block = self._between(self._part(self.order[tile.samples]), members[tile.c])
            self.values[tile.at : tile.at + block.size] = block.reshape(-1)

        spread(fill, tiles)
        for c, some, at in tiles:
            self.place[c, some] = at + self.sizes[c] * np.arange(len(some))
        self._used = end
        self._calls.append(np.concatenate([c * self.n + mine for c, mine in enumerate(samples)]))

    def _even(self, n: int) -> int:
        """Return how many of n rows a tile may have at most, so that every thread has some of them."""
        own = self.pair_tuning
        return n + 1 if n_threads() == 1 else max(own.narrow, -(-n // (own.tiles * n_threads())))

    @property
    def moment(self) -> Moment:
        """What is open now, for ``memory``."""
        return Moment(len(self._calls), self._last[0], 0, -1)

    def recall(self, memory: GramMemory) -> None:
        """Open the cells that another run had opened, in the same tiles."""
        cells, ends = np.asarray(memory.rows, dtype=np.intp), np.asarray(memory.ends, dtype=np.intp)
        known = (cells >= 0) & (cells < self.n * self.k)
        if not known.all() or int(self.sizes[cells // max(1, self.n)].sum()) > self.room:
            raise DataError(f"the checkpoint names kernel values beyond those of {self.n} samples. Start afresh.")
        self._forget()
        for call in np.split(cells, ends)[:-1]:
            self._fill_cells([call[call // self.n == c] - c * self.n for c in range(self.k)])

    def pair_scores(self, dual: Array, *, is_wide: bool = False) -> Array:
        """Return the scores of every sample in the pairs of its class with all others; (n, k), float64.

        dual[s, e] is the variable of sample s, with its sign, in the pair of its class with class e. ``is_wide`` asks
        for values in float64 whatever the precision of X is.
        """
        out = np.zeros((self.n, self.k))
        is_kept = self.dtype == np.float64 or not is_wide or self.is_given
        weights = [self._weights(dual, c) for c in range(self.k)]

        def add(tile: tuple[int, slice]) -> None:
            c, part = tile
            samples, mine = weights[c]
            into = out[self.first[c] : self.first[c + 1]][part]
            is_open = is_kept & (self.place[c, samples] >= 0)
            self._add_open(into, self.place[c, samples[is_open]] + part.start, mine[is_open], height)
            right = self._part(self._rows_of(c)[part], is_wide)
            left, values = samples[~is_open], mine[~is_open]
            for some in slices(len(left), height):
                check_time()
                block = self._between(self._part(self.order[left[some]], is_wide), right)
                into += block.T.astype(np.float64, copy=False) @ values[some]

        width = self._even(self.n)
        height = self._tile[0] if n_threads() == 1 else max(self._tile[0], self.pair_tuning.summed // width)
        spread(add, [(c, part) for c, size in enumerate(self.sizes.tolist()) for part in slices(size, width)])
        check_finite(out)
        return out

    def _weights(self, dual: Array, c: int) -> tuple[Array, Array]:
        """Return the samples that count in pairs of class c, and their dual variables (m, k) in each of these pairs."""
        mine = slice(self.first[c], self.first[c + 1])
        # A sample of class c counts in all pairs of the class, one of another class in one.
        is_used = dual[:, c] != 0.0
        is_used[mine] = dual[mine].any(axis=1)
        samples = np.flatnonzero(is_used)
        owner = self.codes[self.order[samples]]
        weights = np.zeros((len(samples), self.k))
        weights[np.arange(len(samples)), owner] = dual[samples, c]
        is_own = owner == c
        weights[is_own] = dual[samples[is_own]]
        return samples, weights

    def _add_open(self, into: Array, place: Array, weights: Array, height: int) -> None:
        """Add the products of open cells, which begin at ``place``, with their weights, so many at a time."""
        for part in slices(len(place), height):
            block = np.empty((len(place[part]), len(into)), dtype=self.dtype)
            gather(self.values, 1, place[part], np.arange(len(into)), block.reshape(-1))
            into += block.T.astype(np.float64, copy=False) @ weights[part]
