"""Solvers over the trace-norm ball reach CVXPY's optimum, with weights that stay factors of low rank."""

import dataclasses

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from reference.ball_optimum import FORMS, LOSSES, make, optimum
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.data import blobs
from softmargin.losses.entrywise import ENTRYWISE
from softmargin.problems import BallPoint, Constrained
from softmargin.run import Status, Stop, solve
from softmargin.sets import L1Ball, LowRank, TraceBall
from softmargin.solvers.ball._low_rank import StepMatrix, distance, stack
from softmargin.solvers.ball.low_rank_gradient import LowRankGradient
from softmargin.solvers.ball.low_rank_newton import LowRankNewton, _Model
from softmargin.solvers.ball.low_rank_pdbfw import LowRankPDBFW
from softmargin.solvers.ball.newton import BallNewton, secular_root

# Clarabel is asked for all the digits it can give, and says so.
pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
GRADIENT, PDBFW, NEWTON = LowRankGradient(), LowRankPDBFW(), LowRankNewton()
every_solver = pytest.mark.parametrize("solver", [GRADIENT, PDBFW], ids=["gradient", "pdbfw"])
every_loss = pytest.mark.parametrize("loss", LOSSES)


def fit(problem, solver, *, tol=1e-8, max_iter=3000, rng=0, **more):
    return solve(problem, solver, stop=Stop(tol, max_iter), rng=rng, **more)


def planted(n=201, d=150, k=100, rank=3, *, radius=0.3, noise=0.1, loss="squared", form=np.asarray, **settings):
    """Return a problem whose solution has a low rank, so that singular triples are truncated."""
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((n, d)) / np.sqrt(d)).astype(np.float32).astype(np.float64)
    W = rng.standard_normal((d, rank)) @ rng.standard_normal((rank, k))
    target = X @ W + noise * rng.standard_normal((n, k))
    target = np.where(target > 0.0, 1.0, -1.0) if ENTRYWISE[loss].is_margin else target
    ball = TraceBall(radius * np.linalg.svd(W, compute_uv=False).sum())
    return Constrained(form(X), target, loss=ENTRYWISE[loss], ball=ball, **{"l2": 1.0 / n, **settings})


def check_factors(problem, W):
    assert isinstance(W, LowRank)
    assert W.shape == problem.shape
    np.testing.assert_allclose(W.U.T @ W.U, np.eye(W.rank), atol=1e-12)
    np.testing.assert_allclose(W.V.T @ W.V, np.eye(W.rank), atol=1e-12)
    assert (W.s > 0.0).all()
    assert (np.diff(W.s) <= 0.0).all()
    assert W.s.sum() <= problem.ball.radius * (1.0 + 1e-12)


class Witness:
    """Notes the point after every step."""

    def begin(self, problem, solver, stop):
        self.points = []

    def watch(self, progress):
        self.points.append(progress.solver.point(progress.problem, progress.state))

    def end(self, result): ...


@every_loss
@every_solver
@pytest.mark.parametrize("k", [1, 3, 7])
def test_solver_reaches_the_optimum(solver, loss, k):
    problem, witness = make(loss, "trace", k), Witness()
    result = fit(problem, solver, watchers=[witness])
    best, W, _ = optimum(problem)
    assert result.status is Status.CONVERGED
    assert result.certificate.primal == pytest.approx(best, rel=1e-7)
    assert result.certificate.bound <= best * (1.0 + 1e-7)
    np.testing.assert_allclose(result.point.weights.toarray(), W, atol=1e-3)
    for point in witness.points:
        check_factors(problem, point.weights)


@every_loss
@pytest.mark.parametrize("l2", [0.0, 0.1])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_gradient_needs_neither_a_ridge_nor_centred_targets(loss, l2, fit_intercept):
    problem = make(loss, "trace", l2=l2, fit_intercept=fit_intercept)
    result = fit(problem, GRADIENT)
    assert result.status is Status.CONVERGED
    assert result.certificate.primal == pytest.approx(optimum(problem)[0], rel=1e-7)
    assert np.any(result.point.intercept) == fit_intercept


