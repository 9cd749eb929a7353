"""Losses summed over blocks of rows: the same optimum and the same certificate as the local problem, for any blocks."""

from copy import copy
from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from softmargin.data import blobs
from softmargin.losses.entrywise import ENTRYWISE, Hinge, Logistic, SmoothHinge, Squared, SquaredHinge
from softmargin.losses.joint import JOINT
from softmargin.losses.multinomial import one_hot
from softmargin.losses.smoothed import bent, curvature_diagonal, curvature_times
from softmargin.penalties import L1, L2, ElasticNet
from softmargin.problems import Constrained, Penalized
from softmargin.problems.block_rows import Block, Form
from softmargin.problems.blocks import LocalBlocks, summed
from softmargin.problems.summed import ConstrainedSum, PenalizedSum
from softmargin.problems.summed_passes import curvature, pull, scored
from softmargin.run import Stop, solve
from softmargin.sets import L1Ball
from softmargin.solvers import BallWorkingSet, PenalizedGradient, SummedLbfgs, SummedNewton, SummedProxNewton
from softmargin.solvers.summed.newton import SummedNewtonTuning
from softmargin.solvers.summed.prox_newton import SummedProxTuning
from softmargin.solvers.summed.sampled_start import SampleTuning

N, D, K = 160, 5, 3
X, Y = blobs(N, D, K, seed=3, separation=1.0)
SPARSE = csr_matrix(np.where(np.abs(X) > 0.3, X, 0.0))
WEIGHTS = np.random.default_rng(0).uniform(0.2, 1.5, N)
SIGNS = 2.0 * (Y == 1) - 1.0


def cut(n_blocks, X=X, y=Y, weights=WEIGHTS):
    """Return the rows in blocks, one of them empty where there are many."""
    ends = np.linspace(0, len(y), n_blocks + 1).astype(int)
    if n_blocks > 4:
        ends[2] = ends[1]
    return LocalBlocks([Block(X[a:b], y[a:b], weights[a:b]) for a, b in pairwise(ends)])


FORMS = {
    "multinomial": Form(JOINT["multinomial"], K, 1.0, True),
    "logistic": Form(Logistic(), 1, 1.0, True),
    "squared_hinge": Form(SquaredHinge(), K, 1.0, True),
    "penalised intercept": Form(SquaredHinge(), K, 2.0, False),
    "hinge": Form(Hinge(), K, 1.0, False),
    "free hinge": Form(Hinge(), 1, 1.0, True),
    "weston_watkins": Form(JOINT["weston_watkins"], K, 1.0, False),
    "crammer_singer": Form(JOINT["crammer_singer"], K, 1.0, False),
}
every_form = pytest.mark.parametrize("name", FORMS)


