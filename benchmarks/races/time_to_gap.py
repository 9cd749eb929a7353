"""Time to a proven relative gap: all solvers of a benchmark, one thread, interleaved.

    ours                solve(..., Stop(tol)): the solver's clock when the certificate meets the tolerance
    LIBLINEAR and kin   eps is tightened until P(W) is within tol of the proven bound: the time of that training call
    walrus_cpp          the printed time of the first pass whose P(W) is within tol of the proven bound
    libsvm, the QP      eps is tightened until their dual variables prove the gap: the time of that call

Peers that return only weights are thus given the best bound known, while ours must prove its own. With a kernel, every
contender computes its kernel values itself, on its clock. Every repeat runs all contenders one after the other,
starting with another one each time, so that a busy machine affects all alike. Every measurement is appended to the
output file at once; started again with the same file, the command continues where it was stopped.
"""

import argparse
import itertools
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rich.markup import escape

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports below

from races.gap_tables import KINDS, Cell
from races.ratio_tables import print_tables
from tools.common import (
    BENCHMARKS,
    CONVERGED,
    FAILED,
    MULTICLASS,
    Records,
    UserError,
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

# A bound is called loose for a tolerance if more than this share of the tolerance may be the bound's own fault.
LOOSE_SHARE = 0.1


def main(arguments: list[str] | None) -> int:
    """Measure, or print what was measured."""
    options = completed(parser().parse_args(arguments))
    print_tables(summarised(options) or measured(options, measure_data), options.best_of)
    return 0


def summarised(options: argparse.Namespace) -> Records | None:
    """Return the measurements to print without measuring; None where none are asked for."""
    if options.summary is None:
        return None
    if not options.summary.exists():
        raise UserError(f"{options.summary} does not exist.")
    return Records(options.summary)


def measured(options: argparse.Namespace, measure_data: Callable[..., None]) -> Records:
    """Measure data set after data set, until the budget is spent."""
    records = Records(options.output)
    with one_thread():
        benchmark = load_benchmark(options.benchmark)
        names = choose("data", options.data, dataset_names(benchmark))
        solvers = contenders(benchmark, options.solver, only_peers=options.peers)
        records.start(benchmark=options.benchmark, cap=options.cap, repeats=options.repeats, layout=options.layout)
        deadline = time.monotonic() + 60.0 * options.budget
        try:
            for name in names:
                measure_data(benchmark, name, solvers, records, options, deadline)
        except TimeoutError:
            log.print("the budget is spent; start again with the same file to continue")
    return records


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmark", choices=BENCHMARKS, default=BENCHMARKS[0], help=f"default: {BENCHMARKS[0]}")
    parser.add_argument("--data", nargs="+", metavar="NAME", help="data sets (default: all of the benchmark)")
    parser.add_argument("--multiclass", nargs="+", choices=MULTICLASS, help="losses (default: both); not for l2_svm")
    parser.add_argument("--kernel", nargs="+", choices=["rbf", "linear"], help="kernels (default: rbf); l2_svm only")
    parser.add_argument("--ridge", nargs="+", choices=["1", "10", "100"], help="l2 times n (default: all); balls only")
    parser.add_argument(
        "--C",
        nargs="+",
        type=float,
        help="values of C (default: 0.125 1; with a kernel 1 10); of l1_ball the radius (300), of trace_ball its share "
        "of the true trace norm (0.9), of kernel_hinge lam (1e-4 1e-3)",
    )
    parser.add_argument(
        "--tols", nargs="+", type=float, help="relative gaps (default: 1e-2 1e-3 1e-4; with a kernel 1e-3 1e-6)"
    )
    parser.add_argument(
        "--solver", nargs="+", metavar="PATTERN", help='solvers, as benchopt names them, e.g. "plain[block=sort]"'
    )
    parser.add_argument(
        "--bound-seconds", type=float, default=600.0, help="seconds to prove the peers' bound once (default: 600)"
    )
    add_race_options(parser)
    return parser


def add_race_options(parser: argparse.ArgumentParser) -> None:
    """Describe how to race, and where measurements are kept."""
    parser.add_argument("--peers", action="store_true", help="of ours only the default, and every other library")
    parser.add_argument("--layout", default="as read", choices=["as read", "dense", "csr"], help="layout of X")
    parser.add_argument("--repeats", type=int, default=5, help="runs of which the median is taken (default: 5)")
    parser.add_argument("--cap", type=float, default=60.0, help="seconds one run may take (default: 60)")
    parser.add_argument(
        "--budget", type=float, default=math.inf, metavar="MINUTES", help="begin no new run after this many minutes"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.jsonl", help="file of measurements, appended to")
    parser.add_argument(
        "--best-of", default="", metavar="PEER", help="who counts in the column of the best: names that begin so (all)"
    )
    parser.add_argument("--summary", type=Path, metavar="OUT.jsonl", help="measure nothing, print the tables of a file")


def completed(options: argparse.Namespace) -> argparse.Namespace:
    """Fill in what depends on the benchmark."""
    kind = KINDS[options.benchmark]
    for axis in ("multiclass", "kernel", "ridge"):
        if axis != kind.axis and getattr(options, axis):
            raise UserError(f"{options.benchmark} has no choice of --{axis}; it has --{kind.axis}.")
    options.axis = kind.axis
    options.variants = getattr(options, kind.axis) or kind.variants
    options.C = options.C or kind.C
    options.tols = options.tols or kind.tols
    return options


def measure_data(
    benchmark: Any, name: str, solvers: list[Any], records: Records, options: argparse.Namespace, deadline: float
) -> None:
    """Measure every problem of one data set; data are loaded only if something is left to do."""
    data = None
    for variant, C in itertools.product(options.variants, options.C):
        todo = Todo(records, options, name, variant, C)
        racers = suited([cls.get_instance(**values) for cls, values in solvers], outline(variant), C, todo.where)
        if not any(todo.tols(str(racer), repeat) for racer in racers for repeat in range(options.repeats)):
            continue
        if data is None:
            data = loaded(benchmark, name, options.layout)
            if data is None:
                return
        objective = objective_for(benchmark, data, **{KINDS[options.benchmark].price: C, options.axis: variant})
        objective.bound_seconds = options.bound_seconds
        racers = suited(racers, objective.problem, C, todo.where)
        if any(racer.leans_on_bound for racer in racers):
            warn_if_loose(objective, options.tols, todo.where)
        run_rounds(racers, objective, todo, options, deadline)


def loaded(benchmark: Any, name: str, layout: str) -> dict[str, Any] | None:
    """Return a data set, or say why it is left out."""
    try:
        return load_data(benchmark, name, layout)
    except (OSError, ValueError) as problem:
        log.print(f"{name}: {escape(' '.join(str(problem).split()))} Left out.")
        return None


def run_rounds(racers: list[Any], objective: Any, todo: "Todo", options: argparse.Namespace, deadline: float) -> None:
    """Have the contenders solve one problem, repeat after repeat, starting with another one each time."""
    racers = [racer for racer in racers if is_ready(racer, objective, todo.where)]
    for repeat in range(options.repeats):
        turn = repeat % max(len(racers), 1)
        for racer in racers[turn:] + racers[:turn]:
            if time.monotonic() > deadline:
                raise TimeoutError
            race(racer, objective, todo, repeat)


def is_ready(racer: Any, objective: Any, where: str) -> bool:
    """Hand a contender the problem and let it compile; one that cannot must not cost the others their race."""
    try:
        racer.set_objective(**objective.get_objective())
        racer.warm_up()
    except Exception as problem:
        log.print(f"{where}: {escape(str(racer))} left out: {escape(in_one_line(problem))}")
        return False
    return True


def in_one_line(problem: Exception) -> str:
    """Return the type and the text of an error."""
    return f"{type(problem).__name__}: {' '.join(str(problem).split())}"


def outline(variant: str) -> Any:
    """Return what is known of a problem before its data are loaded; nothing here is too large for any solver."""
    gram = SimpleNamespace(is_linear=variant == "linear", n=0)
    return SimpleNamespace(multiclass=variant, n_classes=math.inf, gram=gram)


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
        laps = racer.laps(tols, objective=objective, cap=todo.cap, repeat=repeat, settings=todo.settings(name))
        for lap in laps:
            todo.done(name, repeat, **lap._asdict(), **extra)
    except Exception as problem:  # one contender's crash must not cost the others their race
        reason = in_one_line(problem)
        log.print(f"{todo.where}: {escape(name)} failed: {escape(reason)}")
        todo.done(name, repeat, tol=max(tols), seconds=None, residual=None, status=FAILED, reason=reason)


class Todo:
    """What is left to measure of one problem."""

    def __init__(self, records: Records, options: argparse.Namespace, data: str, variant: str, C: float) -> None:
        self.records, self.cap = records, options.cap
        self.all_tols = sorted(set(options.tols), reverse=True)
        self.problem = {"benchmark": options.benchmark, options.axis: variant, "data": data, "C": C}
        self.where = f"{data} {variant} C={C:g}"

    def rows(self, solver: str) -> list[dict[str, Any]]:
        """Return what is known of one contender here."""
        wanted = (*self.problem.values(), solver)
        return [row for row in self.records.measurements() if Cell.of(row)[:-1] == wanted]

    def tols(self, solver: str, repeat: int) -> list[float]:
        """Return the tolerances still missing in this repeat, loosest first."""
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


if __name__ == "__main__":
    command(main)
