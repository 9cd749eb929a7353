"""Newton's method for multinomial regression with a ridge, by Cholesky: for Hessians of at most some hundred unknowns.

    minimise over W, b:   F(W, b) = sum_i C_i l_i(W' x_i + b) + ridge / 2 |W|^2                    maths: softmax, eq. 1
    H D = -G,             the whole Hessian (_hessian)

One step solves for D and minimises F along it. Data with fewer samples than features are rotated first (_rotation), so
that no class has more weights than there are samples. H is damped where the step is far too long, or where rounding
leaves no Cholesky factor (common.line_search).
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from softmargin.backends.lanes import zeros
from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import RidgeProblem
from softmargin.problems.composite import CompositePoint
from softmargin.solvers.common.line_search import Damping, NewtonSearch
from softmargin.solvers.softmax._hessian import fill_hessian
from softmargin.solvers.softmax._ridge_objective import RidgeObjective, RidgeSolver, RidgeState
from softmargin.solvers.softmax._rotation import find_rotation

__all__ = ["SoftmaxNewton", "SoftmaxNewtonState", "SoftmaxNewtonTuning"]

Array = NDArray[Any]


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
        D = self._direction(objective, state)
        slope = float(state.gradient @ D)
        if slope < 0.0:
            length = self.tuning.search.minimise(objective.line(state, D), slope)
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

    def _direction(self, objective: RidgeObjective, state: SoftmaxNewtonState) -> Array:
        """Return D with H D = -G, in the layout of G; without a factor of H, by its diagonal alone."""
        n_columns = objective.problem.n_columns
        size = objective.X.shape[1] + int(objective.problem.fit_intercept)  # unknowns per class
        if state.hessian is None:
            state.hessian = np.empty((n_columns * size, n_columns * size))
        H = state.hessian
        right = -objective.matrix(state.gradient)[:size].T.ravel()
        x, failed = right, len(right) > 0
        while failed and state.damping < 1.0:
            fill_hessian(objective, H)
            if state.damping > 0.0:
                bound = objective.matrix(objective.diagonal_bound)[:size].T.ravel()
                np.einsum("jj->j", H)[:] += state.damping * bound
            # The upper triangle by rows is the lower by columns.
            _, x, info = dposv(H.T, right, lower=True, overwrite_a=True)
            failed = info != 0
            if failed:
                state.damping = self.tuning.damping.after(state.damping, 0.0)
        if failed:
            x = right / objective.matrix(objective.diagonal_bound)[:size].T.ravel()
        D = zeros(objective.size)
        objective.matrix(D)[:size] = x.reshape(n_columns, size).T
        return D
