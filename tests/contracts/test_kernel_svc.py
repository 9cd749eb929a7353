"""What KernelSVC promises beyond scikit-learn's checks."""

import doctest
import pickle
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC
from sklearn.svm import LinearSVC as SklearnLinearSVC

from softmargin import (
    DualBlockDescent,
    IndefiniteKernelWarning,
    KernelBlockDescent,
    KernelExpansion,
    KernelSVC,
    NotCertifiedWarning,
    Smo,
)
from softmargin.data import blobs
from softmargin.solvers.names import choices

MODES = [
    ("weston_watkins", "hinge"),
    ("crammer_singer", "hinge"),
    ("one_vs_rest", "hinge"),
    ("one_vs_rest", "squared_hinge"),
]
every_mode = pytest.mark.parametrize(("multiclass", "loss"), MODES)
GAMMA = 0.3


def our_rbf(A, B):
    """Take blocks of rows as a user's kernel would."""
    return rbf_kernel(A, B, gamma=GAMMA)


@pytest.fixture(scope="module")
def three():
    return blobs(90, 4, 3, seed=0)


@pytest.fixture(scope="module")
def two():
    return blobs(80, 3, 2, seed=1, separation=0.5)


def make(multiclass="weston_watkins", loss="hinge", **settings):
    return KernelSVC(
        **{"multiclass": multiclass, "loss": loss, "gamma": GAMMA, "tol": 1e-8, "random_state": 0, **settings}
    )


def assert_same_model(ours, other, X, X_other=None, atol=2e-3):
    """Compare to what a gap of 1e-8 pins down: scores to about its root, objectives to 1e-7."""
    scores = other.decision_function(X if X_other is None else X_other)
    np.testing.assert_allclose(ours.decision_function(X), scores, atol=atol)
    assert ours.certificate_.primal == pytest.approx(other.certificate_.primal, rel=1e-7)


# --- the fitted attributes -----------------------------------------------------------------------------------


@every_mode
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_scores_are_the_dual_combination_of_support_vectors(three, multiclass, loss, fit_intercept):
    X, y = three
    clf = make(multiclass, loss, fit_intercept=fit_intercept, intercept_scaling=2.0, tol=1e-3).fit(X[:60], y[:60])
    assert clf.dual_coef_.shape == (3, len(clf.support_))
    np.testing.assert_array_equal(clf.support_vectors_, X[clf.support_])
    np.testing.assert_array_equal(clf.n_support_, np.bincount(y[clf.support_], minlength=3))
    by_hand = our_rbf(X[60:], clf.support_vectors_) @ clf.dual_coef_.T + clf.intercept_
    np.testing.assert_allclose(clf.decision_function(X[60:]), by_hand, atol=1e-10)
    np.testing.assert_array_equal(clf.predict(X[60:]), by_hand.argmax(axis=1))
    if not fit_intercept:
        assert not clf.intercept_.any()
    elif loss == "hinge":  # the weight of the constant feature 2: b = 4 sum alpha
        np.testing.assert_allclose(clf.intercept_, 4.0 * clf.dual_coef_.sum(axis=1), atol=1e-10)
    else:  # a free bias leaves the duals balanced
        np.testing.assert_allclose(clf.dual_coef_.sum(axis=1), 0.0, atol=1e-9)


@every_mode
def test_the_certificate_meets_the_tolerance_and_is_that_of_the_model(three, multiclass, loss):
    X, y = three
    clf = make(multiclass, loss, C=0.7, tol=1e-5).fit(X, y)
    assert clf.status_ == "converged"
    assert clf.certificate_.residual <= 1e-5
    assert clf.trace_[-1].certificate == clf.certificate_
    scores, K = clf.decision_function(X), our_rbf(X, X)
    dual = np.zeros((len(y), 3))
    dual[clf.support_] = clf.dual_coef_.T
    norm = np.einsum("ij,ij", dual, K @ dual) / 2
    if loss == "hinge":  # the constant feature is penalised too: (sum of duals)^2 a class
        norm += (dual.sum(axis=0) ** 2).sum() / 2
    own = np.eye(3)[y]
    if multiclass == "one_vs_rest":
        violations = np.maximum(1.0 - (2 * own - 1) * scores, 0.0)
        charge = (violations**2 if loss == "squared_hinge" else violations).sum()
    else:
        violations = np.maximum(1.0 + scores - (scores * own).sum(axis=1, keepdims=True), 0.0) * (1 - own)
        charge = (violations.sum(axis=1) if multiclass == "weston_watkins" else violations.max(axis=1)).sum()
    assert clf.certificate_.primal == pytest.approx(norm + 0.7 * charge, rel=1e-9)


