"""Matrix-wise Frank-Wolfe: paper 000, Algorithm 2."""

from benchmark_utils.kernel_solvers import KernelSolver
from softmargin.solvers import FrankWolfe


class Solver(KernelSolver):
    """All rows in one step."""

    name = "frank_wolfe"

    def method(self) -> FrankWolfe:
        return FrankWolfe()
