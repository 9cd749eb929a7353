"""Products of X with padded weights are those of NumPy, whatever X is and however many classes there are."""

import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from softmargin.backends.lanes import WIDTH, zeros
from softmargin.core.threads import threads
from softmargin.matrices.operator import (
    add_adjoint_product,
    adjoint_product,
    column_norms,
    matmul,
    product,
    row_squares,
)
from softmargin.matrices.products import NARROW, adjoint, times
from softmargin.matrices.rows import FAR

SIZES = [1, *range(WIDTH, NARROW + 2 * WIDTH, WIDTH)]


def make(n, d, k, dtype, is_sparse):
    rng = np.random.default_rng([n, d, k])
    dense = (rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6)).astype(dtype)
    W, U = zeros((d + 1) * k), zeros(n * k)
    W[:], U[:] = rng.standard_normal(W.size), rng.standard_normal(U.size)
    return csr_matrix(dense) if is_sparse else dense, np.float64(dense), W, U


@pytest.mark.parametrize("bias", [0.0, 1.0, 2.5])
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", SIZES)
def test_products_are_those_of_numpy(k, dtype, is_sparse, bias):
    for n in (1, 2, 3, 4, 5, 7, 8, 9, 16, 21):
        for d in (0, 1, 6):
            X, dense, W, U = make(n, d, k, dtype, is_sparse)
            wide = np.hstack([dense, np.full((n, 1), bias)])
            out = np.full(n * k, np.nan)
            times(X, W, bias, k, out)
            np.testing.assert_allclose(out.reshape(n, k), wide @ W.reshape(-1, k), atol=1e-12)
            out = np.full((d + 1) * k, np.nan)
            adjoint(X, U, bias, k, out)
            np.testing.assert_allclose(out.reshape(-1, k), wide.T @ U.reshape(n, k), atol=1e-12)


def test_squares_of_sparse_rows_are_those_of_numpy_and_copy_no_matrix():
    rng = np.random.default_rng(0)
    dense = (rng.standard_normal((9000, 60)) * (rng.random((9000, 60)) < 0.7)).astype(np.float32)
    dense[[0, 4, 5, 8999]] = 0.0  # rows without entries, at both ends too
    X = csr_matrix(dense)
    row_squares(X)  # compiles
    tracemalloc.start()
    found = row_squares(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(found, (np.float64(dense) ** 2).sum(axis=1), rtol=1e-14)
    assert peak < 0.8 * X.nnz * 8


class Uncut(csr_matrix):
    """A matrix of which no rows can be copied."""

    def __getitem__(self, key):
        raise AssertionError("rows were copied")


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_products_go_block_by_block_without_copies_of_rows(dtype, n_jobs):
    rng, n = np.random.default_rng(0), 100_000
    dense = (rng.standard_normal((n, 8)) * (rng.random((n, 8)) < 0.4)).astype(dtype)
    X, wide, W, U = Uncut(dense), np.float64(dense), rng.standard_normal((9, 3)), rng.standard_normal((n, 3))
    with threads(n_jobs):
        blocks = list(matmul(X, W, 0.5))
        assert len(blocks) > 2
        np.testing.assert_allclose(np.vstack([scores for _, scores in blocks]), wide @ W[:-1] + 0.5 * W[-1], atol=1e-12)
        np.testing.assert_allclose(product(X, W[:-1]), wide @ W[:-1], atol=1e-12)
        np.testing.assert_allclose(adjoint_product(X, U), wide.T @ U, atol=1e-9)
    np.testing.assert_allclose(column_norms(X), np.sqrt((wide**2).sum(axis=0)), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [*range(1, 10), 16, 17, 19, 20, 23, 33])
def test_sparse_products_are_those_of_numpy(k, dtype):
    """For any number of classes, rows without entries, zeros in U, and weights in any order of memory."""
    rng = np.random.default_rng(k)
    for n, d in ((1, 1), (7, 5), (30, FAR // k + 1)):  # the last has weights that rows are asked for ahead
        dense = (rng.standard_normal((n, d)) * (rng.random((n, d)) < 20.0 / (20.0 + d))).astype(dtype)
        dense[n // 2] = 0.0
        X, wide, W, U = csr_matrix(dense), np.float64(dense), rng.standard_normal((d, k)), rng.standard_normal((n, k))
        U[rng.random((n, k)) < 0.5] = 0.0
        U[:1] = 0.0
        for order in "CF":
            weights, duals = np.asarray(W, order=order), np.asarray(U, order=order)
            np.testing.assert_allclose(product(X, weights), wide @ W, atol=1e-12)
            np.testing.assert_allclose(adjoint_product(X, duals), wide.T @ U, atol=1e-12)
        [(_, scores)] = matmul(X, np.vstack([W, W[:1]]), 0.5)
        np.testing.assert_allclose(scores, wide @ W + 0.5 * W[0], atol=1e-12)


def test_a_number_that_is_none_is_not_skipped_by_sparse_sums():
    U = np.zeros((2, 6))
    U[0, 1], U[1, 5] = np.nan, np.nan
    found = adjoint_product(csr_matrix(np.eye(2)), U)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(U))


def test_products_of_sparse_rows_refuse_arrays_of_another_size():
    X = csr_matrix(np.random.default_rng(0).standard_normal((6, 9)))
    with pytest.raises(ValueError, match="do not fit"):
        product(X, np.ones((8, 3)))
    with pytest.raises(ValueError, match="do not fit"):
        adjoint_product(X, np.ones((7, 3)))
    with pytest.raises(ValueError, match="do not fit"):
        add_adjoint_product(X, np.ones((6, 3)), np.zeros((8, 3)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [40, 20])
def test_the_adjoint_of_one_tile_is_numpy(dtype, d):
    """Many features go through a loop over eight rows at a time, few through BLAS."""
    rng = np.random.default_rng(0)
    X, U, out = rng.standard_normal((19, d)).astype(dtype), rng.standard_normal((19, 4)), np.empty((d + 1) * 4)
    adjoint(X, U.reshape(-1), 1.5, 4, out)
    expected = np.column_stack([X, np.full(19, 1.5)]).T @ U
    np.testing.assert_allclose(out.reshape(-1, 4), expected, rtol=1e-12, atol=1e-12)
