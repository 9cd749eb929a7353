"""The least objective of a problem, found once and kept on disk with the proof of how well it is known.

F* is the least value that any run has shown; our own dual bound proves how far below it the true minimum can lie. The
solvers are run one after the other, each from the best point so far, until the proof is as tight as TARGET asks or the
time is over. With l1 alone the bound is of first order in the distance to the optimum while F is of second order: F* is
then known far better than can be proven, and the proof may be looser.
"""

import json
import math
from typing import Any, NamedTuple

from benchmark_utils.folders import cache_folder
from benchmark_utils.ours import ENDLESS, Standstill
from softmargin import __version__, solvers
from softmargin.core.files import atomic_write
from softmargin.run import Stop, solve

TARGET = 1e-9
TARGET_L1 = 1e-7
OPTIMUM_SECONDS = 600.0
_SMOOTH = ("NewtonCG", "SoftmaxDualDescent", "Lbfgs")
_SPARSE = ("ProxNewton", "AcceleratedGradient")


class Optimum(NamedTuple):
    """The least known objective, what no point can be below, their relative distance, and the time it was given."""

    value: float
    bound: float
    residual: float
    max_seconds: float

    def relative(self, primal: float) -> float:
        """Return (primal - F*) / F*, at least zero."""
        return max(primal - self.value, 0.0) / abs(self.value)


def optimum_of(problem: Any, *, max_seconds: float) -> Optimum:
    """Return the least objective of this problem, from disk where it is known well enough."""
    path = cache_folder() / f"optimum-{problem.fingerprint()[:24]}-v{__version__}.json"
    target = TARGET if problem.penalty.l2 > 0.0 else TARGET_L1
    known = None
    if path.exists():
        known = Optimum(**json.loads(path.read_text()))
        if known.residual <= target or known.max_seconds >= max_seconds:
            return known
    found = _searched(problem, target, max_seconds)
    if known is not None:
        found = _joined([found.value, known.value], [found.bound, known.bound], max_seconds)
    with atomic_write(path) as file:
        file.write(json.dumps(found._asdict()).encode())
    return found


def _searched(problem: Any, target: float, max_seconds: float) -> Optimum:
    names = _SMOOTH if problem.penalty.l1 == 0.0 else _SPARSE
    values, bounds, best = [], [], None
    for name in names:
        method = getattr(solvers, name)()
        stop = Stop(tol=target, max_iter=ENDLESS, max_seconds=max_seconds / len(names))
        result = solve(problem, method, stop=stop, rng=0, init=best, watchers=[Standstill()])
        if result.certificate.primal <= min(values, default=math.inf):
            best = result.point
        values.append(result.certificate.primal)
        bounds.extend(row.certificate.bound for row in result.trace if not math.isnan(row.certificate.bound))
        found = _joined(values, bounds, max_seconds)
        if found.residual <= target:
            break
    return found


def _joined(values: list[float], bounds: list[float], max_seconds: float) -> Optimum:
    value, bound = min(values), max(bounds, default=-math.inf)
    return Optimum(value, bound, max(value - bound, 0.0) / abs(value), max_seconds)
