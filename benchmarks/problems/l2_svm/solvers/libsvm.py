"""LIBSVM, as scikit-learn's ``SVC``: squared hinge loss is a hard margin on K + I / C (maths: squared hinge, eq. 4)."""

from typing import Any

import numpy as np
from sklearn.svm import SVC

from benchmark_utils.kernel_objective import CACHE_SIZE, few_rows, fresh
from benchmark_utils.racing import EpsSolver

_HARD = 1e10  # its C: no dual variable comes near
_NO_STORE = 1e-6  # megabytes: the rows of K are handed over, not kept


class Solver(EpsSolver):
    """SMO with shrinking on the whole of K + I / C, which is computed as ours is, on the clock."""

    name = "libsvm"
    requirements = ["pip::scikit-learn"]
    leans_on_bound = False

    def set_objective(self, problem: Any, C: float) -> None:
        self.problem = problem

    def warm_up(self) -> None:
        self._fit(few_rows(self.problem), self.eps_grid[0])

    def run(self, eps: float) -> None:
        self.model = self._fit(fresh(self.problem, cache_size=_NO_STORE), min(eps, self.eps_grid[0]))

    def get_result(self) -> dict[str, Any]:
        """Return its dual variables with the best bias for them."""
        alpha = np.zeros(len(self.problem.y))
        alpha[self.model.support_] = np.abs(self.model.dual_coef_[0])
        return self.problem.point(self.problem.feasible(alpha))._asdict()

    def _fit(self, problem: Any, eps: float) -> SVC:
        K = problem.gram.rows(np.arange(problem.gram.n)).astype(np.float64, copy=False)
        K[np.diag_indices_from(K)] += problem.inverse_C
        return SVC(kernel="precomputed", C=_HARD, tol=eps, cache_size=CACHE_SIZE).fit(K, problem.y)
