"""Entrywise losses with a penalty: certificates against CVXPY's optimum and in 200 bits, and the solver."""

import cvxpy as cp
import mpmath
import numpy as np
import pytest
from scipy.sparse import csr_matrix

from contracts.test_ball_rounding import exact_loss
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.losses.entrywise import ENTRYWISE, Hinge, SmoothHinge
from softmargin.penalties import L1, L2, MCP, Box, ElasticNet, Group, Nonnegative, SparseGroup
from softmargin.problems import BallPoint, Penalized
from softmargin.run import Stop, solve
from softmargin.solvers import PenalizedGradient
from softmargin.testing import check_loss, check_solver

PENALTIES = {
    "l1": L1(0.05),
    "l2": L2(0.1),
    "elastic net": ElasticNet(0.03, 0.1),
    "group": Group(0.08),
    "sparse group": SparseGroup(0.03, 0.02, 0.05),
    "nonnegative": Nonnegative(l1=0.02),
}
every_penalty = pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES)


def problem_of(loss, penalty, *, k=2, seed=0, form=np.asarray, fit_intercept=True, n=40, d=6):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.7)
    target = X @ rng.standard_normal((d, k)) + 0.5 * rng.standard_normal((n, k)) + 0.4
    target = np.where(target > 0.0, 1.0, -1.0) if loss.is_margin else target
    weights = rng.random(n) / n
    return Penalized(form(X), target, loss=loss, penalty=penalty, weights=weights, fit_intercept=fit_intercept)


def penalty_of(penalty, W):
    if isinstance(penalty, Box):
        return penalty.l1 * cp.sum(cp.abs(W)) + 0.5 * penalty.l2 * cp.sum_squares(W), [penalty.low <= W]
    group = getattr(penalty, "group", 0.0) * cp.sum(cp.norm(W, 2, axis=1))
    return group + penalty.l1 * cp.sum(cp.abs(W)) + 0.5 * penalty.l2 * cp.sum_squares(W), []


def optimum(problem):
    (d, k), T = problem.shape, problem.target
    W, b = cp.Variable((d, k)), cp.Variable((1, k))
    X = problem.X if isinstance(problem.X, np.ndarray) else problem.X.toarray()
    scores = X @ W + (np.ones((len(X), 1)) @ b if problem.fit_intercept else 0.0)
    short = cp.pos(1.0 - cp.multiply(T, scores)) if problem.loss.is_margin else None
    losses = {
        "Squared": lambda: 0.5 * cp.square(scores - T),
        "Logistic": lambda: cp.logistic(-cp.multiply(T, scores)),
        "SquaredHinge": lambda: 0.5 * cp.square(short),
        "Hinge": lambda: short,
    }[type(problem.loss).__name__]()
    value, inside = penalty_of(problem.penalty, W)
    program = cp.Problem(cp.Minimize(cp.sum(problem.weights @ losses) + value), inside)
    program.solve(solver=cp.CLARABEL)
    return program.value, BallPoint(W.value, b.value[0] if problem.fit_intercept else np.zeros(k))


@every_penalty
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_solver_meets_cvxpys_optimum(penalty, fit_intercept):
    for loss, form in (("squared", np.asarray), ("squared_hinge", csr_matrix)):
        problem = problem_of(ENTRYWISE[loss], penalty, form=form, fit_intercept=fit_intercept)
        value, _ = optimum(problem)
        certificate = solve(problem, PenalizedGradient(), stop=Stop(1e-9), rng=0).certificate
        assert certificate.residual <= 1e-9
        assert certificate.bound <= value * (1 + 1e-6)
        assert certificate.primal >= value * (1 - 1e-6)


@every_penalty
def test_every_point_brackets_the_optimum(penalty):
    problem = problem_of(ENTRYWISE["logistic"], penalty)
    value, best = optimum(problem)
    rng = np.random.default_rng(1)
    for size in (0.0, 1e-3, 0.1, 10.0):
        W = penalty.prox(best.weights + size * rng.standard_normal(problem.shape), 1e-12)
        certificate = problem.certificate(BallPoint(W, best.intercept + size))
        assert 0.0 <= certificate.bound <= value * (1 + 1e-6)
        assert certificate.primal >= value * (1 - 1e-6)


