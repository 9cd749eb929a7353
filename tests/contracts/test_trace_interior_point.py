"""The interior point method over the trace ball: steps are Newton's, low rank and raw features do not stop it."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from reference import ball_optimum
from softmargin import TraceBallClassifier, TraceBallRegressor
from softmargin.core.errors import IncompatibleError
from softmargin.data import blobs
from softmargin.estimators.posing.finishers import TUNING, finisher_of
from softmargin.losses.entrywise import ENTRYWISE
from softmargin.problems import BallPoint, Constrained
from softmargin.run import Status, Stop, solve
from softmargin.sets import TraceBall
from softmargin.solvers import LowRankGradient, LowRankNewton, TraceBallInteriorPoint
from softmargin.solvers.ball import trace_interior_point
from softmargin.solvers.ball._trace_barrier import Slack, TraceBarrier
from softmargin.solvers.ball.trace_interior_point import TraceInteriorTuning
from softmargin.testing import check_run

# Clarabel is asked for all the digits it can give, and says so.
pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
SOLVER = TraceBallInteriorPoint()


def raw(loss="smooth_hinge", radius=1.0, k=6, rank=2, n=150, d=12, l2=1e-4):
    """Features of sizes from 1e-2 to 1e4, and classes that two directions tell apart."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    scores = X @ rng.standard_normal((d, rank)) @ rng.standard_normal((rank, k)) + rng.standard_normal((n, k))
    target = np.where(np.arange(k) == scores.argmax(axis=1)[:, None], 1.0, -1.0)
    ball = TraceBall(radius)
    return Constrained(X * np.logspace(-2, 4, d), target, loss=ENTRYWISE[loss], ball=ball, l2=l2, fit_intercept=True)


def point_inside(rng, r, k, radius):
    """Draw W and a Q with T > 0."""
    W, root = rng.standard_normal((r, k)), rng.standard_normal((k, k))
    Q = root @ root.T + np.eye(k)
    least = radius - 0.5 * (np.trace(W @ np.linalg.solve(Q, W.T)) + np.trace(Q))
    share = 0.5 * radius / (radius - least)
    return share * W, share * Q


@pytest.mark.parametrize(("r", "k"), [(5, 3), (2, 4), (4, 1)])
def test_a_step_is_that_of_newton_where_the_multipliers_are_those_of_the_point(r, k):
    """With theta = mu / T and Y = mu Q^-1 the model has the second derivatives of the function: by differences."""
    rng = np.random.default_rng(r)
    radius, mu, l2 = 2.0, 0.3, 0.1
    W, Q = point_inside(rng, r, k, radius)
    roots = rng.standard_normal((k, 2 * r, r))
    H = np.einsum("cij,cil->cjl", roots, roots)
    right = rng.standard_normal((r, k))

    def slope_of_f(W):
        return np.einsum("cjl,lc->jc", H, W) + l2 * W - right

    def slopes(W, Q):
        """Return the slopes of F - mu log det Q - mu log T along W and Q."""
        inverse = np.linalg.inv(Q)
        A = W @ inverse
        T = radius - 0.5 * (np.vdot(A, W) + np.trace(Q))
        return slope_of_f(W) + mu / T * A, 0.5 * mu / T * (np.eye(k) - A.T @ A) - mu * inverse

    at = Slack.of(W, Q, radius)
    step = TraceBarrier(at, mu * np.linalg.inv(Q), mu / at.T, slope_of_f(W), H, l2).step(mu)
    small = 1e-6
    ahead, behind = (slopes(W + t * step.W, Q + t * step.Q) for t in (small, -small))
    here = slopes(W, Q)
    for after, before, now in zip(ahead, behind, here, strict=True):
        np.testing.assert_allclose((after - before) / (2.0 * small), -now, atol=1e-6)
    assert step.square == pytest.approx(-sum(np.vdot(now, D) for now, D in zip(here, step[:2], strict=True)))


