"""The only loop: what it may spend (``Stop``), and when it evaluates the certificate (``Schedule``).

The loop owns the clock, the budgets, the trace, interrupts and the watchers; solvers only ``start``, ``step`` and
return their point. The point that ``solve`` returns always has its own certificate.

A certificate costs about two passes over the data, so it is evaluated
  - after pass 1 where the solver has no estimate of its own, and after passes 2, 4, 8, ... as long as scheduled
    certificates cost less than a tenth of the passes made;
  - whenever the solver's own free estimate says that the tolerance may be met: at once the first time, and after a
    certificate that did not meet it when the estimate has clearly fallen further.

The schedule reads no clock: the same seed evaluates after the same passes, and a resumed run as the whole run does.

Where seconds are limited, starts and steps have a deadline (``core.deadline``) that leaves time for the last
certificate. A step that passes it ends early, or is given up: the run then returns the point before that step.
"""

import math
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from softmargin.core.certificate import Certificate
from softmargin.core.deadline import OutOfTime, deadline
from softmargin.core.errors import DataError, IncompatibleError, ModelFileError
from softmargin.core.parameters import NONE, Given, Number, Whole, checked
from softmargin.core.protocols import SOLVER_OBJECT, Progress, Watcher
from softmargin.run.restored import check_restored
from softmargin.run.result import Result, Status, Trace, TraceRow

__all__ = [
    "MAX_ITER",
    "MAX_SECONDS",
    "TOL",
    "WATCHERS",
    "BudgetTuning",
    "Schedule",
    "ScheduleTuning",
    "Stop",
    "check_needs",
    "kernel_matrices",
    "solve",
]

TOL = (Number(least=0.0, is_finite=False),)
MAX_ITER = (Whole(0),)
MAX_SECONDS = (Number(least=0.0, is_finite=False),)


def _are_watchers(value: Any) -> bool:
    has_all = isinstance(value, list | tuple)
    return has_all and all(hasattr(watcher, name) for watcher in value for name in ("begin", "watch", "end"))


def _is_seed(value: Any) -> bool:
    return isinstance(value, np.random.Generator | np.random.BitGenerator | np.random.SeedSequence)


def _are_seeds(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(part, int | np.integer) and part >= 0 for part in value)


def _is_point(value: Any) -> bool:
    """Say whether a value is a point: named fields, or a list of points of a one-vs-rest problem."""
    return hasattr(value, "_fields") or (isinstance(value, list) and len(value) > 0)


def _is_saved(value: Any) -> bool:
    return all(hasattr(value, name) for name in ("fingerprint", "state", "iteration", "seconds", "schedule"))


WATCHERS = (Given("a list of watchers (begin, watch, end)", _are_watchers),)
_ASKED = {
    "solver": (SOLVER_OBJECT,),
    "stop": (NONE, Given("a Stop", lambda value: isinstance(value, Stop))),
    "rng": (NONE, Whole(0, math.inf), Given("a Generator", _is_seed), Given("a list of integers", _are_seeds)),
    "init": (NONE, Given("a point, such as solve returns", _is_point)),
    "watchers": WATCHERS,
    "resume": (NONE, Given("a checkpoint (run.watchers.load_checkpoint)", _is_saved)),
}

