"""Projected gradient steps on the dual of the binary L2-SVM: paper 000, Algorithm 1, and an accelerated form.

    minimise over a >= 0, y'a = 0:   f(a) = 1/2 (ya)'K(ya) + 1/2 sum_i a_i^2 / C_i - sum a ;   D = -f
                                                                                      maths: squared hinge, eqs. 1 and 2
    a <- Proj(v - grad f(v) / L) ,   grad f(v) = y K(yv) + v / C - 1 ,   L = sigma_1(K) + 1 / min C
                                                                                            maths: squared hinge, eq. 11

The paper takes v = a and finds the projection by bisection. Here v is extrapolated (FISTA), the momentum restarts
where the gradient says that a step went too far, and Newton steps from the last multiplier find the projection. As
y'a = 0, K may be centred on both sides (HKH), which changes no solution but lowers L.

    paper 000   here
    alpha       state.alpha                 (n,)
    lambda      state.multiplier            b = L lambda (- the mean score, where K is centred)
                                                                                             maths: squared hinge, eq. 6
    sigma       state.lipschitz             the power method underestimates sigma_1: raised where a step shows it

Each iteration needs one product with K: that of v follows from those of the last two a.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.deadline import is_time_up
from softmargin.core.parameters import OneOf
from softmargin.core.protocols import SquaredHingeProblem
from softmargin.problems.free_bias import BiasPoint
from softmargin.sets import BALANCERS
from softmargin.solvers.common.momentum import extrapolate, next_momentum
from softmargin.solvers.common.power_method import largest_eigenvalue
from softmargin.solvers.common.resumable import Resumable

__all__ = ["DualGradientState", "DualProxGradient", "DualProxGradientTuning"]

Array = NDArray[Any]
NOISE = 1e-12  # rounding of <d, K d>, relative to |d| |K v|: curvature below it is not resolved


class DualProxGradientTuning(NamedTuple):
    """How L is found, and how many iterations make a step."""

    safety: float = 1.02  # factor on sigma_1, which the power method underestimates: maths: squared hinge, section 10
    max_powers: int = 50  # products of the power method; by hand
    power_change: float = 1e-3  # relative rise at which the power method stops; by hand
    rise: float = 1.5  # factor on L where a step shows that it is too small; by hand
    iterations: int = 10  # of one step, so that the overhead of a step is negligible; by hand


@dataclass
class DualGradientState:
    """Everything that a run needs to continue."""

    alpha: Array  # (n,)
    scores: Array  # (n,) K (ya), centred where K is
    last_alpha: Array  # (n,)
    last_scores: Array  # (n,)
    lipschitz: float
    momentum: float = 1.0  # t_k of FISTA
    multiplier: float = 0.0


@dataclass(frozen=True)
class DualProxGradient(Resumable):
    """Settings of the projected gradient method. The paper's: all False, and projection="bisection".

    Parameters
    ----------
    accelerated : bool
        Nesterov's extrapolation (FISTA).
    restart : bool
        Reset the momentum where it points uphill.
    projection : {"newton", "sort", "bisection"}
        How the multiplier of the projection is found (maths: squared hinge, section 4).
    centred : bool
        Use HKH for K; only where there is a bias.
    """

    accelerated: bool = True
    restart: bool = True
    projection: str = "newton"
    centred: bool = True
    tuning: DualProxGradientTuning = DualProxGradientTuning()

    allowed: ClassVar = {"projection": (OneOf(*BALANCERS),)}
    needs: ClassVar[tuple[type, ...]] = (SquaredHingeProblem,)
    state_type = DualGradientState
    runs_on_device: ClassVar[bool] = True

    def start(
        self, problem: SquaredHingeProblem, init: BiasPoint | None, rng: np.random.Generator
    ) -> DualGradientState:
        """Find L; begin at alpha = 0, or at a feasible point near ``init``."""
        n, tuning = len(problem.y), self.tuning
        alpha = np.zeros(n) if init is None else problem.feasible(init.alpha)
        scores = np.zeros(n) if init is None else self._product(problem, problem.y * alpha)
        prices = problem.C[problem.C > 0]
        sharpest = 1.0 / float(prices.min()) if len(prices) else 1.0
        sigma = largest_eigenvalue(
            lambda u: self._product(problem, u),
            rng.standard_normal(n),
            steps=tuning.max_powers,
            change=tuning.power_change,
        )
        return DualGradientState(alpha, scores, alpha, scores, tuning.safety * sigma + sharpest)

    def step(self, problem: SquaredHingeProblem, state: DualGradientState) -> DualGradientState:
        """Make ``tuning.iterations`` iterations."""
        y, inverse_C = problem.y, problem.inverse_C
        v, scores_v = np.empty((2, len(y)))
        for _ in range(self.tuning.iterations):
            if is_time_up():
                break
            momentum, beta = next_momentum(state.momentum) if self.accelerated else (1.0, 0.0)
            extrapolate(state.alpha, state.last_alpha, beta, v)
            extrapolate(state.scores, state.last_scores, beta, scores_v)
            gradient = y * scores_v + v * inverse_C - 1.0
            while True:
                alpha = self._project(problem, state, v - gradient / state.lipschitz)
                scores = self._product(problem, y * alpha)
                move = alpha - v
                curvature = float((y * move) @ (scores - scores_v) + (move**2) @ inverse_C)
                length = float(np.linalg.norm(move))
                noise = NOISE * length * float(np.linalg.norm(scores_v))
                if not curvature > state.lipschitz * length**2 + noise:
                    break
                state.lipschitz *= self.tuning.rise
            if self.restart and float(gradient @ (alpha - state.alpha)) > 0.0:
                momentum = 1.0
            state.last_alpha, state.last_scores = state.alpha, state.scores
            state.alpha, state.scores, state.momentum = alpha, scores, momentum
        return state

    def point(self, problem: SquaredHingeProblem, state: DualGradientState) -> Any:
        """Return the dual variables with the best bias."""
        return problem.point(state.alpha.copy())

    def estimate(self, problem: SquaredHingeProblem, state: DualGradientState) -> float:
        """Return the relative gap at the scores of the last iteration; centring only shifts the bias."""
        return problem.relative_gap(state.alpha, state.scores)

    def _project(self, problem: SquaredHingeProblem, state: DualGradientState, beta: Array) -> Array:
        """Return the nearest feasible point; keep its multiplier."""
        inside = problem.C > 0
        if problem.has_bias and inside.any():
            y = problem.y[inside]
            state.multiplier = BALANCERS[self.projection](y * beta[inside], y, 1.0, state.multiplier)
            beta = beta - state.multiplier * problem.y
        return np.where(inside, np.maximum(beta, 0.0), 0.0)

    def _product(self, problem: SquaredHingeProblem, u: Array) -> Array:
        """Return K u, or HKH u."""
        gram, is_centred = problem.gram, self.centred and problem.has_bias
        if is_centred:
            u = u - u.mean()
        # Only ``gram.scores`` sums float32 values in float64.
        by_matrix = gram.is_stored and gram.dtype == np.float64 and not gram.is_linear
        scores: Array = gram.stored(np.arange(gram.n)) @ u if by_matrix else gram.scores(u)
        return scores - scores.mean() if is_centred else scores
