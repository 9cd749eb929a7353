"""Certificates against 200-bit arithmetic: primal is never below the exact objective, bound never above the exact D.

An exact D at a feasible point is a lower bound of the optimum: a bound that does not exceed it is one, too. The number
of problems is SOFTMARGIN_ATTACK (of each kind); the short form runs in every test run.
"""

import os
from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from attack import exact
from softmargin.core.errors import DataError
from softmargin.core.rounding import UNIT, gamma
from softmargin.core.threads import threads
from softmargin.kernels import Laplacian, Linear, Points, Polynomial, Precomputed, Rbf
from softmargin.matrices.gram import Gram
from softmargin.matrices.operator import matmul, score_roundings
from softmargin.problems import L2SVM, KernelMulticlassSVM, MulticlassSVM
from softmargin.problems.sized_columns import SizedColumns
from softmargin.run import Stop, solve
from softmargin.solvers import DualBlockDescent, DualProxGradient, KernelBlockDescent

COUNT = int(os.environ.get("SOFTMARGIN_ATTACK", "12"))
SEED = int(os.environ.get("SOFTMARGIN_ATTACK_SEED", "0"))
KERNELS = (Linear(), Rbf(0.3), Rbf(3.0), Laplacian(0.5), Polynomial(0.2, 3, 1.0))


def hard_data(rng):
    """Return few samples of very different scale, with offsets, in either precision and layout."""
    n, d, k = int(rng.integers(4, 14)), int(rng.integers(1, 5)), int(rng.integers(2, 5))
    X = rng.standard_normal((n, d)) * 10.0 ** rng.integers(-3, 4, d)
    X += rng.choice([0.0, 0.0, 1.0, 1e3, 1e6, 1e9, 1e12]) * rng.choice([0.0, 1.0], d)
    if rng.random() < 0.3:
        X[rng.random(n) < 0.5] += 10.0 ** rng.integers(0, 9)  # two clusters far apart
    y = rng.permutation(np.arange(n) % k)
    C = 10.0 ** rng.integers(-4, 5) * np.where(rng.random(n) < 0.2, 10.0 ** rng.integers(-12, 1, n), 1.0)
    X = X.astype(rng.choice([np.float32, np.float64]))
    return (csr_matrix(X) if rng.random() < 0.3 else X), y, C, k


def spoiled(rng, alpha):
    """Return dual variables off their set: as they are, moved by rounding, or moved far."""
    noise = rng.choice([0.0, 1e-16, 1e-9, 1e-2])
    return alpha * (1.0 + noise * rng.standard_normal(alpha.shape))


def check(problem, point, primal, dual):
    """Hold a certificate against exact values."""
    with np.errstate(all="ignore"):
        certificate = problem.certificate(point)
    if np.isnan(certificate.residual):
        return  # a run with it fails: no claim is made
    assert certificate.primal >= primal
    assert certificate.bound <= max(dual, 0)  # no objective is negative
    assert certificate.rounding <= certificate.residual


@pytest.mark.parametrize("seed", range(COUNT))
def test_linear_svms(seed):
    rng = np.random.default_rng([SEED, seed, 1])
    X, y, C, k = hard_data(rng)
    multiclass = str(rng.choice(["weston_watkins", "crammer_singer"]))
    problem = MulticlassSVM(X, y, C=C, multiclass=multiclass, n_classes=k, bias=float(rng.choice([0.0, 1.0, 7.3])))
    point = solve(problem, DualBlockDescent(), stop=Stop(1e-9, int(rng.integers(1, 300))), rng=seed).point
    alpha = spoiled(rng, point.alpha)
    K = exact.gram(Linear(), X, problem.bias)
    point = point._replace(alpha=alpha)
    dual = exact.joint_dual(problem, K, problem.feasible(alpha))
    check(problem, point, exact.linear_primal(problem, point.weights), dual)


