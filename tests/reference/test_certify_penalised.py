"""certify for penalised losses of other libraries: P is their own objective, and the bound is below CVXPY's optimum."""

import cvxpy as cp
import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import (
    ElasticNet,
    Lasso,
    LassoCV,
    LassoLars,
    LogisticRegression,
    MultiTaskElasticNet,
    MultiTaskLasso,
    Ridge,
    RidgeClassifier,
    RidgeCV,
    SGDClassifier,
    SGDRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.svm import SVC
from sklearn.svm import LinearSVC as SklearnLinearSVC

from softmargin import L1BallRegressor, LinearSVC, certify, read_liblinear
from softmargin.data import blobs
from softmargin.run.watchers import EarlyStop

N, D = 60, 6
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, D)) + 0.5
Y = X @ (RNG.standard_normal((D, 2)) * (RNG.random((D, 1)) < 0.6)) + 0.3 * RNG.standard_normal((N, 2)) + 2.0
WEIGHTS = RNG.random(N) + 0.1
unfinished = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def regression_objective(model, W, b, Y, weights):
    """Return scikit-learn's objective as an expression of CVXPY; W (d, k), b (1, k)."""
    w = np.ones(len(Y)) if weights is None else weights
    squares = cp.sum(w @ cp.square(X @ W + np.ones((len(Y), 1)) @ b - Y))
    alpha = np.ravel(model.alpha_ if hasattr(model, "alpha_") else model.alpha)
    if isinstance(model, Ridge | RidgeCV):
        return squares + cp.sum([np.resize(alpha, 2)[c] * cp.sum_squares(W[:, c]) for c in range(W.shape[1])])
    ratio = getattr(model, "l1_ratio", 1.0)
    if isinstance(model, SGDRegressor):
        ratio = {"l1": 1.0, "l2": 0.0}[model.penalty]
    is_group = isinstance(model, MultiTaskElasticNet)
    sparse = cp.sum(cp.norm(W, 2, axis=1)) if is_group else cp.sum(cp.abs(W))
    penalty = alpha[0] * (ratio * sparse + 0.5 * (1.0 - ratio) * cp.sum_squares(W))
    return squares / (2.0 * (len(Y) if isinstance(model, SGDRegressor) else w.sum())) + penalty


@unfinished
@pytest.mark.parametrize(
    ("model", "k", "is_weighted", "wanted"),
    [
        (Lasso(0.1), 1, False, 1e-5),
        (Lasso(0.1), 2, True, 1e-5),
        (Lasso(0.1, positive=True), 1, False, 1e-5),
        (Lasso(0.1, fit_intercept=False), 1, False, 1e-5),
        (Lasso(0.1, tol=0.1, max_iter=1), 1, False, 0.1),
        (LassoLars(alpha=0.1), 1, False, 1e-8),
        (LassoCV(), 1, False, 1e-5),
        (ElasticNet(0.2, l1_ratio=0.3), 1, True, 1e-5),
        (MultiTaskLasso(0.2), 2, False, 1e-5),
        (MultiTaskElasticNet(0.2, l1_ratio=0.4), 2, False, 1e-5),
        (Ridge(3.0), 1, True, 1e-9),
        (Ridge([1.0, 30.0]), 2, False, 1e-9),
        (Ridge(0.5, positive=True), 1, False, 1e-5),
        (RidgeCV(), 1, False, 1e-9),
        (SGDRegressor(penalty="l1", alpha=0.01, random_state=0), 1, False, 0.5),
        (SGDRegressor(random_state=0), 1, True, 0.5),
    ],
    ids=str,
)
def test_regressors_of_scikit_learn(model, k, is_weighted, wanted):
    y = Y[:, 0] if k == 1 else Y
    weight = {"sample_weight": WEIGHTS} if is_weighted else {}
    model.fit(X, y, **weight)
    certificate = certify(model, X, y, **weight)
    W, b = cp.Variable((D, k)), cp.Variable((1, k))
    value = regression_objective(model, W, b, y.reshape(N, k), weight.get("sample_weight"))
    limits = [W >= 0] if getattr(model, "positive", False) else []
    limits += [] if getattr(model, "fit_intercept", True) else [b == 0]
    optimum = cp.Problem(cp.Minimize(value), limits).solve(solver=cp.CLARABEL)
    assert certificate.bound == pytest.approx(optimum, rel=2e-5)
    assert certificate.bound <= optimum * (1 + 1e-6)
    W.value, b.value = np.atleast_2d(model.coef_).T, np.atleast_2d(model.intercept_)
    assert certificate.primal == pytest.approx(value.value, rel=1e-9)
    assert certificate.residual <= wanted


