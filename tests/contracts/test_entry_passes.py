"""Compiled passes over the entries of the scores equal the formulas of the losses, whatever the shape."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softmargin.backends.lanes import WIDTH
from softmargin.core.deadline import deadline
from softmargin.losses.entrywise import ENTRYWISE, SmoothHinge
from softmargin.losses.observed import Observed
from softmargin.problems import Constrained
from softmargin.run import Status, Stop, solve
from softmargin.sets import L1Ball, TraceBall
from softmargin.solvers.ball._intercept import add_sums, best_intercept
from softmargin.solvers.ball._objective import (
    compiled_loss,
    conjugates,
    entries_by_part,
    fill_slopes,
    losses,
    slope_rise,
)
from softmargin.solvers.ball.accelerated_gradient import BallGradient
from softmargin.solvers.ball.low_rank_gradient import LowRankGradient

every_loss = pytest.mark.parametrize("loss", ENTRYWISE)
shapes = {"n": st.integers(1, 70), "k": st.integers(1, 11), "seed": st.integers(0, 1000)}


class Own(NamedTuple):
    """A loss that no compiled pass knows: the smooth hinge by another name."""

    inner: Any = SmoothHinge()
    curvature: float = 1.0
    steepest: float = 1.0
    is_margin: bool = True
    is_joint: bool = False

    def value(self, scores, target):
        return self.inner.value(scores, target)

    def slope(self, scores, target):
        return self.inner.slope(scores, target)

    def bend(self, scores, target):
        return self.inner.bend(scores, target)

    def conjugate(self, u, target):
        return self.inner.conjugate(u, target)


def make(loss, n, k, seed, *, scale=2.0, missing=0.2, idle=0.3, X=None, ball=None):
    """Return a problem of which some targets miss and some samples weigh nothing, scores and intercepts."""
    rng = np.random.default_rng(seed)
    target = rng.standard_normal((n, k))
    target = np.where(target > 0.0, 1.0, -1.0) if loss.is_margin else target
    if missing:
        target[rng.random((n, k)) < missing] = np.nan
        loss = Observed(loss)
    weights = rng.random(n) * (rng.random(n) >= idle)
    X = np.ones((n, 1)) if X is None else X
    problem = Constrained(X, target, loss=loss, ball=ball or L1Ball(1.0), weights=weights, fit_intercept=True)
    return problem, scale * rng.standard_normal((n, k)), rng.standard_normal(k)


def slopes(problem, scores, b):
    out = np.full(scores.shape, np.nan)
    fill_slopes(problem, scores, b, out)
    return out


def seen_at(problem, scores, b):
    """Return the sums that one pass of the search sees; (3, k)."""
    shift = b if len(b) >= WIDTH else np.tile(b, WIDTH)
    sums = np.zeros(3 * len(shift))
    for part in entries_by_part(problem, scores):
        add_sums(compiled_loss(problem), shift, *part, sums)
    return sums.reshape(3, -1, len(b)).sum(axis=1)


@every_loss
@given(**shapes, scale=st.sampled_from([0.5, 3.0, 1e3]), missing=st.sampled_from([0.0, 0.3]))
def test_passes_equal_the_formulas_of_the_loss(loss, n, k, seed, scale, missing):
    problem, scores, b = make(ENTRYWISE[loss], n, k, seed, scale=scale, missing=missing)
    p, f, target = problem.weights, problem.loss, problem.target
    U = f.slope(scores + b, target)
    np.testing.assert_allclose(slopes(problem, scores, b), p[:, None] * U, rtol=1e-14, atol=1e-15)
    expected = [p @ U, p @ np.abs(U), p @ f.bend(scores + b, target)]
    np.testing.assert_allclose(seen_at(problem, scores, b), expected, rtol=1e-13, atol=1e-13 * scale)
    value = problem.losses(scores, b)
    assert losses(problem, scores, b) == pytest.approx(value, rel=1e-13, abs=1e-300)
    conjugate = float(p @ f.conjugate(U, target).sum(axis=1))
    assert conjugates(problem, scores, b) == pytest.approx(conjugate, rel=1e-12, abs=1e-13 * scale * n * k)


@every_loss
@given(**shapes)
def test_rise_is_the_product_of_two_differences(loss, n, k, seed):
    problem, scores, b = make(ENTRYWISE[loss], n, k, seed)
    rng = np.random.default_rng(seed + 1)
    U, before = rng.standard_normal((2, n, k))
    expected = np.vdot(problem.slopes(scores, b) - U, scores - before)
    assert slope_rise(problem, scores, b, U, before) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@every_loss
def test_scores_at_the_kinks_and_far_away_have_their_slopes(loss):
    scores = np.array([[0.0, 1.0, -1.0, 40.0, -40.0, 1e3, -1e3, 1e-17]]).T * np.ones(4)
    target = np.tile([1.0, -1.0, 1.0, -1.0], (8, 1))
    problem = Constrained(
        np.ones((8, 1)), target, loss=ENTRYWISE[loss], ball=L1Ball(1.0), weights=np.ones(8), fit_intercept=True
    )
    zero = np.zeros(4)
    np.testing.assert_allclose(slopes(problem, scores, zero), problem.slopes(scores, zero), rtol=1e-14, atol=1e-300)
    bends = problem.loss.bend(scores, target).sum(axis=0)
    np.testing.assert_allclose(seen_at(problem, scores, zero)[2], bends, rtol=1e-14)


@every_loss
@pytest.mark.parametrize("k", [1, 3, 4, 6])
def test_a_score_that_is_not_a_number_is_seen(loss, k):
    problem, scores, b = make(ENTRYWISE[loss], 9, k, 0, missing=0.0, idle=0.0)
    scores[4, k - 1] = np.nan
    assert np.isnan(slopes(problem, scores, b)[4, k - 1])
    assert np.isnan(losses(problem, scores, b))
    assert np.isnan(seen_at(problem, scores, b)[0, k - 1])


@every_loss
@pytest.mark.parametrize("k", [1, 2, 4, 7])
@pytest.mark.parametrize("n", [30, 20_000])
def test_compiled_sums_lead_to_the_intercept_of_the_problem(loss, k, n):
    problem, scores, b = make(ENTRYWISE[loss], n, k, k)
    ours, judged = best_intercept(problem, scores, b), problem.best_intercept(scores, b)
    np.testing.assert_allclose(ours, judged, atol=1e-9)
    slope, size, _ = seen_at(problem, scores, ours)
    assert (np.abs(slope) <= 1e-12 * size).all()


@pytest.mark.parametrize("k", [1, 5])
def test_the_search_meets_a_start_far_away_and_columns_without_curvature(k):
    problem, scores, _ = make(SmoothHinge(), 40, k, 3, missing=0.0, idle=0.0)
    problem.target[:, 0] = 1.0  # any large b is best
    for start in (1e6, -1e6):
        b = best_intercept(problem, scores, np.full(k, start))
        np.testing.assert_allclose(problem.losses(scores, b), problem.losses(scores, problem.best_intercept(scores)))


def test_the_search_ends_at_a_deadline():
    problem, scores, b = make(ENTRYWISE["logistic"], 40, 5, 0)
    with deadline(0.0):
        once = best_intercept(problem, scores, b)
    whole = best_intercept(problem, scores, b)
    assert not np.array_equal(once, b)
    assert np.abs(once - whole).max() > 1e-9


def test_without_an_intercept_it_is_zero():
    problem, scores, b = make(ENTRYWISE["squared"], 20, 5, 0)
    problem.fit_intercept = False
    assert not best_intercept(problem, scores, b).any()


@pytest.mark.parametrize("k", [1, 5])
@pytest.mark.parametrize(
    ("solver", "ball"), [(BallGradient(), L1Ball(2.0)), (LowRankGradient(), TraceBall(2.0))], ids=["l1", "trace"]
)
def test_a_loss_of_ones_own_runs_by_its_own_formulas(solver, ball, k):
    X = np.random.default_rng(0).standard_normal((60, 6))
    known, unknown = (make(loss, 60, k, 0, missing=0.0, X=X, ball=ball)[0] for loss in (SmoothHinge(), Own()))
    results = [solve(problem, solver, stop=Stop(1e-9, 2000), rng=0) for problem in (known, unknown)]
    assert all(result.status is Status.CONVERGED for result in results)
    assert results[0].certificate.primal == pytest.approx(results[1].certificate.primal, rel=1e-9)
