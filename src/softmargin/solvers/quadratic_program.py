"""The dual as one quadratic program, handed to CVXPY and Clarabel: the baseline that the papers compare with.

    multiclass      alpha = Z B',  Z (n, k-1) free,  B (k, k-1) an orthonormal basis of {v : sum v = 0}
                                                                                               maths: kernel SVM, eq. 19
                    minimise 1/2 sum_c Z_c' K Z_c - sum_i alpha_{i, y_i}   over the dual rows
    linear          the same with 1/2 |[X, bias]'Z|^2: no kernel matrix
    free bias       minimise 1/2 (ya)'K(ya) + 1/2 sum_i a_i^2 / C_i - sum a   over a >= 0, y'a = 0
                                                                                             maths: squared hinge, eq. 2
                    for the hinge without the squares of a, and a <= C           maths: kernel SVM, section 9

Rows that sum to zero need one column fewer, and in an orthonormal basis <alpha, K alpha> remains a sum over columns. An
interior-point method needs the whole of K, and factors a dense matrix of n (k - 1) rows (n with a free bias) a dozen
times: it is for a few thousand rows, or for linear problems of a few thousand rows or features.

    paper 000       here
    I (x) K         one K per column of Z
    vec(alpha)      Z, by way of alpha = Z B'

Source: paper 000, Section 5. We differ: the paper's program has n k variables and n equations in addition.
"""

import importlib
import math
import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.core.deadline import check_time, time_left
from softmargin.core.errors import IncompatibleError, SoftmarginError
from softmargin.core.parameters import POSITIVE
from softmargin.core.protocols import BlockDualProblem, FreeBiasProblem, KernelBlockProblem, Problem
from softmargin.solvers.common.resumable import Resumable

__all__ = ["ProgramState", "QuadraticProgram"]

Array = NDArray[Any]
HingeProblem = BlockDualProblem | KernelBlockProblem | FreeBiasProblem
Program = tuple[Any, list[Any], Any]  # of CVXPY: objective, constraints, the dual variables as an expression


@dataclass
class ProgramState:
    """The solution, once it is computed."""

    alpha: Array  # (n, k), or (n,) with a free bias
    is_solved: bool = False


