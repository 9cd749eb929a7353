"""What a fit without its certificate tells: the tolerance that was met, the passes that are missing, the scales."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from softmargin import KernelSVC, LinearSVC, SoftmaxRegression
from softmargin.core.certificate import Certificate
from softmargin.data import blobs
from softmargin.estimators.frame.warnings import IndefiniteKernelWarning, NotCertifiedWarning
from softmargin.estimators.posing.advice import advice_for
from softmargin.run import Result, Status, Trace
from softmargin.run.result import TraceRow

SCALES = "The largest magnitudes of the features reach from"


def warned(model, X, y):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", NotCertifiedWarning)
        model.fit(X, y)
    return str(found[0].message) if found else ""


def result(*gaps, status=Status.MAX_ITER):
    """Return a run that was judged every 10 steps, with these relative gaps and a bound of 1."""
    rows = [
        TraceRow(10 * (i + 1), 0.0, Certificate("duality gap", 1 / (1 - gap), 1.0, gap), "Descent")
        for i, gap in enumerate(gaps)
    ]
    return Result(None, rows[-1].certificate, status, Trace(rows), rows[-1].iteration, 0.0, 0.0)


@pytest.mark.parametrize(
    ("gaps", "words"),
    [
        ((0.5, 0.02), "meets tol=0.02. At the last rate of Descent about 11 passes more would meet tol=0.001."),
        ((0.031, 0.03), "meets tol=0.03. At the last rate of Descent about "),
        ((0.0312,), "The point returned meets tol=0.04."),
        ((0.02, 0.021), "The point returned meets tol=0.03."),
        ((0.99, 0.9), ""),
    ],
)
def test_the_distance_to_the_tolerance(gaps, words):
    found = advice_for(result(*gaps), 1e-3)
    assert words in found
    assert bool(words) == bool(found)
    assert ("rate" in words) == ("rate" in found)


@pytest.mark.parametrize("status", [Status.ROUNDING, Status.STALLED, Status.FAILED, Status.CONVERGED])
def test_where_more_work_would_not_help_nothing_is_said(status):
    assert advice_for(result(0.5, 0.02, status=status), 1e-3) == ""


@pytest.mark.parametrize("limit", [{"max_iter": 1}, {"max_seconds": 1e-6}])
@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
@pytest.mark.parametrize(
    "model", [LinearSVC, KernelSVC, SoftmaxRegression, lambda **more: LinearSVC(multiclass="one_vs_rest", **more)]
)
def test_every_budget_tells_of_features_that_are_badly_scaled(model, form, limit):
    X, y = blobs(60, 3, 3, seed=0)
    asked = {"tol": 1e-12, "random_state": 0, **limit}  # by some seeds one step of small problems suffices
    good, bad = (warned(model(**asked), form(X * scale), y) for scale in (1.0, [1e-3, 1.0, 1e3]))
    assert "tol" in good
    assert SCALES not in good
    assert f"{SCALES} 0.00" in bad
    assert "StandardScaler" in bad


def test_features_of_a_given_kernel_matrix_are_unknown():
    X, y = blobs(40, 3, 2, seed=0)
    assert SCALES not in warned(KernelSVC(kernel="precomputed", max_iter=1, tol=1e-12, C=1e3), 1e4 * X @ X.T, y)


def test_a_failure_by_an_indefinite_kernel_names_it():
    """The dual of a squared hinge rises without end along a negative eigenvalue; no smaller C helps there."""
    X, y = blobs(60, 4, 2, seed=0)
    model = KernelSVC(kernel="sigmoid", gamma=0.25, coef0=1.0, loss="squared_hinge", C=1e3, solver="smo", max_iter=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IndefiniteKernelWarning)
        found = warned(model, X, y)
    assert model.status_ == "failed"
    assert "the sigmoid kernel is not positive semi-definite (an eigenvalue is at most -" in found
    assert "Use another kernel or other parameters of it" in found
    assert "lower C" not in found