def exact_objective(problem, point):
    W, penalty = mpmath.matrix(point.weights.tolist()), problem.penalty
    scores = mpmath.matrix(problem.X.astype(float).tolist()) * W
    value = penalty.l1 * mpmath.fsum(abs(w) for w in W) + mpmath.mpf(penalty.l2) / 2 * mpmath.fsum(w**2 for w in W)
    for j in range(W.rows if hasattr(penalty, "group") else 0):
        value += penalty.group * mpmath.sqrt(mpmath.fsum(W[j, c] ** 2 for c in range(W.cols)))
    for i, c in np.ndindex(problem.target.shape):
        s, t = scores[i, c] + mpmath.mpf(point.intercept[c]), mpmath.mpf(problem.target[i, c])
        loss = max(1 - t * s, 0) if isinstance(problem.loss, Hinge) else exact_loss(problem.loss, s, t)
        value += mpmath.mpf(problem.weights[i]) * loss
    return value


@pytest.mark.parametrize("seed", range(12))
def test_certificates_hold_in_real_arithmetic(seed):
    """With offsets, scales and strengths of any size, no objective in 200 bits is above what was certified."""
    rng = np.random.default_rng(seed)
    loss = [*ENTRYWISE.values(), Hinge()][seed % 5]
    n, d, k = int(rng.integers(2, 13)), int(rng.integers(1, 6)), int(rng.integers(1, 4))
    X = (rng.standard_normal((n, d)) + rng.choice([0.0, 1e3, 1e6])) * 10.0 ** rng.uniform(-6, 6, size=d)
    target = X @ rng.standard_normal((d, k)) + 0.3
    target = np.where(target > np.median(target), 1.0, -1.0) if loss.is_margin else target
    strength = float(10.0 ** rng.uniform(-6, 6))
    penalty = [L1(strength), L2(strength), SparseGroup(strength, strength, 0.0)][seed % 3]
    settings = {"weights": 10.0 ** rng.uniform(-8, 4, size=n), "fit_intercept": bool(seed % 2)}
    problem = Penalized(X, target, loss=loss, penalty=penalty, **settings)
    points = [problem.zero()]
    points += [BallPoint(s * rng.standard_normal((d, k)), rng.standard_normal(k) * (seed % 2)) for s in (1e-9, 1.0)]
    if np.isfinite(loss.curvature):
        points += [solve(problem, PenalizedGradient(), stop=Stop(1e-12, 60), rng=0).point]
    certificates = [problem.certificate(point) for point in points]
    with mpmath.workprec(200):
        exact = [exact_objective(problem, point) for point in points]
        for value, certificate in zip(exact, certificates, strict=True):
            assert value <= certificate.primal
            assert certificate.primal * (1 - 2 * certificate.rounding) <= value * (1 + 1e-12)
        assert max(each.bound for each in certificates) <= min(exact)


def test_solver_keeps_the_contract():
    check_solver(PenalizedGradient(), lambda: problem_of(ENTRYWISE["squared"], Group(0.05), form=csr_matrix), steps=7)


@pytest.mark.parametrize("width", [1.0, 0.3])
def test_a_hinge_with_a_round_corner_keeps_the_contract(width):
    smooth = SmoothHinge(width=width)
    check_loss(smooth)
    rng = np.random.default_rng(0)
    s, t = rng.standard_normal(200) * 3, rng.choice([-1.0, 1.0], 200)
    lift = Hinge().value(s, t) - smooth.value(s, t) / width
    assert lift.min() >= -1e-15
    assert lift.max() == pytest.approx(width / 2)


def test_what_has_no_bound_or_no_rows_is_refused():
    X, y = np.ones((3, 2)), np.ones(3)
    for penalty in (L2(0.0), MCP(1.0, 3.0)):
        with pytest.raises(IncompatibleError, match="no bound can"):
            Penalized(X, y, loss=ENTRYWISE["squared"], penalty=penalty)
    with pytest.raises(DataError, match="rows must agree"):
        Penalized(X, y[:2], loss=ENTRYWISE["squared"], penalty=L1(1.0))
    problem = Penalized(X, y, loss=ENTRYWISE["squared"], penalty=L1(1.0))
    with pytest.raises(DataError, match="a warm start needs weights"):
        problem.checked_point(BallPoint(np.ones((3, 1)), np.ones(1)))
