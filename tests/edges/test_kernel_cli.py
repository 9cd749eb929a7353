"""Kernel, one-vs-rest and squared-hinge models on the command line: trained, saved, used, certified, gone on with."""

import json

import numpy as np
import pytest
from test_start_up import calling, imported_by

import softmargin
from helpers import HELD
from softmargin.cli import choices, train
from softmargin.data import blobs, load, split, write_libsvm
from softmargin.models import KernelExpansion, LinearModel, load_model
from softmargin.solvers.names import SOLVERS

KERNEL = ("--model", "kernel-svc")
MODES = {
    "one-vs-rest": ("--multiclass", "one_vs_rest"),
    "squared": ("--loss", "squared_hinge"),
    "squared, no intercept": ("--loss", "squared_hinge", "--no-intercept"),
    "kernel": KERNEL,
    "kernel, Crammer-Singer": (*KERNEL, "--multiclass", "crammer_singer", "--intercept-scaling", "3"),
    "kernel, one-vs-rest": (*KERNEL, "--multiclass", "one_vs_rest"),
    "kernel, one-vs-one": (*KERNEL, "--multiclass", "one_vs_one"),
    "kernel, squared": (*KERNEL, "--loss", "squared_hinge"),
    "linear kernel, squared": (*KERNEL, "--loss", "squared_hinge", "--kernel", "linear"),
}
every_mode = pytest.mark.parametrize("mode", MODES)
INDEFINITE = (*KERNEL, "--kernel", "polynomial", "--degree", "2", "--gamma", "1", "--coef0", "-1")


@pytest.fixture
def data(files):
    """Return the training file; the others lie beside it."""
    return files / "train.libsvm"


# --- what is printed -----------------------------------------------------------------------------------------


def test_train_a_kernel_on_digits_tells_what_is_proven(softmargin_, tmp_path):
    path = tmp_path / "digits.model"
    code, out, err = softmargin_("train", "digits", *HELD, *KERNEL, "-o", path)
    assert (code, err) == (0, "")
    found = dict(line.split("  ", 1) for line in out.splitlines())
    assert found["problem"].strip().startswith("rbf SVM (gamma = 0.1")
    assert found["relative gap"].strip().endswith("<= tol 0.001, of the objective on the training rows")
    assert float(found["test accuracy"].split()[0]) > 0.98
    model = load_model(path)
    assert isinstance(model, KernelExpansion)
    assert found["support vectors"].strip() == f"{len(model.support)} of the 1348 training rows"
    assert model.info["status"] == "converged"


def test_the_json_line_holds_kernel_support_and_certificate(from_json, tmp_path):
    path = tmp_path / "m"
    kernel = ("--kernel", "polynomial", "--degree", "2", "--coef0", "1.5", "--gamma", "0.02", "--cache-size", "7")
    found = from_json("train", "digits", *HELD, *KERNEL, *kernel, "-o", path, "--tol", "1e-2")
    told = {"model": "kernel-svc", "kernel": "polynomial", "degree": 2, "coef0": 1.5, "gamma": 0.02, "cache_size": 7.0}
    assert told.items() <= found.items()
    assert found["certificate"]["residual"] <= 0.01
    assert found["is_proof"] is True
    model = load_model(path)
    assert found["support_vectors"] == len(model.support)
    assert (model.kernel.degree, model.kernel.coef0, model.kernel.gamma) == (2, 1.5, 0.02)
    told = {"kernel": "polynomial", "degree": 2, "loss": "hinge", "multiclass": "weston_watkins", "normalize": "none"}
    assert told.items() <= model.info.items()
    assert "kernel" not in from_json("train", "digits", *HELD, "--tol", "1e-2")


def test_gamma_is_a_rule_or_a_number(from_json, data):
    X = split(load(str(data)), test_size=0.25, seed=0).X.toarray()
    for asked, gamma in (("scale", 1 / (6 * X.var())), ("auto", 1 / 6), ("0.25", 0.25)):
        assert from_json("train", data, *HELD, *KERNEL, "--gamma", asked)["gamma"] == pytest.approx(gamma, rel=1e-12)


def test_progress_names_the_solver_of_a_class(softmargin_, data):
    _, _, err = softmargin_("train", data, *HELD, *MODES["kernel, squared"], "--progress", "--json")
    assert "Smo" in err
    assert "EachClass" not in err


