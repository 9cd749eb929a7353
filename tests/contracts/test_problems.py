"""The judge: primal, dual and certificate are the formulas of docs/maths, and the bound is never wrong."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from helpers import LOSS_NAMES, PROBLEM_NAMES, augmented, infeasibility, make_problem, random_alpha
from reference.optimum import svm_optimum, svm_weights
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.data import blobs
from softmargin.problems import DualPoint, MulticlassSVM
from softmargin.run import Stop, solve
from softmargin.solvers import DualBlockDescent

both_losses = pytest.mark.parametrize("multiclass", LOSS_NAMES)
every_problem = pytest.mark.parametrize("name", PROBLEM_NAMES)
seeds = st.integers(0, 100_000)


def row_losses(problem, W):
    """l_i by two plain loops."""
    scores = augmented(problem) @ W
    losses = []
    for i, label in enumerate(problem.y):
        hinges = [1.0 + scores[i, c] - scores[i, label] for c in range(problem.n_classes) if c != label]
        if problem.multiclass == "weston_watkins":
            losses.append(sum(max(h, 0.0) for h in hinges))
        else:
            losses.append(max(0.0, *hinges))
    return np.array(losses)


@every_problem
@both_losses
@settings(max_examples=5)
@given(seed=seeds)
def test_primal_and_dual_are_the_formulas(name, multiclass, seed):
    problem, rng = make_problem(name, multiclass), np.random.default_rng(seed)
    A, alpha = augmented(problem), random_alpha(problem, rng)
    W = rng.standard_normal((A.shape[1], problem.n_classes))
    assert problem.primal(W).value == pytest.approx((W**2).sum() / 2 + problem.C @ row_losses(problem, W), rel=1e-12)
    point = problem.point(alpha)
    np.testing.assert_allclose(point.weights, A.T @ alpha, atol=1e-12)
    own = alpha[np.arange(len(alpha)), problem.y].sum()
    assert problem.dual(alpha).value == pytest.approx(own - ((A.T @ alpha) ** 2).sum() / 2, rel=1e-12)


def test_the_rounding_of_an_intercept_that_becomes_a_weight_is_charged():
    problem = MulticlassSVM(np.zeros((3, 1)), np.arange(3), bias=3.0)
    b = np.array([-1e8, 1.0, 1e8])
    weights = np.vstack([np.zeros(3), b / 3.0])
    exact = sum((Fraction(value) / 3) ** 2 for value in b.tolist()) / 2
    square = Fraction(float(np.vdot(weights, weights))) / 2
    charged = problem.primal_at(np.zeros((3, 1)), b).error - problem.primal(weights).error
    assert charged >= abs(square - exact) > 0


@every_problem
@both_losses
@settings(max_examples=10)
@given(seed=seeds)
def test_every_feasible_point_brackets_the_optimum(name, multiclass, seed):
    """The bound <= optimum <= primal, and P - D is the sum of the rows' gaps (maths: linear SVM, eq. 9)."""
    problem, rng = make_problem(name, multiclass), np.random.default_rng(seed)
    point = problem.point(random_alpha(problem, rng) * rng.random())
    certificate, optimum = problem.certificate(point), svm_optimum(problem)
    assert certificate.bound <= optimum + 1e-7
    assert certificate.primal >= optimum - 1e-7
    G = augmented(problem) @ point.weights - np.eye(problem.n_classes)[problem.y]
    gaps = (point.alpha * G).sum(axis=1) + problem.C * row_losses(problem, point.weights)
    assert gaps.min() >= -1e-9
    assert certificate.bound == max(problem.dual(point.alpha).lower, 0.0)  # zero rows are feasible, too
    assert certificate.primal - problem.dual(point.alpha).lower == pytest.approx(gaps.sum(), rel=1e-10)
    assert certificate.residual == pytest.approx(certificate.gap / certificate.primal)


@both_losses
@pytest.mark.parametrize("spoil", ["sum", "sign", "price", "nan"])
def test_infeasible_rows_prove_what_the_feasible_ones_near_them_do(multiclass, spoil):
    problem = make_problem("blobs", multiclass, C=1e-4)
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
        assert certificate.bound <= svm_optimum(problem) + 1e-7


@every_problem
@both_losses
@settings(max_examples=10)
@given(seed=seeds, scale=st.sampled_from([1e-3, 1.0, 1e6]))
def test_projection_is_feasible_and_keeps_the_feasible(name, multiclass, seed, scale):
    problem, rng = make_problem(name, multiclass), np.random.default_rng(seed)
    garbage = scale * rng.standard_normal((len(problem.y), problem.n_classes))
    found = problem.feasible(garbage)
    assert infeasibility(problem.multiclass, found, problem.y, problem.C) <= 1e-12
    inside = random_alpha(problem, rng)
    np.testing.assert_allclose(problem.feasible(inside), inside, rtol=1e-12, atol=1e-15)


