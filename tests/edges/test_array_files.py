"""NumPy data files: dense and CSR npz, memory-mapped npy, and every way they can be wrong."""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.ndimage import affine_transform
from scipy.sparse import csc_matrix, csr_matrix, save_npz

from array_libraries import strict
from softmargin.backends.arrays import to_numpy
from softmargin.core.errors import DataError
from softmargin.data import blobs, deskewed, distorted, read_npy, read_npz

X = np.array([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]])
Y = np.array([4, 7])
SPARSE = csr_matrix(X)
PARTS = {
    "data": SPARSE.data,
    "indices": SPARSE.indices,
    "indptr": SPARSE.indptr,
    "shape": np.array(SPARSE.shape),
}


@settings(max_examples=30, deadline=None)
@given(
    X=hnp.arrays(
        st.sampled_from([np.float32, np.float64]),
        st.tuples(st.integers(1, 5), st.integers(1, 5)),
        elements=st.floats(-1e3, 1e3, width=16),
    )
)
def test_dense_and_csr_files_hold_the_same_matrix(X, tmp_path_factory):
    folder = tmp_path_factory.mktemp("a")
    y, sparse = np.arange(len(X)), csr_matrix(X)
    np.savez(folder / "dense.npz", X=X, y=y)
    np.savez(
        folder / "csr.npz",
        data=sparse.data,
        indices=sparse.indices,
        indptr=sparse.indptr,
        shape=sparse.shape,
        y=y,
    )
    X_dense, y_dense = read_npz(folder / "dense.npz")
    X_sparse, y_sparse = read_npz(folder / "csr.npz")
    np.testing.assert_array_equal(X_dense, X)
    np.testing.assert_array_equal(X_sparse.toarray(), X)
    assert X_dense.dtype == X_sparse.dtype == X.dtype
    assert X_sparse.indices.dtype == np.int32
    assert y_dense.tolist() == y_sparse.tolist() == y.tolist()


def test_whole_numbers_become_float64_and_text_labels_stay(tmp_path):
    np.savez(tmp_path / "a.npz", X=X.astype(np.uint8), y=np.array(["no", "yes"]))
    X_read, y = read_npz(tmp_path / "a.npz")
    assert X_read.dtype == np.float64
    assert y.tolist() == ["no", "yes"]


def test_unsorted_and_repeated_csr_entries_are_made_canonical(tmp_path):
    np.savez(tmp_path / "a.npz", data=[1.0, 2.0, 3.0], indices=[2, 0, 0], indptr=[0, 3], shape=[1, 3], y=[1])
    X_read, _ = read_npz(tmp_path / "a.npz")
    assert X_read.indices.tolist() == [0, 2]
    assert X_read.data.tolist() == [5.0, 1.0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"X": X}, "found 'X', but no 'y'"),
        ({"features": X, "labels": Y}, "found 'features', 'labels', but no 'y'"),
        ({"y": Y}, "found 'y', but neither 'X' nor CSR parts"),
        ({"X": X, "y": Y[:1]}, "X has 2 rows and y has 1 labels"),
        ({"X": X, "y": Y[:, np.newaxis, np.newaxis]}, r"y has shape \(2, 1, 1\)"),
        ({"X": X[0], "y": Y}, r"X has shape \(3,\)"),
        ({"X": X * 1j, "y": Y}, "X has type complex128; real numbers"),
        ({"X": X.astype(str), "y": Y}, "real numbers are needed"),
        ({"X": X, "y": Y.astype("M8[D]")}, "type is .*; numbers and text are read"),
        (
            {"X": X, "y": np.array(["a", 1], dtype=object)},
            "'y' cannot be read, .* needs a pickle",
        ),
        ({"X": np.array([[{}]]), "y": Y}, "'X' cannot be read, it is an object array"),
        (
            {"data": PARTS["data"], "shape": PARTS["shape"], "y": Y},
            "CSR parts 'indices', 'indptr' are missing",
        ),
        ({**PARTS, "indices": np.array([1, 0, 99]), "y": Y}, "the CSR parts do not fit together"),
        ({**PARTS, "indices": np.array([1, 0, -1]), "y": Y}, "the CSR parts do not fit together"),
        ({**PARTS, "indptr": np.array([0, 2, 1]), "y": Y}, "the CSR parts do not fit together"),
        ({**PARTS, "indptr": np.array([0, 3]), "y": Y}, "the CSR parts do not fit together"),
        ({**PARTS, "indptr": np.array([0, 10**6, 0]), "y": Y}, "the CSR parts do not fit together"),  # once a crash
        ({**PARTS, "shape": np.array([2]), "y": Y}, "shape .two numbers. must be whole numbers"),
        ({**PARTS, "indices": np.array([1.0, 0.0, 2.0]), "y": Y}, "must be whole numbers"),
        ({**PARTS, "y": Y[:1]}, "X has 2 rows and y has 1 labels"),
    ],
)
def test_a_bad_npz_is_refused_with_the_reason(tmp_path, content, message):
    np.savez(tmp_path / "a.npz", **content)
    with pytest.raises(DataError, match=message):
        read_npz(tmp_path / "a.npz")


