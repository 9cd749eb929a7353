"""How time and memory grow with the size of the data, for the default solver of each kind of model.

    n     rows                          d     features; sparse rows keep their number of entries
    k     classes or targets            nnz   entries of X, by those of a row

One of them grows, the others stay at a base. The data are made up so that the problem stays as hard as it was: classes
are equally far apart whatever d, labels come from the same number of features, and C n is constant (the mean loss has
the same ridge; with a kernel, C = 1). Every fit goes to a relative gap of 1e-3, on one thread, after compiling.

    seconds         of the whole ``fit``: checks, solver, certificates
    on the clock    of the solver alone
    exponent p      size^p, least squares in logarithms over the upper half of the sizes that were reached

An axis ends at the first size that takes longer than ``--cap``. With ``--memory``, a fresh process fits once more and
says how far its memory rose above what it held before, as ``memory.py`` does. Every measurement is appended to the
output file when it is done; started again with the same file, the command continues.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports below

from machine.scaling_cases import CONTENDERS, TOL, Contender, Sizes, small
from tools.common import Records, UserError, command, log, memory_of_process, one_thread, reset_high_water
from tools.curves import save_picture
from tools.markdown_tables import markdown, write

AXES = ("n", "d", "k", "nnz")
VALUES = {"seconds": "seconds", "clock": "on the clock", "passes": "passes", "extra_bytes": "peak extra memory"}
_KEYS = {"n": "n", "d": "d", "k": "k", "nnz": "per_row"}
# glibc: what is freed goes back to the system, else the memory of the warm-up would be used again unseen.
_GIVE_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0"}
_MB = 2.0**20


def main(arguments: list[str] | None) -> int:
    """Measure what is not known yet, print the tables, draw the plot."""
    options = parser().parse_args(arguments)
    with one_thread():
        if options.child is not None:
            sys.stdout.write(json.dumps(measure_memory(*json.loads(options.child))) + "\n")
            return 0
        records = Records(options.output)
        records.start(cap=options.cap, repeats=options.repeats)
        for name in options.solver:
            for axis in options.axis:
                measure_axis(name, axis, records, options)
    lines = [(name, axis, rows_of(records, name, axis)) for name in options.solver for axis in options.axis]
    lines = [line for line in lines if line[2]]
    print_tables(lines)
    if options.plots is not None and lines:
        draw(lines, options.plots / "scaling.png")
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = list(CONTENDERS)
    parser.add_argument("--solver", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--axis", nargs="+", choices=AXES, default=list(AXES), help="what grows (default: all)")
    parser.add_argument("--cap", type=float, default=60.0, help="seconds a fit may take (default: 60)")
    parser.add_argument(
        "--repeats", type=int, default=3, help="fits to take the median of, within the cap (default: 3)"
    )
    parser.add_argument("--quick", action="store_true", help="the four smallest sizes of every axis, one fit of each")
    parser.add_argument("--memory", action="store_true", help="also measure peak extra memory, in fresh processes")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.jsonl", help="file of measurements, appended to")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="where to draw scaling.png")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser


def measure_axis(name: str, axis: str, records: Records, options: argparse.Namespace) -> None:
    """Fit from the smallest size up, until a fit takes too long."""
    contender, repeats = CONTENDERS[name], 1 if options.quick else options.repeats
    for size in contender.grids.get(axis, ())[: 4 if options.quick else None]:
        sizes = contender.base | {_KEYS[axis]: size}
        row = found(records, "time", name, sizes)
        if row is None or not is_enough(row, options.cap, repeats):
            row = measure_time(name, sizes, options.cap, repeats)
            records.append({"kind": "measurement", "what": "time", "solver": name, "sizes": sizes, **row})
            log.print(f"{name} {sizes}: {row['status']} after {row['seconds']:.3g} s", style="dim")
        if row["status"] != "converged" or row["seconds"] > options.cap:
            return
        if options.memory and found(records, "memory", name, sizes) is None:
            row = run_child(name, sizes, options.cap)
            records.append({"kind": "measurement", "what": "memory", "solver": name, "sizes": sizes, **row})


def is_enough(row: dict[str, Any], cap: float, repeats: int) -> bool:
    """Say whether a row need not be measured again: as many fits as now, and time enough where it was cut off."""
    return row["repeats"] >= repeats and (row["status"] == "converged" or row["cap"] >= cap)


def found(records: Records, what: str, name: str, sizes: Sizes) -> dict[str, Any] | None:
    """Return what the file holds of a measurement, the latest where there are many."""
    cell = {"what": what, "solver": name, "sizes": sizes}
    rows = (row for row in reversed(records.measurements()) if all(row[key] == cell[key] for key in cell))
    return next(rows, None)


def measure_time(name: str, sizes: Sizes, cap: float, repeats: int) -> dict[str, Any]:
    """Fit a few times as long as the cap allows, and return medians."""
    contender = CONTENDERS[name]
    X, y = contender.data(sizes)
    compile_for(contender, sizes)
    models, seconds = [], []
    while len(models) < repeats and sum(seconds) < cap:
        model = contender.make(sizes, cap)
        seconds.append(fit(model, X, y))
        models.append(model)
    return {
        "nnz": int(getattr(X, "nnz", X.size)),
        "cap": cap,
        "repeats": repeats,
        "seconds": statistics.median(seconds),
        "clock": statistics.median(model.trace_[-1].seconds for model in models),
        "passes": int(models[0].n_iter_),
        "residual": float(models[0].certificate_.residual),
        "status": models[0].status_,
    }


def fit(model: Any, X: Any, y: Any) -> float:
    """Return the seconds of a fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not certified: the status tells
        began = time.perf_counter()
        model.fit(X, y)
        return time.perf_counter() - began