@dataclass(frozen=True)
class QuadraticProgram(Resumable):
    """Settings of the quadratic program. One step solves it; further steps change nothing.

    Parameters
    ----------
    tolerance : float
        Clarabel's tolerance on its gap and its constraints.

    A kernel matrix has to fit into its ``cache_size``. Clarabel keeps a limit on time between its steps only.
    """

    tolerance: float = 1e-9

    allowed: ClassVar = {"tolerance": (POSITIVE,)}

    needs: ClassVar[tuple[type, ...]] = (Problem,)
    state_type = ProgramState

    def start(self, problem: HingeProblem, init: Any, rng: np.random.Generator) -> ProgramState:
        """Refuse other problems; an interior-point method does not use a first point."""
        if not isinstance(problem, FreeBiasProblem | KernelBlockProblem | BlockDualProblem):
            raise IncompatibleError(
                f"QuadraticProgram needs a BlockDualProblem, a KernelBlockProblem or a FreeBiasProblem; "
                f"{type(problem).__name__} is none of them. Use a solver made for this problem."
            )
        _import_cvxpy()
        n = len(problem.y)
        shape = (n,) if isinstance(problem, FreeBiasProblem) else (n, problem.n_classes)
        return ProgramState(np.zeros(shape) if init is None else problem.feasible(init.alpha))

    def step(self, problem: HingeProblem, state: ProgramState) -> ProgramState:
        """Solve, and make the solution feasible, which it is only to the tolerance."""
        if state.is_solved:
            return state
        # Samples with C_i = 0 have alpha_i = 0: an interior-point method needs a set with an interior.
        rows = np.flatnonzero(problem.C > 0.0)
        alpha = np.zeros_like(state.alpha)
        if len(rows):
            if isinstance(problem, FreeBiasProblem):
                program = _free_bias_program(problem, rows)
            else:
                program = _multiclass_program(problem, rows)
            alpha[rows] = self._solution(*program)
        return ProgramState(problem.feasible(alpha), is_solved=True)

    def point(self, problem: HingeProblem, state: ProgramState) -> Any:
        """Return the dual variables."""
        return problem.point(state.alpha.copy())

    def estimate(self, problem: HingeProblem, state: ProgramState) -> float:
        """Return the relative gap."""
        if isinstance(problem, BlockDualProblem):
            certificate = problem.certificate(problem.point(state.alpha))
            return certificate.residual - certificate.rounding
        signed = problem.y * state.alpha if isinstance(problem, FreeBiasProblem) else state.alpha
        return problem.relative_gap(state.alpha, problem.gram.scores(signed))

    def _solution(self, objective: Any, constraints: list[Any], alpha: Any) -> Array:
        """Return alpha at the minimum."""
        cp = _import_cvxpy()
        program = cp.Problem(cp.Minimize(objective), constraints)
        settings = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), self.tolerance)
        if time_left() < math.inf:
            settings["time_limit"] = max(time_left(), 0.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "may be inaccurate": the certificate says how inaccurate
            with suppress(cp.error.SolverError):  # CVXPY's word for "no answer"
                program.solve(solver="CLARABEL", **settings)
        check_time()
        if alpha.value is None:
            raise SoftmarginError(
                f"Clarabel found no answer to the quadratic program (it said {program.status!r}). Scale the features, "
                "lower C, or use another solver."
            )
        return np.asarray(alpha.value)


def _kernel_matrix(problem: KernelBlockProblem | FreeBiasProblem, rows: Array) -> Array:
    """Return K over some rows, symmetric to the last digit."""
    most = problem.gram.largest_square
    if len(rows) > most:
        raise IncompatibleError(
            f"QuadraticProgram needs all of a kernel matrix of {len(rows)} rows; cache_size leaves room for {most}. "
            "Raise cache_size, or use another solver."
        )
    K: Array = problem.gram.square(rows).astype(np.float64)
    return np.asarray(0.5 * (K + K.T))


def _multiclass_program(problem: BlockDualProblem | KernelBlockProblem, rows: Array) -> Program:
    """Return the program of the given rows of a joint SVM."""
    cp = _import_cvxpy()
    n, k = len(rows), problem.n_classes
    y, C = problem.y[rows], problem.C[rows]
    basis = np.linalg.qr(np.column_stack([np.ones(k), np.eye(k, k - 1)]))[0][:, 1:]
    Z = cp.Variable((n, k - 1))
    alpha = Z @ basis.T
    is_own = np.arange(k) == y[:, None]
    entries = cp.reshape(alpha, (n * k,), order="C")
    own, rest = entries[np.flatnonzero(is_own)], entries[np.flatnonzero(~is_own)]
    is_joint = problem.multiclass == "crammer_singer"
    limit = own <= C if is_joint else rest >= -np.repeat(C, k - 1)
    if isinstance(problem, BlockDualProblem):
        quadratic = cp.sum_squares(problem.X[rows].astype(np.float64).T @ Z)
        quadratic += problem.bias**2 * cp.sum_squares(cp.sum(Z, axis=0))
    else:
        K = cp.psd_wrap(_kernel_matrix(problem, rows))
        quadratic = sum(cp.quad_form(Z[:, c], K) for c in range(k - 1))
    return quadratic / 2.0 - cp.sum(own), [rest <= 0.0, limit], alpha


def _free_bias_program(problem: FreeBiasProblem, rows: Array) -> Program:
    """Return the program of the given rows of a binary SVM."""
    cp = _import_cvxpy()
    y, upper = problem.y[rows], problem.upper[rows]
    K = _kernel_matrix(problem, rows) * (y * y[:, None])
    K[np.diag_indices_from(K)] += problem.inverse_C[rows]
    alpha = cp.Variable(len(rows))
    constraints = [alpha >= 0.0, *([y @ alpha == 0.0] if problem.has_bias else [])]
    if np.isfinite(upper).all():
        constraints.append(alpha <= upper)
    return cp.quad_form(alpha, cp.psd_wrap(K)) / 2.0 - cp.sum(alpha), constraints, alpha


def _import_cvxpy() -> Any:
    """Return the module, an optional dependency, imported where it is used."""
    try:
        importlib.import_module("clarabel")
        return importlib.import_module("cvxpy")
    except ImportError as problem:
        raise IncompatibleError(
            f"QuadraticProgram needs CVXPY and Clarabel, which cannot be imported ({problem}). Install them: "
            "pip install 'softmargin[bench]'; or use another solver."
        ) from problem
