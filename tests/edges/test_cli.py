"""The command line: every verb does its work, every mistake is one line, and nothing that was computed is lost."""

import contextlib
import inspect
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

import softmargin
from helpers import HELD
from softmargin.cli import choices, options, train
from softmargin.cli.show import in_options
from softmargin.core.archive import read_archive
from softmargin.core.errors import ModelFileError
from softmargin.data import blobs, load, split, write_libsvm
from softmargin.models import LinearModel

SOURCE = str(Path(softmargin.__file__).parents[1])
PROGRAM = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from softmargin.cli.main import main; sys.exit(main())"
)
CERTIFICATE_KEYS = {"kind", "primal", "bound", "residual", "rounding"}


def start(*words, **settings):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([SOURCE, os.environ.get("PYTHONPATH", "")])}
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PROGRAM, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        **settings,
    )


# --- the verbs -----------------------------------------------------------------------------------------------


def test_train_on_digits_tells_what_is_proven(softmargin_, tmp_path):
    model = tmp_path / "digits.model"
    code, out, err = softmargin_("train", "digits", *HELD, "-o", model)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].endswith("the 1348 training rows of digits (25% held out, seed 0), 64 features, 10 classes")
    assert any(line.endswith("on the 449 test rows of digits (25% held out, seed 0)") for line in lines)
    assert lines[-1].split() == ["model", "saved", "as", str(model)]
    for name in ("status", "passes", "seconds", "primal", "bound", "relative gap", "support vectors", "test accuracy"):
        assert any(line.startswith(name) for line in lines)
    assert all(line == line.rstrip() for line in lines)
    assert LinearModel.load(model).info["status"] == "converged"


def test_the_json_line_of_train_holds_the_certificate(from_json):
    found = from_json("train", "digits", *HELD, "--tol", "1e-2")
    assert found["status"] == "converged"
    assert set(found["certificate"]) == CERTIFICATE_KEYS
    assert found["certificate"]["residual"] <= found["tol"] == 0.01
    assert 0.9 < found["accuracy"] <= 1
    assert 0.9 < found["train_accuracy"] <= 1
    assert (found["rows"], found["test_rows"], found["features"], found["classes"]) == (1348, 449, 64, 10)
    assert found["n_iter"] > 0
    assert found["seconds"] > 0
    assert found["model_file"] is None


def test_a_data_set_with_a_test_part_is_tested_on_it(from_json):
    found = from_json("train", "dna", "-c", "0.1", "--multiclass", "crammer_singer")
    assert (found["rows"], found["test_rows"], found["C"]) == (2000, 1186, 0.1)
    assert found["accuracy"] > 0.9


def test_without_held_out_rows_there_is_no_accuracy(from_json, softmargin_, files):
    found = from_json("train", files / "train.libsvm")
    assert (found["rows"], found["test_rows"], found["accuracy"]) == (120, 0, None)
    assert found["train_accuracy"] > 0.8
    _, out, _ = softmargin_("train", files / "train.libsvm")
    assert "not measured" in out


@pytest.mark.parametrize("name", ["narrow", "wide"])
def test_test_files_may_end_at_another_column(from_json, files, name):
    model = files / "m"
    found = from_json("train", files / "train.libsvm", "--test", files / f"{name}.libsvm", "-o", model)
    assert (found["rows"], found["features"], found["test_rows"]) == (120, 6, 40)
    again = from_json("predict", files / f"{name}.libsvm", model)
    assert again["accuracy"] == found["accuracy"] > 0.7
    assert len(again["labels"]) == 40


def test_labels_unseen_in_training_count_as_errors(softmargin_, files):
    write_libsvm(files / "strange.libsvm", np.ones((4, 6)), [1, 2, 3, 9])
    code, out, err = softmargin_("train", files / "train.libsvm", "--test", files / "strange.libsvm", "--json")
    assert code == 0
    assert "1 test rows carry labels that training never saw" in err
    assert json.loads(out)["accuracy"] <= 0.75


def test_predict_writes_a_label_a_line(softmargin_, files):
    model, labels = files / "m", files / "labels.txt"
    softmargin_("train", files / "train.libsvm", *HELD, "-o", model)
    code, out, err = softmargin_("predict", files / "wide.libsvm", model)
    assert code == 0
    assert set(out.split()) <= {"1", "2", "3"}
    assert out.count("\n") == 40
    assert err.startswith("accuracy 0.")
    assert softmargin_("predict", files / "wide.libsvm", model, "-o", labels, "-q") == (0, "", "")
    assert labels.read_text() == out


