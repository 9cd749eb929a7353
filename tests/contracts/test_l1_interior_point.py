"""The interior point for l1: its equations hold, its systems are solved, it proves what proximal Newton does not."""

import cvxpy as cp
import numpy as np
import pytest
from scipy.sparse import csr_matrix

from reference.softmax_optimum import softmax_optimum
from softmargin import NotCertifiedWarning, SoftmaxRegression, Stop, solve
from softmargin.core.aim import aiming_at
from softmargin.data import blobs, load
from softmargin.estimators.posing.auto import find_solver
from softmargin.estimators.posing.finishers import finisher_of
from softmargin.losses.multinomial import softmax
from softmargin.penalties import L1, L2, ElasticNet
from softmargin.problems import L1Composite, softmax_problem
from softmargin.solvers import HandOver, L1InteriorPoint, ProxNewton
from softmargin.solvers.softmax._barrier_metrics import WholeTuning, class_metric, whole_metric
from softmargin.solvers.softmax._class_grams import ClassGramTuning
from softmargin.solvers.softmax._ridge_objective import RidgeObjective
from softmargin.solvers.softmax._split_weights import SplitWeights, divided


def digits(n=400, scale=16.0, **settings):
    """Return the problem of handwritten digits with large pixels."""
    data = load("digits")
    return softmax_problem(scale * data.X[:n], data.y[:n], penalty=L1(1.0), **settings)


def after(problem, n_steps, init=None, tol=1e-3):
    """Return the state after some steps of a run to ``tol``."""
    solver = L1InteriorPoint()
    with aiming_at(tol):
        state = solver.start(problem, init, np.random.default_rng(0))
        for _ in range(n_steps):
            state = solver.step(problem, state)
    return solver, state


def split(rng, strength=2.0, width=0.1, shape=(4, 3)):
    """Return weights with parts and slopes that are not on the path of the barrier."""
    up, down, slopes = 0.1 + rng.random(shape), 0.1 + rng.random(shape), rng.uniform(-0.9, 0.9, shape)
    return SplitWeights(up - down, up, down, slopes, strength, width)


# --- weights as differences of positive parts ------------------------------------------------------------------------


def test_divided_weights_are_on_the_path_of_the_barrier():
    W, width = np.array([[3.0, -1e-12, 0.0, -2e6, 1e-3]]), 1e-3
    up, down, slopes = divided(W, width)
    np.testing.assert_allclose(up - down, W, rtol=1e-12, atol=1e-18)
    np.testing.assert_allclose(up * (1.0 - slopes), width, rtol=1e-6)
    np.testing.assert_allclose(down * (1.0 + slopes), width, rtol=1e-6)
    assert (np.abs(slopes) <= 1.0).all()


def test_a_step_solves_the_linear_equations_of_the_barrier():
    """Newton: d(U (1 - t)) = width - U (1 - t), the same of V, and dU - dV = D."""
    rng = np.random.default_rng(0)
    parts = split(rng)
    D = rng.standard_normal(parts.W.shape)
    move = parts.move(D)
    np.testing.assert_allclose(move.up - move.down, D, atol=1e-12)
    up, down, t, width = parts.up, parts.down, parts.slopes, parts.width
    np.testing.assert_allclose((1.0 - t) * move.up - up * move.slopes, width - up * (1.0 - t), atol=1e-12)
    np.testing.assert_allclose((1.0 + t) * move.down + down * move.slopes, width - down * (1.0 + t), atol=1e-12)
    np.testing.assert_allclose(parts.slopes_at_rest(), t + parts.move(np.zeros_like(D)).slopes, atol=1e-12)


def test_slope_and_curvature_along_a_step_are_those_of_the_barrier():
    rng = np.random.default_rng(1)
    parts = split(rng)
    move, h = parts.move(0.1 * rng.standard_normal(parts.W.shape)), 1e-5
    for length in (0.0, 0.3):
        value, slope, bend = parts.along(move, length)
        before, ahead = (parts.along(move, length + step)[0] for step in (-h, h))
        assert slope == pytest.approx((ahead - before) / (2.0 * h), rel=1e-6)
        assert bend == pytest.approx((ahead - 2.0 * value + before) / h**2, rel=1e-3)


