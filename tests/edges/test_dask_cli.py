"""`train --dask`: files in parts, trained by Dask's workers: the model and the certificate of a fit of all rows."""

import numpy as np
import pytest

from softmargin import LinearSVC, SoftmaxRegression, TraceBallClassifier
from softmargin.cli.exit_codes import NOT_CERTIFIED
from softmargin.data import blobs, write_libsvm
from softmargin.models import load_model

pytest.importorskip("dask", reason="the extra dask is not installed")
X, Y = blobs(90, 4, 3, seed=1)
NAMES = np.array(["blue", "green", "red"])
THREADS = ("--dask", "threads")


@pytest.fixture
def pattern(tmp_path):
    """Write three files of LIBSVM text; return the pattern that they match."""
    for i in range(3):
        rows = slice(30 * i, 30 * i + 30)
        write_libsvm(tmp_path / f"part-{i}.libsvm", X[rows], Y[rows])
    return tmp_path / "part-*.libsvm"


@pytest.mark.parametrize(
    ("words", "estimator"),
    [
        (("--multiclass", "crammer_singer"), LinearSVC(multiclass="crammer_singer", tol=1e-6)),
        (("--model", "softmax", "-C", "0.5"), SoftmaxRegression(C=0.5, tol=1e-6)),
        (("--model", "trace-ball", "--radius", "2"), TraceBallClassifier(radius=2.0, tol=1e-6)),
    ],
)
def test_the_model_is_that_of_all_rows(from_json, pattern, tmp_path, words, estimator):
    found = from_json("train", pattern, *THREADS, *words, "--tol", "1e-4", "-o", tmp_path / "m")
    best = estimator.fit(X, Y).certificate_.primal
    assert (found["rows"], found["features"], found["classes"], found["partitions"]) == (90, 4, 3, 3)
    assert found["certificate"]["residual"] <= 1e-4
    assert best * (1 - 1e-6) <= found["certificate"]["primal"] <= best * (1 + 2e-4)
    model = load_model(tmp_path / "m")
    assert found["train_accuracy"] == pytest.approx((model.predict(X) == Y).mean())
    assert model.info["data"]["rows"] == 90


@pytest.mark.parametrize("model", ["l1-ball-regressor", "trace-ball-regressor"])
def test_a_regressor_has_the_share_of_variance_it_explains(from_json, tmp_path, model):
    y = X @ [1.0, 0.5, 0.0, -1.0]
    np.save(tmp_path / "X-0.npy", X)
    np.save(tmp_path / "X-0.y.npy", y)
    words = ("--model", model, "--radius", "2", "-o", tmp_path / "m")
    found = from_json("train", tmp_path / "X-*.npy", *THREADS, *words)
    rest = y - load_model(tmp_path / "m").predict(X).ravel()
    assert found["train_r2"] == pytest.approx(1 - (rest**2).mean() / y.var())


def test_labels_are_text_with_weights_and_test_rows_are_measured(softmargin_, tmp_path):
    lines = [
        f"{NAMES[label]} " + " ".join(f"{j + 1}:{value!r}" for j, value in enumerate(row.tolist()))
        for row, label in zip(X, Y, strict=True)
    ]
    for i in range(2):
        (tmp_path / f"text-{i}.libsvm").write_text("\n".join(lines[45 * i : 45 * i + 45]) + "\n")
    words = ("--class-weight", "red=3", "--test", tmp_path / "text-0.libsvm")
    code, out, _ = softmargin_("train", tmp_path / "text-*.libsvm", *THREADS, *words)
    found = dict(line.split("  ", 1) for line in out.splitlines())
    weighted = LinearSVC(class_weight={"red": 3.0}, tol=1e-6).fit(X, NAMES[Y]).certificate_.primal
    assert code == 0
    assert float(found["primal"]) == pytest.approx(weighted, rel=2e-3)
    assert {"trained on", "workers", "relative gap", "train accuracy", "test accuracy"} <= set(found)


def test_a_run_goes_on_from_its_checkpoint(softmargin_, from_json, pattern, tmp_path):
    words = ("--checkpoint", tmp_path / "c", "--checkpoint-every", "0", "--tol", "1e-5")
    code, out, _ = softmargin_("train", pattern, *THREADS, *words, "--max-iter", "2", "--json")
    assert (code, '"status": "max_iter"' in out) == (NOT_CERTIFIED, True)
    assert from_json("train", pattern, *THREADS, *words)["certificate"]["residual"] <= 1e-5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--normalize", "maxabs"), "--normalize maxabs"),
        (("--cv", "3"), "--cv needs all rows"),
        (("--multiclass", "one_vs_one"), "one_vs_one"),
        (("--stream",), "--stream and --dask"),
        (("--resume", "other"), "leave out --resume"),
        (("--solver", "block_descent"), "choose one of auto, newton"),
    ],
)
def test_what_needs_all_rows_is_refused(refused, pattern, words, said):
    assert said in refused("train", pattern, *THREADS, *words)


def test_files_and_schedulers_that_are_not_there_are_told(refused, tmp_path, pattern, monkeypatch):
    assert "no file matches" in refused("train", tmp_path / "none-*", *THREADS)
    assert "stdin has none" in refused("train", "-", *THREADS)
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    monkeypatch.setattr("softmargin.cli.cluster._PATIENCE", "0.2s")
    assert "no scheduler answers there" in refused("train", pattern, "--dask", "tcp://127.0.0.1:1")


@pytest.mark.slow
def test_processes_of_this_machine_train(from_json, pattern):
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    found = from_json("train", pattern, "--dask", "local")
    assert "processes of this machine" in found["workers"]
    assert found["certificate"]["residual"] <= 1e-3
