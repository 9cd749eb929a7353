"""Newton's method for multinomial regression with a ridge, by Cholesky: for Hessians of at most some hundred unknowns.

    minimise over W, b:   F(W, b) = sum_i C_i l_i(W' x_i + b) + ridge / 2 |W|^2                    maths: softmax, eq. 1
    H D = -G ,            H = sum_i C_i (diag(p_i) - p_i p_i') (x) a_i a_i' + ridge ,  a_i = [x_i, 1]     eq. 26

One step solves for D and minimises F along it. Data with fewer samples than features are rotated first
(common.rotation), so that no class has more weights than there are samples. H is damped where the step is far too
long, or where rounding leaves no Cholesky factor.

H[c size + j, c' size + j'] goes class after class, the intercept last in every class:

    two classes     A' diag(C p (1 - p)) A, entry by entry where rows are thin, else by BLAS
    more            blocks of B_c' A, minus B'B;   A with rows sqrt(C_i) a_i,  B_c = diag(p_c) A,  B = [B_1 ... B_k]
    few numbers     in one compiled loop; another one solves for D (_few_numbers)
    few features    products of two features, kept, times those of two classes: a quarter of the multiplications

A common shift of the intercepts of more than two classes leaves F unchanged: H gets a curvature in that direction, to
which the gradient is orthogonal.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from softmargin.backends.lanes import zeros
from softmargin.core.deadline import check_time, factor_work
from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import RidgeProblem
from softmargin.core.threads import wide_blas
from softmargin.matrices.operator import row_slices
from softmargin.matrices.products import adjoint
from softmargin.matrices.rows import add_squares, as_rows
from softmargin.problems.composite import CompositePoint
from softmargin.solvers.common.newton_search import NewtonSearch
from softmargin.solvers.common.rotation import find_rotation
from softmargin.solvers.softmax._feature_pairs import fill_from_pairs
from softmargin.solvers.softmax._few_numbers import fill_in_loops, newton_step
from softmargin.solvers.softmax._ridge_objective import Damping, RidgeLine, RidgeObjective, RidgeSolver, RidgeState

__all__ = ["SoftmaxNewton", "SoftmaxNewtonState", "SoftmaxNewtonTuning", "fill_hessian"]

Array = NDArray[Any]
BLOCK = 1 << 16  # least numbers of scaled rows at once: they stay in the cache


class SoftmaxNewtonTuning(NamedTuple):
    """The parts of the method, and its limit."""

    max_unknowns: int = 10_000  # by hand: a Hessian of so many takes 800 MB
    search: NewtonSearch = NewtonSearch()
    damping: Damping = Damping()


@dataclass
class SoftmaxNewtonState(RidgeState):
    """A point in rotated coordinates, and the damping of the next Hessian."""

    damping: float = 0.0
    hessian: Array | None = field(init=False, repr=False, default=None)  # scratch


@dataclass(frozen=True)
class SoftmaxNewton(RidgeSolver[SoftmaxNewtonState]):
    """Newton's method with the whole Hessian; it has no settings. One step is one iteration."""

    tuning: SoftmaxNewtonTuning = SoftmaxNewtonTuning()

    state_type: ClassVar[type[Any]] = SoftmaxNewtonState

    def start(self, problem: RidgeProblem, init: CompositePoint | None, rng: np.random.Generator) -> SoftmaxNewtonState:
        """Begin at zero, or at ``init``."""
        return self._new_objective(problem).begin(SoftmaxNewtonState, init)

    def step(self, problem: RidgeProblem, state: SoftmaxNewtonState) -> SoftmaxNewtonState:
        """Solve for a direction; minimise F along it."""
        objective = self._objective(problem, state)
        line = self._few_line(objective, state) or objective.line(state, self._direction(objective, state))
        slope = float(state.gradient @ line.D)
        if slope < 0.0:
            length = self.tuning.search.minimise(line, slope)
            state.damping = self.tuning.damping.after(state.damping, length)
        return state

    def _new_objective(self, problem: RidgeProblem) -> RidgeObjective:
        unknowns = problem.n_columns * (min(problem.X.shape) + int(problem.fit_intercept))
        if unknowns > self.tuning.max_unknowns:
            raise IncompatibleError(
                f"SoftmaxNewton holds a Hessian of all unknowns, at most {self.tuning.max_unknowns} of them; this "
                f"problem has {unknowns}. Use NewtonCG."
            )
        return RidgeObjective(problem, find_rotation(problem.X))

    def _few_line(self, objective: RidgeObjective, state: SoftmaxNewtonState) -> RidgeLine | None:
        """Return F along D, found by loops where numbers are few; None elsewhere, and where H needs damping."""
        few, problem = objective.few, objective.problem
        if few is None or state.damping > 0.0:
            return None
        check_time()
        H, D = self._hessian_of(objective, state), zeros(objective.size)
        fill_in_loops(few, objective.P, problem.C, objective.k, H)
        how = (objective.k, objective.ridge, problem.fit_intercept)
        is_found = newton_step(few.columns, H, *how, state.gradient, D, objective.T)
        return objective.line_of(state, D) if is_found else None

    def _hessian_of(self, objective: RidgeObjective, state: SoftmaxNewtonState) -> Array:
        """Return room for H."""
        if state.hessian is None:
            unknowns = objective.problem.n_columns * (objective.X.shape[1] + int(objective.problem.fit_intercept))
            state.hessian = np.empty((unknowns, unknowns))
        return state.hessian

    def _direction(self, objective: RidgeObjective, state: SoftmaxNewtonState) -> Array:
        """Return D with H D = -G, in the layout of G; without a factor of H, by its diagonal alone."""
        n_columns = objective.problem.n_columns
        size = objective.X.shape[1] + int(objective.problem.fit_intercept)  # unknowns per class
        H = self._hessian_of(objective, state)
        right = -objective.matrix(state.gradient)[:size].T.ravel()
        x, failed = right, len(right) > 0
        check_time(objective.n * len(right) ** 2.0 + factor_work(len(right)))
        while failed and state.damping < 1.0:
            fill_hessian(objective, H)
            if state.damping > 0.0:
                bound = objective.matrix(objective.diagonal_bound)[:size].T.ravel()
                np.einsum("jj->j", H)[:] += state.damping * bound
            # The upper triangle by rows is the lower by columns.
            with wide_blas(len(right) ** 3.0 / 3.0):
                _, x, info = dposv(H.T, right, lower=True, overwrite_a=True)
            failed = info != 0
            if failed:
                state.damping = self.tuning.damping.after(state.damping, 0.0)
        if failed:
            x = right / objective.matrix(objective.diagonal_bound)[:size].T.ravel()
        D = zeros(objective.size)
        objective.matrix(D)[:size] = x.reshape(n_columns, size).T
        return D


