"""Paths and their cross-validation: every point is a fit of its own, with its own certificate."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import make_scorer, recall_score
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from softmargin import NotCertifiedWarning, SoftmaxRegression, SoftmaxRegressionCV, penalties, softmax_path
from softmargin.data import blobs


@pytest.fixture(scope="module")
def three():
    return blobs(90, 5, 3, seed=0, separation=0.7)


# --- the path --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.5, 1.0])
def test_a_path_is_its_single_fits(k, l1_ratio):
    X, y = blobs(80, 4, k, seed=1, separation=0.6)
    Cs = [0.05, 0.3, 2.0]
    path = softmax_path(X, np.array(["a", "b", "c"])[y], Cs=Cs, l1_ratio=l1_ratio, tol=1e-10)
    assert path.coefs.shape == (3, 1 if k == 2 else 3, 4)
    assert path.intercepts.shape == path.coefs.shape[:2]
    assert path.classes.tolist() == ["a", "b", "c"][:k]
    for C, coef, intercept, certificate in zip(path.Cs, path.coefs, path.intercepts, path.certificates, strict=True):
        alone = SoftmaxRegression(C=C, l1_ratio=l1_ratio, tol=1e-10).fit(X, y)
        np.testing.assert_allclose(X @ coef.T + intercept, alone.decision_function(X).reshape(80, -1), atol=1e-3)
        assert certificate.primal == pytest.approx(alone.certificate_.primal, rel=1e-9)
        assert certificate.residual <= 1e-10
    assert path.statuses == ["converged"] * 3


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"l1_ratio": 0.3},
        {"fit_intercept": False},
        {"penalty": penalties.Group(0.3)},
        {"penalty": penalties.SparseGroup(0.3, 0.2, 0.5)},
        {"penalty": penalties.Nonnegative(0.2)},
        {"penalty": penalties.MCP(0.2)},
        {"penalty": penalties.GroupSCAD(0.2)},
    ],
    ids=repr,
)
@pytest.mark.parametrize("k", [2, 3])
def test_the_grid_begins_where_a_weight_leaves_zero(k, settings):
    X, y = blobs(80, 4, k, seed=1, separation=0.6)
    path = softmax_path(X, y, Cs=3, eps=0.1, tol=1e-4, **settings)
    assert path.Cs[-1] == pytest.approx(10 * path.Cs[0])
    assert (np.diff(path.Cs) > 0).all()
    assert np.abs(path.coefs[0]).max() < 1e-9
    assert np.abs(path.coefs[1]).max() > 1e-3
    settings = {"l1_ratio": 1.0, **settings} if "penalty" not in settings else settings
    for share, is_zero in ((0.999, True), (1.02, False)):
        clf = SoftmaxRegression(C=share * path.Cs[0], tol=1e-10, **settings).fit(X, y)
        assert (np.abs(clf.coef_).max() == 0.0) == is_zero


def test_a_ridge_has_no_such_beginning(three):
    X, y = three
    np.testing.assert_allclose(softmax_path(X, y, Cs=3, l1_ratio=0.0).Cs, [1e-4, 1.0, 1e4])


def test_features_that_are_all_zero_have_no_such_beginning_either(three):
    path = softmax_path(np.zeros_like(three[0]), three[1], Cs=3)
    np.testing.assert_allclose(path.Cs, [1e-4, 1.0, 1e4])


def test_a_path_starts_each_fit_at_the_last(three):
    X, y = three
    settings = {"tol": 1e-8, "solver": "accelerated_gradient"}
    path = softmax_path(X, y, Cs=np.geomspace(0.5, 2.0, 8), **settings)
    alone = [SoftmaxRegression(C=C, l1_ratio=1.0, **settings).fit(X, y).n_iter_ for C in path.Cs]
    assert sum(path.n_iters) < sum(alone)


def test_sparse_weights_classes_and_sample_weights(three):
    X, y = three
    weights = np.arange(len(y)) % 3
    settings = {"Cs": [0.05, 0.2], "class_weight": {0: 2.0}, "tol": 1e-9}
    path = softmax_path(sp.csr_array(X), y, sample_weight=weights, sparse=True, **settings)
    twice = softmax_path(np.repeat(X, weights, axis=0), np.repeat(y, weights), **settings)
    for one, other in zip(path.coefs, twice.coefs, strict=True):
        assert sp.issparse(one)
        np.testing.assert_allclose(one.toarray(), other, atol=1e-3)


def test_the_last_point_may_have_no_penalty(three):
    path = softmax_path(*three, Cs=[1.0, math.inf], tol=1e-6)
    assert [certificate.kind for certificate in path.certificates] == ["duality gap", "stationarity"]


def test_points_that_are_not_certified_are_one_warning(three):
    with pytest.warns(NotCertifiedWarning, match="3 of 3 fits along the path were not certified; the worst") as caught:
        path = softmax_path(*three, Cs=[0.5, 1.0, 2.0], tol=0.0, max_iter=1, solver="accelerated_gradient")
    assert len(caught) == 1
    assert path.statuses == ["max_iter"] * 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"Cs": 0}, "an integer >= 1"),
        ({"Cs": []}, "numbers > 0"),
        ({"Cs": [1.0, -1.0]}, "numbers > 0"),
        ({"eps": 2.0}, "eps must be a number > 0 and < 1"),
        ({"l1_ratio": 2.0}, "from 0 to 1"),
        ({"penalty": penalties.L1(), "l1_ratio": 0.5}, "Leave out one"),
    ],
)
def test_what_makes_no_sense_is_refused(three, settings, message):
    with pytest.raises(ValueError, match=message):
        softmax_path(*three, **settings)


def test_one_class_is_refused(three):
    with pytest.raises(ValueError, match="at least 2"):
        softmax_path(three[0], np.zeros(90))


WHOLE = {"early_end": False, "coarse_tol": 0.0}  # every point on every fold, to the tolerance


# --- cross-validation ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scoring", [None, "neg_log_loss"])
@pytest.mark.parametrize("k", [2, 3])
def test_the_choice_is_that_of_brute_force(scoring, k):
    X, y = blobs(90, 5, k, seed=3, separation=0.4)
    grid = {"C": [0.01, 0.1, 1.0], "l1_ratio": [0.0, 0.5, 1.0]}
    cv = StratifiedKFold(4, shuffle=True, random_state=0)
    ours = SoftmaxRegressionCV(Cs=grid["C"], l1_ratios=grid["l1_ratio"], cv=cv, scoring=scoring, tol=1e-9, **WHOLE)
    ours.fit(X, y)
    brute = GridSearchCV(SoftmaxRegression(tol=1e-9), grid, cv=cv, scoring=scoring).fit(X, y)
    means = brute.cv_results_["mean_test_score"].reshape(3, 3).T  # l1_ratio changes fastest there
    np.testing.assert_allclose(ours.scores_.mean(axis=0), means, atol=1e-4 if scoring else 1e-12)
    assert {"C": ours.C_, "l1_ratio": ours.l1_ratio_} == brute.best_params_ or scoring is None
    assert ours.mean_score_ == pytest.approx(brute.best_score_, abs=1e-4)
    assert ours.scores_.shape == ours.residuals_.shape == (4, 3, 3)
    assert ours.residuals_.max() <= 1e-9
    alone = SoftmaxRegression(C=ours.C_, l1_ratio=ours.l1_ratio_, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), alone.predict_proba(X), atol=1e-4)
    assert ours.certificate_.residual <= 1e-9


def test_scores_are_those_of_scikit_learns(three):
    X, y = three
    settings = {"Cs": 4, "cv": 3, "scoring": "neg_log_loss"}
    ours = SoftmaxRegressionCV(**settings, tol=1e-9, **WHOLE).fit(X, y)
    theirs = LogisticRegressionCV(**settings, tol=1e-8, max_iter=10**4, use_legacy_attributes=False, l1_ratios=(0.0,))
    theirs.fit(X, y)
    np.testing.assert_allclose(ours.Cs_, theirs.Cs_)
    np.testing.assert_allclose(ours.scores_[..., :3], theirs.scores_[..., :3], atol=1e-4)
    assert ours.C_ == theirs.C_
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y), abs=1e-4)


def test_without_refit_the_folds_are_averaged_and_judged(three):
    X, y = three
    clf = SoftmaxRegressionCV(Cs=[0.1, 1.0], cv=3, refit=False, tol=1e-9, coarse_tol=0.0).fit(X, y)
    folds = StratifiedKFold(3)
    coefs, Cs = [], []
    for f, (train, _) in enumerate(folds.split(X, y)):
        Cs.append([0.1, 1.0][int(clf.scores_[f, 0].argmax())])
        coefs.append(SoftmaxRegression(C=Cs[-1], tol=1e-9).fit(X[train], y[train]).coef_)
    np.testing.assert_allclose(clf.C_, np.mean(Cs))
    np.testing.assert_allclose(clf.coef_, np.mean(coefs, axis=0), atol=1e-3)
    optimum = SoftmaxRegression(C=clf.C_, tol=1e-9).fit(X, y).certificate_.primal
    assert clf.certificate_.bound <= optimum < clf.certificate_.primal
    assert clf.status_ == "stopped"


def test_every_ratio_has_a_grid_of_its_own(three):
    clf = SoftmaxRegressionCV(Cs=4, l1_ratios=(0.5, 1.0), cv=2).fit(*three)
    assert clf.Cs_.shape == (2, 4)
    np.testing.assert_allclose(2 * clf.Cs_[0], clf.Cs_[1])  # half the l1, half the C to leave zero
    assert clf.C_ in clf.Cs_


def test_a_penalty_object_is_cross_validated_too(three):
    clf = SoftmaxRegressionCV(Cs=[0.1, 1.0], penalty=penalties.Group(1.0), cv=2).fit(*three)
    assert clf.l1_ratio_ is None
    assert clf.model().info["penalty"]["group"] == 1.0
    assert clf.scores_.shape == (2, 1, 2)


def test_weights_of_samples_count_in_fit_and_score(three):
    """Repeating rows of the first fold is the same as weighing them."""
    X, y = three
    fold = np.arange(len(y)) % 3
    weights = np.where(fold == 0, 1 + np.arange(len(y)) % 2, 1)
    repeat = np.repeat(np.arange(len(y)), weights)

    def splits(fold):
        return [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(3)]

    settings = {"Cs": [0.1, 1.0], "scoring": "neg_log_loss", "tol": 1e-10, **WHOLE}
    weighted = SoftmaxRegressionCV(cv=splits(fold), **settings).fit(X, y, sample_weight=weights)
    repeated = SoftmaxRegressionCV(cv=splits(fold[repeat]), **settings).fit(X[repeat], y[repeat])
    np.testing.assert_allclose(weighted.scores_, repeated.scores_, atol=1e-5)


def test_metadata_go_to_splitter_and_scorer_where_routing_is_enabled(three):
    X, y = three
    groups = np.arange(len(y)) // 10
    with pytest.raises(ValueError, match="enable_metadata_routing"):
        SoftmaxRegressionCV(cv=GroupKFold(3)).fit(X, y, groups=groups)
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = make_scorer(recall_score, average="macro").set_score_request(sample_weight=True)
        clf = SoftmaxRegressionCV(Cs=[0.1, 1.0], cv=GroupKFold(3), scoring=scorer).set_fit_request(sample_weight=True)
        clf.fit(X, y, sample_weight=np.ones(len(y)), groups=groups)
        plain = clone(clf).set_params(scoring="recall_macro", cv=list(GroupKFold(3).split(X, y, groups))).fit(X, y)
        np.testing.assert_allclose(clf.scores_, plain.scores_)
        assert clf.score(X, y, sample_weight=np.ones(len(y))) == plain.score(X, y)


def test_a_class_may_be_missing_where_log_loss_is_measured():
    X, y = blobs(30, 3, 3, seed=0)
    folds = [(np.flatnonzero(np.arange(30) % 3 != 0), np.flatnonzero((np.arange(30) % 3 == 0) & (y != 2)))]
    clf = SoftmaxRegressionCV(Cs=[0.1, 1.0], cv=folds, scoring="neg_log_loss").fit(X, y)
    assert np.isfinite(clf.scores_).all()


def test_it_lives_in_pipelines_and_nested_cross_validation(three):
    pipe = make_pipeline(StandardScaler(), SoftmaxRegressionCV(Cs=3, cv=2))
    assert cross_val_score(pipe, *three, cv=3).mean() > 0.7


def test_fits_that_are_not_certified_are_one_warning(three):
    with pytest.warns(NotCertifiedWarning) as caught:
        SoftmaxRegressionCV(Cs=[0.5, 1.0], cv=2, max_iter=1, solver="accelerated_gradient", tol=0.0, **WHOLE).fit(
            *three
        )
    assert [str(each.message)[:6] for each in caught] == ["4 of 4", "stoppe"]
