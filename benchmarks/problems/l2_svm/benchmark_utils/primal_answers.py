"""What other libraries that return only w and b give to an objective that needs dual variables.

The dual variables that their losses suggest, Proj(C xi), prove little until w is very near the optimum. They are given
those that our solver finds in a long run instead: any feasible dual point bounds the optimum from below, whatever
found it, and P(w, b) is computed from the weights.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from benchmark_utils.kernel_objective import fresh
from benchmark_utils.ours import ENDLESS
from softmargin.problems import BiasPoint
from softmargin.run import Stop, solve
from softmargin.solvers import PrimalNewton

TARGET = 1e-9
BOUND_SECONDS = 60.0


@lru_cache(maxsize=1)
def proven_dual(problem: Any) -> np.ndarray:
    """Return dual variables within TARGET of the optimum of a linear problem, or what the time allows."""
    stop = Stop(tol=TARGET, max_iter=ENDLESS, max_seconds=BOUND_SECONDS)
    return solve(fresh(problem), PrimalNewton(), stop=stop, rng=0).point.alpha


def evaluated(problem: Any, weights: np.ndarray, bias: float) -> dict[str, Any]:
    """Return a peer's model with the dual variables that bound the optimum best."""
    return BiasPoint(proven_dual(problem), bias, weights)._asdict()
