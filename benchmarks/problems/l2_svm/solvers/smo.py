"""SMO on a linear kernel; on others it is the default."""

from typing import Any

from benchmark_utils.kernel_solvers import KernelSolver
from softmargin.solvers import Smo


class Solver(KernelSolver):
    """The best pair of dual variables again and again."""

    name = "smo"
    test_config = {"objective": {"kernel": "linear"}}

    def skip(self, problem: Any, C: float) -> tuple[bool, str | None]:
        return (False, None) if problem.gram.is_linear else (True, "it is the default here, softmargin")

    def method(self) -> Smo:
        return Smo()
