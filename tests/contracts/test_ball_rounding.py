"""Certificates over a ball hold in real arithmetic: objectives in 200 bits are never above what was certified.

Data of every form, with offsets and scales from 1e-6 to 1e6, weights and radii of any size. An exact optimum is not at
hand; a bound must not be above the exact objective at any point of the set.
"""

import mpmath
import numpy as np
import pytest
from scipy.sparse import csr_matrix

from softmargin.losses.entrywise import ENTRYWISE, Hinge
from softmargin.losses.joint import JOINT
from softmargin.losses.observed import Observed
from softmargin.problems import BallPoint, Constrained
from softmargin.run import Stop, solve
from softmargin.sets import Box, L1Ball, LowRank, Simplex, TraceBall
from softmargin.solvers import BallBlockFrankWolfe, BallFrankWolfe, BallGradient, BallPrimalDual, Scgs, Storc
from softmargin.solvers.ball._batches import slide

FORMS = {
    "dense": np.asarray,
    "csr": csr_matrix,
    "float32": lambda X: X.astype(np.float32),
    "csr float32": lambda X: csr_matrix(X.astype(np.float32)),
}
SETS = ["l1", "simplex", "box", "trace"]
LOSSES = {**ENTRYWISE, "hinge": Hinge(), **JOINT}
every_loss = pytest.mark.parametrize("loss", sorted(LOSSES))
every_set = pytest.mark.parametrize("kind", SETS)


def ball_of(kind, radius):
    return {
        "l1": L1Ball(radius),
        "simplex": Simplex(radius),
        "box": Box(-radius, 0.5 * radius),
        "trace": TraceBall(radius),
    }[kind]


def problem_of(loss, kind, seed, *, is_ordinary=False):
    """Return a random problem; an ordinary one has features and weights of size one."""
    rng = np.random.default_rng([seed, *map(ord, loss + kind)])
    n, d, k = int(rng.integers(2, 13)), int(rng.integers(1, 6)), int(rng.integers(1, 4))
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.8)
    radius, l2, weights = 1.5, float(rng.choice([0.0, 0.1])), None
    if not is_ordinary:
        X = (X + rng.choice([0.0, 0.0, 1e3, 1e6])) * 10.0 ** rng.uniform(-6, 6, size=d if rng.random() < 0.5 else 1)
        radius, l2 = float(10.0 ** rng.uniform(-6, 6)), float(rng.choice([0.0, 10.0 ** rng.uniform(-9, 6)]))
        weights = 10.0 ** rng.uniform(-8, 4, size=n) if rng.random() < 0.5 else None
    term = LOSSES[loss]
    k += term.is_joint
    target = X @ rng.standard_normal((d, k)) + 0.3
    target = np.where(target > np.median(target), 1.0, -1.0) if term.is_margin else target
    if term.is_joint:
        target = np.eye(k)[target.argmax(axis=1)]
    elif rng.random() < 0.3:
        target[rng.random((n, k)) < 0.3], term = np.nan, Observed(term)
    form = FORMS[str(rng.choice(list(FORMS)))]
    has_intercept = bool(rng.random() < 0.5)
    ball = ball_of(kind, radius)
    return Constrained(form(X), target, loss=term, ball=ball, l2=l2, weights=weights, fit_intercept=has_intercept)


def exact_loss(loss, s, t):
    if mpmath.isnan(t):
        return mpmath.mpf(0)
    name = type(getattr(loss, "inner", loss)).__name__
    if name == "Squared":
        return (s - t) ** 2 / 2
    w = t * s
    if name == "Hinge":
        return max(1 - w, 0)
    if name == "Logistic":
        return mpmath.log1p(mpmath.exp(-w))
    if name == "SmoothHinge" and w < 0:
        return mpmath.mpf(0.5) - w
    return max(1 - w, 0) ** 2 / 2


def exact_joint_loss(loss, scores, target):
    own = scores[int(np.argmax(target))]
    margins = [1 + s - own for s, t in zip(scores, target, strict=True) if t == 0.0]
    if loss is JOINT["multinomial"]:
        return mpmath.log(mpmath.fsum(mpmath.exp(s - own) for s in scores))
    return max([*margins, 0]) if loss is JOINT["crammer_singer"] else mpmath.fsum(max(h, 0) for h in margins)


def exact_weights(problem, weights):
    """Return the weights of a model as exact numbers, scaled back into the set where rounding led outside."""
    W = mpmath.matrix((weights.toarray() if isinstance(weights, LowRank) else weights).tolist())
    ball, one = problem.ball, mpmath.mpf(1)
    if isinstance(ball, Box):
        return W.apply(lambda w: min(max(w, ball.low), ball.high))
    if isinstance(ball, TraceBall):
        size = mpmath.fsum(mpmath.svd_r(W if W.rows >= W.cols else W.T, compute_uv=False))
    else:
        size = mpmath.fsum(abs(w) for w in W)
    share = mpmath.mpf(ball.radius) / size if size else one
    return W * (share if isinstance(ball, Simplex) else min(share, one))


