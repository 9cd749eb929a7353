"""The estimators of a ball: against scikit-learn where the penalised problem is the same, against CVXPY elsewhere."""

import pickle
import warnings

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression, Ridge

from reference.ball_optimum import FORMS, optimum, samples
from softmargin import (
    BallGradient,
    Constrained,
    DataError,
    InactiveBallWarning,
    L1BallClassifier,
    L1BallRegressor,
    LinearModel,
    NotCertifiedWarning,
    RadiusPath,
    SoftmaxRegression,
    Stop,
    TraceBallClassifier,
    TraceBallRegressor,
    certify,
    load_model,
    radius_path,
    solve,
)
from softmargin.data import blobs
from softmargin.estimators.posing.ball import BALLS
from softmargin.losses.entrywise import ENTRYWISE
from softmargin.models import LinearRegressor
from softmargin.models.shapes import dense
from softmargin.sets import LowRank
from softmargin.solvers.names import choices

CLASSIFIERS = [L1BallClassifier, TraceBallClassifier]
REGRESSORS = [L1BallRegressor, TraceBallRegressor]
# Clarabel says so where it misses 1e-12.
INEXACT = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
MARGINS = ["smooth_hinge", "squared_hinge", "logistic"]


def numbers(k=1, n=60, d=8, seed=0):
    X, Y = samples("squared", k, n, d, seed)
    return X, Y[:, 0] if k == 1 else Y


# --- the same problem with a penalty ---------------------------------------------------------------------------


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("ratio", [0.3, 0.9])
def test_a_regressor_is_the_elastic_net_of_the_same_size(ratio, fit_intercept):
    X, y = numbers()
    net = ElasticNet(0.2, l1_ratio=ratio, tol=1e-12, fit_intercept=fit_intercept, max_iter=10**5).fit(X, y)
    settings = {"l2": 0.2 * (1.0 - ratio), "tol": 1e-11, "fit_intercept": fit_intercept}
    reg = L1BallRegressor(np.abs(net.coef_).sum(), **settings).fit(X, y)
    np.testing.assert_allclose(reg.coef_, net.coef_, atol=1e-5)
    assert reg.intercept_ == pytest.approx(net.intercept_, abs=1e-5)
    assert ((reg.coef_ != 0) == (net.coef_ != 0)).all()
    assert reg.is_on_boundary_
    assert isinstance(reg.intercept_, float)


