"""Time to a relative suboptimality of multinomial regression: ours and scikit-learn's solvers, one thread, interleaved.

    ours              one run of solve(...); the solver's clock at the first step whose objective is within the level
    sklearn           tol is tightened by half decades until the fit is within the level: the time of that fit alone
    softmargin_fit    our estimator, timed in the same way

    suboptimality = (F - F*) / F*      F* from long runs of our solvers, proven by their dual bound, kept on disk

No contender depends on its stopping rule: ours are evaluated outside their time, estimators get the loosest tol that
suffices. Every repeat runs all contenders one after the other, starting with another one each time. Every measurement
is appended to the output file at once; started again with the same file, the command continues where it was stopped.
"""

import argparse
import math
import sys
import time
from pathlib import Path
from typing import Any

from rich.markup import escape

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports below

from races.gap_tables import KINDS
from races.ratio_tables import print_tables
from races.time_to_gap import Todo, race, suited, warn_if_loose
from tools.common import (
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

BENCHMARK = "softmax"
DATA = ("dna", "letter", "mnist", "news20", "20ng-bydate", "reuters-r52", "w8a")
USUAL = ("softmargin", "softmargin_fit", "sklearn")
PRICES = {"l2": (0.1, 10.0), "l1": (0.1, 1.0), "elastic_net": (0.1, 1.0)}


def main(arguments: list[str] | None) -> int:
    """Measure, or print what was measured."""
    options = parser().parse_args(arguments)
    if options.summary is not None:
        if not options.summary.exists():
            raise UserError(f"{options.summary} does not exist.")
        print_tables(Records(options.summary))
        return 0
    options.benchmark, options.axis = BENCHMARK, KINDS[BENCHMARK].axis
    records = Records(options.output)
    with one_thread():
        benchmark = load_benchmark(BENCHMARK)
        names = choose("data", options.data or list(DATA), dataset_names(benchmark))
        solvers = contenders(
            benchmark, options.solver or (None if options.peers else list(USUAL)), only_peers=options.peers
        )
        records.start(benchmark=BENCHMARK, cap=options.cap, repeats=options.repeats, layout=options.layout)
        deadline = time.monotonic() + 60.0 * options.budget
        try:
            for name in names:
                measure_data(benchmark, name, solvers, records, options, deadline)
        except TimeoutError:
            log.print("the budget is spent; start again with the same file to continue")
    print_tables(records)
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", metavar="NAME", help=f"data sets (default: {' '.join(DATA)})")
    parser.add_argument("--penalty", nargs="+", choices=list(PRICES), default=list(PRICES), help="default: all")
    parser.add_argument("--C", nargs="+", type=float, help="values of C (default: 0.1 10 for l2, else 0.1 1)")
    parser.add_argument("--tols", nargs="+", type=float, default=[1e-3, 1e-6], help="levels (default: 1e-3 1e-6)")
    parser.add_argument(
        "--solver",
        nargs="+",
        metavar="PATTERN",
        help='solvers, as benchopt names them, e.g. named "named[solver=Lbfgs]" block_prox_gradient '
        "(default: softmargin softmargin_fit sklearn; with --peers all)",
    )
    parser.add_argument("--peers", action="store_true", help="of ours only the default, and every other library")
    parser.add_argument("--layout", default="as read", choices=["as read", "dense", "csr"], help="layout of X")
    parser.add_argument(
        "--no-intercept", action="store_true", help="leave the intercept out (saga and CSR get on badly)"
    )
    parser.add_argument("--repeats", type=int, default=5, help="runs of which the median is taken (default: 5)")
    parser.add_argument("--cap", type=float, default=60.0, help="seconds one run may take (default: 60)")
    parser.add_argument(
        "--optimum-seconds", type=float, default=600.0, help="seconds to find F* of a problem, once (default: 600)"
    )
    parser.add_argument(
        "--budget", type=float, default=math.inf, metavar="MINUTES", help="begin no new run after this many minutes"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.jsonl", help="file of measurements, appended to")
    parser.add_argument("--summary", type=Path, metavar="OUT.jsonl", help="measure nothing, print the tables of a file")
    return parser


def measure_data(
    benchmark: Any, name: str, solvers: list[Any], records: Records, options: argparse.Namespace, deadline: float
) -> None:
    """Measure every problem of one data set."""
    try:
        data = load_data(benchmark, name, options.layout)
    except (OSError, ValueError) as problem:
        log.print(f"{name}: {escape(' '.join(str(problem).split()))} Left out.")
        return
    label = name + (f", {options.layout}" if options.layout != "as read" else "")
    label += ", no intercept" if options.no_intercept else ""
    for penalty in options.penalty:
        for C in options.C or PRICES[penalty]:
            objective = objective_for(benchmark, data, C=C, penalty=penalty, fit_intercept=not options.no_intercept)
            objective.bound_seconds = options.optimum_seconds
            measure(objective, solvers, Todo(records, options, label, penalty, C), options, deadline)


def measure(objective: Any, solvers: list[Any], todo: Todo, options: argparse.Namespace, deadline: float) -> None:
    """Have all contenders solve one problem."""
    racers = suited([cls.get_instance(**values) for cls, values in solvers], objective.problem, objective.C, todo.where)
    racers = [racer for racer in racers if any(todo.tols(str(racer), repeat) for repeat in range(options.repeats))]
    if not racers:
        return
    warn_if_loose(objective, options.tols, todo.where)
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
        reason = f"{type(problem).__name__}: {' '.join(str(problem).split())}"
        log.print(f"{where}: {escape(str(racer))} left out: {escape(reason)}")
        return False
    return True


if __name__ == "__main__":
    command(main)
