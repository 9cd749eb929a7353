"""Kernel SVMs where X lies on a device: the same numbers, optima, certificates and models as in NumPy.

array-api-strict has devices of its own, which NumPy cannot read and which do not mix. JAX and PyTorch on the CPU take
part where they are installed; `pytest -m gpu -n 0` runs the same on CUDA.
"""

import numpy as np
import pytest

from array_libraries import LIBRARIES, NOT_HERE, strict
from softmargin import KernelSVC, KernelSVCCV, certify, svm_path
from softmargin.backends.arrays import home_of, is_foreign, to_numpy
from softmargin.backends.shifted_inverse import ShiftedInverse
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.data import blobs
from softmargin.kernels import Laplacian, make_kernel
from softmargin.matrices.device_gram import DeviceGram, DeviceTuning
from softmargin.matrices.gram import Gram
from softmargin.models import KernelExpansion
from softmargin.problems import HingeSVM, KernelMulticlassSVM
from softmargin.run import Stop, solve
from softmargin.solvers import FreeFrankWolfe, KernelBlockDescent, ProjectedGradient, Splitting
from softmargin.solvers.kernel_svm._device_rows import DeviceRows
from softmargin.solvers.kernel_svm._dual_rows import HostRows, plain_iteration
from softmargin.solvers.kernel_svm.splitting import SplittingTuning
from softmargin.testing import check_solver

LOSS_NAMES = ("weston_watkins", "crammer_singer")


def rows(n=30, dtype=np.float64):
    X, y = blobs(n, 3, 3, seed=1)
    return X.astype(dtype), y


KERNELS = {
    "linear": make_kernel("linear"),
    "polynomial": make_kernel("polynomial", gamma=0.3, degree=2, coef0=0.5),
    "sigmoid": make_kernel("sigmoid", gamma=0.2, coef0=-0.1),
    "rbf": make_kernel("rbf", gamma=0.4),
}
FAR = {"near": 0.0, "far": 1e5, "apart": np.array([1e6] * 15 + [-1e6] * 15)[:, None]}  # moved origin; differences


@pytest.mark.parametrize("cache_size", [1000.0, 1e-3])  # stored; tiles
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", KERNELS)
def test_kernel_values_and_proven_sums_are_those_of_numpy(put, name, dtype, cache_size):
    X = rows(dtype=dtype)[0]
    alpha = np.random.default_rng(0).standard_normal((len(X), 2)) * (np.arange(len(X)) % 3 > 0)[:, None]
    here, there = Gram(KERNELS[name], X, bias=2.0), DeviceGram(KERNELS[name], put(X), bias=2.0, cache_size=cache_size)
    eps = 50 * np.finfo(dtype).eps * np.abs(here.rows(np.arange(len(X)))).max()
    index = np.array([3, 7, 21])
    assert there.dtype == dtype
    np.testing.assert_allclose(there.diagonal, here.diagonal, rtol=1e-12)
    np.testing.assert_allclose(there.rows(index), here.rows(index), atol=eps)
    np.testing.assert_allclose(to_numpy(there.square(index)), here.square(index), atol=eps)
    np.testing.assert_allclose(there.scores(alpha), here.scores(alpha), atol=len(X) * eps)
    scores = here.scores(alpha)
    there.add_change(scores, index, alpha[index])
    np.testing.assert_allclose(scores, here.scores(alpha) + here.rows(index).T @ alpha[index], atol=len(X) * eps)
    one, other = here.judged(alpha, 10), there.judged(alpha, 10)
    allowed = sum(each.errors.rows @ each.errors.slope + each.errors.level for each in (one, other))
    assert (np.abs(one.scores - other.scores) <= allowed).all()
    assert abs(one.square.value - other.square.value) <= one.square.error + other.square.error
    assert there.energy(alpha, 10) == other.square


