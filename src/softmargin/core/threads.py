"""Threads: how many a fit may use, and the one way to use them.

    with threads(n_jobs):     this thread, and those that work for it, are n_jobs together; None: as many as before
    spread(work, items)       [work(item) for item in items], several at a time; results in the order of the items
    row_shares(n, work)       slices of n rows, of so many multiplications each, for as many threads as this is worth
    n_threads()               how many there are here; one where nobody asked for more
    n_around()                how many there are in all, with those of the other items: they queue for the interpreter
    with wide_blas(work):     BLAS has all of them for one call of so many multiplications, if it is long enough

Compiled loops and NumPy's products do not hold the interpreter's lock, so threads are enough. After each call they
queue for it: with 16 threads some 20 us, one after the other. So items make few and long calls. What an item does must
depend neither on the other items nor on the thread that does it: then the same n_jobs gives the same bits, whichever
thread is faster. The items that are done at the same time share the threads; each may call ``spread`` again.

Threads that work for another have its deadline (``core.deadline``) and its context variables. An item that raises ends
the work: no further item begins, and the exception of the first item that has one is raised. Ctrl-C ends it, too; runs
(``run.solve``) that are items see it as ``interruption()``, and return what they have.

BLAS has threads of its own. Where n_jobs is None these are the user's affair. Else it has one, but for long calls: its
threads do not sleep after a call, they look out for the next one, for 70 ms by a timing, and hold back ours.
"""

import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from itertools import pairwise
from queue import SimpleQueue
from typing import Any, TypeVar

import numpy as np

from softmargin.core.parameters import NONE, Whole, checked

__all__ = [
    "N_JOBS",
    "WORTH",
    "interruption",
    "n_around",
    "n_threads",
    "row_shares",
    "shared_interruption",
    "spread",
    "threads",
    "wide_blas",
]

Item = TypeVar("Item")
Found = TypeVar("Found")

MOST_JOBS = 1024  # threads of one process; more of them are a mistake
WORTH = 1 << 20  # multiplications in the time that it takes to wake a thread: 40 to 120 us, at 5 to 10 of them in a ns
_LONG = 1 << 30  # multiplications of a long call of BLAS: 100 to 200 ms, longer than its threads stay awake after it
_WAITING = 0.01  # seconds between two looks at threads that end after Ctrl-C
N_JOBS = (NONE, Whole(1, MOST_JOBS), Whole(-MOST_JOBS, -1))

_AS_IT_IS = nullcontext()
_SIZE: ContextVar[int | None] = ContextVar("softmargin_threads", default=None)
_ALL: ContextVar[int] = ContextVar("softmargin_all_threads", default=1)
_INTERRUPTION: ContextVar[threading.Event | None] = ContextVar("softmargin_interruption", default=None)


def n_threads() -> int:
    """Return how many threads this one may use, itself included."""
    return _SIZE.get() or 1


def n_around() -> int:
    """Return how many threads this one and those of all other items are: as many as were asked for first."""
    return _ALL.get()


@contextmanager
def interruption() -> Iterator[threading.Event]:
    """Give the event that Ctrl-C sets for threads that work together; what is spread meanwhile is not cut short."""
    flag = _INTERRUPTION.get() or threading.Event()
    around = _INTERRUPTION.set(None)
    try:
        yield flag
    finally:
        _INTERRUPTION.reset(around)


@contextmanager
def shared_interruption() -> Iterator[threading.Event]:
    """Let one Ctrl-C end all runs that begin in here, those after it too: each returns what it has."""
    flag = _INTERRUPTION.get() or threading.Event()
    around = _INTERRUPTION.set(flag)
    try:
        yield flag
    finally:
        _INTERRUPTION.reset(around)


@contextmanager
def threads(n_jobs: int | None) -> Iterator[None]:
    """Let what follows use so many threads: -1 is all processors, -2 all but one; inside another, no more than that."""
    asked = checked("n_jobs", n_jobs, *N_JOBS)
    if asked is None:
        yield
        return
    size = asked if asked > 0 else max(1, _n_processors() + 1 + asked)
    around = _SIZE.get()
    before = _SIZE.set(size if around is None else min(size, around))
    whole = _ALL.set(size if around is None else n_around())
    try:
        with _BLAS.held() if around is None else _AS_IT_IS:
            yield
    finally:
        _ALL.reset(whole)
        _SIZE.reset(before)


def wide_blas(work: float) -> AbstractContextManager[None]:
    """Let BLAS have the threads of this one for a long call; not among items that are spread."""
    return _AS_IT_IS if work < _LONG or n_threads() == 1 else _BLAS.widened(n_threads())


