"""Dual descent for multinomial regression: every block is the minimiser, every run meets the optimum."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import expit, wrightomega
from sklearn.linear_model import LogisticRegression

from reference.ridge_softmax import FORMS, PRICES, RIDGE, assert_meets_optimum, make, optimum, ridge_of, samples
from reference.softmax_optimum import objective, softmax_optimum
from softmargin import blocks
from softmargin.backends.jit import jit
from softmargin.backends.lanes import WIDTH, padded, pointer
from softmargin.blocks import NEVER
from softmargin.blocks.softmax import SURE
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.matrices.equal_rows import contradictions
from softmargin.penalties import L1
from softmargin.problems import CompositePoint, softmax_problem
from softmargin.run import Status, Stop, solve
from softmargin.solvers import SoftmaxDualDescent
from softmargin.solvers.softmax._equal_samples import level
from softmargin.solvers.softmax._losses import SoftmaxLosses

EXACT = blocks.SoftmaxBlock(accuracy=1e-9, still=0.0)
EXACT_PAIR = blocks.LogisticBlock(accuracy=1e-14)
SOLVERS = {
    "working set": SoftmaxDualDescent(),
    "plain": SoftmaxDualDescent(working_set=False),
    "cyclic": SoftmaxDualDescent(order="cyclic"),
}
# Clarabel warns where it stops a little short of 1e-11.
pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
every_solver = pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
every_k = pytest.mark.parametrize("k", [2, 3, 5, 26])
with_and_without_intercept = pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "no intercept"])
stiffness = st.floats(-8.0, 8.0).map(lambda x: 10.0**x)
# Ties, and scores so far apart that all but one probability vanish.
scores_of = st.one_of(st.floats(-5.0, 5.0), st.sampled_from([0.0, 1.0, -30.0, 40.0, -1e4, 1e5]))


# One block


@jit
def _visit(block, scores, label, q, C, row, work):
    bare = work.bare_workspace()
    n_tiles = work.lists.shape[1]
    return block.block_step(pointer(scores), label, q, C, pointer(row), 0, bare.tiles, n_tiles, bare, 0.0)


def visit(block, scores, t, Q, label=0):
    """Return log q (a logit for one column) after a step, C (old - new), and the gap before it; C = Q, |x|^2 = 1."""
    k = len(scores)
    work = blocks.new_workspace(k)
    G, row = np.full(padded(k), NEVER), np.full(padded(k), SURE)
    G[:k], row[:k] = scores, t
    G[label] -= 1.0
    gap, n_changed, _ = _visit(block, G, label, 1.0, Q, row, work)
    step = np.zeros(padded(k))
    for tile in work.lists[2, :n_changed]:
        step[tile : tile + WIDTH] = work.numbers[2, tile : tile + WIDTH]
    assert not step[k:].any()
    return row[:k], step[:k], gap


def extended(q):
    """Return q in extended precision, with sum one."""
    q = np.asarray(q, dtype=np.longdouble)
    return q / q.sum()


def value(q, scores, old, Q):
    """Return sum q log q - <q, s> + Q/2 |q - old|^2; scores count from the largest."""
    q, old = extended(q), extended(old)
    s = np.asarray(scores, dtype=np.longdouble) - np.max(scores)
    logs = np.log(q, out=np.zeros_like(q), where=q > 0)
    return q @ logs - q @ s + Q / 2 * ((q - old) @ (q - old))


def minimiser(scores, old, Q):
    """Return the q of the optimality condition, omega(s + Q old + mu + log Q) / Q; mu by Brent's method."""
    u = scores - np.max(scores) + Q * old

    def q_of(mu):
        return wrightomega(u + mu + np.log(Q)) / Q

    return q_of(brentq(lambda mu: q_of(mu).sum() - 1.0, -u.max() - 50.0, Q - u.max() + 1.0, xtol=1e-14, rtol=1e-15))


