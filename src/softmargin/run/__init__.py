"""The one loop, its clock, budgets, trace and watchers."""

from softmargin.run.budget import Stop
from softmargin.run.result import Result, Status, Trace, TraceRow
from softmargin.run.solve import solve

__all__ = ["Result", "Status", "Stop", "Trace", "TraceRow", "solve"]
