"""Newton's method on an augmented Lagrangian, for linear hinge SVMs of two classes on data as they come.

    minimise over w:   P(w) = 1/2 |w|^2 + sum_i C_i [z_i]_+ ,    z_i = 1 - y_i <w, x_i>    maths: linear SVM, section 10

Every sample has a share b_i in 0 .. 1 of its price: a = C b is the dual point. One outer step minimises a smooth
relative of P, whose corners are rounded over a width of 1 / rho around where the shares place them,

    psi(w) = 1/2 |w|^2 + sum_i C_i e(z_i + b_i / rho) ,    e'(s) = clip(rho s, 0, 1)
    then b <- clip(b + rho z, 0, 1), and rho grows

psi is quadratic where no sample enters or leaves the set J of those with 0 < b + rho z < 1, and its Newton matrix has
these few samples only:

    (identity + rho sum_J C_i x_i x_i') dw = -g ,    g = w - sum_i C_i b_i y_i x_i

followed by the step that minimises psi exactly. It is solved in one unknown per feature, or per sample of J where these
are far fewer. Between two Newton steps few samples enter and leave J, which is all that the sum over J has to follow.

The gap splits: P(w) - D(C b) = |g|^2 / 2 + sum_i C_i ([z_i]_+ - b_i z_i). Newton's method lowers the first part, new
shares the second one; psi is minimised until the first is not the larger one.

Source: Niu, Wang, Tang, Wang and Song (2019); Yan and Li (2019). We differ: rounding is relative to C, inner problems
end by the two parts of the gap, steps are exact, and the sum over J is updated.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import relative_gap
from softmargin.core.deadline import check_time
from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import BlockDualProblem
from softmargin.matrices.operator import row_squares
from softmargin.matrices.products import adjoint, times
from softmargin.problems.joint_svm import collapsed, spread
from softmargin.problems.multiclass_svm import DualPoint
from softmargin.solvers.common.hinge_newton import exact_step
from softmargin.solvers.common.resumable import Resumable
from softmargin.solvers.linear_svm._active_squares import ActiveSquares
from softmargin.solvers.linear_svm._block_loop import demand_finite

__all__ = ["AugmentedLagrangian", "AugmentedLagrangianTuning", "MultiplierState"]

Array = NDArray[Any]


class AugmentedLagrangianTuning(NamedTuple):
    """The constants of the outer steps."""

    first_rho: float = 0.01  # corners are a hundred margins wide at first: Newton steps are whole; by hand
    growth: float = 3.0  # of rho; measured on mnist 0..255: 10 takes twice as many Newton steps
    fall: float = 0.5  # of the gap: what is left of it after a step of the run; by hand
    most_steps: int = 60  # Newton steps in one step of the run; an outer step may go on in the next one; by hand


@dataclass
class MultiplierState:
    """The iterate, which a checkpoint holds."""

    weights: Array  # (d + 1,) the last belongs to the constant feature
    shares: Array  # (n,) b, which place the corners
    latest: Array  # (n,) clip(b + rho z): the dual point
    rho: float
    here: "_Here | None" = field(default=None, init=False, repr=False)  # what the point implies, once evaluated


class _Here(NamedTuple):
    """What weights and shares imply."""

    shares: Array  # (n,) clip(b + rho z)
    gradient: Array  # (d + 1,) g
    primal: float
    dual: float  # at the best multiple of the new shares
    multiple: float
    is_done: bool  # psi is minimised so far that new shares bring more


@dataclass(frozen=True)
class AugmentedLagrangian(Resumable):
    """The augmented Lagrangian; it has no settings. One step makes outer steps until the gap has halved."""

    tuning: AugmentedLagrangianTuning = AugmentedLagrangianTuning()

    needs: ClassVar[tuple[type, ...]] = (BlockDualProblem,)
    state_type = MultiplierState

    def start(self, problem: BlockDualProblem, init: Any, rng: np.random.Generator) -> MultiplierState:
        """Begin at zero, or at the weights and shares of ``init``."""
        if problem.n_classes != 2:
            raise IncompatibleError(
                f"AugmentedLagrangian is for two classes, or one class against the rest; this problem joins "
                f"{problem.n_classes} in one loss. Use InteriorPoint or DualBlockDescent."
            )
        demand_finite(row_squares(problem.X))
        n, d = problem.X.shape
        state = MultiplierState(np.zeros(d + 1), np.zeros(n), np.zeros(n), self.tuning.first_rho)
        if init is not None:
            y, prices = _signs_and_prices(problem)
            alpha = y * collapsed(problem.feasible(init.alpha))[:, 0]
            state.shares = np.divide(alpha, prices, out=np.zeros(n), where=prices > 0.0)
            state.latest = state.shares.copy()
            weights = problem.point(init.alpha).weights if init.weights is None else init.weights
            state.weights = np.ascontiguousarray(collapsed(weights)[:, 0])
        return state

    def step(self, problem: BlockDualProblem, state: MultiplierState) -> MultiplierState:
        """Minimise psi by Newton's method and take the new shares, until the gap has halved."""
        tuning, (y, prices) = self.tuning, _signs_and_prices(problem)
        squares = ActiveSquares(problem.X, problem.bias, prices)
        weights, slack, fall = state.weights.copy(), _slack(problem, state.weights), np.empty(len(y))
        before, shares, rho = self._look(problem, state), state.shares, state.rho
        enough = tuning.fall * (before.primal - before.dual)
        for newton in range(tuning.most_steps + 1):
            here = _evaluate(problem, weights, slack, shares, rho)
            if here.is_done:
                shares, rho = here.shares, rho * tuning.growth
                if here.primal - here.dual <= enough:
                    break
                continue
            if newton == tuning.most_steps:
                break
            check_time(2.0 * problem.X.shape[0] * problem.X.shape[1])
            move = squares.solve((here.shares > 0.0) & (here.shares < 1.0), rho, -here.gradient)
            times(problem.X, move, problem.bias, 1, fall)
            fall *= y
            linear, quadratic = float(weights @ move), float(move @ move)
            length = exact_step(linear, quadratic, slack + shares / rho, fall, rho * prices, 1.0 / rho)
            weights += length * move
            slack -= length * fall
        state.weights, state.latest, state.here = weights, here.shares, None
        state.shares, state.rho = shares, rho
        return state

    def point(self, problem: BlockDualProblem, state: MultiplierState) -> DualPoint:
        """Return the weights, and the best multiple of the new shares."""
        y, prices = _signs_and_prices(problem)
        here = self._look(problem, state)
        dual = y * (here.multiple * here.shares * prices)
        return DualPoint(spread(dual[:, None]), spread(state.weights[:, None]))

    def estimate(self, problem: BlockDualProblem, state: MultiplierState) -> float:
        """Return the relative gap."""
        here = self._look(problem, state)
        return relative_gap(here.primal, here.dual)

    def primal_value(self, problem: BlockDualProblem, state: MultiplierState) -> float:
        """Return P at the iterate."""
        return self._look(problem, state).primal

    def _look(self, problem: BlockDualProblem, state: MultiplierState) -> _Here:
        if state.here is None:
            state.here = _evaluate(problem, state.weights, _slack(problem, state.weights), state.latest, 0.0)
        return state.here


