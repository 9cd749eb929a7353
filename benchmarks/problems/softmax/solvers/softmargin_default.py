"""What ``SoftmaxRegression(solver="auto")`` runs."""

from typing import Any

from benchmark_utils.softmax_solvers import SoftmaxSolver
from softmargin.estimators.posing.auto import find_solver


class Solver(SoftmaxSolver):
    """The solver that the estimator chooses for the problem."""

    name = "softmargin"

    def method(self) -> Any:
        return find_solver("auto", self.problem)
