"""What LinearSVC promises beyond scikit-learn's checks."""

import doctest
import pickle
import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC as SklearnLinearSVC

from softmargin import DualBlockDescent, KernelSVC, LinearModel, LinearSVC, NotCertifiedWarning, certify, load_model
from softmargin.core.errors import IncompatibleError
from softmargin.data import blobs
from softmargin.solvers.names import choices

ALL = pytest.mark.parametrize(
    ("multiclass", "loss"),
    [
        ("weston_watkins", "hinge"),
        ("crammer_singer", "hinge"),
        ("one_vs_rest", "hinge"),
        ("one_vs_rest", "squared_hinge"),
    ],
)
BOTH = pytest.mark.parametrize("multiclass", ["weston_watkins", "crammer_singer"])


@pytest.fixture(scope="module")
def three():
    return blobs(150, 6, 3, seed=0)


@BOTH
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_weights_are_the_dual_combination_of_support_vectors(three, multiclass, fit_intercept):
    X, y = three
    clf = LinearSVC(multiclass=multiclass, fit_intercept=fit_intercept, random_state=0).fit(X, y)
    assert clf.coef_.shape == (3, 6)
    assert clf.dual_coef_.shape == (3, len(clf.support_))
    np.testing.assert_allclose(clf.coef_, clf.dual_coef_ @ X[clf.support_], atol=1e-12)
    np.testing.assert_allclose(clf.intercept_, clf.dual_coef_.sum(axis=1) if fit_intercept else np.zeros(3), atol=1e-12)
    assert len(clf.support_) < len(y)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_one_vs_rest_with_hinge_is_scikit_learns_model(three, fit_intercept):
    X, y = three
    settings = {"C": 0.3, "loss": "hinge", "fit_intercept": fit_intercept, "intercept_scaling": 2.0}
    ours = LinearSVC(**settings, multiclass="one_vs_rest", tol=1e-9, random_state=0).fit(X, y)
    peer = SklearnLinearSVC(**settings, tol=1e-9, max_iter=10**6).fit(X, y)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=1e-3)
    np.testing.assert_allclose(ours.intercept_, peer.intercept_, atol=1e-3)
    np.testing.assert_allclose(ours.coef_, ours.dual_coef_ @ X[ours.support_], atol=1e-12)
    assert ours.dual_coef_.min() >= -0.3 * (1 + 1e-12)
    assert ours.dual_coef_.max() <= 0.3 * (1 + 1e-12)


def _squared_hinge_objective(X, y, coef, intercept, C):
    signs = 2.0 * np.eye(len(coef))[y] - 1.0 if len(coef) > 1 else 2.0 * y[:, None] - 1.0
    violations = np.maximum(1.0 - signs * (X @ coef.T + intercept), 0.0)
    return (coef**2).sum() / 2 + C * (violations**2).sum()


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("solver", choices("linear squared_hinge"))
def test_squared_hinge_is_scikit_learns_model_with_a_free_intercept(k, solver):
    """A huge intercept_scaling all but frees scikit-learn's intercept: 1/2 (b / 1000)^2 is left of its price."""
    X, y = blobs(120, 4, k, seed=5, separation=0.7)
    X += 1.0
    tol = 1e-6 if "plain" in solver else 1e-8  # it would take thousands of passes
    ours = LinearSVC(C=0.4, multiclass="one_vs_rest", loss="squared_hinge", solver=solver, tol=tol).fit(X, y)
    peer = SklearnLinearSVC(C=0.4, intercept_scaling=1e3, dual=False, tol=1e-10, max_iter=10**5).fit(X, y)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=1e-3)
    np.testing.assert_allclose(ours.intercept_, peer.intercept_, atol=1e-3)
    objective = _squared_hinge_objective(X, y, ours.coef_, ours.intercept_, 0.4)
    assert ours.certificate_.primal == pytest.approx(objective, rel=1e-10)
    assert objective <= _squared_hinge_objective(X, y, peer.coef_, peer.intercept_, 0.4) * (1 + 10 * tol)
    assert ours.certificate_.residual <= tol


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("solver", ["newton", "dual_descent"])
def test_a_penalised_intercept_is_scikit_learns_objective_and_model(k, solver, tmp_path):
    X, y = blobs(120, 4, k, seed=5, separation=0.7)
    X += 1.0
    asked = {"C": 0.4, "intercept_scaling": 2.0}
    own = {"multiclass": "one_vs_rest", "loss": "squared_hinge", "fit_intercept": "penalized", "solver": solver}
    ours = LinearSVC(**asked, **own, tol=1e-8).fit(X, y)
    peer = SklearnLinearSVC(**asked, tol=1e-10, max_iter=10**5, random_state=0).fit(X, y)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=1e-3)
    np.testing.assert_allclose(ours.intercept_, peer.intercept_, atol=1e-3)
    objectives = [
        _squared_hinge_objective(X, y, model.coef_, model.intercept_, 0.4) + ((model.intercept_ / 2.0) ** 2).sum() / 2
        for model in (ours, peer)
    ]
    assert ours.certificate_.primal == pytest.approx(objectives[0], rel=1e-10)
    assert certify(peer, X, y).primal == pytest.approx(objectives[1], rel=1e-10)
    assert ours.certificate_.bound <= objectives[1]
    assert objectives[0] <= objectives[1] * (1 + 1e-7)
    ours.model().save(tmp_path / "model")
    saved = load_model(tmp_path / "model")
    assert saved.info["fit_intercept"] == "penalized"
    assert certify(saved, X, y).primal == pytest.approx(objectives[0], rel=1e-10)


