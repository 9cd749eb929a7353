"""A working set of features around accelerated projected gradient, for the l1 ball.

    round:   U = slopes at X W,  Z = X' U,  the gap on all features
             features = those of W and those with the largest |Z + l2 W|, max(200, 2 |support|) in all
             solve on these columns of X until the gap on them is a tenth of the gap on all

While few weights are non-zero, all but two products of a round read only the columns of the set. Where the set is a
large part of X there is nothing to gain, and the run changes to plain gradient steps for good.

Source: maths: ball, eq. 15. We differ: a round has a bounded number of iterations, and the choice between the set and
plain steps counts the entries of X in the set.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from softmargin.core.deadline import is_time_up
from softmargin.core.protocols import ConstrainedProblem
from softmargin.problems.constrained import BallPoint, Constrained
from softmargin.sets import L1Ball
from softmargin.solvers.ball._iterate import BallSolver
from softmargin.solvers.ball._objective import checked_ball, fill_adjoint, fill_slopes
from softmargin.solvers.ball.accelerated_gradient import BallGradient, BallGradientState
from softmargin.solvers.common.working_set import largest

__all__ = ["BallWorkingSet", "BallWorkingSetState", "BallWorkingSetTuning"]

_PLAIN = BallGradient()


class BallWorkingSetTuning(NamedTuple):
    """Constants of the working set of features."""

    first_size: int = 200  # features in the first set; maths: ball, section 9
    growth: int = 2  # a later set holds so many times the features in use; maths: ball, section 9
    gap_share: float = 0.1  # a round stops at this share of the gap on all features; maths: ball, section 9
    max_steps: int = 300  # iterations in a round; by hand
    # A set with more of the features, or of the entries of X, is given up; maths: ball, section 9
    largest_share: float = 0.25


@dataclass
class BallWorkingSetState(BallGradientState):
    """The state of the gradient steps, and whether the rounds are over."""

    is_plain: bool = False


@dataclass(frozen=True)
class BallWorkingSet(BallSolver):
    """Accelerated gradient on a working set; it has no settings. One step is one round, or one plain iteration."""

    tuning: BallWorkingSetTuning = BallWorkingSetTuning()

    state_type: ClassVar = BallWorkingSetState

    def start(
        self, problem: ConstrainedProblem, init: BallPoint | None, rng: np.random.Generator
    ) -> BallWorkingSetState:
        """Allocate, from a first point or from zero."""
        checked_ball(problem, "BallWorkingSet", "BallGradient", L1Ball)
        first = _PLAIN.start(problem, init, rng)
        arrays = (first.W, first.S, first.last_W, first.last_S, first.intercept, first.last_intercept, first.metric)
        return BallWorkingSetState(*arrays, first.lipschitz, first.ceiling)

    def step(self, problem: ConstrainedProblem, state: BallWorkingSetState) -> BallGradientState:
        """Make one round, or one plain iteration."""
        if state.is_plain:
            return _PLAIN.step(problem, state)
        tuning = self.tuning
        is_used = (state.W != 0.0).any(axis=1)
        size = max(tuning.first_size, tuning.growth * int(is_used.sum()))
        state.is_plain = min(size, len(is_used)) / len(is_used) > tuning.largest_share
        if not state.is_plain:
            fill_slopes(problem, state.S, state.intercept, state.U)
            fill_adjoint(problem.X, state.U, state.G)
            violation = np.abs(state.G + problem.l2 * state.W).max(axis=1)
            violation[is_used] = np.inf
            features = largest(violation, size)
            columns = problem.columns()[:, features]
            state.is_plain = columns.size / max(problem.X.size, 1) > tuning.largest_share
        if state.is_plain:
            return _PLAIN.step(problem, state)
        target_gap = tuning.gap_share * problem.relative_gap(state.W, state.S, state.intercept, state.G)
        same = {name: getattr(problem, name) for name in ("loss", "ball", "l2", "weights", "fit_intercept")}
        part = Constrained(columns, problem.target, **same)
        inner = _PLAIN.start(part, BallPoint(state.W[features], state.intercept), np.random.default_rng(0))
        inner.lipschitz = max(inner.lipschitz, state.lipschitz)
        for _ in range(tuning.max_steps):
            inner = _PLAIN.step(part, inner)
            if inner.gap <= target_gap or is_time_up():
                break
        state.gap = max(inner.gap, target_gap)  # at least: the gap on all features is not known
        state.W[:] = 0.0
        state.W[features] = inner.W
        state.S[:] = inner.S
        state.last_W[:], state.last_S[:] = state.W, state.S
        state.intercept, state.last_intercept, state.lipschitz = (
            inner.intercept,
            inner.intercept.copy(),
            inner.lipschitz,
        )
        return state
