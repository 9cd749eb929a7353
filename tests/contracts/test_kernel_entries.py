"""Descent on the entries of alpha that may move: the same optimum as over whole rows, and no entry forgotten."""

import numpy as np
import pytest

from helpers import LOSS_NAMES
from softmargin.blocks import find_block, new_workspace
from softmargin.data import blobs
from softmargin.kernels import make_kernel
from softmargin.losses.multiclass_hinge import margins
from softmargin.matrices.gram import Gram
from softmargin.problems.kernel_multiclass_svm import KernelMulticlassSVM
from softmargin.run import Status, Stop, solve
from softmargin.solvers.kernel_svm._dual_rows import gap_of
from softmargin.solvers.kernel_svm._entry_squares import EntrySquares, near_entries
from softmargin.solvers.kernel_svm._working_square import WorkingSquare
from softmargin.solvers.kernel_svm.block_descent import KernelBlockDescent, KernelBlockDescentTuning

both_losses = pytest.mark.parametrize("multiclass", LOSS_NAMES)
K_CLASSES = 6
BY_ROWS = KernelBlockDescentTuning(few_classes=K_CLASSES)
BY_ENTRIES = KernelBlockDescentTuning(entries=K_CLASSES, entries_of_class=1.0, entries_alone=K_CLASSES)


def some_problem(multiclass, C=3.0):
    X, y = blobs(150, 3, K_CLASSES, seed=2)
    return KernelMulticlassSVM(Gram(make_kernel("rbf", gamma=0.3), X), y, C=C, multiclass=multiclass)


@pytest.fixture
def squares_filled(monkeypatch):
    """Return a list to which every descent on entries adds how many of them there are."""
    found, filled = [], EntrySquares.filled

    def seen(self, *args):
        found.append(len(self.rows))
        return filled(self, *args)

    monkeypatch.setattr(EntrySquares, "filled", seen)
    return found


def test_near_entries_are_those_in_use_or_nearly_violated_with_their_labels():
    y = np.array([0, 1, 2])
    scores = np.array([[2.0, 0.97, 0.5], [0.0, 3.0, 0.0], [0.0, 0.0, 2.0]])  # margins 1 + F_ij - F_iy
    alpha = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [-0.5, 0.0, 0.5]])
    expected = [[True, True, False], [False, False, False], [True, False, True]]
    np.testing.assert_array_equal(near_entries("weston_watkins", alpha, scores.T, y, np.ones(3), 0.05).T, expected)


@pytest.mark.parametrize(("multiclass", "stays"), [("weston_watkins", True), ("crammer_singer", False)])
def test_entries_at_C_are_near_unless_their_margins_are_far_from_kept(multiclass, stays):
    """A Crammer-Singer row has one bound for all its entries: one at C leaves it where another margin is larger."""
    y, C = np.zeros(3, dtype=int), np.array([2.0, 2.0, 3.0])
    scores = np.array([[0.0, -0.9, -2.0], [0.0, -0.96, -2.0], [0.0, -0.9, -2.0]])  # margins 0.1, 0.04 and 0.1
    alpha = np.array([[2.0, -2.0, 0.0]] * 3)
    expected = np.array([[not stays, not stays, False], [True, True, False], [True, True, False]])
    np.testing.assert_array_equal(near_entries(multiclass, alpha, scores.T, y, C, 0.05).T, expected)


def test_what_stays_at_C_is_kept_and_the_others_are_optimal_beside_it():
    rng = np.random.default_rng(3)
    n, k, y, C = 12, 5, rng.integers(0, 5, 12), np.full(12, 0.7)
    K = 2.0 * np.eye(n) + 0.1
    alpha, is_near = np.zeros((n, k)), np.ones((k, n), dtype=bool)
    held = (y + 1) % k
    alpha[np.arange(n), held], alpha[np.arange(n), y] = -C, C
    is_near[held, np.arange(n)] = False
    squares = EntrySquares(is_near, y)
    part = squares.filled(K, K.diagonal(), C, np.full(n, np.inf))
    how = (find_block("weston_watkins", "auto"), new_workspace(k), np.array([7], dtype=np.uint64))
    found, _ = squares.descend(part, alpha, (K @ alpha).T, how, 1e-12, 1000)
    np.testing.assert_array_equal(found[np.arange(n), held], -C)
    np.testing.assert_allclose(found.sum(axis=1), 0.0, atol=1e-15)
    h = margins(K @ found, y)
    h[np.arange(n), held] = 0.0
    assert (found < 0.0).sum() > n
    np.testing.assert_allclose(C[:, None] * np.maximum(h, 0.0) + found * h, 0.0, atol=1e-8)


