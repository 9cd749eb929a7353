"""The quadratic model with its Hessian written out: the same model as by samples, and where it is used."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from reference.softmax_optimum import softmax_optimum
from softmargin.backends.lanes import zeros
from softmargin.data import blobs
from softmargin.penalties import L1, MCP, Box, ElasticNet, Group, Nonnegative
from softmargin.problems import softmax_problem
from softmargin.run import Status, Stop, solve
from softmargin.solvers import MMDescent, ProxNewton
from softmargin.solvers.softmax._feature_pairs import pairs_of
from softmargin.solvers.softmax._losses import SoftmaxLosses
from softmargin.solvers.softmax.prox_newton import ProxNewtonTuning
from softmargin.solvers.softmax.quadratic_model import dense as dense_models
from softmargin.solvers.softmax.quadratic_model.by_samples import (
    AndersonTuning,
    EntryModel,
    LossExpansion,
    QuadraticModel,
)
from softmargin.solvers.softmax.quadratic_model.dense import (
    DenseModel,
    DenseTuning,
    affords_all,
    forming_cost,
    is_looped,
    is_worth_while,
)
from softmargin.solvers.softmax.quadratic_model.hessians import hessian_by_classes
from softmargin.solvers.softmax.quadratic_model.row_shifts import best_shifts, shifted_rows
from softmargin.solvers.softmax.quadratic_model.samples import (
    Layout,
    Samples,
    SampleTuning,
    density,
    with_constant,
)
from softmargin.solvers.softmax.quadratic_model.written_out import JumpTuning

N, D = 30, 5


def make_models(k, seed=0, *, form=np.asarray, share=1.0, fit_intercept=True, is_coupled=True, penalty=None, **tuned):
    """Return one model twice, written out and by entries, of a random ``share`` of the entries."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, D))
    X[rng.random(X.shape) < 0.3] = 0.0
    problem = softmax_problem(
        form(X), np.arange(N) % k, C=rng.random(N), penalty=penalty or L1(0.3), fit_intercept=fit_intercept
    )
    columns = problem.n_columns
    losses = SoftmaxLosses(problem, is_compact=True)
    P, G, W = (zeros(rows * losses.k) for rows in (N, D + 1, D + 1))
    losses.matrix(W)[:-1] = 0.1 * rng.standard_normal((D, columns))
    if is_coupled:
        losses.matrix(P)[:] = rng.dirichlet(np.ones(k), N)[:, :columns]
    losses.matrix(G)[:] = rng.standard_normal((D + 1, columns))
    samples = Samples(problem.X, problem.C, P, 0.1 * rng.random(N), np.zeros(D + 1))
    samples.columns = with_constant(problem.X, fit_intercept)
    around = LossExpansion(losses, W, G, samples)
    used = rng.random((columns, D + fit_intercept)) < share
    used[0, 0] = True
    classes, features = np.nonzero(used)
    dense = DenseModel(around, features, classes, DenseTuning(**tuned))
    return dense, EntryModel(around, features, classes, AndersonTuning())


def hessian_by_samples(model):
    """Return H of the listed entries, one sample after the other."""
    problem, samples = model.problem, model.samples
    X = problem.X if isinstance(problem.X, np.ndarray) else problem.X.toarray()
    total = 0.0
    for x, p, damping, C in zip(X, model.losses.matrix(samples.P), samples.damping, samples.C, strict=True):
        x = np.append(x, 1.0)[model.features]
        scores = np.diag(p + damping) - np.outer(p, p)
        total = total + C * np.outer(x, x) * scores[np.ix_(model.classes, model.classes)]
    return total


forms = pytest.mark.parametrize("form", [np.asarray, np.float32, csr_matrix], ids=["dense", "float32", "csr"])


@forms
@pytest.mark.parametrize("block", [1 << 19, 40])
@pytest.mark.parametrize("share", [1.0, 0.4])
@pytest.mark.parametrize("is_coupled", [True, False])
@pytest.mark.parametrize(("k", "most"), [(2, np.inf), (2, 0), (3, 0), (6, 0)])
def test_hessian_is_the_sum_over_samples(k, most, is_coupled, share, block, form, monkeypatch):
    monkeypatch.setattr("softmargin.solvers.softmax.quadratic_model.hessians.BLOCK", block)
    monkeypatch.setattr(dense_models, "LOOPS_PAY", most)
    dense, _ = make_models(k, form=form, share=share, is_coupled=is_coupled)
    np.testing.assert_allclose(dense.H, hessian_by_samples(dense), atol=1e-12)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("share", [1.0, 0.4])
