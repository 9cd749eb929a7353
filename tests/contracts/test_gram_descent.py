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
from softmargin.run import Status, Stop, solve
from softmargin.solvers import DualBlockDescent, GramDescent, HandOver, InteriorPoint
from softmargin.solvers.kernel_svm._working_square import WorkingSquare
from softmargin.solvers.linear_svm.block_descent import pass_work, step_passes


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
    assert name_of(wide(n=2300)) == "gram_descent"
    assert name_of(wide(n=2500)) != "gram_descent"  # more than two rows for a weight
    assert name_of(wide(n=2500), many_weights=1200) == "gram_descent"
    assert name_of(wide(n=2500), many_weights=1200, rows_per_weight_of_many=2.0) != "gram_descent"
    assert name_of(wide(d=300)) != "gram_descent"  # few weights: the interior point is cheap
    assert name_of(wide(k=2)) != "gram_descent"
    assert name_of(wide(n=60, share=0.05)) != "gram_descent"  # texts
    assert name_of(wide(k=4), most_classes=3) != "gram_descent"
    assert name_of(wide(n=40), most_rows=39) != "gram_descent"
    assert name_of(wide(size=1e7)) != "gram_descent"  # absurd numbers


@pytest.mark.parametrize("as_given", [np.asarray, csr_matrix])
def test_features_that_others_imply_bring_no_weights(as_given):
    rng = np.random.default_rng(0)
    few, y = 10.0 ** rng.uniform(-3.0, 3.0, 40) * rng.standard_normal((400, 40)), np.arange(400) % 4
    implied = few @ rng.standard_normal((40, 360))
    for rest, is_taken in ((implied, False), (rng.standard_normal((400, 360)), True)):
        X = np.hstack([few, rest, np.zeros((400, 1))])
        X *= 1e4 / np.linalg.norm(X)
        assert (name_of(MulticlassSVM(as_given(X), y)) == "gram_descent") is is_taken


def test_numbers_out_of_range_have_a_rank():
    X, y = np.random.default_rng(0).standard_normal((30, 400)), np.arange(30) % 4
    X[:, :200] *= 1e-200
    assert name_of(MulticlassSVM(X, y)) == "gram_descent"
    assert name_of(MulticlassSVM(1e-300 * X, y)) == "gram_descent"
    assert name_of(MulticlassSVM(0.0 * X, y)) != "gram_descent"


def test_it_waits_for_block_descent_unless_that_is_hopeless():
    gentle, raw = wide(size=1.0), wide(size=1e4)
    last = HandOver(GramDescent(), InteriorPoint(), patience=1.0)
    assert find_solver("auto", raw) == last
    chosen = find_solver("auto", gentle)
    assert chosen == HandOver(DualBlockDescent(), last, patience=1.0)
    finisher = finisher_of(gentle, "block_descent")
    assert chosen.patience == finisher.patience == FinisherTuning().steps
    assert chosen.then.patience == finisher.then.patience
    # Work, not steps: that of the interior point alone.
    alone = _of_block_descent(gentle, 1, FinisherTuning(most_classes=2))
    assert alone.name == finisher.then.name == "interior_point"
    assert finisher.then.patience == pytest.approx(alone.patience * pass_work(gentle) * step_passes(gentle))
    assert finisher_of(wide(d=4000), "block_descent").then is None  # its Newton matrix would be too large


def test_newton_steps_are_counted_as_work(monkeypatch):
    """Epochs earn credit, Newton steps spend it; both are work."""
    spent, face_step = [], WorkingSquare.face_step
    monkeypatch.setattr(WorkingSquare, "face_step", lambda *args: spent.append(face_step(*args)) or spent[-1])
    problem, solver = wide(n=300, d=60, size=1e3), GramDescent()
    state = solver.start(problem, None, np.random.default_rng(0))
    for _ in range(20):
        solver.step(problem, state)
    assert sum(spent) > 0.0
    assert solver.work_done(state) - state.credit == pytest.approx(2.0 * sum(spent))


def test_where_it_stalls_the_interior_point_finishes():
    """Classes overlap in few directions, beside many that are too faint to part them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 400))
    X[:, 5:] *= 1e-5
    X[:, :5] *= 1e3
    problem = MulticlassSVM(X, rng.integers(0, 4, 300), C=100.0)
    pair = HandOver(GramDescent(), InteriorPoint(), patience=1e8)
    result = solve(problem, pair, stop=Stop(1e-4, 300), rng=0)
    assert result.status is Status.CONVERGED
    assert [row.solver for row in result.trace][-1] == "InteriorPoint"


def test_the_work_that_it_counts_rises_with_every_step():
    problem, solver = wide(n=300, size=30.0), GramDescent()
    state = solver.start(problem, None, np.random.default_rng(0))
    works = [solver.work_done(solver.step(problem, state)) for _ in range(3)]
    assert 0.0 < works[0] < works[1] < works[2]
    # An epoch over a set of one piece visits every pair of its rows, some times.
    assert 100**2 < works[0] < 1e4 * 300**2


@pytest.mark.parametrize("multiclass", LOSS_NAMES)
def test_raw_pixels_of_few_samples_end_by_it(multiclass):
    rng = np.random.default_rng(0)
    X, y = np.round(255.0 * rng.random((150, 300)) ** 4), np.arange(150) % 5
    fits = [LinearSVC(multiclass=multiclass, tol=1e-4, random_state=0).fit(X, y) for _ in range(2)]
    assert fits[0].status_ == "converged"
    assert fits[0].trace_[-1].solver == "GramDescent"
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
