"""Solutions with a Cholesky factor are NumPy's."""

import numpy as np
import pytest

from softmargin.matrices.cholesky import solve_factored, solve_in_place


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [0, 1, 2, 7, 40])
def test_solution_is_numpys_and_reads_the_lower_triangle_only(d, dtype):
    rng = np.random.default_rng(d)
    L = (np.tril(rng.standard_normal((d, d))) + 8.0 * np.eye(d)).astype(dtype)
    right = rng.standard_normal(d).astype(dtype)
    expected = np.linalg.solve(L.astype(float) @ L.T.astype(float), right)
    found = right.copy()
    solve_factored(L + np.triu(np.full((d, d), np.nan, dtype=dtype), 1), found)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=20.0 * np.finfo(dtype).eps)


@pytest.mark.parametrize("d", [1, 2, 7, 30])
def test_small_systems_are_solved_in_place_from_the_upper_triangle(d):
    rng = np.random.default_rng(d)
    A, x = rng.standard_normal((d + 3, d)), rng.standard_normal(d)
    H = A.T @ A
    found, upper = (H @ x).copy(), np.triu(H) + np.tril(np.full((d, d), np.nan), -1)
    assert solve_in_place(upper, found)
    np.testing.assert_allclose(found, x, rtol=1e-7)
    H[-1, -1] = -1.0
    assert not solve_in_place(H, found)
