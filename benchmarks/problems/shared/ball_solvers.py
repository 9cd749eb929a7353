"""Solvers of a loss over a ball: each begins without X by columns."""

import copy
from typing import Any

from benchmark_utils.ours import SoftmarginSolver


class BallSolver(SoftmarginSolver):
    """One solver of the library; a subclass says which settings."""

    def fresh(self) -> Any:
        """Return the problem without X by columns: building them is part of the time of the solvers that use them."""
        again = copy.copy(self.problem)
        again.__dict__.pop("columns", None)
        return again
