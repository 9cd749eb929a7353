"""The optimum of a loss over a ball, by CVXPY and Clarabel; small problems, and claims about any solver."""

import functools

import cvxpy as cp
import numpy as np
from scipy.sparse import csr_matrix

from softmargin.losses.entrywise import ENTRYWISE
from softmargin.losses.joint import JOINT
from softmargin.problems import Constrained
from softmargin.run import Stop, solve
from softmargin.sets import L1Ball, TraceBall

LOSSES = tuple(ENTRYWISE)
FORMS = {
    "dense": np.asarray,
    "csr": csr_matrix,
    "float32": lambda X: X.astype(np.float32),
    "csr float32": lambda X: csr_matrix(X.astype(np.float32)),
}
BALLS = {"l1": L1Ball(2.0), "trace": TraceBall(1.5)}
L2 = 0.1


@functools.cache
def samples(loss, k=1, n=60, d=8, seed=0):
    """Return X, half of it zeros, in numbers that float32 holds exactly, and targets that suit the loss."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.5)
    X = X.astype(np.float32).astype(np.float64)
    target = X @ rng.standard_normal((d, k)) + 0.5 * rng.standard_normal((n, k)) + 0.4
    if loss in JOINT:
        return X, np.eye(k)[target.argmax(axis=1)]
    return X, np.where(target > 0.0, 1.0, -1.0) if ENTRYWISE[loss].is_margin else target


def make(loss="smooth_hinge", ball="l1", k=None, *, l2=L2, form=np.asarray, weights=None, fit_intercept=False, **more):
    """Build a small problem; three targets in a trace ball or of a joint loss, else one."""
    k = (3 if ball == "trace" or loss in JOINT else 1) if k is None else k
    X, target = samples(loss, k, **more)
    return Constrained(
        form(X),
        target,
        loss=(ENTRYWISE | JOINT)[loss],
        ball=BALLS[ball],
        l2=l2,
        weights=weights,
        fit_intercept=fit_intercept,
    )


def optimum(problem):
    """Return P*, W* and b*."""
    X, T, (d, k) = problem.X, problem.target, problem.shape
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
    W = cp.Variable((d, k))
    b = cp.Variable((1, k)) if problem.fit_intercept else np.zeros((1, k))
    scores = X @ W + np.ones((len(X), 1)) @ b
    name = type(problem.loss).__name__
    if problem.loss.is_joint:
        losses = joint_losses(problem.loss, scores, T)
    elif name == "Squared":
        losses = 0.5 * cp.square(scores - T)
    elif name == "Logistic":
        losses = cp.logistic(-cp.multiply(T, scores))
    elif name == "SquaredHinge":
        losses = 0.5 * cp.square(cp.pos(1.0 - cp.multiply(T, scores)))
    else:
        # Huber's function of the shortfall: half its square up to 1, then linear.
        losses = 0.5 * cp.huber(cp.pos(1.0 - cp.multiply(T, scores)), 1.0)
    losses = losses if problem.loss.is_joint else cp.sum(losses, axis=1)
    value = problem.weights @ losses + 0.5 * problem.l2 * cp.sum_squares(W)
    ball = problem.ball
    inside = cp.normNuc(W) <= ball.radius if isinstance(ball, TraceBall) else cp.sum(cp.abs(W)) <= ball.radius
    program = cp.Problem(cp.Minimize(value), [inside])
    program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    return program.value, W.value, np.zeros(k) if not problem.fit_intercept else b.value[0]


def joint_losses(loss, scores, T):
    """Return the losses of rows as an expression of CVXPY; (n,)."""
    own = cp.sum(cp.multiply(T, scores), axis=1)
    if loss is JOINT["multinomial"]:
        return cp.log_sum_exp(scores, axis=1) - own
    margins = cp.multiply(1.0 - T, 1.0 + scores - cp.reshape(own, (len(T), 1), order="C") @ np.ones((1, T.shape[1])))
    return cp.max(margins, axis=1) if loss is JOINT["crammer_singer"] else cp.sum(cp.pos(margins), axis=1)


def assert_nothing_is_learnt_of_nothing(solver):
    """Where X is zero the weights stay zero, and the intercept says all."""
    problem = Constrained(
        np.zeros((6, 3)), np.ones(6), loss=ENTRYWISE["squared"], ball=L1Ball(1.0), l2=0.1, fit_intercept=True
    )
    result = solve(problem, solver, stop=Stop(1e-9, 5), rng=0)
    np.testing.assert_array_equal(result.point.weights, 0.0)
    np.testing.assert_allclose(result.point.intercept, 1.0)
