"""Accuracy, time and peak memory of kernel SVMs on a memory-mapped float32 file of millions of rows.

Each fit is made in a process of its own, which maps the file, fits a few rows to compile, fits until it is done or the
budget is over, and predicts the test rows. Peak memory is the most that process held during the fit, everything
included: pages of the file that were read count as long as the system keeps them mapped. Linux only.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports below

from papers.scs_fits import BLOCK, FITS, SIGNS, Fitted, Settings, kernel_svc, nystroem, sklearn_nystroem, timed
from tools.common import (
    THREAD_VARIABLES,
    Records,
    command,
    load_benchmark,
    log,
    memory_of_process,
    one_thread,
    reset_high_water,
)
from tools.markdown_tables import markdown, write

BUDGET = 60.0
SHARE = 0.9  # of the budget, at which a fit is stopped: reading and a last step come on top
_FEW = 300
_GB = 1e9


def with_components(fit: Callable[..., Fitted], size: int) -> Callable[[Any, np.ndarray, Settings], Fitted]:
    """Return the fit with another number of landmarks, or of vectors to keep."""
    return lambda X, y, settings: fit(X, y, settings._replace(n_components=size))


def by_samples(most: int) -> Callable[[Any, np.ndarray, Settings], Fitted]:
    """Return the fit of KernelSVC by conjugate subgradients on at most so many rows."""

    def fit(X: Any, y: np.ndarray, settings: Settings) -> Fitted:
        from softmargin.solvers.sampled_kernel.conjugate_subgradient import ConjugateSubgradient

        model = kernel_svc(len(y), settings, solver=ConjugateSubgradient(most=most))
        return timed(model, X, y)._replace(rows=min(most, len(y)))

    return fit


def stream(X: Any, y: np.ndarray, settings: Settings) -> Fitted:
    """Give KernelSVC one chunk of rows after the other, once; its lam is that of all rows only at the end."""
    model = kernel_svc(len(y), settings)
    started, rows = time.perf_counter(), 0
    while rows < len(y) and time.perf_counter() - started < settings.cap:
        chunk = slice(rows, rows + BLOCK)
        model.partial_fit(np.asarray(X[chunk]), y[chunk], classes=SIGNS)
        rows = min(rows + BLOCK, len(y))
    return Fitted(model.predict, time.perf_counter() - started, rows, len(model.support_))


LARGE = {
    "scs": FITS["scs"],
    **{f"scs improved, {most:,} rows": by_samples(most) for most in (2000, 5000)},
    **{f"partial_fit stream, {size:,} vectors": with_components(stream, size) for size in (500, 1000)},
    **{f"nystroem, {size:,} landmarks": with_components(nystroem, size) for size in (200, 500, 1000, 2000)},
    "sklearn nystroem+sgd, 500 landmarks": with_components(sklearn_nystroem, 500),
}


def measure_all(records: Records, lam: float, options: argparse.Namespace) -> None:
    """Run a child for every fit that is not known."""
    from benchmark_utils.binary_sets import made_up_folder

    folder = made_up_folder(options.rows)
    for fit in LARGE:
        cell = {"part": "large", "fit": fit, "n": options.rows, "lam": lam}
        if any(all(row.get(key) == value for key, value in cell.items()) for row in records.measurements()):
            continue
        log.print(f"{fit} ...", style="dim")
        child = [sys.executable, __file__, str(folder), fit, str(lam)]
        environment = os.environ | dict.fromkeys(THREAD_VARIABLES, "1")
        done = subprocess.run(child, capture_output=True, text=True, env=environment)
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            log.print(f"{fit} left out: {last}", markup=False)
            continue
        found = json.loads(done.stdout.splitlines()[-1])
        records.append({"kind": "measurement", **cell, **found})
        log.print(f"{fit}: {found['accuracy']:.4f} after {found['seconds']:.3g} s", style="dim")


def print_table(records: Records) -> None:
    """Print all fits, and the best of those that kept to the budget."""
    known = [row for row in records.measurements() if row["part"] == "large"]
    body = []
    for row in known:
        memory = [f"{row[key] / _GB:.2f}" for key in ("peak_bytes", "before_bytes")]
        counts = [f"{row['rows']:,}", f"{row['n_vectors']:,}"]
        body.append([row["fit"], f"{row['accuracy']:.4f}", f"{row['seconds']:.3g}", *counts, *memory])
    head = ["fit", "test accuracy", "seconds", "rows used", "vectors", "peak GB", "GB before the fit"]
    for n, lam in dict.fromkeys((row["n"], row["lam"]) for row in known):
        write(f"\n### {n:,} rows, lam = {lam:g}\n")
        write(markdown(head, [line for line, row in zip(body, known, strict=True) if row["n"] == n]))
        in_time = [row for row in known if row["n"] == n and row["seconds"] <= BUDGET]
        if in_time:
            best = max(in_time, key=lambda row: row["accuracy"])
            write(f"\nBest within {BUDGET:g} s: {best['fit']}, {best['accuracy']:.4f}.")


def main(arguments: list[str] | None) -> int:
    """Measure one fit and print it; this runs in the child."""
    folder, fit, lam = sys.argv[1:4]
    with one_thread():
        load_benchmark("kernel_hinge")
        print_measurement(Path(folder), fit, float(lam))
    return 0


def print_measurement(folder: Path, fit: str, lam: float) -> None:
    """Fit once; write bytes, seconds and accuracy."""
    X = np.load(folder / "X.npy", mmap_mode="r")
    y, X_test, y_test = (np.load(folder / f"{part}.npy") for part in ("y", "X_test", "y_test"))
    settings = Settings(lam, 1.0 / X.shape[1], seed=0, cap=SHARE * BUDGET, n_components=1)
    LARGE[fit](np.asarray(X[:_FEW]), y[:_FEW], settings).predict(X_test[:_FEW])
    before = memory_of_process("VmRSS")
    is_reset = reset_high_water()
    model = LARGE[fit](X, y, settings)
    peak = memory_of_process("VmHWM")
    found = {
        "accuracy": float(np.mean(model.predict(X_test) == y_test)),
        "seconds": model.seconds,
        "rows": model.rows,
        "n_vectors": model.n_vectors,
        "peak_bytes": peak,
        "before_bytes": before,
        "is_reset": is_reset,
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    command(main)
