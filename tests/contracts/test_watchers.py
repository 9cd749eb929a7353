"""Watchers and interrupts: called in order, the handler put back, nothing left behind, files written whole."""

import io
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass

import numpy as np
import pytest
from rich.console import Console

from helpers import Counter, Fake, make_problem
from softmargin.core.errors import ModelFileError
from softmargin.data import blobs
from softmargin.problems import MulticlassSVM
from softmargin.run import Status, Stop, solve
from softmargin.run.progress import ProgressBar
from softmargin.run.watchers import EarlyStop, load_checkpoint
from softmargin.solvers import DualBlockDescent


class Diary:
    def __init__(self, name, pages, on_watch=lambda progress: None):
        self.name, self.pages, self.on_watch = name, pages, on_watch

    def begin(self, problem, solver, stop):
        self.pages.append((self.name, "begin"))

    def watch(self, progress):
        self.pages.append((self.name, progress.iteration))
        return self.on_watch(progress)

    def end(self, result):
        self.pages.append((self.name, "end"))


def test_watchers_are_called_in_order_and_may_stop(clock):
    pages = []
    watchers = [Diary("a", pages), Diary("b", pages, lambda progress: progress.iteration == 2)]
    result = solve(Fake(clock=clock), Counter(), watchers=watchers)
    assert result.status is Status.STOPPED
    stages = ("begin", 1, 2, "end")
    assert pages == [(name, stage) for stage in stages for name in "ab"]


def test_early_stop_ends_a_real_run():
    problem = make_problem("blobs")
    result = solve(problem, DualBlockDescent(), stop=Stop(0.0), watchers=[EarlyStop(lambda now: now.iteration == 3)])
    assert (result.status, result.n_iter) == (Status.STOPPED, 3)
    assert result.certificate == problem.certificate(result.point)


@pytest.mark.parametrize("k", [3, 4])
def test_ctrl_c_ends_between_two_steps(k, ctrl_c):
    X, y = blobs(30, 4, k, seed=0)
    problem, pages = MulticlassSVM(X, y), []
    watcher = Diary("a", pages, lambda progress: ctrl_c() if progress.iteration == 5 else None)
    result = solve(problem, DualBlockDescent(), stop=Stop(0.0), watchers=[watcher], rng=0)
    assert (result.status, result.n_iter) == (Status.INTERRUPTED, 5)
    assert result.certificate == problem.certificate(result.point)
    assert pages[-1] == ("a", "end")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("k", [3, 4])
@pytest.mark.parametrize("torn", [2, 3])
def test_interrupt_inside_a_step_returns_a_point_with_its_own_certificate(k, torn):
    """Also where the step before was judged: the certificate belongs to the point that is returned."""

    @dataclass(frozen=True)
    class Torn(DualBlockDescent):
        def step(self, problem, state):
            counts.append(None)
            state = super().step(problem, state)
            if len(counts) == torn:
                raise KeyboardInterrupt
            return state

    counts = []
    X, y = blobs(30, 4, k, seed=0)
    problem = MulticlassSVM(X, y)
    result = solve(problem, Torn(), stop=Stop(0.0), rng=0)
    assert result.status is Status.INTERRUPTED
    assert result.certificate == problem.certificate(result.point)


def test_second_ctrl_c_is_immediate(ctrl_c, clock):
    steps = []

    def twice(t):
        if t == 3:
            ctrl_c()
            ctrl_c()
            steps.append(t)  # never reached

    result = solve(Fake(clock=clock), Counter(on_step=twice))
    assert (result.status, result.n_iter, steps) == (Status.INTERRUPTED, 2, [])


def test_interrupt_before_the_start_is_an_interrupt(ctrl_c, clock):
    @dataclass(frozen=True)
    class Late(Counter):
        def start(self, problem, init, rng):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve(Fake(clock=clock), Late())
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_foreign_handler_of_ctrl_c_is_left_alone(ctrl_c, clock):
    heard = []
    signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    result = solve(Fake(clock=clock), Counter(on_step=lambda t: t == 2 and ctrl_c()), stop=Stop(max_iter=4))
    assert (result.status, heard) == (Status.MAX_ITER, [1])


def test_another_thread_may_solve():
    results, problem = [], make_problem("blobs")
    thread = threading.Thread(target=lambda: results.append(solve(problem, DualBlockDescent(), rng=0)))
    thread.start()
    thread.join()
    assert results[0].status is Status.CONVERGED


def test_progress_bar_shows_the_gap():
    text = io.StringIO()
    bar = ProgressBar(Console(file=text, force_terminal=True, width=120))
    result = solve(make_problem("blobs"), DualBlockDescent(), stop=Stop(1e-3), watchers=[bar], rng=0)
    shown = text.getvalue()
    assert f"gap {result.certificate.residual:.1e}" in shown
    assert "tol 1.0e-03" in shown
    assert "DualBlockDescent" in shown


def test_failed_run_leaves_no_progress_bar_behind(clock):
    """An error in a step reaches the caller, and the bar's thread is gone."""
    bar, before = ProgressBar(Console(file=io.StringIO(), force_terminal=True)), set(threading.enumerate())
    try:
        with pytest.raises(KeyError):
            solve(Fake(clock=clock), Counter(on_step=lambda t: {}[t]), watchers=[bar])
        left = set(threading.enumerate()) - before
        for thread in left:
            thread.join(timeout=1.0)
        assert not any(thread.is_alive() for thread in left)
    finally:
        bar._view.close()


KILLED = """
import os, sys
from dataclasses import dataclass
import numpy as np
from softmargin.core.protocols import Progress
from softmargin.run.schedule import Schedule
from softmargin.run.watchers import Checkpoint

@dataclass
class State:
    alpha: np.ndarray
@dataclass(frozen=True)
class Solver:
    def restore(self, arrays, plain): return State(**arrays)
def progress(t):
    return Progress(None, Solver(), State(np.full(5, float(t))), t, 0.0, None, 0.0, Schedule(0.1, 0.1))

watcher = Checkpoint(sys.argv[1])
watcher.save(progress(1))
os.fsync = lambda descriptor: os.kill(os.getpid(), 9)  # the power goes in the middle of the second write
watcher.save(progress(2))
"""


def test_killed_write_leaves_the_old_checkpoint_whole(tmp_path):
    path = tmp_path / "run"
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL

    @dataclass(frozen=True)
    class Solver:
        def restore(self, arrays, plain):
            return arrays["alpha"]

    assert load_checkpoint(path, Solver())[:3] == (pytest.approx(np.ones(5)), 1, 0.0)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ModelFileError, match=r"truncated|damaged"):
        load_checkpoint(path, Solver())
