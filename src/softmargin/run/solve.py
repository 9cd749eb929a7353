"""The only loop.

It owns the clock and the budgets (``run.budget``), the schedule of certificates (``run.schedule``), the trace,
interrupts and the watchers; solvers only ``start``, ``step`` and return their point. The point that ``solve`` returns
always has its own certificate.
"""

import functools
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from softmargin.core.aim import aiming_at
from softmargin.core.certificate import Certificate
from softmargin.core.deadline import is_time_up
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.core.parameters import check_all
from softmargin.core.protocols import Progress, Watcher
from softmargin.run.asked import ASKED, check_first, check_needs
from softmargin.run.best import Best, unpacked_point
from softmargin.run.budget import Clock, Stop
from softmargin.run.interrupts import interrupts
from softmargin.run.restored import kernel_matrices, recall
from softmargin.run.result import Result, Status, Trace, TraceRow, name_at_work
from softmargin.run.schedule import Schedule

__all__ = ["solve"]

P = ParamSpec("P")
T = TypeVar("T")


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

    Examples
    --------
    >>> import numpy as np
    >>> from softmargin import DualBlockDescent, MulticlassSVM, Stop, solve
    >>> rows, codes = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1])
    >>> result = solve(MulticlassSVM(rows, codes), DualBlockDescent(), stop=Stop(tol=1e-4), rng=0)
    >>> result.status.value
    'converged'
    """
    asked = {"solver": solver, "stop": stop, "rng": rng, "init": init, "watchers": watchers, "resume": resume}
    check_all(asked, ASKED)
    stop = (Stop() if stop is None else stop).checked()
    check_needs(problem, solver)
    if init is not None:
        check_first(problem, init)
    run = _Run(problem, solver, stop, watchers)
    result = None
    # What overflows shows in the certificate: the run ends as failed, with advice.
    with interrupts() as interrupted, np.errstate(all="ignore"), aiming_at(stop.tol):
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
            run.clock.close()
            for watcher in watchers:
                watcher.end(result)
    return result


def _in_range(work: Callable[P, T]) -> Callable[P, T]:
    """Turn errors of arithmetic and linear algebra into one that says what to do."""

    @functools.wraps(work)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return work(*args, **kwargs)
        except (ArithmeticError, np.linalg.LinAlgError) as problem:
            raise DataError(
                f"the numbers of this fit leave the range of float64 ({problem}). Scale the features to values near 1, "
                "and lower C or the weights of samples and classes."
            ) from problem

    return call


class _Run:
    """The bookkeeping of one run."""

    def __init__(self, problem: Any, solver: Any, stop: Stop, watchers: Sequence[Watcher]) -> None:
        self.problem, self.solver, self.stop, self.watchers = problem, solver, stop, watchers
        # What only some solvers have, found once: small fits make thousands of steps a second.
        names = ("told", "wants_certificate", "is_over", "has_finisher")
        self.told, self.wants_certificate, self.own_end, self.waiting = (getattr(solver, name, None) for name in names)
        self.state: Any = None
        self.point: Any = None
        self.certificate: Certificate | None = None
        self.best: Best | None = None
        self.trace = Trace()
        self.iteration = 0
        self.evaluated_at = -1
        self.clock = Clock(stop.max_seconds, problem)
        self.kept: Any = None  # the point before the step at hand, where that may be given up
        self.is_torn = False  # a step was cut short: no run can go on from the state
        self.schedule = Schedule(stop.tol, stop.tol, decay=stop.decay)
        self.watched: list[Any] = []

    def begin(self, init: Any, rng: np.random.Generator, resume: Any) -> None:
        """Start the solver, or restore an earlier run's state."""
        if resume is None:
            self.kept = init
            if init is not None:
                self.clock.expect(init)
            self.clock.step(lambda: self.start(init, rng))
        else:
            self.clock.step(lambda: self.restore(resume), is_limited=False)
        self.watched = kernel_matrices(self.problem) if self.watchers else []  # those that the start has looked at
        # A warm start may already meet the tolerance, and a run that had ended ends again.
        if init is not None if resume is None else resume.is_judged:
            self.evaluate()

    @_in_range
    def start(self, init: Any, rng: np.random.Generator) -> None:
        """Let the solver start."""
        self.state = self.solver.start(self.problem, init, rng)

    @_in_range
    def restore(self, saved: Any) -> None:
        """Take the state of an earlier run."""
        recall(self.problem, self.solver, saved)
        self.state, self.iteration, self.clock.seconds = saved.state, saved.iteration, saved.seconds
        self.take_schedule(saved.schedule)
        if saved.best is not None:
            arrays, certificate = saved.best
            self.best = Best(unpacked_point(self.problem, arrays), certificate, is_recalled=True)

    @_in_range
    def move(self) -> float:
        """Let the solver make a step; return its estimate, which is its own work: it counts, unlike the certificate.

        A solver that looks at certificates (``told``) sees that of its state first, and may hand over to another.
        """
        told, is_judged = self.told, self.evaluated_at == self.iteration
        if told is not None and is_judged and told(self.problem, self.state, self.certificate, self.stop.tol):
            self.schedule.restart()
        self.state = self.solver.step(self.problem, self.state)
        return float(self.solver.estimate(self.problem, self.state))

    @_in_range
    def certify(self) -> Certificate:
        """Evaluate the certificate of the point."""
        with self.clock.judging():
            certificate: Certificate = self.problem.certificate(self.point)
            if is_time_up():  # it may have left out the bound, but none that was proven is lost
                proven = max((row.certificate.bound for row in self.trace), default=-math.inf)
                certificate = certificate.with_bound(proven)._replace(kind=certificate.kind)
        return certificate

    def take_schedule(self, earlier: Schedule) -> None:
        """Go on with the schedule of an earlier run where the same was asked for."""
        if (earlier.tol, earlier.decay) == (self.stop.tol, self.stop.decay):
            self.schedule = earlier
            return
        if self.stop.decay > 0.0 and self.iteration > 0 and math.isinf(earlier.first_gap):
            raise IncompatibleError(
                f"decay={self.stop.decay} was asked for, but the checkpoint does not hold the gap of its first pass. "
                "Start afresh, or leave decay out."
            )
        self.schedule.first_gap = earlier.first_gap

    def advance(self, interrupted: threading.Event) -> Status | None:
        """Make one step; return how the run ended, or None to continue."""
        if interrupted.is_set():
            return Status.INTERRUPTED
        verdict = self.verdict()
        if verdict is not None:
            return verdict
        if self.iteration >= self.stop.max_iter:
            return Status.MAX_ITER
        if self.clock.is_cut or self.clock.left() <= 0.0:
            return Status.MAX_SECONDS
        self.keep_point()
        self.is_torn = True
        estimate = self.clock.step(self.move)
        if estimate is None or self.is_outgrown():
            return Status.MAX_SECONDS
        self.iteration += 1
        self.is_torn = False
        moments = [gram.moment for gram in self.watched]  # before the certificate, which may cache more
        if self.schedule.is_due(self.iteration, estimate) or self.is_asked_for():
            self.schedule.note(self.evaluate(), self.iteration)
        asked = self.shown(estimate, moments) if self.watchers else None
        return asked or (Status.STOPPED if self.has_own_end() else None)

    def is_asked_for(self) -> bool:
        """Say whether the solver asks for the certificate of its state, where it looks at some, or the clock does."""
        is_wanted = self.wants_certificate is not None and bool(self.wants_certificate(self.state))
        return is_wanted or self.clock.is_blind()

    def has_own_end(self) -> bool:
        """Say whether a rule of the solver's own ends the run, where it has one."""
        return self.own_end is not None and bool(self.own_end(self.problem, self.state))

    def keep_point(self) -> None:
        """Keep the point before a step that may be given up."""
        if not self.clock.is_limited or self.iteration == 0:
            return
        if self.evaluated_at == self.iteration:
            self.kept = self.point
        elif self.clock.is_point_kept():
            with self.clock.keeping():
                self.kept = self.solver.point(self.problem, self.state)
        else:
            self.kept = None

    def is_outgrown(self) -> bool:
        """Give a step up after which the certificate would take too long."""
        if self.clock.is_growing:
            self.clock.is_cut = self.clock.is_outgrown(self.solver.point(self.problem, self.state))
        return self.clock.is_cut

    def shown(self, estimate: float, moments: list[Any]) -> Status | None:
        """Show the progress to the watchers; return STOPPED if one asks for it and the run has not converged."""
        progress = Progress(
            *(self.problem, self.solver, self.state, self.iteration),
            *(self.clock.seconds, self.certificate, estimate, self.schedule),
            moments=moments,
            is_judged=self.evaluated_at == self.iteration,
            at_work=self.at_work(),
            best=self.best_before(),
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
        if self.schedule.has_decayed(self.certificate):
            return Status.DECAYED
        is_limited = self.certificate.is_limited(self.stop.tol) or (self.schedule.is_stuck and self.is_narrow())
        if is_limited:
            return Status.ROUNDING
        return Status.STALLED if self.schedule.is_idle and not self.has_finisher() else None

    def has_finisher(self) -> bool:
        """Say whether another solver waits for the one at work to stall."""
        return self.waiting is not None and bool(self.waiting(self.state))

    def is_narrow(self) -> bool:
        """Say whether the solver sees kernel values in float32; certificates are float64 all the same."""
        return any(gram.dtype == np.float32 for gram in kernel_matrices(self.problem))

    def evaluate(self) -> Certificate:
        """Evaluate the certificate at the solver's point, off the solver's clock."""
        started = self.clock.now()
        if self.clock.is_cut:
            known = self.point if self.kept is None else self.kept
            self.point = self.problem.zero() if known is None else known
        else:
            self.point = self.solver.point(self.problem, self.state)
        self.clock.expect(self.point)
        certificate = self.certify()
        self.clock.note_certificate(started)
        self.certificate, self.evaluated_at = certificate, self.iteration
        if self.best is None or not self.best.beats(certificate):
            self.best = Best(self.point, certificate)
        self.trace.append(TraceRow(self.iteration, self.clock.seconds, certificate, self.at_work()))
        return certificate

    def best_before(self) -> tuple[Any, Certificate] | None:
        """Return the best point and its certificate; None where it is that of this step, or there is none."""
        is_mine = self.evaluated_at == self.iteration and self.best is not None and self.best.point is self.point
        return None if self.best is None or is_mine else self.best[:2]

    def best_or(self, last: Best) -> Best:
        """Return the best point that was judged, or the last one where none is better."""
        best = self.best
        if best is not None and best.is_recalled and best.beats(last.certificate):
            best = best.seen(self.problem.certificate(best.point))
        return best if best is not None and best.beats(last.certificate) else last

    def at_work(self) -> str:
        """Name the solver at work."""
        return name_at_work(self.solver, self.state)

    def finish(self, status: Status) -> Result:
        """Evaluate the certificate of the last point, unless that was done; return it, or a better one before it."""
        if self.certificate is None or self.evaluated_at != self.iteration:
            self.evaluate()
        assert self.certificate is not None
        how = self.verdict() or status
        is_end = how in (Status.CONVERGED, Status.DECAYED, Status.FAILED)
        last = Best(self.point, self.certificate)
        point, certificate = (last if is_end else self.best_or(last))[:2]
        return Result(
            *(point, certificate, how, self.trace, self.iteration),
            *(self.clock.seconds, self.clock.certificate_seconds, self.is_torn),
        )
