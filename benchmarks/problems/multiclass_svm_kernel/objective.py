"""Kernel joint multiclass SVMs.

    minimise over W in the space of the kernel:   1/2 |W|^2 + C sum_i l_i(W' phi(x_i))

l: Weston-Watkins or Crammer-Singer; no intercept.
"""

from typing import Any

import numpy as np

from benchmark_utils.kernel_objective import KernelObjective
from softmargin.matrices.gram import Gram
from softmargin.models import KernelExpansion
from softmargin.problems import KernelMulticlassSVM, KernelPoint


class Objective(KernelObjective):
    """Relative duality gap, primal value, bound and test accuracy."""

    name = "multiclass_svm_kernel"
    parameters = {
        "C": [1.0, 10.0],
        "multiclass": ["weston_watkins", "crammer_singer"],
        "kernel": ["rbf"],
    }

    def make_problem(self, gram: Gram, y: np.ndarray) -> KernelMulticlassSVM:
        """Labels become codes 0 .. k-1."""
        self.classes, codes = np.unique(y, return_inverse=True)
        return KernelMulticlassSVM(gram, codes, C=self.C, multiclass=self.multiclass)

    def make_point(self, alpha: np.ndarray, intercept: np.ndarray | None = None) -> KernelPoint:
        """Dual variables say all, unless a solver has another intercept."""
        return KernelPoint(alpha, intercept)

    def zeros(self) -> np.ndarray:
        """One row a sample, one column a class."""
        return np.zeros((len(self.problem.y), self.problem.n_classes))

    def labels(self, y: np.ndarray) -> np.ndarray:
        """As they come."""
        return y

    def model(self, point: Any) -> KernelExpansion:
        """Two classes are one column of weights."""
        coef = point.alpha[:, 1:] - point.alpha[:, :1] if len(self.classes) == 2 else point.alpha
        return self.expansion(self.classes, coef, np.zeros(coef.shape[1]))
