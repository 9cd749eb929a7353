"""Rows in blocks, and sums over them in a fixed order: the same for any machine that holds them."""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Protocol, TypeVar

from softmargin.core.pieces import Array
from softmargin.problems.block_rows import Block, Inverse

__all__ = ["Blocks", "LocalBlocks", "summed"]

T = TypeVar("T", bound=tuple[Any, ...])


class Blocks(Protocol):
    """Rows in blocks."""

    n: int
    n_features: int
    most_rows: int  # of a block
    n_blocks: int

    def total(self, work: Callable[..., T], *small: Any) -> T:
        """Return the sum over all blocks of ``work(block, *small)``, added in a fixed order."""

    def each(self, work: Callable[..., Any], *small: Any) -> list[Any]:
        """Return ``work(block, *small)`` of every block, in their order."""

    def inverse(self, factors: Sequence[Array]) -> Inverse:
        """Return what solves with L L' for each of some L, every one for its share of the columns."""


def summed(sums: Sequence[T]) -> T:
    """Add tuples field by field, two neighbours at a time: the order of a tree."""
    while len(sums) > 1:
        sums = [reduce(_added, sums[i : i + 2]) for i in range(0, len(sums), 2)]
    return sums[0]


def _added(left: T, right: T) -> T:
    sums = [a + b for a, b in zip(left, right, strict=True)]
    return type(left)(*sums) if hasattr(left, "_fields") else type(left)(sums)


class LocalBlocks:
    """Blocks in the memory of this process."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.blocks = [block for block in blocks if len(block.y)] or list(blocks[:1])
        rows = [len(block.y) for block in self.blocks]
        self.n, self.most_rows, self.n_blocks = sum(rows), max(rows), len(rows)
        self.n_features = int(self.blocks[0].X.shape[1])

    def total(self, work: Callable[..., T], *small: Any) -> T:
        """Return the sum over all blocks, in the order of a tree."""
        sums: list[T] = self.each(work, *small)
        return summed(sums)

    def each(self, work: Callable[..., Any], *small: Any) -> list[Any]:
        """Return what every block gives."""
        return [work(block, *small) for block in self.blocks]

    def inverse(self, factors: Sequence[Array]) -> Inverse:
        """Return what solves with L L', where the rows lie."""
        return self.blocks[0].inverse(factors)
