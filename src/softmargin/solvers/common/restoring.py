"""How a checkpoint becomes the state of a solver again."""

from typing import Any, Generic, TypeVar

import numpy as np

from softmargin.backends.lanes import aligned
from softmargin.core.protocols import Resumable

__all__ = ["Restoring"]

State = TypeVar("State")


class Restoring(Resumable, Generic[State]):
    """A solver of compiled loops: flat float64 arrays of its state start on a cache line."""

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> State:
        """Rebuild the state from a checkpoint; flat float64 arrays start on a cache line again."""
        starts = {
            name: aligned(array) if array.ndim == 1 and array.dtype == np.float64 else array
            for name, array in arrays.items()
        }
        state: State = super().restore(starts, plain)
        return state
