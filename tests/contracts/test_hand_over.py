"""A solver that stalls hands its point over: when, to whom, once, visibly, and with the same bits after a resume."""

import io
import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from rich.console import Console
from scipy.sparse import csr_matrix

from helpers import Counter, Fake, make_problem
from softmargin import LinearSVC
from softmargin.core.aim import aiming_at
from softmargin.core.certificate import Certificate, duality_gap
from softmargin.core.errors import IncompatibleError
from softmargin.core.rounding import Rounded
from softmargin.core.threads import threads
from softmargin.data import blobs
from softmargin.estimators.frame.warnings import NotCertifiedWarning
from softmargin.estimators.posing.auto import find_solver
from softmargin.estimators.posing.finishers import finisher_of
from softmargin.kernels import Linear, Rbf
from softmargin.losses.entrywise import ENTRYWISE
from softmargin.losses.joint import JOINT
from softmargin.matrices.gram import Gram
from softmargin.penalties import L2
from softmargin.problems import L2SVM, Constrained, KernelMulticlassSVM, MulticlassSVM, OneVsRest, softmax_problem
from softmargin.run import Status, Stop, solve
from softmargin.run.progress import ProgressBar
from softmargin.run.watchers import Checkpoint, load_checkpoint
from softmargin.sets import TraceBall
from softmargin.solvers import (
    DualBlockDescent,
    EachClass,
    EachGroup,
    HandOver,
    KernelBlockDescent,
    NewtonCG,
    OneVsRestDescent,
    PrimalNewton,
    ProjectedGradient,
    SoftmaxDualDescent,
    SquaredHingeDescent,
)
from softmargin.solvers.hand_over import HandOverState, HandOverTuning, steps_left
from softmargin.solvers.linear_svm.block_descent import DualBlockDescentTuning
from softmargin.testing import check_solver


@dataclass(frozen=True)
class Idle(DualBlockDescent):
    """Block descent that makes its first two steps, of one round each, and no other."""

    tuning: DualBlockDescentTuning = DualBlockDescentTuning(least_visits=0, least_of_one=0)

    def step(self, problem, state):
        if state.screened == np.inf or state.screened > 0.5:
            state.screened = 1.0 if state.screened == np.inf else 0.0
            return super().step(problem, state)
        return state

    def estimate(self, problem, state):
        return 1.0


@dataclass(frozen=True)
class Second(DualBlockDescent):
    """The finisher by another name."""


@dataclass(frozen=True)
class Working(Idle):
    """One that counts its work: some of it in every step."""

    def work_done(self, state):
        return 1.5e3 if state.screened > 0.5 else 9e3


def handing(first, then, patience):
    """Look after few steps: these problems are small."""
    return HandOver(first, then, patience=patience, tuning=HandOverTuning(fewest=1))


def pair(first=None, then=None, patience=8.0):
    return handing(first or Idle(), then or Second(), patience)


def solvers_of(result):
    return [row.solver for row in result.trace]


def test_a_solver_that_stalls_hands_over_and_the_other_finishes():
    problem = make_problem("blobs")
    alone = solve(problem, Idle(), stop=Stop(1e-6, 200), rng=0)
    assert alone.status is Status.STALLED
    result = solve(problem, pair(), stop=Stop(1e-6, 200), rng=0)
    assert result.status is Status.CONVERGED
    assert solvers_of(result)[0] == "Idle"
    assert solvers_of(result)[-1] == "Second"
    assert result.trace.columns()["solver"] == solvers_of(result)


def test_the_other_starts_at_the_point_of_the_first():
    problem = make_problem("blobs")
    result = solve(problem, pair(DualBlockDescent(), Idle(), 1.0), stop=Stop(0.0, 30), rng=0)
    before = [row.certificate for row in result.trace if row.solver == "DualBlockDescent"]
    after = [row.certificate for row in result.trace if row.solver == "Idle"]
    assert after[0].bound >= before[-1].bound - 1e-12  # weights are computed again


class Falling(Fake):
    """D = 1 / 2 from the first step on, and P falls to it: the distance is 10, and falls by a factor in every step."""

    def __init__(self, factor, clock):
        super().__init__(clock=clock)
        self.factor = factor

    def certificate(self, point):
        return duality_gap(Rounded(0.5 + 5.0 * self.factor**point), Rounded(0.5 if point else 0.0))


