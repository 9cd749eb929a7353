"""Convex sets: their nearest points and corners."""

from softmargin.sets.atoms import LowRank, SingleEntry
from softmargin.sets.balanced import BALANCERS, project_balanced
from softmargin.sets.balls import Box, L1Ball, Simplex
from softmargin.sets.hull import Hull
from softmargin.sets.shaped import Shaped
from softmargin.sets.trace_ball import TraceBall

__all__ = [
    "BALANCERS",
    "Box",
    "Hull",
    "L1Ball",
    "LowRank",
    "Shaped",
    "Simplex",
    "SingleEntry",
    "TraceBall",
    "project_balanced",
]