def test_predicted_scores_have_a_head_and_agree_with_the_labels(softmargin_, from_json, files):
    model = files / "m"
    softmargin_("train", files / "train.libsvm", *HELD, "-o", model)
    _, out, _ = softmargin_("predict", files / "wide.libsvm", model, "--scores")
    head, *lines = (line.split("\t") for line in out.splitlines())
    assert head == ["label", "score:1", "score:2", "score:3"]
    for label, *scores in lines:
        assert int(label) == 1 + int(np.argmax([float(score) for score in scores]))
    found = from_json("predict", files / "wide.libsvm", model, "--scores")
    assert found["scores"] == [[float(score) for score in line[1:]] for line in lines]


def test_rows_with_foreign_labels_are_predicted_without_an_accuracy(softmargin_, from_json, files):
    softmargin_("train", files / "train.libsvm", *HELD, "-o", files / "m")
    for name, y in (("words", ["a", "b"]), ("other", [7, 8])):
        np.savez(files / f"{name}.npz", X=np.ones((2, 6)), y=y)
        code, out, err = softmargin_("predict", files / f"{name}.npz", files / "m")
        assert (code, out.count("\n")) == (0, 2)
        assert "no label" in err
        assert from_json("predict", files / f"{name}.npz", files / "m")["accuracy"] is None


def test_two_classes_have_one_score_for_the_second(softmargin_, tmp_path):
    X, y = blobs(40, 3, 2, seed=1)
    np.savez(tmp_path / "pair.npz", X=X, y=np.array(["ham", "spam"])[y])
    code, _, _ = softmargin_("train", tmp_path / "pair.npz", *HELD, "-o", tmp_path / "m", "--class-weight", "spam=2")
    assert code == 0
    _, out, err = softmargin_("predict", tmp_path / "pair.npz", tmp_path / "m", "--scores")
    head, *lines = (line.split("\t") for line in out.splitlines())
    assert head == ["label", "score:spam"]
    assert all((label == "spam") == (float(score) > 0) for label, score in lines)
    assert err.startswith("accuracy ")


def test_parts_of_a_split_are_found_again(from_json, tmp_path):
    model = tmp_path / "m"
    trained = from_json("train", "digits", "-o", model, "--holdout", "0.4", "--seed", "3", "--tol", "1e-2")
    part = {name: from_json("predict", "digits", model, "--part", name) for name in ("train", "test", "all")}
    assert part["test"]["accuracy"] == trained["accuracy"]
    assert part["train"]["accuracy"] == trained["train_accuracy"]
    assert part["all"]["rows"] == 1797 == part["train"]["rows"] + part["test"]["rows"]
    assert from_json("predict", "digits", model)["rows"] == 1797
    assert from_json("predict", "dna", model, code=0)["rows"] == 1186


def test_certify_finds_the_training_rows_and_the_promise_kept(from_json, softmargin_, tmp_path):
    model = tmp_path / "m"
    trained = from_json("train", "digits", "-o", model, "--holdout", "0.4", "--seed", "3", "--tol", "1e-2")
    found = from_json("certify", model, "digits")
    assert set(found["certificate"]) == CERTIFICATE_KEYS
    assert found["rows"] == trained["rows"]
    assert "40% held out, seed 3" in found["rows_used"]
    assert found["primal"] == pytest.approx(trained["certificate"]["primal"], rel=1e-12)
    assert trained["certificate"]["bound"] <= found["bound"] <= found["primal"]
    assert 0 < found["residual"] <= 1e-2
    code, out, _ = softmargin_("certify", model, "digits", "--bound-tol", "1e-3")
    assert code == 0
    assert "Proven: no weights have an objective more than" in out
    code, out, err = softmargin_("certify", model, "digits", "--part", "all", "--bound-tol", "1e-2")
    assert code == 0
    assert "all 1797 rows" in out
    assert "trained on 1078 rows" in err


