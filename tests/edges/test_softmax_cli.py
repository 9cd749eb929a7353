"""Softmax models on the command line: trained, saved, used, certified, gone on with."""

import inspect
import json

import numpy as np
import pytest
from test_start_up import calling, imported_by

import softmargin
from helpers import HELD
from softmargin import penalties
from softmargin.cli import choices, train
from softmargin.data import blobs, load, split, write_libsvm
from softmargin.estimators.posing.softmax import described, priced_penalty
from softmargin.models import load_model
from softmargin.solvers.names import SOLVERS

SOFTMAX = ("--model", "softmax")
RATIOS = pytest.mark.parametrize("ratio", ["0", "0.5", "1"])


@pytest.fixture
def data(files):
    """Return the training file; the others lie beside it."""
    return files / "train.libsvm"


# --- what is printed -----------------------------------------------------------------------------------------


def test_train_on_digits_tells_what_is_proven(softmargin_, tmp_path):
    path = tmp_path / "m"
    code, out, err = softmargin_("train", "digits", *HELD, *SOFTMAX, "--l1-ratio", "1", "-C", "0.1", "-o", path)
    assert (code, err) == (0, "")
    found = {name.strip(): value.strip() for name, value in (line.split("  ", 1) for line in out.splitlines())}
    assert found["problem"] == "softmax regression, l1 penalty, C = 0.1"
    assert found["relative gap"].endswith("<= tol 0.001, of the objective on the training rows")
    assert float(found["test accuracy"].split()[0]) > 0.9
    assert 0.0 < float(found["test log loss"].split()[0]) < 1.0
    coef = load_model(path).coef
    used = np.count_nonzero(coef.any(axis=0))
    assert found["nonzero weights"] == f"{np.count_nonzero(coef)} of 640, in {used} of 64 features"
    assert np.count_nonzero(coef) < 400
    assert "support vectors" not in found


def test_the_json_line_holds_log_loss_and_certificate(from_json, data):
    found = from_json("train", data, *HELD, *SOFTMAX, "--l1-ratio", "0.5", "-C", "0.3", "-o", data.parent / "m")
    assert {"model": "softmax", "l1_ratio": 0.5, "C": 0.3, "fit_intercept": True}.items() <= found.items()
    assert found["certificate"]["residual"] <= found["tol"] == 1e-3
    assert found["is_proof"] is True
    part, model = split(load(str(data)), test_size=0.25, seed=0), load_model(data.parent / "m")
    for X, y, name in ((part.X, part.y, "train_log_loss"), (part.X_test, part.y_test, "log_loss")):
        own = model.predict_log_proba(model.fit_columns(X))[np.arange(len(y)), np.searchsorted(model.classes, y)]
        assert found[name] == pytest.approx(-own.mean(), rel=1e-12)
    assert found["nonzero_weights"] == np.count_nonzero(model.coef)
    assert not {"loss", "multiclass", "support_vectors", "intercept_scaling"} & set(found)
    assert from_json("train", data, *SOFTMAX)["log_loss"] is None
    assert "log_loss" not in from_json("train", data, *HELD)


def test_the_progress_bar_shows_the_gap(softmargin_, data):
    _, out, err = softmargin_("train", data, *HELD, *SOFTMAX, "--progress", "--json")
    assert "gap" in err
    assert json.loads(out)["status"] == "converged"


def test_the_defaults_are_those_of_the_estimator():
    defaults = inspect.signature(softmargin.SoftmaxRegression).parameters
    assert {name: defaults[name].default for name in choices.SOFTMAX_DEFAULTS} == {
        **choices.SOFTMAX_DEFAULTS,
        "penalty": "elasticnet",  # what no --penalty means
    }


# --- the verbs -----------------------------------------------------------------------------------------------


@RATIOS
@pytest.mark.parametrize("more", [(), ("--no-intercept",), ("--class-weight", "1=2,2=0.5")], ids=" ".join)
def test_trained_predicted_and_certified_alike(from_json, data, ratio, more):
    path = data.parent / "m"
    words = (*SOFTMAX, "--l1-ratio", ratio, *more, "-C", "0.7", "--tol", "1e-4", "-o", path)
    trained = from_json("train", data, *HELD, *words)
    for part, name in (("train", "train_accuracy"), ("test", "accuracy")):
        assert from_json("predict", data, path, "--part", part)["accuracy"] == trained[name]
    found = from_json("certify", path, data)
    assert found["primal"] == pytest.approx(trained["certificate"]["primal"], rel=1e-9)
    assert found["residual"] <= 1e-4
    # The dual point of the run is not in the file: another one, or a run from the weights, proves as much as was asked.
    assert found["bound"] == pytest.approx(trained["certificate"]["bound"], rel=1e-4)
    assert (found["problem"], found["C"]) == ("softmax", 0.7)
    assert found["bound_status"] in ("converged", None)  # None: the model itself proves a bound that is tight enough


