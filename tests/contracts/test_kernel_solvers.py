"""Every solver of the kernel multiclass SVM reaches the reference optimum, honestly, each by its own rule."""

import functools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel

from helpers import LOSS_NAMES, PROBLEM_NAMES, dense, infeasibility, problem_data, random_alpha
from reference.kernel_optimum import kernel_optimum
from softmargin.core.errors import IncompatibleError
from softmargin.kernels import make_kernel
from softmargin.matrices.gram import Gram
from softmargin.problems.kernel_multiclass_svm import KernelMulticlassSVM, KernelPoint
from softmargin.run import Status, Stop, solve
from softmargin.run.watchers import Checkpoint, load_checkpoint
from softmargin.solvers.common.working_set import choose_rows, largest
from softmargin.solvers.kernel_svm import _pair_loop as free_pairs
from softmargin.solvers.kernel_svm import block_descent as kernel_block_descent
from softmargin.solvers.kernel_svm._dual_rows import corner, is_between, nearest
from softmargin.solvers.kernel_svm.away_frank_wolfe import AwayFrankWolfe
from softmargin.solvers.kernel_svm.block_descent import KernelBlockDescent, KernelBlockDescentTuning
from softmargin.solvers.kernel_svm.block_frank_wolfe import BlockFrankWolfe
from softmargin.solvers.kernel_svm.frank_wolfe import FrankWolfe
from softmargin.solvers.kernel_svm.pair_descent import KernelPairDescent, KernelPairDescentTuning
from softmargin.solvers.kernel_svm.pairwise_frank_wolfe import PairwiseFrankWolfe
from softmargin.solvers.kernel_svm.projected_gradient import ProjectedGradient, ProjectedGradientTuning
from softmargin.solvers.kernel_svm.splitting import Splitting, SplittingTuning
from softmargin.testing import check_run

SOLVERS = {  # with the relative gap that each reaches in a short time: plain Frank-Wolfe is sublinear
    "descent": (KernelBlockDescent(), 1e-8),
    "plain descent": (KernelBlockDescent(working_set=False), 1e-6),
    "pairs": (KernelPairDescent(), 1e-8),  # of two classes
    "matrix": (FrankWolfe(), 2e-2),
    "block": (BlockFrankWolfe(), 5e-3),
    "oblivious": (BlockFrankWolfe("oblivious", "uniform"), 1e-2),
    "pairwise": (PairwiseFrankWolfe(), 1e-6),
    "away": (AwayFrankWolfe(), 1e-6),
    "gradient": (ProjectedGradient(working_set=False), 1e-6),
    "working set": (ProjectedGradient(), 1e-6),
    "splitting": (Splitting(), 1e-6),
}
MONOTONE = ("descent", "plain descent", "pairs", "matrix", "block", "pairwise", "away", "splitting")
SMALL_CACHE = 0.004  # megabytes: 5 rows of 50, a square of 15

every_solver = pytest.mark.parametrize("solver", SOLVERS)
both_losses = pytest.mark.parametrize("multiclass", LOSS_NAMES)


def classes_for(solver, y):
    """Return the labels, of two classes where the solver has no more."""
    return y % 2 if solver == "pairs" else y


def make_problem(name, multiclass, *, solver="", cache_size=100.0, dtype=np.float64, **changes):
    """Build a named problem on an rbf kernel; on a linear one where zero rows are to have K_ii = 0."""
    X, y, settings = problem_data(name)
    settings = {**settings, **changes}
    if solver == "pairs":
        settings["n_classes"] = 2
    kernel = make_kernel("linear" if name == "degenerate" else "rbf", gamma=0.2)
    gram = Gram(kernel, X.astype(dtype), bias=settings.pop("bias", 0.0), cache_size=cache_size)
    return KernelMulticlassSVM(gram, classes_for(solver, y), multiclass=multiclass, **settings)


def optimum(problem):
    """Return the optimum of a problem, by a kernel matrix from scikit-learn."""
    gram = problem.gram
    settings = {} if gram.is_linear else {"gamma": gram.kernel.gamma}
    K = pairwise_kernels(dense(gram.X).astype(np.float64), metric=gram.kernel.name, **settings) + gram.bias**2
    return kernel_optimum(K, problem.y, problem.C, problem.multiclass, problem.n_classes)


def fit(problem, name, *, tol=None, max_iter=20_000, rng=0, **more):
    solver, reached = SOLVERS[name]
    return solve(problem, solver, stop=Stop(reached if tol is None else tol, max_iter), rng=rng, **more)


