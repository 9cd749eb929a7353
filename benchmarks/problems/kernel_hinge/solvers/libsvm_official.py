"""LIBSVM through its authors' Python package, with as much memory for kernel values as ours has."""

from typing import Any

import numpy as np
from libsvm.svm import svm_parameter, svm_problem
from libsvm.svmutil import svm_train
from scipy.sparse import csr_matrix

from benchmark_utils.hinge_solvers import LibsvmSolver
from benchmark_utils.kernel_objective import CACHE_SIZE
from softmargin.problems import KernelHinge


class Solver(LibsvmSolver):
    """LIBSVM as its authors have it."""

    name = "libsvm_official"
    requirements = ["pip::libsvm-official"]

    def set_objective(self, problem: KernelHinge, C: float) -> None:
        """Convert X to LIBSVM's nodes here, so that only training is timed."""
        super().set_objective(problem, C)
        self.nodes = svm_problem(problem.y, csr_matrix(problem.X, dtype=np.float64))

    def warm_up(self) -> None:
        """Nothing is compiled."""

    def run(self, eps: float) -> None:
        gamma, eps = float(self.problem.kernel.gamma), min(eps, self.eps_grid[0])
        options = f"-s 0 -t 2 -c {self.price!r} -g {gamma!r} -e {eps!r} -m {CACHE_SIZE!r} -q"
        self.model = svm_train(self.nodes, svm_parameter(options))

    def get_result(self) -> dict[str, Any]:
        """Turn the signs where its first class is -1."""
        sign = float(self.model.get_labels()[0])
        alpha = sign * np.ctypeslib.as_array(self.model.sv_coef[0], (self.model.get_nr_sv(),))
        samples = np.array(self.model.get_sv_indices(), dtype=np.intp) - 1
        return {"samples": samples, "alpha": alpha, "intercept": -sign * float(self.model.rho[0])}
