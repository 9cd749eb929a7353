"""scikit-learn's ``SVC``. It has a bias that nobody penalises: f with it may be below the least f without."""

from typing import Any

import numpy as np
from sklearn.svm import SVC

from benchmark_utils.racing import EpsSolver, GapReached
from softmargin.problems import KernelHinge


class Solver(EpsSolver):
    """LIBSVM on all rows, C = 1 / (lam n)."""

    name = "sklearn_svc"
    requirements = ["pip::scikit-learn"]
    stopping_criterion = GapReached(gap=1e-5)

    def set_objective(self, problem: KernelHinge) -> None:
        """Keep the problem."""
        self.problem = problem

    def run(self, eps: float) -> None:
        problem = self.problem
        price = 1.0 / (problem.lam * problem.n)
        self.model = SVC(C=price, gamma=problem.kernel.gamma, tol=min(eps, self.eps_grid[0])).fit(problem.X, problem.y)

    def get_result(self) -> dict[str, Any]:
        alpha = np.asarray(self.model.dual_coef_[0])
        return {"samples": self.model.support_, "alpha": alpha, "intercept": float(self.model.intercept_[0])}
