"""The scikit-learn contract."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import softmargin
from softmargin import (
    KernelSVC,
    KernelSVCCV,
    L1BallClassifier,
    L1BallRegressor,
    L1BallRegressorCV,
    LinearSVC,
    LinearSVCCV,
    SoftmaxRegression,
    SoftmaxRegressionCV,
    TraceBallClassifier,
    TraceBallRegressor,
    solvers,
)
from softmargin.penalties import Box, Group
from softmargin.solvers.names import SOLVERS, choices

# The checks compare two fits to 1e-7 and better; a gap of 1e-14 or 1e-17 pins scores down to that, where rounding does
# not stop the fit just above it.
TIGHT = {"tol": 1e-14, "max_iter": 1000, "random_state": 0}
SQUARED = {"multiclass": "one_vs_rest", "loss": "squared_hinge", "tol": 1e-17, "max_iter": 50, "random_state": 0}
KERNEL = {"tol": 1e-14, "max_iter": 40, "random_state": 0}


# A gap of 1e-14 leaves scores uncertain by the root of that, so that these fits go on for as many steps as they may.
SOFTMAX = {"tol": 0.0, "max_iter": 40, "random_state": 0}
# A ridge of 1 turns a gap into a distance of the weights: half their square is at most the gap.
BALL = {"l2": 1.0, "tol": 0.0, "max_iter": 100, "random_state": 0}


def known_to_fail(estimator):
    """Return the checks that are missed, and why."""
    if getattr(estimator, "approximation", None) == "nystroem" or getattr(estimator, "solver", None) == "scs":
        check = "check_sample_weight_equivalence_on"
        return {f"{check}_{kind}_data": "rows given twice change what is drawn" for kind in ("dense", "sparse")}
    return {}


SETTINGS_OF_EVERY_CLASS = [
    LinearSVC(**TIGHT),
    LinearSVC(**SQUARED),
    KernelSVC(**KERNEL),
    SoftmaxRegression(),
    SoftmaxRegression(l1_ratio=1.0, **SOFTMAX),
    SoftmaxRegressionCV(Cs=[0.1, 1.0], cv=3, **SOFTMAX),
    L1BallClassifier(radius=3.0, **BALL),
    L1BallRegressor(**BALL),
    TraceBallClassifier(radius=3.0, **BALL),
    TraceBallRegressor(**BALL),
]
MORE_SETTINGS = [
    LinearSVC(multiclass="crammer_singer", **TIGHT),
    LinearSVC(multiclass="one_vs_rest", **TIGHT),
    KernelSVC(multiclass="crammer_singer", **KERNEL),
    KernelSVC(multiclass="one_vs_rest", **KERNEL),
    KernelSVC(**SQUARED),
    KernelSVC(kernel="linear", **KERNEL),
    KernelSVC(solver="scs", multiclass="one_vs_rest", max_iter=60, random_state=0),
    KernelSVC(approximation="nystroem", n_components=20, tol=1e-12, max_iter=200, random_state=0),
    SoftmaxRegression(**SOFTMAX),
    SoftmaxRegression(C=100.0, class_weight="balanced", **SOFTMAX),
    SoftmaxRegression(l1_ratio=0.5, **SOFTMAX),
    SoftmaxRegression(penalty=Group(0.5), **SOFTMAX),
    SoftmaxRegression(penalty=Box(-2.0, 2.0, l2=0.5), **SOFTMAX),
    SoftmaxRegressionCV(Cs=[0.1, 1.0], cv=2, l1_ratios=(0.0, 1.0), scoring="neg_log_loss", **SOFTMAX),
    LinearSVCCV([1.0], cv=2, **SQUARED),
    LinearSVC(probability="sigmoid", **SQUARED),
    KernelSVCCV([1.0], gammas=[0.1, "scale"], cv=2, **KERNEL),
    L1BallRegressorCV([0.5, 2.0], cv=2, **BALL),
    L1BallClassifier(loss="logistic", **BALL),
    TraceBallClassifier(loss="squared_hinge", **BALL),
]


@pytest.mark.filterwarnings("ignore::softmargin.NotCertifiedWarning")
@pytest.mark.filterwarnings("ignore::softmargin.InactiveBallWarning")
@parametrize_with_checks(SETTINGS_OF_EVERY_CLASS, expected_failed_checks=known_to_fail)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::softmargin.NotCertifiedWarning")
@pytest.mark.filterwarnings("ignore::softmargin.InactiveBallWarning")
@parametrize_with_checks(MORE_SETTINGS, expected_failed_checks=known_to_fail)
def test_scikit_learn_checks_pass_with_other_settings(estimator, check):
    check(estimator)


@pytest.mark.parametrize("room", [softmargin, solvers], ids=["softmargin", "solvers"])
def test_every_public_name_leads_somewhere(room):
    for name in room.__all__:
        assert getattr(room, name) is not None
        assert name in dir(room)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        room.nothing  # noqa: B018


@pytest.mark.parametrize("kind", SOLVERS)
def test_every_solver_in_the_tables_can_be_made(kind):
    assert choices(kind) == ("auto", *SOLVERS[kind])
    for home, settings in SOLVERS[kind].values():
        assert getattr(solvers, home)(**settings).needs


def test_a_whole_number_is_the_seed_itself_and_a_random_state_draws_one():
    assert LinearSVC(random_state=7)._seed() == LinearSVC(random_state=np.int32(7))._seed() == 7
    state = np.random.RandomState(7)
    assert LinearSVC(random_state=state)._seed() != LinearSVC(random_state=state)._seed()
    for wrong in (-1, "seven"):
        with pytest.raises(ValueError):
            LinearSVC(random_state=wrong).fit([[0.0], [1.0]], [0, 1])
