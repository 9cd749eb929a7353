"""Paper 001, Table 2 and Figures 1 to 3: how far each solver's objective is above the least one, against time.

    figure1   smooth hinge over the l1 ball of radius 300, l2 = 10 / n; Table 2 says what the data are
    figure3   the same with l2 = 1 / n and 100 / n
    figure2   squared loss over the trace-norm ball: 1000 measurements of an 800 x 600 matrix of rank 10, 20, 100
    sweep     time to a relative gap against the number of features, of which 20 make the labels

    suboptimality = (P - P*) / P*      P* from a long run of the default solver, proven by its gap

One run of each solver on one thread; the objective is evaluated after every step, outside the solver's time. Every
curve is appended to the output file when it is done; started again with the same file, the command continues, and once
all is known it only prints the tables and draws the plots.
"""

import argparse
import math
import sys
from pathlib import Path
from typing import Any, NamedTuple

from rich.markup import escape

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports below

from races.time_to_gap import suited
from tools.common import (
    OURS,
    Records,
    choose,
    command,
    contenders,
    dataset_names,
    load_benchmark,
    load_data,
    log,
    objective_for,
    one_thread,
)
from tools.curves import LEAST, Point, save_picture, thinned
from tools.markdown_tables import markdown, write

TARGETS = (1e-2, 1e-3, 1e-6)
SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
SWEEP_RADIUS = 10.0
SWEEP_SOLVERS = (OURS, "named[solver=accelerated_gradient]", "named[solver=pairwise_frank_wolfe]")


class Figure(NamedTuple):
    """A figure of the paper: the benchmark folder, the radius, the ridges and the data sets."""

    benchmark: str
    radius: float
    ridges: tuple[str, ...]
    sets: tuple[Any, ...]


FIGURES = {
    "figure1": Figure("l1_ball", 300.0, ("10",), ("duke", "news20-binary", "mnist-0-9.rb", "w8a.rb", "shuttle.rb")),
    "figure3": Figure("l1_ball", 300.0, ("1", "100"), ("news20-binary", "mnist-0-9.rb")),
    "figure2": Figure(
        "trace_ball", 0.9, ("10",), tuple(f"rank-{rank}{kind}" for kind in ("", "-unit") for rank in (10, 20, 100))
    ),
    "sweep": Figure("l1_ball", SWEEP_RADIUS, ("10",), SIZES),
}


def main(arguments: list[str] | None) -> int:
    """Run what is not known yet, print the tables, draw the plots."""
    options = parser().parse_args(arguments)
    records = Records(options.output)
    with one_thread():
        records.start(cap=options.cap)
        for name in options.figure:
            measure_figure(name, records, options)
    for name in options.figure:
        known = [row for row in records.measurements() if row["figure"] == name]
        if name == "sweep":
            print_sweep(known)
        else:
            print_tables(name, known)
        if options.plots is not None and known:
            draw(name, known, options.plots / f"ball-{name}.png")
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figure", nargs="+", choices=list(FIGURES), default=list(FIGURES), help="default: all")
    parser.add_argument("--data", nargs="+", metavar="NAME", help="data sets (default: those of the figure)")
    parser.add_argument("--solver", nargs="+", metavar="PATTERN", help="solvers (default: all)")
    parser.add_argument("--tol", type=float, default=1e-7, help="suboptimality at which a run ends (default: 1e-7)")
    parser.add_argument("--cap", type=float, default=10.0, help="seconds a run may take (default: 10)")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.jsonl", help="file of curves, appended to")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="where to draw ball-figure1.png and so on")
    return parser


