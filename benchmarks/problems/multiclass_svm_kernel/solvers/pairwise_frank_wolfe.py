"""Pairwise Frank-Wolfe, one row at a time."""

from benchmark_utils.kernel_solvers import KernelSolver
from softmargin.solvers import PairwiseFrankWolfe


class Solver(KernelSolver):
    """Weight goes from the worst corner of a row to its best."""

    name = "pairwise_frank_wolfe"

    def method(self) -> PairwiseFrankWolfe:
        return PairwiseFrankWolfe()
