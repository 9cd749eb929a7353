"""What the dual solvers of a free-bias problem share: the gap by the scores they keep."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import duality_gap

__all__ = ["relative_gap"]

Array = NDArray[Any]


def relative_gap(problem: Any, alpha: Array, scores: Array) -> float:
    """Return (P - D) / P at a feasible alpha, given scores = K (ya); exact as far as the scores are."""
    bias = problem.best_bias(scores)
    losses = 0.5 * float(problem.C @ np.square(problem.slacks(scores, bias)))
    primal = 0.5 * float((problem.y * alpha) @ scores) + losses
    return duality_gap(primal, primal - float(problem.gaps(alpha, scores, bias).sum())).residual