@every_solver
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_form_of_the_data_changes_nothing(solver, form):
    result = fit(make(ball="trace", form=form), solver)
    assert result.status is Status.CONVERGED
    assert result.certificate.primal == pytest.approx(optimum(make(ball="trace"))[0], rel=1e-7)


@every_solver
def test_weights_of_the_samples_count(solver):
    problem = make(ball="trace", weights=np.tile([0.0, 0.01, 0.05], 20))
    assert fit(problem, solver).certificate.primal == pytest.approx(optimum(problem)[0], rel=1e-7)


@every_loss
@every_solver
@pytest.mark.parametrize("form", [np.asarray, csr_matrix], ids=["dense", "csr"])
def test_low_rank_solution_is_found_without_an_array_of_its_shape(solver, loss, form, monkeypatch):
    problem = planted(loss=loss, form=form)
    monkeypatch.setattr(StepMatrix, "toarray", lambda self: pytest.fail("an array of shape (d, k)"))
    result = fit(problem, solver)
    assert result.status is Status.CONVERGED
    assert 0 < result.point.weights.rank < 20
    check_factors(problem, result.point.weights)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("l2", [0.0, 0.005])
def test_low_rank_solution_without_a_ridge_or_with_an_intercept(l2, fit_intercept):
    result = fit(planted(loss="smooth_hinge", l2=l2, fit_intercept=fit_intercept), GRADIENT, tol=1e-7)
    assert result.status is Status.CONVERGED
    assert result.point.weights.rank < 20


@every_solver
def test_solution_of_full_rank_inside_the_ball_is_found(solver):
    problem = planted(40, 30, 20, radius=50.0, l2=0.1)
    result = fit(problem, solver)
    assert result.status is Status.CONVERGED
    assert problem.is_inactive(result.point)
    X, p = problem.X, problem.weights
    ridge = np.linalg.solve(X.T @ (p[:, None] * X) + 0.1 * np.eye(30), X.T @ (p[:, None] * problem.target))
    np.testing.assert_allclose(result.point.weights.toarray(), ridge, atol=1e-3)


@every_solver
def test_estimate_is_near_what_the_judge_says(solver):
    problem = planted()
    state = solver.start(problem, None, np.random.default_rng(0))
    judged, guessed = [], []
    for _ in range(40):
        state = solver.step(problem, state)
        guessed.append(solver.estimate(problem, state))
        judged.append(problem.certificate(solver.point(problem, state)).residual)
    ratios = [guess / residual for guess, residual in zip(guessed, judged, strict=True) if 1e-9 < residual < 0.1]
    assert len(ratios) > 3
    assert 0.2 < np.median(ratios) < 5.0


@pytest.mark.parametrize("rows", [None, 10])
@every_loss
def test_dual_value_never_falls(loss, rows):
    problem, solver = make(loss, "trace"), LowRankPDBFW(rows=rows)
    state, values = solver.start(problem, None, np.random.default_rng(0)), []
    for _ in range(60):
        state = solver.step(problem, state)
        Z = problem.X.T @ (problem.weights[:, None] * state.Y)
        values.append(problem.bound(state.Y, Z))
        assert state.q == pytest.approx(problem.ball.least(Z, problem.l2), rel=1e-9)
        np.testing.assert_allclose(state.scores, problem.X @ state.weights.toarray(), atol=1e-12)
    assert (np.diff(values) >= -1e-12).all()
    assert values[-1] <= optimum(problem)[0] + 1e-8


@every_loss
@pytest.mark.parametrize("eta", [0.5, 1.0])
@pytest.mark.parametrize("rows", [None, 20])
def test_steps_of_the_paper_reach_the_optimum(loss, eta, rows):
    """Algorithm 2 with its own steps; delta = 6 is r = 0.1."""
    problem = make(loss, "trace")
    result = fit(problem, LowRankPDBFW(rank=3, rows=rows, delta=6.0, eta=eta), tol=1e-6)
    assert result.status is Status.CONVERGED
    assert result.certificate.primal == pytest.approx(optimum(problem)[0], rel=2e-6)
    check_factors(problem, result.point.weights)


