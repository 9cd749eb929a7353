"""Any solver of a free-bias problem, with its points rebuilt from the dual variables alone.

    inner solver    (alpha, bias, weights of its own)
    here            (alpha, the bias that minimises the primal at the scores of alpha)   maths: squared hinge, section 3

A kernel model is made of its dual variables, so its certificate has to be computed from these. A primal solver such as
``PrimalNewton`` also carries weights, which are more accurate than those that its dual variables imply: a certificate
at the weights would not hold for the model.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from softmargin.core.parameters import SOLVER_OBJECT, CheckedFields
from softmargin.core.protocols import Solver, SquaredHingeProblem

__all__ = ["AtDualPoint"]


@dataclass(frozen=True)
class AtDualPoint(CheckedFields):
    """Run a solver and return its points without their weights.

    Parameters
    ----------
    solver : Solver
        One whose points hold weights of their own, such as ``PrimalNewton``.
    """

    solver: Solver[Any, Any, Any]

    allowed: ClassVar = {"solver": (SOLVER_OBJECT,)}
    needs: ClassVar[tuple[type, ...]] = (SquaredHingeProblem,)

    def start(self, problem: SquaredHingeProblem, init: Any, rng: np.random.Generator) -> Any:
        """Start the inner solver."""
        return self.solver.start(problem, init, rng)

    def step(self, problem: SquaredHingeProblem, state: Any) -> Any:
        """Make one step of the inner solver."""
        return self.solver.step(problem, state)

    def point(self, problem: SquaredHingeProblem, state: Any) -> Any:
        """Return the dual variables with the best bias for them."""
        return problem.point(self.solver.point(problem, state).alpha)

    def estimate(self, problem: SquaredHingeProblem, state: Any) -> float:
        """Return the estimate of the inner solver."""
        return self.solver.estimate(problem, state)

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> Any:
        """Rebuild the state of the inner solver from a checkpoint."""
        return self.solver.restore(arrays, plain)