@RATIOS
def test_the_command_line_solves_the_problem_of_the_estimator(from_json, data, ratio):
    part = split(load(str(data)), test_size=0.25, seed=0)
    theirs = softmargin.SoftmaxRegression(C=0.7, l1_ratio=float(ratio), tol=1e-8).fit(part.X, part.y)
    ours = from_json(
        "train", data, *HELD, *SOFTMAX, "--l1-ratio", ratio, "-C", "0.7", "--tol", "1e-8", "-o", data.parent / "m"
    )
    assert ours["certificate"]["primal"] == pytest.approx(theirs.certificate_.primal, rel=2e-8)
    np.testing.assert_allclose(
        load_model(data.parent / "m").predict_proba(part.X_test), theirs.predict_proba(part.X_test), atol=1e-3
    )


def test_certify_for_people_names_the_problem(softmargin_, from_json, data):
    path = data.parent / "m"
    from_json("train", data, *HELD, *SOFTMAX, "--l1-ratio", "0.25", "-o", path)
    code, out, err = softmargin_("certify", path, data)
    assert (code, err) == (0, "")
    assert "softmax regression, ElasticNet penalty (l1 = 0.25, l2 = 0.75), C = 1" in out
    assert "Proven" in out
    assert from_json("certify", path, data, "--multiclass", "crammer_singer")["residual"] > 1e-3
    assert from_json("certify", path, data, "-C", "5")["residual"] > 1e-3


@pytest.mark.parametrize("scaling", [("rows",), ("maxabs",), ("maxabs", "--float32")], ids=" ".join)
@pytest.mark.parametrize("suffix", ["libsvm", "npz"])
def test_a_saved_model_takes_raw_data_and_solves_the_problem_it_was_trained_on(from_json, tmp_path, scaling, suffix):
    X, y = blobs(90, 5, 3, seed=2, separation=1.2)
    X *= [1e-3, 1.0, 50.0, 1e4, 1.0]
    X[:, 4] = 0.0
    X[7] = 0.0
    data, path = tmp_path / f"raw.{suffix}", tmp_path / "m"
    if suffix == "npz":
        np.savez(data, X=X, y=y + 1)
    else:
        write_libsvm(data, X, y + 1)
    trained = from_json("train", data, *HELD, *SOFTMAX, "-o", path, "--normalize", *scaling, "--tol", "1e-4")
    for part, name in (("train", "train_accuracy"), ("test", "accuracy")):
        assert from_json("predict", data, path, "--part", part)["accuracy"] == trained[name]
    found = from_json("certify", path, data)
    precision = 1e-5 if "--float32" in scaling else 1e-9
    assert found["primal"] == pytest.approx(trained["certificate"]["primal"], rel=precision)


@pytest.mark.parametrize("k", [2, 3])
def test_probabilities_have_a_head_and_sum_to_one(softmargin_, from_json, tmp_path, k):
    X, y = blobs(60, 3, k, seed=1)
    labels = np.array(["ham", "jam", "spam"][:k])
    np.savez(tmp_path / "words.npz", X=X, y=labels[y])
    from_json("train", tmp_path / "words.npz", *HELD, *SOFTMAX, "-o", tmp_path / "m")
    _, out, _ = softmargin_("predict", tmp_path / "words.npz", tmp_path / "m", "--probabilities", "--part", "test")
    head, *lines = (line.split("\t") for line in out.splitlines())
    assert head == ["label", *(f"probability:{label}" for label in labels)]
    table = np.array([line[1:] for line in lines], dtype=float)
    np.testing.assert_allclose(table.sum(axis=1), 1.0, rtol=1e-12)
    assert [line[0] for line in lines] == labels[table.argmax(axis=1)].tolist()
    found = from_json("predict", tmp_path / "words.npz", tmp_path / "m", "--probabilities", "--part", "test")
    np.testing.assert_array_equal(found["probabilities"], table)
    _, out, _ = softmargin_("predict", tmp_path / "words.npz", tmp_path / "m", "--scores", "--part", "test")
    assert out.splitlines()[0].split("\t")[-1] == f"score:{labels[-1]}"