@pytest.mark.parametrize(("r", "k", "theta"), [(5, 3, 0.7), (2, 4, 0.7)])
def test_a_step_meets_the_equations_of_the_multipliers(r, k, theta):
    """In first order theta T = mu, and Q Y = mu I in the scale of Nesterov and Todd, N Y N = Q."""
    rng = np.random.default_rng(r)
    radius, mu = 2.0, 0.3
    (W, Q), root = point_inside(rng, r, k, radius), rng.standard_normal((k, k))
    at, Y = Slack.of(W, Q, radius), root @ root.T + 0.1 * np.eye(k)
    step = TraceBarrier(at, Y, theta, rng.standard_normal((r, k)), np.stack([np.eye(r)] * k), 0.1).step(mu)
    fall = np.vdot(W @ np.linalg.inv(Q), step.W) + 0.5 * np.trace(step.Q)
    fall -= 0.5 * np.trace(np.linalg.solve(Q, W.T) @ W @ np.linalg.solve(Q, step.Q))
    assert theta * at.T + step.theta * at.T - theta * fall == pytest.approx(mu)
    values, V = np.linalg.eigh(Q)
    half = (V * np.sqrt(values)) @ V.T
    values, E = np.linalg.eigh(half @ Y @ half)
    N = half @ (E / np.sqrt(values)) @ E.T @ half
    np.testing.assert_allclose(N @ Y @ N, Q, atol=1e-10)
    np.testing.assert_allclose(N @ (Y + step.Y) @ N + step.Q, mu * N @ np.linalg.inv(Q) @ N, atol=1e-8)
    for matrix, change, room in ((Q, step.Q, step.room), (Y, step.Y, step.room_of_duals)):
        if np.isfinite(room):
            assert np.linalg.eigvalsh(matrix + 0.999 * room * change)[0] > 0.0
    assert theta + 0.999 * min(step.room_of_duals, 1e9) * step.theta > 0.0


def test_a_multiplier_that_falls_to_zero_ends_a_step():
    """Here Y is that of Q, and theta far too large."""
    radius, mu, theta = 2.0, 0.3, 1e4
    W, Q = point_inside(np.random.default_rng(0), 5, 3, radius)
    at, H = Slack.of(W, Q, radius), np.stack([1e6 * np.eye(5)] * 3)
    step = TraceBarrier(at, mu * np.linalg.inv(Q), theta, W, H, 0.1).step(mu)
    assert step.theta < 0.0
    assert step.room_of_duals <= -theta / step.theta * (1.0 + 1e-12)


def test_the_gap_at_the_minimum_for_mu_is_known():
    """(k + 1) mu, and no singular value of the slope exceeds theta."""
    problem = ball_optimum.make("logistic", "trace")
    solver = TraceBallInteriorPoint(tuning=TraceInteriorTuning(centred=0.0))
    state = solver.start(problem, None, np.random.default_rng(0))
    for _ in range(40):
        state = solver.step(problem, state)
    G = state.Z + problem.l2 * state.W
    values = np.linalg.svd(G, compute_uv=False)
    gap = float(np.vdot(G, state.W)) + problem.ball.radius * state.theta
    assert values[0] <= state.theta
    assert gap == pytest.approx((len(state.Q) + 1) * state.mu, rel=1e-6)


