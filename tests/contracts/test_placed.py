"""Linear estimators where X lies on a device: the optima, certificates, predictions and models of NumPy fits.

The libraries are those of ``array_libraries``; PyTorch also with CSR matrices. SciPy's stand for CuPy's.
"""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone

from array_libraries import NOT_HERE, strict
from softmargin import (
    KernelSVC,
    L1BallRegressor,
    LinearSVC,
    LinearSVCCV,
    MatrixSensing,
    SoftmaxRegression,
    TraceBallClassifier,
    TraceBallRegressor,
    certify,
    radius_path,
)
from softmargin.backends.arrays import home_of, is_foreign, to_numpy
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.data import blobs
from softmargin.losses import on_device
from softmargin.losses.entrywise import ENTRYWISE, Hinge
from softmargin.losses.joint import JOINT
from softmargin.losses.smoothed import bent, curvature_diagonal, curvature_times, is_smooth
from softmargin.matrices.device_matrix import DeviceCsr, DeviceMatrix, DeviceMatrixTuning, device_matrix
from softmargin.models import LinearModel
from softmargin.penalties import L2
from softmargin.problems.block_rows import Block, Form
from softmargin.problems.blocks import LocalBlocks
from softmargin.problems.device_rows import device_block
from softmargin.problems.summed import PenalizedSum

pytestmark = pytest.mark.filterwarnings("ignore:Sparse:UserWarning")  # PyTorch calls CSR tensors a beta, once


@pytest.fixture
def csr():
    """Return a function from NumPy arrays to CSR matrices of PyTorch."""
    torch = pytest.importorskip("torch", reason=NOT_HERE)
    return lambda X: torch.asarray(X).to_sparse_csr()


X, Y = blobs(60, 4, 3, seed=1)
TARGETS = np.stack([X @ [1.0, 2.0, 0.0, 1.0], X @ [0.0, 1.0, 1.0, 0.0]], axis=1)
LABELS = np.stack([Y == 0, Y > 0], axis=1).astype(int)
FITS = {
    "softmax": (SoftmaxRegression(tol=1e-6), Y),
    "newton_cg": (SoftmaxRegression(solver="newton_cg", tol=1e-6), Y),
    "lbfgs": (SoftmaxRegression(solver="lbfgs", tol=1e-6), Y),
    "l1": (SoftmaxRegression(l1_ratio=1.0, C=0.5, tol=1e-6), Y),
    "two": (SoftmaxRegression(tol=1e-6, class_weight="balanced"), (Y > 0).astype(int)),
    "squared": (LinearSVC(loss="squared_hinge", multiclass="one_vs_rest", tol=1e-6), Y),
    "weston_watkins": (LinearSVC(tol=1e-4), Y),
    "crammer_singer": (LinearSVC(multiclass="crammer_singer", tol=1e-4), Y),
    "hinge": (LinearSVC(multiclass="one_vs_rest", tol=1e-4), Y),
    "trace": (TraceBallClassifier(radius=2.0, loss="multinomial", tol=1e-6), Y),
    "trace_numbers": (TraceBallRegressor(radius=2.0, tol=1e-6), TARGETS),
    "l1_numbers": (L1BallRegressor(radius=2.0, tol=1e-6), TARGETS[:, 0]),
}


def fitted(name, X, y):
    estimator = FITS[name][0]
    return type(estimator)(**estimator.get_params()).fit(X, y)


@pytest.mark.parametrize("name", FITS)
def test_a_fit_on_a_device_is_that_of_numpy(put, name, tmp_path):
    y = FITS[name][1]
    host, there = fitted(name, X, y), fitted(name, put(X), put(y))
    assert there.status_ == "converged"
    one, other = host.certificate_, there.certificate_
    assert max(one.bound, other.bound) <= min(one.primal, other.primal)
    home = home_of(put(X))
    assert home_of(there.coef_) == home
    assert isinstance(there.intercept_, float) or home_of(there.intercept_) == home
    found, model = there.predict(put(X)), there.model()
    assert home_of(found) == home
    np.testing.assert_allclose(to_numpy(found), model.predict(X), atol=1e-12)
    if hasattr(there, "predict_proba"):
        P = there.predict_proba(put(X))
        assert home_of(P) == home
        np.testing.assert_allclose(to_numpy(P), model.predict_proba(X), atol=1e-12)
    assert there.score(put(X), put(y)) == pytest.approx(host.score(X, y), abs=0.02)
    model.save(tmp_path / "model")
    if isinstance(model, LinearModel):
        model = LinearModel.load(tmp_path / "model")
    assert certify(model, X, y).residual <= 1.1 * there.tol


