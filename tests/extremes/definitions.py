"""Objectives of the estimators in 200-bit arithmetic, from their docstrings."""

from typing import NamedTuple

import numpy as np
from mpmath import exp, log, mpf

from attack.exact import dot, kernel_value, loss, numbers
from softmargin.kernels import make_kernel


class Point(NamedTuple):
    """Coefficients (k, d), or (1, d) for two classes, and intercepts; those of a kernel are for these vectors."""

    coef: np.ndarray
    intercept: np.ndarray
    vectors: np.ndarray | None = None


def own_point(model):
    """Return the point that a fitted model is."""
    if hasattr(model, "kernel"):
        return Point(model.dual_coef_, model.intercept_, model.support_vectors_)
    return Point(model.coef_.reshape(-1, model.n_features_in_), model.intercept_)


def objective(model, X, y, point):
    """Return the exact objective of an estimator at a point; y are codes 0 .. k - 1."""
    W, b, y = numbers(point.coef), numbers(point.intercept.reshape(-1)), [int(c) for c in y]
    name = type(model).__name__
    if name == "SoftmaxRegression":
        return _softmax(model, numbers(X), y, W, b)
    if name in ("L1BallClassifier", "TraceBallClassifier"):
        return _ball(model, numbers(X), y, W, b)
    is_squared = model.loss == "squared_hinge"
    if name == "KernelSVC":
        # The intercept of the hinge is part of the kernel, K + 1: it follows from the dual variables.
        kernel, vectors, bias = kernel_of(model), numbers(point.vectors), 0.0 if is_squared else 1.0
        K, own = ([[kernel_value(kernel, a, x, bias) for a in vectors] for x in rows] for rows in (numbers(X), vectors))
        norms = [dot(w, [dot(line, w) for line in own]) for w in W]
        scores = [[dot(line, w) + (c if is_squared else 0) for w, c in zip(W, b, strict=True)] for line in K]
    else:
        norms = [dot(w, w) + (0 if is_squared else c * c) for w, c in zip(W, b, strict=True)]
        scores = _scores(numbers(X), W, b)
    return _svm(model, norms, scores, y)


def _svm(model, norms, scores, y):
    C, k = mpf(model.C), max(y) + 1
    if model.multiclass != "one_vs_rest" and k > 2:
        hinges = (loss(model.multiclass, s, c) for s, c in zip(scores, y, strict=True))
        return sum(norms, mpf(0)) / 2 + C * sum(hinges, mpf(0))
    # Two classes have one row of weights, the difference of the two that a joint loss has: each is half of it.
    share = mpf(2) if model.multiclass == "one_vs_rest" else mpf(4)
    power = 2 if model.loss == "squared_hinge" else 1
    losses = sum((max(1 - t * s, mpf(0)) ** power for t, s in _margins(scores, y)), mpf(0))
    return sum(norms, mpf(0)) / share + C * losses


def _margins(scores, y):
    """Yield target and score of every entry: one column of two classes, else one for each class."""
    for row, label in zip(scores, y, strict=True):
        columns = [1] if len(row) == 1 else range(len(row))
        yield from ((1 if label == c else -1, s) for c, s in zip(columns, row, strict=True))


def _softmax(model, X, y, W, b):
    scores = [[mpf(0), *row] if len(row) == 1 else row for row in _scores(X, W, b)]
    losses = sum((_log_sum_exp(row) - row[c] for row, c in zip(scores, y, strict=True)), mpf(0))
    entries = [v for w in W for v in w]
    ratio = mpf(model.l1_ratio)
    return mpf(model.C) * losses + ratio * sum(map(abs, entries), mpf(0)) + (1 - ratio) / 2 * dot(entries, entries)


def _log_sum_exp(row):
    top = max(row)
    return top + log(sum((exp(s - top) for s in row), mpf(0)))


def _ball(model, X, y, W, b):
    assert model.loss == "smooth_hinge"
    losses = sum((_smooth_hinge(t * s) for t, s in _margins(_scores(X, W, b), y)), mpf(0))
    entries = [v for w in W for v in w]
    return losses / len(y) + mpf(model.l2) / 2 * dot(entries, entries)


def _smooth_hinge(w):
    return mpf(1) / 2 - w if w < 0 else max(1 - w, mpf(0)) ** 2 / 2


def _scores(X, W, b):
    return [[dot(x, w) + c for w, c in zip(W, b, strict=True)] for x in X]


def kernel_of(model):
    """Return the kernel of a fitted model."""
    return make_kernel(model.kernel, gamma=model.gamma_, degree=model.degree, coef0=model.coef0)
