"""Paths and cross-validation on the command line: what the functions of the library find."""

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

import softmargin
from helpers import HELD
from softmargin.cli import choices, train
from softmargin.cli.values import search
from softmargin.data import blobs, load, split, write_libsvm
from softmargin.losses.entrywise import ENTRYWISE
from softmargin.losses.joint import JOINT
from softmargin.models.probabilities import METHODS


@pytest.fixture
def data(files):
    return files / "train.libsvm"


@pytest.fixture
def numbers(tmp_path):
    """Write rows with a number each."""
    X, _ = blobs(80, 5, 2, seed=0)
    y = X @ [1.0, -2.0, 0.0, 0.0, 0.5] + 0.01 * np.arange(80)
    np.savez(tmp_path / "numbers.npz", X=X, y=y)
    return tmp_path / "numbers.npz"


def parts(data):
    return split(load(str(data)), test_size=0.25, seed=0)


def test_names_are_those_of_the_library():
    assert choices.PROBABILITIES == METHODS
    assert {*choices.BALL_LOSSES} == {*(name for name, loss in ENTRYWISE.items() if loss.is_margin), *JOINT}
    defaults = softmargin.L1BallClassifier().get_params()
    assert {name: defaults[name] for name in choices.BALL_DEFAULTS} == choices.BALL_DEFAULTS
    assert defaults["loss"] == choices.BALL_LOSSES[0]


def test_a_path_of_softmax_models_is_softmax_path(from_json, softmargin_, data):
    asked = ("path", data, *HELD, "--l1-ratio", "1", "--points", "4", "--solver", "accelerated_gradient")
    found, part = from_json(*asked), parts(data)
    path = softmargin.softmax_path(part.X, part.y, Cs=4, solver="accelerated_gradient", random_state=0)
    assert [point["value"] for point in found["points"]] == pytest.approx(path.Cs.tolist())
    assert [point["residual"] for point in found["points"]] == [each.residual for each in path.certificates]
    for point, coef, intercept in zip(found["points"], path.coefs, path.intercepts, strict=True):
        model = softmargin.LinearModel(path.classes, coef, intercept)
        assert point["train_score"] == np.mean(model.predict(part.X) == part.y)
        assert point["score"] == np.mean(model.predict(part.X_test) == part.y_test)
        assert point["weights"] == f"{np.count_nonzero(coef)} of {coef.size}"
    code, out, _ = softmargin_(*asked)
    assert code == 0
    trained, tested, head, *points = out.splitlines()
    assert trained == "train: accuracy on the 90 training rows of train.libsvm (25% held out, seed 0)"
    assert tested == "test: accuracy on the 30 test rows of train.libsvm (25% held out, seed 0)"
    assert head.split() == ["C", "status", "passes", "gap", "weights", "train", "test"]
    assert len(points) == 4


@pytest.mark.parametrize(("model", "kind"), [("l1-ball", "L1BallClassifier"), ("trace-ball", "TraceBallClassifier")])
def test_a_path_of_radii_is_radius_path(from_json, data, model, kind):
    found = from_json(
        "path", data, *HELD, "--model", model, "--radius", "2", "--points", "3", "--l2", "1e-3", "--normalize", "rows"
    )
    part = parts(data)
    rows = part.X / np.linalg.norm(part.X.toarray(), axis=1)[:, None]
    estimator = getattr(softmargin, kind)(2.0, l2=1e-3, random_state=0)
    path = softmargin.radius_path(estimator, rows.tocsr(), part.y, radii=3)
    assert [point["value"] for point in found["points"]] == pytest.approx(path.radii.tolist())
    np.testing.assert_allclose(
        [point["residual"] for point in found["points"]], [each.residual for each in path.certificates], atol=1e-9
    )


def test_a_path_of_regressors_scores_by_r2(from_json, numbers):
    found = from_json("path", numbers, *HELD, "--model", "l1-ball-regressor", "--grid", "3,0.1", "--l2", "0")
    assert [point["value"] for point in found["points"]] == [0.1, 3.0]
    assert found["points"][0]["score"] < 0.5 < found["points"][1]["score"] <= 1.0


def test_a_path_takes_any_penalty_and_a_pinned_class(from_json, data):
    asked = ("path", data, *HELD, "--penalty", "group:0.5", "--pinned", "2", "--points", "3")
    found, part = from_json(*asked, "--solver", "accelerated_gradient"), parts(data)
    settings = {"pinned": 2, "solver": "accelerated_gradient", "random_state": 0}
    path = softmargin.softmax_path(part.X, part.y, Cs=3, penalty=softmargin.penalties.Group(0.5), **settings)
    assert [point["residual"] for point in found["points"]] == [each.residual for each in path.certificates]
    assert not path.coefs[:, 1].any()