@dataclass(frozen=True)
class Other:
    """A solver that counts steps from where the first one was."""

    needs: ClassVar[tuple[type, ...]] = ()

    def start(self, problem, init, rng):
        return init

    def step(self, problem, state):
        return state + 1

    def point(self, problem, state):
        return state

    def estimate(self, problem, state):
        return np.inf


@pytest.mark.parametrize(("factor", "patience"), [(0.9, 200.0), (0.99, 2000.0), (0.5, 30.0)])
def test_a_solver_on_its_way_is_left_alone(factor, patience, clock):
    """The distance has to fall by 1e4: that takes 87, 916 and 13 steps, less than half of what the finisher takes."""
    result = solve(Falling(factor, clock), handing(Counter(), Other(), patience), stop=Stop(1e-3))
    assert result.status is Status.CONVERGED
    assert set(solvers_of(result)) == {"Counter"}


@pytest.mark.parametrize(
    ("factor", "patience", "after"),
    [(0.99, 100.0, 26), (0.9999, 800.0, 200), (1.0, 800.0, 200), (0.9, 40.0, 10)],
)
def test_the_rule_counts_steps(factor, patience, after, clock):
    """Certificates come after 1 / 8 and 1 / 4 of the patience; the second of them shows a rate, and decides."""
    result = solve(Falling(factor, clock), handing(Counter(), Other(), patience), stop=Stop(1e-3, 10_000))
    last = [row.iteration for row in result.trace if row.solver == "Counter"][-1]
    assert last == after


@pytest.mark.parametrize(("patience", "after"), [(0.5, 1), (9.0, 9), (40.0, 32), (4000.0, 500)])
def test_the_first_look_is_no_later_than_the_finisher_would_have_been_done(patience, after):
    assert HandOver(Idle(), Second(), patience=patience).first_look == after


@pytest.mark.parametrize(
    ("distance", "end"), [(lambda t: 8.0 * math.exp(-0.05 * t), 240.0), (lambda t: 8.0 * t**-2.0, 121.0)]
)
def test_what_is_left_lies_between_a_rate_and_a_power(distance, end):
    """Both are exact on their own, and off by the root of their ratio elsewhere."""
    t_0, t_1, tol = 20, 40, distance(end)
    left = steps_left(distance(t_0), distance(t_1), t_0, t_1, tol)
    fall, rest = math.log(distance(t_0) / distance(t_1)), math.log(distance(t_1) / tol)
    by_rate, by_power = t_1 + (t_1 - t_0) * rest / fall, t_1 * math.exp(rest * math.log(t_1 / t_0) / fall)
    assert end == pytest.approx(by_rate) or end == pytest.approx(by_power)
    assert left + t_1 == pytest.approx(math.sqrt(by_rate * by_power))


@pytest.mark.parametrize(
    ("before", "now", "left"),
    [
        (math.inf, 3.0, 0.0),
        (math.inf, math.inf, math.inf),
        (2.0, 2.0, math.inf),
        (2.0, 3.0, math.inf),
        (2.0, 1e-4, 0.0),
    ],
)
def test_what_is_left_where_there_is_no_rate(before, now, left):
    assert steps_left(before, now, 8, 16, 1e-3) == left


def test_near_the_tolerance_nothing_is_handed_over(clock):
    """At the same slow rate, little is left: the first solver needs 69 steps more, the other one 100."""
    slow = Falling(0.99, clock)
    slow.certificate = lambda point: Certificate("duality gap", 1.0, 1.0 - 2e-3 * 0.99**point, 2e-3 * 0.99**point)
    result = solve(slow, handing(Counter(), Other(), 100.0), stop=Stop(1e-3, 1000))
    assert (result.status, set(solvers_of(result))) == (Status.CONVERGED, {"Counter"})
    far = solve(slow, handing(Counter(), Other(), 100.0), stop=Stop(1e-9, 100))
    assert solvers_of(far)[-1] == "Other"


