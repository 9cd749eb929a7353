"""Dual ascent over the l1 ball, by blocks and by coordinates, reaches the optimum of CVXPY."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from reference.ball_optimum import FORMS, LOSSES, make, optimum, samples
from softmargin.core.errors import IncompatibleError
from softmargin.losses.entrywise import ENTRYWISE
from softmargin.problems import BallPoint, Constrained
from softmargin.run import Status, Stop, solve
from softmargin.sets import Box, L1Ball
from softmargin.solvers.ball.dual_descent import BallDualDescent
from softmargin.solvers.ball.primal_dual_bfw import PrimalDualBFW

pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # CVXPY was asked for all it can give
SOLVERS = {
    "blocks": PrimalDualBFW(),
    "coordinates": BallDualDescent(),
    "paper": PrimalDualBFW(eta=0.5, k=40),
    "paper, eta = 1": PrimalDualBFW(s=24),
}
SOME = np.tile([0.0, 0.01, 0.03], 20)
every_solver = pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
ascents = pytest.mark.parametrize("solver", list(SOLVERS.values())[:2], ids=list(SOLVERS)[:2])
every_loss = pytest.mark.parametrize("loss", LOSSES)


def fit(problem, solver, *, tol=1e-8, max_iter=5000, **more):
    return solve(problem, solver, stop=Stop(tol, max_iter), rng=0, **more)


@every_solver
@every_loss
@pytest.mark.parametrize("k", [1, 3])
def test_solver_reaches_the_optimum_of_cvxpy(solver, loss, k):
    problem = make(loss, k=k)
    value, W, _ = optimum(problem)
    result = fit(problem, solver)
    assert result.status is Status.CONVERGED
    assert result.certificate.primal == pytest.approx(value, rel=2e-8)
    np.testing.assert_allclose(result.point.weights, W, atol=1e-3)


@every_solver
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_X_gives_the_same_weights(solver, form):
    first, other = fit(make(k=3), solver), fit(make(k=3, form=FORMS[form]), solver)
    assert other.status is Status.CONVERGED
    np.testing.assert_allclose(other.point.weights, first.point.weights, atol=1e-4)


@every_solver
@every_loss
def test_weights_of_samples_count(solver, loss):
    problem = make(loss, weights=SOME)
    result = fit(problem, solver)
    assert result.status is Status.CONVERGED
    assert result.certificate.primal == pytest.approx(optimum(problem)[0], rel=1e-7)


@ascents
@every_loss
@pytest.mark.parametrize("k", [1, 3])
def test_dual_value_never_falls(solver, loss, k):
    problem = make(loss, k=k, l2=0.01)
    state, bounds = solver.start(problem, None, np.random.default_rng(0)), []
    for _ in range(15):
        state = solver.step(problem, state)
        bounds.append(problem.bound(state.U, state.Z))
        np.testing.assert_allclose(state.Z, problem.X.T @ (problem.weights[:, None] * state.U), atol=1e-12)
    assert (np.diff(bounds) >= -1e-13).all()
    assert bounds[-1] <= optimum(problem)[0] * (1 + 1e-7)


@every_solver
def test_scores_that_follow_the_changes_are_right(solver):
    problem = make(k=3, form=csr_matrix)
    state = solver.start(problem, None, np.random.default_rng(0))
    for _ in range(9):
        state = solver.step(problem, state)
    assert problem.ball.size(solver.point(problem, state).weights) <= 1 + 1e-12
    if hasattr(state, "scores"):
        np.testing.assert_allclose(state.scores, problem.X @ state.W, atol=1e-12)


@every_loss
def test_compiled_dual_is_the_loss(loss):
    problem = make(loss)
    compiled = problem.loss.compiled
    rng = np.random.default_rng(0)
    scores = 2.0 * rng.standard_normal(problem.target.shape)
    U = problem.loss.slope(rng.standard_normal(scores.shape), problem.target)
    for r in (1e-3, 1.0, 1e3):
        steps = problem.loss.dual_step(U, scores, problem.target, r)
        values = problem.loss.value(scores, problem.target)
        slacks = values + problem.loss.conjugate(U, problem.target) - scores * U
        for i, (sign, m) in enumerate(map(compiled.folded, problem.target[:, 0])):
            w, y = sign * scores[i, 0], sign * U[i, 0]
            assert sign * compiled.dual_entry(w, m, y, 1.0 / r) == pytest.approx(steps[i, 0], abs=1e-12)
            assert compiled.loss_entry(w, m) == pytest.approx(values[i, 0], abs=1e-12)
            assert compiled.slack_entry(w, m, y) == pytest.approx(slacks[i, 0], abs=1e-12)


def test_too_few_weights_stall_and_the_gap_shows_it():
    """Erratum 6."""
    problem = make()
    assert np.count_nonzero(np.abs(optimum(problem)[1]) > 1e-6) > 2
    result = fit(problem, PrimalDualBFW(s=2), max_iter=300)
    assert result.status is Status.MAX_ITER
    assert result.certificate.residual > 1e-4
    assert np.count_nonzero(result.point.weights) <= 2


@ascents
def test_large_ball_does_not_touch_the_solution(solver):
    X, target = samples("squared")
    problem = Constrained(X, target, loss=ENTRYWISE["squared"], ball=L1Ball(1e6), l2=0.1)
    result = fit(problem, solver, tol=1e-12)
    ridge = np.linalg.solve(X.T @ X / len(X) + 0.1 * np.eye(X.shape[1]), X.T @ target / len(X))
    np.testing.assert_allclose(result.point.weights, ridge, atol=1e-5)


AWKWARD = {
    "zeros": np.zeros((5, 3)),
    "zero columns": np.hstack([np.zeros((5, 2)), np.arange(5.0)[:, None] - 2.0]),
    "zero rows": np.vstack([np.zeros((3, 3)), np.ones((2, 3))]),
    "one sample": np.ones((1, 2)),
}


@ascents
@pytest.mark.parametrize("name", AWKWARD)
@pytest.mark.parametrize("radius", [1.0, 1e-8])
@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
@every_loss
def test_awkward_data_are_certified(solver, name, radius, form, loss):
    X = AWKWARD[name]
    target = np.array([1.0, 1.0, -1.0, 1.0, -1.0])[: len(X)]
    problem = Constrained(form(X), target, loss=ENTRYWISE[loss], ball=L1Ball(radius), l2=0.1)
    assert fit(problem, solver).status is Status.CONVERGED


@every_solver
def test_start_near_the_optimum_is_no_slower(solver):
    problem = make()
    result = fit(problem, solver)
    near = BallPoint(result.point.weights + 1e-4, result.point.intercept)
    assert fit(problem, solver, init=near).n_iter <= result.n_iter


@every_solver
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"l2": 0.0}, "needs l2 > 0; found 0. Use BallGradient or BallWorkingSet"),
        ({"fit_intercept": True}, "fits no intercept; .* Use BallGradient or BallWorkingSet"),
        ({"ball": Box(0.0, 1.0)}, "needs a set of kind L1Ball; .* Use BallGradient"),
    ],
)
def test_problem_without_a_smooth_dual_is_refused(solver, settings, message):
    X, target = samples("smooth_hinge")
    settings = {"loss": ENTRYWISE["smooth_hinge"], "ball": L1Ball(1.0), "l2": 0.1} | settings
    with pytest.raises(IncompatibleError, match=message):
        fit(Constrained(X, target, **settings), solver)


@pytest.mark.parametrize("settings", [{"eta": 1.5}, {"eta": 0.0}, {"s": 0}, {"k": -1}, {"delta": 0.0}])
def test_setting_that_makes_no_step_is_refused(settings):
    with pytest.raises(IncompatibleError, match=f"{next(iter(settings))} must be"):
        PrimalDualBFW(**settings)


def test_steps_of_the_paper_are_those_of_its_corollary():
    for loss in ("smooth_hinge", "squared"):
        problem = make(loss)
        n, mu, R, k = 60, problem.l2, (problem.X**2).sum(axis=1).max(), 7
        delta = 1.0 / (k * (1.0 / n + 25.0 * R / (2.0 * mu * n**2)))
        given, own = PrimalDualBFW(k=k, delta=delta, eta=0.5), PrimalDualBFW(k=k, steps="paper")
        results = [solve(problem, solver, stop=Stop(0.0, 40), rng=0) for solver in (given, own)]
        np.testing.assert_allclose(results[0].point.weights, results[1].point.weights, rtol=1e-9)
        value = optimum(problem)[0]
        assert fit(problem, PrimalDualBFW(steps="paper"), tol=1e-3).certificate.primal == pytest.approx(value, rel=1e-3)


def test_steps_of_the_paper_exclude_others():
    for settings in ({"delta": 1.0}, {"eta": 0.5}):
        with pytest.raises(IncompatibleError, match="steps='paper'"):
            PrimalDualBFW(steps="paper", **settings)
    with pytest.raises(IncompatibleError, match="conjugate is smooth"):
        fit(make("logistic"), PrimalDualBFW(steps="paper"))
