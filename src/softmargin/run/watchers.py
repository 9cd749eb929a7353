"""Watchers: an early stop, a checkpoint on disk; what people see is in ``progress.py``.

EarlyStop(lambda progress: ...)   stop when a condition holds
Checkpoint(path, every=60)        the solver's state on disk, written whole or not at all
"""

import dataclasses
import math
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from softmargin.core.archive import read_archive, write_archive
from softmargin.core.certificate import Certificate
from softmargin.core.errors import ModelFileError, SoftmarginError
from softmargin.core.files import blaming
from softmargin.core.protocols import Progress, Watcher
from softmargin.core.warn import warn_caller
from softmargin.matrices.gram import GramMemory
from softmargin.run.best import packed_point
from softmargin.run.restored import check_restored, kernel_matrices
from softmargin.run.schedule import Schedule

__all__ = ["Checkpoint", "CheckpointTuning", "EarlyStop", "SavedState", "load_checkpoint"]

_KIND = "checkpoint"
_KERNEL = "kernel:"  # before the names of arrays of kernel matrices
_KERNEL_ARRAYS = ("rows", "ends", "square")
_BEST = "best:"  # before those of the best point


class EarlyStop(Watcher):
    """Stop when ``condition(progress)`` is true."""

    def __init__(self, condition: Callable[[Progress], bool]) -> None:
        self._condition = condition

    def watch(self, progress: Progress) -> bool:
        """Evaluate the condition."""
        return bool(self._condition(progress))


class SavedState(NamedTuple):
    """The content of a checkpoint, for ``solve(..., resume=...)``."""

    state: Any
    iteration: int
    seconds: float
    schedule: Schedule
    fingerprint: str  # of the problem
    is_judged: bool  # the certificate of the state was evaluated: the run may have ended with it
    memories: list[GramMemory]  # of the kernel matrices
    # The best point by its names, and its certificate, unless it is that of the state.
    best: tuple[dict[str, Any], Certificate] | None = None


class CheckpointTuning(NamedTuple):
    """How much checkpoints may cost, and how much work may be lost; by hand."""

    share: float = 0.1  # of the time of the run that writing may take
    lost: float = 0.1  # of a budget of seconds: the step that exceeds it is given up, and its state is of no use


class Checkpoint:
    """Write the solver's state to ``path`` every ``every`` seconds and at the end.

    Of a budget of seconds, no more than about a tenth is lost. Where writing is slow, it is done less often: until the
    last one, checkpoints take at most a tenth of the time of the run. ``every=0`` writes after each step, whatever it
    costs. When a checkpoint is written has no influence on the run. A write that fails (a full disk) is reported, by
    default as a warning, and the run continues.

    Where the process is asked to end (SIGTERM, in the main thread of a program without a handler of its own), the state
    after the current step is written first; a second request is immediate.

    Examples
    --------
    >>> from softmargin import Checkpoint, LinearSVC
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
    >>> clf = LinearSVC(random_state=0).fit(X, y, checkpoint=Checkpoint("run.ckpt", every=10.0))
    >>> clf.status_
    'converged'
    """

    tuning = CheckpointTuning()

    def __init__(self, path: str | Path, *, every: float = 60.0, report: Callable[[str], None] | None = None) -> None:
        self.path = Path(path)
        self.every = every
        self._report = report or (lambda text: warn_caller(text, RuntimeWarning))
        self._fingerprint: Future[str] | None = None

    def begin(self, problem: Any, solver: Any, stop: Any) -> None:
        """Start the clock."""
        self._began = self._saved_at = time.perf_counter()
        self._interval = min(self.every, self.tuning.lost * stop.max_seconds)
        # It reads all data: the run need not wait for it.
        with_one = ThreadPoolExecutor(1)
        self._fingerprint = with_one.submit(problem.fingerprint)
        with_one.shutdown(wait=False)
        self._spent = self._dearest = 0.0
        self._last: Progress | None = None
        self._written = -1
        self._is_ending = False
        is_main = threading.current_thread() is threading.main_thread()  # only it receives signals
        self._handles = is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        if self._handles:
            signal.signal(signal.SIGTERM, self._on_terminate)

    def _on_terminate(self, signum: int, frame: Any) -> None:
        if self._is_ending:
            _terminate()
        self._is_ending = True

    def watch(self, progress: Progress) -> None:
        """Save if ``every`` seconds have passed, and the run was long enough to bear the cost."""
        self._last = progress
        now = time.perf_counter()
        if self._is_ending:
            self._timed_save(progress)
            _terminate()
        bears = self._spent + self._dearest <= self.tuning.share * (now - self._began)
        if self.every == 0 or (now - self._saved_at >= self._interval and bears):
            self._timed_save(progress)

    def end(self, result: Any) -> None:
        """Save the last state, unless it is on disk already, the run raised, or a step was cut short."""
        last = self._last
        is_whole = result is not None and not result.is_torn
        if last is not None and is_whole and last.iteration == result.n_iter != self._written:
            self._timed_save(last)
        if self._handles:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if self._is_ending:
            _terminate()

    def _timed_save(self, progress: Progress) -> None:
        started = time.perf_counter()
        self.save(progress)
        self._saved_at = time.perf_counter()
        cost = self._saved_at - started
        self._spent, self._dearest = self._spent + cost, max(self._dearest, cost)
        self._written = progress.iteration

    def save(self, progress: Progress) -> None:
        """Write the state: arrays as they are, everything else as JSON."""
        arrays, plain = _flattened(progress.state)
        kernels = [
            gram.memory(at) for gram, at in zip(kernel_matrices(progress.problem), progress.moments, strict=True)
        ]
        for i, memory in enumerate(kernels):
            arrays.update({f"{_KERNEL}{i}.{name}": getattr(memory, name) for name in _KERNEL_ARRAYS})
        point, certificate = (None, None) if progress.best is None else progress.best
        arrays.update({_BEST + name: value for name, value in packed_point(point)})
        meta = {
            "solver": _settings(progress.solver),
            "state": plain,
            "iteration": progress.iteration,
            "seconds": progress.seconds,
            "schedule": dataclasses.asdict(progress.schedule),
            "problem": "" if self._fingerprint is None else self._fingerprint.result(),
            "is_judged": progress.is_judged,
            "best": None if certificate is None else list(certificate),
            "kernels": [[memory.square_after, memory.ordered_after] for memory in kernels],
        }
        try:
            write_archive(self.path, kind=_KIND, arrays=arrays, meta=meta)
        except SoftmarginError as trouble:
            self._report(f"no checkpoint: {trouble} The run continues.")


