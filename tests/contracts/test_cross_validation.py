"""Cross-validation by one mechanism: its scores and its choice are those of brute force, fold by fold."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, StratifiedKFold

import softmargin as sm
from softmargin.core.threads import threads
from softmargin.data import blobs
from softmargin.estimators.frame import cross_validation
from softmargin.estimators.frame.race import Race, best_possible
from softmargin.estimators.frame.waves import n_parts, waves_of

WHOLE = {"early_end": False, "coarse_tol": 0.0}
CV = StratifiedKFold(4, shuffle=True, random_state=0)


@pytest.fixture(scope="module")
def three():
    return blobs(72, 4, 3, seed=3, separation=0.5)


def asked(name, y):
    """Return an estimator, its twin with cross-validation, the grid of both, and targets."""
    Cs, radii, widths = [0.02, 0.2, 2.0], [0.1, 1.0, 5.0], [0.1, 1.0]
    numbers = np.sin(np.arange(len(y))) + y
    ball, squared = {"l2": 0.1}, {"multiclass": "one_vs_rest", "loss": "squared_hinge"}
    return {
        "linear": (sm.LinearSVC, sm.LinearSVCCV, {}, {"Cs": Cs}, {"C": Cs}, y),
        "squared": (sm.LinearSVC, sm.LinearSVCCV, squared, {"Cs": Cs}, {"C": Cs}, y),
        "kernel": (sm.KernelSVC, sm.KernelSVCCV, {}, {"Cs": Cs, "gammas": widths}, {"gamma": widths, "C": Cs}, y),
        "l1": (sm.L1BallClassifier, sm.L1BallClassifierCV, ball, {"radii": radii}, {"radius": radii}, y),
        "numbers": (sm.L1BallRegressor, sm.L1BallRegressorCV, ball, {"radii": radii}, {"radius": radii}, numbers),
    }[name]


@pytest.mark.filterwarnings("ignore::softmargin.InactiveBallWarning")
@pytest.mark.parametrize("name", ["linear", "squared", "kernel", "l1", "numbers"])
def test_scores_and_choice_are_those_of_brute_force(three, name):
    X, y = three
    kind, kind_cv, settings, grid, their_grid, target = asked(name, y)
    settings = {"tol": 1e-7, "random_state": 0, **settings}
    cv = CV if kind_cv is not sm.L1BallRegressorCV else 4
    ours = kind_cv(**grid, cv=cv, **WHOLE, **settings).fit(X, target)
    theirs = GridSearchCV(kind(**settings), their_grid, cv=cv).fit(X, target)
    means = theirs.cv_results_["mean_test_score"]
    order = {"kernel": lambda m: m.reshape(3, 2).T}.get(name, np.asarray)  # C is the first name there
    np.testing.assert_allclose(ours.scores_.mean(axis=0), order(means), atol=1e-3 if name == "numbers" else 1e-9)
    assert ours.mean_score_ == pytest.approx(theirs.best_score_, abs=1e-3)
    assert ours.residuals_.max() <= 1e-7
    assert ours.certificate_.residual <= 1e-7
    best = kind(**settings, **{each: getattr(ours, each) for each in their_grid}).fit(X, target)
    np.testing.assert_allclose(ours.predict(X), best.predict(X), atol=1e-3)
    early = kind_cv(**grid, cv=cv, coarse_tol=0.0, **settings).fit(X, target)
    assert np.isnan(early.scores_).sum() + np.isfinite(early.scores_).sum() == ours.scores_.size
    np.testing.assert_array_equal(np.isnan(early.scores_), np.isnan(early.residuals_))
    assert all(getattr(early, each) == getattr(ours, each) for each in their_grid)
    for setting in their_grid:  # chosen, not asked for
        assert setting not in ours.get_params()


def test_points_that_cannot_win_end_early():
    X, y = blobs(72, 4, 3, seed=3, separation=3.0)
    clf = sm.KernelSVCCV([1.0], gammas=[1e5, 0.1], cv=CV, random_state=0).fit(X, y)
    assert np.isfinite(clf.scores_[0]).all()
    assert np.isnan(clf.scores_[1:, 0]).all()  # all but certain to be guesses
    assert np.isfinite(clf.scores_[:, 1]).all()
    assert clf.gamma_ == 0.1


def test_a_race_gives_up_what_the_folds_left_cannot_save():
    race = Race(3, (1, 3), 1.0)
    race.take(0, 0, np.arange(3), [0.8, 0.9, 0.6], [0.0] * 3)
    assert race.can_win().all()
    assert race.leader().tolist() == [[True, True, False]]
    for fold in (1, 2):
        race.take(fold, 0, np.array([1]), [0.9], [0.0])
    # 0.6 and two times 1 are 2.6 of 3; 0.8 and two times 1 are 2.8: both against 2.7.
    assert race.can_win().tolist() == [[True, True, False]]
    unknown = Race(1, (1, 2), None)
    unknown.take(0, 0, np.arange(2), [0.0, 1e9], [0.0] * 2)
    assert unknown.can_win().all()
    assert [best_possible(name) for name in (None, "neg_log_loss", "f1_macro", len)] == [1.0, 0.0, 1.0, None]


def test_n_jobs_changes_neither_scores_nor_choice(three):
    X, y = three
    models = [
        sm.KernelSVCCV([0.1, 1.0, 10.0], cv=CV, tol=1e-8, **WHOLE, n_jobs=jobs, random_state=0).fit(X, y)
        for jobs in (1, 3, 3)
    ]
    np.testing.assert_allclose(models[0].scores_, models[1].scores_)
    np.testing.assert_array_equal(models[1].residuals_, models[2].residuals_)
    with threads(2):
        assert sm.LinearSVCCV([0.1, 1.0], cv=2).fit(X, y).C_ in (0.1, 1.0)


@pytest.mark.parametrize("n_rows", [1, 3, 4])
@pytest.mark.parametrize("n_at_once", [1, 2, 3, 4, 8, 16, 40])
def test_waves_hold_every_fold_once_and_leave_few_threads_without_work(n_rows, n_at_once):
    """The folds of a wave are fewer than all where that takes no longer: what they say may end other fits early."""
    waves = waves_of(5, n_rows, n_at_once, 2)
    assert [fold for wave in waves for fold in wave] == [0, 1, 2, 3, 4]
    if n_at_once == 1:
        assert [len(wave) for wave in waves] == [1] * 5
    if n_at_once >= 5 * n_rows:
        assert len(waves) == 1
    rounds = sum(-(-len(wave) * n_rows // n_at_once) for wave in waves)
    assert rounds <= -(-5 * n_rows // n_at_once)
    for wave in waves:
        n_paths = len(wave) * n_rows
        assert 1 <= n_parts(n_paths, n_at_once, 2) <= max(1, n_at_once // n_paths)


def searches():
    """Return searches whose last fit starts at what the folds have found."""
    hard = blobs(300, 4, 3, seed=1, separation=0.2)
    pair = blobs(300, 4, 2, seed=1, separation=0.2)
    return {
        "linear": (sm.LinearSVCCV([3.0], solver="block_descent"), hard),
        "two classes": (sm.LinearSVCCV([30.0], solver="block_descent"), pair),
        "kernel": (sm.KernelSVCCV([3.0], gammas=[0.5]), hard),
        "softmax": (sm.SoftmaxRegressionCV([3.0], solver="lbfgs"), hard),
    }


@pytest.mark.parametrize("name", searches())
def test_the_fit_to_all_data_starts_at_the_mean_of_the_folds(name, monkeypatch):
    search, (X, y) = searches()[name]
    search.set_params(cv=4, random_state=0, tol=1e-4)
    warm = search.fit(X, y)
    warm_passes, certificate = warm.n_iter_, warm.certificate_
    assert certificate.residual <= 1e-4
    monkeypatch.setattr(cross_validation, "_MOST_KEPT", 0)
    cold = search.fit(X, y)
    alone = {each: getattr(cold, each) for each in ("C", "gamma", "l1_ratio") if hasattr(cold, each)}
    shared = {key: value for key, value in cold.get_params().items() if key in search._estimator().get_params()}
    single = search._estimator(**{**shared, **alone}).fit(X, y)
    assert cold.certificate_ == single.certificate_  # where nothing is kept, it is a fit like any other
    assert warm_passes < cold.n_iter_
    assert certificate.primal == pytest.approx(cold.certificate_.primal, rel=2e-4)


def test_starts_are_of_any_folds(three):
    """Samples of no fold, of several, twice in one; masks."""
    X, y = three
    n = len(y)
    mask = np.arange(n) % 3 > 0
    folds = [(mask, ~mask), (np.repeat(np.arange(n // 2, n), 2), np.arange(n // 2))]
    clf = sm.LinearSVCCV([0.1, 1.0], cv=folds, tol=1e-6, random_state=0).fit(X, y)
    single = sm.LinearSVC(clf.C_, tol=1e-6, random_state=0).fit(X, y)
    assert clf.certificate_.primal == pytest.approx(single.certificate_.primal, rel=2e-6)


def test_the_start_does_not_choose_among_stationary_points(three):
    X, y = three
    search = sm.SoftmaxRegressionCV([1.0], penalty=sm.penalties.MCP(1.0), cv=2, random_state=0).fit(X, y)
    single = sm.SoftmaxRegression(1.0, penalty=sm.penalties.MCP(1.0), random_state=0).fit(X, y)
    np.testing.assert_array_equal(search.coef_, single.coef_)


@pytest.mark.parametrize("kind", [sm.LinearSVCCV, sm.KernelSVCCV])
def test_pairs_of_classes_vote_as_in_a_single_fit(three, kind):
    X, y = three
    chosen = kind([0.1, 1.0], cv=2, multiclass="one_vs_one", random_state=0).fit(X, y)
    single = kind._estimator(chosen.C_, multiclass="one_vs_one", random_state=0).fit(X, y)
    np.testing.assert_allclose(chosen.decision_function(X), single.decision_function(X), atol=0.05)
    labels = chosen.predict(X)
    votes = chosen.set_params(decision_function_shape="ovo").decision_function(X) > 0.0
    np.testing.assert_array_equal(labels == 0, votes[:, 0] & votes[:, 1])
    np.testing.assert_array_equal(chosen.predict(X), labels)


def test_a_kernel_matrix_is_cut_by_rows_and_columns(three):
    X, y = three
    given = sm.KernelSVCCV([0.1, 1.0], kernel="precomputed", cv=CV, **WHOLE, random_state=0).fit(
        rbf_kernel(X, gamma=0.3), y
    )
    own = sm.KernelSVCCV([0.1, 1.0], gammas=[0.3], cv=CV, **WHOLE, random_state=0).fit(X, y)
    np.testing.assert_allclose(given.scores_, own.scores_)
    assert (given.gamma_, own.gamma_, given.C_) == (None, 0.3, own.C_)
    # One matrix for all folds, or kernel values of each fold where it does not fit.
    scarce = sm.KernelSVCCV([0.1, 1.0], gammas=[0.3], cv=CV, **WHOLE, cache_size=1e-3, random_state=0).fit(X, y)
    np.testing.assert_allclose(scarce.scores_, own.scores_)
    assert scarce.certificate_.primal == pytest.approx(own.certificate_.primal, rel=2e-3)


def test_grids_of_our_own_follow_the_scale_of_the_data(three):
    X, y = three
    for kind, grid, power in (
        (sm.LinearSVCCV, "Cs_", -2.0),
        (sm.L1BallClassifierCV, "radii_", -1.0),
    ):
        how = {"cv": 2, "fit_intercept": False, "coarse_tol": 0.1, "tol": 0.1, "random_state": 0}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one, ten = (kind(4, **how).fit(scale * X, y) for scale in (1.0, 10.0))
        np.testing.assert_allclose(getattr(ten, grid), getattr(one, grid) * 10.0**power)


def test_without_refit_there_is_a_choice_and_no_model(three):
    clf = sm.LinearSVCCV([0.1, 1.0], cv=2, refit=False).fit(*three)
    assert clf.C_ in (0.1, 1.0)
    with pytest.raises(NotFittedError):
        clf.predict(three[0])
    with pytest.raises(NotFittedError):
        clf.score(*three)


@pytest.mark.parametrize("probability", [None, "temperature"])
def test_models_of_folds_have_no_probabilities_to_score(three, probability):
    clf = sm.LinearSVCCV([0.1, 1.0], cv=2, scoring="neg_log_loss", probability=probability)
    with pytest.raises(sm.IncompatibleError, match="Probabilities are fitted once, after the choice"):
        clf.fit(*three)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"Cs": []}, "numbers > 0"),
        ({"Cs": [np.inf]}, "C"),
        ({"gammas": 3}, "gammas must be a sequence"),
        ({"gammas": [-1.0]}, "gamma"),
        ({"coarse_tol": -1.0}, "coarse_tol"),
        ({"early_end": "no"}, "early_end"),
    ],
)
def test_what_makes_no_sense_is_refused(three, settings, message):
    with pytest.raises(ValueError, match=message):
        sm.KernelSVCCV(**{"Cs": [1.0], "cv": 2, **settings}).fit(*three)


# --- svm_path ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "estimator",
    [
        sm.LinearSVC(),
        sm.LinearSVC(multiclass="crammer_singer"),
        sm.LinearSVC(multiclass="one_vs_rest"),
        sm.LinearSVC(multiclass="one_vs_rest", loss="squared_hinge"),
        sm.KernelSVC(),
        sm.KernelSVC(multiclass="one_vs_rest", fit_intercept="free"),
    ],
    ids=repr,
)
def test_a_path_is_its_single_fits(three, estimator):
    X, y = three
    estimator.set_params(tol=1e-8, random_state=0)
    path = sm.svm_path(estimator, X, y, Cs=[3.0, 0.02, 0.3])
    np.testing.assert_array_equal(path.Cs, [0.02, 0.3, 3.0])
    for C, model in zip(path.Cs, path.estimators, strict=True):
        alone = estimator.set_params(C=C).fit(X, y)
        assert model.certificate_.primal == pytest.approx(alone.certificate_.primal, rel=1e-7)
        np.testing.assert_allclose(model.decision_function(X), alone.decision_function(X), atol=1e-3)
    assert path.statuses == ["converged"] * 3


def test_a_path_starts_each_fit_at_the_last():
    """A start that grows with C saves passes where most dual variables are at their bounds."""
    X, y = blobs(300, 4, 3, seed=1, separation=0.2)
    estimator = sm.LinearSVC(solver="block_descent", random_state=0)
    path = sm.svm_path(estimator, X, y, Cs=np.geomspace(1.0, 30.0, 5))
    alone = [estimator.set_params(C=C).fit(X, y).n_iter_ for C in path.Cs]
    assert sum(path.n_iters) < 0.7 * sum(alone)


def test_only_svms_have_a_path_over_their_price(three):
    with pytest.raises(sm.IncompatibleError, match="softmax_path"):
        sm.svm_path(sm.SoftmaxRegression(), *three)
