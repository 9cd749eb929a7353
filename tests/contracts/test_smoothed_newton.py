"""Newton's method on smoothed hinges against references, in every form of X, and where data are as they come."""

from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from helpers import LOSS_NAMES, PROBLEM_NAMES, augmented, dense, infeasibility, make_problem, problem_data
from reference.optimum import svm_optimum
from softmargin.core.errors import IncompatibleError
from softmargin.data import blobs
from softmargin.estimators.posing.auto import find_solver
from softmargin.estimators.posing.finishers import finisher_of
from softmargin.problems import MulticlassSVM
from softmargin.run import Status, Stop, solve
from softmargin.solvers import DualBlockDescent, HandOver, InteriorPoint, SmoothedNewton
from softmargin.solvers.common.entropic import followed, log_softmax, lower_others
from softmargin.solvers.linear_svm._label_groups import LabelGroups
from softmargin.solvers.linear_svm.interior_work import MAX_UNKNOWNS, factor_products
from softmargin.solvers.linear_svm.smoothed_newton import (
    SmoothedNewtonTuning,
    _bent,
    _feasible,
    _Line,
    factored,
    stiffened,
)
from softmargin.testing import check_run

HOME = "softmargin.solvers.linear_svm.smoothed_newton."
both_losses = pytest.mark.parametrize("multiclass", LOSS_NAMES)


def fit(problem, solver=None, *, tol=1e-8, max_iter=100, **more):
    return solve(problem, solver or SmoothedNewton(), stop=Stop(tol, max_iter), rng=0, **more)


def begun(problem, steps=0, solver=None):
    solver = solver or SmoothedNewton()
    state = solver.start(problem, None, np.random.default_rng(0))
    for _ in range(steps):
        state = solver.step(problem, state)
    return state


def raw(multiclass="weston_watkins", *, n=150, C=1.0, seed=0):
    """Overlapping classes, features of all sizes up to hundreds."""
    X, y = blobs(n, 6, 4, seed=seed, separation=1.0)
    return MulticlassSVM(X * np.logspace(-1, 2.5, 6), y, C=C, bias=1.0, multiclass=multiclass)


@both_losses
@pytest.mark.parametrize("name", PROBLEM_NAMES)
def test_it_finds_the_optimum_in_few_steps(name, multiclass):
    problem = make_problem(name, multiclass)
    result = check_run(SmoothedNewton(), problem, tol=1e-9, max_iter=50, optimum=svm_optimum(problem))
    assert infeasibility(problem.multiclass, result.point.alpha, problem.y, problem.C) <= 1e-10


@both_losses
@pytest.mark.parametrize("name", ["tiles", "bias", "binary"])
def test_every_form_of_x_gives_the_same(name, multiclass):
    X, y, settings = problem_data(name)
    rounded = dense(X).astype(np.float32)  # numbers that both types hold exactly
    values = [
        fit(MulticlassSVM(form, y, multiclass=multiclass, **settings), tol=1e-9).certificate.primal
        for form in (rounded.astype(np.float64), csr_matrix(rounded.astype(np.float64)), rounded, csr_matrix(rounded))
    ]
    np.testing.assert_allclose(values, values[0], rtol=1e-8)


@both_losses
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_features_of_all_sizes_take_some_dozen_steps(C, multiclass):
    """Block descent has a gap of more than a tenth after ten times as many passes at C = 100."""
    problem = raw(multiclass, C=C)
    result = fit(problem, tol=1e-3, max_iter=60)
    assert result.status is Status.CONVERGED
    slow = fit(problem, DualBlockDescent(), tol=1e-3, max_iter=600).certificate
    assert slow.primal >= result.certificate.bound
    if C == 100.0:
        assert slow.residual > 0.1


@both_losses
def test_a_step_solves_the_linearised_equations(multiclass, monkeypatch):
    """The shares of a full step pull at the weights of that step, before they are made feasible."""
    problem = raw(multiclass)
    exact = SmoothedNewton(SmoothedNewtonTuning(least_exact=1e-12, most_exact=1e-12, final_exact=1e-12))
    state = begun(problem, 3, exact)
    assert state.rho > 1.0
    groups, before = state.groups, state.V.copy()
    logs, rho = state.logs.copy(), state.rho
    if state.cut >= exact.tuning.near:
        lower_others(logs, np.zeros(len(logs), int), 1.0 / exact.tuning.fall)
        rho /= exact.tuning.fall
    lines = []
    monkeypatch.setattr(HOME + "_Line", lambda *args: lines.append(args) or _Line(*args))
    exact.step(problem, state)
    D = lines[0][1]
    q = np.exp(logs)
    h = 1.0 + groups.margins(before + D)
    scores = np.hstack([np.zeros((len(q), 1)), h.reshape(len(q), -1) / state.tau])
    delta = scores - logs
    delta -= (q * delta).sum(axis=1, keepdims=True)
    full = (q + q * delta)[:, 1:].reshape(h.shape)
    pull = groups.adjoint(groups.C[:, None] * full) / rho
    np.testing.assert_allclose(pull, before + D, rtol=1e-6, atol=1e-8 * np.abs(before + D).max())


