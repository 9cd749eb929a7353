"""The fits of ``certified.py``: each in a process of its own, several at a time."""

import contextlib
import math
import multiprocessing as mp
import multiprocessing.connection
import os
import resource
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numba.core import event

from hard.cells import OURS, SETTINGS, Cell, Sets, estimator, small
from softmargin import certify
from tools.common import FAILED, log

_OVERTIME = 3.0  # budgets after which a fit of ours is ended by force; it may have to compile
_JUDGING = 5.0  # budgets after which the judge of a peer is
_ENDED = "ended by force"
_JUDGE_SHARE = 0.1  # of tol: how tight the bound for a peer's model is
_HARD_TOL, _PASSES, _COMPILE_SECONDS = 1e-9, 300, 300.0  # of the small fits that compile
_FORK = mp.get_context("fork")  # children have the data and the compiled code of their parent


class Job(NamedTuple):
    """A fit under way."""

    cell: Cell
    process: Any
    results: Any


def measured(cells: list[Cell], sets: Sets, budget: float, jobs: int) -> Iterator[dict[str, Any]]:
    """Yield the measurement of every cell as soon as it is there, ``jobs`` of them at a time."""
    compile_all(cells, jobs)
    queue, done = list(reversed(cells)), 0
    running: list[Job] = []
    while queue or running:
        while queue and len(running) < jobs:
            cell = queue.pop()
            data = sets.of(cell.data, cell.form, has_kernel=SETTINGS[cell.setting].has_kernel)
            if data is None:
                done += 1
                yield {"kind": "left out", **cell._asdict()}
            else:
                running.append(start(cell, _work, data, budget))
        for job in ended(running):
            row, done = finish(job), done + 1
            gap = row["status"] if row["residual"] is None else f"gap {row['residual']:.1e}"
            log.print(f"{done}/{len(cells)} {' '.join(map(str, job.cell))}: {gap}, {row['seconds']:.2f} s")
            yield row


def compile_all(cells: list[Cell], jobs: int) -> None:
    """Compile what the fits need: in processes side by side, which fill the cache on disk, then here, from that."""
    kinds = list({(cell.setting, cell.C): cell for cell in cells if cell.contender == OURS}.values())
    waiting, running = list(kinds), []
    while jobs > 1 and (waiting or running):
        while waiting and len(running) < jobs:
            running.append(start(waiting.pop(), _compile))
        for job in ended(running):
            finish(job)
    for cell in kinds:
        _compile(cell)


def start(cell: Cell, work: Callable[..., Any], *arguments: Any) -> Job:
    """Start a process for a cell, which sends what ``work`` returns."""
    mine, theirs = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=_send, args=(theirs, work, cell, *arguments))
    process.start()
    theirs.close()
    return Job(cell, process, mine)


def ended(running: list[Job]) -> list[Job]:
    """Wait until a process has sent something or has ended; take those out of the list."""
    ready = mp.connection.wait([job.results for job in running]) if running else []
    found = [job for job in running if job.results in ready]
    running[:] = [job for job in running if job.results not in ready]
    return found


def finish(job: Job) -> dict[str, Any]:
    """Return what a process has sent; one that ended without a word was ended by its limit, or by the system."""
    try:
        row = job.results.recv()
    except EOFError:
        row = {"status": _ENDED, "seconds": math.inf, "residual": None}
    job.process.join()
    job.results.close()
    return {"kind": "measurement", **job.cell._asdict(), **row}


def _send(results: Any, work: Callable[..., Any], *arguments: Any) -> None:
    """Send what the work returns, or how it failed."""
    try:
        found = work(*arguments)
    except Exception as problem:  # a table of all cells has a line for this one, too
        found = {"status": FAILED, "seconds": 0.0, "residual": None, "error": f"{problem!r:.300}"}
    results.send(found)
    results.close()
    os._exit(0)  # what the parent has open is the parent's


def _compile(cell: Cell) -> dict[str, Any]:
    """Fit small data to a tolerance that is hard to reach, so that what ``auto`` falls back on is compiled too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for X, y in small():
            with contextlib.suppress(Exception):  # its own fits will say so
                estimator(cell._replace(tol=_HARD_TOL), _COMPILE_SECONDS).set_params(max_iter=_PASSES).fit(X, y)
    return {}


def _work(cell: Cell, data: tuple[Any, Any], budget: float) -> dict[str, Any]:
    """Fit a cell; return seconds, status and the proven gap."""
    time.perf_counter = time.process_time  # the clock of max_seconds, in this process
    warnings.simplefilter("ignore")
    X, y = data
    model, compiled = estimator(cell, budget), Compiled()
    while True:
        limit(time.process_time() + (_OVERTIME if cell.contender == OURS else 1.0) * budget)
        began = time.process_time()
        model.fit(X, y)
        seconds = time.process_time() - began
        if not compiled.since():
            break
    limit(time.process_time() + _JUDGING * budget)
    if cell.contender == OURS:
        certificate, status = model.certificate_, str(model.status_)
    else:
        certificate, status = certify(model, X, y, bound_tol=_JUDGE_SHARE * cell.tol, max_seconds=budget), "fitted"
    proven = {name: float(getattr(certificate, name)) for name in ("residual", "primal", "bound")}
    shape = {"rows": X.shape[0], "columns": X.shape[1], "classes": len(model.classes_)}
    return {"status": status, "seconds": seconds, "iterations": int(np.max(model.n_iter_)), **proven, **shape}


class Compiled(event.Listener):
    """Whether Numba has compiled something."""

    def __init__(self) -> None:
        self._has = False
        event.register("numba:compile", self)

    def on_start(self, event: Any) -> None:
        """Take note."""
        self._has = True

    def on_end(self, event: Any) -> None:
        """Do nothing: the start was noted."""

    def since(self) -> bool:
        """Say whether it was asked to since the last call."""
        has, self._has = self._has, False
        return has


def limit(seconds: float) -> None:
    """End this process when it has used so many seconds of the processor."""
    most = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), most))
