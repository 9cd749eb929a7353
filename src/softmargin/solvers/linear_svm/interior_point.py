"""A primal-dual interior point for linear joint SVMs: some dozens of steps, also at large C and on raw features.

    minimise over W:   P(W) = 1/2 |W|^2 + sum_i C_i l_i(W' x_i)                             maths: linear SVM, section 7

Every pair of a sample i and a wrong class j has beta_ij = -alpha_ij >= 0 with a multiplier s_ij, and an upper bound
with a multiplier t. At the optimum the products of all variables and their multipliers are zero; on the central path
they are mu:

    W = X' alpha ,    t - s = h(W) ,    beta s = mu ,    (C - beta) t = mu

One step is one of Newton's method on these equations by Mehrotra's predictor and corrector, with a few corrections for
products that stray (Gondzio). Eliminating all but W leaves a system in the weights,

    (identity + sum_i x_i x_i' (x) E M_i E') dW = right ,    M = diag(theta) ,  theta = 1 / (s / beta + t / (C - beta))

where M is diagonal less a rank of one for Crammer-Singer, whose rows share one upper bound. The samples of one label y
share E = [e_y - e_j]: k - 1 weighted Gram matrices of X per label are all of it.

    maths               here
    beta, C - beta      lower, upper        (n, m), m = k - 1; upper (n, 1) for Crammer-Singer
    theta, a            stiffness           (n, m)
    h                   margins             (n, m)
    W                   V                   (D, columns)    the unknowns (``_label_groups``)

Source: Mehrotra (1992); Gondzio (1996); for binary SVMs Ferris and Munson (2002). We differ: losses are joint.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import relative_gap
from softmargin.core.deadline import is_time_up
from softmargin.core.protocols import BlockDualProblem
from softmargin.matrices.operator import row_squares
from softmargin.problems.multiclass_svm import DualPoint
from softmargin.solvers.common.resumable import Resumable
from softmargin.solvers.linear_svm._block_loop import demand_finite
from softmargin.solvers.linear_svm._interior_loop import Pairs, aim, longest_step, recentre
from softmargin.solvers.linear_svm._label_groups import (
    STEEPEST,
    LabelGroups,
    best_multiple,
    given_point,
    steepness,
    used_columns,
)
from softmargin.solvers.linear_svm._newton_system import NewtonSystem
from softmargin.solvers.linear_svm._scaled_factor import FactorTuning
from softmargin.solvers.linear_svm.interior_work import (
    MAX_UNKNOWNS,
    count_corrections,
    demand_few_unknowns,
    is_factor_dear,
    is_joint,
    is_single_worth,
)

__all__ = ["InteriorPoint", "InteriorPointTuning", "InteriorState"]

Array = NDArray[Any]


class InteriorPointTuning(NamedTuple):
    """The constants of the steps, and the limit of the method."""

    max_unknowns: int = MAX_UNKNOWNS
    power: float = 3.0  # of the predictor's success in the choice of the next mu: Mehrotra (1992)
    least_fall: float = 1e-6  # of mu in one step; by hand
    finest: float = 1e-20  # share of P that the sum of products is, below which no step is made: rounding hides it
    boundary: float = 0.995  # share of the step to the boundary; by hand, as usual
    corrections: int = 2  # of products that stray, at most, where a factor is cheap; measured: section 7
    most_corrections: int = 10  # where a factor takes twice as long as so many; measured: section 7
    dear_corrections: int = 40  # where a factor takes longer than so many; measured: section 7
    half: float = 0.5  # of the way to a target, from which a lower one is tried with the same factor; by hand
    targets: int = 6  # of one factor that are lower than the first, at most; by hand
    shrink: float = 0.3  # of the last target is the next one; by hand
    less: float = 0.9  # of the sum of products must a lower target leave, at most; by hand
    short: float = 0.7  # of the way to the target: a shorter step is worth more than the usual corrections; measured
    dear_short: float = 0.85  # the same where a factor is dear; measured: section 14
    idle: int = 3  # of so many that are allowed, one may bring nothing before the next; by hand
    reach: float = 0.3  # added to the step for which a correction aims: Gondzio (1996) has 0.1
    width: float = 10.0  # products within this factor of mu do not stray: Gondzio (1996)
    gain: float = 0.01  # of the step that a correction must bring; by hand
    lift: float = 0.1  # of the mean product is the least one where a run begins at given weights; measured: section 14
    factor: FactorTuning = FactorTuning()
    exactness: float = 0.01  # of solutions with a factor of float32, by the residual in its metric; measured: with 0.1
    # X'alpha - W no longer falls late in a run
    rough: float = 1e-10  # ridge of a factor of float64 above which it is a metric, too; by hand
    sharp: float = 1e-6  # residual of these solutions; by hand
    most_sharp: int = 30  # products of one; measured: section 7
    refinements: int = 3  # of a step, by the same factor, where rounding leaves X'alpha - W; by hand
    missed: float = 0.1  # of the sum of products may half the square of that be; by hand
    most_products: int = 4  # of a solution: where so many are needed, float64 takes less time; measured: section 7


@dataclass
class InteriorState:
    """The variables, which a checkpoint holds, and scratch."""

    V: Array  # (D, columns)
    lower: Array  # (n, m)
    upper: Array  # (n, m), or (n, 1)
    s: Array  # (n, m)
    t: Array  # as upper
    ridge: float = 0.0  # added to the scaled Newton matrix
    is_single: bool = False  # squares and factors are of float32
    first: Any = field(default=None, init=False, repr=False)  # the point where the run starts, before its first step
    groups: Any = field(default=None, init=False, repr=False)
    here: "_Here | None" = field(default=None, init=False, repr=False)  # what the point implies, once evaluated

    def pairs(self) -> Pairs:
        """Return the variables as flat views."""
        return Pairs(*(each.reshape(-1) for each in (self.lower, self.upper, self.s, self.t)))


class _Here(NamedTuple):
    """What a point implies."""

    margins: Array  # (n, m) h
    implied: Array  # (D, columns) X' alpha
    primal: float
    dual: float  # at the best multiple of alpha
    multiple: float


@dataclass(frozen=True)
class InteriorPoint(Resumable):
    """The interior point; it has no settings. One step factors one Newton matrix."""

    tuning: InteriorPointTuning = InteriorPointTuning()

    needs: ClassVar[tuple[type, ...]] = (BlockDualProblem,)
    state_type = InteriorState

    def start(self, problem: BlockDualProblem, init: Any, rng: np.random.Generator) -> InteriorState:
        """Begin at W = 0 with all beta in the middle of their range; ``init`` is the point until the first step."""
        k = problem.n_classes
        demand_few_unknowns(problem, "InteriorPoint", self.tuning.max_unknowns)
        demand_finite(row_squares(problem.X))
        order = LabelGroups.find_order(problem)
        prices = problem.C[order, None]
        share = 1.0 / k if is_joint(problem) else 0.5
        lower = np.repeat(share * prices, k - 1, axis=1)
        upper = share * prices if is_joint(problem) else lower.copy()
        columns = 1 if k == 2 else k
        state = InteriorState(
            V=np.zeros((len(used_columns(problem.X)) + int(problem.bias != 0.0), columns)),
            lower=lower,
            upper=upper,
            s=np.ones_like(lower),
            t=np.full_like(upper, 2.0),
            is_single=is_single_worth(problem) and steepness(problem) <= STEEPEST,
        )
        state.first = given_point(problem, init)
        return state

    def enter(
        self, problem: BlockDualProblem, V: Array, lower: Array, groups: LabelGroups, width: float
    ) -> InteriorState:
        """Begin at weights and dual rows that nearly imply them, of hinges whose corners are rounded over ``width``.

        t is the value of such a hinge and s = t - h, so that only W = X'alpha is missed.
        """
        tuning, state = self.tuning, self.start(problem, None, np.random.default_rng(0))
        state.first, state.is_single, state.groups, state.V = None, False, groups, V.copy()
        h, size, joint = (1.0 + groups.margins(V)) / width, lower.size + state.upper.size, is_joint(problem)
        prices = groups.C[:, None]
        t = np.logaddexp(0.0, np.logaddexp.reduce(h, axis=1, keepdims=True) if joint else h)
        s = width * (t - h)
        t *= width
        upper = prices - lower.sum(axis=1, keepdims=True) if joint else prices - lower
        mean = (float(np.vdot(lower, s)) + float(np.vdot(upper, t))) / size
        least = tuning.lift * mean / prices
        s, t = s + least, t + least
        lower = np.maximum(lower, np.minimum(tuning.lift * mean / s, 0.5 * prices / lower.shape[1]))
        most = prices - np.minimum(tuning.lift * mean / t, 0.5 * prices)
        if joint:
            lower *= np.minimum(1.0, most / lower.sum(axis=1, keepdims=True))
            upper = prices - lower.sum(axis=1, keepdims=True)
        else:
            lower = np.minimum(lower, most)
            upper = prices - lower
        for mine, begun in zip((state.lower, state.upper, state.s, state.t), (lower, upper, s, t), strict=True):
            mine[:] = begun
        return state

    def step(self, problem: BlockDualProblem, state: InteriorState) -> InteriorState:
        """Predict, correct, aim lower where a factor is dear, and go as far as all variables stay positive.

        Where rounding leaves nothing to go by, the point stays.
        """
        state.first = None
        if not state.lower.size:
            return state
        tuning, here = self.tuning, self._evaluate(problem, state)
        now, size = state.pairs(), state.lower.size + state.upper.size
        total = float(now.lower @ now.s + now.upper @ now.t)
        if total <= tuning.finest * here.primal:
            return state
        try:
            system = NewtonSystem(state, here, is_joint(problem), tuning)
        except np.linalg.LinAlgError:
            if not state.V.any():
                raise
            return state  # next to the optimum, or as near as float64 leads
        low, high = -now.lower * now.s, -now.upper * now.t
        _, move = system.solve(low, high)
        a = min(1.0, _longest(now, move))
        target = total / size * max((_total_after(now, move, a) / total) ** tuning.power, tuning.least_fall)
        is_dear = is_factor_dear(problem)
        corrections = count_corrections(
            problem, tuning.corrections, tuning.dear_corrections if is_dear else tuning.most_corrections
        )
        tuning = tuning._replace(short=tuning.dear_short) if is_dear else tuning
        best = _aimed(system, move, target, corrections, tuning)
        is_lowered = is_dear and 0.5 * float(np.linalg.norm(here.implied - state.V)) ** 2 < total
        for _ in range(tuning.targets if is_lowered else 0):
            if best.a < tuning.half or is_time_up():
                break
            target *= tuning.shrink
            lower = _aimed_lower(system, best, target, corrections, tuning)
            if lower.a < tuning.half or lower.left(now) > tuning.less * best.left(now):
                break
            best = lower
        if not np.isfinite(best.V).all():
            return state
        best = _refined(system, best, tuning)
        state.V += best.a * best.V
        for mine, change in zip(now, best.move, strict=True):
            mine += best.a * change
        state.here = None
        return state

    def point(self, problem: BlockDualProblem, state: InteriorState) -> DualPoint:
        """Return the weights, and the best multiple of the dual rows, made feasible."""
        if state.first is not None:
            return DualPoint(state.first.alpha.copy(), state.first.weights.copy())
        here = self._evaluate(problem, state)
        groups: LabelGroups = state.groups
        return groups.point(problem, here.multiple * state.lower, state.V)

    def estimate(self, problem: BlockDualProblem, state: InteriorState) -> float:
        """Return the relative gap."""
        here = self._evaluate(problem, state)
        return relative_gap(here.primal, here.dual)

    def _evaluate(self, problem: BlockDualProblem, state: InteriorState) -> _Here:
        """Return what the point implies; each is evaluated once."""
        if state.groups is None:
            state.groups = LabelGroups(problem, LabelGroups.find_order(problem))
        if state.here is not None:
            return state.here
        groups, V = state.groups, state.V
        margins = 1.0 + groups.margins(V)
        implied = groups.adjoint(state.lower)
        primal = groups.primal(V, margins, is_joint=is_joint(problem))
        state.here = _Here(margins, implied, primal, *best_multiple(state.lower, implied))
        return state.here


class _Step(NamedTuple):
    """Moves of all variables, how much of them is made, and the changes of products that they were made for."""

    V: Array
    move: Pairs
    a: float
    low: Array
    high: Array
    target: float

    def left(self, now: Pairs) -> float:
        """Return the sum of all products behind the step."""
        return _total_after(now, self.move, self.a)


def _aimed(system: NewtonSystem, move: Pairs, target: float, corrections: int, tuning: InteriorPointTuning) -> _Step:
    """Aim at products of ``target`` less what a known move would add to them, and correct those that stray."""
    now = system.now
    low, high = np.empty_like(now.lower), np.empty_like(now.upper)
    aim(now.lower, now.s, move.lower, move.s, target, low)
    aim(now.upper, now.t, move.upper, move.t, target, high)
    return _corrected(system, low, high, target, corrections, tuning)


def _aimed_lower(
    system: NewtonSystem, last: _Step, target: float, corrections: int, tuning: InteriorPointTuning
) -> _Step:
    """Aim lower than a step that reaches its target, by the same for all products: what it has corrected stays so."""
    fall = target - last.target
    return _corrected(system, last.low + fall, last.high + fall, target, corrections, tuning)


def _corrected(
    system: NewtonSystem, low: Array, high: Array, target: float, corrections: int, tuning: InteriorPointTuning
) -> _Step:
    """Solve for these changes of the products, and correct those that stray from the target."""
    now = system.now
    V, move = system.solve(low, high)
    a = reached_by = _longest(now, move)
    best, idle = (V, move, low, high), 0
    for made in range(corrections):
        if a >= (1.0 if made < tuning.corrections else tuning.short) or is_time_up():
            break
        tried, rest = min(1.0, reached_by + tuning.reach), (target, tuning.width)
        more_low, more_high = np.empty_like(low), np.empty_like(high)
        recentre(now.lower, now.s, move.lower, move.s, tried, *rest, low, more_low)
        recentre(now.upper, now.t, move.upper, move.t, tried, *rest, high, more_high)
        low, high = more_low, more_high
        with np.errstate(over="ignore", invalid="ignore"):
            V, move = system.solve(low, high)
        if not np.isfinite(sum(float(each.sum()) for each in move)):  # aims that diverge
            break
        reached_by = _longest(now, move)
        idle = 0 if reached_by >= a + tuning.gain else idle + 1
        if not idle:
            best, a = (V, move, low, high), reached_by
        elif idle >= corrections // tuning.idle:
            break
    V, move, low, high = best
    return _Step(V, move, min(1.0, tuning.boundary * a), low, high, target)


def _refined(system: NewtonSystem, step: _Step, tuning: InteriorPointTuning) -> _Step:
    """Solve again for what a step misses of W = X'alpha, as long as that is more than its products leave, and falls."""
    if system.state.is_single or not tuning.refinements:
        return step
    now, missed = system.now, system.missed(step.V, step.move)
    for _ in range(tuning.refinements):
        square = float(np.vdot(missed, missed))
        if not 0.5 * step.a**2 * square > tuning.missed * step.left(now) or is_time_up():
            break
        V, move = system.refined(step.V, step.move, missed)
        missed = system.missed(V, move)
        if not float(np.vdot(missed, missed)) < square:
            break
        step = step._replace(V=V, move=move, a=min(1.0, tuning.boundary * _longest(now, move)))
    return step


def _longest(now: Pairs, move: Pairs) -> float:
    return min(float(longest_step(x, dx)) for x, dx in zip(now, move, strict=True))


def _total_after(now: Pairs, move: Pairs, a: float) -> float:
    """Return the sum of all products after a step a."""
    return _product_after(now.lower, now.s, move.lower, move.s, a) + _product_after(
        now.upper, now.t, move.upper, move.t, a
    )


def _product_after(x: Array, z: Array, dx: Array, dz: Array, a: float) -> float:
    """Return the sum of the products after a step a."""
    return float(x @ z + a * (x @ dz + dx @ z) + a * a * (dx @ dz))
