"""Paper 004, Figures 1 and 2: how long the duality gap takes to fall, exact blocks beside Shark's greedy ones.

    ET = seconds after the first pass t with DG^t <= delta DG^1,   DG^t the duality gap after pass t

    figure1   primal and dual objective, and the gap, against time
    figure2   ET / ET of shark, for C = 2^-6 .. 2^3 and delta = 0.1, 0.01, 0.001: below 1 is faster than Shark

    sort      the paper's own algorithm: every sample in turn, its exact block (Walrus)
    shark     the same with Shark's block, which accepts KKT violations of 1e-6: the paper's code
    greedy    the same with 1e-4: less to do, and a gap that it cannot pass
    default   ours: Newton's block and a working set; a step costs at most a pass

Of the paper's data sets, dna, mnist, news20 and letter are available; reuters-r52 and leaves100 (52 and 100 classes)
stand in for rcv1 and sector (53 and 105). The paper's Figure 1 has satimage with C = 1 and sector with C = 1/2; here it
has dna, reuters-r52 and leaves100. As in the paper the gap is evaluated after every pass, outside the time. One thread;
the solvers are interleaved within every repeat, and tables show medians. Every run is appended to the output file when
it is done; started again with the same file, the command continues, and once all is known it only prints and draws.
"""

import argparse
import math
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports below

from tools.common import Records, choose, command, log, one_thread, pending_problems
from tools.curves import save_picture
from tools.markdown_tables import markdown, write

NAMES = ("dna", "mnist", "news20", "letter", "reuters-r52", "leaves100")  # by number of classes
GRID = tuple(range(-6, 4))
DELTAS = (0.1, 0.01, 0.001)
FIGURE1 = (("dna", 0), ("reuters-r52", -1), ("leaves100", -1))
LOOSE = 1e-4  # KKT violations that greedy leaves
SOLVERS = ("sort", "shark", "greedy", "default")
RATIOS = (("sort", "shark"), ("default", "shark"), ("sort", "greedy"), ("default", "greedy"), ("default", "sort"))
WALL_SHARE = 20.0  # caps: what a run may take with its evaluations, each of which can cost more than a pass
MULTICLASS = "weston_watkins"
Key = tuple[str, int, str]  # data, log2 C, solver


class Decay:
    """A watcher that keeps seconds, primal and dual value of every pass, until the gap has fallen far enough."""

    def __init__(self, least: float, cap: float) -> None:
        self.least, self.cap = least, cap
        self.seconds, self.primal, self.dual = [], [], []

    def begin(self, problem: Any, solver: Any, stop: Any) -> None:
        """Nothing to prepare."""

    def watch(self, progress: Any) -> bool:
        """Evaluate the gap after this pass; stop at the smallest delta."""
        certificate = progress.problem.certificate(progress.solver.point(progress.problem, progress.state))
        self.seconds.append(progress.seconds)
        self.primal.append(certificate.primal)
        self.dual.append(certificate.bound)
        return self.shares()[-1] <= self.least or progress.seconds > self.cap

    def end(self, result: Any) -> None:
        """Nothing to tidy up."""

    def shares(self) -> list[float]:
        """Return DG^t / DG^1."""
        gaps = [primal - dual for primal, dual in zip(self.primal, self.dual, strict=True)]
        return [gap / gaps[0] for gap in gaps]

    def reached(self, delta: float) -> dict[str, float] | None:
        """Return passes and seconds to a share of the first gap."""
        passes = enumerate(zip(self.seconds, self.shares(), strict=True), start=1)
        return next(({"passes": t, "seconds": s} for t, (s, share) in passes if share <= delta and s <= self.cap), None)


def main(arguments: list[str] | None) -> int:
    """Run what is not known yet, print the tables, draw the figures."""
    options = parser().parse_args(arguments)
    records = Records(options.output)
    names = choose("data", options.data, list(NAMES))
    with one_thread():
        records.start(cap=options.cap, repeats=options.repeats)
        for name, log2_C, objective, pending in pending_problems(
            names, options.log2_C, MULTICLASS, lambda name, log2_C: missing(records, name, log2_C, options)
        ):
            cell = {"data": name, "log2_C": log2_C, "cap": options.cap}
            measure(objective.problem, cell, pending, records)
    known = [row for row in records.measurements() if row["data"] in names and row["log2_C"] in options.log2_C]
    times = medians(known)
    print_ratios(known, times)
    print_seconds(known, times)
    if options.plots is not None and known:
        import matplotlib as mpl

        mpl.use("Agg")
        draw_figure1(known, options.plots / "walrus-figure1.png")
        draw_figure2(known, times, options.plots / "walrus-figure2.png")
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", metavar="NAME", help=f"data sets (default: {' '.join(NAMES)})")
    parser.add_argument("--log2-C", nargs="+", type=int, default=GRID, choices=GRID, help="default: -6 .. 3")
    parser.add_argument("--repeats", type=int, default=3, help="runs of every solver (default: 3)")
    parser.add_argument("--cap", type=float, default=60.0, help="seconds a run may take (default: 60)")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.jsonl", help="file of runs, appended to")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="where to draw walrus-figure1.png and so on")
    return parser