# --- the verbs -----------------------------------------------------------------------------------------------


@every_mode
def test_trained_predicted_and_certified_alike(from_json, data, mode):
    path = data.parent / "m"
    trained = from_json("train", data, *HELD, *MODES[mode], "-o", path, "--tol", "1e-4", "-C", "0.7")
    assert trained["multiclass"] == ("one_vs_rest" if "squared" in mode else load_model(path).info["multiclass"])
    for part, name in (("train", "train_accuracy"), ("test", "accuracy")):
        assert from_json("predict", data, path, "--part", part)["accuracy"] == trained[name]
    found = from_json("certify", path, data)
    assert found["primal"] == pytest.approx(trained["certificate"]["primal"], rel=1e-9)
    assert found["residual"] <= 1e-4
    assert found["bound"] >= trained["certificate"]["bound"] * (1 - 1e-9)
    assert (found["loss"], found["multiclass"], found["C"]) == (trained["loss"], trained["multiclass"], 0.7)
    assert found["bound_status"] == (None if "kernel" in mode else "converged")


@every_mode
def test_the_command_line_solves_the_problem_of_the_estimator(from_json, data, mode):
    words = MODES[mode]
    asked = dict(zip(words[::2], words[1::2], strict=False))
    settings = {"C": 0.7, "tol": 1e-6, "random_state": 0, "fit_intercept": "--no-intercept" not in words}
    settings["loss"] = asked.get("--loss", "hinge")
    is_squared = settings["loss"] == "squared_hinge"
    settings["multiclass"] = asked.get("--multiclass", "one_vs_rest" if is_squared else "weston_watkins")
    settings["intercept_scaling"] = float(asked.get("--intercept-scaling", 1))
    is_kernel = "--model" in asked
    estimator = softmargin.KernelSVC(kernel=asked.get("--kernel", "rbf")) if is_kernel else softmargin.LinearSVC()
    part = split(load(str(data)), test_size=0.25, seed=0)
    theirs = estimator.set_params(**settings).fit(part.X, part.y)
    ours = from_json("train", data, *HELD, *words, "-C", "0.7", "--tol", "1e-6", "-o", data.parent / "m")
    assert ours["certificate"]["primal"] == pytest.approx(theirs.certificate_.primal, rel=2e-6)
    predicted = load_model(data.parent / "m").predict(part.X_test)
    assert (predicted == theirs.predict(part.X_test)).mean() >= 0.97


@pytest.mark.parametrize(
    "scaling", [("rows",), ("maxabs",), ("maxabs", "--float32"), ("none", "--float32")], ids=" ".join
)
@pytest.mark.parametrize("mode", ["kernel", "kernel, squared", "linear kernel, squared", "squared", "one-vs-rest"])
@pytest.mark.parametrize("suffix", ["libsvm", "npz"])
def test_a_saved_model_takes_raw_data_and_solves_the_problem_it_was_trained_on(
    from_json, tmp_path, mode, scaling, suffix
):
    X, y = blobs(90, 5, 3, seed=2, separation=1.2)
    if "none" not in scaling:
        X *= [1e-3, 1.0, 50.0, 1e4, 1.0]
    X[:, 4] = 0.0
    X[7] = 0.0
    data, path = tmp_path / f"raw.{suffix}", tmp_path / "m"
    if suffix == "npz":
        np.savez(data, X=X, y=y + 1)
    else:
        write_libsvm(data, X, y + 1)
    settings = (*MODES[mode], "--normalize", *scaling, "--tol", "1e-4", "--class-weight", "1=2,2=0.5")
    trained = from_json("train", data, *HELD, "-o", path, *settings)
    for part, name in (("train", "train_accuracy"), ("test", "accuracy")):
        assert from_json("predict", data, path, "--part", part)["accuracy"] == trained[name]
    found = from_json("certify", path, data, "--bound-tol", "1e-3")
    precision = 1e-5 if "--float32" in scaling else 1e-9
    assert found["primal"] == pytest.approx(trained["certificate"]["primal"], rel=precision)
    assert found["bound"] <= trained["certificate"]["primal"] * (1 + precision)


