"""``SoftmaxRegression`` as a user calls it, timed as scikit-learn's estimators are: with checks and certificates."""

import warnings
from typing import Any

from benchmark_utils.racing import EpsSolver
from benchmark_utils.softmax_solvers import TOL_GRID
from softmargin import SoftmaxRegression

_ENDLESS = 10**9


class Solver(EpsSolver):
    """The estimator with the loosest tol of the grid that meets the level."""

    name = "softmargin_fit"
    requirements = ["pip::softmargin"]
    eps_grid = TOL_GRID
    is_peer = False

    def set_objective(self, problem: Any, C: float) -> None:
        """Keep the problem; X is given to ``fit`` as it comes."""
        self.problem, self.C = problem, C

    def warm_up(self) -> None:
        """Compile."""
        self._fit(self.problem, self.eps_grid[-1], max_iter=12)

    def run(self, eps: float) -> None:
        self.model = self._fit(self.problem, min(eps, self.eps_grid[0]))

    def get_result(self) -> dict[str, Any]:
        return {"weights": self.model.coef_.T, "intercept": self.model.intercept_}

    def _fit(self, problem: Any, eps: float, max_iter: int = _ENDLESS) -> SoftmaxRegression:
        model = SoftmaxRegression(
            C=self.C,
            penalty=problem.penalty,
            fit_intercept=problem.fit_intercept,
            tol=eps,
            max_iter=max_iter,
            random_state=self.seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # not certified: the objective measures it
            return model.fit(problem.X, problem.y)
