"""Solvers of kernel SVMs: each run begins without a single kernel value."""

from typing import Any

import numpy as np

from benchmark_utils.kernel_objective import few_rows, fresh
from benchmark_utils.ours import SoftmarginSolver
from benchmark_utils.racing import EpsSolver

_LARGEST_PROGRAM = 6000  # variables: beyond this a factor takes minutes, and a dozen are needed


class KernelSolver(SoftmarginSolver):
    """One solver of the library; a subclass says which settings."""

    def fresh(self) -> Any:
        """Return the problem without kernel values."""
        return fresh(self.problem)

    def few(self) -> Any:
        """Return a small problem."""
        return few_rows(self.problem)


class ProgramSolver(EpsSolver):
    """The quadratic program, by CVXPY and Clarabel; eps is Clarabel's tolerance."""

    requirements = ["pip::cvxpy", "pip::clarabel"]
    leans_on_bound = False
    eps_grid = tuple(10.0**-power for power in range(2, 13, 2))

    def skip(self, problem: Any, C: float) -> tuple[bool, str | None]:
        n_variables = problem.gram.n * (getattr(problem, "n_classes", 2) - 1)
        if n_variables > _LARGEST_PROGRAM:
            return True, f"a dense program of {n_variables} variables is too large"
        return False, None

    def set_objective(self, problem: Any, C: float) -> None:
        """Keep the problem."""
        self.problem = problem

    def warm_up(self) -> None:
        """Import what is needed."""
        self._answer(few_rows(self.problem), self.eps_grid[0])

    def method(self, eps: float = 1e-9) -> Any:
        """Return the settings."""
        from softmargin.solvers.quadratic_program import QuadraticProgram

        return QuadraticProgram(tolerance=min(eps, self.eps_grid[0]))

    def fresh(self) -> Any:
        """Return the problem without kernel values."""
        return fresh(self.problem)

    def run(self, eps: float) -> None:
        """Solve; the point is made off the clock."""
        self.state = self._answer(self.fresh(), eps)

    def get_result(self) -> dict[str, Any]:
        """Return the point."""
        return self.problem.point(self.state.alpha)._asdict()

    def _answer(self, problem: Any, eps: float) -> Any:
        method = self.method(eps)
        return method.step(problem, method.start(problem, None, np.random.default_rng(0)))
