"""Our solvers, driven by ``softmargin.run.solve``."""

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from benchopt import BaseSolver

from benchmark_utils.racing import CONVERGED, OVER_CAP, STOPPED_SHORT, Lap, settled
from softmargin.run import Result, Status, Stop, solve

ENDLESS = 10**9  # passes: seconds are the only budget
_MAX_SECONDS = 100.0  # of one point of a benchopt curve
_PATIENCE = 20  # passes without any change of the gap
_WARM_PASSES = 2
_STATUS = {Status.CONVERGED: CONVERGED, Status.STOPPED: STOPPED_SHORT}


class Standstill:
    """A watcher that ends a run which moves no more: the greedy block leaves rows be that are nearly optimal."""

    def begin(self, problem: Any, solver: Any, stop: Any) -> None:
        """Forget the last run."""
        self._last, self._count = math.nan, 0

    def watch(self, progress: Any) -> bool:
        """Count passes with the same gap; a pass after which the solver does not guess says nothing."""
        if math.isinf(progress.estimate):
            return False
        same = math.isclose(progress.estimate, self._last, rel_tol=1e-9)
        self._last, self._count = progress.estimate, self._count + 1 if same else 0
        return self._count >= _PATIENCE

    def end(self, result: Any) -> None:
        """Nothing to tidy up."""


class SoftmarginSolver(BaseSolver):
    """One solver of the library; a subclass says which settings."""

    requirements = ["pip::softmargin"]
    sampling_strategy = "tolerance"
    leans_on_bound = False
    is_peer = False

    @abstractmethod
    def method(self) -> Any:
        """Return the settings: a solver of the library."""

    def set_objective(self, problem: Any, C: float) -> None:
        """Keep the problem; its data are used as they come."""
        self.problem = problem

    def fresh(self) -> Any:
        """Return the problem as it is before any solver has worked on it."""
        return self.problem

    def few(self) -> Any:
        """Return a problem on the same types of arrays, on which everything can be compiled."""
        return self.problem

    def warm_up(self) -> None:
        """Compile."""
        solve(self.few(), self.method(), stop=Stop(tol=0.0, max_iter=_WARM_PASSES), rng=0)

    def get_next(self, tol: float) -> float:
        """Half a decade tighter."""
        return min(tol / math.sqrt(10.0), 1.0)

    def run(self, tol: float) -> None:
        """Solve to the tolerance, certificates included in the time: that is what a user waits for."""
        self.result = self._solve(tol, max_seconds=_MAX_SECONDS, seed=0)

    def get_result(self) -> dict[str, Any]:
        """Return the point: dual variables, which prove their own bound, and what else it holds."""
        return self.result.point._asdict()

    def laps(
        self, tols: Sequence[float], *, objective: Any, cap: float, repeat: int, settings: Mapping[float, float]
    ) -> Iterator[Lap]:
        """Solve afresh for every tolerance; the certificate in the result is the objective's own."""
        for tol in tols:
            result = settled(lambda tol=tol: self._solve(tol, max_seconds=cap, seed=repeat), attrgetter("seconds"))
            status = _STATUS.get(result.status, OVER_CAP)
            yield Lap(tol, result.seconds, result.certificate.residual, tol, status)
            if status != CONVERGED:
                return

    def _solve(self, tol: float, *, max_seconds: float, seed: int) -> Result:
        stop = Stop(tol=tol, max_iter=ENDLESS, max_seconds=max_seconds)
        return solve(self.fresh(), self.method(), stop=stop, rng=seed, watchers=[Standstill()])
