"""A path of smoothed hinges, and an interior point from where it gets narrow: linear joint SVMs with a dear factor.

    minimise over W:   1/2 |W|^2 + sum_i C_i l_i(W' x_i)                                   maths: linear SVM, section 14

The interior point by itself begins far from W = X' alpha, and most of its steps lead there. On the path of smoothed
hinges W = X' alpha / rho holds from the start; while the ridge rho and the width tau of the corners are large, its
steps are whole and share factors. Once rho tau is small they are cut, and an interior point, which rounds no corner, is
faster: it begins at the W of the path, with alpha / rho, and with t as the value of a rounded hinge and s = t - h.

Source: ours; ``smoothed_newton`` and ``interior_point`` have those of their parts.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from softmargin.core.parameters import CheckedFields, is_instance
from softmargin.core.protocols import BlockDualProblem
from softmargin.problems.multiclass_svm import DualPoint
from softmargin.solvers.common.resumable import split_parts
from softmargin.solvers.linear_svm.interior_point import InteriorPoint, InteriorState
from softmargin.solvers.linear_svm.smoothed_newton import SmoothedNewton, SmoothedState

__all__ = ["SmoothedInteriorPoint", "SmoothedInteriorState", "SmoothedInteriorTuning"]


class SmoothedInteriorTuning(NamedTuple):
    """Where the path begins, and where it ends."""

    width: float = 4.0  # the first tau; measured: section 14
    most_cut: int = 1  # steps, but for the first, that were no full ones: the next full one is the last; measured too
    rounded: float = 0.3  # of tau is the width of the hinges whose multipliers it begins with; measured: section 14
    most_steps: int = 40  # on the path; by hand


@dataclass
class SmoothedInteriorState:
    """The state of the method at work."""

    states: list[Any]  # one: a list, so that a checkpoint names its arrays "0.V"
    is_inside: bool = False  # the interior point is at work
    made: int = 0  # steps on the path
    cut: int = 0  # of these no full ones


@dataclass(frozen=True)
class SmoothedInteriorPoint(CheckedFields):
    """Settings of the two methods.

    Parameters
    ----------
    path : SmoothedNewton
        Begins, with wide corners.
    inside : InteriorPoint
        Takes over where they get narrow.
    """

    path: SmoothedNewton = SmoothedNewton()
    inside: InteriorPoint = InteriorPoint()
    tuning: SmoothedInteriorTuning = SmoothedInteriorTuning()

    allowed: ClassVar = {"path": (is_instance(SmoothedNewton),), "inside": (is_instance(InteriorPoint),)}
    needs: ClassVar[tuple[type, ...]] = (BlockDualProblem,)

    def start(self, problem: BlockDualProblem, init: Any, rng: np.random.Generator) -> SmoothedInteriorState:
        """Begin on the path; ``init`` is the point until the first step."""
        on_path = self.path.start(problem, init, rng)
        on_path.tau = self.tuning.width
        return SmoothedInteriorState([on_path])

    def fresh(self, problem: BlockDualProblem, state: SmoothedInteriorState) -> SmoothedInteriorState:
        """Return a first state of the method at work in ``state``, with which a checkpoint is compared."""
        return SmoothedInteriorState([self._at_work(state).start(problem, None, np.random.default_rng(0))])

    def step(self, problem: BlockDualProblem, state: SmoothedInteriorState) -> SmoothedInteriorState:
        """Make a step of the method at work; after the last one of the path the interior point takes over."""
        if state.is_inside:
            self.inside.step(problem, state.states[0])
        elif state.states[0].shares.size:
            self._follow(problem, state)
        return state

    def point(self, problem: BlockDualProblem, state: SmoothedInteriorState) -> DualPoint:
        """Return the point of the method at work."""
        return self._at_work(state).point(problem, state.states[0])

    def estimate(self, problem: BlockDualProblem, state: SmoothedInteriorState) -> float:
        """Return the relative gap."""
        return self._at_work(state).estimate(problem, state.states[0])

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> SmoothedInteriorState:
        """Rebuild the state from a checkpoint."""
        own, parts = split_parts(arrays, plain, 1)
        state = SmoothedInteriorState([], **own)
        state.states.append(self._at_work(state).restore(*parts[0]))
        return state

    def _at_work(self, state: SmoothedInteriorState) -> SmoothedNewton | InteriorPoint:
        return self.inside if state.is_inside else self.path

    def _follow(self, problem: BlockDualProblem, state: SmoothedInteriorState) -> None:
        """Make a step on the path, and let the interior point take over where it ends."""
        on_path: SmoothedState = state.states[0]
        on_path.first = None
        shares = self.path.advance(problem, on_path)
        state.made += 1
        is_full = on_path.cut >= self.path.tuning.near
        state.cut += not is_full and state.made > 1
        is_far = state.cut < self.tuning.most_cut and on_path.rho > 1.0
        if (is_far or not is_full) and state.made < self.tuning.most_steps:
            return
        lower = on_path.groups.C[:, None] * shares / on_path.rho
        inside: InteriorState = self.inside.enter(
            problem, on_path.V, lower, on_path.groups, self.tuning.rounded * on_path.tau
        )
        state.states[0], state.is_inside = inside, True
