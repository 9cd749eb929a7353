"""L-BFGS for multinomial regression with a ridge, from a metric that knows the correlations of the features.

    minimise over W, b:   F(W, b) = sum_i C_i l_i(W' x_i + b) + ridge / 2 |W|^2                                spec 3.1

The direction is -H G, with H made of the last ``memory`` steps and of a first guess H0 (Nocedal's two loops). H0 is the
inverse of a Gram matrix of some rows, or of a diagonal (parts.metric), taken anew after 1, 2, 4, 8, ... steps, and
scaled so that it agrees with the last step. One step is one product with X for the line, one with X' for the gradient.

    Nocedal         here
    s, y            state.moves, state.changes      (memory, (d + 1) * k)   rings; pair t lies at t mod memory
    H0              metric                          made of the probabilities at state.anchor

Source: Liu and Nocedal (1989). We differ: the line search is nearly exact, as it costs no product.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.lanes import zeros
from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import RidgeProblem
from softmargin.problems.composite import CompositePoint
from softmargin.solvers.softmax._line_search import search_line
from softmargin.solvers.softmax._preconditioner import demand_preconditioner, make_metric
from softmargin.solvers.softmax._ridge_objective import RidgeModel, RidgeState, whole

__all__ = ["Lbfgs", "LbfgsState"]

Array = NDArray[Any]


@dataclass
class LbfgsState(RidgeState):
    """A point, the last steps, and where the metric was taken."""

    moves: Array  # (memory, (d + 1) * k)
    changes: Array  # (memory, (d + 1) * k) of the gradient
    products: Array  # (memory,) <s, y>
    anchor: Array  # ((d + 1) * k,) weights at which the metric was taken
    seed: int
    n_pairs: int = 0
    next_metric: int = 1
    model: Any = field(init=False, repr=False, default=None)
    metric: Any = field(init=False, repr=False, default=None)


@dataclass(frozen=True)
class Lbfgs:
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

    needs: ClassVar[tuple[type, ...]] = (RidgeProblem,)

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        demand_preconditioner(self.preconditioner)
        if self.memory < 1:
            raise IncompatibleError(f"memory={self.memory}; L-BFGS must remember at least one step.")

    def start(self, problem: Any, init: CompositePoint | None, rng: np.random.Generator) -> LbfgsState:
        """Begin at zero, or at ``init``."""
        model = RidgeModel(problem)
        base = model.begin(problem.checked_point(init))
        state = LbfgsState(
            **vars(base),
            moves=zeros(self.memory, model.size),
            changes=zeros(self.memory, model.size),
            products=np.ones(self.memory),
            anchor=base.weights.copy(),
            seed=int(rng.integers(2**32)),
        )
        state.model = model
        self._take_metric(state)
        return state

    def step(self, problem: Any, state: LbfgsState) -> LbfgsState:
        """Make one step of L-BFGS."""
        model = self._awake(problem, state)
        D = self._direction(state)
        slope = float(state.gradient @ D)
        if not slope < 0.0:  # rounding: what is remembered is of no use
            state.n_pairs = 0
            D = self._direction(state)
            slope = float(state.gradient @ D)
            if not slope < 0.0:
                return state
        slot = state.n_pairs % self.memory
        np.negative(state.gradient, out=state.changes[slot])
        model.aim(state, D)
        first = 1.0
        if state.n_pairs == 0:
            bend = model.bend()
            first = -slope / bend if bend > 0.0 else 1.0
        length = search_line(model, state, D, slope, first)
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
            model.renew(state)
            state.anchor[:] = state.weights
            self._take_metric(state)
        return state

    def point(self, problem: Any, state: LbfgsState) -> CompositePoint:
        """Return where the descent stands."""
        return self._awake(problem, state).point(state)

    def estimate(self, problem: Any, state: LbfgsState) -> float:
        """Guess the residual from the gradient at hand."""
        return self._awake(problem, state).estimate(state)

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> LbfgsState:
        """Rebuild the state from a checkpoint."""
        return LbfgsState(**arrays, **plain)

    def _awake(self, problem: Any, state: LbfgsState) -> RidgeModel:
        """Return the scratch of the state, made anew after a checkpoint."""
        if state.model is None:
            state.model = RidgeModel(problem)
            anchored = RidgeState(state.anchor, zeros(0), zeros(len(state.scores)), 0.0, 0)
            state.model.renew(anchored)
            self._take_metric(state)
            state.model.return_to(state)
        return state.model

    def _take_metric(self, state: LbfgsState) -> None:
        """Make the metric from the probabilities at hand."""
        rng = np.random.default_rng((state.seed, state.next_metric))
        state.metric = make_metric(self.preconditioner, state.model, whole(state.model), rng)

    def _direction(self, state: LbfgsState) -> Array:
        """Return -H G."""
        D = -state.gradient
        slots = [t % self.memory for t in range(max(0, state.n_pairs - self.memory), state.n_pairs)]
        shares = np.zeros(self.memory)
        for slot in reversed(slots):
            shares[slot] = float(state.moves[slot] @ D) / state.products[slot]
            D -= shares[slot] * state.changes[slot]
        D = state.metric.solve(D)
        if slots:
            last = state.changes[slots[-1]]
            size = float(last @ state.metric.solve(last))
            D = D * (state.products[slots[-1]] / size if size > 0.0 else 1.0)
        for slot in slots:
            D += (shares[slot] - float(state.changes[slot] @ D) / state.products[slot]) * state.moves[slot]
        return D
