"""How much time is left: what long work asks before it goes on.

``run.solve`` sets the deadline of its thread around what a solver does, and around the certificates of problems that
can leave out the bound; others are evaluated without one.

    check_time()        raise OutOfTime: the step is given up, and the run returns the point before it
    check_time(work)    the same where BLAS needs longer for so many multiplications than there is time
    is_time_up()        say whether to stop early, with a state that is consistent
    alarm()             an array that becomes nonzero at the deadline, for compiled loops to look at
    unlimited()         a context without a deadline
    share_of_time(s)    a context with a share of the time: the rest is for what comes after it
    leaving(seconds)    a context with all the time but these seconds
    time_left()         seconds before the deadline
    seconds_for(work)   about how long BLAS needs for so many multiplications
    factor_work(n)      so many of them take as long as a Cholesky factor

Without a deadline nothing here reads a clock.
"""

import math
import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from time import monotonic
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
    "unlimited",
]

Array = NDArray[Any]
_AS_IT_IS = nullcontext()
_SILENT: Array = np.zeros(1, dtype=np.int64)
_PROBE = 512  # rows of the matrices by which BLAS is timed: some 30 ms, once in a process, where time gets short
_TRIALS = 4
_LOOK = 1.0  # seconds between two looks of the thread that sets alarms
_SLOWEST = 1e9  # multiplications per second: what is in time at this speed needs no such probe


class OutOfTime(Exception):
    """The deadline has passed, or would pass before the work is done."""


class _Deadline:
    """The end of a budget on the clock, and its alarm, which is set only where a loop asks for it."""

    def __init__(self, seconds: float) -> None:
        self.end = time.perf_counter() + seconds
        self.flag: Array = np.zeros(1, dtype=np.int64)
        self.is_watched = False

    def left(self) -> float:
        return self.end - time.perf_counter()

    def set_alarm(self) -> Array:
        if self.left() <= 0.0:
            self.flag.fill(1)
        elif not self.is_watched:
            self.is_watched = True
            _BELL.watch(self)
        return self.flag

    def cancel(self) -> None:
        if self.is_watched:
            _BELL.forget(self)


class _Bell:
    """The one thread that sets the alarms of all deadlines.

    A thread for each would take longer than a short fit: its start waits until it runs, 1 to 8 ms on a busy machine. So
    this one is woken only for a deadline that comes before all others. It looks about once a second, and ends where no
    deadline is left.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.watched: set[_Deadline] = set()
        self.thread: threading.Thread | None = None
        self.wakes_at = math.inf  # on the clock of ``monotonic``

    def watch(self, one: _Deadline) -> None:
        with self.changed:
            self.watched.add(one)
            if self.thread is None:
                self.thread = threading.Thread(target=self.ring, name="softmargin_alarms", daemon=True)
                self.thread.start()
            elif monotonic() + one.left() < self.wakes_at:
                self.changed.notify()

    def forget(self, one: _Deadline) -> None:
        with self.changed:
            self.watched.discard(one)

    def ring(self) -> None:
        """Set alarms at their deadlines, by the clock that all others read, which need not be that of ``wait``."""
        with self.changed:
            while self.watched:
                for one in [one for one in self.watched if one.left() <= 0.0]:
                    one.flag.fill(1)
                    self.watched.discard(one)
                pause = max(min((one.left() for one in self.watched), default=_LOOK), 0.0)
                self.wakes_at = monotonic() + min(pause, _LOOK)
                self.changed.wait(min(pause, _LOOK))
            self.thread = None


_BELL = _Bell()


def _after_fork() -> None:
    """Forget the thread that a child process does not have."""
    global _BELL
    _BELL = _Bell()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


_NOW: ContextVar[_Deadline | None] = ContextVar("softmargin_deadline", default=None)


class deadline(AbstractContextManager[None]):
    """A context that gives this thread and its helpers so many seconds; infinitely many lift the deadline.

    One that is kept can be entered again until ``cancel``, and has one alarm.
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
        """Give the alarm up."""
        if self._mine is not None:
            self._mine.cancel()


def unlimited() -> AbstractContextManager[None]:
    """Return a context without a deadline; it costs nothing where there is none."""
    return _AS_IT_IS if _NOW.get() is None else deadline(math.inf)


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
