"""Frank-Wolfe, pairwise and block Frank-Wolfe over a ball meet the optimum of CVXPY, and never claim more than it."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference.ball_optimum import (
    BALLS,
    FORMS,
    LOSSES,
    assert_nothing_is_learnt_of_nothing,
    make,
    optimum,
    samples,
)
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.losses.entrywise import ENTRYWISE
from softmargin.problems import BallPoint, Constrained
from softmargin.run import Status, Stop, solve
from softmargin.sets import Box, L1Ball, LowRank, Simplex, TraceBall
from softmargin.solvers.ball._iterate import Line
from softmargin.solvers.ball.block_frank_wolfe import BallBlockFrankWolfe, _of_low_rank, _with_few_entries
from softmargin.solvers.ball.frank_wolfe import BallFrankWolfe
from softmargin.solvers.ball.pairwise_frank_wolfe import BallPairwise
from softmargin.testing import check_run

pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # CVXPY, asked for 1e-12
SOLVERS = {
    "plain": BallFrankWolfe(),
    "pairwise": BallPairwise(),
    "block": BallBlockFrankWolfe(),
    "paper": BallBlockFrankWolfe(eta="paper"),
}
TOLS = {"plain": 1e-2, "pairwise": 1e-8, "block": 1e-8, "paper": 1e-6}
WEIGHTS = np.tile([0.0, 0.5, 1.0, 2.0], 15) / 60.0
every_solver = pytest.mark.parametrize("name", SOLVERS)
# Pairwise steps need corners that are few.
every_solver_and_ball = pytest.mark.parametrize(
    ("name", "ball"), [(name, ball) for name in SOLVERS for ball in BALLS if (name, ball) != ("pairwise", "trace")]
)
fast_solvers = pytest.mark.parametrize("solver", [SOLVERS["pairwise"], SOLVERS["block"]], ids=["pairwise", "block"])
with_and_without = pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "none"])


def fit(problem, solver, *, tol=1e-8, max_iter=5000, rng=0, **more):
    return solve(problem, solver, stop=Stop(tol, max_iter), rng=rng, **more)


class Witness:
    """Notes the objective after every step, and the share of the ball that is used."""

    def begin(self, problem, solver, stop):
        self.values, self.sizes = [], []

    def watch(self, progress):
        problem, point = progress.problem, progress.solver.point(progress.problem, progress.state)
        self.values.append(problem.primal(point).value)
        self.sizes.append(problem.ball.size(point.weights))

    def end(self, result): ...


@pytest.mark.parametrize(
    ("name", "ball", "k"),
    [
        (name, ball, k)
        for name in SOLVERS
        for ball, k in (("l1", 1), ("l1", 3), ("trace", 3))
        if (name, ball) != ("pairwise", "trace")
    ],
)
@pytest.mark.parametrize("loss", LOSSES)
@with_and_without
def test_solver_meets_the_optimum_honestly_and_only_falls(name, loss, ball, k, fit_intercept):
    problem, witness = make(loss, ball, k, fit_intercept=fit_intercept), Witness()
    least, W, _ = optimum(problem)
    result = check_run(SOLVERS[name], problem, tol=TOLS[name], optimum=least, watchers=[witness])
    assert max(witness.sizes) <= 1.0 + 1e-12
    assert (np.diff(witness.values) <= 1e-12 * least).all()
    if name in ("pairwise", "block"):
        np.testing.assert_allclose(result.point.weights, W, atol=1e-3)


@every_solver_and_ball
@with_and_without
def test_estimate_is_what_the_judge_says(name, ball, fit_intercept):
    problem, solver = make("smooth_hinge", ball, weights=WEIGHTS, fit_intercept=fit_intercept), SOLVERS[name]
    state = solver.start(problem, None, np.random.default_rng(0))
    for _ in range(4):
        state = solver.step(problem, state)
        certificate = problem.certificate(solver.point(problem, state))
        judged = certificate.residual - certificate.rounding
        if name == "plain" and ball == "trace":  # by its corner: never less than the truth
            assert solver.estimate(problem, state) >= judged * (1 - 1e-9)
        else:
            # The judge knows that no objective is negative: no relative gap exceeds 1.
            assert min(solver.estimate(problem, state), 1.0) == pytest.approx(judged, rel=1e-6, abs=1e-13)


@every_solver
@pytest.mark.parametrize("k", [1, 3])
@with_and_without
def test_dense_is_csr_is_float32_and_rows_without_weight_do_not_count(name, k, fit_intercept):
    problems = [make("logistic", "l1", k, form=f, weights=WEIGHTS, fit_intercept=fit_intercept) for f in FORMS.values()]
    X, target = samples("logistic", k)
    problems.append(
        Constrained(
            X[WEIGHTS > 0],
            target[WEIGHTS > 0],
            loss=problems[0].loss,
            ball=problems[0].ball,
            l2=problems[0].l2,
            weights=WEIGHTS[WEIGHTS > 0],
            fit_intercept=fit_intercept,
        )
    )
    values = [fit(problem, SOLVERS[name], tol=TOLS[name]).certificate.primal for problem in problems]
    np.testing.assert_allclose(values, optimum(problems[0])[0], rtol=max(TOLS[name], 1e-7))


@fast_solvers
@pytest.mark.parametrize("radius", [1e-3, 1.0, 300.0])
@pytest.mark.parametrize("offset", [0.0, 2.0])
def test_radius_may_be_tiny_or_out_of_reach_and_features_far_from_zero(solver, radius, offset):
    X, target = samples("smooth_hinge")
    problem = Constrained(
        X + offset, target, loss=ENTRYWISE["smooth_hinge"], ball=L1Ball(radius), l2=0.1, fit_intercept=True
    )
    result = fit(problem, solver, tol=1e-7)
    assert result.status is Status.CONVERGED
    assert result.certificate.primal == pytest.approx(optimum(problem)[0], rel=1e-6)
    assert problem.is_inactive(result.point) == (radius == 300.0)


@fast_solvers
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_without_a_ridge_the_frank_wolfe_gap_closes(solver, fit_intercept):
    problem = make("logistic", l2=0.0, fit_intercept=fit_intercept)
    result = fit(problem, solver, tol=1e-7)
    assert result.certificate.kind == "Frank-Wolfe gap"
    assert result.status is Status.CONVERGED
    assert result.certificate.primal == pytest.approx(optimum(problem)[0], rel=1e-6)


@pytest.mark.parametrize(
    ("ball", "solver", "tol"),
    [
        (Simplex(1.5), SOLVERS["pairwise"], 1e-8),
        (Simplex(1.5), SOLVERS["plain"], 1e-2),
        (Box(-0.2, 0.5), SOLVERS["plain"], 1e-2),
    ],
    ids=["pairwise-simplex", "plain-simplex", "plain-box"],
)
@pytest.mark.parametrize("k", [1, 3])
@with_and_without
def test_simplex_and_box_have_their_optimum(ball, solver, tol, k, fit_intercept):
    X, target = samples("squared", k)
    problem = Constrained(X, target, loss=ENTRYWISE["squared"], ball=ball, l2=0.1, fit_intercept=fit_intercept)
    result = fit(problem, solver, tol=tol)
    assert result.status is Status.CONVERGED
    assert ball.size(result.point.weights) <= 1.0 + 1e-12


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_pairwise_keeps_scores_and_gradient_up_to_date(form):
    problem, solver = make("logistic", k=3, form=form), SOLVERS["pairwise"]
    state = solver.start(problem, None, np.random.default_rng(0))
    for _ in range(5):
        state = solver.step(problem, state)
        np.testing.assert_allclose(state.scores, problem.scores(state.W), atol=1e-12)
    assert not state.move.any()
    assert not state.is_touched.any()


def test_pairwise_empties_corners_that_the_optimum_does_not_use():
    problem = make("squared", n=60, d=30)
    full = BallPoint(np.where(np.arange(30) % 2, 1.0, -1.0)[:, None] / 15.0, np.zeros(1))
    result = fit(problem, SOLVERS["pairwise"], init=full)
    used = np.abs(optimum(problem)[1]) > 1e-6
    assert 0 < used.sum() < 30
    np.testing.assert_array_equal(result.point.weights != 0.0, used)


@given(
    scores=st.lists(st.floats(-3, 3), min_size=4, max_size=4),
    move=st.lists(st.floats(-3, 3), min_size=4, max_size=4),
    loss=st.sampled_from(LOSSES),
    cross=st.floats(-1, 1),
    square=st.floats(0, 1),
)
def test_search_finds_the_lowest_point_of_the_line(scores, move, loss, cross, square):
    f, s, m = ENTRYWISE[loss], np.array(scores), np.array(move)
    target, weights = np.array([1.0, -1.0, 1.0, -1.0]), np.array([0.1, 0.2, 0.0, 0.7])

    def phi(t):
        return float(weights @ f.value(s + t * m, target)) + cross * t + 0.5 * square * t**2

    t = Line(f, weights, target, s, m, cross, square).search(2.0)
    assert 0.0 <= t <= 2.0
    values = [phi(u) for u in np.linspace(0.0, 2.0, 201)]
    assert phi(t) <= min(values) + 1e-4 * (values[0] - min(values)) + 1e-12


@given(
    v=st.lists(st.floats(-3, 3), min_size=5, max_size=5),
    size=st.integers(1, 5),
    radius=st.sampled_from([0.5, 2.0, 50.0]),
)
def test_sparse_step_beats_every_support(v, size, radius):
    """Maths: ball, eq. 12: the s largest entries, projected, are the nearest point with s entries."""
    V, ball = np.array(v)[:, None], L1Ball(radius)
    best, is_short = _with_few_entries(ball, V, size)
    assert np.count_nonzero(best) <= size
    for support in combinations(range(5), size):
        other = np.zeros_like(V)
        other[list(support)] = ball.project(V[list(support)])
        assert ((best - V) ** 2).sum() <= ((other - V) ** 2).sum() + 1e-12
    if not is_short:
        np.testing.assert_allclose(best, ball.project(V), atol=1e-12)


@pytest.mark.parametrize("shape", [(9, 6), (90, 80)])
@pytest.mark.parametrize("size", [1, 3, 6])
def test_step_of_low_rank_is_the_projection_unless_it_says_that_it_is_short(shape, size):
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.standard_normal((rows, 6)))[0] for rows in shape)
    V = (left * np.array([6.0, 5.0, 4.0, 3.0, 2.0, 1.0])) @ right.T
    ball = TraceBall(2.5)  # theta = (6 + 5 - 2.5) / 2 > 4: two values remain
    step, is_short = _of_low_rank(ball, V, size)
    assert isinstance(step, LowRank)
    assert step.rank <= size
    assert is_short == (size == 1)
    if not is_short:
        np.testing.assert_allclose(step.toarray(), ball.project(V), atol=1e-8)
    np.testing.assert_array_equal(_of_low_rank(ball, 0.0 * V, size)[0].toarray(), 0.0)


def test_size_that_is_too_small_grows_until_the_gap_closes():
    X, target = samples("smooth_hinge", 40, n=60, d=8)
    problem = Constrained(X, target, loss=ENTRYWISE["smooth_hinge"], ball=L1Ball(30.0), l2=0.1)
    assert np.count_nonzero(optimum(problem)[1].round(6)) > 100
    solver = SOLVERS["block"]
    state = solver.start(problem, None, np.random.default_rng(0))
    assert state.size == 100
    while solver.estimate(problem, state) > 1e-7:
        state = solver.step(problem, state)
    assert state.size > 100
    stuck = fit(problem, BallBlockFrankWolfe(size=20), tol=1e-7, max_iter=100)
    assert stuck.status is Status.STALLED
    assert stuck.certificate.residual > 1e-4


def test_wide_trace_ball_needs_no_full_decomposition():
    X, target = samples("squared", 70, n=90, d=80)
    problem = Constrained(X, target, loss=ENTRYWISE["squared"], ball=TraceBall(5.0), l2=0.1)
    result = fit(problem, SOLVERS["block"], tol=1e-5)
    assert result.status is Status.CONVERGED
    assert fit(problem, SOLVERS["plain"], tol=1e-2, max_iter=500).status is Status.CONVERGED


@every_solver
@with_and_without
def test_any_garbage_is_a_start_but_not_another_shape(name, fit_intercept):
    problem, solver = make("logistic", weights=WEIGHTS, fit_intercept=fit_intercept), SOLVERS[name]
    garbage = BallPoint(100.0 * np.random.default_rng(0).standard_normal((8, 1)), np.array([7.0]))
    first = fit(problem, solver, tol=TOLS[name], init=garbage)
    assert first.certificate.primal == pytest.approx(optimum(problem)[0], rel=max(TOLS[name], 1e-7))
    with pytest.raises(DataError, match="warm start"):
        fit(problem, solver, init=BallPoint(np.zeros((3, 1)), np.zeros(1)))


@every_solver
def test_nothing_to_learn_costs_nothing(name):
    assert_nothing_is_learnt_of_nothing(SOLVERS[name])


def test_settings_and_sets_that_do_not_fit_are_refused():
    with pytest.raises(IncompatibleError, match=r"found TraceBall.*Use BallFrankWolfe"):
        fit(make(ball="trace"), BallPairwise())
    X, target = samples("squared")
    box = Constrained(X, target, loss=ENTRYWISE["squared"], ball=Box(-1.0, 1.0), l2=0.1)
    with pytest.raises(IncompatibleError, match=r"found Box.*Use BallFrankWolfe"):
        fit(box, BallBlockFrankWolfe())
    with pytest.raises(IncompatibleError, match="eta='paper' needs l2 > 0"):
        fit(make(l2=0.0), BallBlockFrankWolfe(eta="paper"))
    with pytest.raises(IncompatibleError, match="choose one of search, paper"):
        BallBlockFrankWolfe(eta="guess")
    with pytest.raises(IncompatibleError, match="size must be None, or an integer >= 1; found 0"):
        BallBlockFrankWolfe(size=0)