class HalfWay(NamedTuple):
    """A search that always makes the same share of the step."""

    length: float

    def minimise(self, line, slope):
        line.accept(self.length, line.evaluate(self.length)[0])
        return self.length


def stepped(length, is_last, **more):
    """Return a state before and after a step of this length, with its line; on the problem's own ridge, or not."""
    problem, solver = raw(), SmoothedNewton(SmoothedNewtonTuning(search=HalfWay(length), **more))
    state = begun(problem, 20 if is_last else 3)
    assert (state.rho == 1.0) == is_last
    state.cut = 0.0  # neither rho nor tau falls
    logs, lines = state.logs.copy(), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HOME + "_Line", lambda *args: lines.append(args) or _Line(*args))
        offered = []
        patch.setattr(SmoothedNewton, "_offer", lambda self, groups, state, shares: offered.append(shares))
        solver.step(problem, state)
    return state, logs, lines[0], offered


def scores_at(line, share, tau):
    h = (line[2] + share * line[3]).reshape(-1, 1) / tau
    return np.hstack([np.zeros_like(h), h])


def test_shares_follow_the_end_of_a_cut_step_while_the_ridge_falls():
    state, logs, line, offered = stepped(0.5, is_last=False)
    expected = followed(logs, np.exp(logs), scores_at(line, 1.0, state.tau), SmoothedNewtonTuning().floor)
    np.testing.assert_allclose(state.logs, expected, atol=1e-12)
    assert not offered


def test_shares_follow_the_weights_on_the_last_ridge_and_the_dual_point_a_whole_step():
    state, logs, line, offered = stepped(0.5, is_last=True)
    q, floor = np.exp(logs), SmoothedNewtonTuning().floor
    np.testing.assert_allclose(state.logs, followed(logs, q, scores_at(line, 0.5, state.tau), floor), atol=1e-12)
    delta = scores_at(line, 1.0, state.tau) - logs
    delta -= (q * delta).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(offered[0].reshape(-1, 1), _feasible((q + q * delta)[:, 1:]), atol=1e-12)


def test_shares_begin_anew_after_a_step_that_is_next_to_nothing():
    state, _, line, _ = stepped(0.05, is_last=True)
    np.testing.assert_allclose(state.logs, log_softmax(scores_at(line, 0.05, state.tau)), atol=1e-12)


def test_residuals_get_smaller_after_a_cut_step():
    exact = SmoothedNewtonTuning().least_exact
    assert stepped(1.0, is_last=False, flat=0.0)[0].exact == exact
    assert stepped(0.5, is_last=False, flat=0.0)[0].exact == exact / SmoothedNewtonTuning().tighten
    assert stepped(0.5, is_last=False, flat=1e9)[0].exact == exact  # F is flat there


def test_the_best_shares_are_kept():
    problem, solver = raw(), SmoothedNewton()
    state = begun(problem, 20)
    good, bound = state.shares.copy(), state.bound
    assert bound > 0.0
    solver._offer(state.groups, state, np.zeros_like(good))
    np.testing.assert_array_equal(state.shares, good)
    assert state.bound == bound
    assert solver.estimate(problem, state) == pytest.approx(problem.certificate(solver.point(problem, state)).residual)


def test_corners_get_no_sharper_than_the_gap_needs():
    problem = raw()
    taus = {}
    for tol in (1e-2, 1e-5):
        states = []
        fit(problem, Watched(states=states), tol=tol)
        taus[tol] = states[-1].tau
    assert taus[1e-5] < 0.1 * taus[1e-2] < 0.01


@dataclass(frozen=True)
class Watched(SmoothedNewton):
    """Remember the states."""

    states: list = field(default_factory=list)

    def step(self, problem, state):
        self.states.append(state)
        return super().step(problem, state)


@both_losses
def test_f_along_a_line_has_its_slope_and_curvature(multiclass):
    state = begun(problem := raw(multiclass), 4)
    groups, rng = state.groups, np.random.default_rng(0)
    D = groups.all_columns(1e-3 * rng.standard_normal((groups.D, groups.n_blocks)))
    line = _Line(state, D, 1.0 + groups.margins(state.V), groups.margins(D), groups.C, multiclass == "crammer_singer")
    t, step = 0.7, 1e-4
    value, slope, curvature = line.evaluate(t)
    low, high = line.evaluate(t - step), line.evaluate(t + step)
    np.testing.assert_allclose((high[0] - low[0]) / (2 * step), slope, rtol=1e-5)
    np.testing.assert_allclose((high[1] - low[1]) / (2 * step), curvature, rtol=1e-5)
    h = (1.0 + augmented_margins(problem, groups, state.V + t * D)) / state.tau
    is_joint = multiclass == "crammer_singer"
    losses = np.log1p(np.exp(h).sum(axis=1)) if is_joint else np.log1p(np.exp(h)).sum(axis=1)
    F = state.tau * float(groups.C @ losses) + 0.5 * state.rho * float(np.vdot(state.V + t * D, state.V + t * D))
    np.testing.assert_allclose(value, F, rtol=1e-12)


