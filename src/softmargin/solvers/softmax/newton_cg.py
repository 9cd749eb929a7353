"""Newton's method for multinomial regression with a ridge, by conjugate gradients on a sample of the Hessian.

    minimise over W, b:   F(W, b) = sum_i C_i l_i(W' x_i + b) + ridge / 2 |W|^2                                spec 3.1
    H V = X' C (P T - P <P, T>) + ridge V,      T = X V                                                        spec 3.7

One step solves H D = -G about, and goes along D to where F is least. G and the line are exact; H is only a guide, and
most rows hardly bend F, as their class is known. So H is made of rows drawn by their curvature (parts.metric.thinned),
twice as many whenever the curvature along D was clearly not what the sample said; in the end, all of them.

Where the step is far too long, H is damped (parts.damping).

    CG stops at       |r| <= eta |G| in the norm of the inverse metric,   eta = min(1/4, (|G| / |G at the start|)^(1/2))
    preconditioner    parts.metric, of the same rows
"""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.lanes import zeros
from softmargin.core.protocols import RidgeProblem
from softmargin.problems.composite import CompositePoint
from softmargin.solvers.common.conjugate_gradients import conjugate_gradients
from softmargin.solvers.softmax._damping import next_damping
from softmargin.solvers.softmax._line_search import search_line
from softmargin.solvers.softmax._preconditioner import demand_preconditioner, make_metric, thinned
from softmargin.solvers.softmax._ridge_objective import RidgeModel, RidgeState, awake, whole

__all__ = ["NewtonCG", "NewtonCGState"]

Array = NDArray[Any]
LEAST_EXACT = 0.25
MOST_SAMPLED = 0.15  # a sample is not worth solving for any further
FIRST_ROWS = 6000  # rows of the first sample ...
ROWS_PER_FEATURE = 8  # ... or this many per feature
SHORT = 0.03  # a step this much shorter than it was meant shows that the Hessian is of no use here
MISJUDGED = 1.3  # factor by which a sample may be wrong about the curvature


@dataclass
class NewtonCGState(RidgeState):
    """A point, and how many rows the next sample has."""

    seed: int
    n_rows: int
    damping: float = 0.0
    first_size: float = math.nan  # |G|^2 in the norm of the inverse metric, at the first step
    model: Any = field(init=False, repr=False, default=None)


@dataclass(frozen=True)
class NewtonCG:
    """Settings of Newton's method. One step is one direction: as many products as it takes.

    Parameters
    ----------
    preconditioner : {"auto", "none", "diagonal", "gram"}
        What conjugate gradients know of the Hessian beforehand: nothing, its diagonal, or the Gram matrix of some
        rows; "auto" is the Gram matrix for a modest number of features, else the diagonal.
    sampled : bool
        Make the Hessian of a sample of the rows, as long as it serves; False takes all rows from the start.
    """

    preconditioner: str = "auto"
    sampled: bool = True

    needs: ClassVar[tuple[type, ...]] = (RidgeProblem,)

    def __post_init__(self) -> None:
        """Refuse settings that do not exist."""
        demand_preconditioner(self.preconditioner)

    def start(self, problem: Any, init: CompositePoint | None, rng: np.random.Generator) -> NewtonCGState:
        """Begin at zero, or at ``init``."""
        model = RidgeModel(problem)
        base = model.begin(problem.checked_point(init))
        n, d = problem.X.shape
        n_rows = max(FIRST_ROWS, ROWS_PER_FEATURE * (d + 1)) if self.sampled else n
        state = NewtonCGState(**vars(base), seed=int(rng.integers(2**32)), n_rows=n_rows)
        state.model = model
        return state

    def step(self, problem: Any, state: NewtonCGState) -> NewtonCGState:
        """Solve for a direction; go along it."""
        model = awake(problem, state)
        rng = np.random.default_rng((state.seed, state.n_steps))
        every = whole(model)
        rows = every if 2 * state.n_rows > model.n else thinned(model, every, state.n_rows, rng)
        metric = make_metric(self.preconditioner, model, rows, rng)
        T = model.trial if rows is every else zeros(len(rows.P))

        def product(V: Array, out: Array) -> None:
            model.hessian_times(rows, V, T, out)
            if state.damping > 0.0:
                out += state.damping * model.largest * V

        size = float(state.gradient @ metric.solve(state.gradient))
        if not state.first_size > 0.0:
            state.first_size = size
        if not size > 0.0:
            return state
        least = MOST_SAMPLED if rows is not every else 0.0
        exactness = max(min(LEAST_EXACT, (size / state.first_size) ** 0.25), least)
        D, residual, _ = conjugate_gradients(product, -state.gradient, metric, exactness, model.work)
        slope = float(state.gradient @ D)
        if not slope < 0.0:
            state.damping = next_damping(state.damping, helped=False)
            return state
        guessed = -slope - float(residual @ D)  # <D, H D>
        model.aim(state, D)
        first = 1.0
        if rows is not every:
            bend = model.bend()
            first = -slope / bend if bend > 0.0 else 1.0
            if not guessed < MISJUDGED * bend < MISJUDGED**2 * guessed:
                state.n_rows *= 2
        length = search_line(model, state, D, slope, first)
        state.damping = next_damping(state.damping, helped=length >= SHORT * first)
        return state

    def point(self, problem: Any, state: NewtonCGState) -> CompositePoint:
        """Return where the descent stands."""
        return awake(problem, state).point(state)

    def estimate(self, problem: Any, state: NewtonCGState) -> float:
        """Guess the residual from the gradient at hand."""
        return awake(problem, state).estimate(state)

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> NewtonCGState:
        """Rebuild the state from a checkpoint."""
        return NewtonCGState(**arrays, **plain)