def compile_for(contender: Contender, sizes: Sizes) -> None:
    """Fit small data to the end, however long compiling takes."""
    fit(contender.make(small(sizes), math.inf), *contender.data(small(sizes)))


def run_child(name: str, sizes: Sizes, cap: float) -> dict[str, Any]:
    """Measure memory in a fresh process."""
    child = [sys.executable, __file__, "--child", json.dumps([name, sizes, cap])]
    done = subprocess.run(
        child, capture_output=True, text=True, timeout=10.0 * cap + 600.0, env={**os.environ, **_GIVE_BACK}
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(f"--memory, {name} {sizes}: {last.removeprefix('error: ')}")
    return json.loads(done.stdout.splitlines()[-1])


def measure_memory(name: str, sizes: Sizes, cap: float) -> dict[str, Any]:
    """Fit once and report bytes; this runs in the child."""
    contender = CONTENDERS[name]
    X, y = contender.data(sizes)
    compile_for(contender, sizes)
    before = memory_of_process("VmRSS")
    is_reset = reset_high_water()
    fit(contender.make(sizes, cap), X, y)
    return {"extra_bytes": memory_of_process("VmHWM") - before, "is_reset": is_reset}


def rows_of(records: Records, name: str, axis: str) -> list[dict[str, Any]]:
    """Return what is known along an axis as far as fits converged."""
    contender, rows = CONTENDERS[name], []
    for size in contender.grids.get(axis, ()):
        sizes = contender.base | {_KEYS[axis]: size}
        row = found(records, "time", name, sizes)
        if row is not None and row["status"] == "converged":
            memory = found(records, "memory", name, sizes) or {}
            rows.append({**memory, **row, "size": row["nnz"] if axis == "nnz" else size})
    return rows


def exponent(rows: Sequence[dict[str, Any]], value: str) -> float | None:
    """Return the slope in logarithms over the upper half of the sizes; None below two of them."""
    points = [(row["size"], row[value]) for row in rows if row.get(value, 0.0) > 0.0]
    points = points[len(points) // 2 :] if len(points) > 2 else points
    if len(points) < 2:
        return None
    return float(np.polyfit(*np.log(np.array(points, dtype=float)).T, 1)[0])


def print_tables(lines: Sequence[tuple[str, str, list[dict[str, Any]]]]) -> None:
    """Print the exponents, and for every line its measurements."""
    body = []
    for name, axis, rows in lines:
        powers = [exponent(rows, value) for value in VALUES]
        span = f"{rows[0]['size']:,} to {rows[-1]['size']:,}"
        body.append([name, axis, span, *("–" if p is None else f"{round(p, 2) + 0.0:.2f}" for p in powers)])
    write("\n### exponents\n")
    write(markdown(["solver", "grows", "sizes", *VALUES.values()], body))
    body = []
    for name, axis, rows in lines:
        for row in rows:
            extra = f"{row['extra_bytes'] / _MB:.1f}" if "extra_bytes" in row else "–"
            times = [f"{row['seconds']:.3g}", f"{row['clock']:.3g}", str(row["passes"])]
            body.append([name, axis, f"{row['size']:,}", *times, extra])
    write("\n### measurements\n")
    write(markdown(["solver", "grows", "size", *list(VALUES.values())[:3], "peak extra MB"], body))


def draw(lines: Sequence[tuple[str, str, list[dict[str, Any]]]], path: Path) -> None:
    """Draw a column an axis: seconds above, memory below where it is known."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import NullFormatter

    columns = [axis for axis in AXES if any(line[1] == axis for line in lines)]
    has_memory = any("extra_bytes" in row for line in lines for row in line[2])
    values = ("seconds", "extra_bytes") if has_memory else ("seconds",)
    size = (3.6 * len(columns), 3.2 * len(values) + 0.6)
    picture, panels = plt.subplots(len(values), len(columns), figsize=size, squeeze=False, layout="constrained")
    handles: dict[str, Any] = {}
    for name, axis, rows in lines:
        for value, panel in zip(values, panels[:, columns.index(axis)], strict=True):
            points = [(row["size"], row[value]) for row in rows if row.get(value, 0.0) > 0.0]
            if points:
                color = f"C{list(CONTENDERS).index(name)}"
                (handles[name],) = panel.loglog(*zip(*points, strict=True), marker="o", markersize=3, color=color)
            panel.set(xlabel=axis, ylabel="bytes, peak extra" if value == "extra_bytes" else f"seconds to {TOL:g}")
            panel.xaxis.set_minor_formatter(NullFormatter())  # they would overlap
            panel.tick_params(labelsize=7, which="both")
            panel.grid(alpha=0.3)
    picture.legend(handles.values(), handles, loc="outside lower center", ncols=4, fontsize=8)
    save_picture(picture, path)


if __name__ == "__main__":
    command(main)
