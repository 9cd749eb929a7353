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

import numpy as np
from sklearn.linear_model import SGDClassifier

from softmargin import LinearSVC, SoftmaxRegression
from softmargin.data import load

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports below

from tools.markdown_tables import markdown, write

MODELS = {
    "hinge": lambda C: LinearSVC(C, multiclass="one_vs_rest", random_state=0),
    "log_loss": lambda C: SoftmaxRegression(C, random_state=0),
}


def streamed(model: Any, data: Any, chunk: int, epochs: int) -> tuple[float, Any]:
    """Return the processor seconds of a stream, and its model."""
    classes, began = np.unique(data.y), time.process_time()
    for _ in range(epochs):
        for first in range(0, len(data.y), chunk):
            rows = slice(first, first + chunk)
            model.partial_fit(data.X[rows], data.y[rows], classes=classes)
    return time.process_time() - began, model


def row(data: Any, loss: str, chunk: int, args: argparse.Namespace) -> tuple[str, ...]:
    """Return what the table says of one stream."""
    test = (data.X, data.y) if data.X_test is None else (data.X_test, data.y_test)
    seconds, scores = {"ours": np.inf, "theirs": np.inf}, {}
    for _ in range(args.repeats):
        sgd = SGDClassifier(loss=loss, alpha=1.0 / (args.C * len(data.y)), random_state=0)
        for name, model in (("ours", MODELS[loss](args.C)), ("theirs", sgd)):
            took, fitted = streamed(model, data, chunk, args.epochs)
            seconds[name], scores[name] = min(seconds[name], took), fitted.score(*test)
    faster = seconds["theirs"] / seconds["ours"]
    numbers = (seconds["theirs"], seconds["ours"], faster, scores["theirs"], scores["ours"])
    return (data.name, loss, str(chunk), *(f"{number:.3f}" for number in numbers))


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["a9a", "letter"])
    parser.add_argument("--chunks", nargs="+", type=int, default=[5000, 500])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--C", type=float, default=0.1)
    args = parser.parse_args()
    head = ("data", "loss", "chunk", "SGDClassifier s", "ours s", "faster", "its accuracy", "ours")
    cells = [(data, loss, chunk) for data in map(load, args.data) for loss in MODELS for chunk in args.chunks]
    write(markdown(head, [row(*cell, args) for cell in cells]))


if __name__ == "__main__":
    main()
