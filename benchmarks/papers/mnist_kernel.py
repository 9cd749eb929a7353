"""mnist with an rbf kernel, all 60,000 rows: our joint Crammer-Singer SVM beside scikit-learn's SVC (one-vs-one).

    softmargin      KernelSVC(multiclass="crammer_singer", fit_intercept=False, approximation=None), to a proven gap
    sklearn         SVC, to its own tolerance

Pixels in [0, 1], a dense float32 matrix (on which SVC is three times as fast as on a sparse one). Each fit is made in a
process of its own, which loads the data, fits a few rows to compile, fits, and predicts the test part: peak memory is
the most that process ever held, everything included. Linux only. A fit that the output file holds already is not made
again.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports below

from tools.common import (
    THREAD_VARIABLES,
    Records,
    UserError,
    command,
    load_benchmark,
    log,
    machine_facts,
    memory_of_process,
)
from tools.markdown_tables import markdown, write

FITS = ("softmargin", "sklearn")
_LARGEST_PIXEL = 255.0
_FEW = 300  # rows that are enough to compile everything
_GB = 1e9


def main(arguments: list[str] | None) -> int:
    """Run a child for each fit, and tabulate."""
    options = parser().parse_args(arguments)
    if options.child is not None:
        sys.stdout.write(json.dumps(measure(options)) + "\n")
        return 0
    folder = stored_data()
    records = Records(options.output)
    records.start(child_threads=options.threads)
    for fit in options.fit:
        if known(records, fit, options) is None:
            log.print(f"{fit} ...", style="dim")
            records.append({"kind": "measurement", "fit": fit, **cell(options), **run_child(fit, folder, options)})
    print_table(records, options)
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=60_000, help="training rows, the first ones (default: 60000)")
    parser.add_argument("--C", type=float, default=5.0, help="default: 5")
    parser.add_argument("--gamma", type=float, default=0.02, help="default: 0.02")
    parser.add_argument("--tol", type=float, default=1e-2, help="relative gap of softmargin (default: 1e-2)")
    parser.add_argument("--cache-size", type=float, default=2000.0, help="megabytes, for both (default: 2000)")
    parser.add_argument("--threads", type=int, default=1, help="of BLAS (default: 1; SVC fits on one anyhow)")
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    parser.add_argument("--fit", nargs="+", choices=FITS, default=list(FITS), help="default: both")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.jsonl", help="file of measurements, appended to")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    return parser


def cell(options: argparse.Namespace) -> dict[str, Any]:
    """Return what names a measurement in the file, besides the fit."""
    return {name: getattr(options, name) for name in ("rows", "C", "gamma", "tol", "cache_size", "threads", "seed")}


def known(records: Records, fit: str, options: argparse.Namespace) -> dict[str, Any] | None:
    """Return the measurement of a fit, where there is one."""
    wanted = cell(options) | {"fit": fit}
    rows = [row for row in records.measurements() if all(row[name] == wanted[name] for name in wanted)]
    return rows[-1] if rows else None


def stored_data() -> Path:
    """Return a folder with X, y, X_test and y_test as .npy files, made where there is none."""
    load_benchmark("multiclass_svm_kernel")
    from benchmark_utils.folders import cache_folder, data_folder
    from softmargin.data import load

    folder = cache_folder() / "mnist-dense-float32"
    last = folder / "y_test.npy"
    if not last.exists():
        folder.mkdir(exist_ok=True)
        parts = load("mnist", data_dir=data_folder())
        for name, X in (("X", parts.X), ("X_test", parts.X_test)):
            np.save(folder / f"{name}.npy", X.toarray().astype(np.float32) / np.float32(_LARGEST_PIXEL))
        np.save(folder / "y.npy", parts.y)
        np.save(last, parts.y_test)
    return folder


def run_child(fit: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Measure one fit in a fresh process."""
    settings = [str(value) for name, value in cell(options).items() for value in (f"--{name.replace('_', '-')}", value)]
    environment = os.environ | dict.fromkeys(THREAD_VARIABLES, str(options.threads))
    child = [sys.executable, __file__, "--child", str(folder), "--fit", fit, *settings]
    done = subprocess.run(child, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(f"--fit {fit}: {last.removeprefix('error: ')}")
    return json.loads(done.stdout.splitlines()[-1])


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Fit and predict once; this runs in the child."""
    X, y, X_test, y_test = (np.load(options.child / f"{name}.npy") for name in ("X", "y", "X_test", "y_test"))
    if options.rows < len(X):
        X, y = X[: options.rows].copy(), y[: options.rows]
    (fit,) = options.fit
    model = estimator(fit, options)
    model.fit(X[:_FEW], y[:_FEW]).predict(X_test[:_FEW])
    started = time.perf_counter()
    model.fit(X, y)
    fitted = time.perf_counter()
    predicted = model.predict(X_test)
    done = time.perf_counter()
    certificate = getattr(model, "certificate_", None)
    return {
        "fit_seconds": fitted - started,
        "predict_seconds": done - fitted,
        "accuracy": float(np.mean(predicted == y_test)),
        "gap": None if certificate is None else certificate.residual,
        "status": getattr(model, "status_", None),
        "n_iter": int(np.max(model.n_iter_)),
        "n_support": len(model.support_),
        "data_bytes": X.nbytes,
        "test_bytes": X_test.nbytes,
        "peak_bytes": memory_of_process("VmHWM"),
        "pools": machine_facts()["threads"],
    }


def estimator(fit: str, options: argparse.Namespace) -> Any:
    """Return the classifier, with settings alone."""
    shared = {"C": options.C, "gamma": options.gamma, "cache_size": options.cache_size, "random_state": options.seed}
    if fit == "sklearn":
        from sklearn.svm import SVC

        return SVC(**shared)
    from softmargin import KernelSVC

    return KernelSVC(multiclass="crammer_singer", fit_intercept=False, approximation=None, tol=options.tol, **shared)


def print_table(records: Records, options: argparse.Namespace) -> None:
    """Print both fits, and how many times the second is the first."""
    found = {fit: row for fit in FITS if (row := known(records, fit, options)) is not None}
    size = next(iter(found.values()))["data_bytes"] / _GB
    title = f"mnist, {options.rows} rows (X {size:.2f} GB), rbf gamma={options.gamma:g}, C={options.C:g}"
    head = ["", "fit, s", "relative gap", "test accuracy", "prediction, s", "support vectors", "peak memory, GB"]
    lines = [
        [
            fit,
            f"{row['fit_seconds']:.1f}",
            "–" if row["gap"] is None else f"{row['gap']:.1e}",
            f"{100.0 * row['accuracy']:.2f} %",
            f"{row['predict_seconds']:.1f}",
            str(row["n_support"]),
            f"{row['peak_bytes'] / _GB:.2f}",
        ]
        for fit, row in found.items()
    ]
    if len(found) == len(FITS):
        ours, theirs = (found[fit] for fit in FITS)
        ratios = {name: theirs[name] / ours[name] for name in ("fit_seconds", "predict_seconds", "peak_bytes")}
        fit, predict, peak = (f"{ratio:.2f}×" for ratio in ratios.values())
        lines.append([f"{FITS[1]} / {FITS[0]}", fit, "", "", predict, "", peak])
    write(f"\n### {title}, {options.threads} thread(s)\n")
    write(markdown(head, lines))


if __name__ == "__main__":
    command(main)
