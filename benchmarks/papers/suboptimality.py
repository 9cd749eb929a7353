"""Paper 000, Figure 1: how far each solver's dual value is from the optimum, against time.

    suboptimality = (f(alpha_t) - f*) / |f*| ,   f = -D       f* from the default solver, to a relative gap of 1e-10

One run of each solver on one thread. The problem's certificate evaluates its dual variables, outside its time, at
times that grow by a few percent; its kernel values are computed on its clock. The QP is solved in one step: one point
of the plot. Every curve is appended to the output file when it is done; started again with the same file, the command
continues, and once all is known it only prints the tables and draws the plot.
"""

import argparse
import math
import sys
from pathlib import Path
from typing import Any, NamedTuple

from rich.markup import escape

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports below

from tools.common import (
    Records,
    command,
    contenders,
    load_benchmark,
    load_data,
    log,
    objective_for,
    one_thread,
)
from tools.markdown_tables import markdown, write

TARGETS = (1e-1, 1e-2, 1e-3, 1e-6)
SPACING = 1.03  # factor between the times at which a run is evaluated
OPTIMUM = 1e-10
OPTIMUM_SECONDS = 600.0
LEAST = 1e-10  # suboptimalities below this are no longer known
_ENDLESS = 10**9  # passes: seconds are the only budget


class Panel(NamedTuple):
    """One plot of the figure."""

    benchmark: str
    data: str
    parameters: dict[str, str]
    solvers: tuple[str, ...]


_JOINT_SOLVERS = (
    "frank_wolfe",
    "block_frank_wolfe[step_rule=oblivious]",
    "block_frank_wolfe[step_rule=optimal]",
    "quadratic_program",
    "softmargin",
)
PANELS = {
    "crammer_singer": Panel("multiclass_svm_kernel", "dna", {"multiclass": "crammer_singer"}, _JOINT_SOLVERS),
    "weston_watkins": Panel("multiclass_svm_kernel", "dna", {"multiclass": "weston_watkins"}, _JOINT_SOLVERS),
    "l2_svm": Panel("l2_svm", "kr-vs-kp", {}, ("dual_prox_gradient", "quadratic_program", "smo", "softmargin")),
}


class Curve:
    """A watcher that evaluates the run now and then."""

    def __init__(self, optimum: float) -> None:
        self.optimum = optimum
        self.seconds: list[float] = []
        self.suboptimality: list[float] = []
        self.gap: list[float] = []

    def begin(self, problem: Any, solver: Any, stop: Any) -> None:
        """Nothing to prepare."""

    def watch(self, progress: Any) -> None:
        """Evaluate the run, unless that was done a moment ago."""
        if not self.seconds or progress.seconds >= SPACING * self.seconds[-1]:
            point = progress.solver.point(progress.problem, progress.state)
            self.add(progress.seconds, progress.problem.certificate(point))

    def end(self, result: Any) -> None:
        """Keep where the run ended."""
        if result is not None:
            self.add(result.seconds, result.certificate)

    def add(self, seconds: float, certificate: Any) -> None:
        """Add a point."""
        self.seconds.append(seconds)
        self.suboptimality.append((self.optimum - certificate.bound) / abs(self.optimum))
        self.gap.append(certificate.residual)


def main(arguments: list[str] | None) -> int:
    """Run what is not known yet, print the tables, draw the plot."""
    options = parser().parse_args(arguments)
    records = Records(options.output)
    with one_thread():
        records.start(cap=options.cap)
        for name in options.panel:
            measure(name, records, options)
    known = {name: curves(name, records, options) for name in options.panel}
    for name, rows in known.items():
        print_table(name, rows)
    if options.plot is not None:
        draw(known, options.plot)
        log.print(f"drawn: {options.plot}")
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--panel", nargs="+", choices=list(PANELS), default=list(PANELS), help="default: all")
    parser.add_argument("--C", type=float, default=1.0, help="default: 1")
    parser.add_argument("--kernel", choices=["rbf", "linear"], default="rbf", help="default: rbf, gamma = scale")
    parser.add_argument("--solver", nargs="+", metavar="PATTERN", help="solvers (default: those of the figure)")
    parser.add_argument("--tol", type=float, default=1e-7, help="relative gap at which a run ends (default: 1e-7)")
    parser.add_argument("--cap", type=float, default=60.0, help="seconds a run may take, the QP excepted (default: 60)")
    parser.add_argument("--rows", type=int, help="take about so many rows, evenly spaced (default: all)")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.jsonl", help="file of curves, appended to")
    parser.add_argument("--plot", type=Path, metavar="OUT.png", help="where to draw the plot")
    return parser


