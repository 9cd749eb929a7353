"""Data as they come: which ordinary fits end with a proof within 20 seconds of one core.

    python benchmarks/hard/certified.py --jobs 16 --peers -o hard.jsonl
    python benchmarks/hard/certified.py --data mnist --settings softmax-l2 --forms raw

Every data set of the folder, raw and standardised, is fitted by every estimator with ``solver="auto"`` and else default
settings (``cells.py`` says which, and what the forms are); ``--C`` and ``--tol`` ask for others. Beside them, with
``--peers``, other libraries solve the nearest problem of theirs: with their defaults, and with a tolerance that keeps
them busy until the budget ends them. ``certify`` proves how far their models are from their own optimum.

    seconds      of the processor, of the whole ``fit``; ours include the proof
    certified    the proven relative gap is at most tol, within the budget

A budget counts the seconds of the process, not those of the clock: the fits of a busy machine are the same as those of
an idle one. Every fit has a process and a thread of its own, started from one that has compiled what fits need; one
that still had to compile is made again. Results are appended to the output file as soon as they are known; started
again with the same file, the command continues.
"""

import argparse
import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports below

from tools.common import Records, command, one_thread


def main(arguments: list[str] | None) -> int:
    """Fit what is not known yet, and print the tables."""
    options = parser().parse_args(arguments)
    with one_thread():
        from hard import cells, fits, tables

        wanted = cells.chosen(options)
        records = Records(options.output)
        records.start(budget=options.seconds)
        known = {tables.key(row) for row in records.rows if "contender" in row}
        pending = [cell for cell in wanted if cell not in known]
        for row in fits.measured(pending, cells.Sets(options.forms, options.rows), options.seconds, options.jobs):
            records.append(row)
    before = Records(options.before).measurements() if options.before else []
    tables.show([row for row in records.measurements() if tables.key(row) in set(wanted)], options.seconds, before)
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", metavar="NAME", help="data sets (default: all of the folder)")
    parser.add_argument("--settings", nargs="+", metavar="NAME", help="estimators (default: all; see cells.py)")
    parser.add_argument("--forms", nargs="+", metavar="FORM", help="raw, standardised (default: both)")
    parser.add_argument("--C", nargs="+", type=positive, help="instead of those of the setting; radii of balls")
    parser.add_argument("--tol", nargs="+", type=positive, default=[1e-3], help="relative gaps (default: 1e-3)")
    parser.add_argument("--rows", type=positive, default=math.inf, help="only data sets of at most so many rows")
    parser.add_argument("--seconds", type=positive, default=20.0, help="processor time of a fit (default: 20)")
    parser.add_argument("--peers", action="store_true", help="beside LIBLINEAR, LIBSVM and scikit-learn")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="fits at a time, each on one thread")
    parser.add_argument("--before", type=Path, metavar="OLD.jsonl", help="results to compare with")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.jsonl", help="file of measurements, appended to")
    return parser


def positive(text: str) -> float:
    """Read a number above zero."""
    value = float(text)
    if not 0.0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return value


if __name__ == "__main__":
    command(main)
