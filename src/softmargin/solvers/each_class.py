"""One-vs-rest: the same binary solver on every class, each at its own pace.

A class whose estimated gap is far below the largest one pauses until the others have come near.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from softmargin.core.deadline import is_time_up
from softmargin.core.parameters import SOLVER_OBJECT, CheckedFields
from softmargin.core.protocols import ManyProblems, Solver
from softmargin.solvers.common.resumable import split_parts

__all__ = ["EachClass", "EachClassTuning", "EachState"]


class EachClassTuning(NamedTuple):
    """The constants of the turns."""

    pause_below: float = 0.1  # a class pauses while its estimate is below this share of the largest: by hand


@dataclass
class EachState:
    """The state of every class and its estimated gap."""

    states: list[Any]
    estimates: list[float]


@dataclass(frozen=True)
class EachClass(CheckedFields):
    """Run a binary solver on every part of a OneVsRest problem.

    Parameters
    ----------
    solver : Solver
        Solves one part.
    tuning : EachClassTuning
    """

    solver: Solver[Any, Any, Any]
    tuning: EachClassTuning = EachClassTuning()

    allowed: ClassVar = {"solver": (SOLVER_OBJECT,)}
    needs: ClassVar[tuple[type, ...]] = (ManyProblems,)

    def start(self, problem: ManyProblems, init: Any, rng: np.random.Generator) -> EachState:
        """Start every class."""
        firsts = [None] * len(problem.parts) if init is None else init
        states = [self.solver.start(part, first, rng) for part, first in zip(problem.parts, firsts, strict=True)]
        return EachState(states, [np.inf] * len(states))

    def step(self, problem: ManyProblems, state: EachState) -> EachState:
        """Step every class that is not far ahead of the others."""
        worst = max(state.estimates)
        for c, part in enumerate(problem.parts):
            if is_time_up():
                break
            if state.estimates[c] >= self.tuning.pause_below * worst:
                state.states[c] = self.solver.step(part, state.states[c])
                state.estimates[c] = self.solver.estimate(part, state.states[c])
        return state

    def point(self, problem: ManyProblems, state: EachState) -> list[Any]:
        """Return one point per class."""
        return [self.solver.point(part, mine) for part, mine in zip(problem.parts, state.states, strict=True)]

    def estimate(self, problem: ManyProblems, state: EachState) -> float:
        """Return the largest estimate of the classes."""
        return max(state.estimates)

    def is_over(self, problem: ManyProblems, state: EachState) -> bool:
        """Say whether the solver's own rule, if it has one, ends the run of every class."""
        rule = getattr(self.solver, "is_over", None)
        return rule is not None and all(map(rule, problem.parts, state.states))

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> EachState:
        """Rebuild the state from a checkpoint, class by class: "3.alpha" is the alpha of class 3."""
        own, parts = split_parts(arrays, plain, len(plain["estimates"]))
        return EachState([self.solver.restore(*part) for part in parts], **own)