def test_a_sparse_file_by_scipy_says_what_is_missing(tmp_path):
    save_npz(tmp_path / "a.npz", SPARSE)
    with pytest.raises(DataError, match="but no 'y'"):
        read_npz(tmp_path / "a.npz")
    column_wise = csc_matrix(X)
    parts = {"data": column_wise.data, "indices": column_wise.indices, "indptr": column_wise.indptr}
    np.savez(tmp_path / "b.npz", **parts, shape=(2, 3), format=np.array(b"csc"), y=Y)
    with pytest.raises(DataError, match=r"stored as 'csc'. Save X.tocsr\(\)"):
        read_npz(tmp_path / "b.npz")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
def test_a_truncated_npz_is_called_so(tmp_path, share):
    path = tmp_path / "a.npz"
    np.savez(path, X=np.random.default_rng(0).standard_normal((50, 4)), y=np.arange(50))
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(DataError, match="truncated or damaged"):
        read_npz(path)


def test_a_damaged_npz_is_called_so(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, X=np.zeros((50, 4)), y=np.arange(50))
    content = bytearray(path.read_bytes())
    content[400:420] = b"\xff" * 20
    path.write_bytes(content)
    with pytest.raises(DataError, match="damaged"):
        read_npz(path)


def test_files_that_are_not_there_or_not_npz_are_explained(tmp_path):
    with pytest.raises(DataError, match="No such file"):
        read_npz(tmp_path / "absent.npz")
    (tmp_path / "a.npz").write_text("1 1:2\n")
    with pytest.raises(DataError, match=r"not an \.npz file"):
        read_npz(tmp_path / "a.npz")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_npy_is_mapped_not_read(tmp_path, dtype):
    np.save(tmp_path / "a.npy", X.astype(dtype))
    np.save(tmp_path / "a.y.npy", Y)
    X_read, y = read_npy(tmp_path / "a.npy")
    assert isinstance(X_read, np.memmap)
    assert not X_read.flags.writeable
    assert X_read.dtype == dtype
    np.testing.assert_array_equal(X_read, X)
    np.testing.assert_array_equal(y, Y)


def test_an_npy_without_labels_says_where_they_go(tmp_path):
    np.save(tmp_path / "a.npy", X)
    with pytest.raises(DataError, match=r"no labels found.*a\.y\.npy"):
        read_npy(tmp_path / "a.npy")
    np.save(tmp_path / "a.y.npy", Y)
    with pytest.raises(DataError, match=r"holds labels. Give the matrix, .*a\.npy"):
        read_npy(tmp_path / "a.y.npy")
    np.save(tmp_path / "a.y.npy", Y[:1])
    with pytest.raises(DataError, match="X has 2 rows and y has 1 labels"):
        read_npy(tmp_path / "a.npy")


def test_a_bad_npy_is_refused_with_the_reason(tmp_path):
    path = tmp_path / "a.npy"
    with pytest.raises(DataError, match="No such file"):
        read_npy(path)
    path.write_bytes(b"no array")
    with pytest.raises(DataError, match=r"not a \.npy file"):
        read_npy(path)
    np.save(path, np.array([[{}]]), allow_pickle=True)
    with pytest.raises(DataError, match="object array"):
        read_npy(path)
    np.save(path, np.ones((100, 10)))
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(DataError, match="truncated or damaged"):
        read_npy(path)
    assert os.listdir(tmp_path) == ["a.npy"]


