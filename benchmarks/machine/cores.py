"""How much faster the same work is on more cores: seconds against ``n_jobs``.

    case                 what is timed
    one-vs-rest          LinearSVC, one hinge problem per class
    one-vs-rest kernel   KernelSVC, the same with an rbf kernel
    one-vs-one kernel    KernelSVC, a problem per pair of classes
    cross-validation     LinearSVCCV, five folds, two C
    one-vs-rest search   the same with one hinge problem per class
    kernel search        KernelSVCCV, five folds, three gammas, two C, the first 4000 rows
    joint linear         one Weston-Watkins fit
    joint kernel         the same with an rbf kernel
    softmax              SoftmaxRegression with a ridge
    predict kernel       the scores of all rows by the joint kernel model of the first 4000
    predict linear       the scores of all rows, ten times, by the joint linear model
    read                 the rows as a LIBSVM text file

The data are mnist divided by 255 where the data folder has it ($SOFTMARGIN_DATA), else made up: overlapping classes of
784 features. Every fit goes to a relative gap of 1e-3, after compiling. Numbers of threads are interleaved within each
repeat, and the median counts. BLAS keeps within ``n_jobs`` as in any fit. Started again with the same file, the command
measures what is missing.
"""

import argparse
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports below

from tools.common import Records, command, log
from tools.markdown_tables import markdown, write

CASES = (
    "one-vs-rest",
    "one-vs-rest kernel",
    "one-vs-one kernel",
    "cross-validation",
    "one-vs-rest search",
    "kernel search",
    "joint linear",
    "joint kernel",
    "softmax",
    "predict kernel",
    "predict linear",
    "read",
)
_FEATURES, _CLASSES = 784, 10  # of made-up data: those of mnist
_MODEL_ROWS = 4000  # that make the model of "predict kernel", and those of "kernel search"
_TIMES = 10  # that linear scores are computed, which take milliseconds

Job = Callable[[int], str]  # from a number of threads to how the work ended


def main(arguments: list[str] | None) -> int:
    """Measure what is not known yet, and print the table."""
    options = parser().parse_args(arguments)
    records = Records(options.output)
    records.start(repeats=options.repeats)
    for case in options.case:
        known = {row["n_jobs"] for row in rows_of(records, case, options.rows)}
        missing = [n_jobs for n_jobs in options.jobs if n_jobs not in known]
        if missing:
            measure(case, missing, options, records)
    print_table(records, options)
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES), metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--jobs", nargs="+", type=int, default=[1, 2], metavar="N", help="threads (default: 1 2)")
    parser.add_argument("--rows", type=int, default=20_000, help="rows of the data (default: 20000)")
    parser.add_argument("--repeats", type=int, default=3, help="to take the median of (default: 3)")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.jsonl", help="file of measurements, appended to")
    return parser


def rows_of(records: Records, case: str, n: int) -> list[dict[str, Any]]:
    """Return what is known of a case."""
    return [row for row in records.measurements() if row["case"] == case and row["rows"] == n]


def measure(case: str, n_jobs: list[int], options: argparse.Namespace, records: Records) -> None:
    """Time a case with every number of threads."""
    from softmargin.core.errors import IncompatibleError

    X, y, source = rows(options.rows)
    try:
        job = job_of(case, X, y)
        for size in {min(n_jobs), max(n_jobs)}:  # compiles what fits of this size use, and wakes the threads
            job(size)
    except IncompatibleError as problem:  # of a version that does not know the case
        log.print(f"{case}: left out. {problem}")
        return
    seconds: dict[int, list[float]] = {size: [] for size in n_jobs}
    for _ in range(options.repeats):
        for size in n_jobs:
            began = time.perf_counter()
            status = job(size)
            seconds[size].append(time.perf_counter() - began)
    for size, times in seconds.items():
        cell = {"case": case, "data": source, "rows": options.rows, "n_jobs": size}
        found = {"seconds": statistics.median(times), "all_seconds": times, "status": status}
        records.append({"kind": "measurement", **cell, **found})
        log.print(f"{case}, n_jobs = {size}: {found['seconds']:.3g} s, {status}", style="dim")


