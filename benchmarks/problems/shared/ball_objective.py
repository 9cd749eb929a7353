"""The objective of a loss over a ball: the problem's own certificate, outside every contender's time.

minimise over W in the ball:   (1/n) sum_i f(W' x_i, t_i) + l2 / 2 |W|^2 ,     l2 = ridge / n
"""

from functools import cached_property
from typing import Any

import numpy as np
from benchopt import BaseObjective

from benchmark_utils.ours import ENDLESS
from benchmark_utils.racing import GapReached
from softmargin.estimators.posing.auto import find_solver
from softmargin.problems import BallPoint
from softmargin.run import Stop, solve

TARGET = 1e-9


class BallObjective(BaseObjective):
    """Relative duality gap, primal value, bound, and how much of W is in use; a subclass states the problem."""

    min_benchopt_version = "1.10"
    requirements = ["pip::softmargin"]
    sampling_strategy = "tolerance"
    stopping_criterion = GapReached(gap=1e-6)
    bound_seconds = 60.0

    def get_objective(self) -> dict[str, Any]:
        """Give solvers the problem, and the radius in the place of a price."""
        return {"problem": self.problem, "C": self.radius}

    def evaluate_result(self, weights: Any, intercept: np.ndarray, dual: np.ndarray | None = None) -> dict[str, float]:
        """Evaluate a point."""
        certificate = self.problem.certificate(BallPoint(weights, intercept, dual))
        return {
            "value": certificate.residual,
            "primal": certificate.primal,
            "bound": certificate.bound,
            "in_use": self.in_use(weights),
        }

    def suboptimality(self, point: BallPoint) -> float:
        """Return (P - P*) / P*, never below zero."""
        return max(self.problem.primal(point).value - self.optimum.primal, 0.0) / self.optimum.primal

    @cached_property
    def optimum(self) -> Any:
        """The certificate of the best point that the default solver finds, about TARGET from the least objective."""
        stop = Stop(tol=TARGET, max_iter=ENDLESS, max_seconds=self.bound_seconds)
        return solve(self.problem, find_solver("auto", self.problem), stop=stop, rng=0).certificate

    def in_use(self, weights: Any) -> float:
        """Return how many entries are not zero."""
        return float(np.count_nonzero(weights))

    def get_one_result(self) -> dict[str, Any]:
        """Return the zero model: the worst that need be expected."""
        return self.problem.zero()._asdict()
