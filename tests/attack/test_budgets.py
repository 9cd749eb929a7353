"""Budgets of seconds hold for every solver name, and absurd scales end in seconds, by an error of ours or a status.

A fit takes at most 1.1 times ``max_seconds`` and half a second, compiling apart. The short form has the solvers whose
single step or start takes seconds on small data; the slow form all names, and the sizes at which budgets once failed.
"""

import threading
import time
import warnings

import numpy as np
import pytest

from attack.runs import TWO_CLASSES
from helpers import Clock
from softmargin import (
    DualBlockDescent,
    KernelMulticlassSVM,
    KernelSVC,
    L1BallClassifier,
    L1BallRegressor,
    LinearSVC,
    MulticlassSVM,
    SoftmaxRegression,
    SoftmaxRegressionCV,
    TraceBallClassifier,
    softmax_path,
)
from softmargin.core import deadline as clocks
from softmargin.core.certificate import Certificate
from softmargin.core.deadline import (
    OutOfTime,
    alarm,
    check_time,
    deadline,
    factor_work,
    has_time_for,
    is_time_up,
    share_of_time,
)
from softmargin.core.errors import SoftmarginError
from softmargin.data import blobs
from softmargin.estimators.posing.auto import find_solver
from softmargin.kernels import Rbf
from softmargin.losses import multinomial
from softmargin.losses.entrywise import ENTRYWISE
from softmargin.matrices.gram import Gram
from softmargin.penalties import L1, L2, MCP
from softmargin.problems import BallPoint, Constrained, softmax_problem
from softmargin.run import Status, Stop, budget, solve
from softmargin.sets import L1Ball, TraceBall
from softmargin.solvers.names import SOLVERS

BUDGET = 0.3
MADE = {
    "linear hinge": (LinearSVC, {}),
    "linear squared_hinge": (LinearSVC, {"loss": "squared_hinge", "multiclass": "one_vs_rest"}),
    "kernel hinge": (KernelSVC, {"approximation": None}),
    "kernel hinge with a free bias": (
        KernelSVC,
        {"fit_intercept": "free", "multiclass": "one_vs_rest", "approximation": None},
    ),
    "sampled kernel": (KernelSVC, {"multiclass": "one_vs_rest"}),
    "kernel squared_hinge": (KernelSVC, {"loss": "squared_hinge", "multiclass": "one_vs_rest", "approximation": None}),
    "softmax ridge": (SoftmaxRegression, {}),
    "softmax l1": (SoftmaxRegression, {"l1_ratio": 1.0}),
    "softmax": (SoftmaxRegression, {"l1_ratio": 0.5}),
    "l1 ball": (L1BallClassifier, {"radius": 10.0}),
    "trace ball": (TraceBallClassifier, {"radius": 10.0}),
    "l1 ball hinge": (L1BallClassifier, {"radius": 10.0, "loss": "crammer_singer"}),
    "trace ball hinge": (TraceBallClassifier, {"radius": 10.0, "loss": "weston_watkins"}),
}
NAMES = [(kind, name) for kind in MADE for name in SOLVERS[kind]]
# Rows, features, classes: the certificate takes a small part of the budget, a step or a start several budgets.
SHORT = {
    ("softmax ridge", "newton"): (3000, 100, 20),
    ("softmax ridge", "newton_cg"): (1500, 1000, 5),
    ("softmax ridge", "dual_descent"): (2000, 200, 50),
    ("softmax l1", "interior_point"): (2000, 500, 20),
    ("softmax", "block_prox_gradient"): (2000, 200, 50),
    ("linear squared_hinge", "newton"): (3000, 600, 4),
    ("kernel squared_hinge", "dual_prox_gradient"): (4000, 100, 4),
    ("kernel hinge", "block_descent"): (3000, 50, 60),
    ("kernel hinge", "projected_gradient"): (3000, 50, 20),
    ("trace ball", "svrg"): (2000, 100, 80),
    ("trace ball", "newton"): (3000, 1000, 2),
}
LONG = {
    "linear hinge": (20_000, 300, 100),
    "linear squared_hinge": (10_000, 1000, 10),
    "kernel hinge": (10_000, 100, 20),
    "kernel hinge with a free bias": (10_000, 100, 5),
    "sampled kernel": (10_000, 100, 20),
    "kernel squared_hinge": (8000, 100, 5),
    "softmax ridge": (20_000, 300, 20),
    "softmax l1": (20_000, 300, 20),
    "softmax": (20_000, 300, 20),
    "l1 ball": (20_000, 1000, 20),
    "trace ball": (10_000, 1000, 300),
    "l1 ball hinge": (20_000, 1000, 20),
    "trace ball hinge": (10_000, 1000, 300),
}
# Wolfe's method holds the kernel matrix of all samples, once for every class, and refuses more than its cache.
# Newton's method over a ball needs two classes.
OWN = {("sampled kernel", "wolfe"): (5000, 100, 2), ("trace ball", "newton"): (4000, 1500, 2)}
WITHOUT_INTERCEPT = ("l1 ball", "dual_descent"), ("l1 ball", "primal_dual_bfw"), ("trace ball", "primal_dual_bfw")


