"""Small ridge problems of multinomial regression with their optimum, for the tests of the solvers that take them."""

import functools

import cvxpy as cp
import numpy as np
import pytest
from scipy.sparse import csr_matrix

from reference.softmax_optimum import softmax_optimum
from softmargin.penalties import L2
from softmargin.problems import softmax_problem
from softmargin.run import Status

N = 156
RIDGE = 0.5
PRICES = {"small": 0.05, "large": 20.0, "vector": np.tile([0.0, 0.3, 1.0, 2.0, 0.7, 1.5], N // 6)}
FORMS = {
    "dense": np.asarray,
    "csr": csr_matrix,
    "float32": lambda X: X.astype(np.float32),
    "csr float32": lambda X: csr_matrix(X.astype(np.float32)),
}


@functools.cache
def samples(n=N, d=6, k=3, seed=0):
    """Return classes that overlap, with numbers that float32 holds exactly."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    X = rng.standard_normal((n, d)) + 0.6 * rng.standard_normal((k, d))[y] + 0.3
    return X.astype(np.float32).astype(np.float64), y


def make(k=3, *, X=None, y=None, C=1.0, ridge=RIDGE, form=np.asarray, **settings):
    """Build the problem of these samples, or of others."""
    if X is None:
        X, y = samples(k=k)
    return softmax_problem(form(X), y, C=C, penalty=L2(ridge), **settings)


def ridge_of(W):
    return 0.5 * RIDGE * np.sum(W**2)


@functools.cache
def optimum(k, prices, fit_intercept):
    """Return F*, W*, b* of the samples at the prices of that name."""
    X, y = samples(k=k)
    ridge = lambda W: (0.5 * RIDGE * cp.sum_squares(W), [])  # noqa: E731
    return softmax_optimum(X, y, PRICES[prices], ridge, n_classes=k, fit_intercept=fit_intercept)


def assert_meets_optimum(result, problem, value, W, b):
    """Converged, at the optimum, by a certificate that is the judge's own; no bound along the way was too high."""
    assert result.status is Status.CONVERGED
    assert result.certificate == problem.certificate(result.point)
    assert result.certificate.primal == pytest.approx(value, rel=1e-8)
    assert max(row.certificate.bound for row in result.trace) <= value * (1 + 1e-8)
    np.testing.assert_allclose(result.point.weights, W, atol=2e-3)
    np.testing.assert_allclose(result.point.intercept, b, atol=5e-3)
