"""The whole dual as one quadratic program: the baseline of paper 000."""

from benchmark_utils.kernel_solvers import ProgramSolver


class Solver(ProgramSolver):
    """CVXPY and Clarabel."""

    name = "quadratic_program"
