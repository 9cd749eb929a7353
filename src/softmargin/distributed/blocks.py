"""Partitions of a Dask collection as the blocks of a problem: a pass is one task per partition and a tree of sums.

A task is a pure function of its partition and of the small arrays of the pass, and the tree has a fixed shape: which
worker computes it, how often, and in which order, changes no bit. So a worker that is lost costs time alone: Dask
computes its partitions and its tasks again, somewhere else.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from softmargin.distributed.tasks import Shared, computed, shared, task
from softmargin.problems.blocks import added

__all__ = ["DaskBlocks"]

T = TypeVar("T", bound=tuple[Any, ...])


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

    def total(self, work: Callable[..., T], *small: Any) -> T:
        """Return the sum over all partitions, two neighbours at a time."""
        sums = self._tasks(work, small)
        while len(sums) > 1:
            pairs = [sums[i : i + 2] for i in range(0, len(sums), 2)]
            sums = [task(added, *pair) if len(pair) == 2 else pair[0] for pair in pairs]
        found: T = computed(sums, self.what)[0]
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
