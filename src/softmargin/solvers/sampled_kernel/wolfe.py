"""Wolfe's conjugate subgradients for the kernel hinge SVM: on all samples, and every decrease is accepted.

    d = the shortest vector of the segment from d_last to -g;   alpha_new = alpha + t d,   t by a line search
                                                                                            maths: sampled kernel, eq. 7

-d is a mean of subgradients, and the same mean of the activities of the losses gives dual variables that prove the gap.
By default lengths are those of the kernel's space and the search is exact (maths: sampled kernel, section 3);
``Wolfe("euclidean", "wolfe")`` is the method that paper 002 compares with.
"""

import math
from dataclasses import dataclass

import numpy as np

from softmargin.core.protocols import SampledProblem
from softmargin.problems.kernel_hinge import ExpansionPoint
from softmargin.solvers.sampled_kernel._direction import KERNEL, SampleState, SubgradientMethod
from softmargin.solvers.sampled_kernel._line_search import HingeSearchTuning, WolfeSlopes

__all__ = ["Wolfe"]


@dataclass(frozen=True)
class Wolfe(SubgradientMethod):
    """The deterministic method of conjugate subgradients, on all samples.

    Parameters
    ----------
    geometry : {"kernel", "euclidean"}
    search : {"exact", "wolfe"}
    m_L, m_R : float
        Of Wolfe's search, 0 < m_L < m_R < 1/2.
    """

    geometry: str = KERNEL
    search: str = "exact"
    m_L: float = WolfeSlopes().m_L
    m_R: float = WolfeSlopes().m_R
    tuning: HingeSearchTuning = HingeSearchTuning()

    def start(self, problem: SampledProblem, init: ExpansionPoint | None, rng: np.random.Generator) -> SampleState:
        """Take all samples."""
        alpha = np.zeros(problem.n)
        if init is not None:
            np.add.at(alpha, init.samples, init.alpha)
        return self.start_at(problem, np.arange(problem.n), alpha, radius=math.inf, seed=0)

    def step(self, problem: SampledProblem, state: SampleState) -> SampleState:
        """Update the direction and move along it; where no step decreases f, take the subgradient ahead on the line."""
        self.update_direction(problem, state)
        t, state.act = self.search_along(problem, state, math.inf)
        if t > 0.0:
            state.alpha += t * state.d
            state.u += t * state.v
        state.n_steps += 1
        return state