def test_without_a_ridge_it_is_the_lasso_and_the_gap_is_that_of_frank_and_wolfe():
    X, y = numbers()
    lasso = Lasso(0.2, tol=1e-12).fit(X, y)
    reg = L1BallRegressor(np.abs(lasso.coef_).sum(), l2=0.0, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(reg.coef_, lasso.coef_, atol=1e-4)
    assert reg.certificate_.kind == "Frank-Wolfe gap"


@pytest.mark.parametrize("regressor", REGRESSORS)
def test_an_idle_ball_leaves_a_ridge_and_says_so(regressor):
    X, y = numbers()
    ridge = Ridge(60 * 0.1, tol=1e-12).fit(X, y)
    with pytest.warns(InactiveBallWarning, match=r"norm of its weights is .*, the radius 100\. .*only l2=0\.1"):
        reg = regressor(100.0, l2=0.1, tol=1e-11).fit(X, y)
    np.testing.assert_allclose(reg.coef_, ridge.coef_, atol=1e-5)
    assert not reg.is_on_boundary_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert regressor(0.5, l2=0.1).fit(X, y).is_on_boundary_


def test_a_point_that_is_merely_inside_is_not_called_a_solution_inside():
    """Frank-Wolfe comes to the boundary from within: what is said of the radius is proven in a wider ball."""
    X, y = numbers()
    for radius, is_idle in ((1.0, False), (100.0, True)):
        reg = L1BallRegressor(radius, l2=0.1, tol=1e-3)
        posed = reg._pose(reg._checked(X, y, None))
        problem = posed.problem
        point = solve(problem, BallGradient(), stop=Stop(1e-8)).point
        inside = point._replace(weights=0.999 * point.weights)
        assert problem.is_inactive(inside)
        assert (posed.doubt(inside) is not None) == is_idle


@pytest.mark.parametrize("ratio", [0.5, 1.0])
def test_a_classifier_is_the_logistic_regression_of_the_same_size(ratio):
    X, y = blobs(80, 5, 2, seed=0, separation=0.6)
    C = 0.1
    peer = LogisticRegression(C=C, l1_ratio=ratio, solver="saga", tol=1e-10, max_iter=10**5, random_state=0).fit(X, y)
    settings = {"loss": "logistic", "l2": (1.0 - ratio) / (C * 80), "tol": 1e-10}
    clf = L1BallClassifier(np.abs(peer.coef_).sum(), **settings).fit(X, y)
    np.testing.assert_allclose(clf.coef_, peer.coef_, atol=1e-3)
    np.testing.assert_allclose(clf.predict_proba(X), peer.predict_proba(X), atol=1e-3)
    np.testing.assert_allclose(np.exp(clf.predict_log_proba(X)), clf.predict_proba(X))


# --- the optimum -----------------------------------------------------------------------------------------------


CASES = [("dense", loss, fit) for loss in MARGINS for fit in (True, False)] + [
    (form, "smooth_hinge", True) for form in FORMS if form != "dense"
]


@INEXACT
@pytest.mark.parametrize(("form", "loss", "fit_intercept"), CASES)
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_classifiers_reach_the_optimum_of_one_against_all_others(classifier, k, loss, fit_intercept, form):
    X, _ = samples(loss)
    y = np.random.default_rng(1).integers(0, k, len(X))
    target = np.where(y[:, None] == ([1] if k == 2 else np.arange(3)), 1.0, -1.0)
    clf = classifier(0.2, l2=0.1, loss=loss, fit_intercept=fit_intercept, tol=1e-9).fit(
        FORMS[form](X), np.array(["a", "b", "c"])[y]
    )
    problem = Constrained(
        X, target, loss=ENTRYWISE[loss], ball=BALLS[clf._norm](0.2), l2=0.1, fit_intercept=fit_intercept
    )
    value, W, b = optimum(problem)
    assert clf.certificate_.primal == pytest.approx(value, rel=1e-7)
    assert clf.is_on_boundary_
    np.testing.assert_allclose(clf.coef_, W.T, atol=1e-3)
    np.testing.assert_allclose(clf.intercept_, b, atol=1e-2)
    assert clf.coef_.shape == (target.shape[1], 8)
    scores = clf.decision_function(FORMS[form](X))
    np.testing.assert_allclose(scores.reshape(60, -1), X @ clf.coef_.T + clf.intercept_, atol=1e-6)
    assert scores.shape == ((60,) if k == 2 else (60, 3))
    codes = (scores > 0).astype(int) if k == 2 else scores.argmax(axis=1)
    assert clf.predict(FORMS[form](X)).tolist() == np.array(["a", "b", "c"])[codes].tolist()


@INEXACT
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("regressor", REGRESSORS)
def test_regressors_reach_the_optimum_of_all_targets_in_one_ball(regressor, k):
    X, Y = numbers(k)
    reg = regressor(1.5, l2=0.1, tol=1e-10).fit(X, Y)
    problem = Constrained(X, Y, loss=ENTRYWISE["squared"], ball=BALLS[reg._norm](1.5), l2=0.1, fit_intercept=True)
    value, W, b = optimum(problem)
    assert reg.certificate_.primal == pytest.approx(value, rel=1e-8)
    np.testing.assert_allclose(reg.coef_, W[:, 0] if k == 1 else W.T, atol=1e-4)
    np.testing.assert_allclose(reg.intercept_, b[0] if k == 1 else b, atol=1e-4)
    assert reg.predict(X).shape == Y.shape
    column = regressor(1.5, l2=0.1).fit(X, Y.reshape(60, k))
    assert column.coef_.shape == (k, 8)
    assert column.predict(X).shape == (60, k)


@pytest.mark.parametrize("regressor", REGRESSORS)
def test_targets_that_were_not_observed_cost_nothing(regressor):
    X, Y = numbers(3)
    Y = np.where(np.random.default_rng(3).random(Y.shape) < 0.3, np.nan, Y)
    reg = regressor(1.5, l2=0.1, fit_intercept=False, tol=1e-9).fit(X, Y)
    W = cp.Variable((8, 3))
    seen = ~np.isnan(Y)
    losses = cp.sum_squares(cp.multiply(seen, X @ W - np.where(seen, Y, 0.0))) / 120
    norm = cp.normNuc(W) if regressor is TraceBallRegressor else cp.sum(cp.abs(W))
    program = cp.Problem(cp.Minimize(losses + 0.05 * cp.sum_squares(W)), [norm <= 1.5])
    program.solve(solver=cp.CLARABEL)
    assert reg.certificate_.primal == pytest.approx(program.value, rel=1e-6)
    np.testing.assert_allclose(reg.coef_, W.value.T, atol=1e-3)


@pytest.mark.parametrize(
    ("kind", "solver"), [(kind, name) for kind in ("l1 ball", "trace ball") for name in choices(kind)]
)
def test_every_solver_by_name_is_certified(kind, solver):
    X, y = blobs(60, 5, 2 if solver == "newton" else 3, seed=0, separation=0.6)
    classifier = L1BallClassifier if kind == "l1 ball" else TraceBallClassifier
    settings = {"l2": 0.1, "fit_intercept": solver not in ("primal_dual_bfw", "dual_descent"), "random_state": 0}
    radius = 0.3 if solver == "newton" else 1.0  # within reach of two classes
    clf = classifier(radius, solver=solver, tol=1e-2, **settings).fit(X, y)
    best = classifier(radius, tol=1e-8, **settings).fit(X, y).certificate_.primal
    assert clf.certificate_.residual <= 1e-2
    assert best * (1 - 1e-8) <= clf.certificate_.primal <= 1.011 * best


# --- labels, weights -------------------------------------------------------------------------------------------


@INEXACT
@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_several_labels_are_columns_in_one_ball(classifier):
    X, T = samples("smooth_hinge", 3)
    Y = (T > 0).astype(int)
    clf = classifier(1.5, l2=0.1, tol=1e-9).fit(X, Y)
    problem = Constrained(X, T, loss=ENTRYWISE["smooth_hinge"], ball=BALLS[clf._norm](1.5), l2=0.1, fit_intercept=True)
    assert clf.certificate_.primal == pytest.approx(optimum(problem)[0], rel=1e-7)
    predicted = clf.predict(X)
    assert predicted.shape == (60, 3)
    np.testing.assert_array_equal(predicted, clf.decision_function(X) > 0)
    np.testing.assert_array_equal(classifier(1.5, l2=0.1, tol=1e-9).fit(X, sp.csr_matrix(Y)).coef_, clf.coef_)
    assert 0.3 < clf.score(X, Y) <= 1.0
    with pytest.raises(ValueError, match="several labels per row"):
        clf.model()
    with pytest.raises(ValueError, match="class_weight='balanced' needs one class per sample"):
        clone(clf).set_params(class_weight="balanced").fit(X, Y)


@pytest.mark.parametrize("estimator", [*CLASSIFIERS, *REGRESSORS])
def test_a_weight_of_two_is_the_sample_twice(estimator):
    X, y = blobs(60, 5, 3, seed=0, separation=0.6)
    weight = np.arange(60) % 3
    settings = {"l2": 0.1, "tol": 1e-12, **({"class_weight": "balanced"} if estimator in CLASSIFIERS else {})}
    weighted = estimator(0.2, **settings).fit(X, y, sample_weight=weight)
    repeated = estimator(0.2, **settings).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-4)
    assert weighted.certificate_.primal == pytest.approx(repeated.certificate_.primal, rel=1e-10)
    scaled = estimator(0.2, **settings).fit(X, y, sample_weight=7.0 * weight)
    np.testing.assert_allclose(scaled.coef_, weighted.coef_, atol=1e-4)