def data(n, d, k):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = np.argmax(X @ rng.standard_normal((d, k)) + 2.0 * rng.standard_normal((n, k)), axis=1)
    y[: 2 * k] = np.tile(np.arange(k), 2)
    return X, y


def estimator(kind, name, **more):
    make, settings = MADE[kind]
    more = {"tol": 1e-9, "random_state": 0, **settings, **more}
    if (kind, name) in WITHOUT_INTERCEPT:
        more["fit_intercept"] = False
    return make(solver=name, **more)


def seconds_of(work):
    """Return the seconds of a call: of the wall clock or of the processor, whichever are fewer on a busy machine."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return min(time.perf_counter() - wall, time.process_time() - cpu)


def quietly(make, *args, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make.fit(*args, **more)


def assert_in_time(kind, name, shape, budget):
    n_classes = 2 if name in TWO_CLASSES else shape[2]
    for limit in (None, 10.0):  # compiles, also what only a budget needs, and what only larger problems need
        for n, d in ((60, 5), (100, 40), (300, 70)):
            quietly(estimator(kind, name, max_iter=2, max_seconds=limit), *data(n, d, min(n_classes, 20)))
    X, y = data(*shape[:2], n_classes)
    fitted = estimator(kind, name, max_seconds=budget)
    assert seconds_of(lambda: quietly(fitted, X, y)) <= 1.1 * budget + 0.5
    assert fitted.status_ in ("max_seconds", "converged")  # a fast machine needs no budget
    assert np.isfinite(fitted.certificate_.primal)
    assert fitted.predict(X[:5]).shape == (5,)


@pytest.mark.parametrize(("kind", "name"), SHORT)
def test_a_budget_ends_long_steps_and_starts(kind, name):
    assert_in_time(kind, name, SHORT[kind, name], BUDGET)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, name in NAMES if name != "qp"])
def test_a_budget_holds_for_every_solver(kind, name):
    """All but the quadratic program, for which these problems are too large."""
    assert_in_time(kind, name, OWN.get((kind, name), LONG[kind]), 2.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "shape", "budget"),
    [
        ("softmax ridge", (4000, 3000, 4), 2.0),
        ("softmax ridge", (3000, 100, 1500), 2.0),
        ("softmax ridge", (10_000, 100, 5000), 10.0),
        ("softmax", (10_000, 100, 5000), 10.0),
        ("kernel hinge", (3000, 50, 1500), 2.0),
        ("trace ball", (5000, 2000, 1000), 10.0),
    ],
)
def test_a_budget_holds_for_many_classes_and_features(kind, shape, budget):
    assert_in_time(kind, "auto", shape, budget)


def test_a_budget_limits_the_rows_whose_features_are_computed():
    X, y = data(6000, 20, 2)
    fitted = quietly(KernelSVC(approximation="nystroem", n_components=100, max_seconds=1e-3), X, y)
    assert (fitted.status_, fitted.certificate_.kind) == ("max_seconds", "sample gap")


WARM = BallPoint(np.zeros((1, 1)), np.zeros(1))


class Ticking:
    """A problem whose points count steps; zero is 0."""

    kind = "ticking"

    def __init__(self):
        self.asked = []

    def certificate(self, point):
        assert not is_time_up()  # certificates have no deadline
        self.asked.append(point)
        return Certificate("duality gap", 2.0, 1.0, 0.5)

    def zero(self):
        return 0

    def fingerprint(self):
        return "ticking"


class Slow:
    """A solver whose start or whose fifth step notices the deadline."""

    needs = ()

    def __init__(self, slow_start=False):
        self.slow_start = slow_start

    def start(self, problem, init, rng):
        if self.slow_start:
            self.wait()
        return init or 0

    def step(self, problem, state):
        if state == 4:
            self.wait()
        time.sleep(0.01)
        return state + 1

    def wait(self):
        while True:
            time.sleep(0.002)
            check_time()

    def point(self, problem, state):
        return state

    def estimate(self, problem, state):
        return np.inf


class Growing:
    """A problem whose points are whole numbers; a certificate takes the square of one in seconds."""

    kind = "growing"

    def __init__(self, clock):
        self.clock = clock

    def certificate_work(self, point):
        return 0.0 if point is None else float(point**2)

    def certificate(self, point):
        self.clock.now += point**2
        return Certificate("duality gap", 2.0, 1.0, 0.5)

    def zero(self):
        return 0


class Steps(Slow):
    """A solver that goes from number to number, a second each."""

    def __init__(self, numbers):
        self.numbers = numbers

    def start(self, problem, init, rng):
        return 0

    def step(self, problem, state):
        problem.clock.now += 1.0
        return state + 1

    def point(self, problem, state):
        return self.numbers[state - 1]


@pytest.mark.parametrize(
    ("numbers", "point"),
    [(range(1, 100), 9), ([1, 2, 3, 80, 81], 3)],
    ids=["little by little", "all at once"],
)
def test_a_run_stops_while_the_certificate_of_its_point_fits(numbers, point, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(clocks, "time", clock)
    monkeypatch.setattr(budget, "time", clock)
    result = solve(Growing(clock), Steps(numbers), stop=Stop(max_seconds=100.0))
    assert (result.point, result.status) == (point, Status.MAX_SECONDS)
    assert clock.now <= 110.0


class Hasty(Growing):
    """A problem whose certificate needs no bound; the second one has no time for it."""

    can_skip_bound = True

    def certificate_work(self, point):
        return 1.0

    def certificate(self, point):
        self.clock.now += 60.0 if point == 1 else 300.0
        return (
            Certificate("Frank-Wolfe gap", 2.0, 0.0, 1.0)
            if is_time_up()
            else Certificate("Frank-Wolfe gap", 4.0, 1.0, 0.75)
        )


def test_a_bound_that_was_proven_is_kept_where_the_last_one_has_no_time(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(clocks, "time", clock)
    monkeypatch.setattr(budget, "time", clock)
    result = solve(Hasty(clock), Steps(range(1, 100)), stop=Stop(max_seconds=200.0))
    assert len(result.trace) == 2
    assert result.certificate[:4] == ("Frank-Wolfe gap", 2.0, 1.0, 0.5)


class Ticks:
    """A clock that moves whenever it is read."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        self.now += 1.0
        return self.now


