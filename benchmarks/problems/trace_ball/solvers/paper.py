"""Paper 001's Algorithm 2 with its own steps: the delta of Theorem 4.3, or a multiple.

It is given what is not known beforehand, the rank s of the solution; k = n s (1 / c + 1 / d) rows move, as the paper
recommends, eta = 1/2.
"""

from typing import Any

import numpy as np

from benchmark_utils.ball_solvers import BallSolver
from softmargin.estimators.posing.auto import find_solver
from softmargin.run import Stop, solve
from softmargin.solvers import LowRankPDBFW
from softmargin.solvers.ball._paper_steps import ETA

_TOL = 1e-6


class Solver(BallSolver):
    """The paper's algorithm; ``times`` multiplies its delta."""

    name = "paper"
    parameters = {"times": [1, 100]}

    def set_objective(self, problem: Any, C: float) -> None:
        """Keep the problem, and find out the rank of the solution, and delta."""
        super().set_objective(problem, C)
        rank = solve(problem, find_solver("auto", problem), stop=Stop(_TOL), rng=0).point.weights.rank
        n, (d, k) = len(problem.target), problem.shape
        self.settings = {"rank": rank, "rows": min(max(1, round(n * rank * (1.0 / k + 1.0 / d))), n)}
        self.delta = n * LowRankPDBFW(**self.settings, steps="paper").start(problem, None, np.random.default_rng(0)).r

    def method(self) -> LowRankPDBFW:
        if self.times == 1:
            return LowRankPDBFW(**self.settings, steps="paper")
        return LowRankPDBFW(**self.settings, delta=self.times * self.delta, eta=ETA)
