"""The judge of multinomial regression: objective, dual bound, stationarity."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from reference.softmax_optimum import objective, softmax_optimum
from softmargin.core.errors import DataError
from softmargin.data import blobs
from softmargin.losses.multinomial import (
    LAST_STEP,
    balanced,
    best_intercept,
    cross_entropy,
    entropy,
    losses_and_softmax,
    off_label,
    one_hot,
    softmax,
)
from softmargin.penalties import L1, L2, ElasticNet
from softmargin.problems import Composite, CompositePoint, RidgeComposite, softmax_problem
from softmargin.problems.softmax_rows import ManyClasses, TwoClasses

CONVEX = {
    "l2": (L2(0.7), lambda W: 0.35 * cp.sum_squares(W)),
    "l1": (L1(0.6), lambda W: 0.6 * cp.sum(cp.abs(W))),
    "elastic net": (ElasticNet(0.3, 0.4), lambda W: 0.3 * cp.sum(cp.abs(W)) + 0.2 * cp.sum_squares(W)),
}


def small(k, seed=0):
    X, y = blobs(40, 5, k, seed=seed)
    C = np.random.default_rng(seed).random(40) + 0.1
    C[:3] = 0.0
    return X, y, C


def intercept_of(scores, y, C):
    losses, P = losses_and_softmax(scores, y)
    return best_intercept(scores, y, C, P, C @ losses)


def entropy_of(q, y):
    return entropy(*((1 - 2**-50) * part for part in off_label(q, y)))[0]


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("name", CONVEX)
@pytest.mark.parametrize("k", [2, 4])
def test_the_gap_vanishes_at_the_optimum_and_bounds_it_elsewhere(k, name, fit_intercept):
    X, y, C = small(k)
    penalty, expression = CONVEX[name]
    problem = softmax_problem(X, y, C=C, penalty=penalty, fit_intercept=fit_intercept)
    optimum, W, b = softmax_optimum(X, y, C, lambda V: (expression(V), []), n_classes=k, fit_intercept=fit_intercept)
    certificate = problem.certificate(CompositePoint(W, b))
    assert certificate.kind == "duality gap"
    assert certificate.residual <= 1e-6
    assert certificate.primal == pytest.approx(optimum, rel=1e-9)
    rng = np.random.default_rng(1)
    for size in (1e-3, 0.1, 10.0):
        moved = CompositePoint(W + size * rng.standard_normal(W.shape), b + (size if fit_intercept else 0.0))
        assert problem.certificate(moved).bound <= optimum * (1 + 1e-9)
        q = moved._replace(dual=rng.dirichlet(np.full(k, 0.2), len(y)))
        assert problem.certificate(q).bound <= optimum * (1 + 1e-9)


@pytest.mark.parametrize("k", [2, 4])
def test_of_two_dual_points_the_better_one_counts(k):
    """That of the solver where the weights are off, that of the weights where the solver's is."""
    X, y, C = small(k)
    penalty, expression = CONVEX["l2"]
    problem = softmax_problem(X, y, C=C, penalty=penalty)
    optimum, W, b = softmax_optimum(X, y, C, lambda V: (expression(V), []), n_classes=k)
    best = CompositePoint(W, b)
    moved = best._replace(weights=W + 0.1 * np.random.default_rng(0).standard_normal(W.shape))
    q = softmax(problem.scores(best))
    assert problem.certificate(moved).bound < 0.999 * optimum
    assert problem.certificate(moved._replace(dual=q)).bound == pytest.approx(optimum, rel=1e-6)
    poor = problem.certificate(best._replace(dual=np.full(q.shape, 1.0 / k)))
    assert poor.bound == problem.certificate(best).bound


