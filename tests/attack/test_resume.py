"""A run that is stopped at any moment and continued gives the bits of the whole run; one that has ended stays as it is.

The short form stops runs of all solver names after random numbers of steps, in this process. The long form (slow mark)
kills processes: each name SOFTMARGIN_ATTACK_KILLS times (20 unless told), at random moments, by SIGKILL and now and
then by SIGTERM. Problems, seeds and moments come from SOFTMARGIN_ATTACK_SEED.
"""

import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from attack.runs import NAMES, differences, draw, outcome
from softmargin.core.errors import DataError
from softmargin.data import blobs
from softmargin.kernels import Rbf
from softmargin.matrices.gram import Gram
from softmargin.problems import KernelMulticlassSVM
from softmargin.run import Status, Stop, solve
from softmargin.run.watchers import Checkpoint, load_checkpoint
from softmargin.solvers import KernelBlockDescent

COUNT = int(os.environ.get("SOFTMARGIN_ATTACK", "1"))
SEED = int(os.environ.get("SOFTMARGIN_ATTACK_SEED", "0"))
KILLS = int(os.environ.get("SOFTMARGIN_ATTACK_KILLS", "20"))
BUDGETS = ((0.0, 8), (1e-2, 30), (1e-6, 12))  # tolerance and steps


class Stack:
    """A watcher that keeps every checkpoint, as if the process had been killed after that step."""

    def __init__(self, file):
        self.file, self.found = file, {}

    def begin(self, problem, solver, stop):
        pass

    def watch(self, progress):
        self.found[progress.iteration] = self.file.read_bytes()

    def end(self, result):
        pass


def check_resumes(kind, name, seed, file):
    """Stop one run at its first and last step and at a random one; continue each on a problem made anew."""
    make, solver = draw(kind, name, [SEED, seed, 1])
    rng = np.random.default_rng([SEED, seed, 2])
    stop = Stop(*BUDGETS[int(rng.integers(len(BUDGETS)))])
    stack = Stack(file)
    whole = solve(make(), solver, stop=stop, rng=seed, watchers=[Checkpoint(file, every=0.0), stack])
    assert not differences(outcome(whole), outcome(solve(make(), solver, stop=stop, rng=seed)))
    cuts = {1, int(rng.integers(1, whole.n_iter + 1)), whole.n_iter}
    saved = {cut: stack.found[cut] for cut in cuts} | {whole.n_iter: file.read_bytes()}
    cut = int(rng.integers(1, whole.n_iter + 1))
    solve(make(), solver, stop=stop._replace(max_iter=cut), rng=seed, watchers=[Checkpoint(file)])
    for after, content in [*saved.items(), (cut, file.read_bytes())]:
        file.write_bytes(content)
        rest = solve(make(), solver, stop=stop, rng=seed + 1, resume=load_checkpoint(file, solver))
        found = differences(outcome(whole, after), outcome(rest, after))
        assert not found, f"{name} ({kind}), seed {seed}: after {after} of {whole.n_iter} steps {found} differ"


@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_a_resumed_run_has_the_bits_of_the_whole_run(kind, name, tmp_path):
    for seed in range(COUNT):
        check_resumes(kind, name, seed, tmp_path / "run")


# --- kernel matrices -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.05, 0.3, 0.7, 2.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_kernel_matrix_recalls_the_bits_that_were_cached(share, dtype):
    X, _ = blobs(90, 7, 3, seed=0)
    X = X.astype(dtype)
    size = share * X.shape[0] ** 2 * X.itemsize * 1e-6
    rng = np.random.default_rng([SEED, 3])
    one, moments = Gram(Rbf(0.2), X, cache_size=size), []
    alpha = np.zeros((90, 2))
    for _ in range(8):
        index = np.sort(rng.choice(90, int(rng.integers(1, max(2, one.largest_square))), replace=False))
        one.square(index)
        one.add_change(alpha.copy(), index, rng.standard_normal((len(index), 2)) * (rng.random((len(index), 1)) < 0.5))
        moments.append(one.moment)
    change = rng.standard_normal((90, 2))
    other = Gram(Rbf(0.2), X, cache_size=size)
    other.recall(one.memory(moments[-1]))
    np.testing.assert_array_equal(one.square(moments[-1].square), other.square(moments[-1].square))
    np.testing.assert_array_equal(one.scores(change), other.scores(change))
    early = Gram(Rbf(0.2), X, cache_size=size)
    early.recall(one.memory(moments[2]))
    assert early.moment[0] == moments[2].n_calls


def test_a_kernel_matrix_refuses_rows_it_does_not_have():
    gram = Gram(Rbf(0.2), np.eye(4))
    with pytest.raises(DataError, match="4 samples"):
        gram.recall(gram.memory(gram.moment)._replace(rows=np.array([4]), ends=np.array([1])))


# --- the end of a run ------------------------------------------------------------------------------------------------


