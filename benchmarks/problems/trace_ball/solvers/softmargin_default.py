"""What ``TraceBallRegressor(solver="auto")`` runs."""

from typing import Any

from benchmark_utils.ball_solvers import BallSolver
from softmargin.estimators.posing.auto import find_solver


class Solver(BallSolver):
    """The solver that the estimator chooses for the problem."""

    name = "softmargin"

    def method(self) -> Any:
        return find_solver("auto", self.problem)
