"""What ``KernelSVC(loss="squared_hinge")`` runs: SMO, or Newton's method in the primal where the kernel is linear."""

from typing import Any

from benchmark_utils.kernel_solvers import KernelSolver
from softmargin.solvers import PrimalNewton, Smo


class Solver(KernelSolver):
    """The library's default settings."""

    name = "softmargin"

    def method(self) -> Any:
        return PrimalNewton() if self.problem.gram.is_linear else Smo()
