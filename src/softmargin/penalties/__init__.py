"""Penalties: separable by features; value, prox, conjugate, and the distance to the subdifferential."""

import math
import numbers
from collections.abc import Callable
from typing import Any

from softmargin.core.errors import DataError
from softmargin.core.protocols import Penalty
from softmargin.penalties.box import Box, Nonnegative
from softmargin.penalties.elastic_net import L1, L2, ElasticNet
from softmargin.penalties.grouped import Grouped, GroupL0, GroupMCP, GroupSCAD
from softmargin.penalties.non_convex import L0, MCP, SCAD
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

MEMBERS = [name for name in vars(Penalty) if not name.startswith("_")]


def checked(penalty: Any) -> Any:
    """Return a penalty with all its numbers as floats, so that compiled loops see one type; refuse what is none."""
    missing = [name for name in MEMBERS if not hasattr(type(penalty), name)]
    if missing:
        raise DataError(
            f"penalty={penalty!r} was asked for: it has no {', no '.join(missing)}. Give one of softmargin.penalties "
            "with its numbers, such as L1(0.5), or see docs/add_a_penalty.md."
        )
    if not hasattr(type(penalty), "_fields"):
        raise DataError(
            f"penalty={penalty!r} was asked for: {type(penalty).__name__} is no NamedTuple, so that it cannot be "
            "compiled; see docs/add_a_penalty.md."
        )
    penalty = _with_floats(penalty)
    if hasattr(penalty, "check"):
        penalty.check()
    return penalty


def _with_floats(struct: Any) -> Any:
    values = []
    for name, value in zip(struct._fields, struct, strict=True):
        if hasattr(type(value), "_fields"):
            values.append(_with_floats(value))
        elif isinstance(value, numbers.Real) and not math.isnan(value):
            values.append(float(value))
        else:
            raise DataError(f"penalty={struct!r} was asked for: {name} is {value!r}; give a number.")
    return struct._make(values)
