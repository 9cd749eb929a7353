"""`softmargin export`, JSON, files for LIBLINEAR and LIBSVM, and estimators that skops and MLflow keep."""

import json
import warnings

import numpy as np
import pytest

from softmargin import KernelSVC, LinearSVC, read_liblinear, read_libsvm_model
from softmargin.cli.main import main
from softmargin.core.errors import IncompatibleError
from softmargin.data import blobs
from softmargin.export import skops_types
from softmargin.features.scaling import fit_scaling
from softmargin.kernels import Precomputed, make_kernel
from softmargin.models import (
    KernelExpansion,
    LinearModel,
    LinearOneVsOne,
    LinearRegressor,
    OneVsOne,
    write_json_model,
    write_liblinear,
    write_libsvm_model,
)

rng = np.random.default_rng(0)
X = rng.normal(size=(50, 4))
RBF = make_kernel("rbf", gamma=0.3)
KERNELS = [
    make_kernel("linear"),
    RBF,
    make_kernel("polynomial", gamma=0.5, coef0=1.0),
    make_kernel("sigmoid", gamma=0.1),
]


def expansion(labels, kernel=RBF, info=None):
    k = 1 if len(labels) == 2 else len(labels)
    coef = rng.normal(size=(7, k)) * (rng.random((7, k)) < 0.7)
    return KernelExpansion(
        labels, kernel, rng.normal(size=(7, 4)), np.arange(7), 7, coef, rng.normal(size=k), info or {}
    )


def linear(labels, info=None):
    k = 1 if len(labels) == 2 else len(labels)
    return LinearModel(labels, rng.normal(size=(k, 4)), rng.normal(size=k), info or {})


def exported(capsys, *words):
    """Run the verb and return its exit code, its stdout and its stderr."""
    code = main(["export", *map(str, words)])
    return code, *capsys.readouterr()


# --- the verb --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["m.onnx", "m.json", "m.liblinear", "m.libsvm"])
def test_the_suffix_says_which_format(name, tmp_path, capsys):
    if name == "m.onnx":
        pytest.importorskip("onnx", reason="onnx is not installed")
    linear([1, 2, 3]).save(tmp_path / "a.model")
    code, out, err = exported(capsys, tmp_path / "a.model", "-o", tmp_path / name, "--json")
    fields = json.loads(out)
    assert (code, err) == (0, "")
    assert (fields["kind"], fields["features"], fields["classes"]) == ("LinearModel", 4, 3)
    assert fields["bytes"] == (tmp_path / name).stat().st_size
    assert fields["format"] == name[2:]


def test_files_of_others_are_exported_too(tmp_path, capsys):
    write_libsvm_model(expansion([1, 2]), tmp_path / "a")
    assert exported(capsys, tmp_path / "a", "-o", tmp_path / "m.json", "-q") == (0, "", "")
    assert json.loads((tmp_path / "m.json").read_text())["kind"] == "OneVsOne"


def test_what_the_verb_refuses_leaves_no_file(tmp_path, capsys):
    scaled = expansion([1, 2], info=fit_scaling("maxabs", X, "X").as_info())
    rows = LinearModel([1, 2], np.ones((1, 4)), np.ones(1), {"normalize": "rows"})
    models = {"plain": linear([1, 2, 3]), "text": linear(["a", "b"]), "scaled": scaled, "rows": rows}
    for name, model in models.items():
        model.save(tmp_path / f"{name}.model")
    for words, message in (
        (("plain.model", "-o", "m"), "names no format. Add --format onnx, json, liblinear or libsvm"),
        (("plain.model", "-o", "m.json", "--float32"), "--float32 is an option of onnx"),
        (("plain.model", "-o", "plain.model", "--format", "json"), "would overwrite the input"),
        (("plain.model", "-o", "absent/m.json"), "no folder"),
        (("absent.model", "-o", "m.json"), "cannot read"),
        (("text.model", "-o", "m.liblinear"), "integer labels"),
        (("text.model", "-o", "m.libsvm"), "integer labels"),
        (("scaled.model", "-o", "m.libsvm"), "trained with --normalize maxabs, and a libsvm file cannot say so"),
        (("rows.model", "-o", "m.liblinear"), "trained with --normalize rows"),
    ):
        code, out, err = exported(
            capsys, *(str(tmp_path / word) if "." in word or word == "m" else word for word in words)
        )
        assert (code, out) == (1 if message in ("no folder", "cannot read") else 2, "")
        assert message in err
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"{name}.model" for name in models)


