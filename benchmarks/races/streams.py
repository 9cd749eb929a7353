"""Linear streams beside scikit-learn's SGDClassifier: processor seconds of ``partial_fit``, and the accuracy reached.

    python benchmarks/races/streams.py --data a9a letter --chunks 5000 500

Both see the same chunks in the same order, ``--epochs`` times, on one core; SGDClassifier has alpha = 1 / (C n). Ours
prove a bound on the optimum of all rows after every chunk, which is in their seconds. The best of ``--repeats``.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports below

from tools.common import Records, command, log, one_thread
from tools.markdown_tables import markdown, write

LOSSES = ("hinge", "log_loss")


def main(arguments: list[str] | None) -> int:
    """Measure what is not known yet, and print the table."""
    options = parser().parse_args(arguments)
    records = Records(options.output)
    records.start(repeats=options.repeats)
    cells = [(data, loss, chunk) for data in options.data for loss in LOSSES for chunk in options.chunks]
    known = {(row["data"], row["loss"], row["chunk"]) for row in records.measurements()}
    with one_thread():
        for cell in cells:
            if cell not in known:
                measure(*cell, options, records)
    head = ["data", "loss", "chunk", "SGDClassifier, s", "ours, s", "times faster", "its accuracy", "ours"]
    write("\n### processor seconds of a stream\n")
    write(markdown(head, map(numbers, records.measurements())))
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["a9a", "letter"])
    parser.add_argument("--chunks", nargs="+", type=int, default=[5000, 500])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--C", type=float, default=0.1)
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.jsonl", help="file of measurements, appended to")
    return parser


def measure(name: str, loss: str, chunk: int, options: argparse.Namespace, records: Records) -> None:
    """Time one stream of theirs and of ours, in turns."""
    from sklearn.linear_model import SGDClassifier

    from softmargin import LinearSVC, SoftmaxRegression
    from softmargin.data import load

    data = load(name)
    test = (data.X, data.y) if data.X_test is None else (data.X_test, data.y_test)
    own = LinearSVC(options.C, multiclass="one_vs_rest", random_state=0)
    if loss == "log_loss":
        own = SoftmaxRegression(options.C, random_state=0)
    sgd = SGDClassifier(loss=loss, alpha=1.0 / (options.C * len(data.y)), random_state=0)
    found: dict[str, Any] = {}
    for _ in range(options.repeats):
        for whose, model in (("ours", own), ("theirs", sgd)):
            took, fitted = streamed(model, data, chunk, options.epochs)
            found[f"{whose}_seconds"] = min(found.get(f"{whose}_seconds", took), took)
            found[f"{whose}_accuracy"] = fitted.score(*test)
    row = {"kind": "measurement", "data": name, "loss": loss, "chunk": chunk, **found}
    records.append(row)
    log.print(*numbers(row), style="dim")


def streamed(model: Any, data: Any, chunk: int, epochs: int) -> tuple[float, Any]:
    """Return the processor seconds of a stream that a copy of the model sees, and this copy."""
    import numpy as np
    from sklearn.base import clone

    model, classes, began = clone(model), np.unique(data.y), time.process_time()
    for _ in range(epochs):
        for first in range(0, len(data.y), chunk):
            rows = slice(first, first + chunk)
            model.partial_fit(data.X[rows], data.y[rows], classes=classes)
    return time.process_time() - began, model


def numbers(row: dict[str, Any]) -> list[str]:
    """Return what the table says of one stream."""
    theirs, ours = row["theirs_seconds"], row["ours_seconds"]
    found = (theirs, ours, theirs / ours, row["theirs_accuracy"], row["ours_accuracy"])
    return [row["data"], row["loss"], str(row["chunk"]), *(f"{number:.3f}" for number in found)]


if __name__ == "__main__":
    command(main)
