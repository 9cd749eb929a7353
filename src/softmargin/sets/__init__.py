"""Sets: the nearest point of a convex set, and its corners."""

from softmargin.sets.atoms import Entry, LowRank
from softmargin.sets.balanced import BALANCERS, project_balanced
from softmargin.sets.balls import Box, L1Ball, Simplex
from softmargin.sets.trace_ball import TraceBall

__all__ = ["BALANCERS", "Box", "Entry", "L1Ball", "LowRank", "Simplex", "TraceBall", "project_balanced"]