@pytest.mark.parametrize("off", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("k", [2, 4])
def test_an_intercept_that_is_off_costs_the_bound_far_less_than_the_primal(k, off):
    X, y, C = small(k)
    penalty, expression = CONVEX["l2"]
    problem = softmax_problem(X, y, C=C, penalty=penalty)
    optimum, W, b = softmax_optimum(X, y, C, lambda V: (expression(V), []), n_classes=k)
    moved = b + off * np.eye(k)[-1][-len(b) :]
    certificate = problem.certificate(CompositePoint(W, moved))
    assert optimum - certificate.bound <= 1e-2 * (certificate.primal - optimum)


@pytest.mark.parametrize("k", [2, 3])
def test_the_primal_is_the_sum_of_losses_and_penalty(k):
    X, y, C = small(k)
    rng = np.random.default_rng(0)
    columns = 1 if k == 2 else k
    W, b = rng.standard_normal((5, columns)), rng.standard_normal(columns)
    for data in (X, csr_matrix(X), X.astype(np.float32)):
        problem = softmax_problem(data, y, C=C, penalty=L1(0.3))
        assert problem.primal(CompositePoint(W, b)).value == pytest.approx(
            objective(data, y, C, W, b, L1(0.3).value), rel=1e-12
        )


def test_a_quadratic_penalty_makes_a_smooth_problem():
    X, y, _ = small(3)
    assert isinstance(softmax_problem(X, y, penalty=L2(2.0)), RidgeComposite)
    assert softmax_problem(X, y, penalty=L2(2.0)).ridge == 2.0
    assert type(softmax_problem(X, y, penalty=ElasticNet(2.0, 1.0))) is Composite


def test_zero_has_the_best_intercept_of_zero_weights():
    X, y, C = small(3)
    problem = softmax_problem(X, y, C=C, penalty=L1(1e9))  # so strong that zero is the optimum
    assert problem.certificate(problem.zero()).residual <= 1e-12
    binary = softmax_problem(X, y == 1, C=C, penalty=L1(1e9))
    assert binary.certificate(binary.zero()).residual <= 1e-12


def test_without_a_penalty_the_certificate_is_stationarity():
    X, y, C = small(3)
    problem = softmax_problem(X, y, C=C, penalty=L2(0.0))
    certificate = problem.certificate(problem.zero())
    assert certificate.kind == "stationarity"
    assert certificate.residual == pytest.approx(1.0)  # the scale is the gradient at zero
    assert certificate.bound == -np.inf


def test_scores_that_overflow_are_no_proof():
    X, y, C = small(3)
    problem = softmax_problem(X, y, C=C, penalty=L2(1.0))
    point = problem.zero()
    point.weights[:] = np.nan
    assert not problem.certificate(point).meets(1e9)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("name", CONVEX)
def test_the_rough_residual_is_about_the_certificates_at_a_good_intercept(name, fit_intercept):
    X, y, C = small(4)
    penalty, expression = CONVEX[name]
    problem = softmax_problem(X, y, C=C, penalty=penalty, fit_intercept=fit_intercept)
    _, W, b = softmax_optimum(X, y, C, lambda V: (expression(V), []), n_classes=4, fit_intercept=fit_intercept)
    W = W * 0.99
    if fit_intercept:
        b = b + intercept_of(X @ W + b, y, C)[0]
    point = CompositePoint(W, b)
    P = softmax(X @ W + b)
    gradient = X.T @ (C[:, None] * (P - one_hot(y, 4)))
    certificate = problem.certificate(point)
    rough = problem.rough_residual(W, certificate.primal, gradient)
    assert 0.5 * certificate.residual <= rough <= 2.0 * certificate.residual


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), k=st.integers(2, 6), scale=st.sampled_from([0.1, 1.0, 30.0]))
def test_balanced_probabilities_give_every_class_its_mass(seed, k, scale):
    rng = np.random.default_rng(seed)
    n = 12
    y = rng.integers(0, k, n)
    C = rng.random(n) * rng.integers(0, 2, n) + (np.arange(n) == 0)
    off = balanced(off_label(softmax(scale * rng.standard_normal((n, k))), y)[0], y, C)
    q = off + (1.0 - off.sum(axis=1))[:, None] * one_hot(y, k)
    assert q.min() >= 0.0
    np.testing.assert_allclose(q.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(C @ q, np.bincount(y, weights=C, minlength=k), atol=1e-12 * n)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), k=st.integers(2, 6), scale=st.sampled_from([0.1, 1.0, 30.0]))
def test_the_best_intercept_has_a_gradient_far_below_the_square_of_the_last_step(seed, k, scale):
    rng = np.random.default_rng(seed)
    n = 30
    y = np.concatenate([np.arange(k), rng.integers(0, k, n - k)])
    C = rng.random(n) + 0.1
    scores = scale * rng.standard_normal((n, k))
    b, P = intercept_of(scores, y, C)
    np.testing.assert_allclose(P, softmax(scores + b), atol=1e-14)
    off = C @ (P - one_hot(y, k))
    loss = C @ cross_entropy(scores + b, y)
    # Flat where scores saturate: then no step lowers the losses by more than rounding.
    better = C @ cross_entropy(scores + b - 1e-3 * off, y)
    assert np.abs(off).max() <= 0.1 * LAST_STEP**2 * C.sum() or better >= loss * (1 - 1e-12)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), scale=st.sampled_from([0.01, 1.0, 100.0]))
def test_loss_and_entropy_are_conjugate(seed, scale):
    """l(s) - H(q) >= <q - e_y, s>, with equality at q = softmax(s)."""
    rng = np.random.default_rng(seed)
    scores = scale * rng.standard_normal((20, 5))
    y = rng.integers(0, 5, 20)
    q = rng.dirichlet(np.full(5, 0.3), size=20)
    inner = np.einsum("ic,ic->i", q - one_hot(y, 5), scores)
    slack = 1e-12 * (1 + np.abs(scores).max())
    assert (cross_entropy(scores, y) - entropy_of(q, y) >= inner - slack).all()
    P = softmax(scores)
    inner = np.einsum("ic,ic->i", P - one_hot(y, 5), scores)
    np.testing.assert_allclose(cross_entropy(scores, y) - entropy_of(P, y), inner, atol=slack)