@pytest.mark.parametrize("k", [3, 6])
def test_hessian_of_kept_products_of_features_is_the_sum_over_samples(k, share, fit_intercept):
    dense, _ = make_models(k, share=share, fit_intercept=fit_intercept)
    X = dense.problem.X
    dense.samples.pairs = pairs_of(np.vstack([X.T, np.ones((int(fit_intercept), N))]))
    np.testing.assert_allclose(dense.hessian(), hessian_by_samples(dense), atol=1e-12)


@pytest.mark.parametrize("by_loop", [True, False])
@pytest.mark.parametrize("share", [1.0, 0.4])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_hessian_of_sparse_rows_of_two_classes_is_the_sum_over_samples(fit_intercept, share, by_loop, monkeypatch):
    monkeypatch.setattr("softmargin.solvers.softmax.quadratic_model.dense.is_looped", lambda X: by_loop)
    dense, _ = make_models(2, form=csr_matrix, share=share, fit_intercept=fit_intercept)
    np.testing.assert_allclose(dense.H, hessian_by_samples(dense), atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), k=st.integers(2, 6), share=st.floats(0.1, 1.0), fit_intercept=st.booleans())
def test_passes_are_those_by_entries_class_after_class(seed, k, share, fit_intercept):
    """The same model descended in the same order: the same points, values and gradients after every pass."""
    dense, entries = make_models(k, seed, share=share, fit_intercept=fit_intercept)
    for _ in range(4):
        dense.minimise(0.0, 1)
        entries.descend()
        entries.reopen()
        np.testing.assert_allclose(dense.V, entries.V, atol=1e-10)
        assert dense.value() == pytest.approx(entries.value(), rel=1e-9)
        D = (dense.V - dense.W)[dense.at]
        np.testing.assert_allclose(dense.response, hessian_by_samples(dense) @ D, atol=1e-10)


@pytest.mark.parametrize("penalty", [L1(0.3), ElasticNet(0.2, 0.3), Nonnegative(0.1), Box(-0.2, 0.3)], ids=str)
@pytest.mark.parametrize("k", [2, 3, 6])
def test_minimiser_is_that_by_entries(k, penalty, monkeypatch):
    monkeypatch.setattr(dense_models, "LOOPS_PAY", 0)  # its columns then give the move of the scores, too
    dense, entries = make_models(k, penalty=penalty)
    assert not dense.minimise(1e-28, 5000)
    entries.minimise(1e-28, 5000)
    np.testing.assert_allclose(dense.V, entries.V, atol=1e-8)
    if k == 2:
        np.testing.assert_allclose(dense.scores_move(), entries.scores_move(), atol=1e-8)


@pytest.mark.parametrize("share", [1.0, 0.4])
@pytest.mark.parametrize("k", [2, 3, 6])
def test_what_entries_tell_the_search_is_what_whole_rows_tell(k, share):
    dense, _ = make_models(k, share=share)
    dense.minimise(1e-8, 100)
    assert dense.slope() == pytest.approx(QuadraticModel.slope(dense), rel=1e-12)
    falls = [penalty_fall(dense.problem.penalty, *kind.penalised(dense)) for kind in (DenseModel, QuadraticModel)]
    assert falls[0] == pytest.approx(falls[1], rel=1e-12)
    assert abs(falls[0]) > 0.1


@pytest.mark.parametrize("k", [3, 4])
def test_probabilities_have_the_gradient_of_the_model(k):
    """X' C (q - Y) less X' C (P - Y) is H D where no q is cut, but for the mean over classes of what is damped."""
    model, _ = make_models(k)
    losses, problem, samples = model.losses, model.problem, model.samples
    samples.C = 0.6 * problem.C  # a model with a share of H
    model.point += 0.01 * np.random.default_rng(1).standard_normal(len(model.point))
    model.V[model.at] = model.point
    T, before, after, U = zeros(len(samples.P)), zeros(len(model.G)), zeros(len(model.G)), zeros(len(samples.P))
    model.fill_move(T)
    q = model.dual(T)
    losses.fill_gradient(samples.P, U, before)
    losses.fill_gradient(q, U, after)
    P, Q, moves = (losses.matrix(flat) for flat in (samples.P, q, T))
    bends = P * (moves - (P * moves).sum(axis=1, keepdims=True)) + samples.damping[:, None] * moves
    bends -= (samples.damping * moves.mean(axis=1))[:, None]
    expected = np.column_stack([problem.X, np.ones(N)]).T @ (samples.C[:, None] * bends)
    assert Q.min() > 0.0
    np.testing.assert_allclose(Q.sum(axis=1), 1.0)
    np.testing.assert_allclose(losses.matrix(after - before), expected, atol=1e-12)


