"""The hinge SVM with a free bias: its set, its bias, its solvers against a QP, and estimators against LIBSVM."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from sklearn.svm import SVC

from reference.l2_optimum import hinge_optimum
from softmargin import KernelSVC, LinearSVC, certify
from softmargin.core.errors import IncompatibleError
from softmargin.data import blobs
from softmargin.kernels import Linear, Precomputed, Rbf
from softmargin.matrices.gram import Gram
from softmargin.models import KernelExpansion, LinearModel
from softmargin.problems import BiasPoint, HingeSVM
from softmargin.run import Status, Stop, solve
from softmargin.sets.balanced import balanced_corner, balanced_quantile
from softmargin.solvers import DualProxGradient, FreeFrankWolfe, FreePairDescent, QuadraticProgram, Smo
from softmargin.solvers.kernel_svm.pair_descent import KernelPairDescentTuning
from softmargin.testing import check_run

KERNELS = {"linear": Linear(), "rbf": Rbf(0.3)}
PRICES = {"one": 1.0, "vector": np.tile([0.0, 0.3, 1.0, 4.0], 15)}
SOLVERS = {  # all but Frank-Wolfe, which is slow
    "pairs": FreePairDescent(),
    "small sets": FreePairDescent(KernelPairDescentTuning(alone=0, first_set=10)),
    "smo": Smo(),
    "qp": QuadraticProgram(1e-12),
}
every_solver = pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
every_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


def overlapping(n=60, share=0.4):
    rng = np.random.default_rng(0)
    y = np.where(np.arange(n) < share * n, 1.0, -1.0)
    return rng.standard_normal((n, 4)) + 0.5 * y[:, None] + 0.3, y


def make(kernel=KERNELS["rbf"], data=None, **more):
    X, y = overlapping() if data is None else data
    return HingeSVM(Gram(kernel, X), y, **more)


def matrix(problem):
    return problem.gram.rows(np.arange(problem.gram.n)).astype(np.float64)


numbers = st.integers(-4, 4).map(float)
samples = st.lists(st.tuples(numbers, st.sampled_from([-1.0, 1.0]), st.sampled_from([0.0, 0.5, 1.0, 3.0])), min_size=1)


@given(samples)
@settings(max_examples=60, deadline=None)
def test_the_best_bias_and_the_corner_solve_a_linear_program_and_its_dual(rows):
    """Maths: kernel SVM, section 9: the largest <a, y z> over the set is the least sum of hinge losses over b."""
    z, y, C = np.array(rows).T
    a, b = balanced_corner(z, y, C), balanced_quantile(z, y, C)
    assert ((a >= 0.0) & (a <= C)).all()
    assert abs(y @ a) <= 1e-12 * C.sum()
    value = (y * z) @ a
    assert value == pytest.approx(C @ np.maximum(y * (z - b), 0.0), abs=1e-9)
    best = linprog(-y * z, A_eq=y[None, :], b_eq=[0.0], bounds=np.column_stack([np.zeros_like(C), C]))
    assert value == pytest.approx(-best.fun, abs=1e-9)


def test_between_two_samples_the_bias_is_the_middle():
    assert balanced_quantile(np.array([-2.0, 5.0]), np.array([-1.0, 1.0]), np.ones(2)) == 1.5


@every_solver
@every_kernel
@pytest.mark.parametrize("prices", PRICES)
def test_solver_reaches_the_optimum_honestly(solver, kernel, prices):
    problem = make(kernel, C=PRICES[prices])
    optimum = hinge_optimum(matrix(problem), problem.y, problem.C)
    point = check_run(solver, problem, tol=1e-8, optimum=optimum.value).point
    assert ((point.alpha >= 0.0) & (point.alpha <= problem.C)).all()
    assert abs(problem.y @ point.alpha) <= 1e-12 * point.alpha.sum()
    np.testing.assert_allclose(problem.gram.scores(problem.y * point.alpha), optimum.scores, atol=1e-3)
    assert point.bias == pytest.approx(optimum.bias, abs=1e-3)


@every_solver
def test_estimate_is_what_the_judge_says(solver):
    problem = make(C=PRICES["vector"])
    state = solver.start(problem, None, np.random.default_rng(0))
    for _ in range(4):
        state = solver.step(problem, state)
        judged = problem.certificate(solver.point(problem, state))
        assert solver.estimate(problem, state) == pytest.approx(judged.residual - judged.rounding, rel=1e-5, abs=1e-12)


@pytest.mark.parametrize("step_rule", ["optimal", "oblivious"])
def test_frank_wolfe_comes_near_the_optimum_from_below(step_rule):
    problem = make(C=PRICES["vector"])
    optimum = hinge_optimum(matrix(problem), problem.y, problem.C).value
    result = solve(problem, FreeFrankWolfe(step_rule), stop=Stop(1e-2, 2000), rng=0)
    assert result.status is Status.CONVERGED
    assert result.certificate.bound <= optimum <= result.certificate.primal


def test_a_frank_wolfe_step_is_the_best_on_its_segment():
    problem = make()
    alpha = problem.feasible(np.random.default_rng(1).uniform(0.0, 1.0, 60))
    corner = problem.corner(problem.gram.scores(problem.y * alpha))
    solver = FreeFrankWolfe()
    state = solver.step(problem, solver.start(problem, BiasPoint(alpha, 0.0), np.random.default_rng(0)))
    moved = problem.dual(solver.point(problem, state).alpha).value
    best = max(problem.dual((1.0 - g) * alpha + g * corner).value for g in np.linspace(0.0, 1.0, 101))
    assert best <= moved * (1.0 + 1e-12)
    assert moved == pytest.approx(best, rel=1e-3)


def test_any_dual_point_gives_a_bound_below_the_optimum():
    problem, rng = make(C=PRICES["vector"]), np.random.default_rng(0)
    optimum = hinge_optimum(matrix(problem), problem.y, problem.C).value
    for size in (0.1, 1.0, 10.0):
        certificate = problem.certificate(BiasPoint(size * rng.standard_normal(60), rng.standard_normal()))
        assert certificate.bound <= optimum <= certificate.primal


AWKWARD = {
    "equal samples of both classes": (np.ones((6, 2)), np.array([1.0, -1.0, 1.0, -1.0, -1.0, -1.0])),
    "zero rows": (np.array([[0.0], [0.0], [1.0], [2.0]]), np.array([1.0, -1.0, 1.0, -1.0])),
    "one class": (np.array([[0.0], [1.0]]), np.array([1.0, 1.0])),
    "one sample of a class": (np.arange(40.0)[:, None] / 10.0, np.where(np.arange(40) == 7, 1.0, -1.0)),
}


@every_solver
@pytest.mark.parametrize("data", AWKWARD.values(), ids=AWKWARD)
def test_awkward_data_are_solved(solver, data):
    problem = make(Linear(), data)
    optimum = hinge_optimum(matrix(problem), problem.y, problem.C).value
    result = solve(problem, solver, stop=Stop(1e-9, 1000), rng=0)
    assert result.status is Status.CONVERGED
    assert result.certificate.primal == pytest.approx(optimum, abs=1e-6)


def test_both_sides_of_the_bias_are_in_every_working_set():
    """At zero the few positives all violate, and no negative does: pairs need both."""
    problem = make(data=overlapping(400, share=0.02))
    solver = FreePairDescent(KernelPairDescentTuning(alone=0, first_set=20))
    state = solver.start(problem, None, np.random.default_rng(0))
    assert (np.sign(state.u) == 0).all()
    state = solver.step(problem, state)
    assert (state.u > 0).any()
    assert (state.u < 0).any()


def test_a_solver_of_the_squared_hinge_is_refused():
    with pytest.raises(IncompatibleError, match="DualProxGradient needs a SquaredHingeProblem"):
        solve(make(), DualProxGradient(), stop=Stop())


@pytest.mark.parametrize("solver", ["pair_descent", "smo", "qp"])
def test_two_classes_equal_libsvm(solver):
    X, y = overlapping(150)
    weights = np.random.default_rng(1).uniform(0.2, 2.0, len(y))
    theirs = SVC(C=3.0, gamma=0.2, tol=1e-9, class_weight={1.0: 2.0}).fit(X, y, sample_weight=weights)
    ours = KernelSVC(3.0, gamma=0.2, fit_intercept="free", multiclass="one_vs_rest", solver=solver, tol=1e-9)
    ours.set_params(class_weight={1.0: 2.0}).fit(X, y, sample_weight=weights)
    their_primal = certify(theirs, X, y, sample_weight=weights).primal
    assert ours.certificate_.primal == pytest.approx(their_primal, rel=1e-6)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-4)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)


def test_one_vs_rest_is_libsvm_on_every_class():
    X, y = blobs(90, 4, 3, seed=2, separation=1.0)
    ours = KernelSVC(1.5, gamma=0.2, fit_intercept="free", multiclass="one_vs_rest", tol=1e-9).fit(X, y)
    theirs = [SVC(C=1.5, gamma=0.2, tol=1e-9).fit(X, y == c) for c in range(3)]
    np.testing.assert_allclose(ours.decision_function(X).T, [m.decision_function(X) for m in theirs], atol=1e-4)
    values = [certify(m, X, y == c).primal for c, m in enumerate(theirs)]
    assert ours.certificate_.primal == pytest.approx(sum(values), rel=1e-6)


def test_a_joint_loss_of_two_classes_is_half_of_libsvm_with_twice_the_price():
    X, y = overlapping()
    ours = KernelSVC(2.0, gamma=0.2, fit_intercept="free", tol=1e-9).fit(X, y)
    theirs = SVC(C=4.0, gamma=0.2, tol=1e-9).fit(X, y)
    assert 2.0 * ours.certificate_.primal == pytest.approx(certify(theirs, X, y).primal, rel=1e-6)


@pytest.mark.parametrize("settings", [{}, {"kernel": "linear"}, {"kernel": "precomputed"}, {"C": 0.01}])
def test_a_saved_model_is_certified_as_the_same_problem(settings, tmp_path):
    X, y = overlapping()
    X = X @ X.T if settings.get("kernel") == "precomputed" else X
    ours = KernelSVC(**{"C": 2.0, **settings}, fit_intercept="free", tol=1e-6).fit(X, y)
    ours.model().save(tmp_path / "model")
    again = certify(KernelExpansion.load(tmp_path / "model"), X, y)
    assert again.primal == pytest.approx(ours.certificate_.primal, rel=1e-9)
    assert again.residual <= 2e-6


def test_linear_models_have_the_free_intercept_of_a_linear_kernel(tmp_path):
    X, y = overlapping()
    linear = LinearSVC(2.0, fit_intercept="free", tol=1e-8).fit(X, y)
    kernel = KernelSVC(2.0, kernel="linear", fit_intercept="free", tol=1e-8).fit(X, y)
    np.testing.assert_allclose(linear.coef_, kernel.coef_, atol=1e-4)
    np.testing.assert_allclose(linear.intercept_, kernel.intercept_, atol=1e-4)
    linear.model().save(tmp_path / "model")
    assert certify(LinearModel.load(tmp_path / "model"), X, y).residual <= 1e-4


def test_landmarks_and_warm_starts_take_a_free_intercept():
    X, y = overlapping(150)
    few = KernelSVC(fit_intercept="free", approximation="nystroem", n_components=20, random_state=0).fit(X, y)
    exact = KernelSVC(fit_intercept="free", tol=1e-6, warm_start=True).fit(X, y)
    assert exact.certificate_.bound <= certify(few, X, y).primal
    assert exact.fit(X, y).n_iter_ == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"solver": "scs"}, "solver='scs' penalises the intercept"),
        ({"solver": "newton"}, "choose one of auto, pair_descent"),
        ({"fit_intercept": "no"}, "fit_intercept='no' is unknown; choose one of free, penalized, or True or False"),
    ],
)
def test_what_makes_no_sense_is_refused(settings, message):
    with pytest.raises(IncompatibleError, match=message):
        KernelSVC(**{"fit_intercept": "free", **settings}).fit(*overlapping())


def test_a_stream_has_no_free_intercept():
    assert hasattr(KernelSVC(multiclass="one_vs_rest"), "partial_fit")
    assert not hasattr(KernelSVC(fit_intercept="free", multiclass="one_vs_rest"), "partial_fit")


def test_a_given_matrix_is_solved():
    X, y = overlapping()
    problem = HingeSVM(Gram(Precomputed(), X @ X.T), y)
    assert solve(problem, FreePairDescent(), stop=Stop(1e-8), rng=0).certificate.primal == pytest.approx(
        hinge_optimum(X @ X.T, y, 1.0).value, rel=1e-7
    )
