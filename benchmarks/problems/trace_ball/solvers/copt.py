"""copt over its ``TraceBall``: gradient steps take all singular values of W, Frank-Wolfe one pair of the gradient."""

from typing import Any

from copt.constraint import TraceBall

from benchmark_utils.copt_solvers import CoptSolver


class Solver(CoptSolver):
    """One of two methods."""

    parameters = {"variant": ["accelerated", "vanilla"]}

    def ball(self) -> Any:
        return TraceBall(self.problem.ball.radius, self.problem.shape)
