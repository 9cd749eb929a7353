"""Every solver reaches the reference optimum, honestly: feasible, monotone, repeatable, restartable."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from helpers import LOSS_NAMES, PROBLEM_NAMES, dense, infeasibility, make_problem, problem_data
from reference.optimum import svm_optimum
from softmargin.core.errors import IncompatibleError, ModelFileError
from softmargin.data import blobs
from softmargin.problems import DualPoint, MulticlassSVM
from softmargin.run import Status, Stop, solve
from softmargin.run.watchers import Checkpoint, load_checkpoint
from softmargin.solvers import DualBlockDescent
from softmargin.testing import check_run

SOLVERS = {
    "auto": DualBlockDescent(),
    "permuted": DualBlockDescent(working_set=False),
    "cyclic": DualBlockDescent(working_set=False, order="cyclic"),
    "sort": DualBlockDescent(block="sort"),
    "greedy": DualBlockDescent(block="greedy"),
    "screened": DualBlockDescent(screening=True),
}
PAIRS = [
    pytest.param(SOLVERS[name], multiclass, id=f"{name}-{multiclass}")
    for name in SOLVERS
    for multiclass in LOSS_NAMES
    if multiclass == "weston_watkins" or name not in ("sort", "greedy")
]
every_pair = pytest.mark.parametrize(("solver", "multiclass"), PAIRS)
both_losses = pytest.mark.parametrize("multiclass", LOSS_NAMES)
every_problem = pytest.mark.parametrize("name", PROBLEM_NAMES)


def tolerance(solver):
    """Return what to ask for: the greedy block leaves every margin violated by up to 1e-6; the others are exact."""
    return 1e-4 if solver.block == "greedy" else 1e-7


def fit(problem, solver=SOLVERS["auto"], *, tol=1e-7, max_iter=50_000, rng=0, **more):
    return solve(problem, solver, stop=Stop(tol, max_iter), rng=rng, **more)


class Witness:
    """Notes the dual value and the infeasibility after each of the first steps."""

    def begin(self, problem, solver, stop):
        self.bounds, self.outside = [], []

    def watch(self, progress):
        if progress.iteration <= 150:
            problem, point = progress.problem, progress.solver.point(progress.problem, progress.state)
            self.bounds.append(problem.dual(point.alpha).value)
            self.outside.append(infeasibility(problem.multiclass, point.alpha, problem.y, problem.C))

    def end(self, result): ...


@every_pair
@every_problem
def test_solver_reaches_the_optimum_honestly(name, solver, multiclass):
    problem, witness, tol = make_problem(name, multiclass), Witness(), tolerance(solver)
    optimum = svm_optimum(problem)
    check_run(solver, problem, tol=tol, optimum=optimum, watchers=[witness])
    assert max(witness.outside) <= 1e-10
    assert (np.diff(witness.bounds) >= -1e-10 * optimum).all(), "the dual value fell"


@both_losses
@pytest.mark.parametrize("name", ["blobs", "tiles", "bias"])
def test_dense_is_csr_is_float32(name, multiclass):
    X, y, settings = problem_data(name)
    rounded = dense(X).astype(np.float32)  # numbers that both types hold exactly
    wide = rounded.astype(np.float64)
    sparse64 = csr_matrix(wide)
    sparse64.indices, sparse64.indptr = sparse64.indices.astype(np.int64), sparse64.indptr.astype(np.int64)
    values = [
        fit(MulticlassSVM(form, y, multiclass=multiclass, **settings), tol=1e-11).certificate.primal
        for form in (wide, csr_matrix(wide), sparse64, rounded, csr_matrix(rounded))
    ]
    np.testing.assert_allclose(values, values[0], rtol=1e-10)
    assert values[0] == pytest.approx(svm_optimum(make_problem(name, multiclass)), rel=1e-5)


@every_pair
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e9])
def test_any_garbage_is_a_valid_start(scale, solver, multiclass):
    problem = make_problem("degenerate", multiclass)
    garbage = scale * np.random.default_rng(0).standard_normal((50, 3))
    kept = garbage.copy()
    result = fit(problem, solver, tol=tolerance(solver), init=DualPoint(garbage, None))
    assert result.certificate.primal == pytest.approx(svm_optimum(problem), rel=tolerance(solver) * 2)
    np.testing.assert_array_equal(garbage, kept)


def same_weights(one, other, gap):
    """|W - W*|^2 <= gap for both."""
    assert np.linalg.norm(one - other) <= 2 * np.sqrt(gap) + 1e-12


@both_losses
@pytest.mark.parametrize("name", ["blobs", "tiles"])
def test_permuted_labels_and_samples_permute_the_answer(name, multiclass):
    X, y, settings = problem_data(name)
    k, rng = y.max() + 1, np.random.default_rng(5)
    classes, samples = rng.permutation(k), rng.permutation(len(y))
    plain = fit(make_problem(name, multiclass), tol=1e-9)
    gap = 2e-9 * plain.certificate.primal
    relabelled = fit(MulticlassSVM(X, classes[y], multiclass=multiclass, **settings), tol=1e-9)
    assert relabelled.certificate.primal == pytest.approx(plain.certificate.primal, rel=4e-9)
    same_weights(relabelled.point.weights[:, classes], plain.point.weights, gap)
    shuffled = fit(MulticlassSVM(X[samples], y[samples], multiclass=multiclass, **settings), tol=1e-9)
    assert shuffled.certificate.primal == pytest.approx(plain.certificate.primal, rel=4e-9)
    same_weights(shuffled.point.weights, plain.point.weights, gap)


@both_losses
def test_weight_two_is_the_row_twice(multiclass):
    X, y, _ = problem_data("blobs")
    weights = np.where(np.arange(len(y)) % 3 == 0, 2, 1)
    weighted = fit(MulticlassSVM(X, y, C=0.3 * weights, multiclass=multiclass), tol=1e-9)
    repeated = fit(
        MulticlassSVM(np.repeat(X, weights, axis=0), np.repeat(y, weights), C=0.3, multiclass=multiclass), tol=1e-9
    )
    assert weighted.certificate.primal == pytest.approx(repeated.certificate.primal, rel=4e-9)
    same_weights(weighted.point.weights, repeated.point.weights, 4e-9)


def test_resumed_run_asks_and_stops_where_the_whole_run_does(tmp_path):
    """The schedule of certificates is part of the checkpoint: after a refusal the judge is asked at the same pass."""
    problem, solver, tol = make_problem("tiles"), SOLVERS["permuted"], 1e-9
    whole = fit(problem, solver, tol=tol)
    asked = [row.iteration for row in whole.trace]
    assert len(asked) > 3
    for cut in (1, asked[1] + 1, asked[-2]):
        fit(problem, solver, tol=tol, max_iter=cut, watchers=[Checkpoint(tmp_path / "run")])
        rest = fit(problem, solver, tol=tol, resume=load_checkpoint(tmp_path / "run", solver))
        later = [row.iteration for row in rest.trace if row.iteration > cut]  # and perhaps once more where it was cut
        assert later == [iteration for iteration in asked if iteration > cut]
        assert rest.certificate == whole.certificate


def test_checkpoint_of_other_settings_is_refused(tmp_path):
    fit(make_problem("blobs"), max_iter=2, tol=0.0, watchers=[Checkpoint(tmp_path / "run")])
    with pytest.raises(ModelFileError, match="go on with the solver that wrote it"):
        load_checkpoint(tmp_path / "run", DualBlockDescent(order="cyclic"))


@pytest.mark.parametrize("other", ["binary", "absent", "tiles"])
def test_checkpoint_of_another_problem_is_refused(other, tmp_path):
    """A compiled loop on arrays of the wrong size would read and write foreign memory."""
    fit(make_problem("blobs"), max_iter=2, tol=0.0, watchers=[Checkpoint(tmp_path / "run")])
    saved = load_checkpoint(tmp_path / "run", SOLVERS["auto"])
    with pytest.raises(IncompatibleError, match="another problem"):
        fit(make_problem(other), max_iter=2, resume=saved)  # no step is made: it must not come to that


@both_losses
def test_screening_never_changes_the_optimum(multiclass):
    """Small problems, driven until the gap is rounding: rows fixed by mistake could never come back."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((5, 2)), rng.integers(0, 3, 5)
        problem = MulticlassSVM(X, y, C=10.0, multiclass=multiclass, n_classes=3)
        plain = fit(problem, tol=1e-12, max_iter=1000)
        screened = fit(problem, SOLVERS["screened"], tol=1e-12, max_iter=1000)
        assert screened.certificate.residual <= 10 * plain.certificate.residual + 1e-9, f"seed {seed}"


