"""How a checkpoint becomes the state of a solver again."""

from typing import Any, ClassVar

import numpy as np

from softmargin.backends.lanes import aligned
from softmargin.core.parameters import CheckedFields

__all__ = ["Resumable", "split_parts"]


class Resumable(CheckedFields):
    """A base of solvers: a checkpoint rebuilds their state, a dataclass, from its fields.

    A state is refused where its arrays have other shapes than those of a fresh one; ``run.restored`` says how a class
    of states names the arrays that a run may lengthen.
    """

    state_type: ClassVar[type]

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> Any:
        """Rebuild a state from the arrays and the plain numbers that a checkpoint holds.

        Flat float64 arrays start on a cache line again: compiled loops load whole vectors of them.
        """
        starts = {
            name: aligned(array) if array.ndim == 1 and array.dtype == np.float64 else array
            for name, array in arrays.items()
        }
        return self.state_type(**starts, **plain)


def split_parts(
    arrays: dict[str, Any], plain: dict[str, Any], n_parts: int
) -> tuple[dict[str, Any], list[tuple[dict[str, Any], dict[str, Any]]]]:
    """Return the fields that a state of states has of its own, and those of each state: "3.alpha" is of state 3."""
    own: dict[str, Any] = {}
    parts: list[tuple[dict[str, Any], dict[str, Any]]] = [({}, {}) for _ in range(n_parts)]
    for kind, values in enumerate((arrays, plain)):
        for name, value in values.items():
            c, dot, rest = name.partition(".")
            if dot:
                parts[int(c)][kind][rest] = value
            else:
                own[name] = value
    return own, parts
