"""What dual block descent does between its passes, against NumPy and the judge."""

import numpy as np
import pytest

from helpers import LOSS_NAMES
from softmargin.backends import jit
from softmargin.backends.lanes import padded
from softmargin.blocks import Scratch, Workspace
from softmargin.matrices.rows import as_rows
from softmargin.problems import MulticlassSVM
from softmargin.solvers import DualBlockDescent
from softmargin.solvers.kernel_svm._pair_loop import Square
from softmargin.solvers.kernel_svm._piece_loop import KernelPiece
from softmargin.solvers.kernel_svm._row_loop import _Rows
from softmargin.solvers.linear_svm._block_loop import (
    BlockDual,
    Visits,
    choose_active,
    descend,
    dual_value,
    full_passes,
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


@pytest.mark.parametrize(("target", "budget", "passes"), [(0.0, 0, 1), (0.0, 100, 3), (np.inf, 100, 1)])
def test_full_passes_end_at_their_budget_or_target(target, budget, passes):
    problem, solver, quiet = overlapping(), DualBlockDescent(), np.zeros(1, dtype=np.uint8)
    ours, plain = (solver.start(problem, None, np.random.default_rng(0)) for _ in range(2))
    gap, m = full_passes(*solver.structs(problem, ours), 40, target, budget, 0.01, 0.0, quiet)
    loop = solver.structs(problem, plain)
    for _ in range(passes):
        expected, _, _ = descend(*loop, 40, True, np.inf, 0, quiet)
        choose_active(plain.order, 40, plain.gaps, 0.01 * expected / 40, plain.idle)
    assert (gap, m) == (expected, 0)
    np.testing.assert_array_equal(ours.alpha, plain.alpha)


def test_full_passes_end_where_a_working_set_is_small_enough():
    problem, solver, quiet = overlapping(), DualBlockDescent(), np.zeros(1, dtype=np.uint8)
    state = solver.start(problem, None, np.random.default_rng(0))
    gap, m = full_passes(*solver.structs(problem, state), 40, 0.0, 10**6, 0.5, 0.7, quiet)
    assert 0 < m <= 28
    np.testing.assert_array_equal(np.sort(state.order[:m]), np.flatnonzero(state.gaps > 0.5 * gap / 40))


def test_a_step_on_few_rows_makes_passes_until_the_gap_has_clearly_fallen():
    problem, solver = overlapping(), DualBlockDescent()
    state = solver.start(problem, None, np.random.default_rng(0))
    state = solver.step(problem, state)
    before, m = state.full_gap, state.n_active
    assert m == 0
    state = solver.step(problem, state)
    assert state.gap <= solver.tuning.set_target * before or state.n_active > 0
