"""One-vs-rest: the same binary solver on every class, each at its own pace.

A class whose estimated gap is far below the largest one pauses until the others have come near. The certificate adds up
all classes, so that gaps count by the primal values of their classes where the solver says these: nobody asks for a
small relative gap of a class that is separable, with next to no primal value. Threads have classes of their own, where
the kernel matrix that these share allows it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from softmargin.core.deadline import is_time_up
from softmargin.core.parameters import SOLVER_OBJECT, CheckedFields, Whole
from softmargin.core.protocols import ManyProblems, Solver
from softmargin.core.rounding import UNIT
from softmargin.core.threads import n_threads, spread
from softmargin.solvers.common.resumable import split_parts

__all__ = ["EachClass", "EachClassTuning", "EachGroup", "EachState"]

Found = TypeVar("Found")


class EachClassTuning(NamedTuple):
    """The constants of the turns."""

    pause_below: float = 0.1  # a class pauses while its estimate is below this share of the largest: by hand
    pause_known: float = 0.5  # the same where gaps are known and add up: the last rounds are short; by hand


@dataclass
class EachState:
    """The state of every class and its estimated gap."""

    states: list[Any]
    estimates: list[float]
    sizes: list[float]  # primal values; ones where the solver does not say them


@dataclass(frozen=True)
class EachClass(CheckedFields):
    """Run a binary solver on every part of a OneVsRest problem.

    Parameters
    ----------
    solver : Solver
        Solves one part.
    tuning : EachClassTuning

    Examples
    --------
    >>> import numpy as np
    >>> from softmargin import DualBlockDescent, EachClass, MulticlassSVM, OneVsRest, solve
    >>> rows, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 2])
    >>> problem = OneVsRest([MulticlassSVM(rows, y == c, n_classes=2, bias=1.0) for c in range(3)])
    >>> solve(problem, EachClass(DualBlockDescent()), rng=0).status.value
    'converged'
    """

    solver: Solver[Any, Any, Any]
    tuning: EachClassTuning = EachClassTuning()

    allowed: ClassVar = {"solver": (SOLVER_OBJECT,)}
    needs: ClassVar[tuple[type, ...]] = (ManyProblems,)

    @property
    def runs_on_device(self) -> bool:
        """Whether its solver does."""
        return bool(getattr(self.solver, "runs_on_device", False))

    def start(self, problem: ManyProblems, init: Any, rng: np.random.Generator) -> EachState:
        """Start every class."""
        n_parts = len(problem.parts)
        firsts = [None] * n_parts if init is None else init
        rngs = [rng] * n_parts if n_threads() == 1 else rng.spawn(n_parts)
        together = getattr(self.solver, "start_together", None)
        if together is not None:
            states = together(problem.parts, firsts)
        else:
            states = _each(problem, range(n_parts), lambda c: self.solver.start(problem.parts[c], firsts[c], rngs[c]))
        return EachState(states, [np.inf] * n_parts, [1.0] * n_parts)

    def step(self, problem: ManyProblems, state: EachState) -> EachState:
        """Step every class that is not far ahead of the others."""

        def advance(c: int) -> None:
            if not is_time_up():
                state.states[c] = self.solver.step(problem.parts[c], state.states[c])
                state.estimates[c] = self.solver.estimate(problem.parts[c], state.states[c])
                if value is not None:
                    state.sizes[c] = value(problem.parts[c], state.states[c])

        value = getattr(self.solver, "primal_value", None)
        gaps = [estimate * size for estimate, size in zip(state.estimates, state.sizes, strict=True)]
        least = (self.tuning.pause_below if value is None else self.tuning.pause_known) * max(gaps)
        # An estimate of nothing speaks of the rows that were looked at last: that class goes on to look at the others.
        is_ahead = [estimate >= UNIT and gap < least for estimate, gap in zip(state.estimates, gaps, strict=True)]
        _each(problem, [c for c in range(len(gaps)) if not is_ahead[c]], advance)
        return state

    def point(self, problem: ManyProblems, state: EachState) -> list[Any]:
        """Return one point per class."""
        return _each(problem, range(len(state.states)), lambda c: self.solver.point(problem.parts[c], state.states[c]))

    def estimate(self, problem: ManyProblems, state: EachState) -> float:
        """Return the relative gap of all classes, or the largest one where their primal values are not known."""
        if not hasattr(self.solver, "primal_value") or not sum(state.sizes) > 0.0:
            return max(state.estimates)
        gaps = sum(estimate * size for estimate, size in zip(state.estimates, state.sizes, strict=True))
        return gaps / sum(state.sizes)

    def is_over(self, problem: ManyProblems, state: EachState) -> bool:
        """Say whether the solver's own rule, if it has one, ends the run of every class."""
        rule = getattr(self.solver, "is_over", None)
        return rule is not None and all(map(rule, problem.parts, state.states))

    def work_done(self, state: EachState) -> float:
        """Return the work of the class that has taken most, where the solver counts its own."""
        count = getattr(self.solver, "work_done", None)
        return 0.0 if count is None else max(map(count, state.states))

    def support(self, problem: ManyProblems, state: EachState) -> float:
        """Return the share of the samples with a loss, in the cubic mean, where the solver tells it."""
        shares = [self.solver.support(*own) for own in zip(problem.parts, state.states, strict=True)]  # type: ignore[attr-defined]
        return float(np.mean(np.power(shares, 3)) ** (1.0 / 3.0))

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> EachState:
        """Rebuild the state from a checkpoint, class by class: "3.alpha" is the alpha of class 3."""
        own, parts = split_parts(arrays, plain, len(plain["estimates"]))
        return EachState([self.solver.restore(*part) for part in parts], **own)


