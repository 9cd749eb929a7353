"""The one loop: budgets, schedule and statuses, mostly on a fake problem with a fake clock."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from helpers import Counter, Fake, make_problem
from softmargin.core.certificate import Certificate, duality_gap, relative_gap
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.core.protocols import BlockDualProblem
from softmargin.core.rounding import Rounded
from softmargin.data import blobs
from softmargin.penalties import L2
from softmargin.problems import MulticlassSVM, OneVsRest, softmax_problem
from softmargin.run import Status, Stop, solve
from softmargin.run.schedule import ScheduleTuning
from softmargin.run.watchers import Checkpoint, load_checkpoint
from softmargin.solvers import DualBlockDescent, EachClass, Lbfgs


def judged_at(result):
    return result.trace.columns()["iteration"]


def test_judge_is_asked_at_powers_of_two_that_the_passes_can_pay(clock):
    result = solve(Fake(clock=clock, price=5.0), Counter(), stop=Stop(max_iter=1000))
    asked, tuning = judged_at(result), ScheduleTuning()
    assert asked == [32, 64, 128, 256, 512, 1000]
    for number, iteration in enumerate(asked[:-1], start=1):
        assert tuning.passes * number <= tuning.share * iteration
    assert result.trace.columns()["seconds"] == asked
    assert (result.seconds, result.certificate_seconds) == (1000.0, 5.0 * len(asked))


@pytest.mark.parametrize(("guess", "end"), [(lambda t: 1.0, 64), (lambda t: 0.0, 2)])
def test_a_run_in_which_no_digit_moves_ends(clock, guess, end):
    result = solve(Fake(clock=clock, drift=0.0), Counter(guess=guess), stop=Stop(max_iter=1000))
    assert (result.status, result.n_iter) == (Status.STALLED, end)


@pytest.mark.parametrize(("wave", "status"), [(1e-15, Status.STALLED), (1e-9, Status.MAX_ITER)])
def test_last_digits_that_come_and_go_are_no_move(clock, wave, status):
    problem = Fake(clock=clock)
    problem.certificate = lambda point: duality_gap(Rounded(2.0 * (1.0 + wave * math.sin(point))), Rounded(1.0))
    assert solve(problem, Counter(guess=lambda t: 1.0), stop=Stop(max_iter=1000)).status is status


def test_judge_is_asked_after_the_first_pass_of_a_solver_without_an_estimate(clock):
    result = solve(Fake(clock=clock), Counter(lambda t: math.inf), stop=Stop(max_iter=100))
    assert judged_at(result) == [1, 64, 100]


def test_judge_is_asked_when_the_estimate_says_so(clock):
    """At once when the estimate falls below tol; after a refusal only when it has fallen by 30 % more."""
    guess = dict.fromkeys(range(10, 20), 9e-4) | dict.fromkeys(range(20, 25), 7e-4) | dict.fromkeys(range(25, 30), 6e-4)
    result = solve(Fake(clock=clock), Counter(lambda t: guess.get(t, 1.0)), stop=Stop(1e-3, 31))
    assert judged_at(result) == [10, 25, 31]


def test_convergence_is_the_judges_word(clock):
    """An estimate of zero does not end a run; a certificate that meets the tolerance does."""
    result = solve(Fake(lambda t: 1e-4 if t >= 6 else 1.0, clock=clock), Counter(lambda t: 0.0), stop=Stop(1e-3))
    assert (result.status, result.n_iter) == (Status.CONVERGED, 6)
    never = solve(Fake(clock=clock), Counter(lambda t: 0.0), stop=Stop(1e-3, 9))
    assert never.status is Status.MAX_ITER


def test_run_ends_at_a_share_of_its_first_gap(clock):
    """The rule of paper 004: DG^t <= delta DG^1, with a certificate after every pass; tol comes first."""
    problem = Fake(lambda t: 0.5 ** max(t, 2), clock=clock)
    result = solve(problem, Counter(), stop=Stop(0.0, 99, decay=0.125))
    assert (result.status, judged_at(result)) == (Status.DECAYED, [1, 2, 3, 4, 5])
    assert solve(problem, Counter(), stop=Stop(0.125, 99, decay=0.125)).status is Status.CONVERGED
    assert solve(problem, Counter(), stop=Stop(0.0, 3, decay=0.125)).status is Status.MAX_ITER


def test_stationarity_decays_too():
    """Where there is no bound, the residual stands for the gap."""
    X, y = blobs(40, 3, 3, seed=0)
    problem = softmax_problem(X, y, penalty=L2(0.0))
    result = solve(problem, Lbfgs(), stop=Stop(0.0, 500, decay=0.1))
    residuals = result.trace.columns()["residual"]
    assert result.status is Status.DECAYED
    assert residuals[-1] <= 0.1 * residuals[0] < min(residuals[:-1])


def test_decay_goes_on_after_a_checkpoint(tmp_path):
    problem, solver, stop = make_problem("blobs"), DualBlockDescent(), Stop(0.0, 500, decay=1e-3)
    whole = solve(problem, solver, stop=stop, rng=0)
    assert whole.status is Status.DECAYED
    cut = stop._replace(max_iter=2)
    solve(problem, solver, stop=cut, rng=0, watchers=[Checkpoint(tmp_path / "run")])
    rest = solve(problem, solver, stop=stop, resume=load_checkpoint(tmp_path / "run", solver))
    assert (rest.status, rest.n_iter, rest.certificate) == (Status.DECAYED, whole.n_iter, whole.certificate)
    other = stop._replace(tol=1e-12)
    assert solve(problem, solver, stop=other, resume=load_checkpoint(tmp_path / "run", solver)).n_iter == whole.n_iter
    solve(problem, solver, stop=Stop(0.0, 2), rng=0, watchers=[Checkpoint(tmp_path / "plain")])
    with pytest.raises(IncompatibleError, match="does not hold the gap of its first pass"):
        solve(problem, solver, stop=stop, resume=load_checkpoint(tmp_path / "plain", solver))


@pytest.mark.parametrize("budget", [{"max_iter": 0}, {"max_seconds": 0.0}])
def test_no_budget_still_returns_a_judged_point(budget):
    problem = make_problem("blobs")
    result = solve(problem, DualBlockDescent(), stop=Stop(**budget))
    assert result.n_iter == 0
    assert result.status.value in budget
    assert result.certificate == problem.certificate(result.point)
    assert result.certificate.primal == pytest.approx(100.0)


def test_time_budget_counts_the_judge(clock):
    result = solve(Fake(clock=clock, price=4.0), Counter(), stop=Stop(max_iter=1000, max_seconds=50.0))
    assert result.status is Status.MAX_SECONDS
    # Certificates after 13 seconds, which tells how long one takes, and after 32 steps, and time kept for the last.
    assert (judged_at(result), result.n_iter) == ([13, 32, 38], 38)


def test_every_status_says_what_to_do():
    sentences = {status.sentence for status in Status}
    assert len(sentences) == len(Status) == 9
    assert all(sentence.endswith(".") and len(sentence) > 20 for sentence in sentences)


@pytest.mark.parametrize("first", [1, 3, 4])
def test_not_a_number_is_a_failure(first, clock):
    """Wherever it is found: at a scheduled certificate, or only at the last one."""
    problem = Fake(clock=clock)
    problem.certificate = lambda point: duality_gap(Rounded(math.nan if point >= first else 1.0), Rounded(0.0))
    assert solve(problem, Counter(), stop=Stop(max_iter=max(first, 3))).status is Status.FAILED


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
def test_data_that_are_no_modest_numbers_are_refused(value):
    X, y = blobs(20, 3, 3, seed=0)
    X[4, 1] = value
    with pytest.raises(DataError, match="sample 4 has squared length"):
        solve(MulticlassSVM(X, y), DualBlockDescent())


def test_solver_for_another_problem_is_refused():
    assert isinstance(make_problem("blobs"), BlockDualProblem)
    message = "DualBlockDescent needs a BlockDualProblem; Fake is not one. Use a solver made for this problem"
    with pytest.raises(IncompatibleError, match=message):
        solve(Fake(), DualBlockDescent())


@pytest.mark.parametrize("setting", ["tol", "max_iter", "max_seconds", "decay"])
@pytest.mark.parametrize("value", [-2, math.nan])
def test_senseless_budgets_are_refused(setting, value):
    with pytest.raises(IncompatibleError, match=f"{setting} must be .*; found {value}"):
        Stop(**{setting: value}).checked()


def test_budgets_that_equal_the_defaults_are_checked_by_their_types():
    assert Stop().checked() == Stop()
    assert type(Stop(tol=np.float64(1e-3)).checked().tol) is float
    for strange in (Stop(max_iter=10_000.0), Stop(decay=False)):  # type: ignore[arg-type]
        assert strange == Stop()
        with pytest.raises(IncompatibleError):
            strange.checked()


@pytest.mark.parametrize(
    ("primal", "bound", "residual", "estimate"),
    [
        (0.0, 0.0, 0.0, 0.0),
        (1.0, 1.0 + 1e-13, math.nan, 0.0),  # a bound above the primal value contradicts weak duality
        (2.0, 1.0, 0.5, 0.5),
        (-2.0, -3.0, 0.5, 0.5),
        (1.0, -math.inf, math.inf, math.inf),
        (math.nan, 0.0, math.nan, math.nan),
        (1.0, math.nan, math.nan, math.nan),
        (math.inf, 0.0, math.inf, math.nan),
    ],
)
def test_relative_gap_of_every_pair(primal, bound, residual, estimate):
    certificate = duality_gap(Rounded(primal), Rounded(bound))
    assert certificate.residual == pytest.approx(residual, nan_ok=True)
    assert certificate.meets(1e-3) == (residual == 0.0)
    assert relative_gap(primal, bound) == pytest.approx(estimate, nan_ok=True)


def test_errors_widen_the_gap_and_rounding_tells_their_share():
    certificate = duality_gap(Rounded(2.0, 0.25), Rounded(2.0, 0.5))
    assert certificate.primal == pytest.approx(2.25)
    assert certificate.bound == pytest.approx(1.5)
    assert certificate.residual == pytest.approx(0.75 / 2.25)
    assert certificate.rounding == pytest.approx(0.75 / 2.25)


def test_rounding_above_the_tolerance_is_a_status_of_its_own(clock):
    problem = Fake(clock=clock)
    problem.certificate = lambda point: duality_gap(Rounded(1.0, 1e-6), Rounded(1.0 - 0.5**point, 1e-6))
    assert solve(problem, Counter(), stop=Stop(1e-4, max_iter=99)).status is Status.CONVERGED
    result = solve(problem, Counter(), stop=Stop(1e-9, max_iter=99))
    assert result.status is Status.ROUNDING
    assert result.certificate.residual - result.certificate.rounding <= 1e-9 < result.certificate.rounding


@pytest.mark.parametrize(("stop", "early"), [(Stop(1e-3, 100), []), (Stop(1e-3, max_seconds=100.0), [26])])
def test_a_run_that_ends_early_returns_its_best_judged_point(stop, early, clock):
    """Judged after 32, 64 and the last step, and after a quarter of a budget: the gap is least after 64, and rises."""
    problem = Fake(lambda t: 0.1 + 1e-3 * abs(t - 60), clock=clock)
    result = solve(problem, Counter(), stop=stop)
    assert judged_at(result) == [*early, 32, 64, result.n_iter]
    assert result.n_iter >= 99
    assert (result.point, result.certificate) == (64, problem.certificate(64))


def test_a_later_point_as_good_as_the_best_is_returned(clock):
    assert solve(Fake(lambda t: 0.1, clock=clock), Counter(), stop=Stop(1e-3, 100)).point == 100


def test_of_samples_the_last_point_is_returned(clock):
    """Other samples are other problems: their gaps are not compared."""
    problem = Fake(clock=clock)
    problem.certificate = lambda point: Certificate("sample gap", 1.0, 0.9, 0.1 + 1e-3 * point)
    assert solve(problem, Counter(), stop=Stop(1e-3, 100)).point == 100


def test_a_better_point_does_not_hide_a_failure(clock):
    problem = Fake(clock=clock)
    problem.certificate = lambda point: duality_gap(Rounded(1.0 + point if point < 100 else math.nan), Rounded(0.0))
    result = solve(problem, Counter(), stop=Stop(1e-3, 100))
    assert (result.status, result.point) == (Status.FAILED, 100)


@dataclass(frozen=True)
class Spoiling(DualBlockDescent):
    """Block descent whose points get worse after the third step; it asks for every certificate."""

    def start(self, problem, init, rng):
        return replace(super().start(problem, init, rng), screened=0.0)

    def step(self, problem, state):
        state.screened += 1.0  # of no use where nothing is screened: it counts steps here
        return super().step(problem, state)

    def point(self, problem, state):
        found = super().point(problem, state)
        return found._replace(weights=max(1.0, state.screened - 2.0) * found.weights)

    def estimate(self, problem, state):
        return 1e-9 * 0.5**state.screened


def blobs_of_three():
    X, y = blobs(50, 5, 3, seed=3)
    return OneVsRest([MulticlassSVM(X, y == c, n_classes=2) for c in range(3)])


@pytest.mark.parametrize("cut", [5, 9])
@pytest.mark.parametrize(
    ("make", "solver"),
    [(lambda: make_problem("blobs"), Spoiling()), (blobs_of_three, EachClass(Spoiling()))],
    ids=["joint", "one-vs-rest"],
)
def test_a_checkpoint_holds_the_best_point(make, solver, cut, tmp_path):
    stop = Stop(1e-9, 12)
    whole = solve(make(), solver, stop=stop, rng=0)
    best = min(whole.trace, key=lambda row: row.certificate.residual)
    assert best.iteration < cut
    assert best.certificate == whole.certificate != whole.trace[-1].certificate
    solve(make(), solver, stop=stop._replace(max_iter=cut), rng=0, watchers=[Checkpoint(tmp_path / "run")])
    rest = solve(make(), solver, stop=stop, resume=load_checkpoint(tmp_path / "run", solver))
    assert rest.certificate == whole.certificate == make().certificate(rest.point)


def test_a_checkpoint_that_promises_too_much_is_not_believed(tmp_path):
    problem, solver, stop = make_problem("blobs"), Spoiling(), Stop(1e-9, 12)
    solve(problem, solver, stop=stop._replace(max_iter=9), rng=0, watchers=[Checkpoint(tmp_path / "run")])
    saved = load_checkpoint(tmp_path / "run", solver)
    arrays, certificate = saved.best
    bold = saved._replace(best=(arrays, certificate._replace(bound=certificate.primal, residual=0.0)))
    result = solve(problem, solver, stop=stop, resume=bold)
    assert result.certificate == problem.certificate(result.point)
    assert result.certificate.residual > 1e-9
