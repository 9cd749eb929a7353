"""A working set of features around accelerated projected gradient, for the l1 ball.

    round:   U = slopes at X W,  Z = X' U,  the gap on all features
             features = those of W and those with the largest |Z + l2 W|, max(200, 2 |support|) in all
             solve on these columns of X until the gap on them is a tenth of the gap on all

While the weights are few, all but two products of a round touch only the columns of the set. Where the set is no small
part of X there is nothing to gain, and the run goes over to plain gradient steps for good.

    spec 1.4         here
    W                features
    supp(x)          the rows of W (d, k) that are not zero

Source: spec 1.4 (WS-AccPG). We differ: a round ends after a bounded number of iterations, and the choice between set
and plain steps looks at the entries of X that the set holds.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import ConstrainedProblem
from softmargin.problems.constrained import BallPoint, Constrained
from softmargin.sets import L1Ball
from softmargin.solvers.ball._entry_loops import fill_slopes
from softmargin.solvers.ball._gap import relative_gap
from softmargin.solvers.ball._l1_loops import fill_adjoint
from softmargin.solvers.ball.accelerated_gradient import BallGradient, GradientState

__all__ = ["BallWorkingSet", "WorkingState"]

Array = NDArray[Any]
SMALLEST = 200  # features in the first set
SET_TARGET = 0.1  # a round brings the gap on its columns down to this share of the gap on all
MOST_STEPS = 300  # iterations in a round
LARGEST = 0.25  # a set with more than this share of the features, or of the entries of X, is not small


@dataclass
class WorkingState(GradientState):
    """The state of the gradient steps, and whether the rounds are over."""

    is_plain: bool = False


@dataclass(frozen=True)
class BallWorkingSet:
    """Accelerated gradient on a working set; it has no settings. One step is one round, or one plain iteration."""

    needs: ClassVar[tuple[type, ...]] = (ConstrainedProblem,)

    def start(self, problem: Any, init: Any, rng: np.random.Generator) -> WorkingState:
        """Allocate, from a first point or from zero."""
        if not isinstance(problem.ball, L1Ball):
            raise IncompatibleError(f"BallWorkingSet needs an l1 ball; the set is {problem.ball!r}. Use BallGradient.")
        first = BallGradient().start(problem, init, rng)
        return WorkingState(
            first.W, first.S, first.last_W, first.last_S, first.intercept, first.lipschitz, first.ceiling
        )

    def step(self, problem: Any, state: WorkingState) -> GradientState:
        """Make one round."""
        if state.is_plain:
            return BallGradient().step(problem, state)
        fill_slopes(problem, state.S, state.intercept, state.U)
        fill_adjoint(problem.X, state.U, state.G)
        gap = relative_gap(problem, state.W, state.S, state.intercept, state.G)
        features = _choose(problem, state)
        columns = problem.columns[:, features]
        held = columns.size / problem.X.size if isinstance(columns, np.ndarray) else columns.nnz / max(problem.X.nnz, 1)
        if max(held, len(features) / len(state.W)) > LARGEST:
            state.is_plain = True
            return BallGradient().step(problem, state)
        part = Constrained(
            columns,
            problem.target,
            loss=problem.loss,
            ball=problem.ball,
            l2=problem.l2,
            weights=problem.weights,
            fit_intercept=problem.fit_intercept,
        )
        solver = BallGradient()
        inner = solver.start(part, BallPoint(state.W[features], state.intercept), np.random.default_rng(0))
        inner.lipschitz = max(inner.lipschitz, state.lipschitz)
        for _ in range(MOST_STEPS):
            inner = solver.step(part, inner)
            if inner.gap <= SET_TARGET * gap:
                break
        state.gap = max(inner.gap, SET_TARGET * gap)
        state.W[:] = 0.0
        state.W[features] = inner.W
        state.S[:] = inner.S
        state.last_W[:], state.last_S[:] = state.W, state.S
        state.intercept, state.lipschitz = inner.intercept, inner.lipschitz
        return state

    def point(self, problem: Any, state: WorkingState) -> BallPoint:
        """Return the weights and the intercept."""
        return BallGradient().point(problem, state)

    def estimate(self, problem: Any, state: WorkingState) -> float:
        """Guess the gap: the one on the working set, or what its round aimed at; after a plain step, the true one."""
        return state.gap

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> WorkingState:
        """Rebuild the state from a checkpoint."""
        return WorkingState(**arrays, **plain)


def _choose(problem: Any, state: WorkingState) -> Array:
    """Return the features of the weights, and those of the largest gradients while there is room; sorted."""
    is_used = (state.W != 0.0).any(axis=1)
    n_used = int(is_used.sum())
    room = min(max(SMALLEST, 2 * n_used), len(is_used))
    pull = np.abs(state.G + problem.l2 * state.W).max(axis=1)
    pull[is_used] = np.inf
    return np.sort(np.argpartition(-pull, room - 1)[:room])