def test_rows_need_no_length_where_there_is_no_intercept(tmp_path, capsys):
    LinearModel([1, 2], np.ones((1, 4)), np.zeros(1), {"normalize": "rows"}).save(tmp_path / "a.model")
    assert exported(capsys, tmp_path / "a.model", "-o", tmp_path / "m.liblinear", "-q")[0] == 0


def test_probabilities_that_are_lost_are_told(tmp_path, capsys):
    linear([1, 2, 3], {"problem": "softmax"}).save(tmp_path / "a.model")
    _, _, err = exported(capsys, tmp_path / "a.model", "-o", tmp_path / "m.liblinear")
    assert "not always its probabilities" in err


# --- JSON ------------------------------------------------------------------------------------------------------------


def test_json_has_the_numbers_of_the_model_and_no_markup(tmp_path):
    model = expansion(["</script><script>", "&amp;", "ü"], info={"C": 0.1})
    write_json_model(model, tmp_path / "m.json")
    text = (tmp_path / "m.json").read_text("ascii")
    assert not set("<>&") & set(text)
    found = json.loads(text)
    assert (found["format"], found["format_version"], found["kind"]) == ("softmargin-json", 1, "KernelExpansion")
    assert found["arrays"]["classes"] == model.classes.tolist()
    distances = ((X[:, None, :] - np.array(found["arrays"]["vectors"])) ** 2).sum(axis=2)
    values = np.exp(-found["meta"]["kernel"]["gamma"] * distances)
    scores = values @ np.array(found["arrays"]["coef"]) + found["arrays"]["intercept"]
    np.testing.assert_allclose(scores, model.decision_function(X), atol=1e-12)
    assert found["meta"]["info"] == {"C": 0.1}


def test_json_holds_every_kind(tmp_path):
    pairs = OneVsOne([1, 2], RBF, X[:4], [2, 2], np.ones((4, 1)), [0.5])
    several = (
        linear([b"a", b"b"]),
        pairs,
        LinearOneVsOne([1, 2, 3], np.eye(3), np.ones(3)),
        LinearRegressor(np.eye(2), np.ones(2)),
    )
    for model in several:
        write_json_model(model, tmp_path / "m.json")
        found = json.loads((tmp_path / "m.json").read_text())
        arrays, _ = model.stored()
        assert found["kind"] == type(model).__name__
        assert found["arrays"].keys() == arrays.keys()
        assert np.shape(found["arrays"]["coef"]) == model.coef.shape
    with pytest.raises(IncompatibleError, match="precomputed"):
        write_json_model(KernelExpansion([1, 2], Precomputed(), None, [0], 3, [[1.0]], [0.0]), tmp_path / "n.json")
    assert not (tmp_path / "n.json").exists()


# --- LIBSVM ----------------------------------------------------------------------------------------------------------


def in_libsvm(path, X):
    """Return the labels that LIBSVM itself predicts; None where it is not installed."""
    try:
        from libsvm import svmutil
    except ImportError:
        return None
    model = svmutil.svm_load_model(str(path))
    labels, _, _ = svmutil.svm_predict([], [dict(enumerate(row, 1)) for row in X.tolist()], model, "-q")
    return np.array(labels)