@pytest.mark.parametrize("k", [3, 5])
def test_probabilities_that_are_cut_are_probabilities(k):
    """After a long step as well."""
    model, _ = make_models(k)
    model.V[model.at] = model.point + 10.0
    T = zeros(len(model.samples.P))
    model.fill_move(T)
    Q = model.losses.matrix(model.dual(T))
    assert Q.min() >= 0.0
    np.testing.assert_allclose(Q.sum(axis=1), 1.0)


@pytest.mark.parametrize("k", [3, 5])
def test_probabilities_of_the_last_model_prove_more_than_those_of_its_weights(k):
    """Where a certificate is due they are given, and have a gap of the second order only."""
    X, y = blobs(300, 8, k, seed=3)
    problem = softmax_problem(X, y, C=1.0, penalty=L1(1.0))
    result = solve(problem, ProxNewton(), stop=Stop(tol=1e-2), rng=0)
    gap, alone = (problem.certificate(result.point._replace(dual=q)).residual for q in (result.point.dual, None))
    assert result.status is Status.CONVERGED
    assert result.point.dual.shape == (300, k)
    assert gap < 0.5 * alone


def test_models_that_are_no_model_of_the_losses_give_no_dual_point():
    """Those of bounds on the Hessian, and where the penalty has no bound; nor do those of two classes."""
    problem, binary = (softmax_problem(*blobs(60, 4, k, seed=0), C=1.0, penalty=L1(1.0)) for k in (3, 2))
    assert solve(binary, ProxNewton(), stop=Stop(tol=1e-2), rng=0).point.dual is None
    assert solve(problem, MMDescent(), stop=Stop(tol=1e-2), rng=0).point.dual is None
    assert solve(problem.with_penalty(MCP(1.0)), ProxNewton(), stop=Stop(tol=1e-2), rng=0).point.dual is None


def penalty_fall(penalty, W, V):
    return penalty.value(W) - penalty.value(V)


def stiff(penalty=None, **tuned):
    """Return a model on which passes converge slowly."""
    dense, _ = make_models(3, penalty=penalty, **tuned)
    dense.samples.damping[:] = 1e-3
    around = LossExpansion(dense.losses, dense.W, dense.G, dense.samples)
    return DenseModel(around, dense.features, dense.classes, dense.tuning)


PENALTIES = [L1(0.3), ElasticNet(0.2, 0.3), Nonnegative(0.1), Box(-0.2, 0.3), MCP(0.3, 8.0)]


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
def test_jumps_leave_the_model_lower_after_as_many_passes(penalty):
    values = {}
    for calm in (8, 10**6):
        dense = stiff(penalty, jumps=JumpTuning(calm=calm))
        dense.minimise(1e-30, 64)
        values[calm] = dense.value()
        D = (dense.V - dense.W)[dense.at]
        np.testing.assert_allclose(dense.response, dense.H @ D, atol=1e-8)
    assert values[8] <= values[10**6] + 1e-12
    if isinstance(penalty, ElasticNet):
        assert values[8] < values[10**6]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), k=st.integers(2, 5), share=st.floats(0.3, 1.0), penalty=st.sampled_from(PENALTIES))
def test_a_jump_never_raises_the_model_and_ends_where_its_zeros_are_right(seed, k, share, penalty):
    dense, _ = make_models(k, seed, share=share, penalty=penalty)
    dense.minimise(0.0, 3)
    for _ in range(5):
        before = dense.value()
        dense.jump()
        dense.V[dense.at] = dense.point
        assert dense.value() <= before + 1e-12
        D = (dense.V - dense.W)[dense.at]
        np.testing.assert_allclose(dense.response, dense.H @ D, atol=1e-8)