def rows(n: int) -> tuple[Any, Any, str]:
    """Return mnist, or data of its shape."""
    import numpy as np

    from softmargin.core.errors import DataError
    from softmargin.data import blobs, load

    try:
        data = load("mnist")
    except DataError:
        # Overlapping, so that many rows are support vectors.
        X, y = blobs(n, _FEATURES, _CLASSES, seed=0, separation=4.0 / np.sqrt(_FEATURES))
        return X / np.sqrt(_FEATURES), y, "made up"
    X = data.X[:n] if isinstance(data.X, np.ndarray) else data.X[:n].toarray()
    return X / 255.0, data.y[:n], "mnist"


def job_of(case: str, X: Any, y: Any) -> Job:
    """Return the work of a case on some rows."""
    import softmargin
    from softmargin import KernelSVC, LinearSVC, SoftmaxRegression

    linear, kernel = LinearSVC(C=0.1, random_state=0), KernelSVC(C=5.0, gamma=0.02, approximation=None, random_state=0)
    fits = {
        "one-vs-rest": LinearSVC(C=0.1, multiclass="one_vs_rest", random_state=0),
        "one-vs-rest kernel": KernelSVC(
            C=5.0, gamma=0.02, multiclass="one_vs_rest", approximation=None, random_state=0
        ),
        "one-vs-one kernel": KernelSVC(C=5.0, gamma=0.02, multiclass="one_vs_one", approximation=None, random_state=0),
        "cross-validation": softmargin.LinearSVCCV(Cs=[0.01, 0.1], random_state=0),
        "one-vs-rest search": softmargin.LinearSVCCV(Cs=[0.01, 0.1], multiclass="one_vs_rest", random_state=0),
        "kernel search": softmargin.KernelSVCCV([1.0, 5.0], gammas=[0.01, 0.02, 0.04], random_state=0),
        "joint linear": linear,
        "joint kernel": kernel,
        "softmax": SoftmaxRegression(random_state=0),
    }
    if case == "kernel search":
        X, y = X[:_MODEL_ROWS], y[:_MODEL_ROWS]
    if case in fits:
        return lambda n_jobs: fitted(fits[case].set_params(n_jobs=n_jobs), X, y).status_
    if case == "read":
        return reading(X, y)
    model, times = (kernel, 1) if case == "predict kernel" else (linear, _TIMES)
    fitted(model.set_params(n_jobs=-1), X[:_MODEL_ROWS], y[:_MODEL_ROWS])

    def predict(n_jobs: int) -> str:
        model.set_params(n_jobs=n_jobs)
        for _ in range(times):
            model.decision_function(X)
        return "done"

    return predict


def fitted(model: Any, X: Any, y: Any) -> Any:
    """Fit; the status tells where it was not certified."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


def reading(X: Any, y: Any) -> Job:
    """Write a text file, and return what reads it."""
    from scipy.sparse import csr_matrix

    from softmargin.core.threads import threads
    from softmargin.data import read_libsvm, write_libsvm

    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / "rows.libsvm"
    write_libsvm(path, csr_matrix(X), y)

    def read(n_jobs: int) -> str:
        assert Path(folder.name).exists()  # the folder lives as long as this function
        with threads(n_jobs):
            read_libsvm(path)
        return "done"

    return read


def print_table(records: Records, options: argparse.Namespace) -> None:
    """Print seconds of one thread, and how many times faster others are."""
    body = []
    for case in options.case:
        seconds = {row["n_jobs"]: row["seconds"] for row in rows_of(records, case, options.rows)}
        if options.jobs[0] in seconds:
            first = seconds[options.jobs[0]]
            others = [f"{first / seconds[size]:.2f}" if size in seconds else "–" for size in options.jobs[1:]]
            body.append([case, f"{first:.3g}", *others])
    write(f"\n### times faster than n_jobs = {options.jobs[0]}, {options.rows:,} rows\n")
    write(markdown(["case", f"seconds, {options.jobs[0]}", *(str(size) for size in options.jobs[1:])], body))


if __name__ == "__main__":
    command(main)
