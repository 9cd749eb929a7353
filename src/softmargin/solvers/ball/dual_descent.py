"""Dual coordinate ascent over the l1 ball: one sample after another, with updates of the ball's threshold in between.

    maximise over U and theta >= 0:   D(U, theta) = -|R|^2 / (2 l2) - theta radius - sum_i p_i sum_c f*(u_ic, t_ic) ,
                                      Z = X' (p U) ,   R = [|Z| - theta]_+ ;    W = -sign(Z) R / l2

Each u_ic moves to the maximum of D under the curvature p_i |x_i|^2 / l2, where only those features count that can be
weights after the step; theta moves to its own maximum, one Newton pass over Z, several times per pass. Both raise D.
Every update acts on the next sample at once: the number of passes depends on p_i |x_i|^2 / l2 and not, as for gradient
methods, on the norm of the whole X.

Source: the elastic-net ascent of Shalev-Shwartz and Zhang (2014), with theta as one more coordinate; maths: ball,
section 6. Needs l2 > 0 and no intercept.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from softmargin.backends.jit import jit
from softmargin.backends.loops import shuffle
from softmargin.core.deadline import alarm
from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import Array, ConstrainedProblem
from softmargin.matrices.rows import as_rows
from softmargin.problems.constrained import BallPoint
from softmargin.sets import L1Ball
from softmargin.sets._l1_loops import nearest_level
from softmargin.solvers.ball._iterate import BallSolver
from softmargin.solvers.ball._objective import check_dual, compiled_loss, fill_adjoint

__all__ = ["BallDualDescent", "BallDualDescentTuning", "BallDualState"]


class BallDualDescentTuning(NamedTuple):
    """Constants of dual coordinate ascent over the l1 ball."""

    numbers_per_level: int = 2  # an update of theta, which reads all of Z, per so many numbers of X read; by hand
    most_levels: int = 64  # updates of theta per pass; by hand
    # Passes after which Z is computed afresh, against rounding; maths: ball, section 9: every 50 to 100
    refresh: int = 50


@dataclass
class BallDualState:
    """Everything a run needs to go on: arrays and plain numbers, so that a checkpoint can hold it."""

    U: Array  # (n, k)
    Z: Array  # (d, k)
    W: Array  # (d, k)
    order: Array  # (n,)
    random: Array  # (1,) state of the shuffle
    theta: float = 0.0
    gap: float = math.inf
    last_gap: float = math.inf
    n_done: int = 0

    positions: ClassVar[dict[str, str]] = {"order": "U"}


@dataclass(frozen=True)
class BallDualDescent(BallSolver):
    """Dual coordinate ascent; it has no settings. One step is one pass over the samples."""

    tuning: BallDualDescentTuning = BallDualDescentTuning()

    state_type: ClassVar = BallDualState

    def start(self, problem: ConstrainedProblem, init: BallPoint | None, rng: np.random.Generator) -> BallDualState:
        """Allocate, from the slopes at a first point or from zero."""
        ball = check_dual(problem, "BallDualDescent")
        if compiled_loss(problem) is None or np.isnan(problem.target).any():
            raise IncompatibleError(
                "BallDualDescent needs all targets and a loss with a compiled form, such as those of losses.entrywise; "
                f"the loss is {type(problem.loss).__name__}. Use BallGradient."
            )
        point = problem.checked_point(init)
        U, Z = np.zeros(problem.target.shape), np.zeros(problem.shape)
        if init is not None:
            U = problem.dual_point(problem.scores(point.weights), point.intercept)
            fill_adjoint(problem.X, problem.weights[:, None] * U, Z)
        random = rng.integers(1, 2**63, size=1, dtype=np.uint64)
        theta = L1Ball(problem.l2 * ball.radius).level(Z)
        return BallDualState(U, Z, np.array(point.weights), np.arange(len(U)), random, theta)

    def step(self, problem: ConstrainedProblem, state: BallDualState) -> BallDualState:
        """Visit every sample once."""
        X, l2, tuning, ball = problem.X, problem.l2, self.tuning, check_dual(problem, "BallDualDescent")
        state.n_done += 1
        if state.n_done % tuning.refresh == 0:
            fill_adjoint(X, problem.weights[:, None] * state.U, state.Z)
        n_levels = min(max(X.size // (tuning.numbers_per_level * state.Z.size), 1), tuning.most_levels)
        longest = 1.0 if problem.loss.is_margin else max(1.0, float(np.abs(problem.target).max()))
        loss, target, chunk = compiled_loss(problem), problem.target.reshape(-1), -(-len(state.order) // n_levels)
        fixed = _Fixed(loss, target, problem.weights, l2, ball.radius, longest, chunk)
        state.theta, losses, slacks = _ascend(
            *(as_rows(X), fixed, state.U.reshape(-1), state.Z.reshape(-1)),
            *(state.theta, state.order, state.random, alarm()),
        )
        ball.shrink_into(state.Z, state.theta, -1.0 / l2, state.W)
        primal = losses + 0.5 * l2 * float(np.vdot(state.W, state.W))
        state.last_gap, state.gap = state.gap, max(slacks, 0.0) / primal if primal > 0.0 else 0.0
        return state

    def point(self, problem: ConstrainedProblem, state: BallDualState) -> BallPoint:
        """Return the weights, and the dual variables that bound their gap."""
        return BallPoint(problem.inside(state.W), np.zeros(problem.shape[1]), state.U.copy())

    def estimate(self, problem: ConstrainedProblem, state: BallDualState) -> float:
        """Predict the gap after this pass: the gap met during it, times its fall since the pass before."""
        fall = state.gap / state.last_gap if 0.0 < state.last_gap < math.inf else 1.0
        return state.gap * min(1.0, fall)


class _Fixed(NamedTuple):
    """What stays the same during a pass."""

    loss: Any  # of losses.compiled_entries
    target: Array  # (n * k,)
    weights: Array  # (n,)
    l2: float
    radius: float
    longest: float  # a dual variable moves by at most this
    chunk: int  # samples between two updates of theta


@jit
def _ascend(
    rows: Any, problem: _Fixed, U: Array, Z: Array, theta: float, order: Array, random: Array, alarm: Array
) -> tuple[float, float, float]:
    """Visit every sample once, until the alarm; return theta and the sums of all losses and slacks before updates.

    The weights are W = -sign(Z) [|Z| - theta]_+ / l2 and never stored. As a dual variable moves by at most ``longest``,
    only entries of Z within reach of theta can become weights, and only those shorten the step.
    """
    bare, loss, target, l2, longest = rows.bare(), problem.loss, problem.target, problem.l2, problem.longest
    n, size = order.shape[0], l2 * problem.radius
    k = U.shape[0] // n
    losses, slacks = 0.0, 0.0
    shuffle(order, n, random)
    for a in range(n):
        if alarm[0] != 0:
            theta = nearest_level(Z, size, theta)
            break
        i = order[a]
        begin, end = bare.entries(i)
        weight = problem.weights[i]
        for c in range(k):
            score, square = 0.0, 0.0
            for p in range(begin, end):
                z, x = Z[bare.column(i, p) * k + c], bare.value(p)
                rest = abs(z) - theta
                score -= x * math.copysign(max(rest, 0.0), z)
                square += x * x * (rest + weight * longest * abs(x) > 0.0)
            e = i * k + c
            sign, m = loss.folded(target[e])
            y, w = sign * U[e], sign * score / l2
            losses += weight * loss.loss_entry(w, m)
            slacks += weight * loss.slack_entry(w, m, y)
            new = loss.dual_entry(w, m, y, weight * square / l2)
            new = min(max(new, y - longest), y + longest)
            if new != y:
                U[e] = sign * new
                step = weight * sign * (new - y)
                for p in range(begin, end):
                    Z[bare.column(i, p) * k + c] += step * bare.value(p)
        if (a + 1) % problem.chunk == 0 or a + 1 == n:
            theta = nearest_level(Z, size, theta)
    return theta, losses, slacks
