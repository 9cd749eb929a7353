"""Files that need not fit in memory: the reader of chunks, `train --stream`, and `train --approximation`."""

import lzma
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import vstack

from helpers import HELD
from softmargin.cli import stream as cli_stream
from softmargin.core.errors import DataError
from softmargin.data import blobs, libsvm, write_libsvm
from softmargin.data.libsvm import read_libsvm, read_libsvm_chunks
from softmargin.models import KernelExpansion, load_model

STREAM = ("--model", "kernel-svc", "--stream")
NYSTROEM = ("--model", "kernel-svc", "--approximation", "nystroem", "--n-components", "20")


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(cli_stream, "CHUNK_ROWS", 100)


def written(path, n=600, k=2, seed=0):
    X, y = blobs(n, 5, k, seed=seed, separation=1.5)
    write_libsvm(path, X, 2 * y + 1)
    return path


# --- the reader ----------------------------------------------------------------------------------------------


@given(n_rows=st.integers(1, 70), block=st.integers(20, 4000), seed=st.integers(0, 20))
def test_chunks_are_the_whole_file(tmp_path_factory, n_rows, block, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((50, 6)) * (rng.random((50, 6)) < 0.5)
    X[0] = 0.0
    path = tmp_path_factory.mktemp("chunks") / "rows.libsvm"
    write_libsvm(path, X, rng.integers(0, 3, 50))
    size = libsvm._BLOCK_BYTES
    libsvm._BLOCK_BYTES = block
    try:
        chunks = list(read_libsvm_chunks(path, n_rows=n_rows, n_features=6))
    finally:
        libsvm._BLOCK_BYTES = size
    assert [len(y) for _, y in chunks[:-1]] == [n_rows] * (len(chunks) - 1)
    whole, labels = read_libsvm(path, n_features=6)
    assert abs(vstack([X for X, _ in chunks]) - whole).max() == 0.0
    np.testing.assert_array_equal(np.concatenate([y for _, y in chunks]), labels)


def test_columns_are_those_seen_so_far(tmp_path):
    (tmp_path / "grows").write_bytes(b"1\n2 3:1\n1 1:1\n2 5:1 9:2\n")
    widths = [X.shape for X, _ in read_libsvm_chunks(tmp_path / "grows", n_rows=1)]
    assert widths == [(1, 1), (1, 3), (1, 3), (1, 9)]


def test_chunks_of_what_is_no_file_are_refused(tmp_path):
    (tmp_path / "empty").write_bytes(b"# nothing\n")
    for path, words in ((tmp_path / "none", "cannot read"), (tmp_path / "empty", "no rows found")):
        with pytest.raises(DataError, match=words):
            list(read_libsvm_chunks(path, n_rows=10))
    with pytest.raises(DataError, match="n_rows must be at least 1"):
        list(read_libsvm_chunks(tmp_path / "empty", n_rows=0))


def test_memory_of_chunks_does_not_grow_with_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(libsvm, "_BLOCK_BYTES", 1 << 14)
    peaks = []
    for n in (1_000, 10_000):
        path = written(tmp_path / "rows.libsvm", n)
        tracemalloc.start()
        for _ in read_libsvm_chunks(path, n_rows=200):
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0]


# --- train --stream ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("suffix", ["", ".xz"])
def test_stream_trains_measures_and_saves(from_json, tmp_path, small_chunks, k, suffix):
    path = written(tmp_path / f"rows.libsvm{suffix}", k=k)
    found = from_json("train", path, *STREAM, "-o", tmp_path / "m", "--n-components", "60", "--holdout", "0.2")
    assert found["rows"] + found["test_rows"] == 600
    assert 80 < found["test_rows"] < 160
    assert found["support_vectors"] <= 60
    assert found["certificate"]["kind"] == "sample gap"
    model = load_model(tmp_path / "m")
    assert isinstance(model, KernelExpansion)
    X, y = read_libsvm(path)
    assert (model.predict(X) == y).mean() > 0.85
    assert abs(found["accuracy"] - (model.predict(X) == y).mean()) < 0.1
    assert from_json("predict", path, tmp_path / "m")["accuracy"] == (model.predict(X) == y).mean()


