"""Partitions of a Dask collection as the blocks of a problem: a pass is one task per partition and a tree of sums.

A task is a pure function of its partition and of the small arrays of the pass, and the tree has a fixed shape: which
worker computes it, how often, and in which order, changes no bit. So a worker that is lost costs time alone: Dask
computes its partitions and its tasks again, somewhere else.
"""

import importlib.util
import uuid
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import dask
import numpy as np
from dask import delayed

from softmargin.core.errors import DataError
from softmargin.problems.blocks import added

__all__ = ["DaskBlocks", "computed", "quiet"]

T = TypeVar("T", bound=tuple[Any, ...])
_LARGE = 10**9  # bytes of a graph before Dask warns: the weights of a pass travel in it, once


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
        self.n_features, self.most_bytes = n_features, max(n_bytes, default=0)

    def total(self, work: Callable[..., T], *small: Any) -> T:
        """Return the sum over all partitions, two neighbours at a time."""
        sums = self._tasks(work, small)
        while len(sums) > 1:
            pairs = [sums[i : i + 2] for i in range(0, len(sums), 2)]
            sums = [_task(added, *pair) if len(pair) == 2 else pair[0] for pair in pairs]
        found: T = computed(sums, self.most_bytes)[0]
        return found

    def each(self, work: Callable[..., Any], *small: Any) -> list[Any]:
        """Return what every partition gives."""
        return computed(self._tasks(work, small), self.most_bytes)

    def _tasks(self, work: Callable[..., Any], small: tuple[Any, ...]) -> list[Any]:
        # One object in the graph, which every task refers to: workers get it from each other.
        shared = delayed(_Small(small), name=f"softmargin-small-{uuid.uuid4().hex}", pure=False, traverse=False)
        return [_task(_worked, work, part, shared) for part in self.parts]


class _Small:
    """The small arrays of a pass: an object that Dask does not look into."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values


def _worked(work: Callable[..., Any], block: Any, small: _Small) -> Any:
    with np.errstate(all="ignore"):  # what overflows shows in the certificate
        return work(block, *small.values)


def _task(work: Callable[..., Any], *args: Any) -> Any:
    return delayed(work, pure=False, traverse=False)(*args)


def quiet() -> Any:
    """Return a context in which Dask does not warn of the arrays in a graph: those of a pass are in it once."""
    # Imported first: what it sets when it is imported in such a context is gone after it.
    if importlib.util.find_spec("distributed") is not None:
        importlib.import_module("distributed")
    return dask.config.set({"distributed.admin.large-graph-warning-threshold": _LARGE})


def computed(tasks: Sequence[Any], n_bytes: int = 0) -> list[Any]:
    """Compute tasks on the cluster of the current client, or by the scheduler that Dask is set to."""
    with quiet():
        try:
            return list(dask.compute(*tasks, optimize_graph=False))
        except Exception as error:
            if type(error).__name__ != "KilledWorker":
                raise
            size = f" of about {n_bytes / 1e6:.0f} MB" if n_bytes else ""
            raise DataError(
                f"workers were lost again and again at the same partition{size}, most likely for want of memory "
                f"({error}). Use smaller partitions (rechunk, repartition), or workers with more memory."
            ) from error
