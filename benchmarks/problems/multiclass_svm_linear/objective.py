"""The objective of linear joint multiclass SVMs: how far a model is from the optimum, and how well it predicts.

    minimise over W in R^{d x k}:   1/2 |W|^2 + C sum_i l_i(W' x_i)    l: Weston-Watkins or Crammer-Singer; no intercept

Dual variables, where a solver has them, prove its own gap. Where there are only weights, the bound comes from
``benchmark_utils.bounds``. All of this happens outside the solver's time.
"""

from typing import Any

import numpy as np
from benchopt import BaseObjective

from benchmark_utils.bounds import BOUND_SECONDS, ProvenBound, proven_bound
from benchmark_utils.racing import GapReached
from softmargin.core.certificate import duality_gap
from softmargin.core.rounding import Rounded
from softmargin.problems import MulticlassSVM


class Objective(BaseObjective):
    """Relative duality gap (P(W) - bound) / |P(W)|, primal value, bound and test accuracy."""

    name = "multiclass_svm_linear"
    min_benchopt_version = "1.10"
    requirements = ["pip::softmargin"]
    parameters = {
        "C": [0.125, 1.0],
        "multiclass": ["weston_watkins", "crammer_singer"],
    }
    sampling_strategy = "tolerance"
    stopping_criterion = GapReached()
    test_dataset_name = "blobs"
    bound_seconds = BOUND_SECONDS

    def set_data(self, X: Any, y: np.ndarray, X_test: Any = None, y_test: np.ndarray | None = None) -> None:
        """State the problem: labels become codes 0 .. k-1."""
        self.classes, codes = np.unique(y, return_inverse=True)
        self.problem = MulticlassSVM(X, codes, C=self.C, multiclass=self.multiclass)
        self.X_test, self.y_test = X_test, y_test
        self._bound: ProvenBound | None = None

    def get_objective(self) -> dict[str, Any]:
        """Give solvers the problem (X, y as codes, multiclass) and C."""
        return {"problem": self.problem, "C": self.C}

    @property
    def bound(self) -> ProvenBound:
        """The best proven bound of this problem; computed when it is first needed, then kept on disk."""
        if self._bound is None:
            self._bound = proven_bound(self.problem, self.C, max_seconds=self.bound_seconds)
        return self._bound

    def evaluate_result(self, weights: np.ndarray, alpha: np.ndarray | None = None) -> dict[str, float]:
        """Evaluate weights of shape (d, k), by their own dual variables (n, k) where there are any."""
        if alpha is None:
            with_bias = np.vstack([weights, np.zeros((1, weights.shape[1]))])
            certificate = duality_gap(self.problem.primal(with_bias), Rounded(self.bound.bound))
        else:
            point = self.problem.point(alpha)
            weights = point.weights[:-1]
            certificate = self.problem.certificate(point)
        return {
            "value": certificate.residual,
            "primal": certificate.primal,
            "bound": certificate.bound,
            "accuracy": self.accuracy(weights),
        }

    def accuracy(self, weights: np.ndarray) -> float:
        """Return the share of test rows predicted right, NaN where there is no test part."""
        if self.X_test is None:
            return float("nan")
        predicted = self.classes[np.argmax(self.X_test @ weights, axis=1)]
        return float(np.mean(predicted == self.y_test))

    def get_one_result(self) -> dict[str, np.ndarray]:
        """Return the zero model: the worst that need be expected."""
        return {"weights": np.zeros((self.problem.X.shape[1], self.problem.n_classes))}