def test_kernel_models_have_no_penalised_intercept_of_the_squared_hinge(three):
    clf = KernelSVC(multiclass="one_vs_rest", loss="squared_hinge", fit_intercept="penalized")
    with pytest.raises(IncompatibleError, match="is for linear models"):
        clf.fit(*three)


@pytest.mark.parametrize("tol", [1e-2, 1e-5, 1e-9])
def test_newtons_weights_are_near_the_dual_combination(three, tol):
    """|w - w*|^2 and |w(a) - w*|^2 are at most twice their shares of the gap, so the two are within 2 sqrt(gap)."""
    X, y = three
    clf = LinearSVC(multiclass="one_vs_rest", loss="squared_hinge", tol=tol, solver="newton").fit(X, y)
    distance = np.linalg.norm(clf.coef_ - clf.dual_coef_ @ X[clf.support_])
    assert distance <= 2 * np.sqrt(max(clf.dual_gap_, 0.0)) + 1e-6  # rounding of P - D
    exact = LinearSVC(multiclass="one_vs_rest", loss="squared_hinge", tol=tol, solver="smo").fit(X, y)
    np.testing.assert_allclose(exact.coef_, exact.dual_coef_ @ X[exact.support_], atol=1e-12)


def test_two_classes_need_no_one_vs_rest_for_the_squared_hinge():
    X, y = blobs(80, 3, 2, seed=3, separation=0.5)
    models = [
        LinearSVC(multiclass=name, loss="squared_hinge", tol=1e-9).fit(X, y)
        for name in ("weston_watkins", "crammer_singer", "one_vs_rest")
    ]
    assert models[0].coef_.shape == (1, 3)
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    np.testing.assert_array_equal(models[0].coef_, models[2].coef_)
    assert models[0].model().info["multiclass"] == "one_vs_rest"


@ALL
def test_sample_weights_are_repetitions(three, multiclass, loss):
    X, y = three
    weights = np.arange(len(y)) % 3
    settings = {"multiclass": multiclass, "loss": loss, "tol": 1e-9, "random_state": 0}
    weighted = LinearSVC(**settings).fit(X, y, sample_weight=weights)
    repeated = LinearSVC(**settings).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    assert weighted.certificate_.primal == pytest.approx(repeated.certificate_.primal, rel=1e-8)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-3)


@BOTH
def test_two_classes_have_scikit_learns_shapes_and_the_binary_optimum(multiclass):
    X, y = blobs(120, 4, 2, seed=1, separation=0.5)
    ours = LinearSVC(C=0.1, multiclass=multiclass, tol=1e-9, fit_intercept=False).fit(X, y)
    peer = SklearnLinearSVC(C=0.2, loss="hinge", fit_intercept=False, tol=1e-10, max_iter=10**6).fit(X, y)
    assert ours.coef_.shape == (1, 4)
    assert ours.intercept_.shape == (1,)
    assert ours.dual_coef_.shape == (1, len(ours.support_))
    assert ours.decision_function(X).shape == (len(y),)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=1e-3)
    np.testing.assert_allclose(ours.coef_, ours.dual_coef_ @ X[ours.support_], atol=1e-12)


