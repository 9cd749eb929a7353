"""Weights for which the machine has too little memory are refused before they are allocated."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from softmargin import KernelSVC, L1BallRegressor, LinearSVC, SoftmaxRegression
from softmargin.core import memory
from softmargin.core.errors import DataError

FEATURES = 10_000  # 80 kB of weights a column
X = csr_matrix((np.ones(6), (np.arange(6), [FEATURES - 1, 0, 2, 1, 5, 0])), shape=(6, FEATURES))
TWO, THREE = np.arange(6) % 2, np.arange(6) % 3


@pytest.fixture(autouse=True)
def small_machine(monkeypatch):
    """Let the machine have room for the weights of two columns."""
    monkeypatch.setattr(memory, "machine_bytes", lambda: 4 * 8 * FEATURES)


@pytest.mark.parametrize("model", [LinearSVC(), SoftmaxRegression()])
def test_weights_that_do_not_fit_are_refused(model):
    with pytest.raises(DataError, match=r"X has 10000 features: weights with 3 columns take .* this machine has"):
        model.fit(X, THREE)


@pytest.mark.parametrize(
    ("model", "y"), [(LinearSVC(), TWO), (SoftmaxRegression(), TWO), (L1BallRegressor(), TWO), (KernelSVC(), THREE)]
)
def test_weights_that_fit_are_not(model, y):
    assert model.fit(X, y).status_ == "converged"


@pytest.mark.parametrize("words", [["train"], ["train", "--model", "kernel-svc"], ["path"]])
def test_an_index_of_a_file_that_is_too_large(refused, tmp_path, words):
    rows = tmp_path / "rows.svm"
    rows.write_text("1 2147483648:1\n0 1:1\n1 3:1\n0 2:1\n")
    line = refused(words[0], rows, *words[1:])
    assert "X has 2147483648 features: weights with one column take 16 GiB" in line
    assert "Look for a wrong index" in line