@every_pair
@pytest.mark.parametrize("C", [0.0, 1e-16, 1e-10, 1e-3])
def test_tiny_prices_converge(C, solver, multiclass):
    """At W = 0 the loss is C n (k - 1) or C n: the optimum is that but for a term of order C^2."""
    problem = make_problem("blobs", multiclass, C=C)
    result = fit(problem, solver, tol=tolerance(solver), max_iter=200)
    assert result.status is Status.CONVERGED
    at_zero = C * 50 * (2 if multiclass == "weston_watkins" else 1)
    assert result.certificate.primal <= at_zero * (1 + 1e-12)
    if C <= 1e-10:
        assert result.certificate.primal == pytest.approx(at_zero, rel=1e-6)


@both_losses
@pytest.mark.parametrize("C", [1e2, 1e4, 1e6])
def test_huge_prices_reach_the_hard_margin(C, multiclass):
    """On separable data the optimum no longer depends on C once it is large."""
    X, y = blobs(40, 10, 3, seed=0, separation=3.0)
    hard = svm_optimum(MulticlassSVM(X, y, C=1.0, multiclass=multiclass))
    # Rounding of the scores, times C, is part of the proof.
    result = fit(MulticlassSVM(X, y, C=C, multiclass=multiclass), tol=max(1e-6, 1e-11 * C), max_iter=20_000)
    assert result.status is Status.CONVERGED
    assert result.certificate.primal == pytest.approx(hard, rel=2e-5)


