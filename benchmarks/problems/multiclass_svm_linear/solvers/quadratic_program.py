"""The whole dual as one quadratic program, by CVXPY and Clarabel: the same problem with a linear kernel."""

from typing import Any

from benchmark_utils.kernel_solvers import ProgramSolver
from softmargin.kernels import Linear
from softmargin.matrices.gram import Gram
from softmargin.problems import KernelMulticlassSVM

_LARGEST = 6000  # variables


class Solver(ProgramSolver):
    """An interior-point method; its dual variables prove the gap."""

    name = "quadratic_program"

    def skip(self, problem: Any, C: float) -> tuple[bool, str | None]:
        n_variables = len(getattr(problem, "y", ())) * (problem.n_classes - 1)
        if n_variables > _LARGEST:
            return True, f"a dense program of {n_variables} variables is too large"
        return False, None

    def set_objective(self, problem: Any, C: float) -> None:
        """State the problem on a kernel matrix, of which no value is computed yet."""
        gram = Gram(Linear(), problem.X)
        self.linear = problem
        self.problem = KernelMulticlassSVM(
            gram, problem.y, C=problem.C, multiclass=problem.multiclass, n_classes=problem.n_classes
        )

    def get_result(self) -> dict[str, Any]:
        """Return the dual variables and the weights that they imply."""
        point = self.linear.point(self.state.alpha)
        return {"weights": point.weights[:-1], "alpha": point.alpha}