def test_step_of_the_paper_is_its_formula():
    """One step by plain arrays: eqs. (13) to (16) and (18), corrected by maths: ball, eq. 17."""
    problem, eta, delta, rows, rank = make("squared", "trace"), 0.5, 6.0, 7, 2
    solver = LowRankPDBFW(rank=rank, rows=rows, delta=delta, eta=eta)
    state = solver.start(problem, None, np.random.default_rng(0))
    X, n, l2, radius = problem.X, 60, problem.l2, problem.ball.radius
    W, Y = np.zeros(problem.shape), np.zeros((n, 3))
    for _ in range(5):
        state = solver.step(problem, state)
        trial = problem.loss.dual_step(Y, X @ W, problem.target, delta / n)
        moving = np.argsort(-np.linalg.norm(trial - Y, axis=1))[:rows]
        Y[moving] = trial[moving]
        U, s, Vt = np.linalg.svd(W - (X.T @ Y / n + l2 * W) / (l2 * eta), full_matrices=False)
        kept = L1Ball(radius).project(s[:rank, None])[:, 0]
        W = (1 - eta) * W + eta * (U[:, :rank] * kept) @ Vt[:rank]
        np.testing.assert_allclose(state.weights.toarray(), W, atol=1e-12)
        np.testing.assert_allclose(state.scores, X @ W, atol=1e-12)
        np.testing.assert_allclose(state.Y, Y, atol=1e-12)


def test_steps_of_theorem_4_3():
    problem = make("squared", "trace")
    n, rows, mu, squares = len(problem.target), 7, problem.l2, (problem.X**2).sum(axis=1)
    R = min(rows * squares.max(), np.linalg.norm(problem.X, 2) ** 2)
    delta = 1.0 / (rows * (1.0 / n + 45.0 * R / (2.0 * mu * n**2)))
    given, own = LowRankPDBFW(rows=rows, delta=delta, eta=0.5), LowRankPDBFW(rows=rows, steps="paper")
    results = [fit(problem, solver, tol=0.0, max_iter=30) for solver in (given, own)]
    np.testing.assert_allclose(*(result.point.weights.toarray() for result in results), rtol=1e-3, atol=1e-6)
    result = fit(problem, LowRankPDBFW(steps="paper"), tol=1e-3)
    assert result.certificate.primal == pytest.approx(optimum(problem)[0], rel=1e-3)
    with pytest.raises(IncompatibleError, match="steps='paper' sets delta"):
        LowRankPDBFW(steps="paper", delta=1.0)


def test_rank_that_is_too_low_stalls_and_says_so():
    """Maths: errata 001.6: the gap shows it."""
    problem = make("squared", "trace", 7)
    assert fit(problem, PDBFW).point.weights.rank > 1
    result = fit(problem, LowRankPDBFW(rank=1), max_iter=500)
    assert result.status in (Status.STALLED, Status.MAX_ITER)  # its last digits may move or not
    assert result.certificate.residual > 1e-4


def test_constant_that_is_too_small_is_raised():
    problem = planted()
    state = GRADIENT.start(problem, None, np.random.default_rng(0))
    state.lipschitz *= 1e-6
    state = GRADIENT.step(problem, state)
    largest = np.linalg.norm(problem.X, 2) ** 2 / len(problem.X) + problem.l2
    assert 0.05 * largest < state.lipschitz <= 2.0 * largest


@every_loss
@pytest.mark.parametrize("form", [np.asarray, csr_matrix, lambda X: X[:4]], ids=["dense", "sparse", "wide"])
@pytest.mark.parametrize(("radius", "l2", "has_intercept"), [(0.3, 0.01, True), (50.0, 0.01, True), (0.3, 0.0, False)])
def test_newton_for_one_column_reaches_the_optimum(loss, form, radius, l2, has_intercept):
    whole = make(loss, "trace", 1)
    X = form(whole.X)
    settings = {"loss": whole.loss, "ball": TraceBall(radius), "l2": l2, "fit_intercept": has_intercept}
    problem = Constrained(X, whole.target[: X.shape[0]], **settings)
    result = fit(problem, BallNewton(), tol=1e-8, max_iter=60)
    best, W, _ = optimum(problem)
    assert result.status is Status.CONVERGED
    assert result.certificate.primal == pytest.approx(best, rel=1e-6, abs=1e-9)
    if l2 > 0.0:
        np.testing.assert_allclose(result.point.weights, W, atol=1e-3)