def missing(records: Records, name: str, log2_C: int, options: argparse.Namespace) -> list[tuple[int, str]]:
    """Return repeat and solver of the runs to make, each repeat begun by another solver."""
    rows = [row for row in records.measurements() if (row["data"], row["log2_C"]) == (name, log2_C)]
    done = [row for row in rows if None not in row["reached"] or row["cap"] >= options.cap]
    known = {(row["repeat"], row["solver"]) for row in done}
    turns = [(r, SOLVERS[(r + s) % len(SOLVERS)]) for r in range(options.repeats) for s in range(len(SOLVERS))]
    return [turn for turn in turns if turn not in known]


def measure(problem: Any, cell: dict[str, Any], turns: list[tuple[int, str]], records: Records) -> None:
    """Make the runs of one problem."""
    from benchmark_utils.ours import ENDLESS, Standstill
    from softmargin.blocks import WestonWatkinsGreedy
    from softmargin.run import Stop, solve
    from softmargin.solvers import DualBlockDescent

    blocks = {"sort": "sort", "shark": "greedy", "greedy": WestonWatkinsGreedy(LOOSE)}
    methods = {name: DualBlockDescent(block=block, working_set=False) for name, block in blocks.items()}
    methods["default"] = DualBlockDescent()
    for solver in dict.fromkeys(solver for _, solver in turns):
        solve(problem, methods[solver], stop=Stop(tol=0.0, max_iter=2), rng=0)  # compiles
    stop = Stop(tol=0.0, max_iter=ENDLESS, max_seconds=WALL_SHARE * cell["cap"])
    for repeat, solver in turns:
        decay = Decay(min(DELTAS), cell["cap"])
        solve(problem, methods[solver], stop=stop, rng=repeat, watchers=[decay, Standstill()])
        shares = decay.shares()
        row = {"kind": "measurement", **cell, "k": problem.n_classes, "solver": solver, "repeat": repeat}
        row |= {"first_gap": decay.primal[0] - decay.dual[0], "passes": len(shares), "last_share": shares[-1]}
        row |= {"reached": [decay.reached(delta) for delta in DELTAS]}
        if (cell["data"], cell["log2_C"]) in FIGURE1 and repeat == 0:
            row["curve"] = {"seconds": decay.seconds, "primal": decay.primal, "dual": decay.dual}
        records.append(row)
        end = f"{shares[-1]:.1e} of the first gap after {len(shares)} passes, {decay.seconds[-1]:.3g} s"
        log.print(f"{cell['data']} C=2^{cell['log2_C']} {solver}: {end}", style="dim")


def medians(known: list[dict[str, Any]]) -> dict[Key, list[float]]:
    """Return the median seconds to each delta, infinite where half of the runs or more did not get there."""
    found: dict[Key, list[float]] = {}
    keys = [(row["data"], row["log2_C"], row["solver"]) for row in known]
    for key in dict.fromkeys(keys):
        # A run repeated with more time stands in for the one that was cut off.
        runs = {row["repeat"]: row["reached"] for row, its in zip(known, keys, strict=True) if its == key}
        columns = zip(*runs.values(), strict=True)
        found[key] = [statistics.median(math.inf if r is None else r["seconds"] for r in column) for column in columns]
    return found


def ratios(times: dict[Key, list[float]], pair: tuple[str, str], name: str, number: int) -> list[float]:
    """Return the ratios of a pair of solvers at one delta over the grid of C, where both got there."""
    grids = [{C: t[number] for (data, C, its), t in times.items() if (data, its) == (name, solver)} for solver in pair]
    mine, other = ({C: t for C, t in grid.items() if math.isfinite(t)} for grid in grids)
    return [mine[C] / other[C] for C in mine if C in other]


def spread(found: list[float], total: int) -> str:
    """Return mean, range and number."""
    mean = f"{statistics.geometric_mean(found):.2f} ({min(found):.2f} – {max(found):.2f})" if found else "–"
    return f"{mean}, {len(found)} of {total}"


