"""What the benchmark commands share: the benchmark itself, result files, machine facts, one-line errors.

Importing this module names a Numba cache folder after the sources (an edited struct method would otherwise leave stale
loops of other files in use), so import it before softmargin.
"""

import contextlib
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console

from softmargin.backends.disk_cache import own_folder

FOLDER = Path(__file__).resolve().parents[1]
SOURCES = FOLDER.parent / "src" / "softmargin"
BENCHMARKS = ("multiclass_svm_linear", "multiclass_svm_kernel", "l2_svm", "l1_ball", "trace_ball", "kernel_hinge")
OURS = "softmargin"
OUR_FIT = "softmargin_fit"  # the estimator, where a benchmark has it beside the solver
MULTICLASS = ("weston_watkins", "crammer_singer")
# Rayon is the pool of threads of Clarabel.
THREAD_VARIABLES = tuple(f"{pool}_NUM_THREADS" for pool in ("OMP", "OPENBLAS", "MKL", "NUMBA", "RAYON"))
# What became of a run of one contender.
CONVERGED = "converged"
OVER_CAP = "over cap"
FAILED = "failed"
_CLEAR_HIGH_WATER = "5"  # man 5 proc, clear_refs
_PLAIN_WIDTH = 160  # columns of a table that goes to a file

console = Console(width=None if sys.stdout.isatty() else _PLAIN_WIDTH, highlight=False)
log = Console(stderr=True, highlight=False, soft_wrap=True)


def source_digest() -> str:
    """Return a hash of all sources of the library."""
    contents = (path.read_bytes() for path in sorted(SOURCES.rglob("*.py")))
    return hashlib.sha256(b"".join(contents)).hexdigest()[:16]


if "NUMBA_CACHE_DIR" not in os.environ:
    os.environ["NUMBA_CACHE_DIR"] = str(own_folder("numba", source_digest()))


class UserError(Exception):
    """An error that the user can correct; printed in one line."""


def command(main: Callable[[list[str] | None], int | None]) -> NoReturn:
    """Run a script's ``main``: errors that the user can correct end in one line, Ctrl-C in silence."""
    try:
        code = main(None) or 0
    except KeyboardInterrupt:
        log.print("interrupted; what was measured so far is kept")
        code = 130
    except (UserError, OSError) as problem:
        code = _one_line(problem)
    except Exception as problem:
        if not type(problem).__module__.startswith("softmargin"):
            raise
        code = _one_line(problem)
    sys.exit(code)


def _one_line(problem: Exception) -> int:
    log.print(f"error: {' '.join(str(problem).split())}", markup=False)
    return 2


def load_benchmark(name: str = BENCHMARKS[0]) -> Any:
    """Return benchopt's view of a benchmark folder: its objective, solver and data set classes."""
    try:
        from benchopt.benchmark import Benchmark

        benchmark = Benchmark(FOLDER / "problems" / name)
        benchmark.get_benchmark_objective().is_installed(raise_on_not_installed=True)
    except ImportError as problem:
        raise UserError(f"{problem}. Install what benchmarks need: pip install -e '.[bench]'.") from problem
    return benchmark


def choose(kind: str, wanted: list[str] | None, known: list[str]) -> list[str]:
    """Return the wanted names, all by default; refuse unknown ones."""
    unknown = sorted(set(wanted or []) - set(known))
    if unknown:
        raise UserError(f"unknown {kind}: {', '.join(unknown)}. Choose from {', '.join(known)}.")
    return wanted or known


def dataset_classes(benchmark: Any) -> dict[str, tuple[Any, dict[str, str]]]:
    """Return class and parameters of every real data set, by its name."""
    found = {}
    for cls in benchmark.get_datasets():
        if getattr(cls, "is_real", False):
            names = cls.parameters.get("data", [cls.name])
            found |= {name: (cls, {"data": name} if "data" in cls.parameters else {}) for name in names}
    return found


def dataset_names(benchmark: Any) -> list[str]:
    """List the real data sets."""
    return list(dataset_classes(benchmark))


def load_data(benchmark: Any, name: str, layout: str = "as read") -> dict[str, Any]:
    """Return X, y, X_test, y_test of a real data set, and what else the objective asks for."""
    cls, parameters = dataset_classes(benchmark)[name]
    return cls.get_instance(layout=layout, **parameters).get_data()


