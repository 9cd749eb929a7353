"""LIBLINEAR's own Crammer-Singer machine (``-s 4``), through its authors' Python package."""

import ctypes
from typing import Any

import numpy as np
from liblinear.liblinearutil import parameter, train
from liblinear.liblinearutil import problem as LiblinearProblem
from scipy.sparse import csr_matrix

from benchmark_utils.racing import EpsSolver

_LIBC = ctypes.CDLL(None)  # LIBLINEAR shuffles with the C library's rand()


class Solver(EpsSolver):
    """Sequential dual method with shrinking; eps bounds its largest dual violation."""

    name = "liblinear"
    requirements = ["pip::liblinear-official"]
    test_config = {"objective": {"multiclass": "crammer_singer"}}

    def skip(self, problem: Any, C: float) -> tuple[bool, str | None]:
        if problem.multiclass != "crammer_singer":
            return True, f"LIBLINEAR has no {problem.multiclass} machine"
        return False, None

    def set_objective(self, problem: Any, C: float) -> None:
        """Convert X to LIBLINEAR's nodes here, so that only training is timed."""
        self.shape, self.C = (problem.X.shape[1], problem.n_classes), C
        self.problem = LiblinearProblem(problem.y.astype(np.float64), csr_matrix(problem.X, dtype=np.float64))

    def run(self, eps: float) -> None:
        _LIBC.srand(self.seed)
        self.model = train(self.problem, parameter(f"-s 4 -c {self.C!r} -e {min(eps, 1e30)!r} -B -1 -q"))

    def get_result(self) -> dict[str, Any]:
        """Put the columns, which come in the order classes first appeared, in the order of the codes."""
        d, k = self.shape
        columns = np.ctypeslib.as_array(self.model.w, (d * k,)).reshape(d, k)
        weights = np.empty((d, k))
        weights[:, self.model.get_labels()] = columns
        return {"weights": weights}
