"""Streams of linear models: the bound is one for all rows seen, and chunks, weights and settings mean what they say."""

import math
import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone

import softmargin as sm
from softmargin.data import blobs
from softmargin.estimators.posing.linear_stream import LinearStream
from softmargin.estimators.posing.svm import SvmData, SvmSettings, linear_problem, streamed_problem
from softmargin.penalties import L1, L2
from softmargin.problems import MulticlassSVM, RestHinges, softmax_problem
from softmargin.problems.seen import SeenHinge, SeenSoftmax, losses_of_pairs
from softmargin.run import Status, Stop, solve
from softmargin.solvers import DualBlockDescent, EachClass, dual_stream
from softmargin.solvers._pair_ascent import approach

MODELS = {
    "weston_watkins": sm.LinearSVC(C=0.1),
    "crammer_singer": sm.LinearSVC(C=0.1, multiclass="crammer_singer", fit_intercept=False),
    "one_vs_rest": sm.LinearSVC(C=0.1, multiclass="one_vs_rest", intercept_scaling=2.0),
    "softmax": sm.SoftmaxRegression(C=0.1),
    "softmax, no intercept": sm.SoftmaxRegression(C=0.1, fit_intercept=False, penalty=L2(0.5)),
}


def chunks_of(X, y, size, **more):
    for first in range(0, len(y), size):
        part = slice(first, first + size)
        yield X[part], y[part], {name: values[part] for name, values in more.items()}


def streamed(model, X, y, size=50, **more):
    model = clone(model).set_params(random_state=0)
    for X_part, y_part, own in chunks_of(X, y, size, **more):
        model.partial_fit(X_part, y_part, classes=np.unique(y), **own)
    return model


# --- how rows are visited --------------------------------------------------------------------------------------


def test_logistic_rows_that_hardly_moved_are_not_visited_again(monkeypatch):
    X, y = blobs(3000, 5, 2, seed=3, separation=3.0)
    visits, bounds = [], []
    for again in (-1.0, dual_stream.TUNING.again):
        monkeypatch.setattr(dual_stream, "TUNING", dual_stream.TUNING._replace(again=again))
        model = streamed(MODELS["softmax"], X, y, 500)
        visits.append(model._stream.stream.n_visits)
        bounds.append(model.certificate_.bound)
    assert visits[0] == 2 * 3000 > 1.3 * visits[1]
    assert bounds[1] == pytest.approx(bounds[0], rel=0.03)


