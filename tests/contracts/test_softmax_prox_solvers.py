"""Every first-order solver of penalised multinomial regression meets the optimum, or stands still where there is none.

The optimum is CVXPY's (reference.softmax_optimum); what is monotone by proof is monotone here.
"""

import functools

import cvxpy as cp
import numpy as np
import pytest
from scipy.sparse import csr_matrix

from reference.softmax_optimum import objective, softmax_optimum
from softmargin.core.errors import IncompatibleError
from softmargin.penalties import L0, L1, L2, MCP, SCAD, Box, ElasticNet, Group, GroupMCP, Nonnegative, SparseGroup
from softmargin.problems import CompositePoint, softmax_problem
from softmargin.run import Status, Stop, solve
from softmargin.solvers.softmax.accelerated_gradient import AcceleratedGradient
from softmargin.solvers.softmax.block_prox_gradient import BlockProxGradient
from softmargin.solvers.softmax.svrg import Svrg

SOLVERS = {
    "features": BlockProxGradient(),
    "paper": BlockProxGradient(order="cyclic", constants="paper", working_set=False),
    "random": BlockProxGradient(order="random", constants="paper"),
    "lipschitz": BlockProxGradient(order="lipschitz"),
    "classes": BlockProxGradient(blocks="classes"),
    "matrix": BlockProxGradient(blocks="matrix"),
    "paper matrix": BlockProxGradient(blocks="matrix", constants="paper"),
    "fista": AcceleratedGradient(),
    "svrg": Svrg(),
}
FAST = ("features", "classes", "matrix", "fista")
PAPER = {
    f"{blocks} {order}": BlockProxGradient(blocks=blocks, order=order, constants="paper", working_set=False)
    for blocks in ("features", "classes")
    for order in ("cyclic", "shuffled", "random", "lipschitz")
}
DESCENDING = {**PAPER, **{name: SOLVERS[name] for name in ("features", "classes", "matrix", "paper matrix")}}
CONVEX = {
    "l1": (L1(0.7), lambda W: (0.7 * cp.norm1(W), [])),
    "l2": (L2(0.5), lambda W: (0.25 * cp.sum_squares(W), [])),
    "elastic net": (ElasticNet(0.4, 0.3), lambda W: (0.4 * cp.norm1(W) + 0.15 * cp.sum_squares(W), [])),
    "group": (Group(0.8), lambda W: (0.8 * cp.sum(cp.norm(W, 2, axis=1)), [])),
    "sparse group": (
        SparseGroup(0.5, 0.3, 0.1),
        lambda W: (0.5 * cp.sum(cp.norm(W, 2, axis=1)) + 0.3 * cp.norm1(W) + 0.05 * cp.sum_squares(W), []),
    ),
    "nonnegative": (Nonnegative(0.3, 0.2), lambda W: (0.3 * cp.sum(W) + 0.1 * cp.sum_squares(W), [W >= 0])),
    "box": (Box(-0.2, 0.3), lambda W: (0.0 * cp.sum(W), [W >= -0.2, W <= 0.3])),
    "shifted box": (
        Box(0.1, 0.4, 0.1, 0.1),
        lambda W: (0.1 * cp.sum(W) + 0.05 * cp.sum_squares(W), [W >= 0.1, W <= 0.4]),
    ),
}
NON_CONVEX = {"mcp": MCP(0.7, 2.0), "scad": SCAD(0.7, 2.5), "l0": L0(0.5), "group mcp": GroupMCP(0.9, 1.5)}
GROUPED = ("group", "sparse group")
PRICES = np.tile([0.0, 0.3, 1.0, 2.0, 0.7], 8)

# Clarabel warns where it stops a little short of 1e-11.
pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
every_solver = pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
fast_solvers = pytest.mark.parametrize("solver", [SOLVERS[name] for name in FAST], ids=FAST)


def pairs(solvers):
    """Return every solver with every convex penalty that it takes."""
    return [
        pytest.param(solver, name, id=f"{kind}-{name}")
        for kind, solver in solvers.items()
        for name in CONVEX
        if not (getattr(solver, "blocks", "") == "classes" and name in GROUPED)
    ]


