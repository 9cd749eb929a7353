"""What SoftmaxRegression promises beyond scikit-learn's checks: scikit-learn's model, with a certificate."""

import doctest
import math
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from softmargin import (
    AcceleratedGradient,
    IncompatibleError,
    LinearModel,
    LinearSVC,
    NotCertifiedWarning,
    SoftmaxRegression,
    penalties,
)
from softmargin.data import blobs
from softmargin.estimators.posing.auto import find_solver
from softmargin.estimators.posing.softmax import convex_relative, described, read_penalty
from softmargin.problems import softmax_problem
from softmargin.solvers import HandOver
from softmargin.solvers.names import SOLVERS, choices

EVERY_PENALTY = [
    penalties.L1(0.3),
    penalties.L2(2.0),
    penalties.ElasticNet(0.2, 0.5),
    penalties.Group(0.7),
    penalties.SparseGroup(0.3, 0.2, 0.1),
    penalties.Nonnegative(0.2),
    penalties.Box(-0.3, 0.4),
    penalties.MCP(0.4),
    penalties.SCAD(0.4),
    penalties.L0(0.5),
    penalties.GroupMCP(0.4),
    penalties.GroupSCAD(0.4),
    penalties.GroupL0(0.5),
]


@pytest.fixture(scope="module")
def three():
    return blobs(90, 5, 3, seed=0, separation=0.7)


def peer(C, l1_ratio, **settings):
    solver = "newton-cholesky" if l1_ratio == 0.0 else "saga"
    return LogisticRegression(C=C, l1_ratio=l1_ratio, solver=solver, tol=1e-10, max_iter=10**6, **settings)


# --- scikit-learn's model --------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_probabilities_are_scikit_learns(k, l1_ratio, fit_intercept):
    X, y = blobs(90, 5, k, seed=1, separation=0.6)
    X += 0.5
    ours = SoftmaxRegression(C=0.4, l1_ratio=l1_ratio, fit_intercept=fit_intercept, tol=1e-12).fit(X, y)
    theirs = peer(0.4, l1_ratio, fit_intercept=fit_intercept, random_state=0).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    assert ours.coef_.shape == theirs.coef_.shape == (1 if k == 2 else 3, 5)
    assert ours.intercept_.shape == theirs.intercept_.shape
    assert ours.decision_function(X).shape == theirs.decision_function(X).shape
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    if k > 2:
        assert ours.intercept_.mean() == pytest.approx(0.0, abs=1e-12)
    assert ours.intercept_.any() == fit_intercept


@pytest.mark.parametrize("class_weight", ["balanced", {0: 3.0, 2: 0.5}])
def test_class_and_sample_weights_are_scikit_learns(three, class_weight):
    X, y = three
    weights = 0.5 + np.arange(len(y)) % 3
    ours = SoftmaxRegression(C=0.4, class_weight=class_weight, tol=1e-12).fit(X, y, sample_weight=weights)
    theirs = peer(0.4, 0.0, class_weight=class_weight).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("l1_ratio", [0.0, 1.0])
def test_sample_weights_are_repetitions(three, l1_ratio):
    X, y = three
    weights = np.arange(len(y)) % 3
    settings = {"l1_ratio": l1_ratio, "tol": 1e-11, "random_state": 0}
    weighted = SoftmaxRegression(**settings).fit(X, y, sample_weight=weights)
    repeated = SoftmaxRegression(**settings).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    assert weighted.certificate_.primal == pytest.approx(repeated.certificate_.primal, rel=1e-10)
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-5)


def test_an_infinite_c_is_no_penalty(three):
    X, y = three
    ours = SoftmaxRegression(C=np.inf, tol=1e-9).fit(X, y)
    theirs = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-10).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    assert ours.certificate_.kind == "stationarity"
    assert ours.certificate_.residual <= 1e-9
    assert ours.dual_gap_ == math.inf


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("l1_ratio", [0.0, 1.0])
def test_sparse_and_dense_agree(three, dtype, l1_ratio):
    X, y = three
    X = X.astype(dtype)
    settings = {"l1_ratio": l1_ratio, "tol": 1e-9}
    dense = SoftmaxRegression(**settings).fit(X, y)
    for index in (np.int32, np.int64):
        sparse = sp.csr_array(X)
        sparse.indices, sparse.indptr = sparse.indices.astype(index), sparse.indptr.astype(index)
        other = SoftmaxRegression(**settings).fit(sparse, y)
        np.testing.assert_allclose(dense.predict_proba(X), other.predict_proba(sparse), atol=1e-4)


