"""An interior point method over the trace-norm ball: singular values may be zero, and features of all sizes.

    F(W) = min over b of sum_ic p_i f(s_ic + b_c, t_ic) + l2 / 2 |W|^2 ,    S = X W ,    |W|_* <= radius
    in the ball is W with a Q > 0, (k, k), and   T = radius - (<W Q^-1, W> + tr Q) / 2 > 0 ;    best is Q = (W'W)^(1/2)
    minimise   F(W) - mu log det Q - mu log T ,    mu -> 0

At the minimum, with A = W Q^-1, theta = mu / T and Y = mu Q^-1, F' = -theta A and Y = theta (I - A'A) / 2: no singular
value of F' exceeds theta, and the gap is (k + 1) mu. A step is Newton's for theta T = mu and Q Y = mu I, with theta and
Y as unknowns of their own (``_trace_barrier``): one Cholesky factor of d k + k (k + 1) / 2 unknowns. It is cut short
where Q or T would not stay positive, and where the function is less before. As soon as a step for mu is short in the
metric of its model, mu falls.

H has a block for every column, as in ``LowRankNewton``. Where X has fewer rows than columns, W has as many rows as X
(common.rotation).

Source: ours, as primal-dual methods for semidefinite programs, with the scaling of Nesterov and Todd (1997). Maths:
ball, section 12.
"""

import math
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.linalg import eigh, norm

from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import Array, ConstrainedProblem
from softmargin.problems.constrained import BallPoint
from softmargin.sets import TraceBall
from softmargin.solvers.ball._class_hessian import class_hessian
from softmargin.solvers.ball._intercept import best_intercept
from softmargin.solvers.ball._iterate import BallIterate, BallSolver
from softmargin.solvers.ball._objective import adjoint_of, check_entrywise, checked_ball, losses, scores_of
from softmargin.solvers.ball._trace_barrier import BarrierStep, Slack, TraceBarrier, n_unknowns
from softmargin.solvers.common.rotation import Rotation, find_rotation

__all__ = ["TraceBallInteriorPoint", "TraceInteriorState", "TraceInteriorTuning", "step_work"]

MOST_UNKNOWNS = 10_000  # of a Newton matrix: 0.8 GB
_ROUNDING = 1e-16  # share of what F may fall at most below which mu is rounding
_HIDDEN = 1e-15  # share of a value that rounding may hide of its change


class TraceInteriorTuning(NamedTuple):
    """Constants of the path."""

    # mu falls by this factor where the square of a step is below the second share of the gap (k + 1) mu. By trials on
    # 234 fits, from another start: with a share of 1 the mean number of steps is larger by a quarter, and some do not
    # end.
    fall: float = 0.1
    centred: float = 0.1
    room: float = 0.1  # most share of the radius by which W shrinks first; by hand
    least_gap: float = 1e-12  # share of the largest that the gap at the start counts as at least; about rounding
    boundary: float = 0.99  # most of the way to where Q, Y or theta is singular; by hand
    shorter: float = 0.6  # factor from one length of a step to the next; by hand
    shortest: float = 1e-9  # at which a search gives up; a guard


@dataclass(kw_only=True)
class TraceInteriorState(BallIterate):
    """The point and its multipliers, zero before the first step; the coordinates of the weights, as scratch."""

    Q: Array  # (k, k)
    Y: Array  # (k, k)
    theta: float = 0.0
    mu: float = 0.0
    rotation: Rotation | None = field(init=False, repr=False, default=None)


