"""The judges of kernel problems: P, D and gaps are the formulas of docs/maths, and the bound is never wrong."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar
from scipy.sparse import csr_matrix

from helpers import LOSS_NAMES, PROBLEM_NAMES, dense, infeasibility, make_problem, problem_data, random_alpha
from reference.l2_optimum import l2_optimum
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.data import blobs
from softmargin.kernels import Linear, Points, Polynomial, Rbf
from softmargin.matrices.gram import Gram
from softmargin.problems import L2SVM, BiasPoint, KernelMulticlassSVM, OneVsRest

both_losses = pytest.mark.parametrize("multiclass", LOSS_NAMES)
every_problem = pytest.mark.parametrize("name", PROBLEM_NAMES)
with_and_without_bias = pytest.mark.parametrize("has_bias", [True, False])
seeds = st.integers(0, 100_000)


def kernel_problem(name, multiclass="weston_watkins", kernel=Linear(), **changes):  # noqa: B008
    """Build a named problem on a kernel matrix; ``changes`` override its settings."""
    X, y, given = problem_data(name)
    given = {"multiclass": multiclass, **given, **changes}
    return KernelMulticlassSVM(Gram(kernel, X, bias=given.pop("bias", 0.0)), y, **given)


@every_problem
@both_losses
@settings(max_examples=5)
@given(seed=seeds)
def test_the_linear_kernel_is_the_linear_problem(name, multiclass, seed):
    linear, kernel = make_problem(name, multiclass), kernel_problem(name, multiclass)
    alpha = random_alpha(linear, np.random.default_rng(seed))
    point = linear.point(alpha)
    assert kernel.primal(kernel.point(alpha)).value == pytest.approx(linear.primal(point.weights).value, rel=1e-11)
    assert kernel.dual(alpha).value == pytest.approx(linear.dual(alpha).value, rel=1e-11)
    ours, theirs = kernel.certificate(kernel.point(alpha)), linear.certificate(point)
    assert (ours.kind, ours.primal, ours.bound) == (
        theirs.kind,
        pytest.approx(theirs.primal, rel=1e-8),
        pytest.approx(theirs.bound, rel=1e-8),
    )


@every_problem
@both_losses
@pytest.mark.parametrize("kernel", [Linear(), Rbf(0.2), Polynomial(0.1, 2, 1.0)], ids=lambda kernel: kernel.name)
@settings(max_examples=5)
@given(seed=seeds)
def test_row_gaps_are_not_negative_and_sum_to_the_gap(name, multiclass, kernel, seed):
    problem, rng = kernel_problem(name, multiclass, kernel), np.random.default_rng(seed)
    alpha = random_alpha(problem, rng) * rng.random()
    X = dense(problem.gram.X)
    K = kernel.block(Points(X), Points(X)) + problem.gram.bias**2
    gaps = problem.gaps(alpha, K @ alpha)
    assert gaps.shape == (len(X),)
    assert gaps.min() >= -1e-9 * max(1.0, gaps.max())
    certificate = problem.certificate(problem.point(alpha))
    own = alpha[np.arange(len(X)), problem.y].sum()
    dual = own - (alpha * (K @ alpha)).sum() / 2
    assert problem.dual(alpha).value == pytest.approx(dual, rel=1e-10)
    assert certificate.bound == pytest.approx(max(dual, 0.0), rel=1e-10)  # zero rows are feasible, too
    assert certificate.primal - dual == pytest.approx(gaps.sum(), rel=1e-9)
    assert certificate.residual == pytest.approx(certificate.gap / certificate.primal)


@both_losses
def test_no_feasible_row_moves_the_dual_up_faster_than_its_gap(multiclass):
    """The gap of a row is its Frank-Wolfe gap: max over feasible s of <alpha_i - s, F_i - e_y>."""
    problem, rng = kernel_problem("blobs", multiclass, Rbf(0.5)), np.random.default_rng(0)
    alpha = random_alpha(problem, rng)
    scores = problem.gram.scores(alpha)
    gradient = scores - np.eye(problem.n_classes)[problem.y]
    gaps = problem.gaps(alpha, scores)
    for _ in range(200):
        other = random_alpha(problem, rng)
        assert (((alpha - other) * gradient).sum(axis=1) <= gaps + 1e-9).all()


@both_losses
@pytest.mark.parametrize("spoil", ["sum", "sign", "price", "nan"])
def test_infeasible_rows_prove_what_the_feasible_ones_near_them_do(multiclass, spoil):
    problem = kernel_problem("blobs", multiclass, Rbf(0.5), C=0.01)
    alpha = problem.loss.at_zero_scores(problem.y, problem.C, problem.n_classes)
    label, other = problem.y[7], (problem.y[7] + 1) % 3
    if spoil == "sum":
        alpha[7, other] *= 0.999
    elif spoil == "sign":
        alpha[7] = 0.0
        alpha[7, [label, other]] = -1e-3, 1e-3
    elif spoil == "price":
        alpha[7, [label, other]] += [1e-6, -1e-6]
    else:
        alpha[7, other] = np.nan
    certificate = problem.certificate(problem.point(alpha))
    if spoil == "nan":
        assert not certificate.meets(1e6)
    else:
        assert certificate.bound == problem.dual(problem.feasible(alpha)).lower > 0.0


@every_problem
@both_losses
def test_any_warm_start_becomes_feasible_and_a_feasible_one_stays(name, multiclass):
    problem, rng = kernel_problem(name, multiclass), np.random.default_rng(0)
    garbage = rng.standard_normal((len(problem.y), problem.n_classes))
    assert infeasibility(problem.multiclass, problem.feasible(garbage), problem.y, problem.C) <= 1e-12
    inside = random_alpha(problem, rng)
    np.testing.assert_allclose(problem.feasible(inside), inside, rtol=1e-12, atol=1e-15)
    with pytest.raises(DataError, match="warm start needs alpha of shape"):
        problem.feasible(garbage[:-1])


def test_a_fingerprint_names_data_kernel_prices_and_loss():
    X, y, _ = problem_data("blobs")

    def mark(X=X, y=y, kernel=Rbf(0.5), bias=0.0, **changes):  # noqa: B008
        return KernelMulticlassSVM(Gram(kernel, X, bias=bias), y, **changes).fingerprint()

    changed = X.copy()
    changed[3, 2] += 1e-12
    others = [
        mark(X=changed),
        mark(X=X.astype(np.float32)),
        mark(X=csr_matrix(X)),
        mark(y=np.roll(y, 1)),
        mark(kernel=Rbf(0.25)),
        mark(kernel=Linear()),
        mark(C=2.0),
        mark(bias=1.0),
        mark(n_classes=4),
        mark(multiclass="crammer_singer"),
    ]
    assert mark() == mark(X=X.copy())
    assert len({mark(), *others}) == 1 + len(others)


# --- the binary L2-SVM ------------------------------------------------------------------------------------------------


def l2_problem(seed=0, *, has_bias=True, kernel=Rbf(0.3), n=30, C=None):  # noqa: B008
    """Two overlapping clouds with a price a sample, some of them zero."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    X = rng.standard_normal((n, 3)) + 0.7 * y[:, None] + 1.0
    prices = rng.choice([0.0, 0.1, 1.0, 5.0], size=n) if C is None else C
    return L2SVM(Gram(kernel, X), y, C=prices, has_bias=has_bias)


