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
Samples far behind their margin add nothing to psi: Newton's steps leave them out, and all are looked at once psi is
minimised over the others.

The gap splits: P(w) - D(C b) = |g|^2 / 2 + sum_i C_i ([z_i]_+ - b_i z_i). Newton's method lowers the first part, new
shares the second one; psi is minimised until the first is not the larger one.

Source: Niu, Wang, Tang, Wang and Song (2019); Yan and Li (2019). We differ: rounding is relative to C, inner problems
end by the two parts of the gap, steps are exact, and the sum over J is updated.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.aim import wanted_residual
from softmargin.core.certificate import relative_gap
from softmargin.core.deadline import check_time
from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import BlockDualProblem
from softmargin.matrices.operator import row_squares
from softmargin.matrices.products import adjoint, times
from softmargin.matrices.rows import as_rows
from softmargin.problems.joint_svm import collapsed, spread
from softmargin.problems.multiclass_svm import DualPoint
from softmargin.solvers.common.hinge_newton import exact_step
from softmargin.solvers.common.resumable import Resumable
from softmargin.solvers.linear_svm._active_squares import ActiveSquares, WholeSquares
from softmargin.solvers.linear_svm._block_loop import demand_finite
from softmargin.solvers.linear_svm._lagrangian_loop import ROUNDING, Numbers, few_newton_steps, new_shares, numbers_of

__all__ = ["AugmentedLagrangian", "AugmentedLagrangianTuning", "MultiplierState", "has_small_steps"]

Array = NDArray[Any]


class AugmentedLagrangianTuning(NamedTuple):
    """The constants of the outer steps."""

    first_rho: float = 0.01  # corners are a hundred margins wide at first: Newton steps are whole; by hand
    growth: float = 3.0  # of rho; measured on mnist 0..255: 10 takes twice as many Newton steps
    fall: float = 0.5  # of the gap: what is left of it after a step of the run; by hand
    fall_of_few: float = 1e-3  # the same of compiled steps, unless the run wants less; by timings
    few: int = 1 << 20  # multiplications n D^2 of an array up to which compiled steps are faster than BLAS; by timings
    most_steps: int = 60  # Newton steps in one step of the run; an outer step may go on in the next one; by hand
    near: float = 1.0  # margins behind its own up to which a sample with no share is not left out; by hand
    most_near: float = 0.5  # of all samples: above, a copy of the others does not pay; measured on skin-nonskin


@dataclass
class MultiplierState:
    """The iterate, which a checkpoint holds."""

    weights: Array  # (d + 1,) the last belongs to the constant feature
    shares: Array  # (n,) b, which place the corners
    latest: Array  # (n,) clip(b + rho z): the dual point
    rho: float
    here: "_Here | None" = field(default=None, init=False, repr=False)  # what the point implies, once evaluated
    whole: "WholeSquares | None" = field(default=None, init=False, repr=False)  # shared with other classes


