"""Epochs of kernel block descent in float32: as good as the gap for which a round aims, and never in its result."""

import numpy as np
import pytest

from helpers import LOSS_NAMES, infeasibility
from softmargin.core.deadline import deadline, time_left
from softmargin.data import blobs
from softmargin.kernels import make_kernel
from softmargin.matrices.gram import Gram
from softmargin.matrices.row_store import add_rows
from softmargin.problems.kernel_multiclass_svm import KernelMulticlassSVM
from softmargin.run import Status, Stop, solve
from softmargin.solvers.kernel_svm import block_descent
from softmargin.solvers.kernel_svm._working_square import WorkingSquare
from softmargin.solvers.kernel_svm.block_descent import KernelBlockDescent, KernelBlockDescentTuning

both_losses = pytest.mark.parametrize("multiclass", LOSS_NAMES)
PIECES = KernelBlockDescentTuning(alone=5, piece=20)


def some_problem(multiclass, *, dtype=np.float64, cache_size=1000.0):
    X, y = blobs(90, 3, 3, seed=2)
    gram = Gram(make_kernel("rbf", gamma=0.3), X.astype(dtype), cache_size=cache_size)
    return KernelMulticlassSVM(gram, y, C=3.0, multiclass=multiclass)


@pytest.fixture
def precisions(monkeypatch):
    """Return a list to which every working set adds the precision of its kernel values and of its sums."""
    found = []

    class Seen(WorkingSquare):
        def __init__(self, *args, **how):
            super().__init__(*args, **how)
            found.append((self.fast_K.dtype, self.change.dtype))

    monkeypatch.setattr(block_descent, "WorkingSquare", Seen)
    return found


def test_sums_in_float32_are_added_to_scores_in_float64():
    rng = np.random.default_rng(0)
    m, k = 300, 5
    K, index = rng.random((m, m)), np.sort(rng.permutation(m)[:70])
    change = (1e-4 * rng.standard_normal((70, k)) * (rng.random((70, k)) < 0.4)).astype(np.float32)
    scores = 1e6 + rng.standard_normal((k, m))
    expected = scores + change.T.astype(np.float64) @ K[index]
    add_rows(K.astype(np.float32).reshape(-1), m, index, change.reshape(-1), k, scores.reshape(-1), 0, m)
    np.testing.assert_allclose(scores, expected, rtol=0.0, atol=2e-9)


@both_losses
@pytest.mark.parametrize("tuning", [KernelBlockDescentTuning(), PIECES])
def test_a_round_in_float32_ends_with_scores_in_float64(multiclass, tuning, precisions):
    problem, solver = some_problem(multiclass), KernelBlockDescent(tuning=tuning)
    state = solver.step(problem, solver.start(problem, None, np.random.default_rng(0)))
    assert precisions == [(np.float32, np.float32)]
    assert state.alpha.any()
    np.testing.assert_allclose(state.scores, problem.gram.scores(state.alpha), rtol=0.0, atol=1e-12)
    assert state.gaps.sum() < 0.2 * problem.C.sum()


@both_losses
@pytest.mark.parametrize("tuning", [KernelBlockDescentTuning(), PIECES])
def test_the_last_rounds_of_a_sharp_fit_are_in_float64(multiclass, tuning, precisions):
    result = solve(some_problem(multiclass), KernelBlockDescent(tuning=tuning), stop=Stop(1e-9), rng=0)
    assert result.status is Status.CONVERGED
    assert precisions[0] == (np.float32, np.float32)
    assert precisions[-1] == (np.float64, np.float64)