def test_a_gap_that_rises_for_a_while_hands_nothing_over():
    """Gaps as block descent had them on a data set of ten thousand rows; twice as many steps without a fall do."""
    solver, state = handing(Counter(), Other(), 240.0), HandOverState([SimpleNamespace(t=0)])
    for steps, gap in ((32, 3e-2), (64, 1.4e-2), (128, 2.2e-3), (216, 2.7e-3)):
        state.steps = steps
        assert not solver.told(None, state, Certificate("duality gap", 1.0, 1.0 - gap, gap), 1e-3)
    state.steps = 256
    assert solver.told(None, state, Certificate("duality gap", 1.0, 1.0 - 2.7e-3, 2.7e-3), 1e-3)


def test_a_warm_start_is_judged_from_its_own_gap():
    problem = make_problem("blobs")
    init = solve(problem, DualBlockDescent(), stop=Stop(1e-2), rng=0).point
    result = solve(problem, pair(patience=16.0), stop=Stop(1e-8, 200), rng=0, init=init)
    assert [row.iteration for row in result.trace if row.solver == "Idle"][:2] == [0, 2]
    assert result.status is Status.CONVERGED


def one_vs_rest():
    X, y = blobs(90, 4, 3, seed=0, separation=1.0)
    return OneVsRest([MulticlassSVM(X, y == c, C=0.5, n_classes=2, bias=1.0) for c in range(3)])


def kernel():
    X, y = blobs(60, 5, 3, seed=3)
    return KernelMulticlassSVM(Gram(Rbf(0.2), X, bias=1.0), y, n_classes=3, C=50.0)


def ridge():
    X, y = blobs(60, 4, 3, seed=0)
    return softmax_problem(30.0 * X, y, penalty=L2(0.1), C=10.0)


def three():
    """Pairs of a pair: the second of three counts its work."""
    return handing(Idle(), handing(Working(), Second(), 4e3), 8.0)


SHORT = DualBlockDescentTuning(least_of_one=1000)  # steps, of which two do not end a small problem
PAIRS = {
    "stalled": (pair(), lambda: make_problem("tiles"), 1e-6),
    "at once": (pair(DualBlockDescent(), patience=1.0), lambda: make_problem("bias"), 1e-6),
    "one-vs-rest": (handing(EachClass(Idle(tuning=SHORT)), EachClass(Second(tuning=SHORT)), 8.0), one_vs_rest, 1e-6),
    "kernel": (handing(ProjectedGradient(), KernelBlockDescent(), 2.0), kernel, 1e-6),
    "softmax": (handing(SoftmaxDualDescent(), NewtonCG(), 8.0), ridge, 1e-6),
}


@pytest.mark.parametrize("name", PAIRS)
def test_every_pair_keeps_the_contract(name):
    solver, make, tol = PAIRS[name]
    result = solve(make(), solver, stop=Stop(0.0, 12), rng=0)
    assert len(set(solvers_of(result))) == 2  # else the contract would be that of the first alone
    check_solver(solver, make, tol=tol)


def test_three_in_turn_keep_the_contract():
    result = solve(make_problem("tiles"), three(), stop=Stop(0.0, 12), rng=0)
    assert list(dict.fromkeys(solvers_of(result))) == ["Idle", "Working", "Second"]
    check_solver(three(), lambda: make_problem("tiles"), tol=1e-6)


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_checkpoint_holds_who_of_three_is_at_work(cut, tmp_path):
    def make():
        return make_problem("tiles")

    whole = solve(make(), three(), stop=Stop(0.0, 12), rng=0)
    solve(make(), three(), stop=Stop(0.0, cut), rng=0, watchers=[Checkpoint(tmp_path / "run", every=0.0)])
    rest = solve(make(), three(), stop=Stop(0.0, 12), resume=load_checkpoint(tmp_path / "run", three()))
    assert solvers_of(rest)[-1] == "Second"
    np.testing.assert_array_equal(rest.point.alpha, whole.point.alpha)


def test_each_of_three_is_judged_by_its_own_patience():
    solver = three()
    state = HandOverState([None])
    assert solver.pairs == (solver, solver.then)
    state.steps = 1.0
    assert solver.wants_certificate(state)
    state.turn = 1
    assert not solver.wants_certificate(state)
    state.steps = 500.0  # an eighth of 4000
    assert solver.wants_certificate(state)
    state.next_at = 300.0
    assert not solver.wants_certificate(state)
    # 3657 are left, by the rule: more than twice 8, less than twice 4000.
    state = HandOverState([None], turn=1, steps=2000.0, next_at=1000.0, next_distance=1.0)
    assert not solver.told(None, state, duality_gap(Rounded(1.1), Rounded(1.0)), 1e-3)
    state.turn = 2
    assert not solver.has_finisher(state)
    assert not solver.wants_certificate(state)