def after(problem, solver, n_steps, init=None):
    """Return alpha after some steps, without the loop."""
    state = solver.start(problem, init, np.random.default_rng(0))
    for _ in range(n_steps):
        state = solver.step(problem, state)
    return solver.point(problem, state).alpha


def dual(problem, alpha):
    return problem.dual(alpha).value


class Witness:
    """Notes the dual value, the infeasibility and the error of the estimate after each of the first steps."""

    def begin(self, problem, solver, stop):
        self.bounds, self.outside, self.wrong = [], [], []

    def watch(self, progress):
        if progress.iteration <= 30:
            problem, point = progress.problem, progress.solver.point(progress.problem, progress.state)
            self.bounds.append(dual(problem, point.alpha))
            self.outside.append(infeasibility(problem.multiclass, point.alpha, problem.y, problem.C))
            # No bound of a certificate is negative; that of an estimate may be.
            self.wrong.append(abs(min(progress.estimate, 1.0) - problem.certificate(point).residual))

    def end(self, result): ...


@every_solver
@both_losses
@pytest.mark.parametrize("name", PROBLEM_NAMES)
def test_solver_reaches_the_optimum_honestly(name, solver, multiclass):
    problem, witness, tol = make_problem(name, multiclass, solver=solver), Witness(), SOLVERS[solver][1]
    best = optimum(problem)
    check_run(SOLVERS[solver][0], problem, tol=tol, optimum=best, watchers=[witness])
    assert max(witness.outside) <= 1e-12
    assert max(witness.wrong) <= 1e-10, "the scores that were kept are not K alpha"
    if solver in MONOTONE:
        assert (np.diff(witness.bounds) >= -1e-12 * best).all(), "the dual value fell"


def with_kernel(name, multiclass, solver=""):
    """Build a small problem on any kernel, and its kernel matrix by scikit-learn."""
    X, y, _ = problem_data("blobs")
    metric, settings = {
        "laplacian": ("laplacian", {"gamma": 0.1}),
        "polynomial": ("polynomial", {"gamma": 0.2, "degree": 2, "coef0": 1.0}),
        "callable": ("rbf", {"gamma": 0.3}),
        "precomputed": ("rbf", {"gamma": 0.3}),
    }[name]
    K = pairwise_kernels(X, metric=metric, **settings)
    kernel = (lambda A, B: rbf_kernel(A, B, gamma=0.3)) if name == "callable" else name
    gram = Gram(make_kernel(kernel, **settings), K if name == "precomputed" else X, bias=0.5)
    return KernelMulticlassSVM(gram, classes_for(solver, y), C=0.3, multiclass=multiclass), K + 0.25


@every_solver
@both_losses
@pytest.mark.parametrize("kernel", ["laplacian", "polynomial", "callable", "precomputed"])
def test_every_solver_reaches_the_optimum_with_every_kernel(kernel, solver, multiclass):
    problem, K = with_kernel(kernel, multiclass, solver)
    best = kernel_optimum(K, problem.y, problem.C, multiclass, problem.n_classes)
    result = fit(problem, solver)
    assert result.status is Status.CONVERGED
    assert best * (1 - 1e-8) <= result.certificate.primal <= best * (1 + 1.1 * SOLVERS[solver][1])


@both_losses
@given(seed=st.integers(0, 10**6), name=st.sampled_from(PROBLEM_NAMES))
def test_frank_wolfe_gap_is_the_duality_gap(multiclass, seed, name):
    """P - D = sum of the rows' gaps = <alpha - s, G>, s the best corner: maths: kernel SVM, eq. 4."""
    problem = make_problem(name, multiclass)
    alpha = random_alpha(problem, np.random.default_rng(seed))
    scores = problem.gram.scores(alpha)
    certificate = problem.certificate(KernelPoint(alpha))
    corners = corner(multiclass, scores, problem.y, problem.C)
    gradient = scores - np.eye(problem.n_classes)[problem.y]
    expected = certificate.primal - dual(problem, alpha)  # a negative D is no bound of a certificate
    for gap in (problem.gaps(alpha, scores).sum(), np.vdot(alpha - corners, gradient)):
        assert gap == pytest.approx(expected, rel=1e-10, abs=1e-12 * certificate.primal)


def random_rows(multiclass, rng, scale):
    """Draw points u, labels and prices (some zero) for rows of 2 to 6 classes."""
    n, k = 12, int(rng.integers(2, 7))
    C = np.where(rng.random(n) < 0.2, 0.0, rng.random(n))
    return scale * rng.standard_normal((n, k)), rng.integers(0, k, n), C


