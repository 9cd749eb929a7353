"""What the judge said along the way."""

from typing import Any, NamedTuple

from softmargin.core.certificate import Certificate

__all__ = ["Trace", "TraceRow"]


class TraceRow(NamedTuple):
    """One certificate: after how many steps, how many solver seconds, and what it proved."""

    iteration: int
    seconds: float
    certificate: Certificate


class Trace(list[TraceRow]):
    """The certificates of a run in order; ``columns()`` gives them as plain lists for plots and tables."""

    def columns(self) -> dict[str, list[Any]]:
        """Return iteration, seconds, primal, bound and residual as lists of equal length."""
        return {
            "iteration": [row.iteration for row in self],
            "seconds": [row.seconds for row in self],
            "primal": [row.certificate.primal for row in self],
            "bound": [row.certificate.bound for row in self],
            "residual": [row.certificate.residual for row in self],
        }
