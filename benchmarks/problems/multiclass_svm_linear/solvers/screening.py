"""The default with gap-safe screening: rows leave for good once the gap proves their optimum."""

from benchmark_utils.ours import SoftmarginSolver
from softmargin.solvers import DualBlockDescent


class Solver(SoftmarginSolver):
    """Dual block descent with a working set and screening."""

    name = "screening"

    def method(self) -> DualBlockDescent:
        return DualBlockDescent(screening=True)
