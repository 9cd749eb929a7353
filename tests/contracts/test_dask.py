"""Estimators on Dask collections: the optimum of the local fit, the same for any partitions; errors say what to do.

Everything here runs on Dask's own schedulers in this process; ``test_dask_cluster`` has workers to kill.
"""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone

from softmargin import (
    KernelSVC,
    L1BallClassifier,
    L1BallRegressor,
    LinearSVC,
    MatrixSensing,
    SoftmaxRegression,
    SummedNewton,
    TraceBallClassifier,
    certify,
)
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.data import blobs

dask = pytest.importorskip("dask", reason="the extra dask is not installed")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

X, CODES = blobs(240, 5, 3, seed=1, separation=1.0)
Y = np.array(["a", "b", "c"])[CODES]
WEIGHTS = np.random.default_rng(0).uniform(0.0, 2.0, len(Y))
SPARSE = csr_matrix(np.where(np.abs(X) > 0.4, X, 0.0))


@pytest.fixture(autouse=True)
def _in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def parts(values, n_parts):
    """Return an array in so many partitions; a sparse one has blocks of CSR."""
    size = -(-values.shape[0] // n_parts)
    if isinstance(values, np.ndarray):
        return da.from_array(values, chunks=(size, *values.shape[1:]))
    rows = [values[i : i + size] for i in range(0, values.shape[0], size)]
    blocks = [da.from_delayed(dask.delayed(r), r.shape, meta=csr_matrix((0, 5)), dtype=float) for r in rows]
    return da.concatenate(blocks)


ESTIMATORS = {
    "softmax": SoftmaxRegression(tol=1e-6),
    "l1": SoftmaxRegression(l1_ratio=1.0, C=0.2, tol=1e-6),
    "elastic net": SoftmaxRegression(l1_ratio=0.5, C=0.2, tol=1e-6, class_weight="balanced"),
    "weston_watkins": LinearSVC(tol=1e-4),
    "crammer_singer": LinearSVC(multiclass="crammer_singer", tol=1e-4, class_weight={"a": 2.0}),
    "one_vs_rest": LinearSVC(multiclass="one_vs_rest", tol=1e-4, intercept_scaling=2.0),
    "squared": LinearSVC(multiclass="one_vs_rest", loss="squared_hinge", tol=1e-6),
    "ball": L1BallClassifier(radius=2.0, tol=1e-6),
    "multinomial ball": L1BallClassifier(radius=2.0, loss="multinomial", tol=1e-6),
    "trace ball": TraceBallClassifier(radius=2.0, tol=1e-5),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_fit_has_the_local_optimum_and_its_certificate_is_the_local_one(name):
    model = ESTIMATORS[name]
    local = type(model)(**model.get_params()).fit(X, Y, WEIGHTS)
    dX, dy, dw = parts(X, 3), parts(Y, 4), parts(WEIGHTS, 3)
    found = type(model)(**model.get_params()).fit(dX, dy, sample_weight=dw)
    assert found.status_ == "converged"
    assert found.certificate_.primal == pytest.approx(local.certificate_.primal, rel=2 * model.tol)
    assert found.certificate_.bound <= local.certificate_.primal
    assert list(found.classes_) == ["a", "b", "c"]
    assert (np.asarray(found.predict(dX)) == local.predict(X)).mean() > 0.98
    # Recomputed by the local problem, and by the blocks.
    judged = certify(found, X, Y, sample_weight=WEIGHTS)
    assert judged.primal == pytest.approx(found.certificate_.primal, rel=1e-9)
    assert judged.bound <= found.certificate_.primal
    assert certify(found, dX, dy, sample_weight=dw).primal == pytest.approx(judged.primal, rel=1e-9)


@pytest.mark.parametrize("name", ["softmax", "weston_watkins"])
def test_partitions_change_rounding_only(name):
    model = ESTIMATORS[name]
    fits = [type(model)(**model.get_params()).fit(parts(SPARSE, m), parts(Y, m)) for m in (1, 3, 16)]
    for other in fits[1:]:
        np.testing.assert_allclose(other.coef_, fits[0].coef_, rtol=1e-6, atol=1e-9)
        assert other.certificate_.primal == pytest.approx(fits[0].certificate_.primal, rel=1e-10)
        assert other.certificate_.bound == pytest.approx(fits[0].certificate_.bound, rel=1e-8)


def test_two_classes_and_numbers():
    dX, labels = parts(X, 3), (CODES == 1).astype(int)
    for model in (SoftmaxRegression(tol=1e-6), LinearSVC(tol=1e-4), LinearSVC(loss="squared_hinge", tol=1e-6)):
        local = type(model)(**model.get_params()).fit(X, labels)
        found = model.fit(dX, parts(labels, 3))
        assert found.coef_.shape == local.coef_.shape == (1, 5)
        assert found.certificate_.primal == pytest.approx(local.certificate_.primal, rel=2e-4)
    ball, target = L1BallRegressor(radius=0.3, tol=1e-6), CODES.astype(float)
    local = L1BallRegressor(radius=0.3, tol=1e-6).fit(X, target)
    found = ball.fit(dX, parts(target, 3))
    np.testing.assert_allclose(found.coef_, local.coef_, atol=1e-3)
    assert np.asarray(found.predict(dX)).shape == (240,)


def test_landmarks_stand_for_a_kernel():
    model = KernelSVC(approximation="nystroem", n_components=40, tol=1e-3, random_state=0)
    found = model.fit(parts(X, 3), parts(Y, 3), sample_weight=parts(WEIGHTS, 3))
    assert found.status_ == "converged"
    mean = np.average(X, axis=0, weights=WEIGHTS).mean()
    assert 1.0 / (5.0 * found.gamma_) == pytest.approx(np.average((X - mean) ** 2, axis=0, weights=WEIGHTS).mean())
    assert found.support_vectors_.shape == (40, 5)
    assert found.n_support_.sum() == 40
    np.testing.assert_array_equal(found.support_vectors_, X[found.support_])
    assert found.score(X, Y) > 0.8


def test_predictions_are_lazy_and_those_of_the_model():
    model = SoftmaxRegression().fit(parts(X, 3), parts(Y, 3))
    dX = parts(X, 4).rechunk((60, 2))  # columns apart, too
    for name in ("predict", "decision_function", "predict_proba", "predict_log_proba"):
        found = getattr(model, name)(dX)
        assert isinstance(found, da.Array)
        expected = getattr(model, name)(X)
        assert found.shape == expected.shape
        assert found.dtype == expected.dtype
        if name == "predict":
            np.testing.assert_array_equal(found.compute(), expected)
        else:  # products of other shapes may have other last digits
            np.testing.assert_allclose(found.compute(), expected, rtol=1e-12, atol=1e-13)


def test_data_frames_of_unknown_sizes_and_empty_partitions():
    frame = pd.DataFrame(X, columns=list("vwxyz")).assign(label=Y, weight=WEIGHTS)
    ddf = dd.from_pandas(frame, npartitions=4)
    ddf = ddf[ddf.weight > 0.5]
    kept = frame[frame.weight > 0.5]
    ddf = dd.concat([ddf, ddf[ddf.weight > 99.0]])  # no rows
    model = SoftmaxRegression(tol=1e-6).fit(ddf[list("vwxyz")], ddf["label"], sample_weight=ddf["weight"])
    local = SoftmaxRegression(tol=1e-6).fit(kept[list("vwxyz")], kept["label"], kept["weight"])
    np.testing.assert_allclose(model.coef_, local.coef_, atol=1e-3)
    assert list(model.feature_names_in_) == list("vwxyz")
    assert (model.predict(ddf[list("vwxyz")]).compute() == local.predict(kept[list("vwxyz")])).mean() > 0.98
    with pytest.raises(ValueError, match="feature names"):
        model.predict(ddf[list("zvwxy")]).compute()


def test_rows_that_are_lighter_than_the_weights_come_here():
    rng = np.random.default_rng(0)
    names = [f"x{j}" for j in range(80)]
    frame = pd.DataFrame(rng.standard_normal((24, 80)), columns=names).assign(label=Y[:24])
    ddf = dd.from_pandas(frame, npartitions=3)
    dX, dy = ddf[names], ddf["label"]
    svc = LinearSVC(random_state=0)
    model, local = clone(svc).fit(dX, dy), clone(svc).fit(frame[names], frame["label"])
    np.testing.assert_array_equal(model.coef_, local.coef_)
    assert list(model.feature_names_in_) == names
    assert certify(model, dX, dy) == certify(model, frame[names], frame["label"])
    there = LinearSVC(solver=SummedNewton()).fit(dX, dy)
    assert not np.array_equal(there.coef_, local.coef_)
    assert there.certificate_.primal == pytest.approx(local.certificate_.primal, rel=1e-3)
    with pytest.raises(IncompatibleError, match="one_vs_one"):
        LinearSVC(multiclass="one_vs_one").fit(dX, dy)


def test_what_cannot_be_done_says_what_to_do():
    dX, dy = parts(X, 3), parts(Y, 3)
    with pytest.raises(IncompatibleError, match=r"needs all rows in one memory; pass X\.compute\(\)"):
        MatrixSensing((1, X.shape[1])).fit(dX, dy)
    with pytest.raises(IncompatibleError, match=r"needs all rows in one memory"):
        LinearSVC().partial_fit(dX, Y)
    with pytest.raises(IncompatibleError, match="use approximation='nystroem'"):
        KernelSVC(approximation=None).fit(dX, dy)
    with pytest.raises(IncompatibleError, match="probability=None"):
        LinearSVC(probability=True).fit(dX, dy)
    with pytest.raises(IncompatibleError, match="'one_vs_rest' or a joint loss"):
        LinearSVC(multiclass="one_vs_one").fit(dX, dy)
    with pytest.raises(IncompatibleError, match="without one"):
        SoftmaxRegression(penalty=None).fit(dX, dy)
    with pytest.raises(IncompatibleError, match="choose one of auto, newton"):
        SoftmaxRegression(solver="trust_newton").fit(dX, dy)
    with pytest.raises(IncompatibleError, match="pass X as a Dask array"):
        LinearSVC().fit(X, dy)


def test_bad_data_are_refused():
    dX, dy = parts(X, 3), parts(Y, 3)
    with pytest.raises(DataError, match="X has 240 rows, y has 239"):
        LinearSVC().fit(dX, dy[:-1])
    with pytest.raises(DataError, match="X has 240 rows, y has 10"):
        LinearSVC().fit(dX, Y[:10])
    unknown = dX[dX[:, 0] > 0.0]
    with pytest.raises(DataError, match="partition 0 has"):
        LinearSVC().fit(unknown, dy)
    with pytest.raises(IncompatibleError, match="compute_chunk_sizes"):
        LinearSVC().fit(unknown, Y)
    holes = X.copy()
    holes[7, 2] = np.nan
    with pytest.raises(DataError, match="NaN or infinity"):
        LinearSVC().fit(parts(holes, 3), dy)
    with pytest.raises(DataError, match="y of a partition has no label in 40 of 80 samples"):
        LinearSVC().fit(dX, parts(np.array(["a", None] * 120, dtype=object), 3))
    with pytest.raises(DataError, match="1 class"):
        LinearSVC().fit(dX, parts(np.full(240, "a"), 3))
    with pytest.raises(DataError, match="no numbers, as a regressor needs"):
        L1BallRegressor().fit(dX, dy)
    with pytest.raises(DataError, match="negative weight"):
        LinearSVC().fit(dX, dy, sample_weight=parts(-WEIGHTS, 3))
    with pytest.raises(DataError, match="none of the model's classes"):
        certify(SoftmaxRegression().fit(dX, dy), dX, parts(np.where(Y == "a", "d", Y), 3))


def test_a_warm_start_goes_on_and_the_same_fit_has_the_same_bits():
    dX, dy = parts(X, 3), parts(Y, 3)
    model = LinearSVC(tol=1e-4, warm_start=True).fit(dX, dy)
    first, steps = model.coef_.copy(), model.n_iter_
    np.testing.assert_array_equal(LinearSVC(tol=1e-4).fit(dX, dy).coef_, first)
    assert model.fit(dX, dy).n_iter_ < steps
