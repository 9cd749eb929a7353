"""Where the time of the default solvers goes, and how far they are from what the machine can do.

    lines    shares of the samples of py-spy by the innermost line of softmargin, while a fit is repeated for some
             seconds; a compiled loop, BLAS and SciPy count for the line that calls them. Where py-spy is missing or may
             not look, cProfile, by functions.
    work     operations and bytes that a fit needs, by the model of ``work_model.py``; no hardware counter
    limits   GFLOP/s of GEMM, and GB/s of a triad through as many bytes as a fit goes through; measured in the same run

Fits go to a relative gap of 1e-3 on one thread, after compiling; times are seconds of the processor. Every measurement
runs in a process of its own and is appended to the output file; started again with the same file, the command
continues. Real data come from SOFTMARGIN_DATA (else ../shared/data beside the repository).
"""

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports below

from machine.profile_cases import CASES, Case
from machine.roofline import bandwidth, counting, draw, measure_limits
from tools.common import SOURCES, Records, UserError, command, log, one_thread
from tools.markdown_tables import markdown, write

RATE = 100  # samples a second
MARK = "fit_again_and_again"  # samples count below this function only
TOP = 5  # lines shown
_FITS = 3
_FRAME = re.compile(r"^(?P<function>.*) \((?P<file>.*):(?P<line>\d+)\)$")
Shares = dict[str, float]


def main(arguments: list[str] | None) -> int:
    """Measure what is not known yet, print the tables, draw the picture."""
    options = parser().parse_args(arguments)
    with one_thread():
        if options.child is not None:
            what, name = options.child
            found = {"lines": fit_under_watch, "time": measure_fit, "functions": profile_functions}[what]
            sys.stdout.write(json.dumps(found(CASES[name], options.seconds)) + "\n")
            return 0
        records = Records(options.output)
        records.start(seconds=options.seconds)
        if latest(records, "limits", "") is None:
            records.append({"kind": "measurement", "what": "limits", "solver": "", **measure_limits()})
        for name in options.solver:
            for what, measure in (("time", run_child), ("lines", sample_lines)):
                if latest(records, what, name) is None:
                    row = measure(what, name, options.seconds)
                    records.append({"kind": "measurement", "what": what, "solver": name, **row})
                    log.print(f"{name}: {what} done", style="dim")
    limits = latest(records, "limits", "")
    rows = [row for name in options.solver if (row := latest(records, "time", name)) is not None]
    print_tables(rows, [latest(records, "lines", row["solver"]) for row in rows], limits)
    if options.plots is not None:
        draw(rows, limits, options.plots / "roofline.png")
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = list(CASES)
    parser.add_argument("--solver", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--seconds", type=float, default=10.0, help="how long fits are watched (default: 10)")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.jsonl", help="file of measurements, appended to")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="where to draw roofline.png")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    return parser


def latest(records: Records, what: str, name: str) -> dict[str, Any] | None:
    """Return the last measurement of that kind."""
    rows = (row for row in reversed(records.measurements()) if (row["what"], row["solver"]) == (what, name))
    return next(rows, None)


