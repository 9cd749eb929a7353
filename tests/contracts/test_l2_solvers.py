"""Every solver of the binary L2-SVM reaches the optimum of a QP, with and without a bias, also on awkward data."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.svm import SVC

from reference.l2_optimum import l2_optimum
from softmargin.core.aim import aiming_at
from softmargin.core.errors import IncompatibleError
from softmargin.data import load
from softmargin.kernels import Laplacian, Linear, Polynomial, Precomputed, Rbf
from softmargin.matrices.gram import Gram
from softmargin.problems.free_bias import BiasPoint
from softmargin.problems.l2_svm import L2SVM
from softmargin.run import Status, Stop, solve
from softmargin.solvers.squared_hinge.dual_descent import DescentTuning, SquaredHingeDescent
from softmargin.solvers.squared_hinge.dual_prox_gradient import DualProxGradient
from softmargin.solvers.squared_hinge.newton import PrimalNewton, PrimalNewtonTuning
from softmargin.solvers.squared_hinge.smo import Smo
from softmargin.testing import check_run

SOLVERS = {
    "smo": Smo(),
    "fista": DualProxGradient(),
    "paper": DualProxGradient(accelerated=False, restart=False, projection="bisection", centred=False),
    "newton": PrimalNewton(),
    "descent": SquaredHingeDescent(),
}
LINEAR = ("newton", "descent")
KERNELS = {"linear": Linear(), "rbf": Rbf(0.3), "laplacian": Laplacian(0.3), "polynomial": Polynomial(0.5, 2, 1.0)}
PRICES = {"one": 1.0, "vector": np.tile([0.0, 0.3, 1.0, 4.0], 15)}
FAST = [name for name in SOLVERS if name != "paper"]  # the paper's own version is right, but slow
every_solver = pytest.mark.parametrize("solver", [SOLVERS[name] for name in FAST], ids=FAST)
dual_solvers = pytest.mark.parametrize("solver", [SOLVERS["smo"], SOLVERS["fista"]], ids=["smo", "fista"])
every_pair = pytest.mark.parametrize(
    ("solver", "kernel"),
    [
        pytest.param(solver, kernel, id=f"{name}-{kernel.name}")
        for name, solver in SOLVERS.items()
        for kernel in KERNELS.values()
        if name in ("smo", "fista") or kernel.name == ("linear" if name in LINEAR else "rbf")
    ],
)
with_and_without_bias = pytest.mark.parametrize("has_bias", [True, False], ids=["bias", "no bias"])


def overlapping(n=60, d=4, seed=0, share=0.5):
    """Return two classes that no kernel separates without effort."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) < share * n, 1.0, -1.0)
    return rng.standard_normal((n, d)) + 0.5 * y[:, None] + 0.3, y


def make(X, y, kernel=KERNELS["linear"], *, cache_size=1000.0, **settings):
    return L2SVM(Gram(kernel, X, cache_size=cache_size), y, **settings)


def fit(problem, solver, *, tol=1e-8, max_iter=5000, rng=0, **more):
    return solve(problem, solver, stop=Stop(tol, max_iter), rng=rng, **more)


def matrix(problem):
    return problem.gram.rows(np.arange(problem.gram.n)).astype(np.float64)


def scores_of(problem, point):
    return problem.gram.scores(problem.y * point.alpha)


class Witness:
    """Notes the dual value and whether the point is feasible after every step."""

    def begin(self, problem, solver, stop):
        self.bounds, self.outside = [], []

    def watch(self, progress):
        problem, point = progress.problem, progress.solver.point(progress.problem, progress.state)
        self.bounds.append(problem.dual(point.alpha).value)
        balance = abs(problem.y @ point.alpha) if problem.has_bias else 0.0
        self.outside.append(max(balance / max(point.alpha.sum(), 1e-300), -point.alpha.min()))

    def end(self, result): ...


