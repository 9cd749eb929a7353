"""The whole Hessian, its rotated coordinates and the logistic line are what NumPy says; the rule takes small ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix, random_array
from scipy.special import expit

from reference.ridge_softmax import FORMS, PRICES, make, samples
from softmargin.core.errors import IncompatibleError
from softmargin.estimators.posing.auto import find_solver
from softmargin.penalties import L2
from softmargin.problems import CompositePoint, softmax_problem
from softmargin.run import Status, Stop, solve
from softmargin.solvers.common.rotation import find_rotation
from softmargin.solvers.hand_over import HandOver
from softmargin.solvers.softmax import _ridge_objective
from softmargin.solvers.softmax import newton as softmax_newton
from softmargin.solvers.softmax._losses import logistic_along
from softmargin.solvers.softmax._ridge_objective import Damping, RidgeObjective, RidgeState
from softmargin.solvers.softmax.dual_descent import SoftmaxDualDescent
from softmargin.solvers.softmax.newton import SoftmaxNewton, SoftmaxNewtonState, SoftmaxNewtonTuning, fill_hessian
from softmargin.solvers.softmax.newton_cg import NewtonCG
from softmargin.solvers.softmax.primal_dual_newton import PrimalDualNewton

with_and_without_intercept = pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "no intercept"])


def fit(problem, solver, tol=1e-10, max_iter=100, **more):
    return solve(problem, solver, stop=Stop(tol, max_iter), rng=0, **more)


@given(
    scores=st.lists(st.floats(-800.0, 800.0), min_size=1, max_size=11),
    length=st.floats(-3.0, 3.0),
    seed=st.integers(0, 100),
)
def test_logistic_line_is_the_loss_with_its_derivatives(scores, length, seed):
    rng = np.random.default_rng(seed)
    S, n = np.array(scores), len(scores)
    T, C, labels = rng.standard_normal(n), rng.random(n), rng.integers(0, 2, n).astype(float)
    new, P = np.empty(n), np.empty(n)
    loss, slope, bend = logistic_along(S, T, length, labels, C, new, P)
    s = S + length * T
    np.testing.assert_allclose(new, s, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(P, expit(new), rtol=1e-12, atol=1e-300)
    losses = np.where(labels == 1.0, np.logaddexp(0.0, -new), np.logaddexp(0.0, new))
    assert loss == pytest.approx(C @ losses, rel=1e-10, abs=1e-9)
    assert slope == pytest.approx((C * T) @ (P - labels), rel=1e-9, abs=1e-12)
    assert bend == pytest.approx((C * T * T) @ (expit(new) * expit(-new)), rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("score", [-700.0, -40.0, -20.0, -3.0, -1e-9])
def test_losses_far_below_one_keep_their_digits(score):
    one = np.ones(1)
    loss, _, _ = logistic_along(score * one, 0.0 * one, 0.0, 0.0 * one, one, np.empty(1), np.empty(1))
    assert loss == pytest.approx(np.log1p(np.exp(score)), rel=1e-15)


@pytest.mark.parametrize("block", [1, softmax_newton.BLOCK], ids=["many blocks", "one block"])
@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(
    ("pays", "most"), [(0, 0), (np.inf, 0), (np.inf, np.inf)], ids=["pairs of features", "scaled rows", "loops"]
)
@with_and_without_intercept
def test_hessian_is_the_one_that_products_with_it_tell(k, form, fit_intercept, pays, most, block, monkeypatch):
    monkeypatch.setattr(softmax_newton, "BLOCK", block)
    monkeypatch.setattr(_ridge_objective, "PAIRS_PAY", pays)
    monkeypatch.setattr(_ridge_objective, "LOOPS_PAY", most)
    problem = make(k, C=PRICES["vector"], form=form, fit_intercept=fit_intercept)
    rng, columns = np.random.default_rng(0), problem.n_columns
    objective = RidgeObjective(problem)
    point = CompositePoint(rng.standard_normal((6, columns)), rng.standard_normal(columns))
    objective.begin(RidgeState, problem.checked_point(point))
    size = 6 + int(fit_intercept)
    has_pairs = k > 3 and pays == 0 and isinstance(objective.X, np.ndarray)
    assert (objective.pairs is not None) == has_pairs
    assert (objective.few is not None) == (most > 0 and isinstance(objective.X, np.ndarray))
    H = np.full((columns * size, columns * size), np.nan)
    fill_hessian(objective, H)
    H = np.triu(H) + np.triu(H, 1).T
    V = rng.standard_normal((size, columns))
    V[6:] -= V[6:].mean(axis=1, keepdims=True) * (k > 2)  # shifted together, intercepts have a curvature of their own
    D, out, T = (np.zeros(size) for size in (objective.size, objective.size, problem.X.shape[0] * objective.k))
    objective.matrix(D)[:size] = V
    objective.hessian_times(objective.all_rows, D, T, out)
    np.testing.assert_allclose((H @ V.T.ravel()).reshape(columns, size).T, objective.matrix(out)[:size], atol=1e-9)
    assert np.linalg.eigvalsh(H).min() > 0.0


@pytest.mark.parametrize("k", [2, 3, 5])
@with_and_without_intercept
def test_loops_give_the_gradient_and_the_step_that_products_give(k, fit_intercept, monkeypatch):
    problem, found = make(k, C=PRICES["vector"], fit_intercept=fit_intercept), []
    rng, columns = np.random.default_rng(0), problem.n_columns
    point = CompositePoint(rng.standard_normal((6, columns)), rng.standard_normal(columns))
    for most in (0, np.inf):
        monkeypatch.setattr(_ridge_objective, "LOOPS_PAY", most)
        objective, solver = RidgeObjective(problem), SoftmaxNewton()
        state = objective.begin(SoftmaxNewtonState, problem.checked_point(point))
        line = solver._few_line(objective, state)
        assert (line is not None) == (most > 0)
        line = line or objective.line(state, solver._direction(objective, state))
        found.append((state.gradient, line.D, line.evaluate(1.0), objective.T.copy()))
    for plain, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, plain, rtol=1e-10, atol=1e-12)


def test_loops_leave_a_hessian_without_a_factor_to_the_damping():
    problem = make(2, C=PRICES["vector"])
    objective = RidgeObjective(problem)
    state = objective.begin(SoftmaxNewtonState, None)
    assert SoftmaxNewton()._few_line(objective, state) is not None
    state.damping = 0.1
    assert SoftmaxNewton()._few_line(objective, state) is None
    state.damping, objective.ridge = 0.0, -1e9
    assert SoftmaxNewton()._few_line(objective, state) is None


@pytest.mark.parametrize("k", [2, 3, 5])
@with_and_without_intercept
def test_hessians_in_single_precision_are_those_in_double(k, fit_intercept, monkeypatch):
    problem = make(k, C=PRICES["vector"], fit_intercept=fit_intercept)
    size, found = problem.n_columns * (6 + int(fit_intercept)), []
    monkeypatch.setattr(_ridge_objective, "LOOPS_PAY", 0)
    for pays in (0, np.inf):
        monkeypatch.setattr(_ridge_objective, "PAIRS_PAY", pays)
        monkeypatch.setattr(_ridge_objective, "ROUGH_PAYS", pays)
        objective, H = RidgeObjective(problem), np.zeros((size, size))
        objective.begin(RidgeState, None)
        fill_hessian(objective, H)
        assert objective.rows.dtype == (np.float32 if pays == 0 else np.float64)
        found.append(np.triu(H))
    np.testing.assert_allclose(*found, atol=1e-5 * found[1].max())
    assert (found[0] != found[1]).any()


def test_hessians_are_double_where_their_rounding_is_no_small_share_of_the_ridge(monkeypatch):
    monkeypatch.setattr(_ridge_objective, "ROUGH_PAYS", 0)
    assert RidgeObjective(make(3)).rows.dtype == np.float32
    assert RidgeObjective(make(3, C=1e6)).rows.dtype == np.float64
    assert RidgeObjective(make(3, form=lambda X: 1e4 * X)).rows.dtype == np.float64
    assert RidgeObjective(make(3, form=lambda X: 1e20 * X, C=1e-38)).rows.dtype == np.float64


def test_factors_that_would_be_subnormal_are_zero_in_single_precision(monkeypatch):
    monkeypatch.setattr(_ridge_objective, "ROUGH_PAYS", 0)
    objective = RidgeObjective(make(3))
    np.testing.assert_array_equal(objective.narrowed(np.array([1.0, 1e-9, 1e-11])), np.float32([1.0, 1e-9, 0.0]))


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@given(seed=st.integers(0, 50), repeats=st.integers(0, 3))
def test_rotation_keeps_scores_and_length(form, seed, repeats):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((5, 12)).astype(np.float32).astype(float)
    X = np.vstack([X, X[:repeats], np.zeros((1, 12))])
    rotation = find_rotation(form(X))
    U = rng.standard_normal((rotation.A.shape[1], 2))
    W = rotation.outward(U)
    assert rotation.A.shape == (len(X), 5)
    np.testing.assert_allclose(X @ W, rotation.A @ U, atol=1e-7)
    np.testing.assert_allclose(np.linalg.norm(W, axis=0), np.linalg.norm(U, axis=0), rtol=1e-7)
    np.testing.assert_allclose(rotation.inward(W), U, atol=1e-7)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("density", [1.0, 0.1])
@with_and_without_intercept
def test_wide_data_have_the_optimum_of_conjugate_gradients(k, density, fit_intercept):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((30, 90)) * (rng.random((30, 90)) < density)
    X[7], X[8] = X[6], 0.0
    problem = make(X=X, y=np.arange(30) % k, form=csr_matrix, fit_intercept=fit_intercept)
    ours, theirs = fit(problem, SoftmaxNewton()), fit(problem, NewtonCG())
    assert ours.status is Status.CONVERGED
    assert ours.n_iter <= 10
    np.testing.assert_allclose(ours.point.weights, theirs.point.weights, atol=1e-4)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("offset", [1e3, 1e5])
def test_columns_far_from_zero_cost_no_steps(k, offset):
    X, y = samples(k=k)
    assert fit(make(X=X + offset, y=y), SoftmaxNewton(), tol=1e-6, max_iter=12).status is Status.CONVERGED


@pytest.mark.parametrize("k", [2, 3])
def test_huge_scales_and_prices_have_their_optimum(k):
    X, y = samples(k=k)
    for scale, C in ((1e6, 1.0), (1e-6, 1.0), (1.0, 1e8)):
        assert fit(make(X=scale * X, y=y, C=C), SoftmaxNewton(), tol=1e-6).status is Status.CONVERGED


@pytest.mark.parametrize("k", [2, 3])
@with_and_without_intercept
def test_data_without_features_leave_the_intercept(k, fit_intercept):
    problem = make(X=np.empty((9, 0)), y=np.arange(9) % k, fit_intercept=fit_intercept)
    result = fit(problem, SoftmaxNewton())
    assert result.status is Status.CONVERGED
    assert result.point.weights.shape == (0, problem.n_columns)


def test_float32_is_not_widened():
    X, y = samples(k=2)
    state = SoftmaxNewton().start(make(X=X.astype(np.float32), y=y), None, np.random.default_rng(0))
    assert state.objective.X.dtype == np.float32


def test_hessian_too_large_for_memory_is_refused():
    solver = SoftmaxNewton(tuning=SoftmaxNewtonTuning(max_unknowns=20))
    fit(make(2), solver)
    with pytest.raises(IncompatibleError, match=r"at most 20 of them; this problem has 21. Use NewtonCG"):
        fit(make(3), solver)


def test_damping_grows_until_it_is_all_and_goes_back_to_none():
    damping, seen = 0.0, []
    for helped in [False] * 6 + [True] * 6:
        damping = Damping().after(damping, 1.0 if helped else 0.0)
        seen.append(damping)
    np.testing.assert_allclose(seen, [1e-4, 1e-3, 1e-2, 0.1, 1.0, 1.0, 0.1, 1e-2, 1e-3, 1e-4, 0.0, 0.0])


@pytest.mark.parametrize(
    ("n", "d", "k", "density", "kind"),
    [
        (300, 12, 2, 1.0, SoftmaxNewton),
        (20, 4000, 2, 1.0, SoftmaxNewton),
        (3000, 300, 2, 0.02, SoftmaxNewton),
        (2000, 200, 2, 1.0, NewtonCG),
        (3000, 2000, 2, 0.002, NewtonCG),
        (3000, 4000, 2, 0.002, SoftmaxDualDescent),
        (5000, 4000, 2, 0.002, SoftmaxDualDescent),
        (400, 20, 30, 1.0, NewtonCG),
        (1000, 40, 20, 1.0, NewtonCG),
        (400, 40, 20, 1.0, SoftmaxDualDescent),
        (1000, 10, 3, 1.0, SoftmaxNewton),
        (9000, 10, 5, 1.0, SoftmaxNewton),
        (3000, 4000, 20, 0.002, SoftmaxDualDescent),
    ],
)
def test_default_is_the_whole_hessian_where_that_is_small(n, d, k, density, kind):
    rng = np.random.default_rng(0)
    X = random_array((n, d), density=density, rng=rng, format="csr")
    problem = make(X=X, y=np.arange(n) % k, form=csr_matrix)
    solver = find_solver("auto", problem)
    assert isinstance(getattr(solver, "first", solver), kind)


@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
@pytest.mark.parametrize(
    ("n", "d", "C", "kind"),
    [
        (200, 60, 1.0, HandOver),  # few rows for the features
        (200, 60, 1e3, HandOver),
        (200, 60, 1e5, PrimalDualNewton),
        (600, 60, 0.1, HandOver),  # a small C
        (600, 60, 1.0, NewtonCG),
        (300, 60, 100.0, PrimalDualNewton),
        (2500, 600, 1.0, HandOver),  # many features
        (2500, 600, 10.0, PrimalDualNewton),
    ],
)
def test_default_is_the_dual_where_rows_are_few_for_the_features_or_C_is_modest(n, d, C, kind, form):
    X = np.random.default_rng(0).standard_normal((n, d))
    problem = softmax_problem(form(X), np.arange(n) % 10, C=C, penalty=L2(1.0))
    chosen = find_solver("auto", problem)
    assert isinstance(chosen, kind)
    if kind is HandOver:
        assert (type(chosen.first), type(chosen.then)) == (SoftmaxDualDescent, NewtonCG)


def test_default_is_the_dual_where_classes_have_few_rows_for_the_features_and_C_is_modest():
    X = np.random.default_rng(0).standard_normal((600, 60))
    for k, C, kind in ((60, 1.0, HandOver), (30, 1.0, NewtonCG), (60, 100.0, PrimalDualNewton)):
        assert isinstance(find_solver("auto", softmax_problem(X, np.arange(600) % k, C=C, penalty=L2(1.0))), kind)


@pytest.mark.parametrize(
    ("n", "d", "k", "C", "kind"),
    [
        (1000, 60, 10, 100.0, NewtonCG),  # 1.7 rows for each feature and class, steep
        (600, 60, 10, 100.0, PrimalDualNewton),  # fewer
        (1000, 60, 10, 0.1, HandOver),  # not steep
        (2500, 60, 10, 0.1, NewtonCG),  # more than 4
        (6200, 510, 3, 10.0, PrimalDualNewton),  # many features of an array, ...
        (6200, 510, 3, 0.1, HandOver),
    ],
)
def test_default_of_many_rows_for_each_feature_and_class_goes_by_products(n, d, k, C, kind):
    X = np.random.default_rng(0).standard_normal((n, d))
    assert isinstance(find_solver("auto", softmax_problem(X, np.arange(n) % k, C=C, penalty=L2(1.0))), kind)
    if d == 510:  # ... or of sparse rows with a fifth of the entries, as mnist has them, but not with few
        for share, sparse_kind in ((0.2, kind), (0.05, NewtonCG)):
            sparse = random_array(
                (n, d), density=share, rng=np.random.default_rng(0), format="csr", data_sampler=normal
            )
            found = find_solver("auto", softmax_problem(sparse, np.arange(n) % k, C=C / share, penalty=L2(1.0)))
            assert isinstance(found, sparse_kind)


def normal(size):
    return np.random.default_rng(0).standard_normal(size)


def test_default_of_wide_sparse_rows_is_the_dual_but_for_two_classes_many_rows_and_a_large_C():
    rows, features = np.arange(7000), 3200
    places = np.random.default_rng(0).integers(0, features, (len(rows), 10))
    X = csr_matrix((np.ones(places.size), (np.repeat(rows, 10), places.ravel())), shape=(len(rows), features))
    for k, n, C, is_dual in ((2, 7000, 2.0, False), (2, 7000, 1.0, True), (2, 6000, 2.0, True), (3, 7000, 2.0, True)):
        chosen = find_solver("auto", softmax_problem(X[:n], rows[:n] % k, C=C, penalty=L2(1.0)))
        assert isinstance(getattr(chosen, "first", chosen), SoftmaxDualDescent if is_dual else NewtonCG)


def test_default_without_a_ridge_is_damped_conjugate_gradients():
    assert isinstance(find_solver("auto", make(2, ridge=0.0)), NewtonCG)


@pytest.mark.parametrize(("share", "is_array"), [(1.0, True), (0.2, False)])
def test_a_small_sparse_matrix_without_many_zeros_becomes_an_array(share, is_array):
    X = random_array((60, 5), density=share, rng=np.random.default_rng(0), format="csr")
    objective = RidgeObjective(softmax_problem(csr_matrix(X), np.arange(60) % 3, penalty=L2(1.0)))
    assert isinstance(objective.X, np.ndarray) == is_array