@pytest.mark.parametrize("where", FAR)
def test_distances_keep_their_digits_far_from_the_origin(put, where):
    X = rows()[0] + FAR[where]
    kernel = KERNELS["rbf"]
    exact = np.exp(-0.4 * ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2))
    gram = DeviceGram(kernel, put(X))
    np.testing.assert_allclose(gram.rows(np.arange(len(X))), exact, atol=2.0**-32)
    alpha = np.ones((len(X), 1))
    judged = gram.judged(alpha, 0)
    assert (
        np.abs(judged.scores - exact @ alpha) <= judged.errors.rows @ judged.errors.slope + judged.errors.level
    ).all()


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("multiclass", LOSS_NAMES)
def test_nearest_rows_and_gaps_are_those_of_numpy(put, multiclass, k):
    rng = np.random.default_rng(k)
    m = 60
    u = rng.standard_normal((m, k)) * 10.0 ** rng.integers(-3, 4, (m, 1))
    u[:5] = np.round(u[:5])  # ties
    y, C = rng.integers(0, k, m).astype(np.int32), np.where(np.arange(m) % 7 == 0, 0.0, 10.0 ** rng.uniform(-2, 2, m))
    K = np.eye(m)
    host, device = HostRows(multiclass, K, y, C, k), DeviceRows(multiclass, put(K), y, C, k)
    Z = host.nearest(u)
    found = device.back(device.nearest(device.here(u)))
    assert (np.abs(found - Z) <= 1e-12 * np.maximum(1.0, np.abs(u).max(axis=1, keepdims=True))).all()
    scores = rng.standard_normal((m, k))
    assert device.gap(device.here(Z), device.here(scores)) == pytest.approx(host.gap(Z, scores), rel=1e-12)


@pytest.mark.parametrize("block", [4096, 7])  # one block, and several of which the last is smaller
def test_the_inverse_and_products_are_those_of_numpy(put, block, monkeypatch):
    monkeypatch.setattr("softmargin.backends.shifted_inverse.BLOCK", block)
    K = Gram(KERNELS["rbf"], rows()[0]).rows(np.arange(30))
    host, device = (
        kind("crammer_singer", part, rows()[1], np.ones(30), 3) for kind, part in ((HostRows, K), (DeviceRows, put(K)))
    )
    pull = K[:4]
    moves = [part.moves(part.inverse(3.0), part.here(pull)) for part in (host, device)]
    np.testing.assert_allclose(device.back(moves[1]), moves[0], atol=1e-14)
    np.testing.assert_allclose(moves[0], np.linalg.solve(K + 3.0 * np.eye(30), pull.T), atol=1e-14)
    np.testing.assert_allclose(device.back(device.product(device.here(K))), K @ K, atol=1e-13)


@pytest.mark.gpu
@pytest.mark.parametrize("k", [1, 10, 16])
def test_a_fused_product_with_the_inverse_is_that_of_plain_operations(k, monkeypatch):
    pytest.importorskip("triton", reason=NOT_HERE)
    monkeypatch.setattr("softmargin.backends.shifted_inverse.BLOCK", 128)
    put, rng = LIBRARIES["torch_cuda"](), np.random.default_rng(k)
    root, V = (rng.standard_normal((rows, 300)).astype(np.float32) for rows in (300, k))
    inverse = ShiftedInverse(put(root @ root.T / 300), 3.0, home_of(put(root)))
    assert inverse._fused is not None
    fused = to_numpy(inverse.applied(put(V)))
    monkeypatch.setattr(inverse, "_fused", None)
    np.testing.assert_allclose(fused, to_numpy(inverse.applied(put(V))), atol=1e-5)


def test_an_inverse_by_halves_is_the_inverse(put, monkeypatch):
    monkeypatch.setattr("softmargin.backends.arrays._LEAF", 3)
    S = Gram(KERNELS["rbf"], rows()[0]).rows(np.arange(30)) + 3.0 * np.eye(30)
    np.testing.assert_allclose(to_numpy(home_of(put(S)).inverse(put(S))), np.linalg.inv(S), atol=1e-14)


@pytest.mark.gpu
@pytest.mark.parametrize("k", [2, 5, 33])
@pytest.mark.parametrize("multiclass", LOSS_NAMES)
def test_a_fused_iteration_is_that_of_plain_operations(multiclass, k):
    pytest.importorskip("triton", reason=NOT_HERE)
    put, rng, m = LIBRARIES["torch_cuda"](), np.random.default_rng(k), 70
    y, C = rng.integers(0, k, m), np.where(np.arange(m) % 7 == 0, 0.0, 10.0 ** rng.uniform(-2, 2, m))
    root, first, G, Z, U, pull = (put(rng.standard_normal((m, length))) for length in (m, k, k, k, k, k))
    part = DeviceRows(multiclass, root @ root.T, y, C, k)
    M, U = part.inverse(3.1), U * put(10.0 ** rng.integers(-3, 4, (m, 1)))
    assert part.home.fused is not None
    plain, fused = plain_iteration(part, M, first, G, 3.1, 1.7), part.iteration(M, first, G, 3.1, 1.7)
    size = np.maximum(1.0, np.abs(to_numpy(U)).max(axis=1, keepdims=True))
    for one, other, sizes in zip(plain(Z, U, pull.T), fused(Z, U, pull.T), (size, size, size.T), strict=True):
        assert (np.abs(to_numpy(one - other)) <= 1e-12 * sizes).all()


