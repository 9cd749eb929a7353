"""Ctrl-C in Python: what is asked for ends, and the point that a fit has reached is kept."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from softmargin import DualBlockDescent, LinearModel, LinearSVC, LinearSVCCV, SoftmaxRegression, certify, penalties
from softmargin.core.protocols import Watcher
from softmargin.estimators.posing import fit as posing
from softmargin.run import Status
from softmargin.solvers.linear_svm.block_descent import DualBlockDescentTuning

X = np.random.default_rng(0).standard_normal((60, 4))
y = np.arange(60) % 3


class Interrupted(DualBlockDescent):
    """A solver that presses Ctrl-C in one of its steps on a problem of at least so many samples."""

    press = staticmethod(lambda: None)
    steps, at, least = 0, 3, 0

    def step(self, problem, state):
        type(self).steps += len(problem.y) >= self.least
        if self.steps == self.at:
            self.press()
        return super().step(problem, state)


@pytest.fixture
def solver(ctrl_c, monkeypatch):
    monkeypatch.setattr(Interrupted, "press", staticmethod(ctrl_c))
    monkeypatch.setattr(Interrupted, "steps", 0)
    return Interrupted(tuning=DualBlockDescentTuning(least_visits=0))  # one round a step: three are too few


def test_a_fit_raises_and_keeps_its_point(solver):
    clf = LinearSVC(solver=solver, tol=1e-9, random_state=0)
    with pytest.raises(KeyboardInterrupt, match=r"^after 3 passes, with .*kept .*warm_start=True, fit goes on"):
        clf.fit(X, y)
    assert (clf.status_, clf.n_iter_) == ("interrupted", 3)
    assert clf.certificate_.residual > 1e-9
    assert clf.predict(X).shape == y.shape
    reached = clf.certificate_.primal
    clf.set_params(warm_start=True, max_iter=1000).fit(X, y)
    assert clf.status_ == "converged"
    assert clf.trace_[0].iteration == 0
    assert clf.trace_[0].certificate.primal == pytest.approx(reached)


def test_a_fit_without_a_point_leaves_the_last_model(ctrl_c, monkeypatch):
    clf = LinearSVC().fit(X, y)
    before = vars(clf).copy()
    monkeypatch.setattr(LinearSVC, "_pose", lambda self, data: ctrl_c())
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, y)
    assert vars(clf) == before


def test_a_search_of_several_fits_stops(solver):
    with pytest.raises(KeyboardInterrupt):
        GridSearchCV(LinearSVC(solver=solver, tol=1e-9), {"C": [0.1, 1.0, 10.0]}, cv=2).fit(X, y)
    assert solver.steps == 3


@pytest.mark.parametrize("at", [1, 2, 3, 4])  # of these, one is the last step of a fold
@pytest.mark.parametrize("least", [0, len(y)], ids=["in a fold", "in the last fit"])
def test_a_search_of_ours_stops(solver, monkeypatch, least, at):
    monkeypatch.setattr(Interrupted, "least", least)
    monkeypatch.setattr(Interrupted, "at", at)
    search = LinearSVCCV(Cs=[1.0, 10.0], cv=2, solver=solver, tol=1e-12, coarse_tol=0.5, early_end=False)
    with pytest.raises(KeyboardInterrupt) as caught:
        search.fit(X, y)
    assert solver.steps == solver.at
    assert hasattr(search, "C_") == hasattr(search, "coef_") == (least > 0)
    assert "warm_start" not in str(caught.value)


def test_probabilities_that_are_not_there_are_told(solver, monkeypatch):
    monkeypatch.setattr(Interrupted, "at", 4)
    clf = LinearSVC(solver=solver, probability=True, tol=1e-9, max_iter=2)
    with (
        pytest.warns(match="stopped after 2 passes"),
        pytest.raises(KeyboardInterrupt, match=r"after 2 passes.*without probabilities"),
    ):
        clf.fit(X, y)
    assert clf.predict(X).shape == y.shape


class Press(Watcher):
    """Presses Ctrl-C as a run begins."""

    def __init__(self, ctrl_c):
        self.ctrl_c = ctrl_c

    def begin(self, problem, solver, stop):
        self.ctrl_c()


@pytest.fixture
def first_run(ctrl_c, monkeypatch):
    """Let the first run of a fit see Ctrl-C; collect the results of all."""
    results, real = [], posing.solve

    def solve(problem, solver, **asked):
        more = () if results else (Press(ctrl_c),)
        results.append(real(problem, solver, **{**asked, "watchers": (*asked.get("watchers", ()), *more)}))
        return results[-1]

    monkeypatch.setattr(posing, "solve", solve)
    return results


def test_ctrl_c_while_a_start_is_looked_for_ends_the_fit(first_run):
    clf = SoftmaxRegression(penalty=penalties.MCP(1.0, 3.0), tol=1e-12)
    with pytest.raises(KeyboardInterrupt, match="after 0 passes"):
        clf.fit(X, y)
    assert [result.status for result in first_run] == [Status.INTERRUPTED] * 2


def test_ctrl_c_ends_certify_for_all_classes(first_run):
    model = LinearModel(np.arange(3), np.zeros((3, 4)), np.zeros(3), {})
    with pytest.raises(KeyboardInterrupt):
        certify(model, X, y, C=1.0, multiclass="one_vs_rest", loss="hinge")
    assert sum(result.n_iter for result in first_run) == 0