@pytest.mark.parametrize("seed", range(COUNT))
def test_linear_svms_of_one_vs_rest(seed):
    """Judged together: products with X are shared."""
    rng = np.random.default_rng([SEED, seed, 4])
    X, y, C, k = hard_data(rng)
    bias = float(rng.choice([0.0, 1.0, 7.3]))
    parts = [MulticlassSVM(X, (y == c).astype(int), C=C, n_classes=2, bias=bias) for c in range(k)]
    for part in parts:
        part.X = parts[0].X
    points = [solve(part, DualBlockDescent(), stop=Stop(1e-9, 50), rng=seed).point for part in parts]
    K = exact.gram(Linear(), X, bias)
    with np.errstate(all="ignore"):
        found = MulticlassSVM.certificates_of(parts, points)
    for part, point, certificate in zip(parts, points, found, strict=True):
        assert not certificate.primal < exact.linear_primal(part, point.weights)
        assert not certificate.bound > max(exact.joint_dual(part, K, part.feasible(point.alpha)), 0)


def dates(k=3, *, offset=1e12, spread=1e4):
    """Return samples with a column far from zero, at classes that overlap."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 3)), np.arange(300) % k
    X[:, 0] += y
    return X * [1.0, spread, 1.0] + [0.0, offset, 0.0], y


def balanced(y, k):
    """Return dual rows of which every class sums to zero, but not in floating point."""
    alpha, size = np.zeros((300, k)), np.repeat(np.random.default_rng(1).random(300 // k), k)
    alpha[np.arange(300), y] = size
    alpha[np.arange(300), (y + 1) % k] = -size
    return alpha


@pytest.mark.parametrize("share", [1.0, 0.7], ids=["balanced", "not balanced"])
@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_weights_of_columns_far_from_zero_are_within_their_errors(share, bias):
    X, y = dates(3)
    problem, alpha = MulticlassSVM(X, y, bias=bias), balanced(y, 3)
    alpha[:50] *= share
    columns = problem._columns
    weights, errors = columns.weights(alpha, problem._operations, y)
    A = [[*map(Fraction, map(float, row)), Fraction(bias)] for row in X]
    assert len(columns.groups) == len(errors) > 1
    for c in range(3):
        mine = [Fraction(float(value)) for value in alpha[:, c]]
        for group, error in zip(columns.groups, errors[:, c], strict=True):
            exactly = [sum(row[j] * a for row, a in zip(A, mine, strict=True)) for j in group]
            apart = sum((Fraction(float(weights[j, c])) - e) ** 2 for j, e in zip(group, exactly, strict=True))
            assert apart <= Fraction(float(error)) ** 2


@pytest.mark.parametrize("sizes", [[1.0, 1e-12, 1.0], [1e-9, 1.0, 1e-9], [1.0, 0.0, 1.0]])
def test_scores_of_columns_far_from_zero_are_within_their_errors(sizes):
    X, _ = dates(3)
    weights = np.random.default_rng(2).standard_normal((4, 3)) * np.append(sizes, 1.0)[:, None]
    errors = SizedColumns(X, 1.0).score_errors(weights)
    allowed = errors.rows @ errors.slope + errors.level
    W = [[Fraction(float(value)) for value in row] for row in weights]
    for rows, scores in matmul(X, weights, 1.0):
        for x, s, most in zip(X[rows], scores, allowed[rows], strict=True):
            x = [*map(Fraction, map(float, x)), Fraction(1)]
            for c in range(3):
                assert abs(Fraction(float(s[c])) - sum(a * w[c] for a, w in zip(x, W, strict=True))) <= most[c]


@pytest.mark.parametrize(("bias", "k"), [(0.0, 2), (1.0, 3)])
def test_a_column_far_from_zero_leaves_a_bound(k, bias):
    """Sums of it cancel: without a shift by the mean their errors, squared, are far above the optimum."""
    X, y = dates(k)
    problem = MulticlassSVM(X, y, bias=bias)
    alpha = balanced(y, k)
    found = problem.dual(alpha)
    K = exact.gram(Linear(), X, bias)
    dual = exact.joint_dual(problem, K, problem.feasible(alpha))
    assert abs(Fraction(found.value) - Fraction(str(dual))) <= found.error <= 1e-3 * abs(float(dual))


@pytest.mark.parametrize("seed", range(COUNT))
def test_kernel_svms(seed):
    rng = np.random.default_rng([SEED, seed, 2])
    X, y, C, k = hard_data(rng)
    kernel = KERNELS[rng.integers(len(KERNELS))]
    multiclass = str(rng.choice(["weston_watkins", "crammer_singer"]))
    gram = Gram(kernel, X, bias=float(rng.choice([0.0, 1.0, 7.3])))
    problem = KernelMulticlassSVM(gram, y, C=C, multiclass=multiclass, n_classes=k)
    point = solve(problem, KernelBlockDescent(), stop=Stop(1e-9, int(rng.integers(1, 100))), rng=seed).point
    alpha = spoiled(rng, point.alpha)
    K = exact.gram(kernel, X, gram.bias)
    multiples = (1.0, min(problem.room(alpha), 1.0))
    dual = max(exact.joint_dual(problem, K, problem.feasible(s * alpha)) for s in multiples)
    check(problem, problem.point(alpha), exact.kernel_primal(problem, K, alpha), dual)


@pytest.mark.parametrize("seed", range(COUNT))
def test_squared_hinge_svms(seed):
    rng = np.random.default_rng([SEED, seed, 3])
    X, y, C, _ = hard_data(rng)
    kernel = KERNELS[rng.integers(len(KERNELS))]
    problem = L2SVM(Gram(kernel, X), 2.0 * (y % 2) - 1.0, C=C, has_bias=bool(rng.random() < 0.6))
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            point = solve(problem, DualProxGradient(), stop=Stop(1e-9, int(rng.integers(1, 100))), rng=seed).point
    except DataError:
        return  # kernel values beyond the range of float32: no claim is made
    point = point._replace(alpha=spoiled(rng, point.alpha))
    K = exact.gram(kernel, X, 0.0)
    primal = exact.l2_primal(problem, K, problem.y * point.alpha, point.bias)
    check(problem, point, primal, exact.l2_dual(problem, K, point.alpha))


def losing(n):
    """Return numbers of which all but the first are lost where they are added to it one after the other."""
    values = np.full(n, UNIT * (1.0 - 2.0**-10))
    values[0] = 1.0
    return values


def off(values, exact):
    """Return the largest distance of numbers from an exact one."""
    return max(abs(Fraction(float(value)) - exact) for value in values)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_scores_of_many_features_are_as_exact_as_sums_of_sums(k):
    # BLAS alone, in whatever order, loses up to 16,367 of the 16,384 roundings; 332 are allowed for.
    x = np.sqrt(losing(1 << 14))
    weights = np.vstack([np.repeat(x[:, None], k, axis=1), np.zeros((1, k))])
    scores = next(matmul(x[None, :], weights, 0.0))[1]
    allowed = gamma(score_roundings(x[None, :]) + 12) * float(x @ x)
    assert allowed < 400 * UNIT
    assert off(scores[0], sum(Fraction(float(value)) ** 2 for value in x)) <= allowed


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("how", ["given", "cached", "in tiles"])
@pytest.mark.parametrize("k", [1, 3])
def test_sums_of_kernel_values_are_as_exact_as_sums_of_sums(k, how, jobs):
    n = 4000  # all kernel values are 1, and without an error
    if how == "given":
        gram = Gram(Precomputed(), np.ones((n, n)))
    else:
        gram = Gram(Rbf(1.0), np.zeros((n, 1)), cache_size=1000.0 if how == "cached" else 1.0)
    alpha = np.repeat(losing(n)[:, None], k, axis=1)
    with threads(jobs):
        scores, roundings = gram.wide_scores(alpha), gram.sum_roundings(n)
    assert roundings < 700
    assert off(scores.ravel(), sum(map(Fraction, alpha[:, 0].tolist()))) <= gamma(roundings + 8) * alpha[:, 0].sum()


@pytest.mark.parametrize("d", [100, 5000], ids=["by differences or products", "by products"])
@pytest.mark.parametrize("seed", range(min(COUNT, 4)))
def test_rbf_values_of_rows_of_every_length(seed, d):
    rng = np.random.default_rng([SEED, seed, 4])
    m = min(d, 900)
    rows = np.zeros((8, d))
    rows[0, :m] = np.sqrt(losing(m))
    for row, length in zip(rows[2:], [1, 3, 10, m // 9, m // 3, m], strict=True):
        row[rng.choice(d, length, replace=False)] = rng.standard_normal(length) * 10.0 ** rng.integers(-2, 3)
    kernel, X = Rbf(float(rng.choice([1e-4, 0.1, 1.0]))), csr_matrix(rows)
    points = Points(X)
    found, errors = kernel.block(points, points), kernel.errors(points).rows
    for i, line in enumerate(exact.gram(kernel, X, 0.0)):
        for j, value in enumerate(line):
            assert abs(exact.mpf(float(found[i, j])) - value) <= errors[i] + errors[j]