def measure_figure(name: str, records: Records, options: argparse.Namespace) -> None:
    """Run the solvers of one figure whose curves are not known."""
    figure = FIGURES[name]
    benchmark = load_benchmark(figure.benchmark)
    solvers = contenders(benchmark, options.solver or (list(SWEEP_SOLVERS) if name == "sweep" else None))
    solvers = [pair for pair in solvers if hasattr(pair[0], "fresh")]  # peers cannot be watched step by step
    chosen = None if name == "sweep" or options.data is None else choose("data", options.data, dataset_names(benchmark))
    for data_name in chosen or figure.sets:
        data = None
        for ridge in figure.ridges:
            cell = {"figure": name, "data": data_name, "ridge": ridge}
            todo = [cls.get_instance(**values) for cls, values in solvers]
            todo = [racer for racer in todo if not is_known(records, options.cap, **cell, solver=str(racer))]
            if not todo:
                continue
            data = data or (wide(benchmark, data_name) if name == "sweep" else load_data(benchmark, data_name))
            objective = objective_for(benchmark, data, radius=figure.radius, ridge=ridge)
            certificate = objective.optimum
            log.print(f"{cell}: P* = {certificate.primal:.10g}, proven to {certificate.residual:.1e}", style="dim")
            for racer in suited(todo, objective.problem, figure.radius, f"{data_name} l2={ridge}/n"):
                found = run(racer, objective, options)
                X = objective.problem.X
                facts = {"n": X.shape[0], "d": X.shape[1], "nnz": int(getattr(X, "nnz", X.size))}
                records.append({"kind": "measurement", **cell, **facts, "cap": options.cap, **found})


def is_known(records: Records, cap: float, **cell: Any) -> bool:
    """Say whether a curve is in the file, with at least as much time as now."""
    return any(
        row["cap"] >= cap and all(row[key] == value for key, value in cell.items()) for row in records.measurements()
    )


def wide(benchmark: Any, d: int) -> dict[str, Any]:
    """Return made-up data with d features."""
    (cls,) = (cls for cls in benchmark.get_datasets() if cls.name == "wide")
    return cls.get_instance(d=d).get_data()


