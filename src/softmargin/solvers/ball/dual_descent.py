"""Dual coordinate ascent over the l1 ball: one sample after the other, the level of the ball in between.

    maximise over U and theta >= 0:   D(U, theta) = -|R|^2 / (2 l2) - theta radius - sum_i p_i sum_c f*(u_ic, t_ic) ,
                                      Z = X' (p U) ,   R = [|Z| - theta]_+
    whose inner maximum over theta is the dual value of spec 1.1; the weights are W = -sign(Z) R / l2.

A sample's u_ic moves to the maximum of D with the curvature p_i |x_i|^2 / l2, where only the features count that can be
weights after the step; theta moves to its own maximum, one Newton pass over Z, several times in a pass. Both raise D.
The ridge makes D smooth in every u_ic: after one sample's move, others see it at once, so that the number of passes
depends on p_i |x_i|^2 / l2 and not, as for gradient methods, on the norm of the whole X.

    spec 1.1, 1.3    here
    y                U (n, k)
    z                Z (d, k), with the 1/n
    x = xb(y)        weights (d, k)
    theta            theta: the level of the projection of -Z / l2, times l2
    mu, tau          l2, ball.radius

Source: the elastic-net ascent of Shalev-Shwartz and Zhang (2014), with theta as one coordinate more; spec 1.3 takes the
same steps for a block at once. Needs l2 > 0 and no intercept.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.core.protocols import ConstrainedProblem
from softmargin.matrices.rows import as_rows
from softmargin.problems.constrained import BallPoint
from softmargin.solvers.ball._dual_loop import ascend, check_dual, folded
from softmargin.solvers.ball._l1_loops import fill_adjoint, level, shrunk

__all__ = ["BallDualDescent", "DualDescentState"]

Array = NDArray[Any]
LEVEL_SHARE = 2  # theta moves once in so many numbers of X for every number of Z
MOST_LEVELS = 64  # but not more often in a pass
REFRESH = 50  # passes after which Z is computed anew, against rounding


@dataclass
class DualDescentState:
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


@dataclass(frozen=True)
class BallDualDescent:
    """Dual coordinate ascent; it has no settings. One step is one pass over the samples."""

    needs: ClassVar[tuple[type, ...]] = (ConstrainedProblem,)

    def start(self, problem: Any, init: Any, rng: np.random.Generator) -> DualDescentState:
        """Allocate, from the slopes at a first point or from nothing."""
        check_dual("BallDualDescent", problem)
        folded(problem)  # refuses a loss it does not know
        point = problem.checked_point(init)
        U = np.zeros(problem.target.shape)
        Z = np.zeros(problem.shape)
        if init is not None:
            U = problem.dual_point(problem.scores(point.weights), point.intercept)
            fill_adjoint(problem.X, problem.weights[:, None] * U, Z)
        n = len(U)
        state = DualDescentState(
            U, Z, np.array(point.weights), np.arange(n), rng.integers(1, 2**63, size=1, dtype=np.uint64)
        )
        state.theta = level(Z.reshape(-1), problem.l2 * problem.ball.radius, 0.0)
        return state

    def step(self, problem: Any, state: DualDescentState) -> DualDescentState:
        """Visit every sample once."""
        (dual, signs, offsets), X = folded(problem), problem.X
        n_numbers = X.size if isinstance(X, np.ndarray) else X.nnz
        n_levels = min(max(n_numbers // (LEVEL_SHARE * state.Z.size), 1), MOST_LEVELS)
        state.n_done += 1
        if state.n_done % REFRESH == 0:
            fill_adjoint(X, problem.weights[:, None] * state.U, state.Z)
        most = 1.0 if problem.loss.is_margin else max(1.0, float(np.abs(offsets).max()))
        state.theta, losses, slacks = ascend(
            as_rows(X),
            dual,
            signs,
            offsets,
            problem.weights,
            state.U.reshape(-1),
            state.Z.reshape(-1),
            state.theta,
            problem.l2,
            problem.ball.radius,
            state.order,
            state.random,
            -(-len(state.order) // n_levels),
            most,
        )
        shrunk(state.Z.reshape(-1), state.theta, -1.0 / problem.l2, problem.ball.radius, state.W.reshape(-1))
        primal = losses + 0.5 * problem.l2 * float(np.vdot(state.W, state.W))
        state.last_gap, state.gap = state.gap, max(slacks, 0.0) / primal if primal > 0.0 else 0.0
        return state

    def point(self, problem: Any, state: DualDescentState) -> BallPoint:
        """Return the weights, and the dual variables that prove how good they are."""
        return BallPoint(state.W.copy(), np.zeros(problem.shape[1]), state.U.copy())

    def estimate(self, problem: Any, state: DualDescentState) -> float:
        """Guess the gap after this pass: the one met on the way, less what the next pass will find it to be less."""
        if not math.isfinite(state.last_gap):
            return state.gap
        return state.gap * min(1.0, state.gap / state.last_gap) if state.last_gap > 0.0 else state.gap

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> DualDescentState:
        """Rebuild the state from a checkpoint."""
        return DualDescentState(**arrays, **plain)