@pytest.mark.parametrize("loss", ball_optimum.LOSSES)
@pytest.mark.parametrize("form", [np.asarray, csr_matrix, lambda X: X[:6]], ids=["dense", "sparse", "wide"])
@pytest.mark.parametrize(("radius", "l2", "fit_intercept"), [(3.0, 0.01, True), (50.0, 0.01, True), (0.3, 0.0, False)])
def test_it_finds_the_optimum_in_few_steps(loss, form, radius, l2, fit_intercept):
    whole = ball_optimum.make(loss, "trace")
    X = form(whole.X)
    settings = {"loss": whole.loss, "ball": TraceBall(radius), "l2": l2, "fit_intercept": fit_intercept}
    problem = Constrained(X, whole.target[: X.shape[0]], **settings)
    result = solve(problem, SOLVER, stop=Stop(1e-7, 60))
    assert result.status is Status.CONVERGED
    assert result.certificate.primal == pytest.approx(ball_optimum.optimum(problem)[0], rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("k", [1, 3, 7])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_every_point_is_in_the_ball_and_every_bound_holds(loss, k):
    problem = ball_optimum.make(loss, "trace", k, fit_intercept=True)
    check_run(SOLVER, problem, tol=1e-8, max_iter=40, optimum=ball_optimum.optimum(problem)[0])


@pytest.mark.parametrize("loss", ["smooth_hinge", "logistic", "squared_hinge"])
@pytest.mark.parametrize("radius", [0.01, 1.0, 30.0])
def test_features_of_all_sizes_and_low_rank_take_few_steps(loss, radius):
    problem = raw(loss, radius)
    result = solve(problem, SOLVER, stop=Stop(1e-6, 60))
    assert result.status is Status.CONVERGED
    slow = solve(problem, LowRankGradient(), stop=Stop(1e-6, 600)).certificate
    assert slow.residual > 1e-3
    assert slow.primal >= result.certificate.bound


def test_the_optimum_has_singular_values_that_are_zero_where_newton_steps_without_a_barrier_do_not_end():
    problem = raw()
    result = solve(problem, SOLVER, stop=Stop(1e-6, 60))
    s = np.linalg.svd(result.point.weights, compute_uv=False)
    assert s[-1] < 1e-4 * s[0]
    assert solve(problem, LowRankNewton(), stop=Stop(1e-3, 600)).status is Status.MAX_ITER


DEGENERATE = {
    "constant": lambda X: np.hstack([X, np.ones((len(X), 1)), np.zeros((len(X), 1))]),
    "repeated": lambda X: np.hstack([X, X, 1e3 * X]),
    "rank one": lambda X: X[:, :1] * np.logspace(-3, 3, 8),
    "one feature": lambda X: X[:, :1],
    "one sample": lambda X: X[:1],
    "equal samples": lambda X: np.repeat(X[:5], 12, axis=0),
}


@pytest.mark.parametrize("form", DEGENERATE.values(), ids=DEGENERATE)
@pytest.mark.parametrize("l2", [0.0, 1e-3])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_degenerate_data_end(form, l2, fit_intercept):
    whole = ball_optimum.make("logistic", "trace", 4)
    X = form(whole.X)
    target = np.where(np.random.default_rng(0).random((len(X), 4)) < 0.5, 1.0, -1.0)
    problem = Constrained(X, target, loss=whole.loss, ball=TraceBall(1.0), l2=l2, fit_intercept=fit_intercept)
    result = solve(problem, SOLVER, stop=Stop(1e-6, 60))
    assert result.status is Status.CONVERGED
    assert result.certificate.primal == pytest.approx(ball_optimum.optimum(problem)[0], rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("radius", [1e-6, 1e6, 1e100])
@pytest.mark.parametrize("loss", ["smooth_hinge", "squared"])
def test_tiny_and_huge_radius(loss, radius):
    small = ball_optimum.make(loss, "trace")
    problem = Constrained(small.X, small.target, loss=small.loss, ball=TraceBall(radius), l2=0.1)
    result = solve(problem, SOLVER, stop=Stop(1e-6, 60))
    assert result.status is Status.CONVERGED
    assert problem.is_inactive(result.point) == (radius > 1.0)


@pytest.mark.parametrize("scale", [1e-4, 1e4])
def test_scale_of_the_features_does_not_matter(scale):
    """W / scale in a ball of radius / scale with l2 * scale^2: the same problem."""
    one = ball_optimum.make("squared", "trace")
    ball = TraceBall(one.ball.radius / scale)
    problem = Constrained(scale * one.X, one.target, loss=one.loss, ball=ball, l2=one.l2 * scale**2)
    found = [solve(p, SOLVER, stop=Stop(1e-7, 40)) for p in (one, problem)]
    assert found[0].n_iter == found[1].n_iter
    assert found[1].certificate.primal == pytest.approx(found[0].certificate.primal, rel=1e-9)


def test_data_of_nothing_give_weights_of_nothing():
    target = ball_optimum.make("logistic", "trace").target
    problem = Constrained(np.zeros((60, 8)), target, loss=ENTRYWISE["logistic"], ball=TraceBall(1.0), l2=0.1)
    result = solve(problem, SOLVER, stop=Stop(1e-6, 5))
    assert result.status is Status.CONVERGED
    assert not result.point.weights.any()


def test_a_step_without_any_slope_stays():
    problem = Constrained(np.zeros((4, 2)), np.ones((4, 2)), loss=ENTRYWISE["squared"], ball=TraceBall(1.0), l2=0.0)
    state = SOLVER.step(problem, SOLVER.start(problem, None, np.random.default_rng(0)))
    assert not state.W.any()
    assert state.theta == 0.0


def test_a_start_at_the_optimum_is_not_left_before_the_first_step():
    problem = raw()
    first = solve(problem, SOLVER, stop=Stop(1e-6, 60))
    again = solve(problem, SOLVER, stop=Stop(1e-6, 60), init=first.point)
    assert again.n_iter == 0
    assert solve(problem, SOLVER, stop=Stop(1e-9, 60), init=first.point).status is Status.CONVERGED


def test_auto_hands_over_where_gradient_steps_stall():
    problem = raw()
    fit = TraceBallClassifier(tol=1e-6).fit(problem.X, problem.target.argmax(axis=1))
    assert fit.status_ == "converged"
    assert fit.trace_[-1].solver == "TraceBallInteriorPoint"
    X, y = blobs(300, 8, 3, seed=0, separation=1.0)
    gentle = TraceBallClassifier().fit(X, y)
    assert gentle.status_ == "converged"
    assert gentle.trace_[-1].solver == "LowRankGradient"


def test_a_regression_of_several_targets_hands_over():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 10)) * np.logspace(-2, 4, 10)
    Y = X[:, :5] @ rng.standard_normal((5, 1)) @ np.ones((1, 4)) + rng.standard_normal((100, 4))
    fit = TraceBallRegressor(1.0, tol=1e-6).fit(X, Y)
    assert fit.status_ == "converged"
    assert fit.trace_[-1].solver == "TraceBallInteriorPoint"


