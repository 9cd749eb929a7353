"""scikit-learn's ``LogisticRegression``, with each of its solvers of the multinomial model.

On sparse X its saga moves the intercept a hundred times more slowly than the weights (``SPARSE_INTERCEPT_DECAY``), and
then needs very many passes. ``saga-dense`` is given X as an array instead, made off the clock, where memory allows it.
"""

import warnings
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.linear_model import LogisticRegression

from benchmark_utils.racing import EpsSolver
from benchmark_utils.softmax_solvers import TOL_GRID, few_rows

_ENDLESS = 10**6  # tol alone ends a fit
_DENSE = "-dense"
_LARGEST_ARRAY = 10**8  # numbers
_LARGEST_HESSIAN = 20_000  # weights: beyond this newton-cholesky's matrix takes more than 3 GB


class Solver(EpsSolver):
    """The estimator as a user calls it, with the loosest tol of the grid that meets the level."""

    name = "sklearn"
    requirements = ["pip::scikit-learn"]
    parameters = {"solver": ["lbfgs", "newton-cg", "newton-cholesky", "saga", "saga-dense"]}
    eps_grid = TOL_GRID

    def skip(self, problem: Any, C: float) -> tuple[bool, str | None]:
        if problem.penalty.l1 > 0.0 and not self.solver.startswith("saga"):
            return True, f"{self.solver} knows no l1 penalty"
        if self.solver.endswith(_DENSE) and (not issparse(problem.X) or np.prod(problem.X.shape) > _LARGEST_ARRAY):
            return True, "X is an array, or too large to be one"
        n_weights = (problem.X.shape[1] + 1) * problem.n_columns
        if self.solver == "newton-cholesky" and n_weights > _LARGEST_HESSIAN:
            return True, f"a Hessian of {n_weights} rows is too large"
        return False, None

    def set_objective(self, problem: Any, C: float) -> None:
        """Keep the problem; X is given to ``fit`` as it comes, or as an array."""
        self.problem, self.C = problem, C
        self.X = problem.X.toarray() if self.solver.endswith(_DENSE) else problem.X

    def warm_up(self) -> None:
        """Import what is needed: one step will do, which with many weights and a Hessian takes long enough."""
        few = few_rows(self.problem)
        self._fit(few.X, few.y, self.eps_grid[0], steps=1)

    def run(self, eps: float) -> None:
        self.model = self._fit(self.X, self.problem.y, min(eps, self.eps_grid[0]))

    def get_result(self) -> dict[str, Any]:
        return {"weights": self.model.coef_.T, "intercept": self.model.intercept_}

    def _fit(self, X: Any, y: np.ndarray, eps: float, steps: int = _ENDLESS) -> LogisticRegression:
        penalty = self.problem.penalty
        strength = penalty.l1 + penalty.l2
        model = LogisticRegression(
            C=self.C / strength,
            l1_ratio=penalty.l1 / strength,
            solver=self.solver.removesuffix(_DENSE),
            fit_intercept=self.problem.fit_intercept,
            tol=eps,
            max_iter=steps,
            random_state=self.seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # short of memory or of progress: the objective measures it
            return model.fit(X, y)
