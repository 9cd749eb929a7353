"""Time to a proven relative gap: all solvers of the linear multiclass SVM, one thread, interleaved.

    ours, plain         solve(..., Stop(tol)): the solver's clock when the certificate meets the tolerance
    LIBLINEAR and kin   eps is tightened until P(W) is within tol of the proven bound: the time of that training call
    walrus_cpp          the printed time of the first pass whose P(W) is within tol of the proven bound

Peers are thus given the best bound anybody has proven, while ours must prove its own. Every repeat runs all contenders
one after the other, starting with another one each time, so that a busy machine hurts all alike. Every measurement is
appended to the output file at once; started again with the same file, the command goes on where it was stopped.
"""

import argparse
import itertools
import math
import statistics
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from rich.markup import escape
from rich.table import Table

from common import (
    MULTICLASS,
    Records,
    UserError,
    choose,
    command,
    console,
    dataset_names,
    load_benchmark,
    load_data,
    log,
    objective_for,
    one_thread,
)

OURS = "softmargin"
CONVERGED = "converged"
FAILED = "failed"
# A bound is called loose for a tolerance if more than this share of the tolerance may be the bound's own fault.
LOOSE_SHARE = 0.1


class Cell(NamedTuple):
    """What one number of the table stands for."""

    data: str
    multiclass: str
    C: float
    solver: str
    tol: float

    @classmethod
    def of(cls, row: dict[str, Any]) -> "Cell":
        """Return the cell a measurement belongs to."""
        return cls(*(row[name] for name in cls._fields))


