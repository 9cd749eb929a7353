"""Test accuracies of paper 004, Tables 4 to 6, beside ours: Weston-Watkins, no intercept, C = 2^-6 .. 2^3.

The paper stops after the first pass t with DG^t < delta DG^1, where DG^t is the duality gap after pass t, for delta in
{0.09, 0.009, 0.0009}. Here the gap is evaluated after every pass, and one fit serves all three deltas.

    --solver paper      plain Algorithm 1 with the paper's block step, as in the paper
    --solver default    ours, to the same absolute gaps: DG^1 is that of the paper's algorithm

Every accuracy is appended to the output file at once; started again with the same file, the command continues.
"""

import argparse
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports below

from tools.common import Records, choose, command, log, one_thread, pending_problems
from tools.markdown_tables import markdown, write

PAPER = json.loads(Path(__file__).with_name("paper_accuracy.json").read_text())
NAMES = ("dna", "letter", "mnist", "news20")
DELTAS = (0.09, 0.009, 0.0009)
MULTICLASS = "weston_watkins"
REACHED = "reached"
_ENDLESS = 10**9  # passes: seconds are the only budget


class GapDecay:
    """A watcher that evaluates the gap after every pass and reports when it has fallen to each share of the first."""

    def __init__(self, deltas: list[float], first_gap: float | None, reached: Callable[..., None]) -> None:
        self.pending = sorted(deltas, reverse=True)
        self.first_gap = first_gap
        self.gap = math.inf
        self._reached = reached

    def begin(self, problem: Any, solver: Any, stop: Any) -> None:
        """Nothing to prepare."""

    def watch(self, progress: Any) -> bool:
        """Evaluate the gap after this pass; stop after the smallest delta."""
        point = progress.solver.point(progress.problem, progress.state)
        self.gap = progress.problem.certificate(point).gap
        if self.first_gap is None:
            self.first_gap = self.gap
        while self.pending and self.gap < self.pending[0] * self.first_gap:
            self._reached(self.pending.pop(0), point, progress, self)
        return not self.pending

    def end(self, result: Any) -> None:
        """Nothing to tidy up."""


def main(arguments: list[str] | None) -> int:
    """Fit what is not known yet and print the tables."""
    options = parser().parse_args(arguments)
    records = Records(options.output)
    names = choose("data", options.data, list(NAMES))
    with one_thread():
        records.start(cap=options.cap, solver=options.solver)
        for name, log2_C, objective, pending in pending_problems(
            names,
            options.log2_C,
            MULTICLASS,
            lambda name, log2_C: missing(records, cell_of(name, log2_C, options), options),
        ):
            fit(objective, cell_of(name, log2_C, options), pending, records, options)
    for name in names:
        print_table(name, records, options)
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", metavar="NAME", help=f"data sets (default: {' '.join(NAMES)})")
    parser.add_argument(
        "--log2-C", nargs="+", type=int, default=PAPER["log2_C"], choices=PAPER["log2_C"], help="default: -6 .. 3"
    )
    parser.add_argument("--deltas", nargs="+", type=float, default=DELTAS, choices=DELTAS, help="default: all three")
    parser.add_argument("--solver", choices=["paper", "default"], default="paper", help="default: paper")
    parser.add_argument("--seed", type=int, default=0, help="of the order of samples (default: 0)")
    parser.add_argument(
        "--cap", type=float, default=300.0, help="seconds a fit may take, evaluations included (default: 300)"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.jsonl", help="file of accuracies, appended to")
    return parser


def cell_of(name: str, log2_C: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return what one fit stands for."""
    return {"data": name, "log2_C": log2_C, "solver": options.solver, "seed": options.seed}


def missing(records: Records, cell: dict[str, Any], options: argparse.Namespace) -> list[float]:
    """Return the deltas not known yet; one that took too long is tried again only with more time."""
    return [
        delta
        for delta in options.deltas
        if not any(row["status"] == REACHED or row["cap"] >= options.cap for row in known(records, cell, delta))
    ]


def known(records: Records, cell: dict[str, Any], delta: float) -> list[dict[str, Any]]:
    """Return what is known of one number of the tables."""
    wanted = cell | {"delta": delta}
    return [row for row in records.measurements() if all(row[name] == wanted[name] for name in wanted)]


def fit(
    objective: Any, cell: dict[str, Any], deltas: list[float], records: Records, options: argparse.Namespace
) -> None:
    """Run until the smallest delta is met, writing accuracies down as their deltas are."""
    from softmargin.run import Stop, solve
    from softmargin.solvers import DualBlockDescent

    paper = DualBlockDescent(block="sort", working_set=False)
    row = {"kind": "measurement", **cell, "cap": options.cap}

    def reached(delta: float, point: Any, progress: Any, watcher: GapDecay) -> None:
        accuracy = 100.0 * objective.accuracy(point.weights[:-1])
        result = {"accuracy": accuracy, "passes": progress.iteration, "seconds": progress.seconds}
        gaps = {"gap": watcher.gap, "first_gap": watcher.first_gap}
        records.append(row | {"delta": delta, "status": REACHED} | result | gaps)
        log.print(f"{cell['data']} C=2^{cell['log2_C']} delta={delta:g}: {accuracy:.2f} %", style="dim")

    solver, first_gap = paper, None
    if options.solver == "default":
        solver = DualBlockDescent()
        once = Stop(tol=0.0, max_iter=1)
        first_gap = solve(objective.problem, paper, stop=once, rng=options.seed).certificate.gap
    watcher = GapDecay(deltas, first_gap, reached)
    stop = Stop(tol=0.0, max_iter=_ENDLESS, max_seconds=options.cap)
    solve(objective.problem, solver, stop=stop, rng=options.seed, watchers=[watcher])
    for delta in watcher.pending:
        records.append(row | {"delta": delta, "status": "over cap", "gap": watcher.gap, "first_gap": watcher.first_gap})
        log.print(f"{cell['data']} C=2^{cell['log2_C']} delta={delta:g}: not reached in {options.cap:g} s")


def print_table(name: str, records: Records, options: argparse.Namespace) -> None:
    """Print paper | ours | difference for every C and delta of one data set."""
    head = ["log2 C"]
    for delta in options.deltas:
        head += [f"delta {delta:g}: paper", "ours", "difference"]
    differences, lines = [], []
    for log2_C in options.log2_C:
        texts = []
        for delta in options.deltas:
            paper = PAPER["accuracy"][name][f"{delta:g}"][PAPER["log2_C"].index(log2_C)]
            cell = cell_of(name, log2_C, options)
            ours = next((row for row in known(records, cell, delta) if row["status"] == REACHED), None)
            if ours is None:
                texts += [f"{paper:.2f}", "–", "–"]
            else:
                difference = round(ours["accuracy"] - paper, 2) + 0.0  # no negative zero
                differences.append(difference)
                texts += [f"{paper:.2f}", f"{ours['accuracy']:.2f}", f"{difference:+.2f}"]
        lines.append([str(log2_C), *texts])
    write(f"\n### {name}: test accuracy in percent\n")
    write(markdown(head, lines))
    if differences:
        mean = sum(differences) / len(differences)
        largest = max(map(abs, differences))
        write(f"\n{name}: {len(differences)} cells, mean difference {mean:+.3f}, largest {largest:.2f}.")


if __name__ == "__main__":
    command(main)