def test_gamma_is_scikit_learns(three):
    X, y = three
    assert make(gamma="scale").fit(X, y).gamma_ == pytest.approx(SVC(gamma="scale").fit(X, y)._gamma, rel=1e-12)
    assert make(gamma="auto").fit(sp.csr_array(X), y).gamma_ == 0.25
    assert make(kernel="linear", gamma="auto", tol=1e-3).fit(X, y).gamma_ is None


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_gamma_of_weighted_samples_is_that_of_repeated_ones(three, layout):
    X, y = three
    X, weights = np.where(X > 1.0, X, 0.0), np.arange(len(y)) % 3
    weighted = make(gamma="scale", tol=1e-2).fit(layout(X), y, sample_weight=weights)
    repeated = make(gamma="scale", tol=1e-2).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    assert weighted.gamma_ == pytest.approx(repeated.gamma_, rel=1e-12)
    assert weighted.gamma_ != pytest.approx(make(gamma="scale", tol=1e-2).fit(X, y).gamma_, rel=1e-3)


@pytest.mark.parametrize(("loss", "solver"), [("hinge", "auto"), ("squared_hinge", "newton"), ("squared_hinge", "smo")])
def test_the_linear_kernel_has_weights(two, loss, solver):
    X, y = two
    for data in (X, sp.csr_array(X)):
        clf = make(loss=loss, kernel="linear", solver=solver).fit(data, y)
        assert clf.coef_.shape == (1, 3)
        np.testing.assert_allclose(X @ clf.coef_[0] + clf.intercept_, clf.decision_function(data), atol=1e-10)
    assert not hasattr(make().fit(X, y), "coef_")


# --- the same problem told in other ways ---------------------------------------------------------------------


@every_mode
def test_sparse_callable_and_precomputed_are_the_rbf_kernel(three, multiclass, loss):
    X, y = three
    ours, K = make(multiclass, loss).fit(X, y), our_rbf(X, X)
    assert_same_model(ours, make(multiclass, loss).fit(sp.csr_array(X), y), X, sp.csr_array(X))
    assert_same_model(ours, make(multiclass, loss, kernel=our_rbf).fit(X, y), X)
    given = make(multiclass, loss, kernel="precomputed").fit(K, y)
    assert given.support_vectors_.shape == (0, 0)
    assert given.gamma_ is None
    assert_same_model(ours, given, X, K)
    few = K[:7]
    assert given.predict(few).shape == (7,)


@every_mode
def test_float32_is_used_as_it_is_and_agrees(three, multiclass, loss):
    X, y = three
    ours = make(multiclass, loss, tol=1e-6).fit(X.astype(np.float32), y)
    assert ours.support_vectors_.dtype == np.float32
    wide = make(multiclass, loss, tol=1e-6).fit(X, y)
    assert ours.certificate_.primal == pytest.approx(wide.certificate_.primal, rel=1e-5)


@every_mode
def test_sample_weights_are_repetitions(three, multiclass, loss):
    X, y = three
    weights = np.arange(len(y)) % 3
    weighted = make(multiclass, loss).fit(X, y, sample_weight=weights)
    repeated = make(multiclass, loss).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    assert_same_model(weighted, repeated, X)
    assert not np.isin(np.flatnonzero(weights == 0), weighted.support_).any()


@every_mode
def test_class_weights_are_sample_weights_of_text_labels(three, multiclass, loss):
    X, y = three
    labels = np.array(["a", "b", "c"])[y]
    by_class = make(multiclass, loss, class_weight={"a": 3.0, "c": 0.5}).fit(X, labels)
    by_sample = make(multiclass, loss).fit(X, labels, sample_weight=np.array([3.0, 1.0, 0.5])[y])
    np.testing.assert_array_equal(by_class.dual_coef_, by_sample.dual_coef_)
    assert set(by_class.predict(X)) <= {"a", "b", "c"}
    balanced = make(multiclass, loss, class_weight="balanced").fit(X, labels)
    explicit = make(multiclass, loss).fit(X, labels, sample_weight=(len(y) / (3 * np.bincount(y)))[y])
    assert_same_model(balanced, explicit, X)


