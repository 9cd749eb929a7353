"""Kernels: every block is the formula, whatever the layout and precision of the data."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array, csr_matrix
from sklearn.metrics import pairwise
from sklearn.svm import SVC

from softmargin.core.errors import DataError, IncompatibleError
from softmargin.kernels import (
    KERNELS,
    CallableKernel,
    Laplacian,
    Linear,
    Points,
    Polynomial,
    Precomputed,
    Rbf,
    Sigmoid,
    find_gamma,
    make_kernel,
)
from softmargin.kernels.formulas import _LOST
from softmargin.kernels.points import DENSE_COPIES, add_product, slices, tile_shape
from softmargin.testing import check_kernel

KERNEL_LIST = [
    Linear(),
    Rbf(0.3),
    Laplacian(0.2),
    Polynomial(0.5, 3, 1.0),
    Polynomial(0.7, 2, 0.0),
    Sigmoid(0.1, -0.2),
    CallableKernel(lambda A, B: (A @ B.T) * 0.5),
]
every_kernel = pytest.mark.parametrize("kernel", KERNEL_LIST, ids=lambda kernel: kernel.name)


def formula(kernel, A, B):
    """k(a, b) by two plain loops in float64."""
    A, B = A.astype(np.float64), B.astype(np.float64)
    value = {
        "linear": lambda a, b: a @ b,
        "rbf": lambda a, b: np.exp(-kernel.gamma * ((a - b) ** 2).sum()),
        "laplacian": lambda a, b: np.exp(-kernel.gamma * np.abs(a - b).sum()),
        "polynomial": lambda a, b: (kernel.gamma * (a @ b) + kernel.coef0) ** kernel.degree,
        "sigmoid": lambda a, b: np.tanh(kernel.gamma * (a @ b) + kernel.coef0),
        "callable": lambda a, b: 0.5 * (a @ b),
    }[kernel.name]
    return np.array([[value(a, b) for b in B] for a in A])


def scikit_learn(kernel, A, B):
    """Return the same from scikit-learn, None where it has no such kernel."""
    settings = {name: getattr(kernel, name) for name in ("gamma", "degree", "coef0") if hasattr(kernel, name)}
    if kernel.name == "callable":
        return None
    return getattr(pairwise, f"{kernel.name}_kernel")(A, B, **settings)


def sample(n=9, d=7, seed=0, density=0.6):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < density)
    X[0] = 0.0
    return X.astype(np.float32).astype(np.float64)


def in_form(X, form):
    if not form.startswith("csr"):
        return X.astype(form)
    X = (csr_array if "array" in form else csr_matrix)(X.astype("float32" if "32" in form else "float64"))
    if "int64" in form:
        X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def test_the_list_covers_every_kernel_with_a_formula():
    assert {kernel.name for kernel in KERNEL_LIST} == {*KERNELS, "callable"} - {"precomputed"}
    assert all(KERNELS[kernel.name] is type(kernel) for kernel in KERNEL_LIST if kernel.name != "callable")


@every_kernel
@given(seed=st.integers(0, 1000))
def test_a_block_is_the_formula(kernel, seed):
    A, B = sample(5, seed=seed), sample(4, seed=seed + 1)
    block = kernel.block(Points(A), Points(B))
    np.testing.assert_allclose(block, formula(kernel, A, B), rtol=1e-12, atol=1e-13)
    theirs = scikit_learn(kernel, A, B)
    if theirs is not None:
        np.testing.assert_allclose(block, theirs, rtol=1e-12, atol=1e-13)


def test_a_polynomial_of_a_negative_constant_is_not_called_definite():
    assert Polynomial(0.5, 3, 0.0).is_psd
    assert not Polynomial(1.0, 3, -2.0).is_psd
    X = np.array([[1.0], [0.5]])
    assert np.linalg.eigvalsh(Polynomial(1.0, 3, -2.0).block(Points(X), Points(X)))[0] < 0


@every_kernel
@pytest.mark.parametrize("form", ["float32", "csr", "csr32", "csr-int64", "csr-array"])
@pytest.mark.parametrize("density", [0.01, 0.6])
@pytest.mark.parametrize("n", [3, 2 * DENSE_COPIES.fewest])
def test_every_form_of_the_data_gives_the_same_values(kernel, form, density, n):
    """Sparse or dense, float32 or float64; thin rows multiply as they are, full ones as dense copies."""
    A, B = sample(n, 30, 1, density), sample(n + 1, 30, 2, density)
    expected = formula(kernel, A, B)
    left, right = Points(in_form(A, form)), Points(in_form(B, form))
    found = kernel.block(left, right)
    single = "32" in form
    assert isinstance(found, np.ndarray)
    assert found.dtype == (np.float32 if single else np.float64)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=(3e-6 if single else 1e-13) * max(scale, 1.0))
    np.testing.assert_allclose(left.sqnorms, (A**2).sum(axis=1), rtol=1e-14)
    np.testing.assert_allclose(kernel.diagonal(left), np.diagonal(formula(kernel, A, A)), rtol=3e-6, atol=3e-6)


@pytest.mark.parametrize("form", ["float32", "csr32"])
@pytest.mark.parametrize("n", [3, 2 * DENSE_COPIES.fewest])
@pytest.mark.parametrize("shift", [0.0, 30.0, 1e3, 1e5])
def test_rbf_far_from_the_origin_keeps_its_digits(form, n, shift):
    """|a|^2 + |b|^2 - 2 <a, b> loses the distance in float32; the answer must not."""
    rng = np.random.default_rng(0)
    A, B = ((rng.standard_normal((n, 8)) + shift).astype(np.float32) for _ in range(2))
    kernel = Rbf(0.1)
    found = kernel.block(Points(in_form(A, form)), Points(in_form(B, form)))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, formula(kernel, A, B), rtol=0, atol=3e-5)
    same = kernel.block(Points(in_form(A, form)), Points(in_form(A, form)))
    assert same.max() <= 1.0
    np.testing.assert_allclose(np.diagonal(same), 1.0, atol=3e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rbf_of_huge_or_tiny_data_stays_between_zero_and_one(dtype):
    for scale in (1e-20, 1e10):
        X = (sample() * scale).astype(dtype)
        K = Rbf(1.0).block(Points(X), Points(X))
        assert ((K >= 0) & (K <= 1)).all()


@pytest.mark.parametrize("gamma", ["scale", "auto", 0.25])
@pytest.mark.parametrize("form", ["float64", "csr", "csr32"])
@pytest.mark.parametrize("shift", [0.0, 5.0])
def test_gamma_is_scikit_learns(gamma, form, shift):
    X = in_form(sample(20, 5) + shift, form)
    theirs = SVC(gamma=gamma).fit(X, np.arange(20) % 2)
    assert find_gamma(gamma, X) == pytest.approx(theirs._gamma, rel=1e-6 if form == "csr32" else 1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_scale_is_the_variance_even_far_from_zero_and_in_any_order(dtype, monkeypatch):
    monkeypatch.setattr("softmargin.kernels._ENTRIES", 7)
    X = (4 * sample(30, 4) + 1e4).astype(dtype)
    expected = 1.0 / (4 * X.astype(np.float64).var())
    assert find_gamma("scale", X) == pytest.approx(expected, rel=1e-9)
    assert find_gamma("scale", np.asfortranarray(X)) == pytest.approx(expected, rel=1e-9)
    assert find_gamma("scale", np.ones((3, 2))) == 1.0


@pytest.mark.parametrize("gamma", ["wide", 0, 0.0, -1.0, np.nan, np.inf, None, [1.0], 1j])
def test_a_senseless_gamma_is_refused(gamma):
    with pytest.raises(IncompatibleError, match="gamma"):
        find_gamma(gamma, sample())
    with pytest.raises(IncompatibleError, match="gamma"):
        make_kernel("rbf", gamma=gamma)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"kernel": "gauss"}, IncompatibleError, "'gauss' is unknown; choose one of linear, rbf"),
        ({"kernel": 3}, IncompatibleError, "one of linear, rbf.* or a callable; found 3"),
        ({"kernel": "poly", "degree": 0}, IncompatibleError, "degree must be an integer >= 1; found 0"),
        ({"kernel": "poly", "degree": 2.5}, IncompatibleError, "degree must be an integer"),
        ({"kernel": "poly", "coef0": np.nan}, IncompatibleError, "coef0 must be a finite number; found nan"),
        ({"kernel": "sigmoid", "coef0": "a"}, IncompatibleError, "coef0 must be a finite number; found 'a'"),
        ({"kernel": "rbf", "gamma": "scale"}, IncompatibleError, "gamma must be a finite number > 0; found 'scale'"),
    ],
)
def test_senseless_kernels_are_refused_with_a_reason(settings, error, message):
    with pytest.raises(error, match=message):
        make_kernel(**settings)


def test_make_kernel_takes_names_callables_and_kernels():
    assert make_kernel("rbf", gamma=2, degree=0, coef0=np.nan) == Rbf(2)  # settings of others do not matter
    assert make_kernel("poly", gamma=0.5, degree=np.int64(2), coef0=1) == Polynomial(0.5, 2, 1)
    assert make_kernel("polynomial", gamma=0.5) == Polynomial(0.5, 3, 0.0)
    assert make_kernel("linear", gamma=-1.0) == Linear()
    assert isinstance(make_kernel("precomputed"), Precomputed)
    kernel = Sigmoid(0.1)
    assert make_kernel(kernel) is kernel
    assert isinstance(make_kernel(lambda A, B: A @ B.T), CallableKernel)


@pytest.mark.parametrize("wrong", [lambda A, B: A @ A.T, lambda A, B: np.ones(3), lambda A, B: 1.0])
def test_a_callable_of_the_wrong_shape_is_refused(wrong):
    with pytest.raises(DataError, match=r"returned shape .* for 9 and 4 rows; .*\(9, 4\)"):
        CallableKernel(wrong).block(Points(sample(9)), Points(sample(4)))


def test_a_callable_sees_the_data_as_they_came():
    seen = []

    def kernel(A, B):
        seen.append((type(A), type(B)))
        return A @ B.T

    for form in ("float64", "csr"):
        X = in_form(sample(40), form)
        found = CallableKernel(kernel).block(Points(X), Points(X))
        np.testing.assert_allclose(found, sample(40) @ sample(40).T, atol=1e-12)
        assert seen.pop() == (type(X), type(X))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(70, 3000), (3, 1), (0, 4), (4, 0)])
def test_sums_over_a_tile_are_float64(dtype, order, shape):
    rng = np.random.default_rng(0)
    tile = np.asarray(rng.standard_normal(shape), dtype=dtype, order=order)
    weights, out = rng.standard_normal((shape[1], 3)), np.ones((shape[0], 3))
    add_product(out, tile, weights)
    np.testing.assert_allclose(out, 1.0 + tile.astype(np.float64) @ weights, rtol=1e-11, atol=1e-11)


@given(n=st.integers(0, 50), size=st.integers(1, 20))
def test_slices_cover_everything_once(n, size):
    parts = [np.arange(n)[part] for part in slices(n, size)]
    assert all(0 < len(part) <= size for part in parts)
    np.testing.assert_array_equal(np.concatenate([np.arange(0), *parts]), np.arange(n))


@pytest.mark.parametrize("numbers", [0, 1, 784, 50_000, 10**7])
def test_tiles_are_never_empty_and_bounded(numbers):
    rows, columns = tile_shape(numbers)
    assert 16 <= rows <= columns <= 2048
    assert columns * numbers <= max(1 << 22, 16 * numbers)


@every_kernel
@pytest.mark.parametrize("seed", range(5))
def test_kernel_keeps_the_contract(kernel, seed):
    check_kernel(kernel, seed=seed)
    check_kernel(kernel, n=200, d=4, seed=seed)  # a callable is asked for 128 rows at a time


class BrokenKernel:
    """An rbf kernel with one promise broken."""

    name, is_psd = "broken", True

    def __init__(self, promise):
        self.promise, self.rbf = promise, Rbf(0.3)

    def block(self, left, right):
        K = self.rbf.block(left, right)
        if self.promise == "symmetric":
            return K * np.linspace(1.0, 1.1, K.shape[1])
        if self.promise == "definite":
            return K - 0.9
        if self.promise == "parts":
            return K / len(right)
        if self.promise == "layouts" and left.is_sparse:
            return 0.5 * K
        return K.astype(np.float64) if self.promise == "single" else K

    def diagonal(self, points):
        return self.rbf.diagonal(points) * (2.0 if self.promise == "diagonal" else 1.0)


@pytest.mark.parametrize(
    ("promise", "sentence"),
    [
        ("symmetric", "not k"),
        ("definite", "the diagonal is not|an eigenvalue is"),
        ("parts", "the diagonal is not|not that part"),
        ("layouts", "CSR rows"),
        ("single", "float32 rows give values of type"),
        ("diagonal", "the diagonal is not"),
    ],
)
def test_a_broken_kernel_is_caught(promise, sentence):
    with pytest.raises(AssertionError, match=sentence):
        check_kernel(BrokenKernel(promise))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3, 1e7])
@pytest.mark.parametrize("kind", [np.asarray, csr_matrix])
def test_lost_digits_are_bounded_by_those_of_the_worst_point(scale, kind):
    rows = np.random.default_rng(0).normal(size=(20, 30)) * scale
    rows[3:, 5:] = 0.0
    points, kernel = Points(kind(rows)), Rbf(0.5)
    worst = float(kernel._parts(points).max())
    assert kernel._lost(points) >= worst
    assert (kernel._lost(points) > _LOST) == (worst > _LOST)
    assert kernel._lost(points.take([])) == 0.0
