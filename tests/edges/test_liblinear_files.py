"""LIBLINEAR model files, against LIBLINEAR itself."""

import warnings

import numpy as np
import pytest

from softmargin.core.errors import IncompatibleError, ModelFileError
from softmargin.data import blobs
from softmargin.models import LinearModel, looks_like_liblinear, read_liblinear, write_liblinear

HEADER = "solver_type MCSVM_CS\nnr_class 3\nlabel 5 -1 2\nnr_feature 2\nbias 2\nw\n"
WEIGHTS = "1 2 3 \n4 5 6 \n7 8 9 \n"


@pytest.fixture(scope="module")
def liblinear():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("liblinear.liblinearutil", reason="liblinear-official is not installed")


def labelled_blobs(labels, *, seed=0):
    X, y = blobs(120, 6, len(labels), seed=seed)
    return X, np.asarray(labels)[y]


def liblinear_scores(liblinear, model, X, y):
    labels, _, scores = liblinear.predict(y.tolist(), X, model, "-q")
    return np.array(labels), np.array(scores)


@pytest.mark.parametrize("bias", [-1, 1, 2.5])
@pytest.mark.parametrize("labels", [[3, -1], [-1, 3], [7, 2, 30]])
@pytest.mark.parametrize("solver", [0, 1, 3, 4, 5])
def test_a_model_trained_by_liblinear_decides_here_as_there(liblinear, tmp_path, solver, labels, bias):
    X, y = labelled_blobs(labels)
    theirs = liblinear.train(y.tolist(), X, f"-s {solver} -B {bias} -q")
    path = str(tmp_path / "theirs.model")
    liblinear.save_model(path, theirs)
    predicted, scores = liblinear_scores(liblinear, theirs, X, y)

    assert looks_like_liblinear(path)
    ours = read_liblinear(path)
    assert ours.classes.tolist() == sorted(labels)
    assert ours.predict(X).tolist() == predicted.tolist()
    order = np.argsort(theirs.get_labels())
    if len(labels) == 2 and solver == 4:  # LIBLINEAR's Python predict shows only the first of two columns
        (w_low, b_low), (w_high, b_high) = (theirs.get_decfun(int(c)) for c in order)
        scores = X @ (np.array(w_high) - np.array(w_low)) + (b_high - b_low) * (bias >= 0)
    elif len(labels) == 2:
        scores = scores[:, 0] if order[0] == 1 else -scores[:, 0]
    else:
        scores = scores[:, order]
    np.testing.assert_allclose(ours.decision_function(X), scores, rtol=1e-12, atol=1e-12)
    assert ours.info["multiclass"] == ("crammer_singer" if solver == 4 else "one_vs_rest")
    assert ours.info["fit_intercept"] == (bias >= 0)
    assert ours.info.get("intercept_scaling") == (bias if bias >= 0 else None)
    assert "C" not in ours.info


@pytest.mark.parametrize("multiclass", ["weston_watkins", "crammer_singer", "one_vs_rest"])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("labels", [[-1, 1], [2, 5, 9, 11]])
def test_a_model_written_here_predicts_in_liblinear_as_here(liblinear, tmp_path, labels, fit_intercept, multiclass):
    rng = np.random.default_rng(1)
    rows = 1 if len(labels) == 2 else len(labels)
    intercept = rng.standard_normal(rows) * fit_intercept
    info = {
        "multiclass": multiclass,
        "fit_intercept": fit_intercept,
        "intercept_scaling": 3.0,
        "loss": "hinge",
    }
    ours = LinearModel(np.array(labels), rng.standard_normal((rows, 6)), intercept, info)
    path = str(tmp_path / "ours.model")
    write_liblinear(ours, path)
    X, y = labelled_blobs(labels)
    predicted, _ = liblinear_scores(liblinear, liblinear.load_model(path), X, y)
    assert predicted.tolist() == ours.predict(X).tolist()
    again = read_liblinear(path)
    np.testing.assert_array_equal(again.coef, ours.coef)
    np.testing.assert_allclose(again.intercept, ours.intercept, rtol=1e-15)
    assert again.info["fit_intercept"] == fit_intercept


