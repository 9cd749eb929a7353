"""Each solver of the library by its name, with its default settings."""

from typing import Any

from benchmark_utils.softmax_solvers import SoftmaxSolver
from softmargin import solvers


class Solver(SoftmaxSolver):
    """One of them."""

    name = "named"
    parameters = {
        "solver": [
            *("Lbfgs", "NewtonCG", "SoftmaxNewton", "TrustNewton", "SoftmaxDualDescent"),  # l2 alone
            *("ProxNewton", "MMDescent", "AcceleratedGradient", "Svrg"),
        ]
    }

    def method(self) -> Any:
        return getattr(solvers, self.solver)()
