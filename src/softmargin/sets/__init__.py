"""Sets: the nearest point of a convex set."""

from softmargin.sets.balanced import BALANCERS, project_balanced

__all__ = ["BALANCERS", "project_balanced"]
