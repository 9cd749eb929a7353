"""How far a pass is: tasks tell that their partition is done, and the process that waits for them hears it.

A task in this process calls the listener; one of a worker sends a few bytes to the scheduler, as an event of Dask,
which goes on to the client. No task waits for either, and nothing is sent where nobody listens.
"""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["heard_by", "tell"]

_TOPIC = "softmargin-partitions"
_listeners: dict[str, Callable[[], None]] = {}  # of this process, by the name of what they wait for


@contextmanager
def heard_by(listener: Callable[[], None]) -> Iterator[str]:
    """Yield a name; ``listener`` is called as often as a task tells it, from any thread."""
    name = uuid.uuid4().hex
    _listeners[name] = listener
    client = _client()
    if client is not None:
        client.subscribe_topic(_TOPIC, _on_event)
    try:
        yield name
    finally:
        if client is not None:
            client.unsubscribe_topic(_TOPIC)
        del _listeners[name]


def tell(name: str) -> None:
    """Let the listener of a name be called, in whatever process it is."""
    listener = _listeners.get(name)
    if listener is not None:
        listener()
        return
    try:
        from distributed import get_worker

        get_worker().log_event(_TOPIC, name)
    except (ImportError, ValueError):  # a process of a scheduler that has no events
        return


def _on_event(event: tuple[float, Any]) -> None:
    listener = _listeners.get(event[1])
    if listener is not None:
        listener()


def _client() -> Any:
    try:
        from distributed import get_client

        return get_client()
    except (ImportError, ValueError):
        return None
