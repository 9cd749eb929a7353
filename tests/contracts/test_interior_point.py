"""The interior point against references, in every form of X, and where data are as they come."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from helpers import LOSS_NAMES, PROBLEM_NAMES, augmented, dense, infeasibility, make_problem, problem_data
from reference.optimum import svm_optimum
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.core.threads import threads
from softmargin.data import blobs
from softmargin.estimators.posing.auto import find_solver
from softmargin.problems import DualPoint, MulticlassSVM, OneVsRest
from softmargin.run import Status, Stop, solve
from softmargin.solvers import DualBlockDescent, InteriorPoint, SmoothedInteriorPoint, SmoothedNewton
from softmargin.solvers.linear_svm._interior_steps import InteriorPointTuning, aimed
from softmargin.solvers.linear_svm._label_groups import LabelGroups
from softmargin.solvers.linear_svm._newton_system import NewtonSystem, Pairs
from softmargin.solvers.linear_svm.interior_work import (
    count_corrections,
    is_factor_dear,
    is_joint,
    step_work,
)
from softmargin.testing import check_run

both_losses = pytest.mark.parametrize("multiclass", LOSS_NAMES)
every_problem = pytest.mark.parametrize("name", PROBLEM_NAMES)


def fit(problem, solver=None, *, tol=1e-9, max_iter=100, **more):
    return solve(problem, solver or InteriorPoint(), stop=Stop(tol, max_iter), rng=0, **more)


@both_losses
@every_problem
def test_it_finds_the_optimum_in_few_steps(name, multiclass):
    problem = make_problem(name, multiclass)
    result = check_run(InteriorPoint(), problem, tol=1e-9, max_iter=40, optimum=svm_optimum(problem))
    assert infeasibility(problem.multiclass, result.point.alpha, problem.y, problem.C) <= 1e-10


@both_losses
@pytest.mark.parametrize("name", ["blobs", "tiles", "bias", "binary"])
def test_every_form_of_x_gives_the_same(name, multiclass):
    X, y, settings = problem_data(name)
    rounded = dense(X).astype(np.float32)  # numbers that both types hold exactly
    wide = rounded.astype(np.float64)
    values = [
        fit(MulticlassSVM(form, y, multiclass=multiclass, **settings), tol=1e-10).certificate.primal
        for form in (wide, csr_matrix(wide), rounded, csr_matrix(rounded))
    ]
    np.testing.assert_allclose(values, values[0], rtol=1e-9)


def newton_matrix(problem, order, M):
    """Sum identity + x x' (x) E M E' sample by sample."""
    A, k = augmented(problem)[order][:, : problem.X.shape[1] + int(problem.bias != 0.0)], problem.n_classes
    H = np.eye(k * A.shape[1])
    for x, y, middle in zip(A, problem.y[order], M, strict=True):
        E = np.array([np.eye(k)[y] - np.eye(k)[j] for j in range(k) if j != y]).T
        H += np.kron(E @ middle @ E.T, np.outer(x, x))
    return H


@pytest.mark.parametrize("form", [dense, csr_matrix], ids=["dense", "csr"])
@pytest.mark.parametrize("name", ["tiles", "bias", "binary"])
def test_the_newton_matrix_is_the_sum_over_samples(name, form):
    """Also of thin rows, which a loop adds entry by entry; the last class has no unknowns of its own."""
    X, y, settings = problem_data(name)
    problem = MulticlassSVM(form(dense(X)), y, **settings)
    groups = LabelGroups(problem, LabelGroups.find_order(problem))
    k, n = problem.n_classes, groups.n
    rng = np.random.default_rng(0)
    stiffness, slope = rng.random((n, k - 1)), 0.1 * rng.random(n) if k > 2 else None
    a = np.zeros_like(stiffness) if slope is None else stiffness * slope[:, None]
    M = np.array([np.diag(theta) - np.outer(mine, mine) for theta, mine in zip(stiffness, a, strict=True)])
    expected = newton_matrix(problem, groups.order, M)
    P = np.sqrt(0.5) * np.array([[-1.0], [1.0]]) if k == 2 else np.eye(k)[:, : k - 1] - 1.0 / k
    Q = np.kron(P, np.eye(groups.D))
    expected = Q.T @ expected @ Q
    np.testing.assert_allclose(
        np.triu(groups.newton_matrix(stiffness, slope)), np.triu(expected), rtol=1e-12, atol=1e-12
    )


def far_problem(k, multiclass="weston_watkins", offset=300.0, spread=1.0, *, C=1.0):
    """Return features of which two are far from zero for their spread, and classes that overlap."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 4)), np.arange(200) % k
    X[:, :2] += y[:, None]
    return MulticlassSVM(
        offset * np.array([0.0, 1.0, -2.0, 0.0]) + X * [1.0, spread, spread, 1.0],
        y,
        C=C,
        multiclass=multiclass,
        bias=2.0,
    )