@every_pair
@with_and_without_bias
@pytest.mark.parametrize("prices", PRICES)
def test_solver_reaches_the_optimum_honestly(solver, kernel, has_bias, prices):
    problem, witness = make(*overlapping(), kernel, C=PRICES[prices], has_bias=has_bias), Witness()
    optimum = l2_optimum(matrix(problem), problem.y, problem.C, has_bias=has_bias)
    tol = 1e-5 if solver is SOLVERS["paper"] else 1e-8
    result = check_run(solver, problem, tol=tol, optimum=optimum.value, watchers=[witness])
    assert max(witness.bounds) <= optimum.value * (1 + 1e-8)
    assert max(witness.outside) <= 1e-10
    assert (result.point.alpha[problem.C == 0] == 0).all()
    if tol < 1e-6:
        np.testing.assert_allclose(scores_of(problem, result.point), optimum.scores, atol=1e-3)
        assert result.point.bias == pytest.approx(optimum.bias, abs=1e-3)


@every_pair
@with_and_without_bias
def test_estimate_is_what_the_judge_says(solver, kernel, has_bias):
    if solver is SOLVERS["descent"]:
        pytest.skip("its estimate sums the gaps that its last visits found, and is not that of the judge")
    problem = make(*overlapping(), kernel, C=PRICES["vector"], has_bias=has_bias)
    state = solver.start(problem, None, np.random.default_rng(0))
    for _ in range(4):
        state = solver.step(problem, state)
        judged = problem.certificate(solver.point(problem, state))
        plain = judged.residual - judged.rounding
        assert solver.estimate(problem, state) == pytest.approx(plain, rel=1e-5, abs=1e-12)


@with_and_without_bias
def test_smo_never_lowers_the_dual_value(has_bias):
    witness = Witness()
    fit(make(*overlapping(), KERNELS["rbf"], C=10.0, has_bias=has_bias), SOLVERS["smo"], tol=1e-10, watchers=[witness])
    assert len(witness.bounds) > 3
    assert (np.diff(witness.bounds) >= -1e-12 * witness.bounds[-1]).all()


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@with_and_without_bias
def test_parts_of_the_gap_are_positive_and_sum_to_it(kernel, has_bias):
    problem = make(*overlapping(), kernel, C=PRICES["vector"], has_bias=has_bias)
    rng = np.random.default_rng(1)
    for _ in range(20):
        alpha = problem.feasible(rng.standard_normal(60) * rng.integers(0, 2, 60))
        scores = problem.gram.scores(problem.y * alpha)
        bias = problem.best_bias(scores)
        parts = problem.gaps(alpha, scores, bias)
        primal = 0.5 * (problem.y * alpha) @ scores + 0.5 * problem.C @ problem.slacks(scores, bias) ** 2
        assert parts.min() >= 0.0
        assert parts.sum() == pytest.approx(primal - problem.dual(alpha).value, rel=1e-9)


@dual_solvers
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_every_positive_variable_tells_the_same_bias(solver, kernel):
    """Maths: squared hinge, section 2: b = y_i (1 - a_i / C_i) - F_i wherever a_i > 0."""
    problem = make(*overlapping(), kernel, C=np.tile([0.5, 2.0], 30))
    point = fit(problem, solver, tol=1e-14, max_iter=20_000).point
    free = point.alpha > 1e-6
    told = problem.y * (1.0 - point.alpha / problem.C) - scores_of(problem, point)
    np.testing.assert_allclose(told[free], point.bias, atol=1e-5)


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("projection", ["newton", "sort", "bisection"])
def test_multiplier_of_the_projection_tells_the_bias(projection, centred):
    """Maths: squared hinge, section 2: b = L lambda; centring subtracts the mean score."""
    problem = make(*overlapping(), KERNELS["rbf"])
    solver = DualProxGradient(projection=projection, centred=centred)
    state = solver.start(problem, None, np.random.default_rng(0))
    for _ in range(100):
        state = solver.step(problem, state)
    point = solver.point(problem, state)
    mean = scores_of(problem, point).mean() if centred else 0.0
    assert state.lipschitz * state.multiplier - mean == pytest.approx(point.bias, abs=1e-6)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_centring_lowers_the_lipschitz_constant_and_keeps_the_solution(kernel):
    X, y = overlapping()
    problem = make(X + 3.0, y, kernel)
    results, constants = [], []
    for centred in (False, True):
        solver = DualProxGradient(centred=centred)
        results.append(fit(problem, solver, tol=1e-8, max_iter=20_000))
        constants.append(solver.start(problem, None, np.random.default_rng(0)).lipschitz)
    assert constants[1] < 0.7 * constants[0]
    assert all(result.status is Status.CONVERGED for result in results)
    np.testing.assert_allclose(results[0].point.alpha, results[1].point.alpha, atol=1e-3)
    assert results[0].point.bias == pytest.approx(results[1].point.bias, abs=1e-3)