@pytest.mark.parametrize("radius", [1e-6, 0.1, 1.0, 1e6])
def test_the_secular_root_brings_the_minimum_of_a_model_to_the_ball(radius):
    rng = np.random.default_rng(0)
    values, c = 10.0 ** rng.uniform(-6, 3, 20), rng.standard_normal(20)
    theta = secular_root(values, c, radius)
    size = np.linalg.norm(c / (values + theta))
    assert theta >= 0.0
    assert size == pytest.approx(radius, rel=1e-9) if theta > 0.0 else size <= radius


def test_newton_refuses_more_than_one_column():
    with pytest.raises(IncompatibleError, match=r"needs one column of weights.*found 3\. Use LowRankGradient"):
        fit(make(ball="trace"), BallNewton())


@every_loss
@pytest.mark.parametrize("form", [np.asarray, csr_matrix, lambda X: X[:6]], ids=["dense", "sparse", "wide"])
@pytest.mark.parametrize(("radius", "l2", "has_intercept"), [(3.0, 0.01, True), (50.0, 0.01, True), (0.3, 1e-6, False)])
def test_newton_for_many_columns_reaches_the_optimum(loss, form, radius, l2, has_intercept):
    whole = make(loss, "trace", 3)
    X = form(whole.X)
    settings = {"loss": whole.loss, "ball": TraceBall(radius), "l2": l2, "fit_intercept": has_intercept}
    problem, witness = Constrained(X, whole.target[: X.shape[0]], **settings), Witness()
    result = fit(problem, NEWTON, tol=1e-7, watchers=[witness])
    best, _, _ = optimum(problem)
    assert result.status is Status.CONVERGED
    assert result.certificate.primal == pytest.approx(best, rel=1e-6, abs=1e-8)
    for point in witness.points:
        check_factors(problem, point.weights)


def test_newton_steps_are_few_where_gradient_steps_are_many():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 12)) * 10.0 ** np.linspace(0.0, -3.0, 12)
    target = np.where(X @ rng.standard_normal((12, 4)) + 0.3 * rng.standard_normal((300, 4)) > 0.0, 1.0, -1.0)
    problem = Constrained(X, target, loss=ENTRYWISE["logistic"], ball=TraceBall(100.0), l2=1e-8, fit_intercept=True)
    assert fit(problem, NEWTON, tol=1e-7, max_iter=40).status is Status.CONVERGED
    assert fit(problem, GRADIENT, tol=1e-7, max_iter=400).status is Status.MAX_ITER


def test_gradient_steps_go_on_where_newton_steps_are_short():
    """On separable data a full step brings back samples without curvature: all but a few hundredths of it are lost."""
    X, y = blobs(200, 100, 3, seed=3, separation=0.8)
    target = 2.0 * np.eye(3)[y] - 1.0
    problem = Constrained(X, target, loss=ENTRYWISE["smooth_hinge"], ball=TraceBall(30.0), l2=1e-4, fit_intercept=True)
    state = NEWTON.start(problem, fit(problem, GRADIENT, max_iter=100).point, np.random.default_rng(0))
    rest = []
    for _ in range(20):
        state = NEWTON.step(problem, state)
        rest.append(state.n_rest)
    assert state.n_stalls == 1
    begun = rest.index(NEWTON.newton.rest)
    assert rest[begun:] == [NEWTON.newton.rest - i for i in range(20 - begun)]
    assert fit(problem, NEWTON, tol=1e-2).status is Status.CONVERGED


