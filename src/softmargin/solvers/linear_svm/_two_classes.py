"""Two classes have one variable a row and one column of weights.

The rows of alpha are (b_i, -b_i), the label's entry first, and W has two opposite columns. So the joint dual is

    D(b) = sum_i b_i - 1/2 |v|^2 ,   v = sum_i b_i z_i ,   z_i = sqrt(2) sign_i x_i ,   0 <= b_i <= C_i
                                                                                        maths: linear SVM, section 3

with v = sqrt(2) times the second column of W: the dual of one class, the label's, over the rows z. Block descent passes
over it as over others, with these rows and this block. A visit reads one number of W for each feature, where a row of
two classes is a whole vector of them.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import compiled_struct
from softmargin.backends.lanes import padded, pointer, zeros
from softmargin.blocks import Workspace, find_block, new_workspace
from softmargin.blocks.weston_watkins import ROUNDING
from softmargin.core.protocols import BlockDualProblem
from softmargin.matrices.rows import as_rows

__all__ = [
    "OneVariable",
    "SignedRows",
    "columns_of",
    "held_alpha",
    "held_weights",
    "held_width",
    "labels_of",
    "seen_by_passes",
]

Array = NDArray[Any]
ROOT = math.sqrt(2.0)


@compiled_struct("bare", "scores", "add")
class SignedRows(NamedTuple):
    """The rows z_i, for one column of weights."""

    rows: Any  # x_i (``matrices.rows``)
    signs: Array  # (n,) sqrt(2), or its negative
    d: int

    def bare(self) -> "SignedRows":
        """Return the rows without reference counts."""
        return SignedRows(self.rows.bare(), pointer(self.signs), self.d)

    def scores(self, i: int, W: Array, k: int, start: Array, tiles: Array, m: int, out: Array) -> None:
        """Write start + <w, z_i>."""
        out[0] = start[0] + self.signs[i] * self.rows.dot(i, W)

    def add(self, i: int, step: Array, tiles: Array, m: int, W: Array, k: int) -> None:
        """Add step z_i to w."""
        self.rows.push(i, self.signs[i] * step[0], W)


@compiled_struct("block_step")
class OneVariable(NamedTuple):
    """The block of one variable between 0 and C: one clipped step, whatever the loss is."""

    per_class_C: bool = False

    def block_step(
        self, G: Any, y: int, q: float, C: float, alpha: Any, first: int, tiles: Any, m: int, work: Any, slack: float
    ) -> tuple[float, int, int]:
        """Clip; see ``softmargin.blocks`` for the arguments."""
        old, h = alpha[first], -G[0]
        gap = C * max(h, 0.0) - old * h
        if gap <= ROUNDING * old:
            return gap, 0, 0
        new = min(max(old + h / q, 0.0), C)
        alpha[first] = new
        work.step[0] = new - old
        return gap, 1, 1


def held_width(problem: BlockDualProblem) -> int:
    """Return how many numbers a row of dual variables has: one for two classes of a joint loss, else whole tiles."""
    return 1 if problem.n_classes == 2 and problem.multiclass != "one_vs_rest" else padded(problem.n_classes)


def labels_of(problem: BlockDualProblem) -> Array:
    """Return the labels that the passes see: places in a row of dual variables."""
    return problem.y if held_width(problem) > 1 else np.zeros_like(problem.y)


def seen_by_passes(problem: BlockDualProblem, block: Any) -> tuple[Any, Any, Workspace]:
    """Return the rows of the passes, the block of one row, by name or itself, and its scratch."""
    rows, chosen = as_rows(problem.X, problem.bias), find_block(problem.multiclass, block)
    if held_width(problem) > 1:
        return rows, chosen, new_workspace(problem.n_classes)
    signed = SignedRows(rows, np.where(problem.y == 1, ROOT, -ROOT), rows.d)
    return signed, OneVariable(), Workspace(zeros(6, 1), np.zeros((4, 1), dtype=np.int64))


def held_alpha(problem: BlockDualProblem, alpha: Array, out: Array) -> None:
    """Write rows alpha, (n, k), as the passes hold them."""
    width = held_width(problem)
    if width == 1:
        out[:] = alpha[np.arange(len(alpha)), problem.y]
    else:
        out.reshape(-1, width)[:, : alpha.shape[1]] = alpha


def held_weights(problem: BlockDualProblem, W: Array, out: Array) -> None:
    """Write weights W, (d + 1, k), as the passes hold them."""
    width = held_width(problem)
    if width == 1:
        np.multiply(W[:, 1], ROOT, out=out)
    else:
        out.reshape(-1, width)[:, : W.shape[1]] = W


def columns_of(problem: BlockDualProblem, alpha: Array, weights: Array) -> tuple[Array, Array]:
    """Return the rows alpha, (n, k), and the weights, (d + 1, k), of what the passes hold; both are copies."""
    width, k = held_width(problem), problem.n_classes
    if width > 1:
        return alpha.reshape(-1, width)[:, :k].copy(), weights.reshape(-1, width)[:, :k].copy()
    signed = np.where(problem.y == 1, alpha, -alpha)
    column = weights / ROOT
    return np.column_stack([-signed, signed]), np.column_stack([-column, column])
