"""Steps of the interior point: the aims of the products, their corrections, lower targets with the same factor.

A predictor tells how far products can fall. A step aims there, corrects the products that would stray (Gondzio), and
may aim lower; what rounding leaves of W = X'alpha is solved for again.          maths: linear SVM, sections 7 and 14
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.deadline import is_time_up
from softmargin.solvers.linear_svm._interior_loop import Pairs, aim, longest_step, recentre
from softmargin.solvers.linear_svm._newton_system import NewtonSystem
from softmargin.solvers.linear_svm._scaled_factor import FactorTuning
from softmargin.solvers.linear_svm.interior_work import MAX_UNKNOWNS

__all__ = ["InteriorPointTuning", "Step", "aimed", "aimed_lower", "longest", "lowered", "refined", "total_after"]

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


class Step(NamedTuple):
    """Moves of all variables, how much of them is made, and the changes of products that they were made for."""

    V: Array
    move: Pairs
    a: float
    low: Array
    high: Array
    target: float

    def left(self, now: Pairs) -> float:
        """Return the sum of all products behind the step."""
        return total_after(now, self.move, self.a)


def aimed(system: NewtonSystem, move: Pairs, target: float, corrections: int, tuning: InteriorPointTuning) -> Step:
    """Aim at products of ``target`` less what a known move would add to them, and correct those that stray."""
    now = system.now
    low, high = np.empty_like(now.lower), np.empty_like(now.upper)
    aim(now.lower, now.s, move.lower, move.s, target, low)
    aim(now.upper, now.t, move.upper, move.t, target, high)
    return _corrected(system, low, high, target, corrections, tuning)


def aimed_lower(system: NewtonSystem, last: Step, target: float, corrections: int, tuning: InteriorPointTuning) -> Step:
    """Aim lower than a step that reaches its target, by the same for all products: what it has corrected stays so."""
    fall = target - last.target
    return _corrected(system, last.low + fall, last.high + fall, target, corrections, tuning)


def lowered(system: NewtonSystem, best: Step, corrections: int, tuning: InteriorPointTuning) -> Step:
    """Aim lower and lower with the same factor, while steps get at least half of the way and leave less."""
    for _ in range(tuning.targets):
        if best.a < tuning.half or is_time_up():
            break
        lower = aimed_lower(system, best, tuning.shrink * best.target, corrections, tuning)
        if lower.a < tuning.half or lower.left(system.now) > tuning.less * best.left(system.now):
            break
        best = lower
    return best


def _corrected(
    system: NewtonSystem, low: Array, high: Array, target: float, corrections: int, tuning: InteriorPointTuning
) -> Step:
    """Solve for these changes of the products, and correct those that stray from the target."""
    now = system.now
    V, move = system.solve(low, high)
    a = reached_by = longest(now, move)
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
        reached_by = longest(now, move)
        idle = 0 if reached_by >= a + tuning.gain else idle + 1
        if not idle:
            best, a = (V, move, low, high), reached_by
        elif idle >= corrections // tuning.idle:
            break
    V, move, low, high = best
    return Step(V, move, min(1.0, tuning.boundary * a), low, high, target)


def refined(system: NewtonSystem, step: Step, tuning: InteriorPointTuning) -> Step:
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
        step = step._replace(V=V, move=move, a=min(1.0, tuning.boundary * longest(now, move)))
    return step


def longest(now: Pairs, move: Pairs) -> float:
    """Return the multiple of a move at which the first variable is zero."""
    return min(float(longest_step(x, dx)) for x, dx in zip(now, move, strict=True))


def total_after(now: Pairs, move: Pairs, a: float) -> float:
    """Return the sum of all products after a step a."""
    return _product_after(now.lower, now.s, move.lower, move.s, a) + _product_after(
        now.upper, now.t, move.upper, move.t, a
    )


def _product_after(x: Array, z: Array, dx: Array, dz: Array, a: float) -> float:
    """Return the sum of the products after a step a."""
    return float(x @ z + a * (x @ dz + dx @ z) + a * a * (dx @ dz))