def test_the_weight_of_a_class_multiplies_its_loss():
    X, y = blobs(60, 5, 3, seed=0, separation=0.6)
    settings = {"l2": 0.1, "tol": 1e-10}
    clf = L1BallClassifier(1.0, class_weight={1: 4.0}, **settings).fit(X, y)
    weight = np.where(y == 1, 4.0, 1.0)
    # Shares of given weights sum to one, those of weighted classes to more: the ridge makes up for it.
    share = weight.sum() / 60
    other = L1BallClassifier(1.0, l2=0.1 / share, tol=1e-10).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(clf.coef_, other.coef_, atol=1e-4)
    assert clf.certificate_.primal == pytest.approx(share * other.certificate_.primal, rel=1e-8)


def test_probabilities_are_of_two_classes_and_the_logistic_loss_alone():
    X, y = blobs(60, 5, 3, seed=0, separation=0.6)
    for clf, labels in (
        (L1BallClassifier(loss="logistic"), y),
        (L1BallClassifier(), y > 0),
        (L1BallClassifier(loss="logistic"), np.stack([y > 0, y > 1], axis=1).astype(int)),
    ):
        assert not hasattr(clf.fit(X, labels), "predict_proba")
    clf = TraceBallClassifier(loss="logistic").fit(X, y > 0)
    np.testing.assert_allclose(clf.predict_proba(X)[:, 1], 1.0 / (1.0 + np.exp(-clf.decision_function(X))))