# --- probabilities ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 4])
def test_logarithms_of_probabilities_are_exact_for_huge_scores(k):
    clf = SoftmaxRegression().fit(*blobs(40, 2, k, seed=0))
    clf.coef_ = np.random.default_rng(0).standard_normal(clf.coef_.shape)
    X = np.array([[1e4, 0.0], [0.0, -1e4], [1.0, 2.0], [0.0, 0.0], [-7e3, 8e3]])
    scores = clf.decision_function(X)
    wanted = log_softmax(np.column_stack([0 * scores, scores]) if k == 2 else scores, axis=1)
    logs = clf.predict_log_proba(X)
    assert logs.shape == (5, k)
    np.testing.assert_allclose(logs, wanted, rtol=1e-12, atol=1e-300)
    assert logs.min() < -1e3
    assert np.isfinite(logs).all()
    np.testing.assert_allclose(clf.predict_proba(X).sum(axis=1), 1.0, rtol=1e-14)
    np.testing.assert_array_equal(clf.classes_[clf.predict_proba(X).argmax(axis=1)][:2], clf.predict(X)[:2])


# --- penalties -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("penalty", EVERY_PENALTY, ids=repr)
def test_every_penalty_is_trained_to_its_certificate(penalty, k):
    X, y = blobs(60, 6, k, seed=2, separation=0.7)
    X[:, 3:] *= 0.05
    clf = SoftmaxRegression(C=0.5, penalty=penalty, tol=1e-4, random_state=0).fit(X, y)
    assert clf.status_ == "converged"
    has_gap = penalty.is_convex and penalty.has_bound
    assert clf.certificate_.kind == ("duality gap" if has_gap else "stationarity")
    problem = softmax_problem(X, y, C=0.5, penalty=penalties.checked(penalty))
    scores = clf.decision_function(X)
    losses = -log_softmax(np.column_stack([0 * scores, scores]) if k == 2 else scores, axis=1)[np.arange(60), y]
    assert clf.certificate_.primal == pytest.approx(0.5 * losses.sum() + penalty.value(clf.coef_.T), rel=1e-9)
    assert clf.certificate_.primal <= problem.primal(problem.zero()).value + 1e-12
    assert np.abs(clf.coef_).max() > 0.0


def test_a_ridge_object_is_the_default_with_another_price(three):
    X, y = three
    one = SoftmaxRegression(C=0.5, penalty=penalties.L2(2.0), tol=1e-12).fit(X, y)
    other = SoftmaxRegression(C=0.25, tol=1e-12).fit(X, y)
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-6)


def test_a_group_penalty_uses_a_feature_for_all_classes_or_none(three):
    X, y = three
    X = np.hstack([X, np.random.default_rng(0).standard_normal((len(X), 5))])
    clf = SoftmaxRegression(penalty=penalties.Group(6.0), tol=1e-9).fit(X, y)
    used = clf.coef_.astype(bool)
    assert (used.all(axis=0) | ~used.any(axis=0)).all()
    assert 0 < used.any(axis=0).sum() < 10


def test_a_run_that_is_not_convex_starts_at_its_convex_relative():
    """From zero, l0 could not move: zero is stationary."""
    X, y = blobs(80, 4, 3, seed=0)
    clf = SoftmaxRegression(penalty=penalties.L0(0.1), tol=1e-4).fit(X, y)
    assert np.count_nonzero(clf.coef_) > 0
    assert convex_relative(penalties.MCP(0.3)) == penalties.L1(0.3)
    assert convex_relative(penalties.GroupSCAD(0.3)) == penalties.Group(0.3)


@pytest.mark.parametrize("penalty", EVERY_PENALTY, ids=repr)
def test_a_penalty_is_told_by_name_and_numbers(penalty):
    assert read_penalty(described(penalty)) == penalties.checked(penalty)


def test_what_makes_no_sense_is_refused_with_a_way_out(three):
    X, y = three
    refused = [
        ({"l1_ratio": 1.5}, "from 0 to 1"),
        ({"l1_ratio": "half"}, "from 0 to 1"),
        ({"penalty": penalties.L1(1.0), "l1_ratio": 0.5}, "Leave out one"),
        ({"penalty": penalties.L1(1.0), "C": np.inf}, "Give a finite C"),
        ({"penalty": "l3"}, "choose one of elasticnet, l2, l1"),
        ({"penalty": 3}, "softmargin.penalties"),
        ({"penalty": penalties.L1(-1.0)}, "not negative"),
        ({"C": -1.0}, "C must be"),
        ({"C": np.nan}, "C must be"),
        ({"solver": "walrus"}, "solves linear hinge problems, not softmax ridge ones; choose one of auto, lbfgs"),
        ({"solver": "lbfgs", "l1_ratio": 1.0}, "solves softmax ridge problems, not softmax l1 ones"),
        ({"solver": "magic"}, "is unknown; choose one of auto"),
        ({"tol": -1.0}, "tol must be"),
    ]
    for settings, message in refused:
        with pytest.raises(ValueError, match=message):
            SoftmaxRegression(**settings).fit(X, y)
    with pytest.raises(ValueError, match="at least 2 classes"):
        SoftmaxRegression().fit(X, np.zeros(len(y)))
    with pytest.raises(NotFittedError):
        SoftmaxRegression().sparsify()