def test_float32_values_reach_a_gap_below_their_rounding(put):
    X, y = rows(dtype=np.float32)
    gram = DeviceGram(KERNELS["rbf"], put(X), bias=1.0)
    problem = KernelMulticlassSVM(gram, y, multiclass="crammer_singer")
    narrow = Splitting(tuning=SplittingTuning(late=0.0))
    reached = [solve(problem, solver, stop=Stop(1e-9, max_iter=20), rng=0) for solver in (narrow, Splitting())]
    assert reached[0].certificate.residual > 1e-9 >= reached[1].certificate.residual


def test_nested_starts_end_where_others_do():
    X, y = rows(n=90)
    gram = Gram(KERNELS["rbf"], X, bias=1.0)
    problem = KernelMulticlassSVM(gram, y, multiclass="crammer_singer")
    solver = Splitting(tuning=SplittingTuning(first_set=8, first_play=16, play_growth=2))
    state = solver.start(problem, None, np.random.default_rng(0))
    seen = []
    while problem.relative_gap(state.alpha, state.scores) > 1e-4:
        state = solver.step(problem, state)
        seen.append(state.in_play)
        assert np.isin(np.flatnonzero(state.alpha.any(axis=1)), state.order[: state.in_play]).all()
    assert (seen[0], seen[-1]) == (23, 90)
    np.testing.assert_allclose(state.scores, gram.scores(state.alpha), atol=1e-12)


@pytest.mark.parametrize("solver", [Splitting(), ProjectedGradient()])
def test_solvers_keep_their_contract_on_a_device(put, solver):
    X, y = rows(n=24)
    kernel, own = make_kernel("rbf", gamma=0.5), {"multiclass": "crammer_singer"}
    host = KernelMulticlassSVM(Gram(kernel, X, bias=1.0), y, **own)
    optimum = solve(host, KernelBlockDescent(), stop=Stop(1e-10)).certificate.primal
    device = DeviceGram(kernel, put(X), bias=1.0)
    check_solver(solver, lambda: KernelMulticlassSVM(device, y, **own), tol=1e-3, steps=2, optimum=optimum)


@pytest.mark.parametrize("multiclass", [*LOSS_NAMES, "one_vs_rest"])
def test_a_fit_on_a_device_is_that_of_numpy(put, multiclass, tmp_path):
    X, y = rows()
    settings = {"multiclass": multiclass, "C": 2.0, "tol": 1e-2, "random_state": 0}
    host = KernelSVC(**settings).fit(X, y)
    clf = KernelSVC(**settings).fit(put(X), put(y))
    assert clf.status_ == "converged"
    one, other = host.certificate_, clf.certificate_
    assert max(one.bound, other.bound) <= min(one.primal, other.primal)
    home = home_of(put(X))
    for name in ("support_", "support_vectors_", "n_support_", "dual_coef_", "intercept_", "classes_"):
        assert home_of(getattr(clf, name)) == home, name
    model = clf.model()
    scores, labels = clf.decision_function(put(X)), clf.predict(put(X))
    assert home_of(scores) == home_of(labels) == home
    np.testing.assert_allclose(to_numpy(scores), model.decision_function(X), atol=1e-12)
    np.testing.assert_array_equal(to_numpy(labels), model.predict(X))
    assert clf.score(put(X), put(y)) == np.mean(model.predict(X) == y)
    model.save(tmp_path / "model")
    loaded = KernelExpansion.load(tmp_path / "model")
    assert isinstance(loaded.vectors, np.ndarray)
    proven = certify(loaded, X, y)
    assert proven.residual == pytest.approx(other.residual, rel=1e-6)


