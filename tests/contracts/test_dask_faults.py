"""What goes wrong on a cluster: too little memory for a partition, for all rows, and a client that is killed."""

import os
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from softmargin import LinearSVC, SoftmaxRegression
from softmargin.core.errors import DataError
from softmargin.data import blobs, read_dask
from softmargin.run.watchers import Checkpoint

dask = pytest.importorskip("dask", reason="the extra dask is not installed")
da = pytest.importorskip("dask.array")

X, Y = blobs(6000, 8, 3, seed=0, separation=1.0)
MEMORY = 450_000_000  # bytes of a worker; a process that has imported what tasks need takes about half of it


def cluster(n_workers=2, memory=MEMORY):
    """Return a cluster of processes; the test skips where Dask's scheduler is not installed."""
    distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
    return distributed.LocalCluster(
        n_workers=n_workers, threads_per_worker=1, memory_limit=memory, dashboard_address=":0"
    )


def test_a_task_without_memory_names_the_size_of_its_partition():
    def greedy(block):
        raise MemoryError("no room")

    dX = da.from_array(X, chunks=(3000, 8)).map_blocks(greedy, dtype=float, meta=np.empty((0, 8)))
    with (
        dask.config.set(scheduler="synchronous"),
        pytest.raises(DataError, match=r"3000 rows and 8 columns \(0.192 MB\)"),
    ):
        LinearSVC().fit(dX, da.from_array(Y, chunks=3000))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_workers_out_of_memory_name_the_size_of_the_partition():
    pytest.importorskip("distributed", reason="the extra dask is not installed")  # before settings change
    rows, width = 100_000, 1000  # 800 MB
    dX = da.random.default_rng(0).random((2 * rows, width), chunks=(rows, width))
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        cluster() as workers,
        workers.get_client(),
        pytest.raises(DataError, match=r"partition of 100000 rows and 1000 columns \(800 MB\).*smaller partitions"),
    ):
        LinearSVC().fit(dX, da.zeros(2 * rows, chunks=rows))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Write rows that two workers cannot hold; return the pattern of their files, and how many bytes they are."""
    folder, rng, total, i = tmp_path_factory.mktemp("rows"), np.random.default_rng(0), 0, 0
    w = np.sin(np.arange(28))
    while total <= 2.2 * MEMORY:
        part = rng.standard_normal((150_000, 28))
        np.save(folder / f"X-{i:02}.npy", part)
        np.save(folder / f"X-{i:02}.y.npy", (part @ w + 2.0 * rng.standard_normal(len(part)) > 0.0).astype(np.int8))
        total, i = total + part.nbytes, i + 1
    return folder / "X-*.npy", total


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.slow
@pytest.mark.parametrize("is_kept", [False, True], ids=["read again", "spilled to disk"])
def test_rows_beyond_memory_are_fitted_in_bounded_memory(files, is_kept):
    pattern, total = files
    with cluster() as workers, workers.get_client() as client:
        before, alive = peak(), sorted(client.run(os.getpid).values())
        dX, dy = read_dask(pattern)
        if is_kept:
            dX, dy = dask.persist(dX, dy)
        model = SoftmaxRegression(tol=1e-4).fit(dX, dy)
        assert model.certificate_.residual <= 1e-4
        assert peak() - before < MEMORY / 2
        if not is_kept:  # how much of what it keeps Dask leaves in memory is its own affair
            assert sorted(client.run(os.getpid).values()) == alive  # none was killed for its memory
            assert max(client.run(peak).values()) < MEMORY < total / 2


CLIENT = """
import sys
import dask.array as da
from distributed import Client
from softmargin import LinearSVC
from softmargin.data import blobs
from softmargin.run.watchers import Checkpoint
X, Y = blobs(6000, 8, 3, seed=0, separation=1.0)
with Client(sys.argv[1]):
    fit = LinearSVC(tol=1e-3).fit
    fit(da.from_array(X, chunks=(1500, 8)), da.from_array(Y, chunks=1500), checkpoint=Checkpoint(sys.argv[2], every=0))
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_client_that_is_killed_goes_on_from_its_checkpoint_to_the_same_bits(tmp_path):
    file = tmp_path / "run.ckpt"
    dX, dy = da.from_array(X, chunks=(1500, 8)), da.from_array(Y, chunks=1500)
    with cluster(memory="1GB") as workers, workers.get_client():
        undisturbed = LinearSVC(tol=1e-3).fit(dX, dy)
        running = subprocess.Popen([sys.executable, "-c", CLIENT, workers.scheduler_address, file])
        while not file.exists():
            assert running.poll() is None, "the client ended before its first checkpoint"
            time.sleep(0.002)
        os.kill(running.pid, signal.SIGKILL)
        assert running.wait() == -signal.SIGKILL
        found = LinearSVC(tol=1e-3).fit(dX, dy, checkpoint=Checkpoint(file, every=0))
    np.testing.assert_array_equal(found.coef_, undisturbed.coef_)
    assert found.certificate_ == undisturbed.certificate_
    assert found.n_iter_ == undisturbed.n_iter_
