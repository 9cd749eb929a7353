"""Stochastic conditional gradient sliding: accelerated gradient on batches, with corners in the place of projections.

    minimise over W in the ball:   F(W) = sum_i p_i sum_c f(s_ic, t_ic) + l2 / 2 |W|^2 ,     s = X W + b

    M = (1 - gamma) Y + gamma W ;   g = the gradient at M, by a batch
    W <- argmin over the ball of <g, W'> + beta / 2 |W' - W|^2 , by corners up to ``tol``
    Y <- (1 - gamma) Y + gamma W

    iteration t     gamma       beta            tol                         batch
    l2 = 0          3/(t + 2)   4 L / (t + 2)   L D^2 / (t (t + 1))         v (t + 2)^3 / (L D)^2
    l2 > 0          2/(t + 1)   2 L / t         8 L e / (l2 N t)            l2 v N (t + 1)^2 / (4 L^2 e)

With l2 > 0 a phase has N = 4 sqrt(2 L / l2) iterations, begins again at Y with t = 1, and halves e, a bound on F - F*.

    Lan, Zhou       here                shape
    x, y, z         W, Y, M             (d, k)
    L, mu           lipschitz, l2       ()
    D               diameter            ()         of the ball
    sigma^2         v = variance        ()         of a gradient by one sample, at the first point

Source: Lan and Zhou (2016); spec 1.4. We differ: a batch that would be all samples or more is the
exact gradient; the ridge is never sampled; the corners of one iteration are at most ``max_corners``; the intercept is
found anew after every step.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import ConstrainedProblem
from softmargin.matrices.operator import adjoint_product, product
from softmargin.problems.constrained import BallPoint
from softmargin.solvers.ball._batches import SCAN, batch_gradient, sample_chances, slide, square_of_diameter
from softmargin.solvers.ball._gap import smoothness

__all__ = ["Scgs", "ScgsState"]

Array = NDArray[Any]


@dataclass
class ScgsState:
    """Both points of acceleration, the phase, and what is known of the problem."""

    W: Array  # (d, k)
    Y: Array  # (d, k)
    intercept: Array  # (k,)
    chances: Array  # (n,)
    lipschitz: float
    variance: float
    excess: float  # e at the start of the first phase
    seed: int
    phase: int = 0
    t: int = 1
    n_steps: int = 0


@dataclass(frozen=True)
class Scgs:
    """Settings of stochastic conditional gradient sliding. One step is about a pass.

    Parameters
    ----------
    max_corners : int
        Most corners of one iteration.
    """

    max_corners: int = 100

    needs: ClassVar[tuple[type, ...]] = (ConstrainedProblem,)

    def __post_init__(self) -> None:
        """Refuse an iteration without a corner."""
        if self.max_corners < 1:
            raise IncompatibleError(f"max_corners={self.max_corners!r} was asked for; give at least 1.")

    def start(self, problem: Any, init: Any, rng: np.random.Generator) -> ScgsState:
        """Measure smoothness, variance and excess at a first point, or at the one next to zero."""
        weights, intercept, _ = problem.checked_point(init)
        scores = problem.scores(weights)
        b = problem.best_intercept(scores, intercept)
        chances, total = sample_chances(problem)
        slopes = problem.loss.slope(scores + b, problem.target)
        return ScgsState(
            weights,
            weights.copy(),
            b,
            chances,
            lipschitz=(smoothness(problem, rng) + problem.l2) or 1.0,
            variance=total * float(problem.weights @ (slopes**2).sum(axis=1)),
            excess=problem.losses(scores, b) + 0.5 * problem.l2 * float(np.vdot(weights, weights)),
            seed=int(rng.integers(1 << 62)),
        )

    def step(self, problem: Any, state: ScgsState) -> ScgsState:
        """Iterate for about a pass, then find the intercept."""
        n = len(problem.target)
        rng = np.random.default_rng([state.seed, state.n_steps])
        state.n_steps += 1
        cost = 0.0
        while cost < problem.X.size:
            gamma, beta, tol, batch, is_last = self._schedule(problem, state)
            M = (1.0 - gamma) * state.Y + gamma * state.W
            if batch < n:
                drawn = rng.choice(n, size=batch, p=state.chances)
                g = batch_gradient(problem, drawn, state.chances, M, state.intercept)
            else:
                batch = 2 * n  # a product on either side
                g = adjoint_product(problem.X, problem.slopes(product(problem.X, M), state.intercept))
            g += problem.l2 * M
            state.W, n_corners = slide(problem.ball, g, state.W, beta, tol, self.max_corners)
            state.Y += gamma * (state.W - state.Y)
            state.t += 1
            if is_last:
                state.W, state.t = state.Y.copy(), 1
                state.phase += 1
            cost += problem.X.size * batch / n + SCAN * n_corners * state.W.size
        if problem.fit_intercept:
            state.intercept = problem.best_intercept(product(problem.X, state.Y), state.intercept)
        return state

    def _schedule(self, problem: Any, state: ScgsState) -> tuple[float, float, float, int, bool]:
        """Return gamma, beta, tol, the batch, and whether this iteration ends a phase."""
        L, v, t, l2 = state.lipschitz, state.variance, state.t, problem.l2
        if l2 == 0.0:
            square = square_of_diameter(problem.ball, problem.shape)
            batch = v * (t + 2) ** 3 / (L**2 * square)
            return 3.0 / (t + 2), 4.0 * L / (t + 2), L * square / (t * (t + 1)), _whole(problem, batch), False
        N = math.ceil(4.0 * math.sqrt(2.0 * L / l2))
        # A tolerance below rounding asks for nothing more; zero would be divided by.
        e = max(state.excess * 0.5**state.phase, 1e-300)
        batch = l2 * v * N * (t + 1) ** 2 / (4.0 * L**2 * e)
        return 2.0 / (t + 1), 2.0 * L / t, 8.0 * L * e / (l2 * N * t), _whole(problem, batch), t >= N

    def point(self, problem: Any, state: ScgsState) -> BallPoint:
        """Return the averaged weights and the intercept."""
        return BallPoint(state.Y.copy(), state.intercept.copy())

    def estimate(self, problem: Any, state: ScgsState) -> float:
        """No gradient of all samples is at hand: nothing is known."""
        return math.inf

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> ScgsState:
        """Rebuild the state from a checkpoint."""
        return ScgsState(**arrays, **plain)


def _whole(problem: Any, batch: float) -> int:
    """Return a number of samples, at most all."""
    return max(1, math.ceil(min(batch, len(problem.target))))
