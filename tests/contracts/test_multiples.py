"""Multiples of the dual rows of a joint kernel SVM: the best one, against all others on a fine grid."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softmargin import KernelMulticlassSVM
from softmargin.kernels import Linear, Precomputed
from softmargin.losses import LOSSES
from softmargin.matrices.gram import Gram

GRID = np.linspace(0.5, 1.5, 1001)


def drawn(seed, multiclass):
    """Return a problem, feasible dual rows far from the optimum or near to it, and K alpha."""
    random = np.random.default_rng(seed)
    n, k = int(random.integers(2, 40)), int(random.integers(2, 6))
    X = random.normal(size=(n, int(random.integers(1, n + 1)))) * 10 ** random.uniform(-2, 2)
    y = np.concatenate([[0, k - 1], random.integers(0, k, n - 2)])
    C = 10 ** random.uniform(-3, 3, n if seed % 2 else 1) * np.ones(n)
    problem = KernelMulticlassSVM(Gram(Linear(), X), y, C=C, multiclass=multiclass, n_classes=k)
    alpha = problem.feasible(-np.abs(random.normal(size=(n, k))) * 10 ** random.uniform(-4, 1))
    scores = problem.gram.scores(alpha)
    energy = float(np.vdot(alpha, scores))
    if energy > 0.0 and seed % 3:  # a multiple near the best of D, as solvers leave
        rise = float(alpha[np.arange(n), y].sum()) / energy * 10 ** random.uniform(-0.2, 0.2)
        alpha, scores = rise * alpha, rise * scores
    return problem, alpha, scores


def gap(problem, alpha, scores, t, rows=slice(None)):
    """Return P(t alpha) - D(s alpha), s the nearest to t within bounds, by the loss itself."""
    y, energy = problem.y[rows], float(np.vdot(alpha, scores))
    s = min(t, problem.room(alpha, rows))
    primal = 0.5 * t * t * energy + float(problem.C[rows] @ problem.loss.value(t * scores, y))
    return primal - (s * float(alpha[np.arange(len(y)), y].sum()) - 0.5 * s * s * energy), primal


@given(st.integers(0, 10**6), st.sampled_from(sorted(LOSSES)), st.booleans())
@settings(max_examples=150, deadline=None)
def test_no_other_multiple_has_a_smaller_gap(seed, multiclass, is_of_some):
    problem, alpha, scores = drawn(seed, multiclass)
    rows = np.arange(0, len(alpha), 2) if is_of_some else np.arange(len(alpha))
    alpha, scores = alpha[rows], scores[rows]
    best, least = problem.best_scale(alpha, scores, rows)
    found, primal = gap(problem, alpha, scores, best, rows)
    assert 0.5 <= best <= 1.5
    assert least == pytest.approx(found, abs=1e-10 * abs(primal))
    others = [gap(problem, alpha, scores, t, rows)[0] for t in GRID]
    assert least <= min(others) + 1e-10 * abs(primal)


@pytest.mark.parametrize("multiclass", sorted(LOSSES))
def test_slopes_are_those_of_the_loss(multiclass):
    random = np.random.default_rng(0)
    scores, y, loss = random.normal(size=(30, 4)), random.integers(0, 4, 30), LOSSES[multiclass]
    for t in (1e-3, 0.7, 20.0):
        by_slopes = np.maximum(1.0 + t * loss.slopes(scores, y), 0.0).sum(axis=1)
        assert by_slopes == pytest.approx(loss.value(t * scores, y), rel=1e-12)


def test_a_kernel_that_is_not_positive_semidefinite_has_a_multiple_too():
    """A gap that is no convex function of t: that of t = 1 is never exceeded."""
    K = np.array([[1.0, 3.0], [3.0, 1.0]])
    problem = KernelMulticlassSVM(Gram(Precomputed(), K), np.array([0, 1]))
    alpha = problem.feasible(np.array([[0.0, -0.9], [-0.9, 0.0]]))
    scores = K @ alpha
    assert float(np.vdot(alpha, scores)) < 0.0
    best, least = problem.best_scale(alpha, scores)
    assert least <= gap(problem, alpha, scores, 1.0)[0]
    assert least == pytest.approx(gap(problem, alpha, scores, best)[0])