def test_stream_tells_people(softmargin_, tmp_path, small_chunks):
    words = (*HELD, *STREAM, "--n-components", "30", "--progress")
    code, out, err = softmargin_("train", written(tmp_path / "rows"), *words)
    assert code == 0
    found = dict(line.split("  ", 1) for line in out.splitlines())
    assert {"trained on", "problem", "sample gap", "vectors kept", "test accuracy"} <= set(found)
    assert "600/600" in err


def test_stream_options(from_json, tmp_path, small_chunks):
    path, other = written(tmp_path / "rows"), written(tmp_path / "more")
    more = ("--test", other, "--float32", "--normalize", "rows", "--class-weight", "1=2", "--gamma", "0.5", "-C", "2")
    found = from_json("train", path, *STREAM, *more, "--n-components", "40", "-o", tmp_path / "m")
    assert (found["rows"], found["test_rows"], found["gamma"], found["C"]) == (600, 600, 0.5, 2.0)
    assert load_model(tmp_path / "m").vectors.dtype == np.float32
    assert from_json("predict", other, tmp_path / "m")["accuracy"] == found["accuracy"] > 0.8
    assert from_json("train", path, *STREAM, "--n-components", "40")["accuracy"] is None


LINEAR = {
    "linear-svc": ("--multiclass", "crammer_singer", "-C", "0.01"),
    "softmax": ("-C", "0.1", "--normalize", "rows"),
}


@pytest.mark.parametrize("model", LINEAR)
def test_linear_streams_are_certified_on_all_training_rows(from_json, tmp_path, small_chunks, model):
    path, file = written(tmp_path / "rows.libsvm", k=3), tmp_path / "m"
    found = from_json("train", path, *HELD, "--model", model, "--stream", *LINEAR[model], "-o", file)
    gap = found["certificate"]
    assert (gap["kind"], found["status"]) == ("duality gap", "max_iter")
    assert 0.0 < gap["residual"] < 0.3
    assert 0.8 < found["accuracy"] <= 1.0
    again = from_json("certify", file, path)  # the same rows: all that were not held out
    assert again["rows"] == found["rows"] == 600 - found["test_rows"]
    assert again["primal"] == pytest.approx(gap["primal"], rel=1e-9)
    assert gap["bound"] <= again["bound"] * (1.0 + 1e-9)
    text = from_json("predict", path, file, "--part", "test")
    assert text["rows"] == found["test_rows"]
    assert text["accuracy"] == found["accuracy"]


@pytest.mark.parametrize("solver", ["pegasos", "scs"])
def test_kernel_streams_can_be_certified(from_json, tmp_path, small_chunks, solver):
    path, file = written(tmp_path / "rows.libsvm"), tmp_path / "m"
    found = from_json("train", path, *HELD, *STREAM, "--solver", solver, "--n-components", "60", "-o", file)
    assert found["certificate"]["kind"] == "sample gap"
    assert found["support_vectors"] <= 60
    assert found["accuracy"] > 0.85
    again = from_json("certify", file, path)
    assert again["rows"] == found["rows"]
    assert again["kind"] == "duality gap"


def test_a_linear_stream_tells_people(softmargin_, tmp_path, small_chunks):
    code, out, _ = softmargin_("train", written(tmp_path / "rows"), "--stream")
    assert code == 0
    found = dict(line.split("  ", 1) for line in out.splitlines())
    assert "on all 600 training rows" in found["duality gap"]


