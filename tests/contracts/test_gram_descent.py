"""Descent on the inner products of the rows of a linear SVM: its optimum, its point, and where ``auto`` takes it."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from helpers import LOSS_NAMES
from reference.optimum import svm_optimum
from softmargin import LinearSVC
from softmargin.data import blobs
from softmargin.estimators.posing.auto import find_solver
from softmargin.estimators.posing.finishers import FinisherTuning, _of_block_descent, finisher_of
from softmargin.problems import MulticlassSVM
from softmargin.run import Stop, solve
from softmargin.solvers import DualBlockDescent, GramDescent, HandOver


def wide(n=40, d=400, k=4, *, size=1.0, share=1.0, seed=0, **settings):
    """Make a problem with more weights than rows."""
    X, y = blobs(n, d, k, seed=seed, separation=2.0 / np.sqrt(d))
    X = size * X * (np.random.default_rng(seed).random((n, d)) < share)
    return MulticlassSVM(X if share == 1.0 else csr_matrix(X), y, **settings)


@pytest.mark.parametrize("multiclass", LOSS_NAMES)
@pytest.mark.parametrize("size", [1e-2, 1.0, 10.0])
@pytest.mark.parametrize("share", [1.0, 0.3])
def test_the_optimum_is_that_of_a_quadratic_program(multiclass, size, share):
    problem = wide(d=60, size=size, share=share, multiclass=multiclass)
    result = solve(problem, GramDescent(), stop=Stop(1e-8, 100), rng=0)
    assert result.certificate.residual <= 1e-8
    optimum = svm_optimum(problem)
    assert result.certificate.bound <= optimum * (1.0 + 1e-6)
    assert result.certificate.primal >= optimum * (1.0 - 1e-6)


def test_prices_and_the_intercept_are_those_of_the_problem():
    rng = np.random.default_rng(1)
    X, y = blobs(30, 40, 3, seed=1)
    for bias in (0.0, 1.0, 7.0):
        problem = MulticlassSVM(X, y, C=rng.uniform(0.1, 3.0, 30), bias=bias)
        result = solve(problem, GramDescent(), stop=Stop(1e-9, 100), rng=0)
        assert result.certificate.primal == pytest.approx(svm_optimum(problem), rel=1e-6)


def test_it_goes_on_from_the_dual_rows_of_another_solver():
    problem = wide(n=60, size=30.0)
    found = solve(problem, DualBlockDescent(), stop=Stop(1e-6, 2000), rng=0)
    state = GramDescent().start(problem, found.point, np.random.default_rng(0))
    np.testing.assert_allclose(state.alpha, found.point.alpha, atol=1e-12)
    assert GramDescent().estimate(problem, state) <= 1e-5


def test_the_weights_are_a_multiple_of_those_the_dual_rows_imply():
    problem = wide()
    state = GramDescent().start(problem, None, np.random.default_rng(0))
    GramDescent().step(problem, state)
    state.scale = 0.5
    alpha, weights = GramDescent().point(problem, state)
    np.testing.assert_array_equal(alpha, state.alpha)
    np.testing.assert_allclose(weights, 0.5 * problem.point(alpha).weights)


def test_settings_of_other_kinds_are_refused():
    with pytest.raises(ValueError, match="cache_size must be"):
        GramDescent(cache_size=-1.0)
    with pytest.raises((TypeError, ValueError), match="descent must be"):
        GramDescent(descent="auto")


def name_of(problem, **changes):
    finisher = _of_block_descent(problem, 1, FinisherTuning(**changes))
    return None if finisher is None else finisher.name


def test_auto_takes_it_where_weights_are_many():
    assert name_of(wide()) == "gram_descent"
    assert name_of(wide(share=0.3)) == "gram_descent"
    assert name_of(wide(n=2500)) != "gram_descent"  # more than two rows for a weight
    assert name_of(wide(d=300)) != "gram_descent"  # few weights: the interior point is cheap
    assert name_of(wide(k=2)) != "gram_descent"
    assert name_of(wide(n=60, share=0.05)) != "gram_descent"  # texts
    assert name_of(wide(k=4), most_classes=3) != "gram_descent"
    assert name_of(wide(n=40), most_numbers=39.0**2) != "gram_descent"
    assert name_of(wide(size=1e7)) != "gram_descent"  # absurd numbers


def test_it_waits_for_block_descent_unless_that_is_hopeless():
    gentle, raw = wide(size=1.0), wide(size=1e4)
    assert find_solver("auto", raw) == GramDescent()
    chosen = find_solver("auto", gentle)
    assert chosen == HandOver(DualBlockDescent(), GramDescent(), patience=1.0)
    assert chosen.patience == finisher_of(gentle, "block_descent").patience == FinisherTuning().steps


@pytest.mark.parametrize("multiclass", LOSS_NAMES)
def test_raw_pixels_of_few_samples_end_by_it(multiclass):
    rng = np.random.default_rng(0)
    X, y = np.round(255.0 * rng.random((150, 300)) ** 4), np.arange(150) % 5
    fits = [LinearSVC(multiclass=multiclass, tol=1e-4, random_state=0).fit(X, y) for _ in range(2)]
    assert fits[0].status_ == "converged"
    assert fits[0].trace_[-1].solver == "GramDescent"
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
