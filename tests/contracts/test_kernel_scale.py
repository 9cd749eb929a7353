"""KernelSVC beyond kernel matrices: solvers that look at samples, landmarks, and streams of chunks."""

import pickle
import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone

from softmargin import KernelSVC, NotCertifiedWarning, certify
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.data import blobs
from softmargin.estimators.posing import kernels
from softmargin.estimators.posing import stream as streaming
from softmargin.kernels import Points
from softmargin.solvers import ConjugateSubgradient, Wolfe
from softmargin.solvers.sampled_kernel._stream_loop import pass_over_features

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
    exact = KernelSVC(**settings, **EXACT).fit(X, y)
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
    monkeypatch.setattr(kernels, "EXACT_ROWS", 100)
    assert len(KernelSVC(**small).fit(X, y).support_) == 20
    for others in ({"approximation": None}, {"solver": "block_descent"}, {"kernel": "linear"}):
        assert len(KernelSVC(**small, **others).fit(X, y).support_) != 20


def test_what_landmarks_cannot_do_is_refused(two):
    X, y = two
    with pytest.raises(IncompatibleError, match="the kernel is precomputed"):
        KernelSVC(approximation="nystroem", kernel="precomputed").fit(X @ X.T, y)
    with pytest.raises(IncompatibleError, match="choose one of auto, nystroem, or None"):
        KernelSVC(approximation="fourier").fit(X, y)
    with pytest.raises(IncompatibleError, match="n_components must be an integer >= 1"):
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
    assert clf.score(X, y) > 0.84
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
    assert clf.score(X, y) > exact.score(X, y) - 0.03


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
    assert clf.score(*rings(5000, seed=10_000)) > 0.88


def test_steps_are_those_of_pegasos():
    rng = np.random.default_rng(0)
    Z, weights = rng.standard_normal((40, 3)).astype(np.float32), rng.uniform(0.5, 2.0, 40)
    signs = rng.choice((-1.0, 1.0), (40, 2))
    W, average = rng.standard_normal((2, 2, 3))
    w, mean, lam, reach = W.T.copy(), average.T.copy(), 0.05, 2.5
    iterates = []
    for i in range(40):
        step = 1.0 / (reach + lam * (i + 11) / 4)
        is_active = signs[i] * (Z[i] @ w) < 1.0
        w = (w + step * weights[i] * np.outer(Z[i], signs[i] * is_active)) / (1.0 + step * lam)
        mean = mean + 4.0 / (i + 14) * (w - mean)
        iterates.append(w)
    pass_over_features(Z, signs, weights, W, average, lam, reach, 10)
    np.testing.assert_allclose(W.T, w, rtol=1e-10)
    np.testing.assert_allclose(average.T, mean, rtol=1e-10)
    W[:], average[:] = 0.0, 9.0
    pass_over_features(Z, signs, weights, W, average, lam, reach, 0)
    assert (np.abs(average) < np.abs(np.array(iterates)).max() + 1.0).all()


def test_more_landmarks_leave_the_model_as_it_is_and_fewer_change_it_least():
    clf = stream_of(3, 300, n_components=40)
    stream, (X, y) = clf._stream, rings(300, seed=7)
    before = clf.decision_function(X)
    prices, rng = np.ones(300), np.random.default_rng(0)

    def settled(budget):
        stream._choose_landmarks(X, y, prices, budget, rng)
        stream.n_seen = 1200
        stream.coef = stream.landmarks.expanded(stream.average.T)
        return stream.model(clf.classes_, {}).decision_function(X)

    np.testing.assert_allclose(settled(60), before, atol=1e-3 * np.abs(before).max())
    whole, vectors, kernel = stream.coef, stream.vectors, clf._kernel
    fewer = settled(30)
    kept = np.isin(vectors, stream.vectors).all(axis=1)
    assert kept.sum() == len(stream.labels) == 30
    K = kernel.block(Points(vectors), Points(vectors)).astype(float) + 1.0
    change, dropped = -whole, np.where(kept[:, None], 0.0, -whole)
    change[kept] += stream.coef
    assert float((change.T @ K @ change).item()) < 0.5 * float((dropped.T @ K @ dropped).item())
    assert np.isfinite(fewer).all()


def test_small_chunks_give_landmarks_until_the_budget_is_met():
    clf = KernelSVC(gamma=2.0, n_components=100, random_state=0, **OVR)
    sizes = []
    for chunk in range(60):
        clf.partial_fit(*rings(30, seed=chunk), classes=[0, 1])
        sizes.append(len(clf.support_))
    assert sizes[:5] == [30, 60, 90, 100, 100]
    assert (clf.support_ < 120).all()
    assert clf.score(*rings(2000, seed=99)) > 0.8


@pytest.mark.parametrize("C", [0.01, 1.0])
def test_gap_of_a_stream_is_honest(three, C):
    X, y = three
    settings = {"C": C, "multiclass": "one_vs_rest", "gamma": 0.3, "class_weight": {1: 3.0}}
    optimum = KernelSVC(**settings, **EXACT).fit(X, y).certificate_
    clf = KernelSVC(**settings, n_components=150, random_state=0).partial_fit(X, y, classes=[0, 1, 2])
    found = clf.certificate_
    assert 0.0 < found.bound <= optimum.primal * (1 + 1e-4)
    assert found.primal >= optimum.bound * (1 - 1e-4)
    assert found.primal == pytest.approx(certify(clf, X, y).primal, rel=1e-3)