@both_losses
@pytest.mark.parametrize("k", [2, 3, 6])
def test_rows_of_zeros_have_a_known_optimum(multiclass, k):
    y, C = np.arange(k), np.linspace(0.0, 2.0, k)
    problem = MulticlassSVM(np.zeros((k, 3)), y, C=C, multiclass=multiclass)
    certificate = problem.certificate(problem.point(problem.loss.at_zero_scores(y, C, k)))
    assert certificate.primal == pytest.approx(C.sum() * (k - 1 if multiclass == "weston_watkins" else 1))
    assert abs(certificate.gap) <= 1e-12


@pytest.mark.parametrize("name", ["blobs", "bias", "weights"])
@both_losses
@pytest.mark.parametrize("form", [np.float64, np.float32, csr_matrix])
def test_screened_rows_are_optimal_for_good(name, multiclass, form):
    """What the gap proves about a row holds at the optimum, and a smaller gap proves more."""
    # maths: linear SVM, section 5.
    problem = make_problem(name, multiclass)
    problem.X = csr_matrix(problem.X) if form is csr_matrix else problem.X.astype(form)
    solver, counts = DualBlockDescent(), []
    best = solve(problem, solver, stop=Stop(1e-12, 20_000), rng=0).point.alpha
    for tol in (1e-1, 1e-3, 1e-6, 1e-9):
        rows, alpha = problem.screened(solve(problem, solver, stop=Stop(tol, 20_000), rng=0).point)
        np.testing.assert_allclose(alpha, best[rows], rtol=0, atol=1e-4 * problem.C.max())
        counts.append(len(rows))
    assert counts == sorted(counts)
    assert counts[-1] > 0.3 * len(problem.y)


@both_losses
def test_screened_rows_survive_a_gap_of_rounding(multiclass):
    """At the optimum the gap may round to zero or below, and margins to 1e-16: free rows must stay free."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((5, 2)), rng.integers(0, 2, 5)
        problem = MulticlassSVM(X, y, C=10.0, multiclass=multiclass, n_classes=2)
        result = solve(problem, DualBlockDescent(), stop=Stop(0.0, 200), rng=0)
        if result.certificate.residual <= 1e-14:
            rows, alpha = problem.screened(result.point)
            np.testing.assert_allclose(alpha, result.point.alpha[rows], atol=1e-3, err_msg=f"seed {seed}")


def test_two_classes_make_both_losses_one():
    problems = [make_problem("binary", multiclass) for multiclass in LOSS_NAMES]
    W = np.random.default_rng(0).standard_normal((5, 2))
    assert problems[0].primal(W).value == pytest.approx(problems[1].primal(W).value, rel=1e-14)
    np.testing.assert_allclose(svm_weights(problems[0]), svm_weights(problems[1]), atol=1e-6)


X, Y = blobs(12, 3, 3, seed=0)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"C": np.nan}, DataError, "must be finite and not negative"),
        ({"C": -1.0}, DataError, "must be finite and not negative"),
        ({"C": np.full(12, np.inf)}, DataError, "must be finite and not negative"),
        ({"C": np.ones(11)}, DataError, "C"),
        ({"y": Y[:11]}, DataError, r"12 samples but y has shape \(11,\)"),
        ({"y": Y[:, None]}, DataError, r"y has shape \(12, 1\)"),
        ({"y": Y - 1}, DataError, "codes -1..1"),
        ({"y": np.where(Y == 2, 2**32 + 1, Y)}, DataError, "codes"),
        ({"y": Y + 0.5}, DataError, "code"),
        ({"n_classes": 2}, DataError, "codes 0..2 for 2 classes"),
        ({"y": np.zeros(12, int)}, DataError, "at least 2 classes"),
        ({"X": X[:0], "y": Y[:0]}, DataError, "no samples"),
        ({"X": X[0]}, DataError, r"must be a matrix \(2-D\)"),
        ({"bias": np.nan}, DataError, "bias"),
        ({"multiclass": "one_vs_rest"}, IncompatibleError, "'one_vs_rest' is unknown; choose one of weston_watkins"),
    ],
)
def test_senseless_problems_are_refused_with_a_reason(change, error, message):
    with pytest.raises(error, match=message):
        MulticlassSVM(**{"X": X, "y": Y, **change})


def test_warm_start_of_another_shape_is_refused():
    problem = MulticlassSVM(X, Y)
    with pytest.raises(DataError, match=r"needs alpha of shape \(12, 3\); found \(12, 4\)"):
        problem.feasible(np.zeros((12, 4)))


def test_weights_without_their_alpha_prove_nothing():
    """The judge starts from scratch: a bound is a bound even where the weights handed in are not X' alpha."""
    problem = make_problem("blobs")
    alpha = problem.loss.at_zero_scores(problem.y, problem.C, problem.n_classes)
    certificate = problem.certificate(DualPoint(alpha, np.zeros((6, 3))))
    assert certificate.bound <= svm_optimum(problem) + 1e-7
