"""A fast solver, and the one that finishes where it stalls: what ``solver="auto"`` runs.

    distance    delta = (P - D) / D         of a certificate; it falls also where (P - D) / P is still near 1
    rate        delta_0 after t_0 steps, delta_1 after t_1 >= 2 t_0: exp(-r t), or the power t^-p, through both
    left        the geometric mean of the t at which both reach tol, less t_1; infinite where the distance did not fall
    rule        left > slack * patience     hands the point over for good

Gaps of block descent fall faster than by a power, and slower than by the rate of the moment (docs/design.md). They rise
now and then, as P does not fall with every step: so t_0 lies half of all steps back, or more.

``patience`` is the whole work of the finisher in steps of the first solver, by a count of their multiplications
(``estimators.posing.finishers``). So the rule reads no clock: the same seed hands over after the same step, and a
resumed run as the whole one. Where the finisher has systems of the samples with a loss, the first solver tells how many
there are (``support``), as these are a tenth of one text and all of another. Until the first solver has made so many
steps that the finisher might have been done for a share of their work, nothing is decided: a fit that is nearly done is
left alone. Estimates are judged by the same rule: where they promise an end before as many steps again and within the
patience, no certificate is asked for to judge by. With a ``guess`` this begins after so many steps, but not before a
small share of the patience, and where they tell of a stall, certificates are asked for at once. Where steps are not
alike, the first solver counts its own work (``work_done``), and a step that takes several times the ``unit`` counts as
several.

The one that finishes may be such a pair itself: then there are three in turn, or more.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from softmargin.core.aim import wanted_residual
from softmargin.core.certificate import Certificate
from softmargin.core.parameters import NOT_NEGATIVE, POSITIVE, SOLVER_OBJECT, CheckedFields, Whole
from softmargin.core.protocols import Solver
from softmargin.solvers.common.resumable import split_parts

__all__ = ["HandOver", "HandOverState", "HandOverTuning", "distance_of", "steps_left"]

_FAR = 100.0  # the logarithm of a number of steps that nobody makes


class HandOverTuning(NamedTuple):
    """The constants of the rule."""

    slack: float = 2.0  # "twice the work it should take": the counts of both solvers may be wrong by this; by hand
    first_look: float = 0.125  # share of the patience after which the first solver is judged, then twice that, ...
    fewest: int = 32  # steps before that, or the patience where it is less: a certificate takes two passes, and fits
    # that need few shall not pay for it
    early_look: float = 1 / 64  # share of the patience after which its estimates may tell of a stall; by hand
    # ``fewest`` of squared hinges, whose P swings: that of news20 at C = 100 rises between 32 and 64 passes.
    fewest_of_squares: int = 64


@dataclass
class HandOverState:
    """The state of the solver at work, and what the rule remembers."""

    states: list[Any]  # one: a list, so that a checkpoint names its arrays "0.alpha"
    turn: int = 0  # how many have handed over
    steps: float = 0.0  # of the solver at work, long ones counted as several
    counted: float = 0.0  # the work of those, where it counts that
    judged_at: float = 0.0  # t_0, its steps at an earlier certificate
    distance: float = math.inf  # (P - D) / D there
    next_at: float = 0.0  # the same of the one that follows as t_0, after twice its steps
    next_distance: float = math.inf
    guessed_at: float = 0.0  # its steps at the last estimate that was looked at
    guess: float = math.inf  # the distance there
    is_suspect: bool = False  # it stalls, by its estimates
    is_near: bool = False  # by its estimates it ends before as many steps again, and the patience


@dataclass(frozen=True)
class HandOver(CheckedFields):
    """Run a solver, and where it stalls another one from its point.

    Parameters
    ----------
    first : Solver
        The one that is fast where it is not slow.
    then : Solver
        The one that finishes, or the next pair. It starts at the point of the first.
    patience : float
        How many steps of the first cost as much as the whole run of the second.
    unit : float
        The work of such a step, where the first counts its own.
    support : float
        The share of the samples in the systems of the second, as ``patience`` has it. Where the first tells that there
        are more, the patience grows by the cube. 0: its systems are of something else.
    guess : int
        The steps after which estimates of the first solver are looked at; 0 for never.
    tuning : HandOverTuning

    Examples
    --------
    >>> import numpy as np
    >>> from softmargin import DualBlockDescent, HandOver, InteriorPoint, MulticlassSVM, solve
    >>> rows, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 2])
    >>> solver = HandOver(DualBlockDescent(), InteriorPoint(), patience=100.0)
    >>> solve(MulticlassSVM(rows, y), solver, rng=0).status.value
    'converged'
    """

    first: Solver[Any, Any, Any]
    then: Solver[Any, Any, Any]
    patience: float = field(compare=False)  # of the problem: solvers for two problems may be the same
    tuning: HandOverTuning = HandOverTuning()
    unit: float = field(default=1.0, compare=False)
    support: float = 0.0
    guess: int = 0

    allowed: ClassVar = {
        "first": (SOLVER_OBJECT,),
        "then": (SOLVER_OBJECT,),
        "patience": (POSITIVE,),
        "unit": (POSITIVE,),
        "support": (NOT_NEGATIVE,),
        "guess": (Whole(0),),
    }

    @property
    def needs(self) -> tuple[type, ...]:
        """What both need of a problem."""
        return (*self.first.needs, *self.then.needs)

    @cached_property
    def pairs(self) -> tuple["HandOver", ...]:
        """Return this pair, and those that follow it."""
        return (self, *self.then.pairs) if isinstance(self.then, HandOver) else (self,)

    @cached_property
    def first_look(self) -> int:
        """After how many steps the first solver is judged, at the earliest."""
        tuning = self.tuning
        fewest = tuning.fewest_of_squares if self.support else min(tuning.fewest, math.ceil(self.patience))
        return max(math.ceil(tuning.first_look * self.patience), fewest)

    @property
    def first_guess(self) -> float:
        """After how many steps its estimates are looked at: twice before a certificate is asked for, or earlier."""
        return max(self.guess, self.tuning.early_look * self.patience) if self.guess else self.first_look / 4.0

    def patience_at(self, problem: Any, state: Any) -> float:
        """Return the patience at a state of the first solver."""
        if self.support == 0.0:
            return self.patience
        share: float = self.first.support(problem, state)  # type: ignore[attr-defined]
        return self.patience * max(share / self.support, 1.0) ** 3

    def at_work(self, state: HandOverState) -> Solver[Any, Any, Any]:
        """Return the solver whose turn it is."""
        return self.pairs[state.turn].first if self.has_finisher(state) else self.pairs[-1].then

    def start(self, problem: Any, init: Any, rng: np.random.Generator) -> HandOverState:
        """Start the first solver."""
        return HandOverState([self.first.start(problem, init, rng)])

    def fresh(self, problem: Any, state: HandOverState) -> HandOverState:
        """Return a first state of the solver at work in ``state``, with which a checkpoint is compared."""
        return HandOverState([self.at_work(state).start(problem, None, np.random.default_rng(0))])

    def step(self, problem: Any, state: HandOverState) -> HandOverState:
        """Make a step of the solver at work."""
        solver = self.at_work(state)
        state.states[0] = solver.step(problem, state.states[0])
        count = getattr(solver, "work_done", None)
        work = 0.0 if count is None else count(state.states[0])
        unit = self.pairs[state.turn].unit if self.has_finisher(state) else 1.0
        state.steps += max(1.0, (work - state.counted) / unit)
        state.counted = work
        self._guess(problem, state)
        return state

    def _guess(self, problem: Any, state: HandOverState) -> None:
        """Judge the first solver by its estimates, after some steps, twice that, ..."""
        pair = self.pairs[state.turn] if self.has_finisher(state) else None
        if pair is None or state.steps < max(pair.first_guess, 2.0 * state.guessed_at):
            return
        now = _as_distance(self.estimate(problem, state))
        left = steps_left(state.guess, now, state.guessed_at, state.steps, wanted_residual())
        state.is_suspect = pair.guess > 0 and left > pair.tuning.slack * pair.patience
        state.is_near = state.guessed_at > 0.0 and left <= min(state.steps, pair.patience)
        state.guessed_at, state.guess = state.steps, now

    def point(self, problem: Any, state: HandOverState) -> Any:
        """Return the point of the solver at work."""
        return self.at_work(state).point(problem, state.states[0])

    def estimate(self, problem: Any, state: HandOverState) -> float:
        """Return the estimate of the solver at work."""
        return self.at_work(state).estimate(problem, state.states[0])

    def is_over(self, problem: Any, state: HandOverState) -> bool:
        """Say whether a rule of the solver at work, if it has one, ends the run."""
        rule = getattr(self.at_work(state), "is_over", None)
        return rule is not None and bool(rule(problem, state.states[0]))

    def has_finisher(self, state: HandOverState) -> bool:
        """Say whether another solver waits for its turn."""
        return state.turn < len(self.pairs)

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> HandOverState:
        """Rebuild the state from a checkpoint."""
        own, parts = split_parts(arrays, plain, 1)
        state = HandOverState([], **own)
        state.states.append(self.at_work(state).restore(*parts[0]))
        return state

    def wants_certificate(self, state: HandOverState) -> bool:
        """Ask for a certificate after a share of the patience, twice that, ..., but not where the end is near."""
        is_due = self.has_finisher(state) and state.steps >= max(self._look(state), 2.0 * state.next_at)
        return is_due and not state.is_near

    def _look(self, state: HandOverState) -> float:
        """Return after how many steps the first solver is judged: at once where it has been, or seems to stall."""
        return 0.0 if state.next_at or state.is_suspect else self.pairs[state.turn].first_look

    def told(self, problem: Any, state: HandOverState, certificate: Certificate, tol: float) -> bool:
        """Hand over at a certificate of this state that shows a stall; say whether it did."""
        if not self.has_finisher(state):
            return False
        pair = self.pairs[state.turn]
        if 0 < state.steps < self._look(state):
            return False
        distance = distance_of(certificate)
        if math.isinf(distance) and 0 < state.steps < pair.first_look:
            return False
        if state.steps >= 2.0 * state.next_at:
            state.judged_at, state.distance = state.next_at, state.next_distance
            state.next_at, state.next_distance = state.steps, distance
        left = steps_left(state.distance, distance, state.judged_at, state.steps, tol) if state.steps else 0.0
        if left <= pair.tuning.slack * pair.patience_at(problem, state.states[0]):
            return False
        point, rng = pair.first.point(problem, state.states[0]), np.random.default_rng(int(state.steps))
        following = HandOverState([], state.turn + 1)
        # Before the old state goes, the new one may fail for lack of time.
        following.states.append(self.at_work(following).start(problem, point, rng))
        vars(state).update(vars(following))
        return True


def distance_of(certificate: Certificate) -> float:
    """Return (P - D) / D, or the residual where there is no bound."""
    residual = certificate.residual
    return _as_distance(residual) if math.isfinite(certificate.bound) else residual


def _as_distance(residual: float) -> float:
    return residual / (1.0 - residual) if residual < 1.0 else math.inf


def steps_left(before: float, now: float, t_before: float, t_now: float, tol: float) -> float:
    """Return how many steps are left to ``tol``, given two distances and after how many steps they were found."""
    if not now > tol:
        return 0.0
    if math.isinf(before):  # of the start: no rate is known
        return math.inf if math.isinf(now) else 0.0
    fall = math.log(before / now) if now < before else 0.0
    if not (fall > 0.0 and tol > 0.0):
        return math.inf
    rest = math.log(now / tol)
    by_rate = t_now + (t_now - t_before) * rest / fall
    log_by_power = math.log(t_now) + rest * math.log(t_now / t_before) / fall if t_before else math.log(by_rate)
    log_end = 0.5 * (math.log(by_rate) + log_by_power)
    return math.exp(log_end) - t_now if log_end < _FAR else math.inf
