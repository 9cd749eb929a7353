"""Exact minimisers of one small block of dual variables: the row alpha_i of one sample.

Every block is a compiled struct with the same two methods, written on tiles of classes (see ``matrices.rows``):

    block.block_step(scores, y, q, C, alpha, first, tiles, m, work, slack) -> (gap, n_changed, n_kept)
        Replace alpha_i by the minimiser of the dual over that row, all other rows fixed. ``scores`` holds W'x_i - e_y,
        ``q`` = |x_i|^2. On return work.step = new - old row, work.changed lists the tiles that moved and work.kept the
        tiles that hold a class with a nonzero variable, or one within ``slack`` of entering. ``gap`` is the row's share
        of the duality gap *before* the step: it is zero exactly where the row is already optimal.
    block.within_bounds(...)
        The same with the bounds already in work.bound: this is where per-class C comes in.

The softmax blocks have ``block_step`` only, and their row is log q instead of alpha_i = C (e_y - q): see ``softmax``.
The scratch arrays of a step are in a ``Workspace``, allocated once per run.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import compiled_struct, jit
from softmargin.backends.lanes import WIDTH, padded, pointer, zeros
from softmargin.blocks.crammer_singer import CrammerSingerProjection
from softmargin.blocks.softmax import LogisticBlock, SoftmaxBlock
from softmargin.blocks.weston_watkins import WestonWatkinsGreedy, WestonWatkinsNewton, WestonWatkinsSort
from softmargin.core.errors import IncompatibleError

__all__ = [
    "BLOCKS",
    "NEVER",
    "NOTHING",
    "CrammerSingerProjection",
    "LogisticBlock",
    "SoftmaxBlock",
    "WestonWatkinsGreedy",
    "WestonWatkinsNewton",
    "WestonWatkinsSort",
    "Workspace",
    "find_block",
    "minimise_block",
    "new_workspace",
]

Array = NDArray[Any]
NOTHING = 1e-300  # a row shorter than this (squared) cannot be divided by
NEVER = -1e300  # the score of a padding class: so low that no block ever picks it

BLOCKS: dict[str, dict[str, Any]] = {
    "weston_watkins": {
        "newton": WestonWatkinsNewton(),
        "sort": WestonWatkinsSort(),
        "greedy": WestonWatkinsGreedy(),
    },
    "crammer_singer": {"projection": CrammerSingerProjection()},
}


def find_block(multiclass: str, name: str) -> Any:
    """Return the block of that name for this loss; "auto" is the first."""
    choices = BLOCKS[multiclass]
    chosen = next(iter(choices)) if name == "auto" else name
    if chosen not in choices:
        raise IncompatibleError(f"block={name!r} does not solve {multiclass}; choose auto, {', '.join(choices)}.")
    return choices[chosen]


@compiled_struct("bare_workspace")
class Workspace(NamedTuple):
    """Arrays of k entries (k padded to whole tiles), and lists of tiles."""

    start: Array  # 0 for a class, NEVER for padding; -1 at the label while scores are computed
    G: Array  # W'x_i - e_y
    step: Array  # new row - old row
    bound: Array  # what the block keeps of C
    scratch: Array  # 2 k numbers for sorting
    tiles: NDArray[np.int64]  # every tile
    mine: NDArray[np.int64]  # the tiles that are in play for the current sample
    changed: NDArray[np.int64]
    kept: NDArray[np.int64]

    def bare_workspace(self) -> "Workspace":
        """Return pointers to the arrays, without reference counts."""
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
    # One piece of memory, cut where tiles begin: allocations are a visible part of a small fit.
    numbers, lists = zeros(6, size), np.zeros((4, size // WIDTH), dtype=np.int64)
    start, G, step, bound = numbers[:4]
    start[k:] = NEVER
    tiles, mine, changed, kept = lists
    tiles[:] = np.arange(0, size, WIDTH)
    return Workspace(start, G, step, bound, numbers[4:].reshape(-1), tiles, mine, changed, kept)


def minimise_block(block: Any, v: Array, C: float | Array, *, start: Array | None = None) -> Array:
    """Solve one block on its own, for tests.

    Weston-Watkins:  minimise 1/2 b'(I + 11')b - v'b  over 0 <= b <= C           (paper 004, eq. 4); C may be an array.
    Crammer-Singer:  minimise 1/2 (|b|^2 + (1'b)^2) - v'b  over b >= 0, 1'b <= C.

    Parameters
    ----------
    block : struct
        A member of ``BLOCKS``.
    v : array of shape (k - 1,)
        Linear term.
    C : float or array of shape (k - 1,)
        Upper bounds.
    start : array of shape (k - 1,), optional
        A feasible warm start.

    Returns
    -------
    array of shape (k - 1,)
        The minimiser b.
    """
    v = np.asarray(v, dtype=np.float64)
    k = len(v) + 1
    work = new_workspace(k)
    size = padded(k)
    alpha = np.zeros(size)
    if start is not None:
        alpha[: k - 1] = -np.asarray(start)
        alpha[k - 1] = np.sum(start)
    # With q = 1 and label k - 1, h_j = scores_j - scores_y; at the old point v_j = h_j + b_j + sum(b).
    scores = np.full(size, work.start[-1] if size > k else 0.0)
    scores[: k - 1] = v + alpha[: k - 1] - alpha[k - 1]
    scores[k - 1] = 0.0
    if np.ndim(C) == 0:
        _step(block, scores, k - 1, float(C), alpha, work)
    elif not block.per_class_C:
        raise IncompatibleError(f"{type(block).__name__} takes one C for all classes; use WestonWatkinsNewton.")
    else:
        work.bound[: k - 1] = C
        _step_within(block, scores, k - 1, alpha, work)
    return -alpha[: k - 1]


@jit
def _step(block: Any, scores: Any, y: int, C: float, alpha: Any, work: Any) -> None:
    bare = work.bare_workspace()
    block.block_step(pointer(scores), y, 1.0, C, pointer(alpha), 0, bare.tiles, work.tiles.shape[0], bare, 0.0)


@jit
def _step_within(block: Any, scores: Any, y: int, alpha: Any, work: Any) -> None:
    bare = work.bare_workspace()
    block.within_bounds(pointer(scores), y, 1.0, pointer(alpha), 0, bare.tiles, work.tiles.shape[0], bare, 0.0)
