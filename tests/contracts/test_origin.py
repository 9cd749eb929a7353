"""Columns far from zero, where the intercept is free: they are moved exactly, fits are certified, models are as before.

What models prove of raw rows is compared with 200-bit arithmetic.
"""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier

from extremes.definitions import objective, own_point
from softmargin import (
    L1BallClassifier,
    L1BallRegressor,
    LinearSVC,
    MatrixSensing,
    SoftmaxRegression,
    SoftmaxRegressionCV,
    TraceBallClassifier,
    TraceBallRegressor,
    certify,
    radius_path,
    softmax_path,
)
from softmargin.losses.entrywise import ENTRYWISE
from softmargin.matrices.origin import NOWHERE, Moved, Origin, far_columns, near_zero
from softmargin.penalties import L1, MCP
from softmargin.problems import BallPoint, Constrained, softmax_problem
from softmargin.sets import L1Ball, LowRank

SQUARED = {"loss": "squared_hinge"}
CLASSIFIERS = {
    "softmax l2": SoftmaxRegression(),
    "softmax l1": SoftmaxRegression(l1_ratio=1.0),
    "softmax C": SoftmaxRegression(C=1000.0),
    "squared hinge": LinearSVC(multiclass="one_vs_rest", **SQUARED),
    "l1 ball": L1BallClassifier(radius=2.0),
    "trace ball": TraceBallClassifier(radius=2.0),
}
OTHERS = {
    "pinned": SoftmaxRegression(pinned=2),
    "pairs": LinearSVC(multiclass="one_vs_one", **SQUARED),
    "free hinge": LinearSVC(multiclass="one_vs_rest", fit_intercept="free"),
    "l1 ball, multinomial": L1BallClassifier(radius=2.0, loss="multinomial"),
    "l1 regressor": L1BallRegressor(radius=0.3),
    "trace regressor": TraceBallRegressor(radius=0.3),
    "sensing": MatrixSensing((2, 2), radius=0.3),
}
every_classifier = pytest.mark.parametrize("name", CLASSIFIERS)
every_estimator = pytest.mark.parametrize("name", [*CLASSIFIERS, *OTHERS])


def far_data(k=3, n=120, *, offset=1.6e9, dtype=np.float64):
    """Return a date, a year and two features near zero, of classes that overlap; what to take off, exactly."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % k
    Z = rng.standard_normal((n, 4)) + 0.6 * y[:, None]
    origin = np.array([offset, 2012.0, 0.0, 0.0])
    Z[:, :2] = np.round(Z[:, :2] * [50.0, 7.0])
    return (Z + origin).astype(dtype), Z.astype(dtype), y


def estimator_of(name, **settings):
    return clone({**CLASSIFIERS, **OTHERS}[name]).set_params(random_state=0, **settings)


# --- what is moved -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_moved_columns_are_exact_and_near_zero(dtype):
    X, _, _ = far_data(offset=1.6e7 if dtype == np.float32 else 1.6e12, dtype=dtype)
    near, origin = near_zero(X, True)
    assert near.dtype == dtype
    assert {0, 1} <= set(origin.columns.tolist())
    assert far_columns(near) is None
    m = dict(zip(origin.columns.tolist(), map(Fraction, origin.values.tolist()), strict=True))
    for (i, j), x in np.ndenumerate(X):
        assert Fraction(float(near[i, j])) == Fraction(float(x)) - m.get(j, 0)


@pytest.mark.parametrize("form", ["near", "sparse", "penalised", "constant"])
def test_other_data_are_taken_as_they_are(form):
    X, Z, _ = far_data()
    given = {"near": Z, "sparse": csr_matrix(X), "penalised": X, "constant": np.column_stack([Z, np.full(120, 0.1)])}
    assert near_zero(given[form], form != "penalised") is given[form]


def test_a_column_whose_differences_are_rounded_stays():
    rng = np.random.default_rng(0)
    X = np.column_stack([1e9 + rng.standard_normal(5000), 1e9 + rng.standard_normal(5000), rng.standard_normal(5000)])
    X[7, :2] = 1e-3, 0.0  # no number of float64 is 1e-3 - 1e9
    near, origin = near_zero(X, True)
    assert origin.columns.tolist() == [1]
    np.testing.assert_array_equal(near[:, [0, 2]], X[:, [0, 2]])
    assert near_zero(X[:, :1], True) is not None
    assert not isinstance(near_zero(X[:, [0, 2]], True), Moved)


@pytest.mark.parametrize("form", ["array", "low rank"])
def test_intercepts_of_moved_rows_are_within_their_errors(form):
    """There and back: b' -> b, and b -> b'."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        d, k, r = rng.integers(1, 6, 3)
        origin = Origin(np.arange(d), rng.standard_normal(d) * 10.0 ** rng.integers(-3, 13, d))
        U, s, V = rng.standard_normal((d, r)) * 10.0 ** rng.integers(-12, 1, (d, 1)), rng.random(r), rng.random((k, r))
        weights = LowRank(U, s, V) if form == "low rank" else (U * s) @ V.T
        b = rng.standard_normal(k) * 10.0 ** rng.integers(-3, 9)
        for there, back, sign in ((origin.far, origin.near, -1), (origin.near, origin.far, 1)):
            found = there(weights, b)
            level = origin.errors(weights, back(weights, found) if sign > 0 else b)
            for c in range(k):
                products = (
                    [sum(Fraction(U[j, q]) * Fraction(s[q]) * Fraction(V[c, q]) for q in range(r)) for j in range(d)]
                    if form == "low rank"
                    else [Fraction(weights[j, c]) for j in range(d)]
                )
                exactly = Fraction(b[c]) + sign * sum(
                    Fraction(m) * w for m, w in zip(origin.values.tolist(), products, strict=True)
                )
                assert abs(Fraction(found[c]) - exactly) <= Fraction(level[c])


