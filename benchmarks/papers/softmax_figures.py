"""Paper 003, Figures 1 to 3: how far each solver's objective is above the least one, against passes and against time.

    minimise over W:   sum_i loss_i(W' x_i) + |W|^2         the paper's regulariser, no intercept
    suboptimality = (F - F*) / F*                           F* from long runs of our solvers, proven to 1e-9

The paper holds the weights of the last class at zero; here all classes have weights, which with a regulariser is
another problem. segment (scaled to [-1, 1]), poker (as it is: suits 1..4, ranks 1..13) and dna are whole, mnist (/ 255)
is its first 10,000 rows. All start at W = 0, one run of each solver on one thread; the objective is evaluated after
every step, outside the solver's time. A pass is one multiplication by X and one by X', what a gradient takes: block
and dual descent make one per step, SVRG two; of the others products are counted, with their share of the rows, but no
factorisation. Proximal Newton's work is not of this kind: it has no passes here.

Every curve is appended to the output file when it is done; started again with the same file, the command continues, and
once all is known it only prints the tables and draws the plots.
"""

import argparse
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.markup import escape

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports below

from tools.common import Records, choose, command, contenders, load_benchmark, load_data, log, objective_for, one_thread
from tools.curves import LEAST, Point, save_picture, thinned
from tools.markdown_tables import markdown, write

ROWS = {"segment": None, "poker": None, "dna": None, "mnist": 10_000}
PRICE = 1.0
TARGETS = (1e-2, 1e-4)

CYCLIC, SHUFFLED, RANDOM, CLASSES, MATRIX, FAST = (
    f"block_prox_gradient[variant={variant}]"
    for variant in ("cyclic", "shuffled", "random", "classes", "matrix", "default")
)
SVRG, LBFGS, TRUST, NEWTON, PROX_NEWTON, DUAL = (
    f"named[solver={name}]" for name in ("Svrg", "Lbfgs", "TrustNewton", "NewtonCG", "ProxNewton", "SoftmaxDualDescent")
)
LABELS = {
    CYCLIC: "feature-wise, cyclic",
    SHUFFLED: "feature-wise, shuffled",
    RANDOM: "feature-wise, random",
    FAST: "feature-wise, local constants",
    CLASSES: "class-wise",
    MATRIX: "matrix-wise",
    SVRG: "SVRG",
    LBFGS: "L-BFGS",
    TRUST: "trust region",
    NEWTON: "Newton-CG",
    PROX_NEWTON: "proximal Newton",
    DUAL: "dual descent",
}
PASSES = {SVRG: 2.0, PROX_NEWTON: math.nan} | dict.fromkeys(
    (CYCLIC, SHUFFLED, RANDOM, FAST, CLASSES, MATRIX, DUAL), 1.0
)
_RIVALS = (CYCLIC, RANDOM, FAST, LBFGS, TRUST, NEWTON, PROX_NEWTON, DUAL)
FIGURES = {
    "figure1": {"mnist": (CYCLIC, CLASSES, MATRIX), "segment": (CYCLIC, SVRG)},
    "figure2": {"segment": (CYCLIC, SHUFFLED, RANDOM), "poker": (CYCLIC, SHUFFLED, RANDOM)},
    "figure3": {"dna": _RIVALS, "poker": _RIVALS, "mnist": _RIVALS},
}


class Passes:
    """A watcher that keeps how many passes were made, from steps or from products with X and X'."""

    def __init__(self, solver: str, n: int) -> None:
        self.per_step, self.n = PASSES.get(solver, 0.0), n
        self.products = 0.0
        self.made: list[float] = []

    def begin(self, problem: Any, solver: Any, stop: Any) -> None:
        """Nothing to prepare."""

    def watch(self, progress: Any) -> None:
        """Count."""
        self.made.append(self.per_step * progress.iteration or 0.5 * self.products)

    def end(self, result: Any) -> None:
        """Nothing to tidy up."""

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the products with X and X' that solvers ask for."""
        from softmargin.matrices import products

        places = [
            (module, verb, getattr(products, verb))
            for verb in ("times", "adjoint")
            for name, module in list(sys.modules.items())
            if name.startswith("softmargin.solvers") and getattr(module, verb, None) is getattr(products, verb)
        ]
        try:
            for module, verb, original in places:
                setattr(module, verb, self._counted(original))
            yield
        finally:
            for module, verb, original in places:
                setattr(module, verb, original)

    def _counted(self, verb: Any) -> Any:
        def counted(X: Any, *others: Any) -> None:
            self.products += X.shape[0] / self.n  # a sample of the rows is part of a product
            verb(X, *others)

        return counted


def main(arguments: list[str] | None) -> int:
    """Run what is not known yet, print the tables, draw the plots."""
    options = parser().parse_args(arguments)
    names = choose("data", options.data, list(ROWS))
    solvers = choose("solver", options.solver, list(LABELS))
    records = Records(options.output)
    with one_thread():
        records.start(cap=options.cap)
        benchmark = load_benchmark("softmax")
        for name in names:
            measure(benchmark, name, solvers, records, options)
    for name in names:
        print_table(name, curves(name, records))
    if options.plots is not None:
        for figure in FIGURES:
            draw(figure, {name: curves(name, records) for name in ROWS}, options.plots / f"softmax-{figure}.png")
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", metavar="NAME", help=f"data sets (default: {' '.join(ROWS)})")
    parser.add_argument("--solver", nargs="+", metavar="NAME", help="solvers (default: all)")
    parser.add_argument("--tol", type=float, default=1e-8, help="suboptimality at which a run ends (default: 1e-8)")
    parser.add_argument("--cap", type=float, default=30.0, help="seconds a run may take (default: 30)")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.jsonl", help="file of curves, appended to")
    parser.add_argument(
        "--plots", type=Path, metavar="FOLDER", help="where to draw softmax-figure1.png to -figure3.png"
    )
    return parser