def main(arguments: list[str] | None) -> int:
    """Measure, or print what was measured."""
    options = parser().parse_args(arguments)
    if options.summary is not None:
        if not options.summary.exists():
            raise UserError(f"{options.summary} does not exist.")
        print_summary(Records(options.summary))
        return 0
    records = Records(options.output)
    with one_thread():
        benchmark = load_benchmark()
        names = choose("data", options.data, dataset_names(benchmark))
        solvers = contenders(benchmark, options.solver)
        records.start(cap=options.cap, repeats=options.repeats, layout=options.layout)
        deadline = time.monotonic() + 60.0 * options.budget
        try:
            for name in names:
                measure_data(benchmark, name, solvers, records, options, deadline)
        except TimeoutError:
            log.print("the budget is spent; start again with the same file to go on")
    print_summary(records)
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", metavar="NAME", help="data sets (default: all of the benchmark)")
    parser.add_argument(
        "--multiclass", nargs="+", choices=MULTICLASS, default=MULTICLASS, help="losses (default: both)"
    )
    parser.add_argument("--C", nargs="+", type=float, default=[0.125, 1.0], help="values of C (default: 0.125 1)")
    parser.add_argument(
        "--tols", nargs="+", type=float, default=[1e-2, 1e-3, 1e-4], help="relative gaps (default: 1e-2 1e-3 1e-4)"
    )
    parser.add_argument(
        "--solver", nargs="+", metavar="PATTERN", help='solvers, as benchopt names them, e.g. "plain[block=sort]"'
    )
    parser.add_argument("--layout", default="as read", choices=["as read", "dense", "csr"], help="layout of X")
    parser.add_argument("--repeats", type=int, default=5, help="runs of which the median is taken (default: 5)")
    parser.add_argument("--cap", type=float, default=60.0, help="seconds one run may take (default: 60)")
    parser.add_argument(
        "--bound-seconds", type=float, default=600.0, help="seconds to prove the peers' bound once (default: 600)"
    )
    parser.add_argument(
        "--budget", type=float, default=math.inf, metavar="MINUTES", help="begin no new run after this many minutes"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.jsonl", help="file of measurements, appended to")
    parser.add_argument("--summary", type=Path, metavar="OUT.jsonl", help="measure nothing, print the tables of a file")
    return parser


def contenders(benchmark: Any, patterns: list[str] | None) -> list[tuple[Any, dict[str, Any]]]:
    """Return (solver class, parameters) of every contender, ours first."""
    from benchopt.utils.parametrized_name_mixin import product_param

    try:
        chosen = benchmark.check_solver_patterns(patterns)
    except Exception as problem:  # benchopt raises click errors, ValueErrors and plain Exceptions for bad patterns
        raise UserError(f"--solver: {problem}") from problem
    found = []
    for cls, parameters in chosen:
        if not cls.is_installed(quiet=True):
            log.print(f"{cls.name}: not installed, left out")
            continue
        found += [(cls, values) for values in product_param(parameters)]
    return sorted(found, key=lambda pair: pair[0].name != OURS)


def measure_data(
    benchmark: Any, name: str, solvers: list[Any], records: Records, options: argparse.Namespace, deadline: float
) -> None:
    """Measure every problem of one data set; data are loaded only if something is left to do."""
    data = None
    for multiclass, C in itertools.product(options.multiclass, options.C):
        todo = Todo(records, options, name, multiclass, C)
        outline = SimpleNamespace(multiclass=multiclass, n_classes=math.inf)
        racers = suited([cls.get_instance(**values) for cls, values in solvers], outline, C, todo.where)
        if not any(todo.tols(str(racer), repeat) for racer in racers for repeat in range(options.repeats)):
            continue
        if data is None:
            try:
                data = load_data(benchmark, name, options.layout)
            except (OSError, ValueError) as problem:
                log.print(f"{name}: {escape(' '.join(str(problem).split()))} Left out.")
                return
        objective = objective_for(benchmark, data, C, multiclass)
        objective.bound_seconds = options.bound_seconds
        racers = suited(racers, objective.problem, C, todo.where)
        for racer in racers:
            racer.set_objective(**objective.get_objective())
            racer.warm_up()
        if any(racer.leans_on_bound for racer in racers):
            warn_if_loose(objective, options.tols, todo.where)
        for repeat in range(options.repeats):
            turn = repeat % max(len(racers), 1)
            for racer in racers[turn:] + racers[:turn]:
                if time.monotonic() > deadline:
                    raise TimeoutError
                race(racer, objective, todo, repeat)


def suited(racers: list[Any], problem: Any, C: float, where: str) -> list[Any]:
    """Return the contenders that can solve the problem, of which an outline will do."""
    found = []
    for racer in racers:
        is_skipped, reason = racer.skip(problem=problem, C=C)
        if is_skipped:
            log.print(f"{where}: {escape(str(racer))} skipped: {escape(str(reason))}", style="dim")
        else:
            found.append(racer)
    return found


def warn_if_loose(objective: Any, tols: list[float], where: str) -> None:
    """Say so if the proven bound could make peers look worse than they are."""
    reached = objective.bound.residual
    loose = [f"{tol:g}" for tol in tols if reached > LOOSE_SHARE * tol]
    if loose:
        log.print(f"warning: {where}: the bound has a gap of {reached:.1e}, loose for tol {', '.join(loose)}")


def race(racer: Any, objective: Any, todo: "Todo", repeat: int) -> None:
    """Run one contender once for every tolerance it still owes."""
    name = str(racer)
    tols = todo.tols(name, repeat)
    if not tols:
        return
    try:
        extra = {"bound_residual": objective.bound.residual} if racer.leans_on_bound else {}
        laps = racer.laps(tols, judge=objective, cap=todo.cap, repeat=repeat, settings=todo.settings(name))
        for lap in laps:
            todo.done(name, repeat, **lap._asdict(), **extra)
    except Exception as problem:  # one contender's crash must not cost the others their race
        reason = f"{type(problem).__name__}: {' '.join(str(problem).split())}"
        log.print(f"{todo.where}: {escape(name)} failed: {escape(reason)}")
        todo.done(name, repeat, tol=max(tols), seconds=None, residual=None, status=FAILED, reason=reason)


class Todo:
    """What is left to measure of one problem."""

    def __init__(self, records: Records, options: argparse.Namespace, data: str, multiclass: str, C: float) -> None:
        self.records, self.cap = records, options.cap
        self.all_tols = sorted(set(options.tols), reverse=True)
        self.problem = {"data": data, "multiclass": multiclass, "C": C}
        self.where = f"{data} {multiclass} C={C:g}"

    def rows(self, solver: str) -> list[dict[str, Any]]:
        """Return what is known of one contender here."""
        wanted = self.problem | {"solver": solver}
        return [row for row in self.records.measurements() if all(row[name] == wanted[name] for name in wanted)]

    def tols(self, solver: str, repeat: int) -> list[float]:
        """Return the tolerances still owed in this repeat, loosest first."""
        rows = self.rows(solver)
        known = {row["tol"] for row in rows if row["repeat"] == repeat and row["status"] == CONVERGED}
        # A missed tolerance is not tried again, nor is a tighter one, unless there is more time now.
        missed = [row["tol"] for row in rows if is_missed(row) and row["cap"] >= self.cap]
        return [tol for tol in self.all_tols if tol not in known and tol > max(missed, default=0.0)]

    def settings(self, solver: str) -> dict[float, float]:
        """Return the settings found in earlier repeats, by tolerance."""
        return {row["tol"]: row["setting"] for row in self.rows(solver) if row["status"] == CONVERGED}

    def done(self, solver: str, repeat: int, **lap: Any) -> None:
        """Write a measurement down."""
        row = {"kind": "measurement", **self.problem, "solver": solver, "repeat": repeat, "cap": self.cap}
        lap = {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in lap.items()}
        self.records.append(row | lap)
        if lap["status"] != FAILED:
            seconds = f"{lap['seconds']:.4g} s" if lap["status"] == CONVERGED else lap["status"]
            log.print(f"{self.where} tol={lap['tol']:g} repeat {repeat}: {escape(solver)} {seconds}", style="dim")


def is_missed(row: dict[str, Any]) -> bool:
    """Say whether a contender did not get there; a crash is no verdict and is tried again."""
    return row["status"] not in (CONVERGED, FAILED)


class Timing(NamedTuple):
    """One cell of the table: the median in seconds, or why there is none."""

    seconds: float
    text: str


def timings(records: Records) -> dict[Cell, Timing]:
    """Condense measurements to one timing a cell; tighter tolerances than a missed one count as missed."""
    by_cell: dict[Cell, list[dict[str, Any]]] = {}
    for row in records.measurements():
        by_cell.setdefault(Cell.of(row), []).append(row)
    found = {}
    for cell, rows in by_cell.items():
        latest = list({row["repeat"]: row for row in rows}.values())
        misses = [row for row in latest if row["status"] != CONVERGED]
        if misses:
            status = misses[-1]["status"]
            found[cell] = Timing(math.inf, f"> {misses[-1]['cap']:g}" if status == "over cap" else status)
        else:
            median = statistics.median(row["seconds"] for row in latest)
            found[cell] = Timing(median, f"{median:.4f}" if median < 1.0 else f"{median:.2f}")
    tols = {cell.tol for cell in found}
    for cell, timing in list(found.items()):
        if math.isinf(timing.seconds):
            for tol in tols:
                if tol < cell.tol:
                    found.setdefault(cell._replace(tol=tol), timing)
    return found


def print_summary(records: Records) -> None:
    """Print a table for each loss, and the ratios in a few numbers."""
    found = timings(records)
    if not found:
        log.print("no measurements yet")
        return
    for multiclass in MULTICLASS:
        cells = {cell: timing for cell, timing in found.items() if cell.multiclass == multiclass}
        if cells:
            print_loss(multiclass, cells)


def print_loss(multiclass: str, cells: dict[Cell, Timing]) -> None:
    """Print seconds and the ratio ours / contender of one loss."""
    others = list(dict.fromkeys(cell.solver for cell in cells if cell.solver != OURS))
    table = Table(title=f"{multiclass}: seconds to a relative gap ({OURS} / contender; below 1 we are faster)")
    for name in ("data", "C", "tol", OURS):
        table.add_column(name, justify="left" if name == "data" else "right")
    for solver in others:
        table.add_column(escape(solver), justify="right")
    ratios: dict[str, list[tuple[float, Cell]]] = {solver: [] for solver in others}
    names = list(dict.fromkeys(cell.data for cell in cells))
    rows = {(cell.data, cell.C, cell.tol) for cell in cells}
    for data, C, tol in sorted(rows, key=lambda row: (names.index(row[0]), row[1], -row[2])):
        ours = cells.get(Cell(data, multiclass, C, OURS, tol), Timing(math.nan, "-"))
        texts = []
        for solver in others:
            cell = Cell(data, multiclass, C, solver, tol)
            theirs = cells.get(cell, Timing(math.nan, "-"))
            ratio = ours.seconds / theirs.seconds
            if math.isfinite(ratio) and math.isfinite(theirs.seconds):
                ratios[solver].append((ratio, cell))
                texts.append(f"{theirs.text} ({ratio:.2f})")
            else:
                texts.append(theirs.text)
        table.add_row(data, f"{C:g}", f"{tol:g}", ours.text, *texts)
    console.print(table)
    console.print(ratio_table(multiclass, ratios, cells))


def ratio_table(multiclass: str, ratios: dict[str, list[tuple[float, Cell]]], cells: dict[Cell, Timing]) -> Table:
    """Return geometric means by tolerance and the worst case, over cells that both finished."""
    tols = sorted({cell.tol for cell in cells}, reverse=True)
    table = Table(title=f"{multiclass}: {OURS} / contender, geometric means over cells both finished")
    for name in ("contender", *(f"tol {tol:g}" for tol in tols), "all", "worst case", "at", "missed by it", "by us"):
        table.add_column(name, justify="left" if name in ("contender", "at") else "right")
    for solver, pairs in ratios.items():
        means = [_geometric_mean([ratio for ratio, cell in pairs if cell.tol == tol]) for tol in tols]
        worst, where = max(pairs, default=(math.nan, None))
        at = "" if where is None else f"{where.data} C={where.C:g} tol={where.tol:g}"
        theirs = {cell: timing for cell, timing in cells.items() if cell.solver == solver}
        missed = sum(math.isinf(timing.seconds) for timing in theirs.values())
        ours = [cells.get(cell._replace(solver=OURS)) for cell in theirs]
        missed_by_us = sum(timing is not None and math.isinf(timing.seconds) for timing in ours)
        everything = _geometric_mean([ratio for ratio, _ in pairs])
        table.add_row(escape(solver), *means, everything, f"{worst:.2f}", at, str(missed), str(missed_by_us))
    return table


def _geometric_mean(ratios: list[float]) -> str:
    return f"{statistics.geometric_mean(ratios):.2f}" if ratios else "-"


if __name__ == "__main__":
    command(main)