def random_point(problem, rng):
    """Draw a feasible dual point."""
    return problem.feasible(rng.exponential(size=len(problem.y)) * (rng.random(len(problem.y)) < 0.6) * rng.random())


def l2_values(problem, alpha, bias):
    """P and D of maths: squared hinge, eqs. 1 and 2."""
    X, y, C = dense(problem.gram.X), problem.y, problem.C
    K = problem.gram.kernel.block(Points(X), Points(X))
    scores = K @ (y * alpha)
    primal = (y * alpha) @ scores / 2 + sum(C * np.maximum(1 - y * (scores + bias), 0.0) ** 2) / 2
    priced = C > 0
    dual = alpha.sum() - (y * alpha) @ scores / 2 - (alpha[priced] ** 2 / C[priced]).sum() / 2
    return primal, dual


@with_and_without_bias
@given(seed=seeds)
def test_l2_gap_terms_are_not_negative_and_sum_to_the_gap(has_bias, seed):
    problem, rng = l2_problem(seed, has_bias=has_bias), np.random.default_rng(seed)
    alpha = random_point(problem, rng)
    bias = rng.standard_normal() if has_bias else 0.0  # any bias: y'a = 0 makes it drop out
    primal, dual = l2_values(problem, alpha, bias)
    scores = problem.gram.scores(problem.y * alpha)
    gaps = problem.gaps(alpha, scores, bias)
    assert gaps.min() >= -1e-12 * max(1.0, gaps.max())
    assert gaps.sum() == pytest.approx(primal - dual, rel=1e-9)
    assert problem.dual(alpha).value == pytest.approx(dual, rel=1e-9, abs=1e-12)
    certificate = problem.certificate(BiasPoint(alpha, bias))
    assert certificate.primal == pytest.approx(primal, rel=1e-10)
    assert certificate.bound == pytest.approx(max(dual, 0.0), rel=1e-9, abs=1e-10 * primal)