@every_form
def test_derivatives_are_those_of_the_losses(name):
    form, rng = FORMS[name], np.random.default_rng(1)
    problem = PenalizedSum(cut(2), form, L2(1.0))
    W, V = 0.5 * rng.normal(size=(2, *problem.shape))
    width, step = (0.0 if problem.is_smooth else 0.3), 1e-5
    _, G, drift = problem.scored(W, width)
    up, down = (problem.scored(W + side * step * V, width) for side in (1.0, -1.0))
    assert (up.values[0] - down.values[0]) / (2 * step) == pytest.approx(np.vdot(G, V), rel=1e-6)
    HV = problem.hessian_times(W, V, width)
    if "squared" not in name and name != "penalised intercept":  # whose second derivative jumps
        np.testing.assert_allclose((up.gradient - down.gradient) / (2 * step), HV, rtol=1e-5, atol=1e-5)
    H = problem.curvature(W, width).hessian
    whole = (H @ V.ravel()).reshape(V.shape) if H.ndim == 2 else np.stack([H[c] @ V[:, c] for c in range(len(H))], 1)
    np.testing.assert_allclose(whole, HV, rtol=1e-9, atol=1e-9)
    diagonal = (
        np.stack([np.diag(H[c :: len(V.T), c :: len(V.T)]) for c in range(len(V.T))], 1)
        if H.ndim == 2
        else (np.stack([np.diag(h) for h in H], 1))
    )
    np.testing.assert_allclose(problem.metric(W, width, 0), diagonal, rtol=1e-9)
    k, grams = len(V.T), problem.metric(W, width, len(V.T))
    parts = np.stack([H[c::k, c::k] for c in range(k)]) if H.ndim == 2 else H
    np.testing.assert_allclose(grams, parts, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(problem.metric(W, width, 1)[0], parts.mean(axis=0), rtol=1e-9, atol=1e-9)
    lacking = np.trace(parts - problem.metric(W, width, k, 0.5), axis1=1, axis2=2)
    assert (lacking >= -1e-9).all()
    assert (lacking <= 0.5).all()
    if not problem.is_smooth:
        wide, narrow = (problem.scored(W, width + side * step).gradient for side in (1.0, -1.0))
        np.testing.assert_allclose((wide - narrow) / (2 * step), drift, rtol=1e-5, atol=1e-5)
    lengths = np.array([0.25, 0.5])
    losses = problem.along(W, V, lengths, width)
    assert losses == pytest.approx([problem.scored(W + t * V, width).values[0] for t in lengths])


@pytest.mark.parametrize("name", ["weston_watkins", "crammer_singer"])
def test_slopes_of_a_rounded_corner_are_feasible_and_near_the_hinge(name):
    scores, target = np.random.default_rng(2).normal(size=(40, 4)), one_hot(np.arange(40) % 4, 4)
    loss = JOINT[name]
    for width in (1.0, 1e-3):
        values, U, _, entropies, _ = bent(loss, width, scores, target)
        conjugates = loss.conjugate(U, target)[:, 0]
        assert np.isfinite(conjugates).all()
        np.testing.assert_allclose(
            values, (U * scores).sum(axis=1) - conjugates + width * entropies, rtol=1e-9, atol=1e-12
        )
        assert (values >= loss.value(scores, target)[:, 0] - 1e-12).all()
        assert (values <= loss.value(scores, target)[:, 0] + width * 4.0 * np.log(4.0)).all()


@every_form
@pytest.mark.parametrize("n_blocks", [3, 16])
def test_the_certificate_is_the_same_for_any_blocks(name, n_blocks):
    whole, parts = (PenalizedSum(cut(m, SPARSE), FORMS[name], L2(1.0)) for m in (1, n_blocks))
    point = solve(whole, SummedNewton(), stop=Stop(0.1)).point
    point.weights[-1] += 0.01 * FORMS[name].is_free  # an intercept that the certificate has to improve
    expected, found = whole.certificate(point), parts.certificate(point)
    assert found.primal == pytest.approx(expected.primal, rel=1e-12)
    assert found.bound == pytest.approx(expected.bound, rel=1e-9)
    assert 0.0 < found.bound < found.primal


@pytest.mark.parametrize(
    ("loss", "penalty"),
    [("logistic", L2(1.0)), ("squared_hinge", L2(0.5)), ("squared", L1(2.0)), ("logistic", ElasticNet(1.0, 0.5))],
)
@pytest.mark.parametrize("is_free", [True, False])
def test_smooth_losses_reach_the_local_optimum(loss, penalty, is_free):
    form = Form(ENTRYWISE[loss], 1, float(is_free), is_free)
    problem = PenalizedSum(cut(3, y=SIGNS if loss == "squared" else Y), form, penalty)
    results = [
        solve(problem, solver, stop=Stop(1e-8, 200))
        for solver in ((SummedNewton(), SummedLbfgs()) if problem.ridge else (SummedProxNewton(),))
    ]
    assert all(result.certificate.meets(1e-8) for result in results)
    form = form if loss != "squared" else form._replace(loss=Squared())
    target = SIGNS[:, None] if loss == "squared" else form.targets(Y)
    local = Penalized(X, target, loss=form.loss, penalty=penalty, weights=WEIGHTS, fit_intercept=is_free)
    best = solve(local, PenalizedGradient(), stop=Stop(1e-9, 100_000)).certificate.primal
    assert [result.certificate.primal for result in results] == pytest.approx([best] * len(results), rel=2e-8)


def test_a_model_without_curvature_is_minimised():
    """At zero all rows lie on the linear piece of the loss; the eigenvalues of so large a matrix are left to ARPACK."""
    rng = np.random.default_rng(0)
    rows, y = rng.standard_normal((200, 80)), rng.random(200) < 0.5
    problem = PenalizedSum(LocalBlocks([Block(rows, y, np.ones(200))]), Form(SmoothHinge(), 1), L1(1e-6))
    result = solve(problem, SummedProxNewton(), stop=Stop(1e-3, 3), rng=0)
    assert np.isfinite(result.certificate.primal)


@pytest.mark.parametrize("name", ["multinomial", "free hinge", "weston_watkins"])
def test_newton_with_products_finds_what_newton_with_the_hessian_finds(name):
    problem = PenalizedSum(cut(3), FORMS[name], L2(1.0))
    by_hessian = solve(problem, SummedNewton(), stop=Stop(1e-4, 200))
    assert by_hessian.certificate.meets(1e-4)
    d, k = problem.shape
    for most_numbers in (k * d**2, d**2, 0):  # a Gram matrix for every column, one for all, and the diagonal
        found = solve(problem, SummedNewton(tuning=SummedNewtonTuning(most_numbers)), stop=Stop(1e-4, 400))
        assert found.certificate.meets(1e-4)
        assert found.certificate.primal == pytest.approx(by_hessian.certificate.primal, rel=2e-4)


@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_an_l1_ball_reaches_the_local_optimum(l2):
    form, p = Form(Logistic(), 1, 1.0, True), WEIGHTS / WEIGHTS.sum()
    problem = ConstrainedSum(cut(3, weights=p), form, L1Ball(1.5), l2)
    local = Constrained(X, form.targets(Y), loss=Logistic(), ball=L1Ball(1.5), l2=l2, weights=p, fit_intercept=True)
    best = solve(local, BallWorkingSet(), stop=Stop(1e-8, 10_000)).certificate.primal
    for most in (1 << 23, 4):  # a model, and steps along the gradient
        result = solve(problem, SummedProxNewton(SummedProxTuning(most_numbers=most)), stop=Stop(1e-6, 2000))
        assert result.certificate.meets(1e-6)
        assert result.certificate.primal == pytest.approx(best, rel=2e-6)


@pytest.mark.parametrize("penalty", [L1(2.0), ElasticNet(2.0, 0.5)], ids=["l1", "elastic net"])
def test_a_model_of_each_column_reaches_the_optimum_of_the_model_of_all(penalty):
    problem = PenalizedSum(cut(3), FORMS["multinomial"], penalty)
    (d, k), stop = problem.shape, Stop(1e-6, 200)
    whole = solve(problem, SummedProxNewton(), stop=stop)
    apart = solve(problem, SummedProxNewton(SummedProxTuning(most_numbers=k * d**2)), stop=stop)
    assert whole.n_iter < apart.n_iter
    assert whole.certificate.meets(1e-6)
    assert apart.certificate.primal == pytest.approx(whole.certificate.primal, rel=2e-6)


def test_curvature_helpers_agree():
    rng = np.random.default_rng(5)
    scores, target = rng.normal(size=(6, 4)), one_hot(np.arange(6) % 4, 4)
    for name in JOINT:
        bends = bent(JOINT[name], 0.2, scores, target).bends
        columns = [curvature_times(JOINT[name], bends, np.eye(4)[[c] * 6], target)[:, c] for c in range(4)]
        np.testing.assert_allclose(np.stack(columns, 1), curvature_diagonal(JOINT[name], bends, target), rtol=1e-12)


@pytest.mark.parametrize("form", [FORMS["logistic"], FORMS["weston_watkins"]], ids=["logistic", "weston_watkins"])
def test_numbers_that_begin_at_any_byte_give_the_same_bits(form):
    def moved(values, offset):
        buffer = np.empty(values.nbytes + 64, np.uint8)
        first = -buffer.ctypes.data % 64 + offset
        out = buffer[first : first + values.nbytes].view(values.dtype).reshape(values.shape)
        out[:] = values
        return out

    W, sums = np.random.default_rng(6).normal(size=(D + 1, form.n_columns)), np.zeros((2, form.n_columns))
    here, there = (Block(moved(X, offset), Y % form.n_columns, moved(WEIGHTS, offset)) for offset in (0, 4))
    for work, small in ((scored, (0.1,)), (curvature, (0.1,)), (pull, (0.1, sums, 1.0))):
        for a, b in zip(work(here, form, W, *small), work(there, form, W, *small), strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_tree_may_be_added_some_levels_at_a_time():
    values = [(v,) for v in np.random.default_rng(7).normal(size=37)]
    some = [summed(values[i : i + 16]) for i in range(0, 37, 16)]
    assert summed(some) == summed(values)


@pytest.mark.parametrize("name", ["logistic", "free hinge"])
def test_a_run_that_begins_at_a_sample_has_fewer_steps_and_the_same_optimum(name):
    rng = np.random.default_rng(8)
    many = rng.normal(size=(4000, D))
    y = (many[:, 0] + rng.normal(size=4000) > 0.3).astype(int)
    problem = PenalizedSum(cut(3, many, y, np.ones(4000)), FORMS[name], L2(1.0))
    tol = 1e-3
    sizes = {}
    for every in (10, 10**6):
        solver = SummedNewton(sample=SampleTuning(every=every))
        result = solve(problem, solver, stop=Stop(tol, 200))
        assert result.certificate.meets(tol)
        sizes[every] = result.n_iter, result.certificate.primal
    assert sizes[10][0] < sizes[10**6][0]
    assert sizes[10][1] == pytest.approx(sizes[10**6][1], rel=tol)


def test_near_the_optimum_the_hessian_is_kept_and_one_that_is_missing_is_that_of_its_weights():
    rng = np.random.default_rng(8)
    many = rng.normal(size=(4000, D))
    y = (many[:, 0] + rng.normal(size=4000) > 0.3).astype(int)
    problem = PenalizedSum(cut(3, many, y, np.ones(4000)), FORMS["logistic"], L2(1.0))
    solver = SummedNewton(sample=SampleTuning(every=10))
    first = solver.step(problem, solver.start(problem, None, rng))
    state = solver.step(problem, first)
    assert first.base is first.weights
    assert state.hessian is first.hessian
    assert not np.array_equal(state.weights, state.base)
    resumed = copy(state)
    resumed.hessian = None
    assert np.array_equal(solver.step(problem, resumed).weights, solver.step(problem, state).weights)
    assert solve(problem, solver, stop=Stop(1e-10, 12)).certificate.meets(1e-10)


def test_a_sample_unlike_the_rows_is_not_begun_at():
    many, y = np.ones((4000, 1)) * np.arange(4000)[:, None] % 10 - 4.5, np.arange(4000) % 10 == 5
    problem = PenalizedSum(cut(1, many, y.astype(int), np.ones(4000)), FORMS["logistic"], L2(1e-3))
    solver = SummedNewton(sample=SampleTuning(every=10))  # every tenth row: of one class
    assert not solver.start(problem, None, np.random.default_rng(0)).weights.any()
    assert solve(problem, solver, stop=Stop(1e-6, 50)).certificate.meets(1e-6)


@pytest.mark.parametrize("name", ["multinomial", "squared_hinge"])
@pytest.mark.parametrize("X", [X, SPARSE])
def test_the_hessian_of_some_entries_is_a_part_of_all_of_it(name, X):
    form, weights = FORMS[name], np.where(np.arange(N) % 7, WEIGHTS, 0.0)
    problem, entries = PenalizedSum(cut(2, X, Y, weights), form, L1(1.0)), np.array([0, 2, 3, 7, 8, 15, 16, 17])
    W = 0.5 * np.random.default_rng(1).normal(size=problem.shape)
    H = problem.curvature(W, 0.0).hessian
    if H.ndim == 3:
        H = np.einsum("cij,ce->icje", H, np.eye(K)).reshape(W.size, W.size)
    part = problem.curvature(W, 0.0, entries).hessian
    np.testing.assert_allclose(part, H[np.ix_(entries, entries)], atol=1e-10)