@both_losses
@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("C", [1.0, 1e8], ids=["last class left out", "all classes"])
def test_features_far_from_zero_are_shifted_and_solutions_are_the_same(k, multiclass, C, monkeypatch):
    found = []
    for far in (30.0, np.inf):
        monkeypatch.setattr("softmargin.matrices.origin.FAR", far)
        problem, solver = far_problem(k, multiclass, C=C), InteriorPoint()
        state = solver.start(problem, None, None)
        here = solver._evaluate(problem, state)
        assert (state.groups.means is None) is (far == np.inf)
        right = state.groups.adjoint(np.random.default_rng(0).random(state.lower.shape))
        system = NewtonSystem(state, here, is_joint(problem), solver.tuning)
        solution = system._solution(right)
        found.append(solution - solution.mean(axis=1, keepdims=True) if k > 2 else solution)
        np.testing.assert_allclose(system._product(solution), right, rtol=1e-6, atol=1e-6 * np.abs(right).max())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-8 * np.abs(found[1]).max())


@both_losses
@pytest.mark.parametrize(
    ("offset", "spread", "C"),
    [(1e3, 1.0, 1.0), (1e6, 1.0, 1e-2), (2000.0, 7.0, 100.0), (1.6e9, 1e7, 100.0), (1.6e9, 1e5, 1.0), (1e8, 1e4, 1e-2)],
)
def test_dates_and_numbers_of_accounts_are_certified(offset, spread, C, multiclass):
    result = fit(far_problem(3, multiclass, offset, spread, C=C), tol=1e-4)
    assert result.status is Status.CONVERGED
    assert result.n_iter < 40


def test_constant_features_are_not_shifted():
    far = far_problem(3)
    X = np.hstack([far.X, np.full((200, 1), 3.7)])
    problem = MulticlassSVM(X, far.y, bias=1.0)
    assert LabelGroups(problem, LabelGroups.find_order(problem)).means[-1] == 0.0


def test_only_arrays_with_a_constant_feature_are_shifted():
    far = far_problem(3)
    means = LabelGroups(far, LabelGroups.find_order(far)).means
    np.testing.assert_allclose(means, far.X.mean(axis=0) * [0.0, 1.0, 1.0, 0.0])
    thin = csr_matrix(np.where(np.random.default_rng(0).random((200, 4)) < 0.3, far.X, 0.0))
    for other in (MulticlassSVM(far.X, far.y), MulticlassSVM(thin, far.y, bias=1.0)):
        assert LabelGroups(other, LabelGroups.find_order(other)).means is None


