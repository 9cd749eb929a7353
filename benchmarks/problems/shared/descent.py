"""The objective of a run: evaluated after every step, outside the solver's time."""

import math
from typing import Any

from benchmark_utils.racing import CONVERGED, OVER_CAP, STOPPED_SHORT, Lap

WALL_SHARE = 5.0  # caps: what a run may take together with its evaluations


class Descent:
    """A watcher that keeps when each suboptimality was reached, and ends a run that needs to go no further."""

    def __init__(self, objective: Any, *, least: float, cap: float) -> None:
        self.objective, self.least, self.cap = objective, least, cap
        self.seconds: list[float] = []
        self.suboptimality: list[float] = []

    def begin(self, problem: Any, solver: Any, stop: Any) -> None:
        """Nothing to prepare."""

    def watch(self, progress: Any) -> bool:
        """Look at the objective."""
        self.seconds.append(progress.seconds)
        self.suboptimality.append(self.objective.suboptimality(progress.solver.point(progress.problem, progress.state)))
        return self.suboptimality[-1] <= self.least or progress.seconds > self.cap

    def end(self, result: Any) -> None:
        """Nothing to tidy up."""

    def lap(self, level: float) -> Lap:
        """Return the first step within a level, or how far the run came."""
        for step, (seconds, value) in enumerate(zip(self.seconds, self.suboptimality, strict=True), start=1):
            if value <= level and seconds <= self.cap:
                return Lap(level, seconds, value, step, CONVERGED)
        seconds, value = max(self.seconds, default=0.0), min(self.suboptimality, default=math.inf)
        return Lap(level, seconds, value, len(self.seconds), OVER_CAP if seconds > self.cap else STOPPED_SHORT)
