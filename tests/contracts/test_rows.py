"""How solvers touch X: rows and products are NumPy's, without copies; lanes are four plain numbers."""

import json
import os
import subprocess
import sys
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_matrix, csr_matrix

from softmargin.backends import lanes
from softmargin.backends.jit import compiled_struct, jit
from softmargin.backends.lanes import any_nonzero, largest, load, maximum, pointer, splat, store, total, where_greater
from softmargin.backends.loops import shuffle
from softmargin.core.errors import DataError
from softmargin.core.rounding import column_roundings, column_sums, gamma
from softmargin.matrices import operator
from softmargin.matrices.forms import Canonical, canonical
from softmargin.matrices.operator import matmul, rmatmul, row_blocks, row_slices, sum_roundings
from softmargin.matrices.rows import are_ascending, as_rows, fill_scaled, squared_norms

N, D = 6, 11
FORMS = ["dense", "dense32", "mapped32", "csr", "csr32", "csr-int64"]


def sample(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, D)) * (rng.random((N, D)) < 0.6)
    X[0] = 0.0
    return X.astype(np.float32).astype(np.float64)


def in_form(X, form):
    dtype = np.float32 if "32" in form else np.float64
    if "csr" not in form:
        X = X.astype(dtype)
        X.flags.writeable = form != "mapped32"
        return X
    X = csr_matrix(X.astype(dtype))
    if form == "csr-int64":
        X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


@jit
def touch(rows, i, W, k, start, step, tiles, m, out):
    """Scores of one row, then the rank-one update, as the descent makes them."""
    bare = rows.bare()
    bare.scores(i, pointer(W), k, pointer(start), pointer(tiles), m, pointer(out))
    bare.add(i, pointer(step), pointer(tiles), m, pointer(W), k)


@jit
def touch_column(rows, i, W, k, c, mean, out):
    """Return the products of one row with columns; then add it to the first one."""
    bare, W_, out_ = rows.bare(), pointer(W), pointer(out)
    found = bare.product(i, W_, k, c), bare.dot(i, out_), bare.centred(i, pointer(mean), out_)
    bare.push(i, 2.0, out_)
    return found


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("k", "c"), [(1, 0), (3, 2)])
def test_verbs_of_one_column_are_numpy(form, k, c):
    X, rng = sample(3), np.random.default_rng(3)
    W, column = rng.standard_normal((D, k)), rng.standard_normal(D + 1)
    mean = np.zeros(D) if "csr" in form else rng.standard_normal(D)
    for i in range(N):
        x, out = np.append(X[i], 1.5), column.copy()
        found = touch_column(as_rows(canonical(in_form(X, form)), 1.5), i, W.ravel(), k, c, mean, out)
        expected = [X[i] @ W[:, c], x @ column, (X[i] - mean) @ column[:-1]]
        np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(out, column + 2.0 * x, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=30)
