"""certify: anybody's model against a bound we prove."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import Perceptron
from sklearn.svm import LinearSVC as SklearnLinearSVC

from softmargin import LinearSVC, MulticlassSVM, certify, read_liblinear
from softmargin.data import blobs


@pytest.fixture(scope="module")
def data():
    return blobs(120, 5, 4, seed=0, separation=0.7)


@pytest.mark.parametrize("multiclass", ["weston_watkins", "crammer_singer"])
def test_our_own_model_is_certified_as_it_says(data, multiclass):
    X, y = data
    clf = LinearSVC(C=0.3, multiclass=multiclass, tol=1e-3, random_state=0).fit(X, y)
    for model in (clf, clf.model()):
        certificate = certify(model, X, y)
        assert certificate.primal == pytest.approx(clf.certificate_.primal, rel=1e-12)
        assert certificate.bound >= clf.certificate_.bound - 1e-9
        assert certificate.residual <= clf.certificate_.residual + 1e-12


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_our_one_vs_rest_is_certified_as_it_says(k, loss, fit_intercept):
    X, y = blobs(120, 5, k, seed=0, separation=0.7)
    settings = {"C": 0.3, "loss": loss, "fit_intercept": fit_intercept, "class_weight": "balanced"}
    clf = LinearSVC(**settings, multiclass="one_vs_rest", tol=1e-4, random_state=0).fit(X, y)
    for model in (clf, clf.model()):
        certificate = certify(model, X, y, bound_tol=1e-8)
        assert certificate.primal == pytest.approx(clf.certificate_.primal, rel=1e-12)
        assert clf.certificate_.bound * (1 - 1e-7) <= certificate.bound <= certificate.primal * (1 + 1e-12)


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize(
    "settings",
    [
        {"loss": "hinge"},
        {"loss": "hinge", "fit_intercept": False},
        {"loss": "hinge", "class_weight": "balanced"},
        {"loss": "squared_hinge", "dual": False},
        {"loss": "squared_hinge", "dual": False, "fit_intercept": False},
        {"loss": "squared_hinge", "dual": False, "intercept_scaling": 3.0, "class_weight": {0: 4.0, 1: 0.5}},
    ],
)
def test_scikit_learns_one_vs_rest_is_measured_by_what_it_solves(k, settings):
    """Its intercept is penalised; its class weights raise the price of the positive samples only (k > 2)."""
    X, y = blobs(120, 5, k, seed=0, separation=0.7)
    X += 0.5
    model = SklearnLinearSVC(C=0.3, tol=1e-9, max_iter=10**6, **settings).fit(X, y)
    certificate = certify(model, X, y, bound_tol=1e-8)
    assert 0 <= certificate.residual < 1e-5
    model.coef_ = model.coef_ * 1.1
    assert certify(model, X, y).residual > 1e-3


def test_scikit_learns_sparse_squared_hinge_is_certified():
    X, y = blobs(120, 30, 3, seed=0, sparse=True, density=0.3)
    model = SklearnLinearSVC(C=0.3, dual=False, tol=1e-9).fit(X, y)
    assert certify(model, X, y, bound_tol=1e-8).residual < 1e-5


# LIBLINEAR visits samples in an order of its own making, and stops after 1000 passes: how near it comes varies.
@pytest.mark.parametrize(("flags", "wanted"), [("-s 3 -B 1", 1e-3), ("-s 1 -B 1", 1e-4), ("-s 2", 1e-4)])
def test_a_one_vs_rest_liblinear_file_says_its_loss(data, tmp_path, flags, wanted):
    liblinear = pytest.importorskip("liblinear.liblinearutil", reason="liblinear-official is not installed")
    X, y = data
    model = liblinear.train(y.astype(float).tolist(), X.tolist(), f"{flags} -c 0.3 -e 1e-7 -q")
    liblinear.save_model(str(tmp_path / "m"), model)
    assert certify(read_liblinear(tmp_path / "m"), X, y, C=0.3, bound_tol=1e-7).residual < wanted


def _crammer_singer(data, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # garbage n_iter_ makes it warn at random (scikit-learn issue 34029)
        return SklearnLinearSVC(multi_class="crammer_singer", **settings).fit(*data)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_scikit_learns_model_gets_its_distance(data, fit_intercept):
    good = certify(_crammer_singer(data, C=0.3, tol=1e-8, max_iter=10**6, fit_intercept=fit_intercept), *data)
    poor = certify(_crammer_singer(data, C=0.3, tol=10.0, max_iter=1, fit_intercept=fit_intercept), *data)
    assert good.residual < 1e-4
    assert poor.residual > 2 * good.residual
    assert good.bound == pytest.approx(poor.bound, rel=1e-4)


def test_two_classes_collapse_and_unfold():
    X, y = blobs(80, 3, 2, seed=4, separation=0.4)
    model = _crammer_singer((X, y), C=0.5, tol=1e-9, max_iter=10**6, fit_intercept=False)
    assert certify(model, X, y).residual < 1e-5


def test_a_liblinear_file_is_measured_at_the_c_it_was_trained_with(data, tmp_path):
    liblinear = pytest.importorskip("liblinear.liblinearutil", reason="liblinear-official is not installed")
    X, y = data
    model = liblinear.train(y.astype(float).tolist(), X.tolist(), "-s 4 -c 0.3 -e 1e-6 -q")
    path = str(tmp_path / "liblinear.model")
    liblinear.save_model(path, model)
    loaded = read_liblinear(path)
    assert certify(loaded, X, y, C=0.3).residual < 1e-4
    assert certify(loaded, X, y, C=30.0).residual > 1e-3
    with pytest.raises(ValueError, match="pass C="):
        certify(loaded, X, y)


def test_the_bound_is_a_bound_for_any_weights(data):
    X, y = data
    clf = LinearSVC(C=0.3, tol=1e-3, fit_intercept=False).fit(X, y)
    clf.coef_ = clf.coef_ + np.random.default_rng(0).standard_normal(clf.coef_.shape)
    certificate = certify(clf, X, y)
    problem = MulticlassSVM(X, y, C=0.3)
    assert certificate.primal == pytest.approx(problem.primal(np.vstack([clf.coef_.T, np.zeros(4)])).value)
    assert 0 < certificate.bound < certificate.primal


def test_what_cannot_be_certified_is_refused_with_a_way_out(data):
    X, y = data
    model = Perceptron().fit(X, y)
    with pytest.raises(ValueError, match="Pass multiclass="):
        certify(model, X, y)
    assert certify(model, X, y, multiclass="weston_watkins", C=1.0).residual > 0
    with pytest.raises(ValueError, match="has no coef_"):
        certify(LinearSVC(), X, y)
    clf = LinearSVC().fit(X, y)
    with pytest.raises(ValueError, match="5 features, X has 4"):
        certify(clf, X[:, :4], y)
    with pytest.raises(ValueError, match="label 9"):
        certify(clf, X, np.where(y == 0, 9, y))


def test_a_model_may_be_measured_by_another_problem(data):
    X, y = data
    clf = LinearSVC(C=0.3, tol=1e-6).fit(X, y)
    assert certify(clf, X, y, multiclass="crammer_singer").residual > 1e-3
    by_squares = certify(clf, X, y, multiclass="one_vs_rest", loss="squared_hinge")
    violations = np.maximum(1.0 - (2 * np.eye(4)[y] - 1) * clf.decision_function(X), 0.0)
    assert by_squares.primal == pytest.approx((clf.coef_**2).sum() / 2 + 0.3 * (violations**2).sum(), rel=1e-12)
    assert by_squares.residual > 0.01
