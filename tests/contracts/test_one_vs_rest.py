"""One-vs-rest: one certificate for all classes, no class forgotten, and runs that repeat, go on and start warm."""

import io
from dataclasses import dataclass
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from scipy.sparse import csr_matrix, hstack
from sklearn.preprocessing import normalize

from helpers import make_problem
from reference.kernel_optimum import kernel_optimum
from reference.l2_optimum import l2_optimum
from reference.optimum import svm_optimum
from softmargin.backends.lanes import WIDTH
from softmargin.core.errors import IncompatibleError, ModelFileError
from softmargin.data import blobs
from softmargin.estimators.posing.auto import find_solver
from softmargin.kernels import Linear, Rbf
from softmargin.matrices.gram import Gram
from softmargin.problems import L2SVM, HingeSVM, KernelMulticlassSVM, MulticlassSVM, OneVsRest
from softmargin.problems.free_bias import BiasPoint
from softmargin.run import Status, Stop, solve
from softmargin.run.progress import ProgressBar
from softmargin.run.watchers import Checkpoint, load_checkpoint
from softmargin.solvers import (
    DualBlockDescent,
    DualProxGradient,
    EachClass,
    KernelBlockDescent,
    OneVsRestDescent,
    PrimalNewton,
    ProjectedGradient,
    Smo,
    SquaredHingeDescent,
)
from softmargin.solvers.squared_hinge._descent_state import active_in
from softmargin.solvers.squared_hinge.dual_descent import DescentTuning
from softmargin.testing import check_run

SOLVERS = {  # the binary solver, and the problem it is for
    "descent": (DualBlockDescent(), "linear hinge"),
    "kernel descent": (KernelBlockDescent(), "kernel hinge"),
    "kernel gradient": (ProjectedGradient(), "kernel hinge"),
    "newton": (PrimalNewton(), "linear squared"),
    "squared descent": (SquaredHingeDescent(), "linear squared"),
    "smo": (Smo(), "kernel squared"),
    "gradient": (DualProxGradient(), "kernel squared"),
}
KINDS = ("linear hinge", "kernel hinge", "linear squared", "kernel squared")
every_solver = pytest.mark.parametrize("name", SOLVERS)
every_kind = pytest.mark.parametrize("kind", KINDS)


def make(kind, *, C=0.5, scale=1.0, cache_size=100.0, seed=0):
    """Build three binary problems on overlapping classes, one of them small: it is the easiest, and soon far ahead."""
    X, y = blobs(90, 4, 3, seed=seed, separation=1.0)
    kept = (y != 2) | (np.arange(len(y)) % 4 == 0)
    X, y = X[kept], y[kept]
    gram = Gram(Linear() if kind.startswith("linear") else Rbf(0.3), X, cache_size=cache_size)
    own = [y == c for c in range(3)]
    if kind == "linear hinge":
        parts = [MulticlassSVM(X, mine, C=C, n_classes=2, bias=1.0) for mine in own]
    elif kind == "kernel hinge":
        parts = [KernelMulticlassSVM(gram, mine, C=C, n_classes=2) for mine in own]
    else:
        parts = [L2SVM(gram, 2.0 * mine - 1.0, C=C) for mine in own]
    return OneVsRest(parts, scale=scale)


def optimum(part):
    """Return the least primal value of one class, by CVXPY."""
    if isinstance(part, MulticlassSVM):
        return svm_optimum(part)
    K = part.gram.rows(np.arange(part.gram.n))
    if isinstance(part, KernelMulticlassSVM):
        return kernel_optimum(K, part.y, part.C, part.multiclass, 2)
    return l2_optimum(K, part.y, part.C).value


def fit(problem, solver, *, tol=1e-6, max_iter=20_000, rng=0, **more):
    return solve(problem, EachClass(solver), stop=Stop(tol, max_iter), rng=rng, **more)


def alphas(result):
    return np.concatenate([point.alpha.ravel() for point in result.point])