PROBLEMS = {
    "ridge": lambda X, y: softmax_problem(X, y, penalty=L2(1.0)),
    "l1": lambda X, y: softmax_problem(X, y, penalty=L1(1.0)),
    "not convex": lambda X, y: softmax_problem(X, y, penalty=MCP(1.0)),
    "l1 ball": lambda X, y: Constrained(
        X, one_hot(y), loss=ENTRYWISE["smooth_hinge"], ball=L1Ball(3.0), fit_intercept=True
    ),
    "trace ball": lambda X, y: Constrained(X, one_hot(y), loss=ENTRYWISE["logistic"], ball=TraceBall(3.0), l2=0.1),
}


def one_hot(y):
    return np.where(y[:, None] == np.arange(y.max() + 1), 1.0, -1.0)


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_certificate_that_runs_out_of_time_is_valid(name, monkeypatch):
    """Wherever it stops, the primal value is the same, and the bound is none or a lower bound of the optimum."""
    problem = PROBLEMS[name](*data(60, 4, 3))
    point = problem.zero()
    point = point._replace(weights=point.weights + 0.1 * np.random.default_rng(0).standard_normal(problem.shape))
    optimum = solve(problem, find_solver("auto", problem), stop=Stop(1e-6)).certificate
    whole = problem.certificate(point)
    monkeypatch.setattr(clocks, "time", Ticks())
    bounds = []
    for seconds in range(60):
        with deadline(float(seconds)):
            cut = problem.certificate(point)
        assert (cut.kind, cut.primal) == (whole.kind, whole.primal)
        assert cut.bound <= optimum.primal
        bounds.append(cut.bound)
    assert bounds[0] in (0.0, -np.inf)
    assert bounds[-1] == whole.bound


