"""Trust region Newton for multinomial regression with a ridge: LIBLINEAR's method, the baseline of paper 003.

    minimise over W, b:   F(W, b) = sum_i C_i l_i(W' x_i + b) + ridge / 2 |W|^2                                spec 3.1

One step minimises the quadratic model of F in the ball |D| <= radius by conjugate gradients (Steihaug), takes D where F
falls as the model says, about, and moves the radius by how well the model did.

    Lin and More        here
    Delta               state.radius
    actred, prered      fall, promised
    eta_0, eta_1, eta_2         ACCEPTED, FAIR, GOOD
    sigma_1, sigma_2, sigma_3   SHRINK, HALVE, GROW

Source: Lin, Weng and Keerthi (2008), Algorithm 1 and section 3; numbers as in LIBLINEAR. Plain on purpose: no
preconditioner, no line search.
"""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.core.protocols import RidgeProblem
from softmargin.problems.composite import CompositePoint
from softmargin.solvers.common.conjugate_gradients import conjugate_gradients
from softmargin.solvers.softmax._preconditioner import Identity
from softmargin.solvers.softmax._ridge_objective import RidgeModel, RidgeState, awake, whole

__all__ = ["TrustNewton", "TrustNewtonState"]

Array = NDArray[Any]
ACCEPTED, FAIR, GOOD = 1e-4, 0.25, 0.75
SHRINK, HALVE, GROW = 0.25, 0.5, 4.0
EXACTNESS = 0.1  # of conjugate gradients


@dataclass
class TrustNewtonState(RidgeState):
    """A point, and how far the model is trusted."""

    radius: float
    n_tries: int = 0
    model: Any = field(init=False, repr=False, default=None)


@dataclass(frozen=True)
class TrustNewton:
    """Trust region Newton; it has no settings. One step is one trial."""

    needs: ClassVar[tuple[type, ...]] = (RidgeProblem,)

    def start(self, problem: Any, init: CompositePoint | None, rng: np.random.Generator) -> TrustNewtonState:
        """Begin at zero, or at ``init``."""
        model = RidgeModel(problem)
        base = model.begin(problem.checked_point(init))
        state = TrustNewtonState(**vars(base), radius=float(np.linalg.norm(base.gradient)))
        state.model = model
        return state

    def step(self, problem: Any, state: TrustNewtonState) -> TrustNewtonState:
        """Try the minimum of the model in the ball."""
        model = awake(problem, state)
        rows = whole(model)

        def product(V: Array, out: Array) -> None:
            model.hessian_times(rows, V, model.trial, out)

        right = -state.gradient
        D, residual, at_edge = conjugate_gradients(
            product, right, Identity(), EXACTNESS, model.work, radius=state.radius
        )
        slope = -float(right @ D)
        if not slope < 0.0:
            return state
        promised = 0.5 * (float(residual @ D) - slope)
        model.aim(state, D)
        value, _, _ = model.attempt(state, 1.0)
        fall = state.value - value
        self._judge(state, fall, promised, slope, float(np.linalg.norm(D)), at_edge)
        if fall > ACCEPTED * promised:
            model.accept(state, D, 1.0, value)
        else:
            model.stay(state)
        return state

    def point(self, problem: Any, state: TrustNewtonState) -> CompositePoint:
        """Return where the descent stands."""
        return awake(problem, state).point(state)

    def estimate(self, problem: Any, state: TrustNewtonState) -> float:
        """Guess the residual from the gradient at hand."""
        return awake(problem, state).estimate(state)

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> TrustNewtonState:
        """Rebuild the state from a checkpoint."""
        return TrustNewtonState(**arrays, **plain)

    def _judge(
        self, state: TrustNewtonState, fall: float, promised: float, slope: float, length: float, at_edge: bool
    ) -> None:
        """Move the radius by how well the model did."""
        if state.n_tries == 0:
            state.radius = min(state.radius, length)
        state.n_tries += 1
        bent = -fall - slope  # what F lies above its tangent
        ideal = max(SHRINK, -0.5 * slope / bent) if bent > 0.0 else GROW
        radius = state.radius
        if not fall >= ACCEPTED * promised:
            reach = ideal if math.isfinite(ideal) else SHRINK
            state.radius = min(reach * length, HALVE * radius)
        elif fall < FAIR * promised:
            state.radius = max(SHRINK * radius, min(ideal * length, HALVE * radius))
        elif fall < GOOD * promised:
            state.radius = max(SHRINK * radius, min(ideal * length, GROW * radius))
        else:
            state.radius = GROW * radius if at_edge else max(radius, min(ideal * length, GROW * radius))