# --- what is kept ----------------------------------------------------------------------------------------------


def test_factors_are_singular_triples_and_everything_goes_through_them():
    X, Y = numbers(6, n=80, d=10)
    reg = TraceBallRegressor(1.0, l2=0.01, tol=1e-8).fit(X, Y)
    U, s, Vt = reg.coef_factors_
    r = len(s)
    assert 0 < r < 6
    assert (U.shape, Vt.shape) == ((6, r), (r, 10))
    np.testing.assert_allclose(U.T @ U, np.eye(r), atol=1e-10)
    np.testing.assert_allclose(Vt @ Vt.T, np.eye(r), atol=1e-10)
    np.testing.assert_allclose((U * s) @ Vt, reg.coef_, atol=1e-14)
    assert s.sum() == pytest.approx(1.0)
    assert "coef_" not in vars(reg)
    np.testing.assert_allclose(reg.predict(X), X @ reg.coef_.T + reg.intercept_)
    dense = clone(reg).set_params(solver="frank_wolfe", tol=1e-2).fit(X, Y)
    assert dense.coef_factors_[1].sum() <= 1.0 + 1e-9


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_wide_data_of_nothing_are_certified(form):
    X = form(np.zeros((4, 9)))
    for estimator in (TraceBallClassifier(), TraceBallRegressor()):
        with pytest.warns(InactiveBallWarning, match=r"zero at every radius: look for features"):
            estimator.fit(X, [0, 1, 1, 1])
        assert estimator.status_ == "converged"


def test_weights_may_be_zero():
    X = np.random.default_rng(0).standard_normal((20, 3))
    with pytest.warns(InactiveBallWarning):
        reg = TraceBallRegressor(1.0, l2=0.1).fit(X, np.ones((20, 2)))
    assert [part.shape for part in reg.coef_factors_] == [(2, 0), (0,), (0, 3)]
    np.testing.assert_array_equal(reg.coef_, 0.0)
    np.testing.assert_allclose(reg.predict(X), 1.0, atol=1e-6)


@pytest.mark.parametrize("classifier", CLASSIFIERS)
@pytest.mark.parametrize("k", [2, 3])
def test_a_model_is_saved_and_predicts_the_same(classifier, k, tmp_path):
    X, y = blobs(60, 5, k, seed=0, separation=0.6)
    clf = classifier(0.5, random_state=0).fit(X, y)
    clf.model().save(tmp_path / "m")
    model = LinearModel.load(tmp_path / "m")
    np.testing.assert_array_equal(model.predict(X), clf.predict(X))
    assert (model.info["problem"], model.info["radius"]) == (f"{clf._norm} ball", 0.5)
    assert isinstance(model.coef, LowRank) == (classifier is TraceBallClassifier)
    np.testing.assert_allclose(dense(model.coef), clf.coef_, rtol=1e-12, atol=1e-14)
    again = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(again.decision_function(X), clf.decision_function(X))


