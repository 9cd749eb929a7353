"""Plain dual block descent, one random pass after the other: paper 004, Algorithm 1, with each block solver.

Blocks: ``sort`` is the paper's own exact step (Walrus), ``greedy`` the scheme of Shark, ``newton`` ours, exact without
sorting; ``projection`` solves the Crammer-Singer block.
"""

from typing import Any

from benchmark_utils.ours import SoftmarginSolver
from softmargin.blocks import BLOCKS
from softmargin.solvers import DualBlockDescent


class Solver(SoftmarginSolver):
    """Algorithm 1 without a working set."""

    name = "plain"
    parameters = {"block": ["newton", "sort", "greedy", "projection"]}

    def skip(self, problem: Any, C: float) -> tuple[bool, str | None]:
        if self.block not in BLOCKS[problem.multiclass]:
            return True, f"block={self.block} does not solve {problem.multiclass}"
        return False, None

    def method(self) -> DualBlockDescent:
        return DualBlockDescent(block=self.block, working_set=False)
