"""Trust region Newton for multinomial regression with a ridge: LIBLINEAR's method, the baseline of paper 003.

    minimise over W, b:   F(W, b) = sum_i C_i l_i(W' x_i + b) + ridge / 2 |W|^2                    maths: softmax, eq. 1

One step minimises the quadratic model of F in the ball |D| <= radius by conjugate gradients (Steihaug), accepts D where
F decreases about as the model predicts, and changes the radius by how well the model did.

    Lin and More        here
    Delta               state.radius
    actred, prered      decrease, predicted

Source: Lin, Weng and Keerthi (2008), Algorithm 1 and section 3; numbers as in LIBLINEAR. Plain on purpose: no
preconditioner, no line search.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.protocols import RidgeProblem
from softmargin.problems.composite import CompositePoint
from softmargin.solvers.common.conjugate_gradients import conjugate_gradients
from softmargin.solvers.softmax._ridge_objective import RidgeSolver, RidgeState

__all__ = ["TrustNewton", "TrustNewtonState", "TrustNewtonTuning"]

Array = NDArray[Any]


class TrustNewtonTuning(NamedTuple):
    """The numbers of LIBLINEAR, in the letters of Lin and More (1999)."""

    accepted: float = 1e-4  # eta_0: least decrease of F, as a share of the prediction
    fair: float = 0.25  # eta_1
    good: float = 0.75  # eta_2
    shrink: float = 0.25  # sigma_1
    halve: float = 0.5  # sigma_2
    grow: float = 4.0  # sigma_3
    exactness: float = 0.1  # xi of conjugate gradients, section 3


@dataclass
class TrustNewtonState(RidgeState):
    """A point, and the radius in which the model is trusted."""

    radius: float
    n_tries: int = 0


@dataclass(frozen=True)
class TrustNewton(RidgeSolver[TrustNewtonState]):
    """Trust region Newton; it has no settings. One step is one trial."""

    tuning: TrustNewtonTuning = TrustNewtonTuning()

    state_type: ClassVar[type[Any]] = TrustNewtonState

    def start(self, problem: RidgeProblem, init: CompositePoint | None, rng: np.random.Generator) -> TrustNewtonState:
        """Begin at zero, or at ``init``."""
        state = self._new_objective(problem).begin(TrustNewtonState, init, radius=0.0)
        state.radius = float(np.linalg.norm(state.gradient))
        return state

    def step(self, problem: RidgeProblem, state: TrustNewtonState) -> TrustNewtonState:
        """Try the minimum of the model in the ball."""
        objective = self._objective(problem, state)
        rows, right = objective.all_rows, -state.gradient

        def product(V: Array, out: Array) -> None:
            objective.hessian_times(rows, V, objective.trial, out)

        D, residual, at_edge = conjugate_gradients(
            product, right, lambda V: V, self.tuning.exactness, radius=state.radius
        )
        slope = -float(right @ D)
        if not slope < 0.0:
            return state
        predicted = 0.5 * (float(residual @ D) - slope)
        line = objective.line(state, D)
        value, _, _ = line.evaluate(1.0)
        decrease, length = state.value - value, float(np.linalg.norm(D))
        if state.n_tries == 0:
            state.radius = min(state.radius, length)
        state.n_tries += 1
        state.radius = self._next_radius(state.radius, decrease, predicted, slope, length, at_edge)
        if decrease > self.tuning.accepted * predicted:
            line.accept(1.0, value)
        else:
            line.reject()
        return state

    def _next_radius(
        self, radius: float, decrease: float, predicted: float, slope: float, length: float, at_edge: bool
    ) -> float:
        """Return the next radius, by how well the model did."""
        by = self.tuning
        above = -decrease - slope  # how far F lies above its tangent
        ideal = max(by.shrink, -0.5 * slope / above) if above > 0.0 else by.grow
        if not decrease >= by.accepted * predicted:
            return min((ideal if math.isfinite(ideal) else by.shrink) * length, by.halve * radius)
        if decrease < by.fair * predicted:
            return max(by.shrink * radius, min(ideal * length, by.halve * radius))
        if decrease < by.good * predicted:
            return max(by.shrink * radius, min(ideal * length, by.grow * radius))
        return by.grow * radius if at_edge else max(radius, min(ideal * length, by.grow * radius))