def test_held_out_rows_are_few(tmp_path, from_json, small_chunks, monkeypatch):
    monkeypatch.setattr(cli_stream, "HELD_ROWS", 30)
    found = from_json("train", written(tmp_path / "rows"), *HELD, *STREAM, "--n-components", "20")
    assert found["test_rows"] == 30


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--stream", "--loss", "squared_hinge"), "--stream learns from the hinge or the softmax"),
        (("--stream", "--solver", "newton"), "by --solver auto"),
        (("--stream", "--free-intercept"), "--free-intercept needs all rows at once"),
        (("--model", "softmax", "--stream", "--cv", "3"), "--cv needs all rows at once"),
        (("--stream", "--model", "l1-ball", "--radius", "1"), "l1-ball needs all rows"),
        (("--model", "softmax", "--stream", "--l1-ratio", "0.5"), "needs the hinge, or a softmax with a ridge"),
        ((*STREAM, "--multiclass", "crammer_singer"), "found --multiclass crammer_singer"),
        ((*STREAM, "--loss", "squared_hinge"), "--stream learns from the hinge,"),
        ((*STREAM, "--solver", "frank_wolfe"), "by --solver auto or pegasos or scs"),
        ((*STREAM, "--normalize", "maxabs"), "--normalize maxabs looks at all rows at once"),
        ((*STREAM, "--class-weight", "balanced"), "--class-weight balanced looks at all rows"),
        ((*STREAM, "--checkpoint", "c"), "--checkpoint needs a run"),
        ((*STREAM, "--class-weight", "9=1"), "--class-weight names the label '9'"),
        (("--approximation", "nystroem"), "--approximation is an option of kernel models"),
        ((*NYSTROEM, "--solver", "frank_wolfe"), "not linear hinge ones"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_does_not_go_together_is_one_line(refused, tmp_path, words, message):
    assert message in refused("train", written(tmp_path / "rows"), *words)


def test_damaged_files_are_one_line(refused, tmp_path):
    whole = written(tmp_path / "rows.libsvm")
    text = whole.read_bytes()
    (tmp_path / "cut.xz").write_bytes(lzma.compress(text)[:-200])
    assert "truncated" in refused("train", tmp_path / "cut.xz", *STREAM)
    (tmp_path / "bad").write_bytes(text + b"1 2:x\n")
    assert "line 601" in refused("train", tmp_path / "bad", *STREAM)
    (tmp_path / "one").write_bytes(b"1 1:2\n1 1:3\n")
    assert "1 class" in refused("train", tmp_path / "one", *STREAM)
    (tmp_path / "half").write_bytes(b"1.5 1:2\n1 1:3\n")
    assert "names no class" in refused("train", tmp_path / "half", *STREAM)
    assert "cannot read" in refused("train", tmp_path / "nowhere", *STREAM)


# --- train --approximation -----------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [(), ("--loss", "squared_hinge"), ("--normalize", "maxabs"), ("--float32",)], ids=str)
def test_approximate_models_are_trained_used_and_certified(from_json, tmp_path, more):
    path = written(tmp_path / "rows.libsvm", 300, k=3)
    found = from_json("train", path, *HELD, *NYSTROEM, *more, "-o", tmp_path / "m")
    assert found["status"] == "converged"
    assert found["is_proof"] is True
    model = load_model(tmp_path / "m")
    assert len(model.support) == 20
    assert model.info["approximation"] == "nystroem"
    assert from_json("predict", path, tmp_path / "m", "--part", "test")["accuracy"] == found["accuracy"] > 0.8
    assert from_json("certify", tmp_path / "m", path)["primal"] == pytest.approx(
        found["certificate"]["primal"], rel=1e-3
    )


@pytest.mark.parametrize("solver", ["scs", "wolfe", "pegasos"])
def test_sampling_solvers_by_name(from_json, tmp_path, solver):
    path = written(tmp_path / "rows.libsvm", 200)
    asked = ("--model", "kernel-svc", "--solver", solver, "-C", "0.05", "--tol", "0.05", "-o", tmp_path / "m")
    found = from_json("train", path, *HELD, *asked, "--max-iter", "2000")
    assert found["status"] == "converged"
    assert found["certificate"]["primal"] > 0
    assert from_json("certify", tmp_path / "m", path)["primal"] == pytest.approx(found["certificate"]["primal"])
