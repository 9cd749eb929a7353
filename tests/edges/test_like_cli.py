"""Options of LIBLINEAR and LIBSVM on our command line: the same problems, and a refusal of what we have not."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC

from softmargin import load_model
from softmargin.data import load, write_libsvm

EXACT = ("--tol", "1e-9")
JOINT = {"multi_class": "crammer_singer", "fit_intercept": False}
LINEAR = {"C": 0.5, "tol": 1e-10, "max_iter": 100_000, "random_state": 0}


@pytest.fixture
def data(files):
    whole = load(str(files / "train.libsvm"))
    write_libsvm(files / "two.libsvm", whole.X[whole.y < 3], whole.y[whole.y < 3])
    return files


def trained(softmargin_, name, *words):
    """Train as another library would be asked to; return the model, the rows and what was noted."""
    code, _, err = softmargin_("train", *words, *EXACT, name, name.parent / "m")
    assert code == 0, err
    whole = load(str(name))
    return load_model(name.parent / "m"), whole.X.toarray(), whole.y, err


@pytest.mark.parametrize(
    ("words", "theirs"),
    [
        (("-s", "4"), LinearSVC(**JOINT, **LINEAR)),
        (("-s", "3", "-B", "2"), LinearSVC(loss="hinge", intercept_scaling=2.0, **LINEAR)),
        (("-B", "1"), LinearSVC(**LINEAR)),
        (("-s", "4", "-w1", "3"), LinearSVC(class_weight={1: 3.0}, **JOINT, **LINEAR)),
    ],
    ids=["crammer_singer", "hinge", "default", "weights"],
)
def test_liblinear_solves_the_same_problem(softmargin_, data, words, theirs):
    words = ("--like", "liblinear", *words, "-c", "0.5")
    model, X, y, err = trained(softmargin_, data / "train.libsvm", *words)
    theirs.fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), theirs.decision_function(X), atol=2e-4)
    assert err == ""


def test_logistic_regression_of_two_classes_is_theirs(softmargin_, data):
    words = ("--like=liblinear", "-s", "0", "-c", "0.5", "-e", "0.1")
    model, X, y, err = trained(softmargin_, data / "two.libsvm", *words)
    theirs = LogisticRegression(C=0.5, fit_intercept=False, solver="liblinear", tol=1e-10).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), theirs.decision_function(X), atol=1e-4)
    assert "LIBLINEAR's is one-vs-rest" in err
    assert "ours is --tol" in err


@pytest.mark.parametrize("name", ["train", "two"])
@pytest.mark.parametrize(
    ("words", "theirs"),
    [
        (("-t", "2", "-g", "0.1"), {"gamma": 0.1}),
        (("-t", "1", "-d", "2", "-r", "1", "-m", "10", "-h", "0"), {"kernel": "poly", "degree": 2, "coef0": 1.0}),
    ],
    ids=["rbf", "poly"],
)
def test_libsvm_solves_the_same_problem(softmargin_, data, name, words, theirs):
    words = ("--like", "libsvm", *words, "-c", "0.5", "-w2", "2", "-q")
    model, X, y, err = trained(softmargin_, data / f"{name}.libsvm", *words)
    theirs = SVC(**{"C": 0.5, "gamma": "auto", "tol": 1e-9, "class_weight": {2: 2.0}, **theirs}).fit(X, y)
    assert (model.predict(X) == theirs.predict(X)).all()
    if name == "two":
        np.testing.assert_allclose(model.decision_function(X), theirs.decision_function(X), atol=1e-4)
    assert err == ""


def test_folds_and_a_search_in_their_words(from_json, data):
    words = ("train", "--like", "liblinear", "-s", "2", "-C", "-v", "2", "-q")
    found = from_json(*words, "--holdout", "0.25", data / "train.libsvm")
    assert found["cv"]["folds"] == 2
    assert len(found["cv"]["points"]) == 10
    assert (found["test_rows"], found["model_file"], found["fit_intercept"]) == (30, None, False)
    assert (
        from_json("train", "--like", "libsvm", "-b", "1", data / "train.libsvm", "-o", data / "m")["train_log_loss"] > 0
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("liblinear", "-s", "5"), "-s 5 has no counterpart"),
        (("liblinear", "-s", "11"), "-s 11 has no counterpart"),
        (
            ("liblinear", "-p", "0.1"),
            "-p of liblinear has no counterpart here: it belongs to support",
        ),
        (("liblinear", "-s", "0", "-B", "1"), "our intercept there has no penalty"),
        (("liblinear", "-R"), "add -B 1"),
        (("liblinear", "-s", "4", "-B", "1", "-R"), "-R does not go with -s 4"),
        (("liblinear", "-C", "-c", "1"), "Leave out one of the two"),
        (("liblinear", "-t", "2"), "'-t' is no option of liblinear"),
        (("liblinear", "-B", "one"), "-B one is no number"),
        (("liblinear", "-c"), "-c needs a value"),
        (("libsvm", "-s", "1"), "-s 1 has no counterpart"),
        (("libsvm", "-t", "4"), "A kernel matrix (4) is read in Python only"),
        (("libsvm", "-n", "0.5"), "it belongs to nu-SVMs"),
        (("libsvm", "-c", "-1"), "is not above 0"),
        (("weka",), "--like takes liblinear or libsvm; found 'weka'"),
        (("libsvm", "a", "b", "c"), "are more than DATA and MODEL"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_has_no_counterpart_is_refused(refused, words, message):
    last = () if words[-1] in ("c", "-c") else ("digits",)
    assert message in refused("train", "--like", *words, *last, code=2)