@functools.cache
def samples(n=40, d=5, k=3, seed=0):
    """Return classes that overlap, with columns that are neither centred nor of one scale."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    X = rng.standard_normal((n, d)) + 0.6 * rng.standard_normal((k, d))[y] + 0.3
    return X * np.linspace(0.7, 1.4, d), y


def make(X, y, penalty, *, C=1.0, form=np.asarray, **settings):
    return softmax_problem(form(X), y, C=C, penalty=penalty, **settings)


def fit(problem, solver, *, tol=1e-8, max_iter=20_000, rng=0, **more):
    return solve(problem, solver, stop=Stop(tol, max_iter), rng=rng, **more)


@functools.cache
def optimum(name, k, *, weighted=False, fit_intercept=True):
    X, y = samples(k=k)
    C = PRICES if weighted else 1.0
    return softmax_optimum(X, y, C, CONVEX[name][1], n_classes=k, fit_intercept=fit_intercept)[0]


def start(problem, solver, init=None):
    return solver.start(problem, init, np.random.default_rng(0))


def primals(problem, solver, n_steps):
    """Return the objective at the start and after every step."""
    state = start(problem, solver)
    values = [problem.primal(solver.point(problem, state)).value]
    for _ in range(n_steps):
        state = solver.step(problem, state)
        values.append(problem.primal(solver.point(problem, state)).value)
    return np.array(values)


def check_optimum(result, value):
    assert result.status is Status.CONVERGED
    assert value * (1 - 1e-8) <= result.certificate.primal <= value * (1 + 2e-8)
    assert max(row.certificate.bound for row in result.trace) <= value * (1 + 1e-9)


@pytest.mark.parametrize(("solver", "name"), pairs(SOLVERS))
def test_solver_meets_the_optimum_honestly(solver, name):
    check_optimum(fit(make(*samples(), CONVEX[name][0]), solver), optimum(name, 3))


@fast_solvers
@pytest.mark.parametrize("name", CONVEX)
def test_two_classes_have_their_optimum_in_one_column(solver, name):
    result = fit(make(*samples(k=2), CONVEX[name][0]), solver)
    assert result.point.weights.shape == (5, 1)
    check_optimum(result, optimum(name, 2))


@fast_solvers
@pytest.mark.parametrize("name", ["l1", "l2", "nonnegative"])
@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "none"])
def test_prices_and_no_intercept_have_their_optimum(solver, name, k, fit_intercept):
    problem = make(*samples(k=k), CONVEX[name][0], C=PRICES, fit_intercept=fit_intercept)
    result = fit(problem, solver)
    check_optimum(result, optimum(name, k, weighted=True, fit_intercept=fit_intercept))
    if not fit_intercept:
        np.testing.assert_array_equal(result.point.intercept, 0.0)


@every_solver
def test_dense_is_csr_is_float32(solver):
    X, y = samples()
    X = X.astype(np.float32).astype(np.float64)  # numbers that both types hold exactly
    X[np.abs(X) < 0.3] = 0.0
    forms = [np.asarray, csr_matrix, np.float32, lambda X: csr_matrix(X.astype(np.float32))]
    values = [fit(make(X, y, L1(0.7), form=form), solver).certificate.primal for form in forms]
    np.testing.assert_allclose(values, values[0], rtol=2e-8)


@pytest.mark.parametrize("name", ["features", "paper", "matrix", "paper matrix", "random"])
@pytest.mark.parametrize("penalty", NON_CONVEX.values(), ids=NON_CONVEX)
@pytest.mark.parametrize("k", [2, 3])
def test_penalty_that_is_not_convex_ends_at_a_stationary_point_without_rising(name, penalty, k):
    problem = make(*samples(k=k), penalty)
    result = fit(problem, SOLVERS[name], tol=1e-7)
    assert result.certificate.kind == "stationarity"
    assert result.status is Status.CONVERGED
    values = primals(problem, SOLVERS[name], 60)
    assert (np.diff(values) <= 1e-12 * values[0]).all()
    assert values[-1] < values[0]


@pytest.mark.parametrize(("solver", "name"), pairs(DESCENDING))
def test_objective_never_rises(solver, name):
    values = primals(make(*samples(), CONVEX[name][0], C=PRICES), solver, 40)
    assert (np.diff(values) <= 1e-13 * values[1]).all()
    assert values[-1] < values[1]


@every_solver
def test_every_feature_step_has_the_promised_descent_also_on_scores_far_out(solver):
    """From garbage, probabilities are saturated: a local constant is then too small, and the test must see it."""
    problem = make(*samples(), L2(0.5))
    garbage = CompositePoint(30.0 * np.random.default_rng(1).standard_normal((5, 3)), np.zeros(3))
    kept = garbage.weights.copy()
    result = fit(problem, solver, init=garbage, max_iter=50_000)
    check_optimum(result, optimum("l2", 3))
    np.testing.assert_array_equal(garbage.weights, kept)


X0, Y0 = samples()
AWKWARD = {
    "constant column": (np.hstack([X0, np.ones((40, 1))]), Y0),
    "zero column": (np.hstack([np.zeros((40, 1)), X0]), Y0),
    "only zeros": (np.zeros((40, 2)), Y0),
    "duplicate columns": (np.hstack([X0, X0]), Y0),
    "one sample per class": (samples(6, 5, 6)),
    "hundred classes": (samples(150, 4, 100)),
    "a class without samples": (X0, np.where(Y0 == 1, 3, Y0)),
}


@pytest.mark.parametrize("name", AWKWARD)
@pytest.mark.parametrize("kind", ["l1", "l2"])
@fast_solvers
def test_awkward_data_are_proven_optimal(name, kind, solver):
    X, y = AWKWARD[name]
    result = fit(make(X, y, CONVEX[kind][0]), solver, tol=1e-4 if y.max() < 50 else 1e-2)
    assert result.status is Status.CONVERGED
    assert np.isfinite(result.point.weights).all()


@pytest.mark.parametrize("name", ["constant column", "zero column", "duplicate columns", "one sample per class"])
def test_awkward_data_have_the_reference_optimum(name):
    X, y = AWKWARD[name]
    value, _, _ = softmax_optimum(X, y, 1.0, CONVEX["l1"][1], n_classes=int(y.max()) + 1)
    check_optimum(fit(make(X, y, L1(0.7)), SOLVERS["features"]), value)


@pytest.mark.parametrize("constants", ["local", "paper"])
@pytest.mark.parametrize("k", [2, 3])
def test_feature_blocks_do_not_mind_huge_scales_side_by_side(constants, k):
    """Every feature has its own constant; the objective is that of CVXPY on the same columns with a scaled penalty."""
    X, y = samples(k=k)
    scales = np.array([1e6, 1e-3, 1.0, 1e3, 1.0])
    problem = make(X * scales, y, L1(0.7))
    value, _, _ = softmax_optimum(X, y, 1.0, lambda W: (0.7 * cp.norm1(cp.diag(1 / scales) @ W), []), n_classes=k)
    result = fit(problem, BlockProxGradient(constants=constants), max_iter=1000)
    assert result.certificate.primal == pytest.approx(value, rel=1e-7)


def test_weights_of_a_feature_that_is_never_there_are_let_go():
    X, y = AWKWARD["zero column"]
    init = CompositePoint(np.ones((6, 3)), np.zeros(3))
    for name in ("features", "matrix", "fista"):
        result = fit(make(X, y, L1(0.7)), SOLVERS[name], init=init)
        np.testing.assert_array_equal(result.point.weights[0], 0.0)


@pytest.mark.parametrize("name", ["features", "paper", "classes", "matrix", "fista", "svrg"])
@pytest.mark.parametrize("k", [2, 3])
def test_separable_data_without_a_penalty_are_descended_without_end(name, k):
    """There is no optimum (maths: errata 003.4): the losses tend to zero and nothing breaks."""
    X, y = samples(30, 4, k)
    X = X + 6.0 * np.eye(k, 4)[y]
    problem = make(X, y, L2(0.0))
    values = primals(problem, SOLVERS[name], 400)
    assert np.isfinite(values).all()
    assert values[-1] < 0.2 * values[0]
    assert values[400] <= values[200] + 1e-12 <= values[100] + 2e-12


@every_solver
def test_estimate_tells_what_the_judge_will_say(solver):
    problem = make(*samples(), CONVEX["elastic net"][0])
    state = start(problem, solver)
    ratios = []
    while len(ratios) < 20:
        state = solver.step(problem, state)
        judged = problem.certificate(solver.point(problem, state)).residual
        if judged < 1e-3:
            ratios.append(solver.estimate(problem, state) / judged)
        assert judged > 1e-11
    finite = [ratio for ratio in ratios if np.isfinite(ratio)]
    assert len(finite) >= 3
    assert 0.1 < np.median(finite) < 30.0


@pytest.mark.parametrize("order", ["shuffled", "cyclic"])
def test_working_set_leaves_features_out_and_forgets_none(order):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 40)), np.arange(60) % 3
    X[:, :5] += 2.0 * rng.standard_normal((3, 5))[y]
    problem, solver = make(X, y, L1(4.0)), BlockProxGradient(order=order)
    state, sizes = start(problem, solver), []
    for _ in range(30):
        state = solver.step(problem, state)
        sizes.append(len(state.active))
    assert 0 < max(sizes) < 30
    with_set, without = (fit(problem, BlockProxGradient(order=order, working_set=use)) for use in (True, False))
    assert with_set.certificate.primal == pytest.approx(without.certificate.primal, rel=2e-8)


@pytest.mark.parametrize("kind", ["features", "classes", "matrix"])
def test_reported_losses_are_those_of_the_point(kind):
    """Scores and probabilities are kept for hundreds of steps: they must not drift."""
    problem, solver = make(*samples(), L2(0.01), C=50.0), SOLVERS[kind]
    state = start(problem, solver)
    for _ in range(205):  # between two refreshments
        state = solver.step(problem, state)
    point = solver.point(problem, state)
    told = state.loss + problem.penalty.value(point.weights)
    X, y = samples()
    assert told == pytest.approx(
        objective(X, y, 50.0, point.weights, point.intercept, problem.penalty.value), rel=1e-12
    )


def test_no_price_leaves_the_penalty_alone():
    for solver in SOLVERS.values():
        result = fit(make(*samples(), L2(0.5), C=0.0, fit_intercept=False), solver, max_iter=10)
        assert result.certificate.primal == 0.0
        np.testing.assert_array_equal(result.point.weights, 0.0)


@pytest.mark.parametrize("settings", [{"blocks": "rows"}, {"order": "greedy"}, {"constants": "global"}])
def test_unknown_settings_are_refused(settings):
    (name, value), *_ = settings.items()
    with pytest.raises(IncompatibleError, match=f"{name}='{value}' is unknown; choose "):
        BlockProxGradient(**settings)


def test_batch_of_nothing_is_refused():
    with pytest.raises(IncompatibleError, match="batch must be None, or an integer >= 1; found 0"):
        Svrg(batch=0)


@pytest.mark.parametrize("penalty", [Group(1e-3), SparseGroup(50.0, 0.3), GroupMCP(0.9)], ids=str)
def test_class_blocks_refuse_a_penalty_that_ties_classes_together(penalty):
    with pytest.raises(IncompatibleError, match=r"ties the classes together\. Use blocks='features'"):
        fit(make(*samples(), penalty), SOLVERS["classes"])


@pytest.mark.parametrize("solver", [SOLVERS["fista"], SOLVERS["svrg"]], ids=["fista", "svrg"])
def test_momentum_and_samples_refuse_a_penalty_that_is_not_convex(solver):
    with pytest.raises(IncompatibleError, match=r"needs a convex penalty; .* is not\. Use BlockProxGradient"):
        fit(make(*samples(), NON_CONVEX["mcp"]), solver)
