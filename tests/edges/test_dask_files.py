"""Files as Dask collections: pieces of them are the rows of the whole, and errors name file and line."""

import gzip
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix, vstack

from softmargin import SoftmaxRegression
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.data import read_dask, read_libsvm, write_libsvm

dask = pytest.importorskip("dask", reason="the extra dask is not installed")
pd = pytest.importorskip("pandas")
pytest.importorskip("dask.dataframe")

RNG = np.random.default_rng(0)
X = RNG.standard_normal((120, 5)).round(3)
CODES = (X[:, 0] > 0) + (X[:, 1] > 0.5)
SPARSE = csr_matrix(np.where(np.abs(X) > 0.4, X, 0.0))


@pytest.fixture(autouse=True)
def _in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def rows_of(dX):
    """Return the blocks of an array as one CSR matrix."""
    return vstack(dask.compute(*dX.to_delayed().ravel()), format="csr")


@pytest.mark.parametrize("n_bytes", [100, 1000, 10**6])
def test_ranges_of_bytes_are_the_rows_of_the_file(tmp_path, n_bytes):
    path = tmp_path / "rows.libsvm"
    write_libsvm(path, SPARSE, CODES)
    dX, dy = read_dask(path, blocksize=n_bytes)
    assert dX.shape == (120, 5)
    most = math.ceil(path.stat().st_size / n_bytes)
    assert most / 2 < dX.numblocks[0] <= most
    assert (rows_of(dX) != read_libsvm(path)[0]).nnz == 0
    np.testing.assert_array_equal(dy.compute(), CODES)


def test_line_ends_comments_and_parts_without_rows(tmp_path):
    text = b"# a head\r\n" + b"+1 1:0.5 3:2\r\n-1 2:1e-3\r\n" + b"# nothing\r\n" * 40 + b"-1 4:7"
    (tmp_path / "a.libsvm").write_bytes(text)
    (tmp_path / "b.libsvm").write_bytes(b"")  # a part that had nothing to say, as Spark writes them
    (tmp_path / "c.libsvm").write_bytes(gzip.compress(text))
    dX, dy = read_dask(tmp_path / "*.libsvm", blocksize=30)
    assert dX.shape == (6, 4)
    np.testing.assert_array_equal(dy.compute(), [1, -1, -1, 1, -1, -1])
    assert (rows_of(dX) != vstack([read_libsvm(tmp_path / "a.libsvm")[0]] * 2, format="csr")).nnz == 0


def test_columns_and_labels_agree_over_all_parts(tmp_path):
    (tmp_path / "a").write_text("yes 1:1\nno 2:1\n")
    (tmp_path / "b").write_text("perhaps 7:1\n")
    dX, dy = read_dask(tmp_path / "[ab]")
    assert dX.chunks == ((2, 1), (7,))
    assert dy.compute().tolist() == ["yes", "no", "perhaps"]
    (tmp_path / "c").write_text("1 1:1\n")
    (tmp_path / "d").write_text("0.5 1:1\n")
    y = read_dask(tmp_path / "[cd]")[1]
    assert {part.compute().dtype for part in y.to_delayed()} == {np.dtype(float)}
    with pytest.raises(DataError, match=r"c: its labels are numbers, those of .*a are text"):
        read_dask(tmp_path / "[abc]")
    with pytest.raises(DataError, match=r"b, line 1: index 7 is out of range; n_features=3"):
        read_dask(tmp_path / "[ab]", n_features=3)


