"""A point near the optimum of an estimator, by CVXPY and Clarabel: written apart from the library.

Clarabel may be far off on extreme data. That does no harm: the objective of *any* point is at least the optimum, so
every bound is held against it; a better point is a sharper test.
"""

import warnings

import cvxpy as cp
import numpy as np

from attack import exact
from extremes.definitions import Point, kernel_of

_RANK = 1e-13  # eigenvalues of K below this share of the largest are rounding


def clarabel_point(model, X, y):
    """Return the point that Clarabel finds, zero where it fails; y are codes. Columns have size 1 in the program."""
    k = y.max() + 1
    has_kernel, is_hinge = hasattr(model, "kernel"), getattr(model, "loss", "") == "hinge"
    features, duals = _kernel_features(model, X, is_hinge) if has_kernel else (X, None)
    size = np.maximum(np.abs(features).max(axis=0, initial=0.0), 1e-300)[:, None]
    V, b = cp.Variable((features.shape[1], 1 if k == 2 else k)), cp.Variable((1, 1 if k == 2 else k))
    W = cp.multiply(V, np.tile(1.0 / size, V.shape[1]))
    value, rules = _program(model, W, b, (features / size.T) @ V + np.ones((len(y), 1)) @ b, y)
    if has_kernel and is_hinge:
        rules = [*rules, b == 0]  # the intercept is in the kernel
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            cp.Problem(cp.Minimize(value), rules).solve(solver="CLARABEL")
        except cp.SolverError:
            V.value = None
    if V.value is None or not np.isfinite(V.value).all():
        V.value, b.value = np.zeros(V.shape), np.zeros(b.shape)
    found = (V.value / size).T
    return Point(found @ duals, b.value, X) if has_kernel else Point(_inside(model, found), b.value)


def _kernel_features(model, X, has_bias):
    """Return R with K = R R', and what turns weights of its columns into dual variables."""
    K = np.array(exact.gram(kernel_of(model), X, float(has_bias)), dtype=float)
    values, vectors = np.linalg.eigh(K)
    kept = values > _RANK * values.max()
    return vectors[:, kept] * np.sqrt(values[kept]), (vectors[:, kept] / np.sqrt(values[kept])).T


def _program(model, W, b, scores, y):
    """Return the objective, divided by C, and the constraints."""
    k, name = y.max() + 1, type(model).__name__
    own = np.eye(k)[y]
    signs = np.where(y == 1, 1.0, -1.0)[:, None] if k == 2 else 2.0 * own - 1.0
    margins = cp.multiply(signs, scores)
    if name == "SoftmaxRegression":
        if k == 2:
            losses = cp.sum(cp.logistic(-margins))
        else:
            losses = cp.sum(cp.log_sum_exp(scores, axis=1)) - cp.sum(cp.multiply(own, scores))
        penalty = cp.sum(cp.abs(W)) if model.l1_ratio == 1.0 else cp.sum_squares(W) / 2
        return losses + penalty / model.C, []
    if name in ("L1BallClassifier", "TraceBallClassifier"):
        # Huber's function of the shortfall: half its square up to 1, then linear.
        losses = cp.sum(0.5 * cp.huber(cp.pos(1.0 - margins), 1.0)) / len(y)
        size = cp.sum(cp.abs(W)) if name == "L1BallClassifier" else cp.normNuc(W)
        return losses + model.l2 / 2 * cp.sum_squares(W), [size <= model.radius]
    if model.loss == "squared_hinge":
        return cp.sum_squares(cp.pos(1.0 - margins)) + cp.sum_squares(W) / (2 * model.C), []
    norm = cp.sum_squares(W) + cp.sum_squares(b)
    if model.multiclass == "one_vs_rest" or k == 2:
        share = 2 if model.multiclass == "one_vs_rest" else 4
        return cp.sum(cp.pos(1.0 - margins)) + norm / (share * model.C), []
    violations = 1.0 - own + scores - cp.sum(cp.multiply(own, scores), axis=1, keepdims=True) @ np.ones((1, k))
    losses = cp.pos(violations) if model.multiclass == "weston_watkins" else cp.max(violations, axis=1)
    return cp.sum(losses) + norm / (2 * model.C), []


def _inside(model, coef):
    """Return weights that are inside the ball, where there is one, rounding included."""
    if not hasattr(model, "radius"):
        return coef
    size = np.abs(coef).sum() if type(model).__name__ == "L1BallClassifier" else np.linalg.svd(coef)[1].sum()
    return coef * min(1.0, (1.0 - 1e-12) * model.radius / max(size, 1e-300))