def test_where_a_factor_of_all_unknowns_is_dear_other_newton_steps_finish():
    for k, name in ((3, "interior_point"), (30, "newton_cg")):
        target = np.ones((200, k))
        problem = Constrained(np.ones((200, 100)), target, loss=ENTRYWISE["logistic"], ball=TraceBall(1.0), l2=0.0)
        finisher = finisher_of(problem, "accelerated_gradient")
        assert finisher.name == name
        assert finisher.patience > TUNING.steps


def test_what_it_is_not_made_for_is_refused(monkeypatch):
    for problem, message in (
        (ball_optimum.make("logistic", "l1"), r"TraceBallInteriorPoint needs a set of kind TraceBall"),
        (ball_optimum.make("multinomial", "trace"), r"loss of every score by itself.*Use LowRankGradient"),
    ):
        with pytest.raises(IncompatibleError, match=message):
            solve(problem, SOLVER, stop=Stop(1e-3, 3))
    monkeypatch.setattr(trace_interior_point, "MOST_UNKNOWNS", 10)
    with pytest.raises(IncompatibleError, match=r"here 93; more than 10 are too many\. Use LowRankNewton"):
        solve(raw(), SOLVER, stop=Stop(1e-3, 3))


def test_the_point_is_of_low_rank_and_on_the_boundary_where_that_costs_nothing():
    problem = ball_optimum.make("squared", "trace", 7, fit_intercept=True)
    state = SOLVER.start(problem, None, np.random.default_rng(0))
    for _ in range(12):
        state = SOLVER.step(problem, state)
    point = SOLVER.point(problem, state)
    assert np.linalg.matrix_rank(state.W, tol=1e-9) == 7
    assert np.linalg.matrix_rank(point.weights, tol=1e-9) == 3
    assert problem.is_inactive(BallPoint(state.W, state.intercept))
    assert not problem.is_inactive(point)
    assert problem.certificate(point).residual <= state.gap


def test_a_point_that_would_be_worse_on_the_boundary_stays_inside():
    """And the estimator does not take it for one that the ball does not hold."""
    problem = raw()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = TraceBallClassifier(solver="interior_point").fit(problem.X, problem.target.argmax(axis=1))
    assert np.linalg.svd(fit.coef_, compute_uv=False).sum() < 1.0 - 1e-5
    assert fit.is_on_boundary_


def test_steps_beyond_rounding_do_no_harm():
    problem = ball_optimum.make("smooth_hinge", "trace", fit_intercept=True)
    result = solve(problem, SOLVER, stop=Stop(0.0, 80))
    assert result.certificate.residual < 1e-11


def test_mu_does_not_fall_below_rounding(monkeypatch):
    """Where steps have no length at all, a lower mu leads nowhere."""
    problem, step = raw(), TraceBarrier.step
    monkeypatch.setattr(TraceBarrier, "step", lambda self, mu: step(self, mu)._replace(square=0.0))
    state = SOLVER.step(problem, SOLVER.start(problem, None, np.random.default_rng(0)))
    assert 0.0 < state.mu < 1e-15
