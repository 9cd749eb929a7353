"""The compiled loops that softmax solvers share: exp in lanes, products with padded weights, losses along a line."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from softmargin.backends.jit import jit
from softmargin.backends.lanes import WIDTH, exp, load, padded, pointer, store, zeros
from softmargin.data import blobs
from softmargin.losses.multinomial import cross_entropy, one_hot, softmax
from softmargin.matrices.products import adjoint, times
from softmargin.matrices.rows import as_rows, transposed
from softmargin.penalties import L2
from softmargin.problems import CompositePoint, softmax_problem
from softmargin.solvers.softmax._losses import (
    NEVER,
    SoftmaxLosses,
    curvature_times,
    loss_along,
    residuals,
    softmax_rows,
)


@jit
def exp_all(x, out):
    x_, out_ = pointer(x), pointer(out)
    for o in range(0, x.shape[0], WIDTH):
        store(out_, o, exp(load(x_, o)))


def test_exp_in_lanes_is_exact_to_rounding():
    x = np.concatenate([np.linspace(-708, 709, 4000), np.linspace(-1, 1, 4000)])
    out = np.empty_like(x)
    exp_all(x, out)
    np.testing.assert_allclose(out, np.exp(x), rtol=4e-16)


def test_exp_in_lanes_at_its_ends():
    out = np.empty(4)
    exp_all(np.array([-np.inf, NEVER, 1e4, np.nan]), out)
    assert out[0] == out[1] == 0.0
    assert 8e307 < out[2] < np.inf
    assert np.isnan(out[3])


MATRICES = {
    "dense": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "csr": csr_matrix,
    "csr float32": lambda X: csr_matrix(X.astype(np.float32)),
}


def padded_zeros(rows, k):
    return zeros(rows * padded(k))


@pytest.mark.parametrize("k", [1, 4, 5, 11, 19])
@pytest.mark.parametrize("matrix", MATRICES)
def test_products_with_padded_weights_equal_the_plain_ones(matrix, k):
    rng = np.random.default_rng(k)
    X = rng.standard_normal((23, 7)) * (rng.random((23, 7)) < 0.6)
    width = padded(k)
    W, U = padded_zeros(8, k), padded_zeros(23, k)
    W.reshape(8, width)[:, :k] = rng.standard_normal((8, k))
    U.reshape(23, width)[:, :k] = rng.standard_normal((23, k))
    data = MATRICES[matrix](X)
    plain = (data.toarray() if matrix.startswith("csr") else data).astype(np.float64)
    out = padded_zeros(23, k)
    times(data, W, 0.5, width, out)
    np.testing.assert_allclose(out.reshape(23, width), np.hstack([plain, np.full((23, 1), 0.5)]) @ W.reshape(8, width))
    back = np.full(8 * width, 3.0)  # what was there before does not matter
    adjoint(data, U, 0.5, width, back)
    expected = np.hstack([plain, np.full((23, 1), 0.5)]).T @ U.reshape(23, width)
    np.testing.assert_allclose(back.reshape(8, width), expected, atol=1e-13)


@pytest.mark.parametrize("matrix", MATRICES)
def test_columns_are_the_rows_of_the_transpose(matrix):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((9, 4)) * (rng.random((9, 4)) < 0.6)
    data = MATRICES[matrix](X)
    turned = transposed(data)
    columns = as_rows(turned)
    assert turned.dtype == data.dtype
    plain = (data.toarray() if matrix.startswith("csr") else data).astype(np.float64)
    for j in range(4):
        begin, end = columns.entries(j)
        column = np.zeros(9)
        for p in range(begin, end):
            column[columns.column(j, p)] += columns.value(p)
        np.testing.assert_array_equal(column, plain[:, j])
        assert columns.sqnorm(j) == pytest.approx(float(plain[:, j] @ plain[:, j]))


def scores_of(n, k, seed, scale=3.0):
    """Return padded scores, and the plain scores of all classes (with the pinned one for k = 1)."""
    rng = np.random.default_rng(seed)
    plain = scale * rng.standard_normal((n, k))
    S = np.full((n, padded(k)), NEVER)
    S[:, :k] = plain
    full = np.hstack([np.zeros((n, 1)), plain]) if k == 1 else plain
    y = rng.integers(0, full.shape[1], n).astype(np.int32)
    return S.ravel(), full, y, (y - 1 if k == 1 else y), rng.random(n)


@pytest.mark.parametrize("k", [1, 3, 4, 9])
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_compiled_losses_equal_the_judges(k, scale):
    S, full, y, target, C = scores_of(17, k, seed=k, scale=scale)
    P = np.empty_like(S)
    loss = softmax_rows(S, target, C, padded(k), k == 1, P)
    assert loss == pytest.approx(float(C @ cross_entropy(full, y)), rel=1e-13)
    wanted = softmax(full)[:, 1:] if k == 1 else softmax(full)
    rows = P.reshape(17, -1)
    np.testing.assert_allclose(rows[:, :k], wanted, atol=1e-15)
    assert not rows[:, k:].any()
    U = np.empty_like(P)
    residuals(P, target, C, padded(k), U)
    Y = one_hot(y, full.shape[1])
    expected = (C[:, None] * (softmax(full) - Y))[:, -k:]
    np.testing.assert_allclose(U.reshape(17, -1)[:, :k], expected, atol=1e-15)


@pytest.mark.parametrize("k", [1, 3, 9])
def test_losses_along_a_line_have_the_derivatives_that_differences_show(k):
    S, full, y, target, C = scores_of(17, k, seed=k, scale=1.0)
    T = np.zeros((17, padded(k)))
    T[:, :k] = np.random.default_rng(1).standard_normal((17, k))
    T = T.ravel()
    new, P = np.empty_like(S), np.empty_like(S)

    def at(length):
        return np.array(loss_along(S, T, length, target, C, padded(k), k == 1, new, P))

    h = 1e-5
    loss, slope, bend = at(0.3)
    move = T.reshape(17, -1)[:, :k]
    full_move = np.hstack([np.zeros((17, 1)), move]) if k == 1 else move
    assert loss == pytest.approx(float(C @ cross_entropy(full + 0.3 * full_move, y)), rel=1e-13)
    assert slope == pytest.approx((at(0.3 + h)[0] - at(0.3 - h)[0]) / (2 * h), rel=1e-7)
    assert bend == pytest.approx((at(0.3 + h)[1] - at(0.3 - h)[1]) / (2 * h), rel=1e-7)
    # The Hessian by the scores says the same.
    P, out = np.empty_like(S), np.empty_like(S)
    softmax_rows(S, target, C, padded(k), k == 1, P)
    curvature_times(P, T, C, padded(k), out)
    assert float(out @ T) == pytest.approx(at(0.0)[2], rel=1e-12)


@pytest.mark.parametrize("k", [2, 3, 6])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_gradient_and_intercept_step_of_a_problem(k, fit_intercept):
    X, y = blobs(40, 5, k, seed=k)
    C = np.random.default_rng(0).random(40)
    problem = softmax_problem(X, y, C=C, penalty=L2(1.0), fit_intercept=fit_intercept)
    rng = np.random.default_rng(1)
    point = CompositePoint(rng.standard_normal((5, problem.n_columns)), np.zeros(problem.n_columns))
    losses = SoftmaxLosses(problem)
    W = losses.pack(point)
    n = 40
    S, P, U = (zeros(n * padded(problem.n_columns)) for _ in range(3))
    G = np.zeros_like(W)
    losses.fill_scores(W, S)
    loss = losses.fill_probabilities(S, P)
    assert loss + L2(1.0).value(point.weights) == pytest.approx(problem.primal(point).value, rel=1e-12)
    losses.fill_gradient(P, U, G)
    step = 1e-6
    for j, c in [(0, 0), (4, problem.n_columns - 1)]:
        moved = point.weights.copy()
        moved[j, c] += step
        slope = (problem.primal(CompositePoint(moved, point.intercept)).value - problem.primal(point).value) / step
        slope -= (L2(1.0).value(moved) - L2(1.0).value(point.weights)) / step
        assert losses.matrix(G)[j, c] == pytest.approx(slope, abs=1e-3)
    for _ in range(20):
        loss = losses.improve_intercept(W, S, P)
    assert loss + L2(1.0).value(point.weights) == pytest.approx(problem.primal(losses.unpack(W)).value, rel=1e-12)
    losses.fill_gradient(P, U, G)
    if fit_intercept:
        assert np.abs(losses.matrix(G)[-1]).max() <= 1e-8
    else:
        assert not losses.unpack(W).intercept.any()