def test_a_path_of_svms_is_svm_path_and_folds_choose_from_it(from_json, softmargin_, data):
    part = parts(data)
    found = from_json("path", data, *HELD, "--model", "linear-svc", "--multiclass", "one_vs_rest", "--points", "3")
    path = softmargin.svm_path(softmargin.LinearSVC(multiclass="one_vs_rest", random_state=0), part.X, part.y, Cs=3)
    assert [point["value"] for point in found["points"]] == pytest.approx(path.Cs.tolist())
    assert [point["residual"] for point in found["points"]] == [each.residual for each in path.certificates]
    assert found["points"][0]["weights"] == f"{len(path.estimators[0].support_)} vectors"
    asked = ("--model", "kernel-svc", "--gamma", "0.1", "--cv", "2", "--search", "C=0.1,1", "--quiet")
    theirs = softmargin.KernelSVCCV([0.1, 1.0], gammas=[0.1], cv=2, random_state=0).fit(part.X, part.y)
    assert from_json("train", data, *HELD, *asked)["C"] == theirs.C_


def test_cross_validation_chooses_what_the_library_chooses(from_json, data):
    grid = [0.003, 0.03, 3.0]
    how = ("--model", "softmax", "--solver", "lbfgs", "--cv", "3", "--search", f"C={','.join(map(str, grid))}")
    found, part = from_json("train", data, *HELD, *how, "--quiet"), parts(data)
    theirs = softmargin.SoftmaxRegressionCV(Cs=grid, cv=3, solver="lbfgs", random_state=0).fit(part.X, part.y)
    assert {"C": found["C"]} == found["cv"]["chosen"] == {"C": theirs.C_}
    assert found["cv"]["score"] == pytest.approx(theirs.mean_score_)
    assert (found["cv"]["folds"], found["cv"]["rows"], len(found["cv"]["points"])) == (3, 90, 3)
    assert found["certificate"]["residual"] <= 1e-3


def test_a_search_of_two_settings_trains_with_the_best(from_json, softmargin_, data):
    asked = ("--model", "kernel-svc", "--cv", "2", "--search", "gamma=scale,1e-3", "--search", "C=0.1:10:log")
    found, whole = from_json("train", data, *asked), load(str(data))
    points = {(point["gamma"], point["C"]): point["score"] for point in found["cv"]["points"]}
    assert [C for _, C in points] == [0.1, 1.0, 10.0] * 2
    assert points[found["gamma"], found["C"]] == found["cv"]["score"] == max(filter(None, points.values()))
    model = softmargin.KernelSVC(C=found["C"], gamma=found["gamma"], random_state=0).fit(whole.X, whole.y)
    assert found["certificate"]["primal"] == pytest.approx(model.certificate_.primal)
    _, out, _ = softmargin_("train", data, *asked)
    assert "on rows left out in turn: 2 folds of the training rows" in out
    assert "the best of 6" in out


