"""certify: anybody's softmax model against a bound we prove."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV

from softmargin import LinearModel, SoftmaxRegression, SoftmaxRegressionCV, certify, load_model, penalties
from softmargin.data import blobs


@pytest.fixture(scope="module")
def data():
    X, y = blobs(120, 5, 3, seed=0, separation=0.6)
    return X + 0.5, y


def objective(X, y, coef, intercept, C, l1, l2):
    scores = X @ coef.T + intercept
    logs = log_softmax(np.hstack([0 * scores, scores]) if len(coef) == 1 else scores, axis=1)
    return -np.sum(C * logs[np.arange(len(y)), y]) + l1 * np.abs(coef).sum() + l2 / 2 * (coef**2).sum()


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"l1_ratio": 1.0},
        {"l1_ratio": 0.3, "class_weight": "balanced"},
        {"fit_intercept": False},
        {"penalty": penalties.Group(0.5)},
        {"penalty": penalties.Nonnegative(0.3)},
    ],
    ids=repr,
)
def test_our_own_model_is_certified_as_it_says(tmp_path, k, settings):
    X, y = blobs(120, 5, k, seed=0, separation=0.6)
    clf = SoftmaxRegression(C=0.3, tol=1e-4, random_state=0, **settings).fit(X, y)
    clf.model().save(tmp_path / "m")
    for model in (clf, clf.model(), load_model(tmp_path / "m"), clf.sparsify()):
        certificate = certify(model, X, y, bound_tol=1e-8)
        assert certificate.primal == pytest.approx(clf.certificate_.primal, rel=1e-12)
        assert clf.certificate_.bound * (1 - 1e-12) <= certificate.bound <= certificate.primal
        assert certificate.residual <= clf.certificate_.residual + 1e-12


def test_what_has_no_bound_is_judged_by_stationarity(data):
    X, y = data
    for settings in ({"C": np.inf}, {"penalty": penalties.MCP(0.5)}, {"penalty": penalties.GroupL0(0.5)}):
        clf = SoftmaxRegression(tol=1e-4, random_state=0, **settings).fit(X, y)
        certificate = certify(clf.model(), X, y)
        assert certificate.kind == "stationarity"
        assert certificate.residual == pytest.approx(clf.certificate_.residual, rel=1e-3)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize(
    "settings",
    [
        {"l1_ratio": 0.0},
        {"l1_ratio": 1.0, "solver": "saga"},
        {"l1_ratio": 0.5, "solver": "saga", "class_weight": "balanced"},
        {"fit_intercept": False, "class_weight": {0: 3.0, 1: 0.5}},
    ],
    ids=repr,
)
def test_scikit_learns_model_gets_its_distance(k, settings):
    X, y = blobs(120, 5, k, seed=0, separation=0.6)
    X += 0.5
    model = LogisticRegression(C=0.3, tol=1e-8, max_iter=10**5, random_state=0, **settings).fit(X, y)
    certificate = certify(model, X, y, bound_tol=1e-8)
    assert 0 <= certificate.residual < 1e-6
    if model.class_weight is None:
        ratio = settings["l1_ratio"]
        wanted = objective(X, y, model.coef_, model.intercept_, 0.3, ratio, 1 - ratio)
        assert certificate.primal == pytest.approx(wanted, rel=1e-12)
    model.coef_ = model.coef_ * 1.2
    poor = certify(model, X, y)
    assert poor.residual > 1e-3
    assert poor.bound == pytest.approx(certificate.bound, rel=1e-4)


@pytest.mark.parametrize("l1_ratio", [0.0, 1.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_liblinear_penalises_the_intercept_and_is_measured_so(l1_ratio, fit_intercept):
    X, y = blobs(120, 5, 2, seed=0, separation=0.6)
    X += 1.0
    settings = {"solver": "liblinear", "intercept_scaling": 2.0, "fit_intercept": fit_intercept}
    model = LogisticRegression(C=0.3, l1_ratio=l1_ratio, tol=1e-9, max_iter=10**5, random_state=0, **settings)
    for rows in (X, sp.csr_array(X)):
        certificate = certify(model.fit(rows, y), rows, y, bound_tol=1e-8)
        assert 0 <= certificate.residual < 1e-6
        # The constant feature has the value 2; half the intercept is its weight.
        weights = np.hstack([model.coef_, np.atleast_2d(model.intercept_) / 2.0])
        constant = np.hstack([X, np.full((120, 1), 2.0)])
        wanted = objective(constant, y, weights, 0.0, 0.3, l1_ratio, 1 - l1_ratio)
        assert certificate.primal == pytest.approx(wanted, rel=1e-10)


def test_searches_by_cross_validation_are_measured_at_their_choice(data):
    X, y = data
    theirs = LogisticRegressionCV(
        Cs=[0.1, 1.0], cv=3, tol=1e-8, use_legacy_attributes=False, l1_ratios=(0.0,), scoring="accuracy"
    )
    assert certify(theirs.fit(X, y), X, y).residual < 1e-6
    ours = SoftmaxRegressionCV(Cs=[0.1, 1.0], l1_ratios=(0.0, 1.0), cv=3, tol=1e-6).fit(X, y)
    certificate = certify(ours, X, y)
    assert certificate.residual <= 1e-6
    assert certificate.primal == pytest.approx(ours.certificate_.primal, rel=1e-12)


def test_no_penalty_is_stationarity(data):
    X, y = data
    model = LogisticRegression(C=np.inf, tol=1e-8, max_iter=10**4).fit(X, y)
    certificate = certify(model, X, y)
    assert certificate.kind == "stationarity"
    assert certificate.residual < 1e-4


def test_sample_weights_and_another_c_count(data):
    X, y = data
    weights = 1.0 + np.arange(len(y)) % 3
    model = LogisticRegression(C=0.3, tol=1e-8, max_iter=10**4).fit(X, y, sample_weight=weights)
    assert certify(model, X, y, sample_weight=weights).residual < 1e-6
    assert certify(model, X, y).residual > 1e-4
    assert certify(model, X, y, sample_weight=weights, C=3.0).residual > 1e-3


def test_a_softmax_model_may_be_measured_as_an_svm(data):
    X, y = data
    clf = SoftmaxRegression(C=0.3).fit(X, y)
    for model in (clf, LogisticRegression(C=0.3).fit(X, y)):
        assert certify(model, X, y, multiclass="crammer_singer").residual > 1e-3


def test_what_cannot_be_certified_is_refused_with_a_way_out(data):
    X, y = data
    clf = SoftmaxRegression().fit(X, y)
    with pytest.raises(ValueError, match="5 features, X has 4"):
        certify(clf, X[:, :4], y)
    with pytest.raises(ValueError, match="label 9"):
        certify(clf, X, np.where(y == 0, 9, y))
    model = clf.model()
    strange = LinearModel(model.classes, model.coef, model.intercept, {**model.info, "penalty": {"name": "Mine"}})
    with pytest.raises(ValueError, match=r"none of softmargin\.penalties"):
        certify(strange, X, y)
    old = LogisticRegression().fit(X, y)
    old.multi_class = "ovr"  # as models of scikit-learn before 1.8 may have it
    assert certify(old, X, y).residual > 1e-2  # its weights are those of one loss for all classes
    old.C_ = np.arange(1.0, 1.0 + len(old.classes_))
    with pytest.raises(ValueError, match="chose another C for every class"):
        certify(old, X, y)
    two = LogisticRegression().fit(X[y < 2], y[y < 2])
    two.multi_class = "multinomial"
    with pytest.raises(ValueError, match="does not minimise the softmax loss"):
        certify(two, X[y < 2], y[y < 2])