@pytest.mark.parametrize("labels", [[-1, 3], [2, 7, 30, 31]])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_a_kernel_model_votes_in_a_libsvm_file_as_it_scores(kernel, labels, tmp_path):
    model = expansion(labels, kernel)
    write_libsvm_model(model, tmp_path / "m")
    again = read_libsvm_model(tmp_path / "m")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    if len(labels) == 2:
        np.testing.assert_allclose(again.decision_function(X), model.decision_function(X), atol=1e-12)
    theirs = in_libsvm(tmp_path / "m", X)
    if theirs is not None:
        np.testing.assert_array_equal(theirs, model.predict(X))


def test_linear_models_are_libsvm_models_with_few_vectors(tmp_path):
    pairs = LinearOneVsOne([4, 5, 6, 7], rng.normal(size=(6, 4)), rng.normal(size=6))
    for model, n in ((linear([1, 2]), 1), (linear([3, 1, 2]), 3), (pairs, 6)):
        write_libsvm_model(model, tmp_path / "m")
        again = read_libsvm_model(tmp_path / "m")
        assert len(again.coef) == n
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        theirs = in_libsvm(tmp_path / "m", X)
        if theirs is not None:
            np.testing.assert_array_equal(theirs, model.predict(X))


def test_a_one_vs_one_fit_comes_back_as_it_was(tmp_path):
    rows, y = blobs(60, 3, 3, seed=1, separation=0.5)
    clf = KernelSVC(gamma=0.5, multiclass="one_vs_one", fit_intercept="free", random_state=0).fit(rows, y)
    write_libsvm_model(clf.model(), tmp_path / "m")
    again = read_libsvm_model(tmp_path / "m")
    np.testing.assert_allclose(again.pair_scores(rows), clf.model().pair_scores(rows), atol=1e-12)
    np.testing.assert_array_equal(again.predict(rows), clf.predict(rows))


def test_libsvm_files_hold_the_sigmoid_of_two_classes(tmp_path):
    model = expansion([1, 2], info={"calibration": {"method": "sigmoid", "slopes": [1.5], "offsets": [-0.3]}})
    write_libsvm_model(model, tmp_path / "m")
    np.testing.assert_allclose(read_libsvm_model(tmp_path / "m").predict_proba(X), model.predict_proba(X), atol=1e-12)
    (tmp_path / "m").write_text((tmp_path / "m").read_text().replace("probA -1.5", "probA x"))
    with pytest.raises(ValueError, match="probA or probB is no number"):
        read_libsvm_model(tmp_path / "m")


def test_what_libsvm_cannot_hold_is_refused(tmp_path):
    for model, message in (
        (expansion([1, 2], make_kernel("laplacian")), "this model has laplacian"),
        (KernelExpansion([1, 2], Precomputed(), None, [0], 3, [[1.0]], [0.0]), "precomputed kernel has none"),
        (LinearRegressor(np.eye(2), np.ones(2)), "predicts numbers"),
    ):
        with pytest.raises(IncompatibleError, match=message):
            write_libsvm_model(model, tmp_path / "m")
    assert not list(tmp_path.iterdir())


# --- LIBLINEAR -------------------------------------------------------------------------------------------------------


def in_liblinear(path, X, options=""):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its import
        util = pytest.importorskip("liblinear.liblinearutil", reason="liblinear-official is not installed")
    model = util.load_model(str(path))
    labels, _, values = util.predict([], [dict(enumerate(row, 1)) for row in X.tolist()], model, f"-q {options}")
    return np.array(labels), np.array(values)


@pytest.mark.parametrize("labels", [[-1, 3], [2, 7, 30]])
def test_a_linear_kernel_is_written_as_weights(labels, tmp_path):
    model = expansion(labels, make_kernel("linear"))
    write_liblinear(model, tmp_path / "m")
    np.testing.assert_array_equal(in_liblinear(tmp_path / "m", X)[0], model.predict(X))
    np.testing.assert_allclose(
        read_liblinear(tmp_path / "m").decision_function(X), model.decision_function(X), atol=1e-9
    )


def test_a_pair_of_classes_is_written_as_weights(tmp_path):
    model = LinearOneVsOne([4, 5], rng.normal(size=(1, 4)), rng.normal(size=1))
    write_liblinear(model, tmp_path / "m")
    np.testing.assert_array_equal(in_liblinear(tmp_path / "m", X)[0], model.predict(X))


