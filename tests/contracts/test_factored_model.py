"""The quadratic model of l1 with a factor of its Hessian: its minimum, its dual point, and where it is used."""

from dataclasses import fields, replace

import cvxpy as cp
import numpy as np
import pytest
from scipy.sparse import csr_matrix

from reference.softmax_optimum import softmax_optimum
from softmargin.backends.lanes import zeros
from softmargin.core.aim import aiming_at
from softmargin.penalties import L1, ElasticNet
from softmargin.problems import softmax_problem
from softmargin.run import Status, Stop, solve
from softmargin.solvers import MMDescent, ProxNewton
from softmargin.solvers.softmax import prox_newton
from softmargin.solvers.softmax._losses import SoftmaxLosses
from softmargin.solvers.softmax.prox_newton import ProxNewtonTuning
from softmargin.solvers.softmax.quadratic_model.by_samples import AndersonTuning, EntryModel, LossExpansion
from softmargin.solvers.softmax.quadratic_model.dense import DenseTuning
from softmargin.solvers.softmax.quadratic_model.factored import FactoredModel, FactoredTuning, affords_factor
from softmargin.solvers.softmax.quadratic_model.hessians import hessian_by_lists
from softmargin.solvers.softmax.quadratic_model.samples import Samples, with_constant
from softmargin.solvers.softmax.quadratic_model.support_factor import FactorTuning, nearest_slopes

N, D, K = 120, 40, 4
STRENGTH = 0.3


