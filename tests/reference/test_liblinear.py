"""Our optimum is LIBLINEAR's (through scikit-learn), with the C of maths: notation, section 4."""

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from helpers import make_problem, problem_data
from softmargin.run import Stop, solve
from softmargin.solvers import DualBlockDescent


def fit(problem):
    return solve(problem, DualBlockDescent(), stop=Stop(1e-10, 50_000), rng=0).point.weights


def test_crammer_singer_has_the_same_C_as_liblinear():
    problem = make_problem("blobs", "crammer_singer")
    theirs = LinearSVC(multi_class="crammer_singer", fit_intercept=False, tol=1e-9, max_iter=200_000, random_state=0)
    theirs.fit(problem.X, problem.y)
    np.testing.assert_allclose(fit(problem)[:-1].T, theirs.coef_, atol=1e-4)


@pytest.mark.parametrize("multiclass", ["weston_watkins", "crammer_singer"])
def test_two_classes_are_the_binary_hinge_with_twice_C(multiclass):
    """C_bin = 2 C and w = w_1 - w_0."""
    X, y, settings = problem_data("binary")
    theirs = LinearSVC(
        loss="hinge", C=2 * settings["C"], fit_intercept=False, tol=1e-9, max_iter=200_000, random_state=0
    ).fit(X, y)
    weights = fit(make_problem("binary", multiclass))[:-1]
    np.testing.assert_allclose(weights[:, 1] - weights[:, 0], theirs.coef_[0], atol=1e-4)
