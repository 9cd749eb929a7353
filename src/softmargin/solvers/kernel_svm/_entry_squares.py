"""The entries of a working set that may move, with a square of K for every class, and descent on them.

See ``_entry_loop.py``; maths: kernel SVM, section 12.
"""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.core.deadline import alarm
from softmargin.solvers.kernel_svm._entry_loop import EntryRows, descend_on_entries, fill_squares

__all__ = ["EntrySquares", "near_entries"]

Array = NDArray[Any]


def near_entries(multiclass: str, alpha: Array, scores: Array, y: Array, C: Array, near: float) -> Array:
    """Say which entries may move; by class, (k, m), as the scores are.

    Others are zero, and their margins are far from violated. Each entry of a Weston-Watkins row has a bound of its own:
    others may also be at C, with a margin that is far from kept. The label's is among those that may move where there
    is another one in its row.
    """
    rows = np.arange(len(y))
    least = scores[y, rows] - 1.0
    is_near = scores > least - near
    is_near |= alpha.T != 0.0
    if multiclass == "weston_watkins":
        is_near &= (alpha.T > -C) | (scores < least + near)
    is_near[y, rows] = False
    is_near[y, rows] = is_near.any(axis=0)
    return np.asarray(is_near)


class EntrySquares:
    """Some entries of alpha, those of each class beside each other.

    Parameters
    ----------
    is_near : array of shape (k, m)
        Which entries; the label's of every row that has one. Others stay where they are.
    y : array of shape (m,)
    """

    def __init__(self, is_near: Array, y: Array) -> None:
        self.is_near, self.y = is_near, y
        self.sizes = is_near.sum(axis=1, dtype=np.int64)  # of the classes

    @cached_property
    def _places(self) -> tuple[Array, ...]:
        # Compiled loops read them one after the other: those of ``nonzero`` lie in pairs.
        return tuple(np.ascontiguousarray(part) for part in np.nonzero(self.is_near))

    @property
    def classes(self) -> Array:
        """The class of every entry."""
        return self._places[0]

    @property
    def rows(self) -> Array:
        """The row of every entry."""
        return self._places[1]

    @property
    def n_values(self) -> int:
        """Numbers in the squares of all classes."""
        return int((self.sizes**2).sum())

    def filled(self, K: Array, diagonal: Array, C: Array, most: Array) -> EntryRows:
        """Return the squares and what sweeps need; K is (m, m), the others (m,)."""
        ends = np.concatenate([[0], np.cumsum(self.sizes)])
        values, place = np.empty(self.n_values, K.dtype), np.empty(len(self.rows), np.int64)
        order = np.lexsort((self.classes != self.y[self.rows], self.rows))  # by row, the label first
        counts = np.bincount(self.rows, minlength=len(K))
        some = counts > 0
        row_ends = np.concatenate([[0], np.cumsum(counts[some])])
        own = (diagonal[some], C[some], most[some])
        part = EntryRows(values, place, ends[self.classes], self.sizes[self.classes], row_ends, order, *own)
        fill_squares(K.reshape(-1), len(K), part, self.rows)
        return part

    def descend(
        self, part: EntryRows, alpha: Array, scores: Array, how: tuple[Any, Any, Array], target: float, most: int
    ) -> tuple[Array, int]:
        """Return alpha, (m, k), after sweeps that lead to this gap, and how many there were; scores are (k, m).

        ``how`` has the block, its workspace and the state of the shuffles.
        """
        values, F = alpha[self.rows, self.classes], scores[self.classes, self.rows]
        is_own = self.classes == self.y[self.rows]
        rows = self.rows[is_own]
        # The label's entry without what those that stay add to it: maths: kernel SVM, eq. 38.
        values[is_own] -= np.bincount(self.rows, values, len(alpha))[rows]
        n_sweeps = descend_on_entries(part, values, F, *how, target, most, alarm())
        moved = alpha.copy()
        moved[self.rows, self.classes] = values
        moved[rows, self.y[rows]] = 0.0
        moved[rows, self.y[rows]] = -moved[rows].sum(axis=1)
        return moved, int(n_sweeps)
