"""The optimum of penalised multinomial regression by CVXPY + Clarabel, written apart from the library."""

import cvxpy as cp
import numpy as np
from scipy.special import logsumexp

from helpers import dense


def objective(X, y, C, W, b, penalty_value):
    """F(W, b) with k columns, or one for two classes, in SciPy."""
    scores = dense(X).astype(float) @ W + b
    if scores.shape[1] == 1:
        scores = np.hstack([np.zeros_like(scores), scores])
    losses = logsumexp(scores, axis=1) - scores[np.arange(len(y)), y]
    return float(np.broadcast_to(C, len(y)) @ losses) + penalty_value(W)


def softmax_optimum(X, y, C, penalty, *, n_classes, fit_intercept=True):
    """Return F*, W*, b*. ``penalty`` maps a CVXPY variable W to (expression, constraints)."""
    X = dense(X).astype(float)
    n, d = X.shape
    k = 1 if n_classes == 2 else n_classes
    W, b = cp.Variable((d, k)), cp.Variable((1, k))
    scores = X @ W + np.ones((n, 1)) @ (b if fit_intercept else np.zeros((1, k)))
    C = np.broadcast_to(np.asarray(C, dtype=float), n)
    if k == 1:
        losses = cp.logistic(scores[:, 0]) - cp.multiply((y == 1).astype(float), scores[:, 0])
    else:
        Y = np.eye(k)[y]
        losses = cp.log_sum_exp(scores, axis=1) - cp.sum(cp.multiply(Y, scores), axis=1)
    expression, constraints = penalty(W)
    if fit_intercept:
        constraints = [*constraints, cp.sum(b) == 0] if k > 1 else constraints
    problem = cp.Problem(cp.Minimize(C @ losses + expression), constraints)
    settings = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}
    problem.solve(solver=cp.CLARABEL, **settings)
    b_value = b.value[0] if fit_intercept else np.zeros(k)
    return float(problem.value), W.value, b_value
