"""Classifiers and regressors in a ball on the command line: trained, saved, used, certified."""

import numpy as np
import pytest
from test_start_up import calling, imported_by

import softmargin
from helpers import HELD
from softmargin.cli import train
from softmargin.data import blobs, load, split
from softmargin.models import load_model
from softmargin.sets import LowRank


@pytest.fixture
def data(files):
    return files / "train.libsvm"


@pytest.fixture
def numbers(tmp_path):
    """Write rows with three numbers each, of rank one."""
    X, _ = blobs(80, 5, 2, seed=0)
    Y = np.outer(X @ [1.0, -2.0, 0.0, 0.0, 0.5], [1.0, 2.0, -1.0]) + 0.01 * np.arange(80)[:, None]
    np.savez(tmp_path / "numbers.npz", X=X, y=Y)
    return tmp_path / "numbers.npz"


@pytest.mark.parametrize(
    ("model", "kind", "loss"),
    [
        ("l1-ball", "L1BallClassifier", "smooth_hinge"),
        ("trace-ball", "TraceBallClassifier", "logistic"),
        ("trace-ball", "TraceBallClassifier", "multinomial"),
    ],
)
@pytest.mark.parametrize("normalize", ["none", "maxabs"])
def test_a_classifier_is_that_of_the_library(from_json, data, model, kind, loss, normalize):
    path = data.parent / "m"
    asked = (
        "train",
        data,
        *HELD,
        "--model",
        model,
        "--radius",
        "2",
        "--loss",
        loss,
        "--tol",
        "1e-6",
        "--normalize",
        normalize,
    )
    found = from_json(*asked, "--tol", "1e-6", "-o", path)
    part, saved = split(load(str(data)), test_size=0.25, seed=0), load_model(path)
    scales = np.abs(part.X.toarray()).max(axis=0) if normalize == "maxabs" else np.ones(part.X.shape[1])
    ours = getattr(softmargin, kind)(2.0, loss=loss, tol=1e-6, random_state=0).fit(part.X.toarray() / scales, part.y)
    coef = saved.coef.toarray() if isinstance(saved.coef, LowRank) else saved.coef
    np.testing.assert_allclose(coef * scales, ours.coef_, atol=1e-3)
    assert isinstance(saved.coef, LowRank) == (model == "trace-ball")
    assert found["accuracy"] == pytest.approx(np.mean(saved.predict(part.X_test) == part.y_test))
    assert (found["radius"], found["l2"], found["loss"]) == (2.0, 1e-4, loss)
    assert found["is_on_boundary"] is True
    proven = from_json("certify", path, data)
    assert proven["certificate"]["residual"] <= 2e-6
    assert proven["certificate"]["primal"] == pytest.approx(found["certificate"]["primal"], rel=1e-9)
    assert from_json("predict", data, path, "--part", "test")["accuracy"] == found["accuracy"]


@pytest.mark.parametrize("model", ["l1-ball-regressor", "trace-ball-regressor"])
@pytest.mark.parametrize("normalize", ["rows", "maxabs"])
def test_a_regressor_predicts_numbers(from_json, softmargin_, numbers, model, normalize):
    path = numbers.parent / "m"
    found = from_json("train", numbers, *HELD, "--model", model, "--radius", "90", "--normalize", normalize, "-o", path)
    assert 0.5 < found["r2"] <= found["train_r2"] + 0.2
    assert "classes" not in found
    assert from_json("certify", path, numbers)["certificate"]["residual"] <= 1.1e-3
    predicted = from_json("predict", numbers, path, "--part", "test")
    assert predicted["r2"] == pytest.approx(found["r2"])
    assert np.shape(predicted["numbers"]) == (20, 3)
    code, out, err = softmargin_("predict", numbers, path, "--part", "test")
    assert code == 0
    table = [[float(word) for word in line.split("	")] for line in out.splitlines()]
    np.testing.assert_allclose(table, predicted["numbers"])
    assert err.startswith("r2 ")
    if model == "trace-ball-regressor":
        assert 1 <= found["rank"] <= 3


def test_cross_validation_chooses_a_radius(from_json, numbers):
    found = from_json("train", numbers, "--model", "l1-ball-regressor", "--cv", "3", "--search", "radius=0.1,9", "-q")
    assert found["radius"] == found["cv"]["chosen"]["radius"] == 9.0
    low, high = (point["score"] for point in found["cv"]["points"])
    assert low is None or low < high  # None: it could not win


def test_folds_of_one_row_have_no_score(softmargin_, tmp_path):
    (tmp_path / "few.txt").write_text("1 1:1\n2 1:2\n3 1:4\n4 1:3\n")
    words = ("--model", "l1-ball-regressor", "--cv", "4", "-q")
    code, _, err = softmargin_("train", tmp_path / "few.txt", *words)
    assert code == 1
    assert "4 folds of 4 rows have no score: R^2 needs two rows" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--model", "l1-ball", "-C", "2"), "-C is an option of SVMs and softmax models; l1-ball is none"),
        (("--model", "softmax", "--radius", "2"), "--radius is an option of models in a ball"),
        (("--model", "trace-ball", "--loss", "hinge"), "trace-ball takes smooth_hinge"),
        (("--model", "trace-ball", "--kernel", "rbf"), "--kernel is an option of kernel models"),
        (("--model", "trace-ball", "--solver", "working_set"), "--solver working_set solves l1 ball"),
        (("--model", "l1-ball", "-o", "m", "--format", "liblinear"), "a l1-ball model is none"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_options_that_do_not_fit_are_one_line_before_training(refused, data, monkeypatch, words, message):
    monkeypatch.setattr(train, "fit_problem", None)
    monkeypatch.chdir(data.parent)
    assert message in refused("train", data, *words)


def test_numbers_in_columns_are_no_labels(refused, numbers):
    assert "a classifier needs one label per row" in refused("train", numbers)


def test_a_regressor_has_neither_scores_nor_probabilities(refused, from_json, numbers):
    path = numbers.parent / "m"
    from_json("train", numbers, *HELD, "--model", "l1-ball-regressor", "-o", path)
    assert "holds a regressor" in refused("predict", numbers, path, "--scores")
    assert "leave out multiclass and loss" in refused("certify", path, numbers, "--loss", "hinge")


def test_a_ball_needs_no_scikit_learn(tmp_path):
    model = str(tmp_path / "m")
    words = [
        ("train", "digits", *HELD, "--model", "l1-ball", "--json", "--tol", "0.1", "-o", model),
        ("certify", model, "digits", "--json"),
    ]
    assert not {"sklearn", "pandas", "rich"} & set(imported_by("\n".join(calling(*each) for each in words)))
