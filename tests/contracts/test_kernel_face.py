"""Newton steps on the free entries of dual rows: exact on the right face, harmless on any other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import LOSS_NAMES, infeasibility, random_alpha
from reference.kernel_optimum import kernel_optimum
from softmargin.core.aim import aiming_at, wanted_residual
from softmargin.core.threads import threads
from softmargin.data import blobs
from softmargin.kernels import make_kernel
from softmargin.matrices.gram import Gram
from softmargin.matrices.row_store import add_rows
from softmargin.problems.kernel_multiclass_svm import KernelMulticlassSVM
from softmargin.run import Status, Stop, solve
from softmargin.run.watchers import Checkpoint, load_checkpoint
from softmargin.solvers.kernel_svm._dual_rows import corner_weights
from softmargin.solvers.kernel_svm._face import FaceRows, FaceTuning, face_step, face_work, free_classes
from softmargin.solvers.kernel_svm.block_descent import (
    KernelBlockDescent,
    KernelBlockDescentTuning,
    WorkingSquare,
    _steps_left,
)

both_losses = pytest.mark.parametrize("multiclass", LOSS_NAMES)
DEAR_FACTORS = KernelBlockDescentTuning(pace=0.01)  # beside epochs: as if there were many rows


def stiff_problem(multiclass, *, C=100.0, gamma=0.3):
    """Three classes in the plane: samples are alike for a wide kernel, and C is large."""
    X, y = blobs(60, 2, 3, seed=5)
    return KernelMulticlassSVM(Gram(make_kernel("rbf", gamma=gamma), X), y, C=C, multiclass=multiclass)


def face_rows(problem):
    rows = np.arange(len(problem.y))
    return FaceRows(problem.multiclass, problem.gram.square(rows), problem.y, problem.C, problem.gram.diagonal)


def dual_value(problem, alpha):
    return problem.linear_term(alpha).value - 0.5 * np.vdot(alpha, problem.gram.scores(alpha))


@pytest.mark.parametrize("C", [100.0, 0.3])
@both_losses
def test_a_step_on_the_right_face_ends_at_the_optimum(multiclass, C):
    """The optimum, pushed along its face: one step brings it back, whether entries are at their upper bounds or not."""
    problem = stiff_problem(multiclass, C=C)
    best = solve(problem, KernelBlockDescent(), stop=Stop(1e-11, 5000), rng=0).point.alpha
    is_free = free_classes(multiclass, best, problem.y, problem.C)
    assert is_free.any()
    rng = np.random.default_rng(0)
    inside = np.where(is_free, rng.normal(size=best.shape), 0.0)
    inside = np.where(is_free, inside - inside.sum(axis=1, keepdims=True) / np.maximum(is_free.sum(1), 1)[:, None], 0)
    room = np.where(is_free & (best < 0.0), -best, np.inf).min()
    start = best + 0.1 * room / np.abs(inside).max() * inside
    assert problem.relative_gap(start, problem.gram.scores(start)) > 1e-9
    new = face_step(face_rows(problem), start, problem.gram.scores(start), 1000, 0.0, FaceTuning()).alpha
    assert problem.relative_gap(new, problem.gram.scores(new)) <= 1e-9


@both_losses
def test_a_step_finds_which_bounds_hold(multiclass):
    """From a point where all entries are free, the face is the whole set, and block pivoting ends at the optimum."""
    problem = stiff_problem(multiclass, C=1.0, gamma=30.0)
    k = problem.n_classes
    middle = np.full((len(problem.y), k), -0.5 / k)
    middle[np.arange(len(problem.y)), problem.y] *= 1.0 - k
    assert free_classes(multiclass, middle, problem.y, problem.C).all()
    tuning = FaceTuning(leave=np.inf)
    new, scores, _, _ = face_step(face_rows(problem), middle, problem.gram.scores(middle), 1000, 0.0, tuning)
    weights = corner_weights(multiclass, new, problem.y, problem.C)
    assert np.isclose(weights, 1.0 if multiclass == "weston_watkins" else 0.0, rtol=0.0, atol=1e-9).sum() >= 2
    assert problem.relative_gap(new, scores) <= 1e-8
    K = problem.gram.square(np.arange(len(problem.y)))
    optimum = kernel_optimum(K, problem.y, problem.C, multiclass, k)
    assert problem.certificate(problem.point(new)).primal == pytest.approx(optimum, rel=1e-6)


@both_losses
def test_momentum_keeps_scores_and_never_ends_below_the_epoch_before(multiclass):
    problem, solver = crawling(multiclass, patience=1000)
    state = solver.start(problem, None, np.random.default_rng(0))
    part = WorkingSquare(problem, state, np.arange(len(problem.y)), solver)
    values, rng, n_cut = [], np.random.default_rng(0), 0
    for _ in range(30):
        part.epoch(rng, is_single=True)
        part.turn_back()
        values.append(dual_value(problem, part.alpha))
        part.push_on()
        n_cut += part.sent_back > 0.0
        assert infeasibility(multiclass, part.alpha, problem.y, problem.C) <= 1e-12
        assert np.allclose(part.scores.T, problem.gram.scores(part.alpha), rtol=0.0, atol=1e-7)
    assert n_cut > 0
    assert (np.diff(values) >= -1e-9 * values[-1]).all()
    alone = solve(problem, KernelBlockDescent(working_set=False), stop=Stop(1e-12, 30), rng=0).point.alpha
    assert values[-1] > dual_value(problem, alone)


@both_losses
@given(
    seed=st.integers(0, 10_000),
    C=st.sampled_from([0.1, 10.0, 1e4]),
    damping=st.sampled_from([0.0, 1.0]),
)
def test_no_step_lowers_the_dual_value_or_leaves_the_set(multiclass, seed, C, damping):
    problem = stiff_problem(multiclass, C=C)
    alpha = random_alpha(problem, np.random.default_rng(seed))
    tuning = FaceTuning(leave=np.inf)  # any face is good enough
    new, scores, work, _ = face_step(face_rows(problem), alpha, problem.gram.scores(alpha), 1000, damping, tuning)
    before = dual_value(problem, alpha)
    assert infeasibility(multiclass, new, problem.y, problem.C) <= 1e-12
    assert dual_value(problem, new) >= before - 1e-9 * abs(before)
    assert scores == pytest.approx(problem.gram.scores(new), rel=1e-9, abs=1e-9 * C)
    assert work > 0.0


@both_losses
def test_a_face_that_many_entries_would_leave_is_refused(multiclass):
    problem = stiff_problem(multiclass)
    alpha = random_alpha(problem, np.random.default_rng(1))
    tuning = FaceTuning(leave=0.01)
    found = face_step(face_rows(problem), alpha, problem.gram.scores(alpha), 1000, 0.1, tuning)
    assert found.alpha is alpha
    assert found.work > 0.0
    assert found.damping > 0.1  # so that the next one goes less far


@both_losses
def test_damping_shortens_a_step(multiclass):
    problem = stiff_problem(multiclass)
    alpha = random_alpha(problem, np.random.default_rng(1))
    how = face_rows(problem), alpha, problem.gram.scores(alpha), 1000
    plain, damped = (face_step(*how, damping, FaceTuning(leave=np.inf)).alpha for damping in (0.0, 1e6))
    assert 0.0 < np.abs(damped - alpha).max() < 0.1 * np.abs(plain - alpha).max()


def test_work_is_that_of_a_factor_that_fits():
    is_free = np.zeros((50, 4), dtype=bool)
    is_free[:10, :3] = True  # 20 entries beside one of each of ten rows
    assert face_work(is_free, 20, 7.0) == 20**3 / 6 + 7.0
    assert face_work(is_free, 19, 7.0) == np.inf


def crawling(multiclass, patience=2):
    """Return an ill-conditioned problem of large C, and a descent of short rounds."""
    tuning = KernelBlockDescentTuning(max_epochs=4, patience=patience, patience_alone=patience)
    return stiff_problem(multiclass), KernelBlockDescent(tuning=tuning, face_tuning=FaceTuning(beside=0.0))


@both_losses
def test_descent_that_crawls_is_finished_by_newton(multiclass):
    problem, solver = crawling(multiclass)
    result = solve(problem, solver, stop=Stop(1e-8, 2000), rng=0)
    assert result.status is Status.CONVERGED
    K = problem.gram.square(np.arange(len(problem.y)))
    optimum = kernel_optimum(K, problem.y, problem.C, multiclass, problem.n_classes)
    assert result.certificate.primal == pytest.approx(optimum, rel=1e-6)
    alone = solve(problem, crawling(multiclass, patience=5)[1], stop=Stop(1e-8, 2000), rng=0)
    assert result.n_iter < alone.n_iter / 2


@pytest.mark.parametrize(("alone", "every"), [(60, 2), (59, 3)])
def test_a_set_of_one_piece_has_newton_steps_more_often(monkeypatch, alone, every):
    calls = []
    monkeypatch.setattr(WorkingSquare, "epoch", lambda *_, **how: calls.append("epoch") or 1.0)
    monkeypatch.setattr(WorkingSquare, "face_step", lambda *_: calls.append("Newton") or 0.0)
    tuning = KernelBlockDescentTuning(alone=alone, piece=20, patience=3, patience_alone=2, max_epochs=7)
    problem, solver = stiff_problem("weston_watkins"), KernelBlockDescent(tuning=tuning)
    state = solver.start(problem, None, np.random.default_rng(0))
    solver.descend(problem, state, np.arange(60), 1e-9, 7)
    assert [calls[:at].count("epoch") for at, call in enumerate(calls) if call == "Newton"] == [*range(every, 7, every)]


def test_descent_goes_on_from_a_checkpoint_between_newton_steps(tmp_path):
    problem, solver = crawling("weston_watkins")
    whole = solve(problem, solver, stop=Stop(1e-8, 60), rng=0)
    path = tmp_path / "run.npz"
    solve(problem, solver, stop=Stop(1e-8, 12), rng=0, watchers=[Checkpoint(path, every=0.0)])
    again, _ = crawling("weston_watkins")
    resumed = solve(again, solver, stop=Stop(1e-8, 60), resume=load_checkpoint(path, solver))
    assert np.array_equal(resumed.point.alpha, whole.point.alpha)


def test_the_rest_of_a_round_is_foretold_by_the_pace_of_its_gap():
    """A gap that fell to a tenth needs one such step more to a hundredth; one that does not fall never gets there."""
    assert _steps_left(1.0, 0.1, 0.01) == pytest.approx(1.0)
    assert _steps_left(1.0, 0.9, 0.1) > 20.0
    assert _steps_left(1.0, 1.5, 0.1) == np.inf


@both_losses
def test_the_scale_of_a_model_has_the_least_gap(multiclass):
    problem, solver = crawling(multiclass)
    state = solver.start(problem, None, np.random.default_rng(0))
    for _ in range(3):
        state = solver.step(problem, state)
    state.scale, gap = problem.best_scale(state.alpha, state.scores)
    found = problem.certificate(solver.point(problem, state))
    shorter, longer, plain = (
        problem.certificate(problem.point(t * state.alpha)).gap for t in (0.99 * state.scale, 1.01 * state.scale, 1.0)
    )
    assert found.gap < min(shorter, longer)
    assert found.gap <= plain
    assert gap == pytest.approx(found.gap, rel=1e-6)
    assert solver.estimate(problem, state) == pytest.approx(found.residual, abs=1e-7)


@both_losses
def test_a_multiple_that_leaves_its_bounds_has_the_bound_of_the_largest_that_does_not(multiclass):
    problem = stiff_problem(multiclass, C=0.3)
    alpha = solve(problem, KernelBlockDescent(), stop=Stop(1e-6), rng=0).point.alpha
    assert np.abs(alpha).max() >= 0.3, "some entries are on their bounds"
    found = problem.certificate(problem.point(1.2 * alpha))
    assert found.bound == pytest.approx(dual_value(problem, alpha), rel=1e-9)
    assert found.primal == pytest.approx(problem.primal(problem.point(1.2 * alpha)).value, rel=1e-9)


@both_losses
def test_odd_rows_come_first_with_those_they_are_like_as_long_as_they_gain_much(multiclass):
    class Damped(KernelBlockDescent):
        def descend(self, problem, state, rows, share, epochs):
            moved, state.damping = super().descend(problem, state, rows, share, epochs), 0.5
            return moved

    X, y = blobs(60, 2, 3, seed=5)
    X[1], y[:2] = X[0] + 1e-2, (0, 1)  # nearly the same sample, of two classes
    problem = KernelMulticlassSVM(Gram(make_kernel("rbf", gamma=30.0), X), y, C=1000.0, multiclass=multiclass)
    solver = Damped(tuning=KernelBlockDescentTuning(alone=5, piece=10, odd=3.0))
    state, rng = solver.start(problem, None, np.random.default_rng(0)), np.random.default_rng(0)
    part = WorkingSquare(problem, state, np.arange(60), solver)
    for _ in range(5):
        part.epoch(rng, is_single=False)
    state.alpha, state.scores = part.alpha, part.scores.T.copy()
    state.gaps = problem.gaps(state.alpha, state.scores)
    before, first = dual_value(problem, state.alpha), state.alpha.copy()
    solver._descend_on_odd(problem, state)
    moved = np.flatnonzero((state.alpha != first).any(axis=1))
    assert {0, 1} <= set(moved)
    assert state.damping == solver.face_tuning.damping, "that of odd rows is not that of all"
    assert len(moved) < 20
    assert dual_value(problem, state.alpha) > 1.5 * before
    assert state.has_odd
    scores = problem.gram.scores(state.alpha)
    np.testing.assert_allclose(state.gaps, problem.gaps(state.alpha, scores), atol=1e-6)
    for _ in range(5):
        solver._descend_on_odd(problem, state)
    assert not state.has_odd


@both_losses
@pytest.mark.parametrize("n_jobs", [2, 3, 16])
def test_pieces_that_several_threads_gather_are_those_of_one(multiclass, n_jobs):
    problem = stiff_problem(multiclass)
    solver, found = KernelBlockDescent(tuning=KernelBlockDescentTuning(alone=5, piece=8)), []
    for size in (1, n_jobs):
        with threads(size):
            state, rng = solver.start(problem, None, np.random.default_rng(0)), np.random.default_rng(0)
            part = WorkingSquare(problem, state, np.arange(60), solver)
            assert len(part.piece_K) == min(size, 8)
            met = [part.epoch(rng, is_single=False) for _ in range(3)]
            found.append((part.alpha, part.scores, met))
    np.testing.assert_equal(found[1], found[0])


@both_losses
def test_prices_rise_to_those_of_the_problem_with_a_multiple_that_gains_most(multiclass):
    """Where classes overlap C rises step by step; the dual value never falls, and scores and bounds are kept."""
    problem, solver = stiff_problem(multiclass, C=3000.0, gamma=0.03), KernelBlockDescent(tuning=DEAR_FACTORS)
    state = solver.start(problem, None, np.random.default_rng(0))
    prices, values = [state.price], [0.0]
    while state.price < 1.0 and len(values) < 100:
        state = solver.step(problem, state)
        prices.append(state.price)
        values.append(dual_value(problem, state.alpha))
        now = problem.at_prices(state.price)
        assert now.room(state.alpha) >= 1.0 - 1e-12
        np.testing.assert_allclose(state.scores, problem.gram.scores(state.alpha), atol=1e-8 * problem.C.max())
        np.testing.assert_allclose(state.gaps, now.gaps(state.alpha, state.scores), atol=1e-8 * problem.C.max())
        found = problem.certificate(solver.point(problem, state))
        assert solver.estimate(problem, state) == pytest.approx(found.residual, abs=1e-6)
    assert prices[0] * np.mean(problem.C * problem.gram.diagonal) == pytest.approx(solver.tuning.first_price)
    assert prices[-1] == 1.0
    assert len(set(prices)) > 2, "there are stages between the first price and the last"
    assert (np.diff(prices) >= 0.0).all()
    assert (np.diff(values) >= -1e-9 * values[-1]).all()


def test_a_fit_begins_at_its_own_prices_where_no_row_is_stiff_and_where_it_goes_on_from_another():
    solver, rng = KernelBlockDescent(tuning=DEAR_FACTORS), np.random.default_rng(0)
    soft, stiff = stiff_problem("weston_watkins", C=1.0), stiff_problem("weston_watkins", C=1e4)
    assert solver.start(soft, None, rng).price == 1.0
    assert solver.start(stiff, None, rng).price < 1.0
    point = solve(soft, solver, stop=Stop(1e-3), rng=0).point
    assert solver.start(stiff, point, rng).price == 1.0
    assert KernelBlockDescent(tuning=DEAR_FACTORS, working_set=False).start(stiff, None, rng).price == 1.0
    assert KernelBlockDescent().start(stiff, None, rng).price == 1.0, "few rows"


def test_prices_get_their_own_value_at_once_where_few_entries_are_at_them():
    """Samples that are all unlike: no entry reaches the first price, which ends after one epoch, whatever the gap."""
    for gamma, epochs, is_held in ((300.0, 1, False), (0.03, 200, True)):
        solver = KernelBlockDescent(tuning=DEAR_FACTORS._replace(max_epochs=epochs, price_gap=1e-12))
        problem = stiff_problem("weston_watkins", C=3000.0, gamma=gamma)
        state = solver.start(problem, None, np.random.default_rng(0))
        assert state.price < 1.0
        assert (solver.step(problem, state).price < 1.0) == is_held


@both_losses
def test_equal_samples_of_other_labels_start_at_their_bounds(multiclass):
    """Each visit moves one of two such rows by 1 / K_ii; together they go to C, and change no score."""
    X, y = blobs(60, 2, 3, seed=5)
    X[1], y[:2] = X[0], (0, 1)
    problem = KernelMulticlassSVM(Gram(make_kernel("rbf", gamma=30.0), X), y, C=1e5, multiclass=multiclass)
    state = KernelBlockDescent().start(problem, None, np.random.default_rng(0))
    assert state.alpha[:2, :2] == pytest.approx(1e5 * np.array([[1.0, -1.0], [-1.0, 1.0]]))
    assert not state.scores.any()
    assert problem.gram.scores(state.alpha) == pytest.approx(0.0, abs=1e-9)
    result = solve(problem, KernelBlockDescent(), stop=Stop(1e-3, 30), rng=0)
    assert result.status is Status.CONVERGED
    alone = KernelBlockDescent(working_set=False).start(problem, None, np.random.default_rng(0))
    assert not alone.alpha.any(), "plain descent is that of the paper"


@both_losses
def test_rounds_go_no_further_than_the_proof_needs(multiclass):
    problem, solver = stiff_problem(multiclass), KernelBlockDescent()
    state = solver.start(problem, None, np.random.default_rng(0))
    solver.descend(problem, state, np.arange(60), 1.0, 1)  # one epoch, far from the optimum
    state.gaps = problem.gaps(state.alpha, state.scores)
    rows = np.argsort(-state.gaps)[:40]
    rest = float(np.delete(state.gaps, rows).sum())
    assert solver._enough(problem, state, rows) < 0.0
    with aiming_at(100.0):
        share = solver._enough(problem, state, rows)
    assert share > 0.0
    left = share * state.gaps[rows].sum() + rest
    assert left == pytest.approx(solver.tuning.enough * 100.0 * dual_value(problem, state.alpha))


def test_a_run_tells_its_solver_for_what_it_aims():
    seen = []

    class Asking(KernelBlockDescent):
        def step(self, problem, state):
            seen.append(wanted_residual())
            return super().step(problem, state)

    solve(stiff_problem("weston_watkins"), Asking(), stop=Stop(0.01), rng=0)
    assert set(seen) == {0.01}
    assert wanted_residual() == 0.0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("m", [1, 7, 300, 1100])
def test_rows_are_added_by_tiles_as_a_product_does(m, dtype):
    rng = np.random.default_rng(m)
    K, k = rng.standard_normal((m, m)).astype(dtype), 5
    index = np.sort(rng.permutation(m)[: (m + 1) // 2])
    change = np.where(rng.random((len(index), k)) < 0.4, rng.standard_normal((len(index), k)), 0.0)
    scores = rng.standard_normal((k, m))
    expected, cut = scores + change.T @ K[index].astype(np.float64), m // 3
    for begin, end in ((0, cut), (cut, m)):
        add_rows(K.reshape(-1), m, index, change.reshape(-1), k, scores.reshape(-1), begin, end)
    np.testing.assert_allclose(scores, expected, atol=1e-10)
