"""The scikit-learn contract."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import softmargin
from softmargin import KernelSVC, LinearSVC, solvers
from softmargin.estimators._fit import SOLVER_TABLES

# The checks compare two fits to 1e-7 and better; a gap of 1e-14 or 1e-17 pins scores down to that, where rounding does
# not stop the fit just above it.
TIGHT = {"tol": 1e-14, "max_iter": 1000, "random_state": 0}
SQUARED = {"multiclass": "one_vs_rest", "loss": "squared_hinge", "tol": 1e-17, "max_iter": 50, "random_state": 0}
KERNEL = {"tol": 1e-14, "max_iter": 40, "random_state": 0}


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
    for home, settings in SOLVER_TABLES[kind].values():
        assert getattr(solvers, home)(**settings).needs
    assert next(iter(SOLVER_TABLES[kind])) == "auto"