@pytest.mark.parametrize("name", ["narrow", "wide"])
def test_test_files_may_end_at_another_column(from_json, data, name):
    test, path = data.parent / f"{name}.libsvm", data.parent / "m"
    found = from_json("train", data, *KERNEL, "--test", test, "-o", path)
    again = from_json("predict", test, path)
    assert again["accuracy"] == found["accuracy"] > 0.7
    assert (found["features"], len(again["labels"])) == (6, 40)


def test_two_classes_and_words(softmargin_, from_json, tmp_path):
    X, y = blobs(40, 3, 2, seed=1)
    np.savez(tmp_path / "pair.npz", X=X, y=np.array(["ham", "spam"])[y])
    for words in (KERNEL, (*KERNEL, "--loss", "squared_hinge", "--multiclass", "weston_watkins")):
        asked = (*HELD, *words, "--class-weight", "spam=2", "-o", tmp_path / "m")
        found = from_json("train", tmp_path / "pair.npz", *asked)
        assert found["multiclass"] == ("one_vs_rest" if "--loss" in words else "weston_watkins")
        _, out, _ = softmargin_("predict", tmp_path / "pair.npz", tmp_path / "m", "--scores", "--part", "test")
        head, *lines = (line.split("\t") for line in out.splitlines())
        assert head == ["label", "score:spam"]
        assert all((label == "spam") == (float(score) > 0) for label, score in lines)
        assert from_json("certify", tmp_path / "m", tmp_path / "pair.npz")["residual"] <= 1e-3


def test_a_small_cache_changes_the_way_but_not_the_optimum(from_json, data):
    whole, small = (
        from_json("train", data, *HELD, *KERNEL, "--tol", "1e-6", "--cache-size", size) for size in ("100", "0.002")
    )
    assert small["certificate"]["primal"] == pytest.approx(whole["certificate"]["primal"], rel=2e-6)
    assert small["n_iter"] > whole["n_iter"]  # working sets of a few rows


def test_models_of_the_library_are_taken_too(from_json, tmp_path):
    """Also where the kernel matrix was computed beforehand: DATA is then K(rows, training rows)."""
    X, y = blobs(60, 3, 3, seed=0)
    K = np.exp(-0.3 * ((X[:, None] - X) ** 2).sum(axis=2))
    np.savez(tmp_path / "K.npz", X=K, y=y)
    clf = softmargin.KernelSVC(kernel="precomputed", random_state=0).fit(K, y)
    clf.model().save(tmp_path / "m")
    assert from_json("predict", tmp_path / "K.npz", tmp_path / "m")["labels"] == clf.predict(K).tolist()
    assert from_json("certify", tmp_path / "m", tmp_path / "K.npz")["residual"] <= 1e-3


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (f"{model} {loss}", name)
        for model in ("linear", "kernel")
        for loss in choices.LOSSES
        for name in SOLVERS[f"{model} {loss}"]
    ],
)
def test_every_solver_by_name_meets_the_tolerance(from_json, data, kind, name):
    model, loss = kind.split()
    separate = name in ("augmented_lagrangian", "pair_descent")  # two classes, no more
    words = ["--multiclass", "one_vs_rest"] if separate else []
    words += ["--model", f"{model}-svc", "--loss", loss, "--solver", name, "--tol", "0.02", "-C", "0.1"]
    found = from_json("train", data, *HELD, *words)
    assert found["status"] == "converged"
    assert (found["solver"], found["model"], found["loss"]) == (name, f"{model}-svc", loss)


# --- LIBLINEAR files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", choices.LOSSES)
def test_a_one_vs_rest_liblinear_file_predicts_alike_and_hinge_is_certified(from_json, data, loss):
    ours, theirs = data.parent / "ours", data.parent / "theirs"
    asked = ("train", data, "--multiclass", "one_vs_rest", "--loss", loss, "--tol", "1e-5")
    trained = from_json(*asked, "-o", ours)
    from_json(*asked, "-o", theirs, "--format", "liblinear")
    wide = data.parent / "wide.libsvm"
    assert from_json("predict", wide, ours)["labels"] == from_json("predict", wide, theirs)["labels"]
    found = from_json("certify", theirs, data, "-C", "1")
    assert (found["multiclass"], found["loss"]) == ("one_vs_rest", loss)
    if loss == "hinge":  # the squared hinge of LIBLINEAR penalises the intercept, ours does not: another problem
        assert found["primal"] == pytest.approx(trained["certificate"]["primal"], rel=1e-9)


