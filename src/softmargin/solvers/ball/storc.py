"""Variance-reduced conditional gradient sliding (STORC): rounds of accelerated gradient that correct a full gradient.

    minimise over W in the ball:   F(W) = sum_i p_i sum_c f(s_ic, t_ic) + l2 / 2 |W|^2 ,     s = X W + b

    a round starts at W0 = V = Y with the full gradient, and has N iterations t = 1, 2, ...:
        M = (1 - gamma) Y + gamma V ;   g = the gradient at W0, corrected by a batch's difference between M and W0
        V <- argmin over the ball of <g, V'> + beta / 2 |V' - V|^2 , by corners up to ``tol``
        Y <- (1 - gamma) Y + gamma V

    gamma = 2 / (t + 1) ,    beta = 3 L / t ,    tol = 2 L D^2 / (N t)
    strongly convex:   N = sqrt(32 L / l2) ,       D^2 = 2 gap(W0) / l2 >= |W0 - W*|^2
    general:           N = 2^(round / 2 + 2) ,     D = the diameter of the ball

    Hazan, Luo      here                shape
    w_t             W                   (d, k)     with its scores, intercept and Z
    x, y, z         V, Y, M             (d, k)
    L / mu          lipschitz / l2      ()
    D_t^2           square              ()
    m_t             batch

Source: Hazan and Luo (2016); spec 1.4. We differ: D is proven by the gap of W0 where the
paper halves it; a batch is BATCH_SHARE N samples, of which the proofs ask for far more, or exact where that is all; the
corners of one iteration are at most ``max_corners``; the intercept is found anew at every W0.
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
from softmargin.solvers.ball._line_search import gap_at_hand, look

__all__ = ["Storc", "StorcState"]

Array = NDArray[Any]
BATCH_SHARE = 96


@dataclass
class StorcState:
    """The start of the round with its full gradient, and how far the round is."""

    W: Array  # (d, k)
    scores: Array  # (n, k) X W
    intercept: Array  # (k,)
    Z: Array  # (d, k)
    V: Array  # (d, k)
    Y: Array  # (d, k)
    chances: Array  # (n,)
    lipschitz: float
    gap: float
    seed: int
    round: int = 1
    t: int = 1
    n_steps: int = 0
    n_drawn: int = 0


@dataclass(frozen=True)
class Storc:
    """Settings of variance-reduced conditional gradient sliding. One step is about a pass, or the end of a round.

    Parameters
    ----------
    strongly_convex : bool, optional
        Which variant; by default the strongly convex one where l2 > 0.
    batch : int, optional
        Samples of one iteration; by default 96 N.
    max_corners : int
        Most corners of one iteration.
    """

    strongly_convex: bool | None = None
    batch: int | None = None
    max_corners: int = 100

    needs: ClassVar[tuple[type, ...]] = (ConstrainedProblem,)

    def __post_init__(self) -> None:
        """Refuse settings that mean nothing."""
        if self.batch is not None and self.batch < 1:
            raise IncompatibleError(f"batch={self.batch!r} was asked for; give at least 1, or None.")
        if self.max_corners < 1:
            raise IncompatibleError(f"max_corners={self.max_corners!r} was asked for; give at least 1.")

    def start(self, problem: Any, init: Any, rng: np.random.Generator) -> StorcState:
        """Compute the gradient of a first point, or of the one next to zero."""
        if self.strongly_convex and problem.l2 == 0.0:
            raise IncompatibleError(
                "strongly_convex=True needs l2 > 0; found l2 = 0. Use strongly_convex=False, or give an l2."
            )
        weights, intercept, _ = problem.checked_point(init)
        scores = problem.scores(weights)
        b = problem.best_intercept(scores, intercept)
        state = StorcState(
            weights,
            scores,
            b,
            adjoint_product(problem.X, problem.slopes(scores, b)),
            weights.copy(),
            weights.copy(),
            sample_chances(problem)[0],
            lipschitz=(smoothness(problem, rng) + problem.l2) or 1.0,
            gap=math.inf,
            seed=int(rng.integers(1 << 62)),
        )
        state.gap = gap_at_hand(problem, state)
        return state

    def step(self, problem: Any, state: StorcState) -> StorcState:
        """Iterate for about a pass, or until the round ends."""
        n, L = len(problem.target), state.lipschitz
        rng = np.random.default_rng([state.seed, state.n_drawn])
        state.n_drawn += 1
        N, square = self._round(problem, state)
        batch = min(n, self.batch or BATCH_SHARE * N)
        slopes = problem.slopes(state.scores, state.intercept)
        cost = 0.0
        while cost < problem.X.size and state.t <= N:
            gamma = 2.0 / (state.t + 1)
            M = (1.0 - gamma) * state.Y + gamma * state.V
            if batch < n:
                drawn = rng.choice(n, size=batch, p=state.chances)
                g = batch_gradient(problem, drawn, state.chances, M, state.intercept, slopes)
                g += state.Z
            else:
                g = adjoint_product(problem.X, problem.slopes(product(problem.X, M), state.intercept))
            g += problem.l2 * M
            tol = 2.0 * L * square / (N * state.t)
            state.V, n_corners = slide(problem.ball, g, state.V, 3.0 * L / state.t, tol, self.max_corners)
            state.Y += gamma * (state.V - state.Y)
            state.t += 1
            cost += 2.0 * problem.X.size * batch / n + SCAN * n_corners * state.W.size
        if state.t > N:
            state.W = state.Y.copy()
            state.V = state.Y.copy()
            state.scores = product(problem.X, state.W)
            look(problem, state)
            state.gap = gap_at_hand(problem, state)
            state.round += 1
            state.t = 1
        return state

    def _round(self, problem: Any, state: StorcState) -> tuple[int, float]:
        """Return N and D^2 of the round."""
        square = square_of_diameter(problem.ball, problem.shape)
        if problem.l2 == 0.0 or self.strongly_convex is False:
            return math.ceil(2.0 ** (state.round / 2 + 2)), square
        primal = problem.losses(state.scores, state.intercept) + 0.5 * problem.l2 * float(np.vdot(state.W, state.W))
        known = 2.0 * state.gap * primal / problem.l2 if math.isfinite(state.gap) else square
        return math.ceil(math.sqrt(32.0 * state.lipschitz / problem.l2)), min(known, square)

    def point(self, problem: Any, state: StorcState) -> BallPoint:
        """Return the mean of the round so far."""
        return BallPoint(state.Y.copy(), state.intercept.copy())

    def estimate(self, problem: Any, state: StorcState) -> float:
        """Return the gap where a round begins; within one, no gradient of all samples is at hand."""
        return state.gap if state.t == 1 else math.inf

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> StorcState:
        """Rebuild the state from a checkpoint."""
        return StorcState(**arrays, **plain)
