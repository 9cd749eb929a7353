"""Draw docs/images/gap.png: the certified gap of both losses falling on digits. Needs the extra ``plot``."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from softmargin import DualBlockDescent, MulticlassSVM, Stop, solve
from softmargin.data import load

SOLVERS = {"working set (default)": DualBlockDescent(), "plain Algorithm 1": DualBlockDescent(working_set=False)}


def gap_of_every_pass(problem: MulticlassSVM, solver: DualBlockDescent, tol: float) -> tuple[list[float], list[float]]:
    """Return seconds on the solver's clock and the relative gap after every pass."""
    seconds, gaps = [], []

    class Evaluate:
        def begin(self, problem: object, solver: object, stop: object) -> None: ...

        def watch(self, progress: object) -> bool:
            point = progress.solver.point(progress.problem, progress.state)
            seconds.append(progress.seconds)
            gaps.append(progress.problem.certificate(point).residual)
            return gaps[-1] <= tol

        def end(self, result: object) -> None: ...

    solve(problem, solver, stop=Stop(tol=0.0), rng=0, watchers=[Evaluate()])
    return seconds, gaps


def main() -> None:
    """Draw the picture."""
    data = load("digits")
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
    for panel, multiclass in zip(panels, ("weston_watkins", "crammer_singer"), strict=True):
        problem = MulticlassSVM(data.X, data.y, C=1.0, multiclass=multiclass, bias=1.0)
        for name, solver in SOLVERS.items():
            solve(problem, solver, stop=Stop(max_iter=2), rng=0)  # compile first
            panel.loglog(*gap_of_every_pass(problem, solver, 1e-5), label=name)
        panel.set_title(f"digits, {multiclass.replace('_', '-')}, C = 1")
        panel.set_xlabel("seconds (solver's clock)")
        panel.grid(visible=True, alpha=0.3)
    panels[0].set_ylabel("relative duality gap")
    panels[1].legend()
    figure.savefig(Path(__file__).parent / "images" / "gap.png", dpi=110)


if __name__ == "__main__":
    main()
