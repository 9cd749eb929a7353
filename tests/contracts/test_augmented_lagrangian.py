"""The augmented Lagrangian against references, in every form of X, and where data are as they come."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from helpers import augmented, calls_of, dense, infeasibility, make_problem, problem_data
from reference.optimum import svm_optimum
from softmargin.core.aim import aiming_at
from softmargin.core.errors import IncompatibleError
from softmargin.problems import MulticlassSVM
from softmargin.run import Status, Stop, solve
from softmargin.solvers import AugmentedLagrangian
from softmargin.solvers.linear_svm import augmented_lagrangian
from softmargin.solvers.linear_svm._active_squares import ActiveSquares
from softmargin.solvers.linear_svm.augmented_lagrangian import AugmentedLagrangianTuning
from softmargin.testing import check_run

NOT_SMALL = AugmentedLagrangianTuning(few=0)


def fit(problem, *, tol=1e-9, max_iter=100, **more):
    return solve(problem, AugmentedLagrangian(), stop=Stop(tol, max_iter), rng=0, **more)


def test_it_finds_the_optimum_in_few_steps():
    problem = make_problem("binary")
    result = check_run(AugmentedLagrangian(), problem, tol=1e-9, max_iter=40, optimum=svm_optimum(problem))
    assert infeasibility(problem.multiclass, result.point.alpha, problem.y, problem.C) <= 1e-10


def test_every_form_of_x_gives_the_same():
    X, y, settings = problem_data("binary")
    rounded = dense(X).astype(np.float32)  # numbers that both types hold exactly
    wide = rounded.astype(np.float64)
    values = [
        fit(MulticlassSVM(form, y, **settings)).certificate.primal
        for form in (wide, csr_matrix(wide), rounded, csr_matrix(rounded))
    ]
    np.testing.assert_allclose(values, values[0], rtol=1e-8)


@pytest.mark.parametrize("form", [dense, csr_matrix], ids=["dense", "csr"])
@pytest.mark.parametrize(
    ("shape", "n_factors"), [((80, 24), 2), ((80, 9), 3), ((12, 30), 0)], ids=["by features", "narrow", "by samples"]
)
def test_systems_follow_the_samples_that_enter_and_leave(form, shape, n_factors):
    rng = np.random.default_rng(0)
    X, y = np.where(rng.random(shape) < 0.15, rng.normal(size=shape), 0.0), np.arange(shape[0]) % 2
    problem, c = MulticlassSVM(form(X), y, bias=2.0), rng.uniform(1.0, 3.0, shape[0])
    A, systems, rho = augmented(problem), ActiveSquares(problem.X, problem.bias, c), 0.5
    active, n_factored = rng.random(shape[0]) < 0.7, 0
    for moved in (0, 0, 1, 2, 20):
        active = active.copy()
        active[rng.permutation(shape[0])[:moved]] ^= True
        right = rng.normal(size=shape[1] + 1)
        matrix = np.eye(shape[1] + 1) + (A[active] * (rho * c[active, None])).T @ A[active]
        before, found = systems.factor, systems.solve(active, rho, right)
        np.testing.assert_allclose(found, np.linalg.solve(matrix, right), rtol=1e-9, atol=1e-12)
        n_factored += systems.factor is not before
    assert n_factored == n_factors


def test_raw_features_and_a_large_price_are_certified_and_warm_starts_end_at_once():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 4)) * [1.0, 30.0, 300.0, 1e4]
    problem = MulticlassSVM(X, (X[:, 0] + rng.normal(size=300) > 0).astype(int), C=100.0, bias=1.0)
    result = fit(problem, tol=1e-6)
    assert result.status == Status.CONVERGED
    again = fit(problem, tol=1e-6, init=result.point)
    assert again.certificate.residual <= 1e-6
    assert again.n_iter == 0


def shells(n=400, seed=0):
    """Draw two classes, of which one surrounds the other: the best linear model says the larger one, at many kinks."""
    X = np.random.default_rng(seed).normal(size=(n, 3))
    return X, (np.linalg.norm(X, axis=1) > 2.0).astype(int)


def test_a_part_that_is_exact_takes_no_steps_while_others_go_on(monkeypatch):
    """Its gap is rounding, which no step halves."""
    problem, solver = MulticlassSVM(*shells(), C=100.0, bias=1.0), AugmentedLagrangian(NOT_SMALL)
    best = fit(problem, tol=0.0, max_iter=60).point
    state = solver.start(problem, best, np.random.default_rng(0))
    counted = calls_of(monkeypatch, ActiveSquares, "solve")
    compiled = calls_of(monkeypatch, augmented_lagrangian, "few_newton_steps")
    assert solver.estimate(problem, state) <= 1e-12
    for _ in range(5):
        state = solver.step(problem, state)
    assert len(counted) <= 5
    AugmentedLagrangian().step(problem, state)
    assert len(compiled) <= 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bias", [0.0, 2.0])
def test_compiled_steps_lead_where_steps_by_systems_lead(dtype, bias):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(120, 5)).astype(dtype), np.arange(120) % 2
    X[:, 0] += y
    problem = MulticlassSVM(X, y, C=rng.random(120) * (rng.random(120) < 0.9), bias=bias)
    small, other = AugmentedLagrangian(AugmentedLagrangianTuning(fall_of_few=0.5)), AugmentedLagrangian(NOT_SMALL)
    assert augmented_lagrangian.has_small_steps(problem)
    one, two = (solver.start(problem, None, rng) for solver in (small, other))
    for _ in range(5):
        one, two = small.step(problem, one), other.step(problem, two)
        assert one.rho == two.rho
        for name in ("weights", "shares", "latest"):
            np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-6, atol=1e-8, err_msg=name)


def test_compiled_steps_go_as_far_as_the_run_wants():
    X, y = shells()
    problem, solver = MulticlassSVM(X, y, C=1.0, bias=1.0), AugmentedLagrangian()
    for tol in (1e-2, 1e-6):
        with aiming_at(tol):
            state = solver.start(problem, None, np.random.default_rng(0))
            state = solver.step(problem, solver.step(problem, state))
        assert solver.estimate(problem, state) <= tol


def test_a_system_without_a_factor_is_left_to_the_step_that_copes(monkeypatch):
    """Where C |x|^2 is 2^80 nothing is left of the identity, and columns that are alike leave a pivot of zero."""
    y, calls = np.array([1, 0, 1, 0]), calls_of(monkeypatch, ActiveSquares, "solve")
    x = 2.0 * y - 1.0
    problem, solver = MulticlassSVM(np.column_stack([x, x]), y, C=2.0**77, bias=0.0), AugmentedLagrangian()
    state = solver.start(problem, None, np.random.default_rng(0))
    state.rho = 0.25
    state = solver.step(problem, state)
    assert calls
    assert state.weights.sum() == pytest.approx(1.0, rel=1e-3)


def test_three_classes_are_refused():
    with pytest.raises(IncompatibleError, match="for two classes"):
        fit(make_problem("blobs"))


def test_classes_that_share_the_sum_over_all_samples_make_the_same_steps_as_alone():
    rng, solver = np.random.default_rng(2), AugmentedLagrangian()
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 3
    same, other = ((X, 1.0), (X, 1.0)), ((X, 5.0), (2.0 * X, 5.0))
    parts = [MulticlassSVM(rows, y == c % 3, n_classes=2, C=C, bias=1.0) for c, (rows, C) in enumerate(same + other)]
    for part, state in zip(parts, solver.start_together(parts, [None] * 4), strict=True):
        alone = solver.step(part, solver.start(part, None, rng))
        np.testing.assert_array_equal(solver.step(part, state).weights, alone.weights)
