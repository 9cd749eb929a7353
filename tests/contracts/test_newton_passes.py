"""The compiled passes of Newton's method on the L2-SVM against NumPy, and its three ways to solve the same system."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_matrix

from softmargin.kernels import Linear
from softmargin.matrices.gram import Gram
from softmargin.matrices.rows import as_rows
from softmargin.problems import L2SVM
from softmargin.solvers import newton
from softmargin.solvers.parts.newton_passes import (
    add_squares,
    balanced_bias,
    exact_step,
    fill_adjoint,
    fill_forces,
    fill_products,
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


def test_squares_are_the_upper_triangle_of_the_weighted_product(rng):
    X, prices = sparse(), rng.random(N) * (rng.random(N) < 0.7)
    H = np.eye(D)
    add_squares(as_rows(X), prices, H)
    whole = np.eye(D) + X.T @ (prices[:, None] * X.toarray())
    np.testing.assert_allclose(np.triu(H), np.triu(whole), atol=1e-13)


def test_forces_and_losses_are_their_formulas(rng):
    y, C, scores = rng.choice([-1.0, 1.0], N), rng.random(N), rng.standard_normal(N)
    forces = np.empty(N)
    losses = fill_forces(y, C, scores, 0.3, forces)
    slack = np.maximum(1.0 - y * (scores + 0.3), 0.0)
    np.testing.assert_allclose(forces, y * C * slack, atol=1e-15)
    assert losses == pytest.approx(0.5 * C @ slack**2)


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
    assert value(exact_step(linear, quadratic, slack, fall, C)) <= best.fun + 1e-12 * (1.0 + abs(best.fun))


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("density", [0.15, 0.6, 1.0])
def test_three_ways_to_solve_give_the_same_move(rng, has_bias, density):
    is_sparse = density < 1.0
    X = sparse(60, density) if is_sparse else rng.standard_normal((N, 60))
    assert not is_sparse or newton._is_thin(X) == (density < 0.2)
    y, C = np.where(np.arange(N) % 2, 1.0, -1.0), 0.1 + rng.random(N)
    problem = L2SVM(Gram(Linear(), X), y, C=C, has_bias=has_bias)
    state = newton.PrimalNewton().start(problem, None, rng)
    state.X, state.mean = X, np.zeros(60)
    state.weights[:] = 0.1 * rng.standard_normal(60)
    state.scores[:] = X @ state.weights
    gradient, pull, losses = newton._gradient(problem, state, 0.2)
    active = (1.0 - y * (state.scores + 0.2) > 0.0) & (rng.random(N) < 0.8)
    # A tiny gradient beside the objective makes conjugate gradients exact.
    piece = newton._Piece(active, 1e-12 * gradient, 1e-12 * pull, losses)
    ways = (newton._solve_dense, newton._solve_by_samples, newton._solve_by_products)
    (first, centre), *others = (way(problem, state, piece) for way in ways)
    right = piece.pull * centre - piece.gradient
    rows = (X.toarray() if is_sparse else X)[active] - centre
    np.testing.assert_allclose(first + rows.T @ (C[active] * (rows @ first)), right, atol=1e-8 * np.abs(right).max())
    for move, middle in others:
        np.testing.assert_allclose(middle, centre, atol=1e-12)
        np.testing.assert_allclose(move, first, atol=1e-6 * np.abs(first).max())