@pytest.mark.parametrize("penalty", [L1(0.3), ElasticNet(0.2, 0.3)], ids=str)
def test_one_jump_is_at_the_minimiser_once_the_zeros_are_known(penalty):
    dense = stiff(penalty)
    assert not dense.minimise(1e-28, 10_000)
    best = dense.point.copy()
    dense.point[:] = np.where(best == 0.0, 0.0, best + 1e-3 * np.sign(best))
    dense.response = dense.H @ (dense.point - dense.start)
    dense.jump()
    np.testing.assert_allclose(dense.point, best, atol=1e-5)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("k", [2, 3, 5])
def test_a_jump_is_least_over_what_it_leaves_nonzero_whatever_arrives_at_zero_on_the_way(k, seed):
    dense, _ = make_models(k, seed, penalty=L1(0.3))
    dense.point = np.where(dense.is_free, dense.point, np.random.default_rng(seed).normal(size=len(dense.point)))
    dense.response = dense.H @ (dense.point - dense.start)
    dense.jump()
    slopes = dense.slopes + dense.response + np.where(dense.is_free, 0.0, 0.3 * np.sign(dense.point))
    assert (dense.point[~dense.is_free] == 0.0).any()
    np.testing.assert_allclose(slopes[dense.is_free | (dense.point != 0.0)], 0.0, atol=1e-4)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("k", [2, 3, 5])
def test_one_round_of_a_jump_ends_at_the_first_minimum_of_its_folded_way(k, seed):
    dense, _ = make_models(k, seed, penalty=L1(0.3), jumps=JumpTuning(rounds=1))
    v = np.where(dense.is_free, dense.point, np.random.default_rng(seed).normal(size=len(dense.point)))

    def value_at(point):
        dense.point, dense.response = point, dense.H @ (point - dense.start)
        return dense._point_value()

    before = value_at(v)
    slopes = dense.slopes + dense.response + np.where(dense.is_free, 0.0, 0.3 * np.sign(v))
    step = -np.linalg.solve(dense.H + 1e-6 * np.diag(np.diag(dense.H)), slopes)
    way = (
        np.where(~dense.is_free & (v * (v + t * step) < 0.0), 0.0, v + t * step) for t in np.linspace(0.0, 2.0, 4001)
    )
    values = np.array([value_at(point) for point in way])
    value_at(v)
    dense.jump()
    first = values[np.flatnonzero(np.diff(values) > 0.0)[0]]
    assert dense._point_value() == pytest.approx(first, abs=1e-4 * (before - first))


def test_entries_that_are_next_to_zero_do_not_stop_a_jump():
    """Their slopes differ by rounding alone, which is no curvature."""
    dense = stiff(L1(0.3))
    dense.minimise(0.0, 3)
    some = np.flatnonzero(~dense.is_free & (dense.point != 0.0))[:3]
    dense.point[some] = [1e-16, -3e-17, 7e-14]
    dense.response = dense.H @ (dense.point - dense.start)
    before = dense._point_value()
    dense.jump()
    assert dense._point_value() < before - 1e-6


@pytest.mark.parametrize("max_passes", [1, 7, 8, 16, 40])
def test_model_never_rises_wherever_it_is_cut(max_passes):
    dense = stiff()
    values = [dense.value()]
    for _ in range(5):
        dense.minimise(0.0, max_passes)
        values.append(dense.value())
    assert (np.diff(values) <= 1e-10).all()


def watch_models(solver, monkeypatch):
    """Return the list to which the kinds of all models will be added."""
    kinds, plain = [], type(solver)._model

    def noted(self, *arguments):
        model = plain(self, *arguments)
        kinds.append(type(model).__name__)
        return model

    monkeypatch.setattr(ProxNewton, "_model", noted)
    return kinds


CONVEX = {
    "l1": (L1(0.6), lambda W: (0.6 * cp.sum(cp.abs(W)), [])),
    "elastic net": (ElasticNet(0.3, 0.4), lambda W: (0.3 * cp.sum(cp.abs(W)) + 0.2 * cp.sum_squares(W), [])),
    "nonnegative": (Nonnegative(0.3), lambda W: (0.3 * cp.sum(W), [W >= 0])),
    "box": (Box(-0.2, 0.3, l2=0.1), lambda W: (0.05 * cp.sum_squares(W), [W >= -0.2, W <= 0.3])),
}