@pytest.mark.parametrize("steep", [False, True], ids=["last class left out", "all classes"])
@both_losses
@pytest.mark.parametrize(("k", "bias"), [(4, 0.0), (5, 2.0), (14, 1.0)])
def test_squares_by_stored_entries_are_those_of_the_newton_matrix(k, bias, multiclass, steep, monkeypatch):
    """Weights of more than one group of twelve; some label has no sample."""
    rng = np.random.default_rng(k)
    X = rng.standard_normal((90, 12)) * (rng.random((90, 12)) < 0.15)
    X[0] = 0.0
    y = rng.integers(1, k, size=90)
    y[:2] = 1, k - 1
    problem = MulticlassSVM(csr_matrix(X), y, C=1e14 if steep else 1.0, bias=bias, n_classes=k, multiclass=multiclass)
    groups = LabelGroups(problem, LabelGroups.find_order(problem))
    joint = is_joint(problem)
    assert groups._is_scattered(joint, np.float64)
    theta, slope = rng.random((90, k - 1)), 0.1 * rng.random(90) if joint else None
    by_entries = groups.newton_matrix(theta, slope)
    single = groups.newton_matrix(theta, slope, np.float32)
    monkeypatch.setattr("softmargin.core.threads.WORTH", 1)
    with threads(2):
        np.testing.assert_array_equal(np.triu(groups.newton_matrix(theta, slope)), np.triu(by_entries))
    a = theta * slope[:, None] if joint else np.zeros_like(theta)
    M = np.array([np.diag(mine) - np.outer(low, low) for mine, low in zip(theta, a, strict=True)])
    expected = newton_matrix(problem, groups.order, M)
    P = np.eye(k) if steep else np.eye(k)[:, : k - 1] - 1.0 / k
    used = np.append(groups.used, [X.shape[1]] if bias else []).astype(int)
    Q = np.kron(P, np.eye(X.shape[1] + int(bias != 0.0))[:, used])
    expected = np.triu(Q.T @ expected @ Q)
    np.testing.assert_allclose(np.triu(by_entries), expected, rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(np.triu(single), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["tiles", "bias", "binary", "weights"])
def test_margins_and_adjoint_are_transposes_of_each_other(name):
    problem = make_problem(name)
    groups = LabelGroups(problem, LabelGroups.find_order(problem))
    rng = np.random.default_rng(0)
    W = rng.standard_normal((problem.X.shape[1] + 1, problem.n_classes))
    W -= W.mean(axis=1, keepdims=True)
    W[groups.D :] = 0.0
    U = rng.random((groups.n, problem.n_classes - 1))
    scores, y = (augmented(problem) @ W)[groups.order], groups.y
    others = scores[np.arange(problem.n_classes) != y[:, None]].reshape(U.shape)
    margins = groups.margins(groups.columns(W))
    np.testing.assert_allclose(margins, others - scores[np.arange(len(y)), y][:, None], rtol=1e-10, atol=1e-10)
    adjoint = groups.weights(groups.adjoint(U))
    assert np.vdot(adjoint, W) == pytest.approx(-np.vdot(U, margins))
    np.testing.assert_allclose(groups.weights(groups.columns(W)), W, atol=1e-12)


@both_losses
@pytest.mark.parametrize("C", [1e-6, 1.0, 1e4, 1e8])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_prices_and_scales_of_columns_do_not_matter(scale, C, multiclass):
    """One column in other units, one constant, one given twice, rows given twice."""
    X, y = blobs(60, 4, 3, seed=5, separation=1.0)
    X = np.hstack([X, np.full((60, 1), 3.0), X[:, :1]])
    X[:, 1] *= scale
    X, y = np.vstack([X, X[:20]]), np.concatenate([y, y[:20]])
    result = fit(MulticlassSVM(X, y, C=C, multiclass=multiclass, bias=1.0), tol=1e-4)
    assert result.status in (Status.CONVERGED, Status.ROUNDING)


@both_losses
@pytest.mark.parametrize("labels", ["separable", "contradictory"])
def test_huge_prices(labels, multiclass):
    X, y = blobs(40, 10, 3, seed=0, separation=3.0)
    if labels == "contradictory":
        X, y = np.vstack([X, X]), np.concatenate([y, (y + 1) % 3])
    problem = MulticlassSVM(X, y, C=1e4, multiclass=multiclass)
    result = fit(problem, tol=1e-6)
    assert result.status is Status.CONVERGED
    assert result.certificate.primal == pytest.approx(svm_optimum(problem), rel=2e-5)


def test_it_solves_every_class_of_one_vs_rest():
    X, y, _ = problem_data("blobs")
    problem = OneVsRest([MulticlassSVM(X, y == c, n_classes=2, bias=1.0) for c in range(3)])
    result = fit(problem, find_solver("interior_point", problem))
    expected = sum(svm_optimum(part) for part in problem.parts)
    assert result.status is Status.CONVERGED
    assert result.certificate.primal == pytest.approx(expected, rel=1e-6)


@both_losses
def test_it_starts_anywhere(multiclass):
    problem = make_problem("degenerate", multiclass)
    garbage = np.random.default_rng(0).standard_normal((50, 3))
    kept = garbage.copy()
    result = fit(problem, init=DualPoint(garbage, None))
    assert result.status is Status.CONVERGED
    np.testing.assert_array_equal(garbage, kept)


def test_it_finishes_what_block_descent_does_not():
    """Features in hundreds: C |x|^2 is large, and a pass moves next to nothing."""
    X, y = blobs(200, 6, 4, seed=1, separation=1.0)
    problem = MulticlassSVM(100.0 * X + 500.0, y, C=1.0, bias=1.0)
    early = solve(problem, DualBlockDescent(), stop=Stop(1e-6, 200), rng=0)
    assert early.certificate.residual > 1e-2
    assert fit(problem, tol=1e-6, max_iter=40).status is Status.CONVERGED


def test_no_sample_with_a_price_leaves_nothing_to_do():
    problem = make_problem("blobs", C=0.0)
    assert fit(problem).status is Status.CONVERGED


def test_too_many_unknowns_are_refused():
    with pytest.raises(IncompatibleError, match=r"at most 9 of them; this problem has 10\. Use DualBlockDescent"):
        fit(make_problem("blobs"), InteriorPoint(tuning=InteriorPointTuning(max_unknowns=9)))


def test_work_is_counted_as_the_newton_matrix_is_made():
    """A sum of (k - 1) n squares of D for Weston-Watkins, and of n squares of all unknowns for Crammer-Singer."""
    X, y = np.ones((1000, 20)), np.arange(1000) % 5
    separate, joint = (step_work(MulticlassSVM(X, y, multiclass=name)) for name in LOSS_NAMES)
    assert separate.unknowns == joint.unknowns == 80
    assert separate.multiplications == pytest.approx(4 * 1000 * 20**2 + 80**3 / 3, rel=0.7)
    assert joint.multiplications - separate.multiplications == pytest.approx(1000 * 80**2)
    assert separate.numbers == joint.numbers > 80**2


@both_losses
def test_features_that_are_zero_everywhere_take_no_work(multiclass):
    X, y = np.random.default_rng(0).random((300, 12)), np.arange(300) % 5
    X[:, 8:] = 0.0
    wide, narrow = (MulticlassSVM(each, y, multiclass=multiclass) for each in (X, X[:, :8]))
    assert step_work(wide).unknowns == step_work(narrow).unknowns == 32
    state = InteriorPoint().start(wide, None, np.random.default_rng(0))
    InteriorPoint().step(wide, state)
    assert state.groups.n_blocks * state.groups.D == 32


def test_work_of_sparse_rows_is_that_of_their_stored_entries():
    X, y = np.zeros((500, 200)), np.arange(500) % 10
    X[np.arange(500)[:, None], (7 * np.arange(500)[:, None] + 9 * np.arange(20)) % 200] = 1.0
    by_blas, by_entries = (step_work(MulticlassSVM(form, y)).multiplications for form in (X, csr_matrix(X)))
    factor = (9 * 200) ** 3 / 3
    assert by_entries < by_blas - 0.5 * (by_blas - factor)


def test_nan_is_refused():
    X, y, _ = problem_data("blobs")
    X = X.copy()
    X[3, 1] = np.nan
    with pytest.raises(DataError, match="sample 3"):
        fit(MulticlassSVM(X, y))


def test_where_a_factor_takes_longest_more_corrections_spare_steps():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 5, 800)
    X = 100.0 * np.maximum(0.4 * rng.standard_normal((5, 100))[y] + rng.standard_normal((800, 100)), 0.0) ** 2
    problem = MulticlassSVM(X, y)
    usual = InteriorPoint(InteriorPointTuning(most_corrections=2))
    many, few = fit(problem, tol=1e-3), fit(problem, usual, tol=1e-3)
    assert many.status is few.status is Status.CONVERGED
    assert many.n_iter <= 0.85 * few.n_iter  # 12 and 16