@given(seed=st.integers(0, 1000), k=st.sampled_from([1, 2, 3, 4, 5, 6, 7, 8, 9, 26]), bias=st.sampled_from([0.0, 1.5]))
def test_row_verbs_are_numpy(form, seed, k, bias):
    """On any subset of class tiles: out = start + W'x, W += x step', and nothing else is touched."""
    rng = np.random.default_rng(seed)
    X = sample(seed)
    size = lanes.padded(k)
    W, start, step = rng.standard_normal((D + 1, size)), rng.standard_normal(size), rng.standard_normal(size)
    every = np.arange(0, size, lanes.WIDTH)
    tiles = rng.permutation(every)[: rng.integers(1, len(every) + 1)]
    classes = (tiles[:, None] + np.arange(lanes.WIDTH)).ravel()
    i = int(rng.integers(N))
    x = np.append(X[i], bias)
    expected_out, expected_W = np.full(size, 7.0), W.copy()
    expected_out[classes] = start[classes] + x @ W[:, classes]
    expected_W[:, classes] += np.outer(x, step[classes])

    out, flat = np.full(size, 7.0), W.ravel().copy()
    touch(as_rows(canonical(in_form(X, form)), bias), i, flat, size, start, step, tiles, len(tiles), out)
    np.testing.assert_allclose(out, expected_out, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(flat.reshape(D + 1, size), expected_W, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("bias", [0.0, 1.5])
def test_squared_norms_are_numpy(form, bias):
    X, out = sample(3), np.empty(N)
    squared_norms(as_rows(in_form(X, form), bias), out)
    np.testing.assert_allclose(out, (X**2).sum(axis=1) + bias**2, rtol=1e-14)


@pytest.mark.parametrize("form", FORMS)
def test_scaled_rows_are_numpy(form):
    X, which, rng = sample(5), np.array([4, 0, 5]), np.random.default_rng(5)
    roots, scales, out = rng.random(3), rng.random(D + 1), np.zeros((3, D + 1), dtype=np.float32)
    fill_scaled(as_rows(in_form(X, form), 1.5), which, roots, scales, out)
    expected = np.hstack([X, np.full((N, 1), 1.5)])[which] * roots[:, None] * scales
    np.testing.assert_allclose(out, expected, rtol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_rows_are_a_view_of_x(form):
    X = in_form(sample(4), form)
    assert canonical(X) is X
    rows = as_rows(X)
    if form.startswith("csr"):
        assert all(np.shares_memory(getattr(rows, name), getattr(X, name)) for name in ("data", "indices", "indptr"))
    else:
        assert np.shares_memory(rows.X, X)


def test_memory_map_is_read_in_place(tmp_path):
    np.save(tmp_path / "X.npy", sample(5))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    X = canonical(mapped)
    assert np.shares_memory(X, mapped)
    assert np.shares_memory(as_rows(X).X, mapped)
    assert not as_rows(X).X.flags.writeable


def test_canonical_sorts_and_sums_without_touching_the_original():
    data, columns = np.array([1.0, 2.0, 4.0, 8.0]), np.array([2, 0, 2, 1], dtype=np.int32)
    messy = csr_matrix((data.copy(), columns.copy(), np.array([0, 3, 4], dtype=np.int32)), shape=(2, 3))
    clean = canonical(messy)
    assert clean.has_canonical_format
    np.testing.assert_array_equal(clean.toarray(), [[2, 0, 5], [0, 8, 0]])
    np.testing.assert_array_equal(messy.indices, columns)
    np.testing.assert_array_equal(messy.data, data)


@pytest.mark.parametrize("column", [-1, 3, 1_000_000])
def test_canonical_refuses_columns_out_of_range(column):
    X = csr_matrix(np.eye(3))
    X.indices[1] = column
    with pytest.raises(DataError, match=r"outside 0\.\.2"):
        canonical(X)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, np.float16, np.float32, np.float64, ">f8"])
def test_canonical_keeps_float32_and_widens_the_rest(dtype):
    expected = np.float32 if dtype is np.float32 else np.float64
    for X in (
        np.eye(3, dtype=dtype),
        np.asfortranarray(np.eye(3, dtype=dtype)),
        coo_matrix(np.eye(3)).astype(expected),
    ):
        found = canonical(X)
        assert found.dtype == expected
        np.testing.assert_array_equal(found if isinstance(found, np.ndarray) else found.toarray(), np.eye(3))


def test_canonical_makes_index_types_agree():
    X = csr_matrix(sample(6))
    X.indptr = X.indptr.astype(np.int64)
    assert canonical(X).indices.dtype == canonical(X).indptr.dtype
    np.testing.assert_array_equal(canonical(X).toarray(), sample(6))


def test_canonical_refuses_a_vector():
    with pytest.raises(DataError, match=r"must be a matrix \(2-D\); found shape \(3,\)"):
        canonical(np.ones(3))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("numbers", [1, 30, 1 << 19])
def test_products_in_blocks_are_the_dense_products(form, numbers, monkeypatch):
    monkeypatch.setattr(operator, "_BLOCK_NUMBERS", numbers)
    for function in (row_slices, row_blocks):
        monkeypatch.setattr(function, "__kwdefaults__", {"numbers": numbers})
    rng = np.random.default_rng(7)
    X, W, alpha = sample(7), rng.standard_normal((D + 1, 3)), rng.standard_normal((N, 3))
    augmented = np.hstack([X, np.full((N, 1), 0.5)])
    parts = list(matmul(in_form(X, form), W, 0.5))
    assert [rows.start for rows, _ in parts] == [0, *[rows.stop for rows, _ in parts[:-1]]]
    assert len(parts) == (N if numbers == 1 else len(parts))
    np.testing.assert_allclose(np.vstack([scores for _, scores in parts]), augmented @ W, atol=1e-13)
    np.testing.assert_allclose(rmatmul(in_form(X, form), alpha, 0.5), augmented.T @ alpha, atol=1e-13)


@pytest.mark.parametrize("form", FORMS)
def test_sums_over_samples_have_the_roundings_they_are_charged_for(form, monkeypatch):
    monkeypatch.setattr(operator, "SUMMED_ROWS", 2)
    monkeypatch.setattr(operator, "_BLOCK_NUMBERS", 2 * D)
    monkeypatch.setattr(operator, "_BLOCK_WORTH", 0)
    rng = np.random.default_rng(8)
    X, alpha = in_form(sample(8), form), rng.standard_normal((N, 1)) * 10.0 ** rng.integers(-3, 4, (N, 1))
    W, dense = rmatmul(X, alpha, 0.5), X if isinstance(X, np.ndarray) else X.toarray()
    assert operator._summed_rows(X, 1) < N
    share = gamma(sum_roundings(X, 1) + 1)
    for column, w in zip([*dense.T, np.full(N, 0.5)], W[:, 0], strict=True):
        terms = [Fraction(float(x)) * Fraction(a) for x, a in zip(column, alpha[:, 0].tolist(), strict=True)]
        assert abs(Fraction(w) - sum(terms)) <= share * float(sum(map(abs, terms)))


def test_sums_over_a_million_samples_are_charged_little():
    n = 10**6
    X = np.full((n, 1), 0.1)
    assert sum_roundings(X, 3) == 4096 + 245
    exact = n * Fraction(0.1)
    assert abs(Fraction(column_sums(X)[0]) - exact) <= gamma(column_roundings(n)) * exact
    assert abs(Fraction(rmatmul(X, np.ones((n, 1)), 1.0)[0, 0]) - exact) <= gamma(sum_roundings(X, 1)) * exact
    assert abs(Fraction(float(np.cumsum(X)[-1])) - exact) > gamma(sum_roundings(X, 1)) * exact


@jit
def every_lane(a, b, out, numbers):
    p, q, o = pointer(a), pointer(b), pointer(out)
    x, y = load(p, 0), load(q, 0)
    store(o, 0, x + y)
    store(o, 4, x - y)
    store(o, 8, x * y)
    store(o, 12, where_greater(x, y, x * y, splat(numbers[0])))
    store(o, 16, maximum(x, y))
    store(o, 20, splat(numbers[0]))
    numbers[1], numbers[2] = total(x), largest(x)
    numbers[3], numbers[4] = any_nonzero(x), any_nonzero(x - x)


@given(st.lists(st.floats(-1e3, 1e3), min_size=8, max_size=8), st.floats(-1e3, 1e3))
def test_lanes_are_four_plain_numbers(values, number):
    a, b, out, numbers = np.array(values[:4]), np.array(values[4:]), np.zeros(24), np.array([number, 0, 0, 0, 0])
    every_lane(a, b, out, numbers)
    expected = [a + b, a - b, a * b, np.where(a > b, a * b, number), np.maximum(a, b), np.full(4, number)]
    np.testing.assert_array_equal(out.reshape(6, 4), expected)
    np.testing.assert_allclose(numbers[1:], [a.sum(), a.max(), a.any(), False], rtol=1e-12, atol=1e-12)


def test_a_shuffle_brings_every_place_to_every_other_one_equally_often():
    @jit
    def shuffled(order, counts, times, random):
        for _ in range(times):
            for i in range(order.shape[0]):
                order[i] = i
            shuffle(order, order.shape[0], random)
            for i in range(order.shape[0]):
                counts[i, order[i]] += 1

    m, times = 12, 12_000
    order, counts = np.empty(m, dtype=np.int64), np.zeros((m, m), dtype=np.int64)
    shuffled(order, counts, times, np.array([20250101], dtype=np.uint64))
    assert sorted(order) == list(range(m))
    assert np.abs(counts - times / m).max() < 5.0 * np.sqrt(times / m)


def test_not_a_number_is_nonzero():
    """A step of NaN must reach the weights, so that the judge sees it."""
    numbers = np.zeros(5)
    every_lane(np.array([0.0, np.nan, 0.0, 0.0]), np.zeros(4), np.zeros(24), numbers)
    assert numbers[3] == 1.0


@pytest.mark.parametrize("k", range(1, 10))
def test_padding_fills_whole_vectors_on_a_cache_line(k):
    assert k <= lanes.padded(k) < k + lanes.WIDTH
    assert lanes.padded(k) % lanes.WIDTH == 0
    array = lanes.zeros(3, lanes.padded(k))
    assert array.ctypes.data % 64 == 0
    assert not array.any()


def test_one_compiled_name_has_one_signature():
    with pytest.raises(TypeError, match=r"Impostor\.scores.*scores is already compiled as scores\(self"):

        @compiled_struct("scores")
        class Impostor(NamedTuple):
            X: int

            def scores(self, i): ...


SCRIPT = """
import json, sys
import numpy as np
from softmargin.problems import MulticlassSVM
from softmargin.run import Stop, solve
from softmargin.solvers import DualBlockDescent
from softmargin.data import blobs

answers = []
for sparse, k, multiclass in ((False, 3, "weston_watkins"), (True, 10, "crammer_singer"), (True, 10, "weston_watkins")):
    X, y = blobs(20, 4, k, seed=0, sparse=sparse, density=0.5)
    result = solve(MulticlassSVM(X, y, multiclass=multiclass), DualBlockDescent(), stop=Stop(0.0, 12), rng=0)
    answers.append([result.certificate.primal, result.certificate.bound, *result.point.weights.ravel()])
print(json.dumps(answers))
"""
# Rows fewer than the words of class tiles: in compiled code an index error would be silent.
FEW_ROWS = """
import numpy as np
from softmargin.problems import MulticlassSVM
from softmargin.run import Stop, solve
from softmargin.solvers import DualBlockDescent

problem = MulticlassSVM(np.eye(2), np.array([0, 299]))
for working_set in (True, False):
    result = solve(problem, DualBlockDescent(working_set=working_set), stop=Stop(1e-8, 50), rng=0)
    assert result.status.value == "converged", result.certificate
"""


def run_script(script, **environment):
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_plain_python_gives_the_compiled_answer():
    plain, compiled = (json.loads(run_script(SCRIPT, NUMBA_DISABLE_JIT=flag)) for flag in ("1", "0"))
    for one, other in zip(plain, compiled, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_fewer_rows_than_words_of_tiles_stay_in_bounds():
    run_script(FEW_ROWS, NUMBA_DISABLE_JIT="1")


@given(lengths=st.lists(st.integers(0, 3), min_size=1, max_size=6), seed=st.integers(0, 99), is_sorted=st.booleans())
def test_ascending_rows_are_those_of_scipy(lengths, seed, is_sorted):
    rng = np.random.default_rng(seed)
    parts = [rng.integers(0, 5, length) for length in lengths]
    parts = [np.sort(part) for part in parts] if is_sorted else parts
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    indices = np.concatenate(parts).astype(np.int32)
    X = csr_matrix((np.ones(len(indices)), indices, indptr), shape=(len(lengths), 5))
    assert are_ascending(indices, indptr) == X.has_canonical_format


def test_what_is_canonical_is_not_read_again():
    X = csr_matrix(np.eye(3))
    X.indices[0] = 7
    assert canonical(Canonical(X)) is X
    with pytest.raises(DataError, match="damaged"):
        canonical(X)