# --- solvers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "l1_ratio"), [("softmax ridge", 0.0), ("softmax l1", 1.0), ("softmax", 0.5)])
@pytest.mark.parametrize("k", [2, 3])
def test_every_solver_by_name_reaches_the_optimum(kind, l1_ratio, k):
    X, y = blobs(90, 5, k, seed=0, separation=0.7)
    optimum = SoftmaxRegression(C=0.3, l1_ratio=l1_ratio, tol=1e-9).fit(X, y).certificate_
    for solver in choices(kind):
        clf = SoftmaxRegression(C=0.3, l1_ratio=l1_ratio, solver=solver, tol=1e-4, random_state=0).fit(X, y)
        assert clf.status_ == "converged", solver
        assert clf.certificate_.primal == pytest.approx(optimum.primal, rel=1e-4)


@pytest.mark.parametrize("penalty", [penalties.L2(), penalties.L2(0.0), penalties.L1(), penalties.MCP()], ids=repr)
def test_auto_names_a_solver_that_serves_the_problem(penalty):
    wide = sp.random_array((6, 4000), density=0.01, format="csr", rng=0)
    for X in (wide, wide.toarray(), wide.toarray()[:, :50]):
        problem = softmax_problem(X, np.arange(6) % 3, penalty=penalty)
        table = SOLVERS[problem.kind]
        chosen = find_solver("auto", problem)
        kinds = {penalties.L1(): "softmax l1", penalties.MCP(): "softmax"}
        assert problem.kind == kinds.get(penalty, "softmax ridge")
        all_chosen = (chosen.first, chosen.then) if isinstance(chosen, HandOver) else (chosen,)
        assert all(each in [find_solver(name, problem) for name in table] for each in all_chosen)
        assert all(isinstance(problem, needed) for needed in chosen.needs)
        if penalty == penalties.L2(0.0):
            assert chosen != find_solver("dual_descent", problem)  # without a ridge there is no dual of that form


# --- life as an estimator --------------------------------------------------------------------------------------


def test_the_certificate_is_kept_and_honest(three):
    X, y = three
    clf = SoftmaxRegression(tol=1e-3, random_state=0).fit(X, y)
    assert clf.status_ == "converged"
    assert clf.trace_[-1].certificate == clf.certificate_
    assert clf.certificate_.residual <= 1e-3
    optimum = SoftmaxRegression(tol=1e-12).fit(X, y).certificate_.primal
    assert clf.certificate_.bound <= optimum <= clf.certificate_.primal
    assert clf.dual_gap_ == clf.certificate_.primal - clf.certificate_.bound


@pytest.mark.parametrize("settings", [{}, {"l1_ratio": 1.0}, {"C": np.inf}])
def test_warm_start_goes_on_from_the_last_weights(three, settings):
    X, y = three
    clf = SoftmaxRegression(tol=1e-6, warm_start=True, **settings).fit(X, y)
    first, cold = clf.coef_, clf.n_iter_
    assert cold > 0
    assert clf.fit(X, y).n_iter_ == 0
    np.testing.assert_array_equal(clf.coef_, first)
    clf.sparsify().fit(X, y)
    assert clf.n_iter_ == 0
    clf.fit(X[:, :3], y)  # other features: a fresh start
    assert clf.coef_.shape == (3, 3)


def test_a_warm_start_nearby_takes_fewer_passes(three):
    X, y = three
    settings = {"l1_ratio": 1.0, "tol": 1e-8, "solver": "accelerated_gradient"}
    cold = SoftmaxRegression(C=1.05, **settings).fit(X, y)
    warm = SoftmaxRegression(C=1.0, warm_start=True, **settings).fit(X, y).set_params(C=1.05).fit(X, y)
    assert warm.n_iter_ < cold.n_iter_
    np.testing.assert_allclose(warm.predict_proba(X), cold.predict_proba(X), atol=1e-3)


