"""The interior point that begins on a path of smoothed hinges: against references, and where it takes over."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from helpers import LOSS_NAMES, PROBLEM_NAMES, infeasibility, make_problem
from reference.optimum import svm_optimum
from softmargin.data import blobs
from softmargin.problems import DualPoint, MulticlassSVM
from softmargin.run import Status, Stop, solve
from softmargin.solvers import InteriorPoint, SmoothedInteriorPoint
from softmargin.solvers.linear_svm._interior_steps import InteriorPointTuning, aimed, aimed_lower
from softmargin.solvers.linear_svm._label_groups import LabelGroups
from softmargin.solvers.linear_svm._newton_system import NewtonSystem
from softmargin.solvers.linear_svm.interior_work import is_joint
from softmargin.testing import check_run

both_losses = pytest.mark.parametrize("multiclass", LOSS_NAMES)


def fit(problem, solver=None, *, tol=1e-8, max_iter=100, **more):
    return solve(problem, solver or SmoothedInteriorPoint(), stop=Stop(tol, max_iter), rng=0, **more)


def steep(multiclass="weston_watkins", *, n=600, d=60, form=np.asarray, C=1.0):
    """Features up to thousands; classes are separable, barely."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, 5, n)
    X = 100.0 * np.maximum(0.4 * rng.standard_normal((5, d))[y] + rng.standard_normal((n, d)), 0.0) ** 2
    return MulticlassSVM(form(X), y, C=C, multiclass=multiclass, bias=1.0)


def entered(problem, solver=None):
    """Return the solver and its state just after the path."""
    solver = solver or SmoothedInteriorPoint()
    state = solver.start(problem, None, np.random.default_rng(0))
    while not state.is_inside:
        solver.step(problem, state)
    return solver, state


def ridges(problem):
    """Return the ridges of the path, and whether its steps were full."""
    solver, found = SmoothedInteriorPoint(), []
    state = solver.start(problem, None, np.random.default_rng(0))
    while not state.is_inside:
        on_path = state.states[0]
        solver.step(problem, state)
        found.append((on_path.rho, on_path.cut >= solver.path.tuning.near))
    return found


@both_losses
def test_the_path_ends_with_a_full_step_after_one_that_was_cut(multiclass):
    found = ridges(steep(multiclass, n=300, d=20))
    assert [is_full for _, is_full in found[-2:]] == [False, True]
    assert all(is_full for _, is_full in found[1:-2])
    assert found[-1][0] == found[-2][0] > 1.0  # the ridge falls after full steps alone


@both_losses
def test_the_path_ends_at_the_ridge_of_the_problem(multiclass):
    found = ridges(steep(multiclass))
    assert found[-1] == (1.0, True)
    assert found[-2][0] > 1.0


@both_losses
def test_rows_of_a_larger_ridge_are_divided_by_it(multiclass):
    """Not raised, they imply weights of the size of those of the path, which go on along its last step."""
    problem = steep(multiclass, n=300, d=20)
    solver, state = entered(problem, SmoothedInteriorPoint(inside=InteriorPoint(InteriorPointTuning(lift=1e-12))))
    inside = state.states[0]
    implied = solver.inside._evaluate(problem, inside).implied
    assert np.linalg.norm(implied - inside.V) < 2.0 * np.linalg.norm(inside.V)  # undivided they are 2800 times as long


@both_losses
def test_multipliers_are_values_of_rounded_hinges(multiclass):
    problem = steep(multiclass, n=40, d=5)
    groups = LabelGroups(problem, LabelGroups.find_order(problem))
    V = 1e-3 * np.random.default_rng(0).standard_normal((groups.D, 5))
    V -= V.mean(axis=1, keepdims=True)
    begun = InteriorPoint(InteriorPointTuning(lift=0.0)).enter(problem, V, np.full((40, 4), 0.1), groups, 0.7)
    parts = np.exp((1.0 + groups.margins(V)) / 0.7)
    parts = parts.sum(axis=1, keepdims=True) if is_joint(problem) else parts
    np.testing.assert_allclose(begun.t, 0.7 * np.log(1.0 + parts), rtol=1e-12)
    np.testing.assert_array_equal(begun.lower, 0.1)


@both_losses
@pytest.mark.parametrize("name", PROBLEM_NAMES)
def test_it_finds_the_optimum_in_few_steps(name, multiclass):
    problem = make_problem(name, multiclass)
    result = check_run(SmoothedInteriorPoint(), problem, tol=1e-9, max_iter=50, optimum=svm_optimum(problem))
    assert infeasibility(problem.multiclass, result.point.alpha, problem.y, problem.C) <= 1e-10


