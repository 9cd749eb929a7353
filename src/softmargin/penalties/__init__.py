"""Penalties: separable by features; value, prox, conjugate, and the distance to the subdifferential."""

from collections.abc import Callable
from typing import Any

from softmargin.penalties.elastic_net import L1, L2, Box, ElasticNet, Nonnegative
from softmargin.penalties.non_convex import L0, MCP, SCAD, Grouped, GroupL0, GroupMCP, GroupSCAD
from softmargin.penalties.parts import checked
from softmargin.penalties.pinned import Pinned
from softmargin.penalties.sparse_group import Group, SparseGroup

__all__ = [
    "L0",
    "L1",
    "L2",
    "MCP",
    "PENALTIES",
    "SCAD",
    "Box",
    "ElasticNet",
    "Group",
    "GroupL0",
    "GroupMCP",
    "GroupSCAD",
    "Grouped",
    "Nonnegative",
    "Pinned",
    "SparseGroup",
    "checked",
]

PENALTIES: dict[str, Callable[..., Any]] = {
    "l1": L1,
    "l2": L2,
    "elastic_net": ElasticNet,
    "group": Group,
    "sparse_group": SparseGroup,
    "nonnegative": Nonnegative,
    "box": Box,
    "mcp": MCP,
    "scad": SCAD,
    "l0": L0,
    "group_mcp": GroupMCP,
    "group_scad": GroupSCAD,
    "group_l0": GroupL0,
}