def run(racer: Any, objective: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Run one solver and return its curve, and how much of W its last point uses."""
    from benchmark_utils.descent import WALL_SHARE, Descent
    from benchmark_utils.ours import ENDLESS, Standstill
    from softmargin.core.errors import IncompatibleError
    from softmargin.run import Stop, solve

    racer.set_objective(**objective.get_objective())
    curve = Descent(objective, least=options.tol, cap=options.cap)
    stop = Stop(tol=0.0, max_iter=ENDLESS, max_seconds=WALL_SHARE * options.cap)
    try:
        racer.warm_up()
        result = solve(racer.fresh(), racer.method(), stop=stop, rng=0, watchers=[curve, Standstill()])
    except IncompatibleError as problem:
        log.print(f"{escape(str(racer))} left out: {problem}")
        return {"solver": str(racer), "seconds": [], "suboptimality": [], "in_use": None}
    nothing = [math.nan] * len(curve.seconds)
    points: list[Point] = thinned(list(zip(nothing, curve.seconds, curve.suboptimality, strict=True)), TARGETS)
    log.print(f"{escape(str(racer))}: {points[-1][2]:.1e} after {points[-1][1]:.3g} s", style="dim")
    return {
        "solver": str(racer),
        "seconds": [point[1] for point in points],
        "suboptimality": [point[2] for point in points],
        "in_use": objective.in_use(result.point.weights),
    }


def label(solver: str) -> str:
    """Return a solver's name without benchopt's brackets."""
    return (
        "auto" if solver == OURS else solver.removeprefix("named[solver=").rstrip("]").replace("[times=", ", delta × ")
    )


def time_to(row: dict[str, Any], target: float) -> float | None:
    """Return when a curve first came down to a target."""
    reached = (seconds for seconds, value in zip(row["seconds"], row["suboptimality"], strict=True) if value <= target)
    return next(reached, None)


def print_tables(name: str, known: list[dict[str, Any]]) -> None:
    """Print what the data are, and for each of them the seconds to each target."""
    write(f"\n### {name}\n")
    sets = dict.fromkeys((row["data"], row["ridge"]) for row in known)
    facts = []
    for data, ridge in sets:
        rows = [row for row in known if (row["data"], row["ridge"]) == (data, ridge) and row["seconds"]]
        best = min(rows, key=lambda row: row["suboptimality"][-1])
        share = best["in_use"] / best["d"]
        facts.append([data, f"{ridge}/n", *(f"{best[key]:,}" for key in ("d", "n", "nnz"))])
        facts[-1].append(f"{best['in_use']:.0f}" + (f" ({100 * share:.1f} %)" if name != "figure2" else ""))
    write(markdown(["data", "l2", "features", "samples", "non-zeros", "solution's non-zeros or rank"], facts))
    for data, ridge in sets:
        body = []
        for row in known:
            if (row["data"], row["ridge"]) == (data, ridge) and row["seconds"]:
                times = [time_to(row, target) for target in TARGETS]
                end = [
                    f"{max(row['suboptimality'][-1], LEAST):.1e}",
                    f"{row['seconds'][-1]:.3g}",
                    f"{row['in_use']:.0f}",
                ]
                body.append([label(row["solver"]), *("–" if t is None else f"{t:.3g}" for t in times), *end])
        write(f"\n#### {data}, l2 = {ridge}/n\n")
        head = ["solver", *(f"seconds to {target:g}" for target in TARGETS), "ended at", "after", "in use"]
        write(markdown(head, body))


def print_sweep(known: list[dict[str, Any]]) -> None:
    """Print the seconds to each target against the number of features."""
    body = []
    for row in known:
        times = [time_to(row, target) for target in TARGETS]
        cells = ["–" if t is None else f"{t:.3g}" for t in times]
        body.append([f"{row['d']:,}", label(row["solver"]), *cells, f"{row['in_use']:.0f}"])
    head = ["features", "solver", *(f"seconds to {target:g}" for target in TARGETS), "in use"]
    write("\n### sweep\n")
    write(markdown(head, body))


def draw(name: str, known: list[dict[str, Any]], path: Path) -> None:
    """Draw one panel per problem; of the sweep, time against the number of features."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    solvers = list(dict.fromkeys(row["solver"] for row in known))
    style = {
        solver: {
            "color": "black" if solver == OURS else f"C{number}",
            "linestyle": "-" if number < 11 else "--",  # colours repeat after ten
            "label": label(solver),
        }
        for number, solver in enumerate(solvers)
    }
    if name == "sweep":
        picture, axis = plt.subplots(figsize=(5.5, 4.2), layout="constrained")
        for solver in solvers:
            points = [(row["d"], time_to(row, 1e-3)) for row in known if row["solver"] == solver]
            points = [point for point in points if point[1] is not None]
            if points:
                axis.loglog(*zip(*points, strict=True), marker="o", **style[solver])
        axis.set(xlabel="features", ylabel="seconds to (P - P*) / P* = 1e-3")
        axis.legend(fontsize=8)
    else:
        sets = list(dict.fromkeys((row["data"], row["ridge"]) for row in known))
        columns = min(len(sets), 5)
        lines = math.ceil(len(sets) / columns)
        size = (3.6 * columns, 3.2 * lines + 0.6)
        picture, axes = plt.subplots(lines, columns, figsize=size, squeeze=False, layout="constrained")
        for (data, ridge), axis in zip(sets, axes.flat, strict=False):
            for row in known:
                if (row["data"], row["ridge"]) == (data, ridge) and row["seconds"]:
                    values = [max(value, LEAST) for value in row["suboptimality"]]
                    axis.loglog(row["seconds"], values, **style[row["solver"]])
            axis.set(title=f"{data}, l2 = {ridge}/n", xlabel="seconds", ylabel="(P - P*) / P*")
            axis.grid(alpha=0.3)
        handles = {}
        for axis in axes.flat:
            handles |= {text: line for line, text in zip(*axis.get_legend_handles_labels(), strict=True)}
        picture.legend(handles.values(), handles, loc="outside lower center", ncols=5, fontsize=8)
    save_picture(picture, path)


if __name__ == "__main__":
    command(main)
