"""Many classes, few directions: softmax and joint SVMs over the trace ball beside full softmax, on leaves100.

    part    the objective of 10 classes beside the optimum of CVXPY (Clarabel)
    whole   half of the rows of every class train, the other half test; the numbers a model stores are k d, or for
            rank r  r (k + d + 1) , and k intercepts

Every model is solved to a relative gap of 1e-3; features have mean zero and variance one.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports below

from tools.common import Records, command, log, one_thread
from tools.markdown_tables import markdown, write

N_PART = 10  # classes of the part
PART_RADII = (5.0, 20.0)
L2 = 1e-4
TOL = 1e-3
PART_TOL = 1e-7
C_GRID = (0.01, 0.1, 1.0, 10.0)
RADII = (10.0, 25.0, 50.0, 100.0, 200.0)
HINGE_RADII = (25.0, 50.0)


def main(arguments: list[str] | None) -> int:
    """Fit what is not known yet, and print the tables."""
    options = parser().parse_args(arguments)
    records = Records(options.output)
    with one_thread():
        records.start()
        data = load_leaves()
        measure(records, "part", [("multinomial", radius) for radius in PART_RADII], lambda *case: part(data, *case))
        cases = [("softmax", C) for C in C_GRID] + [("multinomial", radius) for radius in RADII]
        cases += [(loss, radius) for loss in ("crammer_singer", "smooth_hinge") for radius in HINGE_RADII]
        measure(records, "whole", cases, lambda *case: whole(data, *case))
    known = records.measurements()
    write("\n### 10 classes beside CVXPY\n")
    head = ["radius", "P", "bound", "CVXPY", "(P - CVXPY) / CVXPY", "rank", "seconds", "CVXPY's"]
    write(markdown(head, [row["cells"] for row in known if row["table"] == "part"]))
    write("\n### All 100 classes\n")
    head = ["model", "setting", "test accuracy", "rank", "numbers stored", "gap", "seconds"]
    write(markdown(head, [row["cells"] for row in known if row["table"] == "whole"]))
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.jsonl", help="file of fits, appended to")
    return parser


def measure(records: Records, table: str, cases: list[tuple[str, float]], fit: Any) -> None:
    """Fit the cases that are not in the file."""
    known = {(row["table"], row["model"], row["setting"]) for row in records.measurements()}
    for model, setting in cases:
        if (table, model, setting) not in known:
            cells = fit(model, setting)
            log.print(f"{table}: {model} {setting:g}: {cells}", style="dim")
            row = {"kind": "measurement", "table": table, "model": model, "setting": setting, "cells": cells}
            records.append(row)


def load_leaves() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return X, codes of the classes, and which rows train: every other one of a class."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "problems" / "shared"))
    from folders import data_folder

    from softmargin.data import load

    parts = load("leaves100", data_dir=data_folder())
    X, y = parts.X.toarray(), np.unique(parts.y, return_inverse=True)[1]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    places = np.empty(len(y), dtype=int)
    for c in range(y.max() + 1):
        places[y == c] = np.arange((y == c).sum())
    return X, y, places % 2 == 0


def part(data: tuple[np.ndarray, np.ndarray, np.ndarray], loss: str, radius: float) -> list[str]:
    """Return how far the objective is from CVXPY's, on a few classes."""
    import cvxpy as cp

    from softmargin import TraceBallClassifier

    X, y, is_train = data
    rows = is_train & (y < N_PART)
    X, y = X[rows], y[rows]
    settings = {"l2": L2, "loss": loss, "fit_intercept": False, "tol": PART_TOL}
    TraceBallClassifier(radius, **(settings | {"tol": 1.0})).fit(X, y)  # compiles
    began = time.perf_counter()
    clf = TraceBallClassifier(radius, **settings).fit(X, y)
    ours = time.perf_counter() - began
    W = cp.Variable((X.shape[1], N_PART))
    scores = X @ W
    losses = cp.sum(cp.log_sum_exp(scores, axis=1)) - cp.sum(cp.multiply(np.eye(N_PART)[y], scores))
    program = cp.Problem(cp.Minimize(losses / len(y) + 0.5 * L2 * cp.sum_squares(W)), [cp.normNuc(W) <= radius])
    began = time.perf_counter()
    program.solve(solver=cp.CLARABEL)
    theirs = time.perf_counter() - began
    P, value = clf.certificate_.primal, float(program.value)
    cells = [f"{radius:g}", f"{P:.9f}", f"{clf.certificate_.bound:.9f}", f"{value:.9f}", f"{P / value - 1.0:.1e}"]
    return [*cells, str(len(clf.coef_factors_[1])), f"{ours:.3g}", f"{theirs:.3g}"]


def whole(data: tuple[np.ndarray, np.ndarray, np.ndarray], model: str, setting: float) -> list[str]:
    """Return accuracy and size of a model of all classes."""
    from softmargin import SoftmaxRegression, TraceBallClassifier

    X, y, is_train = data
    if model == "softmax":
        clf = SoftmaxRegression(C=setting, tol=TOL)
        name, what = "SoftmaxRegression", f"C = {setting:g}"
    else:
        clf = TraceBallClassifier(setting, l2=L2, loss=model, tol=TOL, max_iter=100_000)
        name, what = f"trace ball, {model}", f"radius = {setting:g}"
    began = time.perf_counter()
    clf.fit(X[is_train], y[is_train])
    seconds = time.perf_counter() - began
    accuracy, (k, d) = clf.score(X[~is_train], y[~is_train]), clf.coef_.shape
    rank = min(k, d) if model == "softmax" else len(clf.coef_factors_[1])
    size = k + (k * d if model == "softmax" else rank * (k + d + 1))
    return [
        name,
        what,
        f"{100 * accuracy:.2f} %",
        str(rank),
        f"{size:,}",
        f"{clf.certificate_.residual:.1e}",
        f"{seconds:.3g}",
    ]


if __name__ == "__main__":
    command(main)
