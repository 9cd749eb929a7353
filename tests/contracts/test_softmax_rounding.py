"""Certificates of multinomial regression hold in real arithmetic: they are compared with 200 bits."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from softmargin.losses.multinomial import entropy, loss_errors, losses_and_softmax, off_label
from softmargin.penalties import L1, L2, MCP, SCAD, Box, ElasticNet, Group, GroupL0, Nonnegative, SparseGroup
from softmargin.penalties.rounding import rounded_conjugate, rounded_value
from softmargin.problems import CompositePoint, softmax_problem
from softmargin.run import Stop, solve
from softmargin.solvers import ProxNewton

PENALTIES = [
    L2(0.7),
    L1(0.6),
    ElasticNet(0.3, 0.4),
    Group(0.5),
    SparseGroup(0.3, 0.2, 0.0),
    SparseGroup(0.3, 0.2, 0.5),
    Nonnegative(0.3),
    Nonnegative(0.0, 0.2),
    Box(-0.5, 0.25),
    Box(0.1, 2.0, 0.1, 0.1),
    Box(-1.0, math.inf, 0.2),
]
BITS = 200


def exact(array):
    return [[mpmath.mpf(float(entry)) for entry in row] for row in np.atleast_2d(array)]


def exact_value(penalty, W):
    """Return g(W) in 200 bits."""
    get = lambda name: mpmath.mpf(float(getattr(penalty, name, 0.0)))  # noqa: E731
    W = exact(W)
    value = get("l1") * sum(abs(w) for row in W for w in row) + get("l2") / 2 * sum(w * w for row in W for w in row)
    return value + get("group") * sum(mpmath.sqrt(sum(w * w for w in row)) for row in W)


def exact_objective(problem, point):
    """Return F(W, b) in 200 bits; the data are what is stored."""
    X = problem.X if isinstance(problem.X, np.ndarray) else problem.X.toarray()
    W, b = exact(point.weights), exact(point.intercept)[0]
    value = exact_value(problem.penalty, point.weights)
    for x, label, C in zip(exact(X), problem.y, problem.C, strict=True):
        scores = [b[c] + sum(x[j] * W[j][c] for j in range(len(x))) for c in range(len(b))]
        scores = [mpmath.mpf(0), *scores] if problem.is_pinned else scores
        value += mpmath.mpf(C) * mpmath.log1p(
            sum(mpmath.exp(s - scores[label]) for c, s in enumerate(scores) if c != label)
        )
    return value


def drawn(seed, penalty, *, ordinary=False):
    """Draw a small problem: features with offsets and scales of all sizes, prices too."""
    rng = np.random.default_rng(seed)
    n, d, k = int(rng.integers(4, 14)), int(rng.integers(1, 5)), int(rng.integers(2, 5))
    X = rng.standard_normal((n, d))
    C = rng.random(n) + 0.1
    if not ordinary:
        X = X * 10.0 ** rng.uniform(-6, 6, d) * (rng.random((n, d)) < 0.8)
        X += 10.0 ** rng.uniform(-3, 6, d) * rng.integers(0, 2, d)
        C = C * 10.0 ** rng.uniform(-8, 8, n if rng.random() < 0.5 else 1) * (rng.random(n) < 0.9)
    X = X.astype(rng.choice([np.float32, np.float64]))
    y = rng.integers(0, k, n)
    settings = {"C": C, "penalty": penalty, "n_classes": k, "fit_intercept": bool(rng.integers(2))}
    return softmax_problem(csr_matrix(X) if rng.random() < 0.5 else X, y, **settings), rng


def points(problem, rng):
    """Yield allowed points near and far, and the last of a run."""
    zero = problem.zero()
    yield zero
    for size in (1e-3, 10.0):
        W = problem.penalty.prox(size * rng.standard_normal(problem.shape), 1e-3)
        yield CompositePoint(W, zero.intercept + problem.bias * size * rng.standard_normal(len(zero.intercept)))
    yield solve(problem, ProxNewton(), stop=Stop(tol=1e-13, max_iter=60), rng=0).point


@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
@pytest.mark.parametrize("seed", [0, 2])
def test_the_objective_is_below_the_primal_and_every_objective_above_every_bound(penalty, seed):
    problem, rng = drawn(seed, penalty)
    with mpmath.workprec(BITS), np.errstate(all="ignore"):
        certificates, values = [], []
        for point in points(problem, rng):
            certificates.append(problem.certificate(point))
            values.append(exact_objective(problem, point))
        for certificate, value in zip(certificates, values, strict=True):
            assert value <= certificate.primal
            assert not certificate.residual < 0.0
            assert not math.isnan(certificate.residual)
        assert max(each.bound for each in certificates) <= min(values)
        assert max(each.bound for each in certificates) > -math.inf


@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
def test_the_allowance_is_small_where_features_are_scaled(penalty):
    for seed in range(3):
        problem, _ = drawn(seed, penalty, ordinary=True)
        certificate = solve(problem, ProxNewton(), stop=Stop(tol=1e-10, max_iter=200), rng=0).certificate
        assert certificate.rounding <= 1e-12
        assert certificate.residual <= 1e-9


@pytest.mark.parametrize("penalty", [MCP(0.5), SCAD(0.4), GroupL0(0.2), L2(0.0)], ids=repr)
def test_stationarity_proves_no_bound_and_has_its_share_of_rounding(penalty):
    problem, _ = drawn(0, penalty, ordinary=True)
    certificate = problem.certificate(problem.zero())
    assert certificate.bound == -math.inf
    assert 0.0 < certificate.rounding <= 1e-12
    assert certificate.rounding <= certificate.residual


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), scale=st.sampled_from([1e-3, 1.0, 30.0, 1e3]))
def test_losses_and_entropies_are_as_near_as_they_say(seed, scale):
    rng = np.random.default_rng(seed)
    scores, y = scale * rng.standard_normal((4, 3)), rng.integers(0, 3, 4)
    losses, P = losses_and_softmax(scores, y)
    off, rest = ((1 - 2**-49) * part for part in off_label(P, y))
    entropies, errors = entropy(off, rest)
    allowed = loss_errors(losses, 4.0 * 2.0**-53 * np.abs(scores).max(axis=1), 3)
    with mpmath.workprec(BITS):
        for i, row in enumerate(exact(scores)):
            loss = mpmath.log1p(sum(mpmath.exp(s - row[y[i]]) for c, s in enumerate(row) if c != y[i]))
            assert abs(loss - losses[i]) <= allowed[i]
            q = [entry for c, entry in enumerate(exact(off)[i]) if c != y[i] and entry > 0]
            own = (sum(q) - 1) * mpmath.log1p(-sum(q))
            assert abs(own - sum(entry * mpmath.log(entry) for entry in q) - entropies[i]) <= errors[i] + 1e-300


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), penalty=st.sampled_from(PENALTIES), size=st.sampled_from([0.0, 1e-12, 1e-3]))
def test_no_value_and_no_conjugate_nearby_is_beyond_its_error(seed, penalty, size):
    rng = np.random.default_rng(seed)
    W = penalty.prox(rng.standard_normal((6, 3)), 0.1)
    small = W * np.where(rng.random((6, 1)) < 0.2, 1e-170, 1.0)  # squares underflow
    W = small if math.isfinite(penalty.value(small)) else W
    V = rng.standard_normal((6, 3))
    V *= penalty.reach(V) * (1 - 1e-2)
    error = size * rng.random((6, 3))
    value, most = rounded_value(penalty, W), rounded_conjugate(penalty, V, error)
    with mpmath.workprec(BITS):
        assert abs(exact_value(penalty, W) - value.value) <= value.error <= 1e-12 * (1.0 + value.value)
        for _ in range(5):
            moved = exact(V + error * rng.choice([-1.0, 0.3, 1.0], V.shape))
            inner = sum(w * v for Wj, Vj in zip(exact(W), moved, strict=True) for w, v in zip(Wj, Vj, strict=True))
            assert inner - exact_value(penalty, W) <= most.upper  # Fenchel-Young