def test_the_intercept_is_that_of_the_weights_a_model_keeps():
    """Singular triples are rounded by 1e-16 of the largest weight, which is more than a weight of the dates has."""
    X, _, y = far_data(offset=1e12)
    clf = estimator_of("trace ball")
    posed = clf._pose(clf._checked(X, y, None))
    W = np.random.default_rng(0).standard_normal((4, 3)) * np.array([1e-7, 1.0, 1.0, 1.0])[:, None]
    found, origin = posed.attributes(BallPoint(W, np.zeros(3))), posed.problem.origin
    U, s, Vt = found["coef_factors_"]
    for c in range(3):
        exactly = -sum(
            Fraction(float(m)) * sum(Fraction(U[c, r]) * Fraction(s[r]) * Fraction(Vt[r, j]) for r in range(len(s)))
            for j, m in zip(origin.columns.tolist(), origin.values, strict=True)
        )
        level = origin.errors(LowRank(Vt.T, s, U), np.zeros(3))[c]
        assert abs(Fraction(found["intercept_"][c]) - exactly) <= Fraction(level)


def test_an_origin_of_nothing_changes_no_bit():
    b = np.array([-0.0, 1.0])
    assert NOWHERE.near(np.ones((3, 2)), b) is b
    assert NOWHERE.far(np.ones((3, 2)), b) is b
    assert NOWHERE.errors(np.ones((3, 2)), b) == 0.0


# --- fits ----------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::softmargin.InactiveBallWarning")
@every_estimator
@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_fits_are_certified_and_agree_with_rows_moved_by_hand(name, tol):
    X, Z, y = far_data()
    clf, other = (estimator_of(name, tol=tol).fit(rows, y) for rows in (X, Z))
    assert clf.status_ == other.status_ == "converged"
    assert clf.certificate_.bound <= other.certificate_.primal
    assert other.certificate_.bound <= clf.certificate_.primal
    found, expected = clf.predict(X), other.predict(Z)
    if hasattr(clf, "classes_"):
        assert np.mean(found == expected) > 0.9
    else:
        np.testing.assert_allclose(found, expected, atol=3.0 * np.sqrt(tol))


@every_classifier
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("offset", [1.6e9, 1e12, 2e13])
def test_certificates_hold_for_the_model_on_raw_rows(name, k, offset):
    X, _, y = far_data(k, 40, offset=offset)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of 1e-9
        clf, best = estimator_of(name).fit(X, y), estimator_of(name, tol=1e-9).fit(X, y)
    value, least = (objective(model, X, y, own_point(model)) for model in (clf, best))
    assert value <= clf.certificate_.primal
    assert clf.certificate_.bound <= least * (1 + 1e-12)
    if offset <= 1e12:
        assert clf.certificate_.residual <= 1e-3


def test_the_intercept_is_charged_for():
    """A model of such rows has no finer proof than its intercept has digits."""
    X, _, y = far_data(2, 40, offset=2e13)
    for name in CLASSIFIERS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clf = estimator_of(name, tol=1e-9).fit(X, y)
        assert clf.status_ != "converged"
        assert clf.certificate_.rounding > 1e-9
        assert objective(clf, X, y, own_point(clf)) <= clf.certificate_.primal


def test_intercepts_have_mean_zero_or_that_of_the_pinned_class_is():
    X, _, y = far_data()
    clf = estimator_of("softmax l1").fit(X, y)
    assert abs(clf.intercept_.mean()) <= 1e-12 * np.abs(clf.intercept_).max()
    assert estimator_of("pinned").fit(X, y).intercept_[2] == 0.0


