"""What ``KernelSVC(solver="auto")`` runs where all rows can be used: descent by pairs on the dual."""

from typing import Any

import numpy as np

from benchmark_utils.hinge_solvers import StepSolver, joint_of
from benchmark_utils.kernel_objective import few_rows, fresh
from benchmark_utils.ours import SoftmarginSolver
from softmargin.problems import KernelHinge
from softmargin.solvers import KernelPairDescent


class Solver(StepSolver):
    """The library's default settings."""

    name = "softmargin"

    def method(self) -> Any:
        return KernelPairDescent()

    def stated(self, problem: KernelHinge) -> Any:
        return joint_of(problem)

    def set_objective(self, problem: KernelHinge, C: float) -> None:
        """Keep the problem, also as the joint SVM of two classes."""
        super().set_objective(problem, C)
        self.joint = joint_of(problem)

    def fresh(self) -> Any:
        """Return the joint problem without kernel values; the objective has its own."""
        return fresh(self.joint)

    def few(self) -> Any:
        """Return a small joint problem."""
        return few_rows(self.joint)

    def warm_up(self) -> None:
        """Compile what a curve needs, and what a race needs."""
        super().warm_up()
        SoftmarginSolver.warm_up(self)

    def expansion(self, problem: Any, state: Any) -> tuple[np.ndarray, np.ndarray]:
        alpha = self.method().point(problem, state).alpha
        difference = alpha[:, 1] - alpha[:, 0]
        support = np.flatnonzero(difference)
        return support, difference[support]