# The protocols that problems of a class have: checking one takes as long as a pass over a small X.
_MET: WeakKeyDictionary[type, set[type]] = WeakKeyDictionary()


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
    """

    tol: float = 1e-3
    max_iter: int = 10_000
    max_seconds: float = math.inf

    def checked(self) -> "Stop":
        """Return itself with plain numbers, or name the setting that makes no sense."""
        kinds = (TOL, MAX_ITER, MAX_SECONDS)
        return Stop(*(checked(name, value, *own) for name, value, own in zip(self._fields, self, kinds, strict=True)))


class ScheduleTuning(NamedTuple):
    """When certificates are worth their cost."""

    share: float = 0.1  # of the passes made, for scheduled certificates; by hand
    passes: float = 2.0  # that one certificate costs: X W for the primal value and X' alpha for the bound
    fall: float = 0.7  # to which the estimate must fall after a certificate that did not meet tol; by hand
    stuck: float = 0.05  # of tol: an estimate below it that the certificate does not follow is rounding; by hand
    still: float = 0.9  # share of the last residual above which a certificate has not moved; by hand


class BudgetTuning(NamedTuple):
    """How a budget of seconds is divided, by hand."""

    reserve: float = 0.5  # share of the time left that is kept for a certificate, before one was timed
    risky: float = 0.1  # a step that takes this share of the time left may be the one that is given up
    grace: float = 0.25  # share of the budget by which a step may exceed it before it is given up
    cheap: float = 0.05  # share of a step up to which its point is always kept


@dataclass
class Schedule:
    """The certificates evaluated so far, and when to evaluate the next."""

    tol: float
    ask_below: float
    next_pass: int = 1
    n_scheduled: int = 0
    refused: float = math.inf  # residual of the last certificate that did not meet tol
    is_stuck: bool = False

    tuning: ClassVar[ScheduleTuning] = ScheduleTuning()

    def is_due(self, iteration: int, estimate: float) -> bool:
        """Say whether to evaluate the certificate after this pass."""
        if not estimate > self.ask_below:  # also when the estimate is NaN: the certificate will tell
            self.ask_below = self.tuning.fall * estimate
            return True
        if iteration < self.next_pass:
            return False
        while self.next_pass <= iteration:
            self.next_pass *= 2
        is_blind = iteration == 1 and math.isinf(estimate)
        if not is_blind and self.tuning.passes * (self.n_scheduled + 1) > self.tuning.share * iteration:
            return False
        self.n_scheduled += 1
        return True

    def note(self, residual: float) -> None:
        """Note a certificate: a run is stuck where it stays, while the solver sees next to no gap in its precision."""
        is_still = residual >= self.tuning.still * self.refused
        self.is_stuck = 0.0 < self.ask_below <= self.tuning.stuck * self.tol < residual and is_still
        self.refused = residual


def solve(
    problem: Any,
    solver: Any,
    *,
    stop: Stop | None = None,
    rng: int | np.random.Generator | None = None,
    init: Any = None,
    watchers: Sequence[Watcher] = (),
    resume: Any = None,
) -> Result:
    """Drive a solver until the problem's certificate meets the tolerance or a budget runs out.

    Parameters
    ----------
    problem : Problem
        Evaluates the certificate: ``problem.certificate(point)``.
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
    resume : SavedState, optional
        State of an earlier run (``run.watchers.load_checkpoint``) to continue; ``init`` and ``rng`` are then unused.

    Returns
    -------
    Result
        The point with its certificate, recomputed at that point.
    """
    asked = {"solver": solver, "stop": stop, "rng": rng, "init": init, "watchers": watchers, "resume": resume}
    for name, value in asked.items():
        checked(name, value, *_ASKED[name])
    stop = (Stop() if stop is None else stop).checked()
    check_needs(problem, solver)
    run = _Run(problem, solver, stop, watchers)
    result = None
    # What overflows shows in the certificate: the run ends as failed, with advice.
    with _interrupts() as interrupted, np.errstate(all="ignore"):
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


def check_needs(problem: Any, solver: Any, advice: str = "Use a solver made for this problem.") -> None:
    """Refuse a solver that needs another problem."""
    met = _MET.setdefault(type(problem), set())
    for needed in solver.needs:
        if needed in met:
            continue
        if not isinstance(problem, needed):
            raise IncompatibleError(
                f"{type(solver).__name__} needs a {needed.__name__}; {type(problem).__name__} is not one. {advice}"
            )
        met.add(needed)


def kernel_matrices(problem: Any) -> list[Any]:
    """Return the kernel matrices of a problem, or of its parts, each once: what they cache is a part of the state."""
    parts = getattr(problem, "parts", [problem])
    found = {id(part.gram): part.gram for part in parts if hasattr(part, "gram")}
    return list(found.values())


class _Run:
    """The bookkeeping of one run."""

    tuning: ClassVar[BudgetTuning] = BudgetTuning()

    def __init__(self, problem: Any, solver: Any, stop: Stop, watchers: Sequence[Watcher]) -> None:
        self.problem, self.solver, self.stop, self.watchers = problem, solver, stop, watchers
        self.state: Any = None
        self.point: Any = None
        self.certificate: Certificate | None = None
        self.trace = Trace()
        self.iteration = 0
        self.evaluated_at = -1
        self.began = time.perf_counter()
        self.seconds = 0.0
        self.certificate_seconds = 0.0
        self.last_step = 0.0  # seconds
        self.last_certificate = math.nan  # seconds
        self.last_keeping = math.nan  # seconds that a point took
        self.kept: Any = None  # the point before the step at hand, where that may be given up
        self.is_cut = False  # the step was given up: its state is of no use
        self.schedule = Schedule(stop.tol, stop.tol)
        kernels = kernel_matrices(problem)
        self.kernels = kernels if watchers else []
        self.is_narrow = any(gram.dtype == np.float32 for gram in kernels)  # certificates are float64 all the same
        self.is_torn = False  # a step was cut short: no run can go on from the state

    def begin(self, init: Any, rng: np.random.Generator, resume: Any) -> None:
        """Start the solver, or restore an earlier run's state."""
        started = time.perf_counter()
        if resume is None:
            self.kept = init
            with self.limited():
                self.state = self.solver.start(self.problem, init, rng)
        else:
            if resume.fingerprint != self.problem.fingerprint():
                raise IncompatibleError(
                    "the checkpoint was written for another problem; continue with the same data, C and intercept."
                )
            # Before the kernel rows come back: a start may want some too.
            check_restored(resume.state, self.solver.start(self.problem, None, np.random.default_rng(0)))
            grams = kernel_matrices(self.problem)
            if len(resume.memories) != len(grams):
                raise ModelFileError(
                    f"the checkpoint tells of {len(resume.memories)} kernel matrices, not {len(grams)}. Start afresh."
                )
            for gram, memory in zip(grams, resume.memories, strict=True):
                gram.recall(memory)
            self.state, self.iteration, self.seconds = resume.state, resume.iteration, resume.seconds
            if resume.schedule.tol == self.stop.tol:
                self.schedule = resume.schedule
        self.last_step = time.perf_counter() - started
        self.seconds += self.last_step
        # A warm start may already meet the tolerance, and a run that had ended ends again.
        if init is not None if resume is None else resume.is_judged:
            self.evaluate()

    def advance(self, interrupted: threading.Event) -> Status | None:
        """Make one step; return how the run ended, or None to continue."""
        if interrupted.is_set():
            return Status.INTERRUPTED
        verdict = self.verdict()
        if verdict is not None:
            return verdict
        if self.iteration >= self.stop.max_iter:
            return Status.MAX_ITER
        if self.is_cut or self.seconds_left() <= 0.0:
            return Status.MAX_SECONDS
        self.keep_point()
        started, estimate = time.perf_counter(), math.inf
        self.is_torn = True
        with self.limited():
            self.state = self.solver.step(self.problem, self.state)
            # The estimate is the solver's own work: it counts, unlike the certificate.
            estimate = float(self.solver.estimate(self.problem, self.state))
        self.last_step = time.perf_counter() - started
        self.seconds += self.last_step
        if self.is_cut:
            return Status.MAX_SECONDS
        self.iteration += 1
        self.is_torn = False
        moments = [gram.moment for gram in self.kernels]  # before the certificate, which may cache more
        if self.schedule.is_due(self.iteration, estimate):
            self.schedule.note(self.evaluate().residual)
        return self.shown(estimate, moments) if self.watchers else None

    def seconds_left(self) -> float:
        """Return how long starts and steps may still take, so that the last certificate is evaluated in time."""
        if self.stop.max_seconds == math.inf:
            return math.inf
        left = self.stop.max_seconds - (time.perf_counter() - self.began)
        return left - (self.tuning.reserve * left if math.isnan(self.last_certificate) else self.last_certificate)

    @contextmanager
    def limited(self) -> Iterator[None]:
        """Give the solver the time that is left, and some grace, so that short steps end; note where it gave up."""
        budget = self.stop.max_seconds
        grace = 0.0 if budget == math.inf else self.tuning.grace * budget
        try:
            with deadline(self.seconds_left() + grace), _in_range():
                yield
        except OutOfTime:
            self.is_cut = True

    def keep_point(self) -> None:
        """Keep the point before a step that may be given up, where it costs little or the step may be a long one."""
        if self.stop.max_seconds == math.inf or self.iteration == 0:
            return
        self.kept = None
        if self.evaluated_at == self.iteration:
            self.kept = self.point
            return
        is_cheap = not self.last_keeping > self.tuning.cheap * self.last_step
        if is_cheap or self.last_step > self.tuning.risky * self.seconds_left():
            started = time.perf_counter()
            self.kept = self.solver.point(self.problem, self.state)
            self.last_keeping = time.perf_counter() - started

    def shown(self, estimate: float, moments: list[Any]) -> Status | None:
        """Show the progress to the watchers; return STOPPED if one asks for it and the run has not converged."""
        progress = Progress(
            *(self.problem, self.solver, self.state, self.iteration),
            *(self.seconds, self.certificate, estimate, self.schedule),
            moments=moments,
            is_judged=self.evaluated_at == self.iteration,
        )
        asked = [watcher.watch(progress) for watcher in self.watchers]
        return Status.STOPPED if any(asked) and self.verdict() is not Status.CONVERGED else None

    def verdict(self) -> Status | None:
        """Return how the certificate of the current state ends the run; None without one, or if the run goes on."""
        if self.certificate is None or self.evaluated_at != self.iteration:
            return None
        if self.certificate.meets(self.stop.tol):
            return Status.CONVERGED
        # NaN: the objective is no number, or a bound is above it, which contradicts the allowance for rounding.
        if math.isnan(self.certificate.residual) or not math.isfinite(self.certificate.primal):
            return Status.FAILED
        is_limited = self.certificate.is_limited(self.stop.tol) or (self.is_narrow and self.schedule.is_stuck)
        return Status.ROUNDING if is_limited else None

    def evaluate(self) -> Certificate:
        """Evaluate the certificate at the solver's point, off the solver's clock."""
        started = time.perf_counter()
        if self.is_cut:
            known = self.point if self.kept is None else self.kept
            self.point = self.problem.zero() if known is None else known
        else:
            self.point = self.solver.point(self.problem, self.state)
        with _in_range():
            certificate: Certificate = self.problem.certificate(self.point)
        self.certificate, self.evaluated_at = certificate, self.iteration
        self.trace.append(TraceRow(self.iteration, self.seconds, certificate))
        self.last_certificate = time.perf_counter() - started
        self.certificate_seconds += self.last_certificate
        return certificate

    def finish(self, status: Status) -> Result:
        """Evaluate the certificate of the point returned, unless the last one was evaluated at this point."""
        if self.certificate is None or self.evaluated_at != self.iteration:
            self.evaluate()
        assert self.certificate is not None
        how = self.verdict() or status
        return Result(
            *(self.point, self.certificate, how, self.trace, self.iteration),
            *(self.seconds, self.certificate_seconds, self.is_torn),
        )


@contextmanager
def _in_range() -> Iterator[None]:
    """Turn errors of arithmetic and linear algebra into one that says what to do."""
    try:
        yield
    except (ArithmeticError, np.linalg.LinAlgError) as problem:
        raise DataError(
            f"the numbers of this fit leave the range of float64 ({problem}). Scale the features to values near 1, and "
            "lower C or the weights of samples and classes."
        ) from problem


@contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """Turn Ctrl-C into a flag that is read between steps, so that no step is cut short; a second one is immediate.

    So is SIGTERM where the program has made it raise KeyboardInterrupt, by a handler with ``may_wait = True``.
    """
    flag = threading.Event()
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

    for signum in handlers:
        signal.signal(signum, on_interrupt)
    try:
        yield flag
    finally:
        for signum, handler in handlers.items():
            signal.signal(signum, handler)


def _may_wait(handler: Any) -> bool:
    return handler is signal.default_int_handler or getattr(handler, "may_wait", False)
