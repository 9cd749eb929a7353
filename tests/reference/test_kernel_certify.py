"""certify for kernel models: ours carry their own proof, and so do the two-class models of scikit-learn's SVC."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from softmargin import HingeSVM, IndefiniteKernelWarning, KernelExpansion, KernelSVC, NotCertifiedWarning, certify
from softmargin import make_kernel as kernel_of
from softmargin.data import blobs
from softmargin.matrices.gram import Gram
from softmargin.problems.checks import balanced
from softmargin.problems.free_bias import BiasPoint

MODES = [
    ("weston_watkins", "hinge"),
    ("crammer_singer", "hinge"),
    ("one_vs_rest", "hinge"),
    ("one_vs_rest", "squared_hinge"),
]
every_mode = pytest.mark.parametrize(("multiclass", "loss"), MODES)


def product_kernel(A, B):
    return np.asarray(A @ B.T) ** 2 + 1.0


@pytest.fixture(scope="module")
def data():
    return blobs(90, 4, 3, seed=0, separation=0.7)


@pytest.fixture(scope="module")
def pair():
    return blobs(80, 3, 2, seed=1, separation=0.5)


# --- our own -------------------------------------------------------------------------------------------------


@every_mode
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_our_model_is_certified_as_it_says(data, tmp_path, multiclass, loss, fit_intercept):
    X, y = data
    settings = {"C": 0.4, "multiclass": multiclass, "loss": loss, "fit_intercept": fit_intercept}
    weights = 1.0 + np.arange(len(y)) % 2
    clf = KernelSVC(**settings, class_weight={0: 2.0}, intercept_scaling=1.5, tol=1e-4).fit(X, y, sample_weight=weights)
    clf.model().save(tmp_path / "m")
    for model in (clf, clf.model(), KernelExpansion.load(tmp_path / "m")):
        certificate = certify(model, X, y, sample_weight=weights)
        assert certificate.primal == pytest.approx(clf.certificate_.primal, rel=1e-12)
        assert certificate.bound == pytest.approx(clf.certificate_.bound, rel=1e-12)


@every_mode
def test_two_classes_and_float32_and_sparse_and_precomputed(pair, multiclass, loss):
    X, y = pair
    settings = {"multiclass": multiclass, "loss": loss, "tol": 1e-4, "gamma": 0.4}
    narrow = X.astype(np.float32)
    clf = KernelSVC(**settings).fit(narrow, y)
    for rows in (narrow, narrow.astype(np.float64)):  # widened rows are narrowed as they were
        assert certify(clf, rows, y).primal == pytest.approx(clf.certificate_.primal, rel=1e-6)
    clf = KernelSVC(**settings).fit(sp.csr_array(X), y)
    assert certify(clf, sp.csr_array(X), y).primal == pytest.approx(clf.certificate_.primal, rel=1e-12)
    K = rbf_kernel(X, X, gamma=0.4)
    clf = KernelSVC(**settings, kernel="precomputed").fit(K, y)
    assert certify(clf, K, y).bound == pytest.approx(clf.certificate_.bound, rel=1e-12)


@every_mode
def test_an_unfinished_or_spoilt_model_gets_its_distance(data, multiclass, loss):
    X, y = data
    settings = {"C": 0.5, "multiclass": multiclass, "loss": loss}
    optimum = KernelSVC(**settings, tol=1e-8).fit(X, y).certificate_
    with pytest.warns(NotCertifiedWarning):
        clf = KernelSVC(**settings, tol=0.0, max_iter=1).fit(X, y)
    assert certify(clf, X, y).residual == pytest.approx(clf.certificate_.residual, rel=1e-9)
    clf.dual_coef_ = clf.dual_coef_ * 1.3  # outside its set: the bound comes from the feasible point next to it
    spoilt = certify(clf, X, y)
    assert spoilt.bound <= optimum.primal * (1 + 1e-12)
    assert spoilt.primal >= optimum.bound
    assert np.isfinite(spoilt.bound)
    assert spoilt.residual > 0


@every_mode
def test_another_price_may_be_asked_about(data, multiclass, loss):
    X, y = data
    settings = {"multiclass": multiclass, "loss": loss, "tol": 1e-7}
    clf = KernelSVC(C=1.0, **settings).fit(X, y)
    other = certify(clf, X, y, C=0.2)
    optimum = KernelSVC(C=0.2, **settings).fit(X, y).certificate_
    assert other.bound <= optimum.primal
    assert other.primal >= optimum.bound
    assert other.residual > 1e-3


def test_other_data_are_refused(data):
    X, y = data
    clf = KernelSVC(tol=1e-2).fit(X, y)
    with pytest.raises(ValueError, match="90 samples, X has 80"):
        certify(clf, X[:80], y[:80])
    with pytest.raises(ValueError, match="4 features, X has 3"):
        certify(clf, X[:, :3], y)
    with pytest.raises(ValueError, match="does not hold the model's support vectors"):
        certify(clf, X[::-1], y[::-1])
    with pytest.raises(ValueError, match="label 7"):
        certify(clf, X, np.where(y == 0, 7, y))
    with pytest.raises(ValueError, match="leave out multiclass"):
        certify(clf, X, y, multiclass="crammer_singer")


# --- scikit-learn's SVC --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"kernel": "rbf"},
        {"kernel": "rbf", "gamma": "auto"},
        {"kernel": "linear", "C": 0.1},
        {"kernel": "poly", "coef0": 1.0, "degree": 2},
        {"kernel": product_kernel},
        {"kernel": "rbf", "class_weight": {"a": 5.0}},
        {"kernel": "rbf", "class_weight": "balanced", "C": 10.0},
    ],
)
def test_svc_of_two_classes_is_certified(pair, settings):
    X, y = pair
    labels = np.where(np.arange(len(y)) < 50, np.array(["a", "b"])[y], "b")
    weights = 1.0 + np.arange(len(y)) % 3
    good = certify(SVC(tol=1e-8, **settings).fit(X, labels, sample_weight=weights), X, labels, sample_weight=weights)
    poor = certify(SVC(tol=1.0, **settings).fit(X, labels, sample_weight=weights), X, labels, sample_weight=weights)
    assert 0 <= good.residual < 1e-6
    assert poor.residual > 1e-2
    assert poor.bound <= good.primal * (1 + 1e-12)
    assert poor.primal >= good.bound


def test_svc_on_sparse_rows_and_on_a_kernel_matrix(pair):
    X, y = pair
    for model, rows in (
        (SVC(tol=1e-8), sp.csr_array(X)),
        (SVC(tol=1e-8, kernel="precomputed"), rbf_kernel(X, X)),
    ):
        assert certify(model.fit(rows, y), rows, y).residual < 1e-6


@pytest.mark.parametrize("kernel", ["rbf", "linear", "precomputed"])
def test_svc_of_more_classes_is_the_sum_of_its_pairs(data, kernel):
    X, y = data
    rows = rbf_kernel(X, X) if kernel == "precomputed" else X
    settings = {"kernel": kernel, "gamma": 0.5, "tol": 1e-8, "class_weight": {0: 2.0, 1: 1.0, 2: 0.5}}
    whole = certify(SVC(**settings).fit(rows, y), rows, y)
    parts = []
    for c, e in ((0, 1), (0, 2), (1, 2)):
        mine = np.flatnonzero((y == c) | (y == e))
        pair = rows[mine][:, mine] if kernel == "precomputed" else rows[mine]
        own = {**settings, "class_weight": {c: settings["class_weight"][c], e: settings["class_weight"][e]}}
        parts.append(certify(SVC(**own).fit(pair, y[mine]), pair, y[mine]))
    assert whole.residual < 1e-6
    assert whole.primal == pytest.approx(sum(part.primal for part in parts), rel=1e-6)
    assert whole.bound == pytest.approx(sum(part.bound for part in parts), rel=1e-6)


def test_svc_on_other_data_or_before_a_fit_is_refused(pair):
    with pytest.raises(ValueError, match="Fit it first"):
        certify(SVC(), *pair)
    with pytest.raises(ValueError, match="does not hold the model's support vectors"):
        certify(SVC().fit(*pair), pair[0] + 1.0, pair[1])


def test_an_indefinite_kernel_is_told(pair):
    X, y = pair
    with pytest.warns(IndefiniteKernelWarning, match="no proof"):
        certify(SVC(kernel="sigmoid", gamma=2.0, coef0=0.5).fit(X, y), X, y)


# --- the judge of the hinge with a free bias -------------------------------------------------------------------


@pytest.fixture(scope="module")
def judged(pair):
    X, y = pair
    C = 0.2 + np.arange(len(y)) % 3
    problem = HingeSVM(Gram(kernel_of("rbf", gamma=0.5), X), 2.0 * y - 1.0, C=C)
    w, b = cp.Variable(len(y)), cp.Variable()
    root = np.linalg.cholesky(rbf_kernel(X, X, gamma=0.5) + 1e-10 * np.eye(len(y)))
    hinge = cp.pos(1 - cp.multiply(problem.y, root @ w + b))
    optimum = cp.Problem(cp.Minimize(cp.sum_squares(w) / 2 + C @ hinge)).solve(solver="CLARABEL")
    return problem, optimum


@pytest.mark.parametrize("seed", range(5))
def test_every_point_brackets_the_optimum(judged, seed):
    problem, optimum = judged
    rng = np.random.default_rng(seed)
    alpha = rng.normal(0.5, 0.5, len(problem.y)) * problem.C  # partly outside the box, and out of balance
    feasible, _ = balanced(np.clip(alpha, 0.0, problem.C), problem.y)
    assert feasible.min() >= 0
    assert (feasible <= problem.C).all()
    assert problem.y @ feasible == pytest.approx(0.0, abs=1e-12)
    for point in (BiasPoint(alpha, rng.normal()), BiasPoint(feasible, rng.normal())):
        certificate = problem.certificate(point)
        assert certificate.bound <= optimum + 1e-6
        assert certificate.primal >= optimum - 1e-6


def test_the_optimum_closes_the_gap(judged, pair):
    problem, optimum = judged
    X, y = pair
    model = SVC(C=1.0, gamma=0.5, tol=1e-9).fit(X, y, sample_weight=problem.C)
    alpha = np.zeros(len(y))
    alpha[model.support_] = np.abs(model.dual_coef_[0])
    certificate = problem.certificate(BiasPoint(alpha, float(model.intercept_[0])))
    assert certificate.residual < 1e-7
    assert certificate.primal == pytest.approx(optimum, rel=1e-6)
    assert problem.dual(alpha + 1e-3).value < optimum  # projected first
