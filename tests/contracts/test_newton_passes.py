"""The compiled passes of Newton's method on the L2-SVM against NumPy, and its three ways to solve the same system."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_matrix, diags_array

from helpers import calls_of
from softmargin.core.aim import aiming_at
from softmargin.kernels import Linear
from softmargin.matrices.forms import is_thin
from softmargin.matrices.gram import Gram
from softmargin.matrices.rows import add_squares, as_rows
from softmargin.problems import L2SVM
from softmargin.run import Status, Stop, solve
from softmargin.solvers.common.hinge_newton import exact_step, fill_squares
from softmargin.solvers.squared_hinge import _newton_systems as systems
from softmargin.solvers.squared_hinge import newton
from softmargin.solvers.squared_hinge._newton_loop import (
    CentredSamples,
    PieceSums,
    balanced_bias,
    evaluate_piece,
    fill_adjoint,
    fill_curvature,
    fill_piece_dual,
    fill_products,
    fill_scaled,
    minimise_along,
)

N, D = 40, 7


def sparse(d=D, density=0.4):
    rng = np.random.default_rng(0)
    return csr_matrix(np.where(rng.random((N, d)) < density, rng.standard_normal((N, d)), 0.0))


@pytest.fixture
def rng():
    return np.random.default_rng(1)


def test_products_with_sparse_rows_are_those_of_numpy(rng):
    X, w, u = sparse(), rng.standard_normal(D), rng.standard_normal(N) * (rng.random(N) < 0.5)
    scores, total = np.empty(N), np.empty(D)
    fill_products(as_rows(X), np.zeros(D), w, scores)
    fill_adjoint(as_rows(X), np.zeros(D), u, total)
    np.testing.assert_allclose(scores, X @ w, atol=1e-13)
    np.testing.assert_allclose(total, X.T @ u, atol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_with_dense_rows_are_those_of_the_centred_matrix(rng, dtype):
    X, w, u = rng.standard_normal((N, D)).astype(dtype), rng.standard_normal(D), rng.standard_normal(N)
    mean = X.mean(axis=0, dtype=np.float64)
    scores, total = np.empty(N), np.empty(D)
    fill_products(as_rows(X), mean, w, scores)
    fill_adjoint(as_rows(X), mean, u, total)
    np.testing.assert_allclose(scores, (X - mean) @ w, atol=1e-12)
    np.testing.assert_allclose(total, (X - mean).T @ u, atol=1e-12)


@pytest.mark.parametrize("has_bias", [False, True])
def test_the_dual_point_of_a_piece_is_that_of_its_formula(rng, has_bias):
    X, y, C = rng.standard_normal((N, D)), np.where(rng.random(N) < 0.3, -1.0, 1.0), rng.uniform(0.1, 2.0, N)
    slack, fall, prices = rng.standard_normal((3, N))
    alpha, weights = np.empty(N), np.empty(D)
    samples = CentredSamples(as_rows(X), X.mean(axis=0), y, C, has_bias)
    linear, square = fill_piece_dual(samples, prices, slack, fall, alpha, weights)
    expected = np.where(prices > 0.0, np.maximum(C * (slack - fall), 0.0), 0.0)
    if has_bias:
        sides = expected[y > 0.0].sum(), expected[y < 0.0].sum()
        expected *= np.where(y > 0.0, *(min(sides) / np.array(sides)))
        assert abs(y @ alpha) <= 1e-12
    np.testing.assert_allclose(alpha, expected, atol=1e-14)
    np.testing.assert_allclose(weights, (X - X.mean(axis=0)).T @ (y * expected), atol=1e-12)
    np.testing.assert_allclose([linear, square], [expected.sum(), weights @ weights + expected @ (expected / C)])


@pytest.mark.parametrize("only", [-1.0, 1.0])
def test_samples_of_one_side_have_no_dual_point_where_the_bias_is_free(rng, only):
    X, alpha, weights = rng.standard_normal((N, D)), np.empty(N), np.empty(D)
    samples = CentredSamples(as_rows(X), np.zeros(D), np.full(N, only), np.ones(N), True)
    assert fill_piece_dual(samples, np.ones(N), np.ones(N), np.zeros(N), alpha, weights) == (0.0, 0.0)
    assert not alpha.any()


@pytest.mark.parametrize(("near", "has_bound"), [(0.0, False), (1.0, True)])
def test_a_piece_that_falls_far_is_not_tried_as_a_dual_point(rng, near, has_bound):
    X, y = rng.standard_normal((N, D)), np.where(rng.random(N) < 0.5, -1.0, 1.0)
    problem, solver = L2SVM(Gram(Linear(), X), y, C=1.0), newton.PrimalNewton(newton.PrimalNewtonTuning(near=near))
    state = solver.step(problem, solver.start(problem, None, rng))
    assert (state.bound > 0.0) == has_bound


def test_squares_are_the_upper_triangle_of_the_weighted_product(rng):
    X, prices = sparse(), rng.random(N) * (rng.random(N) < 0.7)
    H = np.eye(D)
    add_squares(as_rows(X), prices, H)
    whole = np.eye(D) + X.T @ (prices[:, None] * X.toarray())
    np.testing.assert_allclose(np.triu(H), np.triu(whole), atol=1e-13)


@pytest.mark.parametrize("is_sparse", [True, False])
def test_scaled_rows_come_in_pieces_and_lose_no_digits_to_an_offset(rng, is_sparse):
    X, prices = sparse(), rng.random(N) * (rng.random(N) < 0.7)
    shift = rng.standard_normal(D)
    if not is_sparse:
        X, shift = X.toarray() + 1e9, shift + 1e9
    whole, block, first, parts = (X.toarray() if is_sparse else X) - shift, np.empty((6, D)), 0, []
    while first < N:
        first, m = fill_scaled(as_rows(X), shift, prices, first, block)
        parts.append(block[:m].copy())
    expected = (np.sqrt(prices)[:, None] * whole)[prices > 0.0]
    np.testing.assert_allclose(np.concatenate(parts), expected, atol=1e-14)


def test_squares_of_centred_rows_lose_no_digits_to_an_offset(rng):
    X, prices, offset = sparse().toarray(), rng.random(N) * (rng.random(N) < 0.7), 1e9
    X, shift, H = X + offset, rng.standard_normal(D) + offset, np.full((D, D), np.nan)
    fill_squares(as_rows(X), shift, prices, H)
    rows = X - shift
    np.testing.assert_allclose(np.triu(H), np.triu(rows.T @ (prices[:, None] * rows)), atol=1e-12)


@pytest.mark.parametrize("is_sparse", [True, False])
@pytest.mark.parametrize("has_bias", [True, False])
def test_compiled_steps_lead_where_steps_by_systems_lead(rng, has_bias, is_sparse):
    X, y = sparse() if is_sparse else 1e3 + rng.standard_normal((N, D)), rng.choice([-1.0, 1.0], N)
    problem = L2SVM(Gram(Linear(), X), y, C=30.0 * rng.random(N), has_bias=has_bias)
    tuning = newton.PrimalNewtonTuning()
    assert systems.has_small_steps(X, tuning)
    several, each = (newton.PrimalNewton(tuning._replace(few=few, most_steps=3)) for few in (tuning.few, 0))
    one = several.step(problem, several.start(problem, None, rng))
    other = each.start(problem, None, rng)
    for _ in range(3):
        other = each.step(problem, other)
    for name in ("weights", "bias", "scores", "alpha", "bound", "damping"):
        mine, theirs = np.asarray(getattr(one, name)), np.asarray(getattr(other, name))
        np.testing.assert_allclose(mine, theirs, rtol=1e-7, atol=1e-9 * max(np.abs(theirs).max(), 1.0), err_msg=name)
    assert several.estimate(problem, one) == pytest.approx(each.estimate(problem, other), abs=1e-9)


def test_compiled_steps_end_at_the_wanted_gap(rng):
    X, y = rng.standard_normal((N, D)), rng.choice([-1.0, 1.0], N)
    problem, solver = L2SVM(Gram(Linear(), X), y, C=1.0), newton.PrimalNewton()
    with aiming_at(0.1):
        loose = solver.step(problem, solver.start(problem, None, rng))
    sharp = solver.step(problem, solver.start(problem, None, rng))
    assert 0.1 >= solver.estimate(problem, loose) > 1e3 * solver.estimate(problem, sharp)


def test_a_system_without_a_factor_is_left_to_the_step_that_copes(monkeypatch):
    """Where C |x|^2 is 2^80 nothing is left of the identity, and columns that are alike leave a pivot of zero."""
    y, calls = np.array([1.0, -1.0, 1.0, -1.0]), calls_of(monkeypatch, newton, "newton_move")
    problem = L2SVM(Gram(Linear(), np.column_stack([y, y])), y, C=2.0**78, has_bias=False)
    solver = newton.PrimalNewton()
    state = solver.step(problem, solver.start(problem, None, np.random.default_rng(0)))
    assert len(calls) == 1
    np.testing.assert_allclose(state.weights, 0.5)


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("is_sparse", [True, False])
def test_a_piece_has_the_sums_of_forces_at_its_bias_and_at_the_best_one(rng, has_bias, is_sparse):
    X, mean = sparse(), np.zeros(D)
    if not is_sparse:
        X, mean = X.toarray(), rng.standard_normal(D)
    y, C, scores, bias = rng.choice([-1.0, 1.0], N), rng.random(N), rng.standard_normal(N), 0.3 * has_bias
    prices, sums = np.empty(N), np.empty((3, D))
    samples = CentredSamples(as_rows(X), mean, y, C, has_bias)
    weights, (right, best_gradient, centre) = rng.standard_normal(D), sums
    found = evaluate_piece(samples, weights, scores, bias, PieceSums(prices, *sums))
    best = balanced_bias(y, C, scores, 0.0) if has_bias else 0.0
    xi, best_xi = (np.maximum(1.0 - y * (scores + b), 0.0) for b in (bias, best))
    rows = (X.toarray() if is_sparse else X) - mean
    np.testing.assert_array_equal(prices, np.where(xi > 0.0, C, 0.0))
    pull, mu = (y @ (C * xi), rows.T @ prices / prices.sum()) if has_bias else (0.0, np.zeros(D))
    expected = {"right": rows.T @ (y * C * xi) - weights - pull * mu, "centre": mu}
    expected["best_gradient"] = weights - rows.T @ (y * C * best_xi)
    for name, value in {"right": right, "centre": centre, "best_gradient": best_gradient}.items():
        np.testing.assert_allclose(value, expected[name], atol=1e-12, err_msg=name)
    half = 0.5 * weights @ weights
    P, best_P = half + 0.5 * C @ xi**2, half + 0.5 * C @ best_xi**2
    square = float(np.square(expected["best_gradient"]).sum())
    np.testing.assert_allclose(found, (pull, prices.sum(), P, best, best_P, square), atol=1e-11)


def test_minimise_along_finds_the_least_value_on_the_line_and_updates_the_scores(rng):
    X, mean, y, C = rng.standard_normal((N, D)), rng.standard_normal(D), rng.choice([-1.0, 1.0], N), rng.random(N)
    weights, bias = rng.standard_normal(D), 0.4
    scores = (X - mean) @ weights
    forces = y * C * np.maximum(1.0 - y * (scores + bias), 0.0)
    move, shift = (X - mean).T @ forces - weights, float(forces.sum())  # downhill

    def value(t):
        w, slack = weights + t * move, 1.0 - y * ((X - mean) @ (weights + t * move) + bias + t * shift)
        return 0.5 * w @ w + 0.5 * C @ np.maximum(slack, 0.0) ** 2

    new, moved = weights.copy(), scores.copy()
    samples = CentredSamples(as_rows(X), mean, y, C, True)
    t = minimise_along(samples, new, bias, moved, move, shift, np.empty(N), np.empty(N))
    assert t > 0.0
    assert value(t) <= min(value(s * t) for s in (0.0, 0.9, 0.999, 1.001, 1.1))
    np.testing.assert_allclose(new, weights + t * move, atol=1e-14)
    np.testing.assert_allclose(moved, (X - mean) @ new, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("start", [0.0, -30.0, 30.0])
def test_balanced_bias_is_the_best_one_of_the_judge(seed, start):
    rng = np.random.default_rng(seed)
    X, y, C = rng.standard_normal((N, D)), rng.choice([-1.0, 1.0], N), rng.random(N)
    scores = rng.standard_normal(N)
    problem = L2SVM(Gram(Linear(), X), y, C=C)
    assert balanced_bias(y, C, scores, start) == pytest.approx(problem.best_bias(scores), abs=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_exact_step_has_the_least_value_along_the_line(seed):
    rng = np.random.default_rng(seed)
    slack, fall, C = rng.standard_normal(N), rng.standard_normal(N), rng.random(N)
    quadratic = rng.random()
    # Downhill at first: linear is the slope of half a square norm.
    linear = float(C @ (fall * np.maximum(slack, 0.0))) - 1.0

    def value(t):
        return linear * t + 0.5 * quadratic * t**2 + 0.5 * C @ np.maximum(slack - t * fall, 0.0) ** 2

    best = minimize_scalar(value, bounds=(0.0, 100.0), method="bounded", options={"xatol": 1e-10})
    assert value(exact_step(linear, quadratic, slack, fall, C, np.inf)) <= best.fun + 1e-12 * (1.0 + abs(best.fun))


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("density", [0.15, 0.6, 1.0])
def test_all_ways_to_solve_give_the_same_move(rng, has_bias, density):
    is_sparse = density < 1.0
    X = sparse(60, density) if is_sparse else rng.standard_normal((N, 60))
    solver = newton.PrimalNewton()
    assert not is_sparse or is_thin(X, short=solver.tuning.short) == (density < 0.2)
    y, C = np.where(np.arange(N) % 2, 1.0, -1.0), 0.1 + rng.random(N)
    problem = L2SVM(Gram(Linear(), X), y, C=C, has_bias=has_bias)
    weights = 0.1 * rng.standard_normal(60)
    kept, bias = (np.zeros(N), np.zeros((60, 60))), 0.2 if has_bias else 0.0
    state = newton.NewtonState(weights, bias, np.zeros(60), X @ weights, np.zeros(N), *kept, damping=0.7)
    state.X, state.samples = X, CentredSamples(as_rows(X), state.mean, y, C, has_bias)
    piece = solver._evaluate(problem, state)
    few = np.where(rng.random(N) < 0.8, piece.prices, 0.0)
    centre = few @ X / few.sum() if has_bias else np.zeros(60)
    # A tiny gradient beside the objective makes conjugate gradients exact.
    right = 1e-12 * piece.right
    piece = piece._replace(prices=few, total=float(few.sum()), centre=centre, right=right)
    systems._solve_dense(state, piece._replace(prices=np.where(rng.random(N) < 0.9, few, C)), solver.tuning)
    first = systems._solve_dense(state, piece, solver.tuning)  # rows have entered and left the sum that is kept
    assert 0 < state.drift < np.count_nonzero(few)
    others = [systems._solve_by_samples(state, piece, solver.tuning)]
    if is_sparse:
        others.append(systems._solve_by_sparse_samples(state, piece, solver.tuning))
    move, is_exact = systems._solve_by_products(state, piece, solver.tuning, 500)
    assert is_exact
    others.append(move)
    rows = (X.toarray() if is_sparse else X) - centre
    product = (1.0 + state.damping) * first + rows.T @ (few * (rows @ first))
    np.testing.assert_allclose(product, right, atol=1e-8 * np.abs(right).max())
    for move in others:
        np.testing.assert_allclose(move, first, atol=1e-6 * np.abs(first).max())


def text_like(n, d, per_row, seed=0):
    """Draw rows of a few ones, and labels that a linear model does not quite know."""
    rng = np.random.default_rng(seed)
    places = rng.integers(0, d, (n, per_row))
    X = csr_matrix((np.ones(places.size), (np.repeat(np.arange(n), per_row), places.ravel())), shape=(n, d))
    scores = X @ rng.standard_normal(d)
    return X, np.where(scores + rng.standard_normal(n) > np.median(scores), 1.0, -1.0)


@pytest.fixture
def factors(monkeypatch):
    """Count the systems that are factored."""
    return calls_of(monkeypatch, systems, "_solve_dense")


@pytest.mark.parametrize(("n", "d", "factor"), [(3000, 800, "_solve_dense"), (1500, 1800, "_solve_by_samples")])
def test_sparse_systems_with_a_dear_factor_are_solved_by_products(n, d, factor, monkeypatch):
    """That of samples, where these are fewer than features, would multiply the rows as arrays."""
    X, y = text_like(n, d, 8)
    factors, problem = calls_of(monkeypatch, systems, factor), L2SVM(Gram(Linear(), X), y, C=1.0)
    result = solve(problem, newton.PrimalNewton(), stop=Stop(1e-8, 100), rng=0)
    assert result.status is Status.CONVERGED
    assert not factors
    dear = newton.PrimalNewton(newton.PrimalNewtonTuning(fewest_products=1000))
    factored = solve(problem, dear, stop=Stop(1e-8, 100), rng=0)
    assert len(factors) >= 3
    assert result.certificate.primal == pytest.approx(factored.certificate.primal, rel=1e-7)


def test_products_that_are_not_exact_enough_are_tried_once(factors):
    """Columns differ in scale, and moves shall be exact: that takes more products than there is time for."""
    X, y = text_like(3000, 800, 8)
    X = (X @ diags_array(10.0 ** np.random.default_rng(1).uniform(-2.0, 2.0, 800))).tocsr()
    solver = newton.PrimalNewton(newton.PrimalNewtonTuning(least_exact=1e-12))
    problem = L2SVM(Gram(Linear(), X), y, C=100.0)
    state = solver.start(problem, None, np.random.default_rng(0))
    hard = []
    for _ in range(8):
        state = solver.step(problem, state)
        hard.append(state.is_hard)
    assert hard[-1]
    assert len(factors) == sum(hard)
    assert solve(problem, solver, stop=Stop(1e-3, 300), rng=0).status is Status.CONVERGED


def test_a_cheap_factor_is_not_replaced_by_products(factors):
    X, y = text_like(3000, 60, 8)
    assert solve(L2SVM(Gram(Linear(), X), y, C=1.0), newton.PrimalNewton(), stop=Stop(1e-6, 50), rng=0).n_iter == len(
        factors
    )


@pytest.mark.parametrize("total", [0.0, 1.5])
def test_products_with_the_system_are_those_of_numpy(rng, total):
    X, v, centre = sparse(), rng.standard_normal(D), rng.standard_normal(D)
    prices, active, out = rng.random(N), np.array([3, 5, 30]), np.full(D, np.nan)
    expected = 1.7 * v - total * centre * (centre @ v) + X[active].T @ (prices[active] * (X[active] @ v))
    fill_curvature(as_rows(X), active, prices, 1.7, total, centre, v, out)
    np.testing.assert_allclose(out, expected, rtol=1e-12)