def make_problem(seed=0, *, fit_intercept=True, dtype=np.float64, penalty=None, noise=0.5):
    """Return counts of which few are not zero, with labels that they nearly decide."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(0.2, (N, D)) * rng.integers(1, 4, (N, D))
    y = np.argmax(X @ rng.standard_normal((D, K)) + noise * rng.standard_normal((N, K)), axis=1)
    return softmax_problem(
        csr_matrix(X.astype(dtype)), y, n_classes=K, penalty=penalty or L1(STRENGTH), fit_intercept=fit_intercept
    )


def expanded(problem, n_steps=2):
    """Return the losses around the point of some steps of proximal Newton."""
    solver = ProxNewton(per_feature=np.inf)
    state = solver.start(problem, None, np.random.default_rng(0))
    for _ in range(n_steps):
        state = solver.step(problem, state)
    samples = Samples(problem.X, problem.C, state.probabilities, np.zeros(N), np.zeros(D + 1))
    samples.columns = with_constant(problem.X, problem.fit_intercept)
    return LossExpansion(SoftmaxLosses(problem, is_compact=True), state.W, state.G, samples)


def make_model(seed=0, *, kind=FactoredModel, tuning=(), fit_intercept=True, **factor):
    """Return a model of all entries."""
    around = expanded(make_problem(seed, fit_intercept=fit_intercept))
    classes, features = (part.ravel() for part in np.mgrid[:K, : D + fit_intercept])
    if kind is EntryModel:
        return EntryModel(around, features, classes, AndersonTuning())
    tuned = FactoredTuning(factor=FactorTuning(**factor), **dict(tuning))
    return FactoredModel(around, features, classes, AndersonTuning(), tuned)


def gradient(model):
    """Return the gradient of the smooth part of the model at V; (d + 1, k)."""
    T = zeros(len(model.T))
    model.losses.fill_move(model.V - model.W, T)
    return model.losses.matrix(model.G + model._pushed(T))


def whole_hessian(around):
    """Return H of all entries, ordered by class, one sample after the other."""
    X, P = around.samples.X.toarray(), around.losses.matrix(around.samples.P)
    X = np.hstack([X, np.ones((N, 1))])
    return sum(
        C * np.kron(np.diag(p) - np.outer(p, p), np.outer(x, x)) for C, p, x in zip(around.samples.C, P, X, strict=True)
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hessian_by_lists_is_that_of_all_samples(dtype):
    """The lower triangle holds H, with every entry in the place that was asked for."""
    around = expanded(make_problem(dtype=dtype))
    classes, features = (part.ravel() for part in np.mgrid[:K, : D + 1])
    places = np.random.default_rng(1).permutation(len(classes)).astype(np.int32)
    H = hessian_by_lists(features, classes, places, around.samples, 0.0)
    wanted = np.empty(H.shape)
    wanted[np.ix_(places, places)] = whole_hessian(around)
    assert np.abs(H - np.tril(wanted)).max() <= 1e-5 * np.abs(wanted).max()


def test_faint_samples_are_left_out():
    """Only samples with little weight are: H changes by no more than they have."""
    around = expanded(make_problem())
    classes, features = (part.ravel() for part in np.mgrid[:K, :D])
    places = np.arange(len(classes), dtype=np.int32)
    all_of_it, most = (hessian_by_lists(features, classes, places, around.samples, faint) for faint in (0.0, 0.1))
    assert 0.0 < np.abs(all_of_it - most).max() <= 0.1 * 0.25 * N * around.samples.X.max() ** 2


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("undecided", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_minimum_is_that_of_the_model(seed, undecided, fit_intercept):
    """Whatever was open from the start: entries that cross zero are opened, and slopes end within their bounds."""
    model = make_model(seed, undecided=undecided, fit_intercept=fit_intercept, tuning={"rounds": 30, "next_to": 1.0})
    with aiming_at(1e-5):
        assert not model.minimise(0.1, 50)
    V, G = model.losses.matrix(model.V), gradient(model)
    off = G[:-1] + nearest_slopes(G[:-1], V[:-1], STRENGTH)
    listed = np.zeros(V.shape, dtype=bool)
    listed[model.factor.entries] = True
    assert np.abs(off[listed[:-1]]).max() <= 1e-5 * STRENGTH
    assert np.abs(G[-1] * fit_intercept).max() <= 1e-5 * STRENGTH
    by_entries = make_model(seed, kind=EntryModel, fit_intercept=fit_intercept)
    by_entries.minimise(1e-12, 5000)
    assert model.value() <= by_entries.value() + 1e-6 * abs(by_entries.value())
    if undecided == 0.0:
        assert len(model.factor.opened) > 0


def test_signs_that_change_in_the_factor_become_zeros():
    """An entry that was decided and crosses zero is held there, exactly."""
    model = make_model(undecided=0.0, tuning={"passes": 1})
    with aiming_at(1e-5):
        model.minimise(0.1, 50)
    opened = model.losses.matrix(model.V)[model.factor.entries][model.factor.opened]
    assert np.any(opened == 0.0)


def test_dual_point_has_the_gradient_of_the_model():
    """Where no probability is cut at zero, X' C (q - Y) is the gradient at the minimum; rows of q sum to one."""
    model = make_model()
    with aiming_at(1e-5):
        model.minimise(0.1, 50)
    share = 0.05  # of the step: probabilities stay positive
    model.V[:] = model.W + share * (model.V - model.W)
    model.T *= share
    q = model.dual(model.T)
    rows, U, G = model.losses.matrix(q), zeros(len(q)), zeros(len(model.G))
    model.losses.fill_gradient(q, U, G)
    assert rows.min() >= 0.0
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(model.losses.matrix(G), gradient(model), atol=1e-10)


def test_response_follows_the_step():
    """The squared length and the move of the scores are those of D."""
    model = make_model()
    model.minimise(0.1, 50)
    D_flat, T = model.V - model.W, zeros(len(model.T))
    model.losses.fill_move(D_flat, T)
    np.testing.assert_allclose(model.scores_move(), model.losses.matrix(T), atol=1e-10)
    assert model.squared_length() == pytest.approx(float(D_flat @ model._pushed(T)))


def eager(**changes):
    """Return a solver whose first model that was cut off is followed by one with a factor."""
    dense = DenseTuning(most_entries=0, most_needed=0)
    factored = FactoredTuning(damping=np.inf, visit=np.inf, **changes)
    tuning = ProxNewtonTuning(many=np.inf, dense=dense, factored=factored)
    return ProxNewton(max_passes=1, tuning=tuning)