def test_a_step_that_was_cut_short_is_not_written(tmp_path):
    """A second Ctrl-C ends a run inside a step: the checkpoint before it stays."""
    X, y = blobs(60, 5, 3, seed=3)

    class Cut(KernelBlockDescent):
        def _round(self, problem, state):
            super()._round(problem, state)
            rounds.append(None)
            if len(rounds) == 3:
                state.scores[:] = np.nan
                raise KeyboardInterrupt

    rounds, file = [], tmp_path / "run"
    problem = KernelMulticlassSVM(Gram(Rbf(0.2), X), y)
    result = solve(problem, Cut(), stop=Stop(0.0, 9), rng=0, watchers=[Checkpoint(file, every=0.0)])
    assert (result.status, result.is_torn) == (Status.INTERRUPTED, True)
    assert load_checkpoint(file, Cut()).iteration == 2


# --- what checkpoints cost -------------------------------------------------------------------------------------------


class SlowDisk(Checkpoint):
    """A checkpoint on a clock of its own: a step takes one second, a write as long as it says."""

    def __init__(self, path, clock, price, **settings):
        super().__init__(path, **settings)
        self.clock, self.price, self.writes = clock, price, 0

    def watch(self, progress):
        self.clock.now += 1.0
        super().watch(progress)

    def save(self, progress):
        self.writes += 1
        self.clock.now += self.price


@pytest.mark.parametrize(
    ("price", "every", "budget"),
    [(0.001, 60.0, np.inf), (0.001, 5.0, np.inf), (1.0, 5.0, np.inf), (30.0, 1.0, np.inf), (0.001, 60.0, 200.0)],
)
def test_checkpoints_before_the_last_one_take_at_most_a_tenth_of_the_time(price, every, budget, tmp_path, monkeypatch):
    class Clock:
        now = 0.0

        def perf_counter(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr("softmargin.run.watchers.time", clock)
    X, y = blobs(30, 3, 2, seed=0)
    watcher = SlowDisk(tmp_path / "run", clock, price, every=every)
    problem, steps = KernelMulticlassSVM(Gram(Rbf(0.2), X), y), 200
    solve(problem, KernelBlockDescent(working_set=False), stop=Stop(0.0, steps, budget), watchers=[watcher])
    earlier = watcher.writes - 1
    assert earlier * price <= 0.1 * clock.now or earlier == 1  # nobody knows what the first one costs
    assert earlier >= min(steps // min(every, 0.1 * budget) - 1, 0.1 * steps / price - 6)


def test_a_process_that_is_asked_to_end_writes_its_state_first(tmp_path):
    running = process(
        "kernel hinge", "block_frank_wolfe", [0, 1, 1], (0.0, 10**7), tmp_path / "run", resume=False, every=1e9
    )
    assert running.stdout.readline() == "ready\n"
    time.sleep(0.3)
    running.send_signal(signal.SIGTERM)
    running.communicate()
    assert running.returncode == -signal.SIGTERM
    _, solver = draw("kernel hinge", "block_frank_wolfe", [0, 1, 1])
    assert load_checkpoint(tmp_path / "run", solver).iteration > 0


# --- killed processes ------------------------------------------------------------------------------------------------

FIT = """
import pickle, sys
from attack.runs import draw, outcome
from softmargin.run import Stop, solve
from softmargin.run.watchers import Checkpoint, load_checkpoint

kind, name, seeds, stop, file, resume, every = pickle.loads(bytes.fromhex(sys.argv[1]))
make, solver = draw(kind, name, seeds)
saved = load_checkpoint(file, solver) if resume else None
print("ready", flush=True)
result = solve(
    make(), solver, stop=Stop(*stop), rng=None if resume else 7, watchers=[Checkpoint(file, every=every)], resume=saved
)
print(pickle.dumps((outcome(result), result.trace[0].iteration)).hex(), flush=True)
"""


def process(kind, name, seeds, stop, file, *, resume, every=0.0):
    """Start a fit in a process of its own."""
    job = pickle.dumps((kind, name, seeds, stop, str(file), resume, every)).hex()
    paths = [str(Path(__file__).parents[1]), *sys.path]
    return subprocess.Popen(
        [sys.executable, "-c", FIT, job],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )


def answer(running):
    text, _ = running.communicate()
    assert running.returncode == 0
    return pickle.loads(bytes.fromhex(text.split()[-1]))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_a_killed_process_is_continued_to_the_same_bits(kind, name, tmp_path):
    rng = np.random.default_rng([SEED, 4])
    file = tmp_path / "run"
    for kill in range(KILLS):
        seeds, stop = [SEED, kill, 5], BUDGETS[kill % len(BUDGETS)]
        running = process(kind, name, seeds, stop, file, resume=False)
        assert running.stdout.readline() == "ready\n"
        began = time.perf_counter()
        whole, _ = answer(running)
        seconds = time.perf_counter() - began
        file.unlink()
        running = process(kind, name, seeds, stop, file, resume=False)
        running.stdout.readline()
        time.sleep(float(rng.uniform(0.0, seconds)))
        running.send_signal(signal.SIGKILL if kill % 4 else signal.SIGTERM)
        running.communicate()
        if not file.exists():
            continue  # killed before the first step: there is nothing to continue
        rest, first = answer(process(kind, name, seeds, stop, file, resume=True))
        late = [row for row in whole[-1] if row[0] >= first]
        assert not differences((*whole[:-1], late), rest), f"{name} ({kind}), kill {kill}"
        file.unlink()