@both_losses
def test_a_round_that_begins_near_the_optimum_may_aim_for_less_in_float32(multiclass, precisions):
    """Moves are small there, and errors in proportion to them: to a tenth of 1e-3 of D, but not to a millionth."""
    problem, solver = some_problem(multiclass), KernelBlockDescent()
    found = solve(problem, solver, stop=Stop(1e-3), rng=0)
    for share, precision in ((0.1, np.float32), (1e-6, np.float64)):
        state = solver.start(problem, found.point, np.random.default_rng(0))
        value = found.certificate.bound
        assert share * state.gaps.sum() < 3.5e-4 * value
        solver.descend(problem, state, np.arange(len(problem.y)), share, 50)
        assert precisions[-1] == (precision, precision)
        assert problem.gaps(state.alpha, state.scores).sum() <= max(share, 0.2) * state.gaps.sum()


@both_losses
def test_rows_in_float32_are_summed_in_float64_near_the_end(multiclass, precisions):
    problem = some_problem(multiclass, dtype=np.float32)
    solve(problem, KernelBlockDescent(), stop=Stop(1e-6), rng=0)
    assert precisions[0] == (np.float32, np.float32)
    assert precisions[-1] == (np.float32, np.float64)


@both_losses
def test_there_is_no_copy_without_room_and_none_for_a_single_pass(multiclass, precisions):
    rng = np.random.default_rng(0)
    for problem, solver in (
        (some_problem(multiclass, cache_size=0.09), KernelBlockDescent()),
        (some_problem(multiclass), KernelBlockDescent(working_set=False)),
    ):
        solver.step(problem, solver.start(problem, None, rng))
        assert precisions.pop() == (np.float64, np.float64)


@both_losses
def test_gains_that_float32_alone_sees_are_not_taken(multiclass, precisions):
    """Rows at their bounds, and scores that have not changed: a gain by these, a loss in truth."""
    problem, solver = some_problem(multiclass), KernelBlockDescent()
    state = solver.start(problem, None, np.random.default_rng(0))
    rows = np.arange(len(problem.y))
    part = WorkingSquare(problem, state, rows, solver, is_narrow=True)
    part.alpha = problem.loss.at_zero_scores(problem.y, problem.C, 3)
    assert part.gain_with(part.scores) > 0.0
    assert part.gain_with(problem.gram.scores(part.alpha).T) < 0.0
    assert solver._take(problem, state, rows, part) == 0
    assert not state.alpha.any()
    assert not state.scores.any()
    solver.step(problem, state)
    assert precisions == [(np.float64, np.float64)]


@both_losses
@pytest.mark.parametrize("scale", [1e-14, 1e14])
def test_numbers_near_the_ends_of_float32_are_left_to_float64(multiclass, scale, precisions):
    X, y = blobs(90, 3, 3, seed=2)
    problem = KernelMulticlassSVM(Gram(make_kernel("linear"), scale * X), y, C=scale**-2.0, multiclass=multiclass)
    assert solve(problem, KernelBlockDescent(), stop=Stop(1e-3), rng=0).status is Status.CONVERGED
    assert all(found == (np.float64, np.float64) for found in precisions)


def test_epochs_leave_time_for_the_update_of_all_scores():
    problem, solver, rows = some_problem("weston_watkins"), KernelBlockDescent(), np.arange(20)
    with deadline(100.0), solver._time_of_epochs(problem, rows):
        assert time_left() < 60.0  # the rest computes kernel rows
    problem.gram.keep(rows)
    with deadline(100.0):
        before = time_left()
        with solver._time_of_epochs(problem, rows):
            assert 60.0 < time_left() < before
    with solver._time_of_epochs(problem, rows):
        assert time_left() == np.inf


def test_at_full_prices_a_problem_is_itself():
    problem = some_problem("weston_watkins")
    assert problem.at_prices(1.0) is problem
    np.testing.assert_array_equal(problem.at_prices(0.5).C, 0.5 * problem.C)


def test_a_gap_that_rounding_makes_negative_is_none():
    problem, solver = some_problem("weston_watkins"), KernelBlockDescent()
    state = solver.step(problem, solver.start(problem, None, np.random.default_rng(0)))
    state.gaps[:] = -1e-18
    solver.descend(problem, state, np.arange(90), 0.1, 2)
    assert infeasibility("weston_watkins", state.alpha, problem.y, problem.C) <= 1e-10
