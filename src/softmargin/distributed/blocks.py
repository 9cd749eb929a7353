"""Partitions of a Dask collection as the blocks of a problem: a pass is one task per partition and a tree of sums.

A task is a pure function of its partition and of the small arrays of the pass, and the tree has a fixed shape: which
worker computes it, how often, and in which order, changes no bit. So a worker that is lost costs time alone: Dask
computes its partitions and its tasks again, somewhere else.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from softmargin.core.pieces import Array
from softmargin.distributed.tasks import Shared, computed, shared, task
from softmargin.distributed.told import heard_by, tell
from softmargin.problems.block_rows import Inverse, solved_here
from softmargin.problems.blocks import summed

__all__ = ["DaskBlocks"]

T = TypeVar("T", bound=tuple[Any, ...])
Told = Callable[[int, int, int], None]
_ADDED = 16  # sums that one task adds, a power of two; a task costs Dask 4 ms of a core, their addition nothing
_CARRIED = 1 << 12  # bytes of small arrays that every task carries; a task for them costs more, up to here; by hand
_MODEST = 1 << 20  # bytes of a sum of which a task may hold that many; larger ones are added two at a time; by hand


class DaskBlocks:
    """Partitions of rows, wherever they are.

    Parameters
    ----------
    parts : sequence of Delayed
        Each computes a ``Block``.
    n_rows : sequence of int
        Of every partition; those without rows are left out.
    n_features : int
    n_bytes : sequence of int
        About how large the partitions are, for messages.
    """

    def __init__(self, parts: Sequence[Any], n_rows: Sequence[int], n_features: int, n_bytes: Sequence[int]) -> None:
        self.parts = [part for part, n in zip(parts, n_rows, strict=True) if n]
        self.n, self.most_rows, self.n_blocks = sum(n_rows), max(n_rows, default=0), len(self.parts)
        self.n_features, self.what = n_features, f"partition of about {max(n_bytes, default=0) / 1e6:.3g} MB"
        self._n_bytes: dict[Any, int] = {}  # of the last sum of every kind of pass
        self._n_passes = 0
        self._told: Told | None = None

    def watch(self, told: Told | None) -> None:
        """Let ``told(pass, partitions that are done, all of them)`` be called in every pass; None ends it."""
        self._told = told

    def total(self, work: Callable[..., T], *small: Any) -> T:
        """Return the sum over all partitions, two neighbours at a time; a task adds some levels of that tree."""
        with self._heard() as name:
            return self._total(work, self._tasks(work, small, name))

    def each(self, work: Callable[..., Any], *small: Any) -> list[Any]:
        """Return what every partition gives."""
        with self._heard() as name:
            return computed(self._tasks(work, small, name), self.what)

    def inverse(self, factors: Sequence[Array]) -> Inverse:
        """Return what solves with L L', here: no partition has a part in it."""
        return partial(solved_here, factors)

    def _total(self, work: Callable[..., T], sums: list[Any]) -> T:
        at_once = _ADDED if self._n_bytes.get(work, _MODEST + 1) <= _MODEST else 2
        while len(sums) > 1:
            some = [sums[i : i + at_once] for i in range(0, len(sums), at_once)]
            sums = [task(_summed, *each) if len(each) > 1 else each[0] for each in some]
        found: T = computed(sums, self.what)[0]
        self._n_bytes[work] = sum(np.asarray(each).nbytes for each in found)
        return found

    def _tasks(self, work: Callable[..., Any], small: tuple[Any, ...], name: str | None) -> list[Any]:
        n_bytes = sum(each.nbytes for each in small if isinstance(each, np.ndarray))
        arrays = Shared(small) if n_bytes <= _CARRIED else shared(small)
        return [task(_worked, work, part, arrays, name) for part in self.parts]

    @contextmanager
    def _heard(self) -> Iterator[str | None]:
        """Yield the name by which the partitions of a pass tell that they are done; None where nobody listens."""
        self._n_passes += 1
        if self._told is None:
            yield None
            return
        told, done, lock = partial(self._told, self._n_passes), count(1), Lock()

        def listener() -> None:
            with lock:  # a partition that was lost is done twice
                told(min(next(done), self.n_blocks), self.n_blocks)

        told(0, self.n_blocks)
        with heard_by(listener) as name:
            yield name


def _worked(work: Callable[..., Any], block: Any, small: Shared, name: str | None) -> Any:
    with np.errstate(all="ignore"):  # what overflows shows in the certificate
        found = work(block, *small.value)
    if name is not None:
        tell(name)
    return found


def _summed(*sums: T) -> T:
    return summed(sums)
