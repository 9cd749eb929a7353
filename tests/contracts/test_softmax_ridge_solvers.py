"""Every smooth solver of multinomial regression meets the optimum of CVXPY and scikit-learn, also on awkward data."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from reference.ridge_softmax import FORMS, PRICES, RIDGE, N, assert_meets_optimum, make, optimum, ridge_of, samples
from reference.softmax_optimum import objective
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.data import blobs, load
from softmargin.penalties import L1, L2
from softmargin.problems import CompositePoint, softmax_problem
from softmargin.run import Status, Stop, solve
from softmargin.solvers.common.conjugate_gradients import conjugate_gradients
from softmargin.solvers.softmax._preconditioner import MetricTuning, factored, make_metric, sample_rows
from softmargin.solvers.softmax._ridge_objective import RidgeObjective, RidgeState
from softmargin.solvers.softmax.lbfgs import Lbfgs, LbfgsTuning
from softmargin.solvers.softmax.newton import SoftmaxNewton
from softmargin.solvers.softmax.newton_cg import NewtonCG, NewtonCGTuning
from softmargin.solvers.softmax.primal_dual_newton import PrimalDualNewton, PrimalDualNewtonTuning, followed
from softmargin.solvers.softmax.trust_newton import TrustNewton

SOLVERS = {
    "lbfgs": Lbfgs(),
    "lbfgs plain": Lbfgs(memory=5, preconditioner="none"),
    "lbfgs diagonal": Lbfgs(preconditioner="diagonal"),
    "newton": SoftmaxNewton(),
    "newton cg": NewtonCG(),
    "newton cg plain": NewtonCG(preconditioner="none", sampled=False),
    "newton cg diagonal": NewtonCG(preconditioner="diagonal"),
    "newton cg gram": NewtonCG(preconditioner="gram"),
    "trust": TrustNewton(),
    "primal dual": PrimalDualNewton(),
}
MAIN = ("lbfgs", "newton", "newton cg", "trust", "primal dual")
# Clarabel warns where it stops a little short of 1e-11.
pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
every_solver = pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
main_solvers = pytest.mark.parametrize("solver", [SOLVERS[name] for name in MAIN], ids=MAIN)
every_k = pytest.mark.parametrize("k", [2, 3, 5])
with_and_without_intercept = pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "no intercept"])


def fit(problem, solver, *, tol=1e-9, max_iter=3000, rng=0, **more):
    return solve(problem, solver, stop=Stop(tol, max_iter), rng=rng, **more)


class Witness:
    """Notes the objective after every step."""

    def begin(self, problem, solver, stop):
        self.values = []

    def watch(self, progress):
        self.values.append(progress.problem.primal(progress.solver.point(progress.problem, progress.state)).value)

    def end(self, result): ...


@every_solver
@every_k
@with_and_without_intercept
@pytest.mark.parametrize("prices", PRICES)
def test_solver_meets_the_optimum_of_cvxpy_honestly(solver, k, fit_intercept, prices):
    value, W, b = optimum(k, prices, fit_intercept)
    problem = make(k, C=PRICES[prices], fit_intercept=fit_intercept)
    result = fit(problem, solver)
    assert_meets_optimum(result, problem, value, W, b)


@main_solvers
@every_k
@with_and_without_intercept
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_solver_meets_scikit_learn(solver, k, fit_intercept, C):
    X, y = samples(k=k)
    theirs = LogisticRegression(C=C / RIDGE, fit_intercept=fit_intercept, tol=1e-12, max_iter=10_000).fit(X, y)
    value = objective(X, y, C, theirs.coef_.T, theirs.intercept_, ridge_of)
    result = fit(make(k, C=C, fit_intercept=fit_intercept), solver, tol=1e-11)
    assert result.certificate.primal == pytest.approx(value, rel=1e-8)
    np.testing.assert_allclose(result.point.weights, theirs.coef_.T, atol=1e-4)
    np.testing.assert_allclose(
        result.point.intercept, theirs.intercept_ - theirs.intercept_.mean() * (k > 2), atol=1e-4
    )


@main_solvers
@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_dense_is_csr_is_float32(solver, k, form):
    value, _, _ = optimum(k, "vector", True)
    assert fit(make(k, C=PRICES["vector"], form=form), solver).certificate.primal == pytest.approx(value, rel=1e-8)


@every_solver
@every_k
def test_objective_never_rises(solver, k):
    witness = Witness()
    fit(make(k, C=5.0), solver, tol=0.0, max_iter=25, watchers=[witness])
    values = np.array(witness.values)
    assert (np.diff(values) <= 1e-12 * values[:-1]).all()
    assert values[-1] < values[0]


@every_solver
@every_k
@with_and_without_intercept
def test_estimate_and_value_belong_to_the_point(solver, k, fit_intercept):
    problem = make(k, C=PRICES["vector"], fit_intercept=fit_intercept)
    state = solver.start(problem, None, np.random.default_rng(0))
    for _ in range(4):
        state = solver.step(problem, state)
        point = solver.point(problem, state)
        primal, more = problem.primal(point).value, getattr(state, "ridge", problem.ridge) - problem.ridge
        assert state.value == pytest.approx(primal + 0.5 * more * np.sum(point.weights**2), rel=1e-12)
        P_gradient, _ = problem._gradient(_probabilities(problem, point))
        guess = problem.rough_residual(point.weights, primal, P_gradient)
        assert solver.estimate(problem, state) == pytest.approx(guess, rel=1e-6, abs=1e-12)


def _probabilities(problem, point):
    scores = problem.scores(point)
    scores -= scores.max(axis=1, keepdims=True)
    return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)


@every_solver
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_any_garbage_is_a_valid_start(solver, k, scale):
    problem = make(k, C=PRICES["vector"])
    rng = np.random.default_rng(0)
    columns = problem.n_columns
    garbage = CompositePoint(scale * rng.standard_normal((6, columns)), scale * rng.standard_normal(columns))
    kept = garbage.weights.copy()
    state = solver.start(problem, garbage, rng)
    for _ in range(200):
        state = solver.step(problem, state)
        if solver.estimate(problem, state) < 1e-10:
            break
    assert problem.primal(solver.point(problem, state)).value == pytest.approx(optimum(k, "vector", True)[0], rel=1e-8)
    np.testing.assert_array_equal(garbage.weights, kept)


@main_solvers
def test_start_of_another_shape_is_refused(solver):
    with pytest.raises(DataError, match="weights of shape"):
        fit(make(3), solver, init=CompositePoint(np.zeros((6, 2)), np.zeros(2)))


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("form", [np.asarray, csr_matrix], ids=["dense", "csr"])
@pytest.mark.parametrize(
    "solver",
    [
        NewtonCG(tuning=NewtonCGTuning(first_rows=60, rows_per_feature=1, metric=MetricTuning(least_rows=40))),
        Lbfgs(tuning=LbfgsTuning(metric=MetricTuning(least_rows=40))),
    ],
    ids=["newton cg", "lbfgs"],
)
def test_samples_of_the_rows_lead_to_the_same_optimum(solver, k, form):
    X, y = samples(600, 6, k, seed=1)
    problem = make(X=X, y=y, C=3.0, form=form)
    exact = fit(problem, TrustNewton(), tol=1e-13)
    result = fit(problem, solver, tol=1e-12, max_iter=500)
    assert result.status is Status.CONVERGED
    np.testing.assert_allclose(result.point.weights, exact.point.weights, atol=1e-4)


def awkward(name):
    rng = np.random.default_rng(5)
    X, y = samples()
    if name == "scales":
        return X * np.array([1e6, 1.0, 1e-6, 1e3, 1.0, 10.0]), y
    if name == "zero and constant columns":
        return np.hstack([X, np.zeros((N, 1)), np.ones((N, 2)), X[:, :1]]), y
    if name == "one sample a class":
        return rng.standard_normal((7, 4)), np.arange(7)
    if name == "hundred classes":
        return rng.standard_normal((300, 5)), np.arange(300) % 100
    if name == "more features than samples":
        return rng.standard_normal((12, 60)), np.arange(12) % 3
    if name == "zero rows":
        return np.vstack([np.zeros((6, 6)), X]), np.append([0, 0, 0, 1, 1, 2], y)
    return np.zeros((9, 3)), np.arange(9) % 3  # nothing but the intercept


AWKWARD = (
    "scales",
    "zero and constant columns",
    "one sample a class",
    "hundred classes",
    "more features than samples",
    "zero rows",
    "nothing",
)


# The trust region has no preconditioner: features of such different sizes are not for it.
@pytest.mark.parametrize(
    ("solver", "name"),
    [
        pytest.param(SOLVERS[solver], name, id=f"{solver}-{name}")
        for solver in MAIN
        for name in AWKWARD
        if (solver, name) != ("trust", "scales")
    ],
)
@with_and_without_intercept
def test_awkward_data_have_their_optimum(solver, fit_intercept, name):
    X, y = awkward(name)
    problem = make(X=X, y=y, C=2.0, form=csr_matrix, fit_intercept=fit_intercept)
    result = fit(problem, solver, tol=1e-7)
    assert result.status is Status.CONVERGED
    assert np.isfinite(result.point.weights).all()


def test_a_step_that_rounding_turns_round_follows_the_gradient(monkeypatch):
    """Near the optimum what q leaves of the right side is rounding, and its sign is chance."""
    X, y = awkward("scales")
    problem, solver = make(X=X, y=y, C=2.0, form=csr_matrix), SOLVERS["primal dual"]
    right = PrimalDualNewton._right

    def turned(self, objective, state, *q):
        return state.gradient if state.n_steps > 7 else right(self, objective, state, *q)

    monkeypatch.setattr(PrimalDualNewton, "_right", turned)
    assert fit(problem, solver, tol=1e-7).status is Status.CONVERGED


@main_solvers
@pytest.mark.parametrize("k", [2, 3])
@with_and_without_intercept
def test_separable_data_without_a_ridge_keep_falling(solver, k, fit_intercept):
    """There is no minimiser: the infimum is zero."""
    X, y = samples(k=k)
    X = X + 20.0 * np.eye(6)[y]
    problem, witness = make(X=X, y=y, ridge=0.0, fit_intercept=fit_intercept), Witness()
    result = fit(problem, solver, tol=0.0, max_iter=60, watchers=[witness])
    assert (np.diff(witness.values) <= 1e-12).all()
    assert witness.values[-1] < 1e-3 * witness.values[0]
    assert np.isfinite(result.point.weights).all()


@main_solvers
@every_k
def test_overlapping_data_without_a_ridge_are_stationary_in_the_end(solver, k):
    X, y = samples(200, 3, k, seed=2)
    result = fit(make(X=X, y=y, ridge=0.0), solver, tol=1e-7)
    assert result.status is Status.CONVERGED
    assert result.certificate.kind == "stationarity"


@main_solvers
@pytest.mark.parametrize("k", [2, 3])
def test_no_price_costs_nothing(solver, k):
    result = fit(make(k, C=0.0), solver, max_iter=5)
    assert result.certificate.primal == 0.0
    np.testing.assert_array_equal(result.point.weights, 0.0)


@main_solvers
@pytest.mark.parametrize("n_classes", [2, 5])
def test_absent_classes_do_no_harm(solver, n_classes):
    X, y = samples(k=2)
    present = np.zeros_like(y) if n_classes == 2 else y
    problem = make(X=X, y=present, n_classes=n_classes)
    result = fit(problem, solver, tol=1e-5, max_iter=200)
    assert np.isfinite(result.point.weights).all()
    assert result.certificate.primal <= problem.primal(problem.zero()).value


@main_solvers
def test_penalty_with_l1_is_refused(solver):
    X, y = samples()
    with pytest.raises(IncompatibleError, match="needs a RidgeProblem"):
        fit(softmax_problem(X, y, penalty=L1(1.0)), solver)


@pytest.mark.parametrize("solver", [Lbfgs, NewtonCG])
def test_preconditioner_that_does_not_exist_is_refused(solver):
    with pytest.raises(IncompatibleError, match="preconditioner='guess' is unknown; choose one of auto, none, diag"):
        solver(preconditioner="guess")


def test_memory_of_nothing_is_refused():
    with pytest.raises(IncompatibleError, match="memory must be an integer >= 1; found 0"):
        Lbfgs(memory=0)


def objective_at(problem, seed=0):
    """Return the objective, with the state of a random point."""
    rng = np.random.default_rng(seed)
    columns = problem.n_columns
    objective = RidgeObjective(problem)
    point = CompositePoint(rng.standard_normal((problem.X.shape[1], columns)), rng.standard_normal(columns))
    return objective, objective.begin(RidgeState, problem.checked_point(point))


def random_direction(objective, rng):
    D = np.zeros(objective.size)
    objective.matrix(D)[:] = rng.standard_normal((objective.size // objective.k, objective.problem.n_columns))
    D[objective.n_penalised :] *= objective.problem.bias
    return D


@every_k
@with_and_without_intercept
@given(seed=st.integers(0, 100), length=st.floats(-2.0, 2.0))
def test_line_has_the_slope_and_the_curvature_it_tells(k, fit_intercept, seed, length):
    objective, state = objective_at(make(k, C=PRICES["vector"], fit_intercept=fit_intercept), seed)
    D = random_direction(objective, np.random.default_rng(seed))
    line = objective.line(state, D)
    bend = line.curvature()
    low, _, _ = line.evaluate(length - 1e-4)
    high, _, _ = line.evaluate(length + 1e-4)
    value, slope, curvature = line.evaluate(length)
    assert slope == pytest.approx((high - low) / 2e-4, rel=1e-4, abs=1e-4)
    assert curvature == pytest.approx((high - 2 * value + low) / 1e-8, rel=1e-2, abs=1e-2)
    value, slope, curvature = line.evaluate(0.0)
    assert value == pytest.approx(state.value, rel=1e-12)
    assert slope == pytest.approx(state.gradient @ D, rel=1e-9, abs=1e-9)
    assert curvature == pytest.approx(bend, rel=1e-9)


@every_k
@with_and_without_intercept
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_hessian_times_a_direction_is_the_change_of_the_gradient(k, fit_intercept, form):
    objective, state = objective_at(make(k, C=PRICES["vector"], form=form, fit_intercept=fit_intercept))
    D, out = random_direction(objective, np.random.default_rng(1)), np.zeros(objective.size)
    before = state.gradient.copy()
    objective.hessian_times(objective.all_rows, D, np.zeros(len(state.scores)), out)
    line = objective.line(state, D)
    value, _, _ = line.evaluate(1e-6)
    line.accept(1e-6, value)
    np.testing.assert_allclose(out, (state.gradient - before) / 1e-6, atol=1e-4 * np.abs(out).max())


@every_k
def test_sampled_rows_have_the_true_hessian_on_average(k):
    X, y = samples(400, 6, k, seed=3)
    objective, _ = objective_at(make(X=X, y=y, C=np.linspace(0.1, 3.0, 400)))
    D, exact = random_direction(objective, np.random.default_rng(1)), np.zeros(objective.size)
    objective.hessian_times(objective.all_rows, D, np.zeros(400 * objective.k), exact)
    mean, out, rng = np.zeros(objective.size), np.zeros(objective.size), np.random.default_rng(0)
    sizes = []
    for _ in range(300):
        rows = sample_rows(objective, objective.all_rows, 100, rng, MetricTuning())
        sizes.append(len(rows.C))
        objective.hessian_times(rows, D, np.zeros(len(rows.P)), out)
        mean += out / 300
    assert np.mean(sizes) == pytest.approx(100, rel=0.1)
    np.testing.assert_allclose(mean, exact, atol=0.05 * np.abs(exact).max())


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@with_and_without_intercept
def test_gram_of_all_rows_inverts_the_hessian_of_two_classes(form, fit_intercept):
    objective, _ = objective_at(make(2, C=PRICES["vector"], form=form, fit_intercept=fit_intercept))
    D, out = random_direction(objective, np.random.default_rng(1)), np.zeros(objective.size)
    objective.hessian_times(objective.all_rows, D, np.zeros(N), out)
    gram = make_metric("gram", objective, objective.all_rows, np.random.default_rng(0), MetricTuning())
    np.testing.assert_allclose(gram.solve(out), D, atol=1e-3)


@pytest.mark.parametrize("few", [0, 50], ids=["shared", "each class"])
@pytest.mark.parametrize("name", ["diagonal", "gram"])
@every_k
def test_metric_is_symmetric_positive_and_leaves_padding_alone(name, few, k):
    tuning = MetricTuning(features_per_class=few)
    objective, _ = objective_at(make(k, form=csr_matrix))
    metric = make_metric(name, objective, objective.all_rows, np.random.default_rng(0), tuning).solve
    rng = np.random.default_rng(1)
    D, E = random_direction(objective, rng), random_direction(objective, rng)
    assert D @ metric(D) > 0.0
    assert D @ metric(E) == pytest.approx(E @ metric(D), rel=1e-3, abs=1e-3)
    padding = metric(D).reshape(-1, objective.k)[:, objective.problem.n_columns :]
    np.testing.assert_array_equal(padding, 0.0)


@pytest.mark.parametrize("name", ["diagonal", "gram"])
def test_metric_inverts_what_all_classes_share_and_keeps_the_rest_apart(name):
    objective, _ = objective_at(make(3, form=csr_matrix))
    metric = make_metric(name, objective, objective.all_rows, np.random.default_rng(0), MetricTuning()).solve
    D, m = random_direction(objective, np.random.default_rng(1)).reshape(-1, objective.k), objective.problem.n_columns
    shared = np.zeros_like(D)
    shared[:-1, :m] = D[:-1, :m].mean(axis=1, keepdims=True)
    out = np.zeros(objective.size)
    objective.hessian_times(objective.all_rows, shared.ravel(), np.zeros(len(objective.all_rows.P)), out)
    np.testing.assert_allclose(metric(out).reshape(D.shape), shared, atol=1e-9)
    rest = D.copy()
    rest[:, :m] -= D[:, :m].mean(axis=1, keepdims=True)
    np.testing.assert_allclose(metric(rest.ravel()).reshape(D.shape)[:, :m].sum(axis=1), 0.0, atol=1e-9)


def codes_of_categories(k, n, groups, levels, seed=0):
    """Ones at the categories of each row, standardised: the columns of a group depend on each other."""
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, levels, (n, groups)) + levels * np.arange(groups)
    X = np.zeros((n, groups * levels))
    np.put_along_axis(X, columns, 1.0, axis=1)
    scores = X @ rng.standard_normal((X.shape[1], k))
    return (X - X.mean(axis=0)) / X.std(axis=0), (scores + rng.standard_normal(scores.shape)).argmax(axis=1)


def has_matrix_of_each_class(problem, solver, n_steps):
    state = solver.start(problem, None, np.random.default_rng(0))
    seen = []
    for _ in range(n_steps):
        state = solver.step(problem, state)
        seen.append(state.is_by_class)
    return seen


@pytest.mark.parametrize(("k", "n", "groups", "levels", "rows"), [(2, 14_000, 4, 22, 6000), (20, 8000, 3, 19, 1000)])
def test_dependent_columns_take_few_steps(k, n, groups, levels, rows):
    X, y = codes_of_categories(k, n, groups, levels)
    problem, tuning = softmax_problem(X, y, C=100.0, penalty=L2(1.0)), NewtonCGTuning(first_rows=rows)
    assert fit(problem, NewtonCG(tuning=tuning), tol=1e-4, max_iter=40).status is Status.CONVERGED
    assert fit(problem, NewtonCG("gram", tuning=tuning), tol=1e-4, max_iter=40).status is Status.MAX_ITER
    assert has_matrix_of_each_class(problem, NewtonCG(), 4) == [False, False, True, True]


def test_classes_have_matrices_of_their_own_once_products_cost_more():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1200, 60)) @ rng.standard_normal((60, 60))  # correlated, not dependent
    y = (X[:, :40] + 0.1 * rng.standard_normal((1200, 40))).argmax(axis=1)
    problem = softmax_problem(X, y, C=10.0, penalty=L2(1.0))
    seen = has_matrix_of_each_class(problem, NewtonCG(), 6)
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (False, True)
    assert not any(has_matrix_of_each_class(problem, NewtonCG("gram"), 6))
    independent = softmax_problem(rng.standard_normal((1200, 60)), np.arange(1200) % 4, C=1.0, penalty=L2(1.0))
    assert not any(has_matrix_of_each_class(independent, NewtonCG(), 6))


@given(seed=st.integers(0, 200), radius=st.floats(1e-3, 10.0))
def test_conjugate_gradients_solve_or_stop_at_the_edge(seed, radius):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((12, 8))
    H, right = A.T @ A + 0.1 * np.eye(8), rng.standard_normal(8)

    def product(v, out):
        out[:] = H @ v

    x, residual, at_edge = conjugate_gradients(product, right, lambda v: v, 1e-10, radius=radius)
    exact = np.linalg.solve(H, right)
    np.testing.assert_allclose(residual, right - H @ x, atol=1e-9)
    assert at_edge == (np.linalg.norm(exact) > radius)
    if at_edge:
        assert np.linalg.norm(x) == pytest.approx(radius)
        assert 0.5 * x @ H @ x - right @ x < 0.0
    else:
        np.testing.assert_allclose(x, exact, atol=1e-6)


@pytest.mark.parametrize("k", [2, 4])
def test_primal_dual_steps_do_not_mind_raw_features(k):
    """Columns of sizes 1e-3 to 1e3, most of them rare, and a large C."""
    X, y = blobs(300, 24, k, seed=3, separation=1.0)
    rng = np.random.default_rng(0)
    X[rng.random(X.shape) > np.geomspace(0.01, 1.0, 24)] = 0.0
    X *= rng.permutation(np.geomspace(1e-3, 1e3, 24))
    problem = softmax_problem(csr_matrix(X), y, C=100.0, penalty=L2(1.0))
    result = fit(problem, PrimalDualNewton(), tol=1e-6, max_iter=40)
    assert result.status is Status.CONVERGED
    newton = fit(problem, SoftmaxNewton(), tol=1e-6)
    assert result.certificate.primal == pytest.approx(newton.certificate.primal, rel=2e-6)


def test_factors_have_no_numbers_below_the_normal_ones():
    """Products of tiny entries are subnormal numbers of float32, which take processors many times as long."""
    rng = np.random.default_rng(0)
    A = (0.03 * rng.standard_normal((80, 40)) * np.logspace(0.0, -20.0, 40)).astype(np.float32)
    H = A.T @ A
    np.fill_diagonal(H, 1.0)
    dense = np.triu(H, 1)
    assert ((dense != 0.0) & (np.abs(dense) < 1e-19)).any()
    factor = np.triu(factored(H.copy()))
    assert not ((factor != 0.0) & (np.abs(factor) < np.finfo(np.float32).tiny)).any()
    np.testing.assert_allclose(factor.T @ factor, H, atol=3e-6)


@pytest.mark.parametrize(
    ("first", "rows"),
    [(11.0, 80.0), (5.0, 40.0), (1.0, 20.0)],
    ids=["products cost more", "about as much", "much less"],
)
def test_preconditioner_has_as_many_rows_as_pay(first, rows):
    """``first``: what the products of its first system cost, where making it cost 10."""
    problem, solver = make(3), PrimalDualNewton()
    state = solver.start(problem, None, np.random.default_rng(0))
    state.per_feature, state.made, state.first = 40.0, 10.0, first
    every = RidgeObjective(problem).all_rows
    solver._renew(state, every)
    assert (state.per_feature, state.spent) == (rows, 0.0)
    for _ in range(9):
        solver._renew(state, every)
    assert state.per_feature == {11.0: len(problem.y), 5.0: 40.0, 1.0: solver.tuning.first_rows}[first]


def test_preconditioner_is_made_anew_when_products_have_cost_as_much():
    problem, solver = make(3, C=20.0), PrimalDualNewton()
    state, made = solver.start(problem, None, np.random.default_rng(0)), []
    for _ in range(12):
        is_worn = state.spent > state.made
        before = state.n_metrics
        state = solver.step(problem, state)
        made.append(state.n_metrics - before)
        assert made[-1] == int(is_worn)
        assert state.first <= state.spent
    assert 0 < sum(made) < 12


def test_probabilities_follow_the_whole_step_where_the_search_cuts_it():
    """Samples that stopped the search then have curvature in the next system."""
    data = load("digits")
    problem, solver = softmax_problem(255.0 * data.X, data.y, penalty=L2(1.0)), PrimalDualNewton()
    state = solver.start(problem, problem.zero(), np.random.default_rng(0))
    while True:
        logs, scores = state.logs.reshape(len(data.y), -1).copy(), state.scores.copy()
        state = solver.step(problem, state)
        if state.cut < 0.9:
            break
    objective = state.objective
    end, short = (objective.matrix(flat) for flat in (scores + objective.T, state.scores))
    found = state.logs.reshape(len(data.y), -1)
    np.testing.assert_allclose(found, followed(logs, np.exp(logs), end, solver.tuning.floor), atol=1e-8)
    assert np.abs(found - followed(logs, np.exp(logs), short, solver.tuning.floor)).max() > 1e-3


def test_the_ridge_falls_to_that_of_the_problem_and_the_weights_remain_those_of_q():
    problem, solver = make(3, C=20.0), PrimalDualNewton(PrimalDualNewtonTuning(light=0.0))
    state, n = solver.start(problem, None, np.random.default_rng(0)), len(problem.y)
    ridges = [state.ridge]
    while state.ridge > problem.ridge:
        q, W, cut = np.exp(state.logs.reshape(n, -1)), state.weights.copy(), state.cut
        pulls = (q - np.eye(3)[problem.y]) / state.ridge
        if cut >= solver.tuning.near:
            solver._lower_ridge(problem, state.objective, state)
            q = np.exp(state.logs.reshape(n, -1))
            np.testing.assert_allclose((q - np.eye(3)[problem.y]) / state.ridge, pulls, rtol=1e-9, atol=1e-15)
            np.testing.assert_array_equal(state.weights, W)
            state.cut = 0.0
        value, gradient = state.value, state.gradient.copy()
        state.objective.evaluate(state)
        state.objective.fill_gradient(state)
        assert value == pytest.approx(state.value, rel=1e-12)
        np.testing.assert_allclose(gradient, state.gradient, atol=1e-9 * np.abs(gradient).max())
        state = solver.step(problem, state)
        ridges.append(state.ridge)
    assert state.ridge == problem.ridge
    assert max(a / b for a, b in pairwise(ridges)) <= solver.tuning.fall * (1.0 + 1e-12)
    assert solver.start(problem, solver.point(problem, state), np.random.default_rng(0)).ridge == problem.ridge


def test_a_falling_ridge_takes_fewer_steps_than_the_last_one_from_the_start():
    data, rng = load("digits"), np.random.default_rng(0)
    X = 255.0 * data.X[:400] * (rng.random((400, data.X.shape[1])) < 0.3)
    problem = softmax_problem(X, data.y[:400], C=1000.0, penalty=L2(1.0))
    steps = [
        fit(problem, PrimalDualNewton(), tol=1e-3, init=init).trace[-1].iteration for init in (None, problem.zero())
    ]
    assert steps[0] < 0.8 * steps[1]


def test_a_ridge_that_hardly_matters_falls_at_once():
    X, y = np.random.default_rng(0).standard_normal((300, 3)), np.arange(300) % 3
    problem, solver = softmax_problem(X, y, C=1000.0, penalty=L2(1.0)), PrimalDualNewton()
    state = solver.start(problem, None, np.random.default_rng(0))
    assert state.ridge > 9.0 * problem.ridge
    for _ in range(3):
        state = solver.step(problem, state)
    assert state.ridge == problem.ridge