@pytest.mark.parametrize("multiclass", ["weston_watkins", "crammer_singer", "one_vs_rest"])
def test_two_classes_are_the_binary_svm_of_scikit_learn(two, multiclass):
    """Mirrored samples (-phi, -y) at half the price leave the bias of SVC at 0; a joint C is half a binary one."""
    X, y = two
    K = our_rbf(X, X)
    mirrored = SVC(kernel="precomputed", C=0.35, tol=1e-10).fit(np.block([[K, -K], [-K, K]]), np.append(y, 1 - y))
    assert mirrored.intercept_ == pytest.approx(0.0, abs=1e-6)
    C = 0.7 if multiclass == "one_vs_rest" else 0.35
    clf = make(multiclass, C=C, fit_intercept=False, tol=1e-10).fit(X, y)
    assert clf.dual_coef_.shape == (1, len(clf.support_))
    assert clf.intercept_.shape == (1,)
    theirs = mirrored.decision_function(np.hstack([K, -K]))
    np.testing.assert_allclose(clf.decision_function(X), theirs, atol=1e-4)
    np.testing.assert_array_equal(clf.predict(X), (theirs > 0).astype(int))


def test_hinge_with_a_linear_kernel_is_scikit_learns_linear_svc(three):
    X, y = three
    ours = make("one_vs_rest", kernel="linear", C=0.3, intercept_scaling=2.0, tol=1e-9).fit(X, y)
    theirs = SklearnLinearSVC(loss="hinge", C=0.3, intercept_scaling=2.0, tol=1e-9, max_iter=10**6).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-3)


@pytest.mark.parametrize("multiclass", ["weston_watkins", "one_vs_rest"])
def test_squared_hinge_is_a_hard_margin_on_a_heavier_diagonal(two, multiclass):
    """C sum xi^2 is the hard-margin SVM on K + I / (2 C) (maths: squared hinge, eq. 4)."""
    X, y = two
    K = our_rbf(X, X)
    hard = SVC(kernel="precomputed", C=1e10, tol=1e-8).fit(K + np.eye(len(y)) / 1.4, y)
    clf = make(multiclass, "squared_hinge", C=0.7, tol=1e-10).fit(X, y)
    theirs = K[:, hard.support_] @ hard.dual_coef_[0] + hard.intercept_[0]
    np.testing.assert_allclose(clf.decision_function(X), theirs, atol=1e-4)
    assert clf.intercept_[0] == pytest.approx(hard.intercept_[0], abs=1e-4)


# --- running -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("multiclass", "solver"),
    [
        (multiclass, solver)
        for multiclass in ("weston_watkins", "crammer_singer", "one_vs_rest")
        for solver in choices("kernel hinge")
        if solver != "pair_descent" or multiclass == "one_vs_rest"
    ],
)
def test_every_hinge_solver_by_name_meets_the_tolerance(three, multiclass, solver):
    X, y = three
    clf = make(multiclass, C=0.1, solver=solver, tol=1e-2).fit(X, y)
    optimum = make(multiclass, C=0.1, tol=1e-7).fit(X, y).certificate_
    assert clf.certificate_.residual <= 1e-2
    assert optimum.bound <= clf.certificate_.primal <= optimum.primal * 1.0102
    assert clf.certificate_.bound <= optimum.primal


@pytest.mark.parametrize(
    ("kernel", "solver"),
    [("linear", name) for name in choices("linear squared_hinge")]
    + [("rbf", name) for name in choices("kernel squared_hinge")],
)
def test_every_squared_hinge_solver_by_name_meets_the_tolerance(three, kernel, solver):
    X, y = three
    clf = make("one_vs_rest", "squared_hinge", kernel=kernel, C=0.1, solver=solver, tol=1e-5).fit(X, y)
    assert clf.certificate_.residual <= 1e-5
    exact = make("one_vs_rest", "squared_hinge", kernel=kernel, C=0.1, solver="smo").fit(X, y)
    assert clf.certificate_.primal == pytest.approx(exact.certificate_.primal, rel=1e-5)


@every_mode
def test_warm_start_goes_on_from_the_last_dual(three, multiclass, loss):
    X, y = three
    clf = make(multiclass, loss, tol=1e-6, warm_start=True).fit(X, y)
    first = clf.decision_function(X)
    assert clf.fit(X, y).n_iter_ == 0
    np.testing.assert_allclose(clf.decision_function(X), first, atol=1e-9)
    clf.set_params(C=0.5).fit(X, y)  # another C: the old point is made feasible
    fresh = make(multiclass, loss, tol=1e-6, C=0.5).fit(X, y)
    assert clf.certificate_.primal == pytest.approx(fresh.certificate_.primal, rel=1e-5)
    assert clf.fit(X[:60], y[:60]).status_ == "converged"  # other samples: a fresh start