@pytest.mark.parametrize("sparse", [False, True])
def test_blobs_have_all_classes_and_follow_the_seed(sparse):
    X_one, y_one = blobs(31, 40, 5, seed=3, sparse=sparse, density=0.2, dtype=np.float32)
    X_two, y_two = blobs(31, 40, 5, seed=3, sparse=sparse, density=0.2, dtype=np.float32)
    assert X_one.shape == (31, 40)
    assert X_one.dtype == np.float32
    assert np.bincount(y_one).tolist() == [7, 6, 6, 6, 6]
    assert abs(X_one - X_two).max() == 0
    np.testing.assert_array_equal(y_one, y_two)
    if sparse:
        assert X_one.indices.dtype == np.int32
        assert np.diff(X_one.indptr).tolist() == [8] * 31
        assert csr_matrix((X_one.data, X_one.indices, X_one.indptr), shape=X_one.shape).has_canonical_format


def test_far_blobs_are_separable_and_bad_sizes_are_refused():
    X_far, y = blobs(200, 10, 3, seed=0, separation=20.0)
    means = np.array([X_far[y == c].mean(axis=0) for c in range(3)])
    nearest = ((X_far[:, np.newaxis] - means) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(nearest, y)
    with pytest.raises(DataError, match="n=0"):
        blobs(0, 2, 2, seed=0)
    with pytest.raises(DataError, match="density"):
        blobs(3, 2, 2, seed=0, sparse=True, density=0.0)


def test_distorted_images_follow_the_seed_and_keep_their_labels():
    X, y = np.random.default_rng(0).random((6, 25)), np.arange(6)
    more, labels = distorted(X, y, 20, seed=1)
    np.testing.assert_array_equal(more[:6], X)
    np.testing.assert_array_equal(more, distorted(X, y, 20, seed=1)[0])
    assert sorted(np.bincount(labels)) == [3, 3, 3, 3, 4, 4]
    assert 0.0 <= more.min() <= more.max() <= 1.0
    still, labels = distorted(X, y, 12, seed=1, rotation=0.0, shear=0.0, scale=0.0, shift=0.0)
    np.testing.assert_allclose(still, X[labels], atol=1e-15)


def test_a_distorted_image_is_what_interpolation_makes_of_it():
    X = np.random.default_rng(0).random((1, 49))
    whole = distorted(X, np.zeros(1), 2, seed=5, rotation=0.3, shear=0.0, scale=0.0, shift=1.0)[0][1].reshape(7, 7)
    draws = np.random.default_rng(5)
    draws.permutation(1)
    angle, _, _, _, down, right = draws.uniform(-1.0, 1.0, (2, 6))[1] * [0.3, 0.0, 0.0, 0.0, 1.0, 1.0]
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    offset = 3.0 - np.array([down, right]) - turn @ [3.0, 3.0]
    known = affine_transform(X.reshape(7, 7), turn, offset, order=1, mode="grid-constant")
    np.testing.assert_allclose(whole, known, atol=1e-12)


def test_a_deskewed_image_is_upright_and_centred():
    # A disc in the middle of an empty frame, slanted and moved: it comes back as it was, but for interpolation.
    i, j = np.indices((21, 21)) - 10.0
    disc = np.exp(-(i**2 + j**2) / 8.0)
    slanted = affine_transform(disc, [[1.0, 0.0], [-0.5, 1.0]], [1.0, 6.0], order=1, mode="grid-constant")
    X = np.stack([slanted.ravel(), np.zeros(441)])
    found = deskewed(X)
    assert not found[1].any()
    np.testing.assert_allclose(found[0].reshape(21, 21), disc, atol=0.06)
    assert np.abs(slanted - disc).max() > 0.5
    mass = found[0].reshape(21, 21) / found[0].sum()
    for moment in (i, j, i * j):
        assert abs((mass * moment).sum()) < 0.02
    there = deskewed(strict()(X.astype(np.float32)))
    np.testing.assert_allclose(to_numpy(there), found, atol=1e-6)
    assert deskewed(X[:0]).shape == (0, 441)


@pytest.mark.parametrize("work", [lambda X: distorted(X, np.zeros(2), 4, seed=0), deskewed])
def test_square_images_are_needed(work):
    with pytest.raises(DataError, match="square images"):
        work(np.ones((2, 7)))