@both_losses
def test_a_factor_that_is_dear_serves_lower_targets(multiclass, monkeypatch):
    rng = np.random.default_rng(1)
    y = rng.integers(0, 5, 600)
    X = 100.0 * np.maximum(0.4 * rng.standard_normal((5, 60))[y] + rng.standard_normal((600, 60)), 0.0) ** 2
    problem = MulticlassSVM(X, y, multiclass=multiclass)
    monkeypatch.setattr("softmargin.solvers.linear_svm.interior_point.count_corrections", lambda *_: most)
    most = 10
    usual = fit(problem, tol=1e-6)
    most = 40
    monkeypatch.setattr("softmargin.solvers.linear_svm.interior_point.is_factor_dear", lambda _: True)
    lowered = fit(problem, tol=1e-6)
    assert usual.status is lowered.status is Status.CONVERGED
    assert lowered.certificate.primal == pytest.approx(usual.certificate.primal, rel=2e-6)
    assert lowered.n_iter < 0.9 * usual.n_iter  # 13 and 16, 14 and 20


def test_a_step_that_runs_out_of_time_keeps_what_it_has_found(monkeypatch):
    """No corrections and no lower targets: a prediction, and one aim, after which the gap is smaller."""
    problem, solved, solve_one = MulticlassSVM(*blobs(300, 8, 4, seed=0)), [], NewtonSystem.solve
    monkeypatch.setattr("softmargin.solvers.linear_svm.interior_point.is_factor_dear", lambda _: True)
    monkeypatch.setattr(NewtonSystem, "solve", lambda *args: solved.append(1) or solve_one(*args))
    solver = InteriorPoint()

    def steps(count, is_late):
        monkeypatch.setattr("softmargin.solvers.linear_svm._interior_steps.is_time_up", lambda: is_late)
        state = solver.start(problem, None, np.random.default_rng(0))
        solved.clear()
        for _ in range(count):
            solver.step(problem, state)
        return solver.estimate(problem, state), len(solved)

    late, n_late = steps(4, is_late=True)
    _, n_usual = steps(4, is_late=False)
    assert n_late == 8 < n_usual
    assert late < steps(1, is_late=True)[0]