def test_crammer_singer_with_intercept_is_scikit_learns_model(three):
    X, y = three
    ours = LinearSVC(C=0.3, multiclass="crammer_singer", tol=1e-9, intercept_scaling=2.0).fit(X, y)
    peer = SklearnLinearSVC(C=0.3, multi_class="crammer_singer", tol=1e-9, intercept_scaling=2.0, max_iter=10**6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # garbage n_iter_ makes it warn at random (scikit-learn issue 34029)
        peer.fit(X, y)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.intercept_, peer.intercept_, atol=1e-4)


def test_a_budget_gives_a_partial_result_and_says_the_gap(three):
    X, y = three
    with pytest.warns(
        NotCertifiedWarning, match=r"stopped after 1 pass with duality gap .* above tol .*raise max_iter"
    ):
        clf = LinearSVC(tol=1e-12, max_iter=1).fit(X, y)
    assert clf.status_ == "max_iter"
    assert clf.n_iter_ == 1
    assert clf.certificate_.residual > 1e-12
    assert clf.dual_gap_ == pytest.approx(clf.certificate_.primal - clf.certificate_.bound)
    assert clf.predict(X).shape == y.shape
    with pytest.warns(NotCertifiedWarning, match="raise max_seconds"):
        assert LinearSVC(tol=1e-12, max_seconds=0.0).fit(X, y).status_ == "max_seconds"


def test_the_trace_ends_with_the_certificate(three):
    clf = LinearSVC(random_state=0).fit(*three)
    assert clf.trace_[-1].certificate == clf.certificate_
    assert clf.status_ == "converged"
    assert clf.certificate_.residual <= clf.tol
    columns = clf.trace_.columns()
    assert len(columns["seconds"]) == len(clf.trace_)


@ALL
def test_warm_start_goes_on_from_the_last_dual(three, multiclass, loss):
    X, y = three
    settings = {"multiclass": multiclass, "loss": loss, "tol": 1e-6, "random_state": 0}
    clf = LinearSVC(**settings, warm_start=True).fit(X, y)
    first = clf.coef_
    clf.fit(X, y)
    assert clf.n_iter_ == 0
    np.testing.assert_allclose(clf.coef_, first, atol=1e-12 if loss == "hinge" else 1e-3)
    clf.set_params(C=0.5).fit(X, y)  # another C: the old point is made feasible
    np.testing.assert_allclose(clf.coef_, LinearSVC(**settings, C=0.5).fit(X, y).coef_, atol=1e-2)
    clf.fit(X[:100], y[:100])  # other samples: a fresh start
    assert clf.status_ == "converged"


def test_warm_start_serves_two_classes_too():
    X, y = blobs(80, 3, 2, seed=3, separation=0.5)
    clf = LinearSVC(tol=1e-6, warm_start=True).fit(X, y)
    assert clf.fit(X, y).n_iter_ == 0


@ALL
def test_class_weight_equals_sample_weight(three, multiclass, loss):
    X, y = three
    settings = {"multiclass": multiclass, "loss": loss, "tol": 1e-9, "random_state": 0}
    labels = np.array(["a", "b", "c"])[y]
    by_class = LinearSVC(**settings, class_weight={"a": 3.0, "c": 0.5}).fit(X, labels)
    by_sample = LinearSVC(**settings).fit(X, labels, sample_weight=np.array([3.0, 1.0, 0.5])[y])
    np.testing.assert_array_equal(by_class.coef_, by_sample.coef_)
    balanced = LinearSVC(**settings, class_weight="balanced").fit(X, labels)
    counts = np.bincount(y)
    explicit = LinearSVC(**settings).fit(X, labels, sample_weight=(len(y) / (3 * counts))[y])
    np.testing.assert_allclose(balanced.coef_, explicit.coef_, atol=1e-6)