def augmented_margins(problem, groups, V):
    """Compute (W_j - W_y)' x sample by sample."""
    scores = augmented(problem)[groups.order] @ groups.weights(V)
    y, k = groups.y, groups.k
    others = np.array([np.delete(np.arange(k), label) for label in y])
    return np.take_along_axis(scores, others, axis=1) - scores[np.arange(len(y)), y][:, None]


def test_a_smaller_ridge_keeps_the_pull_of_all_shares():
    logs = log_softmax(np.random.default_rng(0).standard_normal((5, 3)))
    before = np.exp(logs)
    labels = np.array([0, 0, 1, 2, 0])
    lower_others(logs, labels, 0.25)
    after = np.exp(logs)
    is_other = np.arange(3) != labels[:, None]
    np.testing.assert_allclose(after[is_other], 0.25 * before[is_other])
    np.testing.assert_allclose(after.sum(axis=1), 1.0)


def test_shares_follow_scores_and_do_not_leave_the_simplex():
    rng = np.random.default_rng(1)
    logs, scores = log_softmax(5.0 * rng.standard_normal((20, 4))), 5.0 * rng.standard_normal((20, 4))
    for _ in range(60):
        logs = followed(logs, np.exp(logs), scores, 0.1)
        np.testing.assert_allclose(np.exp(logs).sum(axis=1), 1.0)
    np.testing.assert_allclose(logs, log_softmax(scores), atol=1e-10)


def test_shares_next_to_zero_grow_to_the_floor_at_once():
    logs = log_softmax(np.array([[0.0, -400.0]]))
    grown = np.exp(followed(logs, np.exp(logs), np.array([[0.0, 3.0]]), 0.1))
    assert 0.05 < grown[0, 1] < 0.15
    still = np.exp(followed(logs, np.exp(logs), np.array([[0.0, -5.0]]), 0.1))
    np.testing.assert_allclose(still[0, 1], np.exp(log_softmax(np.array([[0.0, -5.0]])))[0, 1], rtol=1e-2)


def test_shares_are_made_feasible_row_by_row():
    found = _feasible(np.array([[-0.1, 0.4], [0.9, 0.6], [0.2, 0.3]]))
    np.testing.assert_allclose(found, [[0.0, 0.4], [0.6, 0.4], [0.2, 0.3]])


@both_losses
def test_a_factor_that_serves_many_steps_leads_to_the_same_end(multiclass, monkeypatch):
    problem, made = raw(multiclass), []
    monkeypatch.setattr(HOME + "factored", lambda *args: made.append(1) or factored(*args))
    anew = fit(problem, SmoothedNewton(SmoothedNewtonTuning(worn=0.0)), tol=1e-6)
    n_anew = len(made)
    monkeypatch.setattr(HOME + "factor_products", lambda _: 40.0)
    kept = fit(problem, tol=1e-6)
    assert anew.status is kept.status is Status.CONVERGED
    assert len(made) - n_anew < 0.8 * n_anew
    np.testing.assert_allclose(kept.certificate.primal, anew.certificate.primal, rtol=3e-6)


def test_a_factor_of_float32_leads_to_the_same_end(monkeypatch):
    problem = raw()
    monkeypatch.setattr(HOME + "is_single_worth", lambda _: True)
    assert begun(problem, 1).is_single
    assert fit(problem, tol=1e-6).status is Status.CONVERGED


@both_losses
@pytest.mark.parametrize("name", ["tiles", "bias", "binary"])
def test_samples_that_do_not_bend_are_left_out_of_products_and_matrices(name, multiclass):
    problem = make_problem(name, multiclass)
    groups, rng = LabelGroups(problem, LabelGroups.find_order(problem)), np.random.default_rng(0)
    stiffness, V = rng.random((groups.n, groups.k - 1)), rng.standard_normal((groups.D, groups.n_columns))
    stiffness[rng.random(groups.n) < 0.6] = 0.0
    slope = 0.1 * rng.random(groups.n) if groups.k > 2 and multiclass == "crammer_singer" else None
    some, mine, bows = _bent(groups, stiffness, slope, 0.7)
    assert some.n < groups.n
    np.testing.assert_allclose(some.newton_matrix(mine, bows), groups.newton_matrix(stiffness, slope), atol=1e-12)
    both = [
        at.adjoint(stiffened(theta, bow, at.margins(V)))
        for at, theta, bow in ((some, mine, bows), (groups, stiffness, slope))
    ]
    np.testing.assert_allclose(*both, atol=1e-12)
    assert _bent(groups, stiffness, slope, 0.1)[0] is groups


