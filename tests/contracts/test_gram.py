"""The kernel matrix: every verb is the plain dense K + bias^2, in bounded memory, and what is no kernel is refused."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from softmargin.core import threads as core_threads
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.core.threads import threads
from softmargin.kernels import (
    CallableKernel,
    Laplacian,
    Linear,
    Points,
    Polynomial,
    Precomputed,
    Rbf,
    Sigmoid,
    make_kernel,
    points,
)
from softmargin.matrices import gram_checks, row_store, tiles
from softmargin.matrices.gram import Gram, GramTuning

N, D = 90, 6
TINY = 1e-3  # megabytes: no store for N samples
KERNEL_LIST = [
    Linear(),
    Rbf(0.3),
    Laplacian(0.2),
    Polynomial(0.5, 3, 1.0),
    Sigmoid(0.05, 0.1),
    CallableKernel(lambda A, B: (A @ B.T) * 0.5),
    Precomputed(),
]
every_kernel = pytest.mark.parametrize("kernel", KERNEL_LIST, ids=lambda kernel: kernel.name)
FORMS = ["float64", "float32", "csr", "csr32"]


@pytest.fixture
def small_tiles(monkeypatch):
    """Make N samples many tiles."""
    monkeypatch.setattr(tiles, "tile_shape", lambda numbers: (17, 40))
    monkeypatch.setattr(tiles, "TILE_NUMBERS", 4 * N)
    monkeypatch.setattr(gram_checks, "TILE_NUMBERS", 4 * N)
    monkeypatch.setattr(row_store, "_SUMMED", 3)
    monkeypatch.setattr(row_store, "_WIDTH", 40)
    monkeypatch.setattr(points, "_STRIP", 100)


def sample(seed=0, density=0.7):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, D)) * (rng.random((N, D)) < density)
    return X.astype(np.float32).astype(np.float64)


def in_form(X, form):
    X = X.astype("float32" if "32" in form else "float64")
    return csr_matrix(X) if "csr" in form else X


def make(kernel, form="float64", *, bias=0.5, cache_size=1000.0, X=None, tuning=None):
    """Return a Gram and the dense matrix it stands for, in float64."""
    X = sample() if X is None else X
    if kernel.name == "precomputed":
        K = Rbf(0.3).block(Points(X), Points(X)).astype("float32" if "32" in form else "float64")
        data = in_form(K, form)
    else:
        K, data = kernel.block(Points(X), Points(X)), in_form(X, form)
    return Gram(kernel, data, bias=bias, cache_size=cache_size, tuning=tuning), K.astype(np.float64) + bias**2


def tolerance(form, K):
    return (1e-5 if "32" in form else 1e-12) * np.abs(K).max()


@every_kernel
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("cache_size", [1000.0, TINY])
@pytest.mark.parametrize("density", [0.02, 0.7])
def test_every_verb_is_the_dense_matrix(kernel, form, cache_size, density, small_tiles):
    gram, K = make(kernel, form, cache_size=cache_size, X=sample(1, density))
    rng = np.random.default_rng(0)
    atol = tolerance(form, K)
    for index in (rng.permutation(N)[:50], np.array([3, 3, 80, 0]), np.array([7]), np.arange(N), np.arange(0)):
        np.testing.assert_allclose(gram.rows(index), K[index], rtol=0, atol=atol)
        np.testing.assert_allclose(gram.square(index), K[np.ix_(index, index)], rtol=0, atol=atol)
        assert gram.rows(index).dtype == gram.square(index).dtype == gram.dtype
    np.testing.assert_allclose(gram.diagonal, np.diagonal(K), rtol=0, atol=atol)
    for alpha in (rng.standard_normal((N, 3)), rng.standard_normal(N), np.zeros((N, 2)), np.zeros(N)):
        np.testing.assert_allclose(gram.scores(alpha), K @ alpha, rtol=0, atol=N * atol)
        assert gram.scores(alpha).dtype == np.float64


@every_kernel
@pytest.mark.parametrize("cache_size", [1000.0, TINY])
def test_a_part_has_the_values_of_the_whole(kernel, cache_size):
    gram, K = make(kernel, cache_size=cache_size)
    gram.keep(np.arange(30))
    index = np.array([88, 5, 40, 7])
    part = gram.part(index)
    np.testing.assert_allclose(part.rows(np.arange(4)), K[np.ix_(index, index)], atol=tolerance("float64", K))


def test_a_part_computes_no_value_that_is_cached():
    asked = []
    gram = Gram(CallableKernel(lambda A, B: asked.append(1) or A @ B.T), sample())
    gram.keep(np.arange(N))
    asked.clear()
    gram.part(np.arange(3, 20)).rows(np.arange(17))
    assert not asked


@settings(max_examples=30)
@given(seed=st.integers(0, 10_000), n_rows=st.integers(0, N), keeps=st.booleans())
def test_rows_of_zeros_change_nothing_and_cost_nothing(seed, n_rows, keeps):
    """Only kernel values of nonzero rows are asked for; the store is filled as far as that and no further."""
    rng, asked = np.random.default_rng(seed), []

    def kernel(A, B):
        asked.append((len(A), len(B)))
        return A @ B.T + 1.0

    gram = Gram(CallableKernel(kernel), sample(), cache_size=1000.0 if keeps else TINY)
    alpha = np.zeros((N, 4))
    index = rng.permutation(N)[:n_rows]
    alpha[index] = rng.standard_normal((n_rows, 4))
    K = sample() @ sample().T + 1.0
    np.testing.assert_allclose(gram.scores(alpha), K @ alpha, atol=1e-10)
    pairs = sum(a * b for a, b in asked)
    assert pairs <= N * n_rows
    gram.scores(alpha)
    assert sum(a * b for a, b in asked) == (pairs if keeps else 2 * pairs)


@every_kernel
@pytest.mark.parametrize("cache_size", [1000.0, TINY])
def test_what_a_caller_does_to_the_values_stays_with_the_caller(kernel, cache_size):
    gram, K = make(kernel, cache_size=cache_size)
    for index in (np.arange(N), np.array([4])):
        gram.rows(index)[:] = np.nan
    np.testing.assert_allclose(gram.rows(np.arange(N)), K, rtol=0, atol=tolerance("", K))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_real_tiles_cover_the_matrix_too(form, bias):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2500, 3))
    gram = Gram(Rbf(0.5), in_form(X, form), bias=bias, cache_size=1)
    index = rng.permutation(2500)[:2200]
    K = Rbf(0.5).block(Points(X), Points(X)) + bias**2
    alpha = np.zeros(2500)
    alpha[index] = rng.standard_normal(2200)
    np.testing.assert_allclose(gram.scores(alpha), K @ alpha, rtol=0, atol=1e-3 if "32" in form else 1e-9)
    np.testing.assert_allclose(gram.square(index), K[np.ix_(index, index)], rtol=0, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_memory_is_bounded_whatever_the_number_of_samples(form):
    rng = np.random.default_rng(0)
    n = 4000
    X = in_form(rng.standard_normal((n, 10)) * (rng.random((n, 10)) < 0.5), form)
    alpha = rng.standard_normal((n, 3))
    gram = Gram(Rbf(0.1), X, cache_size=1)
    tracemalloc.start()
    gram.scores(alpha)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak <= 45e6 < n * n * gram.dtype.itemsize


@given(n=st.integers(1, 60), cache_size=st.floats(1e-5, 0.05))
def test_the_store_never_exceeds_its_budget(n, cache_size):
    gram = Gram(Rbf(1.0), sample()[:n], cache_size=cache_size)
    gram.rows(np.arange(n))
    gram.add_change(np.zeros((n, 1)), np.arange(n), np.ones((n, 1)))
    held = gram._store.values.nbytes
    largest = 8 * min(gram.largest_square**2 if gram.largest_square > 2 else 0, n * n)
    assert held + largest <= cache_size * 1e6, "the store and the square together"
    assert (held == 8 * n * n) == (8 * n * n <= gram.tuning.store_share * cache_size * 1e6)
    assert gram.largest_rows == 1 or gram.largest_rows * n * 8 <= cache_size * 1e6
    assert gram.largest_square == 2 or gram.largest_square**2 * 8 <= cache_size * 1e6


def test_a_given_matrix_is_not_copied():
    K = Rbf(0.3).block(Points(sample()), Points(sample()))
    assert Gram(Precomputed(), K).X is K


@pytest.mark.parametrize("at", [(3, 70), (70, 3), (89, 0)])
def test_an_asymmetric_matrix_is_refused_and_the_entry_named(at, small_tiles):
    K = sample() @ sample().T
    K[at] += 0.5
    with pytest.raises(DataError, match=r"not symmetric: K\[(\d+), (\d+)\].*\(K \+ K'\) / 2") as raised:
        Gram(Precomputed(), K)
    assert any(f"K[{i}, {j}] = {K[i, j]:.6g}" in str(raised.value) for i, j in (at, at[::-1]))


def test_asymmetry_of_rounding_is_forgiven():
    K = sample() @ sample().T
    K[3, 70] *= 1 + 1e-9
    Gram(Precomputed(), K)


def test_an_asymmetric_callable_is_refused_when_its_kind_is_asked_for():
    with pytest.raises(DataError, match="not symmetric"):
        Gram(CallableKernel(lambda A, B: A[:, :1] - B[:, :1].T), sample()).negative_eigenvalue()


@pytest.mark.parametrize("shape", [(4, 5), (5, 4)])
def test_a_matrix_that_is_not_square_is_refused(shape):
    with pytest.raises(DataError, match=rf"square matrix .* found shape \({shape[0]}, {shape[1]}\).*to predict"):
        Gram(Precomputed(), np.ones(shape))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_given_entry_that_is_no_number_is_refused_and_named(value):
    K = np.eye(5)
    K[2, 3] = K[3, 2] = value
    with pytest.raises(DataError, match=rf"K\[2, 3\] = {value}"):
        Gram(Precomputed(), K)


def test_a_negative_diagonal_is_refused():
    K = np.eye(5)
    K[2, 2] = -0.5
    with pytest.raises(DataError, match=r"sample 2 with itself is -0\.5"):
        _ = Gram(Precomputed(), K).diagonal
    with pytest.raises(DataError, match="negative"):
        _ = Gram(Sigmoid(0.1, -3.0), sample()).diagonal
    assert Gram(Precomputed(), K, bias=1.0).diagonal[2] == 0.5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "kernel",
    [Polynomial(1.0, 200, 1.0), CallableKernel(lambda A, B: np.full((len(A), len(B)), np.nan))],
    ids=["overflow", "nan"],
)
@pytest.mark.parametrize("cache_size", [1000.0, TINY])
def test_kernel_values_that_are_no_numbers_are_refused(kernel, dtype, cache_size):
    gram = Gram(kernel, (100 * sample()).astype(dtype), cache_size=cache_size)
    for ask in (lambda: gram.diagonal, lambda: gram.scores(np.ones(N)), gram.negative_eigenvalue):
        if ask == gram.negative_eigenvalue and kernel.is_psd:
            continue
        with pytest.raises(DataError, match="NaN or infinite"):
            ask()


@pytest.mark.parametrize("kernel", [Linear(), Rbf(1.0)])
def test_a_dual_point_that_is_no_number_is_not_the_kernels_fault(kernel):
    """It comes back as it went in: the judge must see it."""
    alpha = np.zeros(N)
    alpha[3] = np.nan
    assert np.isnan(Gram(kernel, sample()).scores(alpha)).any()


@pytest.mark.parametrize("n", [2, 3, 60, N])
def test_an_indefinite_matrix_is_found_and_the_bound_is_true(n):
    X = sample()[:n]
    for K in (np.tanh(X @ X.T - 1.0) + 2 * np.eye(n)[:, ::-1], -np.eye(n)):
        found = Gram(Precomputed(), (K + K.T) / 2).negative_eigenvalue()
        assert np.linalg.eigvalsh((K + K.T) / 2)[0] - 1e-12 <= found < 0


def test_a_probe_of_some_rows_bounds_the_whole():
    gram, K = make(Sigmoid(2.0, -1.0), bias=0.0, tuning=GramTuning(probe_rows=20))
    assert np.linalg.eigvalsh(K)[0] - 1e-12 <= gram.negative_eigenvalue() < 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", [Linear(), Rbf(1e-4), Polynomial(0.5, 3, 1.0), Polynomial(2.0, 2, 0.0)])
def test_definite_matrices_have_no_negative_eigenvalue(kernel, dtype):
    """Also nearly singular ones (rank D of N; an rbf that is almost constant), whose eigenvalues round below zero."""
    X = sample().astype(dtype)
    X[50:] = X[:40]
    assert Gram(kernel, X).negative_eigenvalue() == 0.0
    K = kernel.block(Points(X), Points(X))
    assert Gram(Precomputed(), K).negative_eigenvalue() == 0.0


@pytest.mark.parametrize("cache_size", [0, -1.0, np.nan, np.inf])
def test_a_senseless_cache_size_is_refused(cache_size):
    with pytest.raises(IncompatibleError, match="cache_size must be a finite number > 0"):
        Gram(Linear(), sample(), cache_size=cache_size)


@pytest.mark.parametrize("bias", [np.nan, np.inf])
def test_a_senseless_bias_is_refused(bias):
    with pytest.raises(DataError, match="bias must be finite"):
        Gram(Linear(), sample(), bias=bias)


@pytest.mark.parametrize("cache_size", [100.0, 0.02], ids=["stored", "not stored"])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_a_change_of_some_rows_is_added_to_all_scores(kernel, cache_size):
    X = sample()
    gram = Gram(make_kernel(kernel, gamma=0.3), X, bias=0.7, cache_size=cache_size)
    assert gram.is_stored == (cache_size == 100.0)
    rng = np.random.default_rng(0)
    index = rng.permutation(len(X))[:20]
    scores, change = rng.standard_normal((len(X), 3)), rng.standard_normal((20, 3))
    K = gram.rows(np.arange(len(X)))
    wanted = scores + K[:, index] @ change
    gram.square(index)
    gram.add_change(scores, index, change)
    np.testing.assert_allclose(scores, wanted, atol=1e-12)


@pytest.mark.parametrize("place", [np.arange(3, 40), np.array([5, 2, 30, 31, 32, 0])], ids=["in sequence", "apart"])
def test_rows_are_summed_wherever_they_lie(place, small_tiles):
    rng = np.random.default_rng(0)
    K, weights = rng.standard_normal((50, 90)), rng.standard_normal((len(place), 4))
    np.testing.assert_allclose(row_store.sum_rows(K, place, weights), K[place].T @ weights, atol=1e-12)


@pytest.mark.parametrize(
    ("k", "share", "is_dense"),
    [(12, 0.05, False), (12, 1.0, True), (4, 1.0, False)],
    ids=["few entries", "all entries", "few classes"],
)
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_a_change_of_few_entries_is_added_as_one_of_all_is(k, share, is_dense, n_jobs, monkeypatch):
    """Rows are copied for BLAS where many of their entries changed; threads have own columns, and change no bit."""
    monkeypatch.setattr(core_threads, "WORTH", 1)
    n, m = 600, 300
    rng = np.random.default_rng(0)
    K, place, scores = rng.standard_normal((400, n)), rng.permutation(400)[:m], rng.standard_normal((n, k))
    change = np.where(rng.random((m, k)) < share, rng.standard_normal((m, k)), 0.0)
    dense = []
    monkeypatch.setattr(row_store, "sum_rows", lambda *own: (dense.append(1), K[own[1]].T @ own[2])[1])
    alone, found = scores.copy(), scores.copy()
    row_store.add_change(alone, K, place, change)
    with threads(n_jobs):
        row_store.add_change(found, K, place, change)
    assert len(dense) == (2 if is_dense else 0)
    np.testing.assert_array_equal(found, alone)
    np.testing.assert_allclose(found, scores + K[place].T @ change, atol=1e-11)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_sums_of_few_entries_skip_zeros_and_have_the_roundings_that_are_counted(n_jobs, monkeypatch):
    """1 and 20,000 numbers of which four are less than half of its last digit: one after the other, they leave 1."""
    monkeypatch.setattr(core_threads, "WORTH", 1)
    monkeypatch.setattr(row_store, "_LONG_WIDTH", 12)
    n, m, k = 30, 20_001, 6
    K, weights = np.full((m, n), 2.0**-56), np.zeros((m, k))
    K[0], weights[:, 3] = 1.0, 1.0
    dense, sums = [], row_store._sum_rows
    monkeypatch.setattr(row_store, "_sum_rows", lambda *own: (dense.append(1), sums(*own))[1])
    with threads(n_jobs):
        found = row_store.sum_rows(K, np.arange(m), weights)
    exact = 1.0 + (m - 1) * 2.0**-56
    assert not dense
    assert not found[:, [0, 1, 2, 4, 5]].any()
    assert np.abs(found[:, 3] - exact).max() <= row_store.row_roundings(m) * 2.0**-53 * exact
    # A matrix whose rows do not lie in one piece would be copied as a whole.
    np.testing.assert_allclose(row_store.sum_rows(np.asfortranarray(K), np.arange(m), weights), found, rtol=1e-12)
    assert dense


@pytest.mark.parametrize("cache_size", [1000.0, 0.03], ids=["stored", "some rows kept"])
def test_rows_that_changed_are_computed_once(cache_size):
    """0.03 MB hold 16 rows beside the squares."""
    asked = []

    def kernel(A, B):
        asked.append(len(A) * len(B))
        return A @ B.T + 1.0

    gram, rng = Gram(CallableKernel(kernel), sample(), cache_size=cache_size), np.random.default_rng(0)
    K = sample() @ sample().T + 1.0
    index, alpha, scores = rng.permutation(N)[:25], np.zeros((N, 2)), np.zeros((N, 2))
    for moved in (index[:7], index[5:16]):
        change = np.zeros((25, 2))
        change[np.isin(index, moved)] = rng.standard_normal((len(moved), 2))
        gram.square(index)
        asked.clear()
        gram.add_change(scores, index, change)
        alpha[index] += change
        assert sum(asked) == N * (7 if len(moved) == 7 else 9), "rows that did not move were asked for"
        np.testing.assert_allclose(scores, K @ alpha, atol=1e-11)
    asked.clear()
    np.testing.assert_allclose(gram.scores(alpha), K @ alpha, atol=1e-11)
    assert not asked
    beyond = rng.permutation(N)[:40]
    assert gram.has_room_for(beyond) == (cache_size == 1000.0)
    gram.square(beyond)
    gram.add_change(scores, beyond, alpha[:40])
    np.testing.assert_allclose(scores, K @ alpha + K[:, beyond] @ alpha[:40], atol=1e-10)


@every_kernel
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("cache_size", [1000.0, 0.03], ids=["stored", "some rows kept"])
def test_a_square_of_kept_and_of_new_rows_is_the_dense_one(kernel, form, cache_size, small_tiles):
    gram, K = make(kernel, form, cache_size=cache_size)
    rng = np.random.default_rng(0)
    for _ in range(3):
        index = rng.permutation(N)[:12]
        gram.add_change(np.zeros((N, 1)), index, np.ones((12, 1)) * (np.arange(12) % 3 == 0)[:, None])
        index = rng.permutation(N)[:29]
        np.testing.assert_allclose(gram.square(index), K[np.ix_(index, index)], rtol=0, atol=tolerance(form, K))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_a_submatrix_is_that_of_numpy(dtype, n_jobs):
    rng = np.random.default_rng(0)
    K = rng.standard_normal((700, 500)).astype(dtype)
    K.flags.writeable = False
    rows, mask = rng.permutation(700), rng.random(500) < 0.3
    with threads(n_jobs):
        found = row_store.submatrix(K, rows, mask)
        some = row_store.submatrix(K, [3, -1, 3], [-2, 0])
    np.testing.assert_array_equal(found, K[rows][:, mask])
    np.testing.assert_array_equal(some, K[[3, -1, 3]][:, [-2, 0]])
    assert found.dtype == dtype
    assert found.flags.c_contiguous
    with pytest.raises(IndexError):
        row_store.submatrix(K, [700], [0])


def test_the_store_of_the_whole_matrix_has_every_row_in_its_place():
    gram, K = make(Rbf(0.3))
    index = np.array([70, 3, 41])
    gram.add_change(np.zeros((N, 1)), index, np.ones((3, 1)))
    np.testing.assert_allclose(gram.stored(np.array([0, 41]))[[0, 41]], K[[0, 41]], atol=1e-13)
    gram.add_change(np.zeros((N, 1)), index, np.ones((3, 1)))
    np.testing.assert_allclose(gram.stored(index)[[0, 3, 41, 70]], K[[0, 3, 41, 70]], atol=1e-13)


@pytest.mark.parametrize("n_kept", [0, 3, 5])
def test_a_square_in_float32_is_the_rounded_one_and_of_kept_rows_needs_no_other(n_kept, monkeypatch):
    gram = Gram(make_kernel("rbf", gamma=0.3), np.random.default_rng(0).standard_normal((12, 3)))
    index = np.array([1, 4, 5, 8, 11])
    gram.keep(index[:n_kept])
    expected = Gram(gram.kernel, gram.X).square(index).astype(np.float32)
    if n_kept == 5:
        monkeypatch.setattr(Gram, "square", None)
    values = gram.narrow_square(index)
    assert values.dtype == np.float32
    np.testing.assert_allclose(values, expected, rtol=2e-7)


def test_the_last_square_is_kept_and_no_other():
    gram = Gram(make_kernel("rbf", gamma=0.3), sample(), cache_size=0.02)
    first = gram.square(np.arange(5))
    assert gram.square(np.arange(5)) is first
    other = gram.square(np.arange(1, 6))
    assert other is not first
    np.testing.assert_array_equal(gram.square(np.arange(5)), first)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("far", [0.0, 1e9])
def test_tiles_of_rows_far_apart_keep_their_digits(dtype, far):
    """Two clouds: no origin is near to both, so tiles must not trust inner products."""
    X = np.random.default_rng(0).normal(size=(40, 3))
    X[20:] += far
    X = X.astype(dtype)
    gram = Gram(Rbf(0.5), X)
    exact = np.exp(-0.5 * ((X[:, None].astype(np.float64) - X[None]) ** 2).sum(axis=-1))
    np.testing.assert_allclose(gram.rows(np.arange(40)), exact, atol=1e-5 if dtype == np.float32 else 1e-12)
