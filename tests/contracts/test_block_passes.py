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
from softmargin.solvers.linear_svm._block_loop import BlockDual, Visits, choose_active, dual_value, open_first


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
