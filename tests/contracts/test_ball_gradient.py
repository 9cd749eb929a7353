"""Gradient steps over a ball, on all features and on a working set, reach the optimum of CVXPY."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_matrix

from reference.ball_optimum import FORMS, LOSSES, make, optimum, samples
from softmargin.core.errors import IncompatibleError
from softmargin.losses.entrywise import ENTRYWISE
from softmargin.matrices.rows import as_rows
from softmargin.problems import BallPoint, Constrained
from softmargin.run import Status, Stop, solve
from softmargin.sets import Box, L1Ball, Simplex, TraceBall
from softmargin.solvers.ball._objective import fill_adjoint, fill_scores
from softmargin.solvers.ball._products import add_rows
from softmargin.solvers.ball.accelerated_gradient import BallGradient, BallGradientTuning
from softmargin.solvers.ball.working_set import BallWorkingSet

pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # CVXPY was asked for all it can give
SOLVERS = {"gradient": BallGradient(), "set": BallWorkingSet()}
SOME = np.tile([0.0, 0.01, 0.03], 20)
every_solver = pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
every_loss = pytest.mark.parametrize("loss", LOSSES)


def fit(problem, solver, *, tol=1e-8, max_iter=5000, **more):
    return solve(problem, solver, stop=Stop(tol, max_iter), rng=0, **more)


def wide(seed=0, n=40, d=900, **settings):
    """Return a problem with many features, few of which matter, so that a working set has something to leave out."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.3)
    target = np.where(X[:, 0] - X[:, 1] + 0.1 * rng.standard_normal(n) > 0.0, 1.0, -1.0)
    settings = {"loss": ENTRYWISE["smooth_hinge"], "ball": L1Ball(1.0), "l2": 0.01} | settings
    return Constrained(csr_matrix(X), target, **settings)