def log_softmax(v):
    v = np.asarray(v, dtype=float)
    return v - v.max() - np.log(np.exp(v - v.max()).sum())


@st.composite
def rows(draw):
    """Draw scores, old log-probabilities (some of them of no chance at all) and Q."""
    k = draw(st.integers(3, 30))
    scores = np.array(draw(st.lists(scores_of, min_size=k, max_size=k)))
    if draw(st.booleans()):
        t = np.full(k, SURE)
        t[draw(st.integers(0, k - 1))] = 0.0
    else:
        t = log_softmax(draw(st.lists(st.floats(-40.0, 5.0), min_size=k, max_size=k)))
    return scores, t, draw(stiffness)


@given(rows(), st.data())
def test_softmax_block_is_the_minimiser(row, data):
    scores, t, Q = row
    old = np.exp(t)
    label = data.draw(st.integers(0, len(scores) - 1))
    new, step, _ = visit(EXACT, scores, t, Q, label)
    assert np.isfinite(new).all()
    assert np.exp(new).sum() == pytest.approx(1.0, abs=1e-13)
    best = minimiser(scores, old, Q)
    excess = value(np.exp(new), scores, old, Q) - value(best, scores, old, Q)
    assert abs(excess) <= 1e-10
    np.testing.assert_allclose(np.exp(new), best, rtol=0, atol=1e-7)
    np.testing.assert_allclose(step, Q * (old - np.exp(new)), rtol=0, atol=1e-14 * Q)


@given(rows())
@example((np.r_[np.zeros(19), 40.0, -1e4], log_softmax(np.r_[np.zeros(20), -2.0]), 1.0))
def test_hasty_softmax_block_never_loses_and_gains_much_where_scores_are_modest(row):
    """What the descent uses. A rare class with a score of -10,000 may have to wait for the next visit."""
    scores, t, Q = row
    old = np.exp(t)
    new, _, _ = visit(blocks.SoftmaxBlock(), scores, t, Q)
    start, best = value(old, scores, old, Q), value(minimiser(scores, old, Q), scores, old, Q)
    share = 0.5 if np.ptp(scores) <= 50.0 else 0.0
    assert start - value(np.exp(new), scores, old, Q) >= share * (start - best) - 1e-10
    assert np.exp(new).sum() == pytest.approx(1.0, abs=1e-13)


@given(rows())
def test_gap_of_a_row_is_what_fenchel_and_young_say(row):
    """C (lse(s) - max over q of <q, s> + H(q)): zero exactly at the softmax of the scores."""
    scores, t, Q = row
    s = np.asarray(scores, dtype=np.longdouble) - np.max(scores)
    log_q = np.asarray(t, dtype=np.longdouble)
    expected = np.log(np.exp(s).sum()) + np.exp(log_q) @ (log_q - s)
    size = 1.0 + np.exp(t) @ np.abs(t) + np.exp(t) @ np.abs(scores - np.max(scores))
    assert visit(EXACT, scores, t, Q)[2] == pytest.approx(float(Q * expected), rel=1e-9, abs=1e-13 * Q * float(size))
    at_rest = np.maximum(log_softmax(scores), SURE)
    assert 0.0 <= visit(EXACT, scores, at_rest, Q)[2] <= 1e-13 * Q * (1.0 + np.exp(at_rest) @ np.abs(at_rest))


@given(scores_of, st.one_of(st.floats(-40.0, 40.0), st.sampled_from([SURE, -SURE])), stiffness, st.integers(0, 1))
def test_logistic_block_is_the_minimiser(score, t, Q, label):
    new, step, gap = visit_pair(score, t, Q, label)
    old = expit(t)
    u = score + Q * old
    best = brentq(lambda x: x + Q * (expit(x) - old) - score, u - Q - 1.0, u + 1.0, xtol=1e-13, rtol=1e-15)
    scores, before = np.array([0.0, score]), [expit(-t), old]
    values = [value([expit(-x), expit(x)], scores, before, 2.0 * Q / 2.0 / 2.0) for x in (new, best)]
    assert abs(values[0] - values[1]) <= 1e-10
    assert step == pytest.approx(Q * (old - expit(new)), abs=1e-14 * Q)
    assert gap >= 0.0


