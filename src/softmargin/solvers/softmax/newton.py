"""Newton's method for multinomial regression with a ridge, by Cholesky: for Hessians of at most some hundred unknowns.

    minimise over W, b:   F(W, b) = sum_i C_i l_i(W' x_i + b) + ridge / 2 |W|^2                                spec 3.1
    H D = -G,             the whole Hessian (parts.softmax_hessian)

One step solves for D and goes along it to where F is least. Data with fewer samples than features are rotated first
(parts.coordinates), so that no class has more weights than there are samples.

Where the step is far too long, or rounding leaves no Cholesky factor, H is damped (parts.damping).
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from softmargin.backends.lanes import zeros
from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import RidgeProblem
from softmargin.problems.composite import CompositePoint
from softmargin.solvers.softmax._damping import next_damping
from softmargin.solvers.softmax._hessian import fill_hessian
from softmargin.solvers.softmax._line_search import search_line
from softmargin.solvers.softmax._ridge_objective import RidgeModel, RidgeState
from softmargin.solvers.softmax._rotation import Coordinates, find_coordinates

__all__ = ["SoftmaxNewton", "SoftmaxNewtonState"]

Array = NDArray[Any]
MOST_UNKNOWNS = 10_000  # a Hessian of these is 800 MB
SHORT = 0.03  # share of the whole step, below which the Hessian is of no use


@dataclass
class SoftmaxNewtonState(RidgeState):
    """A point in the coordinates of the scratch."""

    damping: float = 0.0
    scratch: Any = field(init=False, repr=False, default=None)


class _Scratch:
    """What a run keeps beside its state."""

    def __init__(self, problem: Any) -> None:
        constant = int(problem.fit_intercept)
        most = problem.n_columns * (min(problem.X.shape) + constant)
        if most > MOST_UNKNOWNS:
            raise IncompatibleError(
                f"SoftmaxNewton holds a Hessian of all unknowns, at most {MOST_UNKNOWNS} of them; this problem has "
                f"{most}. Use NewtonCG."
            )
        self.coordinates: Coordinates = find_coordinates(problem.X)
        self.model = RidgeModel(problem, self.coordinates.A)
        unknowns = problem.n_columns * (self.model.X.shape[1] + constant)
        self.direction = zeros(self.model.size)
        self.hessian = np.empty((unknowns, unknowns))


@dataclass(frozen=True)
class SoftmaxNewton:
    """Newton's method with the whole Hessian; it has no settings. One step is one iteration."""

    needs: ClassVar[tuple[type, ...]] = (RidgeProblem,)

    def start(self, problem: Any, init: CompositePoint | None, rng: np.random.Generator) -> SoftmaxNewtonState:
        """Begin at zero, or at ``init``."""
        scratch = _Scratch(problem)
        point = problem.checked_point(init)
        base = scratch.model.begin(CompositePoint(scratch.coordinates.inward(point.weights), point.intercept))
        state = SoftmaxNewtonState(**vars(base))
        state.scratch = scratch
        return state

    def step(self, problem: Any, state: SoftmaxNewtonState) -> SoftmaxNewtonState:
        """Solve for a direction; go along it."""
        scratch = _awake(problem, state)
        D = _direction(scratch, state)
        slope = float(state.gradient @ D)
        if slope < 0.0:
            scratch.model.aim(state, D)
            length = search_line(scratch.model, state, D, slope)
            state.damping = next_damping(state.damping, helped=length >= SHORT)
        return state

    def point(self, problem: Any, state: SoftmaxNewtonState) -> CompositePoint:
        """Return where the descent stands."""
        scratch = _awake(problem, state)
        point = scratch.model.point(state)
        return CompositePoint(scratch.coordinates.outward(point.weights), point.intercept)

    def estimate(self, problem: Any, state: SoftmaxNewtonState) -> float:
        """Guess the residual from the gradient at hand."""
        return _awake(problem, state).model.estimate(state)

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> SoftmaxNewtonState:
        """Rebuild the state from a checkpoint."""
        return SoftmaxNewtonState(**arrays, **plain)


def _awake(problem: Any, state: SoftmaxNewtonState) -> _Scratch:
    """Return the scratch of a state, made anew after a checkpoint."""
    if state.scratch is None:
        state.scratch = _Scratch(problem)
        state.scratch.model.return_to(state)
    scratch: _Scratch = state.scratch
    return scratch


def _direction(scratch: _Scratch, state: SoftmaxNewtonState) -> Array:
    """Return D with H D = -G, in the layout of G."""
    model, H = scratch.model, scratch.hessian
    size = len(H) // model.problem.n_columns  # unknowns of a class
    right = -model.matrix(state.gradient)[:size].T.ravel()
    x, trouble = right, len(right)
    while trouble and state.damping < 1.0:
        fill_hessian(model, H)
        if state.damping > 0.0:
            np.einsum("jj->j", H)[:] += state.damping * model.matrix(model.largest)[:size].T.ravel()
        # What is the upper triangle by rows is the lower by columns.
        _, x, trouble = dposv(H.T, right, lower=True, overwrite_a=True)
        if trouble:
            state.damping = next_damping(state.damping, helped=False)
    if trouble:
        x = right / model.matrix(model.largest)[:size].T.ravel()
    model.matrix(scratch.direction)[:size] = x.reshape(model.problem.n_columns, size).T
    return scratch.direction