@pytest.mark.parametrize(("unit", "steps"), [(3.0, [1.0, 3.0, 31 / 6, 25 / 3]), (100.0, [1.0, 2.0, 3.0, 4.0])])
def test_a_step_that_takes_several_times_the_unit_counts_as_several(unit, steps, monkeypatch):
    works = iter([0.5, 6.5, 13.0, 22.5])
    monkeypatch.setattr(Working, "work_done", lambda solver, state: next(works))
    problem, solver = make_problem("tiles"), HandOver(Working(), Second(), patience=50.0, unit=unit)
    state, counted = solver.start(problem, None, np.random.default_rng(0)), []
    for _ in steps:
        state = solver.step(problem, state)
        counted.append(state.steps)
    assert counted == pytest.approx(steps)


def test_who_takes_over_is_judged_from_its_own_first_step():
    problem, solver = make_problem("tiles"), three()
    state, bad = solver.start(problem, None, np.random.default_rng(0)), duality_gap(Rounded(3.0), Rounded(1.0))
    while state.turn == 0:
        state = solver.step(problem, state)
        solver.told(problem, state, bad, 1e-6)
    assert (state.turn, state.steps, state.next_at, state.next_distance) == (1, 0.0, 0.0, math.inf)
    assert isinstance(solver.at_work(state), Working)


@pytest.mark.parametrize("cut", range(1, 8))
def test_a_checkpoint_holds_who_is_at_work(cut, tmp_path):
    """Before the change, right before it, right after it: the rest of the run has the same bits."""
    make, solver = one_vs_rest, PAIRS["one-vs-rest"][0]
    whole = solve(make(), solver, stop=Stop(0.0, 9), rng=0)
    solve(make(), solver, stop=Stop(0.0, cut), rng=0, watchers=[Checkpoint(tmp_path / "run", every=0.0)])
    rest = solve(make(), solver, stop=Stop(0.0, 9), resume=load_checkpoint(tmp_path / "run", solver))
    assert solvers_of(rest)[-1] == "Second"
    assert rest.certificate == whole.certificate
    for mine, other in zip(rest.point, whole.point, strict=True):
        np.testing.assert_array_equal(mine.alpha, other.alpha)


def test_a_checkpoint_goes_on_with_another_tolerance(tmp_path):
    solver = pair()
    solve(make_problem("blobs"), solver, stop=Stop(1e-3, 3), rng=0, watchers=[Checkpoint(tmp_path / "run")])
    rest = solve(make_problem("blobs"), solver, stop=Stop(1e-7), resume=load_checkpoint(tmp_path / "run", solver))
    assert rest.status is Status.CONVERGED


def test_the_progress_bar_tells_of_the_change():
    text = io.StringIO()
    bar = ProgressBar(Console(file=text, force_terminal=True, width=120))
    solve(make_problem("blobs"), pair(), stop=Stop(1e-6, 200), watchers=[bar], rng=0)
    assert "Idle hands over to Second after pass 2" in text.getvalue()


@pytest.mark.parametrize("wrong", [{"patience": 0.0}, {"patience": np.nan}, {"unit": 0.0}, {"first": "block_descent"}])
def test_senseless_settings_are_refused(wrong):
    with pytest.raises(IncompatibleError):
        HandOver(**{"first": Idle(), "then": Second(), "patience": 8.0, **wrong})


def raw(n=400):
    """Return three classes that overlap, by features of sizes 1, 30 and 300."""
    X, y = blobs(n, 3, 3, seed=0, separation=1.0)
    return X * [1.0, 30.0, 300.0], y


