"""scikit-learn's ``SVC``, with as much memory for kernel values as ours has."""

from typing import Any

import numpy as np
from sklearn.svm import SVC

from benchmark_utils.hinge_solvers import LibsvmSolver
from benchmark_utils.kernel_objective import CACHE_SIZE


class Solver(LibsvmSolver):
    """LIBSVM as scikit-learn has it."""

    name = "sklearn_svc"
    requirements = ["pip::scikit-learn"]

    def warm_up(self) -> None:
        """Import what is needed."""

    def run(self, eps: float) -> None:
        problem = self.problem
        tol = min(eps, self.eps_grid[0])
        self.model = SVC(C=self.price, gamma=problem.kernel.gamma, tol=tol, cache_size=CACHE_SIZE)
        self.model.fit(problem.X, problem.y)

    def get_result(self) -> dict[str, Any]:
        alpha = np.asarray(self.model.dual_coef_[0])
        return {"samples": self.model.support_, "alpha": alpha, "intercept": float(self.model.intercept_[0])}