@given(seed=seeds)
def test_the_best_bias_minimises_the_primal(seed):
    problem, rng = l2_problem(seed), np.random.default_rng(seed)
    scores = rng.standard_normal(len(problem.y)) * 2

    def losses(bias):
        return problem.C @ np.maximum(1 - problem.y * (scores + bias), 0.0) ** 2 / 2

    best = problem.best_bias(scores)
    found = minimize_scalar(losses, bounds=(-20.0, 20.0), method="bounded", options={"xatol": 1e-10})
    assert losses(best) <= found.fun * (1 + 1e-9) + 1e-12
    for step in (1e-3, -1e-3):
        assert losses(best) <= losses(best + step) + 1e-12
    slope = problem.C * problem.y @ problem.slacks(scores, best)
    assert abs(slope) <= 1e-9 * (1 + problem.C.sum())


def test_without_a_bias_or_without_prices_there_is_no_best_bias():
    scores = np.linspace(-1, 1, 30)
    assert l2_problem(has_bias=False).best_bias(scores) == 0.0
    assert l2_problem(C=0.0).best_bias(scores) == 0.0


@with_and_without_bias
@settings(max_examples=15)
@given(seed=seeds)
def test_every_feasible_l2_point_brackets_the_optimum(has_bias, seed):
    """The optimum of the smooth primal in (w, b) is found by L-BFGS."""
    problem, rng = l2_problem(3, has_bias=has_bias, kernel=Linear()), np.random.default_rng(seed)
    X, y, C = problem.gram.X, problem.y, problem.C

    def primal(v):
        xi = np.maximum(1 - y * (X @ v[:3] + has_bias * v[3]), 0.0)
        slope = -C * xi * y
        return v[:3] @ v[:3] / 2 + C @ xi**2 / 2, np.append(v[:3] + X.T @ slope, has_bias * slope.sum())

    optimum = minimize(primal, np.zeros(4), jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-9}).fun
    certificate = problem.certificate(problem.point(random_point(problem, rng)))
    assert certificate.bound <= optimum + 1e-9
    assert certificate.primal >= optimum - 1e-9


@with_and_without_bias
@given(seed=seeds)
def test_the_nearest_feasible_point_is_nearest(has_bias, seed):
    problem, rng = l2_problem(seed, has_bias=has_bias), np.random.default_rng(seed)
    wish = rng.standard_normal(len(problem.y))
    nearest = problem.feasible(wish)
    assert nearest.min() >= 0.0
    assert not has_bias or abs(problem.y @ nearest) <= 1e-12 * nearest.sum()
    assert not nearest[problem.C == 0].any()
    for _ in range(10):  # the angle to every other point of a convex set is obtuse
        other = random_point(problem, rng)
        inside = problem.C > 0
        assert ((wish - nearest) * (other - nearest))[inside].sum() <= 1e-9
    np.testing.assert_allclose(problem.feasible(nearest), nearest, atol=1e-12)
    with pytest.raises(DataError, match=r"alpha of shape \(30,\); found \(29,\)"):
        problem.feasible(wish[:29])


@pytest.mark.parametrize("spoil", ["sign", "balance", "price", "nan"])
def test_infeasible_l2_points_prove_what_the_feasible_ones_near_them_do(spoil):
    problem = l2_problem(1)
    alpha = random_point(problem, np.random.default_rng(0))
    assert np.isfinite(problem.certificate(problem.point(alpha)).bound)
    plus, minus = (np.flatnonzero((problem.y == side) & (problem.C > 0)) for side in (1, -1))
    if spoil == "sign":
        alpha[:] = 0.0
        alpha[[plus[0], minus[0]]] = 1.0
        alpha[[plus[1], minus[1]]] = -1e-6
    elif spoil == "balance":
        alpha[plus[0]] += 1e-5
    elif spoil == "price":
        free = np.flatnonzero(problem.C == 0)[0]
        alpha[[free, minus[0] if problem.y[free] > 0 else plus[0]]] += 1e-3
    else:
        alpha[plus[0]] = np.nan
    certificate = problem.certificate(problem.point(alpha))
    if spoil == "nan":
        assert not certificate.meets(1e6)
    else:
        optimum = l2_optimum(problem.gram.square(np.arange(problem.gram.n)), problem.y, problem.C).value
        assert -np.inf < certificate.bound <= optimum * (1 + 1e-8)


def test_without_a_bias_nothing_need_balance():
    problem = l2_problem(1, has_bias=False)
    alpha = np.where((problem.y > 0) & (problem.C > 0), 0.1, 0.0)
    assert np.isfinite(problem.certificate(problem.point(alpha)).bound)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_single_class_is_solved_by_its_bias(side):
    X, _ = blobs(10, 2, 2, seed=0)
    problem = L2SVM(Gram(Linear(), X), np.full(10, side))
    point = problem.point(problem.feasible(np.ones(10)))
    assert not point.alpha.any()
    certificate = problem.certificate(point)
    assert (certificate.primal, certificate.residual) == (0.0, 0.0)
    assert point.bias * side >= 1.0 - 1e-12


