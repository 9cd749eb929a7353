"""Partitions of a Dask collection as the blocks of a problem: a pass is one task per partition and a tree of sums.

A task is a pure function of its partition and of the small arrays of the pass, and the tree has a fixed shape: which
worker computes it, how often, and in which order, changes no bit. So a worker that is lost costs time alone: Dask
computes its partitions and its tasks again, somewhere else.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from softmargin.distributed.tasks import Shared, computed, shared, task
from softmargin.problems.blocks import summed

__all__ = ["DaskBlocks"]

T = TypeVar("T", bound=tuple[Any, ...])
_ADDED = 16  # sums that one task adds, a power of two; a task costs Dask 4 ms of a core, their addition nothing
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
        self.n_features, self.what = n_features, f"partition of about {max(n_bytes, default=0) / 1e6:.0f} MB"
        self._n_bytes: dict[Any, int] = {}  # of the last sum of every kind of pass

    def total(self, work: Callable[..., T], *small: Any) -> T:
        """Return the sum over all partitions, two neighbours at a time; a task adds some levels of that tree."""
        sums = self._tasks(work, small)
        at_once = _ADDED if self._n_bytes.get(work, _MODEST + 1) <= _MODEST else 2
        while len(sums) > 1:
            some = [sums[i : i + at_once] for i in range(0, len(sums), at_once)]
            sums = [task(_summed, *each) if len(each) > 1 else each[0] for each in some]
        found: T = computed(sums, self.what)[0]
        self._n_bytes[work] = sum(np.asarray(each).nbytes for each in found)
        return found

    def each(self, work: Callable[..., Any], *small: Any) -> list[Any]:
        """Return what every partition gives."""
        return computed(self._tasks(work, small), self.what)

    def _tasks(self, work: Callable[..., Any], small: tuple[Any, ...]) -> list[Any]:
        arrays = shared(small)
        return [task(_worked, work, part, arrays) for part in self.parts]


def _worked(work: Callable[..., Any], block: Any, small: Shared) -> Any:
    with np.errstate(all="ignore"):  # what overflows shows in the certificate
        return work(block, *small.value)


def _summed(*sums: T) -> T:
    return summed(sums)
