"""Fits of a search as tasks of a cluster, where joblib computes there: ``parallel_config(backend="dask")``."""

from collections.abc import Callable, Sequence
from typing import Any

from joblib.parallel import get_active_backend  # type: ignore[import-untyped]

__all__ = ["n_cores", "search_client", "spread_on"]


def search_client() -> Any:
    """Return the client of joblib's Dask backend, where that is the active one; else None."""
    return getattr(get_active_backend()[0], "client", None)


def n_cores(client: Any) -> int:
    """Return how many tasks the workers do at a time; there may be none yet."""
    return max(1, int(sum(client.nthreads().values())))


def spread_on(client: Any, work: Callable[[Any, Any], Any], values: Sequence[Any], items: Sequence[Any]) -> list[Any]:
    """Return ``work(values[item.row], item)`` for every item; a value travels to every worker that needs it, once."""
    from softmargin.distributed.tasks import computed, shared, task

    own = [shared(value) for value in values]
    with client.as_current():
        return computed([task(_done, work, own[item.row], item) for item in items], "fold")


def _done(work: Callable[[Any, Any], Any], value: Any, item: Any) -> Any:
    return work(value.value, item)