def test_a_factor_is_dear_where_unknowns_are_thousands():
    def shaped(n, d, k, share=1.0):
        entries = max(int(share * d), 1)
        columns = (np.arange(n)[:, None] + np.arange(entries) * (d // entries)) % d
        X = (
            np.ones((n, d))
            if share == 1.0
            else csr_matrix((np.ones(n * entries), np.sort(columns).reshape(-1), entries * np.arange(n + 1)), (n, d))
        )
        return MulticlassSVM(X, np.arange(n) % k)

    assert is_factor_dear(shaped(20_000, 700, 10, 0.2))
    assert is_factor_dear(shaped(2000, 700, 10))
    assert not is_factor_dear(shaped(5000, 200, 10))


@both_losses
def test_corrections_take_a_share_of_the_time_of_a_factor(multiclass):
    def allowed(n, d, k):
        X, y = np.ones((n, d)), np.arange(n) % k
        return count_corrections(MulticlassSVM(X, y, multiclass=multiclass), 2, 10)

    assert allowed(5000, 4, 3) == 2
    assert allowed(500, 200, 5) == 10
    assert 2 < allowed(300, 80 if multiclass == "weston_watkins" else 40, 4) < 10


@both_losses
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("solver", [InteriorPoint(), SmoothedInteriorPoint(), SmoothedNewton()])
def test_nothing_but_zeros_is_certified(solver, k, multiclass):
    problem = MulticlassSVM(np.zeros((30, 2)), np.arange(30) % k, C=10.0, multiclass=multiclass)
    result = fit(problem, solver, tol=1e-6)
    assert result.status is Status.CONVERGED
    assert not result.point.weights.any()


def test_features_that_are_zero_everywhere_have_no_unknowns():
    X, y, settings = problem_data("bias")
    wide = np.zeros((len(X), 2 * X.shape[1]))
    wide[:, ::2] = dense(X)
    expected = fit(MulticlassSVM(dense(X), y, **settings))
    for form in (wide, csr_matrix(wide)):
        problem = MulticlassSVM(form, y, **settings)
        result = fit(problem)
        assert InteriorPoint().start(problem, None, None).V.shape[0] == X.shape[1] + 1
        np.testing.assert_allclose(result.point.weights[:-1:2], expected.point.weights[:-1], atol=1e-9)
        assert not result.point.weights[1:-1:2].any()


@pytest.mark.parametrize(("C", "left_out"), [(1.0, 1), (1e15, 0)])
def test_the_last_class_has_unknowns_only_where_rounding_asks_for_them(C, left_out):
    problem = make_problem("blobs", C=C)
    groups = LabelGroups(problem, LabelGroups.find_order(problem))
    assert groups.n_blocks == problem.n_classes - left_out


def wide_problem(multiclass):
    rng = np.random.default_rng(3)
    y = rng.integers(0, 4, 400)
    X = np.maximum(0.5 * rng.standard_normal((4, 150))[y] + rng.standard_normal((400, 150)), 0.0)
    return MulticlassSVM(30.0 * X, y, multiclass=multiclass, bias=1.0)


@both_losses
def test_factors_of_float32_lead_to_the_same_optimum(multiclass):
    """Until products become many; a run without any has factors of float64 from its first step on."""
    problem = wide_problem(multiclass)
    state = InteriorPoint().start(problem, None, None)
    assert state.is_single
    for _ in range(4):
        state = InteriorPoint().step(problem, state)
    assert state.is_single
    exact = InteriorPoint(InteriorPointTuning(most_products=0))
    both = [fit(problem, solver, tol=1e-8) for solver in (InteriorPoint(), exact)]
    assert [result.status for result in both] == [Status.CONVERGED] * 2
    assert both[0].certificate.primal == pytest.approx(both[1].certificate.primal, rel=1e-7)
    assert both[0].n_iter <= both[1].n_iter + 2


@both_losses
def test_the_product_is_one_with_the_newton_matrix(multiclass):
    """A solution by products with a factor of float32 solves the system of float64."""
    problem, solver = wide_problem(multiclass), InteriorPoint()
    state = solver.step(problem, solver.start(problem, None, None))
    here = solver._evaluate(problem, state)
    exact = InteriorPointTuning(exactness=1e-10, most_products=100)
    single = NewtonSystem(state, here, is_joint(problem), exact)
    right = state.groups.adjoint(np.random.default_rng(0).random(state.lower.shape))
    found = single._solution(right)
    assert state.is_single
    state.is_single = False
    double = NewtonSystem(state, here, is_joint(problem), exact)
    np.testing.assert_allclose(found, double._solution(right), rtol=1e-6, atol=1e-8 * np.abs(found).max())


def thin_problem(multiclass):
    wide = wide_problem(multiclass)
    return MulticlassSVM(csr_matrix(np.maximum(wide.X - 45.0, 0.0)), wide.y, multiclass=multiclass, bias=1.0)


@both_losses
def test_a_solution_does_not_depend_on_the_one_before(multiclass):
    """Few aims that change add to the last sum over the samples; numbers that are not finite do not stay in it."""
    problem, solver = thin_problem(multiclass), InteriorPoint()
    state = solver.step(problem, solver.start(problem, None, None))
    assert not isinstance(state.groups.X, np.ndarray)
    state.is_single, here, tuning = False, solver._evaluate(problem, state), solver.tuning
    rng, now, joint = np.random.default_rng(0), state.pairs(), is_joint(problem)
    low, high = rng.random(now.lower.size), rng.random(now.upper.size)
    some_low, endless = low.copy(), low.copy()
    some_low[::7] += 1.0
    endless[3] = np.inf
    system = NewtonSystem(state, here, joint, tuning)
    for aims in (low, some_low, low + 1.0, endless, some_low + 1.0):
        with np.errstate(invalid="ignore"):
            found = system.solve(aims, high)
        if aims is endless:
            assert not np.isfinite(found[0]).all()
            continue
        alone = NewtonSystem(state, here, joint, tuning).solve(aims, high)
        np.testing.assert_allclose(found[0], alone[0], rtol=1e-7, atol=1e-9 * np.abs(alone[0]).max())
        for mine, other in zip(found[1], alone[1], strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-7, atol=1e-9 * np.abs(other).max())


@both_losses
def test_corrections_add_only_what_changes(multiclass, monkeypatch):
    problem, solver, seen = thin_problem(multiclass), InteriorPoint(), []
    adjoint = LabelGroups.adjoint
    monkeypatch.setattr(LabelGroups, "adjoint", lambda groups, U: seen.append(U) or adjoint(groups, U))
    state = solver.start(problem, None, None)
    state.is_single = False
    here, now = solver._evaluate(problem, state), state.pairs()
    system = NewtonSystem(state, here, is_joint(problem), solver.tuning)
    low, high = np.full_like(now.lower, 3.0), np.ones_like(now.upper)
    system.solve(low, high)
    assert seen[-1].all()
    low[5] += 1.0
    system.solve(low, high)
    assert np.count_nonzero(seen[-1].any(axis=1)) == 1


def test_numbers_beyond_float32_are_factored_in_float64():
    problem = wide_problem("weston_watkins")
    huge = MulticlassSVM(1e40 * problem.X, problem.y, C=1e-80, bias=1.0)
    state = InteriorPoint().start(huge, None, None)
    assert state.is_single
    assert not InteriorPoint().step(huge, state).is_single
    assert fit(huge, tol=1e-3).status is Status.CONVERGED


@both_losses
@pytest.mark.parametrize("solver", [InteriorPoint(), SmoothedInteriorPoint()])
def test_a_run_to_the_last_digit_stays_there(solver, multiclass):
    """No step is made where products are far below the digits of P: they underflow at last, and W is no number."""
    X, y = blobs(30, 10, 3, seed=0, separation=0.5)
    result = fit(MulticlassSVM(X, y, C=1e3, bias=1.0, multiclass=multiclass), solver, tol=0.0, max_iter=1000)
    assert result.status in (Status.STALLED, Status.ROUNDING)
    assert result.certificate.residual <= 1e-8
    assert np.isfinite(result.point.weights).all()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_factor_with_a_ridge_that_shows_is_the_metric_of_products(seed):
    """Few rows far from zero, some of them twice with two labels, where rounding leaves no factor without a ridge."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 5, 13)
    y[:5] = range(5)
    X = 2300.0 + rng.standard_normal((13, 11))
    X[9:] = X[:4]
    problem = MulticlassSVM(X, y, C=1e5, bias=1.0, multiclass="crammer_singer")
    assert fit(problem, tol=1e-6, max_iter=40).status is Status.CONVERGED


@both_losses
def test_what_inexact_solutions_miss_is_solved_again(multiclass, monkeypatch):
    """Rounding leaves X'alpha - W, which no later step takes away, where H is near to singular."""
    exact = NewtonSystem._solution

    def inexact(self, right):
        found = exact(self, right)
        return found * (1.0 + 0.05 * np.random.default_rng(0).standard_normal(found.shape))

    monkeypatch.setattr(NewtonSystem, "_solution", inexact)
    problem = far_problem(3, multiclass, 0.0, C=1e4)
    assert fit(problem, InteriorPoint(), tol=1e-4, max_iter=30).status is Status.CONVERGED
    assert fit(problem, InteriorPoint(InteriorPointTuning(refinements=0)), max_iter=30).certificate.residual > 0.1


def test_solutions_with_a_ridge_solve_the_system_without_it():
    problem, solver = wide_problem("weston_watkins"), InteriorPoint()
    state = solver.step(problem, solver.start(problem, None, None))
    state.is_single, state.ridge, lost = False, 1e-3, {}
    right = np.random.default_rng(0).standard_normal(state.V.shape)
    right -= right.mean(axis=1, keepdims=True)
    for rough in (solver.tuning.rough, np.inf):
        system = NewtonSystem(state, solver._evaluate(problem, state), False, solver.tuning._replace(rough=rough))
        lost[rough] = np.linalg.norm(system._product(system._solution(right)) - right) / np.linalg.norm(right)
    assert lost[solver.tuning.rough] < 1e-3 * lost[np.inf]


def test_without_a_factor_a_run_keeps_its_point_unless_it_is_the_first(monkeypatch):
    def without(*args):
        raise np.linalg.LinAlgError("no factor")

    problem, solver = wide_problem("weston_watkins"), InteriorPoint()
    state = solver.step(problem, solver.start(problem, None, None))
    V = state.V.copy()
    monkeypatch.setattr("softmargin.solvers.linear_svm._newton_system.factored", without)
    assert np.array_equal(solver.step(problem, state).V, V)
    with pytest.raises(np.linalg.LinAlgError, match="no factor"):
        solver.step(problem, solver.start(problem, None, None))


def test_corrections_end_where_a_move_is_not_finite():
    def pairs(value):
        return Pairs(*(np.full(6, value) for _ in Pairs._fields))

    moves, tuning = [pairs(-2.0), pairs(np.nan)], InteriorPointTuning()
    system = SimpleNamespace(now=pairs(1.0), solve=lambda low, high: (np.zeros(4), moves.pop(0)))
    step = aimed(system, pairs(0.0), 0.1, 5, tuning)
    assert moves == []
    assert step.a == tuning.boundary * 0.5
    assert np.isfinite(step.move).all()
