"""What a run may spend (``Stop``), and what it has spent of its seconds (``Clock``).

Where seconds are limited, starts and steps have a deadline (``core.deadline``) that leaves time for the last
certificate. A step that passes it ends early, or is given up: the run then returns the point before that step. So is a
step after which the certificate would take too long.

How long a certificate takes is known by its work, where the problem tells it (``certificate_work``), and by the last
one that was timed; before anything is known of it, half of the time is kept, and once a quarter of the budget is spent
one is asked for, as it mostly takes far less. Problems whose certificate can leave out
the bound (``can_skip_bound``) have a deadline for it, too.
"""

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, NamedTuple, TypeVar

from softmargin.core.deadline import OutOfTime, deadline, seconds_for, unlimited
from softmargin.core.parameters import Number, Whole, checked

__all__ = ["MAX_ITER", "MAX_SECONDS", "TOL", "BudgetTuning", "Clock", "Stop"]

T = TypeVar("T")

TOL = (Number(least=0.0, is_finite=False),)
MAX_ITER = (Whole(-1),)
_NO_LIMIT = -1  # as LIBSVM and scikit-learn write it
MAX_SECONDS = (Number(least=0.0, is_finite=False),)
DECAY = (Number(least=0.0, below=1.0),)


class Stop(NamedTuple):
    """The tolerance a certificate must meet, and the budgets that end a run without it.

    Attributes
    ----------
    tol : float
        Largest residual (relative gap) that counts as converged.
    max_iter : int
        Largest number of steps; a step is about one pass over the data. -1: no limit.
    max_seconds : float
        Wall-clock budget, certificates included.
    decay : float
        Share of the gap after the first pass at which a run ends as "decayed", the rule of paper 004: DG^t <= decay
        DG^1. The certificate is then evaluated after every pass. Where only stationarity is proven, its residual stands
        for the gap. 0: not used.

    Examples
    --------
    >>> from softmargin import Stop
    >>> Stop(tol=1e-6, max_seconds=60.0)
    Stop(tol=1e-06, max_iter=10000, max_seconds=60.0, decay=0.0)
    """

    tol: float = 1e-3
    max_iter: int = 10_000
    max_seconds: float = math.inf
    decay: float = 0.0

    def checked(self) -> "Stop":
        """Return itself with plain numbers, or name the setting that makes no sense."""
        if self == _DEFAULTS and _kinds(self) == _kinds(_DEFAULTS):
            return self
        kinds = (TOL, MAX_ITER, MAX_SECONDS, DECAY)
        stop = Stop(*(checked(name, value, *own) for name, value, own in zip(self._fields, self, kinds, strict=True)))
        return stop._replace(max_iter=sys.maxsize) if stop.max_iter == _NO_LIMIT else stop


def _kinds(stop: Stop) -> list[type]:
    return [*map(type, stop)]


_DEFAULTS = Stop()


class BudgetTuning(NamedTuple):
    """How a budget of seconds is divided, by hand."""

    reserve: float = 0.5  # share of the time left that is kept for a certificate, where nothing is known of it
    blind: float = 0.25  # share of the budget after which one is evaluated where nothing is known of it
    most: float = 0.35  # share of the budget that is kept for a certificate that can leave out the bound
    risky: float = 0.1  # a step that takes this share of the time left may be the one that is given up
    grace: float = 0.05  # share of the budget by which a step may exceed it before it is given up
    late: float = 0.1  # share of the budget by which a certificate may exceed it before it leaves out the bound
    slack: float = 0.25  # seconds that it has beyond that: calls and copies of a short fit take as long
    cheap: float = 0.05  # share of a step up to which its point is always kept
    shift: float = 0.01  # share of the budget by which a deadline may be off, and serve further steps


