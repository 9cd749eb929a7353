"""Exact minimisers of one small block of dual variables: the row alpha_i of one sample.

Every block is a compiled struct with the same two methods, written on tiles of classes (see ``matrices.rows``):

    block.block_step(scores, y, q, C, alpha, first, tiles, m, work, slack) -> (gap, n_changed, n_kept)
        Replace alpha_i by the minimiser of the dual over that row, all other rows fixed. ``scores`` holds W'x_i - e_y,
        ``q`` = |x_i|^2. On return work.step = new - old row, work.changed lists the tiles that moved and work.kept the
        tiles that hold a class with a nonzero variable, or one within ``slack`` of entering. ``gap`` is the row's share
        of the duality gap *before* the step: it is zero exactly where the row is already optimal.
    block.within_bounds(...)
        The same with the bounds already in work.bound: this is where per-class C comes in.

The softmax blocks and the separate hinges have ``block_step`` only. A row of the softmax is log q instead of
alpha_i = C (e_y - q): see ``softmax``.
The scratch arrays of a step are in a ``Workspace``, allocated once per run.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import compiled_struct, jit
from softmargin.backends.lanes import WIDTH, padded, pointer, pointer_to, zeros
from softmargin.blocks.crammer_singer import CrammerSingerProjection
from softmargin.blocks.separate_hinges import SeparateHinges
from softmargin.blocks.softmax import LogisticBlock, SoftmaxBlock
from softmargin.blocks.weston_watkins import WestonWatkinsGreedy, WestonWatkinsNewton, WestonWatkinsSort
from softmargin.core.errors import IncompatibleError
from softmargin.core.parameters import NAME, Given

__all__ = [
    "BLOCK",
    "BLOCKS",
    "NEVER",
    "NOTHING",
    "CrammerSingerProjection",
    "LogisticBlock",
    "Scratch",
    "SeparateHinges",
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
# Of separate losses: their rows need not sum to zero.
SEPARATE: dict[str, dict[str, Any]] = {"one_vs_rest": {"clip": SeparateHinges()}}

# What a solver's ``block`` may be.
BLOCK = (NAME, Given("a block such as softmargin.blocks.WestonWatkinsGreedy()", lambda v: hasattr(v, "block_step")))


def find_block(multiclass: str, name: Any) -> Any:
    """Return the block of that name for this loss, or the block itself; "auto" is the first."""
    choices = {**BLOCKS, **SEPARATE}[multiclass]
    if not isinstance(name, str):
        strange = [loss for loss in BLOCKS if loss != multiclass and type(name) in map(type, BLOCKS[loss].values())]
        if strange:
            raise IncompatibleError(f"block={name!r} solves {strange[0]}, not {multiclass}; give one of its own.")
        return name
    chosen = next(iter(choices)) if name == "auto" else name
    if chosen not in choices:
        raise IncompatibleError(f"block={name!r} does not solve {multiclass}; choose auto, {', '.join(choices)}.")
    return choices[chosen]


class Scratch(NamedTuple):
    """Pointers into a workspace: k numbers each, or lists of tiles."""

    start: Any  # 0 for a class, NEVER for padding; -1 at the label while scores are computed
    G: Any  # W'x_i - e_y
    step: Any  # new row - old row
    bound: Any  # what the block keeps of C
    scratch: Any  # 2 k numbers for sorting
    tiles: Any  # every tile
    mine: Any  # the tiles that are in play for the current sample
    changed: Any
    kept: Any


@compiled_struct("bare_workspace")
class Workspace(NamedTuple):
    """The memory of block steps, in two arrays: every array that is passed to compiled code takes its time."""

    numbers: Array  # (6, k)      k padded to whole tiles
    lists: NDArray[np.int64]  # (4, number of tiles)

    def bare_workspace(self) -> Scratch:
        """Return pointers without reference counts."""
        numbers, k = self.numbers, self.numbers.shape[1]
        lists, n_tiles = self.lists, self.lists.shape[1]
        return Scratch(
            pointer_to(numbers, 0),
            pointer_to(numbers, k),
            pointer_to(numbers, 2 * k),
            pointer_to(numbers, 3 * k),
            pointer_to(numbers, 4 * k),
            pointer_to(lists, 0),
            pointer_to(lists, n_tiles),
            pointer_to(lists, 2 * n_tiles),
            pointer_to(lists, 3 * n_tiles),
        )


def new_workspace(k: int) -> Workspace:
    """Allocate scratch for k classes."""
    size = padded(k)
    work = Workspace(zeros(6, size), np.zeros((4, size // WIDTH), dtype=np.int64))
    work.numbers[0, k:] = NEVER
    work.lists[0] = np.arange(0, size, WIDTH)
    return work


def minimise_block(block: Any, v: Array, C: float | Array, *, start: Array | None = None) -> Array:
    """Return the minimiser b, (k - 1,), of one block on its own, for tests; ``start`` is a feasible warm start.

    Weston-Watkins:  minimise 1/2 b'(I + 11')b - v'b  over 0 <= b <= C           (paper 004, eq. 4); C may be an array.
    Crammer-Singer:  minimise 1/2 (|b|^2 + (1'b)^2) - v'b  over b >= 0, 1'b <= C.
    """
    v = np.asarray(v, dtype=np.float64)
    k = len(v) + 1
    work, alpha = new_workspace(k), np.zeros(padded(k))
    if start is not None:
        alpha[: k - 1] = -np.asarray(start)
        alpha[k - 1] = np.sum(start)
    # With q = 1 and label k - 1, h_j = scores_j - scores_y; at the old point v_j = h_j + b_j + sum(b).
    scores = np.full(padded(k), NEVER)
    scores[: k - 1] = v + alpha[: k - 1] - alpha[k - 1]
    scores[k - 1] = 0.0
    if np.ndim(C) == 0:
        _step(block, scores, k - 1, float(C), alpha, work)
    elif not block.per_class_C:
        raise IncompatibleError(f"{type(block).__name__} takes one C for all classes; use WestonWatkinsNewton.")
    else:
        work.numbers[3, : k - 1] = C
        _step_within(block, scores, k - 1, alpha, work)
    return -alpha[: k - 1]


@jit
def _step(block: Any, scores: Any, y: int, C: float, alpha: Any, work: Any) -> None:
    bare = work.bare_workspace()
    block.block_step(pointer(scores), y, 1.0, C, pointer(alpha), 0, bare.tiles, work.lists.shape[1], bare, 0.0)


@jit
def _step_within(block: Any, scores: Any, y: int, alpha: Any, work: Any) -> None:
    bare = work.bare_workspace()
    block.within_bounds(pointer(scores), y, 1.0, pointer(alpha), 0, bare.tiles, work.lists.shape[1], bare, 0.0)
