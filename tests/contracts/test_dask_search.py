"""A search whose fits are tasks of Dask's workers: scores and choice are those of as many threads here."""

import joblib
import numpy as np
import pytest
from sklearn.metrics import accuracy_score, make_scorer

import softmargin as sm
from softmargin.data import blobs

distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
X, Y = blobs(90, 3, 3, seed=2, separation=1.0)
NAMES = np.array(["a", "b", "c"])[Y]
WEIGHTS = np.random.default_rng(0).uniform(0.5, 2.0, len(Y))
SEARCHES = {
    "linear": sm.LinearSVCCV([0.01, 1.0, 100.0], cv=3, random_state=0),
    "softmax": sm.SoftmaxRegressionCV([0.1, 1.0], l1_ratios=[0.0, 1.0], cv=3, scoring="neg_log_loss", random_state=0),
    "kernel": sm.KernelSVCCV([0.1, 1.0], gammas=[0.1, 1.0], cv=3, random_state=0),
    "ball": sm.L1BallClassifierCV([0.5, 2.0], cv=3, random_state=0),
    "a function": sm.LinearSVCCV(
        [0.1, 1.0], cv=2, random_state=0, scoring=make_scorer(lambda y, p, **own: accuracy_score(y, p, **own))
    ),
}


def checked(name):
    """Fit here by two threads, and by two of Dask."""
    settings = SEARCHES[name].get_params()
    here = type(SEARCHES[name])(**{**settings, "n_jobs": 2}).fit(X, NAMES, WEIGHTS)
    with joblib.parallel_config(backend="dask"):
        there = type(SEARCHES[name])(**settings).fit(X, NAMES, WEIGHTS)
    np.testing.assert_array_equal(there.scores_, here.scores_)
    np.testing.assert_array_equal(there.residuals_, here.residuals_)
    assert there.mean_score_ == here.mean_score_
    assert there.certificate_.primal == pytest.approx(here.certificate_.primal, rel=1e-3)


@pytest.fixture(scope="module")
def _threads():
    how = {"processes": False, "n_workers": 1, "threads_per_worker": 2, "dashboard_address": ":0"}
    with distributed.LocalCluster(**how) as cluster, distributed.Client(cluster):
        yield


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("name", ["linear", "kernel"])
def test_scores_are_those_of_threads(name):
    checked(name)


@pytest.mark.usefixtures("_threads")
def test_an_error_of_a_fit_is_the_error_of_the_search():
    def refuses(*_):
        raise RuntimeError("not to be scored")

    search = sm.LinearSVCCV([1.0], cv=2, scoring=refuses)
    with joblib.parallel_config(backend="dask"), pytest.raises(RuntimeError, match="not to be scored"):
        search.fit(X, NAMES)


@pytest.mark.slow
def test_scores_are_those_of_processes():
    how = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with distributed.LocalCluster(**how) as cluster, distributed.Client(cluster):
        for name in SEARCHES:
            checked(name)