def test_lipschitz_constant_that_is_too_small_is_raised():
    problem, solver = make(*overlapping(), KERNELS["rbf"]), DualProxGradient()
    state = solver.start(problem, None, np.random.default_rng(0))
    right = state.lipschitz
    state.lipschitz = right / 50.0
    for _ in range(50):
        state = solver.step(problem, state)
    assert state.lipschitz > right / 50.0
    assert solver.estimate(problem, state) < 1e-8


@dual_solvers
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@with_and_without_bias
@pytest.mark.parametrize("rows", [2, 7, 40])
def test_tiny_cache_gives_the_same_optimum(solver, kernel, has_bias, rows):
    X, y = overlapping()
    problem = make(X, y, kernel, cache_size=16e-6 * (rows**2 + 1), has_bias=has_bias, C=PRICES["vector"])
    assert problem.gram.largest_square == rows
    optimum = l2_optimum(matrix(make(X, y, kernel)), y, problem.C, has_bias=has_bias)
    result = fit(problem, solver, tol=1e-6)
    assert result.status is Status.CONVERGED
    assert result.certificate.primal == pytest.approx(optimum.value, rel=1e-6)


def test_rows_that_are_not_needed_are_never_computed():
    """Two far clouds and a few samples between them: the clouds' rows stay closed."""
    rng = np.random.default_rng(0)
    X = np.vstack([rng.standard_normal((20, 2)) * 0.3, rng.standard_normal((800, 2)) * 0.1 + 4.0])
    X = np.vstack([X, rng.standard_normal((800, 2)) * 0.1 - 4.0])
    y = np.sign(X.sum(axis=1))
    problem, solver = make(X, y, Linear(), C=10.0), SOLVERS["smo"]
    state = solver.start(problem, None, np.random.default_rng(0))
    while solver.estimate(problem, state) > 1e-6:
        state = solver.step(problem, state)
    assert state.is_open.sum() < 400


@every_solver
@with_and_without_bias
def test_dense_is_csr_is_float32_is_a_given_matrix(solver, has_bias):
    X, y = overlapping()
    X = X.astype(np.float32).astype(np.float64)  # numbers that both types hold exactly
    forms = [X, csr_matrix(X), X.astype(np.float32), csr_matrix(X.astype(np.float32))]
    problems = [make(form, y, has_bias=has_bias) for form in forms]
    if solver not in [SOLVERS[name] for name in LINEAR]:
        problems.append(make(X @ X.T, y, Precomputed(), has_bias=has_bias))
    values = [fit(problem, solver, tol=1e-7, max_iter=20_000).certificate.primal for problem in problems]
    np.testing.assert_allclose(values, l2_optimum(X @ X.T, y, 1.0, has_bias=has_bias).value, rtol=2e-7)


@every_solver
@with_and_without_bias
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e5])
def test_any_garbage_is_a_valid_start(solver, has_bias, scale):
    problem = make(*overlapping(), C=PRICES["vector"], has_bias=has_bias)
    garbage = scale * np.random.default_rng(0).standard_normal(60)
    kept = garbage.copy()
    result = fit(problem, solver, tol=1e-4, max_iter=20_000, init=BiasPoint(garbage, 7.0))
    optimum = l2_optimum(matrix(problem), problem.y, problem.C, has_bias=has_bias)
    assert result.certificate.primal == pytest.approx(optimum.value, rel=2e-4)
    np.testing.assert_array_equal(garbage, kept)