def test_a_long_mean_is_moved_after_more_visits(monkeypatch):
    """Features that few rows have: the mean is as long as W, and moving it would take longer than the visits."""
    calls = []
    rng = np.random.default_rng(0)
    X, y = csr_matrix((rng.random((1500, 400)) < 0.01).astype(float)), rng.integers(0, 3, 1500)
    monkeypatch.setattr(dual_stream, "approach", lambda *args: calls.append(args) or approach(*args))
    for worth in (0.0, 8.0):
        monkeypatch.setattr(dual_stream, "TUNING", dual_stream.TUNING._replace(every=100, worth=worth))
        calls.clear()
        streamed(MODELS["softmax"], X, y, 1500)
        every = max(100, int(worth * 400 * 1500 / X.nnz))
        assert len(calls) == -(-2 * 1500 // every)


# --- what is proven ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_bound_holds_for_all_rows_seen(name, k):
    X, y = blobs(300, 4, k, seed=k, separation=1.0)
    weights = np.random.default_rng(0).random(300) * (np.arange(300) % 7 > 0)
    for size in (300, 40):
        model = streamed(MODELS[name], X, y, size, sample_weight=weights)
        best = clone(MODELS[name]).set_params(tol=1e-9, solver="auto").fit(X, y, sample_weight=weights)
        own = sm.certify(model, X, y, sample_weight=weights)
        assert 0.3 * best.certificate_.bound < model.certificate_.bound <= best.certificate_.primal
        assert best.certificate_.bound <= own.primal
        assert model.certificate_.kind == ("duality gap" if size == 300 else "regret")
        if size == 300:  # the gap of the model on the only chunk
            assert model.certificate_.primal == pytest.approx(own.primal, rel=1e-12)


@pytest.mark.parametrize("X_type", [np.asarray, csr_matrix])
def test_sums_of_two_classes_are_those_of_both_columns(X_type):
    """The compiled sums over pairs against NumPy's over the two columns, at any model and dual point."""
    rng = np.random.default_rng(0)
    X, y = blobs(5000, 6, 2, seed=5, separation=1.0)
    C, share = rng.random(5000) * (np.arange(5000) % 5 > 0), rng.random(5000) * 1.5 - 0.25
    w, inside = rng.standard_normal(7), np.clip(share, 0.0, 1.0)
    hinge = MulticlassSVM(X_type(X), y, C=C, bias=0.5)
    signed = inside * C * (2.0 * y - 1.0)
    logistic = softmax_problem(X_type(X), y, C=C, penalty=L2(0.5), n_classes=2)
    other = np.column_stack([inside, inside])
    other[np.arange(5000), y] = 1.0 - inside
    for problem, seen, columns, point, factor in (
        (hinge, SeenHinge, np.column_stack([-signed, signed]), np.column_stack([-w, w]), 2.0),
        (logistic, SeenSoftmax, other, logistic.model_point(w[None, :-1], w[-1:]), 1.0),
    ):
        one, both = seen(problem), seen(problem)
        one.add(problem, share)
        both.add(problem, columns)
        assert one.bound().value == pytest.approx(both.bound().value, rel=1e-11)
        assert 0.0 < one.bound().error < 1e-8 * one.bound().value
        own = losses_of_pairs(problem, problem.bias, w, factor=factor, is_logistic=problem is logistic)
        known = problem.losses(point)
        assert abs(own.value - known.value) <= own.error + known.error < 1e-9 * known.value


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("name", ["one_vs_rest", "softmax"])
def test_sums_are_within_their_reach(name, k):
    """Norms of what was added bound that of the sum, and its error, without a pass over it."""
    X, y = blobs(200, 5, k, seed=3)
    seen = streamed(MODELS[name], X, y)._stream.stream.seen
    for kept in (seen.V, seen.classes) if name == "softmax" else (seen.V,):
        lengths = np.linalg.norm(kept.value, axis=0)
        assert (lengths <= kept.reach).all()
        assert (kept.reach <= 100.0 * lengths).all()
        assert (kept.error > 0.0).all()
        assert (kept.error <= 1e-12 * kept.reach).all()


@pytest.mark.parametrize("X_type", [np.asarray, csr_matrix])
@pytest.mark.parametrize("name", ["hinge", "softmax"])
def test_sums_allow_for_what_they_lose(name, X_type):
    """Rows of small price after one of large price: each is below the last digit of the sum, and all are lost."""
    X, y = X_type(np.ones((3000, 1))), np.zeros(3000, dtype=int)
    P = np.tile([0.25, 0.5, 0.25], (3000, 1))
    sums = None
    for price, n in ((1.0, 1), (1e-16, 3000)):
        if name == "hinge":
            problem, rows = MulticlassSVM(X[:n], y[:n], C=price, n_classes=3, bias=1.0), price * (np.eye(3)[0] - P[:n])
        else:
            problem = softmax_problem(X[:n], y[:n], C=price, penalty=L2(1.0), n_classes=3)
            rows = P[:n]
        sums = sums or (SeenHinge if name == "hinge" else SeenSoftmax)(problem)
        sums.add(problem, rows)
    sign = 1 if name == "hinge" else -1
    exact = [sign * (Fraction(int(c == 0)) - Fraction(P[0, c])) * (1 + 3000 * Fraction(1e-16)) for c in range(3)]
    for c in range(3):
        off = max(abs(Fraction(value) - exact[c]) for value in sums.V.value[:, c].tolist())
        assert (5e-14 if X_type is csr_matrix else 0.0) <= off <= sums.V.error[c] < 1e-10


@pytest.mark.parametrize("screening", [False, True])
def test_hinges_of_all_classes_are_those_of_every_class(screening):
    """One problem with a block for all classes against a problem for each: same optimum, same losses anywhere."""
    X, y = blobs(150, 4, 5, seed=6, separation=1.5)
    X[7] = 0.0
    C = np.random.default_rng(0).random(150) * (np.arange(150) % 9 > 0)
    settings = SvmSettings("one_vs_rest", fit_intercept=False)
    whole, parts = RestHinges(X, y, C=C, n_classes=5), linear_problem(SvmData(X, y, 5, C, settings))
    result = solve(whole, DualBlockDescent(screening=screening), stop=Stop(1e-9, 5000), rng=np.random.default_rng(0))
    best = solve(parts, EachClass(DualBlockDescent()), stop=Stop(1e-9, 5000), rng=np.random.default_rng(0))
    assert result.status is best.status is Status.CONVERGED
    assert result.certificate.primal == pytest.approx(best.certificate.primal, rel=1e-8)
    assert best.certificate.bound <= result.certificate.primal
    assert result.certificate.bound <= best.certificate.primal
    weights = np.random.default_rng(1).standard_normal((5, 5))
    own = whole.losses(weights)
    margins = (2.0 * np.eye(5)[y] - 1.0) * (X @ weights[:-1])
    assert abs(own.value - float(C @ np.maximum(1.0 - margins, 0.0).sum(axis=1))) <= own.error < 1e-11 * own.value


def test_hinge_bound_is_the_dual_value_of_all_rows(monkeypatch):
    kept, add = [], SeenHinge.add
    monkeypatch.setattr(
        SeenHinge, "add", lambda self, problem, alpha: (kept.append((problem, alpha)), add(self, problem, alpha))
    )
    X, y = blobs(200, 5, 3, seed=1, separation=2.0)
    model = streamed(sm.LinearSVC(C=0.01), X, y, 70)
    alpha = np.vstack([rows for _, rows in kept])
    assert all(
        problem.loss.project(rows, problem.y, problem.C) == pytest.approx(rows, abs=1e-15) for problem, rows in kept
    )
    W = np.hstack([X, np.ones((200, 1))]).T @ alpha
    linear, square = math.fsum(alpha[np.arange(200), y]), math.fsum(W.ravel() ** 2)
    s = min(1.0, linear / square)
    value = s * linear - 0.5 * s**2 * square
    assert value * (1.0 - 1e-10) <= model.certificate_.bound <= value


@pytest.mark.parametrize("k", [2, 4])
def test_softmax_bound_is_that_of_a_balanced_point(monkeypatch, k):
    kept, add = [], SeenSoftmax.add
    monkeypatch.setattr(
        SeenSoftmax, "add", lambda self, problem, P: (kept.append((problem.y, P)), add(self, problem, P))
    )
    X, y = blobs(240, 3, k, seed=2, separation=1.5)
    model = streamed(sm.SoftmaxRegression(C=0.5), X, y, 60)
    if k == 2:  # what is kept is the probability of the other class
        kept = [(labels, np.abs(np.eye(2)[labels] - q[:, None])) for labels, q in kept]
    C, Y, P = 0.5, np.eye(k)[y], np.vstack([rows for _, rows in kept])
    assert P.sum(axis=1) == pytest.approx(1.0, abs=1e-12)
    off, mass = C * (P - Y).sum(axis=0), C * Y.sum(axis=0)
    share = np.max(np.maximum(off, 0.0) / (mass + np.maximum(off, 0.0)))
    rho = (share * mass - (1.0 - share) * off) / (share * mass.sum())
    q = (1.0 - share) * P + share * rho
    assert rho.min() >= -1e-12
    assert (q - Y).sum(axis=0) == pytest.approx(0.0, abs=1e-10)  # so that the intercept drops out of the dual
    V = C * X.T @ (q - Y)[:, (1 if k == 2 else 0) :]
    best = max(
        C
        * -np.sum(
            np.where(
                s * q + (1 - s) * Y > 0, (s * q + (1 - s) * Y) * np.log(np.maximum(s * q + (1 - s) * Y, 1e-300)), 0.0
            )
        )
        - 0.5 * s**2 * np.vdot(V, V)
        for s in np.linspace(0.0, 1.0, 101)
    )
    assert 0.5 * best < model.certificate_.bound <= best * (1.0 + 1e-9)


@pytest.mark.parametrize(
    ("name", "C", "most"), [("weston_watkins", 0.01, 0.06), ("one_vs_rest", 0.01, 0.06), ("softmax", 0.1, 0.06)]
)
def test_one_pass_over_many_rows_is_near_the_optimum(name, C, most):
    X, y = blobs(6000, 8, 3, seed=0, separation=1.0)
    model = streamed(clone(MODELS[name]).set_params(C=C), X, y, 1000)
    gap = sm.certify(model, X, y)
    assert gap.residual < most
    assert (gap.primal - model.certificate_.bound) / gap.primal < 2.0 * most
    best = clone(MODELS[name]).set_params(C=C).fit(X, y)
    assert abs(model.score(X, y) - best.score(X, y)) < 0.01


@pytest.mark.parametrize("k", [2, 6])
def test_rows_that_come_class_by_class_teach_the_features(k):
    """Intercepts do not follow the last chunk: texts in the order of their classes are learnt, too."""
    rng, n, d = np.random.default_rng(0), 3000, 600
    y = np.sort(rng.integers(0, k, size=n))
    words = np.where(
        rng.random((n, 30)) < 0.4, rng.integers(0, d // k, (n, 30)) * k + y[:, None], rng.integers(0, d, (n, 30))
    )
    X = csr_matrix((np.full(30 * n, 30**-0.5), words.ravel(), np.arange(0, 30 * n + 1, 30)), shape=(n, d))
    X.sum_duplicates()
    clf = sm.SoftmaxRegression(0.1, random_state=0)
    for _ in range(3):
        for first in range(0, n, 500):
            clf.partial_fit(X[first : first + 500], y[first : first + 500], classes=np.arange(k))
    assert clf.score(X, y) > 0.9


def test_losses_of_all_rows_make_a_duality_gap():
    X, y = blobs(400, 5, 3, seed=3, separation=1.0)
    for pose in (
        lambda X, y: streamed_problem(SvmData(X, y, 3, np.full(len(y), 0.1), SvmSettings("one_vs_rest"))),
        lambda X, y: softmax_problem(X, y, C=0.1, penalty=L2(1.0), n_classes=3),
    ):
        stream, losses = LinearStream(), None
        for X_part, y_part, _ in chunks_of(X, y, 90):
            regret, _ = stream.take(pose(X_part, y_part), tol=0.0, seed=0)
        for X_part, y_part, _ in chunks_of(X, y, 130):
            own = stream.losses_of(pose(X_part, y_part))
            losses = own if losses is None else losses + own
        whole, certificate = pose(X, y), stream.certificate_of(losses)
        point = whole.model_point(stream.coef, stream.intercept)
        primal = whole.primal(point) if hasattr(whole, "penalty") else whole.primal_at(stream.coef, stream.intercept)
        assert certificate.kind == "duality gap"
        assert certificate.primal == pytest.approx(primal.value, rel=1e-12)
        assert certificate.bound == regret.bound < certificate.primal


# --- what a stream does --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["one_vs_rest", "softmax"])
def test_a_stream_is_the_same_again_and_in_every_form(name):
    X, y = blobs(300, 5, 3, seed=4)
    model, text = streamed(MODELS[name], X, y), np.array(["a", "b", "c"])
    np.testing.assert_array_equal(model.coef_, streamed(MODELS[name], X, y).coef_)
    np.testing.assert_allclose(streamed(MODELS[name], csr_matrix(X), y).coef_, model.coef_, atol=1e-10)
    np.testing.assert_array_equal(streamed(MODELS[name], X, text[y]).coef_, model.coef_)
    narrow = streamed(MODELS[name], X.astype(np.float32), y)
    np.testing.assert_allclose(narrow.coef_, model.coef_, atol=0.05 * np.abs(model.coef_).max())
    again = pickle.loads(pickle.dumps(model))
    more = blobs(50, 5, 3, seed=5)
    np.testing.assert_array_equal(again.partial_fit(*more).coef_, model.partial_fit(*more).coef_)
    assert model.n_iter_ == 350


def test_memory_does_not_grow_with_the_stream():
    X, y = blobs(4000, 5, 3, seed=6)
    for name in ("one_vs_rest", "softmax"):
        sizes = [len(pickle.dumps(streamed(MODELS[name], X[:n], y[:n], 100))) for n in (200, 4000)]
        assert sizes[1] <= 1.05 * sizes[0]


def test_labels_may_be_numbers_with_a_point():
    X, y = blobs(60, 3, 2, seed=0)
    whole, split = streamed(MODELS["one_vs_rest"], X, y), streamed(MODELS["one_vs_rest"], X, y.astype(float))
    np.testing.assert_array_equal(whole.coef_, split.coef_)
    for label in (0.5, np.nan):
        with pytest.raises(sm.core.errors.DataError, match="does not know"):
            split.partial_fit(X, np.where(y == 1, label, 0.0))


@pytest.mark.parametrize("name", MODELS)
def test_weights_of_samples_multiply_their_price(name):
    X, y = blobs(200, 4, 2, seed=7)
    double = streamed(MODELS[name], X, y, sample_weight=np.full(200, 2.0))
    dearer = streamed(clone(MODELS[name]).set_params(C=0.2), X, y)
    np.testing.assert_allclose(double.coef_, dearer.coef_, atol=1e-12)
    by_class = streamed(clone(MODELS[name]).set_params(class_weight={0: 2.0, 1: 2.0}), X, y)
    np.testing.assert_allclose(by_class.coef_, dearer.coef_, atol=1e-12)


def test_a_chunk_that_fails_changes_nothing():
    X, y = blobs(100, 4, 3, seed=8)
    model = streamed(MODELS["softmax"], X, y)
    coef, bound = model.coef_.copy(), model.certificate_.bound
    for bad, labels, words in (
        (X[:, :3], y, "X has 3 features, but SoftmaxRegression is expecting 4"),
        (np.full_like(X, np.nan), y, "contains NaN"),
        (X, y + 7, "which the model does not know"),
    ):
        with pytest.raises(ValueError, match=words):
            model.partial_fit(bad, labels)
    with pytest.raises(ValueError, match="since the first call"):
        model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="at least one non-zero"):
        model.partial_fit(X, y, sample_weight=np.zeros(100))
    np.testing.assert_array_equal(model.coef_, coef)
    other = streamed(MODELS["softmax"], X, y)
    np.testing.assert_array_equal(model.partial_fit(X, y).coef_, other.partial_fit(X, y).coef_)
    assert model.certificate_.bound > bound


@pytest.mark.parametrize("classes", [range(3), (2, 0, 1), pd.Series([0, 1, 2]), pd.Index([0, 1, 2])])
def test_classes_may_be_a_range_or_a_column(classes):
    X, y = blobs(60, 4, 3, seed=0)
    clf = sm.LinearSVC(random_state=0).partial_fit(X, y, classes=classes)
    np.testing.assert_array_equal(clf.classes_, [0, 1, 2])


def test_the_first_call_needs_classes_and_some_settings_have_no_stream():
    X, y = blobs(60, 3, 2, seed=9)
    with pytest.raises(ValueError, match="classes must be passed in the first call"):
        sm.LinearSVC().partial_fit(X, y)
    with pytest.raises(AttributeError, match="class_weight='balanced' needs all rows at once"):
        sm.LinearSVC(class_weight="balanced").partial_fit(X, y, classes=[0, 1])
    for model in (
        sm.LinearSVC(loss="squared_hinge"),
        sm.LinearSVC(fit_intercept="free"),
        sm.SoftmaxRegression(l1_ratio=0.5),
        sm.SoftmaxRegression(C=np.inf),
        sm.SoftmaxRegression(penalty=L1(1.0)),
        sm.SoftmaxRegression(pinned=0),
        sm.SoftmaxRegressionCV(),
        sm.LinearSVCCV(),
        sm.KernelSVCCV(multiclass="one_vs_rest"),
    ):
        assert not hasattr(model, "partial_fit")
    late = sm.LinearSVC(random_state=0).partial_fit(X[y == 0], y[y == 0], classes=[0, 1])  # one class at first
    assert late.partial_fit(X[y == 1], y[y == 1]).score(X, y) > 0.5


@pytest.mark.parametrize("name", ["weston_watkins", "one_vs_rest", "softmax"])
def test_a_stream_goes_on_from_a_fit_and_a_fit_begins_anew(name):
    X, y = blobs(900, 4, 3, seed=10, separation=1.0)
    fitted = clone(MODELS[name]).set_params(random_state=0).fit(X[:800], y[:800])
    before, score = fitted.coef_.copy(), fitted.score(X, y)
    fitted.partial_fit(X[800:], y[800:])
    assert 0.0 < np.linalg.norm(fitted.coef_ - before) < 0.7 * np.linalg.norm(before)
    assert fitted.score(X, y) > score - 0.02
    assert fitted.n_iter_ == 900
    assert not hasattr(fitted, "dual_coef_")
    fresh = clone(MODELS[name]).set_params(random_state=0).fit(X, y)
    np.testing.assert_array_equal(fitted.set_params(warm_start=name != "softmax").fit(X, y).coef_, fresh.coef_)