@pytest.mark.parametrize("multiclass", ["weston_watkins", "crammer_singer", "one_vs_rest"])
def test_auto_finishes_on_raw_data_what_block_descent_does_not(multiclass):
    X, y = raw()
    asked = {"multiclass": multiclass, "max_iter": 600, "tol": 1e-4, "random_state": 0}
    with pytest.warns(NotCertifiedWarning):
        alone = LinearSVC(solver="block_descent", **asked).fit(X, y)
    assert {row.solver for row in alone.trace_} == {"DualBlockDescent"}  # who is asked for by name stays
    found = LinearSVC(**asked).fit(X, y)
    finisher = "AugmentedLagrangian" if multiclass == "one_vs_rest" else "InteriorPoint"
    assert (found.status_, found.trace_[-1].solver) == ("converged", finisher)
    again = LinearSVC(**asked).fit(X, y)
    np.testing.assert_array_equal(found.coef_, again.coef_)


def test_where_the_first_is_hopeless_the_finisher_starts_at_once():
    X, y = raw()
    problem, huge = (MulticlassSVM(X, y, C=C) for C in (1.0, 1e6))
    assert isinstance(find_solver("auto", problem), HandOver)
    assert find_solver("auto", huge) == find_solver("interior_point", huge)
    for C, finisher in ((1e6, "augmented_lagrangian"), (1e12, "interior_point")):
        parts = OneVsRest([MulticlassSVM(X, y == c, n_classes=2, C=C) for c in range(3)])
        assert find_solver("auto", parts) == EachClass(find_solver(finisher, parts.parts[0]))


@pytest.mark.parametrize(
    ("n", "d", "C", "is_at_once"),
    [
        (200, 4, 1.0, True),
        (200, 4, 0.1, False),
        (200, 90, 10.0, False),
        (15_000, 14, 4.0, True),
        (15_000, 14, 0.5, False),
        (8000, 60, 4.0, False),
        (100_000, 4, 1.0, True),
        (100_000, 4, 0.1, False),
    ],
)
def test_few_features_that_are_steep_begin_with_the_finisher_of_hinges(n, d, C, is_at_once):
    X = np.random.default_rng(0).standard_normal((n, d))
    parts = OneVsRest([MulticlassSVM(X, np.arange(n) % 3 == c, n_classes=2, C=C) for c in range(3)])
    chosen, finisher = find_solver("auto", parts), find_solver("augmented_lagrangian", parts.parts[0])
    assert chosen == EachClass(finisher) if is_at_once else isinstance(chosen, HandOver)


def test_nobody_finishes_where_the_newton_matrix_is_too_large():
    X, y = blobs(200, 20_000, 3, seed=0, sparse=True, density=0.01)
    problem = MulticlassSVM(X, y, C=1e9)
    assert find_solver("auto", problem) == DualBlockDescent()


@pytest.mark.parametrize(
    ("loss", "k", "name"),
    [("smooth_hinge", 1, "newton"), ("smooth_hinge", 3, "interior_point"), ("multinomial", 3, None)],
)
def test_finisher_over_a_trace_ball_depends_on_columns_and_loss(loss, k, name):
    X, y = blobs(200, 10, 3, seed=0)
    target = np.eye(3)[y] if loss == "multinomial" else 2.0 * np.eye(3)[y][:, :k] - 1.0
    problem = Constrained(X, target, loss={**ENTRYWISE, **JOINT}[loss], ball=TraceBall(1.0))
    finisher = finisher_of(problem, "accelerated_gradient")
    assert (finisher and finisher.name) == name


def test_patience_is_a_property_of_the_problem():
    """It grows with the unknowns, and not with C or the number of samples beyond some thousands."""
    patience = {
        (n, d, C): finisher_of(MulticlassSVM(*blobs(n, d, 3, seed=0), C=C), "block_descent").patience
        for n, d, C in ((3000, 5, 1.0), (3000, 5, 100.0), (6000, 5, 1.0), (3000, 500, 1.0))
    }
    assert patience[3000, 5, 1.0] == patience[3000, 5, 100.0]
    assert patience[6000, 5, 1.0] == pytest.approx(patience[3000, 5, 1.0], rel=0.3)
    assert patience[3000, 500, 1.0] > 1.5 * patience[3000, 5, 1.0]


def test_patience_counts_steps_which_are_several_passes_over_few_rows():
    problem = MulticlassSVM(*blobs(100, 5, 3, seed=0), C=1.0)
    repeated = MulticlassSVM(*(np.repeat(part, 10, axis=0) for part in blobs(100, 5, 3, seed=0)), C=1.0)
    few, many = (finisher_of(each, "block_descent").patience for each in (problem, repeated))
    assert few < many  # ten times as many rows take less than ten times the work, and a step is then a pass


