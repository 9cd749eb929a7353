"""What dual block descent does between its passes, against NumPy and the judge."""

import numpy as np
import pytest

from helpers import LOSS_NAMES
from softmargin.backends import jit
from softmargin.backends.lanes import padded
from softmargin.blocks import Scratch, Workspace
from softmargin.core.threads import threads
from softmargin.matrices.rows import as_rows
from softmargin.problems import MulticlassSVM
from softmargin.run import Stop, solve
from softmargin.solvers import DualBlockDescent
from softmargin.solvers.kernel_svm._pair_loop import Square
from softmargin.solvers.kernel_svm._piece_loop import KernelPiece
from softmargin.solvers.kernel_svm._row_loop import _Rows
from softmargin.solvers.linear_svm._block_loop import (
    BlockDual,
    Pace,
    Stand,
    Visits,
    choose_active,
    descend,
    dual_value,
    make_rounds,
    open_first,
)


@pytest.mark.parametrize("struct", [BlockDual, Visits, Scratch, Workspace, KernelPiece, _Rows, Square])
def test_no_field_of_a_struct_has_the_name_of_a_compiled_method(struct):
    """Compiled code would find the method, and only where the module that defines it has been imported."""
    assert not {"scores", *jit._signatures} & set(struct._fields)


def test_rows_that_can_move_come_first_each_in_its_turn():
    rng = np.random.default_rng(0)
    X, C = rng.standard_normal((30, 4)), rng.random(30)
    X[::4], C[::3] = 0.0, 0.0
    sqnorms, order = np.empty(30), np.empty(30, dtype=np.int64)
    m = open_first(as_rows(X), C, 1e-300, sqnorms, order)
    np.testing.assert_allclose(sqnorms, (X**2).sum(axis=1), rtol=1e-14)
    can_move = X.any(axis=1) & (C > 0.0)
    np.testing.assert_array_equal(order[:m], np.flatnonzero(can_move))
    np.testing.assert_array_equal(order[m:], np.flatnonzero(~can_move))


def test_the_active_rows_come_first_and_none_is_lost():
    rng = np.random.default_rng(0)
    order, gaps, idle = rng.permutation(50), rng.random(50), np.ones(50, dtype=np.uint8)
    before, closed = set(order[:40]), order[40:].copy()
    m = choose_active(order, 40, gaps, 0.6, idle)
    assert set(order[:40]) == before
    assert set(order[:m]) == {i for i in before if gaps[i] > 0.6}
    np.testing.assert_array_equal(order[40:], closed)
    np.testing.assert_array_equal(np.flatnonzero(idle == 0), np.sort(order[:m]))


@pytest.mark.parametrize("multiclass", LOSS_NAMES)
def test_the_dual_value_between_passes_is_the_judges(multiclass):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 6)), np.arange(30) % 5
    problem, solver = MulticlassSVM(X, y, C=0.5, multiclass=multiclass, bias=1.0), DualBlockDescent()
    state = solver.start(problem, None, rng)
    for _ in range(3):
        state = solver.step(problem, state)
        found = dual_value(problem.y, state.alpha, state.weights, padded(5))
        assert found == pytest.approx(problem.dual(solver.point(problem, state).alpha).value, rel=1e-12)


def overlapping(n=40):
    """Labels that features do not tell: every row goes on moving."""
    rng = np.random.default_rng(0)
    return MulticlassSVM(rng.standard_normal((n, 4)), np.arange(n) % 3, C=1.0, multiclass="weston_watkins", bias=1.0)


def pace(**changed):
    """Full passes alone, to no gap: no set is small enough."""
    usual = Pace(set_target=0.2, max_set_passes=40, least_visits=1000, share=0.01, largest=0.0, stale=0.8, wanted=0.0)
    return usual._replace(**changed)


QUIET = np.zeros(1, dtype=np.uint8)
START = Stand(0, 0, np.inf)