def test_labels_unseen_in_training_have_no_log_loss(from_json, data):
    rows, labels = blobs(30, 6, 3, seed=5)
    write_libsvm(data.parent / "new.libsvm", rows, labels + 3)  # labels 3, 4, 5: only 3 is known
    found = from_json("train", data, *SOFTMAX, "--test", data.parent / "new.libsvm")
    assert np.isfinite(found["log_loss"])
    write_libsvm(data.parent / "newer.libsvm", rows, labels + 7)
    assert from_json("train", data, *SOFTMAX, "--test", data.parent / "newer.libsvm")["log_loss"] is None


@pytest.mark.parametrize("kind", ["softmax ridge", "softmax l1"])
def test_every_solver_by_name_meets_the_tolerance(from_json, data, kind):
    for name in SOLVERS[kind]:
        ratio = "0" if kind == "softmax ridge" else "1"
        found = from_json("train", data, *SOFTMAX, "--l1-ratio", ratio, "--solver", name, "--tol", "0.02", "-C", "0.1")
        assert (found["status"], found["solver"]) == ("converged", name)


@pytest.mark.parametrize(
    ("words", "penalty", "pinned"),
    [
        ("group:0.5", penalties.Group(0.5), None),
        ("box:-0.2,0.3", penalties.Box(-0.2, 0.3), "2.0"),
        ("mcp:0.5,4", penalties.MCP(0.5, 4.0), None),
    ],
)
def test_any_penalty_can_be_asked_for(from_json, data, words, penalty, pinned):
    path, more = data.parent / "m", () if pinned is None else ("--pinned", pinned)
    asked = ("train", data, *HELD, *SOFTMAX, "--penalty", words, *more, "--tol", "1e-6", "-o", path)
    found = from_json(*asked, "--solver", "block_prox_gradient")
    part = split(load(str(data)), test_size=0.25, seed=0)
    settings = {"pinned": None if pinned is None else 2, "solver": "block_prox_gradient", "random_state": 0}
    ours = softmargin.SoftmaxRegression(penalty=penalty, tol=1e-6, **settings).fit(part.X, part.y)
    np.testing.assert_allclose(load_model(path).coef, ours.coef_, atol=1e-12)
    assert found["penalty"] == described(priced_penalty(1.0, 0.0, penalty, pinned=pinned and 1)[1])
    assert (found["l1_ratio"], found["pinned"]) == (None, pinned)
    if penalty.is_convex:
        assert from_json("certify", path, data)["certificate"]["residual"] <= 2e-6


def test_names_of_penalties_are_those_of_the_room():
    assert list(choices.PENALTIES) == list(penalties.PENALTIES)
    for name, numbers in choices.PENALTIES.items():
        assert len(inspect.signature(penalties.PENALTIES[name]).parameters) == len(numbers.split(","))


def test_a_fit_may_end_at_a_share_of_its_first_gap(from_json, data):
    found = from_json("train", data, *HELD, *SOFTMAX, "--solver", "lbfgs", "--tol", "0", "--decay", "0.01")
    assert found["status"] == "decayed"


