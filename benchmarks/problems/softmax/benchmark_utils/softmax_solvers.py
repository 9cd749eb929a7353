"""Our solvers of multinomial regression, and how long each takes to a relative suboptimality.

The objective is evaluated after every step, outside the solver's time: the time of a level is that of the first step
whose point is within it. A run thus needs no tolerance, which is what its peers are granted too: the tol that suits
them best.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmark_utils.descent import WALL_SHARE, Descent
from benchmark_utils.ours import ENDLESS, SoftmarginSolver, Standstill
from benchmark_utils.racing import CONVERGED, Lap, settled
from softmargin.problems import softmax_problem
from softmargin.run import Stop, solve

TOL_GRID = tuple(10.0 ** (-power / 2) for power in range(2, 19))  # of the estimators: half decades, 0.1 to 1e-9
_FEW = 6  # rows of every class that are enough to compile everything
_WARM_STEPS = 12
_WARM_SECONDS = 10.0


class SoftmaxSolver(SoftmarginSolver):
    """One solver of the library; a subclass says which settings."""

    leans_on_bound = True

    def skip(self, problem: Any, C: float) -> tuple[bool, str | None]:
        self.problem = problem
        method = self.method()
        unmet = [needed.__name__ for needed in method.needs if not isinstance(problem, needed)]
        return (True, f"it needs a {', '.join(unmet)}") if unmet else (False, None)

    def warm_up(self) -> None:
        """Compile: some steps on the problem itself, as a few rows would not need every loop."""
        solve(self.problem, self.method(), stop=Stop(tol=0.0, max_iter=_WARM_STEPS, max_seconds=_WARM_SECONDS), rng=0)

    def laps(
        self, tols: Sequence[float], *, objective: Any, cap: float, repeat: int, settings: Mapping[float, float]
    ) -> Iterator[Lap]:
        """Read all levels off one run."""

        def run() -> Descent:
            curve = Descent(objective, least=min(tols), cap=cap)
            stop = Stop(tol=0.0, max_iter=ENDLESS, max_seconds=WALL_SHARE * cap)
            solve(self.fresh(), self.method(), stop=stop, rng=repeat, watchers=[curve, Standstill()])
            return curve

        curve = settled(run, lambda curve: curve.seconds[-1] if curve.seconds else 0.0)
        for tol in tols:
            lap = curve.lap(tol)
            yield lap
            if lap.status != CONVERGED:
                return


def few_rows(problem: Any) -> Any:
    """Return a small problem with some rows of every class, on the same types of arrays."""
    index = np.sort(np.concatenate([np.flatnonzero(problem.y == label)[:_FEW] for label in range(problem.n_classes)]))
    return softmax_problem(
        problem.X[index],
        problem.y[index],
        C=problem.C[index],
        penalty=problem.penalty,
        n_classes=problem.n_classes,
        fit_intercept=problem.fit_intercept,
    )
