"""No sparse matrix, however damaged, makes SciPy or a compiled loop read beyond its arrays.

The long form damages SOFTMARGIN_ATTACK matrices at random, from the seed SOFTMARGIN_ATTACK_SEED, in a process of its
own that must not end by a signal.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sparse

from attack import sparse_fuzz
from softmargin import KernelSVC, LinearSVC
from softmargin.core.errors import DataError
from softmargin.core.sparse import checked_sparse
from softmargin.matrices.forms import canonical

COUNT = int(os.environ.get("SOFTMARGIN_ATTACK", "20000"))
SEED = int(os.environ.get("SOFTMARGIN_ATTACK_SEED", "0"))
LAYOUTS = ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")


def sound(layout="csr", n=40, d=12):
    X = sparse.random(n, d, density=0.3, format="csr", random_state=0)
    return X.tobsr(blocksize=(4, 3)) if layout == "bsr" else X.asformat(layout)


def with_number(part, at, value):
    """Return a function that puts a number into one of the arrays of a matrix."""

    def spoil(X):
        array = np.array(getattr(X, part), dtype=np.int64)
        array[at] = value
        setattr(X, part, array)

    return spoil


def with_array(part, change):
    """Return a function that replaces one of the arrays of a matrix."""
    return lambda X: setattr(X, part, change(getattr(X, part)))


COMPRESSED = [
    with_number("indptr", 3, 10**8),
    with_number("indptr", 3, -1),
    with_number("indptr", 0, 1),
    with_number("indptr", -1, 10**8),
    with_number("indptr", -1, 0),
    with_number("indptr", 3, 2**62),
    with_number("indices", 5, 40),
    with_number("indices", 5, -1),
    with_number("indices", 5, 2**32),
    with_array("indices", lambda a: a[:-3]),
    with_array("indices", lambda a: a.astype(float)),
    with_array("indptr", lambda a: a[:-1]),
    with_array("indptr", lambda a: a[:, None]),
    with_array("indptr", lambda a: None),
    with_array("data", lambda a: a[:-3]),
    with_array("data", lambda a: a.astype(object)),
]
OTHERS = [
    ("coo", with_number("row", 2, 40)),
    ("coo", with_number("col", 2, -1)),
    ("coo", with_array("row", lambda a: a[:-1])),
    ("coo", with_array("data", lambda a: a[:-1])),
    ("dia", with_array("offsets", lambda a: a[:-1])),
    ("dia", with_number("offsets", 0, 2**32)),
    ("bsr", with_array("data", lambda a: a[:, :, :0])),
    ("bsr", with_array("data", lambda a: a.reshape(len(a), 1, -1))),
    ("lil", lambda X: X.rows[3].append(5)),
    ("lil", lambda X: X.rows[0].__setitem__(slice(None), [10**6] * len(X.rows[0]))),
    ("dok", lambda X: X._dict.__setitem__((10**9, 0), 1.0)),
]
DAMAGES = [(layout, spoil) for layout in ("csr", "csc", "bsr") for spoil in COMPRESSED] + OTHERS


@pytest.mark.parametrize("number", range(len(DAMAGES)))
def test_damaged_matrices_are_refused(number):
    layout, spoil = DAMAGES[number]
    X = sound(layout)
    spoil(X)
    with pytest.raises(DataError, match=r"X is a damaged [A-Z]{3} matrix of shape \(40, 12\)"):
        checked_sparse(X)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sound_matrices_pass_unchanged(layout):
    X = sound(layout)
    if layout in ("lil", "dok"):
        assert (checked_sparse(X) != X).nnz == 0
    else:
        assert checked_sparse(X) is X


@pytest.mark.parametrize("type_of_index", [np.int32, np.int64])
def test_read_only_arrays_of_either_index_type_are_not_copied(type_of_index):
    X = sound()
    X.indices, X.indptr = X.indices.astype(type_of_index), X.indptr.astype(type_of_index)
    for part in (X.data, X.indices, X.indptr):
        part.flags.writeable = False
    assert canonical(X) is X


def test_entries_beyond_the_last_row_and_unusual_types_are_put_right():
    X = sound()
    expected = X.toarray()
    X.indices = np.append(X.indices, 10**6).astype(np.uint64)
    X.data = np.append(X.data, np.nan).astype(">f8")
    found = canonical(X)
    np.testing.assert_array_equal(found.toarray(), expected)
    assert found.nnz == len(found.indices) == len(found.data)
    assert len(X.indices) == len(found.indices) + 1, "the caller's matrix is left alone"


@pytest.mark.filterwarnings("ignore:stopped after")
def test_a_bad_indptr_within_is_an_error_at_every_door():
    """F7: it was a segmentation fault."""
    doors = sparse_fuzz.doors(np.random.default_rng(0))
    for name, enter in doors.items():
        X = sound()
        X.indptr[3] = 10**8
        if name != "labels":
            with pytest.raises(DataError, match="indptr falls from 100000000"):
                enter(X)


def test_kernel_functions_may_not_return_damaged_matrices():
    def kernel(left, right):
        K = sparse.csr_matrix(left @ right.T)
        K.indptr[1] = 10**8
        return K

    with pytest.raises(DataError, match="the kernel is a damaged CSR matrix"):
        KernelSVC(kernel=kernel).fit(sound().toarray(), np.arange(40) % 2)


def test_labels_may_not_be_damaged():
    from softmargin import L1BallClassifier

    y = sparse.csr_matrix(np.eye(3, dtype=int)[np.arange(40) % 3])
    y.indices[3] = 10**8
    with pytest.raises(DataError, match="y is a damaged CSR matrix"):
        L1BallClassifier().fit(sound(), y)


def test_the_matrix_of_another_library_is_checked_after_it_is_converted():
    class Foreign:
        shape = (40, 12)

        def tocsr(self):
            X = sound()
            X.indices[0] = -5
            return X

    with pytest.raises(DataError, match="indices reach from -5"):
        canonical(Foreign())


@pytest.mark.filterwarnings("ignore:stopped after")
def test_few_random_damages_end_in_an_error_or_in_nothing():
    rng = np.random.default_rng([SEED, 1])
    y = np.arange(40) % 3
    for _ in range(300):
        X = sparse_fuzz.damage(rng, sparse_fuzz.sound_matrix(rng, "csr"))
        try:
            X = checked_sparse(X)
        except DataError:
            continue
        assert X.indptr[-1] == len(X.indices) == len(X.data)
        if X.shape == (40, 12) and X.dtype.kind == "f" and rng.random() < 0.1:
            LinearSVC(max_iter=2, tol=0.5).fit(X, y)


@pytest.mark.slow
def test_random_damages_never_end_the_process(tmp_path):
    fuzzer, log = Path(sparse_fuzz.__file__), tmp_path / "last"
    command = [sys.executable, str(fuzzer), str(SEED), str(COUNT), str(log)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stderr[-2000:]}\nlast input: {log.read_text()}"