@ALL
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_and_dense_and_float32_agree(three, index, dtype, multiclass, loss):
    X, y = three
    X = X.astype(dtype)
    sparse = sp.csr_array(X)
    sparse.indices, sparse.indptr = sparse.indices.astype(index), sparse.indptr.astype(index)
    settings = {"multiclass": multiclass, "loss": loss, "tol": 1e-8, "random_state": 0}
    dense = LinearSVC(**settings).fit(X, y)
    other = LinearSVC(**settings).fit(sparse, y)
    np.testing.assert_allclose(dense.coef_, other.coef_, atol=1e-3)
    np.testing.assert_allclose(dense.certificate_.primal, other.certificate_.primal, rtol=1e-7)


def _peak_of_fit(clf, X, y):
    clf.fit(X[:50], y[:50])  # compile first
    tracemalloc.start()
    clf.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_data_are_not_copied():
    X, y = blobs(20_000, 200, 3, seed=0, dtype=np.float32)
    peak = _peak_of_fit(LinearSVC(random_state=0, C=1e-4), X, y)
    assert peak < 0.9 * X.nbytes  # the fit allocates, but never a second X


def test_float32_data_are_never_widened_as_a_whole():
    X, y = blobs(50_000, 200, 3, seed=0, dtype=np.float32)
    peak = _peak_of_fit(LinearSVC(C=1e-4, multiclass="one_vs_rest", loss="squared_hinge"), X, y)
    assert peak < 0.7 * 2 * X.nbytes  # blocks of X in float64, and a few vectors of n numbers


def test_read_only_memory_maps_are_welcome(tmp_path, three):
    X, y = three
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    np.testing.assert_array_equal(
        LinearSVC(random_state=0).fit(mapped, y).coef_, LinearSVC(random_state=0).fit(X, y).coef_
    )


def test_unsorted_and_duplicate_indices_are_put_in_order(three):
    X, y = blobs(40, 5, 3, seed=2)
    messy = sp.csr_array(
        (
            np.column_stack([X[:, ::-1], X[:, :1] * 0 + 1.0]).ravel(),
            np.tile([4, 3, 2, 1, 0, 0], 40),
            np.arange(0, 241, 6),
        ),
        shape=X.shape,
    )
    tidy = X.copy()
    tidy[:, 0] += 1.0
    np.testing.assert_allclose(
        LinearSVC(tol=1e-9, random_state=0).fit(messy, y).coef_,
        LinearSVC(tol=1e-9, random_state=0).fit(tidy, y).coef_,
        atol=1e-4,
    )


def test_it_survives_clone_pickle_pipelines_and_grid_search(three):
    X, y = three
    pipe = make_pipeline(StandardScaler(), LinearSVC(random_state=0))
    search = GridSearchCV(pipe, {"linearsvc__C": [0.1, 1.0]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.8
    clf = LinearSVC(solver=DualBlockDescent(working_set=False), random_state=0)
    again = pickle.loads(pickle.dumps(clone(clf).fit(X, y)))
    np.testing.assert_array_equal(again.predict(X), clf.fit(X, y).predict(X))


def test_the_model_saves_loads_and_predicts_alike(tmp_path, three):
    X, y = three
    clf = LinearSVC(random_state=0).fit(X, np.array(["low", "mid", "high"])[y])
    clf.model().save(tmp_path / "three.model")
    loaded = LinearModel.load(tmp_path / "three.model")
    np.testing.assert_array_equal(loaded.predict(X), clf.predict(X))
    assert loaded.info["certificate"]["residual"] == clf.certificate_.residual


@pytest.mark.parametrize(
    ("solver", "multiclass"),
    [
        (solver, multiclass)
        for solver in choices("linear hinge")
        for multiclass in ("weston_watkins", "one_vs_rest")
        if solver != "augmented_lagrangian" or multiclass == "one_vs_rest"
    ],
)
def test_every_solver_by_name_reaches_the_same_optimum(three, solver, multiclass):
    X, y = three
    clf = LinearSVC(C=0.1, multiclass=multiclass, solver=solver, tol=1e-4).fit(X, y)
    optimum = LinearSVC(C=0.1, multiclass=multiclass, tol=1e-7).fit(X, y).certificate_
    assert clf.certificate_.primal == pytest.approx(optimum.primal, rel=1e-4)


def test_verbose_shows_the_gap(three, capsys):
    LinearSVC(verbose=1, random_state=0).fit(*three)
    shown = capsys.readouterr().err
    assert "gap" in shown
    assert "tol 1.0e-03" in shown


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"C": 0.0}, "C must be a finite number > 0"),
        ({"C": np.nan}, "C must be a finite number > 0"),
        ({"multiclass": "one_vs_all"}, "multiclass='one_vs_all' is unknown"),
        ({"loss": "squared_hinge"}, "use multiclass='one_vs_rest' or 'one_vs_one', or loss='hinge'"),
        ({"loss": "log_loss"}, "loss='log_loss' is unknown; choose one of hinge, squared_hinge"),
        ({"solver": "simplex"}, "solver='simplex' is unknown"),
        (
            {"solver": "newton"},
            "solves linear squared_hinge problems, not linear hinge ones; choose one of auto",
        ),
        (
            {"solver": "walrus", "loss": "squared_hinge", "multiclass": "one_vs_rest"},
            "solves linear hinge problems, not linear squared_hinge ones; choose one of auto, newton, dual_descent",
        ),
        (
            {"solver": DualBlockDescent(), "loss": "squared_hinge", "multiclass": "one_vs_rest"},
            "DualBlockDescent needs a BlockDualProblem.*Choose one of auto, newton",
        ),
        ({"tol": -1.0}, "tol must be a number >= 0"),
        ({"max_iter": -2}, "max_iter must be an integer >= -1"),
        ({"intercept_scaling": 0.0}, "intercept_scaling must be a number > 0"),
        ({"class_weight": "uneven"}, "class_weight='uneven' is unknown"),
        ({"class_weight": {9: 1.0}}, r"class_weight names \[9\]"),
        ({"solver": DualBlockDescent(block="projection")}, "block='projection' does not solve weston_watkins"),
    ],
)
def test_bad_settings_say_what_to_do(three, settings, message):
    with pytest.raises(ValueError, match=message):
        LinearSVC(**settings).fit(*three)