def test_parts_stay_positive_and_slopes_inside_however_long_a_step_is():
    rng = np.random.default_rng(2)
    for size in (1e-3, 1.0, 1e6):
        parts = split(rng)
        move = parts.move(size * rng.standard_normal(parts.W.shape))
        parts.go(move, min(parts.longest(move), 1.0))
        assert parts.up.min() > 0.0
        assert parts.down.min() > 0.0
        assert np.abs(parts.slopes).max() < 1.0
        np.testing.assert_allclose(parts.up - parts.down, parts.W, atol=1e-9 * size)


# --- preconditioners -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_whole_metric_inverts_the_hessian(form, fit_intercept):
    X, y = blobs(60, 5, 3, seed=0)
    problem = softmax_problem(form(X), y, penalty=L2(1e-9), fit_intercept=fit_intercept)
    objective, rng = RidgeObjective(problem), np.random.default_rng(0)
    objective.ridge, k = 0.0, objective.k
    objective.matrix(objective.P)[:] = rng.dirichlet(np.ones(3), len(y))
    theta = np.zeros((6, k))
    theta[:-1, :3] = 10.0 ** rng.uniform(-2, 1, (5, 3))
    theta[2, 1] = 1e9  # held: solved by itself
    made, entries = whole_metric(objective, objective.all_rows, theta, WholeTuning(faint=0.0))
    assert entries == 3 * (5 + fit_intercept) - 1
    V, out = np.zeros(objective.size), np.empty(objective.size)
    objective.matrix(V)[: 5 + fit_intercept] = rng.standard_normal((5 + fit_intercept, 3))
    objective.matrix(V)[-1] -= objective.matrix(V)[-1].mean()  # as gradients have it
    objective.hessian_times(objective.all_rows, made.solve(V), np.empty(len(objective.P)), out)
    out += theta.ravel() * made.solve(V)
    np.testing.assert_allclose(objective.matrix(out), objective.matrix(V), atol=2e-4 * np.abs(V).max())


def test_metrics_are_symmetric_and_positive_and_too_many_entries_have_none():
    problem = digits()
    _, state = after(problem, 12)
    objective, rng = state.objective, np.random.default_rng(0)
    theta, rows = state.anchor_theta.reshape(-1, objective.k), objective.all_rows._replace(P=state.anchor)
    whole, entries = whole_metric(objective, rows, theta, WholeTuning())
    metrics = [
        whole,
        class_metric(objective, rows, theta, 4.0, rng, ClassGramTuning()),
        class_metric(objective, rows, theta, 4.0, rng, ClassGramTuning(max_features=3)),  # the diagonal
    ]
    for made in metrics:
        V, U = (np.zeros(objective.size) for _ in range(2))
        for flat in (V, U):
            objective.matrix(flat)[:] = rng.standard_normal((objective.X.shape[1] + 1, 10))
            objective.matrix(flat)[-1] -= objective.matrix(flat)[-1].mean()
        assert U @ made.solve(V) == pytest.approx(V @ made.solve(U), rel=1e-3)
        assert V @ made.solve(V) > 0.0
    assert whole_metric(objective, rows, theta, WholeTuning(most_entries=entries - 1)) == (None, entries)