def test_a_kernel_model_is_no_liblinear_file(refused, tmp_path, monkeypatch):
    monkeypatch.setattr(train, "fit_problem", None)
    for kernel in ("rbf", "linear"):
        line = refused("train", "digits", *KERNEL, "--kernel", kernel, "-o", tmp_path / "m", "--format", "liblinear")
        assert "train --model linear-svc" in line
    assert not (tmp_path / "m").exists()


# --- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--kernel", "rbf"), "--kernel is an option of kernel models; linear-svc has no kernel"),
        (("--gamma", "0.1"), "--gamma is an option of kernel models"),
        (("--cache-size", "10"), "--cache-size is an option of kernel models"),
        (
            (*KERNEL, "--solver", "walrus"),
            "--solver walrus solves linear hinge problems, not kernel hinge ones; choose",
        ),
        ((*KERNEL, "--solver", "smo"), "not kernel hinge ones; choose one of auto, block_descent"),
        (
            (*KERNEL, "--loss", "squared_hinge", "--solver", "newton"),
            "--solver newton solves linear squared_hinge problems",
        ),
        (
            ("--solver", "frank_wolfe"),
            "--solver frank_wolfe solves kernel hinge and kernel hinge with a free bias problems, not lin",
        ),
        (("--loss", "squared_hinge", "--solver", "shark"), "choose one of auto, newton, dual_descent"),
        (("--loss", "squared_hinge", "--multiclass", "crammer_singer"), "was asked to join 3 in one"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_options_that_do_not_fit_are_one_line_before_training(refused, data, monkeypatch, words, message):
    monkeypatch.setattr(train, "fit_problem", None)
    assert message in refused("train", data, *words)


def test_certify_refuses_other_data_and_other_problems(refused, from_json, data):
    path = data.parent / "m"
    from_json("train", data, *KERNEL, "-o", path)
    assert "trained on 120 samples, X has 40" in refused("certify", path, data.parent / "narrow.libsvm")
    assert "leave out multiclass and loss" in refused("certify", path, data, "--multiclass", "crammer_singer")
    model = load_model(path)
    KernelExpansion(*(getattr(model, name) for name in model.__dataclass_fields__ if name != "info")).save(path)
    assert "trained as an unknown problem" in refused("certify", path, data)


def test_a_linear_model_may_be_measured_by_another_problem(from_json, data):
    path = data.parent / "m"
    from_json("train", data, "-o", path)
    for words in (("--multiclass", "one_vs_rest", "--loss", "hinge"), ("--multiclass", "crammer_singer")):
        found = from_json("certify", path, data, *words)
        assert found["multiclass"] == words[1]
        assert found["residual"] > 1e-3


@pytest.mark.filterwarnings("default")  # the library's own warning becomes a line
def test_an_indefinite_kernel_is_one_warning_and_no_proof(softmargin_, data):
    path = data.parent / "m"
    code, out, err = softmargin_("train", data, *HELD, *INDEFINITE, "-o", path, "--max-iter", "20", "--json")
    assert code in (0, 3)
    assert err.startswith("softmargin: warning: the polynomial kernel is not positive semi-definite")
    assert err.count("\n") == 1
    assert json.loads(out)["is_proof"] is False
    _, out, err = softmargin_("train", data, *HELD, *INDEFINITE, "--max-iter", "20", "-q")
    assert "no proof" in out
    assert err.count("\n") == 1
    code, out, err = softmargin_("certify", path, data)
    assert code == 0
    assert "Nothing was proven" in out
    assert err.count("softmargin: warning: ") == err.count("\n") == 1


# --- runs that end early -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mode", ["one-vs-rest", "squared", "kernel", "kernel, one-vs-rest", "kernel, squared", "linear kernel, squared"]
)
def test_a_resumed_run_is_the_whole_run(from_json, data, mode):
    folder = data.parent
    asked = ("train", data, *HELD, *MODES[mode], "--tol", "0")
    whole = from_json(*asked, "--max-iter", "3", "-o", folder / "whole", code=3)
    from_json(*asked, "--max-iter", "1", "--checkpoint", folder / "c", code=3)
    resumed = from_json(*asked, "--max-iter", "3", "-o", folder / "resumed", "--resume", folder / "c", code=3)
    assert whole["n_iter"] == resumed["n_iter"] > 1  # compiled steps may end at rounding before the third
    one, other = load_model(folder / "whole"), load_model(folder / "resumed")
    # Kernel values that are computed again, in other blocks, may differ in the last bit.
    np.testing.assert_allclose(one.coef, other.coef, rtol=0, atol=0 if isinstance(one, LinearModel) else 1e-9)
    if isinstance(one, LinearModel):
        assert (folder / "whole").read_bytes() == (folder / "resumed").read_bytes()


