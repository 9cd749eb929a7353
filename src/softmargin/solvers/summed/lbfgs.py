"""L-BFGS for a ridge and smooth losses that are summed over blocks of rows: about a pass a step.

    minimise over W:   F(W) = sum_i p_i f(W' x_i) + ridge / 2 |W|^2                       maths: blocks, eq. 1
    one step:          D = -H G (``two_loops``) ,    W <- W + t D

H is made of the last steps and of a first guess: the inverse of a Gram matrix, or of a diagonal, as Newton's method has
it for conjugate gradients, at the weights after 1, 2, 4, 8, ... steps. A step that does not lower F enough is
shortened: one pass tries several lengths.

Source: Liu and Nocedal (1989).
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.errors import IncompatibleError
from softmargin.core.parameters import Whole
from softmargin.core.protocols import SummedProblem
from softmargin.problems.summed_losses import SummedPoint
from softmargin.solvers.common.conjugate_gradients import Metric
from softmargin.solvers.common.resumable import Resumable
from softmargin.solvers.common.two_loops import two_loops
from softmargin.solvers.summed.sampled_start import SampleTuning, from_sample, objective
from softmargin.solvers.summed.steps import is_lower, metric_at, seen_by_penalty, shorter

__all__ = ["SummedLbfgs", "SummedLbfgsState", "SummedLbfgsTuning"]

Array = NDArray[Any]


class SummedLbfgsTuning(NamedTuple):
    """How steps are judged, as those of Newton's method."""

    most_numbers: int = 1 << 23  # of a Gram matrix: 64 MB travel from every block; by hand
    enough: float = 1e-4  # share of the predicted decrease that a step must reach; the usual one
    shortest: int = 12  # lengths 1/2, 1/4, ... of a step that is too long; by hand


@dataclass
class SummedLbfgsState:
    """The weights, the losses there, the last steps, and where the first guess was built."""

    weights: Array  # (d + 1, k)
    values: Array  # (4,) as a pass returns them
    gradient: Array  # (d + 1, k) of the losses
    moves: Array  # (memory, (d + 1) * k)
    changes: Array  # (memory, (d + 1) * k) of the gradient of F
    products: Array  # (memory,) of the two
    base: Array  # (d + 1, k)
    n_pairs: int = 0
    n_steps: int = 0
    next_base: int = 1  # the step after which the guess is built again
    metric: Metric | None = field(init=False, repr=False, default=None)


@dataclass(frozen=True)
class SummedLbfgs(Resumable):
    """Settings of L-BFGS over blocks of rows.

    Parameters
    ----------
    memory : int
        Steps that are remembered.

    Examples
    --------
    >>> import numpy as np
    >>> from softmargin import SummedLbfgs, penalties, solve
    >>> from softmargin.losses.entrywise import Logistic
    >>> from softmargin.problems.block_rows import Block, Form
    >>> from softmargin.problems.blocks import LocalBlocks
    >>> from softmargin.problems.summed import PenalizedSum
    >>> rows, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1])
    >>> blocks = LocalBlocks([Block(rows[:2], y[:2], np.ones(2)), Block(rows[2:], y[2:], np.ones(2))])
    >>> problem = PenalizedSum(blocks, Form(Logistic(), 1, 1.0, True), penalties.L2(1.0))
    >>> solve(problem, SummedLbfgs(), rng=0).status.value
    'converged'
    """

    memory: int = 10
    tuning: SummedLbfgsTuning = SummedLbfgsTuning()
    sample: SampleTuning = SampleTuning()

    allowed: ClassVar = {"memory": (Whole(1),)}
    needs: ClassVar[tuple[type, ...]] = (SummedProblem,)
    state_type: ClassVar[type] = SummedLbfgsState

    def start(self, problem: SummedProblem, init: SummedPoint | None, rng: np.random.Generator) -> SummedLbfgsState:
        """Begin at ``init``, at the optimum of a sample of many rows, or at zero."""
        if not (problem.ridge > 0.0 and problem.is_smooth):
            raise IncompatibleError(
                "L-BFGS over blocks needs a ridge and a loss without corners; use SummedNewton (solver='newton') for "
                "hinges, SummedProxNewton ('prox_newton') for other penalties."
            )
        begun: SummedLbfgsState | None = from_sample(self, problem, rng) if init is None else None
        if begun is not None:
            return begun
        W = problem.checked_point(init)[0]
        values, gradient, _ = problem.scored(W, 0.0)
        moves, changes = np.zeros((2, self.memory, W.size))
        return SummedLbfgsState(W, values, gradient, moves, changes, np.ones(self.memory), W)

    def step(self, problem: SummedProblem, state: SummedLbfgsState) -> SummedLbfgsState:
        """Make one step of L-BFGS."""
        W, G = state.weights, _gradient(problem, state.weights, state.gradient)
        D = self._direction(problem, state, G)
        if not np.vdot(G, D) < 0.0:  # rounding has spoilt the pairs
            state.n_pairs = 0
            D = self._direction(problem, state, G)
            if not np.vdot(G, D) < 0.0:
                return state
        before = objective(problem, state)
        new = W + D
        values, gradient, _ = problem.scored(new, 0.0)
        if not is_lower(float(values[0]) + problem.value(new), before, self.tuning.enough * float(np.vdot(G, D))):
            length = shorter(problem, W, D, 0.0, before, self.tuning.shortest)
            if length == 0.0:
                state.n_pairs = 0
                return state
            new = W + length * D
            values, gradient, _ = problem.scored(new, 0.0)
        self._remember(state, (new - W).ravel(), (_gradient(problem, new, gradient) - G).ravel())
        state.weights, state.values, state.gradient = new, values, gradient
        state.n_steps += 1
        if state.n_steps == state.next_base:
            state.base, state.metric, state.next_base = new, None, 2 * state.next_base
        return state

    def _direction(self, problem: SummedProblem, state: SummedLbfgsState, G: Array) -> Array:
        """Return -H G."""
        if state.metric is None:
            state.metric = metric_at(problem, state.base, 0.0, self.tuning.most_numbers)
        D = two_loops(G.ravel(), state.metric, state.moves, state.changes, state.products, state.n_pairs)
        return D.reshape(G.shape)

    def _remember(self, state: SummedLbfgsState, move: Array, change: Array) -> None:
        """Keep a step, where the gradient grew along it by more than rounding."""
        product = float(move @ change)
        if product > 0.0:
            slot = state.n_pairs % self.memory
            state.moves[slot], state.changes[slot], state.products[slot] = move, change, product
            state.n_pairs += 1

    def point(self, problem: SummedProblem, state: SummedLbfgsState) -> SummedPoint:
        """Return the weights."""
        return SummedPoint(state.weights.copy())

    def estimate(self, problem: SummedProblem, state: SummedLbfgsState) -> float:
        """Estimate the residual from the last pass."""
        return problem.rough_residual(state.weights, state.values, state.gradient, 0.0)


def _gradient(problem: SummedProblem, W: Array, of_losses: Array) -> Array:
    """Return the gradient of F."""
    return of_losses + problem.ridge * seen_by_penalty(problem, W)