class _Here(NamedTuple):
    """What weights and shares imply."""

    shares: Array  # (n,) clip(b + rho z)
    gradient: Array  # (d + 1,) g
    numbers: Numbers


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
            samples = _all_samples(problem)
            alpha = samples.y * collapsed(problem.feasible(init.alpha))[:, 0]
            state.shares = np.divide(alpha, samples.prices, out=np.zeros(n), where=samples.prices > 0.0)
            state.latest = state.shares.copy()
            weights = problem.point(init.alpha).weights if init.weights is None else init.weights
            state.weights = np.ascontiguousarray(collapsed(weights)[:, 0])
        return state

    def start_together(self, parts: Sequence[BlockDualProblem], inits: Sequence[Any]) -> list[MultiplierState]:
        """Start several problems; those of the same rows share the sum over all of these."""
        states = [self.start(part, init, np.random.default_rng(0)) for part, init in zip(parts, inits, strict=True)]
        whole = WholeSquares()
        for state in states:
            state.whole = whole
        return states

    def step(self, problem: BlockDualProblem, state: MultiplierState) -> MultiplierState:
        """Minimise psi by Newton's method and take the new shares, until the gap has halved; more of it where cheap."""
        tuning, before = self.tuning, self._look(problem, state).numbers
        gap, nothing = before.primal - before.dual, ROUNDING * before.primal
        if gap <= nothing:
            return state
        enough = max(tuning.fall * gap, nothing)
        if has_small_steps(problem, tuning):
            wanted = max(tuning.fall_of_few * gap, tuning.fall * wanted_residual() * before.primal)
            if self._make_small_steps(problem, state, max(min(enough, wanted), nothing)):
                return state
        everything = _all_samples(problem)
        squares = ActiveSquares(problem.X, problem.bias, everything.prices, state.whole)
        weights, slack = state.weights.copy(), _slack(everything, state.weights)
        shares, rho = state.shares, state.rho
        near = everything.nearest(shares, slack, np.zeros(len(shares), dtype=bool), tuning)
        slack = slack[near.rows]
        for newton in range(tuning.most_steps + 1):
            here = _evaluate(near, weights, slack, shares[near.rows], rho)
            if here.numbers.is_done or newton == tuning.most_steps:
                slack = everything.filled(near, slack, weights)
                if near is not everything:
                    here = _evaluate(everything, weights, slack, shares, rho)
                is_kept = np.zeros(len(problem.y), dtype=bool)
                if here.numbers.is_done:
                    shares, rho = here.shares, rho * tuning.growth
                    if here.numbers.primal - here.numbers.dual <= enough:
                        break
                else:
                    is_kept[near.rows] = True  # those that come back stay, until psi is minimised
                if newton == tuning.most_steps:
                    break
                near = everything.nearest(here.shares, slack, is_kept, tuning)
                slack = slack[near.rows]
                continue
            check_time(2.0 * problem.X.shape[0] * problem.X.shape[1])
            is_active = np.zeros(len(problem.y), dtype=bool)
            is_active[near.rows] = (here.shares > 0.0) & (here.shares < 1.0)
            move = squares.solve(is_active, rho, -here.gradient)
            fall = near.y * near.times(move)
            linear, quadratic = float(weights @ move), float(move @ move)
            corners = slack + shares[near.rows] / rho
            length = exact_step(linear, quadratic, corners, fall, rho * near.prices, 1.0 / rho)
            weights += length * move
            slack -= length * fall
        state.weights, state.latest, state.here = weights, here.shares, None
        state.shares, state.rho = shares, rho
        return state

    def _make_small_steps(self, problem: BlockDualProblem, state: MultiplierState, enough: float) -> bool:
        """Make the same step in one compiled call; say whether all of its systems had a factor."""
        tuning, samples, state.here = self.tuning, _all_samples(problem), None
        rows, iterate = as_rows(problem.X, problem.bias), (state.weights, state.shares, state.latest)
        how = (enough, tuning.growth, tuning.most_steps)
        state.rho, is_made = few_newton_steps(rows, samples.y, samples.prices, iterate, state.rho, *how)
        return bool(is_made)

    def point(self, problem: BlockDualProblem, state: MultiplierState) -> DualPoint:
        """Return the weights, and the best multiple of the new shares."""
        everything, here = _all_samples(problem), self._look(problem, state)
        dual = everything.y * (here.numbers.multiple * here.shares * everything.prices)
        return DualPoint(spread(dual[:, None]), spread(state.weights[:, None]))

    def estimate(self, problem: BlockDualProblem, state: MultiplierState) -> float:
        """Return the relative gap."""
        here = self._look(problem, state)
        return relative_gap(here.numbers.primal, here.numbers.dual)

    def primal_value(self, problem: BlockDualProblem, state: MultiplierState) -> float:
        """Return P at the iterate."""
        return self._look(problem, state).numbers.primal

    def _look(self, problem: BlockDualProblem, state: MultiplierState) -> _Here:
        if state.here is None:
            samples = _all_samples(problem)
            state.here = _evaluate(samples, state.weights, _slack(samples, state.weights), state.latest, 0.0)
        return state.here


class _Samples(NamedTuple):
    """Some samples of the same problem in plain numbers, which is twice the one that is posed."""

    rows: Any  # which they are
    X: Any
    y: Array  # -1 and 1
    prices: Array  # C
    bias: float

    def nearest(self, shares: Array, slack: Array, is_kept: Array, tuning: AugmentedLagrangianTuning) -> "_Samples":
        """Return those with a share, near their margin, or kept; all where these are many."""
        is_near = is_kept | (shares > 0.0) | (slack > -tuning.near)
        if np.count_nonzero(is_near) > tuning.most_near * len(shares):
            return self
        rows = np.flatnonzero(is_near)
        return _Samples(rows, self.X[rows], self.y[rows], self.prices[rows], self.bias)

    def filled(self, some: "_Samples", slack: Array, weights: Array) -> Array:
        """Return the slack of all samples, given that of some, which the steps have followed to the last digit."""
        if some is self:
            return slack
        whole = _slack(self, weights)
        whole[some.rows] = slack
        return whole

    def times(self, weights: Array) -> Array:
        """Return the scores."""
        scores = np.empty(len(self.y))
        times(self.X, weights, self.bias, 1, scores)
        return scores


def has_small_steps(problem: BlockDualProblem, tuning: AugmentedLagrangianTuning | None = None) -> bool:
    """Say whether X is an array of few numbers, of which Newton steps are compiled."""
    n, d = problem.X.shape
    most = (AugmentedLagrangian.tuning if tuning is None else tuning).few
    return isinstance(problem.X, np.ndarray) and n * (d + 1.0) ** 2 <= most


def _all_samples(problem: BlockDualProblem) -> _Samples:
    return _Samples(slice(None), problem.X, 2.0 * problem.y - 1.0, 2.0 * problem.C, problem.bias)


def _slack(samples: _Samples, weights: Array) -> Array:
    """Return z = 1 - y <w, x>."""
    return np.asarray(1.0 - samples.y * samples.times(weights))


def _evaluate(samples: _Samples, weights: Array, slack: Array, shares: Array, rho: float) -> _Here:
    """Return what weights and shares imply, as if there were no other samples."""
    new, forces, implied = np.empty_like(slack), np.empty_like(slack), np.empty_like(weights)
    losses, own, rest = new_shares(samples.y, samples.prices, slack, shares, rho, new, forces)
    adjoint(samples.X, forces, samples.bias, 1, implied)
    return _Here(new, weights - implied, numbers_of(weights, implied, losses, own, rest))