def test_a_checkpoint_of_other_kernel_settings_is_refused(refused, from_json, data):
    checkpoint = data.parent / "c"
    asked = ("train", data, *HELD, "--max-iter", "2", "--tol", "0")
    from_json(*asked, *KERNEL, "--checkpoint", checkpoint, code=3)
    for other in (("--gamma", "0.5"), ("--kernel", "laplacian"), ("--multiclass", "crammer_singer"), ("-C", "2")):
        assert "another problem" in refused(*asked, *KERNEL, *other, "--resume", checkpoint)
    for other in ((), (*KERNEL, "--multiclass", "one_vs_rest"), (*KERNEL, "--solver", "frank_wolfe")):
        assert "was written by" in refused(*asked, *other, "--resume", checkpoint)


def test_a_spent_budget_is_exit_3_with_the_result(from_json, data):
    found = from_json("train", data, *KERNEL, "--tol", "1e-12", "--max-iter", "1", "-o", data.parent / "m", code=3)
    assert (found["status"], found["n_iter"]) == ("max_iter", 1)
    assert load_model(data.parent / "m").info["status"] == "max_iter"


# --- start-up ------------------------------------------------------------------------------------------------


def test_training_a_kernel_never_imports_scikit_learn(tmp_path):
    model = str(tmp_path / "m")
    words = [
        ("train", "digits", *HELD, *KERNEL, "--json", "--tol", "1e-2", "-o", model),
        ("predict", "digits", model, "--json"),
        ("certify", model, "digits", "--json"),
        ("train", "dna", *KERNEL, "--json", "--tol", "1e-1", "--loss", "squared_hinge"),
        ("train", "digits", *HELD, *KERNEL, "--json", "--tol", "1e-1", "--kernel", "laplacian"),
        ("train", "digits", *HELD, *KERNEL, "--json", "--tol", "1e-1", "--kernel", "sigmoid", "--gamma", "0.001"),
        ("train", "digits", *HELD, "--json", "--tol", "1e-1", "--loss", "squared_hinge"),
    ]
    assert not {"sklearn", "pandas", "rich"} & set(imported_by("\n".join(calling(*each) for each in words)))


def test_the_intercept_of_the_squared_hinge_may_be_penalised(from_json, refused, data):
    path = data.parent / "m"
    asked = ("train", data, *HELD, "--loss", "squared_hinge", "--penalized-intercept", "--intercept-scaling", "2")
    found = from_json(*asked, "--tol", "1e-6", "-o", path)
    assert found["fit_intercept"] == "penalized"
    assert from_json("certify", path, data)["certificate"]["residual"] <= 2e-6
    assert "Leave out one of the two" in refused(*asked, "--free-intercept")


@pytest.mark.parametrize("model", ["linear-svc", "kernel-svc"])
def test_an_intercept_may_be_free(from_json, refused, data, model):
    path = data.parent / "m"
    asked = ("train", data, *HELD, "--model", model, "--free-intercept", "--solver", "pair_descent")
    found = from_json(*asked, "--tol", "1e-6", "-o", path)
    assert (found["fit_intercept"], found["multiclass"]) == ("free", "one_vs_rest")
    assert load_model(path).info["fit_intercept"] == "free"
    assert from_json("certify", path, data)["certificate"]["residual"] <= 2e-6
    assert "Leave out one of the two" in refused(*asked, "--no-intercept")
    assert "is an option of SVMs" in refused("train", data, "--model", "softmax", "--free-intercept")
