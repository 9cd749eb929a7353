"""What people look at: plots hold the numbers they show, progress works where it is shown."""

import io
import sys
import types

import numpy as np
import pytest

import softmargin as sm
from softmargin.core.errors import DataError, SoftmarginError
from softmargin.data import blobs
from softmargin.plots import MarginDisplay
from softmargin.run import Stop, solve
from softmargin.run.progress import ProgressBar

X, y = blobs(60, 4, 3, seed=2, separation=1.0)


@pytest.fixture
def ax():
    figure = pytest.importorskip("matplotlib.figure").Figure()
    return figure.subplots()


def test_a_gap_is_that_of_the_trace(ax):
    clf = sm.LinearSVC(random_state=0, tol=1e-6).fit(X, y)
    columns = clf.trace_.columns()
    for display, by in ((clf.plot_gap(ax), "seconds"), (clf.trace_.plot(ax, by="iteration"), "iteration")):
        np.testing.assert_array_equal(display.line_.get_xdata(), columns[by])
        np.testing.assert_allclose(display.line_.get_ydata(), np.maximum(columns["residual"], 1e-17))
    assert display.ax_ is ax
    assert ax.get_legend().get_texts()[0].get_text() == "LinearSVC"
    with pytest.raises(sm.IncompatibleError, match="choose one of seconds, iteration"):
        clf.plot_gap(ax, by="hours")


@pytest.mark.parametrize("n_classes", [2, 3])
def test_margins_below_zero_are_errors(ax, n_classes):
    rows = y < n_classes
    clf = sm.LinearSVC(random_state=0).fit(X[rows], y[rows])
    display = clf.plot_margins(X[rows], y[rows], ax)
    np.testing.assert_array_equal(display.margins > 0.0, clf.predict(X[rows]) == y[rows])
    assert display.counts_.sum() == rows.sum()
    with pytest.raises(DataError, match="does not know"):
        clf.plot_margins(X[rows], y[rows] + 7, ax)
    confusion = clf.plot_confusion(X[rows], y[rows], ax)
    assert confusion.confusion_matrix.trace() == (clf.predict(X[rows]) == y[rows]).sum()


@pytest.mark.parametrize("margins", [[0.3, 0.3 + 1e-16, 0.3 - 1e-16], [0.0, 0.0], [1e30, 1e30 * (1.0 + 1e-15)], []])
def test_margins_that_differ_by_rounding_are_drawn(ax, margins):
    assert MarginDisplay(margins).plot(ax).counts_.sum() == len(margins)


def test_paths_show_the_largest_weights_or_support_vectors(ax):
    path = sm.svm_path(sm.LinearSVC(random_state=0), X, y, Cs=[0.01, 1.0])
    display = path.plot(ax, n_features=2, feature_names=list("a$cd"))
    sizes = np.linalg.norm(path.coefs, axis=1)
    np.testing.assert_allclose(np.stack(list(display.curves.values())), sizes[:, np.argsort(-sizes.max(axis=0))[:2]].T)
    ax.figure.canvas.draw()  # a name with a dollar is no formula
    softmax = sm.softmax_path(X, y, Cs=3, sparse=True)
    assert [len(line.get_xdata()) for line in softmax.plot(ax, n_features=1).lines_] == [3]
    two = y < 2
    radii = sm.radius_path(sm.L1BallClassifier(1.0, random_state=0), X[two], y[two], radii=[0.1, 1.0]).plot(ax)
    assert radii.ax_.get_xlabel() == "radius"
    kernels = sm.svm_path(sm.KernelSVC(random_state=0), X, y, Cs=[0.01, 1.0])
    np.testing.assert_array_equal(
        kernels.plot(ax).curves["all classes"], [len(each.support_) for each in kernels.estimators]
    )


def test_scores_show_what_was_chosen_and_what_was_given_up(ax):
    cv = sm.KernelSVCCV([0.01, 1.0], gammas=[0.1, 1.0], cv=3, random_state=0, early_end=False).fit(X, y)
    display = cv.plot(ax)
    np.testing.assert_allclose([line.get_ydata() for line in display.lines_], cv.scores_.mean(axis=0))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["gamma 0.1", "gamma 1.0"]
    cv.scores_[0, 0, 0] = np.nan
    np.testing.assert_allclose(cv.plot(ax).lines_[0].get_xdata(), [1.0])
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError, match="call fit"):
        sm.LinearSVCCV().plot(ax)


def test_plots_say_that_they_need_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SoftmarginError, match=r"softmargin\[plot\]"):
        sm.LinearSVC(random_state=0).fit(X, y).plot_gap()


def test_a_notebook_shows_the_certificate():
    clf = sm.LinearSVC(random_state=0)
    assert "proven" not in clf._repr_html_()
    shown = clf.fit(X, y)._repr_mimebundle_()
    gap = f"within {clf.certificate_.residual:.2e} of the optimum"
    assert gap in shown["text/html"]
    assert gap in clf._repr_html_()
    assert shown["text/plain"] == repr(clf)


def test_a_notebook_has_a_bar_that_is_drawn_again_in_place(monkeypatch):
    drawn = []

    class Handle:
        def update(self, data, raw):
            drawn.append(data)

    def display(data, *, raw, display_id):
        drawn.append(data)
        return Handle()

    ipython = types.ModuleType("IPython")
    ipython.display = types.ModuleType("IPython.display")
    ipython.display.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)
    console = types.SimpleNamespace(is_jupyter=True)
    problem = sm.MulticlassSVM(X, y)
    result = solve(problem, sm.DualBlockDescent(), stop=Stop(1e-6), watchers=[ProgressBar(console)], rng=0)
    assert f"gap {result.certificate.residual:.1e}" in drawn[-1]["text/plain"]
    assert '<progress value="1.000"' in drawn[-1]["text/html"]


def test_verbose_2_writes_a_line_for_every_certificate(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    clf = sm.LinearSVC(random_state=0, tol=1e-6, verbose=2).fit(X, y)
    *lines, last = sys.stderr.getvalue().splitlines()
    assert all(f"pass {row.iteration} " in line for row, line in zip(clf.trace_, lines, strict=True))
    assert f"gap {clf.certificate_.residual:.2e}" in lines[-1]
    assert last == f"softmargin: converged after pass {clf.n_iter_}"
