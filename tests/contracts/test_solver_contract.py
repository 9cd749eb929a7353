"""Every solver keeps the contract of ``check_solver``; and the check catches every promise that is broken."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from helpers import LOSS_NAMES, PROBLEM_NAMES, make_problem
from reference import ball_optimum
from softmargin import solvers
from softmargin.data import blobs
from softmargin.kernels import Linear, Rbf
from softmargin.losses.joint import JOINT
from softmargin.matrices.gram import Gram
from softmargin.matrices.pair_gram import PairGram
from softmargin.penalties import L1, L2, Box, ElasticNet, Group
from softmargin.problems import (
    L2SVM,
    HingeSVM,
    KernelHinge,
    KernelMulticlassSVM,
    KernelOneVsOne,
    MulticlassSVM,
    OneVsRest,
    softmax_problem,
)
from softmargin.problems.block_rows import Block, Form
from softmargin.problems.blocks import LocalBlocks
from softmargin.problems.summed import PenalizedSum
from softmargin.solvers import (
    AcceleratedGradient,
    AugmentedLagrangian,
    AwayFrankWolfe,
    BallBlockFrankWolfe,
    BallDualDescent,
    BallFrankWolfe,
    BallGradient,
    BallNewton,
    BallPairwise,
    BallPrimalDual,
    BallStochasticFrankWolfe,
    BallSvrg,
    BallWorkingSet,
    BlockFrankWolfe,
    BlockProxGradient,
    ConjugateSubgradient,
    DualBlockDescent,
    DualProxGradient,
    EachClass,
    EachGroup,
    EachPair,
    FrankWolfe,
    FreeFrankWolfe,
    FreePairDescent,
    GramDescent,
    InteriorPoint,
    KernelBlockDescent,
    KernelPairDescent,
    L1BallNewton,
    L1InteriorPoint,
    Lbfgs,
    LowRankGradient,
    LowRankNewton,
    LowRankPDBFW,
    MMDescent,
    NewtonCG,
    OneVsRestDescent,
    PairwiseFrankWolfe,
    Pegasos,
    PrimalDualBFW,
    PrimalDualNewton,
    PrimalNewton,
    ProjectedGradient,
    ProxNewton,
    Scgs,
    Smo,
    SmoothedInteriorPoint,
    SmoothedNewton,
    SoftmaxDualDescent,
    SoftmaxNewton,
    Splitting,
    SquaredHingeDescent,
    Storc,
    SummedLbfgs,
    SummedNewton,
    SummedProxNewton,
    Svrg,
    TraceBallInteriorPoint,
    TrustNewton,
    Wolfe,
)
from softmargin.solvers.squared_hinge.dual_descent import DescentTuning
from softmargin.testing import check_solver

CASES = []  # pytest parameters: solver, a function that makes the problem, settings of the check


def case(solver, problem, name, **settings):
    settings_of_solver = ", ".join(f"{key}={value}" for key, value in changed(solver).items())
    identity = f"{type(solver).__name__}({settings_of_solver})-{name}"
    CASES.append(pytest.param(solver, problem, settings, id=identity))


def changed(solver):
    """Return the settings that differ from the defaults."""
    plain = {field: value.default for field, value in solver.__dataclass_fields__.items()}
    return {field: getattr(solver, field) for field in plain if getattr(solver, field) != plain[field]}


# --- joint hinge losses, linear --------------------------------------------------------------------------------------

for multiclass in LOSS_NAMES:
    for name in PROBLEM_NAMES:
        for settings in ({}, {"working_set": False}, {"working_set": False, "order": "cyclic"}, {"screening": True}):
            case(DualBlockDescent(**settings), lambda n=name, m=multiclass: make_problem(n, m), f"{multiclass}-{name}")
        case(GramDescent(), lambda n=name, m=multiclass: make_problem(n, m), f"{multiclass}-{name}", tol=1e-8)
        case(InteriorPoint(), lambda n=name, m=multiclass: make_problem(n, m), f"{multiclass}-{name}", tol=1e-8)
        case(SmoothedNewton(), lambda n=name, m=multiclass: make_problem(n, m), f"{multiclass}-{name}", tol=1e-8)
        case(SmoothedInteriorPoint(), lambda n=name, m=multiclass: make_problem(n, m), f"{multiclass}-{name}", tol=1e-8)
case(AugmentedLagrangian(), lambda: make_problem("binary"), "binary", tol=1e-8)
for block, tol in (("sort", 1e-6), ("greedy", 1e-4)):  # the greedy block leaves margins violated by 1e-6
    case(DualBlockDescent(block=block), lambda: make_problem("tiles"), "weston_watkins-tiles", tol=tol)

# --- hinge losses on a kernel matrix ---------------------------------------------------------------------------------


def kernel_problem(multiclass="weston_watkins", k=3, kernel=None, **settings):
    X, y = blobs(60, 5, 3, seed=3)
    gram = Gram(kernel or Rbf(0.2), X, bias=1.0)
    return KernelMulticlassSVM(gram, y % k, multiclass=multiclass, n_classes=k, **settings)


KERNEL_SOLVERS = {  # with the relative gap that each reaches in a short time: plain Frank-Wolfe is sublinear
    KernelBlockDescent(): 1e-8,
    KernelBlockDescent(working_set=False): 1e-6,
    FrankWolfe(): 2e-2,
    BlockFrankWolfe(): 5e-3,
    BlockFrankWolfe("oblivious", "uniform"): 1e-2,
    PairwiseFrankWolfe(): 1e-6,
    AwayFrankWolfe(): 1e-6,
    ProjectedGradient(working_set=False): 1e-6,
    ProjectedGradient(): 1e-6,
    Splitting(): 1e-6,
}
for solver, tol in KERNEL_SOLVERS.items():
    for multiclass in LOSS_NAMES:
        case(solver, lambda m=multiclass: kernel_problem(m), multiclass, tol=tol, steps=8)
    linear = lambda: kernel_problem(kernel=Linear(), C=np.tile([0.0, 0.3, 2.0], 20))  # noqa: E731
    case(solver, linear, "linear", tol=tol, steps=8)
case(KernelPairDescent(), lambda: kernel_problem(k=2), "two classes", tol=1e-8, steps=8)

# --- squared hinge with an unpenalised bias --------------------------------------------------------------------------


def l2_problem(kernel, cache_size=1000.0, **settings):
    X, y = blobs(60, 4, 2, seed=0, separation=1.0)
    return L2SVM(Gram(kernel, X + 0.3, cache_size=cache_size), 2.0 * y - 1.0, **settings)


PRICES = np.tile([0.0, 0.3, 1.0, 4.0], 15)


def free_problem(cache_size=1000.0):
    X, y = blobs(60, 4, 2, seed=0, separation=1.0)
    return HingeSVM(Gram(Rbf(0.2), X + 0.3, cache_size=cache_size), 2.0 * y - 1.0, C=PRICES)


for solver in (FreePairDescent(), Smo()):
    for cache_size in (1000.0, 1e-3):
        case(solver, lambda c=cache_size: free_problem(c), f"hinge with a free bias-{cache_size}", tol=1e-8, steps=8)
case(FreeFrankWolfe(), free_problem, "hinge with a free bias", tol=1e-2, steps=8)
for has_bias in (True, False):
    for solver in (Smo(), DualProxGradient(), DualProxGradient(accelerated=False, restart=False, centred=False)):
        for cache_size in (1000.0, 1e-3):
            case(
                solver,
                lambda b=has_bias, c=cache_size: l2_problem(Rbf(0.3), c, has_bias=b, C=PRICES),
                f"rbf-{'bias' if has_bias else 'no bias'}-{cache_size} MB",
                tol=1e-6 if solver.__dict__.get("accelerated", True) else 1e-4,
                steps=6,
            )
    for solver in (PrimalNewton(), SquaredHingeDescent()):
        case(solver, lambda b=has_bias: l2_problem(Linear(), has_bias=b), f"linear-{has_bias}", tol=1e-8, steps=4)

# --- each class on its own -------------------------------------------------------------------------------------------


def one_vs_rest(kind, scale=1.0, cache_size=1000.0):
    """Build three binary problems, one of them small: it is the easiest, and soon far ahead."""
    X, y = blobs(90, 4, 3, seed=0, separation=1.0)
    kept = (y != 2) | (np.arange(len(y)) % 4 == 0)
    X, y = X[kept], y[kept]
    gram = Gram(Linear() if kind.startswith("linear") else Rbf(0.3), X, cache_size=cache_size)
    own = [y == c for c in range(3)]
    if kind == "linear hinge":
        return OneVsRest([MulticlassSVM(X, mine, C=0.5, n_classes=2, bias=1.0) for mine in own], scale=scale)
    if kind == "kernel hinge":
        return OneVsRest([KernelMulticlassSVM(gram, mine, C=0.5, n_classes=2) for mine in own], scale=scale)
    return OneVsRest([L2SVM(gram, 2.0 * mine - 1.0, C=0.5) for mine in own], scale=scale)


for solver, kind in (
    (DualBlockDescent(), "linear hinge"),
    (KernelBlockDescent(), "kernel hinge"),
    (ProjectedGradient(), "kernel hinge"),
    (Splitting(), "kernel hinge"),
    (PrimalNewton(), "linear squared"),
    (Smo(), "kernel squared"),
    (DualProxGradient(), "kernel squared"),
):
    for size in (1000.0, 0.02, 0.001):  # all of K, some rows, none
        make = lambda k=kind, c=size: one_vs_rest(k, 2.0, c)  # noqa: E731
        case(EachClass(solver), make, f"{type(solver).__name__}-{kind}-{size} MB", steps=8)

for solver in (OneVsRestDescent(), EachGroup(OneVsRestDescent(), n_groups=2)):
    case(solver, lambda: one_vs_rest("linear squared", 2.0), "linear squared", steps=8)
class_by_class = OneVsRestDescent(DescentTuning(slow=0.0))
case(class_by_class, lambda: one_vs_rest("linear hinge"), "linear hinge, class by class", steps=8)


def one_vs_one(loss, has_bias, cache_size=1000.0, kernel=None):
    """Build the problems of four classes, one of them small."""
    X, y = blobs(80, 4, 4, seed=0, separation=1.0)
    kept = (y != 2) | (np.arange(len(y)) % 4 == 0)
    gram = PairGram(kernel or Rbf(0.3), X[kept], y[kept], 4, bias=0.0 if has_bias else 0.5, cache_size=cache_size)
    return KernelOneVsOne(gram, np.resize(PRICES, kept.sum()), loss=loss, has_bias=has_bias)


for loss in (HingeSVM, L2SVM):
    for has_bias in (True, False):
        for size in (1000.0, 0.001):  # all kernel values, and so few that pairs take turns
            make = lambda m=loss, b=has_bias, c=size: one_vs_one(m, b, c)  # noqa: E731
            case(EachPair(), make, f"one-vs-one-{loss.name}-{has_bias}-{size} MB", tol=1e-8, steps=5)
case(EachClass(FreePairDescent()), lambda: one_vs_one(HingeSVM, True), "one-vs-one, pair by pair", steps=5)

# --- a kernel SVM by samples -----------------------------------------------------------------------------------------


def sampled_problem(form=np.asarray):
    X, y = blobs(120, 3, 2, seed=0, separation=1.0)
    return KernelHinge(Rbf(1.0), form(X), 2.0 * y - 1.0, lam=1e-2)


for form in (np.asarray, csr_matrix):
    for solver, tol in (
        (ConjugateSubgradient(), 1e-3),
        (ConjugateSubgradient(geometry="euclidean", search="wolfe", reset=False, settle=False, test_size=None), 0.9),
        (Wolfe(), 1e-3),
        (Wolfe("euclidean", "wolfe"), 0.9),
        (Pegasos(block=32), 0.2),
    ):
        case(solver, lambda f=form: sampled_problem(f), form.__name__, tol=tol, can_restart=False, steps=16)

# --- multinomial regression ------------------------------------------------------------------------------------------


def softmax(penalty, k=3, form=np.asarray, n=80, **settings):
    X, y = blobs(n, 7, k, seed=1, separation=1.0)
    return softmax_problem(form(X), y, penalty=penalty, **settings)


RIDGE_SOLVERS = (
    Lbfgs(),
    Lbfgs(memory=5, preconditioner="none"),
    SoftmaxNewton(),
    NewtonCG(),
    NewtonCG(preconditioner="diagonal", sampled=False),
    NewtonCG(preconditioner="gram"),
    TrustNewton(),
    PrimalDualNewton(),
    SoftmaxDualDescent(),
    SoftmaxDualDescent(working_set=False),
    SoftmaxDualDescent(order="cyclic"),
)
for solver in RIDGE_SOLVERS:
    for k in (2, 3, 26):
        for form in (np.asarray, csr_matrix):
            make = lambda k=k, f=form: softmax(L2(0.7), k, f, C=2.0, fit_intercept=f is np.asarray)  # noqa: E731
            case(solver, make, f"l2-{k} classes-{form.__name__}", tol=1e-8, steps=6)
PROX_SOLVERS = (
    ProxNewton(),
    MMDescent(),
    AcceleratedGradient(),
    BlockProxGradient(),
    BlockProxGradient(order="cyclic", constants="paper", working_set=False),
    BlockProxGradient(order="random", constants="paper"),
    BlockProxGradient(order="lipschitz"),
    BlockProxGradient(blocks="matrix"),
    Svrg(),
)
for solver in PROX_SOLVERS:
    for k in (2, 3):
        for form in (np.asarray, csr_matrix):
            case(solver, lambda k=k, f=form: softmax(L1(0.7), k, f), f"l1-{k} classes-{form.__name__}")
    case(solver, lambda: softmax(Group(0.7), C=0.5, fit_intercept=False), "group")
case(BlockProxGradient(blocks="classes"), lambda: softmax(L1(0.7)), "l1")
for k in (2, 3, 26):
    for form in (np.asarray, csr_matrix):
        make = lambda k=k, f=form: softmax(L1(0.7), k, f, C=2.0, fit_intercept=f is np.asarray)  # noqa: E731
        case(L1InteriorPoint(), make, f"l1-{k} classes-{form.__name__}", tol=1e-8, steps=9)
for solver in (ProxNewton(), MMDescent()):
    for penalty in (ElasticNet(0.5, 0.5), Box(-0.5, 0.5)):
        case(solver, lambda p=penalty: softmax(p), repr(penalty))
# So many samples that proximal Newton draws some of them.
case(ProxNewton(), lambda: softmax(L1(0.3), n=2000), "many samples", steps=7)

# --- a loss over a ball ----------------------------------------------------------------------------------------------

ANY_BALL = {
    BallFrankWolfe(): 1e-2,
    BallStochasticFrankWolfe(): 2e-2,
    BallBlockFrankWolfe(): 1e-6,
    BallBlockFrankWolfe(eta="paper"): 1e-6,
    BallSvrg(): 1e-6,
    Scgs(): 1e-2,
    Storc(): 1e-3,
    Storc(batch=20): 1e-3,
}
BALL_SOLVERS = {
    "l1": {**ANY_BALL, BallGradient(): 1e-6, BallWorkingSet(): 1e-6, BallPairwise(): 1e-6, L1BallNewton(): 1e-8},
    "trace": {**ANY_BALL, LowRankGradient(): 1e-6, LowRankNewton(): 1e-6, TraceBallInteriorPoint(): 1e-8},
}
for ball, members in BALL_SOLVERS.items():
    for solver, tol in members.items():
        for k, fit_intercept in ((1, True), (3, False), (3, True)):
            make = lambda b=ball, k=k, i=fit_intercept: ball_optimum.make("logistic", b, k, fit_intercept=i)  # noqa: E731
            case(solver, make, f"{ball}-{k}-{'intercept' if fit_intercept else 'none'}", tol=tol, steps=9)
for k in (1, 3):
    for solver in (PrimalDualBFW(), PrimalDualBFW(eta=0.5, k=40), BallDualDescent()):
        case(solver, lambda k=k: ball_optimum.make(k=k, form=csr_matrix), f"l1-{k}", steps=7)
    case(LowRankPDBFW(), lambda k=k: ball_optimum.make(ball="trace", k=k), f"trace-{k}", steps=7)
for ball in BALL_SOLVERS:
    for loss in ("crammer_singer", "weston_watkins"):
        make = lambda b=ball, m=loss: ball_optimum.make(m, b, fit_intercept=True)  # noqa: E731
        case(BallPrimalDual(), make, f"{ball}-{loss}", tol=1e-5, steps=9)
for fit_intercept in (False, True):
    make = lambda i=fit_intercept: ball_optimum.make("logistic", "trace", 1, fit_intercept=i)  # noqa: E731
    case(BallNewton(), make, f"trace-1-{'intercept' if fit_intercept else 'none'}")
case(LowRankGradient(), lambda: ball_optimum.make("multinomial", "trace", fit_intercept=True), "trace-multinomial")

# --- losses summed over blocks of rows -------------------------------------------------------------------------------


def in_blocks(form, penalty):
    X, y = blobs(60, 4, 3, seed=0)
    return PenalizedSum(
        LocalBlocks([Block(X[:25], y[:25], np.ones(25)), Block(X[25:], y[25:], np.ones(35))]), form, penalty
    )


for loss in ("multinomial", "weston_watkins"):
    form = Form(JOINT[loss], 3, 1.0, loss == "multinomial")
    case(SummedNewton(), lambda form=form: in_blocks(form, L2(1.0)), f"blocks-{loss}")
case(SummedLbfgs(), lambda: in_blocks(Form(JOINT["multinomial"], 3, 1.0, True), L2(1.0)), "blocks-multinomial")
case(SummedProxNewton(), lambda: in_blocks(Form(JOINT["multinomial"], 3, 1.0, True), L1(0.5)), "blocks-l1")


@pytest.mark.parametrize(("solver", "make", "settings"), CASES)
def test_solver_keeps_the_contract(solver, make, settings):
    check_solver(solver, make, **settings)


def test_the_table_has_every_solver():
    """QuadraticProgram solves in one call, AtDualPoint is a view of another solver, HandOver are two of them,
    PenalizedGradient has problems of its own: they are held in files of their own.
    """
    held = {type(values.values[0]).__name__ for values in CASES}
    assert held | {"AtDualPoint", "HandOver", "PenalizedGradient", "QuadraticProgram"} >= set(solvers.__all__)


# --- the check itself: every promise is broken once ------------------------------------------------------------------


@dataclass(frozen=True)
class Broken:
    """Block descent with one promise broken."""

    promise: str
    inner: Any = DualBlockDescent()
    needs = DualBlockDescent.needs

    def start(self, problem, init, rng):
        rng = np.random.default_rng() if self.promise == "seed" else rng
        if self.promise == "start" and init is not None:
            init.alpha[:] *= 1.01
        return self.inner.start(problem, None if self.promise == "restart" else init, rng)

    def step(self, problem, state):
        return self.inner.step(problem, state)

    def point(self, problem, state):
        point = self.inner.point(problem, state)
        if self.promise == "memory":
            return point._replace(alpha=state.alpha.reshape(len(problem.y), -1)[:, : problem.n_classes])
        return point

    def estimate(self, problem, state):
        return self.inner.estimate(problem, state)

    def restore(self, arrays, plain):
        if self.promise == "split":
            arrays = {**arrays, "random": arrays["random"] + np.uint64(1)}
        return self.inner.restore(arrays, plain)


class Dishonest(MulticlassSVM):
    """A problem whose certificate depends on how often it was asked, or promises too much."""

    fault = "moody"
    asked = 0

    def certificate(self, point):
        found = super().certificate(point)
        self.asked += 1
        if self.fault == "moody":
            return found._replace(primal=found.primal * (1.0 + 1e-12 * self.asked))
        return found._replace(bound=1.001 * found.primal, residual=0.0) if found.residual < 1e-2 else found


def broken_case(promise):
    return Broken(promise), lambda: make_problem("tiles")


@pytest.mark.parametrize(
    ("promise", "sentence"),
    [
        ("seed", "the same seed gives other bits"),
        ("restart", "does not end at once"),
        ("start", "changes the point it starts at"),
        ("split", "gives other bits"),
        ("memory", "changes a point that was handed out"),
    ],
)
def test_a_broken_promise_is_caught(promise, sentence):
    with pytest.raises(AssertionError, match=sentence):
        check_solver(*broken_case(promise))


@pytest.mark.parametrize(("fault", "sentence"), [("moody", "not that of the point returned"), ("bold", "exceeds")])
def test_a_dishonest_certificate_is_caught(fault, sentence):
    def make():
        X, y = blobs(50, 5, 3, seed=3)
        problem = Dishonest(X, y)
        problem.fault = fault
        return problem

    with pytest.raises(AssertionError, match=sentence):
        check_solver(DualBlockDescent(), make)


def test_a_wrong_optimum_is_caught():
    with pytest.raises(AssertionError, match="exceeds the optimum"):
        check_solver(DualBlockDescent(), lambda: make_problem("blobs"), optimum=0.0)


def test_a_solver_that_never_arrives_is_caught():
    stuck = replace(Broken("none"), promise="stuck")
    with pytest.raises(AssertionError, match="ends as 'max_iter'"):
        check_solver(stuck, lambda: make_problem("tiles"), tol=1e-12, max_iter=2)