def feasible_rows(multiclass, rng, y, C, k):
    """Draw corners and points between them."""
    share = rng.dirichlet(np.ones(k), len(y)) if multiclass == "crammer_singer" else rng.random((len(y), k))
    share = np.where(rng.random((len(y), 1)) < 0.5, share.round(), share)
    alpha = -share * C[:, None]
    alpha[np.arange(len(y)), y] = 0.0
    alpha[np.arange(len(y)), y] = -alpha.sum(axis=1)
    return alpha


any_scale = st.sampled_from([1e-12, 1e-3, 0.3, 1.0, 30.0, 1e6])


@both_losses
@given(seed=st.integers(0, 10**6), scale=any_scale)
def test_no_feasible_row_beats_the_corner(multiclass, seed, scale):
    rng = np.random.default_rng(seed)
    scores, y, C = random_rows(multiclass, rng, scale)
    corners = corner(multiclass, scores, y, C)
    assert infeasibility(multiclass, corners, y, C) <= 1e-14
    assert not is_between(multiclass, corners, y, C).any()
    gradient = scores - np.eye(scores.shape[1])[y]
    for _ in range(20):
        other = feasible_rows(multiclass, rng, y, C, scores.shape[1])
        assert (((other - corners) * gradient).sum(axis=1) >= -1e-12 * (1 + scale)).all()


@both_losses
@given(seed=st.integers(0, 10**6), scale=any_scale)
def test_nearest_rows_are_feasible_and_no_feasible_row_is_nearer(multiclass, seed, scale):
    """A feasible p is the projection of u exactly when <u - p, q - p> <= 0 for every feasible q."""
    rng = np.random.default_rng(seed)
    u, y, C = random_rows(multiclass, rng, scale)
    p = nearest(multiclass, u, y, C)
    assert infeasibility(multiclass, p, y, C) <= 1e-14
    np.testing.assert_allclose(nearest(multiclass, p, y, C), p, atol=1e-14)
    # Over all feasible q the inner product is largest at the corner for the scores that make u - p minus the gradient.
    worst = corner(multiclass, np.eye(u.shape[1])[y] - (u - p), y, C)
    others = [worst, *(feasible_rows(multiclass, rng, y, C, u.shape[1]) for _ in range(20))]
    for q in others:
        assert (((u - p) * (q - p)).sum(axis=1) <= 1e-13 * max(1.0, scale)).all()


@pytest.mark.parametrize("solver", ["descent", "plain descent", "block", "oblivious", "pairwise"])
@both_losses
def test_another_seed_gives_another_order(solver, multiclass):
    problem = make_problem("blobs", multiclass, solver=solver)
    one, other = (fit(problem, solver, tol=0.0, max_iter=5, rng=seed).point.alpha for seed in (7, 8))
    assert (one != other).any()


@every_solver
@both_losses
def test_kernel_without_a_store_gives_the_same_result(solver, multiclass):
    kept, not_kept = (
        make_problem("blobs", multiclass, solver=solver, cache_size=size) for size in (100.0, SMALL_CACHE)
    )
    assert (not_kept.gram.largest_rows, not_kept.gram.largest_square) == (5, 15)
    if solver not in (
        "descent",
        "plain descent",
        "pairs",
        "working set",
        "splitting",
    ):  # there the cache decides how large the sets are
        one, two = (fit(problem, solver, tol=0.0, max_iter=5).point.alpha for problem in (kept, not_kept))
        np.testing.assert_allclose(one, two, atol=1e-11)
    one, two = (fit(problem, solver).certificate.primal for problem in (kept, not_kept))
    assert one == pytest.approx(two, rel=SOLVERS[solver][1])


@pytest.mark.parametrize("name", ["weights", "degenerate"])
def test_every_pass_visits_each_row_that_can_move_once_in_a_fresh_order(name, monkeypatch):
    problem = make_problem(name, "weston_watkins", cache_size=SMALL_CACHE)
    visited, rows = [], problem.gram.rows
    monkeypatch.setattr(problem.gram, "rows", lambda index: visited.extend(index) or rows(index))
    after(problem, PairwiseFrankWolfe(), 3)
    movable = np.flatnonzero((problem.C > 0.0) & (problem.gram.diagonal > 0.0))
    assert len(movable) < 50
    passes = np.reshape(visited, (3, -1))
    np.testing.assert_array_equal(np.sort(passes, axis=1), np.tile(movable, (3, 1)))
    assert len(np.unique(passes, axis=0)) == 3


