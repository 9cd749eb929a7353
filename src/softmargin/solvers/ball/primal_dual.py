"""The primal-dual hybrid gradient method over a convex set, restarted: for losses that are not smooth, and others.

    U <- argmax of <2 S - S_before, U'> - f*(U') - |U' - U|^2 / (2 sigma) , row by row          S = X W + b
    W <- the point of the ball nearest to (W - tau Z) / (1 + tau l2) ,   b <- b - tau_b sum_i p_i u_i ,   Z = X'(p U)

    tau = 1 / (omega |K|) ,   sigma = omega / |K| ,   K = sqrt(p) X, and the column sqrt(p) of b scaled to its norm

An iteration is one product with X and one with X'. Every few iterations the duality gaps of the last point and of the
mean since the last restart are computed. The better of the two is where the run restarts: once its gap has fallen to a
fifth since the last restart, or to four fifths and begins to rise, or after a long time. At a restart omega moves
towards |change of U| / |change of W|.

Source: Chambolle and Pock (2011), Algorithm 1; restarts and omega as in Applegate et al. (2021), PDLP; maths: ball,
section 10. We differ: the gap is that of the certificate. On a trace ball every step takes all singular values.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from softmargin.core.certificate import relative_gap
from softmargin.core.protocols import Array, ConstrainedProblem
from softmargin.matrices.operator import adjoint_product
from softmargin.problems.constrained import BallPoint
from softmargin.solvers.ball._iterate import BallSolver
from softmargin.solvers.ball._objective import check_dual_step, square_of_norm

__all__ = ["BallPrimalDual", "BallPrimalDualState", "BallPrimalDualTuning"]


class BallPrimalDualTuning(NamedTuple):
    """Constants of the restarted primal-dual method; the first four as in PDLP."""

    enough: float = 0.2  # restart where the gap has fallen to this share, ...
    some: float = 0.8  # ... or to this one and rises, ...
    long: float = 0.36  # ... or after this share of all iterations
    smoothing: float = 0.5  # of omega, in logarithm
    gap_every: int = 10  # iterations; by hand
    margin: float = 1.02  # the power method finds |K| from below; maths: ball, section 9


@dataclass
class BallPrimalDualState:
    """The last point, the sums since the last restart, where that was, and the best of what is known."""

    W: Array  # (d, k)
    b: Array  # (k,)
    U: Array  # (n, k)
    S: Array  # (n, k) X W, without b
    Z: Array  # (d, k)
    ahead: Array  # (n, k) scores of the extrapolated point, with its intercept
    sum_W: Array
    sum_b: Array
    sum_U: Array
    sum_S: Array
    sum_Z: Array
    first_W: Array  # at the last restart
    first_U: Array
    best_W: Array
    best_b: Array
    best_U: Array
    norm: float  # |K|
    scale: float  # tau_b / tau
    omega: float
    primal: float = math.inf  # of best_W and best_b
    bound: float = -math.inf  # of best_U
    gap_at_restart: float = math.inf
    last_gap: float = math.inf
    n_averaged: int = 0
    n_done: int = 0
    gap: float = math.inf


@dataclass(frozen=True)
class BallPrimalDual(BallSolver):
    """The restarted primal-dual method; it has no settings. One step is one iteration."""

    tuning: BallPrimalDualTuning = BallPrimalDualTuning()

    state_type: ClassVar = BallPrimalDualState

    def start(
        self, problem: ConstrainedProblem, init: BallPoint | None, rng: np.random.Generator
    ) -> BallPrimalDualState:
        """Allocate, from a first point with its own dual variables, or from zero."""
        check_dual_step(problem, "BallPrimalDual", "BallGradient or LowRankGradient")
        point = problem.checked_point(init)
        W, b = np.array(point.weights, dtype=np.float64), np.array(point.intercept, dtype=np.float64)
        S = np.ascontiguousarray(problem.scores(W))
        U = np.zeros(S.shape) if init is None or init.dual is None else problem.balanced(init.dual)
        Z = adjoint_product(problem.X, problem.weights[:, None] * U)
        square, mass = square_of_norm(problem, rng) or 1.0, float(problem.weights.sum()) or 1.0
        norm = self.tuning.margin * math.sqrt((2.0 if problem.fit_intercept else 1.0) * square)
        omega = math.sqrt(mass * 4.0 / problem.ball.squared_diameter(problem.shape))
        parts: dict[str, Any] = {"W": W, "b": b, "U": U, "S": S, "Z": Z}
        sums: dict[str, Any] = {f"sum_{name}": np.zeros_like(part) for name, part in parts.items()}
        first: dict[str, Any] = {"first_W": W.copy(), "first_U": U.copy()}
        best: dict[str, Any] = {"best_W": W.copy(), "best_b": b.copy(), "best_U": U.copy()}
        scale = square / mass if problem.fit_intercept else 0.0
        return BallPrimalDualState(**parts, **sums, **first, **best, ahead=S + b, norm=norm, scale=scale, omega=omega)

    def step(self, problem: ConstrainedProblem, state: BallPrimalDualState) -> BallPrimalDualState:
        """Make one iteration; now and then look at the gap, and restart."""
        p, X = problem.weights, problem.X
        tau, sigma = 1.0 / (state.omega * state.norm), state.omega / state.norm
        state.U = problem.loss.dual_step(state.U, state.ahead, problem.target, sigma)
        state.Z = adjoint_product(X, p[:, None] * state.U)
        state.W = problem.ball.project((state.W - tau * state.Z) / (1.0 + tau * problem.l2))
        move = -tau * state.scale * (p @ state.U)
        S = problem.scores(state.W)
        state.ahead = 2.0 * S - state.S + (state.b + 2.0 * move)
        state.b, state.S = state.b + move, S
        for total, part in zip(_sums(state), _parts(state), strict=True):
            total += part
        state.n_averaged += 1
        state.n_done += 1
        if state.n_done % self.tuning.gap_every == 0:
            self._look(problem, state)
        return state

    def _look(self, problem: ConstrainedProblem, state: BallPrimalDualState) -> None:
        """Compute the gaps of the last point and of the mean, and restart from the better one if it is time."""
        means = tuple(total / state.n_averaged for total in _sums(state))
        here, mean = _evaluated(problem, state, *_parts(state)), _evaluated(problem, state, *means)
        gap, is_mean = min((here, False), (mean, True))
        tuning, before = self.tuning, state.gap_at_restart
        is_time = (
            gap <= tuning.enough * before
            or (gap <= tuning.some * before and gap > state.last_gap)
            or state.n_averaged >= tuning.long * state.n_done
        )
        state.last_gap = gap
        state.gap = relative_gap(state.primal, state.bound)
        if not is_time:
            return
        if is_mean:
            state.W, state.b, state.U, state.S, state.Z = means
        changes = (
            float(np.linalg.norm(state.W - state.first_W)),
            math.sqrt(float(problem.weights @ ((state.U - state.first_U) ** 2).sum(axis=1))),
        )
        if min(changes) > 0.0:
            state.omega *= (changes[1] / changes[0] / state.omega) ** tuning.smoothing
        state.first_W, state.first_U = state.W.copy(), state.U.copy()
        state.ahead = state.S + state.b
        for total in _sums(state):
            total[:] = 0.0
        state.n_averaged, state.gap_at_restart, state.last_gap = 0, gap, math.inf

    def point(self, problem: ConstrainedProblem, state: BallPrimalDualState) -> BallPoint:
        """Return the best weights, and the best dual variables."""
        return BallPoint(problem.inside(state.best_W), state.best_b.copy(), state.best_U.copy())


def _parts(state: BallPrimalDualState) -> tuple[Array, ...]:
    return state.W, state.b, state.U, state.S, state.Z


def _sums(state: BallPrimalDualState) -> tuple[Array, ...]:
    return state.sum_W, state.sum_b, state.sum_U, state.sum_S, state.sum_Z


def _evaluated(
    problem: ConstrainedProblem, state: BallPrimalDualState, W: Array, b: Array, U: Array, S: Array, Z: Array
) -> Any:
    """Return the gap of a point; keep its weights, and its dual variables, where they are the best so far."""
    primal = problem.losses(S, b) + 0.5 * problem.l2 * float(np.vdot(W, W))
    if problem.fit_intercept:
        U = problem.balanced(U)
        Z = adjoint_product(problem.X, problem.weights[:, None] * U)
    bound = problem.bound(U, Z)
    if primal < state.primal:
        state.primal, state.best_W, state.best_b = primal, W.copy(), b.copy()
    if bound > state.bound:
        state.bound, state.best_U = bound, U.copy()
    return primal - bound
