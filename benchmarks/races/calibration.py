"""Probabilities of SVMs: log loss on test rows and CPU seconds of a fit, beside scikit-learn's CalibratedClassifierCV.

    SOFTMARGIN_DATA=DIR python benchmarks/races/calibration.py dna segment splice svmguide1 vehicle letter

Columns are standardised by the rows for training, at most 3000; as many others are for testing. Every fit has C = 1 and
tol = 1e-3. Three times each: ``probability=method``; CalibratedClassifierCV(ensemble=False) around the same estimator;
and around scikit-learn's own (SVC, one-vs-one; LinearSVC with the hinge, one-vs-rest), whose scores are others.
"""

import argparse
import sys
import time
import warnings
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import log_loss
from sklearn.svm import SVC
from sklearn.svm import LinearSVC as TheirLinear

from softmargin import KernelSVC, LinearSVC
from softmargin.data import load
from softmargin.models.probabilities import METHODS

MOST_ROWS = 3000
HEAD = (
    "| data | model | method | log loss | around ours | around theirs | seconds | around ours | around theirs |\n"
    "|---|---|---|---|---|---|---|---|---|\n"
)


def standardised(name: str, most: int = MOST_ROWS) -> tuple[Any, Any, Any, Any]:
    """Return rows for training, at most so many, and as many for testing; standardised."""
    dataset = load(name)
    X = np.asarray(dataset.X.toarray() if hasattr(dataset.X, "toarray") else dataset.X, dtype=float)
    order = np.random.default_rng(0).permutation(len(X))
    half = min(most, len(X) // 2)
    train, test = order[:half], order[half : 2 * half]
    mean, spread = X[train].mean(axis=0), X[train].std(axis=0)
    X = (X - mean) / np.where(spread > 0, spread, 1.0)
    y = np.unique(dataset.y, return_inverse=True)[1]  # scikit-learn 1.9 takes labels for columns in "temperature"
    return X[train], y[train], X[test], y[test]


def measured(model: Any, X: Any, y: Any, X_test: Any, y_test: Any) -> tuple[float, float]:
    """Return the log loss and the CPU seconds of the fit."""
    began = time.process_time()
    model.fit(X, y)
    seconds = time.process_time() - began
    return log_loss(y_test, model.predict_proba(X_test), labels=model.classes_), seconds


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+")
    warnings.simplefilter("ignore")
    sys.stdout.write(HEAD)
    for name in parser.parse_args().names:
        rows = standardised(name)
        for kind, peer in ((LinearSVC, TheirLinear(loss="hinge", max_iter=10_000)), (KernelSVC, SVC())):
            kind(probability="sigmoid", random_state=0).fit(rows[0][:300], rows[1][:300])  # compiles
            for method in METHODS:
                around = {"method": method, "ensemble": False, "cv": 5}
                found = [
                    measured(model, *rows)
                    for model in (
                        kind(probability=method, random_state=0),
                        CalibratedClassifierCV(kind(random_state=0), **around),
                        CalibratedClassifierCV(peer, **around),
                    )
                ]
                cells = [f"{loss:.4f}" for loss, _ in found] + [f"{seconds:.2f}" for _, seconds in found]
                sys.stdout.write(f"| {name} | {kind.__name__} | {method} | {' | '.join(cells)} |\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