def row_shares(n: int, work: float, *, worth: float = 0.0) -> list[slice]:
    """Divide n rows of so many multiplications each into equal slices, one for each thread that is worth waking.

    Threads are woken one after the other: with p of them w multiplications take about w / p + WORTH p, which is least
    at p = sqrt(w / WORTH). A thread may be worth waking for ``worth`` multiplications only, where its result has to be
    combined with others.
    """
    if n_threads() == 1:
        return [slice(0, n)]
    whole = n * work
    parts = max(1, min(n_threads(), n, int(math.sqrt(whole / WORTH)), int(whole / max(worth, WORTH))))
    ends = [n * part // parts for part in range(parts + 1)]
    return [slice(first, last) for first, last in pairwise(ends)]


def spread(work: Callable[[Item], Found], items: Iterable[Item]) -> list[Found]:
    """Return [work(item) for item in items], done by as many threads as there are here.

    Where there are more threads than items, the first items have those that are left over: heavy ones belong there.
    """
    if n_threads() == 1:
        return [work(item) for item in items]
    items = list(items)
    if len(items) <= 1:
        return [work(item) for item in items]
    return _Spread(work, items).done_by(min(n_threads(), len(items)))


class _Spread:
    """Items that several threads take one after the other."""

    def __init__(self, work: Callable[[Any], Any], items: list[Any]) -> None:
        self.work, self.items = work, items
        self.size, self.n_larger = divmod(n_threads(), min(n_threads(), len(items)))
        self.found: list[Any] = [None] * len(items)
        self.errors: dict[int, Exception] = {}
        self.ending: BaseException | None = None
        self.left = iter(range(len(items)))
        self.lock = threading.Lock()
        self.n_helping, self.is_over = 0, False
        self.last_ended = threading.Event()
        self.interruption = _INTERRUPTION.get() or threading.Event()

    def done_by(self, n_workers: int) -> list[Any]:
        around = _INTERRUPTION.set(self.interruption)
        size = _SIZE.set(self.size)
        self.np_errors = np.geterr()  # not a context variable before NumPy 2
        try:
            with _BLAS.held():
                try:
                    _HELPERS.call(self.help, n_workers - 1)
                    self.take_items()
                    self.end()
                    self.last_ended.wait()
                except BaseException:  # Ctrl-C, or the end of the program
                    self.interruption.set()
                    self.end()
                    while not self.last_ended.is_set():
                        time.sleep(_WAITING)  # what they work on is in use
                    raise
                finally:
                    _HELPERS.let_go(n_workers - 1)
        finally:
            _SIZE.reset(size)
            _INTERRUPTION.reset(around)
        if self.ending is not None:
            raise self.ending
        if self.errors:
            raise self.errors[min(self.errors)]
        if next(self.left, None) is not None:
            raise KeyboardInterrupt
        return self.found

    def end(self) -> None:
        """Let no helper begin any more; those that have begun end with the item they have."""
        with self.lock:
            self.is_over = True
            if not self.n_helping:
                self.last_ended.set()

    def help(self) -> None:
        with self.lock:
            if self.is_over:  # one that has not begun is not needed
                return
            self.n_helping += 1
        try:
            with np.errstate(**self.np_errors):
                self.take_items()
        except BaseException as ending:  # the end of the program, asked for by an item
            self.ending = ending
            self.interruption.set()
        with self.lock:
            self.n_helping -= 1
            if self.is_over and not self.n_helping:
                self.last_ended.set()

    def take_items(self) -> None:
        """Do items that nobody has begun, until there are none. They begin in order, so the first error is known."""
        while not (self.errors or self.interruption.is_set()):
            with self.lock:
                i = next(self.left, None)
            if i is None:
                return
            _SIZE.set(self.size + (i < self.n_larger))
            try:
                self.found[i] = self.work(self.items[i])
            except Exception as error:
                self.errors[i] = error


class _Helpers:
    """Threads that wait for work: as many as were ever called for at one time.

    An executor of the standard library makes a thread for a call while the one that ended last is not yet waiting
    again: hundreds of them, after some fits.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.calls: SimpleQueue[Any] = SimpleQueue()
        self.n_called = self.n_made = 0

    def call(self, work: Callable[[], None], n: int) -> None:
        """Let n helpers do this work, in the context of the caller."""
        with self.lock:
            self.n_called += n
            while self.n_made < self.n_called:
                threading.Thread(target=self.answer, name=f"softmargin_{self.n_made}", daemon=True).start()
                self.n_made += 1
        for _ in range(n):
            self.calls.put((copy_context(), work))

    def let_go(self, n: int) -> None:
        """Take n calls back: the work is done, or nobody needs to begin it any more."""
        with self.lock:
            self.n_called -= n

    def answer(self) -> None:
        while True:
            context, work = self.calls.get()
            context.run(work)
            del context, work  # what they hold is free while this thread waits


class _Blas:
    """The threads of BLAS, which a process has once: one while anybody holds it, more while its only holder says so."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holders, self.width = 0, 1
        self.libraries: list[tuple[Any, int]] = []  # with the threads that each had before
        self.now = 0  # the limit they are held to; 0: none

    @contextmanager
    def held(self) -> Iterator[None]:
        with self.lock:
            if not self.holders:
                self.libraries = _blas_libraries()
            self.holders += 1
            self.apply()
        try:
            yield
        finally:
            with self.lock:
                self.holders -= 1
                self.apply()

    @contextmanager
    def widened(self, width: int) -> Iterator[None]:
        with self.lock:
            self.width = width if self.holders == 1 else 1
            self.apply()
        try:
            yield
        finally:
            with self.lock:
                self.width = 1
                self.apply()

    def apply(self) -> None:
        limit = self.width if self.holders == 1 else min(self.holders, 1)
        if limit == self.now:
            return
        for library, own in self.libraries:
            library.set_num_threads(min(limit, own) if limit else own)
        self.now = limit


def _blas_libraries() -> list[tuple[Any, int]]:
    import scipy.linalg.blas  # noqa: F401  (it has a BLAS of its own, which is found only once it is loaded)
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    found = ThreadpoolController().select(user_api="blas").lib_controllers
    return [(library, library.num_threads) for library in found]


def _n_processors() -> int:
    from joblib import cpu_count  # type: ignore[import-untyped]  # it knows the limits of containers, too

    return int(cpu_count())


_BLAS = _Blas()
_HELPERS = _Helpers()


def _after_fork() -> None:
    """Forget threads and locks that a child process does not have."""
    global _HELPERS, _BLAS
    _HELPERS, _BLAS = _Helpers(), _Blas()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