@pytest.mark.parametrize(
    "settings",
    [
        ("--normalize", "maxabs"),
        ("--normalize", "rows"),
        ("--normalize", "maxabs", "--float32"),
        ("--class-weight", "1=2.5,3.0=0.5", "--no-intercept"),
        ("--class-weight", "balanced", "--intercept-scaling", "10"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("suffix", ["libsvm", "npz"])
def test_a_saved_model_takes_raw_data_and_solves_the_problem_it_was_trained_on(from_json, tmp_path, settings, suffix):
    """Scaling is part of the model: predict and certify see what train saw."""
    X, y = blobs(90, 5, 3, seed=2, separation=1.2)
    if "--normalize" in settings:
        X *= [1e-3, 1.0, 50.0, 1e4, 1.0]
    X[:, 4] = 0.0
    X[7] = 0.0
    data, model = tmp_path / f"raw.{suffix}", tmp_path / "m"
    if suffix == "npz":
        np.savez(data, X=X, y=y + 1)
    else:
        write_libsvm(data, X, y + 1)
    trained = from_json("train", data, *HELD, "-o", model, *settings, "--tol", "1e-4", "--max-iter", "100000")
    for part, name in (("train", "train_accuracy"), ("test", "accuracy")):
        assert from_json("predict", data, model, "--part", part)["accuracy"] == trained[name]
    found = from_json("certify", model, data, "--bound-tol", "1e-3")
    precision = 1e-5 if "--float32" in settings else 1e-9
    assert found["primal"] == pytest.approx(trained["certificate"]["primal"], rel=precision)
    assert found["bound"] <= trained["certificate"]["primal"] * (1 + precision)


def test_maxabs_equals_training_on_scaled_columns(from_json, tmp_path):
    X, y = blobs(80, 4, 3, seed=4)
    X *= [1.0, 8.0, 64.0, 512.0]
    scales = np.abs(X).max(axis=0)
    np.savez(tmp_path / "raw.npz", X=X, y=y)
    np.savez(tmp_path / "scaled.npz", X=X / scales, y=y)
    all_rows = ("--holdout", "0")
    from_json("train", tmp_path / "raw.npz", *HELD, "--normalize", "maxabs", "-o", tmp_path / "raw.m", *all_rows)
    from_json("train", tmp_path / "scaled.npz", *HELD, "-o", tmp_path / "scaled.m", *all_rows)
    raw, scaled = (LinearModel.load(tmp_path / f"{name}.m") for name in ("raw", "scaled"))
    np.testing.assert_allclose(raw.coef, scaled.coef / scales, rtol=1e-12)
    np.testing.assert_allclose(raw.intercept, scaled.intercept, rtol=1e-12)


def test_liblinear_files_are_written_read_and_certified(from_json, refused, files):
    data, ours, theirs = files / "train.libsvm", files / "ours", files / "theirs"
    from_json("train", data, "-o", ours)
    trained = from_json("train", data, "-o", theirs, "--format", "liblinear")
    assert theirs.read_text().startswith("solver_type MCSVM_CS\n")
    labels = [from_json("predict", files / "wide.libsvm", model)["labels"] for model in (ours, theirs)]
    assert labels[0] == labels[1]
    assert "Give -C" in refused("certify", theirs, data)
    found = from_json("certify", theirs, data, "-C", "1", "--multiclass", "weston_watkins")
    assert found["rows"] == 120
    assert found["primal"] == pytest.approx(trained["certificate"]["primal"], rel=1e-9)
    theirs.write_text(theirs.read_text().replace("MCSVM_CS", "L2R_LR"))
    assert from_json("certify", theirs, data, "-C", "1")["loss"] == "logistic"


def test_what_a_liblinear_file_cannot_hold_is_refused_before_training(refused, tmp_path, monkeypatch):
    monkeypatch.setattr(train, "fit_problem", None)
    np.savez(tmp_path / "words.npz", X=np.eye(8), y=["a", "b"] * 4)
    asked = ("-o", tmp_path / "m", "--format", "liblinear")
    assert "integer labels" in refused("train", tmp_path / "words.npz", *asked)
    assert "normalised" in refused("train", "digits", *asked, "--normalize", "rows")
    assert not (tmp_path / "m").exists()


def test_data_lists_and_describes(softmargin_, from_json, tmp_path):
    write_libsvm(tmp_path / "mine.libsvm", np.eye(3), [1, 2, 1])
    code, out, _ = softmargin_("data", "--data-dir", tmp_path)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["name", "digits", "dna", "mine"]
    found = from_json("data", "--data-dir", tmp_path)
    assert [entry["name"] for entry in found["data_sets"]] == ["digits", "dna", "mine"]
    found = from_json("data", "dna")
    assert (found["rows"], found["test_rows"], found["features"], found["classes"]) == (2000, 1186, 180, 3)
    assert sum(count["rows"] for count in found["counts"]) == 2000
    assert (found["dtype"], found["sparse"]) == ("float64", True)
    code, out, _ = softmargin_("data", "digits")
    assert code == 0
    assert "float64, dense" in out


def test_the_trace_is_written_as_lines_or_as_columns(from_json, tmp_path):
    found = from_json("train", "digits", *HELD, "--tol", "1e-2", "--trace", tmp_path / "t.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert lines[-1]["iteration"] == found["n_iter"]
    assert lines[-1]["residual"] == found["certificate"]["residual"]
    from_json("train", "digits", *HELD, "--tol", "1e-2", "--trace", tmp_path / "t.json")
    columns = json.loads((tmp_path / "t.json").read_text())
    assert set(columns) == {"iteration", "seconds", "solver", "primal", "bound", "residual"}


def test_progress_goes_to_stderr_and_only_if_wanted(softmargin_):
    asked = ("train", "digits", *HELD, "--tol", "0.1")
    _, out, err = softmargin_(*asked, "--json", "--progress")
    assert "gap" in err
    assert json.loads(out)["status"] == "converged"
    assert softmargin_(*asked, "--json")[2] == ""
    assert softmargin_(*asked, "-q")[2] == ""
    assert softmargin_(*asked, "-q", "--progress")[0] == 2


def test_the_package_is_a_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["softmargin", "--version"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_module("softmargin", run_name="__main__")
    assert capsys.readouterr().out == f"softmargin {softmargin.__version__}\n"


def test_version_and_help(softmargin_):
    assert softmargin_("--version") == (0, f"softmargin {softmargin.__version__}\n", "")
    for words in (("--help",), ("train", "--help"), ("predict", "--help"), ("certify", "--help"), ("data", "--help")):
        code, out, _ = softmargin_(*words)
        assert code == 0
        assert "exit codes" in out


def test_the_choices_are_those_of_the_rooms():
    from softmargin.estimators.posing.svm import CACHE_SIZE, HINGES, MULTICLASS
    from softmargin.kernels import KERNELS

    assert (HINGES, MULTICLASS) == (choices.LOSSES, choices.MULTICLASS)
    assert set(KERNELS) - {"precomputed"} == set(choices.KERNELS)
    defaults = inspect.signature(softmargin.KernelSVC).parameters
    expected = {name: defaults[name].default for name in choices.KERNEL_DEFAULTS}
    assert {**expected, "cache_size": CACHE_SIZE} == choices.KERNEL_DEFAULTS  # "auto" there


# --- exit codes and bad input --------------------------------------------------------------------------------


def test_a_spent_budget_is_exit_3_with_the_result(from_json, softmargin_, tmp_path):
    asked = ("train", "digits", *HELD, "--tol", "1e-12", "--max-iter", "2", "-o", tmp_path / "m")
    found = from_json(*asked, code=3)
    assert (found["status"], found["n_iter"]) == ("max_iter", 2)
    assert LinearModel.load(tmp_path / "m").info["status"] == "max_iter"
    code, out, _ = softmargin_(*asked)
    assert code == 3
    assert "raise --max-iter" in out
    assert from_json("train", "digits", *HELD, "--max-seconds", "0", code=3)["status"] == "max_seconds"
    assert from_json("certify", tmp_path / "m", "digits", "--max-seconds", "0", code=3)["bound_status"] == "max_seconds"


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("dance",),
        ("train",),
        ("train", "digits", *HELD, "--solver", "magic"),
        ("train", "digits", *HELD, "--multiclass", "one_vs_all"),
        ("train", "digits", *HELD, "-C", "0"),
        ("train", "digits", *HELD, "-C", "nan"),
        ("train", "digits", *HELD, "--tol", "-1"),
        ("train", "digits", *HELD, "--max-iter", "1.5"),
        ("train", "digits", "--holdout", "1"),
        ("train", "digits", *HELD, "--class-weight", "heavy"),
        ("train", "digits", *HELD, "--class-weight", "1=2,1=3"),
        ("train", "digits", *HELD, "--model", "kernel-svc", "--kernel", "precomputed"),
        ("train", "digits", *HELD, "--model", "kernel-svc", "--gamma", "0"),
        ("train", "digits", *HELD, "--model", "kernel-svc", "--gamma", "wide"),
        ("train", "digits", *HELD, "--model", "kernel-svc", "--degree", "0"),
        ("train", "digits", *HELD, "--model", "kernel-svc", "--coef0", "inf"),
        ("train", "digits", *HELD, "--model", "kernel-svc", "--cache-size", "0"),
        ("train", "digits", *HELD, "--loss", "exponential"),
        ("train", "digits", *HELD, "--max-it", "3"),
        ("predict", "digits"),
        ("certify", "m", "digits", "--part", "half"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_one_line_and_exit_2(refused, words):
    assert "--help" in refused(*words, code=2)


def test_bad_data_is_one_line_that_names_the_trouble(refused, tmp_path):
    def file(name, content):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    def arrays(name, X, y):
        np.savez(tmp_path / name, X=X, y=y)
        return tmp_path / name

    def holed(value):
        X = np.ones((3, 4))
        X[2, 1] = value
        return X

    packed = tmp_path / "whole.libsvm.xz"
    write_libsvm(packed, np.random.default_rng(0).normal(size=(300, 9)), np.arange(300) % 3)
    expected = {
        tmp_path / "missing.libsvm": "no data set or file",
        tmp_path: "cannot read",
        file("empty.libsvm", b""): "no rows",
        file("text.libsvm", b"hello world\n"): "line 1",
        file("cut.libsvm.xz", packed.read_bytes()[:-40]): "truncated",
        file("table.csv", b"1,2\n"): "no rows",
        file("table.arff", b"1,2\n"): "Save it as CSV",
        arrays("nan.npz", holed(np.nan), [0, 1, 0]): "nan in row 2, column 1",
        arrays("inf.npz", holed(-np.inf), [0, 1, 0]): "-inf in row 2, column 1",
        arrays("no_rows.npz", np.empty((0, 3)), np.empty(0)): "0 rows",
        arrays("no_columns.npz", np.empty((3, 0)), [0, 1, 0]): "0 columns",
        arrays("one_class.npz", np.ones((8, 2)), np.full(8, 7)): "1 class (7)",
        arrays("no_labels.npz", np.ones((3, 2)), [0.0, np.nan, 1.0]): "label of row 1",
        arrays("targets.npz", np.ones((3, 2)), [0.5, 1.0, 2.0]): "label of row 0",
        arrays("huge.npz", np.array([[1e200, 1.0], [1.0, 1e200]] * 8), [0, 1] * 8): "squared length of row 0",
    }
    for path, trouble in expected.items():
        assert trouble in refused("train", path), path
    sparse = tmp_path / "sparse.npz"
    np.savez(
        sparse, data=[1.0, np.nan, 2.0], indices=[0, 2, 1], indptr=[0, 0, 2, 3], shape=[3, 3], y=np.array([0, 1, 0])
    )
    assert "nan in row 1, column 2" in refused("train", sparse)
    assert "nan in row 2, column 1" in refused("train", "digits", "--test", tmp_path / "nan.npz")
    assert "too large for --float32" in refused("train", arrays("big.npz", np.eye(8) * 1e60, [0, 1] * 4), "--float32")
    assert "squared length" in refused("train", tmp_path / "huge.npz", "--normalize", "rows")
    assert "Leave out --holdout" in refused("train", arrays("few.npz", np.eye(2), [0, 1]), *HELD)


def test_bad_models_and_data_that_do_not_fit_are_one_line(refused, softmargin_, files):
    model, words = files / "m", files / "words.npz"
    softmargin_("train", files / "train.libsvm", *HELD, "-o", model)
    np.savez(files / "dense.npz", X=np.ones((3, 4)), y=[1, 2, 3])
    np.savez(words, X=np.ones((4, 6)), y=["a", "b", "a", "b"])
    (files / "cut").write_bytes(model.read_bytes()[:300])
    (files / "half").write_text("solver_type MCSVM_CS\nnr_class 3\n")
    data = files / "train.libsvm"
    for verb in (lambda model, data: ("predict", data, model), lambda model, data: ("certify", model, data)):
        assert "cannot read" in refused(*verb(files / "none", data))
        assert "truncated" in refused(*verb(files / "cut", data))
        assert "truncated" in refused(*verb(files / "half", data))
        assert "not a softmargin file" in refused(*verb(data, data))
        assert "without a member" in refused(*verb(words, data))
    assert "labels are text" in refused("certify", model, words)
    assert "4 columns" in refused("predict", files / "dense.npz", model)
    assert "6 features, X has 4" in refused("certify", model, files / "dense.npz")
    assert "6 features, X has 8" in refused("certify", model, files / "wide.libsvm")
    assert "no test part" in refused("predict", files / "wide.libsvm", model, "--part", "test")
    assert "'9'; the labels are 1, 2, 3." in refused("train", data, "--class-weight", "9=2")
    assert "twice" in refused("train", data, "--class-weight", "1=2,+1=3")
    assert "name the same file" in refused("train", data, "-o", files / "x", "--trace", files / "x")


def test_test_rows_that_do_not_fit_are_refused_before_training(refused, files, monkeypatch):
    monkeypatch.setattr(train, "fit_problem", None)
    np.savez(files / "dense.npz", X=np.ones((3, 4)), y=[1, 2, 3])
    np.savez(files / "words.npz", X=np.ones((4, 6)), y=["a", "b", "a", "b"])
    data = files / "train.libsvm"
    assert "4 columns" in refused("train", data, "--test", files / "dense.npz")
    assert "labels are text" in refused("train", data, "--test", files / "words.npz")


def test_an_output_that_cannot_be_written_is_refused_before_training(refused, tmp_path, monkeypatch):
    monkeypatch.setattr(train, "fit_problem", None)
    (tmp_path / "file").write_text("here first")
    for option in ("-o", "--checkpoint", "--trace"):
        assert "no folder" in refused("train", "digits", option, tmp_path / "none" / "m")
        assert "no folder" in refused("train", "digits", option, tmp_path / "file" / "m")
        assert "it is a folder" in refused("train", "digits", option, tmp_path)
    assert "no folder" in refused("predict", "digits", "m", "-o", tmp_path / "none" / "labels")
    assert (tmp_path / "file").read_text() == "here first"


def test_a_folder_that_vanishes_while_training_loses_nothing(softmargin_, tmp_path, monkeypatch):
    folder = tmp_path / "gone"
    folder.mkdir()
    fit = train.fit_problem

    def fit_and_lose_the_folder(*args, **settings):
        folder.rmdir()
        return fit(*args, **settings)

    monkeypatch.setattr(train, "fit_problem", fit_and_lose_the_folder)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    # Another user may have made a link of any name that can be guessed.
    treasure = tmp_path / "treasure"
    treasure.write_text("not to be replaced")
    (tmp_path / f"softmargin-{os.getpid()}.model").symlink_to(treasure)
    paths = ("-o", folder / "m", "--checkpoint", folder / "c", "--trace", folder / "t")
    code, out, err = softmargin_("train", "digits", *HELD, "--tol", "1e-2", "--json", *paths)
    assert code == 1
    found = json.loads(out)
    assert found["status"] == "converged"
    assert LinearModel.load(found["model_file"]).info["status"] == "converged"
    assert treasure.read_text() == "not to be replaced"
    assert os.name != "posix" or os.stat(found["model_file"]).st_mode & 0o077 == 0
    notes, error = err.splitlines()
    assert notes.startswith("softmargin: note: no checkpoint: cannot write")
    assert error.startswith("softmargin: error: cannot write")
    assert found["model_file"] in error


def test_a_bug_is_one_line_and_a_traceback_on_demand(softmargin_, monkeypatch):
    from softmargin.cli import data

    def fail(args):
        raise ZeroDivisionError("two\nlines")

    monkeypatch.setattr(data, "run", fail)
    code, out, err = softmargin_("data")
    assert (code, out) == (70, "")
    assert err.startswith("softmargin: internal error: ZeroDivisionError: two lines.")
    assert "SOFTMARGIN_DEBUG=1" in err
    assert err.count("\n") == 1
    monkeypatch.setenv("SOFTMARGIN_DEBUG", "1")
    code, _, err = softmargin_("data")
    assert code == 70
    assert err.startswith("Traceback")


@pytest.mark.parametrize(
    ("problem", "code", "start_of_line"),
    [
        (KeyboardInterrupt(), 130, "softmargin: interrupted"),
        (MemoryError("Unable to allocate 3 TiB."), 1, "softmargin: error: not enough memory."),
        (PermissionError(13, "Permission denied", "x"), 1, "softmargin: error: [Errno 13] Permission denied"),
    ],
)
def test_other_ends_are_one_line_too(softmargin_, monkeypatch, problem, code, start_of_line):
    from softmargin.cli import data

    def fail(args):
        raise problem

    monkeypatch.setattr(data, "run", fail)
    found, out, err = softmargin_("data")
    assert (found, out) == (code, "")
    assert err.startswith(start_of_line)
    assert err.count("\n") == 1


def test_nobody_reading_is_no_error():
    process = start("data")
    process.stdout.close()
    assert process.wait(60) == 141
    assert process.stderr.read() == ""
    process.stderr.close()


# --- runs that end early -------------------------------------------------------------------------------------


@pytest.fixture
def hard(tmp_path):
    """Make data that keep the solver busy for as long as a test may take."""
    X, y = blobs(2000, 30, 5, seed=0, separation=0.3)
    np.savez(tmp_path / "hard.npz", X=X, y=y)
    endless = ("-C", "100", "--tol", "0", "--solver", "block_descent")
    return ("train", tmp_path / "hard.npz", *HELD, *endless, "-q", "--json")


@contextlib.contextmanager
def running(hard, tmp_path):
    """Start a process that trains until it is stopped; go on once it has made its first checkpoint."""
    checkpoint = tmp_path / "c"
    process = start(
        *hard, "--max-iter", 10**9, "-o", tmp_path / "m", "--checkpoint", checkpoint, "--checkpoint-every", "0"
    )
    try:
        deadline = time.monotonic() + 60
        while not checkpoint.exists():
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield process
    finally:
        process.kill()
        process.communicate()


def test_ctrl_c_leaves_the_partial_model_and_its_certificate(hard, tmp_path):
    with running(hard, tmp_path) as process:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == ""
    found = json.loads(out)
    assert found["status"] == "interrupted"
    assert found["certificate"]["residual"] > 0
    model = LinearModel.load(tmp_path / "m")
    assert model.info["certificate"] == found["certificate"]
    assert read_archive(tmp_path / "c", kind="checkpoint")[1]["iteration"] == found["n_iter"]


def test_a_killed_run_goes_on_to_the_model_of_a_whole_run(hard, tmp_path, from_json):
    with running(hard, tmp_path) as process:
        process.kill()
        process.wait(60)
    assert not (tmp_path / "m").exists()
    reached = read_archive(tmp_path / "c", kind="checkpoint")[1]["iteration"]
    passes = ("--max-iter", reached + 20)
    whole = from_json(*hard[:-1], *passes, "-o", tmp_path / "whole", code=3)
    resumed = from_json(*hard[:-1], *passes, "-o", tmp_path / "resumed", "--resume", tmp_path / "c", code=3)
    assert whole["n_iter"] == resumed["n_iter"] == reached + 20
    assert resumed["certificate"] == whole["certificate"]
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "resumed").read_bytes()


def test_a_checkpoint_of_something_else_is_refused(files, softmargin_, refused):
    data, checkpoint = files / "train.libsvm", files / "c"
    asked = ("train", data, *HELD, "--max-iter", "3", "--tol", "0")
    assert softmargin_(*asked, "--checkpoint", checkpoint)[0] == 3
    assert "another problem" in refused("train", "digits", "--resume", checkpoint)
    others = ("--holdout", "0.1"), ("--seed", "1"), ("--no-intercept",), ("--normalize", "rows"), ("-C", "2")
    for other in (*others, ("--class-weight", "1=0.01"), ("--multiclass", "crammer_singer"), ("--float32",)):
        assert "another problem" in refused(*asked, "--resume", checkpoint, *other)
    assert "was written by" in refused(*asked, "--resume", checkpoint, "--solver", "walrus")
    softmargin_(*asked, "-o", files / "m")
    assert "a checkpoint was asked for" in refused(*asked, "--resume", files / "m")
    assert "cannot read" in refused(*asked, "--resume", files / "none")
    (files / "cut").write_bytes(checkpoint.read_bytes()[:-100])
    with pytest.raises(ModelFileError):
        read_archive(files / "cut", kind="checkpoint")
    assert "truncated" in refused(*asked, "--resume", files / "cut")


def test_the_split_of_train_is_the_split_of_the_library(from_json, tmp_path):
    """A model trained from Python on split(load(...)) sees the same rows."""
    found = from_json("train", "digits", *HELD, "--tol", "1e-2", "-o", tmp_path / "m")
    held_out = split(load("digits"), test_size=0.25, seed=0)
    predicted = LinearModel.load(tmp_path / "m").predict(held_out.X_test)
    assert found["accuracy"] == (predicted == held_out.y_test).mean()


def test_train_names_the_solvers_that_worked_in_turn(softmargin_, from_json, tmp_path):
    X, y = blobs(400, 3, 3, seed=0, separation=1.0)
    np.savez(tmp_path / "raw.npz", X=X * [1.0, 30.0, 300.0], y=y)
    asked = ("train", tmp_path / "raw.npz", "--tol", "1e-4")
    code, out, _ = softmargin_(*asked)
    assert code == 0
    assert "DualBlockDescent up to pass" in out
    assert ", then InteriorPoint up to pass" in out
    assert from_json(*asked)["solvers"] == ["DualBlockDescent", "InteriorPoint"]


def test_train_without_a_certificate_gives_advice(softmargin_, tmp_path):
    X, y = blobs(100, 3, 3, seed=0)
    np.savez(tmp_path / "raw.npz", X=X * [1.0, 30.0, 300.0], y=y)
    code, out, _ = softmargin_("train", tmp_path / "raw.npz", "--max-iter", "2")
    assert code == 3
    assert "raise --max-iter" in out
    assert "The largest magnitudes of the features reach from" in out
    assert "--normalize standard or maxabs" in out


# --- usage ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("train", "digits", "--loss", "logistic"),
        ("train", "digits", "--no-intercept", "--free-intercept"),
        ("train", "digits", "--multiclass", "crammer_singer", "--loss", "squared_hinge"),
        ("train", "digits", "--multiclass", "crammer_singer", "--free-intercept"),
        ("train", "digits", "--model", "softmax", "--penalty", "l1:1", "--l1-ratio", "0.5"),
        ("train", "digits", "--model", "softmax", "--kernel", "rbf"),
        ("train", "digits", "--solver", "smo"),
        ("train", "digits", "--stream", "--cv", "3"),
        ("train", "digits", "-o", "m", "--trace", "m"),
        ("path", "digits", "--points", "3", "--grid", "1"),
    ],
    ids=" ".join,
)
def test_options_that_contradict_each_other_are_told_without_advice_on_python(refused, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = refused(*words, code=2)
    assert "=" not in line
    assert "'" not in line
    assert "_iter" not in line


def test_an_unknown_option_names_the_help_of_its_verb(refused):
    assert "See: softmargin train --help" in refused("train", "digits", "--depth", "3", code=2)
    assert "See: softmargin predict --help" in refused("predict", "digits", "m", "--fast", code=2)


def test_every_verb_can_be_quiet():
    for verb in options._VERBS:
        words = [name for action in verb_parser(verb)._actions for name in action.option_strings]
        assert {"-q", "--quiet", "--json"} <= set(words), verb


def verb_parser(verb):
    return options.build_parser()._subparsers._group_actions[0].choices[verb]


def test_advice_is_spelled_as_options():
    said = "solver='smo' and l1_ratio=0.5; raise max_iter, or fit_intercept=False. Found runs/tol=1/max_iter.csv"
    options_ = "--solver smo and --l1-ratio 0.5; raise --max-iter, or --no-intercept. Found runs/tol=1/max_iter.csv"
    assert in_options(said) == options_
    assert in_options("Use model.save.") == "Use our own format (leave out --format)."
    assert in_options("Use model.save.", "export") == "Use the model file as it is."


def test_only_our_names_are_listed():
    names = {name for name in dir(softmargin) if not name.startswith("__")}
    assert names == set(softmargin.__all__) - {"__version__"}
    assert "__version__" in dir(softmargin)
