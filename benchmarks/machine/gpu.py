"""Digits on one GPU: exact joint kernel SVMs where X lies, with their proof.

    python benchmarks/machine/gpu.py -o gpu.jsonl
    python benchmarks/machine/gpu.py --rows 240000 1000000 --C 5 --loss crammer_singer --tol 1e-3 --repeats 1 --cap 600
    python benchmarks/machine/gpu.py --C 5 --loss crammer_singer --stages
    python benchmarks/machine/gpu.py --rows 200000 --held-out 35000 --C 2 5 --gamma 0.02 0.03 --tol 5e-3 --repeats 1

mnist, pixels in [0, 1], rbf kernel, X a CUDA tensor of PyTorch; rows beyond its 60,000 are distorted copies
(softmargin.data.distorted). A fit includes its kernel values and its certificate. After one fit that does not count,
the median of the repeats does; one repeat has no fit before it. Every measurement is appended to the output file. With
--stages one fit counts, and its time is divided among its stages (gpu_stages). With --held-out some of the 60,000
digits are set aside before any is distorted, and stand in the place of the test digits: so are settings chosen. With
--deskew all digits, those of the test too, are made upright first (softmargin.data.deskewed).
"""

import argparse
import contextlib
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports below

from machine.gpu_stages import timed_stages
from tools.common import Records, UserError, command, log
from tools.markdown_tables import markdown, write

LOSSES = ("crammer_singer", "weston_watkins")
_LARGEST_PIXEL, _PIXELS = 255.0, 28 * 28
_HEAD = (
    *("rows", "loss", "C", "gamma", "tol", "seconds", "gap", "status", "rounds", "test accuracy", "predict, s"),
    "peak, GB",
)
_SEED = 1  # of the digits that are held out

_STAGES = ("stage", "seconds", "TFLOP/s", "TB/s")


def main(arguments: list[str] | None) -> int:
    """Fit, and print the table."""
    options = parser().parse_args(arguments)
    records = Records(options.output)
    records.start(cap=options.cap)
    for rows in options.rows:
        data = digits(rows, options.dtype, options.held_out, options.distortion, options.deskew)
        for multiclass, gamma, C, tol in product(options.loss, options.gamma, options.C, options.tol):
            how = {"multiclass": multiclass, "C": C, "tol": tol, "gamma": gamma}
            found = measured(*data, **how, cap=options.cap, repeats=options.repeats, has_stages=options.stages)
            own = {name: getattr(options, name) for name in ("dtype", "held_out", "distortion", "deskew")}
            records.append({"kind": "measurement", "rows": rows, **own, **how, **found})
            log.print(
                f"{rows} rows, {multiclass}, C = {C:g}: {found['residual']:.1e} after {found['seconds']:.3g} s",
                style="dim",
            )
    rows_found = records.measurements()
    write(markdown(_HEAD, map(line, rows_found)))
    for row in rows_found:
        if row.get("stages"):
            write(f"{row['rows']:,} rows, {row['multiclass']}, C = {row['C']:g}, tol {row['tol']:g}:")
            write(markdown(_STAGES, map(stage_line, row["stages"].items())))
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", type=int, default=[60_000], help="at least 60000 (default: 60000)")
    parser.add_argument("--held-out", type=int, default=0, metavar="N", help="digits to set aside (default: none)")
    parser.add_argument(
        "--distortion",
        nargs=4,
        type=float,
        metavar=("ROTATION", "SHEAR", "SCALE", "SHIFT"),
        help="of softmargin.data.distorted (default: its own)",
    )
    parser.add_argument("--deskew", action="store_true", help="make all digits upright first")
    parser.add_argument("--loss", nargs="+", choices=LOSSES, default=LOSSES, help="default: both")
    parser.add_argument("--C", nargs="+", type=float, default=[0.5, 5.0, 50.0], help="default: 0.5 5 50")
    parser.add_argument("--tol", nargs="+", type=float, default=[1e-3, 1e-6], help="default: 1e-3 1e-6")
    parser.add_argument("--gamma", nargs="+", type=float, default=[0.02], help="of the kernel (default: 0.02)")
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32", help="of X (default: float32)")
    parser.add_argument("--cap", type=float, default=25.0, help="seconds a fit may take (default: 25)")
    parser.add_argument("--repeats", type=int, default=3, help="fits whose median counts (default: 3)")
    parser.add_argument("--stages", action="store_true", help="one fit that counts, with the time of every stage")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.jsonl", help="file of measurements, appended to")
    return parser


