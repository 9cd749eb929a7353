"""Stochastic methods over a ball meet the optimum of CVXPY, and never claim more than it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference.ball_optimum import (
    FORMS,
    LOSSES,
    assert_nothing_is_learnt_of_nothing,
    make,
    optimum,
    samples,
)
from softmargin.core.errors import IncompatibleError
from softmargin.losses.entrywise import ENTRYWISE
from softmargin.matrices.operator import adjoint_product
from softmargin.problems import BallPoint, Constrained
from softmargin.run import Status, Stop, solve
from softmargin.sets import Box, L1Ball, Simplex, TraceBall
from softmargin.solvers.ball._batches import batch_gradient, sampling, slide
from softmargin.solvers.ball.scgs import Scgs
from softmargin.solvers.ball.stochastic_frank_wolfe import BallStochasticFrankWolfe
from softmargin.solvers.ball.storc import Storc
from softmargin.solvers.ball.svrg import BallSvrg
from softmargin.testing import check_run

pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # CVXPY, asked for 1e-12
SOLVERS = {
    "svrg": BallSvrg(),
    "scgs": Scgs(),
    "storc": Storc(),
    "storc-general": Storc(strongly_convex=False),
    "storc-batches": Storc(batch=20),
    "frank-wolfe": BallStochasticFrankWolfe(),
}
TOLS = {"svrg": 1e-8, "scgs": 1e-3, "storc": 1e-3, "storc-general": 1e-2, "storc-batches": 1e-2, "frank-wolfe": 2e-2}
WEIGHTS = np.tile([0.0, 0.5, 1.0, 2.0], 15) / 60.0
BALLS = {"l1": L1Ball(2.0), "trace": TraceBall(1.5), "simplex": Simplex(1.5), "box": Box(-0.2, 0.5)}
every_solver = pytest.mark.parametrize("name", SOLVERS)
with_and_without = pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "none"])


def fit(problem, solver, *, tol=1e-8, max_iter=2000, rng=0, **more):
    return solve(problem, solver, stop=Stop(tol, max_iter), rng=rng, **more)


@every_solver
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("ball", "k"), [("l1", 1), ("l1", 3), ("trace", 3)])
@with_and_without
def test_solver_meets_the_optimum_honestly(name, loss, ball, k, fit_intercept):
    problem = make(loss, ball, k, fit_intercept=fit_intercept)
    check_run(SOLVERS[name], problem, tol=TOLS[name], optimum=optimum(problem)[0])


@every_solver
@pytest.mark.parametrize("ball", BALLS.values(), ids=BALLS)
@with_and_without
def test_every_set_will_do(name, ball, fit_intercept):
    X, target = samples("logistic", 3)
    problem = Constrained(X, target, loss=ENTRYWISE["logistic"], ball=ball, l2=0.1, fit_intercept=fit_intercept)
    result = fit(problem, SOLVERS[name], tol=TOLS[name])
    assert result.status is Status.CONVERGED
    assert ball.size(result.point.weights) <= 1.0 + 1e-9


@every_solver
@pytest.mark.parametrize("k", [1, 3])
@with_and_without
def test_dense_is_csr_is_float32_and_rows_without_weight_do_not_count(name, k, fit_intercept):
    problems = [make("logistic", "l1", k, form=f, weights=WEIGHTS, fit_intercept=fit_intercept) for f in FORMS.values()]
    values = [fit(problem, SOLVERS[name], tol=TOLS[name]).certificate.primal for problem in problems]
    np.testing.assert_allclose(values, optimum(problems[0])[0], rtol=max(TOLS[name], 1e-7))
    chances, _ = sampling(problems[1])
    assert (chances[WEIGHTS == 0.0] == 0.0).all()


@pytest.mark.parametrize("name", ["svrg", "storc", "storc-batches"])
def test_estimate_is_what_the_judge_says(name):
    problem, solver = make(weights=WEIGHTS, fit_intercept=True), SOLVERS[name]
    state = solver.start(problem, None, np.random.default_rng(0))
    n_known = 0
    for _ in range(40):
        state = solver.step(problem, state)
        certificate = problem.certificate(solver.point(problem, state))
        judged = certificate.residual - certificate.rounding
        estimate = solver.estimate(problem, state)
        if math.isfinite(estimate):
            n_known += 1
            assert estimate == pytest.approx(judged, rel=1e-6, abs=1e-13)
    assert n_known > 0


@pytest.mark.parametrize("name", ["scgs", "frank-wolfe"])
def test_methods_without_a_full_gradient_have_no_estimate(name):
    problem, solver = make(), SOLVERS[name]
    state = solver.step(problem, solver.start(problem, None, np.random.default_rng(0)))
    assert solver.estimate(problem, state) == math.inf


@pytest.mark.parametrize("name", ["scgs", "storc", "storc-general", "svrg", "frank-wolfe"])
def test_without_a_ridge_the_frank_wolfe_gap_closes(name):
    problem = make("logistic", l2=0.0)
    result = fit(problem, SOLVERS[name], tol=1e-2)
    assert result.certificate.kind == "Frank-Wolfe gap"
    assert result.status is Status.CONVERGED
    assert result.certificate.primal == pytest.approx(optimum(problem)[0], rel=1e-2)


def test_stochastic_frank_wolfe_makes_the_steps_of_its_formula():
    """With all samples in a batch it is Frank-Wolfe with eta = 2 / (t + 1)."""
    problem = make("logistic")
    solver = BallStochasticFrankWolfe(batch=len(problem.target))
    state = solver.start(problem, None, np.random.default_rng(0))
    W, t = np.zeros(problem.shape), 1
    for _ in range(5):
        state = solver.step(problem, state)
        while t < state.t:
            G = adjoint_product(problem.X, problem.slopes(problem.X @ W, np.zeros(1))) + problem.l2 * W
            W, t = W + 2.0 / (t + 1) * (problem.ball.lmo(G).toarray() - W), t + 1
        np.testing.assert_allclose(state.W, W, atol=1e-12)
    assert t > 5


def test_stochastic_frank_wolfe_draws_as_many_samples_as_the_paper_says():
    problem, solver = make("logistic"), BallStochasticFrankWolfe()
    state = solver.start(problem, None, np.random.default_rng(0))
    slopes = problem.loss.slope(np.zeros(problem.target.shape), problem.target)
    variance = sampling(problem)[1] * float((slopes**2).mean())
    assert state.growth == pytest.approx(variance / (state.lipschitz**2 * 4.0 * problem.ball.radius**2))


def test_scgs_draws_more_samples_as_it_goes():
    problem, solver = make("logistic"), SOLVERS["scgs"]
    state = solver.start(problem, None, np.random.default_rng(0))
    batches = []
    for state.phase in range(4):
        for state.t in (1, 2, 5):
            batches.append(solver._plan(problem, state)[0].batch)
    assert batches[0] < 60
    assert max(batches) == 60
    assert all(a <= b for a, b in zip(batches[:3], batches[3:6], strict=True))


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("k", [1, 3])
def test_batches_tell_the_gradient_on_average(form, k):
    """Every sample alone, weighed by its chance, sums to the gradient; differences do to the difference."""
    problem = make("logistic", k=k, form=form, weights=WEIGHTS)
    rng = np.random.default_rng(0)
    W, b = rng.standard_normal((8, k)), rng.standard_normal(k)
    chances, total = sampling(problem)
    dense = problem.X.toarray() if hasattr(problem.X, "toarray") else problem.X
    assert total == pytest.approx(WEIGHTS @ (dense.astype(float) ** 2).sum(axis=1))
    slopes = problem.slopes(problem.scores(0.5 * W), b)
    rows = np.flatnonzero(chances)
    mean = sum(chances[i] * batch_gradient(problem, np.array([i]), chances, W, b) for i in rows)
    exact = adjoint_product(problem.X, problem.slopes(problem.scores(W), b))
    np.testing.assert_allclose(mean, exact, atol=1e-12)
    mean = sum(chances[i] * batch_gradient(problem, np.array([i]), chances, W, b, slopes) for i in rows)
    np.testing.assert_allclose(mean, exact - adjoint_product(problem.X, slopes), atol=1e-12)
    pair = batch_gradient(problem, rows[:2], chances, W, b)
    halves = [0.5 * batch_gradient(problem, rows[i : i + 1], chances, W, b) for i in range(2)]
    np.testing.assert_allclose(pair, sum(halves), atol=1e-12)


@pytest.mark.parametrize("ball", BALLS.values(), ids=BALLS)
@given(seed=st.integers(0, 1000), beta=st.sampled_from([0.1, 1.0, 10.0]))
def test_sliding_comes_near_the_projection(ball, seed, beta):
    rng = np.random.default_rng(seed)
    g, start = rng.standard_normal((5, 3)), ball.project(rng.standard_normal((5, 3)))
    W, n_corners = slide(ball, g, start, beta, 1e-2, 100_000)
    exact = ball.project(start - g / beta)
    # A gap of tol bounds the distance: beta / 2 |W - W*|^2 <= tol.
    assert 0.5 * beta * ((W - exact) ** 2).sum() <= 1e-2
    assert ball.size(W) <= 1.0 + 1e-9
    assert slide(ball, g, start, beta, 0.0, 3)[1] <= 3 <= n_corners + 3
    corners = [ball.lmo(rng.standard_normal((5, 3))).toarray() for _ in range(2)]
    assert ((corners[0] - corners[1]) ** 2).sum() <= ball.squared_diameter((5, 3)) * (1 + 1e-12)


def test_svrg_shortens_steps_that_make_the_gap_grow():
    problem, solver = make("squared", weights=np.full(60, 1.0)), BallSvrg(batch=1)
    state = solver.start(problem, None, np.random.default_rng(0))
    state.length *= 50.0
    first = state.length
    for _ in range(60):
        state = solver.step(problem, state)
    assert state.length < first
    assert solver.estimate(problem, state) < 1e-6


@every_solver
@with_and_without
def test_another_seed_gives_other_bits(name, fit_intercept):
    problem = make(k=3, n=400, fit_intercept=fit_intercept)
    solver = Storc(batch=20) if name.startswith("storc") else SOLVERS[name]
    one, other = (fit(problem, solver, tol=0.0, max_iter=6, rng=seed).point for seed in (3, 4))
    assert not np.array_equal(one.weights, other.weights)


@every_solver
def test_any_garbage_is_a_start(name):
    problem, solver = make("logistic", weights=WEIGHTS, fit_intercept=True), SOLVERS[name]
    garbage = BallPoint(100.0 * np.random.default_rng(0).standard_normal((8, 1)), np.array([7.0]))
    first = fit(problem, solver, tol=TOLS[name], init=garbage)
    assert first.certificate.primal == pytest.approx(optimum(problem)[0], rel=max(TOLS[name], 1e-7))


@every_solver
def test_nothing_to_learn_costs_nothing(name):
    assert_nothing_is_learnt_of_nothing(SOLVERS[name])


def test_settings_that_do_not_fit_are_refused():
    with pytest.raises(IncompatibleError, match=r"needs l2 > 0; found l2 = 0\. Use strongly_convex=False"):
        fit(make(l2=0.0), Storc(strongly_convex=True))
    for made in (lambda: BallSvrg(batch=0), lambda: Storc(batch=0)):
        with pytest.raises(IncompatibleError, match="batch must be None, or an integer >= 1; found 0"):
            made()
    for made in (lambda: Scgs(max_corners=0), lambda: Storc(max_corners=0)):
        with pytest.raises(IncompatibleError, match="max_corners must be an integer >= 1; found 0"):
            made()
