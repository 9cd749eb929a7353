"""The objective of multinomial logistic regression: how far a model's objective is above the least one.

    minimise over W in R^{d x k}, b in R^k:   C sum_i [ log sum_c exp(s_ic) - s_{i,y_i} ] + g(W),    s_i = W' x_i + b

    l2            g = 1/2 |W|^2
    l1            g = |W|_1
    elastic_net   g = 1/2 |W|_1 + 1/4 |W|^2          scikit-learn's l1_ratio = 1/2
    squared_norm  g = |W|^2                           what paper 003 adds for the sake of SVRG

All classes have weights, the intercept is not penalised; two classes have one column of weights. The least objective
is known from ``benchmark_utils.optimum``. All of this happens outside the solver's time.
"""

from typing import Any

import numpy as np
from benchopt import BaseObjective

from benchmark_utils.optimum import OPTIMUM_SECONDS, Optimum, optimum_of
from benchmark_utils.racing import GapReached
from softmargin.penalties import L1, L2, ElasticNet
from softmargin.problems import CompositePoint, softmax_problem

PENALTIES = {"l2": L2(1.0), "l1": L1(1.0), "elastic_net": ElasticNet(0.5, 0.5), "squared_norm": L2(2.0)}


class Objective(BaseObjective):
    """Relative suboptimality (F - F*) / F*, objective, weights in use and test accuracy."""

    name = "softmax"
    min_benchopt_version = "1.10"
    requirements = ["pip::softmargin"]
    parameters = {"penalty": ["l2", "l1", "elastic_net"], "C": [0.1, 1.0, 10.0], "fit_intercept": [True]}
    sampling_strategy = "tolerance"
    stopping_criterion = GapReached(gap=1e-6)
    test_dataset_name = "blobs"
    bound_seconds = OPTIMUM_SECONDS

    def set_data(self, X: Any, y: np.ndarray, X_test: Any = None, y_test: np.ndarray | None = None) -> None:
        """State the problem: labels become codes 0 .. k-1."""
        self.classes, codes = np.unique(y, return_inverse=True)
        self.problem = softmax_problem(
            X, codes, C=self.C, penalty=PENALTIES[self.penalty], fit_intercept=self.fit_intercept
        )
        self.X_test, self.y_test = X_test, y_test
        self._bound: Optimum | None = None

    def get_objective(self) -> dict[str, Any]:
        """Give solvers the problem (X, y as codes, prices, penalty) and C."""
        return {"problem": self.problem, "C": self.C}

    @property
    def bound(self) -> Optimum:
        """The least objective; computed when it is first needed, then kept on disk."""
        if self._bound is None:
            self._bound = optimum_of(self.problem, max_seconds=self.bound_seconds)
        return self._bound

    def suboptimality(self, point: CompositePoint) -> float:
        """Return (F - F*) / F*, never below zero."""
        return self.bound.relative(self.problem.primal(point).value)

    def evaluate_result(self, weights: np.ndarray, intercept: np.ndarray) -> dict[str, float]:
        """Evaluate weights of shape (d, k) and intercepts of shape (k,); k = 1 for two classes."""
        point = CompositePoint(weights, intercept)
        primal = self.problem.primal(point).value
        return {
            "value": self.bound.relative(primal),
            "primal": primal,
            "in_use": float(np.mean(weights != 0.0)),
            "accuracy": self.accuracy(point),
        }

    def accuracy(self, point: CompositePoint) -> float:
        """Return the share of test rows predicted right, NaN where there is no test part."""
        if self.X_test is None:
            return float("nan")
        scores = self.X_test @ point.weights + point.intercept
        codes = scores[:, 0] > 0.0 if self.problem.is_pinned else np.argmax(scores, axis=1)
        return float(np.mean(self.classes[codes.astype(np.intp)] == self.y_test))

    def get_one_result(self) -> dict[str, np.ndarray]:
        """Return the zero model: the worst that need be expected."""
        return self.problem.zero()._asdict()
