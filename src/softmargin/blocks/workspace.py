"""The scratch arrays of one block step, allocated once a run."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import compiled_struct
from softmargin.backends.lanes import WIDTH, padded, pointer, zeros

__all__ = ["NEVER", "Workspace", "new_workspace"]

Array = NDArray[Any]
# The score of a padding class: so low that no block ever picks it.
NEVER = -1e300


@compiled_struct("bare_workspace")
class Workspace(NamedTuple):
    """Arrays of k entries (k padded to whole tiles), and lists of tiles."""

    start: Array  # 0 for a class, NEVER for padding; -1 at the label while scores are computed
    G: Array  # W'x_i - e_y
    step: Array  # new row - old row
    bound: Array  # what the block keeps of C
    scratch: Array  # 2 k numbers for sorting
    tiles: NDArray[np.int64]  # every tile
    mine: NDArray[np.int64]  # the tiles of the sample at hand
    changed: NDArray[np.int64]
    kept: NDArray[np.int64]

    def bare_workspace(self) -> "Workspace":
        """Return the arrays without reference counts."""
        return Workspace(
            pointer(self.start),
            pointer(self.G),
            pointer(self.step),
            pointer(self.bound),
            pointer(self.scratch),
            pointer(self.tiles),
            pointer(self.mine),
            pointer(self.changed),
            pointer(self.kept),
        )


def new_workspace(k: int) -> Workspace:
    """Allocate scratch for k classes."""
    size = padded(k)
    # One piece of memory, cut where tiles begin: a small fit notices every allocation.
    numbers, lists = zeros(6, size), np.zeros((4, size // WIDTH), dtype=np.int64)
    start, G, step, bound = numbers[:4]
    start[k:] = NEVER
    tiles, mine, changed, kept = lists
    tiles[:] = np.arange(0, size, WIDTH)
    return Workspace(start, G, step, bound, numbers[4:].reshape(-1), tiles, mine, changed, kept)
