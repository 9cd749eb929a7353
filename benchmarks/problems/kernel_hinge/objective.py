"""The binary kernel SVM with hinge loss and no bias, as paper 002 states it, with the lam it leaves out.

    minimise over w:   f(w) = lam / 2 |w|^2 + (1/n) sum_i [1 - y_i <w, phi(x_i)>]_+

A model is an expansion over any samples. f is computed on all rows; how far it is above what no model can be
below is known from the dual bound of a long run of block descent.
"""

from functools import cached_property
from typing import Any

import numpy as np
from benchopt import BaseObjective

from benchmark_utils.hinge_solvers import joint_of
from benchmark_utils.ours import ENDLESS
from softmargin.kernels import make_kernel
from softmargin.models import KernelExpansion
from softmargin.problems import KernelHinge
from softmargin.run import Stop, solve
from softmargin.solvers import KernelPairDescent

TARGET = 1e-7


class Objective(BaseObjective):
    """(f - bound) / f, f, the size of the expansion and test accuracy."""

    name = "kernel_hinge"
    min_benchopt_version = "1.10"
    requirements = ["pip::softmargin"]
    parameters = {"lam": [1e-3, 1e-4], "kernel": ["rbf"]}
    test_dataset_name = "made_up"
    bound_seconds = 120.0

    def set_data(self, X: Any, y: np.ndarray, X_test: Any, y_test: np.ndarray) -> None:
        """State the problem, gamma = 1 / d."""
        self.problem = KernelHinge(make_kernel(self.kernel, gamma=1.0 / X.shape[1]), X, y, lam=self.lam)
        self.X_test, self.y_test = X_test, y_test
        self.__dict__.pop("bound", None)

    def get_objective(self) -> dict[str, Any]:
        """Give solvers the problem, and lam in the place of a price."""
        return {"problem": self.problem, "C": self.lam}

    @cached_property
    def bound(self) -> float:
        """What no f can be below, proven; within TARGET of the least f, or what the time allows."""
        stop = Stop(tol=TARGET, max_iter=ENDLESS, max_seconds=self.bound_seconds)
        result = solve(joint_of(self.problem), KernelPairDescent(), stop=stop, rng=0)
        return 2.0 * self.problem.lam * result.certificate.bound

    def evaluate_result(self, samples: np.ndarray, alpha: np.ndarray, intercept: float) -> dict[str, float]:
        """Evaluate an expansion; one with an unpenalised intercept may be below the bound."""
        problem = self.problem
        points = problem.points(samples)
        scores = problem.sum_over(points, alpha, slice(None))
        value = problem.value(
            float(alpha @ scores[samples]), scores + intercept, problem.y, problem.shares(np.arange(problem.n))
        )
        return {
            "value": (value - self.bound) / value,
            "primal": value,
            "in_use": float(np.count_nonzero(alpha)),
            "accuracy": self.accuracy(samples, alpha, intercept),
        }

    def accuracy(self, samples: np.ndarray, alpha: np.ndarray, intercept: float) -> float:
        """Return the share of test rows predicted right."""
        X, kernel, n = self.problem.X, self.problem.kernel, self.problem.n
        model = KernelExpansion(
            np.array([-1.0, 1.0]), kernel, X[samples], samples, n, alpha[:, None], np.array([intercept])
        )
        return float(np.mean(model.predict(self.X_test) == self.y_test))

    def get_one_result(self) -> dict[str, Any]:
        """Return the zero model: the worst that need be expected."""
        return {"samples": np.zeros(1, dtype=np.intp), "alpha": np.zeros(1), "intercept": 0.0}
