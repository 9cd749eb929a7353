"""LIBSVM files: what is written reads back, both parsers agree, every bad line is named."""

import bz2
import gzip
import io
import lzma
import os
import sys

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, csr_matrix

from softmargin.core.errors import DataError
from softmargin.data import read_libsvm, write_libsvm
from softmargin.data.libsvm_text import parse_arrays, parse_lines

COMPRESS = {".libsvm": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
FINITE = st.floats(allow_nan=False, allow_infinity=False)
NUMBER_TEXT = (
    FINITE.map(repr)
    | st.floats(-1e6, 1e6).map(lambda x: f"{x:.7g}")
    | st.decimals(-(10**9), 10**9, places=8).map(str)
    | st.integers(-(10**20), 10**20).map(str)
    | st.sampled_from(["+1", "-0", "1.", ".5", "-.5", "1e5", "1E-3", "+0.0", "00012", "9007199254740993"])
)


def read(text, **settings):
    return read_libsvm(io.BytesIO(text.encode() if isinstance(text, str) else text), **settings)


@st.composite
def sparse_data(draw):
    n, d = draw(st.integers(1, 6)), draw(st.integers(1, 7))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    numbers = st.floats(allow_nan=False, allow_infinity=False, width=32 if dtype is np.float32 else 64)
    rows = draw(st.lists(st.dictionaries(st.integers(0, d - 1), numbers, max_size=d), min_size=n, max_size=n))
    ends = np.cumsum([0] + [len(row) for row in rows])
    columns = np.array([j for row in rows for j in sorted(row)], dtype=np.int32)
    values = np.array([row[j] for row in rows for j in sorted(row)], dtype=dtype)
    whole, real = st.integers(-(2**53), 2**53), st.floats(-1e15, 1e15)
    labels = draw(st.lists(whole, min_size=n, max_size=n) | st.lists(real, min_size=n, max_size=n))
    return csr_matrix((values, columns, ends), shape=(n, d)), np.array(labels)


@settings(max_examples=80, deadline=None)
@given(data=sparse_data(), suffix=st.sampled_from(list(COMPRESS)))
def test_what_is_written_reads_back_bit_for_bit(data, suffix, tmp_path_factory):
    X, y = data
    path = tmp_path_factory.mktemp("d") / f"rows{suffix}"
    write_libsvm(path, X, y)
    X_read, y_read = read_libsvm(path, n_features=X.shape[1], dtype=X.dtype)
    assert X_read.shape == X.shape
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(X_read, name), getattr(X, name))
    np.testing.assert_array_equal(y_read, y)
    assert y_read.dtype == (np.int64 if (y == np.floor(y)).all() else np.float64)


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(
        st.tuples(NUMBER_TEXT, st.lists(st.tuples(st.integers(0, 10**9), NUMBER_TEXT), max_size=5)),
        max_size=6,
    ),
    gap=st.sampled_from([" ", "\t", "   "]),
    end=st.sampled_from(["\n", " \n", "\n\n"]),
)
@example(rows=[("1", [(1, "0.1"), (2, "123456789012345678")])], gap=" ", end="\n")
def test_the_fast_parser_and_the_plain_one_give_the_same_bits(rows, gap, end):
    lines = [gap.join([label, *(f"{index}:{value}" for index, value in entries)]) for label, entries in rows]
    text = "".join(line + end for line in lines).encode()
    fast, plain = parse_arrays(text, first_line=3), parse_lines(text, source="text", first_line=3)
    assert fast is not None
    for ours, theirs in zip(fast, plain, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@settings(max_examples=300, deadline=None)
@given(text=st.text(alphabet="01 .:-e\n", max_size=24))
def test_the_fast_parser_accepts_nothing_the_plain_one_refuses(text):
    fast = parse_arrays(text.encode(), first_line=1)
    if fast is not None:
        plain = parse_lines(text.encode(), source="text", first_line=1)
        for ours, theirs in zip(fast, plain, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_a_file_of_many_blocks_is_the_same_as_one(monkeypatch):
    rng = np.random.default_rng(0)
    X = csr_matrix(np.round(rng.standard_normal((300, 20)), 3) * (rng.random((300, 20)) < 0.3))
    y = rng.integers(0, 5, 300)
    out = io.BytesIO()
    for i in range(300):
        row = " ".join(f"{j + 1}:{v!r}" for j, v in zip(X[i].indices.tolist(), X[i].data.tolist(), strict=True))
        out.write(f"{y[i]} {row}\n".encode())
    whole = read(out.getvalue(), n_features=20)
    for size in (1, 7, 100, 4096):
        monkeypatch.setattr("softmargin.data.libsvm._BLOCK_BYTES", size)
        X_read, y_read = read(out.getvalue(), n_features=20)
        assert (X_read != whole[0]).nnz == 0
        np.testing.assert_array_equal(y_read, y)
    assert (whole[0] != X).nnz == 0


@pytest.mark.parametrize("compress", COMPRESS.values(), ids=COMPRESS)
def test_compression_is_told_by_the_first_bytes_not_the_suffix(tmp_path, compress):
    path = tmp_path / "no_suffix"
    path.write_bytes(compress(b"2 1:0.5 3:1\n1 2:-4e-1\n"))
    X, y = read_libsvm(path)
    np.testing.assert_array_equal(X.toarray(), [[0.5, 0, 1], [0, -0.4, 0]])
    assert y.tolist() == [2, 1]
    assert X.indices.dtype == X.indptr.dtype == np.int32


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_a_truncated_compressed_file_is_called_truncated(tmp_path, suffix):
    path = tmp_path / f"rows{suffix}"
    content = COMPRESS[suffix](b"".join(b"%d %d:%d\n" % (i % 3, i + 1, i * i) for i in range(500)))
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=rf"rows{suffix}: the compressed file is truncated"):
        read_libsvm(path)


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_a_damaged_compressed_file_is_called_damaged(tmp_path, suffix):
    path = tmp_path / f"rows{suffix}"
    content = bytearray(COMPRESS[suffix](b"".join(b"%d %d:%d\n" % (i % 3, i + 1, i * i) for i in range(500))))
    content[len(content) // 2 : len(content) // 2 + 20] = b"\xff" * 20
    path.write_bytes(content)
    with pytest.raises(DataError, match="damaged"):
        read_libsvm(path)


BAD = [
    ("1 1:2\n2 3\n", "line 2: found '3' without ':'"),
    ("1 1:2\n\n# c\n2 1:1 x\n", "line 4: found 'x' without ':'"),
    ("1 a:2\n", "line 1: in 'a:2' the index 'a' is not a whole number"),
    ("1 1.5:2\n", "the index '1.5' is not a whole number"),
    ("1 1e3:2\n", "the index '1e3' is not a whole number"),
    ("1 :2\n", "the index '' is not a whole number"),
    ("1 1234567890123456789:2\n", "at most 18 digits"),
    ("1 1:\n", "the value '' is not a number"),
    ("1 1: 2\n", "the value '' is not a number"),
    ("1 1 :2\n", "found '1' without ':'"),
    ("1 1::2\n", "the value ':2' is not a number"),
    ("1 1:2:3\n", "the value '2:3' is not a number"),
    ("1 1:1_0\n", "the value '1_0' is not a number"),
    ("1 1:0x1p3\n", "is not a number"),
    ("1 1:--1\n", "the value '--1' is not a number"),
    ("1 1:2\n1 0:3\n", r"line 2: index 0 is below 1.*zero_based=True"),
    ("1 -3:2\n", "index -3 is below 1.*cannot be negative"),
    ("1 1:2\n1 3:1 2:1 3:4\n", "line 2: index 3 appears twice"),
    ("1 1:nan\n", "line 1: in '1:nan' the value is not finite"),
    ("1 1:2 2:-inf\n", "the value is not finite"),
    ("1 1:1e999\n", "'1:1e999' the value is not finite"),
    ("1 2:1\nspam 1:2\n", "line 2: label 'spam' is not a number, as those before it are"),
    ("spam 1:2\n1 2:1\n", "line 2: label '1' is a number, that of line 1 is 'spam'"),
    ("spam 1:x\n", "line 1: in '1:x' the value 'x' is not a number"),
    ("1,2 1:2\n", "label '1,2' is not a number. Rows with several labels"),
    ("5.1,3.5,1.4,setosa\n", "files separated by commas"),
    ("nan 1:2\n", "label 'nan' is not finite"),
    ("1:2 3:4\n", "starts with '1:2', where its label should be"),
    ("99999999999999999 1:2\n", r"line 1: label .* beyond 2\*\*53"),
    ("", "no rows found"),
    ("\n  \n# only a comment\n", "no rows found"),
    ("1\n2\n", "no row has an entry"),
    (b"1 1:2\n\x00\xff\n", r"line 2: label '\\x00\\\\xff' is not a number"),
    (b"PK\x03\x04zip", "not a LIBSVM text file, but a zip"),
    (b"\x93NUMPY...", "not a LIBSVM text file, but a .npy"),
    (b"\x28\xb5\x2f\xfdzstd", "zstd"),
    ("1 " + "x" * 90 + "\n", "x...' without ':'"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_a_bad_file_is_refused_with_the_line_and_the_reason(text, message):
    with pytest.raises(DataError, match=message):
        read(text)


def test_the_line_number_is_right_in_a_later_block(tmp_path, monkeypatch):
    monkeypatch.setattr("softmargin.data.libsvm._BLOCK_BYTES", 64)
    path = tmp_path / "rows.libsvm"
    path.write_text("1 1:2\n" * 100 + "# a comment\n\n" + "1 1:2\n" * 100 + "2 oops\n" + "1 1:1\n" * 50)
    with pytest.raises(DataError, match=r"rows\.libsvm, line 203: found 'oops'"):
        read_libsvm(path)


def test_comments_blank_lines_query_ids_and_windows_line_ends_are_skipped():
    text = "# head\r\n\r\n1 qid:7 1:0.5 2:1 # 9:9\r\n-1\tqid:8\t2:3  \r\n   \r\n+1 3:1"
    X, y = read(text)
    np.testing.assert_array_equal(X.toarray(), [[0.5, 1, 0], [0, 3, 0], [0, 0, 1]])
    assert y.tolist() == [1, -1, 1]
    np.testing.assert_array_equal(read(text.replace("\r\n", "\r"))[0].toarray(), X.toarray())
    np.testing.assert_array_equal(read("\ufeff" + text)[0].toarray(), X.toarray())


def test_unsorted_rows_are_sorted_and_empty_rows_and_stored_zeros_kept():
    X, y = read("1 3:3 1:1 2:0\n2\n1 2:5 1:4\n")
    assert X.indices.tolist() == [0, 1, 2, 0, 1]
    assert X.data.tolist() == [1, 0, 3, 4, 5]
    assert X.indptr.tolist() == [0, 3, 3, 5]
    assert y.tolist() == [1, 2, 1]


def test_labels_are_integers_only_if_all_are_whole():
    assert read("1.0 1:1\n-3 1:1\n")[1].dtype == np.int64
    assert read("1.5 1:1\n2 1:1\n")[1].tolist() == [1.5, 2.0]


def test_n_features_widens_and_is_checked():
    assert read("1 2:1\n", n_features=9)[0].shape == (1, 9)
    assert read("1\n2\n", n_features=3)[0].shape == (2, 3)
    with pytest.raises(DataError, match="line 2: index 10 is out of range; n_features=9"):
        read("1 2:1\n1 10:1\n", n_features=9)


def test_zero_based_files_are_read_on_request():
    X, _ = read("1 0:5 2:6\n", zero_based=True)
    np.testing.assert_array_equal(X.toarray(), [[5, 0, 6]])


def test_a_value_too_large_for_float32_is_refused():
    with pytest.raises(DataError, match=r"line 2: value .*1e\+39.* is too large for float32"):
        read("1 1:1\n1 1:1e39\n", dtype=np.float32)
    assert read("1 1:0.1\n", dtype=np.float32)[0].dtype == np.float32


def test_columns_beyond_32_bits_get_64_bit_indices():
    X, _ = read("1 1:1 5000000000:2\n")
    assert X.shape == (1, 5_000_000_000)
    assert X.indices.dtype == np.int64


def test_a_missing_file_a_folder_and_an_open_text_file_are_explained(tmp_path):
    with pytest.raises(DataError, match=r"cannot read .*absent.*No such file"):
        read_libsvm(tmp_path / "absent")
    with pytest.raises(DataError, match="cannot read"):
        read_libsvm(tmp_path)
    with pytest.raises(DataError, match="Open it in binary mode"):
        read_libsvm(io.StringIO("1 1:1\n"))


def test_an_open_binary_file_is_read(tmp_path):
    path = tmp_path / "rows"
    path.write_bytes(gzip.compress(b"1 1:1\n"))
    with open(path, "rb") as file:
        assert read_libsvm(file)[0].shape == (1, 1)


def test_dense_and_unsorted_sparse_data_are_written_alike(tmp_path):
    dense = np.array([[0.0, 1.5, 2.0], [0.1, 0.0, 0.0]])
    unsorted = csr_array((np.array([2.0, 1.5, 0.1]), np.array([2, 1, 0]), np.array([0, 2, 3])), shape=(2, 3))
    for X in (dense, csr_matrix(dense), unsorted):
        write_libsvm(tmp_path / "rows", X, [1, -1])
        assert (tmp_path / "rows").read_text() == "1 2:1.5 3:2\n-1 1:0.1\n"
    assert unsorted.indices.tolist() == [2, 1, 0]


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.eye(2), [1], r"y has shape \(1,\); X has 2 rows"),
        (np.eye(2), ["a", "b c"], "Number the classes"),
        (np.array([[np.nan]]), [1], "NaN or infinity"),
        (np.eye(2), [1, np.inf], "NaN or infinity"),
        (np.eye(1) * 1j, [1], "Use real numbers"),
    ],
)
def test_data_the_format_cannot_hold_are_refused(tmp_path, X, y, message):
    with pytest.raises(DataError, match=message):
        write_libsvm(tmp_path / "rows", X, y)
    assert os.listdir(tmp_path) == []


def test_a_write_that_fails_leaves_the_old_file_whole(tmp_path, monkeypatch):
    path = tmp_path / "rows.xz"
    write_libsvm(path, np.eye(2), [1, 2])
    before = path.read_bytes()

    def crash(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(DataError, match="No space left on device"):
        write_libsvm(path, np.eye(3), [1, 2, 3])
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["rows.xz"]


@pytest.mark.parametrize("name", ["dna.train", "wine", "vehicle", "svmguide3.train"])
def test_real_files_read_as_scikit_learn_reads_them(name, shared_file):
    path = shared_file(f"{name}.libsvm.xz")
    from sklearn.datasets import load_svmlight_file

    X, y = read_libsvm(path)
    with lzma.open(path) as file:
        X_other, y_other = load_svmlight_file(file, zero_based=False)
    assert X.shape == X_other.shape
    assert (X_other != X).nnz == 0
    np.testing.assert_array_equal(y, y_other)


def test_reading_needs_neither_scikit_learn_nor_numba():
    import subprocess

    code = (
        "import io, sys; from softmargin.data import read_libsvm, load; read_libsvm(io.BytesIO(b'1 1:1')); "
        "load('digits'); load('dna'); import softmargin.models; "
        "assert not {'sklearn', 'numba', 'rich'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
