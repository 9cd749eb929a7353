"""Paper 001's Algorithm 1 with its own steps: the delta of Corollary 4.1.1 (maths: ball, eq. 17), or a multiple.

It is given what is not known beforehand: s is 1.2 times the number of weights in the solution; k = n s / d, eta = 1/2.
"""

import math
from typing import Any

import numpy as np

from benchmark_utils.ball_solvers import BallSolver
from softmargin.estimators.posing.auto import find_solver
from softmargin.matrices.operator import row_squares
from softmargin.run import Stop, solve
from softmargin.solvers import PrimalDualBFW
from softmargin.solvers.ball._paper_steps import ETA, paper_delta

_ROOM = 1.2
_TOL = 1e-6


class Solver(BallSolver):
    """The paper's algorithm; ``times`` multiplies its delta."""

    name = "paper"
    parameters = {"times": [1, 100]}

    def set_objective(self, problem: Any, C: float) -> None:
        """Keep the problem, and find out how many weights the solution has."""
        super().set_objective(problem, C)
        solution = solve(problem, find_solver("auto", problem), stop=Stop(_TOL), rng=0).point
        self.s = math.ceil(_ROOM * np.count_nonzero(solution.weights))

    def method(self) -> PrimalDualBFW:
        n, d = self.problem.X.shape
        k = min(max(1, round(n * self.s / d)), n)
        if self.times == 1:
            return PrimalDualBFW(s=self.s, k=k, steps="paper")
        delta = paper_delta(self.problem, k, float(row_squares(self.problem.X).max()), factor=4.0)
        return PrimalDualBFW(s=self.s, k=k, delta=self.times * delta, eta=ETA)