@pytest.mark.parametrize("max_features", [3000, 3], ids=["a matrix per class", "diagonal"])
def test_what_all_classes_share_is_solved_exactly_by_every_metric(max_features):
    """H maps W + v 1' to theta v 1', whatever the preconditioner knows of the rest."""
    X, y = blobs(60, 5, 3, seed=0)
    problem = softmax_problem(X, y, penalty=L2(1e-9))
    objective, rng = RidgeObjective(problem), np.random.default_rng(0)
    objective.ridge = 0.0
    objective.matrix(objective.P)[:] = rng.dirichlet(np.ones(3), len(y))
    theta, shared = np.zeros((6, objective.k)), rng.standard_normal((5, 1))
    theta[:-1, :3] = 10.0 ** rng.uniform(-2, 1, (5, 3))
    made = class_metric(objective, objective.all_rows, theta, 4.0, rng, ClassGramTuning(max_features=max_features))
    V = theta.copy()
    V[:-1] *= shared
    found = objective.matrix(made.solve(V.ravel()))
    np.testing.assert_allclose(found[:-1, :3], np.tile(shared, 3), rtol=1e-9)


# --- runs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("C", [0.05, 1.0, 30.0])
def test_optimum_is_that_of_clarabel(k, C):
    X, y = blobs(40, 4, k, seed=3, separation=1.0)
    problem = softmax_problem(X, y, C=C, penalty=L1(0.5))
    best, _, _ = softmax_optimum(X, y, C, lambda W: (0.5 * cp.sum(cp.abs(W)), []), n_classes=k)
    result = solve(problem, L1InteriorPoint(), stop=Stop(tol=1e-6, max_iter=200), rng=0)
    assert result.status.value == "converged"
    assert result.certificate.bound <= best * (1.0 + 1e-8)
    assert result.certificate.primal == pytest.approx(best, rel=2e-6)


def test_each_step_of_the_barrier_lowers_its_function_and_the_width_falls_no_further_than_it_needs():
    problem, tol = digits(), 1e-3
    solver, state = after(problem, 0)
    widths = []
    with aiming_at(tol):
        for _ in range(40):
            before = (state.width, state.value)
            state = solver.step(problem, state)
            if before[0] == state.width > 0.0:
                assert state.value <= before[1] * (1.0 + 1e-9)
            widths.append(state.width)
    F = problem.primal(solver.point(problem, state)).value
    assert max(widths) > 100.0 * widths[-1]
    # The gap of the barrier is below a quarter of tol; one width earlier it was not.
    gap = 2.0 * problem.strength * problem.X.shape[1] * 10 * widths[-1] / F
    assert solver.barrier.enough * tol / solver.barrier.fall * 0.99 <= gap <= solver.barrier.enough * tol


def test_slopes_and_probabilities_tend_to_the_optimality_conditions():
    problem = digits(200)
    _, state = after(problem, 40, tol=1e-9)
    objective = state.objective
    U, G = np.zeros(len(objective.trial)), np.zeros(objective.size)
    q = np.exp(state.logs.reshape(objective.n, -1))
    objective.matrix(U)[:] = q
    objective.losses.fill_gradient(U, U, G)
    slopes = state.slopes.reshape(problem.shape)
    np.testing.assert_allclose(objective.matrix(G)[:-1], -problem.strength * slopes, atol=1e-5)
    P = softmax(problem.scores(objective.losses.unpack(state.weights)))
    np.testing.assert_allclose(q, P, atol=1e-5)


def test_small_weights_are_zero_in_the_point_and_f_is_not_spoilt():
    problem = digits()
    result = solve(problem, L1InteriorPoint(), stop=Stop(tol=1e-3), rng=0)
    proximal = solve(problem, ProxNewton(), stop=Stop(tol=1e-6), rng=0)
    n_used, n_best = (np.count_nonzero(each.point.weights) for each in (result, proximal))
    assert n_used <= 1.5 * n_best < 0.5 * problem.X.shape[1] * 10
    assert result.certificate.primal <= proximal.certificate.primal * (1.0 + 1e-3)


