"""Tasks of Dask: computed by the cluster of the current client, or by the scheduler that Dask is set to."""

import importlib.util
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import dask
from dask import delayed

from softmargin.core.errors import DataError

__all__ = ["Shared", "computed", "quiet", "shared", "task"]

_LARGE = 10**9  # bytes of a graph before Dask warns: what tasks share travels in it, once


def task(work: Callable[..., Any], *args: Any) -> Any:
    """Return a task whose arguments are used as they are, or once they are computed."""
    return delayed(work, pure=False, traverse=False)(*args)


class Shared:
    """What many tasks refer to, once in the graph; Dask does not look into it."""

    def __init__(self, value: Any) -> None:
        self.value = value


def shared(value: Any) -> Any:
    """Return a ``Shared`` value for the arguments of tasks: workers get it from each other."""
    return delayed(Shared(value), name=f"softmargin-shared-{uuid.uuid4().hex}", pure=False, traverse=False)


def quiet() -> Any:
    """Return a context in which Dask does not warn of the arrays in a graph: shared ones are in it once."""
    # Imported first: what it sets when it is imported in such a context is gone after it.
    if importlib.util.find_spec("distributed") is not None:
        importlib.import_module("distributed")
    return dask.config.set({"distributed.admin.large-graph-warning-threshold": _LARGE})


def computed(tasks: Sequence[Any], what: str) -> list[Any]:
    """Compute tasks; ``what`` each of them holds in memory is named where that does not suffice."""
    with quiet():
        try:
            return list(dask.compute(*tasks, optimize_graph=False))
        except Exception as error:
            if isinstance(error, MemoryError):
                trouble = f"memory did not suffice for a {what} and what is computed from it ({error})"
            elif type(error).__name__ == "KilledWorker":
                trouble = (
                    f"workers were lost again and again at the same {what}, most likely for want of memory ({error})"
                )
            else:
                raise
            raise DataError(
                f"{trouble}. Use smaller partitions (rechunk, repartition, blocksize=), or workers with more memory."
            ) from error