@every_mode
def test_a_budget_gives_a_partial_result_and_says_the_gap(three, multiclass, loss):
    X, y = three
    with pytest.warns(NotCertifiedWarning, match=r"duality gap .* above tol .*raise max_iter"):
        clf = make(multiclass, loss, tol=0.0, max_iter=1).fit(X, y)
    assert clf.n_iter_ == 1
    assert clf.dual_gap_ == pytest.approx(clf.certificate_.primal - clf.certificate_.bound)
    with pytest.warns(NotCertifiedWarning, match="raise max_seconds"):
        assert make(multiclass, loss, max_seconds=0.0).fit(X, y).status_ == "max_seconds"


@every_mode
def test_scikit_learn_callbacks_see_every_pass(three, multiclass, loss):
    callback = pytest.importorskip("sklearn.callback", reason="this scikit-learn has no callbacks (older than 1.9)")
    X, y = three
    monitor = callback.ScoringMonitor(scoring="accuracy")
    clf = make(multiclass, loss).set_callbacks(monitor).fit(X, y)
    scores = [row["accuracy"] for row in monitor.get_logs().data if "accuracy" in row]
    assert len(scores) >= clf.n_iter_
    assert scores[-1] == clf.score(X, y)


def test_verbose_shows_the_gap(three, capsys):
    make(verbose=1, tol=1e-3).fit(*three)
    assert "tol 1.0e-03" in capsys.readouterr().err


def test_data_are_not_copied():
    X, y = blobs(6000, 1000, 3, seed=0, dtype=np.float32)
    few = (np.arange(len(y)) < 200).astype(float)  # the others cost nothing, so they are no support vectors
    clf = make(gamma="scale", cache_size=1.0, tol=1e-2)
    clf.fit(X[:50], y[:50])  # compile first
    tracemalloc.start()
    clf.fit(X, y, sample_weight=few)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(clf.support_) <= 200
    assert peak < 0.9 * X.nbytes  # the fit allocates, but never a second X


# --- the estimator as an object ------------------------------------------------------------------------------


def test_it_survives_clone_pickle_and_grid_search(three):
    X, y = three
    search = GridSearchCV(make(tol=1e-3), {"C": [0.1, 1.0], "kernel": ["rbf", "linear"]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.6
    clf = make(solver=KernelBlockDescent(working_set=False), kernel=our_rbf)
    again = pickle.loads(pickle.dumps(clone(clf).fit(X, y)))
    np.testing.assert_array_equal(again.predict(X), clf.fit(X, y).predict(X))
    assert clone(clf).get_params()["solver"] == clf.solver


def test_a_precomputed_kernel_is_cut_on_both_sides(three):
    X, y = three
    assert make(kernel="precomputed").__sklearn_tags__().input_tags.pairwise
    assert not make().__sklearn_tags__().input_tags.pairwise
    search = GridSearchCV(make(kernel="precomputed", tol=1e-3), {"C": [0.1, 1.0]}, cv=3).fit(our_rbf(X, X), y)
    plain = GridSearchCV(make(tol=1e-3), {"C": [0.1, 1.0]}, cv=3).fit(X, y)
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"], atol=2 / len(y)
    )


@every_mode
def test_the_model_saves_loads_and_predicts_alike(tmp_path, three, multiclass, loss):
    X, y = three
    clf = make(multiclass, loss, C=0.5, tol=1e-3).fit(X, np.array(["low", "mid", "high"])[y])
    clf.model().save(tmp_path / "three.model")
    loaded = KernelExpansion.load(tmp_path / "three.model")
    np.testing.assert_array_equal(loaded.predict(X), clf.predict(X))
    np.testing.assert_array_equal(loaded.decision_function(X), clf.decision_function(X))
    told = {"multiclass": multiclass, "loss": loss, "C": 0.5, "kernel": "rbf", "gamma": GAMMA, "tol": 1e-3}
    assert {name: loaded.info[name] for name in told} == told
    assert loaded.info["certificate"] == clf.certificate_._asdict()
    assert loaded.info["status"] == "converged"


# --- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"C": 0.0}, "C must be a finite number > 0"),
        ({"loss": "logistic"}, "loss='logistic' is unknown; choose one of hinge, squared_hinge"),
        ({"multiclass": "one_vs_all"}, "multiclass='one_vs_all' is unknown; choose one of weston_watkins"),
        ({"loss": "squared_hinge"}, "use multiclass='one_vs_rest' or 'one_vs_one', or loss='hinge'"),
        ({"loss": "squared_hinge", "multiclass": "crammer_singer"}, "use multiclass='one_vs_rest'"),
        ({"kernel": "cosine"}, "kernel='cosine' is unknown"),
        ({"kernel": "precomputed"}, r"found shape \(90, 4\)"),
        ({"gamma": -1.0}, "gamma must be"),
        ({"degree": 0, "kernel": "poly"}, "degree must be an integer >= 1"),
        ({"cache_size": 0.0}, "cache_size must be"),
        ({"intercept_scaling": -1.0}, "intercept_scaling must be a number > 0"),
        ({"solver": "simplex"}, "solver='simplex' is unknown; choose one of auto, block_descent"),
        ({"solver": "smo"}, "'smo' solves .* not kernel hinge ones; choose one of auto, block_descent"),
        ({"solver": "walrus"}, "'walrus' solves linear hinge problems, not kernel hinge ones"),
        (
            {"solver": "newton", "loss": "squared_hinge", "multiclass": "one_vs_rest"},
            "'newton' solves linear squared_hinge problems, not kernel squared_hinge ones; choose one of auto, smo",
        ),
        (
            {"solver": "block_descent", "loss": "squared_hinge", "multiclass": "one_vs_rest"},
            "not kernel squared_hinge ones; choose one of auto, smo",
        ),
        ({"solver": DualBlockDescent()}, "DualBlockDescent needs a BlockDualProblem"),
        ({"solver": Smo(), "multiclass": "one_vs_rest"}, "Smo needs a FreeBiasProblem.*Choose one of auto, block_desc"),
    ],
)
def test_bad_settings_say_what_to_do(three, settings, message):
    with pytest.raises(ValueError, match=message):
        make(**settings).fit(*three)