@both_losses
def test_the_first_point_is_the_given_one(multiclass):
    problem = raw(multiclass)
    start = fit(problem, DualBlockDescent(), max_iter=5).point
    state = SmoothedNewton().start(problem, start, np.random.default_rng(0))
    np.testing.assert_allclose(SmoothedNewton().point(problem, state).weights, start.weights)


def test_no_sample_with_a_price_leaves_nothing_to_do():
    assert fit(make_problem("blobs", C=0.0)).status is Status.CONVERGED


def test_too_many_unknowns_are_refused():
    X = np.ones((4, MAX_UNKNOWNS))
    with pytest.raises(IncompatibleError, match=r"SmoothedNewton holds a Newton matrix.*Use DualBlockDescent"):
        fit(MulticlassSVM(X, np.array([0, 1, 2, 1])))


@pytest.mark.parametrize("C", [1e-6, 1e6])
@both_losses
def test_prices_of_any_size_have_an_honest_end(C, multiclass):
    problem = raw(multiclass, C=C, seed=3)
    result = fit(problem, tol=1e-3, max_iter=60)
    other = fit(problem, InteriorPoint(), tol=1e-6).certificate
    assert result.certificate.primal >= other.bound
    assert result.certificate.bound <= other.primal


def shaped(n, d, k, share, size):
    """Make a problem of this shape, with rows of about this square."""
    rng = np.random.default_rng(0)
    X = (rng.random((n, d)) < share) * np.sqrt(size / (share * d))
    return csr_matrix(X), np.arange(n) % k


def test_auto_takes_it_where_a_factor_is_dear():
    """At once where rows share their features, after a look at block descent where they are thin."""
    X, y = shaped(21_000, 700, 10, 0.2, 1e4)  # too many rows for descent on inner products
    assert find_solver("auto", MulticlassSVM(X, y)) == SmoothedNewton()
    assert find_solver("auto", MulticlassSVM(X, y, C=3.0, multiclass="crammer_singer")) == SmoothedNewton()
    steep = {50.0: "smoothed_newton", 1e3: "smoothed_interior_point", 1e9: "interior_point"}
    for (C, name), multiclass in product(steep.items(), LOSS_NAMES):
        assert finisher_of(MulticlassSVM(X, y, C=C, multiclass=multiclass), "block_descent").name == name
    gentle = find_solver("auto", MulticlassSVM(X, y, C=1e-3))
    assert gentle == HandOver(DualBlockDescent(), SmoothedNewton(), patience=1.0)
    thin, y = shaped(3000, 900, 10, 0.05, 1e4)
    assert find_solver("auto", MulticlassSVM(thin, y)) == HandOver(DualBlockDescent(), SmoothedNewton(), patience=1.0)
    small, y = shaped(3000, 30, 10, 0.5, 1e4)
    assert finisher_of(MulticlassSVM(small, y), "block_descent").name == "interior_point"


def test_auto_takes_it_for_crammer_singer_where_there_are_many_pairs():
    """After a look at block descent: where a factor is cheap, that may be done soon."""
    X, y = shaped(3000, 30, 10, 0.5, 1e4)
    joint = MulticlassSVM(X, y, multiclass="crammer_singer")
    chosen = find_solver("auto", joint)
    assert isinstance(chosen, HandOver)
    assert chosen.then == SmoothedNewton()
    few = MulticlassSVM(X[:300], y[:300], multiclass="crammer_singer")
    assert finisher_of(few, "block_descent").name == "interior_point"
    steep = MulticlassSVM(X, y, C=1e4, multiclass="crammer_singer")
    assert finisher_of(steep, "block_descent").name == "interior_point"


def test_products_in_the_time_of_a_factor_are_counted_as_it_is_made():
    """On mnist by the clock: a factor with its squares 2.5 s, a product with a solution 45 ms; Crammer-Singer 5 s."""
    X, y = shaped(20_000, 700, 10, 0.22, 1e4)
    separate, joint = (factor_products(MulticlassSVM(X, y, multiclass=name)) for name in LOSS_NAMES)
    assert 25.0 < separate < 100.0
    assert separate < joint < 4.0 * separate


def test_groups_are_made_again_after_a_checkpoint():
    problem = raw()
    state = begun(problem, 5)
    groups, state.groups = state.groups, None
    assert isinstance(SmoothedNewton()._groups(problem, state), LabelGroups)
    assert state.groups is not groups
