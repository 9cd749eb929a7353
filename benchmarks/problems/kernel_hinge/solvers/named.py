"""Paper 002's method, its two baselines, and what makes them better (maths: sampled kernel, section 3).

``scs`` and ``wolfe`` have lengths of the kernel's space and an exact search; ``scs-paper`` and ``wolfe-paper`` are as
the paper has them, its errata corrected.
"""

from typing import Any

from benchmark_utils.hinge_solvers import METHODS, StepSolver


class Solver(StepSolver):
    """One of them."""

    name = "named"
    parameters = {"solver": list(METHODS)}

    def method(self) -> Any:
        return METHODS[self.solver]