# --- what is made of models ----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::softmargin.InactiveBallWarning")
@every_estimator
def test_certify_finds_the_proof_of_the_fit(name):
    X, _, y = far_data()
    clf = estimator_of(name).fit(X, y)
    for model in (clf, clf.model()):
        found = certify(model, X, y)
        assert found.residual <= 1e-3
        assert found.primal == pytest.approx(clf.certificate_.primal, rel=1e-6)


@pytest.mark.filterwarnings("ignore::softmargin.InactiveBallWarning")
@every_estimator
def test_a_warm_start_begins_at_the_model(name):
    X, Z, y = far_data()
    own, other = (estimator_of(name, warm_start=True).fit(rows, y).fit(rows, y) for rows in (X, Z))
    assert own.status_ == "converged"
    assert own.trace_[0].certificate.primal == pytest.approx(other.trace_[0].certificate.primal, rel=1e-3)


def test_certify_knows_models_of_others():
    X, Z, y = far_data()
    # Their weights of rows near zero, with the intercept that rows as they came have.
    asked = {"alpha": 0.01, "learning_rate": "constant", "eta0": 1e-9, "random_state": 0}
    models = [
        LogisticRegression(tol=1e-10, max_iter=10_000),
        *(SGDClassifier(loss=loss, **asked) for loss in ("squared_hinge", "hinge", "log_loss")),
        *(SGDClassifier(loss=loss, penalty="l1", **asked) for loss in ("squared_hinge", "hinge")),
        Ridge(),
    ]
    for model in models:
        near = certify(model.fit(Z, y), Z, y)
        model.intercept_ = model.intercept_ - model.coef_ @ (X - Z)[0]
        found = certify(model, X, y)
        assert found.primal == pytest.approx(near.primal, rel=1e-6)
        assert found.bound == pytest.approx(near.bound, rel=3e-3)


def test_paths_and_searches_agree_with_rows_moved_by_hand():
    X, Z, y = far_data()
    own, other = (softmax_path(rows, y, Cs=5) for rows in (X, Z))
    np.testing.assert_allclose(own.Cs, other.Cs, rtol=1e-6)
    assert own.statuses == ["converged"] * 5
    assert radius_path(L1BallClassifier(), X, y, radii=[0.1, 0.5]).statuses == ["converged"] * 2
    found, near = (SoftmaxRegressionCV(Cs=[0.01, 1.0], cv=3).fit(rows, y) for rows in (X, Z))
    assert found.C_ == near.C_
    assert found.score(X, y) == pytest.approx(near.score(Z, y), abs=0.02)


def test_a_penalty_that_is_not_convex_starts_at_the_convex_relative():
    X, _, y = far_data()
    clf = SoftmaxRegression(penalty=MCP(1.0), random_state=0).fit(X, y)
    assert clf.status_ == "converged"
    assert clf.score(X, y) > 0.5


def test_a_checkpoint_is_gone_on_with(tmp_path):
    X, _, y = far_data()
    asked = {"radius": 0.5, "tol": 1e-6, "solver": "accelerated_gradient"}
    whole = estimator_of("l1 ball", **asked).fit(X, y)
    with pytest.warns(match="stopped after 3 passes"):
        estimator_of("l1 ball", **asked, max_iter=3).fit(X, y, checkpoint=tmp_path / "c")
    clf = estimator_of("l1 ball", **asked).fit(X, y, checkpoint=tmp_path / "c")
    np.testing.assert_array_equal(clf.intercept_, whole.intercept_)


def test_streams_take_rows_as_they_come():
    X, _, y = far_data(offset=1e4)
    one, two = SoftmaxRegression(), SoftmaxRegression()
    one.partial_fit(X[:60], y[:60], classes=[0, 1, 2]).partial_fit(X[60:], y[60:])
    two.partial_fit(X[:60], y[:60], classes=[0, 1, 2])
    assert two._problem(two._checked(X, y, None)).origin is NOWHERE
    assert np.isfinite(one.certificate_.bound)


def test_problems_of_moved_rows_keep_their_origin():
    X, _, y = far_data()
    moved = near_zero(X, True)
    problem = softmax_problem(moved, y, penalty=L1(1.0))
    assert problem.with_penalty(L1(2.0)).origin is moved.origin
    ball = Constrained(moved, 1.0 * y, loss=ENTRYWISE["squared"], ball=L1Ball(1.0), fit_intercept=True)
    assert ball.within(L1Ball(2.0)).origin is moved.origin
