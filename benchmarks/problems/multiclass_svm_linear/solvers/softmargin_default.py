"""What ``LinearSVC`` runs: dual block descent with a working set."""

from benchmark_utils.ours import SoftmarginSolver
from softmargin.solvers import DualBlockDescent


class Solver(SoftmarginSolver):
    """The library's default settings."""

    name = "softmargin"

    def method(self) -> DualBlockDescent:
        return DualBlockDescent()