class Clock:
    """The seconds of one run: what its steps and certificates took, and how long the next step may take."""

    tuning: ClassVar[BudgetTuning] = BudgetTuning()

    def __init__(self, max_seconds: float, problem: Any) -> None:
        self.max_seconds = max_seconds
        self.is_limited = max_seconds < math.inf  # elsewhere no decision reads the clock
        self.work_of = getattr(problem, "certificate_work", None) if self.is_limited else None
        self.can_skip_bound = getattr(problem, "can_skip_bound", False)
        self.is_growing = self.work_of is not None and not self.can_skip_bound  # certificates, with the points
        self.began = time.perf_counter()
        self.seconds = 0.0  # of starts and steps
        self.certificate_seconds = 0.0
        self.last_step = 0.0
        self.last_certificate = math.nan
        self.last_work = 0.0  # of that certificate, in multiplications
        self.work = 0.0 if self.work_of is None else self.work_of(None)  # of the next one
        self.last_keeping = math.nan  # what a point took
        self.is_cut = False  # a step was given up: its state is of no use
        self._limit = deadline(math.inf)  # of the last step

    @property
    def grace(self) -> float:
        """By how many seconds a step may exceed the budget before it is given up."""
        return self.tuning.grace * self.max_seconds if self.is_limited else 0.0

    def expect(self, point: Any) -> None:
        """Note at which point the next certificate may be evaluated."""
        if self.work_of is not None:
            self.work = self.work_of(point)

    def left(self) -> float:
        """Return how long starts and steps may still take, so that the last certificate is evaluated in time."""
        if not self.is_limited:
            return math.inf
        left = self.max_seconds - (time.perf_counter() - self.began)
        needed = self.tuning.reserve * left if math.isnan(self.last_certificate) else self.last_certificate
        if self.work > 0.0:
            pace = self.last_certificate / self.last_work if self.last_work > 0.0 else seconds_for(1.0)
            needed = pace * self.work
        return left - (min(needed, self.tuning.most * self.max_seconds) if self.can_skip_bound else needed)

    def is_blind(self) -> bool:
        """Say whether it is time to learn how long a certificate takes."""
        is_unknown = self.is_limited and self.work == 0.0 and math.isnan(self.last_certificate)
        return is_unknown and time.perf_counter() - self.began > self.tuning.blind * self.max_seconds

    def is_outgrown(self, point: Any) -> bool:
        """Say whether the certificate of a new point takes so long that only that of the last one is in time."""
        before = self.work
        self.expect(point)
        is_outgrown = self.work > before and self.left() < -self.grace
        self.work = before if is_outgrown else self.work
        return is_outgrown

    def is_point_kept(self) -> bool:
        """Say whether the point before a step is worth its time: it costs little, or the step may be given up."""
        is_cheap = not self.last_keeping > self.tuning.cheap * self.last_step
        return self.is_growing or is_cheap or self.last_step > self.tuning.risky * self.left()

    def step(self, work: Callable[[], T], *, is_limited: bool = True) -> T | None:
        """Time a start or a step, and give it the time that is left, with some grace, so that short ones end.

        Return what it returns, or None where it gives up; then ``is_cut`` is set.
        """
        started, found = time.perf_counter(), None
        limit = self._limit_of(started) if is_limited and self.is_limited else unlimited()
        try:
            with limit:
                found = work()
        except OutOfTime:
            self.is_cut = True
        self.last_step = time.perf_counter() - started
        self.seconds += self.last_step
        return found

    def _limit_of(self, started: float) -> deadline:
        """Return the deadline of a step that starts now: that of the last one, unless it ends at another time."""
        seconds = self.left() + self.grace
        if not abs(started + seconds - self._limit.end) <= self.tuning.shift * self.max_seconds:
            self._limit.cancel()
            self._limit = deadline(seconds, is_kept=True)
        return self._limit

    def close(self) -> None:
        """End what watches the deadline."""
        self._limit.cancel()

    @staticmethod
    def now() -> float:
        """Return the time."""
        return time.perf_counter()

    def note_certificate(self, started: float) -> None:
        """Note what a certificate and its point took, which began then, apart from the steps."""
        self.last_certificate, self.last_work = time.perf_counter() - started, self.work
        self.certificate_seconds += self.last_certificate

    def judging(self) -> AbstractContextManager[None]:
        """Give a certificate that can leave out the bound a deadline, and no other."""
        if not (self.can_skip_bound and self.is_limited):
            return unlimited()
        last = (1.0 + self.tuning.late) * self.max_seconds + self.tuning.slack
        return deadline(last - (time.perf_counter() - self.began))

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Time the point that is kept before a step."""
        started = time.perf_counter()
        yield
        self.last_keeping = time.perf_counter() - started