@both_losses
@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
def test_the_interior_point_begins_near_its_equations(multiclass, form):
    """W = X'alpha but for little beside the start of the interior point, t - s = h, and no variable is at zero."""
    problem = steep(multiclass, form=form)
    solver, state = entered(problem)
    inside = state.states[0]
    here = solver.inside._evaluate(problem, inside)
    np.testing.assert_allclose(inside.t - inside.s, here.margins, rtol=1e-9, atol=1e-9)
    for each in (inside.lower, inside.upper, inside.s, inside.t):
        assert each.min() > 0.0
    sums = inside.lower.sum(axis=1, keepdims=True) if is_joint(problem) else inside.lower
    np.testing.assert_allclose(sums + inside.upper, np.broadcast_to(inside.groups.C[:, None], inside.upper.shape))
    alone = InteriorPoint()
    first = alone._evaluate(problem, alone_state := alone.start(problem, None, None))
    assert np.linalg.norm(here.implied - inside.V) < 1e-3 * np.linalg.norm(first.implied - alone_state.V)


@both_losses
def test_margins_far_beyond_the_width_leave_no_variable_at_zero(multiclass):
    """exp(-h / width) is no number there."""
    problem = steep(multiclass)
    _, state = entered(problem)
    groups = state.states[0].groups
    V = 100.0 * state.states[0].V
    lower = np.full(state.states[0].lower.shape, 1e-300)
    begun = InteriorPoint().enter(problem, V, lower, groups, 1e-2)
    products = np.concatenate([(begun.lower * begun.s).ravel(), (begun.upper * begun.t).ravel()])
    assert np.isfinite(products).all()
    assert products.min() > 0.0


@both_losses
def test_lower_aims_keep_what_was_corrected(multiclass):
    """Aims at a lower target are those of the step before it, less the difference, and moves follow linearly."""
    problem = steep(multiclass)
    solver, state = entered(problem)
    inside, tuning = state.states[0], solver.inside.tuning
    system = NewtonSystem(inside, solver.inside._evaluate(problem, inside), is_joint(problem), tuning)
    now = system.now
    _, move = system.solve(-now.lower * now.s, -now.upper * now.t)
    target = float(now.lower @ now.s + now.upper @ now.t) / (now.lower.size + now.upper.size)
    usual = aimed(system, move, target, 5, tuning)
    lower = aimed_lower(system, usual, 0.3 * target, 0, tuning)
    for mine, known in ((lower.low, usual.low), (lower.high, usual.high)):
        np.testing.assert_allclose(mine, known - 0.7 * target, rtol=1e-12)
    changes = now.lower * lower.move.s + now.s * lower.move.lower
    np.testing.assert_allclose(changes, lower.low, rtol=1e-6, atol=1e-6 * np.abs(lower.low).max())


@both_losses
@pytest.mark.parametrize("when", ["on the path", "inside"])
def test_a_run_goes_on_from_both_of_its_methods(when, multiclass):
    """The state is rebuilt from its arrays and numbers: the next steps have the same bits."""
    problem = steep(multiclass, n=150, d=12)
    solver, state = entered(problem)
    if when == "on the path":
        made, state = state.made - 1, solver.start(problem, None, np.random.default_rng(0))
        for _ in range(made):
            solver.step(problem, state)
    part = state.states[0]
    fields = {name: getattr(part, name) for name, field in type(part).__dataclass_fields__.items() if field.init}
    arrays = {f"0.{name}": value.copy() for name, value in fields.items() if isinstance(value, np.ndarray)}
    plain = {f"0.{name}": value for name, value in fields.items() if not isinstance(value, np.ndarray)}
    plain |= {"is_inside": state.is_inside, "made": state.made, "cut": state.cut}
    again = solver.restore(arrays, plain)
    assert type(solver.fresh(problem, again).states[0]) is type(part)
    for _ in range(2):
        solver.step(problem, state)
        solver.step(problem, again)
    assert again.is_inside
    np.testing.assert_array_equal(solver.point(problem, state).alpha, solver.point(problem, again).alpha)


@both_losses
@pytest.mark.parametrize("C", [1e-6, 1.0, 1e4, 1e8])
def test_prices_of_any_size_have_an_honest_end(C, multiclass):
    X, y = blobs(150, 6, 4, seed=3, separation=1.0)
    problem = MulticlassSVM(X * np.logspace(-1, 2.5, 6), y, C=C, bias=1.0, multiclass=multiclass)
    result, other = fit(problem, tol=1e-3), fit(problem, InteriorPoint(), tol=1e-6).certificate
    assert result.status in (Status.CONVERGED, Status.ROUNDING)
    assert result.certificate.primal >= other.bound
    assert result.certificate.bound <= other.primal


@both_losses
def test_it_starts_anywhere_and_returns_that_before_its_first_step(multiclass):
    problem = make_problem("degenerate", multiclass)
    start = problem.point(problem.feasible(np.random.default_rng(0).standard_normal((50, 3))))
    solver = SmoothedInteriorPoint()
    state = solver.start(problem, start, np.random.default_rng(0))
    np.testing.assert_allclose(solver.point(problem, state).weights, start.weights)
    assert fit(problem, init=DualPoint(start.alpha, None)).status is Status.CONVERGED


def test_no_sample_with_a_price_leaves_nothing_to_do():
    assert fit(make_problem("blobs", C=0.0)).status is Status.CONVERGED