@pytest.mark.parametrize("kernel", [KERNELS["rbf"], KERNELS["polynomial"]], ids=["rbf", "polynomial"])
@pytest.mark.parametrize("C", [1.0, 30.0])
def test_smo_agrees_with_scikit_learn_on_the_shifted_kernel(kernel, C):
    """Maths: squared hinge, eq. 4: squared hinge is a hard margin on K + I / C."""
    problem = make(*overlapping(seed=3), kernel, C=C)
    K = matrix(problem)
    theirs = SVC(kernel="precomputed", C=1e10, tol=1e-9).fit(K + np.eye(60) / C, problem.y)
    ours = fit(problem, SOLVERS["smo"], tol=1e-13).point
    # LIBSVM keeps K in float32: its bias is good to about 1e-7 of the largest entry.
    assert ours.bias == pytest.approx(theirs.intercept_[0], abs=1e-6 * max(1.0, np.abs(K).max()))
    np.testing.assert_allclose(ours.alpha[theirs.support_], np.abs(theirs.dual_coef_[0]), atol=1e-5 * C)


@every_solver
@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_single_class_costs_nothing(solver, label):
    X, _ = overlapping()
    result = fit(make(X, np.full(60, label)), solver)
    assert result.status is Status.CONVERGED
    assert result.certificate.primal == result.certificate.bound == 0.0
    np.testing.assert_array_equal(result.point.alpha, 0.0)
    assert label * result.point.bias >= 1.0


@every_solver
def test_single_class_without_a_bias_has_its_optimum(solver):
    X, _ = overlapping()
    result = fit(make(X, np.ones(60), has_bias=False), solver, tol=1e-7, max_iter=20_000)
    assert result.certificate.primal == pytest.approx(l2_optimum(X @ X.T, np.ones(60), 1.0, has_bias=False).value)


@every_solver
@with_and_without_bias
def test_no_price_costs_nothing(solver, has_bias):
    result = fit(make(*overlapping(), C=0.0, has_bias=has_bias), solver)
    assert result.status is Status.CONVERGED
    assert result.certificate.primal == 0.0
    np.testing.assert_array_equal(result.point.alpha, 0.0)


@every_solver
@pytest.mark.parametrize("d", [0, 3])
def test_rows_of_nothing_leave_only_the_bias(solver, d):
    """Maths: squared hinge, section 9: b = (n+ - n-) / n for equal C, and P = 2 C n+ n- / n."""
    y = np.where(np.arange(20) < 14, 1.0, -1.0)
    result = fit(make(np.zeros((20, d)), y, C=0.7), solver)
    assert result.point.bias == pytest.approx(0.4, abs=1e-4)
    assert result.certificate.primal == pytest.approx(2 * 0.7 * 14 * 6 / 20)


@every_pair
def test_contradictory_duplicates_teach_nothing(solver, kernel):
    """Maths: squared hinge, section 9: w = 0, b = 0, P = n C / 2."""
    X, _ = overlapping(20)
    y = np.repeat([1.0, -1.0], 20)
    result = fit(make(np.vstack([X, X]), y, kernel, C=2.0), solver, tol=1e-7)
    assert result.certificate.primal == pytest.approx(40.0, rel=1e-7)
    assert result.point.bias == pytest.approx(0.0, abs=1e-3)
    np.testing.assert_allclose(scores_of(make(np.vstack([X, X]), y, kernel), result.point), 0.0, atol=1e-2)


AWKWARD = {
    "zero rows": (np.vstack([np.zeros((6, 4)), overlapping()[0][6:]]), overlapping()[1], 1.0),
    "duplicates": (np.repeat(overlapping(20)[0], 3, axis=0), np.repeat(overlapping(20)[1], 3), 1.0),
    "constant column": (np.hstack([overlapping()[0], np.ones((60, 1))]), overlapping()[1], 1.0),
    "one against 59": (*overlapping(share=1 / 60), 1.0),
    "tiny C": (*overlapping(), 1e-8),
}


