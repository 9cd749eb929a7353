"""How a checkpoint becomes the state of a solver again."""

from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from softmargin.backends.lanes import aligned

__all__ = ["Restoring"]

State = TypeVar("State")


class Restoring(Generic[State]):
    """A solver that names the class of its state, whose fields are what a checkpoint holds."""

    state_type: ClassVar[type[Any]]

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> State:
        """Rebuild the state from a checkpoint; flat float64 arrays start on a cache line again."""
        starts = {
            name: aligned(array) if array.ndim == 1 and array.dtype == np.float64 else array
            for name, array in arrays.items()
        }
        state: State = self.state_type(**starts, **plain)
        return state