def test_with_threads_softmax_hands_over_sooner():
    """Newton's products are divided, the passes of dual descent are not."""
    problem = softmax_problem(*blobs(60, 4, 3, seed=0), penalty=L2(1.0))
    alone = finisher_of(problem, "dual_descent").patience
    with threads(4):
        assert finisher_of(problem, "dual_descent").patience == alone / 2.0


@pytest.mark.parametrize(("share", "times"), [(0.05, 1.0), (0.1, 1.0), (0.2, 8.0), (1.0, 1000.0)])
def test_the_patience_grows_with_the_samples_in_the_systems_of_the_second(share, times):
    class Telling(Idle):
        def support(self, problem, state):
            return share

    solver = HandOver(Telling(), Second(), patience=3.0, support=0.1)
    assert solver.patience_at(None, None) == pytest.approx(3.0 * times)
    assert HandOver(Idle(), Second(), patience=3.0).patience_at(None, None) == 3.0


def squared_hinges(X, y):
    gram = Gram(Linear(), X)
    return OneVsRest([L2SVM(gram, 2.0 * (y == c) - 1.0) for c in range(1 if y.max() == 1 else 3)])


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_descent_on_squared_hinges_tells_the_samples_with_a_loss(n_jobs):
    rng = np.random.default_rng(0)
    problem = squared_hinges(csr_matrix(rng.standard_normal((40, 6))), np.arange(40) % 3)
    with threads(n_jobs):
        solver = find_solver("dual_descent", problem)
        assert isinstance(solver, EachGroup if n_jobs == 2 else OneVsRestDescent)
        state = solver.start(problem, None, np.random.default_rng(0))
        for _ in range(3):
            state = solver.step(problem, state)
        shares = [np.mean(point.alpha != 0.0) for point in solver.point(problem, state)]
        assert 0.0 < min(shares) < max(shares)
        assert solver.support(problem, state) == pytest.approx(np.mean(np.power(shares, 3)) ** (1 / 3), rel=0.02)


def codes(n, n_columns, levels, seed=0):
    """Draw codes of categories, one of ``levels`` in each column, and two classes."""
    rng = np.random.default_rng(seed)
    places = rng.integers(0, levels, (n, n_columns)) + levels * np.arange(n_columns)
    rows = (np.ones(places.size), (np.repeat(np.arange(n), n_columns), places.ravel()))
    return csr_matrix(rows, shape=(n, levels * n_columns)), rng.integers(0, 2, n)


def squared_hinge(X, y, C=1.0):
    return L2SVM(Gram(Linear(), X), 2.0 * y - 1.0, C=C)


def test_squared_hinges_with_many_features_for_the_rows_go_to_the_dual_whose_finisher_counts_features():
    wide, long, short, large = codes(750, 10, 40), codes(9000, 10, 10), codes(60, 10, 40), codes(9000, 10, 400)
    chosen = [(*wide, 1.0, True), (*long, 1.0, False), (*long, 0.1, True), (*short, 1.0, True)]
    chosen += [(*large, 1.0, False), (*large, 0.1, True), (large[0][:7000], large[1][:7000], 1.0, True)]
    some, more = codes(200, 10, 40), codes(900, 10, 40)
    chosen += [(rows.toarray(), y, C, rows is some[0]) for rows, y in (more, long, short, some) for C in (0.1, 1.0)]
    for X, y, C, is_dual in chosen:
        solver = find_solver("auto", squared_hinge(X, y, C))
        assert isinstance(getattr(solver, "first", solver), SquaredHingeDescent if is_dual else PrimalNewton)
    assert finisher_of(squared_hinge(*more), "dual_descent").support > 0.0
    assert finisher_of(squared_hinge(*long), "dual_descent").support == 0.0
    assert 30.0 <= finisher_of(squared_hinge(csr_matrix((20, 3)), np.arange(20) % 2), "dual_descent").patience < np.inf
    as_array = finisher_of(squared_hinge(some[0].toarray(), some[1]), "dual_descent")
    assert as_array.patience >= finisher_of(squared_hinge(*some), "dual_descent").patience >= 30.0