def margin_objective(model, W, b, T, n):
    """Return the objective of SGDClassifier as an expression of CVXPY."""
    scores = X @ W + np.ones((n, 1)) @ b
    short = cp.pos(1.0 - cp.multiply(T, scores))
    losses = {
        "hinge": lambda: short,
        "squared_hinge": lambda: cp.square(short),
        "log_loss": lambda: cp.logistic(-cp.multiply(T, scores)),
    }[model.loss]()
    # Class weights raise the price of the positive samples, of two classes also of the others.
    positive, others = 1.0 + 2.0 * (np.arange(T.shape[1]) == 0), 1.0 + 2.0 * (T.shape[1] == 1)
    prices = np.where(T > 0, positive if T.shape[1] > 1 else 1.0, others if T.shape[1] == 1 else 1.0)
    ratio = {"l1": 1.0, "l2": 0.0}.get(model.penalty, model.l1_ratio)
    penalty = ratio * cp.sum(cp.abs(W)) + 0.5 * (1.0 - ratio) * cp.sum_squares(W)
    return cp.sum(cp.multiply(prices, losses)) / n + model.alpha * penalty


@unfinished
@pytest.mark.parametrize("penalty", ["l2", "l1", "elasticnet"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "log_loss"])
@pytest.mark.parametrize("k", [2, 3])
def test_classifiers_by_stochastic_gradients(loss, penalty, k):
    y = np.digitize(Y[:, 0], np.quantile(Y[:, 0], np.arange(1, k) / k))
    model = SGDClassifier(loss=loss, penalty=penalty, alpha=0.02, class_weight={0: 3.0}, random_state=0).fit(X, y)
    certificate = certify(model, X, y, bound_tol=1e-3)
    T = np.where(y[:, None] == ([1] if k == 2 else np.arange(3)), 1.0, -1.0)
    W, b = cp.Variable((D, T.shape[1])), cp.Variable((1, T.shape[1]))
    value = margin_objective(model, W, b, T, N)
    optimum = cp.Problem(cp.Minimize(value)).solve(solver=cp.CLARABEL)
    assert certificate.bound == pytest.approx(optimum, rel=5e-3)
    assert certificate.bound <= optimum * (1 + 1e-6)
    W.value, b.value = model.coef_.T, model.intercept_[None, :]
    assert certificate.primal == pytest.approx(value.value, rel=1e-8)  # some diverge, and scores cancel


@unfinished
@pytest.mark.parametrize("penalty", ["l2", "l1", "elasticnet"])
def test_hinges_with_weak_penalties_take_few_steps(penalty):
    """Gradient steps at narrow widths, and descent by pairs at a large C, make thousands for each class."""
    y = np.digitize(Y[:30, 0], np.quantile(Y[:30, 0], [0.3, 0.7]))
    model, steps = SGDClassifier(penalty=penalty, alpha=1e-5, random_state=0).fit(X[:30], y), []
    certify(model, X[:30], y, watchers=[EarlyStop(lambda progress: steps.append(progress.iteration))])
    assert 0 < max(steps) <= 60


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_a_ridge_classifier_is_least_squares_on_its_signs(k, class_weight):
    y = np.digitize(Y[:, 0], np.quantile(Y[:, 0], np.arange(1, k) / (k + 1)))
    model = RidgeClassifier(2.0, class_weight=class_weight).fit(X, y)
    assert certify(model, X, y).residual < 1e-9
    T = np.where(y[:, None] == ([1] if k == 2 else np.arange(3)), 1.0, -1.0)
    squares = ((X @ np.atleast_2d(model.coef_).T + model.intercept_ - T) ** 2).sum(axis=1)
    weights = np.ones(N) if class_weight is None else (N / (k * np.bincount(y)))[y]
    value = weights @ squares + 2.0 * (model.coef_**2).sum()
    assert certify(model, X, y).primal == pytest.approx(value, rel=1e-12)
    assert certify(model, X, y, multiclass="weston_watkins", C=1.0).residual > 0  # measured by another problem


