"""``fit(..., checkpoint=...)``: a run goes on where it was, and only that one."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from softmargin import Checkpoint, DataError, IncompatibleError, LinearSVC, LinearSVCCV, ModelFileError

X = np.random.default_rng(0).standard_normal((1200, 4))  # with fewer rows a step makes several rounds
y = np.arange(1200) % 3
ASKED = {"tol": 1e-6, "random_state": 0}


@pytest.fixture
def path(tmp_path):
    """Return the checkpoint of a fit that was cut short."""
    with pytest.warns(match="stopped after 3 passes"):
        LinearSVC(**ASKED, max_iter=3).fit(X, y, checkpoint=tmp_path / "run.ckpt")
    return tmp_path / "run.ckpt"


def test_the_same_call_goes_on_to_the_same_bits(path):
    whole = LinearSVC(**ASKED).fit(X, y)
    clf = LinearSVC(**ASKED).fit(X, y, checkpoint=str(path))
    assert clf.n_iter_ == whole.n_iter_ > 3
    assert clf.trace_[0].iteration >= 3
    np.testing.assert_array_equal(clf.coef_, whole.coef_)
    again = LinearSVC(**ASKED).fit(X, y, checkpoint=Checkpoint(path, every=0))
    assert (again.n_iter_, len(again.trace_)) == (whole.n_iter_, 1)
    np.testing.assert_array_equal(again.coef_, whole.coef_)


def test_ctrl_c_leaves_a_checkpoint(tmp_path, ctrl_c):
    class Press(Checkpoint):
        def watch(self, progress):
            super().watch(progress)
            if progress.iteration == 2:
                ctrl_c()

    with pytest.raises(KeyboardInterrupt, match="after 2 passes"):
        LinearSVC(**ASKED).fit(X, y, checkpoint=Press(tmp_path / "c"))
    clf = LinearSVC(**ASKED).fit(X, y, checkpoint=tmp_path / "c")
    np.testing.assert_array_equal(clf.coef_, LinearSVC(**ASKED).fit(X, y).coef_)


@pytest.mark.parametrize(
    ("settings", "data"),
    [({}, (2.0 * X, y)), ({}, (X, np.roll(y, 1))), ({}, (X, y, np.arange(1200.0))), ({"C": 2.0}, (X, y))],
    ids=["X", "y", "weights", "C"],
)
def test_other_data_or_settings_are_refused(path, settings, data):
    before = path.read_bytes()
    with pytest.raises(IncompatibleError, match=r"another problem.*start afresh with another file"):
        LinearSVC(**ASKED, **settings).fit(*data, checkpoint=path)
    assert path.read_bytes() == before


def test_other_solvers_files_and_kinds_are_refused(path, tmp_path):
    with pytest.raises(ModelFileError, match="was written by"):
        LinearSVC(**ASKED, solver="walrus").fit(X, y, checkpoint=path)
    (tmp_path / "other").write_bytes(b"no checkpoint")
    with pytest.raises(ModelFileError, match="other"):
        LinearSVC().fit(X, y, checkpoint=tmp_path / "other")
    with pytest.raises(DataError, match="checkpoint must be the name of a file"):
        LinearSVC().fit(X, y, checkpoint=3)
    with pytest.raises(TypeError, match="fit LinearSVC with what it has chosen"):
        LinearSVCCV().fit(X, y, checkpoint=path)


def test_pipelines_and_routing_pass_it_on(tmp_path):
    make_pipeline(StandardScaler(), LinearSVC()).fit(X, y, linearsvc__checkpoint=tmp_path / "a")
    assert (tmp_path / "a").exists()
    with config_context(enable_metadata_routing=True):
        last = LinearSVC().set_fit_request(checkpoint=True)
        make_pipeline(StandardScaler(), last).fit(X, y, checkpoint=tmp_path / "b")
        make_pipeline(StandardScaler(), LinearSVC()).fit(X, y)
    assert (tmp_path / "b").exists()
