"""The quadratic program of the dual is solved to the optimum, and says what it needs."""

import sys

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone

from helpers import LOSS_NAMES, infeasibility
from softmargin import KernelSVC, LinearSVC
from softmargin.core.errors import IncompatibleError, SoftmarginError
from softmargin.data import blobs
from softmargin.kernels import Linear, Rbf
from softmargin.matrices.gram import Gram
from softmargin.penalties import L2
from softmargin.problems import L2SVM, KernelMulticlassSVM, MulticlassSVM, softmax_problem
from softmargin.run import Status, Stop, solve
from softmargin.run.watchers import Checkpoint, load_checkpoint
from softmargin.solvers.kernel_svm.block_descent import KernelBlockDescent
from softmargin.solvers.quadratic_program import QuadraticProgram

KERNELS = {"rbf": Rbf(0.2), "linear": Linear()}
PRICES = {"one": 1.0, "each": np.tile([0.0, 0.3, 1.0, 5.0], 10)}
every_kernel = pytest.mark.parametrize("kernel", KERNELS)
every_price = pytest.mark.parametrize("price", PRICES)
both_losses = pytest.mark.parametrize("multiclass", LOSS_NAMES)


def joint(multiclass, kernel="rbf", price="one", k=3, bias=0.0):
    X, y = blobs(40, 4, k, seed=k)
    X[:2] = 0.0  # linear: nothing that these samples do changes their scores
    return KernelMulticlassSVM(Gram(KERNELS[kernel], X, bias=bias), y, C=PRICES[price], multiclass=multiclass)


def binary(kernel="rbf", price="one", has_bias=True):
    X, y = blobs(40, 4, 2, seed=0)
    return L2SVM(Gram(KERNELS[kernel], X), 2.0 * y - 1.0, C=PRICES[price], has_bias=has_bias)


def solved(problem, tol=1e-6, **settings):
    return solve(problem, QuadraticProgram(**settings), stop=Stop(tol=tol, max_iter=1), rng=0)


@both_losses
@every_kernel
@every_price
@pytest.mark.parametrize("k", [2, 3, 5])
def test_one_step_solves_a_joint_svm(multiclass, kernel, price, k):
    problem = joint(multiclass, kernel, price, k)
    result = solved(problem)
    assert result.status is Status.CONVERGED
    assert infeasibility(problem.multiclass, result.point.alpha, problem.y, problem.C) <= 1e-12


@both_losses
@every_price
@pytest.mark.parametrize("is_sparse", [False, True])
def test_one_step_solves_a_linear_svm_without_a_kernel_matrix(multiclass, price, is_sparse):
    kernel = joint(multiclass, "linear", price, bias=1.5)
    X = csr_matrix(kernel.gram.X) if is_sparse else kernel.gram.X.astype(np.float32)
    problem = MulticlassSVM(X, kernel.y, C=kernel.C, multiclass=multiclass, bias=1.5)
    result = solved(problem)
    assert result.status is Status.CONVERGED
    assert result.certificate.primal == pytest.approx(solved(kernel).certificate.primal, rel=1e-5)


BY_NAME = {
    "linear hinge": LinearSVC(),
    "linear one-vs-rest": LinearSVC(multiclass="one_vs_rest"),
    "linear squared": LinearSVC(multiclass="one_vs_rest", loss="squared_hinge"),
    "kernel hinge": KernelSVC(multiclass="crammer_singer"),
    "kernel squared": KernelSVC(multiclass="one_vs_rest", loss="squared_hinge"),
    "free bias": KernelSVC(multiclass="one_vs_rest", fit_intercept="free"),
}


@pytest.mark.parametrize("name", BY_NAME)
def test_estimators_find_it_by_its_name(name):
    X, y = blobs(40, 4, 3, seed=1)
    estimator = clone(BY_NAME[name]).set_params(tol=1e-6)
    program = estimator.set_params(solver="qp").fit(X, y).certificate_.primal
    assert estimator.n_iter_ == 1
    assert program == pytest.approx(estimator.set_params(solver="auto").fit(X, y).certificate_.primal, rel=2e-6)