@pytest.mark.parametrize("regressor", REGRESSORS)
@pytest.mark.parametrize("k", [None, 3])
def test_a_regressor_is_saved_and_predicts_the_same(regressor, k, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 5))
    reg = regressor(0.5, random_state=0).fit(X, rng.standard_normal(40 if k is None else (40, k)))
    reg.model().save(tmp_path / "m")
    model = load_model(tmp_path / "m")
    assert isinstance(model, LinearRegressor)
    assert isinstance(model.coef, LowRank) == (regressor is TraceBallRegressor)
    assert model.predict(X).shape == reg.predict(X).shape
    np.testing.assert_allclose(model.predict(sp.csr_matrix(X)), reg.predict(X), rtol=1e-12, atol=1e-14)
    assert (model.info["problem"], model.info["loss"]) == (f"{reg._norm} ball", "squared")
    with pytest.raises(DataError, match="are needed"):
        LinearRegressor(model.coef, np.zeros(7))
    with pytest.raises(DataError, match="the factors of coef have shapes"):
        LinearRegressor(LowRank(np.ones((1, 2)), np.ones(1), np.ones((5, 2))), np.zeros(1))


@pytest.mark.parametrize("estimator", [*CLASSIFIERS, *REGRESSORS])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_model_over_a_ball_is_certified_as_it_says(estimator, fit_intercept, tmp_path):
    X, y = blobs(60, 5, 3, seed=0, separation=0.6)
    weights = 1.0 + np.arange(60) % 3
    loss = "multinomial" if estimator is L1BallClassifier else "logistic"
    more = {"class_weight": {0: 2.0}, "loss": loss} if estimator in CLASSIFIERS else {}
    fitted = estimator(0.4, l2=0.01, fit_intercept=fit_intercept, tol=1e-4, **more).fit(X, y, sample_weight=weights)
    fitted.model().save(tmp_path / "m")
    for model in (fitted, load_model(tmp_path / "m")):
        certificate = certify(model, X, y, sample_weight=weights, bound_tol=1e-7)
        assert certificate.primal == pytest.approx(fitted.certificate_.primal, rel=1e-10)
        assert certificate.bound >= fitted.certificate_.bound - 1e-9
        assert certificate.residual <= fitted.certificate_.residual + 1e-9
    assert certify(fitted, X, y, sample_weight=weights).kind == fitted.certificate_.kind
    with pytest.raises(DataError, match="5 features, X has 4"):
        certify(fitted, X[:, :4], y)


# --- warm starts and paths -------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [*CLASSIFIERS, *REGRESSORS])
def test_a_warm_start_begins_where_the_last_fit_ended(estimator):
    X, y = blobs(60, 5, 3, seed=0, separation=0.6)
    warm = estimator(0.2, warm_start=True, tol=1e-6).fit(X, y)
    assert warm.n_iter_ > 0
    assert warm.fit(X, y).n_iter_ == 0
    smaller = warm.set_params(radius=0.1).fit(X, y)
    assert smaller.certificate_.residual <= 1e-6
    assert smaller.n_iter_ <= 2 * estimator(0.1, tol=1e-6).fit(X, y).n_iter_
    assert warm.fit(X[:, :3], y).coef_.shape[-1] == 3


@pytest.mark.parametrize("estimator", [*CLASSIFIERS, *REGRESSORS])
def test_a_path_is_its_single_fits(estimator):
    X, y = blobs(60, 5, 3, seed=0, separation=0.6)
    settings = {"l2": 0.01, "tol": 1e-9}
    own = estimator(3.0, **settings)
    path = radius_path(own, X, y, radii=[2.0, 0.1, 0.5], sample_weight=1.0 + y)
    assert isinstance(path, RadiusPath)
    assert path.radii.tolist() == [0.1, 0.5, 2.0]
    assert own.radius == 3.0
    assert not hasattr(own, "intercept_")
    for r, coef, intercept, certificate in zip(path.radii, path.coefs, path.intercepts, path.certificates, strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InactiveBallWarning)
            alone = estimator(r, **settings).fit(X, y, sample_weight=1.0 + y)
        np.testing.assert_allclose(coef, alone.coef_, atol=1e-3)
        np.testing.assert_allclose(intercept, alone.intercept_, atol=1e-2)
        assert certificate.primal == pytest.approx(alone.certificate_.primal, rel=1e-8)
    assert path.statuses == ["converged"] * 3
    assert path.is_on_boundary.shape == (3,)
    assert [fitted.radius for fitted in path.estimators] == [0.1, 0.5, 2.0]
    assert path.estimators[0].predict(X).shape == (60,)


