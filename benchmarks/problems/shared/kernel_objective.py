"""The objective of kernel SVMs: the problem's own certificate, outside every contender's time.

The objective has a kernel matrix of its own. A solver gets the same problem with no kernel value computed yet
(``fresh``): the time for its kernel values is part of its time, whatever ran before it.
"""

import copy
from abc import abstractmethod
from typing import Any

import numpy as np
from benchopt import BaseObjective

from benchmark_utils.racing import GapReached
from softmargin.kernels import find_gamma, make_kernel
from softmargin.matrices.gram import Gram
from softmargin.models import KernelExpansion

CACHE_SIZE = 1000.0  # megabytes: the default of KernelSVC
_FEW = 8  # rows of every class that are enough to compile everything


class KernelObjective(BaseObjective):
    """Relative duality gap, primal value, bound and test accuracy; a subclass states the problem."""

    min_benchopt_version = "1.10"
    requirements = ["pip::softmargin"]
    sampling_strategy = "tolerance"
    stopping_criterion = GapReached(gap=1e-6)
    test_dataset_name = "blobs"

    def set_data(
        self, X: Any, y: np.ndarray, X_test: Any = None, y_test: np.ndarray | None = None, gamma: Any = "scale"
    ) -> None:
        """State the problem."""
        kernel = make_kernel(self.kernel, gamma=find_gamma(gamma, X))
        self.problem = self.make_problem(Gram(kernel, X, cache_size=CACHE_SIZE), y)
        self.X_test, self.y_test = X_test, y_test

    @abstractmethod
    def make_problem(self, gram: Gram, y: np.ndarray) -> Any:
        """Return the problem, and keep what the labels mean."""

    @abstractmethod
    def make_point(self, **result: Any) -> Any:
        """Return the point that a solver's result stands for."""

    @abstractmethod
    def model(self, point: Any) -> KernelExpansion:
        """Return the classifier of a point."""

    @abstractmethod
    def labels(self, y: np.ndarray) -> np.ndarray:
        """Return labels as the model predicts them."""

    def get_objective(self) -> dict[str, Any]:
        """Give solvers the problem and C; they work on a fresh copy."""
        return {"problem": self.problem, "C": self.C}

    def evaluate_result(self, **result: Any) -> dict[str, float]:
        """Evaluate a point."""
        point = self.make_point(**result)
        certificate = self.problem.certificate(point)
        return {
            "value": certificate.residual,
            "primal": certificate.primal,
            "bound": certificate.bound,
            "accuracy": self.accuracy(point),
        }

    def accuracy(self, point: Any) -> float:
        """Return the share of test rows predicted right, NaN where there is no test part."""
        if self.X_test is None:
            return float("nan")
        return float(np.mean(self.model(point).predict(self.X_test) == self.labels(self.y_test)))

    def expansion(self, classes: np.ndarray, coef: np.ndarray, intercept: np.ndarray) -> KernelExpansion:
        """Return the classifier with these weights, (n, k) or (n, 1), of the training samples."""
        gram = self.problem.gram
        support = np.flatnonzero(coef.any(axis=1))
        return KernelExpansion(classes, gram.kernel, gram.X[support], support, gram.n, coef[support], intercept)

    def get_one_result(self) -> dict[str, Any]:
        """Return the zero model: the worst that need be expected."""
        return self.problem.point(self.problem.feasible(self.zeros()))._asdict()

    @abstractmethod
    def zeros(self) -> np.ndarray:
        """Return dual variables of zero."""


def fresh(problem: Any, *, cache_size: float = CACHE_SIZE) -> Any:
    """Return the same problem with no kernel value computed yet; its certificates come from the original."""
    again = copy.copy(problem)
    again.gram = Gram(problem.gram.kernel, problem.gram.X, bias=problem.gram.bias, cache_size=cache_size)
    again.certificate = problem.certificate
    return again


def few_rows(problem: Any) -> Any:
    """Return a small problem with some rows of every class, on the same types of arrays."""
    index = np.sort(np.concatenate([np.flatnonzero(problem.y == label)[:_FEW] for label in np.unique(problem.y)]))
    few = copy.copy(problem)
    few.gram = Gram(problem.gram.kernel, problem.gram.X[index], bias=problem.gram.bias, cache_size=CACHE_SIZE)
    few.y, few.C = problem.y[index], problem.C[index]
    return few
