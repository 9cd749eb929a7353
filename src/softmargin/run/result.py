"""How a run ended, and the certificates along the way."""

import enum
from typing import Any, NamedTuple

from softmargin.core.certificate import Certificate

__all__ = ["Result", "Status", "Trace", "TraceRow", "name_at_work"]


class Status(enum.Enum):
    """How a run ended; the value is the name users see, ``sentence`` what it means for them."""

    CONVERGED = "converged"
    DECAYED = "decayed"
    ROUNDING = "limited by rounding"
    STALLED = "stalled"
    MAX_ITER = "max_iter"
    MAX_SECONDS = "max_seconds"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"
    FAILED = "failed"

    @property
    def sentence(self) -> str:
        """Say in one sentence what happened and what to do."""
        return _SENTENCES[self]


_SENTENCES = {
    Status.CONVERGED: "The certificate met the tolerance.",
    Status.DECAYED: "The gap fell to the share of the first one that was asked for: the certificate tells where it is.",
    Status.MAX_ITER: "The pass budget ran out first: raise max_iter or tol, or scale the features.",
    Status.MAX_SECONDS: "The time budget ran out first: raise max_seconds or tol, or scale the features.",
    Status.STOPPED: "A watcher or the solver's own rule asked to stop: the certificate tells how far the fit had come.",
    Status.INTERRUPTED: "Interrupted by the user: the point reached so far is returned with its certificate.",
    Status.ROUNDING: (
        "Rounding errors alone exceed tol, whatever the solver does: use float64, centre and scale the features, "
        "or ask for a looser tol."
    ),
    Status.STALLED: (
        "No pass changes a digit of the certificate: the solver stands still, or the optimum is at infinity, as where "
        "one class has all the sample weight. Use another solver or a looser tol."
    ),
    Status.FAILED: "The objective or its bound is not a finite number: check the data for huge values, or lower C.",
}


class TraceRow(NamedTuple):
    """One certificate: after how many steps, how many solver seconds, what it proved, and of whose point."""

    iteration: int
    seconds: float
    certificate: Certificate
    solver: str = ""  # the class of the solver at work


class Trace(list[TraceRow]):
    """The certificates of a run in order; ``columns()`` gives them as plain lists for plots and tables."""

    def columns(self) -> dict[str, list[Any]]:
        """Return iteration, seconds, solver, primal, bound and residual as lists of equal length."""
        when = {name: [getattr(row, name) for row in self] for name in ("iteration", "seconds", "solver")}
        proven = ("primal", "bound", "residual")
        return {**when, **{name: [getattr(row.certificate, name) for row in self] for name in proven}}

    def plot(self, ax: Any = None, *, by: str = "seconds", tol: float | None = None, **line: Any) -> Any:
        """Plot the gap against "seconds" or "iteration" (``by``); returns a GapDisplay, needs matplotlib."""
        from softmargin.plots import GapDisplay

        return GapDisplay.from_trace(self, tol=tol).plot(ax, by=by, **line)


class Result(NamedTuple):
    """A point, its certificate, and how the run went."""

    point: Any
    certificate: Certificate
    status: Status
    trace: Trace
    n_iter: int
    seconds: float  # on the solver's clock: certificates and watchers are not counted
    certificate_seconds: float  # spent on certificates
    is_torn: bool = False  # a step was cut short: the point is good, but no run can go on from the solver's state


def name_at_work(solver: Any, state: Any) -> str:
    """Name the solver that does the work: not the one that runs it on every class, or that hands over to it."""
    if hasattr(solver, "at_work"):
        solver = solver.at_work(state)
    while hasattr(solver, "solver"):
        solver = solver.solver
    return type(solver).__name__