def test_a_warm_start_of_another_shape_is_refused():
    X, y, _ = small(3)
    problem = softmax_problem(X, y, penalty=L2(1.0))
    with pytest.raises(DataError, match="warm start needs weights of shape"):
        problem.checked_point(CompositePoint(np.zeros((4, 3)), np.zeros(3)))


def test_the_fingerprint_tells_problems_apart():
    X, y, C = small(3)
    prints = {
        softmax_problem(X, y, C=C, penalty=penalty, fit_intercept=fit_intercept).fingerprint()
        for penalty in (L1(1.0), L2(1.0), L2(2.0))
        for fit_intercept in (True, False)
    }
    assert len(prints) == 6


def test_the_rough_residual_of_zero_weights_is_no_proof():
    """With l1 the dual point at zero is drawn far towards the labels, and that has its price."""
    X, y, C = small(3)
    problem = softmax_problem(X, y, C=C, penalty=L1(0.1))
    zero = problem.zero()
    P = softmax(problem.scores(zero))
    gradient = X.T @ (C[:, None] * (P - one_hot(y, 3)))
    certificate = problem.certificate(zero)
    assert certificate.residual > 0.1
    assert problem.rough_residual(zero.weights, certificate.primal, gradient) > 0.3 * certificate.residual


def test_prices_of_zero_leave_the_penalty_alone():
    X, y, _ = small(3)
    problem = softmax_problem(X, y, C=0.0, penalty=L2(1.0))
    assert problem.certificate(problem.zero()).residual <= 1e-12


def two_forms(seed, scale):
    """Return two classes as one number a sample and as any number of classes, one column of scores, and both."""
    rng = np.random.default_rng(seed)
    y, C, scores = rng.integers(0, 2, 30).astype(np.int32), rng.random(30), scale * rng.standard_normal((30, 1))
    y[:2] = 0, 1
    mass = np.bincount(y, weights=C, minlength=2)
    return TwoClasses(y, C, mass), ManyClasses(y, C, mass), scores, np.hstack([np.zeros((30, 1)), scores])


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), scale=st.sampled_from([1e-3, 1.0, 10.0]))
def test_two_classes_by_one_number_a_sample_are_two_of_many_classes(seed, scale):
    pair, many, column, both = two_forms(seed, scale)
    (loss, r), (expected, P) = pair.losses(column, np.zeros(30)), many.losses(both, np.zeros(30))
    assert loss.value == pytest.approx(expected.value, rel=1e-12)
    assert 0.0 < loss.error <= 2.0 * expected.error
    best, wanted = pair.at_best_intercept(column, r, loss.value), many.at_best_intercept(both, P, expected.value)
    assert best == pytest.approx(pair.off_label(wanted)[0], abs=1e-2)
    assert abs((pair.signed * best).sum()) <= 2e-2 * pair.C.sum()
    q = np.random.default_rng(seed).dirichlet([1.0, 1.0], 30)
    assert pair.divergence(q, column, r) == pytest.approx(many.divergence(q, both, P), rel=1e-9)
    off, rest = many.off_label(q)
    r, _ = pair.off_label(q)
    assert pair.pulls(r, r)[:, 0] == pytest.approx(many.pulls(off, rest)[:, 1])
    assert pair.entropies(r, r).value == pytest.approx(many.entropies(off, rest).value)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_a_balanced_dual_point_of_two_classes_pulls_neither_way(seed):
    pair, _, _, _ = two_forms(seed, 1.0)
    r, _ = pair.off_label(np.random.default_rng(seed).dirichlet([0.3, 0.3], 30))
    balanced, _ = pair.balanced(r, r)
    assert (balanced >= 0.0).all()
    assert (balanced <= r).all()
    assert abs(pair.pulls(balanced, balanced).sum()) <= 1e-14 * pair.C.sum()


@pytest.mark.parametrize("k", [2, 3])
def test_nothing_above_zero_is_proven_where_one_class_has_all_the_mass(k):
    """The least objective is 0: weights of 0, and an intercept that goes to infinity."""
    X, y, C = small(k)
    problem = softmax_problem(X, y, C=np.where(y == 0, C, 0.0), penalty=L2(0.7), n_classes=k)
    rng = np.random.default_rng(0)
    for size in (0.0, 0.1, 3.0):
        weights, dual = size * rng.standard_normal(problem.shape), rng.dirichlet(np.ones(k), len(y))
        assert problem.certificate(CompositePoint(weights, np.zeros(problem.shape[1]), dual)).bound <= 0.0
