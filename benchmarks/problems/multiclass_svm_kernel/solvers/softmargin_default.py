"""What ``KernelSVC`` runs: exact block descent on a working set."""

from benchmark_utils.kernel_solvers import KernelSolver
from softmargin.solvers import KernelBlockDescent


class Solver(KernelSolver):
    """The library's default settings."""

    name = "softmargin"

    def method(self) -> KernelBlockDescent:
        return KernelBlockDescent()
