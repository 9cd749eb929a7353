"""The only loop.

It owns the clock, the budgets, the schedule of certificates, the trace, interrupts and the watchers; solvers only
``start``, ``step`` and say where they stand. What is returned has always been judged at the point returned.
"""

import math
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from softmargin.core.certificate import Certificate
from softmargin.core.errors import IncompatibleError
from softmargin.run.result import Result, Status
from softmargin.run.schedule import Schedule
from softmargin.run.stop import Stop
from softmargin.run.trace import Trace, TraceRow

__all__ = ["solve", "speaks"]

_SPOKEN: WeakKeyDictionary[type, dict[type, bool]] = WeakKeyDictionary()


def solve(
    problem: Any,
    solver: Any,
    *,
    stop: Stop | None = None,
    rng: int | np.random.Generator | None = None,
    init: Any = None,
    watchers: Sequence[Any] = (),
    resume: Any = None,
) -> Result:
    """Drive a solver until the problem's certificate meets the tolerance or a budget runs out.

    Parameters
    ----------
    problem : Problem
        The judge: ``problem.certificate(point)``.
    solver : Solver
        Settings with ``start / step / point / estimate``.
    stop : Stop, optional
        Tolerance and budgets.
    rng : int or Generator, optional
        Source of randomness, passed to ``solver.start``.
    init : point, optional
        Where to start.
    watchers : sequence of Watcher
        Progress bars, early stops, checkpoints.
    resume : Checkpoint, optional
        State of an earlier run to go on from (``run.watchers.load_checkpoint``); ``init`` and ``rng`` are then unused.

    Returns
    -------
    Result
        The point with its certificate, recomputed at that point.
    """
    stop = (stop or Stop()).checked()
    for needed in solver.needs:
        if not speaks(problem, needed):
            raise IncompatibleError(
                f"{type(solver).__name__} needs a {needed.__name__}; {type(problem).__name__} is not one. "
                "Use a solver made for this problem."
            )
    run = _Run(problem, solver, stop, watchers)
    result = None
    with _interrupts() as interrupted:
        for watcher in watchers:
            watcher.begin(problem, solver, stop)
        try:
            try:
                run.begin(init, np.random.default_rng(rng), resume)
                status = None
                while status is None:
                    status = run.advance(interrupted)
            except KeyboardInterrupt:
                if run.state is None:
                    raise
                status = Status.INTERRUPTED
            result = run.finish(status)
        finally:
            for watcher in watchers:
                watcher.end(result)
    return result


def speaks(problem: Any, protocol: type) -> bool:
    """Say whether a problem speaks a protocol."""
    # Kept by class: asking takes as long as a pass over a small X.
    known = _SPOKEN.setdefault(type(problem), {})
    if protocol not in known:
        known[protocol] = isinstance(problem, protocol)
    return known[protocol]


class _Run:
    """The bookkeeping of one run."""

    def __init__(self, problem: Any, solver: Any, stop: Stop, watchers: Sequence[Any]) -> None:
        self.problem, self.solver, self.stop, self.watchers = problem, solver, stop, watchers
        self.state: Any = None
        self.point: Any = None
        self.certificate: Certificate | None = None
        self.trace = Trace()
        self.iteration = 0
        self.judged_at = -1
        self.began = time.perf_counter()
        self.seconds = 0.0
        self.judge_seconds = 0.0
        self.schedule = Schedule(stop.tol, stop.tol)

    def begin(self, init: Any, rng: np.random.Generator, resume: Any) -> None:
        """Start the solver, or put an earlier run's state back."""
        started = time.perf_counter()
        if resume is None:
            self.state = self.solver.start(self.problem, init, rng)
        else:
            if resume.fingerprint != self.problem.fingerprint():
                raise IncompatibleError(
                    "the checkpoint was written for another problem; go on with the same data, C and intercept."
                )
            self.state, self.iteration, self.seconds = resume.state, resume.iteration, resume.seconds
            if resume.schedule.tol == self.stop.tol:
                self.schedule = resume.schedule
        self.seconds += time.perf_counter() - started
        if init is not None:
            self.judge()  # a warm start may already be good enough

    def advance(self, interrupted: threading.Event) -> Status | None:
        """Make one step; return how the run ended, or None to go on."""
        if interrupted.is_set():
            return Status.INTERRUPTED
        if self.certificate is not None and self.judged_at == self.iteration:
            if self.certificate.meets(self.stop.tol):
                return Status.CONVERGED
            if not math.isfinite(self.certificate.primal):
                return Status.FAILED
        if self.iteration >= self.stop.max_iter:
            return Status.MAX_ITER
        if time.perf_counter() - self.began >= self.stop.max_seconds:
            return Status.MAX_SECONDS
        started = time.perf_counter()
        self.state = self.solver.step(self.problem, self.state)
        # The estimate is the solver's own work: it counts, unlike the certificate.
        estimate = float(self.solver.estimate(self.problem, self.state))
        self.seconds += time.perf_counter() - started
        self.iteration += 1
        if self.schedule.is_due(self.iteration, estimate):
            self.judge()
        return self.shown(estimate) if self.watchers else None

    def shown(self, estimate: float) -> Status | None:
        """Show the watchers where the run stands; return that it was stopped, if one asks and it is not done."""
        progress = SimpleNamespace(
            problem=self.problem,
            solver=self.solver,
            state=self.state,
            iteration=self.iteration,
            seconds=self.seconds,
            certificate=self.certificate,
            estimate=estimate,
            schedule=self.schedule,
        )
        asked = [watcher.watch(progress) for watcher in self.watchers]
        converged = self.judged_at == self.iteration and self.certificate and self.certificate.meets(self.stop.tol)
        return Status.STOPPED if any(asked) and not converged else None

    def judge(self) -> None:
        """Ask the problem for a certificate at the solver's point, off the solver's clock."""
        started = time.perf_counter()
        self.point = self.solver.point(self.problem, self.state)
        self.certificate = self.problem.certificate(self.point)
        self.judged_at = self.iteration
        self.trace.append(TraceRow(self.iteration, self.seconds, self.certificate))
        self.judge_seconds += time.perf_counter() - started

    def finish(self, status: Status) -> Result:
        """Judge what is returned, unless the last certificate was given at this very point."""
        if self.certificate is None or self.judged_at != self.iteration:
            self.judge()
        assert self.certificate is not None
        if self.certificate.meets(self.stop.tol):
            status = Status.CONVERGED
        elif not math.isfinite(self.certificate.primal):
            status = Status.FAILED
        return Result(
            self.point, self.certificate, status, self.trace, self.iteration, self.seconds, self.judge_seconds
        )


@contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """Turn Ctrl-C into a flag that is looked at between steps, so that no step is torn; a second one is immediate."""
    flag = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield flag  # only the main thread receives signals
        return
    previous = signal.getsignal(signal.SIGINT)
    if previous is not signal.default_int_handler:
        yield flag  # somebody else already decides what Ctrl-C means
        return

    def on_interrupt(signum: int, frame: Any) -> None:
        if flag.is_set():
            raise KeyboardInterrupt
        flag.set()

    signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield flag
    finally:
        signal.signal(signal.SIGINT, previous)