def test_bad_data_say_what_to_do(three):
    X, y = three
    with pytest.raises(ValueError, match="at least 2 classes"):
        LinearSVC().fit(X, np.zeros(len(y)))
    with pytest.raises(ValueError, match="NaN"):
        LinearSVC().fit(np.where(X[0, 0] == X, np.nan, X), y)
    with pytest.raises(ValueError, match="at least one non-zero"):
        LinearSVC().fit(X, y, sample_weight=np.zeros(len(y)))
    with pytest.raises(ValueError, match="not negative"):
        LinearSVC().fit(X, y, sample_weight=-np.ones(len(y)))
    with pytest.raises(ValueError, match="minimum of 1"):
        LinearSVC().fit(np.empty((0, 3)), np.empty(0))


def test_scikit_learn_callbacks_see_every_pass(three):
    callback = pytest.importorskip("sklearn.callback", reason="this scikit-learn has no callbacks (older than 1.9)")
    X, y = three
    monitor = callback.ScoringMonitor(scoring="accuracy")
    clf = LinearSVC(tol=1e-6, random_state=0).set_callbacks(monitor).fit(X, y)
    scores = [row["accuracy"] for row in monitor.get_logs().data if "accuracy" in row]
    assert len(scores) >= clf.n_iter_
    assert scores[-1] == clf.score(X, y)
    plain = LinearSVC(tol=1e-6, random_state=0).fit(X, y)
    np.testing.assert_array_equal(clf.coef_, plain.coef_)
    LinearSVC(random_state=0).set_callbacks(callback.ProgressBar()).fit(X, y)


def test_a_callback_may_stop_the_fit(three):
    pytest.importorskip("sklearn.callback", reason="this scikit-learn has no callbacks (older than 1.9)")

    class AfterTwo:
        def setup(self, estimator, context): ...

        def teardown(self, estimator, context): ...

        def on_fit_task_begin(self, estimator, context): ...

        def on_fit_task_end(self, estimator, context):
            return context.task_name == "pass" and context.task_id >= 1

    with pytest.warns(NotCertifiedWarning, match="asked to stop"):
        clf = LinearSVC(tol=1e-12, random_state=0).set_callbacks(AfterTwo()).fit(*three)
    assert clf.status_ == "stopped"
    assert clf.n_iter_ == 2


def test_the_docstring_example_runs():
    import softmargin.estimators.linear_svc as module

    assert doctest.testmod(module).failed == 0
