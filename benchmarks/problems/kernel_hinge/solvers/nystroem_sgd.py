"""scikit-learn's ``Nystroem`` features and ``SGDClassifier`` with hinge loss: an expansion over the landmarks."""

from typing import Any

import numpy as np
from benchopt import BaseSolver
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import SGDClassifier

from benchmark_utils.hinge_solvers import NearBound
from softmargin.problems import KernelHinge


class Solver(BaseSolver):
    """A pass of SGD over the features is a step; they are made on the clock."""

    name = "nystroem_sgd"
    requirements = ["pip::scikit-learn"]
    parameters = {"n_components": [100, 500]}
    sampling_strategy = "iteration"
    stopping_criterion = NearBound(gap=1e-5)

    def set_objective(self, problem: KernelHinge, C: float) -> None:
        """Keep the problem."""
        self.problem = problem

    def get_next(self, n_iter: int) -> int:
        """Half as many again."""
        return n_iter + max(n_iter // 2, 1)

    def run(self, n_iter: int) -> None:
        problem = self.problem
        size = min(self.n_components, problem.n)
        self.map = Nystroem(gamma=problem.kernel.gamma, n_components=size, random_state=0)
        features = self.map.fit_transform(problem.X)
        self.linear = SGDClassifier(alpha=problem.lam, fit_intercept=False, random_state=0)
        for _ in range(max(n_iter, 1)):
            self.linear.partial_fit(features, problem.y, classes=[-1.0, 1.0])

    def get_result(self) -> dict[str, Any]:
        alpha = self.map.normalization_.T @ np.asarray(self.linear.coef_[0])
        return {"samples": self.map.component_indices_, "alpha": alpha, "intercept": 0.0}
