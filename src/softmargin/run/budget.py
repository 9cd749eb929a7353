"""What a run may spend (``Stop``), and what it has spent of its seconds (``Clock``).

Where seconds are limited, starts and steps have a deadline (``core.deadline``) that leaves time for the last
certificate. A step that passes it ends early, or is given up: the run then returns the point before that step.
"""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, NamedTuple

from softmargin.core.deadline import OutOfTime, deadline
from softmargin.core.parameters import Number, Whole, checked

__all__ = ["MAX_ITER", "MAX_SECONDS", "TOL", "BudgetTuning", "Clock", "Stop"]

TOL = (Number(least=0.0, is_finite=False),)
MAX_ITER = (Whole(0),)
MAX_SECONDS = (Number(least=0.0, is_finite=False),)
DECAY = (Number(least=0.0, below=1.0),)


class Stop(NamedTuple):
    """The tolerance a certificate must meet, and the budgets that end a run without it.

    Attributes
    ----------
    tol : float
        Largest residual (relative gap) that counts as converged.
    max_iter : int
        Largest number of steps; a step is about one pass over the data.
    max_seconds : float
        Wall-clock budget, certificates included.
    decay : float
        Share of the gap after the first pass at which a run ends as "decayed", the rule of paper 004: DG^t <= decay
        DG^1. The certificate is then evaluated after every pass. Where only stationarity is proven, its residual stands
        for the gap. 0: not used.
    """

    tol: float = 1e-3
    max_iter: int = 10_000
    max_seconds: float = math.inf
    decay: float = 0.0

    def checked(self) -> "Stop":
        """Return itself with plain numbers, or name the setting that makes no sense."""
        kinds = (TOL, MAX_ITER, MAX_SECONDS, DECAY)
        return Stop(*(checked(name, value, *own) for name, value, own in zip(self._fields, self, kinds, strict=True)))


class BudgetTuning(NamedTuple):
    """How a budget of seconds is divided, by hand."""

    reserve: float = 0.5  # share of the time left that is kept for a certificate, before one was timed
    risky: float = 0.1  # a step that takes this share of the time left may be the one that is given up
    grace: float = 0.25  # share of the budget by which a step may exceed it before it is given up
    cheap: float = 0.05  # share of a step up to which its point is always kept


class Clock:
    """The seconds of one run: what its steps and certificates took, and how long the next step may take."""

    tuning: ClassVar[BudgetTuning] = BudgetTuning()

    def __init__(self, max_seconds: float) -> None:
        self.max_seconds = max_seconds
        self.began = time.perf_counter()
        self.seconds = 0.0  # of starts and steps
        self.certificate_seconds = 0.0
        self.last_step = 0.0
        self.last_certificate = math.nan
        self.last_keeping = math.nan  # what a point took
        self.is_cut = False  # a step was given up: its state is of no use

    @property
    def is_limited(self) -> bool:
        """Whether seconds are limited: elsewhere no decision reads the clock."""
        return self.max_seconds < math.inf

    def left(self) -> float:
        """Return how long starts and steps may still take, so that the last certificate is evaluated in time."""
        if not self.is_limited:
            return math.inf
        left = self.max_seconds - (time.perf_counter() - self.began)
        return left - (self.tuning.reserve * left if math.isnan(self.last_certificate) else self.last_certificate)

    @contextmanager
    def limited(self) -> Iterator[None]:
        """Give the solver the time that is left, and some grace, so that short steps end; note where it gave up."""
        grace = self.tuning.grace * self.max_seconds if self.is_limited else 0.0
        try:
            with deadline(self.left() + grace):
                yield
        except OutOfTime:
            self.is_cut = True

    def is_point_kept(self) -> bool:
        """Say whether the point before a step is worth its time: it costs little, or the step may be given up."""
        is_cheap = not self.last_keeping > self.tuning.cheap * self.last_step
        return is_cheap or self.last_step > self.tuning.risky * self.left()

    @contextmanager
    def step(self) -> Iterator[None]:
        """Time a start or a step."""
        started = time.perf_counter()
        yield
        self.last_step = time.perf_counter() - started
        self.seconds += self.last_step

    @contextmanager
    def certificate(self) -> Iterator[None]:
        """Time a certificate and its point, apart from the steps."""
        started = time.perf_counter()
        yield
        self.last_certificate = time.perf_counter() - started
        self.certificate_seconds += self.last_certificate

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Time the point that is kept before a step."""
        started = time.perf_counter()
        yield
        self.last_keeping = time.perf_counter() - started