def _terminate() -> None:
    """End the process as it was asked to."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


def _flattened(state: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arrays of a state, and its other fields; those in a list of states are named "0.alpha", "1.alpha"."""
    arrays: dict[str, Any] = {}
    plain: dict[str, Any] = {}
    for field in dataclasses.fields(state):
        if not field.init:
            continue  # scratch
        value = getattr(state, field.name)
        if isinstance(value, np.ndarray):
            arrays[field.name] = value
        elif isinstance(value, list) and any(map(dataclasses.is_dataclass, value)):
            for c, part in enumerate(value):
                for kept, found in zip((arrays, plain), _flattened(part), strict=True):
                    kept.update({f"{c}.{name}": item for name, item in found.items()})
        else:
            plain[field.name] = value
    return arrays, plain


def _settings(solver: Any) -> dict[str, Any]:
    """Return the name and the fields of a solver, and of the solvers in its fields; tuning where it is changed."""
    fields = {
        field.name: getattr(solver, field.name)
        for field in dataclasses.fields(solver)
        if field.compare and (field.name != "tuning" or getattr(solver, field.name) != field.default)
    }
    return {"name": type(solver).__name__, **{name: _plain(value) for name, value in fields.items()}}


def _plain(value: Any) -> Any:
    """Return a setting as JSON holds it."""
    if dataclasses.is_dataclass(value):
        return _settings(value)
    return value._asdict() if hasattr(value, "_asdict") else value


def load_checkpoint(path: str | Path, solver: Any) -> SavedState:
    """Read a checkpoint written by the same solver with the same settings."""
    arrays, meta = read_archive(path, kind=_KIND)
    with blaming(path, advice="Or another version wrote it. Start afresh."):
        if meta["solver"] != _settings(solver):
            raise ModelFileError(
                f"{path} was written by {meta['solver']}, not by {_settings(solver)}; "
                "go on with the solver that wrote it, or start afresh with another file."
            )
        memories = []
        for i, (square_after, ordered_after) in enumerate(meta["kernels"]):
            rows, ends, square = (arrays.pop(f"{_KERNEL}{i}.{name}") for name in _KERNEL_ARRAYS)
            memories.append(GramMemory(rows, ends, square, int(square_after), int(ordered_after)))
        names = [name for name in arrays if name.startswith(_BEST)]
        point = {name.removeprefix(_BEST): arrays.pop(name) for name in names}
        best = None if meta["best"] is None else (point, Certificate(*meta["best"]))
        state = solver.restore(arrays, meta["state"])
        schedule = Schedule(**meta["schedule"])
        check_restored(schedule, Schedule(0.0, 0.0), "schedule")
        iteration, seconds, problem = int(meta["iteration"]), float(meta["seconds"]), str(meta["problem"])
        # The schedule doubles next_pass until it lies ahead.
        if not (iteration >= 0 and 0 <= seconds < math.inf and schedule.next_pass >= 1):
            raise ValueError(f"pass {iteration} after {seconds} seconds, {schedule}")
        return SavedState(state, iteration, seconds, schedule, problem, bool(meta["is_judged"]), memories, best)