@pytest.mark.parametrize("init", [BallPoint(np.zeros((4, 3)), np.zeros(3)), [1, 2], [None]])
def test_a_first_point_of_another_problem_is_refused(init):
    X, y = data(30, 4, 3)
    for estimator_, words in (
        (LinearSVC(), "DualPoint"),
        (LinearSVC(multiclass="one_vs_rest"), "each of its 3 classes"),
    ):
        problem = estimator_._pose(estimator_._checked(X, y, None)).problem
        with pytest.raises(SoftmarginError, match=words):
            solve(problem, find_solver("auto", problem), init=init)


def test_a_step_that_is_given_up_leaves_the_point_before_it():
    result = solve(Ticking(), Slow(), stop=Stop(max_seconds=0.15))
    assert (result.point, result.n_iter, result.status) == (4, 4, Status.MAX_SECONDS)


@pytest.mark.parametrize(("init", "point"), [(None, 0), (WARM, WARM)])
def test_a_start_that_is_given_up_leaves_the_first_point(init, point):
    result = solve(Ticking(), Slow(slow_start=True), stop=Stop(max_seconds=0.05), init=init)
    assert result.point is point
    assert (result.n_iter, result.status) == (0, Status.MAX_SECONDS)


def test_without_a_deadline_no_clock_is_read(monkeypatch):
    monkeypatch.setattr(clocks, "time", None)
    check_time()
    check_time(1e300)
    assert has_time_for(1e300)
    assert not is_time_up()
    with share_of_time(0.5):
        assert alarm()[0] == 0