def frame(X):
    """Return X as a data frame."""
    return pytest.importorskip("pandas").DataFrame(X, columns=["a", "b", "c", "d"])


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(("name", "kind"), [("softmax", frame), ("weston_watkins", csr_matrix), ("trace", np.asarray)])
def test_data_are_moved_once_to_a_device_by_its_name(name, kind, device):
    torch = pytest.importorskip("torch", reason=NOT_HERE)
    estimator, y = FITS[name]
    there = clone(estimator).set_params(device=device).fit(kind(X), y)
    assert isinstance(there.intercept_, torch.Tensor)
    assert there.intercept_.device.type == device
    np.testing.assert_allclose(to_numpy(there.predict(kind(X))), there.model().predict(X), atol=1e-12)
    assert certify(there.model(), X, y).residual <= 1.1 * there.tol
    assert hasattr(there, "feature_names_in_") == (kind is frame)


def test_what_computes_in_the_memory_of_the_processor_refuses_a_device():
    with pytest.raises(IncompatibleError, match="device=None"):
        radius_path(TraceBallClassifier(device="cpu"), X, Y)
    with pytest.raises(AttributeError, match="device=None"):
        SoftmaxRegression(device="cpu").partial_fit(X, Y)
    with pytest.raises(ValueError, match="device"):
        LinearSVC(device=7).fit(X, Y)


@pytest.mark.parametrize("name", ["softmax", "weston_watkins", "trace_numbers"])
def test_csr_matrices_of_pytorch_are_fitted_where_they_lie(csr, name):
    sparse, y = np.where(np.abs(X) > 0.3, X, 0.0), FITS[name][1]
    host, there = fitted(name, sparse, y), fitted(name, csr(sparse.astype(np.float32)), y)
    scale = max(abs(host.certificate_.primal), 1.0)
    assert there.certificate_.primal == pytest.approx(host.certificate_.primal, abs=1e-3 * scale)
    np.testing.assert_allclose(to_numpy(there.predict(csr(sparse))), there.model().predict(sparse), atol=1e-12)


def test_several_labels_per_sample(put):
    clf = TraceBallClassifier(radius=2.0, tol=1e-6)
    host = clf.fit(X, LABELS).predict(X)
    assert (to_numpy(clf.fit(put(X), LABELS).predict(put(X))) == host).mean() > 0.99


LOSSES = {**JOINT, **ENTRYWISE, "hinge": Hinge()}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_on_a_device_are_those_of_numpy(put, name):
    loss, rng = LOSSES[name], np.random.default_rng(0)
    scores, moves = rng.standard_normal((20, 3)) * 10.0 ** rng.integers(-2, 3, (20, 1)), rng.standard_normal((20, 3))
    target = Form(loss, 3).targets(rng.integers(0, 3, 20)) if loss.is_joint or loss.is_margin else moves
    xp, width = home_of(put(scores)).xp, 0.0 if is_smooth(loss) else 0.3
    here, there = bent(loss, width, scores, target), on_device.bent(xp, loss, width, put(scores), put(target))
    for one, other in zip(here, there, strict=True):
        if isinstance(one, np.ndarray):
            np.testing.assert_allclose(to_numpy(other), one, rtol=1e-10, atol=1e-13)
    bends = np.maximum(here.bends, 1e-3)
    for own, others in ((curvature_times, (moves,)), (curvature_diagonal, ())):
        one = own(loss, bends, *others, target)
        other = getattr(on_device, own.__name__)(xp, loss, put(bends), *(put(each) for each in others), put(target))
        np.testing.assert_allclose(to_numpy(other), one, atol=1e-12)
    if not is_smooth(loss):
        values = loss.value(scores, target).sum(axis=1)
        np.testing.assert_allclose(to_numpy(on_device.hinge_values(xp, loss, put(scores), put(target))), values)


