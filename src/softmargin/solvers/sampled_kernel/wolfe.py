"""Wolfe's conjugate subgradients for the kernel hinge SVM: all samples at once, every fall is taken.

    d = the shortest of the segment from d_last to -g;     alpha_new = alpha + t d,   t by a search along d     spec 2.2

The mean of subgradients that is -d has dual variables that prove the gap. By default lengths are those of the kernel's
space and the search is exact (spec 2.4); ``Wolfe("euclidean", "wolfe")`` is the method that paper 002 compares with.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from softmargin.core.protocols import SampledProblem
from softmargin.problems.kernel_hinge import ExpansionPoint
from softmargin.solvers.sampled_kernel._direction import (
    KERNEL,
    SampleState,
    active,
    awake,
    begun,
    check,
    go_along,
    sample_gap,
    turn,
)

__all__ = ["Wolfe"]


@dataclass(frozen=True)
class Wolfe:
    """The deterministic method of conjugate subgradients: all samples at once, every fall is taken.

    Parameters
    ----------
    geometry : {"kernel", "euclidean"}
    search : {"exact", "wolfe"}
    """

    geometry: str = KERNEL
    search: str = "exact"

    needs: ClassVar[tuple[type, ...]] = (SampledProblem,)

    def start(self, problem: SampledProblem, init: Any, rng: np.random.Generator) -> SampleState:
        """Take all samples."""
        check(self.geometry, self.search)
        alpha = np.zeros(problem.n)
        if init is not None:
            np.add.at(alpha, init.samples, init.alpha)
        return begun(problem, np.arange(problem.n), alpha, seed=0)

    def step(self, problem: SampledProblem, state: SampleState) -> SampleState:
        """Turn and go; where there is nowhere to go, begin anew with -g."""
        awake(problem, state)
        turn(problem, state, self.geometry)
        t, act = go_along(problem, state, self.geometry, self.search, math.inf)
        if t > 0.0:
            state.alpha += t * state.d
            state.u += t * state.v
            state.act = act
        else:
            margins, falls = 1.0 - problem.y * state.u, problem.y * state.v
            state.act = active(margins, falls)
        state.n_steps += 1
        return state

    def point(self, problem: SampledProblem, state: SampleState) -> ExpansionPoint:
        """Return the expansion with the dual variables."""
        return ExpansionPoint(state.index.copy(), state.alpha.copy(), state.dual.copy())

    def estimate(self, problem: SampledProblem, state: SampleState) -> float:
        """Return the gap by the dual variables at hand."""
        return sample_gap(problem, state)

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> SampleState:
        """Rebuild the state from a checkpoint."""
        return SampleState(**arrays, **plain)