def test_zeros_that_would_spoil_f_are_not_made():
    """With a wide barrier even the weights that matter are within some widths."""
    X, y = blobs(300, 3, 3, seed=0, separation=0.5)
    problem = softmax_problem(X, y, C=100.0, penalty=L1(1.0))
    solver, state = after(problem, 12, tol=1e-2)
    point = solver.point(problem, state)
    weights = state.objective.losses.unpack(state.weights).weights
    assert (np.abs(weights) <= solver.barrier.zero * state.width).any()
    assert problem.primal(point).value <= problem.primal(point._replace(weights=weights)).value * 1.001
    everything = np.where(np.abs(weights) <= solver.barrier.zero * state.width, 0.0, weights)
    assert problem.primal(point._replace(weights=everything)).value > problem.primal(point).value


def test_copies_and_constants_leave_the_optimum_where_it_is():
    X, y = blobs(60, 3, 3, seed=1, separation=1.0)
    more = np.column_stack([X, X[:, 0], np.full(60, 7.0), np.zeros(60)])
    values = [
        solve(softmax_problem(rows, y, penalty=L1(0.5)), L1InteriorPoint(), stop=Stop(tol=1e-6), rng=0).certificate
        for rows in (X, more)
    ]
    assert values[0].primal == pytest.approx(values[1].primal, rel=2e-6)
    assert max(each.residual for each in values) <= 1e-6


def test_classes_that_can_be_separated_and_a_huge_c_are_certified():
    X, y = blobs(90, 4, 3, seed=0, separation=20.0)
    for C in (1e-8, 1e8):
        result = solve(softmax_problem(X, y, C=C, penalty=L1(1.0)), L1InteriorPoint(), stop=Stop(max_iter=200), rng=0)
        assert result.status.value == "converged"
    assert not solve(softmax_problem(X, y, C=1e-8, penalty=L1(1.0)), L1InteriorPoint(), rng=0).point.weights.any()


def test_more_features_than_a_matrix_per_class_may_have_are_solved_by_the_diagonal():
    X, y = blobs(60, 3500, 3, seed=0, sparse=True, density=0.01)
    result = solve(softmax_problem(X, y, penalty=L1(0.1)), L1InteriorPoint(), stop=Stop(tol=1e-3), rng=0)
    assert result.status.value == "converged"


# --- the certificate -------------------------------------------------------------------------------------------------


def test_dual_point_counts_where_probabilities_of_the_weights_underflow():
    """P is zero where q is not, so that their divergence is infinite in floating point; the gap of q is not."""
    X, y = blobs(60, 2, 3, seed=0, separation=1.0)
    easy = softmax_problem(X, y, penalty=L1(1.0))
    weights, _, _ = solve(easy, ProxNewton(), stop=Stop(tol=1e-8), rng=0).point
    far = np.array([1e5, 0.0])  # the sample of this row is right, whatever its loss
    problem = softmax_problem(np.vstack([X, far]), np.append(y, np.argmax(far @ weights)), penalty=L1(1.0))
    best = solve(problem, ProxNewton(), stop=Stop(tol=1e-8), rng=0).point
    q = softmax(problem.scores(best)) + 1e-30
    near = best._replace(weights=1.03 * best.weights)
    assert softmax(problem.scores(near)).min() == 0.0
    alone, with_q = (problem.certificate(near._replace(dual=dual)).residual for dual in (None, q))
    assert with_q < 0.2 * alone


# --- auto ------------------------------------------------------------------------------------------------------------


def test_l1_alone_has_a_kind_of_its_own():
    X, y = blobs(30, 3, 3, seed=0)
    kinds = [softmax_problem(X, y, penalty=p).kind for p in (L1(1.0), ElasticNet(1.0, 0.5), L2(1.0), L1(0.0))]
    assert kinds == ["softmax l1", "softmax", "softmax ridge", "softmax ridge"]
    problem = softmax_problem(X, y, C=2.0, penalty=L1(1.0))
    assert isinstance(problem, L1Composite)
    for share, is_zero in ((1.01, True), (0.99, False)):
        other = problem.with_penalty(L1(share * problem.largest_strength))
        assert solve(other, ProxNewton(), stop=Stop(tol=1e-9), rng=0).point.weights.any() != is_zero


