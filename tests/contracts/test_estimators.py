"""The scikit-learn contract."""

import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import ClassVar

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import softmargin
from softmargin import KernelSVC, LinearSVC, SoftmaxRegression, SoftmaxRegressionCV, solvers
from softmargin.core.protocols import CompositeProblem
from softmargin.estimators._fit import SOLVER_TABLES, find_solver
from softmargin.penalties import Box, Group

# The checks compare two fits to 1e-7 and better; a gap of 1e-14 or 1e-17 pins scores down to that, where rounding does
# not stop the fit just above it.
TIGHT = {"tol": 1e-14, "max_iter": 1000, "random_state": 0}
SQUARED = {"multiclass": "one_vs_rest", "loss": "squared_hinge", "tol": 1e-17, "max_iter": 50, "random_state": 0}
KERNEL = {"tol": 1e-14, "max_iter": 40, "random_state": 0}


@dataclass(frozen=True)
class Thorough:
    """A solver by name that makes several steps at a time, ten times at most.

    A gap below the rounding of the objective leaves scores uncertain by the root of that, 1e-8, which is more than the
    checks allow for: the last steps are made where no gap asks for them. One check asks for a thousand passes over
    prices so far apart that rounding hides any gap.
    """

    name: str = "auto"
    steps: int = 3  # Newton's: each squares the error

    needs: ClassVar = (CompositeProblem,)

    def start(self, problem, init, rng):
        solver = find_solver(self.name, problem)
        return SimpleNamespace(solver=solver, inner=solver.start(problem, init, rng), n=0)

    def step(self, problem, state):
        if state.n < 10:
            for _ in range(self.steps):
                state.inner = state.solver.step(problem, state.inner)
        state.n += 1
        return state

    def point(self, problem, state):
        return state.solver.point(problem, state.inner)

    def estimate(self, problem, state):
        return state.solver.estimate(problem, state.inner) if state.n <= 10 else math.inf


SOFTMAX = {"solver": Thorough(), "tol": 1e-14, "max_iter": 10, "random_state": 0}
ACCELERATED = {**SOFTMAX, "solver": Thorough("accelerated_gradient", 50)}


@pytest.mark.filterwarnings("ignore::softmargin.NotCertifiedWarning")
@parametrize_with_checks(
    [
        LinearSVC(**TIGHT),
        LinearSVC(multiclass="crammer_singer", **TIGHT),
        LinearSVC(multiclass="one_vs_rest", **TIGHT),
        LinearSVC(**SQUARED),
        KernelSVC(**KERNEL),
        KernelSVC(multiclass="crammer_singer", **KERNEL),
        KernelSVC(multiclass="one_vs_rest", **KERNEL),
        KernelSVC(**SQUARED),
        KernelSVC(kernel="linear", **KERNEL),
        SoftmaxRegression(**SOFTMAX),
        SoftmaxRegression(C=100.0, class_weight="balanced", **SOFTMAX),
        SoftmaxRegression(l1_ratio=0.5, **ACCELERATED),
        SoftmaxRegression(l1_ratio=1.0, **SOFTMAX),
        SoftmaxRegression(penalty=Group(0.5), **SOFTMAX),
        SoftmaxRegression(penalty=Box(-2.0, 2.0, l2=0.5), **ACCELERATED),
        SoftmaxRegressionCV(Cs=[0.1, 1.0], cv=3, **SOFTMAX),
        SoftmaxRegressionCV(Cs=[0.1, 1.0], cv=2, l1_ratios=(0.0, 1.0), scoring="neg_log_loss", **SOFTMAX),
    ]
)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


@pytest.mark.parametrize("room", [softmargin, solvers], ids=["softmargin", "solvers"])
def test_every_public_name_leads_somewhere(room):
    for name in room.__all__:
        assert getattr(room, name) is not None
        assert name in dir(room)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        room.nothing  # noqa: B018


@pytest.mark.parametrize("kind", SOLVER_TABLES)
def test_every_solver_in_the_tables_can_be_made(kind):
    assert next(iter(SOLVER_TABLES[kind])) == "auto"
    for recipe in SOLVER_TABLES[kind].values():
        if not callable(recipe):
            home, settings = recipe
            assert getattr(solvers, home)(**settings).needs