def test_every_class_has_the_square_of_its_samples():
    rng = np.random.default_rng(0)
    y, K = rng.integers(0, 4, 20), rng.random((20, 20))
    squares = EntrySquares(
        near_entries("weston_watkins", np.zeros((20, 4)), rng.standard_normal((4, 20)), y, np.ones(20), 0.0), y
    )
    part = squares.filled(K, K.diagonal(), np.ones(20), np.ones(20))
    assert len(part.K) == squares.n_values
    for e, (i, c) in enumerate(zip(squares.rows, squares.classes, strict=True)):
        same = squares.rows[squares.classes == c]
        np.testing.assert_array_equal(part.K[part.place[e] : part.place[e] + part.size[e]], K[i, same])
        np.testing.assert_array_equal(squares.rows[part.first[e] : part.first[e] + part.size[e]], same)
    for begin, end in zip(part.ends, part.ends[1:], strict=False):
        own = part.order[begin:end]
        assert len(set(squares.rows[own])) == 1
        assert squares.classes[own[0]] == y[squares.rows[own[0]]]
    # A visit reads one piece of memory: the squares lie row by row.
    np.testing.assert_array_equal(part.place[part.order], np.cumsum(part.size[part.order]) - part.size[part.order])


@both_losses
def test_sweeps_over_all_entries_end_at_the_optimum(multiclass):
    problem = some_problem(multiclass)
    n, y, C, K = len(problem.y), problem.y, problem.C, problem.gram.square(np.arange(len(problem.y)))
    alpha, scores = np.zeros((n, K_CLASSES)), np.zeros((K_CLASSES, n))
    squares = EntrySquares(near_entries(multiclass, alpha, scores, y, C, 0.0), y)
    part = squares.filled(K, problem.gram.diagonal, C, C if multiclass == "crammer_singer" else np.full(n, np.inf))
    how = (find_block(multiclass, "auto"), new_workspace(K_CLASSES), np.array([7], dtype=np.uint64))
    found, n_sweeps = squares.descend(part, alpha, scores, how, 1e-5, 5000)
    assert n_sweeps < 5000
    assert not alpha.any()
    assert gap_of(multiclass, found, K @ found, y, C) < 1e-4
    np.testing.assert_allclose(problem.feasible(found), found, rtol=0.0, atol=1e-12)


@both_losses
@pytest.mark.parametrize(
    ("margin", "b"), [(0.5, 0.25 / 0.7), (8.0, 2.0), (-0.3, 0.0), (-0.3, 2.0), (0.2, 1.0), (-4.0, 1.0)]
)
def test_one_visit_ends_at_the_optimum_of_a_row_with_one_entry(multiclass, margin, b):
    """Its margin is zero then, or its entry is at a bound; where it is there already it stays."""
    y, C, K = np.array([1]), np.array([2.0]), np.array([[0.7]])
    alpha, scores = np.array([[-b, b, 0.0]]), np.array([[margin - 1.0], [0.0], [-9.0]])
    squares = EntrySquares(np.array([[True], [True], [False]]), y)
    part = squares.filled(K, K.diagonal(), C, C)
    how = (find_block(multiclass, "auto"), new_workspace(3), np.array([7], dtype=np.uint64))
    found, _ = squares.descend(part, alpha, scores, how, 0.0, 1)
    at_end = scores.T + K @ (found - alpha)
    assert gap_of(multiclass, found, at_end, y, C) == pytest.approx(0.0, abs=1e-14)
    np.testing.assert_array_equal(found, [[-found[0, 1], found[0, 1], 0.0]])
    np.testing.assert_allclose(found[0, 1], np.clip(b + margin / 1.4, 0.0, 2.0), rtol=1e-14)


@both_losses
@pytest.mark.parametrize("is_narrow", [False, True])
def test_an_epoch_on_entries_raises_the_dual_value_and_keeps_the_scores(multiclass, is_narrow):
    problem, solver = some_problem(multiclass), KernelBlockDescent(tuning=BY_ENTRIES)
    rng = np.random.default_rng(0)
    rows = np.arange(len(problem.y))
    part = WorkingSquare(problem, solver.start(problem, None, rng), rows, solver, is_narrow=is_narrow)
    at_first = (1 if multiclass == "crammer_singer" else K_CLASSES - 1) * problem.C.sum()
    gaps = [part.epoch(rng, is_single=False) for _ in range(4)]
    assert gaps[-1] < 0.1 * gaps[0] < 0.1 * at_first
    # What an epoch returns is the gap that it leaves.
    left = gap_of(multiclass, part.alpha, problem.gram.scores(part.alpha), problem.y, problem.C)
    assert gaps[-1] == pytest.approx(left, abs=1e-5 * at_first)
    assert part.gain_with(part.scores) > 0.0
    np.testing.assert_allclose(part.scores.T, problem.gram.scores(part.alpha), rtol=0.0, atol=1e-4)


