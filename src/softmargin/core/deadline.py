"""How much time is left: what long work asks before it goes on.

``run.solve`` sets the deadline of its thread around what a solver does, and around the certificates of problems that
can leave out the bound; others are evaluated without one.

    check_time()        raise OutOfTime: the step is given up, and the run returns the point before it
    check_time(work)    the same where BLAS needs longer for so many multiplications than there is time
    is_time_up()        say whether to stop early, with a state that is consistent
    alarm()             an array that becomes nonzero at the deadline, for compiled loops to look at
    share_of_time(s)    a context with a share of the time: the rest is for what comes after it
    leaving(seconds)    a context with all the time but these seconds
    time_left()         seconds before the deadline
    seconds_for(work)   about how long BLAS needs for so many multiplications
    factor_work(n)      so many of them take as long as a Cholesky factor

Without a deadline nothing here reads a clock.
"""

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "OutOfTime",
    "alarm",
    "check_time",
    "deadline",
    "factor_work",
    "has_time_for",
    "is_time_up",
    "leaving",
    "seconds_for",
    "share_of_time",
    "time_left",
]

Array = NDArray[Any]
_SILENT: Array = np.zeros(1, dtype=np.int64)
_PROBE = 512  # rows of the matrices by which BLAS is timed: some 30 ms, once in a process, where time gets short
_TRIALS = 4
_SLOWEST = 1e9  # multiplications per second: what is in time at this speed needs no such probe


class OutOfTime(Exception):
    """The deadline has passed, or would pass before the work is done."""


class _Deadline:
    """The end of a budget on the clock, and its alarm, which is set only where a loop asks for it."""

    def __init__(self, seconds: float) -> None:
        self.end = time.perf_counter() + seconds
        self.flag: Array = np.zeros(1, dtype=np.int64)
        self._watch: threading.Thread | None = None
        self._is_over = threading.Event()
        self._lock = threading.Lock()

    def left(self) -> float:
        return self.end - time.perf_counter()

    def set_alarm(self) -> Array:
        with self._lock:  # threads that work for one another share a deadline
            if self._watch is None:
                self._watch = threading.Thread(target=self._ring, daemon=True)
                self._watch.start()
        return self.flag

    def _ring(self) -> None:
        """Set the alarm at the deadline, by the clock that all others read, which need not be that of ``wait``."""
        while (left := self.left()) > 0.0:
            if self._is_over.wait(min(left, threading.TIMEOUT_MAX)):
                return
        self.flag.fill(1)

    def cancel(self) -> None:
        self._is_over.set()


_NOW: ContextVar[_Deadline | None] = ContextVar("softmargin_deadline", default=None)


class deadline:
    """A context that gives this thread and its helpers so many seconds; infinitely many lift the deadline.

    One that is kept can be entered again until ``cancel``: an alarm is a thread, and takes as long to set as a short
    step.
    """

    def __init__(self, seconds: float, *, is_kept: bool = False) -> None:
        self._mine = None if seconds == math.inf else _Deadline(seconds)
        self._is_kept = is_kept

    @property
    def end(self) -> float:
        """When it is, on the clock of ``time.perf_counter``."""
        return math.inf if self._mine is None else self._mine.end

    def __enter__(self) -> None:
        self._before = _NOW.set(self._mine)

    def __exit__(self, *raised: object) -> None:
        _NOW.reset(self._before)
        if not self._is_kept:
            self.cancel()

    def cancel(self) -> None:
        """End the thread of the alarm."""
        if self._mine is not None:
            self._mine.cancel()


@contextmanager
def share_of_time(share: float) -> Iterator[None]:
    """Give what follows a share of the time that is left."""
    now = _NOW.get()
    with deadline(math.inf if now is None else share * now.left()):
        yield


@contextmanager
def leaving(seconds: float) -> Iterator[None]:
    """Give what follows the time that is left, less some seconds for what comes after it."""
    now = _NOW.get()
    with deadline(math.inf if now is None else now.left() - seconds):
        yield


def time_left() -> float:
    """Return the seconds before the deadline; infinitely many without one."""
    now = _NOW.get()
    return math.inf if now is None else now.left()


def is_time_up() -> bool:
    """Say whether the deadline has passed."""
    return time_left() <= 0.0


def has_time_for(work: float) -> bool:
    """Say whether BLAS can make so many multiplications before the deadline."""
    now = _NOW.get()
    if now is None:
        return True
    left = now.left()
    return left > work / _SLOWEST or left > seconds_for(work)


def seconds_for(work: float) -> float:
    """Return about how long BLAS needs for so many multiplications."""
    return work / _blas_speed() if work > 0.0 else 0.0


def factor_work(n: int, dtype: Any = np.float64) -> float:
    """Return how many multiplications of float64 take as long as a Cholesky factor of n unknowns."""
    share: float = np.dtype(dtype).itemsize / 8.0
    return share * float(n) ** 2 * n / 6.0


def check_time(work: float = 0.0) -> None:
    """Raise OutOfTime at the deadline, or where BLAS cannot make so many multiplications before it."""
    if not has_time_for(work):
        raise OutOfTime


def alarm() -> Array:
    """Return an array (1,), zero until the deadline; compiled loops hold no GIL, so another thread can set it."""
    now = _NOW.get()
    return _SILENT if now is None else now.set_alarm()


@cache
def _blas_speed() -> float:
    """Return multiplications per second, measured once."""
    A, best = np.ones((_PROBE, _PROBE)), math.inf
    for _ in range(_TRIALS):
        began = time.perf_counter()
        A @ A
        best = min(best, time.perf_counter() - began)
    return _PROBE**3 / max(best, 1e-9)
