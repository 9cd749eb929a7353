"""Fits of a search as tasks of other processes, where joblib is told to use them.

    parallel_config(backend="dask")     workers of a Dask cluster
    parallel_config(n_jobs=16)          processes of this machine, joblib's own

Threads of one process queue for the interpreter, processes do not. But these begin by importing what they need.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from joblib import Parallel, delayed  # type: ignore[import-untyped]
from joblib.parallel import effective_n_jobs, get_active_backend  # type: ignore[import-untyped]

from softmargin.core.threads import threads

__all__ = ["Workers", "search_workers"]

Work = Callable[[Any, Any], Any]


class Workers(Protocol):
    """Processes that do the tasks of a search."""

    n_at_once: int  # tasks

    def spread(self, work: Work, values: Sequence[Any], items: Sequence[Any]) -> list[Any]:
        """Return ``work(values[item.row], item)`` for every item; a value travels to every worker that needs it."""


def search_workers() -> Workers | None:
    """Return what joblib is told to use; None: nothing but this process."""
    backend, n_jobs = get_active_backend()
    if (client := getattr(backend, "client", None)) is not None:
        return DaskWorkers(client)
    if n_jobs in (None, 1) or getattr(backend, "uses_threads", False):
        return None
    return Processes(effective_n_jobs(n_jobs))


class DaskWorkers:
    """Workers of a cluster, with one task for each of their cores; there may be none yet."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.n_at_once = max(1, int(sum(client.nthreads().values())))

    def spread(self, work: Work, values: Sequence[Any], items: Sequence[Any]) -> list[Any]:
        from softmargin.distributed.tasks import computed, shared, task

        own = [shared(value) for value in values]
        with self.client.as_current():
            return computed([task(_done, work, own[item.row], item) for item in items], "fold")


class Processes:
    """Processes of this machine. Where tasks are fewer, the first have the threads that are left over."""

    def __init__(self, n_at_once: int) -> None:
        self.n_at_once = n_at_once

    def spread(self, work: Work, values: Sequence[Any], items: Sequence[Any]) -> list[Any]:
        size, n_larger = divmod(self.n_at_once, min(self.n_at_once, len(items)))
        calls = [
            delayed(_with_threads)(size + (i < n_larger), work, values[item.row], item) for i, item in enumerate(items)
        ]
        return list(Parallel(n_jobs=min(self.n_at_once, len(items)), batch_size=1)(calls))


def _done(work: Work, value: Any, item: Any) -> Any:
    return work(value.value, item)


def _with_threads(n_threads: int, work: Work, value: Any, item: Any) -> Any:
    with threads(n_threads):
        return work(value, item)