def sums(blocks, loss, k, entries=None):
    """Return what every pass over blocks brings back."""
    problem = PenalizedSum(blocks, Form(loss, k, 1.0, loss.is_joint and is_smooth(loss)), L2(1.0))
    W = np.linspace(-1.0, 1.0, 5 * k).reshape(5, k)
    width = 0.0 if is_smooth(loss) else 0.5
    point = problem.zero()._replace(weights=W, width=width)
    certificate = problem.certificate(point)
    return [
        *problem.curvature(W, width, entries if is_smooth(loss) else None),
        *(problem.hessian_times(at, W + 1.0, width) for at in (W, W, 0.5 * W)),
        *(problem.inverse([c * np.eye(5) + np.tri(5) for c in range(1, m + 1)])(W) for m in (1, k)),
        problem.metric(W, width, k),
        problem.metric(W, width, 0),
        problem.along(W, W, np.array([0.5, 1.0]), width),
        np.array([certificate.primal, certificate.bound]),
    ]


@pytest.mark.parametrize("name", ["multinomial", "weston_watkins", "crammer_singer", "squared_hinge"])
@pytest.mark.parametrize("kind", ["dense", "scipy", "torch"])
def test_passes_on_a_device_are_those_of_numpy_tile_after_tile(kind, name, monkeypatch, request):
    compat = pytest.importorskip("array_api_compat.numpy")
    if kind == "dense":
        matrix = DeviceMatrix(strict()(X), home_of(strict()(X)))
    elif kind == "torch":
        matrix = device_matrix(request.getfixturevalue("csr")(X))
    else:
        matrix = DeviceCsr(csr_matrix(X), home_of(strict()(X))._replace(xp=compat, device="cpu"))
    monkeypatch.setattr("softmargin.matrices.device_matrix._TUNING", DeviceMatrixTuning(numbers=64, fewest=64))
    weights, entries = np.linspace(0.5, 2.0, len(Y)), np.array([0, 2, 7, 8, 12, 13, 14])
    there = sums(LocalBlocks([device_block(matrix, Y, weights)]), LOSSES[name], 3, entries)
    here = sums(LocalBlocks([Block(X, Y, weights)]), LOSSES[name], 3, entries)
    assert 1 < len(list(device_block(matrix, Y, weights).pieces(Form(LOSSES[name], 3)))) < len(Y)
    for one, other in zip(here, there, strict=True):
        np.testing.assert_allclose(other, one, atol=1e-10)


def test_the_curvature_of_the_last_weights_is_kept_where_there_is_room(monkeypatch):
    X_there = strict()(X)
    block = device_block(DeviceMatrix(X_there, home_of(X_there)), Y, np.ones(len(Y)))
    form, W = Form(JOINT["multinomial"], 3, 1.0, True), np.ones((5, 3))
    kept = block.bent_pieces(form, W, 0.0)
    assert block.bent_pieces(form, W.copy(), 0.0) is kept
    assert block.bent_pieces(form, 2.0 * W, 0.0) is not kept
    monkeypatch.setattr("softmargin.matrices.device_matrix._TUNING", DeviceMatrixTuning(numbers=64, fewest=64))
    block = device_block(DeviceMatrix(X_there, home_of(X_there)), Y, np.ones(len(Y)))
    assert len(list(block.bent_pieces(form, W, 0.0))) > 1
    assert block.last.pieces == ()


def test_a_warm_start_is_where_the_last_fit_ended(put):
    clf = SoftmaxRegression(tol=1e-6, warm_start=True).fit(put(X), Y)
    assert clf.fit(put(X), Y).n_iter_ == 0


def test_a_fit_goes_on_from_its_checkpoint(tmp_path):
    put = strict()
    short = {"tol": 1e-9, "max_iter": 2}
    with pytest.warns(UserWarning, match="tol"):
        SoftmaxRegression(**short).fit(put(X), Y, checkpoint=tmp_path / "run")
    resumed = SoftmaxRegression(tol=1e-9).fit(put(X), Y, checkpoint=tmp_path / "run")
    whole = SoftmaxRegression(tol=1e-9).fit(put(X), Y)
    np.testing.assert_array_equal(to_numpy(resumed.coef_), to_numpy(whole.coef_))