def test_auto_starts_the_interior_point_at_once_on_raw_pixels_and_keeps_proximal_newton_elsewhere():
    data = load("digits")
    wide = np.hstack([data.X, np.roll(data.X, 1, axis=1), data.X**2, np.roll(data.X, 8, axis=1), data.X[:, ::-1]])
    raw, easy = (softmax_problem(scale * wide, data.y, penalty=L1(1.0)) for scale in (1e4, 1.0))
    assert find_solver("auto", raw) == L1InteriorPoint()
    assert find_solver("auto", easy) == HandOver(ProxNewton(), L1InteriorPoint(), patience=1.0)
    few = softmax_problem(1e6 * data.X, data.y, penalty=L1(1.0))  # H is written out
    assert isinstance(find_solver("auto", few), HandOver)
    X, y = blobs(100, 4000, 3, seed=0, sparse=True, density=0.01)
    assert finisher_of(softmax_problem(X, y, penalty=L1(1.0)), "prox_newton") is None


def test_auto_finishes_what_proximal_newton_does_not():
    """Features of all sizes that are nearly copies of each other, and classes that overlap."""
    X, y = blobs(400, 15, 6, seed=0, separation=2.0)
    sizes = 10.0 ** np.random.default_rng(0).uniform(-1.0, 3.0, 15)
    X = (1e-5 * X + 0.99999 * X.mean(axis=1, keepdims=True)) * sizes
    asked = {"C": 1000.0, "l1_ratio": 1.0, "random_state": 0, "max_iter": 200}
    with pytest.warns(NotCertifiedWarning):
        alone = SoftmaxRegression(solver="prox_newton", **asked).fit(X, y)
    assert {row.solver for row in alone.trace_} == {"ProxNewton"}  # who is asked for by name stays
    found = SoftmaxRegression(**asked).fit(X, y)
    assert (found.status_, found.trace_[-1].solver) == ("converged", "L1InteriorPoint")
    np.testing.assert_array_equal(found.coef_, SoftmaxRegression(**asked).fit(X, y).coef_)


def curves(n, d, k):
    """Make sums of smooth waves and a little noise, by class: features that are nearly their neighbours."""
    rng, y = np.random.default_rng(0), np.arange(n) % k
    waves = np.sin(np.outer(np.arange(1, 11), np.linspace(0.0, 3.0, d)))
    sizes = (rng.standard_normal((k, 10))[y] + 2.0 * rng.standard_normal((n, 10))) * 10.0 / np.arange(1, 11)
    return sizes @ waves + 0.1 * rng.standard_normal((n, d)), y


def test_auto_hands_over_after_few_models_whose_passes_do_not_end():
    """Each takes hundreds of passes: far more than a step of the interior point."""
    X, y = curves(600, 200, 5)
    fit = SoftmaxRegression(C=10.0, l1_ratio=1.0, random_state=0).fit(X, y)
    by_solver = {row.solver: row.iteration for row in fit.trace_}
    assert (fit.status_, list(by_solver)) == ("converged", ["ProxNewton", "L1InteriorPoint"])
    assert by_solver["ProxNewton"] <= 12


@pytest.mark.parametrize(("n", "d", "k"), [(300, 400, 4), (2000, 30, 2)])
def test_work_of_models_is_counted_in_passes_over_all_samples(n, d, k):
    """By samples it takes as many as are allowed, at most; H written out takes less than these would."""
    problem = softmax_problem(*curves(n, d, k), penalty=L1(10.0))
    solver = ProxNewton(max_passes=20, per_feature=np.inf)
    state, before = solver.start(problem, None, np.random.default_rng(0)), 0.0
    for _ in range(3):
        allowed = 1.01 * state.max_passes  # the constant feature is one more
        state = solver.step(problem, state)
        work, before = solver.work_done(state) - before, solver.work_done(state)
        assert 1.0 < work < allowed
