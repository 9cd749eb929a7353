"""Warnings point at the line of the user's program."""

import inspect
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from softmargin import Checkpoint, KernelSVC, LinearSVC, LinearSVCCV, NotCertifiedWarning, certify, svm_path

X = np.random.default_rng(0).standard_normal((40, 3))
y = np.arange(40) % 2
SHORT = {"tol": 0.0, "max_iter": 1}
INDEFINITE = {"kernel": "sigmoid", "gamma": 1.0, "coef0": -1.0, "tol": 0.5}


def search(**settings):
    return LinearSVCCV(Cs=[0.1, 1.0], cv=2, coarse_tol=0.0, **SHORT, **settings)


@pytest.mark.parametrize(
    "call",
    [
        lambda: LinearSVC(**SHORT).fit(X, y),
        lambda: make_pipeline(StandardScaler(), LinearSVC(**SHORT)).fit(X, y),
        lambda: GridSearchCV(LinearSVC(**SHORT), {"C": [1.0, 2.0]}, cv=2).fit(X, y),
        lambda: search().fit(X, y),
        lambda: search(n_jobs=2).fit(X, y),
        lambda: svm_path(LinearSVC(**SHORT), X, y, Cs=[0.1, 1.0]),
        lambda: LinearSVC(probability="sigmoid", **SHORT).fit(X, y),
        lambda: KernelSVC(**INDEFINITE).fit(X, y),
        lambda: certify(KernelSVC(**INDEFINITE).fit(X, y), X, y),
        lambda: LinearSVC().fit(X, y, checkpoint=Checkpoint("/dev/null/none")),
    ],
    ids=["fit", "pipeline", "grid", "search", "threads", "path", "probability", "kernel", "certify", "checkpoint"],
)
def test_a_warning_names_the_line_of_the_caller(call):
    with pytest.warns() as caught:
        call()
    here = inspect.getsourcefile(test_a_warning_names_the_line_of_the_caller)
    line = call.__code__.co_firstlineno
    assert {(warning.filename, warning.lineno) for warning in caught} == {(here, line)}


def test_a_thread_without_a_program_warns_all_the_same():
    with pytest.warns(NotCertifiedWarning), ThreadPoolExecutor(1) as pool:
        pool.submit(LinearSVC(**SHORT).fit, X, y).result()
