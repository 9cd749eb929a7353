"""One class without weights: w_K = 0 in paper 003, eq. (1), for any penalty of the other classes.

    g(W) = base(W without column c) where W_c = 0, else infinite                            maths: softmax, section 4
    prox_t(v)  = prox of base at v without c, and 0 at c
    g*(V)      = base*(V without column c)

The losses do not see a number that is added to all classes of a feature, so that without a penalty nothing is lost by
W_c = 0. With one it is another model, which depends on c (maths: errata 003.6).
"""

import math
from typing import Any, NamedTuple

import numpy as np

from softmargin.backends.jit import compiled_struct
from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import Array
from softmargin.penalties.parts import demand
from softmargin.penalties.rounding import rounded_conjugate

__all__ = ["Pinned"]


@compiled_struct("prox_row")
class Pinned(NamedTuple):
    """A penalty of all classes but one, whose weights are zero.

    The base sees a zero where the column is; a penalty that is not least at zero must be one of single entries.
    """

    base: Any
    class_code: float = 0.0  # counted from 0

    @property
    def is_entrywise(self) -> bool:
        """False: a row is one block, as it must be known which of its entries is pinned."""
        return False

    @property
    def is_convex(self) -> bool:
        """Whether the base is."""
        return bool(self.base.is_convex)

    @property
    def has_bound(self) -> bool:
        """Whether the base has."""
        return bool(self.base.has_bound)

    def check(self) -> None:
        """Refuse invalid numbers."""
        demand(
            self.class_code >= 0.0 and self.class_code == int(self.class_code),
            self,
            "class_code must be a whole number >= 0",
        )
        if hasattr(self.base, "check"):
            self.base.check()

    def check_classes(self, n_classes: int) -> None:
        """Refuse a class that is not there, and two classes: they have one column of weights."""
        if n_classes == 2:
            raise IncompatibleError(
                "one of 2 classes was asked to be pinned; of two classes the first has no weights anyway. Leave it out."
            )
        demand(self.class_code < n_classes, self, f"class_code must be below the number of classes, {n_classes}")

    def _others(self, V: Array) -> Array:
        return np.ascontiguousarray(np.delete(V, int(self.class_code), axis=1))

    def value(self, W: Array) -> float:
        """Return g(W)."""
        return math.inf if np.any(W[:, int(self.class_code)]) else float(self.base.value(self._others(W)))

    def prox(self, V: Array, t: Any) -> Array:
        """Return the minimiser of g(W) + |W - V|^2 / (2 t)."""
        return np.insert(self.base.prox(self._others(V), t), int(self.class_code), 0.0, axis=1)

    def prox_row(self, row: Any, first: int, k: int, t: float) -> None:
        """Replace a row by its prox."""
        at = first + int(self.class_code)
        row[at] = 0.0
        self.base.prox_row(row, first, k, t)
        row[at] = 0.0

    def conjugate(self, V: Array) -> float:
        """Return g*(V)."""
        return float(self.base.conjugate(self._others(V)))

    def conjugate_within(self, V: Array, error: Array) -> float:
        """Return a number that g* exceeds nowhere within ``error`` of V."""
        errors = np.broadcast_to(error, V.shape)
        return rounded_conjugate(self.base, self._others(V), self._others(errors)).upper

    def reach(self, V: Array) -> float:
        """Return the largest s in [0, 1] with g*(s V) finite."""
        return float(self.base.reach(self._others(V)))

    def distance(self, W: Array, V: Array) -> Array:
        """Return the distance of each row of V to the subdifferential at W; the pinned entry is free; shape (d,)."""
        off = np.asarray(self.base.distance(self._others(W), self._others(V)))
        return np.where(W[:, int(self.class_code)] == 0.0, off, np.inf)