def cell(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return what names a problem in the file."""
    panel = PANELS[name]
    return {"panel": name, "data": panel.data, "kernel": options.kernel, "C": options.C, "rows": options.rows}


def curves(name: str, records: Records, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Return the curves that are known of a panel, by solver."""
    wanted = cell(name, options)
    rows = [row for row in records.measurements() if all(row[key] == wanted[key] for key in wanted)]
    return {row["solver"]: row for row in rows}


def measure(name: str, records: Records, options: argparse.Namespace) -> None:
    """Run the solvers of one panel whose curves are not known."""
    panel = PANELS[name]
    benchmark = load_benchmark(panel.benchmark)
    racers = [
        cls.get_instance(**values) for cls, values in contenders(benchmark, options.solver or list(panel.solvers))
    ]
    known = curves(name, records, options)
    racers = [racer for racer in racers if str(racer) not in known]
    if not racers:
        return
    data = load_data(benchmark, panel.data)
    n = len(data["y"])
    every = slice(None, None, max(1, n // (options.rows or n)))
    data |= {part: data[part][every] for part in ("X", "y")}
    objective = objective_for(benchmark, data, C=options.C, kernel=options.kernel, **panel.parameters)
    optimum = best_bound(name, benchmark, objective)
    for racer in racers:
        is_skipped, reason = racer.skip(**objective.get_objective())
        if is_skipped:
            log.print(f"{name}: {escape(str(racer))} skipped: {escape(str(reason))}", style="dim")
            continue
        records.append({"kind": "measurement", **cell(name, options), **run(racer, objective, optimum, options)})


def best_bound(name: str, benchmark: Any, objective: Any) -> float:
    """Return D*, as good as the default solver can prove it."""
    from softmargin.run import Stop, solve

    (choice,) = contenders(benchmark, ["softmargin"])
    ours = choice[0].get_instance(**choice[1])
    ours.set_objective(**objective.get_objective())
    stop = Stop(tol=OPTIMUM, max_iter=_ENDLESS, max_seconds=OPTIMUM_SECONDS)
    certificate = solve(ours.fresh(), ours.method(), stop=stop, rng=0).certificate
    log.print(f"{name}: f* = {-certificate.bound:.10g}, relative gap {certificate.residual:.1e}", style="dim")
    return certificate.bound


def run(racer: Any, objective: Any, optimum: float, options: argparse.Namespace) -> dict[str, Any]:
    """Run one solver and return its curve."""
    from benchmark_utils.ours import Standstill
    from softmargin.run import Stop, solve

    racer.set_objective(**objective.get_objective())
    racer.warm_up()
    curve = Curve(optimum)
    stop = Stop(tol=options.tol, max_iter=_ENDLESS, max_seconds=options.cap)
    result = solve(racer.fresh(), racer.method(), stop=stop, rng=0, watchers=[curve, Standstill()])
    accuracy = objective.accuracy(result.point)
    log.print(f"{escape(str(racer))}: {curve.suboptimality[-1]:.1e} after {result.seconds:.3g} s", style="dim")
    return {
        "solver": str(racer),
        "cap": options.cap,
        "optimum": -optimum,
        "seconds": curve.seconds,
        "suboptimality": curve.suboptimality,
        "gap": curve.gap,
        "accuracy": None if math.isnan(accuracy) else accuracy,
        "status": result.status.value,
    }


def print_table(name: str, rows: dict[str, dict[str, Any]]) -> None:
    """Print the time to each target, where the run ended, and the test accuracy there."""
    panel = PANELS[name]
    lines = []
    for solver, row in rows.items():
        times = [time_to(row, target) for target in TARGETS]
        accuracy = "–" if row["accuracy"] is None else f"{100.0 * row['accuracy']:.2f} %"
        end = (f"{max(row['suboptimality'][-1], LEAST):.1e}", f"{row['seconds'][-1]:.3g}")
        lines.append([solver, *(f"{time:.3g}" if time else "–" for time in times), *end, accuracy])
    write(f"\n### {panel.data}, {name}: seconds to (f − f\\*) / |f\\*|\n")
    targets = [f"{target:g}" for target in TARGETS]
    write(markdown(["solver", *targets, "ended at", "after", "test accuracy"], lines))


def time_to(row: dict[str, Any], target: float) -> float | None:
    """Return when a curve first came down to a target."""
    reached = (seconds for seconds, value in zip(row["seconds"], row["suboptimality"], strict=True) if value <= target)
    return next(reached, None)


def draw(known: dict[str, dict[str, Any]], path: Path) -> None:
    """Draw one panel a problem."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(known), figsize=(5.5 * len(known), 4.8), squeeze=False, layout="constrained")
    for (name, rows), axis in zip(known.items(), axes[0], strict=True):
        for solver, row in rows.items():
            seconds, values = row["seconds"], [max(value, LEAST) for value in row["suboptimality"]]
            style = {"marker": ".", "markersize": 3}
            if len(set(values)) == 1:  # solved in one step
                seconds, values, style = seconds[:1], values[:1], {"marker": "*", "markersize": 11, "linestyle": ""}
            axis.loglog(seconds, values, label=solver, **style)
        axis.set(title=f"{PANELS[name].data}, {name}", xlabel="seconds", ylabel="(f - f*) / |f*|")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    command(main)