def run_child(what: str, name: str, seconds: float, watcher: Sequence[str] = ()) -> dict[str, Any]:
    """Measure in a fresh process, under a watcher where there is one."""
    child = [*watcher, sys.executable, __file__, "--child", what, name, "--seconds", str(seconds)]
    done = subprocess.run(child, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(f"{name}, {what}: {last.removeprefix('error: ')}")
    return next(json.loads(line) for line in reversed(done.stdout.splitlines()) if line.startswith("{"))


def sample_lines(what: str, name: str, seconds: float) -> dict[str, Any]:
    """Return the shares of lines by py-spy, or of functions by cProfile where it cannot be had."""
    spy = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
    if spy is None:
        return {"by": "cProfile: py-spy is not installed"} | run_child("functions", name, seconds)
    with tempfile.TemporaryDirectory() as folder:
        stacks = Path(folder) / "stacks.txt"
        watcher = [spy, "record", "--format", "raw", "--rate", str(RATE), "--nonblocking", "--full-filenames"]
        try:
            run_child("lines", name, seconds, [*watcher, "-o", str(stacks), "--"])
        except UserError as problem:
            return {"by": f"cProfile: {problem}"} | run_child("functions", name, seconds)
        shares, count = fold_stacks(stacks.read_text().splitlines())
    return {"by": "py-spy", "samples": count, "shares": shares}


def fold_stacks(stacks: Iterable[str], mark: str = MARK, sources: Path = SOURCES) -> tuple[Shares, int]:
    """Turn "frame;frame;... count" into shares of the innermost lines in ``sources``, and the number of samples.

    Only stacks below ``mark`` count; those without a frame in ``sources`` belong to "elsewhere".
    """
    lines: Counter[str] = Counter()
    for stack in stacks:
        text, _, count = stack.rpartition(" ")
        frames = [match for frame in text.split(";") if (match := _FRAME.match(frame))]
        if not any(frame["function"] == mark for frame in frames):
            continue
        inside = [frame for frame in frames if Path(frame["file"]).is_relative_to(sources)]
        key = "elsewhere"
        if inside:
            file = Path(inside[-1]["file"]).relative_to(sources).as_posix()
            key = f"{file}:{inside[-1]['line']} {inside[-1]['function']}"
        lines[key] += int(count)
    total = lines.total()
    return {line: count / total for line, count in lines.most_common()}, total


def fit(case: Case, data: tuple[Any, Any]) -> tuple[Any, float]:
    """Return a fitted model, and the seconds of the processor that it took."""
    model = case.make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not certified: the status tells
        began = time.process_time()
        model.fit(*data)
        return model, time.process_time() - began


def measure_fit(case: Case, seconds: float) -> dict[str, Any]:
    """Return the median time of a fit and the work of one; this runs in the child."""
    X, y = data = case.data()
    fit(case, data)  # compiles
    fits = [fit(case, data) for _ in range(_FITS)]
    model = fits[0][0]
    k = y.shape[1] if y.ndim == 2 else len(np.unique(y))
    with counting(k) as counter:
        counted, _ = fit(case, data)
    if (counted.n_iter_, counted.certificate_) != (model.n_iter_, model.certificate_):
        raise UserError("counting changed the fit; the work model no longer follows the loops of the library.")
    own = X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes
    return {
        "data": f"{X.shape[0]:,} x {X.shape[1]:,}, {k} {'targets' if y.ndim == 2 else 'classes'}",
        "seconds": statistics.median(spent for _, spent in fits),
        "passes": int(model.n_iter_),
        "status": model.status_,
        "flops": counter.total.flops,
        "bytes": counter.total.bytes,
        "parts": {name: list(work) for name, work in counter.parts.items()},
        "footprint": own + 8 * k * sum(X.shape) + 8 * case.kernel_rows**2,
    }


def fit_under_watch(case: Case, seconds: float) -> dict[str, Any]:
    """Fit for some seconds while a profiler watches; this runs in the child."""
    data = case.data()
    fit(case, data)
    return {"fits": fit_again_and_again(case, data, seconds)}


def fit_again_and_again(case: Case, data: tuple[Any, Any], seconds: float) -> int:
    """Fit at least once; return how often."""
    began, count = time.process_time(), 0
    while count == 0 or time.process_time() - began < seconds:
        fit(case, data)
        count += 1
    return count


def profile_functions(case: Case, seconds: float) -> dict[str, Any]:
    """Return the shares of softmargin's functions by cProfile: their time less that of others of softmargin."""
    import cProfile
    import pstats

    data = case.data()
    fit(case, data)
    profile = cProfile.Profile()
    profile.runcall(fit_again_and_again, case, data, seconds)
    stats = pstats.Stats(profile).stats
    ours = {key: row for key, row in stats.items() if Path(key[0]).is_relative_to(SOURCES)}
    own = Counter({key: row[3] for key, row in ours.items()})
    for row in ours.values():
        for caller, (_, _, _, spent) in row[4].items():
            if caller in own:
                own[caller] -= spent
    total = sum(row[2] for row in stats.values())
    names = {key: f"{Path(key[0]).relative_to(SOURCES).as_posix()}:{key[1]} {key[2]}" for key in own}
    return {"samples": 0, "shares": {names[key]: spent / total for key, spent in own.most_common() if spent > 0.0}}


def print_tables(
    rows: Sequence[dict[str, Any]], lines: Sequence[dict[str, Any] | None], limits: dict[str, Any]
) -> None:
    """Print limits, what every solver reached, and the lines that took the time."""
    sizes = sorted(limits["triad"], key=int)
    body = [[f"GEMM {kind}", f"{speed:.1f} GFLOP/s"] for kind, speed in limits["gemm"].items()]
    body += [[f"triad through {int(size) / 2**20:g} MB", f"{limits['triad'][size]:.1f} GB/s"] for size in sizes]
    write("\n### limits\n")
    write(markdown(["limit", "best"], body))
    body = []
    for row in rows:
        flops, bytes_ = (1e-9 * row[name] / row["seconds"] for name in ("flops", "bytes"))
        shares = {"GEMM": flops / limits["gemm"]["float64"], "bytes": bytes_ / bandwidth(limits, row["footprint"])}
        nearer = max(shares, key=lambda name: shares[name])
        speeds = [f"{flops:.2f} ({shares['GEMM']:.0%})", f"{bytes_:.2f} ({shares['bytes']:.0%})"]
        about = [CASES[row["solver"]].about, row["data"], f"{row['seconds']:.3g}", str(row["passes"])]
        body.append([row["solver"], *about, f"{row['flops'] / row['bytes']:.2f}", *speeds, nearer])
    write("\n### work\n")
    head = ["solver", "data", "size", "seconds", "steps", "operations a byte", "GFLOP/s", "GB/s", "nearer limit"]
    write(markdown(head, body))
    body = []
    for row in filter(None, lines):
        for line, share in list(row["shares"].items())[:TOP]:
            place, _, function = line.partition(" ")
            body.append([row["solver"], f"{share:.0%}", f"`{place}`", function])
    write("\n### lines\n")
    write(markdown(["solver", "share", "line", "function"], body))
    for row in filter(None, lines):
        if row["by"] != "py-spy":
            write(f"\n{row['solver']}: functions, by {row['by']}")


if __name__ == "__main__":
    command(main)