def test_float32_is_computed_in_float32_and_proven_in_float64(put):
    X, y = rows(dtype=np.float32)
    clf = KernelSVC(multiclass="crammer_singer", random_state=0).fit(put(X), y)
    assert to_numpy(clf.support_vectors_).dtype == np.float32
    assert certify(clf.model(), X, y).residual <= 1e-3


def test_labels_of_text_and_two_classes(put):
    X, y = rows()
    names = np.where(y == 0, "no", "yes")
    weights = np.linspace(0.5, 2.0, len(y))
    clf = KernelSVC(tol=1e-2, random_state=0).fit(put(X), names, sample_weight=put(weights))
    host = KernelSVC(random_state=0).fit(X, names, sample_weight=weights)
    assert clf.gamma_ == pytest.approx(host.gamma_, rel=1e-12)
    assert clf.certificate_.bound <= host.certificate_.primal
    assert clf.decision_function(put(X)).shape == (len(X),)
    np.testing.assert_array_equal(clf.predict(put(X)), clf.model().predict(X))


def test_a_warm_start_is_where_the_last_fit_ended(put):
    X, y = rows()
    clf = KernelSVC(multiclass="crammer_singer", max_seconds=60.0, random_state=0, warm_start=True).fit(put(X), y)
    assert clf.fit(put(X), y).n_iter_ == 0


def test_the_linear_kernel_has_weights_on_the_device(put):
    X, y = rows()
    clf = KernelSVC(kernel="linear", tol=0.1, random_state=0).fit(put(X), y)
    np.testing.assert_allclose(
        X @ to_numpy(clf.coef_).T + to_numpy(clf.intercept_), to_numpy(clf.decision_function(put(X)))
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"solver": "frank_wolfe"},
        {"solver": "block_frank_wolfe"},
        {"solver": "frank_wolfe", "fit_intercept": "free", "multiclass": "one_vs_rest"},
        {"loss": "squared_hinge", "multiclass": "one_vs_rest"},
    ],
)
def test_other_solvers_that_need_sums_alone_run_on_a_device(settings):
    put = strict()
    X, y = rows(n=24)
    clf = KernelSVC(tol=0.3, **settings).fit(put(X), y)
    host = KernelSVC(tol=1e-4, **{**settings, "solver": "auto"}).fit(X, y)
    assert clf.certificate_.bound <= host.certificate_.primal
    assert host.certificate_.bound <= clf.certificate_.primal


def test_a_square_is_never_larger_than_its_share_of_the_budget(monkeypatch):
    put = strict()
    X, y = rows()
    gram = DeviceGram(KERNELS["rbf"], put(X), cache_size=0.01)
    assert 2 <= gram.largest_square < len(X)
    assert 6 * 8 * gram.largest_square**2 <= 0.01e6
    monkeypatch.setattr("softmargin.backends.arrays.Home.is_writable", True)  # no strips beside the square
    assert 5.5 * 8 * gram.largest_square**2 <= 0.01e6 < 6.5 * 8 * gram.largest_square**2
    monkeypatch.undo()
    assert DeviceGram(KERNELS["rbf"], put(X), tuning=DeviceTuning(most_rows=7)).largest_square == 7
    result = solve(KernelMulticlassSVM(gram, y, multiclass="crammer_singer"), Splitting(), stop=Stop(1e-2), rng=0)
    assert result.certificate.residual <= 1e-2


