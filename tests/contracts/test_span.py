"""Steps of block descent in the span of its last moves: the best sum, no step that lowers D, far fewer passes."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from helpers import LOSS_NAMES, augmented, infeasibility, random_alpha
from reference.optimum import svm_optimum
from softmargin.data import blobs
from softmargin.problems import MulticlassSVM, OneVsRest
from softmargin.run import Status, Stop, solve
from softmargin.run.watchers import Checkpoint, load_checkpoint
from softmargin.solvers import DualBlockDescent, OneVsRestDescent
from softmargin.solvers.common.span import SpanTuning, due_moves, more_damping
from softmargin.solvers.linear_svm._span import best_sum, spanned_rows

both_losses = pytest.mark.parametrize("multiclass", LOSS_NAMES)
NONE = DualBlockDescent(span_tuning=SpanTuning(moves=0))


def twins(multiclass="weston_watkins", *, as_csr=False):
    """Draw long samples of which some nearly come twice, with two labels: both can go to C, each alone hardly moves."""
    X, y = blobs(40, 30, 3, seed=2)
    X, y = 10.0 * np.vstack([X, (1.0 + 1e-9) * X[:10]]), np.concatenate([y, (y[:10] + 1) % 3])
    return MulticlassSVM(csr_matrix(X) if as_csr else X, y, C=1.0, multiclass=multiclass, bias=1.0)


def test_the_best_sum_maximises_the_damped_dual():
    """Held against the normal equations of (1), solved by least squares."""
    rng = np.random.default_rng(0)
    U, V, slopes = rng.normal(size=(3, 40)), rng.normal(size=(3, 12)), rng.normal(size=3)
    for damping in (0.0, 0.3):
        stacked = np.hstack([V, np.sqrt(damping) * U])
        expected = np.linalg.solve(stacked @ stacked.T, slopes)
        np.testing.assert_allclose(best_sum(U, V, slopes, damping, 1e-10), expected, rtol=1e-9)
    # A move that comes twice, and one that is nothing: the same sum.
    twice = best_sum(U[[0, 1, 1]], V[[0, 1, 1]], slopes[[0, 1, 1]], 0.0, 1e-10)
    once = best_sum(U[:2], V[:2], slopes[:2], 0.0, 1e-10)
    np.testing.assert_allclose([twice[0], twice[1] + twice[2]], once, rtol=1e-6)
    assert not best_sum(0.0 * U, 0.0 * V, 0.0 * slopes, 0.0, 1e-10).any()


@both_losses
def test_rows_of_the_span_are_feasible_and_zero_entries_stay(multiclass):
    problem, rng = twins(multiclass), np.random.default_rng(3)
    n, k = len(problem.y), problem.n_classes
    points = [random_alpha(problem, rng) for _ in range(3)]
    alpha = np.zeros((n, 4))
    alpha[:, :k] = points[0]
    weights = np.zeros((problem.X.shape[1] + 1, 4))
    moves = []
    for point in points[1:]:
        move, implied = np.zeros_like(alpha), np.zeros_like(weights)
        move[:, :k] = point - points[0]
        implied[:, :k] = augmented(problem).T @ move[:, :k]
        moves.append(np.concatenate([move.reshape(-1), implied.reshape(-1)]))
    weights[:, :k] = augmented(problem).T @ points[0]
    new = spanned_rows(problem, alpha, weights.reshape(-1), np.array(moves), 0.0, 1e-10)
    assert infeasibility(multiclass, new[:, :k], problem.y, problem.C) <= 1e-14
    is_other = np.arange(4) != problem.y[:, None]
    assert not new[(alpha == 0.0) & is_other].any()
    assert np.abs(new - alpha).max() > 1e-3


class Dual:
    """Notes the dual value after each step."""

    def begin(self, problem, solver, stop):
        self.values = []

    def watch(self, progress):
        point = progress.solver.point(progress.problem, progress.state)
        self.values.append(progress.problem.dual(point.alpha).value)

    def end(self, result): ...


@pytest.mark.parametrize("as_csr", [False, True])
@both_losses
def test_twins_of_two_labels_take_half_the_steps_or_fewer(multiclass, as_csr):
    problem, dual = twins(multiclass, as_csr=as_csr), Dual()
    result = solve(problem, DualBlockDescent(), stop=Stop(1e-6, 20_000), rng=0, watchers=[dual])
    assert result.status is Status.CONVERGED
    optimum = svm_optimum(problem)
    assert result.certificate.bound == pytest.approx(optimum, rel=1e-6)
    assert (np.diff(dual.values) >= -1e-12 * optimum).all(), "the dual value fell"
    without = solve(problem, NONE, stop=Stop(1e-6, 2 * result.n_iter), rng=0)
    assert without.status is Status.MAX_ITER


def rests():
    """Return the one-vs-rest problem of the twins, as rows of text are stored."""
    joint = twins(as_csr=True)
    return OneVsRest([MulticlassSVM(joint.X, joint.y == c, n_classes=2, C=50.0, bias=1.0) for c in range(3)])


def test_twins_of_one_against_the_rest_take_half_the_steps_or_fewer():
    problem, values = rests(), []

    class Duals(Dual):
        def watch(self, progress):
            points = progress.solver.point(progress.problem, progress.state)
            duals = zip(problem.parts, points, strict=True)
            values.append(sum(part.dual(point.alpha).value for part, point in duals))

    result = solve(problem, OneVsRestDescent(), stop=Stop(1e-6, 20_000), rng=0, watchers=[Duals()])
    assert result.status is Status.CONVERGED
    optimum = sum(map(svm_optimum, problem.parts))
    assert result.certificate.bound == pytest.approx(optimum, rel=1e-6)
    assert (np.diff(values) >= -1e-12 * optimum).all(), "the dual value fell"
    alone = OneVsRestDescent(span_tuning=SpanTuning(moves=0))
    without = solve(problem, alone, stop=Stop(1e-6, 2 * result.n_iter), rng=0)
    assert without.status is Status.MAX_ITER


@pytest.mark.parametrize(
    ("pose", "solver"), [(twins, DualBlockDescent()), (rests, OneVsRestDescent())], ids=["joint", "rest"]
)
def test_a_run_goes_on_from_a_checkpoint_with_the_same_moves(tmp_path, pose, solver):
    problem = pose()
    whole = solve(problem, solver, stop=Stop(0.0, 150), rng=0)
    path = tmp_path / "run"
    solve(problem, solver, stop=Stop(0.0, 120), rng=0, watchers=[Checkpoint(path, every=1e9)])
    saved = load_checkpoint(path, solver)
    assert len(saved.state.moves) > 2
    rest = solve(problem, solver, stop=Stop(0.0, 150), rng=0, resume=saved)
    both = [np.concatenate([each.alpha for each in _points(run.point)]) for run in (rest, whole)]
    assert np.array_equal(*both)


def _points(point):
    return point if isinstance(point, list) else [point]


def test_damping_has_an_end():
    squares, tuning = np.array([1.0, 3.0]), SpanTuning()
    for damping, scale in ((0.0, 1.0), (np.zeros(2), np.ones(2))):
        assert np.array_equal(more_damping(damping, squares, tuning), 2e-6 * scale)
        for _ in range(400):
            damping = more_damping(damping, squares, tuning)
        assert np.array_equal(damping, 2e12 * scale)


@pytest.mark.parametrize(("pose", "solver"), [(twins, DualBlockDescent), (rests, OneVsRestDescent)])
def test_steps_that_bring_nothing_do_not_end_a_run(pose, solver):
    """Damping that grows with every such step left the range of float64 after some hundred of them."""
    hasty = solver(span_tuning=SpanTuning(after=1, share=1e-3, rarest=1, growth=1e200))
    assert solve(pose(), hasty, stop=Stop(0.0, 3000), rng=0).status in (Status.MAX_ITER, Status.STALLED)


def test_moves_that_would_take_too_much_memory_are_not_kept():
    assert due_moves(10**6, SpanTuning()) == 3
    assert due_moves(10**6, SpanTuning(most_numbers=3.5e6)) == 2
    assert due_moves(10**6, SpanTuning(most_numbers=1e6)) == 0
    small = DualBlockDescent(span_tuning=SpanTuning(most_numbers=10.0))
    both = [solve(twins(), solver, stop=Stop(0.0, 50), rng=0).point.alpha for solver in (small, NONE)]
    assert np.array_equal(*both)
