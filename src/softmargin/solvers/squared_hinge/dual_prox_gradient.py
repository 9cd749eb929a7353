"""Projected gradient steps on the dual of the binary L2-SVM: paper 000, Algorithm 1, and what makes it fast.

    minimise over a >= 0, y'a = 0:   f(a) = 1/2 (ya)'K(ya) + 1/2 sum_i a_i^2 / C_i - sum a ;   D = -f      spec 1.1
    a <- Proj(v - grad f(v) / L) ,   grad f(v) = y K(yv) + v / C - 1 ,   L = sigma_1(K) + 1 / min C          spec 1.5

The paper takes v = a and finds the projection by bisection. Here v runs ahead (FISTA) and starts again where the
gradient says that it ran too far; the projection is found by Newton steps from the last multiplier; and as y'a = 0,
K may be centred on both sides (HKH), which changes no solution but lowers L.

    paper 000   here
    alpha       state.alpha                 (n,)
    lambda      state.multiplier            b = L lambda (- the mean score, where K is centred)              spec 1.2
    sigma       state.lipschitz             power iteration finds sigma_1 from below: raised where a step shows it

One product with K a step: that of v follows from those of the last two a.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import FreeBiasProblem
from softmargin.problems.l2_svm import L2Point
from softmargin.sets import BALANCERS

__all__ = ["DualProxGradient", "GradientState"]

Array = NDArray[Any]

SAFETY = 1.02  # power iteration stops short of sigma_1
MAX_POWERS = 50
SETTLED = 1e-3  # relative change at which power iteration stops
RAISE = 1.5  # factor on L where a step shows that it is too small
NOISE = 1e-12  # rounding of <d, K d>, relative to |d| |K v|: no curvature is seen below it
STEPS = 10  # iterations a step: Python costs nothing beside them


@dataclass
class GradientState:
    """Everything a run needs to go on."""

    alpha: Array  # (n,)
    scores: Array  # (n,) K (ya), centred where K is
    last_alpha: Array  # (n,)
    last_scores: Array  # (n,)
    lipschitz: float
    momentum: float = 1.0  # t_k of FISTA
    multiplier: float = 0.0


@dataclass(frozen=True)
class DualProxGradient:
    """Settings of the projected gradient method. The paper's: all False, and projection="bisection".

    Parameters
    ----------
    accelerated : bool
        Nesterov's extrapolation (FISTA).
    restart : bool
        Forget the momentum where it points uphill.
    projection : {"newton", "sort", "bisection"}
        How the multiplier of the projection is found (spec 1.4).
    centred : bool
        Use HKH for K; only where there is a bias.
    """

    accelerated: bool = True
    restart: bool = True
    projection: str = "newton"
    centred: bool = True

    needs: ClassVar[tuple[type, ...]] = (FreeBiasProblem,)

    def __post_init__(self) -> None:
        """Refuse settings that do not exist."""
        if self.projection not in BALANCERS:
            raise IncompatibleError(f"projection={self.projection!r} is unknown; choose {', '.join(BALANCERS)}.")

    def start(self, problem: FreeBiasProblem, init: Any, rng: np.random.Generator) -> GradientState:
        """Find L; begin at alpha = 0, or at a feasible point near ``init``."""
        n = len(problem.y)
        alpha = np.zeros(n) if init is None else problem.feasible(init.alpha)
        scores = np.zeros(n) if init is None else self._product(problem, problem.y * alpha)
        prices = problem.C[problem.C > 0]
        sharpest = 1.0 / float(prices.min()) if len(prices) else 1.0
        lipschitz = SAFETY * self._largest_eigenvalue(problem, rng) + sharpest
        return GradientState(alpha, scores, alpha, scores, lipschitz)

    def step(self, problem: FreeBiasProblem, state: GradientState) -> GradientState:
        """Make ten iterations."""
        y, inverse_C = problem.y, problem.inverse_C
        for _ in range(STEPS):
            if self.accelerated:
                momentum = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * state.momentum**2))
                ahead = (state.momentum - 1.0) / momentum
            else:
                momentum, ahead = 1.0, 0.0
            v = state.alpha + ahead * (state.alpha - state.last_alpha)
            scores_v = state.scores + ahead * (state.scores - state.last_scores)
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
                state.lipschitz *= RAISE
            if self.restart and float(gradient @ (alpha - state.alpha)) > 0.0:
                momentum = 1.0
            state.last_alpha, state.last_scores = state.alpha, state.scores
            state.alpha, state.scores, state.momentum = alpha, scores, momentum
        return state

    def point(self, problem: FreeBiasProblem, state: GradientState) -> L2Point:
        """Return the dual variables with the best bias."""
        return problem.point(state.alpha.copy())

    def estimate(self, problem: FreeBiasProblem, state: GradientState) -> float:
        """Return the relative gap at the scores of the last iteration; centring only shifts the bias."""
        return float(problem.relative_gap(state.alpha, state.scores))

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> GradientState:
        """Rebuild the state from a checkpoint."""
        return GradientState(**arrays, **plain)

    def _project(self, problem: FreeBiasProblem, state: GradientState, beta: Array) -> Array:
        """Return the nearest feasible point; keep its multiplier."""
        inside = problem.C > 0
        if problem.has_bias and inside.any():
            balance = BALANCERS[self.projection]
            y, near = problem.y[inside], beta[inside]
            state.multiplier = balance(y * near, y, 1.0, state.multiplier)
            beta = beta - state.multiplier * problem.y
        return np.where(inside, np.maximum(beta, 0.0), 0.0)

    def _product(self, problem: FreeBiasProblem, u: Array) -> Array:
        """Return K u, or HKH u."""
        gram, is_centred = problem.gram, self.centred and problem.has_bias
        if is_centred:
            u = u - u.mean()
        # float32 values are summed in float64, which only ``scores`` does.
        by_matrix = gram.is_stored and gram.dtype == np.float64 and not gram.is_linear
        scores = gram.stored(np.arange(gram.n)) @ u if by_matrix else gram.scores(u)
        return scores - scores.mean() if is_centred else scores

    def _largest_eigenvalue(self, problem: FreeBiasProblem, rng: np.random.Generator) -> float:
        """Return sigma_1 by power iteration, a little too small; 0 where K = 0."""
        u = rng.standard_normal(problem.gram.n)
        u /= np.linalg.norm(u)
        sigma = 0.0
        for _ in range(MAX_POWERS):
            image = self._product(problem, u)
            longest = float(np.linalg.norm(image))
            if not longest > 0.0 or abs(longest - sigma) <= SETTLED * longest:
                return longest
            sigma, u = longest, image / longest
        return sigma
