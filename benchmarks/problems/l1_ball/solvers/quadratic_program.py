"""The whole problem as one quadratic program, by CVXPY and Clarabel: the smooth hinge by two slacks a sample.

    minimise over w, u, v:   (1/n) sum_i ( u_i^2 / 2 + v_i ) + l2 / 2 |w|^2
    subject to               u_i + v_i >= 1 - y_i <w, x_i> ,    v >= 0 ,    |w|_1 <= radius

The multipliers of the margins, times -y_i n, are the dual point that it proves its gap with.
"""

from typing import Any

import cvxpy as cp
import numpy as np
from scipy.sparse import issparse

from benchmark_utils.conic_solvers import ConicSolver
from softmargin.losses.entrywise import ENTRYWISE

_LARGEST_SIDE = 1500  # the smaller side of X: a factor of that many dense rows takes seconds
_LARGEST_DATA = 10**6  # entries of X


class Solver(ConicSolver):
    """Two slacks a sample."""

    name = "quadratic_program"

    def skip(self, problem: Any, C: float) -> tuple[bool, str | None]:
        X = getattr(problem, "X", None)
        if X is None:
            return False, None
        if problem.loss != ENTRYWISE["smooth_hinge"]:
            return True, "the program is written for the smooth hinge"
        n_entries = X.nnz if issparse(X) else X.size
        if min(X.shape) > _LARGEST_SIDE or n_entries > _LARGEST_DATA:
            return True, f"a program on X of shape {X.shape} is too large"
        return False, None

    def run(self, eps: float) -> None:
        X, y, l2 = self.problem.X, self.problem.target[:, 0], self.problem.l2
        n, d = X.shape
        w, u, v = cp.Variable(d), cp.Variable(n), cp.Variable(n, nonneg=True)
        margins = u + v >= 1.0 - cp.multiply(y, X @ w)
        objective = (0.5 * cp.sum_squares(u) + cp.sum(v)) / n + 0.5 * l2 * cp.sum_squares(w)
        program = cp.Problem(cp.Minimize(objective), [margins, cp.norm1(w) <= self.problem.ball.radius])
        self.solve(program, eps)
        self.w, self.multipliers = w.value, margins.dual_value

    def get_result(self) -> dict[str, Any]:
        """Return the point, with what the tolerance left outside brought back."""
        y = self.problem.target
        dual = -y * np.clip(len(y) * self.multipliers, 0.0, 1.0)[:, None]
        return {"weights": self.problem.ball.project(self.w[:, None]), "intercept": np.zeros(1), "dual": dual}
