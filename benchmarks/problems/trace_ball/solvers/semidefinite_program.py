"""The whole problem as one semidefinite program, by CVXPY and Clarabel.

The trace norm is at most the radius where a positive semidefinite matrix of order d + k with W off its diagonal has a
trace of at most twice that; CVXPY writes this down. A factor of about (d + k)^2 / 2 rows is needed a dozen times.
"""

from typing import Any

import cvxpy as cp
import numpy as np

from benchmark_utils.conic_solvers import ConicSolver

_LARGEST_ORDER = 100  # d + k


class Solver(ConicSolver):
    """One matrix of order d + k."""

    name = "semidefinite_program"

    def skip(self, problem: Any, C: float) -> tuple[bool, str | None]:
        order = sum(getattr(problem, "shape", ()))
        return (True, f"a matrix of order {order} is too large") if order > _LARGEST_ORDER else (False, None)

    def run(self, eps: float) -> None:
        problem = self.problem
        W = cp.Variable(problem.shape)
        losses = cp.sum_squares(problem.X @ W - problem.target) / (2.0 * len(problem.target))
        objective = losses + 0.5 * problem.l2 * cp.sum_squares(W)
        program = cp.Problem(cp.Minimize(objective), [cp.normNuc(W) <= problem.ball.radius])
        self.solve(program, eps)
        self.W = W.value

    def get_result(self) -> dict[str, Any]:
        """Return the point, with what the tolerance left outside brought back."""
        return {"weights": self.problem.ball.project(self.W), "intercept": np.zeros(self.W.shape[1])}