@every_pair
@with_and_without_bias
@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_data_have_their_optimum(solver, kernel, has_bias, name):
    X, y, C = AWKWARD[name]
    problem = make(X, y, kernel, C=C, has_bias=has_bias)
    result = fit(problem, solver, tol=1e-5)
    assert result.status is Status.CONVERGED
    # The reference loses its digits on a value of 1e-7; but with C so small, w and b are zero but for a share of C.
    expected = C * 30 if C < 1.0 else l2_optimum(matrix(problem), y, C, has_bias=has_bias).value
    assert result.certificate.primal == pytest.approx(expected, rel=1e-5)


@with_and_without_bias
@pytest.mark.parametrize("C", [1e4, 1e8])
def test_smo_reaches_the_hard_margin(has_bias, C):
    X, y = overlapping()
    problem = make(X, y, Rbf(1.0), C=C, has_bias=has_bias)
    hard = l2_optimum(matrix(problem), y, C, has_bias=has_bias).value
    result = fit(problem, SOLVERS["smo"], tol=1e-6)
    assert result.status is Status.CONVERGED
    assert result.certificate.primal == pytest.approx(hard, rel=1e-5)


@with_and_without_bias
@pytest.mark.parametrize(("scale", "offset", "C"), [(1.0, 0.0, 1e8), (1e6, 0.0, 1.0), (1.0, 1e4, 1.0)])
def test_newton_bears_huge_prices_scales_and_offsets(has_bias, scale, offset, C):
    X, y = overlapping(200)
    problem = make(scale * X + offset, y, C=C, has_bias=has_bias)
    result = fit(problem, SOLVERS["newton"], tol=1e-8 if offset else 1e-10, max_iter=30)
    assert result.status is Status.CONVERGED
    if offset and has_bias:  # the bias takes the offset: nothing else changes
        plain = fit(make(X, y, C=C), SOLVERS["newton"], tol=1e-12)
        assert result.certificate.primal == pytest.approx(plain.certificate.primal, rel=1e-9)
        np.testing.assert_allclose(result.point.weights, plain.point.weights, atol=1e-6)


@with_and_without_bias
@pytest.mark.parametrize("form", [np.asarray, csr_matrix, lambda X: X.astype(np.float32)], ids=["dense", "csr", "f32"])
def test_newton_by_products_finds_what_cholesky_finds(has_bias, form):
    X, y = overlapping(80, 30, share=0.2)
    problem = make(form(X), y, C=np.tile([0.0, 100.0], 40), has_bias=has_bias)
    exact = fit(problem, SOLVERS["newton"], tol=1e-10)
    by_products = PrimalNewton(PrimalNewtonTuning(dense_features=0))
    products = fit(problem, by_products, tol=1e-10, max_iter=100)
    assert products.status is exact.status is Status.CONVERGED
    np.testing.assert_allclose(products.point.weights, exact.point.weights, atol=1e-4)
    assert products.point.bias == pytest.approx(exact.point.bias, abs=1e-4)


@pytest.mark.parametrize("name", LINEAR)
def test_linear_solvers_refuse_a_kernel_and_name_smo(name):
    with pytest.raises(IncompatibleError, match=r"the kernel is rbf\. Use Smo"):
        fit(make(*overlapping(), KERNELS["rbf"]), SOLVERS[name])


