"""What penalties share: their check, row norms, the matrix prox of a ``prox_row``, and all of the non-convex ones.

A non-convex penalty of single entries is its ``value`` and two functions of one number: ``shrink(v, t)``, its prox, and
``slope(size)``, its derivative; ``sublinear`` and ``entry_by_entry`` add the rest (``docs/add_a_penalty.md``).
"""

import math
from typing import Any, TypeVar

import numpy as np

from softmargin.backends.jit import jit
from softmargin.backends.lanes import pointer
from softmargin.core.errors import DataError
from softmargin.core.parameters import Number, shown
from softmargin.core.parameters import checked as checked_value
from softmargin.core.pieces import Array, Penalty

__all__ = [
    "TINY",
    "checked",
    "convex",
    "demand",
    "demand_strengths",
    "elastic_value",
    "entry_by_entry",
    "largest_scale",
    "off_subdifferential",
    "prox_by_rows",
    "row_norms",
    "soft",
    "sublinear",
    "sums_over_entries",
]

T = TypeVar("T")

TINY = float(np.finfo(np.float64).tiny)
_OPTIONAL = "is_entrywise"
_REQUIRED = [name for name in (*Penalty.__annotations__, *vars(Penalty)) if name[0] != "_" and name != _OPTIONAL]


def checked(penalty: Any) -> Any:
    """Return a valid penalty with all its numbers as floats, so that compiled loops see one type; refuse any other."""
    kind = type(penalty)
    missing = [name for name in _REQUIRED if not hasattr(kind, name)]
    if missing:
        raise DataError(
            f"penalty={shown(penalty)} was asked for: it has no {', no '.join(missing)}. Give one of "
            "softmargin.penalties with its numbers, such as L1(0.5), or see docs/add_a_penalty.md."
        )
    if not hasattr(kind, "_fields"):
        raise DataError(
            f"penalty={shown(penalty)} was asked for: {kind.__name__} is no NamedTuple, so that it cannot be "
            "compiled; see docs/add_a_penalty.md."
        )
    if not hasattr(kind, _OPTIONAL):
        setattr(kind, _OPTIONAL, property(sums_over_entries))
    penalty = _with_floats(penalty)
    if hasattr(penalty, "check"):
        penalty.check()
    return penalty


def _with_floats(struct: Any) -> Any:
    values = []
    for name, value in zip(struct._fields, struct, strict=True):
        if hasattr(type(value), "_fields"):
            values.append(_with_floats(value))
        elif type(value) is float and not math.isnan(value):
            values.append(value)
        else:
            values.append(checked_value(f"{name} of penalty={shown(struct)}", value, Number(is_finite=False)))
    return struct._make(values)


def demand(is_true: bool, penalty: Any, advice: str) -> None:
    """Refuse a penalty with invalid numbers."""
    if not is_true:
        raise DataError(f"penalty={shown(penalty)} was asked for: {advice}.")


def demand_strengths(penalty: Any, *names: str) -> None:
    """Refuse a strength that is negative, infinite or NaN."""
    for name in names:
        demand(0.0 <= getattr(penalty, name) < math.inf, penalty, f"{name} must be finite and not negative")


def sums_over_entries(penalty: Any) -> bool:
    """Return whether the penalty of a row is the sum over its entries, on a few rows."""
    for size in (1e-3, 0.3, 2.0, 1e3):
        for pair in (np.array([[1.0, 0.7]]), np.array([[1.0, -0.4]])):
            together = penalty.value(size * pair)
            apart = penalty.value(size * pair[:, :1]) + penalty.value(size * pair[:, 1:])
            if not (together == apart or abs(together - apart) <= 1e-9 * abs(apart)):
                return False
    return True


def soft(V: Array, threshold: Any) -> Array:
    """Return V shrunk towards zero by ``threshold``: the prox of the absolute value."""
    return np.asarray(np.sign(V) * np.maximum(np.abs(V) - threshold, 0.0))


def row_norms(V: Array) -> Array:
    """Return the l2 norm of every row; shape (d, 1)."""
    return np.asarray(np.sqrt(np.einsum("jc,jc->j", V, V))[:, None])


def elastic_value(W: Array, l1: float, l2: float) -> float:
    """Return l1 |W|_1 + l2 / 2 |W|^2."""
    value = l1 * float(np.abs(W).sum()) if l1 > 0.0 else 0.0
    return value + 0.5 * l2 * float(np.vdot(W, W)) if l2 > 0.0 else value


def off_subdifferential(V: Array, W: Array, slope: Any) -> Array:
    """Return, entry by entry, V less its nearest subgradient at W of a penalty with that slope at |W|."""
    return np.where(W == 0.0, soft(V, slope), V - np.copysign(slope, W))


def largest_scale(largest: float, limit: float) -> float:
    """Return the largest s in [0, 1] with s * largest <= limit, also after rounding."""
    s = 1.0 if largest <= limit else limit / largest
    while s * largest > limit:
        s = math.nextafter(s, 0.0)
    return s


@jit
def _prox_rows(penalty: Any, rows: Any, k: int, t: Any) -> None:
    for j in range(t.shape[0]):
        penalty.prox_row(pointer(rows), j * k, k, t[j])


def prox_by_rows(self: Any, V: Array, t: Any) -> Array:
    """Return the minimiser of g(W) + |W - V|^2 / (2 t), by the compiled ``prox_row``."""
    W = np.array(V, dtype=np.float64, order="C")
    steps = np.array(np.broadcast_to(t, (len(W), 1)), dtype=np.float64).ravel()
    _prox_rows(self, W.reshape(-1), W.shape[1], steps)
    return W


def entry_by_entry(self: Any, row: Any, first: int, k: int, t: float) -> None:
    """Replace a row by its prox: every entry by its own."""
    for c in range(first, first + k):
        row[c] = self.shrink(row[c], t)


def sublinear(cls: type[T]) -> type[T]:
    """Complete a non-convex penalty that grows more slowly than any line: g*(V) is infinite unless V = 0.

    It penalises entries one by one unless the class has a ``distance`` of its own.
    """

    def conjugate(self: Any, V: Array) -> float:
        """Return g*(V)."""
        return math.inf if np.any(V) else 0.0

    def reach(self: Any, V: Array) -> float:
        """Return the largest s in [0, 1] with g*(s V) finite."""
        return 0.0 if np.any(V) else 1.0

    def distance(self: Any, W: Array, V: Array) -> Array:
        """Return the distance of each row of V to the (Frechet) subdifferential at W; shape (d,)."""
        return np.asarray(np.linalg.norm(off_subdifferential(V, W, self.slope(np.abs(W))), axis=1))

    found = {"is_convex": False, "has_bound": False, "conjugate": conjugate, "reach": reach, "prox": prox_by_rows}
    return _completed(cls, {**found, "is_entrywise": not hasattr(cls, "distance"), "distance": distance})


def convex(cls: type[T]) -> type[T]:
    """Complete a convex penalty: by default all its fields are strengths, and it penalises entries one by one."""

    def has_bound(self: Any) -> bool:
        """Whether any strength is positive."""
        return bool(max(self) > 0.0)

    def check(self: Any) -> None:
        """Refuse invalid numbers."""
        demand_strengths(self, *self._fields)

    found = {"is_convex": True, "is_entrywise": True, "has_bound": property(has_bound), "check": check}
    return _completed(cls, found)


def _completed(cls: type[T], members: dict[str, Any]) -> type[T]:
    """Give a class the members that it lacks."""
    for name, member in members.items():
        if not hasattr(cls, name):
            setattr(cls, name, member)
    return cls