@pytest.mark.parametrize("form", [np.asarray, csr_matrix], ids=["dense", "csr"])
@pytest.mark.parametrize("name", CONVEX)
@pytest.mark.parametrize("k", [2, 4])
def test_small_dense_data_have_their_optimum_by_this_model_alone(k, name, form, monkeypatch):
    X, y = blobs(60, 6, k, seed=0)
    y = np.where(np.random.default_rng(0).random(60) < 0.3, np.arange(60) % k, y)
    kinds = watch_models(ProxNewton(), monkeypatch)
    penalty, expression = CONVEX[name]
    result = solve(softmax_problem(form(X), y, C=0.7, penalty=penalty), ProxNewton(), stop=Stop(tol=1e-9), rng=0)
    assert set(kinds) == {"DenseModel"}
    assert result.certificate.primal == pytest.approx(softmax_optimum(X, y, 0.7, expression, n_classes=k)[0], rel=1e-8)


@pytest.mark.parametrize("k", [2, 4])
def test_penalty_that_is_not_convex_is_stationary_by_this_model_alone(k, monkeypatch):
    X, y = blobs(60, 6, k, seed=0)
    kinds = watch_models(ProxNewton(), monkeypatch)
    problem = softmax_problem(X, y, C=1.0, penalty=MCP(0.8, 3.0))
    result = solve(problem, ProxNewton(), stop=Stop(tol=1e-7, max_iter=2000), rng=0)
    assert set(kinds) == {"DenseModel"}
    assert result.status is Status.CONVERGED


