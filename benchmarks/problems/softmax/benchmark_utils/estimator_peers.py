"""Estimators of other libraries as a user calls them: the whole fit is timed, with the loosest setting that will do.

They state the objective with the mean of the losses and one strength: ours divided by C n is theirs.

    ours:     C sum_i l_i + l1 |W|_1 + l2 / 2 |W|^2
    theirs:   (1/n) sum_i l_i + strength ( ratio |W|_1 + (1 - ratio) / 2 |W|^2 )
    strength = (l1 + l2) / (C n) ,    ratio = l1 / (l1 + l2)
"""

import warnings
from abc import abstractmethod
from typing import Any

import numpy as np

from benchmark_utils.racing import EpsSolver
from benchmark_utils.softmax_solvers import TOL_GRID, few_rows


class EstimatorPeer(EpsSolver):
    """One estimator; a subclass makes it, and says what it cannot do."""

    eps_grid = TOL_GRID

    @abstractmethod
    def estimator(self, eps: float) -> Any:
        """Return the unfitted estimator for ``self.problem``."""

    def set_objective(self, problem: Any, C: float) -> None:
        """Keep the problem, and X as it is given to ``fit``."""
        self.problem, self.C = problem, C
        self.X = self.data(problem.X)

    def data(self, X: Any) -> Any:
        """Return X in the layout that the estimator needs: as it comes."""
        return X

    @property
    def strength(self) -> float:
        """The weight of the penalty beside the mean of the losses."""
        return (self.problem.penalty.l1 + self.problem.penalty.l2) / (self.C * len(self.problem.y))

    @property
    def l1_ratio(self) -> float:
        """The share of |W|_1 in it."""
        penalty = self.problem.penalty
        return penalty.l1 / (penalty.l1 + penalty.l2)

    def warm_up(self) -> None:
        """Import and compile what is needed."""
        few = few_rows(self.problem)
        self._fit(self.data(few.X), few.y, self.eps_grid[0])

    def run(self, eps: float) -> None:
        self.model = self._fit(self.X, self.problem.y, min(eps, self.eps_grid[0]))

    def get_result(self) -> dict[str, Any]:
        """Return weights (d, k) and intercepts (k,); k = 1 for two classes."""
        weights = self.weights(self.model)
        intercept = np.ravel(self.model.intercept_) if self.problem.fit_intercept else np.zeros(weights.shape[1])
        return {"weights": weights, "intercept": intercept}

    def weights(self, model: Any) -> np.ndarray:
        """Return the weights of a fitted model as (d, k)."""
        return model.coef_.T

    def _fit(self, X: Any, y: np.ndarray, eps: float) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # short of progress or of passes: the objective measures it
            return self.estimator(eps).fit(X, y)