# --- the judge -----------------------------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_the_certificate_is_the_sum_of_the_parts(kind, scale):
    problem = make(kind, scale=scale)
    rng = np.random.default_rng(0)
    point = [
        part.point(part.feasible(rng.standard_normal((len(part.y), 2)) if "hinge" in kind else rng.random(len(part.y))))
        for part in problem.parts
    ]
    mine = [part.certificate(each) for part, each in zip(problem.parts, point, strict=True)]
    found = problem.certificate(point)
    assert found.primal == pytest.approx(scale * sum(each.primal for each in mine), rel=1e-14)
    assert found.bound == pytest.approx(scale * sum(each.bound for each in mine), rel=1e-14)
    assert found.residual == pytest.approx((found.primal - found.bound) / found.primal, rel=1e-14)
    assert min(each.residual for each in mine) <= found.residual <= max(each.residual for each in mine)


@pytest.mark.parametrize("loss", [L2SVM, HingeSVM])
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("form", [np.asarray, csr_matrix], ids=["array", "csr"])
def test_weights_of_their_own_are_certified_together_as_one_by_one(loss, has_bias, form, monkeypatch):
    """Their products with X are shared, some classes at a time; the dual points are feasible or not."""
    rng = np.random.default_rng(0)
    gram, n, k = Gram(Linear(), form(rng.standard_normal((40, 6)))), 40, 5
    parts = [
        loss(gram, np.where(np.arange(n) % k == c, 1.0, -1.0), C=rng.random(n), has_bias=has_bias) for c in range(k)
    ]
    points = [BiasPoint(rng.standard_normal(n), 0.3 * c * has_bias, rng.standard_normal(6)) for c in range(k)]
    each = [part.certificate(mine) for part, mine in zip(parts, points, strict=True)]
    for at_once in (1, 2 * n, 1 << 22):
        monkeypatch.setattr("softmargin.problems.margin_models.AT_ONCE", at_once)
        for found, own in zip(loss.certificates_of(parts, points), each, strict=True):
            assert found.primal == pytest.approx(own.primal, rel=1e-12)
            assert found.bound == pytest.approx(own.bound, rel=1e-12, abs=1e-12)
            assert found.rounding == pytest.approx(own.rounding, rel=0.5)


def test_one_class_without_a_proof_leaves_all_without():
    problem = make("kernel squared")
    point = fit(problem, Smo()).point
    point[1] = point[1]._replace(alpha=point[1].alpha * np.nan)
    assert not problem.certificate(point).meets(1e6)


def test_the_fingerprint_tells_every_part():
    prints = {make(kind, C=C).fingerprint() for kind in KINDS for C in (0.5, 0.6)}
    assert len(prints) == 8
    problem = make("linear hinge")
    assert problem.fingerprint() == make("linear hinge").fingerprint()
    assert problem.fingerprint() != OneVsRest(problem.parts[::-1]).fingerprint()


def test_a_single_problem_is_refused():
    with pytest.raises(IncompatibleError, match="EachClass needs a ManyProblems"):
        fit(make_problem("binary"), DualBlockDescent())


# --- the run -------------------------------------------------------------------------------------------------


@every_solver
def test_every_class_reaches_its_optimum_honestly(name):
    solver, kind = SOLVERS[name]
    problem = make(kind, scale=2.0)
    best = [optimum(part) for part in problem.parts]
    result = check_run(EachClass(solver), problem, optimum=2.0 * sum(best))
    for part, mine, least in zip(problem.parts, result.point, best, strict=True):
        own = part.certificate(mine)
        assert own.gap <= 1e-6 * sum(best) * (1 + 1e-6), "a class has more of the gap than all may have"
        assert own.bound <= least * (1 + 1e-8)