def test_a_share_of_the_hessian_saves_steps_where_losses_fall_like_an_exponential():
    """So they do where classes hardly overlap: most samples are right already."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 6))
    y = (X @ rng.standard_normal(6) + 0.1 * rng.standard_normal(400) > 0.0).astype(np.int64)

    def steps(share):
        solver = ProxNewton(tuning=ProxNewtonTuning(share=share))
        problems = [softmax_problem(X, y, C=C, penalty=L1(1.0)) for C in (10.0, 100.0, 1000.0)]
        results = [solve(problem, solver, stop=Stop(1e-6), rng=0) for problem in problems]
        assert all(result.status is Status.CONVERGED for result in results)
        return sum(result.n_iter for result in results)

    assert steps(ProxNewtonTuning().share) < steps(1.0)


def test_many_entries_sparse_data_and_rows_keep_their_loops(monkeypatch):
    X, y = blobs(80, 200, 12, seed=0)
    S, _ = blobs(80, 200, 12, seed=0, sparse=True, density=0.02)
    problems = [
        (softmax_problem(X, y, C=1.0, penalty=L1(0.01)), ProxNewton(), True),
        (softmax_problem(S, y, C=1.0, penalty=L1(0.1)), ProxNewton(), False),
        (softmax_problem(X[:, :5], y, C=1.0, penalty=Group(0.3)), ProxNewton(), False),
    ]
    for problem, solver, may_end_dense in problems:
        kinds = watch_models(solver, monkeypatch)
        solve(problem, solver, stop=Stop(tol=1e-3), rng=0)
        assert kinds[0] != "DenseModel"
        assert may_end_dense or "DenseModel" not in kinds
        monkeypatch.undo()


def test_rules_count_entries_passes_and_density():
    X, S = np.ones((1000, 200)), csr_matrix(np.ones((1000, 200)) * (np.arange(200) % 20 == 0))
    rules = DenseTuning()

    def cost(X, m, k):
        y = np.arange(1000) % (k + 1 if k == 1 else k)
        return forming_cost(Layout(softmax_problem(X, y, penalty=L1(1.0)), SampleTuning()), m, k)

    assert is_worth_while(cost(X, 100, 3), 100, X, 50, rules)
    assert not is_worth_while(cost(X, 100, 3), 100, S, 50, rules)
    assert not is_worth_while(cost(X, 100, 3), 100, X, MMDescent().max_passes - 4, rules)
    assert not is_worth_while(cost(X, 5000, 3), 5000, X, 400, rules)
    assert not is_worth_while(0.0, 0, X, 50, rules)
    assert not is_worth_while(0.0, 100, S[:3], 50, rules)  # a pass over H is longer than one over three samples
    assert cost(S, 100, 1) < cost(X, 100, 1) < cost(X, 100, 3)
    assert affords_all(cost(X, 50, 1), X, 1, rules)
    assert not affords_all(cost(X, 500, 3), X, 1, rules)
    assert is_looped(S)
    assert not is_looped(X)
    assert density(np.zeros((3, 2))) == 1.0
    assert density(csr_matrix(np.eye(4))) == 0.25


@pytest.mark.parametrize("penalty", [L1(0.4), ElasticNet(0.3, 0.2), Group(0.8), Nonnegative(0.3)], ids=str)
def test_rows_called_shifted_are_those_that_a_shift_improves(penalty):
    k = 5
    W = np.abs(np.random.default_rng(0).standard_normal((40, k)))
    W[:10, :3] = 0.0
    W[10:20] -= np.median(W[10:20], axis=1, keepdims=True) if penalty.value(-np.ones((1, k))) < np.inf else 0.0
    W[-1] = 0.0
    shifts = best_shifts(penalty, W)
    gains = np.array([penalty.value(w[None]) - penalty.value(w[None] - s) for w, s in zip(W, shifts, strict=True)])
    flat = zeros(40 * 8)
    flat.reshape(40, 8)[:, :k] = W
    found = shifted_rows(penalty, flat, 8, k, np.arange(40))
    assert found[gains > 1e-6].all()
    assert not found[shifts == 0.0].any()
    assert found.any()
    assert not found.all()


@pytest.mark.parametrize("is_coupled", [True, False])
def test_the_hessian_by_pairs_of_classes_is_the_same_and_less_without_faint_samples(is_coupled):
    usual, _ = make_models(4, share=0.7, is_coupled=is_coupled)
    whole, _ = make_models(4, share=0.7, is_coupled=is_coupled, most_entries=0, faint=0.0, pair=0.0)
    some, _ = make_models(4, share=0.7, is_coupled=is_coupled, most_entries=0, faint=0.3, pair=0.0)
    np.testing.assert_allclose(whole.H, usual.H, atol=1e-6 * usual.H.max())
    assert whole.H.dtype == np.float32
    assert np.linalg.eigvalsh(whole.H - some.H).min() >= -1e-6 * usual.H.max()
    assert np.allclose(some.H, whole.H) != is_coupled


@pytest.mark.parametrize("unit", [1e-25, 1e25])
def test_the_hessian_by_pairs_of_classes_keeps_its_range_in_other_units(unit):
    def in_units(X):
        X[:, 0] *= unit
        return X

    usual, _ = make_models(4, form=in_units)
    whole, _ = make_models(4, form=in_units, most_entries=0, faint=0.0, pair=0.0)
    np.testing.assert_allclose(whole.H, usual.H, rtol=1e-9, atol=0.0)


@pytest.mark.parametrize("is_coupled", [True, False])
def test_the_hessian_of_many_entries_and_classes_is_one_product_in_single_precision(is_coupled):
    usual, _ = make_models(4, share=0.7, is_coupled=is_coupled)
    whole, _ = make_models(4, share=0.7, is_coupled=is_coupled, most_entries=0, pair=np.inf)
    np.testing.assert_allclose(whole.H, usual.H, atol=1e-6 * usual.H.max())
    assert whole.H.dtype == np.float32
    assert whole.is_large
    assert not whole.goes_by_pairs


def test_the_hessian_keeps_the_curvature_of_classes_that_are_next_to_certain():
    """P (1 - p) = 1e-9 is below the rounding of p in single precision."""
    X, P = np.ones((1, 5), dtype=np.float32), np.tile([1.0 - 1e-9, 1e-9], (5, 1))
    samples = Samples(X.T, np.ones(5), P.ravel(), np.zeros(5), np.zeros(2))
    H = hessian_by_classes(X, np.zeros(2, dtype=int), np.arange(2), P, samples)
    np.testing.assert_allclose(H, [[5e-9, -5e-9], [-5e-9, 5e-9]], rtol=1e-6)


def test_models_that_passes_do_not_minimise_are_written_out_whole():
    X, y = blobs(60, 6, 3, seed=1)
    problem = softmax_problem(X, y, penalty=L1(0.2))
    tuning = ProxNewtonTuning(dense=DenseTuning(most_entries=0))
    solver = ProxNewton(max_passes=1, tuning=tuning)
    state, models = solver.start(problem, None, np.random.default_rng(0)), []
    for _ in range(12):
        models.append(solver._model(state, *solver._working_set(state)))
        state = solver.step(problem, state)
    assert not isinstance(models[0], DenseModel)
    assert isinstance(models[-1], DenseModel)
    assert models[-1].samples.rows is None
    assert problem.certificate(solver.point(problem, state)).residual <= 1e-6
