"""The kernel matrix of one-vs-one, where every pair of classes has a problem on its own rows: values by class.

Samples are counted class by class: s = 0 .. n-1, those of class c from ``first[c]`` on. A *cell* (s, c) holds the
kernel values of sample s with the members of class c. The pair (c, e) reads two cells of a sample, (s, c) and (s, e),
and the cell of its own class is one for all its pairs. Cells are computed when they are asked for.

    blocks.open(wanted)        compute cells, (n, k) says which; False where they do not fit beside each other
    blocks.place[s, c]         where a cell begins in ``blocks.values``; -1 where it is not open
    blocks.pair_scores(dual)   scores of every sample in all pairs of its class, from dual variables (n, k)

Where memory is full all cells are dropped, and those that are wanted are computed again.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.deadline import check_time
from softmargin.core.errors import DataError
from softmargin.core.rounding import KernelErrors
from softmargin.kernels.points import slices
from softmargin.matrices.gram import Gram
from softmargin.matrices.kernel_matrix import GramMemory, Moment, check_finite
from softmargin.matrices.row_store import gather

__all__ = ["PairGram", "PairGramTuning"]

Array = NDArray[Any]


class PairGramTuning(NamedTuple):
    """How much memory there is."""

    share: float = 0.8  # of ``cache_size``, as for rows of a whole kernel matrix; by hand
    fewest: int = 64  # samples of a pair whose cells are held at once at the least, whatever ``cache_size``; by hand


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

    def __init__(
        self, kernel: Any, X: Any, codes: Array, n_classes: int, *, bias: float = 0.0, cache_size: float = 1000.0
    ) -> None:
        super().__init__(kernel, X, bias=bias, cache_size=cache_size)
        self.codes, self.k = np.asarray(codes), n_classes
        self.order = np.argsort(self.codes, kind="stable")  # (n,) sample s is row order[s] of X
        self.sizes = np.bincount(self.codes, minlength=n_classes)
        self.first = np.concatenate([[0], np.cumsum(self.sizes)])
        own = PairGramTuning()
        largest = int(np.sort(self.sizes)[-2:].sum())
        needed = int(self.sizes.sum()) * int(self.n)  # of all cells
        room = max(int(own.share * self.budget) // int(self.dtype.itemsize), own.fewest * largest)
        self.room = min(room, needed)
        self.place = np.full((self.n, n_classes), -1, dtype=np.int64)
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
        """Compute the cells that are ``wanted``, (n, k), and not open; say whether all of them fit into memory."""
        missing = wanted & (self.place < 0)
        needed = int((missing * self.sizes).sum())
        if needed > self.room - self._used:
            missing = wanted
            if int((missing * self.sizes).sum()) > self.room:
                return False
            self._forget()
        for c in np.flatnonzero(missing.any(axis=0)).tolist():
            self._fill_cells(np.flatnonzero(missing[:, c]), c)
        return True

    def _forget(self) -> None:
        self.place.fill(-1)
        self._used, self._calls = 0, []

    def _fill_cells(self, samples: Array, c: int) -> None:
        """Compute the cells of some samples with class c."""
        size = int(self.sizes[c])
        for part, block in self._cells(samples, c):
            at = self._used + size * np.arange(len(part))
            self.values[at[0] : at[0] + block.size] = block.reshape(-1)
            self.place[part, c] = at
            self._used += block.size
        self._calls.append(samples * self.k + c)

    def _cells(self, samples: Array, c: int, *, is_wide: bool = False) -> Iterator[tuple[Array, Array]]:
        """Yield some of the samples, and their kernel values with class c, (m, sizes[c])."""
        right = self._part(self._rows_of(c), True) if is_wide else self._members[c]
        for part in slices(len(samples), self._tile[0]):
            check_time()
            yield samples[part], self._between(self._part(self.order[samples[part]], is_wide), right)

    @property
    def moment(self) -> Moment:
        """What is open now, for ``memory``."""
        return Moment(len(self._calls), self._last[0], 0, -1)

    def recall(self, memory: GramMemory) -> None:
        """Open the cells that another run had opened, in the same tiles."""
        cells, ends = np.asarray(memory.rows, dtype=np.intp), np.asarray(memory.ends, dtype=np.intp)
        known = (cells >= 0) & (cells < self.n * self.k)
        if not known.all() or int(self.sizes[cells % self.k].sum()) > self.room:
            raise DataError(f"the checkpoint names kernel values beyond those of {self.n} samples. Start afresh.")
        self._forget()
        for call in np.split(cells, ends)[:-1]:
            if len(call):
                self._fill_cells(call // self.k, int(call[0] % self.k))

    def pair_scores(self, dual: Array, *, is_wide: bool = False) -> Array:
        """Return the scores of every sample in the pairs of its class with all others; (n, k), float64.

        dual[s, e] is the variable of sample s, with its sign, in the pair of its class with class e. ``is_wide`` asks
        for values in float64 whatever the precision of X is.
        """
        out = np.zeros((self.n, self.k))
        is_kept = self.dtype == np.float64 or not is_wide or self.is_given
        owner = self.codes[self.order]
        for c in range(self.k):
            mine = slice(self.first[c], self.first[c + 1])
            # A sample of class c counts in all pairs of the class, one of another class in one.
            is_used = dual[:, c] != 0.0
            is_used[mine] = dual[mine].any(axis=1)
            samples = np.flatnonzero(is_used)
            weights = np.zeros((len(samples), self.k))
            weights[np.arange(len(samples)), owner[samples]] = dual[samples, c]
            is_own = owner[samples] == c
            weights[is_own] = dual[samples[is_own]]
            is_open = is_kept & (self.place[samples, c] >= 0)
            out[mine] += self._open_sums(samples[is_open], c, weights[is_open])
            done, left = 0, weights[~is_open]
            for part, block in self._cells(samples[~is_open], c, is_wide=is_wide):
                out[mine] += block.T.astype(np.float64, copy=False) @ left[done : done + len(part)]
                done += len(part)
        check_finite(out)
        return out

    def _open_sums(self, samples: Array, c: int, weights: Array) -> Array:
        size = int(self.sizes[c])
        out = np.zeros((size, self.k))
        for part in slices(len(samples), self._tile[0]):
            at = self.place[samples[part], c]
            block = np.empty((len(at), size), dtype=self.dtype)
            gather(self.values, 1, at, np.arange(size), block.reshape(-1))
            out += block.T.astype(np.float64, copy=False) @ weights[part]
        return out
