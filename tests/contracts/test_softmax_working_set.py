"""Proximal Newton and MM descent with a working set: optimum, monotone descent, models, samples, awkward data."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from reference.softmax_optimum import softmax_optimum
from softmargin.backends.lanes import WIDTH, zeros
from softmargin.data import blobs
from softmargin.penalties import L0, L1, L2, MCP, SCAD, Box, ElasticNet, Group, GroupMCP, Nonnegative, SparseGroup
from softmargin.problems import CompositePoint, softmax_problem
from softmargin.run import Status, Stop, solve
from softmargin.solvers import MMDescent, ProxNewton
from softmargin.solvers.softmax._losses import SoftmaxLosses
from softmargin.solvers.softmax.quadratic_model.by_samples import AndersonTuning, EntryModel, LossExpansion, RowModel
from softmargin.solvers.softmax.quadratic_model.row_shifts import best_shifts
from softmargin.solvers.softmax.quadratic_model.samples import Samples, SampleTuning, draw, with_constant

SOLVERS = {"newton": ProxNewton(), "mm": MMDescent()}
every_solver = pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)


def rows_of_length(W):
    return cp.sum(cp.norm(W, 2, axis=1))


CONVEX = {
    "l2": (L2(0.7), lambda W: (0.35 * cp.sum_squares(W), [])),
    "l1": (L1(0.6), lambda W: (0.6 * cp.sum(cp.abs(W)), [])),
    "elastic net": (ElasticNet(0.3, 0.4), lambda W: (0.3 * cp.sum(cp.abs(W)) + 0.2 * cp.sum_squares(W), [])),
    "group": (Group(0.8), lambda W: (0.8 * rows_of_length(W), [])),
    "sparse group": (SparseGroup(0.4, 0.3), lambda W: (0.4 * rows_of_length(W) + 0.3 * cp.sum(cp.abs(W)), [])),
    "nonnegative": (Nonnegative(0.3), lambda W: (0.3 * cp.sum(W), [W >= 0])),
    "box": (Box(-0.2, 0.3, l2=0.1), lambda W: (0.05 * cp.sum_squares(W), [W >= -0.2, W <= 0.3])),
    "box off zero": (Box(0.1, 0.5), lambda W: (0.0, [W >= 0.1, W <= 0.5])),
}
NOT_CONVEX = {"mcp": MCP(0.8, 3.0), "scad": SCAD(0.8, 3.7), "l0": L0(1.0), "group mcp": GroupMCP(0.8)}


def small(k, seed=0, n=40, d=6):
    """Return classes that overlap, a third of their labels drawn by lot; prices are between 0 and about 1."""
    X, y = blobs(n, d, k, seed=seed)
    rng = np.random.default_rng(seed)
    C = rng.random(n) + 0.1
    C[:3] = 0.0
    return X, np.where(rng.random(n) < 1 / 3, rng.integers(0, k, n), y), C


def fit(problem, solver, *, tol=1e-10, max_iter=5000, **settings):
    return solve(problem, solver, stop=Stop(tol=tol, max_iter=max_iter), **{"rng": 0, **settings})


class Witness:
    """Collects the objective and the bound after every step."""

    def __init__(self):
        self.primals, self.bounds = [], []

    def begin(self, problem, solver, stop):
        """Nothing to get ready."""

    def watch(self, progress):
        certificate = progress.problem.certificate(progress.solver.point(progress.problem, progress.state))
        self.primals.append(certificate.primal)
        self.bounds.append(certificate.bound)

    def end(self, result):
        """Nothing to tidy up."""


@every_solver
@pytest.mark.parametrize("name", CONVEX)
@pytest.mark.parametrize("k", [2, 4])
def test_meets_the_optimum_from_above_and_bounds_it_from_below(solver, name, k):
    X, y, C = small(k)
    penalty, expression = CONVEX[name]
    optimum, _, _ = softmax_optimum(X, y, C, expression, n_classes=k)
    witness = Witness()
    result = fit(softmax_problem(X, y, C=C, penalty=penalty), solver, tol=1e-9, watchers=[witness])
    assert result.certificate.primal == pytest.approx(optimum, rel=1e-8)
    assert max(witness.bounds) <= optimum * (1 + 1e-8)
    assert (np.diff(witness.primals) <= 1e-12 * optimum).all()


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # beyond the digits compared here
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(
    ("solver", "price"), [(ProxNewton(), 0.3), (ProxNewton(), 30.0), (MMDescent(), 0.3), (MMDescent(), 1.0)]
)
@pytest.mark.parametrize("name", ["l1", "elastic net", "group"])
def test_meets_the_optimum_at_all_prices_with_and_without_intercept(solver, fit_intercept, price, name):
    X, y, _ = small(3)
    penalty, expression = CONVEX[name]
    optimum, _, _ = softmax_optimum(X, y, price, expression, n_classes=3, fit_intercept=fit_intercept)
    result = fit(softmax_problem(X, y, C=price, penalty=penalty, fit_intercept=fit_intercept), solver, tol=1e-8)
    assert result.certificate.primal == pytest.approx(optimum, rel=1e-8)


@every_solver
@pytest.mark.parametrize("k", [2, 3])
def test_dense_is_csr_is_float32(solver, k):
    X, y, C = small(k)
    X = X.astype(np.float32).astype(np.float64)  # numbers that both types hold exactly
    X[np.abs(X) < 0.5] = 0.0
    forms = [X, csr_matrix(X), X.astype(np.float32), csr_matrix(X.astype(np.float32))]
    values = [fit(softmax_problem(form, y, C=C, penalty=L1(0.3)), solver).certificate.primal for form in forms]
    optimum, _, _ = softmax_optimum(X, y, C, lambda W: (0.3 * cp.sum(cp.abs(W)), []), n_classes=k)
    np.testing.assert_allclose(values, optimum, rtol=1e-8)


@every_solver
@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
@pytest.mark.parametrize("k", [2, 3])
def test_agrees_with_scikit_learn(solver, l1_ratio, k):
    X, y, _ = small(k)
    theirs = LogisticRegression(solver="saga", l1_ratio=l1_ratio, C=0.5, tol=1e-12, max_iter=100_000).fit(X, y)
    problem = softmax_problem(X, y, C=0.5, penalty=ElasticNet(l1_ratio, 1.0 - l1_ratio))
    ours = fit(problem, solver)
    value = problem.primal(CompositePoint(theirs.coef_.T, theirs.intercept_)).value
    assert ours.certificate.primal == pytest.approx(value, rel=1e-9)
    if l1_ratio < 1.0:
        np.testing.assert_allclose(ours.point.weights, theirs.coef_.T, atol=1e-5)


@every_solver
@pytest.mark.parametrize("name", NOT_CONVEX)
@pytest.mark.parametrize("k", [2, 3])
def test_reaches_stationarity_without_ever_rising_where_the_penalty_is_not_convex(solver, name, k):
    X, y, C = small(k)
    witness = Witness()
    problem = softmax_problem(X, y, C=3.0 * C, penalty=NOT_CONVEX[name])
    result = fit(problem, solver, tol=1e-7, watchers=[witness])
    assert result.status is Status.CONVERGED
    assert result.certificate.kind == "stationarity"
    assert (np.diff(witness.primals) <= 1e-12 * witness.primals[0]).all()
    assert result.certificate.primal < problem.primal(problem.zero()).value


@every_solver
def test_warm_start_from_a_near_optimum_takes_fewer_steps(solver):
    X, y = blobs(200, 300, 4, seed=1, sparse=True, density=0.1)
    near = fit(softmax_problem(X, y, C=1.0, penalty=L1(1.0)), solver, tol=1e-6).point
    problem = softmax_problem(X, y, C=1.05, penalty=L1(1.0))
    cold, warm = fit(problem, solver, tol=1e-4), fit(problem, solver, tol=1e-4, init=near)
    assert warm.n_iter < cold.n_iter
    assert warm.certificate.primal == pytest.approx(cold.certificate.primal, rel=2e-4)


@every_solver
def test_features_left_out_at_first_are_found(solver):
    """The label is the difference of two features that say nothing alone, hidden behind 400 that are half right."""
    rng = np.random.default_rng(0)
    n = 120
    y = rng.integers(0, 2, n)
    noise = rng.standard_normal(n)
    loud = (2.0 * y - 1.0)[:, None] * 0.3 + rng.standard_normal((n, 400))
    X = np.hstack([loud, 5.0 * noise[:, None], 5.0 * noise[:, None] + (2.0 * y - 1.0)[:, None]])
    problem = softmax_problem(X, y, C=1.0, penalty=L1(1.0))
    result = fit(problem, solver, tol=1e-6)
    assert result.status is Status.CONVERGED
    assert (result.point.weights[-2:] != 0.0).all()


@every_solver
@pytest.mark.parametrize("k", [2, 3])
def test_estimate_is_near_what_the_judge_says(solver, k):
    X, y, C = small(k)
    problem = softmax_problem(X, y, C=C, penalty=ElasticNet(0.3, 0.4))
    state = solver.start(problem, None, np.random.default_rng(0))
    for _ in range(30):
        state = solver.step(problem, state)
        judged = problem.certificate(solver.point(problem, state)).residual
        assert judged / 4.0 - 1e-9 <= solver.estimate(problem, state) <= 4.0 * judged + 1e-9


def awkward(name):
    X, y, _ = small(3)
    X, y, C = X.copy(), y.copy(), np.ones(40)
    if name == "zero columns":
        X[:, [1, 4]] = 0.0
    elif name == "constant column":
        X[:, 2] = 3.0
    elif name == "huge and tiny scales":
        X *= np.logspace(6, -3, 6)
    elif name == "one sample of a class":
        y[y == 2] = 0
        y[7] = 2
    elif name == "no price for a class":
        C[y == 1] = 0.0
    elif name == "duplicates":
        X = np.hstack([X, X])
    elif name == "contradictions":
        X[:20] = X[20:]
    return X, y, C


@every_solver
@pytest.mark.parametrize("form", [np.asarray, csr_matrix], ids=["dense", "csr"])
@pytest.mark.parametrize(
    "name",
    [
        "zero columns",
        "constant column",
        "huge and tiny scales",
        "one sample of a class",
        "no price for a class",
        "duplicates",
        "contradictions",
    ],
)
def test_awkward_data_have_their_optimum(solver, form, name):
    X, y, C = awkward(name)
    problem = softmax_problem(form(X), y, C=C, penalty=ElasticNet(0.5, 0.1), n_classes=3)
    result = fit(problem, solver, tol=1e-6, max_iter=3000)
    assert result.status is Status.CONVERGED
    if name in ("huge and tiny scales", "no price for a class"):  # the reference loses its digits; the bound does not
        return
    optimum, _, _ = softmax_optimum(
        X, y, C, lambda W: (0.5 * cp.sum(cp.abs(W)) + 0.05 * cp.sum_squares(W), []), n_classes=3
    )
    assert result.certificate.primal == pytest.approx(optimum, rel=1e-6)


@every_solver
@pytest.mark.parametrize("penalty", [L1(1.0), Group(1.0), MCP(1.0)])
def test_weights_of_an_absent_feature_go_to_zero(solver, penalty):
    X, y, _ = small(3)
    X[:, 2] = 0.0
    problem = softmax_problem(X, y, C=1.0, penalty=penalty)
    init = CompositePoint(np.full((6, 3), 0.5), np.zeros(3))
    result = fit(problem, solver, tol=1e-6, init=init)
    np.testing.assert_array_equal(result.point.weights[2], 0.0)


@every_solver
@pytest.mark.parametrize("k", [2, 3])
def test_separable_data_at_a_huge_price_are_fitted(solver, k):
    X, y = blobs(60, 4, k, seed=0)
    X = X + 20.0 * np.eye(k, 4)[y]
    problem = softmax_problem(X, y, C=1e4, penalty=L1(1.0))
    result = fit(problem, solver, tol=1e-4, max_iter=2000)
    assert result.status is Status.CONVERGED
    assert (np.argmax(problem.scores(result.point), axis=1) == y).all()


def test_newton_bears_a_hundred_classes():
    X, y = blobs(400, 30, 100, seed=0)
    for penalty in (L1(0.1), Group(0.3)):
        result = fit(softmax_problem(X, y, C=1.0, penalty=penalty), ProxNewton(), tol=1e-6, max_iter=100)
        assert result.status is Status.CONVERGED


@every_solver
def test_no_price_and_no_feature_cost_nothing(solver):
    X, y, _ = small(3)
    free = fit(softmax_problem(X, y, C=0.0, penalty=L1(1.0)), solver, init=CompositePoint(np.ones((6, 3)), np.zeros(3)))
    assert free.certificate.primal == 0.0
    bare = fit(softmax_problem(np.zeros((40, 0)), y, C=1.0, penalty=L1(1.0)), solver)
    assert bare.status is Status.CONVERGED


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10_000), k=st.integers(2, 6), log_price=st.floats(-3, 3), name=st.sampled_from(sorted(CONVEX))
)
def test_newton_closes_the_gap_on_any_small_problem(seed, k, log_price, name):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((25, 5)) * 10.0 ** rng.integers(-2, 3, 5)
    X[rng.random(X.shape) < 0.4] = 0.0
    problem = softmax_problem(X, rng.integers(0, k, 25), C=10.0**log_price, penalty=CONVEX[name][0], n_classes=k)
    assert fit(problem, ProxNewton(), tol=1e-4, max_iter=300).certificate.residual <= 1e-4


def make_model(
    k, *, by_rows, is_coupled=True, damping=0.1, seed=0, penalty=None, fit_intercept=True, most_kept=1 << 23
):
    X, y, C = small(k, seed=seed)
    problem = softmax_problem(X, y, C=C, penalty=penalty or L1(0.3), fit_intercept=fit_intercept)
    rng = np.random.default_rng(seed)
    columns, d = problem.n_columns, 6
    losses, anderson = SoftmaxLosses(problem, is_compact=True), AndersonTuning(most_kept=most_kept)
    P, G, W = (zeros(rows * losses.k) for rows in (40, d + 1, d + 1))
    losses.matrix(W)[:-1] = 0.1 * rng.standard_normal((d, columns))
    losses.matrix(P)[:] = rng.dirichlet(np.ones(k), 40)[:, :columns] if is_coupled else 0.0
    losses.matrix(G)[: d + fit_intercept] = rng.standard_normal((d + fit_intercept, columns))
    samples = Samples(problem.X, C, P, np.full(40, damping), np.zeros(d + 1))
    samples.columns = with_constant(X, fit_intercept)
    around, features = LossExpansion(losses, W, G, samples), np.arange(d + fit_intercept)
    if by_rows:
        return RowModel(around, features, 1, anderson)
    return EntryModel(around, np.tile(features, columns), np.repeat(np.arange(columns), len(features)), anderson)


def written_out(model):
    """Return q(D) of a model, sample by sample."""
    problem, samples, matrix = model.problem, model.samples, model.losses.matrix
    D = matrix(model.V) - matrix(model.W)
    T = problem.X @ D[:-1] + problem.bias * D[-1]
    value = float(np.vdot(matrix(model.G), D)) + problem.penalty.value(matrix(model.V)[:-1])
    for t, p, C in zip(T, matrix(samples.P), samples.C, strict=True):
        value += 0.5 * C * t @ (np.diag(p) - np.outer(p, p) + samples.damping[0] * np.eye(len(p))) @ t
    return value


@pytest.mark.parametrize("is_coupled", [True, False])
@pytest.mark.parametrize(("k", "by_rows"), [(2, False), (3, False), (6, False), (3, True), (6, True)])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_every_pass_lowers_the_model_whose_value_is_right(k, fit_intercept, by_rows, is_coupled):
    model = make_model(k, by_rows=by_rows, is_coupled=is_coupled, fit_intercept=fit_intercept)
    values = [written_out(model)]
    for _ in range(10):
        model.descend()
        values.append(written_out(model))
        assert model.value() == pytest.approx(values[-1], rel=1e-10)
    assert (np.diff(values) <= 1e-12).all()
    assert values[-1] < values[0]


@pytest.mark.parametrize("k", [3, 6])
def test_descent_by_rows_and_by_entries_ends_at_the_same_point(k):
    ends = []
    for by_rows in (True, False):
        model = make_model(k, by_rows=by_rows)
        model.minimise(1e-30, 2000)
        ends.append(model.V.copy())
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-8)


@pytest.mark.parametrize("by_rows", [True, False])
def test_extrapolation_takes_fewer_passes_and_keeps_the_model_true(by_rows):
    counts = []
    for most in (1 << 23, 0):
        model = make_model(3, by_rows=by_rows, damping=0.01, most_kept=most)
        plain, n = model.descend, [0]

        def counted(plain=plain, n=n):
            n[0] += 1
            return plain()

        model.descend = counted
        assert not model.minimise(1e-20, 5000)
        assert model.value() == pytest.approx(written_out(model), rel=1e-9)
        counts.append(n[0])
    assert counts[0] < counts[1]


def test_drawn_samples_make_the_right_hessian_on_average_and_keep_rare_features():
    X, y = blobs(4000, 5, 3, seed=0)
    X = np.hstack([X, np.zeros((4000, 1))])
    X[[11, 222, 3333], 5] = 2.0  # a feature that three samples have
    losses = SoftmaxLosses(softmax_problem(X, y, C=1.0, penalty=L1(1.0)), is_compact=True)
    P = zeros(4000 * WIDTH)
    P.reshape(-1, WIDTH)[:, :3] = np.random.default_rng(1).dirichlet(np.ones(3), 4000)
    sums = []
    for seed in range(40):
        rows, prices, least = draw(losses, P, np.arange(6), 10.0, 1.0, [seed], SampleTuning())
        assert {11, 222, 3333} <= set(rows)
        assert len(rows) < 2000
        assert (least > 0.0).all()
        sums.append((X[rows] * prices[:, None]).T @ X[rows])
    exact = X.T @ X
    np.testing.assert_allclose(np.mean(sums, axis=0), exact, atol=0.05 * exact.max())


def test_few_samples_need_no_drawing():
    X, y, C = small(3)
    losses = SoftmaxLosses(softmax_problem(X, y, C=C, penalty=L1(1.0)), is_compact=True)
    P = zeros(40 * WIDTH)
    assert draw(losses, P, np.arange(6), 10.0, 1.0, [0], SampleTuning()) is None
    assert draw(losses, P, np.arange(0), np.inf, 1.0, [0], SampleTuning()) is None


@pytest.mark.parametrize("penalty", [L1(1.0), Group(1.0)])
def test_drawn_models_reach_the_optimum_of_all_samples(penalty):
    X, y = blobs(3000, 5, 4, seed=0)
    problem = softmax_problem(X, y, C=1.0, penalty=penalty)
    some, every = fit(problem, ProxNewton()), fit(problem, ProxNewton(per_feature=np.inf))
    assert some.status is every.status is Status.CONVERGED
    assert some.certificate.primal == pytest.approx(every.certificate.primal, rel=1e-9)


def test_drawn_samples_that_miss_the_curvature_of_a_step_become_more():
    # With as few samples all the way no 150 steps are enough.
    rng = np.random.default_rng(0)
    y = np.arange(800) % 40
    X = rng.standard_normal((800, 10)) + 1.5 * rng.standard_normal((40, 10))[y]
    result = solve(softmax_problem(X, y, C=1.0, penalty=L1(1.0)), ProxNewton(), stop=Stop(1e-8, 40), rng=0)
    assert result.status is Status.CONVERGED


def test_the_curvature_of_a_move_is_the_second_derivative_of_the_losses():
    X, y, C = small(3)
    losses = SoftmaxLosses(softmax_problem(X, y, C=C, penalty=L1(1.0)), is_compact=True)
    rng = np.random.default_rng(0)
    scores, move, P, trial = (zeros(len(y) * losses.k) for _ in range(4))
    losses.matrix(scores)[:], losses.matrix(move)[:] = rng.standard_normal((2, len(y), 3))
    h, at_scores = 1e-3, losses.fill_probabilities(scores, P)
    samples = Samples(X, C, P.copy(), np.zeros(len(y)), np.zeros(7))
    there, back = (losses.along(scores, move, t, trial, P)[0] for t in (h, -h))
    assert samples.curvature(losses, move) == pytest.approx((there + back - 2.0 * at_scores) / h**2, rel=1e-5)


@pytest.mark.parametrize("k", [4, 5, 12])
@pytest.mark.parametrize("name", ["l1", "elastic net", "group", "sparse group"])
def test_best_shifts_leave_no_better_one(name, k):
    penalty = CONVEX[name][0]
    W = np.random.default_rng(0).standard_normal((50, k))
    W[:20, : k // 2 + 1] = 0.0
    W[-1] = 0.0
    V = W - best_shifts(penalty, W)[:, None]
    for row in V:
        value = penalty.value(row[None])
        assert all(value <= penalty.value(row[None] + s) + 1e-9 for s in np.linspace(-1.0, 1.0, 201))
    if name == "l1":  # the median of an odd number is an entry, and exact
        assert k % 2 == 0 or (V == 0.0).any(axis=1).all()
        np.testing.assert_array_equal(V[:20], W[:20])


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_rows_of_the_optimum_are_where_the_penalty_is_least(scale):
    """The losses do not tell: a feature of 1e6 bends them so much that entries hardly move one by one."""
    X, y, _ = small(3)
    problem = softmax_problem(X * scale, y, C=1.0, penalty=L1(1.0))
    result = fit(problem, ProxNewton(), tol=1e-8, max_iter=50)
    assert result.status is Status.CONVERGED
    assert (np.median(result.point.weights, axis=1) == 0.0).all()