def test_a_budget_gives_a_partial_result_and_says_the_gap(three):
    X, y = three
    with pytest.warns(NotCertifiedWarning, match=r"with duality gap .* \* primal, above tol .*raise max_iter"):
        clf = SoftmaxRegression(tol=0.0, max_iter=1, solver="accelerated_gradient").fit(X, y)
    assert (clf.status_, clf.n_iter_) == ("max_iter", 1)
    with pytest.warns(NotCertifiedWarning, match=r"with stationarity \S+, above tol"):
        SoftmaxRegression(C=np.inf, tol=0.0, max_iter=1).fit(X, y)


def test_sparse_weights_on_request(three):
    X, y = three
    clf = SoftmaxRegression(C=0.1, l1_ratio=1.0).fit(X, y)
    dense, scores = clf.coef_.copy(), clf.decision_function(X)
    assert clf.sparsify() is clf
    assert sp.issparse(clf.coef_)
    assert clf.coef_.nnz == np.count_nonzero(dense) < dense.size
    for rows in (X, X.astype(np.float32), sp.csr_array(X)):
        np.testing.assert_allclose(clf.decision_function(rows), scores, atol=1e-5)
    np.testing.assert_allclose(clf.predict_proba(X), pickle.loads(pickle.dumps(clf)).predict_proba(X))
    np.testing.assert_array_equal(clf.densify().coef_, dense)


def test_it_survives_clone_pickle_pipelines_and_grid_search(three):
    X, y = three
    pipe = make_pipeline(StandardScaler(), SoftmaxRegression())
    search = GridSearchCV(pipe, {"softmaxregression__C": [0.1, 1.0]}, cv=3, scoring="neg_log_loss").fit(X, y)
    assert search.best_score_ > -1.0
    clf = SoftmaxRegression(penalty=penalties.Group(0.5), solver=AcceleratedGradient())
    again = pickle.loads(pickle.dumps(clone(clf).fit(X, y)))
    np.testing.assert_array_equal(again.predict_proba(X), clf.fit(X, y).predict_proba(X))


@pytest.mark.parametrize("k", [2, 3])
def test_the_model_saves_loads_and_has_probabilities(tmp_path, k):
    X, y = blobs(60, 4, k, seed=0)
    clf = SoftmaxRegression(penalty=penalties.GroupMCP(0.2), tol=1e-3).fit(X, np.array(["low", "mid", "top"])[y])
    clf.sparsify().model().save(tmp_path / "m")
    loaded = LinearModel.load(tmp_path / "m")
    np.testing.assert_allclose(loaded.predict_proba(X), clf.predict_proba(X), rtol=1e-12)
    np.testing.assert_allclose(loaded.predict_log_proba(X), clf.predict_log_proba(X), rtol=1e-12)
    assert loaded.info["problem"] == "softmax"
    assert read_penalty(loaded.info["penalty"]) == penalties.GroupMCP(0.2)
    assert loaded.info["certificate"]["kind"] == "stationarity"


def test_one_class_with_all_the_weight_ends_where_no_digit_moves(three):
    X, y = three  # F has no minimum: it falls to 0 as the intercept grows
    with pytest.warns(NotCertifiedWarning, match="No pass changes a digit"):
        clf = SoftmaxRegression(max_iter=1000).fit(X, y, sample_weight=np.where(y == y[0], 1.0, 0.0))
    assert clf.n_iter_ < 100
    assert clf.certificate_.primal < 1e-12
    assert (clf.predict(X) == y[0]).all()


def test_an_svm_has_no_probabilities(three):
    model = LinearSVC().fit(*three).model()
    assert not model.has_probabilities
    with pytest.raises(IncompatibleError, match="train SoftmaxRegression"):
        model.predict_proba(three[0])


def test_verbose_shows_the_gap(three, capsys):
    SoftmaxRegression(verbose=1).fit(*three)
    assert "gap" in capsys.readouterr().err


def test_scikit_learn_callbacks_see_every_pass(three):
    callback = pytest.importorskip("sklearn.callback", reason="this scikit-learn has no callbacks (older than 1.9)")
    X, y = three
    monitor = callback.ScoringMonitor(scoring="neg_log_loss")
    clf = SoftmaxRegression(tol=1e-6, solver="accelerated_gradient").set_callbacks(monitor).fit(X, y)
    scores = [row["neg_log_loss"] for row in monitor.get_logs().data if "neg_log_loss" in row]
    assert len(scores) >= clf.n_iter_ > 1


def test_the_docstring_example_runs():
    import softmargin.estimators.softmax_regression as module

    assert doctest.testmod(module).failed == 0