@every_solver
def test_when_the_estimate_says_so_every_class_meets_the_tolerance_itself(name):
    solver, kind = SOLVERS[name]
    problem, each, tol = make(kind), EachClass(solver), 1e-5
    state = each.start(problem, None, np.random.default_rng(0))
    for _ in range(5000):
        state = each.step(problem, state)
        if each.estimate(problem, state) <= tol:
            break
    residuals = [
        part.certificate(mine).residual for part, mine in zip(problem.parts, each.point(problem, state), strict=True)
    ]
    # Descent sums the gaps of rows as it meets them, so that its estimate is a guess; those of the others are exact.
    assert max(residuals) <= (2.0 if "descent" in name and "kernel" not in name else 1.01) * tol


CLASS_BY_CLASS = OneVsRestDescent(DescentTuning(slow=0.0))  # as soon as there is a smaller set


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("k", [1, 5, 260])  # one class alone, two tiles, more tiles than a word has bits
def test_classes_that_share_their_passes_reach_the_optimum_of_each(k, has_bias):
    rng = np.random.default_rng(k)
    n = 80
    gram = Gram(Linear(), csr_matrix(rng.standard_normal((n, 12)) * (rng.random((n, 12)) < 0.4)))
    y = rng.integers(0, max(k, 2), n)
    # Prices of their own, some of them zero; all classes of k = 260 have the same.
    prices = np.full((n, k), 2.0) if k == 260 else rng.integers(0, 4, (n, k)).astype(float)
    parts = [L2SVM(gram, 2.0 * (y == c) - 1.0, C=prices[:, c], has_bias=has_bias) for c in range(k)]
    problem = OneVsRest(parts)
    result = solve(problem, OneVsRestDescent(), stop=Stop(1e-6, 5000), rng=0)
    assert result.status is Status.CONVERGED
    for part, mine in zip(parts[:5], result.point, strict=False):
        best = solve(part, PrimalNewton(), stop=Stop(1e-10, 100), rng=0).certificate
        own = part.certificate(mine)
        assert best.bound - 1e-12 <= own.primal <= best.primal + 1e-6 * result.certificate.primal


def test_classes_of_other_rows_do_not_share_passes():
    problems = make("linear squared"), make("linear squared", seed=1)
    mixed = OneVsRest([problem.parts[0] for problem in problems])
    with pytest.raises(IncompatibleError, match="needs classes of the same rows"):
        solve(mixed, OneVsRestDescent(), stop=Stop(1e-3, 10), rng=0)


@pytest.mark.parametrize("k", [5, 260])  # two tiles, more tiles than a word has bits
def test_hinges_go_class_by_class_and_squared_hinges_do_not(k):
    rng = np.random.default_rng(k)
    X = csr_matrix(rng.standard_normal((80, 12)) * (rng.random((80, 12)) < 0.4))
    y, gram = rng.integers(0, k, 80), Gram(Linear(), X)
    hinges = OneVsRest([MulticlassSVM(X, y == c, n_classes=2, bias=1.0) for c in range(k)])
    squared = OneVsRest([L2SVM(gram, 2.0 * (y == c) - 1.0) for c in range(k)])
    for problem, is_slow in ((hinges, True), (squared, False)):
        state = CLASS_BY_CLASS.start(problem, None, np.random.default_rng(0))
        for _ in range(4):
            state = CLASS_BY_CLASS.step(problem, state)
        assert state.is_slow == is_slow
    alone, together = (
        solve(hinges, solver, stop=Stop(1e-6, 5000), rng=0) for solver in (CLASS_BY_CLASS, OneVsRestDescent())
    )
    assert alone.status is Status.CONVERGED
    assert alone.certificate.primal == pytest.approx(together.certificate.primal, rel=2e-6)


def test_the_samples_of_a_class_are_those_with_the_bit_of_its_tile():
    live = np.zeros((6, 2), dtype=np.uint64)
    live[[1, 4, 5], 1] = 1  # tile 64
    live[[0, 1], 0] = 1 << 63  # tile 63
    state = SimpleNamespace(order=np.array([4, 0, 1, 5, 2, 3]), n_active=3, live=live.ravel())
    assert active_in(state, 64 * WIDTH).tolist() == [4, 1]
    assert active_in(state, 63 * WIDTH + 1).tolist() == [0, 1]
    assert active_in(state, 0).tolist() == []


