"""How the fits of a search are divided among threads: waves of folds that begin together, and parts of their paths."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Task", "n_parts", "tasks_of", "waves_of"]

Array = NDArray[Any]


class Task(NamedTuple):
    """A part of a path on one fold."""

    fold: int
    row: int
    points: Array  # positions in the row


def n_parts(n_paths: int, n_at_once: int, most: int) -> int:
    """Return into how many parts paths are cut: no more than there are threads for, as later parts begin afresh."""
    return max(1, min(n_at_once // n_paths, most))


def waves_of(n_folds: int, n_rows: int, n_at_once: int, most_parts: int) -> list[list[int]]:
    """Divide the folds into waves that begin together: those that end first, of equals the smallest.

    A wave of m paths takes ceil(m / threads) times as long as one of them. Of one that is cut into p parts the last,
    with the largest values, takes more than a p-th: half of the time is counted as divided.
    """

    def seconds(size: int) -> float:
        parts = n_parts(size * n_rows, n_at_once, most_parts)
        return math.ceil(size * n_rows * parts / n_at_once) * (0.5 + 0.5 / parts)

    def all_seconds(size: int) -> float:
        return n_folds // size * seconds(size) + (seconds(n_folds % size) if n_folds % size else 0.0)

    size = min(range(1, n_folds + 1), key=all_seconds)
    return [list(range(first, min(first + size, n_folds))) for first in range(0, n_folds, size)]


def tasks_of(wave: list[int], mask: Array, parts_each: int) -> list[Task]:
    """Divide the points of a mask on some folds: so many parts of the path of every row.

    The last part of a path takes longest, so that all of these begin first.
    """
    parts = [(row, part) for row, own in enumerate(mask) for part in np.array_split(np.flatnonzero(own), parts_each)]
    tasks = [Task(fold, row, part) for fold in wave for row, part in parts if len(part)]
    return sorted(tasks, key=lambda task: -int(task.points[-1]))
