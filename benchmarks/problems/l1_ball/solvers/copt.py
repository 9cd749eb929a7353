"""copt over its ``L1Ball``."""

from typing import Any

from copt.constraint import L1Ball

from benchmark_utils.copt_solvers import CoptSolver


class Solver(CoptSolver):
    """One of three methods."""

    parameters = {"variant": ["accelerated", "vanilla", "pairwise"]}

    def ball(self) -> Any:
        return L1Ball(self.problem.ball.radius)
