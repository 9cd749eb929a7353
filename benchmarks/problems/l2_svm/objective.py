"""Binary SVMs with squared hinge loss and an unpenalised bias.

    minimise over w, b:   1/2 |w|^2 + C/2 sum_i [1 - y_i (<w, phi(x_i)> + b)]_+^2

Data with more than two classes become the odd ones of them (in order of their labels) against the even ones.
"""

from typing import Any

import numpy as np

from benchmark_utils.kernel_objective import KernelObjective
from softmargin.matrices.gram import Gram
from softmargin.models import KernelExpansion
from softmargin.problems import L2SVM, BiasPoint


class Objective(KernelObjective):
    """Relative duality gap, primal value, bound and test accuracy."""

    name = "l2_svm"
    parameters = {"C": [1.0, 10.0], "kernel": ["rbf", "linear"]}

    def make_problem(self, gram: Gram, y: np.ndarray) -> L2SVM:
        """Labels become -1 and +1."""
        self.classes = np.unique(y)
        return L2SVM(gram, self.labels(y), C=self.C)

    def make_point(self, alpha: np.ndarray, bias: float, weights: np.ndarray | None = None) -> BiasPoint:
        """Dual variables, the bias, and the weights where a solver has them."""
        return BiasPoint(alpha, bias, weights)

    def zeros(self) -> np.ndarray:
        """One per sample."""
        return np.zeros(len(self.problem.y))

    def labels(self, y: np.ndarray) -> np.ndarray:
        """-1 and +1."""
        return np.where(np.searchsorted(self.classes, y) % 2, 1.0, -1.0)

    def accuracy(self, point: Any) -> float:
        """Return the share of test rows predicted right, by weights where there are any."""
        if point.weights is None or self.X_test is None:
            return super().accuracy(point)
        predicted = np.where(self.X_test @ point.weights + point.bias > 0.0, 1.0, -1.0)
        return float(np.mean(predicted == self.labels(self.y_test)))

    def model(self, point: Any) -> KernelExpansion:
        """One column of weights."""
        coef = (self.problem.y * point.alpha)[:, None]
        return self.expansion(np.array([-1.0, 1.0]), coef, np.array([point.bias]))