# LIBLINEAR stops where its gradient, or its violation, is small: how near it comes varies.
@pytest.mark.parametrize("solver", range(8))
@pytest.mark.parametrize("k", [2, 3])
def test_every_classifier_file_of_liblinear(tmp_path, solver, k):
    liblinear = pytest.importorskip("liblinear.liblinearutil", reason="liblinear-official is not installed")
    rows, y = blobs(90, 5, k, seed=0, separation=0.7)
    model = liblinear.train(y.astype(float).tolist(), rows.tolist(), f"-s {solver} -B 1 -c 0.3 -e 1e-6 -q")
    liblinear.save_model(str(tmp_path / "m"), model)
    read = read_liblinear(tmp_path / "m")
    assert certify(read, rows, y, C=0.3).residual < 1e-3
    worse = type(read)(read.classes, read.coef * 1.2, read.intercept, read.info)
    assert certify(worse, rows, y, C=0.3).residual > 1e-3


def test_logistic_and_sparse_one_vs_rest_of_scikit_learn():
    rows, y = blobs(90, 5, 3, seed=0, separation=0.7)
    good = SklearnLinearSVC(penalty="l1", dual=False, tol=1e-7, max_iter=10**5, C=0.4, intercept_scaling=2.0)
    assert certify(good.fit(rows, y), rows, y).residual < 1e-4
    assert certify(good.fit(csr_array(rows), y), csr_array(rows), y).residual < 1e-4
    two = y < 2
    logistic = LogisticRegression(solver="liblinear", tol=1e-9, C=0.4).fit(rows[two], y[two])
    assert certify(logistic, rows[two], y[two]).residual < 1e-6


def test_a_pipeline_is_certified_by_its_last_step():
    y = (Y[:, 0] > np.median(Y[:, 0])).astype(int)
    scaled = StandardScaler().fit_transform(X)
    for last in (SGDClassifier(alpha=0.01, random_state=0), LinearSVC(tol=1e-4), SVC(tol=1e-6)):
        pipeline = make_pipeline(StandardScaler(), last).fit(X, y)
        assert certify(pipeline, X, y) == certify(pipeline[-1], scaled, y)
    nested = make_pipeline(MaxAbsScaler(), make_pipeline(StandardScaler(), Lasso(0.1))).fit(X, Y[:, 0])
    assert certify(nested, X, Y[:, 0]).residual < 1e-5
    assert certify(make_pipeline(Ridge()).fit(X, Y[:, 0]), X, Y[:, 0]).residual < 1e-9


NOT_PENALISED = SGDClassifier(alpha=0.0, learning_rate="constant", eta0=0.1).fit(X, Y[:, 0] > 2)


@pytest.mark.parametrize(
    ("model", "y", "settings", "message"),
    [
        (Lasso(), Y[:, 0], {}, "fitted Lasso; this one has no coef_"),
        (SGDClassifier(), Y[:, 0] > 2, {}, "fitted SGDClassifier; this one has no coef_"),
        (Lasso().fit(X, Y[:, 0]), Y[:, 0], {"C": 1.0}, "has an alpha and no C"),
        (Lasso().fit(X, Y[:, 0]), Y, {}, "has 1 targets, y has 2"),
        (Lasso().fit(X, Y[:, 0]), Y[:, 0], {"loss": "hinge"}, "leave out multiclass and loss"),
        (Ridge(0.0).fit(X, Y[:, 0]), Y[:, 0], {}, "no bound can be proven"),
        (SGDRegressor(loss="huber").fit(X, Y[:, 0]), Y[:, 0], {}, "'huber'; gaps of regressors are proven for"),
        (SGDRegressor(penalty=None).fit(X, Y[:, 0]), Y[:, 0], {}, "penalty=None: without a penalty"),
        (SGDClassifier(loss="perceptron").fit(X, Y[:, 0] > 2), Y[:, 0] > 2, {}, "'perceptron'; gaps are proven for"),
        (
            SGDClassifier(alpha=0.0, learning_rate="constant", eta0=0.1).fit(X, Y[:, 0] > 2),
            Y[:, 0] > 2,
            {},
            "alpha=0.0: without a penalty",
        ),
        (SGDClassifier().fit(X, Y[:, 0] > 2), Y[:, 0] > 2, {"C": 1.0}, "has an alpha and no C"),
        (L1BallRegressor(tol=0.1).fit(X, Y[:, 0]), Y[:, 0], {"C": 1.0}, "over a ball has no C"),
    ],
)
def test_what_is_missing_is_said(model, y, settings, message):
    with pytest.raises(ValueError, match=message):
        certify(model, X, y, **settings)
