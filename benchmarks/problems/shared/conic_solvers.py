"""A whole problem over a ball as one conic program, by CVXPY and Clarabel."""

import warnings
from typing import Any

from benchmark_utils.racing import EpsSolver


class ConicSolver(EpsSolver):
    """An interior-point method; eps is Clarabel's tolerance. A subclass writes the program down."""

    requirements = ["pip::cvxpy", "pip::clarabel"]
    leans_on_bound = False
    eps_grid = tuple(10.0**-power for power in range(2, 13, 2))

    def set_objective(self, problem: Any, C: float) -> None:
        """Keep the problem."""
        self.problem = problem

    def warm_up(self) -> None:
        """Make the first call, which is slower than others."""
        self.run(self.eps_grid[0])

    def solve(self, program: Any, eps: float) -> None:
        """Solve a program of CVXPY's."""
        tolerances = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), min(eps, self.eps_grid[0]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "may be inaccurate": the objective measures how inaccurate
            program.solve(solver="CLARABEL", **tolerances)
