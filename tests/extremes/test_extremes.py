"""C from 1e-6 to 1e8, columns of sizes 1e-8 to 1e8, copies, constants, contradictions: proofs hold, and an end is said.

Longer: SOFTMARGIN_EXTREMES=1000 pytest -m slow tests/extremes
"""

import os
import re
import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from extremes.cases import DEGENERATE, ESTIMATORS, FINISHERS, FITS, Extreme, extremes
from extremes.clarabel_point import clarabel_point
from extremes.definitions import objective, own_point
from softmargin import NotCertifiedWarning
from softmargin.estimators.posing.finishers import FinisherTuning

MANY = int(os.environ.get("SOFTMARGIN_EXTREMES", "200"))
TOL = 1e-3
# One row is a thousand million times as long as the others.
STILL_HARD = [(name, "an outlier") for name in ("linear squared", "l1 ball", "trace ball")]
HELP = r"scale|scaling|tol\b|max_iter|max_seconds|float64"


def fitted(name, solver, extreme, **settings):
    """Return a fitted model, and the warnings of its fit."""
    model = ESTIMATORS[name](extreme.C).set_params(solver=solver, tol=TOL, random_state=0, **settings)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(extreme.given, extreme.y)
    return model, said


def assert_proofs_hold(model, extreme):
    """Hold ``primal`` against the model in exact arithmetic, ``bound`` against it and against Clarabel's point."""
    certificate, own = model.certificate_, objective(model, extreme.X, extreme.y, own_point(model))
    assert certificate.residual >= 0.0
    assert certificate.bound <= own <= certificate.primal
    assert certificate.bound <= objective(model, extreme.X, extreme.y, clarabel_point(model, extreme.X, extreme.y))


def assert_end_is_said(model, said):
    """Expect silence of a certified fit, and of any other a warning: how far it came, and what would help."""
    residual, told = model.certificate_.residual, [str(w.message) for w in said if w.category is NotCertifiedWarning]
    assert (model.status_ == "converged") == (residual <= TOL) == (not told)
    assert model.status_ in ("converged", "limited by rounding", "stalled", "max_iter")
    for message in told:
        assert f"{residual:.1e}" in message
        assert re.search(HELP, message)


def check(name, solver, extreme, max_iter):
    model, said = fitted(name, solver, extreme, max_iter=max_iter)
    assert_proofs_hold(model, extreme)
    assert_end_is_said(model, said)


@pytest.mark.parametrize(("name", "solver"), FITS, ids=map(" ".join, FITS))
@settings(max_examples=10)
@given(extreme=extremes, max_iter=st.sampled_from([1, 5, 40]))
def test_extremes_are_judged_rightly(name, solver, extreme, max_iter):
    check(name, solver, extreme, max_iter)


@pytest.mark.parametrize(("name", "solver"), FINISHERS, ids=map(" ".join, FINISHERS))
@settings(max_examples=20)
@given(extreme=extremes)
def test_finishers_certify_all_that_rounding_allows(name, solver, extreme):
    assume(solver != "augmented_lagrangian" or extreme.steepness <= FinisherTuning().steepest)
    model, _ = fitted(name, solver, extreme, max_iter=200)
    assert model.status_ in ("converged", "limited by rounding")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "solver"), FITS, ids=map(" ".join, FITS))
@settings(max_examples=MANY, derandomize=False)
@given(extreme=extremes, max_iter=st.sampled_from([1, 5, 40, 300]))
def test_many_extremes_are_judged_rightly(name, solver, extreme, max_iter):
    check(name, solver, extreme, max_iter)


@pytest.mark.parametrize("data", DEGENERATE)
@pytest.mark.parametrize(("name", "solver"), FITS, ids=map(" ".join, FITS))
def test_singular_systems_are_solved(name, solver, data):
    extreme = Extreme(*DEGENERATE[data], 1.0, is_sparse=False)
    model, said = fitted(name, solver, extreme, max_iter=1000)
    assert_proofs_hold(model, extreme)
    assert_end_is_said(model, said)
    assert model.status_ == "converged" or (name, data) in STILL_HARD


def test_clarabel_and_the_definitions_know_the_optimum():
    """On easy data, the point that bounds are held against is the optimum, for every estimator."""
    rng = np.random.default_rng(0)
    easy = Extreme(rng.standard_normal((18, 2)) + 0.5 * (np.arange(18) % 3)[:, None], np.arange(18) % 3, 1.0, False)
    for name, make in ESTIMATORS.items():
        model = make(1.0).set_params(tol=1e-6).fit(easy.X, easy.y)
        best = objective(model, easy.X, easy.y, clarabel_point(model, easy.X, easy.y))
        assert float(best) == pytest.approx(model.certificate_.primal, rel=2e-6), name