@pytest.mark.parametrize("estimator", [SoftmaxRegression(), LinearSVC(), TraceBallClassifier()])
def test_data_that_cannot_be_used_are_refused(estimator):
    put, xp = strict(), pytest.importorskip("array_api_strict")
    for bad, message in [
        (put(X[:, 0]), "shape"),
        (put(np.where(X[3, 1] == X, np.nan, X)), "NaN or infinity"),
        (put(X * 1e150), "Scale the features"),
        (put(X.astype(np.complex128)), "float32 and float64"),
    ]:
        with pytest.raises(DataError, match=message):
            estimator.fit(bad, Y)
    with pytest.raises(DataError, match="agree"):
        estimator.fit(put(X), Y[:-1])
    with pytest.raises(DataError, match="1 class"):
        estimator.fit(put(X), np.zeros(len(X)))
    with pytest.raises(DataError, match="one device"):
        estimator.fit(put(X), xp.asarray(Y, device=xp.Device("device2")))
    with pytest.raises(ValueError, match="weight"):
        estimator.fit(put(X), Y, sample_weight=np.zeros(len(Y)))
    with pytest.raises(IncompatibleError, match="no float64"):
        estimator.fit(xp.asarray(X.astype(np.float32), device=xp.Device("no_float64")), Y)
    with pytest.raises(IncompatibleError, match="choose one of auto"):
        type(estimator)(solver="block_prox_gradient").fit(put(X), Y)


def test_tensors_that_cannot_be_used_are_refused(csr):
    torch = pytest.importorskip("torch", reason=NOT_HERE)
    fit = SoftmaxRegression().fit
    for bad, message in [
        (torch.asarray(X).half(), "float32 and float64"),
        (torch.asarray(X).requires_grad_(), "detach"),
        (csr(X).requires_grad_(), "detach"),
        (torch.asarray(X).to_sparse_coo(), "to_sparse_csr"),
    ]:
        with pytest.raises(DataError, match=message):
            fit(bad, Y)
    for estimator in (SoftmaxRegression, KernelSVC):
        with pytest.raises(DataError, match="holds no values"):
            estimator().fit(torch.asarray(X).to("meta"), Y)
        with pytest.raises(DataError, match="holds no values"):
            estimator(device="meta").fit(X, Y)
    with pytest.raises(IncompatibleError, match="to_dense"):
        KernelSVC().fit(csr(X), Y)


def test_a_namespace_without_a_function_is_named(monkeypatch):
    monkeypatch.delattr(pytest.importorskip("array_api_strict"), "log1p")
    with pytest.raises(IncompatibleError, match="lacks log1p"):
        SoftmaxRegression().fit(strict()(X), Y)


def test_what_is_not_done_on_a_device_says_what_to_do():
    put = strict()
    for estimator, message in [
        (LinearSVC(probability=True), "probability=None"),
        (LinearSVC(multiclass="one_vs_one"), "one_vs_rest"),
        (LinearSVC(solver="lbfgs"), "'newton'"),
        (SoftmaxRegression(pinned=0), "pinned"),
        (LinearSVCCV(), "NumPy array"),
    ]:
        with pytest.raises(IncompatibleError, match=message):
            estimator.fit(put(X), Y)
    with pytest.raises(IncompatibleError, match="NumPy array"):
        MatrixSensing((2, 2)).fit(put(X), TARGETS[:, 0])
    with pytest.raises(DataError, match="not observed"):
        TraceBallRegressor().fit(put(X), np.where(TARGETS > 1.0, np.nan, TARGETS))
    clf = SoftmaxRegression().fit(put(X), Y)
    with pytest.raises(DataError, match=r"model\(\)"):
        clf.predict(X)
    with pytest.raises(DataError, match="features"):
        clf.predict(put(X[:, :2]))
    assert not is_foreign(SoftmaxRegression().fit(X, Y).coef_)