def test_a_path_starts_each_fit_at_the_last_and_ends_where_the_ball_is_idle():
    X, y = numbers(1, n=80)
    own = L1BallRegressor(20.0, l2=0.05, tol=1e-8, solver="accelerated_gradient")
    path = radius_path(own, X, y, radii=12)
    np.testing.assert_allclose(path.radii[[0, -1]], [0.2, 20.0])
    on = path.is_on_boundary
    assert on[0]
    assert not on[-1]
    assert (np.diff(on.astype(int)) <= 0).all()
    assert path.n_iters[-1] == 0
    primals = [certificate.primal for certificate in path.certificates]
    assert (np.diff(primals) <= 1e-8).all()
    with pytest.warns(InactiveBallWarning):
        alone = [clone(own).set_params(radius=r).fit(X, y).n_iter_ for r in path.radii]
    assert sum(path.n_iters) < sum(alone)


def test_points_of_a_path_that_are_not_certified_are_one_warning():
    with pytest.warns(NotCertifiedWarning, match="[123] of 3 fits along the path were not certified") as caught:
        radius_path(L1BallRegressor(1.0, tol=0.0, max_iter=1), *numbers(), radii=3)
    assert len(caught) == 1


# --- what makes no sense ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [*CLASSIFIERS, *REGRESSORS])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"radius": 0.0}, "radius must be a finite number > 0; found 0.0"),
        ({"radius": np.nan}, "radius must be a finite number > 0; found nan"),
        ({"radius": np.inf}, "radius must be a finite number > 0; found inf"),
        ({"l2": -1.0}, "l2 must be a finite number >= 0; found -1.0"),
        ({"l2": np.nan}, "l2 must be a finite number >= 0"),
        ({"solver": "lbfgs"}, "solver='lbfgs' solves .* problems, not .* ball ones; choose one of auto, "),
    ],
)
def test_settings_that_make_no_sense_are_refused(estimator, wrong, message):
    X, y = blobs(30, 3, 2, seed=0)
    with pytest.raises(ValueError, match=message):
        estimator(**wrong).fit(X, y)


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_labels_that_make_no_sense_are_refused(classifier):
    X, y = blobs(30, 3, 2, seed=0)
    with pytest.raises(ValueError, match="at least 2 classes"):
        classifier().fit(X, np.zeros(30))
    with pytest.raises(ValueError, match="loss='hinge' is unknown; choose one of smooth_hinge, squared_hinge, logis"):
        classifier(loss="hinge").fit(X, y)
    with pytest.raises(ValueError, match="Fit one classifier per column"):
        classifier().fit(X, np.stack([y, 2 * y + 1], axis=1))
    with pytest.raises(ValueError, match="zero"):
        classifier().fit(X, y, sample_weight=np.zeros(30))


@pytest.mark.parametrize("regressor", REGRESSORS)
def test_targets_that_make_no_sense_are_refused(regressor):
    X, y = numbers()
    with pytest.raises(ValueError, match="Input y contains NaN"):
        regressor().fit(X, np.where(np.arange(60) == 3, np.nan, y))
    with pytest.raises(ValueError, match="Input y contains NaN"):
        regressor().fit(X, np.full((60, 2), np.nan))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        regressor().fit(X, y[:-1])


def test_a_path_needs_a_ball_and_a_grid():
    X, y = numbers()
    with pytest.raises(ValueError, match="radii must be an integer >= 1"):
        radius_path(L1BallRegressor(), X, y, radii=0)
    with pytest.raises(ValueError, match="eps must be a number > 0 and < 1; found 2"):
        radius_path(L1BallRegressor(), X, y, radii=3, eps=2.0)
    for wrong in ([], [1.0, -1.0], [np.nan]):
        with pytest.raises(ValueError, match="radii must be an integer >= 1 and <= 100000, or finite numbers > 0"):
            radius_path(L1BallRegressor(), X, y, radii=wrong)
    with pytest.raises(ValueError, match="estimator is a SoftmaxRegression"):
        radius_path(SoftmaxRegression(), X, y)
