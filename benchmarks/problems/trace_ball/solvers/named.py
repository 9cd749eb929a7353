"""Each solver of the library by its name, with its default settings."""

from typing import Any

from benchmark_utils.ball_solvers import BallSolver
from softmargin.estimators.posing.auto import find_solver


class Solver(BallSolver):
    """One of them."""

    name = "named"
    parameters = {
        "solver": [
            "accelerated_gradient",
            "primal_dual_bfw",
            "frank_wolfe",
            "block_frank_wolfe",
            "stochastic_frank_wolfe",
            "svrg",
            "scgs",
            "storc",
        ]
    }

    def method(self) -> Any:
        return find_solver(self.solver, self.problem)