def test_labels_in_any_order_are_sorted_with_their_weights(tmp_path):
    path = tmp_path / "m"
    path.write_text(HEADER + WEIGHTS)
    model = read_liblinear(path)
    assert model.classes.tolist() == [-1, 2, 5]
    np.testing.assert_array_equal(model.coef, [[2, 5], [3, 6], [1, 4]])
    np.testing.assert_array_equal(model.intercept, [16, 18, 14])


@pytest.mark.parametrize("solver_type", ["MCSVM_WW", "MCSVM_WW_Shark"])
def test_a_walrus_model_is_a_weston_watkins_model(tmp_path, solver_type):
    path = tmp_path / "m"
    path.write_text((HEADER + WEIGHTS).replace("MCSVM_CS", solver_type))
    assert read_liblinear(path).info["multiclass"] == "weston_watkins"


def test_windows_line_ends_are_read(tmp_path):
    path = tmp_path / "m"
    path.write_bytes((HEADER + WEIGHTS).replace("\n", "\r\n").encode())
    assert read_liblinear(path).n_features == 2


def test_a_two_class_walrus_model_is_refused_because_half_of_it_is_lost(tmp_path):
    path = tmp_path / "m"
    path.write_text("solver_type MCSVM_WW\nnr_class 2\nlabel 1 2\nnr_feature 2\nbias -1\nw\n1 \n2 \n")
    with pytest.raises(ModelFileError, match="loses half of them"):
        read_liblinear(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a LIBLINEAR model"),
        ("svm_type c_svc\n", "is not a LIBLINEAR model: it starts with b'svm_type"),
        (HEADER[:-2], "truncated: the line 'w'"),
        (HEADER, "0 lines of weights found, 3 of 3 numbers needed"),
        (HEADER + "1 2 3\n4 5 6\n", "2 lines of weights found, 3 of 3 numbers needed"),
        (HEADER + "1 2 3\n4 5\n7 8 9\n", "line 8: found 2 weights, not 3"),
        (HEADER + "1 2 3\n4 five 6\n7 8 9\n", "line 8: a weight is no number"),
        (HEADER + "1 2 3\n4 nan 6\n7 8 9\n", "line 8: a weight is not finite"),
        (HEADER.replace("MCSVM_CS", "L2R_L2LOSS_SVR") + WEIGHTS, "L2R_L2LOSS_SVR is not a classifier"),
        (HEADER.replace("nr_class 3", "nr_class x") + WEIGHTS, "number in the header"),
        (HEADER.replace("nr_class 3", "nr_class 4") + WEIGHTS, "nr_class is 4 and the labels are"),
        (HEADER.replace("5 -1 2", "5 5 2") + WEIGHTS, "a different label for each"),
        ("solver_type MCSVM_CS\nnr_class 1\nlabel 5\nnr_feature 1\nbias -1\nw\n1\n", "at least 2 classes"),
        (HEADER.replace("bias 2\n", "") + WEIGHTS, "the header lacks bias"),
        (HEADER.replace("bias 2", "colour 2") + WEIGHTS, "line 5: unknown entry 'colour'"),
    ],
)
def test_a_damaged_file_is_refused_with_the_reason(tmp_path, text, message):
    path = tmp_path / "m"
    path.write_text(text)
    with pytest.raises(ModelFileError, match=message):
        read_liblinear(path)


def test_other_files_do_not_look_like_liblinear(tmp_path):
    (tmp_path / "a").write_text("1 1:2\n")
    assert not looks_like_liblinear(tmp_path / "a")
    assert not looks_like_liblinear(tmp_path / "absent")
    with pytest.raises(ModelFileError, match="No such file"):
        read_liblinear(tmp_path / "absent")


@pytest.mark.parametrize("labels", [["a", "b"], [0.5, 1.5], [False, True], [0, 2**40]])
def test_labels_the_format_cannot_hold_are_refused(tmp_path, labels):
    model = LinearModel(np.array(labels), np.ones((1, 2)), np.zeros(1))
    with pytest.raises(IncompatibleError, match="integer labels of 32 bits"):
        write_liblinear(model, tmp_path / "m")
    assert not (tmp_path / "m").exists()