@pytest.mark.parametrize("shape", [(8, 3), (4, 6)])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_product_of_the_newton_model_is_the_derivative_of_the_gradient(shape, fit_intercept):
    rng = np.random.default_rng(0)
    (d, k), radius = shape, 3.0
    X, target = rng.standard_normal((40, d)), np.where(rng.random((40, k)) < 0.5, 1.0, -1.0)
    settings = {"loss": ENTRYWISE["logistic"], "ball": TraceBall(radius), "l2": 0.1, "fit_intercept": fit_intercept}
    problem = Constrained(X, target, **settings)

    def model_at(W):
        U, s, Vt = np.linalg.svd(W, full_matrices=False)
        state = NEWTON.start(problem, BallPoint(W, np.zeros(k)), rng)
        return _Model.at(problem, radius, X, LowRank(U, s, Vt.T), state, 0.0)

    W, D, step, theta = 0.1 * rng.standard_normal(shape), rng.standard_normal(shape), 1e-6, 0.7
    after, before = (model_at(W + t * D) for t in (step, -step))
    change = after.G - before.G + theta * (after.U @ after.V.T - before.U @ before.V.T)
    found = model_at(W)._replace(theta=theta).times(D)
    np.testing.assert_allclose(found, change / (2.0 * step), rtol=1e-5, atol=1e-6)


def test_newton_for_many_columns_refuses_losses_of_rows():
    with pytest.raises(IncompatibleError, match=r"needs a loss of every score by itself.*Use LowRankGradient"):
        fit(make("multinomial", "trace"), NEWTON)


def test_momentum_without_restart_also_gets_there():
    assert fit(make(ball="trace"), LowRankGradient(restart=False), tol=1e-6).status is Status.CONVERGED


@every_solver
def test_start_is_the_nearest_point_and_factors_are_as_good_as_an_array(solver):
    problem = make(ball="trace")
    rng = np.random.default_rng(1)
    W = LowRank(rng.standard_normal((8, 2)), np.array([-3.0, 1.0]), rng.standard_normal((3, 2)))
    points = []
    for init in (W, W.toarray()):
        state = solver.start(problem, BallPoint(init, np.zeros(3)), rng)
        points.append(solver.point(problem, state).weights)
        check_factors(problem, points[-1])
        np.testing.assert_allclose(points[-1].toarray(), problem.ball.project(W.toarray()), atol=1e-12)


@every_solver
def test_a_run_is_continued_to_a_tighter_tolerance(solver):
    for problem in (make(ball="trace"), planted()):
        first = fit(problem, solver, tol=1e-6)
        further = fit(problem, solver, tol=1e-9, init=first.point)
        assert further.status is Status.CONVERGED


def test_first_step_keeps_all_of_a_start_of_high_rank():
    """A step looks for a few times more triples than it knows of: it must know of all those of its start."""
    problem = planted(rank=45, noise=0.0, radius=0.9)
    first = fit(problem, GRADIENT, tol=1e-6)
    assert first.point.weights.rank > 32
    state = GRADIENT.step(problem, GRADIENT.start(problem, first.point, np.random.default_rng(0)))
    primal = problem.primal(GRADIENT.point(problem, state)).value
    assert primal <= first.certificate.primal * (1.0 + 1e-9)


@every_solver
@pytest.mark.parametrize("radius", [1e-6, 1e6])
def test_tiny_and_huge_radius(solver, radius):
    small = make("smooth_hinge", "trace")
    problem = Constrained(small.X, small.target, loss=small.loss, ball=TraceBall(radius), l2=0.1)
    result = fit(problem, solver)
    assert result.status is Status.CONVERGED
    assert problem.is_inactive(result.point) == (radius > 1.0)


@every_solver
@every_loss
def test_data_of_nothing_give_weights_of_rank_zero(solver, loss):
    for form in (np.asarray, csr_matrix):
        target = make(loss, "trace").target
        problem = Constrained(form(np.zeros((60, 8))), target, loss=ENTRYWISE[loss], ball=TraceBall(1.0), l2=0.1)
        result = fit(problem, solver)
        assert result.status is Status.CONVERGED
        assert result.point.weights.rank == 0
        np.testing.assert_array_equal(result.point.weights.toarray(), 0.0)


