"""Coordinate descent on the dual of the linear L2-SVM, with shrinking: fast on sparse data of many features.

    D(a) = sum a - 1/2 |w|^2 - 1/2 sum_i a_i^2 / C_i ,   w = sum_i a_i y_i x_i ,   a >= 0,  y'a = 0
                                                                                        maths: squared hinge, section 8

    visit sample i:    a_i <- [a_i - g_i / (|x_i|^2 + rho + 1 / C_i)]_+ ,    g_i = y_i (<w, x_i> + b) - 1 + a_i / C_i

The free bias is the multiplier of y'a = 0. The dual has a further term rho / 2 (y'a)^2, so that b = beta + rho y'a
while samples are visited; after a step beta takes over the gradient of this term: beta <- b. Each visit gives the gap
of its sample, maths: squared hinge, eq. 8; their sum is the estimate.

Shrinking. A sample at zero whose gradient exceeds the largest violation of the last pass leaves the set. When the gap
of the set has clearly fallen, all samples come back.

    maths       here
    a           state.alpha         (n,)
    w           state.weights       (d,)
    b, rho      state.balance       (2,)
    beta        state.multiplier

Source: Hsieh, Chang, Lin, Keerthi and Sundararajan (2008), Algorithm 3. We differ: the bias is free.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import relative_gap
from softmargin.core.deadline import alarm
from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import SquaredHingeProblem
from softmargin.matrices.operator import row_squares
from softmargin.matrices.rows import as_rows
from softmargin.problems.free_bias import BiasPoint
from softmargin.solvers.common.resumable import Resumable
from softmargin.solvers.squared_hinge._descent_loop import Coordinates, descend_coordinates
from softmargin.solvers.squared_hinge._newton_loop import fill_adjoint

__all__ = ["DescentState", "DescentTuning", "SquaredHingeDescent"]

Array = NDArray[Any]


class DescentTuning(NamedTuple):
    """The constants of the descent."""

    rho_share: float = 0.1  # rho as a share of a sample's curvature, as in softmax dual descent: by hand
    set_target: float = 0.1  # share of its first gap at which a shrunken set is done: by hand
    max_set_passes: int = 30  # visits of a shrunken set, in passes over all samples: by hand


@dataclass
class DescentState:
    """Everything that a run needs to continue."""

    alpha: Array  # (n,)
    weights: Array  # (d,)
    balance: Array  # (2,) b, and rho
    gaps: Array  # (n,) gap of each sample when last visited
    order: Array  # (n,) samples; the first n_open have a price, the first n_active are in the set
    random: Array  # (1,) state of the shuffle
    n_open: int
    n_active: int = 0  # 0: the next pass is over all samples
    visits_left: int = 0
    target: float = 0.0  # gap of the set at which it is done
    steepest: float = math.inf  # violation of the last pass
    multiplier: float = 0.0  # beta

    positions: ClassVar[dict[str, str]] = {"order": "gaps", "n_open": "order", "n_active": "order"}


@dataclass(frozen=True)
class SquaredHingeDescent(Resumable):
    """Dual coordinate descent for the linear kernel; it has no settings. One step visits about n samples."""

    tuning: DescentTuning = DescentTuning()

    needs: ClassVar[tuple[type, ...]] = (SquaredHingeProblem,)
    state_type = DescentState

    def start(self, problem: SquaredHingeProblem, init: BiasPoint | None, rng: np.random.Generator) -> DescentState:
        """Begin at alpha = 0, or at a feasible point near ``init``."""
        gram, is_open = problem.gram, problem.C > 0.0
        if not gram.is_linear:
            raise IncompatibleError(
                f"SquaredHingeDescent needs the linear kernel; the kernel is {gram.kernel.name}. Use Smo."
            )
        n, d = gram.X.shape
        rho = 0.0
        if problem.has_bias and is_open.any():
            curvature = float((row_squares(gram.X) + problem.inverse_C)[is_open].mean())
            rho = self.tuning.rho_share * curvature
        alpha, weights, bias = np.zeros(n), np.zeros(d), 0.0
        if init is not None:
            alpha, bias = problem.feasible(init.alpha), init.bias if problem.has_bias else 0.0
            fill_adjoint(as_rows(gram.X), np.zeros(d), problem.y * alpha, weights)
        return DescentState(
            alpha=alpha,
            weights=weights,
            balance=np.array([bias, rho]),
            gaps=np.zeros(n),
            order=np.concatenate([np.flatnonzero(is_open), np.flatnonzero(~is_open)]),
            random=rng.integers(1, 2**63, size=1, dtype=np.uint64),
            n_open=int(is_open.sum()),
            multiplier=bias,
        )

    def step(self, problem: SquaredHingeProblem, state: DescentState) -> DescentState:
        """Make one pass over all samples, or passes over the set that cost as much; then move the multiplier."""
        dual, n = _coordinates(problem, state), state.n_open
        if state.n_active == 0:
            state.n_active, state.steepest, gap, _ = descend_coordinates(dual, n, state.steepest, 0, math.inf, alarm())
            state.target, state.visits_left = self.tuning.set_target * gap, self.tuning.max_set_passes * n
        else:
            passes = (state.n_active, state.steepest, min(state.visits_left, n), state.target, alarm())
            state.n_active, state.steepest, gap, visits = descend_coordinates(dual, *passes)
            state.visits_left -= visits
            if gap <= state.target or state.visits_left <= 0:
                state.n_active = 0
        if state.n_active == 0 or state.steepest == 0.0:
            state.n_active, state.steepest = 0, math.inf
        if problem.has_bias:
            pull = float(state.balance[0]) - state.multiplier
            state.multiplier += pull
            state.balance[0] += pull
        return state

    def point(self, problem: SquaredHingeProblem, state: DescentState) -> Any:
        """Return feasible dual variables with the best bias."""
        return problem.point(problem.feasible(state.alpha))

    def estimate(self, problem: SquaredHingeProblem, state: DescentState) -> float:
        """Estimate the relative gap from the gaps of the samples, as their last visits found them, and from y'a."""
        ridge = float(state.alpha @ (state.alpha * problem.inverse_C))
        dual = float(state.alpha.sum()) - 0.5 * (float(state.weights @ state.weights) + ridge)
        net = float(problem.y @ state.alpha) if problem.has_bias else 0.0
        gap = float(state.gaps.sum()) + abs(net) * (abs(float(state.balance[0])) + float(state.balance[1]) * abs(net))
        return relative_gap(dual + gap, dual)


def _coordinates(problem: SquaredHingeProblem, state: DescentState) -> Coordinates:
    """Return the arguments of the compiled passes that stay the same."""
    X, inverse_C = problem.gram.X, problem.inverse_C
    curvature = row_squares(X) + (float(state.balance[1]) + inverse_C)
    visits = (state.gaps, state.order, state.random)
    return Coordinates(as_rows(X), problem.y, inverse_C, curvature, state.alpha, state.weights, state.balance, *visits)