def digits(
    rows: int, dtype: str, held_out: int = 0, distortion: Sequence[float] | None = None, deskew: bool = False
) -> tuple[Any, Any, Any, Any]:
    """Return mnist, its pixels on the GPU, and distorted copies up to so many rows; and the test or held-out digits."""
    try:
        import torch
    except ImportError as problem:
        raise UserError(f"{problem}. This benchmark needs PyTorch with CUDA.") from problem
    if not torch.cuda.is_available():
        raise UserError("PyTorch sees no GPU.")
    from softmargin.data import deskewed, distorted, load

    data = load("mnist")

    def pixels(part: Any) -> Any:
        whole = np.zeros((part.shape[0], _PIXELS), dtype=dtype)  # the file leaves out the last ones, which are zero
        whole[:, : part.shape[1]] = part.todense() / _LARGEST_PIXEL
        there = torch.asarray(whole, device="cuda")
        return deskewed(there) if deskew else there

    X, y, X_test, y_test = pixels(data.X), data.y, pixels(data.X_test), data.y_test
    if held_out:
        order = np.random.default_rng(_SEED).permutation(len(y))
        kept, test = order[: len(y) - held_out], order[len(y) - held_out :]
        X, y, X_test, y_test = X[torch.asarray(kept)], y[kept], X[torch.asarray(test)], y[test]
    amounts = dict(zip(("rotation", "shear", "scale", "shift"), distortion or (), strict=False))
    return *distorted(X, y, rows, seed=0, **amounts), X_test, y_test


def seconds_of(work: Callable[[], Any]) -> float:
    """Return how long some work takes, that of the device included."""
    import torch

    torch.cuda.synchronize()
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the table has the gap
        work()
    torch.cuda.synchronize()
    return time.perf_counter() - began


def measured(
    X: Any,
    y: Any,
    X_test: Any,
    y_test: Any,
    *,
    multiclass: str,
    C: float,
    tol: float,
    gamma: float,
    cap: float,
    repeats: int,
    has_stages: bool = False,
) -> dict[str, Any]:
    """Fit several times, and say what the fits took."""
    import torch

    from softmargin import KernelSVC

    clf = KernelSVC(C=C, gamma=gamma, multiclass=multiclass, tol=tol, max_seconds=cap, random_state=0)

    if repeats > 1:
        seconds_of(lambda: clf.fit(X, y))
    torch.cuda.reset_peak_memory_stats()
    stages: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        if has_stages:
            stages = stack.enter_context(timed_stages())
        seconds = [seconds_of(lambda: clf.fit(X, y)) for _ in range(1 if has_stages else repeats)]
    peak = torch.cuda.max_memory_allocated() / 1e9
    return {
        **stages,
        "seconds": median(seconds),
        "all_seconds": seconds,
        "residual": float(clf.certificate_.residual),
        "rounding": float(clf.certificate_.rounding),
        "status": clf.status_,
        "n_iter": clf.n_iter_,
        "support": len(clf.support_),
        "accuracy": float((np.asarray(clf.predict(X_test)) == y_test).mean()),
        "predict_seconds": median(seconds_of(lambda: clf.predict(X_test)) for _ in range(3)),
        "peak_gb": peak,
        "device": torch.cuda.get_device_name(),
    }


def line(row: dict[str, Any]) -> list[str]:
    """Return a line of the table."""
    numbers = (
        f"{row['C']:g}",
        f"{row['gamma']:g}",
        f"{row['tol']:g}",
        f"{row['seconds']:.2f}",
        f"{row['residual']:.1e}",
    )
    rest = (f"{100.0 * row['accuracy']:.2f} %", f"{row['predict_seconds']:.3f}", f"{row['peak_gb']:.1f}")
    return [f"{row['rows']:,}", row["multiclass"], *numbers, row["status"], str(row["n_iter"]), *rest]


def stage_line(stage: tuple[str, dict[str, float]]) -> list[str]:
    """Return a line of the table of stages."""
    name, found = stage
    rates = (found[each] / max(found["seconds"], 1e-9) for each in ("tflops", "terabytes"))
    return [name, f"{found['seconds']:.2f}", *(f"{rate:.2g}" for rate in rates)]


if __name__ == "__main__":
    command(main)