# --- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*SOFTMAX, "--loss", "hinge"), "--loss hinge was asked for; softmax has one loss"),
        ((*SOFTMAX, "--multiclass", "one_vs_rest"), "--multiclass is an option of SVMs"),
        ((*SOFTMAX, "--intercept-scaling", "2"), "--intercept-scaling is an option of SVMs"),
        ((*SOFTMAX, "--kernel", "rbf"), "--kernel is an option of kernel models; softmax has no kernel"),
        (("--l1-ratio", "1"), "--l1-ratio is an option of softmax models; linear-svc is none. Add --model softmax"),
        ((*SOFTMAX, "--solver", "walrus"), "--solver walrus solves linear hinge problems, not softmax ridge ones"),
        (
            (*SOFTMAX, "--l1-ratio", "1", "--solver", "lbfgs"),
            "--solver lbfgs solves softmax ridge problems, not softmax l1 ones",
        ),
        ((*SOFTMAX, "-o", "m", "--format", "liblinear"), "a softmax model has probabilities"),
        (("--penalty", "group:1"), "--penalty is an option of softmax models"),
        ((*SOFTMAX, "--penalty", "l1:-1"), "l1 must be finite and not negative"),
        ((*SOFTMAX, "--penalty", "l1:1", "--l1-ratio", "0.5"), "Leave out one of the two"),
        ((*SOFTMAX, "--pinned", "7"), "--pinned names the label '7'; the labels are 1, 2, 3"),
        (
            (*SOFTMAX, "--pinned", "1", "--solver", "lbfgs"),
            "--solver lbfgs solves softmax ridge problems, not softmax ones",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_options_that_do_not_fit_are_one_line_before_training(refused, data, monkeypatch, words, message):
    monkeypatch.setattr(train, "fit_problem", None)
    monkeypatch.chdir(data.parent)
    assert message in refused("train", data, *words)


@pytest.mark.parametrize("ratio", ["-0.1", "1.1", "nan", "half"])
def test_a_ratio_lies_between_0_and_1(refused, data, ratio):
    refused("train", data, *SOFTMAX, f"--l1-ratio={ratio}", code=2)


@pytest.mark.parametrize("penalty", ["lasso:1", "l1:1,2", "box:nan", "mcp:one", "group:1,"])
def test_a_penalty_is_a_name_and_its_numbers(refused, data, penalty):
    refused("train", data, *SOFTMAX, f"--penalty={penalty}", code=2)


def test_an_svm_has_no_probabilities(refused, from_json, data):
    from_json("train", data, *HELD, "-o", data.parent / "m")
    from_json("train", data, *HELD, "--model", "kernel-svc", "-o", data.parent / "k")
    for name in ("m", "k"):
        line = refused("predict", data, data.parent / name, "--probabilities")
        assert "has no probabilities: it is no softmax model" in line
    refused("predict", data, data.parent / "m", "--probabilities", "--scores", code=2)


# --- runs that end early -------------------------------------------------------------------------------------


@RATIOS
def test_a_resumed_run_is_the_whole_run(from_json, data, ratio):
    folder = data.parent
    asked = ("train", data, *HELD, *SOFTMAX, "--l1-ratio", ratio, "--tol", "0", "--solver", "accelerated_gradient")
    whole = from_json(*asked, "--max-iter", "6", "-o", folder / "whole", code=3)
    from_json(*asked, "--max-iter", "2", "--checkpoint", folder / "c", code=3)
    resumed = from_json(*asked, "--max-iter", "6", "-o", folder / "resumed", "--resume", folder / "c", code=3)
    assert whole["n_iter"] == resumed["n_iter"] == 6
    assert (folder / "whole").read_bytes() == (folder / "resumed").read_bytes()


def test_a_checkpoint_of_another_problem_is_refused(refused, from_json, data):
    checkpoint = data.parent / "c"
    asked = ("train", data, *HELD, *SOFTMAX, "--max-iter", "1", "--tol", "0", "--solver", "accelerated_gradient")
    from_json(*asked, "--checkpoint", checkpoint, code=3)
    for other in (("--l1-ratio", "0.5"), ("-C", "2"), ("--no-intercept",)):
        assert "another problem" in refused(*asked, *other, "--resume", checkpoint)


def test_a_spent_budget_is_exit_3_with_the_result(from_json, data):
    asked = ("train", data, *HELD, *SOFTMAX, "--solver", "accelerated_gradient", "--tol", "0", "--max-iter", "1")
    found = from_json(*asked, "-o", data.parent / "m", code=3)
    assert (found["status"], found["n_iter"]) == ("max_iter", 1)
    assert load_model(data.parent / "m").info["status"] == "max_iter"


# --- start-up ------------------------------------------------------------------------------------------------


def test_training_never_imports_scikit_learn(tmp_path):
    model = str(tmp_path / "m")
    words = [
        ("train", "digits", *HELD, *SOFTMAX, "--json", "--tol", "1e-2", "-o", model),
        ("predict", "digits", model, "--json", "--probabilities"),
        ("certify", model, "digits", "--json"),
        ("train", "digits", *HELD, *SOFTMAX, "--json", "--tol", "1e-2", "--l1-ratio", "1", "-C", "0.1"),
    ]
    assert not {"sklearn", "pandas", "rich"} & set(imported_by("\n".join(calling(*each) for each in words)))


def test_reaching_for_penalties_needs_no_scikit_learn():
    assert "sklearn" not in imported_by("import softmargin; softmargin.penalties.L1(0.5)")
