"""The same fits on one GPU and on the processor beside it.

    python benchmarks/machine/gpu_and_cpu.py -o gpu_and_cpu.jsonl
    python benchmarks/machine/gpu_and_cpu.py softmax --cap 120

mnist, dense, float32, pixels in [0, 1]: on the GPU a tensor of PyTorch that lies there already, on the processor an
array of NumPy and all cores. Every fit has a process of its own, which is ended at the cap. A fit of some rows comes
first, for what is compiled; then the median of the repeats counts, of which the processor has one.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports below

from machine.gpu import digits, seconds_of
from tools.common import OVER_CAP, Records, UserError, command, log
from tools.markdown_tables import markdown, write

WHERE = ("cuda", "cpu")
_FEW = 2000  # rows of the fit that compiles
_HEAD = ("fit", "where", "seconds", "gap", "status", "test accuracy", "predict 10,000, s")


def _cases(own: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    """Return what makes the estimators; ``own`` are settings of ours."""
    from sklearn.svm import SVC

    from softmargin import KernelSVC, LinearSVC, SoftmaxRegression

    return {
        "softmax": lambda: SoftmaxRegression(C=1.0, tol=1e-6, **own),
        "squared_hinge": lambda: LinearSVC(loss="squared_hinge", multiclass="one_vs_rest", C=1.0, tol=1e-4, **own),
        "crammer_singer": lambda: LinearSVC(multiclass="crammer_singer", C=1.0, tol=1e-3, **own),
        "weston_watkins": lambda: LinearSVC(C=1.0, tol=1e-3, **own),
        "kernel": lambda: KernelSVC(
            C=5.0, gamma=0.02, multiclass="crammer_singer", approximation=None, tol=1e-3, **own
        ),
        "sklearn_svc": lambda: SVC(C=5.0, gamma=0.02, cache_size=8000.0),
    }


def main(arguments: list[str] | None) -> int:
    """Fit, and print the table."""
    options = parser().parse_args(arguments)
    unknown = set(options.fits) - set(_cases({}))
    if unknown:
        raise UserError(f"unknown fits: {', '.join(sorted(unknown))}; known are {', '.join(_cases({}))}.")
    if options.child:
        write(json.dumps(measured(options.fits[0], options.where[0], options.cap, options.repeats)))
        return 0
    records = Records(options.output)
    records.start(cap=options.cap)
    for name in options.fits or _cases({}):
        for where in options.where:
            if name == "sklearn_svc" and where != "cpu":
                continue
            found = _in_a_process(name, where, options)
            records.append({"kind": "measurement", "fit": name, "where": where, **found})
            log.print(f"{name}, {where}: {found.get('seconds', float('inf')):.3g} s", style="dim")
    write(markdown(_HEAD, map(line, records.measurements())))
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fits", nargs="*", help="names of fits (default: all)")
    parser.add_argument("--where", nargs="+", choices=WHERE, default=WHERE, help="default: both")
    parser.add_argument("--cap", type=float, default=60.0, help="seconds a fit may take (default: 60)")
    parser.add_argument("--repeats", type=int, default=3, help="fits on the GPU whose median counts (default: 3)")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.jsonl", help="file of measurements, appended to")
    return parser


def _in_a_process(name: str, where: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return what a process of its own measured; it has time for its start and all repeats."""
    own = ["--where", where, "--cap", str(options.cap), "--repeats", str(options.repeats), "--child"]
    limit = 60.0 + options.cap * (2 + options.repeats if where == "cuda" else 1)
    try:
        done = subprocess.run(
            [sys.executable, __file__, name, *own], capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return {"status": OVER_CAP}
    if done.returncode:
        return {"status": "failed", "error": done.stderr[-2000:]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measured(name: str, where: str, cap: float, repeats: int) -> dict[str, Any]:
    """Fit here, and say what it took."""
    X, y, X_test, y_test = digits(60_000, "float32")
    is_ours = name != "sklearn_svc"
    own = {"max_seconds": cap, **({} if where == "cuda" else {"n_jobs": -1}), "random_state": 0} if is_ours else {}
    clf = _cases(own)[name]()
    if where == "cpu":
        X, X_test, repeats = X.cpu().numpy(), X_test.cpu().numpy(), 1

    seconds_of(lambda: clf.fit(X[:_FEW], y[:_FEW]))
    if where == "cuda":
        seconds_of(lambda: clf.fit(X, y))
    seconds = [seconds_of(lambda: clf.fit(X, y)) for _ in range(repeats)]
    return {
        "seconds": median(seconds),
        "all_seconds": seconds,
        "residual": float(clf.certificate_.residual) if is_ours else None,
        "status": clf.status_ if is_ours else "converged",
        "accuracy": float((np.asarray(clf.predict(X_test)) == y_test).mean()),
        "predict_seconds": median(seconds_of(lambda: clf.predict(X_test)) for _ in range(3)),
    }


def line(row: dict[str, Any]) -> list[str]:
    """Return a line of the table."""
    if "seconds" not in row:
        return [row["fit"], row["where"], "–", "–", row["status"], "–", "–"]
    gap = "–" if row["residual"] is None else f"{row['residual']:.1e}"
    numbers = (f"{100.0 * row['accuracy']:.2f} %", f"{row['predict_seconds']:.4f}")
    return [row["fit"], row["where"], f"{row['seconds']:.2f}", gap, row["status"], *numbers]


if __name__ == "__main__":
    command(main)