def test_deadlines_nest_and_belong_to_their_thread(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(clocks, "time", clock)
    with deadline(10.0):
        with share_of_time(0.5):
            clock.now += 6.0
            assert is_time_up()
        assert not is_time_up()
        seen = []
        other = threading.Thread(target=lambda: seen.append(is_time_up()))
        clock.now += 5.0
        other.start()
        other.join()
        assert seen == [False]
        with pytest.raises(OutOfTime):
            check_time()
    check_time()


def test_work_that_takes_longer_than_the_time_left_is_not_begun():
    with deadline(1.0):
        assert has_time_for(1e3)
        with pytest.raises(OutOfTime):
            check_time(1e15)


def test_short_work_is_in_time_without_a_probe_of_blas(monkeypatch):
    monkeypatch.setattr(clocks, "_blas_speed", lambda: pytest.fail("BLAS was timed"))
    with deadline(10.0):
        check_time(1e9)


def test_a_factor_counts_the_multiplications_that_it_makes(monkeypatch):
    """Column j takes j multiplications for each entry at and below the diagonal; float32 goes twice as fast."""
    n = 300
    made = sum(j * (n - j) for j in range(n))
    assert factor_work(n) == pytest.approx(made, rel=0.01)
    assert factor_work(n, np.float32) == factor_work(n) / 2.0
    monkeypatch.setattr(clocks, "_blas_speed", lambda: 1e9)
    monkeypatch.setattr(clocks, "time", Clock())
    n = 3000  # 4.5 s at this speed
    with deadline(5.0):
        check_time(factor_work(n))
    with deadline(4.0), pytest.raises(OutOfTime):
        check_time(factor_work(n))


def test_a_certificate_is_evaluated_once_a_quarter_of_the_time_is_spent(monkeypatch):
    """Before, half of the time is kept for it; then what it takes is known, and the rest is for steps."""
    clock = Clock()
    monkeypatch.setattr(budget, "time", clock)
    monkeypatch.setattr(clocks, "time", clock)

    class Blind(Slow):
        def step(self, problem, state):
            clock.now += 1.0
            return state + 1

        def estimate(self, problem, state):
            return 1.0

    problem = Ticking()
    result = solve(problem, Blind(), stop=Stop(max_seconds=20.0))
    assert result.trace[0].iteration == 6
    assert result.n_iter == 20
    unlimited = solve(Ticking(), Blind(), stop=Stop(max_iter=16))
    assert [row.iteration for row in unlimited.trace] == [16]


def test_the_alarm_rings_while_a_compiled_loop_runs():
    with deadline(0.05):
        flag = alarm()
        assert flag[0] == 0
        time.sleep(0.3)
        assert flag[0] == 1
    assert alarm()[0] == 0


def test_an_alarm_follows_the_clock_of_its_deadline(monkeypatch):
    """Benchmarks count the seconds of the processor, which pass more slowly."""
    real = time.perf_counter
    monkeypatch.setattr(time, "perf_counter", lambda: real() / 8.0)
    with deadline(0.02):
        flag = alarm()
        time.sleep(0.05)
        assert flag[0] == 0
        time.sleep(0.3)
        assert flag[0] == 1


def test_little_time_is_kept_for_a_kernel_certificate():
    """Its work is known as soon as there is a point: cached values cost the sum alone."""
    X, y = blobs(200, 4, 3, seed=0)
    problem = KernelMulticlassSVM(Gram(Rbf(1.0), X), y)
    point, clock = problem.point(problem.loss.at_zero_scores(problem.y, problem.C, 3)), budget.Clock(20.0, problem)
    assert clock.left() < 11.0
    clock.expect(point)
    unknown = clock.work
    assert clock.left() > 19.0
    problem.gram.keep(np.arange(200))
    clock.expect(point)
    assert clock.work < unknown / 10.0


def test_budgets_cost_one_thread_and_not_one_a_fit(monkeypatch):
    monkeypatch.setattr(clocks, "_BELL", clocks._Bell())
    began, before = [], set(threading.enumerate())
    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda thread: (began.append(thread), start(thread)))
    X, y = blobs(60, 4, 3, seed=0)
    for max_seconds in (1e4, 2e4, 1e3):
        result = solve(MulticlassSVM(X, y), DualBlockDescent(), stop=Stop(1e-9, max_seconds=max_seconds), rng=0)
        assert result.n_iter > 10
    assert len(began) == 1
    assert not clocks._BELL.watched
    began[0].join(timeout=5.0)
    assert not (set(threading.enumerate()) - before)


def test_one_thread_sets_the_alarms_of_all_deadlines(monkeypatch):
    """It is woken for a deadline that comes before those it waits for; one that is given up sets no alarm."""
    monkeypatch.setattr(clocks, "_BELL", clocks._Bell())
    given_up = deadline(0.1)
    with given_up:
        never = alarm()
    with deadline(0.6):
        last = alarm()
        time.sleep(0.05)
        with deadline(0.05):
            first = alarm()
            time.sleep(0.2)
            assert (first[0], last[0], never[0]) == (1, 0, 0)
        time.sleep(0.6)
        assert (last[0], never[0]) == (1, 0)


