"""What ``KernelSVC(solver="auto")`` runs where all rows can be looked at: exact block descent on the dual."""

from typing import Any

import numpy as np

from benchmark_utils.hinge_solvers import StepSolver, joint_of
from softmargin.problems import KernelHinge
from softmargin.solvers import KernelBlockDescent


class Solver(StepSolver):
    """The library's default settings."""

    name = "softmargin"

    def method(self) -> Any:
        return KernelBlockDescent()

    def stated(self, problem: KernelHinge) -> Any:
        return joint_of(problem)

    def expansion(self, problem: Any, state: Any) -> tuple[np.ndarray, np.ndarray]:
        alpha = self.method().point(problem, state).alpha
        difference = alpha[:, 1] - alpha[:, 0]
        support = np.flatnonzero(difference)
        return support, difference[support]