REFUSED = {
    "block_descent": ({"solver": "block_descent"}, "splitting"),
    "pair_descent": ({"solver": "pair_descent", "multiclass": "one_vs_rest"}, "splitting"),
    "free": ({"fit_intercept": "free", "multiclass": "one_vs_rest"}, "frank_wolfe"),
    "scs": ({"solver": "scs", "multiclass": "one_vs_rest"}, "splitting"),
    "nystroem": ({"approximation": "nystroem"}, "approximation=None"),
    "probability": ({"probability": "sigmoid"}, "probability=None"),
    "laplacian": ({"kernel": "laplacian"}, "laplacian"),
    "precomputed": ({"kernel": "precomputed"}, "precomputed"),
    "callable": ({"kernel": lambda A, B: A @ B.T}, "callable"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_done_on_a_device_says_what_to_do(name):
    settings, advice = REFUSED[name]
    X, y = rows(n=24)
    with pytest.raises(IncompatibleError, match=advice):
        KernelSVC(**settings).fit(strict()(X), y)


def test_data_that_cannot_be_used_are_refused():
    put = strict()
    xp = pytest.importorskip("array_api_strict")
    X, y = rows()
    fit = KernelSVC(tol=0.1).fit
    for bad, message in [
        (put(X[:, 0]), "shape"),
        (put(X[:0]), "shape"),
        (put(np.where(X[3, 1] == X, np.nan, X)), "NaN or infinity"),
        (put(X * 1e150), "Scale the features"),
        (put(X.astype(np.complex128)), "float32 and float64"),
    ]:
        with pytest.raises(DataError, match=message):
            fit(bad, y)
    with pytest.raises(DataError, match="agree"):
        fit(put(X), y[:-1])
    with pytest.raises(DataError, match="1 class"):
        fit(put(X), np.zeros(len(X)))
    with pytest.raises(DataError, match="one device"):
        fit(put(X), xp.asarray(y, device=xp.Device("device2")))
    with pytest.raises(IncompatibleError, match="no float64"):
        fit(xp.asarray(X.astype(np.float32), device=xp.Device("no_float64")), y)
    assert fit(put(np.round(X).astype(np.int64)), y).status_ == "converged"


def test_a_model_says_where_it_lies():
    put = strict()
    xp = pytest.importorskip("array_api_strict")
    X, y = rows()
    clf = KernelSVC(tol=0.1).fit(put(X), y)
    with pytest.raises(DataError, match=r"model\(\)"):
        clf.predict(X)
    with pytest.raises(DataError, match="one device"):
        clf.predict(xp.asarray(X, device=xp.Device("device2")))
    with pytest.raises(DataError, match="features"):
        clf.predict(put(X[:, :2]))
    with pytest.raises(DataError, match="NaN"):
        clf.predict(put(np.full_like(X, np.nan)))
    with pytest.raises(AttributeError, match="partial_fit"):
        clf.partial_fit(X, y)
    with pytest.raises(IncompatibleError, match="NumPy array"):
        KernelSVCCV().fit(put(X), y)
    with pytest.raises(IncompatibleError, match="NumPy array"):
        svm_path(KernelSVC(), put(X), y)
    with pytest.raises(IncompatibleError, match="device=None"):
        svm_path(KernelSVC(device="cuda"), X, y)
    with pytest.raises(IncompatibleError, match="NumPy array"):
        KernelSVC(multiclass="one_vs_rest").partial_fit(put(X), y, classes=[0, 1, 2])


def test_arrays_that_require_gradients_are_refused():
    put = strict()
    X = put(rows()[0])
    wanting = type("Tensor", (type(X),), {"requires_grad": True})
    tensor = object.__new__(wanting)
    for name in ("_array", "_dtype", "_device"):
        object.__setattr__(tensor, name, getattr(X, name))
    with pytest.raises(DataError, match="detach"):
        home_of(tensor)


def test_a_device_needs_its_library():
    X, y = rows()
    try:
        import torch  # noqa: F401
    except (ImportError, OSError):
        with pytest.raises(IncompatibleError, match="needs PyTorch"):
            KernelSVC(device="cuda").fit(X, y)
    else:
        with pytest.raises(IncompatibleError, match="is not there"):
            KernelSVC(device="cuda:99").fit(X, y)
    with pytest.raises(ValueError, match="device"):
        KernelSVC(device=7).fit(X, y)


@pytest.mark.gpu
def test_a_numpy_array_is_moved_once():
    torch = pytest.importorskip("torch", reason=NOT_HERE)
    X, y = rows()
    clf = KernelSVC(device="cuda", random_state=0).fit(X, y)
    assert isinstance(clf.dual_coef_, torch.Tensor)
    assert clf.dual_coef_.device.type == "cuda"
    np.testing.assert_array_equal(clf.predict(X), clf.model().predict(X))


def test_numpy_arrays_are_not_foreign():
    assert not any(is_foreign(each) for each in (np.eye(2), np.float64(1.0), [1.0], "text", None, Laplacian(1.0)))
    assert FreeFrankWolfe.runs_on_device
    assert HingeSVM(DeviceGram(KERNELS["rbf"], strict()(np.eye(2))), np.array([-1.0, 1.0])).is_expansion
