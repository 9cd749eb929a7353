"""The one loop, its clock, budgets, trace and watchers."""

from softmargin.run.result import Result, Status
from softmargin.run.solve import solve
from softmargin.run.stop import Stop
from softmargin.run.trace import Trace, TraceRow

__all__ = ["Result", "Status", "Stop", "Trace", "TraceRow", "solve"]