def wild(n=300, d=60, seed=0):
    """Return sparse counts of wild scales: few rows and columns have most of the mass."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.2, 1.0, -1.0)
    sizes = 10.0 ** rng.uniform(-1.0, 2.0, (n, 1)) * 10.0 ** rng.uniform(-2.0, 1.0, d)
    return np.round(sizes * (rng.random((n, d)) < 0.1) * (1.0 + 0.3 * y[:, None] * rng.random(d)), 2), y


@pytest.mark.parametrize("C", [1e-2, 1e2, 1e6])
@pytest.mark.parametrize("tuning", [{}, {"dense_features": 0}, {"dense_features": 0, "max_products": 3}], ids=str)
def test_newton_certifies_wild_scales_in_few_steps(C, tuning):
    """By features, by products, and by samples where products are cut short; the optimum is that of the QP."""
    X, y = wild()
    problem = make(csr_matrix(X), y, C=C)
    result = fit(problem, PrimalNewton(PrimalNewtonTuning(**tuning)), tol=1e-6, max_iter=60)
    assert result.status is Status.CONVERGED
    optimum = l2_optimum(matrix(problem), y, problem.C, has_bias=True)
    assert result.certificate.primal == pytest.approx(optimum.value, rel=1e-5)


def test_damping_saves_steps_where_moves_are_cut_short():
    X, codes = load("digits").X, load("digits").y
    problem = make(256.0 * X, np.where(codes == 3, 1.0, -1.0), C=1.0)
    steps = []
    for tuning in (PrimalNewtonTuning(), PrimalNewtonTuning(cut=0.0)):
        result = fit(problem, PrimalNewton(tuning), tol=1e-3, max_iter=200)
        assert result.status is Status.CONVERGED
        steps.append(result.n_iter)
    assert steps[0] <= 0.8 * steps[1]


def test_the_dual_point_of_a_piece_is_feasible_and_better():
    X, y = wild()
    problem, solver = make(csr_matrix(X), y, C=1e3), PrimalNewton()
    state = solver.start(problem, None, np.random.default_rng(0))
    rises = 0
    for _ in range(8):
        before = state.bound
        state = solver.step(problem, state)
        assert state.alpha.min() >= 0.0
        assert abs(y @ state.alpha) <= 1e-9 * state.alpha.sum()
        assert problem.dual(state.alpha).value == pytest.approx(state.bound, rel=1e-6)
        rises += state.bound > before > 0.0
    assert rises


def test_projection_that_does_not_exist_is_refused():
    with pytest.raises(IncompatibleError, match="projection='guess' is unknown; choose one of newton, sort, bisection"):
        DualProxGradient(projection="guess")


@pytest.mark.parametrize("first", [0.0, 1.0], ids=["the first sample has no price", "it has one"])
def test_rows_of_samples_that_cannot_move_are_never_read(first):
    """Rows of K that nobody asked for hold whatever was in memory before."""
    X, y = overlapping()
    C = np.where(np.arange(60) % 4 == 0, first, 1.0)
    problem = make(X, y, KERNELS["rbf"], C=C, has_bias=False)
    gram = problem.gram
    gram.stored(np.arange(60))[C == 0.0] = np.nan
    result = fit(problem, SOLVERS["smo"], tol=1e-6)
    assert result.status is Status.CONVERGED


@pytest.mark.parametrize("has_bias", [True, False])
def test_where_rows_are_few_a_step_of_descent_makes_several_passes_and_counts_as_several(has_bias):
    problem = make(*overlapping(), C=10.0, has_bias=has_bias)
    ends = {}
    for name, tuning in (("several", DescentTuning()), ("one", DescentTuning(least_numbers=0.0, passes_of_step=1))):
        solver, works = SquaredHingeDescent(tuning), [0.0]
        state = solver.start(problem, None, np.random.default_rng(0))
        for _ in range(60):
            state = solver.step(problem, state)
            works.append(solver.work_done(state))
        ends[name] = (max(np.diff(works)), fit(problem, solver, tol=1e-6))
    assert ends["several"][0] > 5.0 > ends["one"][0] >= 1.0
    assert ends["several"][1].n_iter < ends["one"][1].n_iter
    assert all(result.status is Status.CONVERGED for _, result in ends.values())


@pytest.mark.parametrize("has_bias", [True, False])
def test_a_step_of_descent_over_few_rows_ends_where_the_run_has_what_it_aims_for(has_bias):
    problem, solver, works = make(*overlapping(), C=10.0, has_bias=has_bias), SquaredHingeDescent(), []
    for tol in (0.0, 0.999):
        state = solver.start(problem, None, np.random.default_rng(0))
        with aiming_at(tol):
            works.append(solver.work_done(solver.step(problem, state)))
    assert works[0] > works[1] == 1.0