@both_losses
@pytest.mark.parametrize("solver", ["descent", "plain descent", "working set"])
def test_working_set_stays_within_the_budget(solver, multiclass, monkeypatch):
    problem = make_problem("blobs", multiclass, cache_size=SMALL_CACHE)
    asked, square = [], problem.gram.square
    monkeypatch.setattr(problem.gram, "square", lambda index: asked.append(len(index)) or square(index))
    assert fit(problem, solver).status is Status.CONVERGED
    assert max(asked) == problem.gram.largest_square


@both_losses
@pytest.mark.parametrize("name", PROBLEM_NAMES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_descent_by_pieces_keeps_the_scores_of_the_others(name, multiclass, dtype):
    """Pieces of a few rows, so that most moves have to pass from piece to piece."""
    solver = KernelBlockDescent(tuning=KernelBlockDescentTuning(piece=7, alone=0))
    problem = make_problem(name, multiclass, dtype=dtype)
    tol = 1e-8 if dtype is np.float64 else 1e-5
    result = solve(problem, solver, stop=Stop(tol, 100), rng=0)
    assert result.status is Status.CONVERGED
    assert result.certificate.primal == pytest.approx(optimum(problem), rel=10 * tol)


def test_where_too_many_rows_count_up_to_half_are_those_between_corners():
    problem = make_problem("blobs", "crammer_singer")
    alpha, order = np.zeros((50, 3)), np.random.default_rng(0).permutation(50)
    between = np.array([2, 17, 33])
    alpha[between, problem.y[between]] = 0.5 * problem.C[between]
    alpha[between, (problem.y[between] + 1) % 3] = -0.5 * problem.C[between]
    gaps = np.where(np.arange(50) < 30, 1.0, 0.0)
    is_free = is_between("crammer_singer", alpha[order], problem.y[order], problem.C[order])
    rows = choose_rows(order, is_free, gaps, 10, share=0.01, sort_others=False)
    assert len(rows) == 10
    assert set(between) < set(rows)
    assert set(rows) < {*range(30), 33}
    np.testing.assert_array_equal(choose_rows(order, is_free, gaps, 50, share=0.01), [*range(30), 33])
    raised = gaps + 0.1 * np.isin(np.arange(50), [17, 33])
    two = choose_rows(order, is_free, raised, 4, share=0.01)
    assert set(two) & set(between) == {17, 2}, "the largest gaps first"
    np.testing.assert_array_equal(choose_rows(order, is_free, np.zeros(50), 50, share=0.01), between)


@pytest.mark.parametrize("most", [1, 7, 20, 30])
def test_the_largest_scores_and_those_that_must_stay(most):
    scores = np.random.default_rng(0).random(20)
    scores[[3, 11]] = np.inf
    chosen = largest(scores, most)
    np.testing.assert_array_equal(chosen, np.sort(np.argsort(-scores, kind="stable")[:most]))


@both_losses
@pytest.mark.parametrize("cache_size", [200.0, 80.0], ids=["stored", "some rows kept"])
def test_kernel_values_are_computed_for_the_few_rows_that_move(multiclass, cache_size):
    """The classes lie apart: of 4000 samples less than 8 in 100 are support vectors."""
    rng, asked = np.random.default_rng(0), []

    def kernel(A, B):
        asked.append(len(A) * len(B))
        return rbf_kernel(A, B, gamma=0.5)

    y = np.arange(4000) % 3
    X = rng.standard_normal((4000, 2)) + 6.0 * np.array([[0, 0], [0, 1], [1, 0]])[y]
    gram = Gram(make_kernel(kernel), X, cache_size=cache_size)
    result = fit(KernelMulticlassSVM(gram, y, C=1.0, multiclass=multiclass), "descent", tol=1e-3)
    n_support = int(result.point.alpha.any(axis=1).sum())
    assert result.status is Status.CONVERGED
    assert n_support < 320
    assert sum(asked) < 0.5 * 4000**2


def test_neighbours_are_the_rows_nearest_to_a_violated_margin():
    problem = make_problem("blobs", "crammer_singer")
    scores = np.zeros((50, 3))
    scores[np.arange(50), problem.y] = 1.005 + 0.01 * np.arange(50)  # row i has its margin by 0.01 i + 0.005
    rows, order = np.array([30, 40]), np.random.default_rng(0).permutation(50)
    state = SimpleNamespace(scores=scores, order=order)
    near = kernel_block_descent._with_neighbours(problem, state, rows, 50, 0.2)
    np.testing.assert_array_equal(near, [*range(20), 30, 40])
    few = kernel_block_descent._with_neighbours(problem, state, rows, 5, 0.2)
    np.testing.assert_array_equal(few, [0, 1, 2, 30, 40])


@both_losses
def test_every_row_is_visited_once_in_a_plain_pass(multiclass, monkeypatch):
    problem = make_problem("blobs", multiclass, cache_size=SMALL_CACHE)
    visited, part = [], kernel_block_descent.WorkingSquare
    epoch = part.epoch
    monkeypatch.setattr(part, "epoch", lambda part, *more, **how: visited.append(part.m) or epoch(part, *more, **how))
    asked, square = [], problem.gram.square
    monkeypatch.setattr(problem.gram, "square", lambda index: asked.append(tuple(index)) or square(index))
    after(problem, KernelBlockDescent(working_set=False), 1)
    assert sum(visited) == 50
    assert sorted(i for index in dict.fromkeys(asked) for i in index) == list(range(50))


@pytest.mark.parametrize("block", ["sort", "greedy"])
def test_every_weston_watkins_block_can_be_asked_for(block):
    problem = make_problem("blobs", "weston_watkins")
    result = solve(problem, KernelBlockDescent(block=block), stop=Stop(1e-3, 500), rng=0)
    assert result.certificate.primal == pytest.approx(optimum(problem), rel=2e-3)


@every_solver
@both_losses
@pytest.mark.parametrize("scale", [1e-3, 1e9])
def test_any_garbage_is_a_valid_start(scale, solver, multiclass):
    problem, tol = make_problem("degenerate", multiclass, solver=solver), SOLVERS[solver][1]
    garbage = scale * np.random.default_rng(0).standard_normal((50, problem.n_classes))
    untouched = garbage.copy()
    result = fit(problem, solver, init=KernelPoint(garbage))
    assert result.certificate.primal == pytest.approx(optimum(problem), rel=1.1 * tol)
    np.testing.assert_array_equal(garbage, untouched)


@every_solver
@both_losses
def test_samples_without_a_price_keep_zero_rows(solver, multiclass):
    problem = make_problem("weights", multiclass, solver=solver)
    alpha = after(problem, SOLVERS[solver][0], 3)
    assert (problem.C == 0.0).any()
    assert not alpha[problem.C == 0.0].any()
    assert alpha[problem.C > 0.0].any()


@every_solver
@both_losses
def test_a_kernel_of_zeros_is_solved_at_the_start(solver, multiclass):
    y = classes_for(solver, np.arange(9) % 3)
    problem = KernelMulticlassSVM(Gram(make_kernel("linear"), np.zeros((9, 2))), y, C=0.5, multiclass=multiclass)
    result = fit(problem, solver, tol=1e-12)
    assert result.n_iter <= 1
    charged = problem.n_classes - 1 if multiclass == "weston_watkins" else 1
    assert result.certificate.bound == pytest.approx(result.certificate.primal, rel=1e-13)
    assert result.certificate.primal == pytest.approx(4.5 * charged, rel=1e-13)


@every_solver
@both_losses
@pytest.mark.parametrize("C", [0.0, 1e-16, 1e-10])
def test_tiny_prices_converge(C, solver, multiclass):
    """The optimum is the loss at W = 0 but for a term of order C^2; float rounding must not stall the steps."""
    problem = make_problem("blobs", multiclass, solver=solver, C=C)
    result = fit(problem, solver, max_iter=3000)
    assert result.status is Status.CONVERGED
    at_zero = C * 50 * (problem.n_classes - 1 if multiclass == "weston_watkins" else 1)
    assert result.certificate.primal == pytest.approx(at_zero, rel=1e-6)


@pytest.mark.parametrize("solver", ["descent", "matrix", "pairwise", "gradient", "working set"])
@both_losses
def test_float32_kernel_values_are_summed_in_float64(solver, multiclass):
    wide, narrow = (make_problem("bias", multiclass, dtype=dtype) for dtype in (np.float64, np.float32))
    tol = max(SOLVERS[solver][1], 1e-5)
    result = fit(narrow, solver, tol=tol)
    assert result.status is Status.CONVERGED
    assert result.certificate.primal == pytest.approx(optimum(wide), rel=1.1 * tol)


def best_on_segment(problem, alpha, end):
    """Return the greatest dual value between alpha and end, on a fine grid."""
    return max(dual(problem, (1 - g) * alpha + g * end) for g in np.linspace(0.0, 1.0, 201))


@both_losses
@pytest.mark.parametrize("C", [1e-3, 0.1, 3.0])
def test_a_frank_wolfe_step_is_the_best_on_its_segment(C, multiclass):
    problem = make_problem("blobs", multiclass, C=C)
    alpha = random_alpha(problem, np.random.default_rng(1))
    corners = corner(multiclass, problem.gram.scores(alpha), problem.y, problem.C)
    moved = after(problem, FrankWolfe(), 1, KernelPoint(alpha))
    best = best_on_segment(problem, alpha, corners)
    assert best <= dual(problem, moved) * (1 + 1e-12)
    assert dual(problem, moved) == pytest.approx(best, rel=1e-3)


def one_open_row(multiclass, C):
    """Return a problem in which only row 0 can move, so that a pass is one step, and a point of it."""
    problem = make_problem("absent", multiclass, C=np.where(np.arange(50) == 0, C, 0.0))
    return problem, random_alpha(problem, np.random.default_rng(3))


@both_losses
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_a_block_step_is_the_best_on_its_segment(C, multiclass):
    problem, alpha = one_open_row(multiclass, C)
    corners = corner(multiclass, problem.gram.scores(alpha), problem.y, problem.C)
    moved = after(problem, BlockFrankWolfe(), 1, KernelPoint(alpha))
    best = best_on_segment(problem, alpha, corners)
    assert best <= dual(problem, moved) + 1e-12 * abs(best)
    assert dual(problem, moved) == pytest.approx(best, rel=3e-2)


@both_losses
def test_oblivious_steps_are_2n_over_t_plus_2n(multiclass):
    """With one block: all the way to the corner, then two thirds of the way, then one half."""
    problem, alpha = one_open_row(multiclass, 0.9)
    for t, share in enumerate([1.0, 2 / 3, 1 / 2]):
        before = after(problem, BlockFrankWolfe("oblivious"), t, KernelPoint(alpha))
        scores = problem.gram.scores(before)
        corners = corner(multiclass, scores, problem.y, problem.C)
        moved = after(problem, BlockFrankWolfe("oblivious"), t + 1, KernelPoint(alpha))
        reached = before + (moved - before) / share
        # Of corners with the same slope either will do, so that the order of entries is left open.
        np.testing.assert_allclose(np.sort(reached, axis=1), np.sort(corners, axis=1), atol=1e-14)
        assert np.vdot(reached, scores) == pytest.approx(np.vdot(corners, scores), abs=1e-12)


@both_losses
def test_oblivious_steps_of_the_matrix_are_2_over_t_plus_2(multiclass):
    problem, alpha = one_open_row(multiclass, 0.9)
    for t, share in enumerate([1.0, 2 / 3, 1 / 2]):
        before = after(problem, FrankWolfe("oblivious"), t, KernelPoint(alpha))
        corners = corner(multiclass, problem.gram.scores(before), problem.y, problem.C)
        moved = after(problem, FrankWolfe("oblivious"), t + 1, KernelPoint(alpha))
        np.testing.assert_allclose(moved, (1 - share) * before + share * corners, atol=1e-15)


def test_uniform_draws_miss_rows_that_permutations_visit():
    """Algorithm 3 draws with replacement: a pass leaves about n / e rows out."""
    X, y = np.random.default_rng(0).standard_normal((300, 3)), np.arange(300) % 3
    problem = KernelMulticlassSVM(Gram(make_kernel("rbf", gamma=1.0), X), y, C=1e-3)
    shares = [
        after(problem, BlockFrankWolfe(order=order), 1).any(axis=1).mean() for order in ("permutation", "uniform")
    ]
    assert shares[0] == 1.0
    assert shares[1] == pytest.approx(1.0 - np.exp(-1.0), abs=0.1)


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_an_away_step_takes_weight_from_the_worst_corner_alone(C):
    """The weights of the other corners keep their proportions, and the dual value rises as far as it can."""
    problem, alpha = one_open_row("crammer_singer", C)
    y, scores = problem.y[0], problem.gram.scores(alpha)[0]
    h = 1.0 + scores - scores[y]
    h[y] = 0.0
    worst = int(h.argmin())
    alpha[0] = -0.2 * C / (len(h) - 2.0)
    alpha[0, h.argmax()], alpha[0, worst] = 0.0, -0.8 * C
    alpha[0, y] = 0.0
    alpha[0, y] = -alpha[0].sum()
    moved = after(problem, AwayFrankWolfe(), 1, KernelPoint(alpha))
    assert dual(problem, moved) > dual(problem, alpha)
    assert -moved[0, worst] < -alpha[0, worst]
    others = [j for j in range(len(h)) if j not in (worst, y, h.argmax())]
    np.testing.assert_allclose(moved[0, others] / alpha[0, others], moved[0, others[0]] / alpha[0, others[0]])


@both_losses
def test_away_steps_converge_where_plain_ones_zigzag(multiclass):
    """Theorem 2 of paper 000."""
    problem = make_problem("blobs", multiclass)
    gaps = []
    for solver in (BlockFrankWolfe(), AwayFrankWolfe()):
        alpha = after(problem, solver, 100)
        gaps.append(problem.relative_gap(alpha, problem.gram.scores(alpha)))
    assert gaps[1] < 0.01 * gaps[0]


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_a_crammer_singer_pair_step_is_the_best_exchange_of_best_and_worst(C):
    problem, alpha = one_open_row("crammer_singer", C)
    y, scores = problem.y[0], problem.gram.scores(alpha)[0]
    h = 1.0 + scores - scores[y]
    h[y] = 0.0
    weights = -alpha[0]
    weights[y] = C - alpha[0, y]
    best = int(h.argmax())
    worst = min(np.flatnonzero(weights > 1e-12 * C), key=lambda j: h[j])
    end = alpha.copy()
    end[0, best] -= weights[worst]
    end[0, worst] += weights[worst]
    moved = after(problem, PairwiseFrankWolfe(), 1, KernelPoint(alpha))
    assert best_on_segment(problem, alpha, end) <= dual(problem, moved) + 1e-12 * abs(dual(problem, moved))
    assert set(np.flatnonzero(moved[0] != alpha[0])) <= {best, worst, y}


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_a_weston_watkins_pair_step_is_the_best_of_all_coordinate_steps(C):
    problem, alpha = one_open_row("weston_watkins", C)
    y, values = problem.y[0], []
    for j in range(problem.n_classes):
        for entry in (0.0, -C):
            end = alpha.copy()
            end[0, y] += end[0, j] - entry
            end[0, j] = entry
            values += [best_on_segment(problem, alpha, end)] if j != y else []
    moved = after(problem, PairwiseFrankWolfe(), 1, KernelPoint(alpha))
    assert max(values) <= dual(problem, moved) + 1e-12 * abs(dual(problem, moved))
    assert (moved[0] != alpha[0]).sum() == 2


@both_losses
@pytest.mark.parametrize("working_set", [True, False])
def test_a_lipschitz_constant_that_is_too_small_is_found_out(working_set, multiclass):
    solver = ProjectedGradient(working_set, ProjectedGradientTuning(safety=1e-3))
    tol = SOLVERS["working set" if working_set else "gradient"][1]
    result = solve(make_problem("blobs", multiclass), solver, stop=Stop(tol, 20_000), rng=0)
    assert result.status is Status.CONVERGED


@functools.cache
def restarted(momentum):
    """Return the number of iterations with the restart of acceleration, or without acceleration."""
    problem = make_problem("blobs", "crammer_singer", C=10.0)
    solver = ProjectedGradient(working_set=False)
    state = solver.start(problem, None, np.random.default_rng(0))
    for t in range(20_000):
        state = solver.step(problem, state)
        if not momentum:
            state.momentum = 1.0
        if solver.estimate(problem, state) <= 1e-4:
            return t
    return t


def test_acceleration_pays():
    assert 3 * restarted(True) < restarted(False)


def test_settings_that_do_not_exist_are_refused():
    with pytest.raises(IncompatibleError, match="step_rule='long' is unknown; choose one of optimal, oblivious"):
        BlockFrankWolfe("long")


def two_classes(n, *, C, cache_size=100.0, kernel="rbf"):
    """Build a problem of two overlapping classes, with repeated samples."""
    rng = np.random.default_rng(4)
    y = np.arange(n) % 2
    X = rng.standard_normal((n, 3)) + 0.8 * y[:, None]
    X[: n // 10] = X[n // 10 : n // 10 * 2]
    gram = Gram(make_kernel(kernel, gamma=0.3), X, bias=0.5, cache_size=cache_size)
    return KernelMulticlassSVM(gram, y, C=C * rng.uniform(0.5, 2.0, n))


SMALL_SETS = KernelPairDescent(tuning=KernelPairDescentTuning(alone=0, first_set=10))
numbers = st.floats(-3.0, 3.0)
rooms = st.floats(0.0, 3.0)


@given(numbers, numbers, st.floats(0.1, 2.0), st.floats(0.1, 2.0), st.floats(-1.0, 1.0), rooms, rooms, rooms, rooms)
def test_no_move_of_a_pair_within_its_bounds_gains_more(S_i, S_j, K_ii, K_jj, cosine, fall_i, rise_i, fall_j, rise_j):
    K_ij = cosine * np.sqrt(K_ii * K_jj)

    def gain(d_i, d_j):
        return d_i * (2 * S_i - K_ii * d_i) + d_j * (2 * S_j - K_jj * d_j) - 2 * K_ij * d_i * d_j

    d_i, d_j = free_pairs._best_move(free_pairs._Pair(S_i, S_j, K_ii, K_ij, K_jj), -fall_i, rise_i, -fall_j, rise_j)
    assert -fall_i <= d_i <= rise_i
    assert -fall_j <= d_j <= rise_j
    moves = np.meshgrid(np.linspace(-fall_i, rise_i, 41), np.linspace(-fall_j, rise_j, 41))
    assert gain(d_i, d_j) >= gain(*moves).max() - 1e-6


@pytest.mark.parametrize(("C", "most"), [(0.05, 150), (1.0, 400), (1000.0, 75_000)])
def test_pairs_move_to_the_gap_that_was_asked_for_and_keep_the_slopes(C, most):
    """Moves are few: a second variable that is chosen as if the first stayed takes three times as many at C = 1000."""
    problem = two_classes(150, C=C)
    K, y, bound = problem.gram.square(np.arange(150)), 2.0 * problem.y - 1.0, problem.C
    S, rise, fall, diagonal = (np.zeros(256) for _ in range(4))
    S[:150], rise[:150], fall[:150] = y, np.where(y > 0, bound, 0.0), np.where(y > 0, 0.0, -bound)
    diagonal[:150] = np.diag(K)
    target = 1e-6 * bound.sum()
    square = free_pairs.Square(K, diagonal, S, rise, fall, np.zeros(256))
    done = free_pairs.descend_free_pairs(square, 10**6, target, 32, np.zeros(1, dtype=np.int64))
    assert done < most
    u = np.where(y > 0, -fall[:150], -rise[:150])
    np.testing.assert_allclose(S[:150], y - K @ u, atol=1e-9 * max(1.0, C))
    assert (np.abs(u) <= bound * (1 + 1e-12)).all()
    assert np.maximum(S * rise, S * fall).sum() <= target


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("cache_size", [100.0, 0.02], ids=["stored", "few rows kept"])
def test_two_classes_in_small_working_sets_reach_the_optimum_of_plain_descent(cache_size, kernel):
    problem = two_classes(200, C=1.0, cache_size=cache_size, kernel=kernel)
    assert problem.gram.is_stored == (cache_size == 100.0)
    result = solve(problem, SMALL_SETS, stop=Stop(1e-7, 2000), rng=0)
    plain = solve(two_classes(200, C=1.0, kernel=kernel), KernelBlockDescent(), stop=Stop(1e-7, 2000), rng=0)
    assert result.status is Status.CONVERGED
    assert result.certificate.primal == pytest.approx(plain.certificate.primal, rel=3e-7)


def test_two_classes_go_on_from_a_checkpoint_also_where_no_kernel_value_is_cached(tmp_path):
    """What is chosen follows from the state alone; only the rounding of kernel values may differ."""
    file, stop, solver = tmp_path / "run.npz", Stop(1e-8, 12), SMALL_SETS
    whole = solve(two_classes(200, C=5.0), solver, stop=stop, rng=0)
    watcher = Checkpoint(file, every=0.0)
    solve(two_classes(200, C=5.0), solver, stop=Stop(1e-8, 4), rng=0, watchers=[watcher])
    again = solve(two_classes(200, C=5.0), solver, stop=stop, resume=load_checkpoint(file, solver))
    np.testing.assert_allclose(again.point.alpha, whole.point.alpha, rtol=1e-8, atol=1e-8)


def test_pairs_refuse_three_classes():
    with pytest.raises(IncompatibleError, match="needs two classes; this problem has 3"):
        fit(make_problem("blobs", "weston_watkins"), "pairs")


@both_losses
def test_a_round_of_splitting_keeps_the_best_point_that_it_met(multiclass):
    """With a small rho the iterations begin with a loss: a round that ends there changes nothing."""
    problem = make_problem("blobs", multiclass, C=1.0)
    solver = Splitting(SplittingTuning(set_steps=10, rho=0.01))
    witness = Witness()
    solve(problem, solver, stop=Stop(0.0, 12), rng=0, watchers=[witness])
    assert (np.diff([0.0, *witness.bounds]) >= 0.0).all()
