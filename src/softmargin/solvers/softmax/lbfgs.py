"""L-BFGS for multinomial regression with a ridge, from a metric that knows the correlations of the features.

    minimise over W, b:   F(W, b) = sum_i C_i l_i(W' x_i + b) + ridge / 2 |W|^2                    maths: softmax, eq. 1

The direction is -H G, with H made of the last ``memory`` steps and of a first guess H0 (``two_loops``). H0 is the
inverse of a Gram matrix of some rows, or of a diagonal (_preconditioner), built again after 1, 2, 4, 8, ... steps, and
scaled so that it agrees with the last step. One step costs one product with X for the line, one with X' for the
gradient.

    Nocedal         here
    s, y            state.moves, state.changes      (memory, (d + 1) * k)   rings; pair t lies at t mod memory
    H0              state.metric                    built from the probabilities at state.anchor

Source: Liu and Nocedal (1989). We differ: the line search is nearly exact, as it costs no product.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.lanes import zeros
from softmargin.core.parameters import OneOf, Whole
from softmargin.core.protocols import RidgeProblem
from softmargin.problems.composite import CompositePoint
from softmargin.solvers.common.conjugate_gradients import Metric
from softmargin.solvers.common.newton_search import NewtonSearch
from softmargin.solvers.common.two_loops import two_loops
from softmargin.solvers.softmax._preconditioner import PRECONDITIONERS, MetricTuning, make_metric
from softmargin.solvers.softmax._ridge_objective import RidgeObjective, RidgeSolver, RidgeState

__all__ = ["Lbfgs", "LbfgsState", "LbfgsTuning"]

Array = NDArray[Any]


class LbfgsTuning(NamedTuple):
    """The parts of the method."""

    metric: MetricTuning = MetricTuning()
    search: NewtonSearch = NewtonSearch()


@dataclass
class LbfgsState(RidgeState):
    """A point, the last steps, and where the metric was built."""

    moves: Array  # (memory, (d + 1) * k)
    changes: Array  # (memory, (d + 1) * k) of the gradient
    products: Array  # (memory,) <s, y>
    anchor: Array  # ((d + 1) * k,) weights at which the metric was built
    seed: int
    n_pairs: int = 0
    next_metric: int = 1  # the step after which it is built again
    metric: Metric = field(init=False, repr=False)


@dataclass(frozen=True)
class Lbfgs(RidgeSolver[LbfgsState]):
    """Settings of L-BFGS.

    Parameters
    ----------
    memory : int
        Steps that are remembered.
    preconditioner : {"auto", "none", "diagonal", "gram"}
        What the first guess knows of the Hessian: nothing, its diagonal, or the Gram matrix of some rows; "auto" is
        the Gram matrix for a modest number of features, else the diagonal.
    """

    memory: int = 10
    preconditioner: str = "auto"
    tuning: LbfgsTuning = LbfgsTuning()

    allowed: ClassVar = {"memory": (Whole(1),), "preconditioner": (OneOf(*PRECONDITIONERS),)}
    state_type: ClassVar[type[Any]] = LbfgsState

    def start(self, problem: RidgeProblem, init: CompositePoint | None, rng: np.random.Generator) -> LbfgsState:
        """Begin at zero, or at ``init``."""
        objective = RidgeObjective(problem)
        state = objective.begin(
            LbfgsState,
            init,
            moves=zeros(self.memory, objective.size),
            changes=zeros(self.memory, objective.size),
            products=np.ones(self.memory),
            anchor=zeros(objective.size),
            seed=int(rng.integers(2**32)),
        )
        state.anchor[:] = state.weights
        self._build_metric(objective, state)
        return state

    def step(self, problem: RidgeProblem, state: LbfgsState) -> LbfgsState:
        """Make one step of L-BFGS."""
        objective = self._objective(problem, state)
        D = self._direction(state)
        slope = float(state.gradient @ D)
        if not slope < 0.0:  # rounding has spoilt the pairs
            state.n_pairs = 0
            D = self._direction(state)
            slope = float(state.gradient @ D)
            if not slope < 0.0:
                return state
        slot = state.n_pairs % self.memory
        np.negative(state.gradient, out=state.changes[slot])
        line = objective.line(state, D)
        first = line.first_length(slope) if state.n_pairs == 0 else 1.0
        length = self.tuning.search.minimise(line, slope, first)
        state.changes[slot] += state.gradient
        np.multiply(D, length, out=state.moves[slot])
        product = float(state.moves[slot] @ state.changes[slot])
        if product > 0.0:
            state.products[slot] = product
            state.n_pairs += 1
        else:
            state.n_pairs = 0
        if state.n_steps == state.next_metric:
            state.next_metric *= 2
            objective.recompute(state)
            state.anchor[:] = state.weights
            self._build_metric(objective, state)
        return state

    def _objective(self, problem: RidgeProblem, state: LbfgsState) -> RidgeObjective:
        """Return the objective of the state; after a checkpoint, build it and the metric again."""
        if state.objective is None:
            objective = state.objective = RidgeObjective(problem)
            at_anchor = RidgeState(state.anchor, zeros(0), zeros(len(state.scores)), 0.0, 0)
            objective.recompute(at_anchor)
            self._build_metric(objective, state)
            objective.evaluate(state)
        return state.objective

    def _build_metric(self, objective: RidgeObjective, state: LbfgsState) -> None:
        """Build the metric from the probabilities of the objective."""
        rng = np.random.default_rng((state.seed, state.next_metric))
        state.metric = make_metric(self.preconditioner, objective, objective.all_rows, rng, self.tuning.metric).solve

    def _direction(self, state: LbfgsState) -> Array:
        """Return -H G."""
        return two_loops(state.gradient, state.metric, state.moves, state.changes, state.products, state.n_pairs)