@every_solver
@pytest.mark.parametrize("scale", [1e-4, 1e4])
def test_scale_of_the_features_does_not_matter(solver, scale):
    """W / scale in a ball of radius / scale with l2 * scale^2: the same problem."""
    one = make("squared", "trace")
    ball = TraceBall(one.ball.radius / scale)
    problem = Constrained(scale * one.X, one.target, loss=one.loss, ball=ball, l2=one.l2 * scale**2)
    result = fit(problem, solver)
    assert result.status is Status.CONVERGED
    assert result.certificate.primal == pytest.approx(fit(one, solver).certificate.primal, rel=3e-8)


@every_solver
@pytest.mark.parametrize(("n", "d", "k"), [(1, 5, 4), (30, 1, 6), (3, 60, 40), (50, 4, 60)])
def test_lean_shapes(solver, n, d, k):
    result = fit(planted(n, d, k, rank=1, l2=0.1), solver)
    assert result.status is Status.CONVERGED


def test_distance_keeps_its_digits_where_points_are_close():
    rng = np.random.default_rng(0)
    problem = planted()
    W = problem.ball.nearest(rng.standard_normal((150, 5)) @ rng.standard_normal((5, 100)))
    for size in (1.0, 1e-4, 1e-9):
        other = W._replace(s=W.s * (1.0 + size * np.arange(1, 1 + W.rank)))
        assert distance(W, other) == pytest.approx(np.linalg.norm(W.s - other.s), rel=1e-6)
        last = problem.ball.nearest(W.toarray() + size * rng.standard_normal((150, 100)))
        Z = stack((1.5, other), (-0.5, last))
        assert distance(W, Z) == pytest.approx(np.linalg.norm(W.toarray() - Z.toarray()), rel=1e-5)


def test_state_holds_arrays_and_plain_numbers_only():
    for solver in (GRADIENT, PDBFW):
        state = solver.step(planted(), solver.start(planted(), None, np.random.default_rng(0)))
        for field in dataclasses.fields(state):
            assert isinstance(getattr(state, field.name), np.ndarray | float | int)


@pytest.mark.parametrize("settings", [{"l2": 0.0}, {"fit_intercept": True}])
def test_pdbfw_refuses_what_has_no_dual_step(settings):
    with pytest.raises(IncompatibleError, match=r"needs l2 > 0 and no intercept.*Use LowRankGradient"):
        fit(make(ball="trace", **settings), PDBFW)


@every_solver
def test_other_balls_and_starts_of_another_shape_are_refused(solver):
    with pytest.raises(IncompatibleError, match=r"needs a set of kind TraceBall.*found L1Ball"):
        fit(make(ball="l1"), solver)
    wrong = LowRank(np.ones((3, 1)), np.ones(1), np.ones((3, 1)))
    with pytest.raises(DataError, match=r"weights of shape \(8, 3\)"):
        fit(make(ball="trace"), solver, init=BallPoint(wrong, np.zeros(3)))


@pytest.mark.parametrize("settings", [{"rank": 0}, {"rows": 0}, {"delta": 0.0}, {"eta": 0.0, "delta": 1.0}])
def test_settings_that_make_no_sense_are_refused(settings):
    with pytest.raises(IncompatibleError, match=f"{next(iter(settings))} must be"):
        LowRankPDBFW(**settings)


def test_short_primal_steps_need_a_dual_step():
    with pytest.raises(IncompatibleError, match=r"eta=0.5 needs a delta"):
        LowRankPDBFW(eta=0.5)


def test_a_step_that_is_bent_back_in_vain_is_made_as_it_is(monkeypatch):
    """From inside the ball: the step itself leads downhill, what is left of it at the boundary need not."""
    problem = make("logistic", "trace")
    state = NEWTON.start(problem, None, np.random.default_rng(0))
    state = GRADIENT.step(problem, state)
    found = _Model.steps
    before, wrong = state.primal, []
    monkeypatch.setattr(_Model, "steps", lambda self, tuning: [wrong.append(1) or self.G, *found(self, tuning)])
    state = NEWTON.step(problem, state)
    assert wrong
    assert state.primal < before
    assert state.n_short == 0
