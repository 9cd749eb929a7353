"""A pass tells how many of its partitions are done: to a listener, and on a progress bar."""

import io

import numpy as np
import pytest
from rich.console import Console

from softmargin import SoftmaxRegression
from softmargin.data import blobs
from softmargin.estimators.posing.fit import LARGEST_SQUARES
from softmargin.losses.entrywise import Logistic
from softmargin.penalties import L2
from softmargin.problems.block_rows import Form
from softmargin.problems.summed import PenalizedSum
from softmargin.run import Stop, solve
from softmargin.run.progress import ProgressBar
from softmargin.solvers import SummedNewton

dask = pytest.importorskip("dask", reason="the extra dask is not installed")
da = pytest.importorskip("dask.array")

X, Y = blobs(120, 3, 2, seed=0, separation=1.0)


def problem(n_parts):
    """Return logistic regression on so many partitions."""
    from softmargin.distributed.rows import checked_rows

    size = len(Y) // n_parts
    dX, dy = da.from_array(X, chunks=(size, 3)), da.from_array(Y, chunks=size)
    rows = checked_rows(dX, dy, None, is_classifier=True, largest=LARGEST_SQUARES)
    return PenalizedSum(rows.blocks(np.ones(2)), Form(Logistic(), 1, 1.0, True), L2(1.0))


def test_every_partition_of_every_pass_is_told_once():
    with dask.config.set(scheduler="threads"):
        sums, heard = problem(4), []
        sums.blocks.watch(lambda *facts: heard.append(facts))
        for _ in range(2):
            sums.scored(np.zeros((4, 1)), 0.0)
        sums.blocks.watch(None)
        sums.scored(np.zeros((4, 1)), 0.0)
    first = heard[0][0]
    assert heard == [(first + i, done, 4) for i in (0, 1) for done in range(5)]


def test_a_bar_shows_partitions_and_changes_no_bit():
    text = io.StringIO()
    bar = ProgressBar(Console(file=text, force_terminal=True, width=120))
    with dask.config.set(scheduler="threads"):
        shown = solve(problem(4), SummedNewton(), stop=Stop(1e-6), watchers=[bar], rng=0)
        quiet = solve(problem(4), SummedNewton(), stop=Stop(1e-6), rng=0)
    assert "4 of 4 partitions" in text.getvalue()
    assert f"gap {shown.certificate.residual:.1e}" in text.getvalue()
    np.testing.assert_array_equal(shown.point.weights, quiet.point.weights)


@pytest.mark.slow
def test_workers_in_other_processes_tell_it_too(capsys):
    distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
    how = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with distributed.LocalCluster(**how) as cluster, distributed.Client(cluster):
        sums, heard = problem(4), []
        sums.blocks.watch(lambda *facts: heard.append(facts))
        sums.scored(np.zeros((4, 1)), 0.0)
        # The last of them may still be under way when their sum is here.
        assert [facts[1:] for facts in heard[:4]] == [(done, 4) for done in range(4)]
        sums.blocks.watch(None)
        SoftmaxRegression(verbose=1).fit(da.from_array(X, chunks=(30, 3)), da.from_array(Y, chunks=30))
    assert "of 4 partitions" in capsys.readouterr().err