def test_a_kernel_matrix_that_does_not_fit_is_refused():
    X, y = blobs(40, 4, 3, seed=1)
    problem = KernelMulticlassSVM(Gram(Rbf(1.0), X, cache_size=1e-3), y)
    with pytest.raises(IncompatibleError, match=r"of 40 rows; cache_size leaves room for 7\. Raise cache_size"):
        solved(problem)


def test_it_gives_up_where_there_is_no_time():
    problem = binary()
    result = solve(problem, QuadraticProgram(), stop=Stop(1e-6, max_seconds=1e-3))
    assert result.status is Status.MAX_SECONDS
    assert not result.point.alpha.any()


@both_losses
def test_it_agrees_with_block_descent(multiclass):
    problem = joint(multiclass, price="each", bias=1.5)
    other = solve(problem, KernelBlockDescent(), stop=Stop(tol=1e-9), rng=0)
    assert solved(problem).certificate.primal == pytest.approx(other.certificate.primal, rel=1e-6)


@every_kernel
@every_price
@pytest.mark.parametrize("has_bias", [True, False])
def test_one_step_solves_a_binary_svm(kernel, price, has_bias):
    problem = binary(kernel, price, has_bias)
    result = solved(problem)
    assert result.status is Status.CONVERGED
    assert (result.point.alpha >= 0.0).all()


@pytest.mark.parametrize("problem", [joint("weston_watkins"), joint("crammer_singer"), binary()])
def test_the_estimate_is_the_gap_and_tightens_with_the_tolerance(problem):
    residuals = []
    for tolerance in (1e-2, 1e-9):
        solver = QuadraticProgram(tolerance)
        state = solver.step(problem, solver.start(problem, None, np.random.default_rng(0)))
        certificate = problem.certificate(solver.point(problem, state))
        residuals.append(certificate.residual - certificate.rounding)
        assert solver.estimate(problem, state) == pytest.approx(residuals[-1], rel=1e-3, abs=1e-12)
    assert residuals[1] < 0.01 * residuals[0]


@pytest.mark.parametrize("problem", [joint("weston_watkins"), binary()])
def test_nothing_changes_after_the_first_step(problem, tmp_path):
    one = solve(problem, QuadraticProgram(), stop=Stop(tol=0.0, max_iter=1), watchers=[Checkpoint(tmp_path / "run")])
    more = solve(problem, QuadraticProgram(), stop=Stop(tol=0.0, max_iter=5))
    saved = load_checkpoint(tmp_path / "run", QuadraticProgram())
    resumed = solve(problem, QuadraticProgram(), stop=Stop(tol=0.0, max_iter=5), resume=saved)
    for other in (more, resumed):
        np.testing.assert_array_equal(one.point.alpha, other.point.alpha)


@pytest.mark.parametrize("problem", [joint("crammer_singer"), binary()])
def test_an_optimum_given_to_start_with_is_judged_before_anything_is_solved(problem):
    again = solve(problem, QuadraticProgram(), stop=Stop(tol=1e-6), init=solved(problem).point)
    assert again.status is Status.CONVERGED
    assert again.n_iter == 0


@both_losses
def test_no_price_at_all_leaves_nothing_to_solve(multiclass):
    X, y = blobs(12, 2, 3, seed=0)
    result = solved(KernelMulticlassSVM(Gram(Rbf(1.0), csr_matrix(X)), y, C=0.0, multiclass=multiclass))
    assert result.certificate.primal == 0.0
    assert not result.point.alpha.any()


def test_a_program_that_clarabel_gives_up_is_refused_in_our_words():
    X, y = blobs(40, 4, 3, seed=1)
    problem = KernelMulticlassSVM(Gram(Linear(), 1e5 * X), y, C=1e4)
    with pytest.raises(SoftmarginError, match="Clarabel found no answer"):
        solved(problem)


@pytest.mark.parametrize("missing", ["cvxpy", "clarabel"])
def test_without_cvxpy_or_clarabel_it_says_what_to_install(missing, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(IncompatibleError, match=r"pip install 'softmargin\[bench\]'"):
        solved(joint("weston_watkins"))


def test_a_problem_without_a_kernel_matrix_is_refused():
    X, y = blobs(12, 2, 3, seed=0)
    with pytest.raises(IncompatibleError, match="RidgeComposite is none of them"):
        solved(softmax_problem(X, y, penalty=L2(1.0)))
