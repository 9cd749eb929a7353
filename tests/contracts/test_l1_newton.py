"""Newton's method over the l1 ball: its models against Clarabel, and data whose features have all sizes."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from reference import ball_optimum
from softmargin import L1BallClassifier
from softmargin.core.errors import IncompatibleError
from softmargin.data import blobs
from softmargin.estimators.posing.finishers import finisher_of
from softmargin.losses.entrywise import ENTRYWISE
from softmargin.problems import Constrained
from softmargin.problems.constrained import BallPoint
from softmargin.run import Status, Stop, solve
from softmargin.sets import L1Ball
from softmargin.solvers import BallGradient, L1BallNewton
from softmargin.solvers.ball import l1_newton
from softmargin.solvers.ball._class_hessian import class_hessian
from softmargin.solvers.ball._l1_model import PathTuning, least_in_l1_ball
from softmargin.testing import check_run


def model(seed, d=6, k=2, rank=None, span=3.0):
    """Draw blocks of features whose sizes span some powers of ten, and a right-hand side."""
    rng = np.random.default_rng(seed)
    sizes = 10.0 ** rng.uniform(-span, span, d)
    roots = [rng.standard_normal((rank or 2 * d, d)) * sizes for _ in range(k)]
    return [root.T @ root for root in roots], rng.standard_normal((d, k)) * sizes[:, None]


def value(H, right, v):
    return sum(0.5 * w @ block @ w for block, w in zip(H, v.T, strict=True)) - float(np.vdot(right, v))


def assert_least(H, right, radius, v, tol=1e-9):
    """Bound how far v is from the least value by the gap of Frank and Wolfe."""
    G = np.stack([block @ w for block, w in zip(H, v.T, strict=True)], axis=1) - right
    assert np.abs(v).sum() <= radius * (1.0 + 1e-12)
    gap = float(np.vdot(G, v)) + radius * np.abs(G).max()
    assert gap <= tol * (abs(value(H, right, v)) + radius * np.abs(right).max())


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 4), st.floats(-6.0, 3.0))
def test_a_path_ends_at_the_least_value_of_the_ball(seed, d, k, size):
    H, right = model(seed, d, k, span=2.0)
    assert_least(H, right, 10.0**size, least_in_l1_ball(H, right, 10.0**size))


@pytest.mark.parametrize("radius", [0.05, 0.5, 50.0])
def test_the_least_value_is_that_of_clarabel(radius):
    H, right = model(1, span=0.0)
    v = cp.Variable(right.shape)
    quadratic = sum(0.5 * cp.quad_form(v[:, c], cp.psd_wrap(H[c])) for c in range(2))
    reference = cp.Problem(cp.Minimize(quadratic - cp.sum(cp.multiply(right, v))), [cp.sum(cp.abs(v)) <= radius])
    reference.solve(solver="CLARABEL")
    found = least_in_l1_ball(H, right, radius)
    np.testing.assert_allclose(found, v.value, atol=1e-6)
    assert (np.abs(found).sum() < 0.9 * radius) == (radius == 50.0)  # the last one lies inside


def test_zeros_of_the_path_are_exact():
    H, right = model(3, d=20, k=3, span=1.0)
    v = least_in_l1_ball(H, right, 1e-2)
    assert 0 < (v != 0.0).sum() < 30


def test_repeated_features_do_not_stop_a_path():
    H, right = model(4, d=5, k=1, span=0.0)
    twice = np.repeat(np.arange(5), 2)
    H, right = [H[0][np.ix_(twice, twice)]], right[twice]
    for radius in (0.01, 1.0, 100.0):
        assert_least(H, right, radius, least_in_l1_ball(H, right, radius), tol=1e-6)


def test_a_path_without_slopes_stays_at_zero():
    H, right = model(5)
    assert not least_in_l1_ball(H, 0.0 * right, 10.0).any()


def test_a_path_that_is_cut_off_stays_in_the_ball():
    H, right = model(6, d=8, k=2, span=1.0)
    assert np.abs(least_in_l1_ball(H, right, 1e-3, PathTuning(most_events=0))).sum() <= 1e-3


@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
@pytest.mark.parametrize("is_centred", [False, True])
def test_a_hessian_is_that_of_the_losses(form, is_centred):
    rng = np.random.default_rng(0)
    X, h = rng.standard_normal((30, 4)), rng.random(30) * (rng.random(30) < 0.6)
    expected = X.T @ (h[:, None] * X)
    if is_centred:
        expected -= np.outer(h @ X, h @ X) / h.sum()
    np.testing.assert_allclose(class_hessian(form(X), h, is_centred=is_centred), expected, atol=1e-12)
    assert not class_hessian(form(X), 0.0 * h, is_centred=is_centred).any()


def test_a_centred_hessian_keeps_its_digits_where_features_are_far_from_zero():
    rng = np.random.default_rng(1)
    X, h = rng.integers(-50, 50, (40, 3)) / 64.0, rng.random(40)
    near, far = (class_hessian(X + shift, h, is_centred=True) for shift in (0.0, 2.0**24))
    np.testing.assert_allclose(far, near, rtol=1e-6)


@pytest.mark.parametrize(("k", "fit_intercept"), [(1, False), (1, True), (3, True)])
@pytest.mark.parametrize("loss", ball_optimum.LOSSES)
def test_it_finds_the_optimum_in_few_steps(loss, k, fit_intercept):
    problem = ball_optimum.make(loss, "l1", k, fit_intercept=fit_intercept)
    check_run(L1BallNewton(), problem, tol=1e-8, max_iter=25, optimum=ball_optimum.optimum(problem)[0])


@pytest.mark.parametrize("form", list(ball_optimum.FORMS.values()))
def test_every_form_of_x_gives_the_same(form):
    problem = ball_optimum.make("logistic", "l1", 3, form=form, fit_intercept=True)
    plain = ball_optimum.make("logistic", "l1", 3, fit_intercept=True)
    found = [solve(p, L1BallNewton(), stop=Stop(1e-10, 30)).certificate.primal for p in (problem, plain)]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)


def raw(loss="smooth_hinge", n=300, radius=0.5, seed=0):
    """Overlapping classes, features of sizes from 1e-2 to 1e4."""
    X, y = blobs(n, 8, 3, seed=seed, separation=1.0)
    target = np.where(np.arange(3) == y[:, None], 1.0, -1.0)
    X = X * np.logspace(-2, 4, 8)
    return Constrained(X, target, loss=ENTRYWISE[loss], ball=L1Ball(radius), l2=0.0, fit_intercept=True)


@pytest.mark.parametrize("loss", ["smooth_hinge", "logistic", "squared_hinge"])
@pytest.mark.parametrize("radius", [0.3, 3.0, 30.0])
def test_features_of_all_sizes_take_few_steps(loss, radius):
    problem = raw(loss, radius=radius)
    result = solve(problem, L1BallNewton(), stop=Stop(1e-6, 40))
    assert result.status is Status.CONVERGED
    slow = solve(problem, BallGradient(), stop=Stop(1e-6, 400)).certificate
    assert slow.residual > 1e-2
    assert slow.primal >= result.certificate.bound


def test_auto_hands_over_where_gradient_steps_stall():
    X, y = blobs(300, 8, 2, seed=0, separation=1.0)
    fit = L1BallClassifier(0.5, tol=1e-6).fit(X * np.logspace(-2, 4, 8), y)
    assert fit.status_ == "converged"
    assert fit.trace_[-1].solver == "L1BallNewton"
    gentle = L1BallClassifier(0.5).fit(X, y)
    assert gentle.status_ == "converged"
    assert gentle.trace_[-1].solver != "L1BallNewton"


def test_wide_data_and_losses_of_rows_have_no_finisher():
    problem = raw()
    assert finisher_of(problem, "working_set").name == "newton"
    wide = Constrained(np.ones((5, 900)), np.ones(5), loss=ENTRYWISE["logistic"], ball=L1Ball(1.0), l2=0.0)
    assert finisher_of(wide, "working_set") is None
    assert finisher_of(ball_optimum.make("multinomial", "l1"), "working_set") is None


def test_models_get_stiffer_where_f_does_not_fall(monkeypatch):
    problem, solver = raw(), L1BallNewton()
    state = solver.step(problem, solver.start(problem, None, np.random.default_rng(0)))
    assert state.ridge == solver.tuning.ridge
    monkeypatch.setattr(l1_newton, "least_in_l1_ball", lambda H, right, radius, tuning: state.W)
    assert solver.step(problem, state).ridge == solver.tuning.growth * solver.tuning.ridge


def test_models_without_curvature_have_a_minimum():
    """Where every sample is on the straight part of its loss, H is zero but for a trace of the squares of features."""
    X, wrong = np.ones((4, 2)) * [1.0, 1e3], BallPoint(np.array([[-5.0], [-1.0]]), np.zeros(1))
    problem = Constrained(X, np.ones(4), loss=ENTRYWISE["smooth_hinge"], ball=L1Ball(10.0), l2=0.0)
    solver = L1BallNewton()
    state = solver.start(problem, wrong, np.random.default_rng(0))
    block = solver._hessians(problem, state)[0]
    assert (np.diagonal(block) > 0.0).all()
    assert np.abs(block).max() < 1e-12
    before = state.primal(problem)
    assert solver.step(problem, state).primal(problem) < before


def test_what_it_is_not_made_for_is_refused(monkeypatch):
    for problem, message in (
        (ball_optimum.make("logistic", "trace"), r"L1BallNewton needs a set of kind L1Ball"),
        (ball_optimum.make("multinomial", "l1"), r"loss of every score by itself.*Use BallGradient"),
    ):
        with pytest.raises(IncompatibleError, match=message):
            solve(problem, L1BallNewton(), stop=Stop(1e-3, 3))
    monkeypatch.setattr(l1_newton, "MOST_NUMBERS", 10.0)
    with pytest.raises(IncompatibleError, match=r"3 of 8 x 8.*Use BallWorkingSet"):
        solve(raw(), L1BallNewton(), stop=Stop(1e-3, 3))
