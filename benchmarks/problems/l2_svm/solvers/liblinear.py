"""LIBLINEAR's primal Newton method for squared hinge loss (``-s 2 -B 1 -R``), through its authors' Python package.

Its C is half of ours. ``-R`` leaves the bias free; its dual method, ``-s 1``, takes no ``-R``: with a penalised
bias it would solve another problem. Its weights are measured against a bound that it need not prove
(``benchmark_utils.primal_answers``).
"""

from typing import Any

import numpy as np
from liblinear.liblinearutil import parameter, train
from liblinear.liblinearutil import problem as LiblinearProblem
from scipy.sparse import csr_matrix

from benchmark_utils.primal_answers import evaluated, proven_dual
from benchmark_utils.racing import EpsSolver


class Solver(EpsSolver):
    """Trust-region Newton; eps bounds the gradient relative to that at zero."""

    name = "liblinear"
    requirements = ["pip::liblinear-official"]
    leans_on_bound = False
    test_config = {"objective": {"kernel": "linear"}}

    def skip(self, problem: Any, C: float) -> tuple[bool, str | None]:
        return (False, None) if problem.gram.is_linear else (True, "LIBLINEAR has no kernels")

    def set_objective(self, problem: Any, C: float) -> None:
        """Convert X to LIBLINEAR's nodes, and find the bound, here, so that only training is timed."""
        self.problem, self.C = problem, C
        self.nodes = LiblinearProblem(problem.y, csr_matrix(problem.gram.X, dtype=np.float64), bias=1)
        proven_dual(problem)

    def run(self, eps: float) -> None:
        eps = min(eps, self.eps_grid[0])
        self.model = train(self.nodes, parameter(f"-s 2 -c {0.5 * self.C!r} -e {eps!r} -B 1 -R -q"))

    def get_result(self) -> dict[str, Any]:
        """Take the weights of +1, which are its own or those of -1 with the other sign."""
        d = self.problem.gram.X.shape[1]
        column = self.model.get_labels()[0] * np.ctypeslib.as_array(self.model.w, (d + 1,))
        return evaluated(self.problem, column[:d].copy(), float(column[d]))
