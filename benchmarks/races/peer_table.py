"""Ours beside the best of all other libraries, at equal proven accuracy: one line per problem, or every cell.

    times longer = seconds of the fastest peer / seconds of ours        below 1 we lose; LOSS is where we lose by 1.2

It measures nothing: it reads the files of ``time_to_gap.py --peers`` and ``time_to_optimum.py --peers``. Peers that
ran into the cap count as the cap where no other finished, and the ratio is then a lower bound. Of multinomial
regression the whole fit counts, with its checks and its proof.
"""

import argparse
import math
import statistics
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports below

from races.gap_tables import Cell, Timing, timings
from races.ratio_tables import Ratio, best_peer, mean_ratio, ratio_of
from tools.common import OUR_FIT, OURS, Records, UserError, command
from tools.curves import save_picture
from tools.markdown_tables import markdown, write

LOSS = 1.0 / 1.2


class Line(NamedTuple):
    """One problem of the table: ours, the best peer, and how many times longer that takes."""

    cell: Cell
    ours: Timing
    peer: Timing
    ratio: Ratio | None


def main(arguments: list[str] | None) -> int:
    """Print the tables, draw the picture."""
    options = parser().parse_args(arguments)
    lines = []
    for path in options.files:
        if not path.exists():
            raise UserError(f"{path} does not exist; measure it first: time_to_gap.py --peers -o {path}")
        lines += lines_of(Records(path))
    problems = list(dict.fromkeys(line.cell[:2] for line in lines))
    levels = sorted({line.cell.tol for line in lines}, reverse=True)
    head = ["problem", *(f"at {level:g}" for level in levels), "all", "worst case", "cells", "no peer", "missed by us"]
    if options.cells:
        for problem in problems:
            write(f"\n### {', '.join(problem)}\n")
            write(cells_table([line for line in lines if line.cell[:2] == problem], levels))
    else:
        write(markdown([*head, "lost by more than 1.2"], [summary(problem, lines, levels) for problem in problems]))
    if options.plot is not None:
        draw(lines, problems, options.plot)
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.jsonl", help="what was measured with --peers")
    parser.add_argument("--cells", action="store_true", help="every cell, in place of a line per problem")
    parser.add_argument("--plot", type=Path, metavar="OUT.png", help="where to draw all ratios")
    return parser


def lines_of(records: Records) -> list[Line]:
    """Return a line for every cell that we ran, in the order of measuring."""
    cells = timings(records)
    ours = OUR_FIT if any(cell.solver == OUR_FIT for cell in cells) else OURS
    peers = list(dict.fromkeys(cell.solver for cell in cells if not cell.solver.startswith(OURS)))
    found = []
    for cell, timing in cells.items():
        if cell.solver == ours:
            peer = best_peer(cell, peers, cells)
            found.append(Line(cell, timing, peer, ratio_of(peer, timing)))
    return found


def summary(problem: tuple[str, str], lines: list[Line], levels: list[float]) -> list[str]:
    """Return means, worst case and counts of one problem."""
    mine = [line for line in lines if line.cell[:2] == problem]
    known = [line for line in mine if line.ratio is not None]
    means = [mean_ratio([line.ratio for line in known if line.cell.tol == level]) for level in levels]
    exact = [line for line in known if not line.ratio.is_bound]
    worst = min(exact, key=lambda line: line.ratio.times, default=None)
    at = "–" if worst is None else f"{worst.ratio} ({worst.cell.data} {worst.cell.C:g} {worst.cell.tol:g})"
    n_missed = sum(math.isinf(line.ours.seconds) for line in mine)
    counts = [len(mine), len(mine) - len(known) - n_missed, n_missed, sum(line.ratio.times < LOSS for line in exact)]
    return [", ".join(problem), *means, mean_ratio([line.ratio for line in known]), at, *map(str, counts)]


def cells_table(lines: list[Line], levels: list[float]) -> str:
    """Return seconds of ours and of the best peer, a line for every data set and C."""
    by_place: dict[tuple[str, float], dict[float, Line]] = {}
    for line in lines:
        by_place.setdefault((line.cell.data, line.cell.C), {})[line.cell.tol] = line
    body = []
    for (data, C), at in by_place.items():
        texts = []
        for level in levels:
            line = at.get(level)
            times = f" ({line.ratio})" if line and line.ratio else ""
            texts += [line.ours.text, f"{line.peer.text}{times}"] if line else ["–", "–"]
        body.append([data, f"{C:g}", *texts])
    heads = [text for level in levels for text in (f"ours, {level:g}", "best peer")]
    return markdown(["data", "C", *heads], body)


def draw(lines: list[Line], problems: list[tuple[str, str]], path: Path) -> None:
    """Draw every ratio as a dot, one row per problem; open dots are lower bounds, the bar is the geometric mean."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    picture, axis = plt.subplots(figsize=(8, 0.55 * len(problems) + 1.2), layout="constrained")
    for row, problem in enumerate(reversed(problems)):
        ratios = [line.ratio for line in lines if line.cell[:2] == problem and line.ratio is not None]
        for is_bound in (False, True):
            times = [ratio.times for ratio in ratios if ratio.is_bound == is_bound]
            face = "none" if is_bound else "tab:blue"
            axis.scatter(times, [row] * len(times), s=18, facecolors=face, edgecolors="tab:blue", alpha=0.6)
        if ratios:
            mean = statistics.geometric_mean(ratio.times for ratio in ratios)
            axis.plot([mean, mean], [row - 0.3, row + 0.3], color="tab:red", linewidth=2)
    axis.axvline(1.0, color="black", linewidth=0.8)
    axis.set(xscale="log", xlabel="seconds of the fastest peer / ours, at equal accuracy")
    axis.set_yticks(range(len(problems)), [", ".join(problem) for problem in reversed(problems)])
    save_picture(picture, path)


if __name__ == "__main__":
    command(main)
