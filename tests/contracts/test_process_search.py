"""A search whose fits are tasks of processes of this machine: scores and choice are those of as many threads."""

import joblib
import numpy as np
import pytest

import softmargin as sm
from softmargin.data import blobs
from softmargin.distributed.folds import Processes, search_workers

X, Y = blobs(90, 3, 3, seed=2, separation=1.0)
SEARCH = {"Cs": [0.01, 1.0, 100.0], "cv": 3, "random_state": 0}


def test_scores_are_those_of_threads():
    here = sm.LinearSVCCV(**SEARCH, n_jobs=2).fit(X, Y)
    with joblib.parallel_config(n_jobs=2):
        there = sm.LinearSVCCV(**SEARCH).fit(X, Y)
    np.testing.assert_array_equal(there.scores_, here.scores_)
    np.testing.assert_array_equal(there.residuals_, here.residuals_)
    assert there.certificate_.primal == pytest.approx(here.certificate_.primal, rel=1e-3)


def test_an_error_of_a_fit_is_the_error_of_the_search():
    def refuses(*_):
        raise RuntimeError("not to be scored")

    with joblib.parallel_config(n_jobs=2), pytest.raises(RuntimeError, match="not to be scored"):
        sm.LinearSVCCV([1.0], cv=2, scoring=refuses).fit(X, Y)


@pytest.mark.parametrize(
    ("settings", "n"),
    [({}, None), ({"n_jobs": 1}, None), ({"backend": "threading", "n_jobs": 4}, None), ({"n_jobs": 3}, 3)],
)
def test_processes_are_used_where_joblib_is_told_to(settings, n):
    with joblib.parallel_config(**settings):
        workers = search_workers()
    assert (None if workers is None else workers.n_at_once) == n
    assert workers is None or isinstance(workers, Processes)


def test_few_tasks_share_the_threads_that_are_left():
    with joblib.parallel_config(n_jobs=2):
        found = Processes(5).spread(_threads_of, [0], [_Item(0), _Item(0)])
    assert found == [3, 2]


class _Item:
    def __init__(self, row):
        self.row = row


def _threads_of(value, item):
    from softmargin.core.threads import n_threads

    return n_threads()
