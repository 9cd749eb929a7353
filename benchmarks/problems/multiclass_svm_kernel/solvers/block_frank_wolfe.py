"""Block Frank-Wolfe: paper 000, Algorithm 3, with both steps."""

from benchmark_utils.kernel_solvers import KernelSolver
from softmargin.solvers import BlockFrankWolfe


class Solver(KernelSolver):
    """One row at a time."""

    name = "block_frank_wolfe"
    parameters = {"step_rule": ["oblivious", "optimal"]}

    def method(self) -> BlockFrankWolfe:
        return BlockFrankWolfe(step_rule=self.step_rule)