def test_folds_without_a_search_score_the_settings_that_were_asked_for(from_json, data):
    found, whole = from_json("train", data, "-C", "0.2", "--cv", "3"), load(str(data))
    theirs = cross_val_score(softmargin.LinearSVC(C=0.2, random_state=0), whole.X, whole.y, cv=3)
    assert found["cv"]["score"] == pytest.approx(theirs.mean())
    assert found["cv"]["spread"] == pytest.approx(theirs.std())
    assert (found["trained_on"], found["tested_on"], found["cv"]["chosen"]) == (
        "all 120 rows of train.libsvm",
        None,
        {},
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("train", "--model", "l1-ball", "--search", "radius", "--radius", "1"), "--radius is what --search radius"),
        (("train", "--search", "C", "-C", "1"), "-C is what --search C chooses"),
        (("train", "--search", "C=1,2", "--search", "C=3"), "--search C is given twice"),
        (("train", "--search", "gamma=1,2"), "linear-svc can be searched for C"),
        (("train", "--holdout", "0.1", "--test", "digits"), "Leave out one of the two"),
        (("path", "-C", "1"), "-C is what the grid varies:"),
        (("path", "--grid", "1", "--points", "2"), "Leave one out."),
        (("train", "--search", "degree=1,2"), "'degree' cannot be searched"),
        (("train", "--search", "C=0:1:log"), "LOW > 0 for log"),
        (("train", "--search", "C=2:1:log"), "LOW < HIGH"),
        (("train", "--search", "C=-1:1:linear"), "is not above 0"),
        (("train", "--search", "C=1:9:cubic"), "is not LOW:HIGH:log"),
        (("train", "--search", "C=1:9:log:1"), "is below 2"),
        (("train", "--search", "gamma"), "no grid of our own"),
        (("train", "--search", "C=one"), "is no number"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_contradicts_itself_is_wrong_usage(refused, data, words, message):
    verb, *rest = words
    assert message in refused(verb, data, *rest, code=2)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("C=1e-3:1e3:log", [1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1000.0]),
        ("C=1:9:log:3", [1.0, 3.0, 9.0]),
        ("l1-ratio=0:1:linear:3", [0.0, 0.5, 1.0]),
        ("gamma=scale,auto,2", ["scale", "auto", 2.0]),
        ("radius", None),
    ],
)
def test_values_to_choose_from(text, values):
    assert search(text) == (text.partition("=")[0].replace("-", "_"), values)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("train", "--probabilities", "sigmoid", "--format", "liblinear", "-o", "m"),
            "has no place for --probabilities",
        ),
        (("train", "--probabilities", "sigmoid", "--model", "softmax"), "--probabilities is an option of SVMs"),
        (("train", "--probabilities", "sigmoid", "--stream"), "--probabilities needs all rows at once"),
        (("path", "--radius", "2"), "--radius is an option of models in a ball; softmax is none"),
        (("path", "--model", "l1-ball", "--loss", "hinge"), "l1-ball takes smooth_hinge"),
        (("path", "--loss", "logistic"), "softmax has one loss"),
        (("path", "--penalty", "l1:1", "--l1-ratio", "0.5"), "Leave out one of the two"),
        (("path", "--pinned", "7"), "--pinned names the label '7'"),
        (("path", "--model", "l1-ball-regressor", "--class-weight", "balanced"), "has no classes"),
        (("train", "--model", "softmax", "--cv", "60"), "60 folds cannot be made of 120 rows"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_does_not_fit_is_one_line(refused, data, monkeypatch, words, message):
    monkeypatch.setattr(train, "fit_problem", None)
    verb, *rest = words
    assert message in refused(verb, data, *rest)


def test_numbers_are_no_labels_and_text_is_no_number(refused, numbers, tmp_path):
    assert "names no class" in refused("path", numbers, "--model", "l1-ball")
    np.savez(tmp_path / "text.npz", X=np.eye(4), y=np.array(list("abab")))
    line = refused("path", tmp_path / "text.npz", "--model", "l1-ball-regressor")
    assert "no finite numbers" in line


def test_grids_are_numbers_above_zero(refused, data):
    for grid in ("0,1", "one", "1,,2", "-1"):
        refused("path", data, f"--grid={grid}", code=2)
    refused("train", data, "--cv", "1", code=2)


def test_test_rows_of_another_width_are_scored(from_json, data):
    asked = ("path", data, "--grid", "1", "--solver", "lbfgs", "--normalize", "maxabs", "--test")
    for name in ("narrow", "wide"):
        assert from_json(*asked, data.parent / f"{name}.libsvm")["points"][0]["score"] > 0.5
    X, y = blobs(30, 6, 3, seed=1)
    write_libsvm(data.parent / "more.libsvm", X, y + 1)
    assert from_json(*asked, data.parent / "more.libsvm")["points"][0]["score"] is not None


@pytest.mark.parametrize("kind", ["linear-svc", "kernel-svc"])
def test_probabilities_of_svms_are_those_of_the_library(softmargin_, from_json, data, kind):
    estimator = {"linear-svc": softmargin.LinearSVC, "kernel-svc": softmargin.KernelSVC}[kind]
    part, model = parts(data), data.parent / "m"
    found = from_json("train", data, *HELD, "--model", kind, "--probabilities", "sigmoid", "-o", model)
    theirs = estimator(probability="sigmoid", random_state=0).fit(part.X, part.y)
    expected = theirs.predict_proba(part.X_test)
    np.testing.assert_allclose(softmargin.load_model(model).predict_proba(part.X_test), expected, atol=1e-9)
    own = expected[np.arange(len(part.y_test)), np.searchsorted(theirs.classes_, part.y_test)]
    assert found["log_loss"] == pytest.approx(-np.log(own).mean())
    code, out, _ = softmargin_("predict", data, model, "--probabilities", "--part", "test")
    assert code == 0
    np.testing.assert_allclose([[float(x) for x in line.split("\t")[1:]] for line in out.splitlines()[1:]], expected)
