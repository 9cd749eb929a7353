"""Our solvers: settings of ``DualBlockDescent`` driven by ``softmargin.run.solve``."""

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchopt import BaseSolver

from benchmark_utils.racing import CONVERGED, OVER_CAP, Lap
from softmargin.run import Status, Stop, solve
from softmargin.solvers import DualBlockDescent

_ENDLESS = 10**9  # passes: seconds are the only budget
_MAX_SECONDS = 600.0  # of one point of a benchopt curve


class SoftmarginSolver(BaseSolver):
    """One solver of the library; a subclass says which settings."""

    sampling_strategy = "tolerance"

    @abstractmethod
    def descent(self) -> DualBlockDescent:
        """Return the settings."""

    def set_objective(self, problem: Any, C: float) -> None:
        """Keep the problem; its data are used as they come."""
        self.problem = problem

    def warm_up(self) -> None:
        """Compile: one pass over the same types of arrays."""
        solve(self.problem, self.descent(), stop=Stop(tol=0.0, max_iter=1), rng=0)

    def get_next(self, tol: float) -> float:
        """Half a decade tighter."""
        return min(tol / math.sqrt(10.0), 1.0)

    def run(self, tol: float) -> None:
        """Solve to the tolerance, certificates included in the time: that is what a user waits for."""
        stop = Stop(tol=tol, max_iter=_ENDLESS, max_seconds=_MAX_SECONDS)
        self.result = solve(self.problem, self.descent(), stop=stop, rng=0)

    def get_result(self) -> dict[str, Any]:
        """Return weights (d, k) and the dual variables that prove them."""
        point = self.result.point
        return {"weights": point.weights[:-1], "alpha": point.alpha}

    def laps(
        self,
        tols: Sequence[float],
        *,
        judge: Any,
        cap: float,
        repeat: int,
        settings: Mapping[float, float],
    ) -> Iterator[Lap]:
        """Solve afresh for every tolerance; the certificate in the result is the judge's own."""
        for tol in tols:
            stop = Stop(tol=tol, max_iter=_ENDLESS, max_seconds=cap)
            result = solve(self.problem, self.descent(), stop=stop, rng=repeat)
            is_converged = result.status is Status.CONVERGED
            status = CONVERGED if is_converged else OVER_CAP
            yield Lap(tol, result.seconds, result.certificate.residual, tol, status)
            if not is_converged:
                return