def test_softmax_of_two_classes_has_its_probabilities_in_liblinear(tmp_path):
    model = linear([3, 8], {"problem": "softmax"})
    write_liblinear(model, tmp_path / "m")
    _, values = in_liblinear(tmp_path / "m", X, "-b 1")
    np.testing.assert_allclose(values[:, ::-1], model.predict_proba(X), atol=1e-12)  # it names the second label first
    np.testing.assert_allclose(read_liblinear(tmp_path / "m").predict_proba(X), model.predict_proba(X), atol=1e-12)


def test_a_regressor_predicts_in_liblinear_as_here(tmp_path):
    model = LinearRegressor(rng.normal(size=(1, 4)), np.array([0.7]), True)
    write_liblinear(model, tmp_path / "m")
    np.testing.assert_allclose(in_liblinear(tmp_path / "m", X)[0], model.predict(X), atol=1e-12)


def test_what_liblinear_cannot_hold_is_refused(tmp_path):
    for model, message in (
        (expansion([1, 2]), "is a sum over support vectors"),
        (LinearOneVsOne([1, 2, 3], np.eye(3), np.ones(3)), "weights for every pair"),
        (LinearRegressor(np.eye(2), np.ones(2)), "predicts 2 numbers"),
    ):
        with pytest.raises(IncompatibleError, match=message):
            write_liblinear(model, tmp_path / "m")
    assert not list(tmp_path.iterdir())


# --- skops and MLflow ------------------------------------------------------------------------------------------------


def fitted():
    rows, y = blobs(60, 3, 3, seed=1, separation=0.5)
    settings = {"random_state": 0, "tol": 1e-2}
    kernel = KernelSVC(gamma=0.5, multiclass="one_vs_one", fit_intercept="free", **settings)
    stream = LinearSVC(**settings).partial_fit(rows, y, classes=[0, 1, 2])
    return rows, y, [kernel.fit(rows, y), stream]


def test_skops_keeps_estimators_and_streams():
    skops = pytest.importorskip("skops.io", reason="skops is not installed")
    rows, y, estimators = fitted()
    trusted = skops_types()
    for clf in estimators:
        again = skops.loads(skops.dumps(clf), trusted=trusted)
        np.testing.assert_array_equal(again.decision_function(rows), clf.decision_function(rows))
        assert again.certificate_ == clf.certificate_
    assert set(skops_types(clf)) < set(trusted)
    clf, again = (each.partial_fit(rows, y) for each in (clf, again))
    np.testing.assert_array_equal(again.coef_, clf.coef_)


def test_skops_does_not_trust_functions_of_ours():
    assert not [name for name in skops_types() if name.endswith(("write_archive", "atomic_write", "to_onnx"))]
    assert "softmargin.estimators.linear_svc.LinearSVC" in skops_types()


@pytest.mark.slow  # MLflow asks pip what a model needs
@pytest.mark.filterwarnings("ignore")  # of MLflow itself
def test_mlflow_saves_and_loads(tmp_path):
    sklearn_flavor = pytest.importorskip("mlflow.sklearn", reason="mlflow is not installed")
    rows, _, (clf, *_) = fitted()
    with pytest.raises(sklearn_flavor.MlflowException, match="skops_trusted_types") as refusal:
        sklearn_flavor.save_model(clf, tmp_path / "plain")
    assert all(name in str(refusal.value) for name in skops_types(clf))
    for how in ({"skops_trusted_types": skops_types(clf)}, {"serialization_format": "cloudpickle"}):
        path = tmp_path / next(iter(how))
        sklearn_flavor.save_model(clf, path, **how)
        for flavor in (sklearn_flavor, pytest.importorskip("mlflow.pyfunc")):  # the list travels with the model
            np.testing.assert_array_equal(flavor.load_model(str(path)).predict(rows), clf.predict(rows))
