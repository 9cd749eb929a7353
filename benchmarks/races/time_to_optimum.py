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
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports below

from races.gap_tables import KINDS
from races.ratio_tables import print_tables
from races.time_to_gap import (
    Todo,
    add_race_options,
    loaded,
    measured,
    run_rounds,
    suited,
    summarised,
    warn_if_loose,
)
from tools.common import Records, command, objective_for

BENCHMARK = "softmax"
DATA = ("dna", "letter", "mnist", "news20", "20ng-bydate", "reuters-r52", "w8a")
USUAL = ("softmargin", "softmargin_fit", "sklearn")
PRICES = {"l2": (0.1, 10.0), "l1": (0.1, 1.0), "elastic_net": (0.1, 1.0)}


def main(arguments: list[str] | None) -> int:
    """Measure, or print what was measured."""
    options = parser().parse_args(arguments)
    options.benchmark, options.axis = BENCHMARK, KINDS[BENCHMARK].axis
    options.data = options.data or list(DATA)
    options.solver = options.solver or (None if options.peers else list(USUAL))
    print_tables(summarised(options) or measured(options, measure_data), options.best_of)
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
    parser.add_argument(
        "--no-intercept", action="store_true", help="leave the intercept out (saga and CSR get on badly)"
    )
    parser.add_argument(
        "--optimum-seconds", type=float, default=600.0, help="seconds to find F* of a problem, once (default: 600)"
    )
    add_race_options(parser)
    return parser


def measure_data(
    benchmark: Any, name: str, solvers: list[Any], records: Records, options: argparse.Namespace, deadline: float
) -> None:
    """Measure every problem of one data set."""
    data = loaded(benchmark, name, options.layout)
    if data is None:
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
    run_rounds(racers, objective, todo, options, deadline)


if __name__ == "__main__":
    command(main)
