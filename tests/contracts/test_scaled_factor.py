"""The Cholesky factor of a Newton matrix, scaled a few rows at a time."""

from types import SimpleNamespace

import numpy as np
import pytest

from softmargin.solvers.common.entropic import FEW, across
from softmargin.solvers.linear_svm import _scaled_factor
from softmargin.solvers.linear_svm._scaled_factor import FactorTuning, factored


class Groups:
    """Only a Newton matrix, whose lower triangle means nothing."""

    def __init__(self, H):
        self.H = H

    def newton_matrix(self, stiffness, slope, dtype):
        return np.where(np.tri(len(self.H), k=-1, dtype=bool), np.nan, self.H).astype(dtype)


@pytest.mark.parametrize("is_single", [False, True])
@pytest.mark.parametrize("numbers", [1, 50, 1 << 20])
def test_features_of_all_sizes_are_scaled_to_ones(is_single, numbers, monkeypatch):
    monkeypatch.setattr(_scaled_factor, "SCALED", numbers)
    rng, n = np.random.default_rng(0), 23
    units = np.logspace(-4, 4, n)
    A = rng.standard_normal((60, n))
    H = (A.T @ A + np.eye(n)) * units * units[:, None]
    made = factored(Groups(H), None, None, SimpleNamespace(is_single=is_single, ridge=0.0), FactorTuning())
    root = np.tril(made.root.astype(np.float64))
    assert made.scale == pytest.approx(1.0 / np.sqrt(np.diag(H)), rel=1e-6)
    assert root @ root.T == pytest.approx(H * made.scale * made.scale[:, None], abs=1e-5 if is_single else 1e-14)


def test_faint_entries_of_float32_are_left_out():
    faint = FactorTuning().faint
    H = np.eye(3)
    H[0, 1], H[0, 2] = 0.5 * faint, 2.0 * faint
    for is_single, kept in ((True, 0.0), (False, 0.5 * faint)):
        state = SimpleNamespace(is_single=is_single, ridge=0.0)
        root = factored(Groups(H), None, None, state, FactorTuning()).root
        assert root[1, 0] == pytest.approx(kept, rel=1e-5)
        assert root[2, 0] == pytest.approx(2.0 * faint, rel=1e-5)


@pytest.mark.parametrize("columns", [1, 2, FEW, FEW + 1, 30])
def test_rows_are_reduced_as_numpy_does(columns):
    rows = np.random.default_rng(1).standard_normal((50, columns))
    for ufunc in (np.add, np.maximum):
        assert np.array_equal(across(ufunc, rows), ufunc.reduce(rows, axis=1, keepdims=True))