def visit_pair(score, t, Q, label):
    """Visit a row of two classes: one column, and the label shifts the score only where it is class 0."""
    work = blocks.new_workspace(1)
    G, row = np.full(WIDTH, NEVER), np.full(WIDTH, SURE)
    G[0], row[0] = score, t
    G[label] -= 1.0
    gap, _, _ = _visit(EXACT_PAIR, G, label, 1.0, Q, row, work)
    return row[0], work.numbers[2, 0], gap


@given(st.floats(-5.0, 5.0), st.floats(-5.0, 5.0), stiffness)
def test_two_columns_are_one_with_half_the_stiffness(score, t, Q):
    """(q, 1 - q) moves by (d, -d), so that its square counts twice."""
    pair, _, _ = visit(EXACT, np.array([0.0, score]), log_softmax([0.0, t]), Q / 2.0)
    alone, _, _ = visit_pair(score, t, Q, 1)
    np.testing.assert_allclose(np.exp(pair[1]), expit(alone), rtol=1e-9, atol=1e-12)


# Whole runs


def fit(problem, solver=SOLVERS["working set"], *, tol=1e-9, max_iter=5000, rng=0, **more):
    return solve(problem, solver, stop=Stop(tol, max_iter), rng=rng, **more)


@every_solver
@every_k
@with_and_without_intercept
@pytest.mark.parametrize("prices", PRICES)
def test_solver_meets_the_optimum_of_cvxpy_honestly(solver, k, fit_intercept, prices):
    value, W, b = optimum(k, prices, fit_intercept)
    problem = make(k, C=PRICES[prices], fit_intercept=fit_intercept)
    result = fit(problem, solver)
    assert_meets_optimum(result, problem, value, W, b)


@every_k
@with_and_without_intercept
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_solver_meets_scikit_learn(k, fit_intercept, C):
    X, y = samples(k=k)
    theirs = LogisticRegression(C=C / RIDGE, fit_intercept=fit_intercept, tol=1e-12, max_iter=10_000).fit(X, y)
    value = objective(X, y, C, theirs.coef_.T, theirs.intercept_, ridge_of)
    result = fit(make(k, C=C, fit_intercept=fit_intercept), tol=1e-11)
    assert result.certificate.primal == pytest.approx(value, rel=1e-8)
    np.testing.assert_allclose(result.point.weights, theirs.coef_.T, atol=1e-4)


@pytest.mark.parametrize("k", [2, 5])
@with_and_without_intercept
def test_dense_is_csr_is_float32(k, fit_intercept):
    problems = [make(k, form=form, fit_intercept=fit_intercept) for form in FORMS.values()]
    results = [fit(problem, tol=0.0, max_iter=5).point for problem in problems]
    for result in results[1:]:
        np.testing.assert_allclose(result.weights, results[0].weights, atol=1e-9)
        np.testing.assert_allclose(result.intercept, results[0].intercept, atol=1e-9)


def dual_value(problem, state):
    """Return sum C H(q) - |X' C (Y - q)|^2 / (2 ridge), from the rows of log q alone."""
    n, k = len(problem.y), problem.n_columns
    t = state.alpha.reshape(n, -1)[:, :k].astype(np.longdouble)
    q = np.exp(t)
    if problem.is_pinned:
        q = 1 / (1 + np.exp(-t))
        q, t = np.hstack([1 - q, q]), np.hstack([-np.logaddexp(0, t), -np.logaddexp(0, -t)])
    Y = np.eye(problem.n_classes)[problem.y]
    W = problem.X.T @ (problem.C[:, None] * (Y - q))
    W = W[:, 1:] if problem.is_pinned else W
    return float(-problem.C @ (q * t).sum(axis=1) - (W**2).sum() / (2 * problem.ridge))