@both_losses
def test_a_round_ends_with_the_epoch_on_entries_that_leaves_its_gap(multiclass):
    problem, solver = some_problem(multiclass), KernelBlockDescent(tuning=BY_ENTRIES)
    state = solver.start(problem, None, np.random.default_rng(0))
    solver.descend(problem, state, np.arange(len(problem.y)), 0.3, 50)
    assert state.epochs == 1
    assert problem.gaps(state.alpha, state.scores).sum() <= 0.3 * state.gaps.sum()


@both_losses
@pytest.mark.parametrize(("tuning", "goes_on"), [(BY_ROWS, True), (BY_ENTRIES, False)])
def test_there_is_no_momentum_before_an_epoch_on_entries(multiclass, tuning, goes_on):
    """It would lead margins astray, and so make many of few entries."""
    problem, solver = some_problem(multiclass), KernelBlockDescent(tuning=tuning)
    rng = np.random.default_rng(0)
    part = WorkingSquare(problem, solver.start(problem, None, rng), np.arange(len(problem.y)), solver)
    part.epoch(rng, is_single=True)
    before, part.momentum = part.alpha.copy(), 3.0
    part.push_on()
    assert (part.alpha != before).any() == goes_on


@pytest.mark.parametrize(("share", "is_few"), [(1.1, True), (0.9, False)])
def test_squares_of_few_pieces_may_be_larger(share, is_few):
    problem, rng = some_problem("weston_watkins"), np.random.default_rng(0)
    rows = np.arange(len(problem.y))
    # At zero all entries may move: 6 squares of 150 samples, where the set has one. Pieces are 4.
    all_of_them = BY_ENTRIES._replace(
        entries=0.1, entries_alone=4 * share * K_CLASSES, entries_of_class=9.0, alone=5, piece=40
    )
    solver = KernelBlockDescent(tuning=all_of_them)
    part = WorkingSquare(problem, solver.start(problem, None, rng), rows, solver)
    assert part.n_pieces == 4
    assert (part._entries() is not None) == is_few


@both_losses
@pytest.mark.parametrize(("C", "tol"), [(3.0, 1e-3), (3.0, 1e-9), (200.0, 1e-3), (200.0, 1e-7)])
def test_entries_and_rows_have_the_same_optimum(multiclass, C, tol, squares_filled):
    """Stiff rows have entries, too."""
    values = []
    for tuning, uses_entries in ((BY_ROWS, False), (BY_ENTRIES, True), (BY_ENTRIES._replace(alone=5, piece=20), True)):
        squares_filled.clear()
        result = solve(some_problem(multiclass, C), KernelBlockDescent(tuning=tuning), stop=Stop(tol), rng=0)
        assert result.status is Status.CONVERGED
        assert bool(squares_filled) == uses_entries
        values.append(result.certificate.bound)
    np.testing.assert_allclose(values, values[0], rtol=2 * tol)


@both_losses
def test_few_classes_are_left_to_rows(multiclass, squares_filled):
    solver = KernelBlockDescent(tuning=BY_ENTRIES._replace(few_classes=K_CLASSES))
    solve(some_problem(multiclass), solver, stop=Stop(1e-2), rng=0)
    assert squares_filled == []


@both_losses
@pytest.mark.parametrize(("tuning", "n_more", "patience"), [(BY_ROWS, 1, BY_ROWS.patience), (BY_ENTRIES, 0, 1)])
def test_epochs_on_entries_need_none_without_momentum_and_newton_steps_may_follow_each(
    multiclass, tuning, n_more, patience, monkeypatch
):
    problem, solver = some_problem(multiclass), KernelBlockDescent(tuning=tuning._replace(alone=5, piece=40))
    parts, epoch = [], WorkingSquare.epoch
    monkeypatch.setattr(
        WorkingSquare, "epoch", lambda self, *args, **how: parts.append(self) or epoch(self, *args, **how)
    )
    state = solver.start(problem, None, np.random.default_rng(0))
    solver.descend(problem, state, np.arange(len(problem.y)), 0.0, solver.tuning.patience + 1)
    assert len(parts) == solver.tuning.patience + 1 + n_more
    assert parts[0].patience == patience