def test_stream_is_as_before_where_a_chunk_fails(monkeypatch):
    clf = stream_of(1, 50)
    before = clf._stream.model(clf.classes_, {}).decision_function(rings(50, seed=3)[0])

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(streaming, "pass_over_features", interrupted)
        with pytest.raises(KeyboardInterrupt):
            clf.partial_fit(*rings(200, seed=1))
    after = clf._stream.model(clf.classes_, {}).decision_function(rings(50, seed=3)[0])
    np.testing.assert_array_equal(after, before)
    np.testing.assert_array_equal(clf.partial_fit(*rings(50, seed=1)).dual_coef_, stream_of(2, 50).dual_coef_)


def test_same_chunks_and_seed_are_the_same_model_also_through_pickle():
    whole, other = stream_of(6, 200), stream_of(3, 200)
    other = pickle.loads(pickle.dumps(other))
    for chunk in range(3, 6):
        other.partial_fit(*rings(200, seed=chunk))
    np.testing.assert_array_equal(whole.dual_coef_, other.dual_coef_)
    assert not hasattr(clone(whole), "_stream")


def test_weights_of_a_stream_multiply_C():
    plain, twice, later = (KernelSVC(C, gamma=2.0, n_components=50, random_state=0, **OVR) for C in (2.0, 1.0, 2.0))
    for chunk in range(3):
        X, y = rings(300, seed=chunk)
        plain.partial_fit(X, y, classes=[0, 1])
        twice.partial_fit(X, y, classes=[0, 1], sample_weight=np.full(300, 2.0))
        later.partial_fit(X, y, classes=[0, 1], sample_weight=np.full(300, 1.0 + 20.0 * (chunk == 2)))
    np.testing.assert_array_equal(plain.dual_coef_, twice.dual_coef_)
    assert not np.allclose(plain.dual_coef_, later.dual_coef_)


def test_heavy_class_wins_where_labels_are_random():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((2000, 2)), rng.integers(0, 2, 2000)
    for heavy in (0, 1):
        clf = KernelSVC(gamma=0.1, n_components=30, random_state=0, class_weight={heavy: 20.0}, **OVR)
        clf.partial_fit(X, y, classes=[0, 1])
        assert (clf.predict(X) == heavy).mean() > 0.95


def test_stream_goes_on_from_a_fit():
    X, y = rings(600, seed=5)
    clf = KernelSVC(gamma=2.0, n_components=100, random_state=0, **OVR).fit(X, y)
    clf.partial_fit(*rings(500, seed=6))
    assert clf._n_samples == 1100
    assert len(clf.support_) == 100
    assert clf.score(*rings(2000, seed=99)) > 0.82
    again = clf.fit(X, y)
    assert again._stream is None
    assert again._n_samples == 600


@pytest.mark.parametrize("k", [2, 3])
def test_conjugate_subgradients_on_a_stream(k):
    X, y = blobs(1500, 4, k, seed=0, separation=1.5)
    clf = KernelSVC(**OVR, solver=ConjugateSubgradient(first_size=16, test_size=50), n_components=40, random_state=0)
    other, held = clone(clf), []
    for first in range(0, 1500, 300):
        part = slice(first, first + 300)
        held.append(clf.score(X[part], y[part]) if first else 0.0)
        clf.partial_fit(X[part], y[part], classes=np.arange(k))
        other.partial_fit(csr_matrix(X[part]), y[part], classes=np.arange(k))
    best = KernelSVC(**OVR, gamma=clf.gamma_).fit(X, y)
    assert held[-1] > best.score(X, y) - 0.06
    assert len(clf.support_) <= 40 * (1 if k == 2 else k)
    assert np.all(clf.support_ < 1500)
    np.testing.assert_array_equal(clf.support_vectors_, X[clf.support_])  # also rows of the last chunk
    assert clf.support_.max() >= 1200
    assert clf.certificate_.kind == "sample gap"
    assert abs(other.score(X, y) - clf.score(X, y)) < 0.05  # a step is accepted or not by the last digits
    again = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(again.partial_fit(X, y).dual_coef_, clf.partial_fit(X, y).dual_coef_)


def test_a_stream_of_conjugate_subgradients_goes_on_from_a_fit():
    X, y = blobs(700, 4, 2, seed=1, separation=1.5)
    clf = KernelSVC(**OVR, solver="scs", n_components=60, random_state=0).fit(X[:500], y[:500])
    before = clf.score(X, y)
    clf.partial_fit(X[500:], y[500:])
    assert clf.n_iter_ == 700
    assert len(clf.support_) <= 60
    assert clf.score(X, y) > before - 0.05
    with pytest.raises(ValueError, match="does not know"):
        clf.partial_fit(X, y + 9)


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
    with pytest.raises(AttributeError, match=r"no partial_fit .* use multiclass='one_vs_rest'"):
        KernelSVC().partial_fit(X, y, classes=[0, 1])
    with pytest.raises(AttributeError, match="needs all rows at once"):
        KernelSVC(class_weight="balanced", **OVR).partial_fit(X, y, classes=[0, 1])
    with pytest.raises(IncompatibleError, match="n_components must be an integer >= 1"):
        KernelSVC(n_components=0, **OVR).partial_fit(X, y, classes=[0, 1])
    assert not hasattr(KernelSVC(loss="squared_hinge", **OVR), "partial_fit")
    assert not hasattr(KernelSVC(kernel="precomputed", **OVR), "partial_fit")