def exact_objective(problem, point):
    W = exact_weights(problem, point.weights)
    X = problem.X if isinstance(problem.X, np.ndarray) else problem.X.toarray()
    scores = mpmath.matrix(X.astype(float).tolist()) * W
    value = mpmath.mpf(problem.l2) / 2 * mpmath.fsum(w**2 for w in W)
    if problem.loss.is_joint:
        for i, target in enumerate(problem.target):
            row = [scores[i, c] + mpmath.mpf(point.intercept[c]) for c in range(len(target))]
            value += mpmath.mpf(problem.weights[i]) * exact_joint_loss(problem.loss, row, target)
        return value
    for i, c in np.ndindex(problem.target.shape):
        s, t = scores[i, c] + mpmath.mpf(point.intercept[c]), mpmath.mpf(problem.target[i, c])
        value += mpmath.mpf(problem.weights[i]) * exact_loss(problem.loss, s, t)
    return value


def check(problem, seed):
    """Certify a good point, points near it and a bad one; return the certificates."""
    rng = np.random.default_rng(seed)
    solver = BallFrankWolfe() if isinstance(problem.ball, TraceBall) else BallGradient()
    solver = solver if problem.loss.curvature < np.inf else BallPrimalDual()
    best = solve(problem, solver, stop=Stop(1e-12, 60), rng=0).point
    W = best.weights
    near = W + 1e-3 * np.abs(W).max() * rng.standard_normal(W.shape)
    dual = rng.standard_normal(problem.target.shape)
    points = [
        best,
        BallPoint(problem.ball.project(near), best.intercept + 1e-6 * problem.fit_intercept, dual),
        problem.zero(),
        BallPoint(problem.ball.lmo(rng.standard_normal(W.shape)).toarray(), best.intercept),
    ]
    if isinstance(problem.ball, TraceBall):
        points += [BallPoint(problem.ball.nearest(near), best.intercept)]
    with mpmath.workprec(200):
        exact = [exact_objective(problem, point) for point in points]
        certificates = [problem.certificate(point) for point in points]
        for value, certificate in zip(exact, certificates, strict=True):
            assert np.isfinite(certificate.primal)
            assert value <= certificate.primal
            assert certificate.bound <= min(exact)
            assert certificate.residual >= 0.0
    return certificates


@every_loss
@every_set
def test_no_objective_is_above_its_certificate_and_no_bound_above_an_objective(loss, kind):
    for seed in range(4):
        check(problem_of(loss, kind, seed), seed)


@every_loss
@every_set
def test_rounding_is_small_on_ordinary_data(loss, kind):
    for seed in range(2):
        problem = problem_of(loss, kind, 100 + seed, is_ordinary=True)
        for certificate in check(problem, seed):
            assert certificate.rounding * certificate.primal <= 1e-12 * (1.0 + certificate.primal)


def test_a_point_outside_by_more_than_rounding_has_no_objective():
    for kind in SETS:
        problem = problem_of("logistic", kind, 0, is_ordinary=True)
        W = problem.ball.project(np.ones(problem.shape))
        W = problem.ball.lmo(-W).toarray()  # on the boundary
        assert problem.primal(BallPoint(W, np.zeros(problem.shape[1]))).upper < np.inf
        assert problem.primal(BallPoint(W * (1.0 + 1e-9), np.zeros(problem.shape[1]))).upper == np.inf
        assert problem.ball.excess(problem.inside(2.0 * W)) < 1e-12


@pytest.mark.parametrize("solver", [Scgs(), Storc()], ids=["scgs", "storc"])
@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_sliding_stays_in_the_ball_whatever_the_scale(solver, loss, l2):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 3))
    for scale in (1e-90, 1e26, 1e90):
        problem = Constrained(scale * X, np.sign(X[:, 0]), loss=ENTRYWISE[loss], ball=L1Ball(1.0), l2=l2)
        with np.errstate(all="ignore"):  # squares may overflow; the ball must hold all the same
            state = solver.start(problem, None, np.random.default_rng(0))
        for _ in range(4):
            with np.errstate(all="ignore"):
                state = solver.step(problem, state)
            assert L1Ball(1.0).size(state.Y) <= 1.0 + 1e-12


def test_block_frank_wolfe_stands_steps_that_vanish():
    for seed in range(20):
        X = 1e6 + np.random.default_rng(seed).standard_normal((2, 3))
        X[0, 2] = 0.0
        problem = Constrained(X, np.array([1.0, -1.0]), loss=ENTRYWISE["squared"], ball=L1Ball(1.0))
        assert np.isfinite(solve(problem, BallBlockFrankWolfe(), stop=Stop(1e-6, 50), rng=0).certificate.primal)


def test_sliding_next_to_a_corner_does_not_leave_the_ball():
    """The squared distance to the corner cancels: it may be rounded to zero, or below."""
    for eps in 10.0 ** -np.linspace(6, 16, 60):
        start, g = np.array([[1.0 - eps], [eps]]), np.array([[-1.0], [0.0]])
        W, _ = slide(L1Ball(1.0), g, start, 1.0, 0.0, 3)
        assert L1Ball(1.0).size(W) <= 1.0 + 1e-12
