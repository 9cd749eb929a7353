"""What penalties share: row norms, the matrix prox of a ``prox_row``, checks of numbers, and all that is not convex.

Add a penalty that is not convex by its ``value`` and two functions of one number: ``shrink(v, t)``, its prox, and
``slope(size)``, its derivative; ``sublinear`` and ``entry_by_entry`` give the rest (``docs/add_a_penalty.md``).
"""

import math
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import jit
from softmargin.backends.lanes import pointer
from softmargin.core.errors import DataError

__all__ = [
    "demand",
    "demand_strengths",
    "entry_by_entry",
    "largest_scale",
    "prox_by_rows",
    "row_norms",
    "soft",
    "sublinear",
]

Array = NDArray[Any]
T = TypeVar("T")


def soft(V: Array, threshold: Any) -> Array:
    """Return V drawn towards zero by ``threshold``: the prox of the absolute value."""
    return np.sign(V) * np.maximum(np.abs(V) - threshold, 0.0)


def row_norms(V: Array) -> Array:
    """Return the l2 norm of every row; shape (d, 1)."""
    return np.sqrt(np.einsum("jc,jc->j", V, V))[:, None]


def largest_scale(largest: float, limit: float) -> float:
    """Return the largest s in [0, 1] with s * largest <= limit, also after rounding."""
    s = 1.0 if largest <= limit else limit / largest
    while s * largest > limit:
        s = math.nextafter(s, 0.0)
    return s


def demand(is_true: bool, penalty: Any, advice: str) -> None:
    """Refuse a penalty whose numbers make no sense."""
    if not is_true:
        raise DataError(f"penalty={penalty!r} was asked for: {advice}.")


def demand_strengths(penalty: Any, *names: str) -> None:
    """Refuse a strength that is negative, infinite or NaN."""
    for name in names:
        demand(0.0 <= getattr(penalty, name) < math.inf, penalty, f"{name} must be finite and not negative")


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
    """Complete a penalty that is not convex, as it grows slower than any line: <V, W> outgrows it unless V = 0.

    Entries are penalised one by one unless the class has a ``distance`` of its own.
    """

    def conjugate(self: Any, V: Array) -> float:
        """Return g*(V)."""
        return math.inf if np.any(V) else 0.0

    def reach(self: Any, V: Array) -> float:
        """Return the largest s in [0, 1] with g*(s V) finite."""
        return 0.0 if np.any(V) else 1.0

    def distance(self: Any, W: Array, V: Array) -> Array:
        """Return the distance of each row of V to the (Frechet) subdifferential at W; shape (d,)."""
        slope = self.slope(np.abs(W))
        return np.linalg.norm(np.where(W == 0.0, soft(V, slope), V - np.copysign(slope, W)), axis=1)

    shared = {"is_convex": False, "has_bound": False, "conjugate": conjugate, "reach": reach, "prox": prox_by_rows}
    for name, member in shared.items():
        setattr(cls, name, member)
    if not hasattr(cls, "distance"):
        cls.distance = distance  # type: ignore[attr-defined]
    return cls