@dataclass(frozen=True)
class TraceBallInteriorPoint(BallSolver):
    """An interior point method over a trace ball; it has no settings. One step is one factor."""

    tuning: TraceInteriorTuning = TraceInteriorTuning()

    state_type: ClassVar = TraceInteriorState

    def start(
        self, problem: ConstrainedProblem, init: BallPoint | None, rng: np.random.Generator
    ) -> TraceInteriorState:
        """Begin at zero, or at ``init``."""
        _radius(problem)
        check_entrywise(problem, "TraceBallInteriorPoint", "LowRankGradient")
        k, unknowns = problem.shape[1], n_unknowns(min(problem.X.shape), problem.shape[1])
        if unknowns > MOST_UNKNOWNS:
            raise IncompatibleError(
                f"TraceBallInteriorPoint factors a matrix of all unknowns, here {unknowns:,}; more than "
                f"{MOST_UNKNOWNS:,} are too many. Use LowRankNewton."
            )
        return TraceInteriorState.at(problem, init, Q=np.zeros((k, k)), Y=np.zeros((k, k)))

    def step(self, problem: ConstrainedProblem, state: TraceInteriorState) -> TraceInteriorState:
        """Make a Newton step to the minimum for mu, or for a lower one."""
        rotation = state.rotation = state.rotation or find_rotation(problem.X)
        radius = _radius(problem)
        W = rotation.inward(state.W)
        slope = _slope(problem, state, W)
        if not slope.any():
            return state
        if state.theta == 0.0:
            W = self._enter(problem, state, W, slope, radius)
            slope = _slope(problem, state, W)
        h = problem.weights[:, None] * problem.loss.bend(state.scores + state.intercept, problem.target)
        H = np.stack([class_hessian(rotation.A, column, is_centred=problem.fit_intercept) for column in h.T])
        barrier = TraceBarrier(Slack.of(W, state.Q, radius), state.Y, state.theta, slope, H, problem.l2)
        F = _objective(problem, state.scores, state.intercept, W)
        step, least = barrier.step(state.mu), _ROUNDING * min(F, radius * float(norm(slope)))
        while step.square <= self.tuning.centred * (len(state.Q) + 1) * state.mu and state.mu > least:
            state.mu *= self.tuning.fall
            step = barrier.step(state.mu)
        line = _Line(problem, state, W, step, scores_of(rotation.A, step.W), radius)
        t = line.search(min(self.tuning.boundary * step.room, 1.0), self.tuning)
        state.W, state.Q = rotation.outward(W + t * step.W), state.Q + t * step.Q
        state.scores = state.scores + t * line.move
        t = min(self.tuning.boundary * step.room_of_duals, 1.0)
        state.Y, state.theta = state.Y + t * step.Y, state.theta + t * step.theta
        state.update(problem)
        return state

    def point(self, problem: ConstrainedProblem, state: TraceInteriorState) -> BallPoint:
        """Return W; on the boundary, and without singular values that vanish with mu, where its gap is no larger so."""
        radius = _radius(problem)
        if state.theta > 0.0:
            q, V, _, _ = Slack.of(state.W, state.Q, radius)
            y = np.einsum("cj,cj->j", V, state.Y @ V)
            kept = V[:, q * state.theta > y * radius]
            for W in (state.W @ kept @ kept.T, state.W):
                if (size := problem.ball.size(W)) > 0.0:
                    there = BallIterate.at(problem, BallPoint(W / size, state.intercept))
                    if there.gap <= state.gap:
                        return super().point(problem, there)
        return super().point(problem, state)

    def _enter(
        self, problem: ConstrainedProblem, state: TraceInteriorState, W: Array, slope: Array, radius: float
    ) -> Array:
        """Shrink W, which is returned, if there is no room; choose mu by the gap, Q as best for the room (eq. 43)."""
        size, steepest = len(state.Q) + 1, float(norm(slope, 2))
        gap = max(float(np.vdot(slope, W)) + radius * steepest, self.tuning.least_gap * radius * steepest)
        squares, V = eigh(W.T @ W)
        s = np.sqrt(np.maximum(squares, 0.0))
        e = 0.5 * max(min(gap / steepest, self.tuning.room * radius), radius - float(s.sum())) / size
        share = min(1.0, (radius - 2.0 * size * e) / float(s.sum())) if s.any() else 1.0
        longer = np.hypot(share * s, e)
        q, T = longer + e, radius - float(longer.sum())
        state.mu = min(gap, _objective(problem, state.scores, state.intercept, W)) / size
        state.Q, state.Y, state.theta = (V * q) @ V.T, (V * (state.mu / q)) @ V.T, state.mu / T
        state.W, state.scores = share * state.W, share * state.scores
        state.intercept = best_intercept(problem, state.scores, state.intercept)
        return share * W


def _radius(problem: ConstrainedProblem) -> float:
    """Return that of a trace ball; others are refused."""
    return checked_ball(problem, "TraceBallInteriorPoint", "BallGradient", TraceBall).radius


def _slope(problem: ConstrainedProblem, state: TraceInteriorState, W: Array) -> Array:
    """Return F' in the coordinates of W."""
    assert state.rotation is not None
    return adjoint_of(state.rotation.A, problem.slopes(state.scores, state.intercept)) + problem.l2 * W


def _objective(problem: ConstrainedProblem, scores: Array, intercept: Array, W: Array) -> float:
    """Return F."""
    return losses(problem, scores, intercept) + 0.5 * problem.l2 * float(np.vdot(W, W))


class _Line(NamedTuple):
    """F - mu log det Q - mu log T along a step."""

    problem: ConstrainedProblem
    state: TraceInteriorState
    W: Array
    step: BarrierStep
    move: Array  # of the scores
    radius: float

    def search(self, longest: float, tuning: TraceInteriorTuning) -> float:
        """Return the t up to the longest from which on shorter ones raise the function; 0 where all do.

        Near the optimum rounding hides what a step gains, of which slopes still tell: it may rise by that much.
        """
        t, here, best, then = longest, self.at(0.0), self.at(longest), self.at(tuning.shorter * longest)
        highest = here + _HIDDEN * abs(here)
        while (then < best - _HIDDEN * abs(best) or not best < highest) and t > tuning.shortest:
            t *= tuning.shorter
            best, then = then, self.at(tuning.shorter * t)
        return t if best < highest else 0.0

    def at(self, t: float) -> float:
        """Return the function; infinite outside its domain."""
        problem, state = self.problem, self.state
        W = self.W + t * self.step.W
        q, _, _, T = Slack.of(W, state.Q + t * self.step.Q, self.radius)
        if not (q[0] > 0.0 and T > 0.0):
            return math.inf
        S = state.scores + t * self.move
        F = _objective(problem, S, best_intercept(problem, S, state.intercept), W)
        return F - state.mu * (float(np.log(q).sum()) + math.log(T))


def step_work(n_curved: float, r: int, k: int) -> float:
    """Count the multiplications of a step, given the rows with curvature of a class: those of H, and of its factor."""
    return k * n_curved * float(r) ** 2 + n_unknowns(r, k) ** 3 / 3.0