@pytest.mark.parametrize(("full_gap", "budget", "passes"), [(0.0, 0, 1), (0.0, 100, 3), (np.inf, 100, 1)])
def test_full_passes_end_at_their_budget_or_target(full_gap, budget, passes):
    problem, solver = overlapping(), DualBlockDescent()
    ours, plain = (solver.start(problem, None, np.random.default_rng(0)) for _ in range(2))
    at, how = Stand(0, 0, full_gap), pace(least_visits=budget)
    gap, at, n_rounds = make_rounds(*solver.structs(problem, ours), at, how, 40, 1, QUIET)
    loop = solver.structs(problem, plain)
    for _ in range(passes):
        expected, _, _ = descend(*loop, 40, True, np.inf, 0, QUIET)
        choose_active(plain.order, 40, plain.gaps, 0.01 * expected / 40, plain.idle)
    assert (gap, tuple(at), n_rounds) == (expected, (0, 0, expected), 1)
    np.testing.assert_array_equal(ours.alpha, plain.alpha)


def test_full_passes_end_where_a_working_set_is_small_enough():
    problem, solver = overlapping(), DualBlockDescent()
    state = solver.start(problem, None, np.random.default_rng(0))
    how = pace(share=0.5, largest=0.7)
    gap, at, _ = make_rounds(*solver.structs(problem, state), Stand(0, 0, 0.0), how, 40, 1, QUIET)
    assert 0 < at.n_active <= 28
    assert (at.visits_left, at.full_gap) == (40 * at.n_active, gap)
    np.testing.assert_array_equal(np.sort(state.order[: at.n_active]), np.flatnonzero(state.gaps > 0.5 * gap / 40))


def test_rounds_of_one_step_are_those_of_several():
    problem, solver = overlapping(), DualBlockDescent()
    ours, single = (solver.start(problem, None, np.random.default_rng(0)) for _ in range(2))
    how = pace(share=0.5, largest=0.9)
    gap, at, n_rounds = make_rounds(*solver.structs(problem, ours), START, how, 40, 99, QUIET)
    assert n_rounds > 3
    each = START
    for _ in range(n_rounds):
        one, each, _ = make_rounds(*solver.structs(problem, single), each, how, 40, 1, QUIET)
    assert (gap, at) == (one, each)
    np.testing.assert_array_equal(ours.alpha, single.alpha)


def test_rounds_end_where_the_estimated_gap_is_as_small_as_is_wanted():
    """No later and no earlier than a run sees it that makes one round a step."""
    problem, solver = overlapping(), DualBlockDescent()
    wanted = 0.02
    state = solver.start(problem, None, np.random.default_rng(0))
    how = pace(largest=1.0, wanted=wanted)
    state.gap, _, n_rounds = make_rounds(*solver.structs(problem, state), START, how, 40, 99, QUIET)
    assert solver.estimate(problem, state) <= wanted
    before = solver.start(problem, None, np.random.default_rng(0))
    before.gap, _, _ = make_rounds(*solver.structs(problem, before), START, how, 40, n_rounds - 1, QUIET)
    assert n_rounds > 1
    assert solver.estimate(problem, before) > wanted


def test_a_step_on_few_rows_counts_its_rounds_and_ends_before_one_in_the_span_of_moves():
    problem, solver = overlapping(), DualBlockDescent()
    state = solver.start(problem, None, np.random.default_rng(0))
    state.passes_left = 3  # one for the first round of the step, two for those that follow
    state = solver.step(problem, state)
    assert (state.n_rounds, state.passes_left, len(state.moves)) == (3, 0, 0)
    assert solver.work_done(state) == 3.0
    state = solver.step(problem, state)
    assert len(state.moves) == 1


def test_another_number_of_threads_changes_no_bit_of_narrow_data():
    points = []
    for n_jobs in (1, 2):
        with threads(n_jobs):
            points.append(solve(overlapping(), DualBlockDescent(), stop=Stop(1e-6), rng=0))
    assert points[0].n_iter == points[1].n_iter
    np.testing.assert_array_equal(points[0].point.alpha, points[1].point.alpha)