def print_ratios(known: list[dict[str, Any]], times: dict[Key, list[float]]) -> None:
    """Print Figure 2 as a table, and how far the first gaps differ."""
    body = []
    for name in dict.fromkeys(row["data"] for row in known):
        k = next(row["k"] for row in known if row["data"] == name)
        for number, delta in enumerate(DELTAS):
            total = sum(data == name and solver == "shark" for data, _, solver in times)
            cells = [spread(ratios(times, pair, name, number), total) for pair in RATIOS]
            body.append([name, str(k), f"{delta:g}", *cells])
    write("\n### Figure 2: ratios of times, geometric mean over C (range), and at how many C both got there\n")
    write(markdown(["data", "classes", "delta", *(f"{mine} / {other}" for mine, other in RATIOS)], body))
    first = {(row["data"], row["log2_C"], row["repeat"], row["solver"]): row["first_gap"] for row in known}
    found = [gap / first.get((*key, "shark"), math.nan) for (*key, its), gap in first.items() if its == "sort"]
    write(f"\nDG^1 of sort / DG^1 of shark: {min(found, default=math.nan):.6f} to {max(found, default=math.nan):.6f}")


def print_seconds(known: list[dict[str, Any]], times: dict[Key, list[float]]) -> None:
    """Print the seconds of every cell."""
    body = []
    for name, log2_C in dict.fromkeys((row["data"], row["log2_C"]) for row in known):
        lines = [times.get((name, log2_C, solver), [math.nan] * len(DELTAS)) for solver in SOLVERS]
        cells = [f"{line[number]:.3g}" for number in range(len(DELTAS)) for line in lines]
        body.append([name, str(log2_C), *("–" if cell in ("nan", "inf") else cell for cell in cells)])
    write("\n### Seconds\n")
    write(markdown(["data", "log2 C", *(f"{delta:g}: {solver}" for delta in DELTAS for solver in SOLVERS)], body))


def draw_figure1(known: list[dict[str, Any]], path: Path) -> None:
    """Draw primal and dual values above, gaps below."""
    from matplotlib import pyplot as plt

    curves = {(row["data"], row["log2_C"], row["solver"]): row["curve"] for row in known if "curve" in row}
    panels = [panel for panel in FIGURE1 if (*panel, "sort") in curves]
    if not panels:
        return
    shape = {"figsize": (3.8 * len(panels), 6.4), "sharex": "col", "squeeze": False}
    picture, axes = plt.subplots(2, len(panels), layout="constrained", **shape)
    for (name, log2_C), (above, below) in zip(panels, axes.T, strict=True):
        k = next(row["k"] for row in known if row["data"] == name)
        for number, solver in enumerate(SOLVERS):
            curve = curves.get((name, log2_C, solver), {"seconds": [], "primal": [], "dual": []})
            color = "black" if solver == "default" else f"C{number}"
            for value, style in (("primal", "-"), ("dual", "--")):
                above.semilogx(curve["seconds"], curve[value], style, color=color, label=f"{solver}, {value}")
            gaps = [primal - dual for primal, dual in zip(curve["primal"], curve["dual"], strict=True)]
            below.loglog(curve["seconds"], gaps, color=color)
        above.set(title=f"{name}, {k} classes, C = {2.0**log2_C:g}", ylabel="objective")
        below.set(xlabel="seconds", ylabel="duality gap")
        above.legend(fontsize=7)
    save_picture(picture, path)


def draw_figure2(known: list[dict[str, Any]], times: dict[Key, list[float]], path: Path) -> None:
    """Draw a dot for every data set, C and delta."""
    from matplotlib import pyplot as plt

    classes = {row["data"]: row["k"] for row in sorted(known, key=lambda row: row["k"])}
    picture, axes = plt.subplots(1, 2, figsize=(11.0, 4.2), sharey=True, layout="constrained")
    for pair, axis in zip(RATIOS[:2], axes, strict=True):
        for number, delta in enumerate(DELTAS):
            dots = [(x, ratio) for x, name in enumerate(classes) for ratio in ratios(times, pair, name, number)]
            x = [x + 0.2 * (number - 1) for x, _ in dots]
            axis.scatter(x, [ratio for _, ratio in dots], s=12, alpha=0.7, label=f"delta = {delta:g}")
        axis.axhline(1.0, color="black", linewidth=0.8)
        axis.set_xticks(range(len(classes)), [f"{name}\n{k}" for name, k in classes.items()], fontsize=8)
        axis.set(yscale="log", title=f"{pair[0]} / {pair[1]}", ylabel="ratio of times", xlabel="data, classes")
        axis.legend(fontsize=8)
    save_picture(picture, path)


if __name__ == "__main__":
    command(main)
