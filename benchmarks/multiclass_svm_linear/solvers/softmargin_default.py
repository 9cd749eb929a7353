"""What ``LinearSVC`` runs: dual block descent with a working set."""

from benchmark_utils.ours import SoftmarginSolver
from softmargin.solvers import DualBlockDescent


class Solver(SoftmarginSolver):
    """The library's default settings."""

    name = "softmargin"
    requirements = ["pip::softmargin"]

    def descent(self) -> DualBlockDescent:
        return DualBlockDescent()