def test_bad_data_say_what_to_do(three):
    X, y = three
    with pytest.raises(ValueError, match="at least 2 classes"):
        make().fit(X, np.zeros(len(y)))
    with pytest.raises(ValueError, match="not symmetric"):
        make(kernel="precomputed").fit(np.triu(our_rbf(X, X)), y)
    with pytest.raises(ValueError, match="features"):
        make(tol=1e-2).fit(X, y).predict(X[:, :2])


@pytest.mark.filterwarnings("ignore::softmargin.NotCertifiedWarning")
@pytest.mark.parametrize(("multiclass", "loss"), [("weston_watkins", "hinge"), ("one_vs_rest", "squared_hinge")])
def test_an_indefinite_kernel_is_told(three, multiclass, loss):
    X, y = three
    K, smallest = our_rbf(X, X), np.linalg.eigvalsh(our_rbf(X, X))[0]
    clf = make(multiclass, loss, kernel="precomputed", tol=1e-2, max_iter=50)
    with pytest.warns(IndefiniteKernelWarning, match="not positive semi-definite.*no proof.*diagonal"):
        clf.fit(K - (smallest + 0.1) * np.eye(len(y)), y)
    clf.fit(K, y)  # no warning


def test_the_docstring_example_runs():
    import softmargin.estimators.kernel_svc as module

    assert doctest.testmod(module).failed == 0


def test_float32_that_cannot_reach_the_tolerance_says_so():
    """The solver works on float32 kernel values, the certificate on exact ones: they part near 1e-7."""
    X, y = blobs(200, 6, 3, seed=0)
    with pytest.warns(NotCertifiedWarning, match="use float64"):
        model = KernelSVC(tol=1e-9, gamma=0.3).fit(X.astype(np.float32), y)
    assert model.status_ == "limited by rounding"
    assert model.n_iter_ < 1000
    assert model.certificate_.residual < 1e-4


def test_partial_fit_says_what_it_needs():
    clf = KernelSVC()
    assert not hasattr(clf, "partial_fit")
    with pytest.raises(AttributeError, match=r"KernelSVC has no partial_fit with these settings.*one_vs_rest"):
        clf.partial_fit([[0.0], [1.0]], [0, 1], classes=[0, 1])
    assert "one chunk of a stream" in KernelSVC.partial_fit.__doc__


@pytest.mark.parametrize("solver", ["block_descent", "projected_gradient", "splitting"])
def test_kernel_values_beyond_float32_are_refused(solver):
    X, y = blobs(30, 3, 3, seed=0)
    clf = KernelSVC(kernel="poly", gamma=1e5, degree=7, solver=solver)
    with pytest.raises(ValueError, match="the kernel gives NaN or infinite values"):
        clf.fit(X.astype(np.float32), y)