def test_a_budget_that_is_not_reached_changes_no_bit():
    X, y = data(200, 8, 4)
    for kind, name in list(SHORT)[2:8]:
        fits = [quietly(estimator(kind, name, max_iter=4, max_seconds=limit), X, y) for limit in (None, 1e6)]
        assert fits[0].certificate_ == fits[1].certificate_


def test_the_intercept_of_many_classes_needs_no_eigenvalues(monkeypatch):
    """Both ways give the same step, up to a common shift, and the same fall."""
    rng = np.random.default_rng(0)
    n, k = 300, 40
    y, C = np.concatenate([np.arange(k), rng.integers(0, k, n - k)]), rng.random(n)
    scores = 2.0 * rng.standard_normal((n, k))
    scores[np.arange(n), y] += 3.0
    P, mass = multinomial.softmax(scores), np.bincount(y, weights=C, minlength=k)
    step, fall = multinomial.intercept_step(P, C, mass)
    monkeypatch.setattr(multinomial, "MANY", 2)
    other, same = multinomial.intercept_step(P, C, mass)
    np.testing.assert_allclose(other - other.mean(), step - step.mean(), atol=1e-8)
    assert same == pytest.approx(fall, rel=1e-8)


SCALES = {
    "X * 1e150": {"X": 1e150},
    "X * 1e200": {"X": 1e200},
    "X * 1e300": {"X": 1e300},
    "X * 1e-300": {"X": 1e-300},
    "weights 1e300": {"weight": 1e300},
    "weights 1e-300": {"weight": 1e-300},
    "class weight 1e300": {"class_weight": {0: 1e300}},
    "C 1e300": {"C": 1e300},
    "C 1e-300": {"C": 1e-300},
}


def outcome(make, X, y, weight):
    """Return the status of a fit, or "refused"; raw errors and NumPy's warnings are failures."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        try:
            return make.fit(X, y, sample_weight=weight).status_
        except SoftmarginError:
            return "refused"


def absurd(kind, name, case):
    scale = SCALES[case]
    X, y = data(30, 4, 2 if name in TWO_CLASSES else 3)
    more = {key: scale[key] for key in ("class_weight", "C") if key in scale}
    if "C" in more and "ball" in kind:
        return
    weight = np.full(30, scale["weight"]) if "weight" in scale else None
    assert outcome(estimator(kind, name, max_iter=20, **more), X * scale.get("X", 1.0), y, weight)


@pytest.mark.parametrize("case", SCALES)
@pytest.mark.parametrize("kind", MADE)
def test_absurd_scales_end_at_once(kind, case):
    absurd(kind, "auto", case)


@pytest.mark.slow
@pytest.mark.parametrize("case", SCALES)
@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_absurd_scales_end_at_once_for_every_solver(kind, name, case):
    absurd(kind, name, case)


@pytest.mark.parametrize("values", [[1e160, 2e160, 3e160], [1e200, 2e200, 3e200], [1e90, 2e90, 3e90]])
def test_a_path_of_huge_values_ends(values):
    X = np.array(values)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if values[0] > 1e100:
            with pytest.raises(SoftmarginError, match="Scale the features"):
                softmax_path(X, [0, 1, 1], Cs=3)
        else:
            softmax_path(X, [0, 1, 1], Cs=3, max_iter=20)


@pytest.mark.parametrize("more", [{"class_weight": {0: 1e300}}, {}])
def test_cross_validation_on_absurd_weights_ends(more):
    X, y = data(30, 4, 2)
    model = SoftmaxRegressionCV(Cs=3, cv=2, l1_ratios=(1.0,), max_iter=20, **more)
    with pytest.raises(SoftmarginError, match="Lower C or the weights"):
        model.fit(X, y, sample_weight=None if more else np.full(30, 1e300))


def test_absurd_targets_end():
    X, y = data(30, 4, 3)
    assert outcome(L1BallRegressor(max_iter=20), X, y * 1e200, None)