@pytest.fixture
def factors(monkeypatch):
    """Return a list that gets, for each model with a factor, whether it made that factor."""
    seen = []
    minimise = FactoredModel.minimise

    def watched(self, accuracy, max_passes):
        seen.append(self.factor is None)
        return minimise(self, accuracy, max_passes)

    monkeypatch.setattr(FactoredModel, "minimise", watched)
    return seen


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_proximal_newton_with_factors_is_right(fit_intercept, factors):
    """It ends at the optimum of another solver, with a proof."""
    problem = make_problem(3, fit_intercept=fit_intercept)
    result = solve(problem, eager(), stop=Stop(tol=1e-7), rng=0)
    assert result.status is Status.CONVERGED
    assert factors
    optimum, _, _ = softmax_optimum(
        problem.X,
        problem.y,
        1.0,
        lambda W: (STRENGTH * cp.sum(cp.abs(W)), []),
        n_classes=K,
        fit_intercept=fit_intercept,
    )
    assert result.certificate.primal == pytest.approx(optimum, rel=1e-6)


def test_q_proves_more_than_probabilities(factors):
    """The point of a model with a factor has q, and a smaller gap with it than without."""
    problem, solver = make_problem(3), eager(near=0.0)
    state = solver.start(problem, None, np.random.default_rng(0))
    ratios = []
    with aiming_at(1e-9):
        for _ in range(12):
            state = solver.step(problem, state)
            point = solver.point(problem, state)
            if point.dual is not None:
                with_q, without = (problem.certificate(p).residual for p in (point, point._replace(dual=None)))
                assert with_q <= 1.1 * without
                ratios.append(with_q / without)
    assert min(ratios) < 0.1


def test_a_factor_serves_the_models_that_follow(factors):
    """Near the end a step has several models, all with the factor of its first."""
    solve(make_problem(3), eager(near=1.0), stop=Stop(tol=1e-7), rng=0)
    assert not all(factors)
    factors.clear()
    solve(make_problem(3), eager(near=0.0), stop=Stop(tol=1e-7), rng=0)
    assert factors
    assert all(factors)


@pytest.mark.parametrize(
    ("solver", "problem"),
    [
        (replace(MMDescent(), tuning=eager().tuning, max_passes=1), make_problem()),
        (eager(), make_problem(penalty=ElasticNet(0.3, 0.1))),
        (eager(most_entries=10), make_problem()),
        (replace(eager(), tuning=eager().tuning._replace(factored=FactoredTuning(damping=0.0))), make_problem()),
    ],
    ids=["majorised", "other penalty", "too many entries", "damped"],
)
def test_no_factor(solver, problem, factors):
    """There is none where H does not couple classes, where a slope is no number, where it is large, or where damped."""
    solve(problem, solver, stop=Stop(tol=1e-3), rng=0)
    assert not factors


def test_a_resumed_run_is_the_whole_one(factors):
    """A checkpoint after a model with a factor has its dual point."""
    problem, solver = make_problem(3), eager()
    state = solver.start(problem, None, np.random.default_rng(0))
    for _ in range(20):
        state = state if len(state.dual) else solver.step(problem, state)
    values = {field.name: getattr(state, field.name) for field in fields(state) if field.init}
    arrays = {name: value.copy() for name, value in values.items() if isinstance(value, np.ndarray)}
    again = solver.restore(arrays, {name: value for name, value in values.items() if name not in arrays})
    for _ in range(2):
        assert solver.estimate(problem, again) == solver.estimate(problem, state)
        np.testing.assert_array_equal(solver.point(problem, again).dual, solver.point(problem, state).dual)
        state, again = solver.step(problem, state), solver.step(problem, again)
        np.testing.assert_array_equal(again.W, state.W)


def test_factor_is_afforded_where_passes_take_longer():
    """The rule counts the nonzeros that passes visit, and the cube of the entries."""
    columns = with_constant(make_problem().X, True)
    features = np.arange(D)
    visits = np.diff(columns.indptr)[features].sum()
    dear = D**3 / 6.0 / visits
    assert affords_factor(columns, features, 10, FactoredTuning(visit=dear / 9.0))
    assert not affords_factor(columns, features, 10, FactoredTuning(visit=dear / 11.0))
    assert not affords_factor(columns, features, 10, FactoredTuning(visit=dear, most_entries=D - 1))


def test_singular_hessian_ends_in_passes(monkeypatch):
    """Without a factor the step is that of the passes."""
    monkeypatch.setattr(prox_newton.FactoredModel, "_new_factor", lambda self, slopes: None)
    result = solve(make_problem(3), eager(), stop=Stop(tol=1e-5, max_iter=2000), rng=0)
    assert result.status is Status.CONVERGED
