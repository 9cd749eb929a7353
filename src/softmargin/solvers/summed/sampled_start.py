"""Where a run begins whose rows are many: at the optimum of a sample of them.

The optimum of m rows is above that of all by a share of about (number of weights) / m of the objective, so a run on
the sample ends there. It costs no pass but the one that brings the sample here, and saves those in which Newton's
method is far from the optimum. A sample that is large enough has a sample of its own.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from softmargin.core.protocols import SummedProblem

__all__ = ["SampleTuning", "from_sample", "objective"]


class SampleTuning(NamedTuple):
    """How large a sample is, and when it is believed."""

    every: int = 16  # one in so many rows, at least: a run on them costs about a pass; by hand
    most_numbers: int = 1 << 22  # of X that come here: 32 MB; by hand
    per_weight: int = 50  # rows of the sample for every weight: an optimum within some percent; by hand
    max_steps: int = 50  # a guard
    worse: float = 1.5  # times its objective on the sample, at which a point is not of use; by hand


def objective(problem: SummedProblem, state: Any) -> float:
    """Return the losses, with rounded corners, and what is added to them."""
    return float(state.values[0]) + problem.value(state.weights)


def from_sample(solver: Any, problem: SummedProblem, rng: np.random.Generator) -> Any | None:
    """Return the state of a solver at the optimum of a sample; None where rows are few, or the sample is unlike them.

    ``solver.sample`` is its ``SampleTuning``.
    """
    tuning, n, (d, k) = solver.sample, problem.n_rows, problem.shape
    every = max(tuning.every, math.ceil(n * d / tuning.most_numbers))
    if n // every < tuning.per_weight * d * k:
        return None
    sample = problem.sampled(every)
    if sample.n_rows < tuning.per_weight * d * k:  # blocks with fewer rows have none in it
        return None
    state = solver.start(sample, None, rng)
    for _ in range(tuning.max_steps):
        if solver.estimate(sample, state) <= d * k / sample.n_rows:
            break
        state = solver.step(sample, state)
    begun = solver.start(problem, solver.point(sample, state), rng)
    return begun if objective(problem, begun) <= tuning.worse * objective(sample, state) else None
