"""Proofs that an attack broke once: uncentred data, other intercepts, wrong signs, crossing bounds, rounding."""

import numpy as np
import pytest

from attack import exact
from softmargin import KernelSVC, LinearSVC, certify
from softmargin.core.rounding import UNIT
from softmargin.kernels import Rbf
from softmargin.kernels.points import Points
from softmargin.matrices.gram import Gram

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def three_classes(n=80):
    rng = np.random.RandomState(0)
    X = rng.randn(n, 3)
    return X, np.argmax(X + 0.5 * rng.randn(n, 3), axis=1)


@pytest.mark.parametrize("gamma", [0.3, 3.0])
@pytest.mark.parametrize("offset", [1e3, 1e6, 1e7, 1e8, 1e9])
def test_a_distance_kernel_does_not_feel_an_offset(offset, gamma):
    X, y = three_classes()
    moved = X + offset
    settings = {"gamma": gamma, "tol": 1e-6, "random_state": 0}
    plain = KernelSVC(**settings).fit(moved - offset, y)  # the offset costs digits of X itself: compare what is left
    far = KernelSVC(**settings).fit(moved, y)
    assert far.status_ == "converged"
    assert far.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=1e-5)
    assert far.certificate_.bound <= plain.certificate_.primal
    np.testing.assert_allclose(far.decision_function(moved), plain.decision_function(moved - offset), atol=1e-2)


def test_two_clusters_far_apart_keep_their_digits():
    X, y = three_classes()
    far = np.where(np.arange(80)[:, None] % 2 == 0, X, X + 1e9)
    found = KernelSVC(gamma=0.3, tol=1e-6, random_state=0).fit(far, y)
    halves = [KernelSVC(gamma=0.3, tol=1e-6, fit_intercept=False).fit(X[i::2], y[i::2]).certificate_ for i in (0, 1)]
    alone = KernelSVC(gamma=0.3, tol=1e-6, fit_intercept=False).fit(far, y).certificate_
    assert found.status_ == "converged"
    assert alone.primal == pytest.approx(halves[0].primal + halves[1].primal, rel=1e-5)  # K is 0 between them


@pytest.mark.parametrize("distance", [1e5, 1e8])
def test_values_of_an_rbf_kernel_are_within_their_allowance(distance):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((12, 4)) + np.where(np.arange(12)[:, None] % 2 == 0, 0.0, distance)
    gram = Gram(Rbf(3.0), X)
    judged = gram.judged(np.eye(12), 0)
    true = np.array([[float(v) for v in row] for row in exact.gram(Rbf(3.0), X, 0.0)])
    allowed = judged.errors.rows @ judged.errors.slope + judged.errors.level
    assert (np.abs(judged.scores - true) <= allowed + 1e-16).all()
    assert allowed.max() < 1e-9


def test_points_that_were_moved_are_charged_for_it():
    kernel, points = Rbf(3.0), Points(np.random.default_rng(6).standard_normal((12, 4)) + 1e3)
    moved = points.moved(kernel.origin(points))
    more = kernel.errors(moved).rows - kernel.errors(Points(moved.X)).rows
    slope = np.sqrt(2.0 * kernel.gamma / np.e)  # the steepest e^(-gamma d^2) is
    rounded = UNIT * np.sqrt(moved.sqnorms)  # how far a rounding of every coordinate moves a point
    np.testing.assert_allclose(more, slope * rounded, rtol=1e-3)


@pytest.mark.parametrize(
    "settings",
    [{}, {"multiclass": "crammer_singer"}, {"multiclass": "one_vs_rest"}, {"fit_intercept": False}],
    ids=lambda settings: ",".join(settings) or "default",
)
def test_certify_judges_the_intercept_that_predicts(settings):
    X, y = three_classes()
    model = KernelSVC(tol=1e-4, **settings).fit(X, y)
    assert certify(model, X, y).residual <= 1e-4
    model.intercept_ = model.intercept_ + np.array([100.0, 0.0, 0.0])
    assert certify(model, X, y).residual > 0.9


def test_duals_of_the_wrong_sign_prove_nothing_at_any_price():
    X, y = three_classes(20)
    model = KernelSVC(gamma=0.5, tol=1e-4).fit(X, y)
    model.dual_coef_ = -1e-3 * model.dual_coef_
    certificate = certify(model, X, y, C=1e12)
    assert certificate.residual > 0.9


@pytest.mark.parametrize("solver", ["scs", "auto"])
def test_a_bound_never_passes_the_primal_value(solver):
    rng = np.random.RandomState(3)
    X = rng.randn(60, 4)
    y = (X[:, 0] + 0.5 * rng.randn(60) > 0).astype(int)
    model = KernelSVC(kernel="linear", solver=solver, random_state=0, max_iter=300).fit(X + 1e9, y)
    assert model.certificate_.bound <= model.certificate_.primal
    assert model.status_ != "converged"
    tiny = LinearSVC(C=1e-170, loss="squared_hinge", multiclass="one_vs_rest").fit(X, y)
    assert 0.0 < tiny.certificate_.bound <= tiny.certificate_.primal


def test_rounding_beyond_the_tolerance_is_said():
    X, y = three_classes()
    model = LinearSVC(C=1e8, tol=1e-15, max_iter=200, loss="squared_hinge", multiclass="one_vs_rest").fit(X, y)
    assert model.status_ == "limited by rounding"
    assert model.certificate_.rounding > 1e-15