def _signs_and_prices(problem: BlockDualProblem) -> tuple[Array, Array]:
    """Return y = -1, 1 and C of the same problem in plain numbers, which is twice this one."""
    return 2.0 * problem.y - 1.0, 2.0 * problem.C


def _slack(problem: BlockDualProblem, weights: Array) -> Array:
    """Return z = 1 - y <w, x>; (n,)."""
    slack = np.empty(len(problem.y))
    times(problem.X, weights, problem.bias, 1, slack)
    return np.asarray(1.0 - (2.0 * problem.y - 1.0) * slack)


def _evaluate(problem: BlockDualProblem, weights: Array, slack: Array, shares: Array, rho: float) -> _Here:
    """Return what weights and shares imply."""
    y, prices = _signs_and_prices(problem)
    new, implied = np.clip(shares + rho * slack, 0.0, 1.0), np.empty_like(weights)
    adjoint(problem.X, y * prices * new, problem.bias, 1, implied)
    gradient = weights - implied
    losses = np.maximum(slack, 0.0)
    primal = 0.5 * float(weights @ weights) + float(prices @ losses)
    own, square = float(prices @ new), float(implied @ implied)
    multiple = min(1.0, own / square) if square > 0.0 else 1.0
    dual = multiple * own - 0.5 * multiple**2 * square
    rest = float(prices @ (losses - new * slack))
    is_done = 0.5 * float(gradient @ gradient) <= rest
    return _Here(new, gradient, primal, dual, multiple, is_done)