@both_losses
@pytest.mark.parametrize("size", [1e-160, 1e-156, 1e-100, 1e-4])
def test_rows_of_almost_nothing_count_as_rows_of_nothing(size, multiclass):
    X, y, _ = problem_data("blobs")
    tiny, nothing = X.copy(), X.copy()
    tiny[:5], nothing[:5] = size * X[:5], 0.0
    result = fit(MulticlassSVM(tiny, y, multiclass=multiclass))
    assert result.status is Status.CONVERGED
    expected = svm_optimum(MulticlassSVM(nothing, y, multiclass=multiclass))
    assert result.certificate.primal == pytest.approx(expected, rel=1e-6 if size < 1e-9 else 1e-2)


@both_losses
@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_no_features_leave_only_the_intercept(bias, multiclass):
    problem = MulticlassSVM(np.zeros((6, 0)), [0, 1, 2, 0, 1, 0], multiclass=multiclass, bias=bias)
    result = fit(problem)
    assert result.status is Status.CONVERGED
    assert result.certificate.primal == pytest.approx(svm_optimum(problem), rel=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"order": "backwards"}, "order='backwards' is unknown; choose one of permuted, cyclic"),
        ({"block": "sort"}, "block='sort' does not solve crammer_singer; choose auto, projection"),
    ],
)
def test_settings_that_do_not_exist_are_refused(settings, message):
    with pytest.raises(IncompatibleError, match=message):
        fit(make_problem("blobs", "crammer_singer"), DualBlockDescent(**settings))