def test_errors_name_the_line_of_the_file(tmp_path):
    path = tmp_path / "rows.libsvm"
    path.write_text("1 1:1\n" * 100 + "1 1:one\n" + "1 1:1\n" * 100)
    with pytest.raises(DataError, match=r"rows\.libsvm, line 101: "):
        read_dask(path, blocksize=64)
    (tmp_path / "none.libsvm").write_text("# nothing\n")
    with pytest.raises(DataError, match="no file holds a row"):
        read_dask(tmp_path / "none.libsvm")
    with pytest.raises(DataError, match="no file matches"):
        read_dask(tmp_path / "nothing-*")
    with pytest.raises(IncompatibleError, match="LIBSVM files hold their labels"):
        read_dask(path, labels="y")
    (tmp_path / "rows.csv").write_text("a,y\n1,2\n")
    with pytest.raises(IncompatibleError, match=r"dask\.dataframe\.read_csv"):
        read_dask(tmp_path / "rows.csv")


def test_rows_of_npy_files(tmp_path):
    for i, rows in enumerate(np.array_split(np.arange(120), 2)):
        np.save(tmp_path / f"X{i}.npy", X[rows].astype(np.float32))
        np.save(tmp_path / f"X{i}.y.npy", CODES[rows])
    dX, dy = read_dask(tmp_path / "X*.npy", blocksize=25 * 5 * 4)
    assert dX.chunks[0] == dy.chunks[0] == (25, 25, 10) * 2
    np.testing.assert_array_equal(dX.compute(), X.astype(np.float32))
    np.testing.assert_array_equal(dy.compute(), CODES)
    for i in range(2):
        (tmp_path / f"X{i}.y.npy").rename(tmp_path / f"labels{i}.npy")
    np.testing.assert_array_equal(read_dask(tmp_path / "X*.npy", labels=f"{tmp_path}/labels*.npy")[1].compute(), CODES)
    with pytest.raises(DataError, match="no labels found"):
        read_dask(tmp_path / "X*.npy")
    with pytest.raises(DataError, match="as many of both"):
        read_dask(tmp_path / "X*.npy", labels=f"{tmp_path}/labels0.npy")
    np.save(tmp_path / "labels1.npy", CODES[:7])
    with pytest.raises(DataError, match=r"labels1\.npy: X has 60 rows and y has 7 labels"):
        read_dask(tmp_path / "X*.npy", labels=f"{tmp_path}/labels*.npy")
    np.save(tmp_path / "X1.npy", np.ones((60, 4), dtype=int))
    np.save(tmp_path / "labels1.npy", CODES[:60])
    with pytest.raises(DataError, match=r"X1\.npy: X has 4 columns, that of .*X0\.npy has 5"):
        read_dask(tmp_path / "X*.npy", labels=f"{tmp_path}/labels*.npy")
    whole = read_dask(tmp_path / "X1.npy", labels=f"{tmp_path}/labels1.npy")[0]
    assert whole.compute().dtype == whole.dtype == np.float64


def test_columns_of_parquet_files(tmp_path):
    for i, rows in enumerate(np.array_split(np.arange(120), 3)):
        frame = pd.DataFrame(X[rows], columns=list("vwxyz")).assign(label=CODES[rows])
        frame.to_parquet(tmp_path / f"p{i}.parquet")
    found = SoftmaxRegression(tol=1e-6).fit(*read_dask(tmp_path / "p*.parquet"))
    np.testing.assert_allclose(found.coef_, SoftmaxRegression(tol=1e-6).fit(X, CODES).coef_, atol=1e-3)
    assert list(found.feature_names_in_) == list("vwxyz")
    assert list(read_dask(tmp_path / "p*.parquet", labels="z")[0].columns) == [*"vwxy", "label"]
    with pytest.raises(DataError, match="asks for the column 'q'; there are 6"):
        read_dask(tmp_path / "p*.parquet", labels="q")
    frame.rename(columns={"label": "sort", "y": "u"}).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(IncompatibleError, match="say which column holds the labels"):
        read_dask(tmp_path / "other.parquet")
    Path(tmp_path / "broken.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(DataError, match="no Parquet, or damaged"):
        read_dask(tmp_path / "broken.parquet")
    write_libsvm(tmp_path / "p.libsvm", SPARSE, CODES)
    with pytest.raises(DataError, match="several formats"):
        read_dask(tmp_path / "p*")