def contenders(
    benchmark: Any, patterns: list[str] | None, *, only_peers: bool = False
) -> list[tuple[Any, dict[str, Any]]]:
    """Return (solver class, parameters) of every contender, ours first; of ours the default alone beside peers."""
    from benchopt.utils.parametrized_name_mixin import product_param

    try:
        chosen = benchmark.check_solver_patterns(patterns)
    except Exception as problem:  # benchopt raises click errors, ValueErrors and plain Exceptions for bad patterns
        raise UserError(f"--solver: {problem}") from problem
    found = []
    for cls, parameters in chosen:
        if only_peers and not (cls.name in (OURS, OUR_FIT) or getattr(cls, "is_peer", False)):
            continue
        if not cls.is_installed(quiet=True):
            log.print(f"{cls.name}: not installed, left out")
            continue
        found += [(cls, values) for values in product_param(parameters)]
    return sorted(found, key=lambda pair: pair[0].name != OURS)


def objective_for(benchmark: Any, data: dict[str, Any], **parameters: Any) -> Any:
    """Return the objective of one problem."""
    objective = benchmark.get_benchmark_objective().get_instance(**parameters)
    objective.set_data(**data)
    return objective


def pending_problems(
    names: list[str], log2_C: Sequence[int], multiclass: str, missing: Callable[[str, int], list[Any]]
) -> Iterator[tuple[str, int, Any, list[Any]]]:
    """Yield data, log2 C, objective and missing runs of every linear joint SVM that has any; load no other data."""
    benchmark = load_benchmark()
    for name in names:
        data = None
        for power in log2_C:
            if pending := missing(name, power):
                data = data or load_data(benchmark, name)
                yield name, power, objective_for(benchmark, data, C=2.0**power, multiclass=multiclass), pending


class Records:
    """A file of JSON lines: appended to as soon as something is known, read again after a restart."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.rows: list[dict[str, Any]] = []
        if path is not None and path.exists():
            self.rows = list(_json_lines(path))

    def append(self, row: dict[str, Any]) -> None:
        """Keep a row, on disk at once where there is a file."""
        self.rows.append(row)
        if self.path is None:
            return
        with open(self.path, "a+b") as file:
            if file.tell() > 0:
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":  # the last run was killed in the middle of a line
                    file.write(b"\n")
            file.write(json.dumps(row).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def start(self, **facts: Any) -> None:
        """Write down the machine, and warn if the file was begun on another one or with other code."""
        here = machine_facts() | facts
        first = next((row for row in self.rows if row.get("kind") == "machine"), here)
        for name in ("cpu", "source"):
            if first[name] != here[name]:
                log.print(f"warning: {self.path} was begun with {name} {first[name]}, now it is {here[name]}")
        self.append(here)

    def measurements(self) -> list[dict[str, Any]]:
        """Return the rows that are measurements."""
        return [row for row in self.rows if row.get("kind") == "measurement"]


def _json_lines(path: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            row = json.loads(line)
        except ValueError:
            log.print(f"warning: {path}:{number} is not a whole JSON line; it is left out")
            continue
        if isinstance(row, dict):
            yield row


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Hold BLAS, OpenMP, Numba and Rayon to one thread, also in children; to be called before Numba is imported."""
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    import numpy  # noqa: F401  (threadpoolctl limits only libraries that are already loaded)
    import threadpoolctl

    with threadpoolctl.threadpool_limits(1):
        yield


def memory_of_process(field: str) -> int:
    """Return a field of /proc/self/status in bytes: VmRSS is in use, VmHWM the most that ever was."""
    path = Path("/proc/self/status")
    if not path.exists():
        raise UserError("memory is read from /proc, which this system lacks.")
    for line in path.read_text().splitlines():
        if line.startswith(f"{field}:"):
            return 1024 * int(line.split()[1])
    raise UserError(f"{path} has no {field}.")


def reset_high_water() -> bool:
    """Set VmHWM back to the memory in use; False where the kernel forbids it."""
    try:
        Path("/proc/self/clear_refs").write_text(_CLEAR_HIGH_WATER)
    except OSError:
        return False
    return True


def machine_facts() -> dict[str, Any]:
    """Return facts about the machine, a hash of the library's sources, and their commit."""
    from softmargin import report

    return {"kind": "machine", **report.machine_facts(), "source": source_digest(), "commit": commit()}


def commit() -> str | None:
    """Return the commit of the checkout, None where there is none."""
    asked = ["git", "-C", str(FOLDER), "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() or None