@every_solver
@every_k
@pytest.mark.parametrize("C", [0.05, 1.0, 300.0])
def test_dual_value_never_falls(solver, k, C):
    problem = make(k, C=C, fit_intercept=False)
    state = solver.start(problem, None, np.random.default_rng(0))
    values = [dual_value(problem, state)]
    for _ in range(60):
        state = solver.step(problem, state)
        values.append(dual_value(problem, state))
    assert values[0] == 0.0
    assert (np.diff(values) >= -1e-13 * values[-1]).all()
    assert values[-1] <= problem.primal(solver.point(problem, state)).value * (1 + 1e-13)


@every_k
@with_and_without_intercept
def test_descent_keeps_weights_of_its_dual_variables(k, fit_intercept):
    """What is accumulated visit by visit is X' alpha / ridge, and the rows still sum to one."""
    problem, solver = make(k, C=3.0, fit_intercept=fit_intercept), SOLVERS["working set"]
    state = solver.start(problem, None, np.random.default_rng(0))
    for _ in range(40):
        state = solver.step(problem, state)
    kept = state.weights.reshape(problem.X.shape[1] + 1, -1)[:-1, : problem.n_columns]
    np.testing.assert_allclose(kept, solver.point(problem, state).weights, atol=1e-10)
    if k > 2:
        rows = np.exp(state.alpha.reshape(len(problem.y), -1)[:, :k])
        np.testing.assert_allclose(rows.sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("k", [2, 5])
def test_estimate_is_about_the_gap_of_the_dual_variables(k):
    problem, solver = make(k, fit_intercept=False), SOLVERS["plain"]
    state = solver.start(problem, None, np.random.default_rng(0))
    shares = []
    for _ in range(60):
        state = solver.step(problem, state)
        primal = problem.primal(solver.point(problem, state)).value
        gap = (primal - dual_value(problem, state)) / primal
        if 1e-9 < gap < 1e-2:
            shares.append(solver.estimate(problem, state) / gap)
    assert len(shares) > 5
    assert 0.2 < min(shares) < max(shares) < 30.0


@every_k
def test_estimate_falls_to_zero_with_an_intercept(k):
    problem, solver = make(k, C=2.0), SOLVERS["working set"]
    state = solver.step(problem, solver.start(problem, None, np.random.default_rng(0)))
    while solver.estimate(problem, state) > 1e-11:
        state = solver.step(problem, state)
    assert problem.certificate(solver.point(problem, state)).residual <= 1e-8


@every_solver
@every_k
@with_and_without_intercept
def test_restart_keeps_the_weights(solver, k, fit_intercept):
    problem = make(k, C=PRICES["vector"], fit_intercept=fit_intercept)
    first = fit(problem, solver, tol=1e-8)
    again = fit(problem, solver, tol=2e-8, init=first.point)
    np.testing.assert_allclose(again.point.weights, first.point.weights, rtol=1e-10, atol=1e-12)  # by way of log q


@pytest.mark.parametrize("k", [2, 5])
@with_and_without_intercept
def test_warm_start_at_another_price_begins_near_its_own_weights(k, fit_intercept):
    solver = SOLVERS["working set"]
    cheap = fit(make(k, C=1.0, fit_intercept=fit_intercept), tol=1e-11).point
    dear = make(k, C=10.0, fit_intercept=fit_intercept)
    state = solver.start(dear, cheap, np.random.default_rng(0))
    weights = state.weights.reshape(dear.X.shape[1] + 1, -1)[:-1, : dear.n_columns]
    np.testing.assert_allclose(weights, cheap.weights, atol=1e-3)
    warm = fit(dear, init=cheap)
    assert warm.status is Status.CONVERGED
    assert warm.certificate.primal == pytest.approx(fit(dear).certificate.primal, rel=1e-8)


@with_and_without_intercept
@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("scale", [0.0, 1.0, 1e4])
def test_any_garbage_is_a_valid_start(k, fit_intercept, scale):
    problem = make(k, C=PRICES["vector"], fit_intercept=fit_intercept)
    rng = np.random.default_rng(1)
    init = CompositePoint(scale * rng.standard_normal((6, problem.n_columns)), rng.standard_normal(problem.n_columns))
    kept = init.weights.copy()
    value, _, _ = optimum(k, "vector", fit_intercept)
    assert fit(problem, init=init).certificate.primal == pytest.approx(value, rel=1e-8)
    np.testing.assert_array_equal(init.weights, kept)


def awkward(name, k):
    """Return X, y, and settings of a problem that is well posed, but unusual."""
    X, y = (array.copy() for array in samples(k=k))
    if name == "zero rows":
        X[:40] = 0.0
    elif name == "nothing but zeros":
        X[:] = 0.0
    elif name == "contradictory duplicates":
        X[:] = X[0]
    elif name == "duplicates":
        X = np.repeat(X[:26], 6, axis=0)
    elif name == "constant column":
        X[:, 0] = 1.0
    elif name == "rare class":
        y = np.where(np.arange(len(y)) < k, np.arange(len(y)), 0)
    elif name == "huge features":
        X *= 1e3
    elif name == "tiny features":
        X *= 1e-4
    return X, y


@pytest.mark.parametrize("k", [2, 5])
@with_and_without_intercept
@pytest.mark.parametrize(
    "name",
    [
        "zero rows",
        "nothing but zeros",
        "contradictory duplicates",
        "duplicates",
        "constant column",
        "rare class",
        "tiny features",
    ],
)
def test_awkward_data_have_their_optimum(k, fit_intercept, name):
    X, y = awkward(name, k)
    ridge = lambda W: (0.5 * RIDGE * cp.sum_squares(W), [])  # noqa: E731
    value, _, _ = softmax_optimum(X, y, 1.0, ridge, n_classes=k, fit_intercept=fit_intercept)
    result = fit(make(X=X, y=y, fit_intercept=fit_intercept), tol=1e-8)
    assert result.status is Status.CONVERGED
    assert result.certificate.primal == pytest.approx(value, rel=2e-8)


@every_k
@with_and_without_intercept
@pytest.mark.parametrize("C", [1e-10, 1e-6])
def test_tiny_price_leaves_the_intercept_alone(k, fit_intercept, C):
    result = fit(make(k, C=C, fit_intercept=fit_intercept), tol=1e-6)
    assert result.status is Status.CONVERGED
    assert result.certificate.primal == pytest.approx(156 * C * np.log(k), rel=1e-4)


@every_k
@with_and_without_intercept
@pytest.mark.parametrize("C", [1e3, 1e8])
def test_huge_price_is_slow_but_sound(k, fit_intercept, C):
    problem, solver = make(k, C=C, fit_intercept=fit_intercept), SOLVERS["working set"]
    result = fit(problem, solver, tol=0.0, max_iter=200)
    assert np.isfinite(result.point.weights).all()
    assert np.isfinite(result.certificate.primal)
    assert result.certificate.bound <= result.certificate.primal
    state = solver.start(problem, result.point, np.random.default_rng(0))
    assert np.isfinite(solver.step(problem, state).alpha).all()


@pytest.mark.parametrize("present", [2, 3])
def test_class_without_samples_gets_no_weight(present):
    X, y = samples(k=present)
    result = fit(make(X=X, y=y, n_classes=6), tol=1e-9)
    assert result.status is Status.CONVERGED
    P = np.exp(make(X=X, y=y, n_classes=6).scores(result.point))
    P /= P.sum(axis=1, keepdims=True)
    assert P[:, present:].max() <= 1e-9


def test_single_class_and_no_price_cost_nothing():
    X, _ = samples()
    alone = fit(make(X=X, y=np.zeros(156, dtype=int), n_classes=2), max_iter=20)
    assert alone.certificate.primal <= 1e-8
    free = fit(make(C=0.0), tol=1e-9)
    assert (free.status, free.certificate.primal) == (Status.CONVERGED, 0.0)
    np.testing.assert_array_equal(free.point.weights, 0.0)


def test_working_set_sees_every_row_again():
    """Rows outside the set are visited at the next full pass: both ways meet the same optimum to the last digits."""
    problem = make(26, C=30.0)
    values = [fit(problem, solver, tol=1e-12).certificate.primal for solver in SOLVERS.values()]
    np.testing.assert_allclose(values, values[0], rtol=1e-11)


@pytest.mark.parametrize("k", [2, 4])
def test_equal_samples_of_other_labels_share_their_probabilities(k):
    """W stays the same, D does not fall, and q is the mean of each set by its prices; a set without one keeps its q."""
    rng = np.random.default_rng(1)
    X = np.repeat(rng.standard_normal((6, 3)), 4, axis=0)
    C = rng.random(24) * np.repeat([1.0, 1.0, 1.0, 1.0, 1.0, 0.0], 4)
    problem = make(X=X, y=np.arange(24) % k, C=C, fit_intercept=False)
    solver = SOLVERS["working set"]
    state = solver.start(problem, None, rng)
    losses, logs = SoftmaxLosses(problem), 3.0 * rng.standard_normal((24, k))
    logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
    losses.matrix(state.alpha)[:] = logs[:, 1:] - logs[:, :1] if k == 2 else logs
    state.first = np.empty(0)
    before, q = solver.point(problem, state), np.exp(logs)
    samples_, sets = contradictions(problem.X, problem.y)
    assert len(samples_) == 24
    level(losses, state.alpha, samples_, sets)
    after = solver.point(problem, state)
    np.testing.assert_allclose(after.weights, before.weights, atol=1e-13)
    for rows in np.arange(20).reshape(5, 4):
        np.testing.assert_allclose(after.dual[rows], np.tile(np.average(q[rows], axis=0, weights=C[rows]), (4, 1)))
    np.testing.assert_allclose(after.dual[20:], q[20:])
    entropies = [-(C @ (p * np.log(p)).sum(axis=1)) for p in (q, after.dual)]
    assert entropies[1] > entropies[0]


@pytest.mark.parametrize("k", [2, 3])
@with_and_without_intercept
def test_equal_samples_of_other_labels_do_not_delay_the_descent(k, fit_intercept):
    """Visits of single rows would need about C |x|^2 = 3e4 passes."""
    X, y = samples(d=300, k=k)
    X, y = 10.0 * np.vstack([X, X[:40]]), np.concatenate([y, (y[:40] + 1) % k])
    result = fit(make(X=X, y=y, fit_intercept=fit_intercept), SOLVERS["working set"], tol=1e-3, max_iter=300)
    assert result.status is Status.CONVERGED


def test_without_a_ridge_it_is_refused():
    with pytest.raises(IncompatibleError, match=r"needs a ridge > 0, to divide by; found 0\.0\. Use Lbfgs"):
        fit(make(ridge=0.0))
    with pytest.raises(IncompatibleError, match="needs a RidgeProblem"):
        fit(softmax_problem(*samples(), penalty=L1(1.0)))


def test_order_that_does_not_exist_is_refused():
    with pytest.raises(IncompatibleError, match="order='sorted' is unknown; choose one of permuted, cyclic"):
        SoftmaxDualDescent(order="sorted")


def test_rows_too_long_to_square_are_refused():
    X, y = samples()
    with pytest.raises(DataError, match="sample 3 has squared length inf"):
        fit(make(X=np.where(np.arange(len(X))[:, None] == 3, 1e200, X), y=y))
