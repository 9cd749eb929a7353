"""A cluster of real workers on this machine: a fit through it, and workers that are killed."""

import os
import signal
import threading

import numpy as np
import pytest

from softmargin import LinearSVC, SoftmaxRegression
from softmargin.core.errors import DataError
from softmargin.data import blobs

distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
da = pytest.importorskip("dask.array")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
X, Y = blobs(6000, 8, 3, seed=0, separation=1.0)


def client():
    """Return a client of two workers."""
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, memory_limit="1GB", dashboard_address=":0", worker_class=distributed.Nanny
    )
    return distributed.Client(cluster)


@pytest.mark.parametrize("model", [SoftmaxRegression(tol=1e-6), LinearSVC(tol=1e-3)], ids=["softmax", "hinge"])
def test_killed_workers_change_no_bit(model):
    dX, dy = da.from_array(X, chunks=(1500, 8)), da.from_array(Y, chunks=1500)
    local = type(model)(**model.get_params()).fit(dX, dy).coef_
    with client() as here:
        undisturbed = type(model)(**model.get_params()).fit(dX, dy)
        np.testing.assert_allclose(undisturbed.coef_, local, rtol=1e-9, atol=1e-12)
        for delay in (0.05, 0.5):
            pids = list(here.run(os.getpid).values())
            timer = threading.Timer(delay, os.kill, (pids[0], signal.SIGKILL))
            timer.start()
            found = type(model)(**model.get_params()).fit(dX, dy)
            timer.join()
            here.wait_for_workers(2)
            np.testing.assert_array_equal(found.coef_, undisturbed.coef_)
            assert found.certificate_ == undisturbed.certificate_
        predicted = found.predict(dX)
        np.testing.assert_array_equal(predicted.compute(), found.predict(X))
        here.cluster.close()


def test_a_partition_that_kills_its_workers_is_an_error_that_says_so():
    def deadly(block):
        os._exit(1)

    with client() as here:
        dX = da.from_array(X, chunks=(3000, 8)).map_blocks(deadly, dtype=float, meta=np.empty((0, 8)))
        with pytest.raises(DataError, match="smaller partitions"):
            LinearSVC().fit(dX, da.from_array(Y, chunks=3000))
        here.cluster.close()