class _Parts(NamedTuple):
    """Several problems."""

    parts: list[Any]


@dataclass(frozen=True)
class EachGroup(EachClass):
    """Run a solver of several classes at once on groups of classes: as many groups as threads.

    Parameters
    ----------
    solver : Solver
        Solves all classes of a group together.
    n_groups : int

    Examples
    --------
    >>> import numpy as np
    >>> from softmargin import EachGroup, MulticlassSVM, OneVsRest, OneVsRestDescent, solve
    >>> rows, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 2])
    >>> problem = OneVsRest([MulticlassSVM(rows, y == c, n_classes=2, bias=1.0) for c in range(3)])
    >>> solve(problem, EachGroup(OneVsRestDescent(), n_groups=2), rng=0).status.value
    'converged'
    """

    n_groups: int = 1

    allowed: ClassVar = {**EachClass.allowed, "n_groups": (Whole(1),)}

    def _cuts(self, n_parts: int) -> list[slice]:
        ends = [n_parts * group // self.n_groups for group in range(self.n_groups + 1)]
        return [slice(first, last) for first, last in pairwise(ends) if last > first]

    def _groups(self, problem: ManyProblems) -> Any:
        return _Parts([_Parts(problem.parts[cut]) for cut in self._cuts(len(problem.parts))])

    def start(self, problem: ManyProblems, init: Any, rng: np.random.Generator) -> EachState:
        """Start every group."""
        firsts = None if init is None else [init[cut] for cut in self._cuts(len(problem.parts))]
        return super().start(self._groups(problem), firsts, rng)

    def step(self, problem: ManyProblems, state: EachState) -> EachState:
        """Step every group that is not far ahead of the others."""
        return super().step(self._groups(problem), state)

    def point(self, problem: ManyProblems, state: EachState) -> list[Any]:
        """Return one point per class."""
        return [mine for group in super().point(self._groups(problem), state) for mine in group]

    def support(self, problem: ManyProblems, state: EachState) -> float:
        """Return the share of the samples with a loss, in the cubic mean."""
        return super().support(self._groups(problem), state)

    def is_over(self, problem: ManyProblems, state: EachState) -> bool:
        """Say whether the solver's own rule, if it has one, ends the run of every group."""
        return super().is_over(self._groups(problem), state)


def _each(problem: ManyProblems, classes: Iterable[int], work: Callable[[int], Found]) -> list[Found]:
    """Return work(c) for some classes: at the same time, where their kernel matrix can be shared."""
    gram = getattr(problem.parts[0], "gram", None)
    if n_threads() == 1 or (gram is not None and not gram.share()):
        return [work(c) for c in classes]
    return spread(work, classes)
