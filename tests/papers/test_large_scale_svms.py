"""Claims of paper 000 about Frank-Wolfe (Theorem 1, Appendix C), and the errata without which they are wrong."""

import numpy as np
import pytest

from helpers import LOSS_NAMES
from reference.kernel_optimum import kernel_optimum
from softmargin.data import blobs
from softmargin.kernels import find_gamma, make_kernel
from softmargin.matrices.gram import Gram
from softmargin.problems.kernel_multiclass_svm import KernelMulticlassSVM
from softmargin.solvers.kernel_svm.block_frank_wolfe import BlockFrankWolfe
from softmargin.solvers.kernel_svm.frank_wolfe import FrankWolfe

N, K = 60, 3
SEEDS = range(5)

both_losses = pytest.mark.parametrize("multiclass", LOSS_NAMES)
both_kernels = pytest.mark.parametrize("kernel", ["linear", "rbf"])
every_price = pytest.mark.parametrize("C", [1e-3, 1e-2, 0.1, 1.0])


def make_problem(kernel, multiclass, C):
    """Three classes in 13 standardised dimensions, as in the wine data; return the kernel matrix too."""
    X, y = blobs(N, 13, K, seed=0)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    gram = Gram(make_kernel(kernel, gamma=find_gamma("scale", X)), X)
    return KernelMulticlassSVM(gram, y, C=C, multiclass=multiclass), gram.rows(np.arange(N))


def suboptimality(problem, kernel_matrix, solver, n_steps, seed=0):
    """Return f(alpha_t) - f* at the start and after each step."""
    best = kernel_optimum(kernel_matrix, problem.y, problem.C, problem.multiclass, K)
    state = solver.start(problem, None, np.random.default_rng(seed))
    values = [best]  # f(0) = 0
    for _ in range(n_steps):
        state = solver.step(problem, state)
        alpha = solver.point(problem, state).alpha
        values.append(best - problem.dual(alpha).value)
    return np.array(values)


def squared_diameter(multiclass, C):
    """Return the largest |alpha_i - alpha_i'|^2 of two points of a row: between two corners."""
    return 2 * C**2 if multiclass == "crammer_singer" else K * (K - 1) * C**2


@both_losses
def test_diameter_of_a_row_is_the_distance_of_two_corners(multiclass):
    """Appendix C; a Weston-Watkins row has 2^(k-1) corners, not "the origin plus permutations"."""
    if multiclass == "crammer_singer":
        corners = [np.zeros(K), *(np.eye(K)[0] - np.eye(K)[j] for j in range(1, K))]
    else:
        bits = (np.arange(2 ** (K - 1))[:, None] >> np.arange(K - 1)) & 1
        corners = np.column_stack([bits.sum(axis=1), -bits])
        assert len(corners) > K
    distances = [((one - other) ** 2).sum() for one in corners for other in corners]
    assert max(distances) == squared_diameter(multiclass, 1.0)


@both_losses
@both_kernels
@every_price
def test_matrix_bound_of_theorem_1_holds(kernel, multiclass, C):
    """f(alpha_t) - f* <= 2 n diameter^2 s1(K) / t: 4 n C^2 s1 / t and 2 n k (k - 1) C^2 s1 / t."""
    problem, values = make_problem(kernel, multiclass, C)
    reached = suboptimality(problem, values, FrankWolfe(), 100)[1:]
    bound = 2 * N * squared_diameter(multiclass, C) * np.linalg.norm(values, 2) / np.arange(1, 101)
    assert (reached >= -1e-9).all()
    assert (reached <= bound).all()


def block_bound(multiclass, C, lengths, t):
    """Return the bound as the paper prints it, given the constants L_i: 2 n sum_i L_i diameter^2 / (t + 2 n - 2)."""
    return 2 * N * squared_diameter(multiclass, C) * lengths.sum() / (t + 2 * N - 2)


@both_losses
@both_kernels
@every_price
def test_corrected_block_bound_holds(kernel, multiclass, C):
    """E f(alpha_t) - f* <= 2 max{(n - 1)(f(0) - f*), n Omega^2} / (t + 2 n - 2),  Omega^2 = diameter^2 tr(K)."""
    problem, values = make_problem(kernel, multiclass, C)
    runs = [suboptimality(problem, values, BlockFrankWolfe("oblivious"), 30, seed) for seed in SEEDS]
    t = N * np.arange(31)
    first = 2 * (N - 1) * runs[0][0] / (t + 2 * N - 2)
    bound = np.maximum(first, block_bound(multiclass, C, np.diag(values), t))
    assert (np.mean(runs, axis=0) <= bound * (1 + 1e-12)).all()


@pytest.mark.parametrize(("kernel", "C", "factor"), [("rbf", 1e-3, 50), ("rbf", 1e-2, 5), ("linear", 1e-3, 3)])
def test_block_bound_as_printed_is_violated(kernel, C, factor):
    """Theorem 1 dropped the term (n - 1)(f(0) - f*) of Theorem 5: at small C the printed bound is below the truth."""
    problem, values = make_problem(kernel, "crammer_singer", C)
    runs = [suboptimality(problem, values, BlockFrankWolfe("oblivious"), 3, seed) for seed in SEEDS]
    printed = block_bound("crammer_singer", C, np.linalg.norm(values, axis=0), N * np.arange(4))
    assert np.mean(runs, axis=0)[0] > factor * printed[0]
    assert np.mean(runs, axis=0)[1] > printed[1], "also after a whole pass"


@both_losses
def test_block_gradient_changes_by_the_diagonal_alone(multiclass):
    """Appendix C takes L_i = |K[:, i]|; the gradient of row i changes by K_ii d when the row changes by d."""
    problem, values = make_problem("linear", multiclass, 1.0)
    d = np.zeros((N, K))
    d[7] = [0.3, -0.1, -0.2]
    change = problem.gram.scores(d)[7]
    np.testing.assert_allclose(change, values[7, 7] * d[7], rtol=1e-12)
    assert values[7, 7] < np.linalg.norm(values[:, 7])


@both_losses
@both_kernels
def test_blocks_are_faster_than_the_matrix_pass_by_pass(kernel, multiclass):
    """The paper calls matrix-wise steps "way faster"; one such step costs as much as n block steps, and gains less."""
    problem, values = make_problem(kernel, multiclass, 1.0)
    matrix, block = (suboptimality(problem, values, solver, 50)[-1] for solver in (FrankWolfe(), BlockFrankWolfe()))
    assert block < 0.3 * matrix
