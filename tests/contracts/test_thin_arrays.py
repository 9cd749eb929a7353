"""Large arrays of which few entries are not zero, such as codes of categories, are fitted as sparse rows."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

from helpers import calls_of
from softmargin import L1BallClassifier, LinearSVC, SoftmaxRegression, TraceBallClassifier, softmax_path
from softmargin.cli.main import main
from softmargin.matrices import forms
from softmargin.matrices.forms import thinned

ESTIMATORS = {
    "hinge": LinearSVC(multiclass="one_vs_rest"),
    "joint": LinearSVC(),
    "squared hinge": LinearSVC(multiclass="one_vs_rest", loss="squared_hinge"),
    "softmax": SoftmaxRegression(),
    "softmax l1": SoftmaxRegression(penalty="l1"),
    "l1 ball": L1BallClassifier(radius=5.0),
    "trace ball": TraceBallClassifier(radius=5.0),
}


def codes(n=2000):
    """Return codes of three categories of twelve levels: one entry of twelve is not zero."""
    rng = np.random.default_rng(0)
    X = np.eye(12)[rng.integers(0, 12, (n, 3))].reshape(n, 36)
    return X, (X @ rng.standard_normal((36, 3))).argmax(axis=1)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_array_of_few_entries_is_fitted_as_sparse_rows(name, monkeypatch):
    X, y = codes()
    model = ESTIMATORS[name].set_params(random_state=0, tol=1e-4)
    sparse = model.fit(sp.csr_matrix(X), y).coef_
    made = calls_of(monkeypatch, forms, "csr_matrix")
    np.testing.assert_array_equal(model.fit(X, y).coef_, sparse)
    assert len(made) == 1


def test_a_path_has_the_same_weights_and_converts_once(monkeypatch):
    X, y = codes()
    sparse = softmax_path(sp.csr_matrix(X), y, Cs=3, tol=1e-3, random_state=0).coefs
    made = calls_of(monkeypatch, forms, "csr_matrix")
    np.testing.assert_array_equal(softmax_path(X, y, Cs=3, tol=1e-3, random_state=0).coefs, sparse)
    assert len(made) == 1


@pytest.mark.parametrize("model", ["softmax", "l1-ball"])
def test_the_command_line_trains_sparse_rows(model, tmp_path, monkeypatch, capsys):
    X, y = codes()
    np.savez(tmp_path / "codes.npz", X=X, y=y)
    made = calls_of(monkeypatch, forms, "csr_matrix")
    assert main(["train", str(tmp_path / "codes.npz"), "--model", model, "--json"]) == 0
    assert len(made) == 1
    assert json.loads(capsys.readouterr().out)["is_proof"]


def test_what_is_dense_small_or_full_at_the_end_stays_an_array():
    X, _ = codes()
    assert isinstance(thinned(X), sp.csr_matrix)
    full_later = np.vstack([X[:1000:16], np.ones((1000, 36))])
    for kept in (X[:100], np.ones((2000, 36)), full_later, sp.csr_matrix(X)):
        assert thinned(kept) is kept
