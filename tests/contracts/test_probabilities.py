"""Probabilities of SVMs: those of scikit-learn's CalibratedClassifierCV on the same held-out scores, and saved."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel

import softmargin as sm
from softmargin.data import blobs
from softmargin.estimators.frame import svm
from softmargin.estimators.frame.calibration import fitted_calibration
from softmargin.models.probabilities import METHODS, calibrated_logs

FINE = {"tol": 1e-7, "random_state": 0}


@pytest.fixture(params=[2, 3], ids=["two classes", "three classes"])
def data(request):
    X, y = blobs(240, 4, request.param, seed=3, separation=0.7)
    return X[:120], np.array(["a", "b", "c"])[y[:120]], X[120:], np.array(["a", "b", "c"])[y[120:]]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", [sm.LinearSVC, sm.KernelSVC])
def test_they_are_those_of_scikit_learn_and_no_worse(monkeypatch, tmp_path, data, kind, method):
    X, y, X_test, y_test = data
    monkeypatch.setattr(svm, "TUNING", svm.TUNING._replace(coarse_tol=0.0))
    gamma = {"gamma": 0.2} if kind is sm.KernelSVC else {}
    ours = kind(probability=method, **gamma, **FINE).fit(X, y)
    theirs = CalibratedClassifierCV(kind(**gamma, **FINE), method=method, ensemble=False, cv=5).fit(X, y)
    found = ours.predict_proba(X_test)
    assert found.shape == (120, len(ours.classes_))
    assert (found > 0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.log(found), ours.predict_log_proba(X_test))
    if method == "sigmoid":
        np.testing.assert_allclose(found, theirs.predict_proba(X_test), atol=2e-3)
    # One temperature has its prior, isotonic steps theirs: they differ from scikit-learn's, and are no worse.
    assert log_loss(y_test, found) <= log_loss(y_test, theirs.predict_proba(X_test)) + 0.005
    ours.model().save(tmp_path / "m")
    np.testing.assert_allclose(sm.load_model(tmp_path / "m").predict_proba(X_test), found)


@pytest.mark.parametrize("k", [1, 3])
def test_fits_are_at_their_optimum(k):
    """Newton's method against a method without derivatives."""
    rng = np.random.default_rng(0)
    scores, weights = 30.0 * rng.normal(size=(80, k)), rng.uniform(0.5, 2.0, 80)
    codes = rng.integers(0, max(k, 2), 80)
    scores[np.arange(80), np.minimum(codes, k - 1)] += 20.0
    found = fitted_calibration("temperature", scores, codes, weights)
    n, total = max(k, 2), weights.sum()
    target = np.full((80, n), 1.0 / ((total + 2.0) * (n - 1)))
    target[np.arange(80), codes] = (total + 1.0) / (total + 2.0)

    def loss(slope):
        logs = calibrated_logs(scores[:, 0] if k == 1 else scores, {"method": "temperature", "slope": slope[0]})
        return -weights @ (target * logs).sum(axis=1)

    other = minimize(loss, [0.01], method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-12})
    assert loss([found["slope"]]) <= other.fun + 1e-8


def test_rows_that_are_all_right_leave_probabilities_finite():
    scores, codes = np.r_[np.full(20, -3.0), np.full(20, 3.0)][:, None], np.repeat([0, 1], 20)
    for method in METHODS:
        logs = calibrated_logs(scores[:, 0], fitted_calibration(method, scores, codes, None))
        assert np.isfinite(logs).all()
        assert 0.9 < np.exp(logs[-1, 1]) < 1.0
    flat = fitted_calibration("sigmoid", np.zeros((40, 1)), codes, None)
    np.testing.assert_allclose(np.exp(calibrated_logs(np.zeros(1), flat)), [[0.5, 0.5]], atol=1e-9)


def test_other_settings_have_probabilities_too(data):
    X, y, X_test, _ = data
    K, K_test = rbf_kernel(X, gamma=0.2), rbf_kernel(X_test, X, gamma=0.2)
    own = sm.KernelSVC(gamma=0.2, probability=True, **FINE).fit(X, y)
    given = sm.KernelSVC(kernel="precomputed", probability="sigmoid", **FINE).fit(K, y)
    np.testing.assert_allclose(given.predict_proba(K_test), own.predict_proba(X_test), atol=1e-3)
    chosen = sm.LinearSVCCV([0.1, 1.0], cv=2, probability="temperature", random_state=0).fit(X, y)
    assert chosen.predict_proba(X_test).shape == (120, len(chosen.classes_))
    threads = sm.LinearSVC(probability="sigmoid", n_jobs=2, **FINE).fit(X, y)
    alone = sm.LinearSVC(probability="sigmoid", **FINE).fit(X, y)
    np.testing.assert_allclose(threads.predict_proba(X_test), alone.predict_proba(X_test), atol=1e-6)


def test_there_are_none_where_none_were_asked_for(data):
    X, y, *_ = data
    clf = sm.LinearSVC().fit(X, y)
    assert not hasattr(clf, "predict_proba")
    with pytest.raises(NotFittedError, match="probability= was set later"):
        clf.set_params(probability="sigmoid").predict_proba(X)
    with pytest.raises(sm.IncompatibleError, match="no probabilities"):
        clf.set_params(probability=None).model().predict_proba(X)
    with pytest.raises(ValueError, match="probability"):
        sm.LinearSVC(probability="platt").fit(X, y)
    with pytest.raises(sm.DataError, match="every class needs 2 samples"):
        sm.LinearSVC(probability="sigmoid").fit(X[:9], [0, 0, 0, 0, 1, 1, 1, 1, 2])
    assert not hasattr(sm.LinearSVC(probability="sigmoid"), "partial_fit")