@pytest.mark.parametrize(
    ("guess", "patience", "handed_after"),
    [(0, 100.0, 64), (4, 100.0, 16), (4, 500.0, 32)],
)
def test_estimates_that_do_not_fall_bring_the_first_look_forward(guess, patience, handed_after, clock):
    """Two certificates show a stall: the one that the estimates asked for, and one after twice the steps."""
    first = Counter(guess=lambda t: 10.0 / (11.0 + t))
    solver = HandOver(first, Other(), patience=patience, guess=guess)
    result = solve(Falling(0.99, clock), solver, stop=Stop(1e-3, 100))
    assert [row.iteration for row in result.trace if row.solver == "Counter"][-1] == handed_after


def test_an_early_certificate_without_a_bound_shows_no_stall(clock):
    """The dual value of block descent may be below zero for some steps."""
    problem, solver = Falling(0.99, clock), HandOver(Counter(), Other(), patience=100.0, guess=4)
    state = solver.start(problem, None, np.random.default_rng(0))
    for _ in range(8):
        state = solver.step(problem, state)
    empty = duality_gap(Rounded(1.0), Rounded(0.0))
    assert solver.wants_certificate(state)
    assert not solver.told(problem, state, empty, 1e-3)
    for _ in range(24):
        state = solver.step(problem, state)
    assert solver.told(problem, state, empty, 1e-3)


@pytest.mark.parametrize(
    ("distance", "wanted"),
    [
        (lambda t: 10.0 * 0.5**t, []),  # 1e-3 after 13 steps
        (lambda t: 10.0 / t, range(8, 32)),  # 10,000 steps
        (lambda t: 5.0 if t < 16 else 10.0 * 0.5**t, range(8, 16)),  # the suspicion ends
    ],
)
def test_certificates_are_asked_for_early_only_where_estimates_tell_of_a_stall(distance, wanted, clock):
    first = Counter(guess=lambda t: distance(t) / (1.0 + distance(t)))
    problem, solver = Falling(0.9, clock), HandOver(first, Other(), patience=100.0, guess=4)
    state, asked = solver.start(problem, None, np.random.default_rng(0)), []
    with aiming_at(1e-3):
        for _ in range(31):
            state = solver.step(problem, state)
            asked += [int(state.steps)] * solver.wants_certificate(state)
    assert asked == list(wanted)


def test_a_squared_hinge_is_looked_at_later_as_its_primal_value_swings():
    few, tuning = {"first": Idle(), "then": Second(), "patience": 3.0}, HandOverTuning()
    assert HandOver(**few).first_look == 3
    assert HandOver(**few, support=0.1).first_look == tuning.fewest_of_squares > tuning.fewest


def test_no_certificate_judges_a_solver_whose_estimates_promise_an_end_soon(clock):
    """One that would be done after 40 steps is looked at after 32 all the same where its estimates stop falling."""
    asked = {}
    for name, distance in {"fast": lambda t: 10.0 * 0.8**t, "stalls": lambda t: 10.0 * 0.8 ** min(t, 16)}.items():
        first = Counter(guess=lambda t, distance=distance: distance(t) / (1.0 + distance(t)))
        problem, solver = Falling(0.9, clock), HandOver(first, Other(), patience=100.0)
        state, asked[name] = solver.start(problem, None, np.random.default_rng(0)), []
        with aiming_at(1e-3):
            for _ in range(40):
                state = solver.step(problem, state)
                asked[name] += [int(state.steps)] * solver.wants_certificate(state)
    assert asked == {"fast": [], "stalls": list(range(32, 41))}


def test_an_end_beyond_the_patience_is_not_soon(clock):
    """After 24 steps 16 are left, fewer than were made, but more than the finisher takes in all."""
    first = Counter(guess=lambda t: 10.0 * 0.8**t / (1.0 + 10.0 * 0.8**t))
    problem, solver = Falling(0.9, clock), HandOver(first, Other(), patience=10.0)
    state, asked = solver.start(problem, None, np.random.default_rng(0)), []
    with aiming_at(1e-3):
        for _ in range(30):
            state = solver.step(problem, state)
            asked += [int(state.steps)] * solver.wants_certificate(state)
    assert asked == list(range(10, 31))
