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
    start = zeros(size)
    start[k:] = NEVER
    tiles = np.arange(0, size, WIDTH, dtype=np.int64)
    lists = [np.zeros(len(tiles), dtype=np.int64) for _ in range(3)]
    return Workspace(start, zeros(size), zeros(size), zeros(size), zeros(2 * size), tiles, *lists)
