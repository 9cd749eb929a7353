"""Accelerated projected gradient, on all rows and on a working set."""

from benchmark_utils.kernel_solvers import KernelSolver
from softmargin.solvers import ProjectedGradient


class Solver(KernelSolver):
    """Whole arrays only."""

    name = "projected_gradient"
    parameters = {"working_set": [True, False]}

    def method(self) -> ProjectedGradient:
        return ProjectedGradient(working_set=self.working_set)
