"""KernelSVC beyond kernel matrices: solvers that look at samples, landmarks, and streams of chunks."""

import pickle
import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from softmargin import KernelSVC, NotCertifiedWarning, certify
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.data import blobs
from softmargin.estimators import _sampled
from softmargin.estimators._stream import Stream
from softmargin.kernels import Points, make_kernel
from softmargin.solvers import ConjugateSubgradient, Wolfe

EXACT = {"approximation": None, "tol": 1e-6, "random_state": 0}
OVR = {"multiclass": "one_vs_rest"}
every_multiclass = pytest.mark.parametrize("multiclass", ["weston_watkins", "crammer_singer", "one_vs_rest"])
every_form = pytest.mark.parametrize("form", [np.asarray, csr_matrix, np.float32], ids=["dense", "csr", "float32"])


@pytest.fixture(scope="module")
def two():
    return blobs(150, 4, 2, seed=1, separation=0.7)


@pytest.fixture(scope="module")
def three():
    return blobs(150, 4, 3, seed=2, separation=1.0)


def rings(n, seed):
    """Return a circle in the middle of others, a tenth of the labels wrong."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    y = (np.hypot(*X.T) % 1.4 > 0.7).astype(int)
    return X, np.where(rng.random(n) < 0.1, 1 - y, y)


# --- solvers that look at samples ----------------------------------------------------------------------------


@every_multiclass
@every_form
@pytest.mark.parametrize("solver", ["scs", "wolfe"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_sampling_solver_finds_the_optimum_in_the_units_of_the_others(two, multiclass, form, solver, fit_intercept):
    X, y = two
    weight = np.where(np.arange(150) % 3 == 0, 2.0, 1.0)
    settings = {"C": 0.1, "multiclass": multiclass, "fit_intercept": fit_intercept, "intercept_scaling": 2.0}
    settings |= {"class_weight": {0: 3.0}, "gamma": 0.2}
    exact = KernelSVC(**settings, **EXACT).fit(form(X), y, sample_weight=weight)
    ours = KernelSVC(solver=solver, tol=3e-3, random_state=0, **settings).fit(form(X), y, sample_weight=weight)
    assert (ours.status_, ours.certificate_.kind) == ("converged", "duality gap")
    assert ours.certificate_.residual <= 3e-3
    optimum = exact.certificate_.primal
    assert ours.certificate_.bound <= optimum * (1 + 1e-6)
    assert optimum * (1 - 1e-6) <= ours.certificate_.primal <= optimum * 1.0035
    assert (ours.predict(X) == exact.predict(X)).mean() > 0.97
    if form is not np.float32:
        assert certify(ours, form(X), y, sample_weight=weight).primal == pytest.approx(ours.certificate_.primal)


@pytest.mark.parametrize("solver", ["scs", "wolfe"])
def test_sampling_solver_finds_the_optimum_of_every_class(three, solver):
    X, y = three
    exact = KernelSVC(multiclass="one_vs_rest", **EXACT).fit(X, y)
    ours = KernelSVC(multiclass="one_vs_rest", solver=solver, random_state=0).fit(X, y)
    assert ours.certificate_.primal == pytest.approx(exact.certificate_.primal, rel=1.5e-3)
    assert ours.dual_coef_.shape == (3, len(ours.support_))
    np.testing.assert_array_equal(ours.support_vectors_, X[ours.support_])
    np.testing.assert_array_equal(ours.n_support_, np.bincount(y[ours.support_], minlength=3))
    assert (ours.predict(X) == exact.predict(X)).mean() > 0.97


def test_pegasos_comes_near_the_optimum(two):
    X, y = two
    exact = KernelSVC(C=0.1, **EXACT).fit(X, y)
    with pytest.warns(NotCertifiedWarning):
        ours = KernelSVC(C=0.1, solver="pegasos", tol=0.0, max_iter=200, random_state=0).fit(X, y)
    optimum = exact.certificate_.primal
    assert optimum <= ours.certificate_.primal * (1 + 1e-6) <= 1.02 * optimum
    assert ours.n_iter_ == 200


@pytest.mark.parametrize("multiclass", ["weston_watkins", "one_vs_rest"])
def test_gap_of_a_sample_is_told_as_one(multiclass):
    X, y = rings(1000, seed=0)
    solver = ConjugateSubgradient(most=300)
    clf = KernelSVC(solver=solver, multiclass=multiclass, gamma=2.0, C=0.1, tol=3e-2, random_state=0).fit(X, y)
    assert clf.certificate_.kind == "sample gap"
    assert clf.status_ == "converged"
    assert len(clf.support_) <= 300
    assert clf.score(*rings(1000, seed=1)) > 0.7


def test_same_seed_gives_the_same_model(two):
    first, second = (KernelSVC(solver="scs", random_state=3).fit(*two) for _ in range(2))
    np.testing.assert_array_equal(first.dual_coef_, second.dual_coef_)


def test_wolfe_starts_where_the_last_fit_ended(two):
    clf = KernelSVC(solver="wolfe", warm_start=True).fit(*two)
    n_first = clf.n_iter_
    assert clf.fit(*two).n_iter_ < n_first
    sampled = KernelSVC(solver="scs", warm_start=True, random_state=0).fit(*two)
    assert sampled.n_iter_ == sampled.fit(*two).n_iter_


def test_memory_mapped_rows_are_read_where_they_lie(tmp_path):
    X, y = rings(60_000, seed=0)
    X = np.hstack([X, np.zeros((60_000, 62))]).astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    settings = {"solver": ConjugateSubgradient(most=128), "gamma": 2.0, "C": 1e-3, "tol": 0.3, "random_state": 0}
    KernelSVC(**settings).fit(X[:500], y[:500])
    tracemalloc.start()
    clf = KernelSVC(**settings).fit(mapped, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.6 * X.nbytes
    np.testing.assert_array_equal(clf.dual_coef_, KernelSVC(**settings).fit(X, y).dual_coef_)


@pytest.mark.parametrize("solver", ["scs", "wolfe", "pegasos", ConjugateSubgradient()])
def test_joint_losses_of_three_classes_are_refused(three, solver):
    with pytest.raises(IncompatibleError, match="use multiclass='one_vs_rest'"):
        KernelSVC(solver=solver).fit(*three)


def test_what_sampling_solvers_cannot_do_is_refused(two):
    X, y = two
    with pytest.raises(IncompatibleError, match=r"cache_size=0.1 MB. Use solver='scs'"):
        KernelSVC(solver="wolfe", cache_size=0.1).fit(X, y)
    with pytest.raises(IncompatibleError, match="cache_size"):
        KernelSVC(solver=Wolfe(), cache_size=0.1).fit(X, y)
    with pytest.raises(IncompatibleError, match="the kernel is precomputed"):
        KernelSVC(solver="scs", kernel="precomputed").fit(X @ X.T, y)
    with pytest.raises(IncompatibleError, match="not kernel squared_hinge ones"):
        KernelSVC(solver="scs", loss="squared_hinge").fit(X, y)
    with pytest.raises(IncompatibleError, match="multiclass='both' is unknown"):
        KernelSVC(solver="scs", multiclass="both").fit(X, y)
    with pytest.raises(IncompatibleError, match=r"choose one of .*block_descent.*scs, wolfe, pegasos"):
        KernelSVC(solver="magic").fit(X, y)


# --- landmarks -----------------------------------------------------------------------------------------------


@every_form
@pytest.mark.parametrize(
    ("multiclass", "loss"),
    [
        ("weston_watkins", "hinge"),
        ("crammer_singer", "hinge"),
        ("one_vs_rest", "hinge"),
        ("one_vs_rest", "squared_hinge"),
    ],
)
def test_with_all_rows_as_landmarks_the_optimum_is_the_exact_one(three, form, multiclass, loss):
    X, y = three
    settings = {"multiclass": multiclass, "loss": loss, "gamma": 0.3, "intercept_scaling": 2.0}
    exact = KernelSVC(**settings, **EXACT).fit(form(X), y)
    ours = KernelSVC(**settings, approximation="nystroem", tol=1e-5, random_state=0).fit(form(X), y)
    assert ours.certificate_.kind == "duality gap"
    assert ours.certificate_.primal == pytest.approx(exact.certificate_.primal, rel=1e-3)
    np.testing.assert_allclose(ours.decision_function(X), exact.decision_function(X), atol=0.1)
    assert ours.gamma_ == 0.3


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_objective_of_the_approximate_problem_is_that_of_the_model_in_the_exact_one(three, loss):
    X, y = three
    clf = KernelSVC(
        multiclass="one_vs_rest", loss=loss, approximation="nystroem", n_components=30, tol=1e-4, random_state=0
    ).fit(X, y)
    assert len(clf.support_) == 30
    np.testing.assert_array_equal(clf.support_vectors_, X[clf.support_])
    certificate = certify(clf, X, y)
    assert certificate.primal == pytest.approx(clf.certificate_.primal, rel=1e-4)
    assert certificate.bound < clf.certificate_.primal
    exact = KernelSVC(multiclass="one_vs_rest", loss=loss, **EXACT).fit(X, y)
    assert exact.certificate_.primal <= clf.certificate_.primal * (1 + 1e-6)


def test_more_landmarks_come_nearer_to_the_exact_optimum(two):
    values = [
        KernelSVC(approximation="nystroem", n_components=m, gamma=1.0, tol=1e-5, random_state=0)
        .fit(*two)
        .certificate_.primal
        for m in (5, 50, 150)
    ]
    assert values[0] > values[1] > values[2]


def test_rows_are_drawn_where_features_do_not_fit():
    X, y = rings(2000, seed=0)
    settings = {"approximation": "nystroem", "n_components": 40, "gamma": 2.0, "tol": 1e-3, "random_state": 0}
    whole, drawn = (KernelSVC(cache_size=size, **settings).fit(X, y) for size in (1000.0, 0.1))
    assert (whole.certificate_.kind, drawn.certificate_.kind) == ("duality gap", "sample gap")
    assert drawn.certificate_.primal == pytest.approx(whole.certificate_.primal, rel=0.15)
    assert drawn.score(*rings(1000, seed=1)) > 0.75
    weight = np.where(np.arange(2000) < 1000, 1.0, 0.0)
    weighted = KernelSVC(cache_size=0.1, **settings).fit(X, y, sample_weight=weight)
    assert (weighted.support_ < 1000).all()


def test_landmarks_come_by_themselves_beyond_the_limit_only(two, monkeypatch):
    X, y = two
    small = {"n_components": 20, "random_state": 0}
    assert len(KernelSVC(**small).fit(X, y).support_) > 20
    monkeypatch.setattr(_sampled, "EXACT_ROWS", 100)
    assert len(KernelSVC(**small).fit(X, y).support_) == 20
    for others in ({"approximation": None}, {"solver": "block_descent"}, {"kernel": "linear"}):
        assert len(KernelSVC(**small, **others).fit(X, y).support_) != 20


def test_what_landmarks_cannot_do_is_refused(two):
    X, y = two
    with pytest.raises(IncompatibleError, match="the kernel is precomputed"):
        KernelSVC(approximation="nystroem", kernel="precomputed").fit(X @ X.T, y)
    with pytest.raises(IncompatibleError, match="choose None, 'auto' or 'nystroem'"):
        KernelSVC(approximation="fourier").fit(X, y)
    with pytest.raises(DataError, match="n_components must be at least 1"):
        KernelSVC(approximation="nystroem", n_components=0).fit(X, y)
    with pytest.raises(IncompatibleError, match="'scs' solves sampled kernel problems, not linear hinge ones"):
        KernelSVC(approximation="nystroem", solver="scs").fit(X, y)


def test_approximate_model_survives_pickle_and_file(two, tmp_path):
    clf = KernelSVC(approximation="nystroem", n_components=20, random_state=0).fit(*two)
    scores = clf.decision_function(two[0])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(clf)).decision_function(two[0]), scores)
    clf.model().save(tmp_path / "m")
    np.testing.assert_array_equal(type(clf.model()).load(tmp_path / "m").decision_function(two[0]), scores)


# --- streams -------------------------------------------------------------------------------------------------


def stream_of(n_chunks, size, **settings):
    clf = KernelSVC(**{"gamma": 2.0, "n_components": 100, "random_state": 0, **OVR, **settings})
    for chunk in range(n_chunks):
        clf.partial_fit(*rings(size, seed=chunk), classes=[0, 1])
    return clf


def test_stream_learns_and_keeps_its_budget():
    X, y = rings(2000, seed=99)
    clf = stream_of(8, 500)
    assert clf.support_vectors_.shape == (100, 2)
    assert clf.score(X, y) > 0.78
    assert clf.certificate_.kind == "sample gap"
    assert clf._n_samples == 4000
    assert clf.support_.max() < 4000
    for position, vector in zip(clf.support_, clf.support_vectors_, strict=True):
        np.testing.assert_array_equal(rings(500, seed=position // 500)[0][position % 500], vector)


def test_stream_of_every_class(three):
    X, y = three
    clf = KernelSVC(multiclass="one_vs_rest", n_components=40, random_state=0)
    for some in np.array_split(np.arange(150), 3):
        clf.partial_fit(X[some], y[some], classes=[0, 1, 2])
    assert clf.dual_coef_.shape == (3, 40)
    exact = KernelSVC(multiclass="one_vs_rest", **EXACT).fit(X, y)
    assert clf.score(X, y) > exact.score(X, y) - 0.05


def test_memory_of_a_stream_does_not_grow():
    peaks = []
    for n_chunks in (2, 8):
        tracemalloc.start()
        stream_of(n_chunks, 1000)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


@pytest.mark.slow
def test_five_million_rows_are_a_stream_of_constant_memory():
    clf = KernelSVC(gamma=2.0, n_components=200, random_state=0, **OVR)
    sizes = []
    tracemalloc.start()
    for chunk in range(100):
        clf.partial_fit(*rings(50_000, seed=chunk), classes=[0, 1])
        sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert clf._n_samples == 5_000_000
    assert sizes[-1] < sizes[2] + 1e6
    assert clf.score(*rings(5000, seed=10_000)) > 0.8


def test_vectors_that_go_are_made_up_for_by_those_that_stay():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    problem = _sampled.binary_problem(make_kernel("rbf", gamma=0.5), X, np.ones(60), np.ones(60), 60.0, 1.0, False)
    stream = Stream(problem.kernel, 2, 1.0)
    before = rng.standard_normal((60, 2))
    after = before.copy()
    kept = stream._drop(problem, np.arange(60), after, 40)
    assert len(kept) == 40
    assert set(np.flatnonzero(after.any(axis=1))) == set(kept)
    assert np.abs(before).max(axis=1)[kept].min() >= np.abs(np.delete(before, kept, axis=0)).max()
    K = problem.block(Points(X), Points(X))
    dropped = before.copy()
    dropped[np.setdiff1d(np.arange(60), kept)] = 0.0
    assert np.abs(K @ (after - before)).max() < 0.05 * np.abs(K @ (dropped - before)).max()


def test_stream_goes_on_from_a_fit():
    X, y = rings(600, seed=5)
    clf = KernelSVC(gamma=2.0, n_components=100, random_state=0, **OVR).fit(X, y)
    clf.partial_fit(*rings(500, seed=6))
    assert clf._n_samples == 1100
    assert len(clf.support_) == 100
    assert clf.score(*rings(2000, seed=99)) > 0.78
    again = clf.fit(X, y)
    assert again._stream is None
    assert again._n_samples == 600


def test_sparse_chunks_and_weights_of_a_stream():
    dense, sparse, weighted = (KernelSVC(gamma=2.0, n_components=50, random_state=0, **OVR) for _ in range(3))
    for chunk in range(3):
        X, y = rings(200, seed=chunk)
        dense.partial_fit(X, y, classes=[0, 1])
        sparse.partial_fit(csr_matrix(X), y, classes=[0, 1])
        weighted.partial_fit(X, y, classes=[0, 1], sample_weight=np.ones(200))
    X, _ = rings(200, seed=9)
    np.testing.assert_allclose(sparse.decision_function(X), dense.decision_function(X), atol=1e-6)
    np.testing.assert_array_equal(weighted.decision_function(X), dense.decision_function(X))


def test_chunk_of_one_class_is_welcome():
    clf = stream_of(2, 200)
    X, y = rings(200, seed=7)
    clf.partial_fit(X[y == 1], y[y == 1])
    assert np.isfinite(clf.decision_function(X)).all()


def test_what_a_stream_cannot_do_is_refused():
    X, y = rings(100, seed=0)
    with pytest.raises(DataError, match="classes must be passed in the first call"):
        KernelSVC(**OVR).partial_fit(X, y)
    with pytest.raises(DataError, match="at least 2 classes"):
        KernelSVC(**OVR).partial_fit(X, y, classes=[1])
    with pytest.raises(DataError, match="which the model does not know"):
        KernelSVC(**OVR).partial_fit(X, y + 5, classes=[0, 1])
    clf = KernelSVC(n_components=10, random_state=0, **OVR).partial_fit(X, y, classes=[0, 1])
    with pytest.raises(DataError, match="since the first call"):
        clf.partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="features"):
        clf.partial_fit(X[:, :1], y)
    with pytest.raises(ValueError, match="NaN"):
        clf.partial_fit(np.full_like(X, np.nan), y)
    with pytest.raises(AttributeError, match="no attribute 'partial_fit'") as found:
        KernelSVC().partial_fit(X, y, classes=[0, 1])
    assert "use multiclass='one_vs_rest'" in str(found.value.__cause__)
    with pytest.raises(DataError, match="needs all rows at once"):
        KernelSVC(class_weight="balanced", **OVR).partial_fit(X, y, classes=[0, 1])
    with pytest.raises(DataError, match="n_components must be at least 1"):
        KernelSVC(n_components=0, **OVR).partial_fit(X, y, classes=[0, 1])
    assert not hasattr(KernelSVC(loss="squared_hinge", **OVR), "partial_fit")
    assert not hasattr(KernelSVC(kernel="precomputed", **OVR), "partial_fit")