@pytest.mark.parametrize("solver", [OneVsRestDescent(), CLASS_BY_CLASS], ids=["together", "class by class"])
@pytest.mark.parametrize("bias", [0.0, 2.0, 100.0])
def test_hinges_that_share_their_passes_and_products_reach_the_optimum_of_each(bias, solver):
    rng = np.random.default_rng(0)
    n, k = 60, 5
    X = csr_matrix(rng.standard_normal((n, 12)) * (rng.random((n, 12)) < 0.4))
    y, C = rng.integers(0, k, n), rng.integers(0, 3, n).astype(float)
    problem = OneVsRest([MulticlassSVM(X, y == c, C=C, n_classes=2, bias=bias) for c in range(k)], scale=2.0)
    best = 2.0 * sum(map(svm_optimum, problem.parts))
    result = check_run(solver, problem, optimum=best)
    each = [part.certificate(mine) for part, mine in zip(problem.parts, result.point, strict=True)]
    assert result.certificate.primal == pytest.approx(2.0 * sum(own.primal for own in each), rel=1e-11)
    assert result.certificate.bound == pytest.approx(2.0 * sum(own.bound for own in each), rel=1e-11)


@dataclass
class Steps:
    t: int = 0


@dataclass(frozen=True)
class Geometric:
    """A solver whose residual is rate^t after t steps, where the problem says the rate."""

    needs: ClassVar = ()

    def start(self, problem, init, rng):
        return Steps()

    def step(self, problem, state):
        return Steps(state.t + 1)

    def point(self, problem, state):
        return state.t

    def estimate(self, problem, state):
        return problem.rate**state.t


def test_a_class_far_ahead_waits_and_then_goes_on():
    problem, each = (
        SimpleNamespace(parts=[SimpleNamespace(rate=rate) for rate in (0.5, 0.01, 0.001)]),
        EachClass(Geometric()),
    )
    state = each.start(problem, None, None)
    n_steps = 0
    while each.estimate(problem, state) > 1e-6:
        state = each.step(problem, state)
        n_steps += 1
    assert n_steps == 20  # 0.5^20 < 1e-6: nobody waits for the slowest
    slow, fast, fastest = (mine.t for mine in state.states)
    assert slow == n_steps
    assert 3 <= fast <= 5  # 0.01^3: as many steps as it needs, and hardly more
    assert 2 <= fastest <= 4


@dataclass(frozen=True)
class Valued(Geometric):
    """The same, with the primal value of the problem."""

    def primal_value(self, problem, state):
        return problem.value


def test_a_class_with_next_to_no_primal_value_waits_though_its_relative_gap_is_large():
    parts = [SimpleNamespace(rate=0.5, value=100.0), SimpleNamespace(rate=0.99, value=1e-3)]
    problem, each = SimpleNamespace(parts=parts), EachClass(Valued())
    state = each.start(problem, None, None)
    for _ in range(10):
        state = each.step(problem, state)
    assert [mine.t for mine in state.states] == [10, 1]
    assert each.estimate(problem, state) == pytest.approx((100.0 * 0.5**10 + 1e-3 * 0.99) / 100.001)


@given(rates=st.lists(st.floats(1e-6, 0.9), min_size=1, max_size=6))
def test_the_worst_class_always_moves_and_all_arrive(rates):
    problem, each = SimpleNamespace(parts=[SimpleNamespace(rate=rate) for rate in rates]), EachClass(Geometric())
    state = each.start(problem, None, None)
    needed = int(np.ceil(np.log(1e-8) / np.log(max(rates)))) + 1
    for _ in range(needed):
        before = [mine.t for mine in state.states]
        worst = int(np.argmax(state.estimates))
        state = each.step(problem, state)
        assert state.states[worst].t == before[worst] + 1
    assert max(state.estimates) <= 1e-8


# --- warm starts and checkpoints -----------------------------------------------------------------------------


