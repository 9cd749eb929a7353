"""What a user waits for besides the fit: compiling, importing, the command line.

    cold fit    the first fit in a new process with an empty Numba cache: everything is compiled
    warm fit    the same once the cache is filled
    command     ``softmargin train digits`` as a whole, with the filled cache

Every number is a median over fresh processes; the fit is that of LinearSVC where there is one, else of the solver.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports below

from tools.common import SOURCES, Records, UserError, command, log
from tools.markdown_tables import markdown, write

_FIT = """
import json, time
began = time.perf_counter()
import softmargin
from softmargin.data import load
data = load("digits")
try:
    from softmargin import LinearSVC
    what = "LinearSVC"
    fit = lambda: LinearSVC(random_state=0).fit(data.X, data.y)
except ImportError:
    from softmargin.problems import MulticlassSVM
    from softmargin.run import Stop, solve
    from softmargin.solvers import DualBlockDescent
    what = "solve"
    fit = lambda: solve(MulticlassSVM(data.X, data.y), DualBlockDescent(), stop=Stop(tol=1e-3), rng=0)
imported = time.perf_counter()
fit()
fitted = time.perf_counter()
print(json.dumps({"what": what, "import": imported - began, "fit": fitted - imported}))
"""
_COMMAND = "import sys; from softmargin.cli.main import main; sys.exit(main())"


def main(arguments: list[str] | None) -> int:
    """Measure and tabulate."""
    options = parser().parse_args(arguments)
    records = Records(options.output)
    records.start()
    lines = []
    with tempfile.TemporaryDirectory(prefix="softmargin-start-up-") as folder:
        warm = Path(folder) / "warm"
        run(["-c", _FIT], warm, options.cap)  # fills the cache
        jobs = {
            "cold fit": lambda number: fit_once(Path(folder) / f"cold-{number}", options.cap),
            "warm fit": lambda _: fit_once(warm, options.cap),
        }
        if (SOURCES / "cli" / "main.py").exists():
            jobs["command"] = lambda _: train_once(warm, Path(folder), options.cap)
            jobs["command"](-1)  # the command may compile what the fit did not
        else:
            log.print("the command line is not there yet (softmargin.cli.main); left out")
        for what, job in jobs.items():
            count = options.cold if what == "cold fit" else options.repeats
            runs = [job(number) for number in range(count)]
            medians = {
                name: statistics.median(run[name] for run in runs) if name in runs[0] else None
                for name in ("import", "fit", "whole")
            }
            records.append({"kind": "measurement", "what": what, "runs": runs, "medians": medians})
            times = ("–" if value is None else f"{value:.3f}" for value in medians.values())
            lines.append([f"{what} ({runs[0]['what']})", str(count), *times])
    write("\n### Start-up on digits: medians in seconds\n")
    write(markdown(["what", "runs", "import", "fit", "whole process"], lines))
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="processes with a warm cache (default: 5)")
    parser.add_argument("--cold", type=int, default=3, help="processes with an empty cache (default: 3)")
    parser.add_argument("--cap", type=float, default=300.0, help="seconds one process may take (default: 300)")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.jsonl", help="file of measurements, appended to")
    return parser


def fit_once(cache: Path, cap: float) -> dict[str, Any]:
    """Fit in a new process."""
    whole, output = run(["-c", _FIT], cache, cap)
    return json.loads(output.splitlines()[-1]) | {"whole": whole}


def train_once(cache: Path, folder: Path, cap: float) -> dict[str, Any]:
    """Run the command line in a new process."""
    whole, _ = run(["-c", _COMMAND, "train", "digits", "-o", str(folder / "digits.model")], cache, cap)
    return {"what": "softmargin train digits", "whole": whole}


def run(arguments: list[str], cache: Path, cap: float) -> tuple[float, str]:
    """Run Python with a Numba cache of its own; return wall-clock seconds and what it printed."""
    started = time.perf_counter()
    try:
        done = subprocess.run(
            [sys.executable, *arguments],
            env=os.environ | {"NUMBA_CACHE_DIR": str(cache)},
            capture_output=True,
            text=True,
            timeout=cap,
        )
    except subprocess.TimeoutExpired as problem:
        raise UserError(f"a process took longer than {cap:g} s; raise --cap.") from problem
    seconds = time.perf_counter() - started
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(f"python {' '.join(arguments[2:]) or '(the fit)'} ended with {done.returncode}: {last}")
    return seconds, done.stdout


if __name__ == "__main__":
    command(main)
