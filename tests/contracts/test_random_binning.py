"""Random binning: its inner products are the Laplacian kernel, and its rows are what the definition says."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.utils.estimator_checks import parametrize_with_checks

from softmargin.features import RandomBinning


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return rng.standard_normal((40, 5)) * (rng.random((40, 5)) < 0.6)


@parametrize_with_checks([RandomBinning(random_state=0), RandomBinning(n_grids=7, sigma=20.0, min_count=2)])
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


@pytest.mark.parametrize("sigma", [0.7, 3.0, 20.0])
def test_inner_products_are_the_kernel_up_to_chance(rows, sigma):
    """Each is a mean of n_grids draws of 0 and 1 with mean k: five standard deviations hold for all 780 pairs."""
    n_grids = 4000
    Z = RandomBinning(n_grids, sigma, random_state=1).fit_transform(rows)
    kernel = np.exp(-cdist(rows, rows, "cityblock") / sigma)
    deviation = np.sqrt(kernel * (1.0 - kernel) / n_grids)
    assert (np.abs((Z @ Z.T).toarray() - kernel) <= 5.0 * deviation + 3.0 / n_grids).all()


def test_new_rows_meet_training_rows_as_the_kernel_says(rows):
    binning = RandomBinning(4000, 4.0, random_state=2)
    Z, new = binning.fit_transform(rows[:20]), binning.transform(rows[20:])
    kernel = np.exp(-cdist(rows[20:], rows[:20], "cityblock") / 4.0)
    np.testing.assert_allclose((new @ Z.T).toarray(), kernel, atol=0.05)


@given(n_grids=st.integers(1, 9), sigma=st.floats(1e-3, 1e3), seed=st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_every_training_row_has_one_entry_a_grid(rows, n_grids, sigma, seed):
    binning = RandomBinning(n_grids, sigma, random_state=seed)
    Z = binning.fit_transform(rows)
    assert Z.has_canonical_format
    assert Z.shape == (40, binning.n_cells_.sum())
    np.testing.assert_array_equal(Z.data, 1.0 / np.sqrt(n_grids))
    grid = np.repeat(np.arange(n_grids), binning.n_cells_)
    np.testing.assert_array_equal(grid[Z.indices].reshape(40, n_grids), np.tile(np.arange(n_grids), (40, 1)))
    assert (Z.sum(axis=0) > 0.0).all()


def test_cells_are_those_of_the_definition():
    """On one axis: rows share a feature of a grid exactly where no multiple of its pitch lies between them."""
    X = np.linspace(-3.0, 3.0, 50)[:, None]
    binning = RandomBinning(20, 1.5, random_state=0)
    Z = binning.fit_transform(X).tocsc()
    for g, end in enumerate(np.cumsum(binning.n_cells_)):
        own = Z[:, end - binning.n_cells_[g] : end].toarray()
        blocks = [np.flatnonzero(column) for column in own.T]
        assert all((np.diff(block) == 1).all() for block in blocks)
        lengths = sorted(len(block) for block in blocks if 0 not in block and 49 not in block)
        assert not lengths or lengths[-1] - lengths[0] <= 1


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array, sp.csc_matrix])
def test_sparse_rows_have_the_features_of_dense_ones(rows, kind, dtype):
    X = rows.astype(dtype)
    dense, sparse = RandomBinning(30, 2.0, random_state=3), RandomBinning(30, 2.0, random_state=3)
    Z = dense.fit_transform(X)
    assert Z.dtype == dtype
    assert abs(Z - sparse.fit_transform(kind(X))).nnz == 0
    assert abs(dense.transform(X + 0.1) - sparse.transform(kind(X + 0.1))).nnz == 0
    assert abs(dense.transform(kind(X)) - Z).nnz == 0


def test_indices_of_64_bits_are_welcome(rows):
    X = sp.csr_array(rows)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    assert (
        abs(
            RandomBinning(9, random_state=0).fit_transform(X) - RandomBinning(9, random_state=0).fit(X).transform(rows)
        ).nnz
        == 0
    )


def test_cells_without_training_rows_are_dropped(rows):
    binning = RandomBinning(50, 3.0, random_state=0).fit(rows)
    far = binning.transform(rows + 1e3)
    assert far.shape == (40, binning.n_cells_.sum())
    assert far.nnz < 50
    assert binning.transform(np.full((1, 5), 1e300)).nnz == 0


def test_rare_cells_are_dropped_where_asked(rows):
    every, common = RandomBinning(50, 3.0, random_state=0), RandomBinning(50, 3.0, min_count=3, random_state=0)
    Z, few = every.fit_transform(rows), common.fit_transform(rows)
    counts = np.asarray((Z != 0).sum(axis=0)).ravel()
    assert abs(Z[:, counts >= 3] - few).nnz == 0
    assert (common.transform(rows) != few).nnz == 0
    assert few.shape[1] == (counts >= 3).sum() < Z.shape[1]


def test_the_same_seed_draws_the_same_grids_and_pickle_keeps_them(rows):
    one, other = RandomBinning(9, random_state=5).fit(rows), RandomBinning(9, random_state=6).fit(rows)
    again = pickle.loads(pickle.dumps(one))
    assert abs(one.transform(rows) - again.transform(rows)).nnz == 0
    assert abs(one.transform(rows) - RandomBinning(9, random_state=5).fit_transform(rows)).nnz == 0
    assert one.n_cells_.tolist() != other.n_cells_.tolist()


def test_names_and_kinds_of_what_comes_out(rows):
    binning = RandomBinning(4, random_state=0).fit(rows)
    names = binning.get_feature_names_out()
    assert (names[0], len(names)) == ("randombinning0", binning.n_cells_.sum())
    assert isinstance(binning.transform(rows), sp.csr_matrix)
    if "sparse_interface" in sklearn.get_config():
        with sklearn.config_context(sparse_interface="sparray"):
            assert isinstance(binning.transform(rows), sp.csr_array)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_grids": 0}, "n_grids must be an integer >= 1; found 0"),
        ({"n_grids": 2.5}, "n_grids must be an integer"),
        ({"sigma": 0.0}, "sigma must be a finite number > 0; found 0.0"),
        ({"sigma": np.nan}, "sigma must be a finite number > 0"),
        ({"min_count": 0}, "min_count must be an integer"),
        ({"min_count": 41}, "no cell holds min_count=41 rows .n_samples=40."),
    ],
)
@pytest.mark.parametrize("verb", ["fit", "fit_transform"])
def test_what_makes_no_sense_is_refused(rows, wrong, message, verb):
    with pytest.raises(ValueError, match=message):
        getattr(RandomBinning(**wrong), verb)(rows)
