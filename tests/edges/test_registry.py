"""Data sets by name: the embedded ones are exact, folders are searched, hold-outs are stratified."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix, issparse

from softmargin.core.errors import DataError
from softmargin.data import Dataset, available, load, read_libsvm, split, write_libsvm


@pytest.fixture(autouse=True)
def no_folder_from_outside(monkeypatch):
    monkeypatch.delenv("SOFTMARGIN_DATA", raising=False)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "sets"
    folder.mkdir()
    write_libsvm(folder / "pair.train.libsvm.xz", np.eye(3), [1, 2, 3])
    write_libsvm(folder / "pair.test.libsvm", np.eye(4), [1, 2, 3, 1])
    write_libsvm(folder / "single.libsvm.gz", np.eye(2), [1, 2])
    np.savez(folder / "arrays.npz", X=np.eye(2), y=[0, 1])
    np.save(folder / "mapped.npy", np.eye(2))
    np.save(folder / "mapped.y.npy", [0, 1])
    (folder / "README.md").write_text("not data")
    return folder


def test_digits_are_embedded_dense_float64():
    digits = load("digits")
    assert digits.name == "digits"
    assert isinstance(digits.X, np.ndarray)
    assert digits.X.shape == (1797, 64)
    assert digits.X.dtype == np.float64
    assert np.unique(digits.X * 16).tolist() == list(range(17))
    assert np.unique(digits.y).tolist() == list(range(10))
    assert digits.X_test is None
    assert digits.y_test is None


def test_dna_is_embedded_sparse_float64_with_its_test_part():
    dna = load("dna")
    assert issparse(dna.X)
    assert dna.X.format == dna.X_test.format == "csr"
    assert dna.X.shape == (2000, 180)
    assert dna.X_test.shape == (1186, 180)
    assert dna.X.dtype == np.float64
    assert set(dna.X.data) == {1.0}
    assert np.bincount(dna.y).tolist() == [0, 464, 485, 1051]


def test_the_embedded_sets_equal_their_sources(shared_file):
    X, y = read_libsvm(shared_file("optdigits-test.libsvm.xz"), n_features=64)
    digits = load("digits")
    np.testing.assert_array_equal(digits.X, X.toarray())
    np.testing.assert_array_equal(digits.y, y)
    dna = load("dna")
    for part, ours in (("train", dna[1:3]), ("test", dna[3:5])):
        X, y = read_libsvm(shared_file(f"dna.{part}.libsvm.xz"), n_features=180)
        assert (ours[0] != X).nnz == 0
        np.testing.assert_array_equal(ours[1], y)


def test_a_name_is_found_in_data_dir_and_both_parts_share_their_columns(folder):
    pair = load("pair", data_dir=folder)
    assert pair.X.shape == (3, 4)
    assert pair.X_test.shape == (4, 4)
    assert pair.y_test.tolist() == [1, 2, 3, 1]
    assert load("pair", data_dir=folder, n_features=9).X.shape == (3, 9)
    for name in ("single", "arrays", "mapped"):
        found = load(name, data_dir=folder)
        assert found.X.shape == (2, 2)
        assert found.X_test is None


def test_a_name_is_found_by_the_environment_variable_after_data_dir(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("SOFTMARGIN_DATA", str(folder))
    assert load("single").X.shape == (2, 2)
    first = tmp_path / "first"
    first.mkdir()
    write_libsvm(first / "single.libsvm", np.eye(5), range(5))
    assert load("single", data_dir=first).X.shape == (5, 5)
    assert load("pair", data_dir=first).X.shape == (3, 4)


def test_an_embedded_name_wins_over_a_folder(folder):
    write_libsvm(folder / "digits.libsvm", np.eye(2), [1, 2])
    assert load("digits", data_dir=folder).X.shape == (1797, 64)
    assert load(folder / "digits.libsvm").X.shape == (2, 2)


@pytest.mark.parametrize("name", ["a.libsvm", "a.svm", "a.txt", "a.libsvm.bz2", "a.t", "a", "a.dat"])
def test_a_path_is_read_by_its_suffix(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    write_libsvm(name, np.eye(3), [1, 2, 1])
    for path in (name, f"./{name}", tmp_path / name):
        data = load(path)
        assert data.X.shape == (3, 3)
        assert data.name == name
        assert data.X_test is None


def test_array_files_are_read_by_path_and_their_columns_checked(folder):
    assert load(folder / "arrays.npz", n_features=2).X.shape == (2, 2)
    with pytest.raises(DataError, match="X has 2 columns; 3 are needed"):
        load(folder / "mapped.npy", n_features=3)
    X = csr_matrix(np.eye(2))
    np.savez(folder / "s.npz", data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=[0, 1])
    assert load(folder / "s.npz", n_features=3).X.shape == (2, 3)
    with pytest.raises(DataError, match="X has 2 columns; 1 are needed"):
        load(folder / "s.npz", n_features=1)


def test_a_format_that_is_not_read_says_how_to_convert(tmp_path):
    path = tmp_path / "a.arff"
    path.write_text("1,2\n")
    with pytest.raises(DataError, match=r"\.arff files are not read. Save it as CSV"):
        load(path)


def test_a_name_not_found_lists_what_there_is_and_the_nearest(folder, tmp_path, monkeypatch):
    with pytest.raises(DataError, match=r"no data set or file 'digit'. Did you mean digits\? Embedded: digits, dna"):
        load("digit")
    with pytest.raises(DataError, match="Set SOFTMARGIN_DATA, or give data_dir"):
        load("zzz")
    with pytest.raises(DataError, match=r"Did you mean single\?.*In .*sets: arrays, mapped, pair, single"):
        load("sngle", data_dir=folder)
    monkeypatch.setenv("SOFTMARGIN_DATA", str(tmp_path / "gone"))
    with pytest.raises(DataError, match=r"In .*gone: no such folder"):
        load("zzz", data_dir=folder)
    with pytest.raises(DataError, match="no data set or file"):
        load(tmp_path / "absent.libsvm")


def test_available_lists_embedded_sets_first_then_the_folder(folder):
    assert [entry.name for entry in available()] == ["digits", "dna"]
    rows = available(folder)
    assert [row.name for row in rows] == ["digits", "dna", "arrays", "mapped", "pair", "single"]
    by_name = {row.name: row for row in rows}
    assert by_name["digits"].where == "embedded"
    assert by_name["pair"].where == str(folder)
    assert by_name["pair"].description.startswith("training and test part, libsvm.xz, ")
    assert by_name["arrays"].description.startswith("one part, npz, ")


@settings(max_examples=80, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=6).filter(lambda sizes: max(sizes) > 1),
    test_size=st.floats(0.05, 0.95),
    seed=st.integers(0, 2**32),
)
def test_a_hold_out_is_stratified_disjoint_and_repeatable(sizes, test_size, seed):
    y = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    rows = np.arange(len(y), dtype=float)[:, np.newaxis]
    whole = Dataset("whole", rows, y)
    if round(test_size * len(y)) == 0 and all(test_size * size < 1 for size in sizes):
        with pytest.raises(DataError, match="too few to hold out"):
            split(whole, test_size=test_size, seed=seed)
        return
    parts = split(whole, test_size=test_size, seed=seed)
    taken = np.concatenate([parts.X[:, 0], parts.X_test[:, 0]])
    assert sorted(taken) == rows[:, 0].tolist()
    np.testing.assert_array_equal(y[parts.X_test[:, 0].astype(int)], parts.y_test)
    held = np.bincount(parts.y_test, minlength=len(sizes))
    for size, out in zip(sizes, held.tolist(), strict=True):
        assert out <= size - 1
        assert abs(out - test_size * size) <= 1 or out == size - 1
    again = split(whole, test_size=test_size, seed=seed)
    np.testing.assert_array_equal(parts.X_test, again.X_test)


def test_a_hold_out_of_digits_has_the_asked_size_and_changes_with_the_seed():
    digits = load("digits")
    parts = split(digits)
    assert len(parts.y_test) == round(0.25 * 1797)
    assert len(parts.y) + len(parts.y_test) == 1797
    assert not np.array_equal(parts.y_test, split(digits, seed=1).y_test)


def test_a_stored_test_part_is_kept_and_sparse_data_can_be_split():
    dna = load("dna")
    assert split(dna) is dna
    parts = split(Dataset("train", dna.X, dna.y), test_size=0.1)
    assert parts.X_test.shape == (200, 180)
    assert parts.X.format == "csr"


@pytest.mark.parametrize("test_size", [0.0, 1.0, -0.5, 2])
def test_a_share_outside_zero_and_one_is_refused(test_size):
    with pytest.raises(DataError, match="between 0 and 1"):
        split(load("digits"), test_size=test_size)


def test_text_labels_can_be_split():
    y = np.array(["a", "b"] * 10)
    parts = split(Dataset("text", np.arange(20.0)[:, np.newaxis], y))
    assert sorted(parts.y_test.tolist()) == ["a", "a", "a", "b", "b"]
