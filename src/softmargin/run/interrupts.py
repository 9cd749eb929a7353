"""Ctrl-C, and SIGTERM where a program asks for it, as a flag that a run reads between its steps."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from softmargin.core.threads import interruption

__all__ = ["interrupts"]


@contextmanager
def interrupts() -> Iterator[threading.Event]:
    """Turn Ctrl-C into a flag that is read between steps, so that no step is cut short; a second one is immediate.

    So is SIGTERM where the program has made it raise KeyboardInterrupt, by a handler with ``may_wait = True``. Runs in
    threads that work together have one flag.
    """
    handlers: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():  # only it receives signals
        found = {signum: signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)}
        # A program with its own handler keeps it.
        handlers = {signum: handler for signum, handler in found.items() if _may_wait(handler)}

    def on_interrupt(signum: int, frame: Any) -> None:
        try:
            handlers[signum](signum, frame)
        except KeyboardInterrupt:
            if flag.is_set():
                raise
            flag.set()

    with interruption() as flag:
        for signum in handlers:
            signal.signal(signum, on_interrupt)
        try:
            yield flag
        finally:
            for signum, handler in handlers.items():
                signal.signal(signum, handler)


def _may_wait(handler: Any) -> bool:
    return handler is signal.default_int_handler or getattr(handler, "may_wait", False)
