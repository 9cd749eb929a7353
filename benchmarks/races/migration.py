"""One line of scikit-learn ported to ours: processor seconds to the same proven gap, on one core.

    line             theirs                       ours
    squared hinge    LinearSVC()                  the same problem; and with an intercept that is not penalised
    hinge            LinearSVC(loss="hinge")      the same problem
    kernel           SVC(C=10)                    the same problem (one-vs-one); and the joint one (Weston-Watkins)
    softmax          LogisticRegression(C=0.1)    the same problem

Theirs are fitted with their own settings, ``certify`` proves the relative gap of their model, and ours are fitted to
that gap, their proof included. All take turns within each repeat, and the median counts. Texts have rows of length 1,
the columns for softmax are standardised, those for kernels are as they come. satimage, pendigits and usps are not at
hand: segment (pieces of images), optdigits-test (8 x 8 digits) and the first 7291 rows of mnist stand in for them.
Streams: ``streams.py``. Started again with the same file, the command measures what is missing.
"""

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports below

from tools.common import Records, command, log, one_thread
from tools.markdown_tables import markdown, write

LINES = ("squared hinge", "hinge", "kernel", "softmax")
_USPS_ROWS = 7291
_SHARPEST = 1e-8  # where theirs end closer to the optimum than this, ours need not follow


class Line(NamedTuple):
    """Their estimator, ours by name, the data sets with their rows (None: all), and what is done to X."""

    theirs: Any
    ours: dict[str, Any]
    data: dict[str, int | None]
    scale: Callable[[Any], Any]


def main(arguments: list[str] | None) -> int:
    """Measure what is not known yet, and print the table."""
    options = parser().parse_args(arguments)
    records = Records(options.output)
    records.start(repeats=options.repeats)
    with one_thread():
        for name, line in lines().items():
            if name not in options.lines:
                continue
            for data in line.data:
                if options.data is None or data in options.data:
                    measure(name, line, data, options.repeats, records)
    print_tables(records, options)
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", nargs="+", choices=LINES, default=list(LINES), metavar="LINE", help=", ".join(LINES))
    parser.add_argument("--data", nargs="+", help="data sets of these lines (default: all)")
    parser.add_argument("--repeats", type=int, default=3, help="to take the median of (default: 3)")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.jsonl", help="file of measurements, appended to")
    return parser


def lines() -> dict[str, Line]:
    """Return what is ported, by name."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import normalize
    from sklearn.svm import SVC
    from sklearn.svm import LinearSVC as TheirLinearSVC

    from softmargin import KernelSVC, LinearSVC, SoftmaxRegression

    own: dict[str, Any] = {"multiclass": "one_vs_rest", "random_state": 0}
    squared = {**own, "loss": "squared_hinge"}
    texts = {"reuters-r52": None, "news20": None, "20ng-bydate": None}
    images = {"letter": 6000, "segment": None, "optdigits-test": None, "mnist": _USPS_ROWS}
    columns = {"mnist": _USPS_ROWS, "letter": None, "optdigits-test": None, "isolet1560": None}
    return {
        "squared hinge": Line(
            TheirLinearSVC(random_state=0),
            {"same problem": LinearSVC(fit_intercept="penalized", **squared), "free intercept": LinearSVC(**squared)},
            texts,
            normalize,
        ),
        "hinge": Line(
            TheirLinearSVC(loss="hinge", random_state=0), {"same problem": LinearSVC(**own)}, texts, normalize
        ),
        "kernel": Line(
            SVC(C=10.0),
            {
                "same problem": KernelSVC(10.0, multiclass="one_vs_one", fit_intercept="free", random_state=0),
                "joint": KernelSVC(10.0, random_state=0),
            },
            images,
            lambda X: X,
        ),
        "softmax": Line(
            LogisticRegression(C=0.1), {"same problem": SoftmaxRegression(0.1, random_state=0)}, columns, standardised
        ),
    }


def standardised(X: Any) -> Any:
    """Return the columns with mean 0 and variance 1."""
    from sklearn.preprocessing import StandardScaler

    return StandardScaler().fit_transform(X.toarray() if hasattr(X, "toarray") else X)


def measure(name: str, line: Line, data: str, repeats: int, records: Records) -> None:
    """Time theirs and those of ours that the file lacks, in turns."""
    from softmargin import certify
    from softmargin.data import load

    known = {(row["line"], row["data"], row["ours"]) for row in records.measurements()}
    ours = {kind: model for kind, model in line.ours.items() if (name, data, kind) not in known}
    if not ours:
        return
    rows = load(data)
    X, y = line.scale(rows.X[: line.data[data]]), rows.y[: line.data[data]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # theirs may stop early: the gap tells
        gap = certify(line.theirs.fit(X, y), X, y).residual
        for model in ours.values():
            model.set_params(tol=max(gap, _SHARPEST)).fit(X, y)  # compiles
        turns = [
            {kind: seconds(model, X, y) for kind, model in {"theirs": line.theirs, **ours}.items()}
            for _ in range(repeats)
        ]
    theirs = statistics.median(turn["theirs"] for turn in turns)
    for kind, model in ours.items():
        found = {"gap": gap, "own_gap": model.certificate_.residual, "theirs_seconds": theirs}
        found |= {"seconds": statistics.median(turn[kind] for turn in turns), "turns": turns}
        records.append({"kind": "measurement", "line": name, "data": data, "ours": kind, "rows": len(y), **found})
        log.print(f"{name}, {data}, {kind}: {found['seconds']:.3g} s, theirs {theirs:.3g} s", style="dim")


def seconds(model: Any, X: Any, y: Any) -> float:
    """Return the processor seconds of a fit."""
    began = time.process_time()
    model.fit(X, y)
    return time.process_time() - began


def print_tables(records: Records, options: argparse.Namespace) -> None:
    """Print every cell, and how many times faster ours are in the geometric mean of each line."""
    rows = [row for row in records.measurements() if row["line"] in options.lines]
    head = ["line", "ours", "data", "rows", "gap", "gap of ours", "theirs, s", "ours, s", "times faster"]
    write("\n### processor seconds to the same gap\n")
    write(markdown(head, map(cells, rows)))
    write("\n### geometric means\n")
    means = []
    for name, kind in dict.fromkeys((row["line"], row["ours"]) for row in rows):
        ratios = [faster(row) for row in rows if (row["line"], row["ours"]) == (name, kind)]
        means.append([name, kind, f"{statistics.geometric_mean(ratios):.2f}", f"{min(ratios):.2f}"])
    write(markdown(["line", "ours", "times faster", "least"], means))


def cells(row: dict[str, Any]) -> list[str]:
    """Return what the table says of one data set."""
    words = [row["line"], row["ours"], row["data"], f"{row['rows']}", f"{row['gap']:.1e}", f"{row['own_gap']:.1e}"]
    return [*words, f"{row['theirs_seconds']:.3f}", f"{row['seconds']:.3f}", f"{faster(row):.2f}"]


def faster(row: dict[str, Any]) -> float:
    """Return how many times longer theirs took."""
    return float(row["theirs_seconds"] / row["seconds"])


if __name__ == "__main__":
    command(main)
