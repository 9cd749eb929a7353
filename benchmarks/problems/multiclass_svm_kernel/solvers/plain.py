"""Plain exact block descent: one random pass over all rows after the other."""

from benchmark_utils.kernel_solvers import KernelSolver
from softmargin.solvers import KernelBlockDescent


class Solver(KernelSolver):
    """The default without its working set."""

    name = "plain"

    def method(self) -> KernelBlockDescent:
        return KernelBlockDescent(working_set=False)
