"""Peak extra memory of one fit on sparse float32 data, beside the size of the data and of the dual variables.

A child process loads X, compiles on a small problem, resets the kernel's high-water mark of its memory, fits, and
reports how far the mark rose above the memory in use before the fit. Linux only.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports below

from tools.common import (
    MULTICLASS,
    Records,
    UserError,
    choose,
    command,
    dataset_names,
    load_benchmark,
    load_data,
    memory_of_process,
    reset_high_water,
)
from tools.markdown_tables import markdown, write

FITS = ("solve", "estimator", "sklearn")
_MB = 2.0**20
_SMALL = 200  # rows that are enough to compile everything


def main(arguments: list[str] | None) -> int:
    """Run a child for every way to fit, and tabulate."""
    options = parser().parse_args(arguments)
    if options.child is not None:
        sys.stdout.write(json.dumps(measure(options)) + "\n")
        return 0
    path = float32_copy(options.data)
    records = Records(options.output)
    records.start()
    lines = []
    for fit in options.fit:
        found = run_child(fit, path, options)
        settings = {"data": options.data, "C": options.C, "multiclass": options.multiclass, "tol": options.tol}
        records.append({"kind": "measurement", "fit": fit, **settings, **found})
        note = "" if found["is_reset"] else " (mark not reset: an upper bound)"
        lines.append(
            [
                fit,
                *(f"{found[name] / _MB:.1f}" for name in ("data_bytes", "dual_bytes")),
                f"{found['extra_bytes'] / _MB:.1f}{note}",
                f"{found['extra_bytes'] / found['data_bytes']:.2f}",
                f"{found['compiler_bytes'] / _MB:.1f}",
                f"{found['seconds']:.2f}",
                "–" if found["residual"] is None else f"{found['residual']:.1e}",
            ]
        )
    write(f"\n### {options.data}, CSR float32, {options.multiclass}, C={options.C:g}, tol={options.tol:g}: MB\n")
    write(markdown(["fit", "X", "dual variables", "peak extra", "peak extra / X", "compiler", "seconds", "gap"], lines))
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="mnist", help="data set (default: mnist)")
    parser.add_argument("--C", type=float, default=1.0, help="default: 1")
    parser.add_argument("--multiclass", choices=MULTICLASS, default=MULTICLASS[0], help=f"default: {MULTICLASS[0]}")
    parser.add_argument("--tol", type=float, default=1e-2, help="relative gap (default: 1e-2)")
    parser.add_argument("--cap", type=float, default=300.0, help="seconds a fit may take (default: 300)")
    parser.add_argument(
        "--fit",
        nargs="+",
        choices=FITS,
        default=["solve"],
        help="solve: the solver alone (default); estimator: our LinearSVC; sklearn: its Crammer-Singer LinearSVC",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.jsonl", help="file of measurements, appended to")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    return parser


def float32_copy(name: str) -> Path:
    """Return an .npz file of the training part in CSR float32, made where there is none."""
    from scipy.sparse import csr_matrix

    benchmark = load_benchmark()
    choose("data", [name], dataset_names(benchmark))
    from benchmark_utils.folders import cache_folder

    path = cache_folder() / f"{name}-float32.npz"
    if not path.exists():
        data = load_data(benchmark, name)
        X = csr_matrix(data["X"], dtype=np.float32)
        codes = np.unique(data["y"], return_inverse=True)[1].astype(np.int32)
        unfinished = path.with_name(f"unfinished-{path.name}")
        np.savez(unfinished, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=codes)
        unfinished.replace(path)
    return path


def run_child(fit: str, path: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Measure one way to fit in a fresh process."""
    settings = {"--C": options.C, "--multiclass": options.multiclass, "--tol": options.tol, "--cap": options.cap}
    arguments = [str(value) for pair in settings.items() for value in pair]
    child = [sys.executable, __file__, "--child", str(path), "--fit", fit, *arguments]
    done = subprocess.run(child, capture_output=True, text=True, timeout=10.0 * options.cap + 600.0)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(f"--fit {fit}: {last.removeprefix('error: ')}")
    return json.loads(done.stdout.splitlines()[-1])


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Fit once and report bytes; this runs in the child."""
    from scipy.sparse import csr_matrix

    with np.load(options.child) as stored:
        parts = tuple(stored[name] for name in ("data", "indices", "indptr"))
        X, y = csr_matrix(parts, shape=tuple(stored["shape"])), stored["y"]
    fit = fitter(options)
    loaded = memory_of_process("VmRSS")
    rows = np.concatenate([np.flatnonzero(y == c)[:_SMALL] for c in range(3)])
    fit(X[rows], y[rows])
    before = memory_of_process("VmRSS")
    is_reset = reset_high_water()
    seconds, residual = fit(X, y)
    return {
        "data_bytes": sum(part.nbytes for part in parts),
        "dual_bytes": 8 * len(y) * (int(y.max()) + 1),
        "extra_bytes": memory_of_process("VmHWM") - before,
        "compiler_bytes": before - loaded,
        "seconds": seconds,
        "residual": residual,
        "is_reset": is_reset,
    }


def fitter(options: argparse.Namespace) -> Callable[[Any, Any], tuple[float, float | None]]:
    """Return fit(X, y) -> (seconds, relative gap or None)."""
    (kind,) = options.fit
    make = {"solve": _with_solve, "estimator": _with_estimator, "sklearn": _with_sklearn}[kind]
    fit = make(options)

    def timed(X: Any, y: Any) -> tuple[float, float | None]:
        started = time.perf_counter()
        residual = fit(X, y)
        return time.perf_counter() - started, residual

    return timed


def _with_solve(options: argparse.Namespace) -> Callable[[Any, Any], float | None]:
    from softmargin.problems import MulticlassSVM
    from softmargin.run import Stop, solve
    from softmargin.solvers import DualBlockDescent

    def fit(X: Any, y: Any) -> float:
        problem = MulticlassSVM(X, y, C=options.C, multiclass=options.multiclass)
        stop = Stop(tol=options.tol, max_seconds=options.cap)
        return solve(problem, DualBlockDescent(), stop=stop, rng=0).certificate.residual

    return fit


def _with_estimator(options: argparse.Namespace) -> Callable[[Any, Any], float | None]:
    try:
        from softmargin import LinearSVC
    except ImportError as problem:
        raise UserError(f"softmargin.LinearSVC is not there yet ({problem}).") from problem
    budget = {"tol": options.tol, "max_seconds": options.cap}
    model = LinearSVC(C=options.C, multiclass=options.multiclass, fit_intercept=False, random_state=0, **budget)
    return lambda X, y: model.fit(X, y).certificate_.residual


def _with_sklearn(options: argparse.Namespace) -> Callable[[Any, Any], float | None]:
    from sklearn.svm import LinearSVC

    model = LinearSVC(C=options.C, multi_class="crammer_singer", fit_intercept=False, random_state=0)

    def fit(X: Any, y: Any) -> None:
        model.fit(X, y)

    return fit


if __name__ == "__main__":
    command(main)
