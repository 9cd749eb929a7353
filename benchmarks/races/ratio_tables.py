"""Measurements as Markdown: seconds, and how many times longer than softmargin."""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from races.gap_tables import Cell, Timing, timings
from tools.common import OURS, Records, log
from tools.markdown_tables import markdown, write

_NOTHING = Timing(math.nan, "–")


class Ratio(NamedTuple):
    """How many times longer than softmargin a contender takes, and whether that is only a lower bound."""

    times: float
    is_bound: bool

    def __str__(self) -> str:
        return f"{'> ' if self.is_bound else ''}{self.times:.{1 if self.times > 10.0 else 2}f}×"


def print_tables(records: Records, peer: str) -> None:
    """Print two tables for each variant; the best of the solvers whose names begin with ``peer`` has a column."""
    found = timings(records)
    if not found:
        log.print("no measurements yet")
        return
    for variant in dict.fromkeys(cell.variant for cell in found):
        cells = {cell: timing for cell, timing in found.items() if cell.variant == variant}
        names = list(dict.fromkeys(cell.data for cell in cells))
        rows = {cell._replace(solver=OURS) for cell in cells}
        rows = sorted(rows, key=lambda row: (names.index(row.data), row.C, -row.tol))
        solvers = list(dict.fromkeys(cell.solver for cell in cells if cell.solver != OURS))
        write(f"\n### {variant}\n")
        write(seconds_table(rows, solvers, cells, peer))
        write("")
        write(ratio_table(rows, solvers, cells, peer))


def best_peer(row: Cell, solvers: Sequence[str], cells: dict[Cell, Timing], peer: str = "") -> Timing:
    """Return the least time of the solvers whose names begin so; where all ran into the cap, what it exceeds."""
    theirs = {name: cells.get(row._replace(solver=name), _NOTHING) for name in solvers if name.startswith(peer)}
    finished = {name: timing for name, timing in theirs.items() if math.isfinite(timing.seconds)}
    if finished:
        name = min(finished, key=lambda name: finished[name].seconds)
        return finished[name]._replace(text=f"{finished[name].text} {short(name)}")
    caps = [timing.at_least for timing in theirs.values() if timing.at_least > 0.0]
    return Timing(math.inf, f"> {min(caps):g}", min(caps)) if caps else _NOTHING


def best_of(peer: str) -> str:
    """Name the column of the best."""
    return f"best of {peer or 'the others'}"


def short(solver: str) -> str:
    """Return a solver's name without the brackets of benchopt: sklearn[solver=saga] is sklearn saga."""
    return " ".join(word.rpartition("=")[2] for word in solver.rstrip("]").replace("[", ",").split(","))


def ratio_of(theirs: Timing, ours: Timing) -> Ratio | None:
    """Return how many times longer theirs is; None where it is unknown."""
    if not math.isfinite(ours.seconds):
        return None
    if math.isfinite(theirs.seconds):
        return Ratio(theirs.seconds / ours.seconds, False)
    return Ratio(theirs.at_least / ours.seconds, True) if theirs.at_least > 0.0 else None


def seconds_table(rows: Sequence[Cell], solvers: Sequence[str], cells: dict[Cell, Timing], peer: str) -> str:
    """Return the table of seconds."""
    body = []
    for row in rows:
        ours = cells.get(row, _NOTHING)
        shown = [
            best_peer(row, solvers, cells, peer),
            *(cells.get(row._replace(solver=name), _NOTHING) for name in solvers),
        ]
        ratios = [ratio_of(timing, ours) for timing in shown]
        texts = [
            f"{timing.text} ({ratio})" if ratio else timing.text for timing, ratio in zip(shown, ratios, strict=True)
        ]
        body.append([row.data, f"{row.C:g}", f"{row.tol:g}", ours.text, *texts])
    return markdown(["data", "C", "level", OURS, best_of(peer), *solvers], body)


def ratio_table(rows: Sequence[Cell], solvers: Sequence[str], cells: dict[Cell, Timing], peer: str) -> str:
    """Return geometric means and the least of "how many times longer"; a cap counts as the time it cut off."""
    levels = sorted({row.tol for row in rows}, reverse=True)
    n_missed = sum(math.isinf(cells.get(row, _NOTHING).seconds) for row in rows)
    body = []
    for solver in [best := best_of(peer), *solvers]:
        pairs: list[tuple[Ratio, Cell]] = []
        for row in rows:
            if solver == best:
                theirs = best_peer(row, solvers, cells, peer)
            else:
                theirs = cells.get(row._replace(solver=solver), _NOTHING)
            ratio = ratio_of(theirs, cells.get(row, _NOTHING))
            if ratio:
                pairs.append((ratio, row))
        if not pairs:
            continue
        means = [mean_ratio([ratio for ratio, row in pairs if row.tol == level]) for level in levels]
        exact = [pair for pair in pairs if not pair[0].is_bound]
        least = "–"
        if exact:
            ratio, row = min(exact)
            least = f"{ratio} ({row.data} C={row.C:g} {row.tol:g})"
        counts = [str(len(pairs)), str(len(pairs) - len(exact))]
        body.append([solver, *means, mean_ratio([ratio for ratio, _ in pairs]), least, *counts, str(n_missed)])
    head = [
        f"{OURS} is faster than",
        *(f"at {level:g}" for level in levels),
        "all",
        "least",
        "cells",
        "cut off",
        "missed by us",
    ]
    return markdown(head, body)


def mean_ratio(ratios: Sequence[Ratio]) -> str:
    """Return the geometric mean as text; a bound among them makes it one."""
    if not ratios:
        return "–"
    mean = statistics.geometric_mean(ratio.times for ratio in ratios)
    return str(Ratio(mean, any(ratio.is_bound for ratio in ratios)))