@every_solver
def test_a_warm_start_from_other_prices_reaches_the_optimum(name):
    solver, kind = SOLVERS[name]
    problem = make(kind, C=0.1)
    warm = fit(problem, solver, init=fit(make(kind, C=0.5), solver).point)
    assert warm.status is Status.CONVERGED
    assert warm.certificate.primal == pytest.approx(sum(map(optimum, problem.parts)), rel=2e-6)


def test_resumed_run_stops_where_the_whole_run_does(tmp_path):
    """Who waits is part of the checkpoint."""
    problem, solver = make("linear hinge"), DualBlockDescent()
    whole = fit(problem, solver)
    for cut in (1, whole.n_iter // 2, whole.n_iter - 1):
        fit(problem, solver, max_iter=cut, watchers=[Checkpoint(tmp_path / "run")])
        rest = fit(problem, solver, resume=load_checkpoint(tmp_path / "run", EachClass(solver)))
        assert (rest.n_iter, rest.certificate) == (whole.n_iter, whole.certificate)


def test_checkpoint_of_another_binary_solver_or_problem_is_refused(tmp_path):
    fit(make("kernel squared"), Smo(), tol=0.0, max_iter=2, watchers=[Checkpoint(tmp_path / "run")])
    for other in (EachClass(DualProxGradient()), EachClass(PrimalNewton()), Smo()):
        with pytest.raises(ModelFileError, match=r"'Smo'.*go on with the solver that wrote it"):
            load_checkpoint(tmp_path / "run", other)
    saved = load_checkpoint(tmp_path / "run", EachClass(Smo()))
    with pytest.raises(IncompatibleError, match="another problem"):
        fit(make("kernel squared", C=0.6), Smo(), resume=saved)


def test_progress_bar_names_the_binary_solver():
    text = io.StringIO()
    bar = ProgressBar(Console(file=text, force_terminal=True, width=120))
    fit(make("kernel squared"), Smo(), watchers=[bar])
    assert "Smo" in text.getvalue()
    assert "EachClass" not in text.getvalue()


def texts(n_classes, d=320, n=1000):
    """Return rows of length 1 with ten words each, a constant beside them, and classes."""
    rng = np.random.default_rng(0)
    words = csr_matrix((np.ones(10 * n), (np.repeat(np.arange(n), 10), rng.integers(0, d, 10 * n))), shape=(n, d))
    return normalize(words), rng.integers(0, n_classes, n)


@pytest.mark.parametrize(
    ("n_classes", "d", "C", "name"),
    [(3, 320, 1.0, "OneVsRestDescent"), (3, 320, 2.0, "EachClass"), (3, 80, 1.0, "EachClass")],
)
def test_hinges_on_texts_go_to_passes_for_all_classes_where_few_will_do(n_classes, d, C, name):
    X, y = texts(n_classes, d)
    problem = OneVsRest([MulticlassSVM(X, y == c, C=C / 2.0, n_classes=2, bias=1.0) for c in range(n_classes)])
    assert type(find_solver("auto", problem).first).__name__ == name


@pytest.mark.parametrize(
    ("n_classes", "C", "descends"),
    [(2, 0.5, True), (2, 1.0, False), (3, 1.0, True), (3, 1.8, True), (3, 10.0, False), (20, 10.0, True)],
)
def test_squared_hinges_on_texts_go_to_the_dual_where_classes_are_many(n_classes, C, descends):
    """Rows of length 1 and a constant: C |x|^2 = 4 at C = 1; 3.1 rows for a feature."""
    X, y = texts(n_classes)
    gram = Gram(Linear(), hstack([X, np.ones((X.shape[0], 1))]).tocsr())
    classes = range(n_classes) if n_classes > 2 else [1]
    problem = OneVsRest([L2SVM(gram, 2.0 * (y == c) - 1.0, C=2.0 * C, has_bias=False) for c in classes])
    solver = find_solver("auto", problem)
    assert isinstance(getattr(solver, "first", solver), OneVsRestDescent) is descends