@with_and_without_bias
@pytest.mark.parametrize("form", [np.float64, np.float32, csr_matrix])
def test_linear_weights_are_judged_by_their_own_primal(has_bias, form):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((25, 4)), np.where(rng.random(25) < 0.5, 1.0, -1.0)
    X = X.astype(np.float32).astype(np.float64)
    problem = L2SVM(Gram(Linear(), form(X)), y, C=2.0, has_bias=has_bias)
    weights, bias = rng.standard_normal(4), 0.3 * has_bias
    scores = X @ weights + bias
    point, xi = problem.primal_point(weights, bias, scores), np.maximum(1 - y * scores, 0.0)
    certificate = problem.certificate(point)
    assert certificate.primal == pytest.approx(weights @ weights / 2 + (xi**2).sum(), rel=1e-9)
    assert problem.dual(point.alpha).value == pytest.approx(l2_values(problem, point.alpha, 0.0)[1], rel=1e-6)
    assert certificate.bound == max(problem.dual(point.alpha).lower, 0.0)
    assert certificate.gap >= 0
    if not has_bias:
        np.testing.assert_allclose(point.alpha, 2.0 * xi, rtol=1e-6)


def test_an_l2_fingerprint_names_data_kernel_prices_and_bias():
    first = l2_problem(0, C=1.0)
    others = [l2_problem(1, C=1.0), l2_problem(0, C=2.0), l2_problem(0, C=1.0, has_bias=False)]
    others += [l2_problem(0, C=1.0, kernel=Rbf(0.2)), L2SVM(first.gram, -first.y)]
    assert first.fingerprint() == l2_problem(0, C=1.0).fingerprint()
    assert len({problem.fingerprint() for problem in [first, *others]}) == 1 + len(others)


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_one_vs_rest_is_the_sum_of_its_parts(scale):
    parts = [l2_problem(seed, n=20 + seed) for seed in range(3)]
    problem, rng = OneVsRest(parts, scale=scale), np.random.default_rng(0)
    points = [part.point(random_point(part, rng)) for part in parts]
    judged = [part.certificate(point) for part, point in zip(parts, points, strict=True)]
    certificate = problem.certificate(points)
    assert certificate.primal == pytest.approx(scale * sum(each.primal for each in judged))
    assert certificate.bound == pytest.approx(scale * sum(each.bound for each in judged))
    assert certificate.residual == pytest.approx(sum(each.gap for each in judged) / sum(each.primal for each in judged))
    with pytest.raises(ValueError, match="zip"):
        problem.certificate(points[:2])
    points[1] = BiasPoint(points[1].alpha * np.nan, 0.0)
    assert not problem.certificate(points).meets(1e6)
    assert problem.fingerprint() != OneVsRest(parts[::-1]).fingerprint()


def test_one_vs_rest_of_nothing_is_refused():
    with pytest.raises(DataError, match="at least one binary problem"):
        OneVsRest([])


X, Y = blobs(12, 3, 3, seed=0)
SIGNS = np.where(Y == 0, 1.0, -1.0)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"C": np.nan}, DataError, "must be finite and not negative"),
        ({"C": -1.0}, DataError, "must be finite and not negative"),
        ({"C": np.ones(11)}, DataError, r"C has shape \(11,\) for 12 samples"),
        ({"y": Y[:11]}, DataError, r"12 samples but y has shape \(11,\)"),
        ({"y": Y - 1}, DataError, "codes -1..1"),
        ({"y": Y + 0.5}, DataError, "code"),
        ({"y": np.zeros(12, int)}, DataError, "at least 2 classes"),
        ({"n_classes": 2}, DataError, "codes 0..2 for 2 classes"),
        ({"multiclass": "one_vs_rest"}, IncompatibleError, "'one_vs_rest' is unknown"),
    ],
)
def test_senseless_multiclass_problems_are_refused_with_a_reason(change, error, message):
    with pytest.raises(error, match=message):
        KernelMulticlassSVM(Gram(Rbf(1.0), X), **{"y": Y, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": Y}, r"labels -1 and \+1 only"),
        ({"y": np.where(SIGNS > 0, np.nan, SIGNS)}, r"labels -1 and \+1 only"),
        ({"y": SIGNS[:11]}, r"12 samples but y has shape \(11,\)"),
        ({"y": SIGNS[:, None]}, r"y has shape \(12, 1\)"),
        ({"C": -1.0}, "must be finite and not negative"),
        ({"C": np.inf}, "must be finite and not negative"),
        ({"C": np.ones(3)}, r"C has shape \(3,\)"),
    ],
)
def test_senseless_l2_problems_are_refused_with_a_reason(change, message):
    with pytest.raises(DataError, match=message):
        L2SVM(Gram(Rbf(1.0), X), **{"y": SIGNS, **change})