def curves(name: str, records: Records) -> dict[str, dict[str, Any]]:
    """Return the curves that are known of a data set, by solver."""
    found = {row["solver"]: row for row in records.measurements() if row["data"] == name}
    return {solver: found[solver] for solver in LABELS if solver in found}


def measure(benchmark: Any, name: str, solvers: list[str], records: Records, options: argparse.Namespace) -> None:
    """Run the solvers whose curves are not known."""
    known = curves(name, records)
    solvers = [solver for solver in solvers if solver not in known or known[solver]["cap"] < options.cap]
    if not solvers:
        return
    data = load_data(benchmark, name)
    data |= {part: data[part][: ROWS[name]] for part in ("X", "y")}
    objective = objective_for(benchmark, data, C=PRICE, penalty="squared_norm", fit_intercept=False)
    log.print(f"{name}: F* = {objective.bound.value:.10g}, proven to {objective.bound.residual:.1e}", style="dim")
    for solver in solvers:
        ((cls, values),) = contenders(benchmark, [solver])
        racer = cls.get_instance(**values)
        is_skipped, reason = racer.skip(**objective.get_objective())
        if is_skipped:
            log.print(f"{name}: {escape(solver)} skipped: {reason}", style="dim")
            continue
        points = run(racer, solver, objective, options)
        columns = dict(zip(("passes", "seconds", "suboptimality"), zip(*points, strict=True), strict=True))
        columns["passes"] = [None if math.isnan(passes) else passes for passes in columns["passes"]]
        records.append({"kind": "measurement", "data": name, "solver": solver, "cap": options.cap, **columns})
        log.print(f"{name}: {LABELS[solver]}: {points[-1][2]:.1e} after {points[-1][1]:.3g} s", style="dim")


def run(racer: Any, solver: str, objective: Any, options: argparse.Namespace) -> list[Point]:
    """Run one solver and return its curve."""
    from benchmark_utils.descent import WALL_SHARE, Descent
    from benchmark_utils.ours import ENDLESS, Standstill
    from softmargin.run import Stop, solve

    racer.set_objective(**objective.get_objective())
    racer.warm_up()
    curve, passes = Descent(objective, least=options.tol, cap=options.cap), Passes(solver, len(objective.problem.y))
    stop = Stop(tol=0.0, max_iter=ENDLESS, max_seconds=WALL_SHARE * options.cap)
    with passes.counting():
        solve(racer.fresh(), racer.method(), stop=stop, rng=0, watchers=[curve, passes, Standstill()])
    return thinned(list(zip(passes.made, curve.seconds, curve.suboptimality, strict=True)), TARGETS)


def print_table(name: str, rows: dict[str, dict[str, Any]]) -> None:
    """Print passes and seconds to each target, and where the run ended."""
    body = []
    for solver, row in rows.items():
        cells = []
        for target in TARGETS:
            step = next((step for step, value in enumerate(row["suboptimality"]) if value <= target), None)
            cells += ["–", "–"] if step is None else [count(row["passes"][step]), f"{row['seconds'][step]:.3g}"]
        passes, seconds, value = (row[name][-1] for name in ("passes", "seconds", "suboptimality"))
        end = [f"{max(value, LEAST):.1e}", count(passes), f"{seconds:.3g}"]
        body.append([LABELS[solver], *cells, *end])
    head = [column for target in TARGETS for column in (f"passes to {target:g}", "seconds")]
    write(f"\n### {name}\n")
    write(markdown(["solver", *head, "ended at", "passes", "seconds"], body))


def count(passes: float | None) -> str:
    """Return a number of passes as text."""
    return "–" if passes is None else f"{passes:.0f}"


def draw(figure: str, known: dict[str, dict[str, Any]], path: Path) -> None:
    """Draw a figure of the paper: a column a data set, passes above, time below."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    panels = FIGURES[figure]
    shape = {"figsize": (4.2 * len(panels), 6.4), "squeeze": False, "layout": "constrained", "sharey": "col"}
    picture, axes = plt.subplots(2, len(panels), **shape)
    colours = dict(zip(LABELS, [f"C{number}" for number in range(10)] + ["black", "gold"], strict=True))
    for column, (name, solvers) in enumerate(panels.items()):
        for axis, unit in zip(axes[:, column], ("passes", "seconds"), strict=True):
            for solver in solvers:
                row = known[name].get(solver)
                if row is not None and row[unit][0] is not None:
                    values = [max(value, LEAST) for value in row["suboptimality"]]
                    axis.loglog(
                        row[unit], values, label=LABELS[solver], color=colours[solver], marker=".", markersize=3
                    )
            axis.set(xlabel=unit, ylabel="(F - F*) / F*" if column == 0 else None)
            axis.grid(alpha=0.3)
        axes[0, column].set_title(name)
    handles = {label: line for axis in axes[1] for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    picture.legend(handles.values(), handles, loc="outside lower center", ncols=4, fontsize=8)
    save_picture(picture, path)


if __name__ == "__main__":
    command(main)