@every_solver
@every_loss
@pytest.mark.parametrize("l2", [0.1, 0.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("k", [1, 3])
def test_solver_reaches_the_optimum_of_cvxpy(solver, loss, l2, fit_intercept, k):
    problem = make(loss, k=k, l2=l2, fit_intercept=fit_intercept)
    value, W, b = optimum(problem)
    result = fit(problem, solver)
    assert result.status is Status.CONVERGED
    assert result.certificate.primal == pytest.approx(value, rel=2e-8)
    assert result.certificate.bound <= value * (1 + 1e-7)
    np.testing.assert_allclose(result.point.weights, W, atol=2e-3)
    np.testing.assert_allclose(result.point.intercept, b, atol=2e-3)


@every_solver
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_every_form_of_X_gives_the_same_run(solver, form, fit_intercept):
    first = fit(make(k=3, fit_intercept=fit_intercept), solver)
    other = fit(make(k=3, form=FORMS[form], fit_intercept=fit_intercept), solver)
    assert other.status is Status.CONVERGED
    np.testing.assert_allclose(other.point.weights, first.point.weights, atol=1e-5)


@every_solver
@every_loss
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_weights_of_samples_count(solver, loss, fit_intercept):
    problem = make(loss, weights=SOME, fit_intercept=fit_intercept)
    result = fit(problem, solver)
    assert result.status is Status.CONVERGED
    assert result.certificate.primal == pytest.approx(optimum(problem)[0], rel=1e-7)


@pytest.mark.parametrize("ball", [Simplex(2.0), Box(-0.2, 0.3)], ids=["simplex", "box"])
@pytest.mark.parametrize("l2", [0.1, 0.0])
def test_other_sets_have_their_optimum(ball, l2):
    X, target = samples("smooth_hinge")
    problem = Constrained(X, target, loss=ENTRYWISE["smooth_hinge"], ball=ball, l2=l2, fit_intercept=True)
    result = fit(problem, SOLVERS["gradient"])
    assert result.status is Status.CONVERGED
    assert ball.size(result.point.weights) <= 1 + 1e-9
    rng = np.random.default_rng(0)
    for _ in range(50):
        W = ball.project(result.point.weights + 0.05 * rng.standard_normal(problem.shape))
        assert problem.primal(BallPoint(W, result.point.intercept)).upper >= result.certificate.primal - 1e-9


@every_solver
def test_large_ball_does_not_touch_the_solution(solver):
    X, target = samples("squared")
    problem = Constrained(X, target, loss=ENTRYWISE["squared"], ball=L1Ball(1e6), l2=0.1)
    result = fit(problem, solver, tol=1e-12)
    ridge = np.linalg.solve(X.T @ X / len(X) + 0.1 * np.eye(X.shape[1]), X.T @ target / len(X))
    np.testing.assert_allclose(result.point.weights, ridge, atol=1e-5)
    assert problem.is_inactive(result.point)


AWKWARD = {
    "zeros": np.zeros((5, 3)),
    "zero columns": np.hstack([np.zeros((5, 2)), np.arange(5.0)[:, None] - 2.0]),
    "large numbers": 1e3 * (np.arange(15.0).reshape(5, 3) - 7.0),
}


@every_solver
@pytest.mark.parametrize("name", AWKWARD)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("radius", [1.0, 1e-8])
def test_awkward_data_are_certified(solver, name, fit_intercept, radius):
    X, target = AWKWARD[name], np.array([1.0, 1.0, -1.0, 1.0, -1.0])
    for form in (np.asarray, csr_matrix):
        for l2 in (0.1, 0.0):
            settings = {"loss": ENTRYWISE["smooth_hinge"], "ball": L1Ball(radius), "l2": l2}
            result = fit(Constrained(form(X), target, fit_intercept=fit_intercept, **settings), solver)
            assert result.status is Status.CONVERGED


@every_solver
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_one_sample_is_enough(solver, fit_intercept):
    problem = Constrained(
        np.ones((1, 2)), [1.0], loss=ENTRYWISE["smooth_hinge"], ball=L1Ball(3.0), l2=0.1, fit_intercept=fit_intercept
    )
    result = fit(problem, solver)
    # Without an intercept both weights are w with l2 w = 1 - 2 w.
    expected = 0.0 if fit_intercept else 1.0 / 2.1
    np.testing.assert_allclose(result.point.weights, expected, atol=1e-4)


@every_solver
def test_first_point_outside_the_ball_is_projected(solver):
    problem = make()
    state = solver.start(problem, BallPoint(np.full(problem.shape, 9.0), np.zeros(1)), np.random.default_rng(0))
    assert problem.ball.size(solver.point(problem, state).weights) <= 1 + 1e-12


@every_solver
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("l2", [0.01, 0.0])
def test_few_weights_among_many_features_are_found(solver, fit_intercept, l2):
    problem = wide(fit_intercept=fit_intercept, l2=l2)
    result = fit(problem, solver)
    assert result.status is Status.CONVERGED
    assert result.certificate.primal == pytest.approx(optimum(problem)[0], rel=1e-7)


def test_rounds_go_on_while_the_set_is_small():
    problem, solver = wide(), SOLVERS["set"]
    state = solver.start(problem, None, np.random.default_rng(0))
    for _ in range(5):
        state = solver.step(problem, state)
    assert not state.is_plain
    assert fit(problem, solver).n_iter < 20 < fit(problem, SOLVERS["gradient"]).n_iter


def test_set_that_is_not_small_is_given_up():
    problem, solver = wide(l2=1.0, ball=L1Ball(1e6)), SOLVERS["set"]
    state = solver.start(problem, None, np.random.default_rng(0))
    for _ in range(3):
        state = solver.step(problem, state)
    assert state.is_plain
    assert np.mean(fit(problem, solver).point.weights != 0.0) > solver.tuning.largest_share


@every_solver
def test_steps_stay_inside_the_ball(solver):
    problem = make(k=3, l2=0.0, fit_intercept=True)
    state = solver.start(problem, None, np.random.default_rng(0))
    for _ in range(20):
        state = solver.step(problem, state)
        assert problem.ball.size(solver.point(problem, state).weights) <= 1 + 1e-12


def test_set_of_another_kind_is_refused():
    X, target = samples("smooth_hinge")
    settings = {"loss": ENTRYWISE["smooth_hinge"], "l2": 0.1}
    with pytest.raises(IncompatibleError, match=r"needs a set of kind L1Ball or Simplex or Box.*Use LowRankGradient"):
        fit(Constrained(X, target, ball=TraceBall(1.0), **settings), SOLVERS["gradient"])
    with pytest.raises(IncompatibleError, match=r"BallWorkingSet needs a set of kind L1Ball.*Use BallGradient"):
        fit(Constrained(X, target, ball=Box(0.0, 1.0), **settings), SOLVERS["set"])


@given(
    V=arrays(np.float64, st.integers(1, 30), elements=st.floats(-1e3, 1e3, allow_subnormal=False)),
    radius=st.floats(1e-6, 1e4),
    guess=st.floats(0.0, 2e3),
)
def test_level_is_that_of_the_nearest_point_from_any_guess(V, radius, guess):
    ball, out = L1Ball(radius), np.empty_like(V)
    ball.shrink_into(V, ball.level(V, guess), 1.0, out)
    assert np.abs(out).sum() <= radius * (1 + 1e-14)
    np.testing.assert_allclose(out, ball.project(V), atol=1e-9 * max(1.0, np.abs(V).max()))


@pytest.mark.parametrize("form", [np.asarray, csr_matrix], ids=["dense", "csr"])
@given(k=st.integers(1, 13), share=st.sampled_from([0.0, 0.05, 0.5, 1.0]), seed=st.integers(0, 1000))
def test_products_with_X_are_those_of_numpy_whatever_the_number_of_classes(form, k, share, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((11, 7)) * (rng.random((11, 7)) < 0.5)
    W, U = (rng.standard_normal((size, k)) * (rng.random((size, k)) < share) for size in (7, 11))
    scores, G = np.full((11, k), np.nan), np.full((7, k), np.nan)
    fill_scores(form(X), W, scores)
    fill_adjoint(form(X), U, G)
    np.testing.assert_allclose(scores, X @ W, atol=1e-13)
    np.testing.assert_allclose(G, X.T @ U, atol=1e-13)
    G = np.ones((7, k))
    touched = add_rows(as_rows(form(X)), U.reshape(-1), k, G.reshape(-1))
    np.testing.assert_allclose(G, 1.0 + X.T @ U, atol=1e-13)
    entries = np.full(11, 7) if form is np.asarray else (X != 0.0).sum(axis=1)
    assert touched == entries @ (U != 0.0).sum(axis=1)


@given(
    arrays(np.float64, (4, 3), elements=st.floats(-10.0, 10.0)),
    arrays(np.float64, 4, elements=st.floats(1e-3, 1e3)),
    st.floats(0.0, 100.0),
)
def test_a_pull_into_the_l1_ball_is_the_nearest_point_in_its_norm(V, pulls, guess):
    ball, W = L1Ball(2.0), np.empty_like(V)
    ball.pull_into(V, pulls, guess, W)
    assert np.abs(W).sum() <= 2.0 * (1.0 + 1e-12)
    away = (V - W) / pulls[:, None]  # half the gradient of the distance: no point of the ball is further along it
    assert 2.0 * np.abs(away).max() <= float(np.vdot(away, W)) + 1e-9 * (1.0 + np.abs(away).max())


def test_features_of_small_numbers_do_not_delay_the_proof():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 20)) * np.geomspace(1.0, 100.0, 20)
    target = np.where(X @ (rng.standard_normal(20) / np.geomspace(1.0, 100.0, 20)) > 0.0, 1.0, -1.0)
    problem = Constrained(X, target, loss=ENTRYWISE["smooth_hinge"], ball=L1Ball(5.0), l2=1e-4)
    with_one_step = BallGradient(tuning=BallGradientTuning(own=0.0))
    steps = [fit(problem, solver, tol=1e-4).trace[-1].iteration for solver in (BallGradient(), with_one_step)]
    assert 1.5 * steps[0] < steps[1]