def fill_hessian(objective: RidgeObjective, H: Array) -> None:
    """Write the upper triangle of the Hessian at the P of the objective; size is r, or r + 1 with an intercept."""
    r, k = objective.X.shape[1], objective.problem.n_columns
    if objective.few is not None:
        fill_in_loops(objective.few, objective.P, objective.problem.C, objective.k, H)
    else:
        H[:] = 0.0
        (_add_two if objective.k == 1 else _add_many)(objective, H)
    diagonal = H.reshape(-1)[:: len(H) + 1].reshape(k, -1)  # views, all of these
    diagonal[:, :r] += objective.ridge
    if objective.k > 1 and objective.problem.fit_intercept:
        H[r :: r + 1, r :: r + 1] += diagonal[:, r].sum() / k


def _add_two(objective: RidgeObjective, H: Array) -> None:
    """Add the curvature of two classes."""
    curvature = objective.problem.C * objective.P * (1.0 - objective.P)
    if objective.rows is not None:
        roots = objective.narrowed(np.sqrt(curvature))
        for part in _slices(objective, H):
            scaled = objective.rows[part] * roots[part, None]
            with wide_blas(scaled.size * float(len(H))):
                H += scaled.T @ scaled
        return
    add_squares(as_rows(objective.X), curvature, H)
    if objective.problem.fit_intercept:
        sums = np.empty(len(H))
        adjoint(objective.X, curvature, 1.0, 1, sums)
        H[:, -1] = sums


def _add_many(objective: RidgeObjective, H: Array) -> None:
    """Add the curvature of more than two classes."""
    X, r, k = objective.X, objective.X.shape[1], objective.problem.n_columns
    if objective.pairs is not None:
        fill_from_pairs(objective.pairs, objective.narrowed(objective.P), objective.problem.C, objective.k, k, H)
        return
    size, roots = len(H) // k, objective.narrowed(np.sqrt(objective.problem.C))
    P = np.ascontiguousarray(objective.narrowed(objective.matrix(objective.P).T))
    blocks = np.einsum("cjcl->cjl", H.reshape(k, size, k, size))  # a view
    for part in _slices(objective, H):
        check_time()
        if objective.rows is None:
            A = np.ones((size, part.stop - part.start))  # samples along its rows, as in P
            A[:r] = X[part].toarray().T
        else:
            A = np.ascontiguousarray(objective.rows[part].T)
        A *= roots[part]
        B = (P[:, None, part] * A).reshape(len(H), -1)
        with wide_blas(B.size * float(len(H))):
            H -= B @ B.T
            blocks += (B @ A.T).reshape(k, size, size)


def _slices(objective: RidgeObjective, H: Array) -> Any:
    """Yield slices of the samples, each larger than the Hessian, as each adds to all of it."""
    return row_slices(objective.n, len(H), numbers=max(BLOCK, 2 * H.size))
