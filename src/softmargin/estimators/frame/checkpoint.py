"""``fit(..., checkpoint=...)``: the state of a run on disk, and a run that goes on from it."""

import os
from typing import Any, NamedTuple

from softmargin.core.errors import DataError
from softmargin.core.parameters import shown
from softmargin.estimators.posing.auto import find_solver
from softmargin.run.watchers import Checkpoint, SavedState, load_checkpoint

__all__ = ["Resumed", "resumed"]


class Resumed(NamedTuple):
    """What a run with a checkpoint needs."""

    solver: Any  # made ready for the problem
    watcher: Checkpoint
    state: SavedState | None  # None: there is no file yet


def resumed(checkpoint: Any, solver: Any, problem: Any) -> Resumed:
    """Read the state that the file of a checkpoint holds, where there is one; refuse that of another solver."""
    if isinstance(checkpoint, str | os.PathLike):
        checkpoint = Checkpoint(os.fspath(checkpoint))
    if not isinstance(checkpoint, Checkpoint):
        raise DataError(f"checkpoint must be the name of a file, or a Checkpoint; found {shown(checkpoint)}.")
    chosen = find_solver(solver, problem)
    state = load_checkpoint(checkpoint.path, chosen) if checkpoint.path.exists() else None
    return Resumed(chosen, checkpoint, state)
