"""Block descent on two classes: one variable a row and one column of weights are the same dual as two of each."""

import numpy as np
import pytest
import scipy.sparse as sp

from helpers import make_problem
from softmargin.backends.lanes import WIDTH
from softmargin.problems import MulticlassSVM
from softmargin.run import Stop, solve
from softmargin.solvers import DualBlockDescent
from softmargin.solvers.linear_svm._block_loop import dual_value
from softmargin.solvers.linear_svm._two_classes import columns_of, held_alpha, held_weights, held_width

JOINT = ("weston_watkins", "crammer_singer")


def two_classes(multiclass="weston_watkins", layout=np.asarray, **changes):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5)) * (rng.random((60, 5)) < 0.6)
    y = (X.sum(axis=1) + rng.standard_normal(60) > 0).astype(int)
    C = rng.uniform(0.5, 2.0, 60)
    return MulticlassSVM(layout(X), y, n_classes=2, C=C, multiclass=multiclass, bias=0.7, **changes)


def test_a_row_has_one_number_where_both_classes_share_it():
    assert held_width(two_classes()) == 1
    assert held_width(make_problem("blobs")) == WIDTH


@pytest.mark.parametrize("multiclass", JOINT)
def test_what_the_passes_hold_is_the_point_that_is_told(multiclass):
    problem, rng = two_classes(multiclass), np.random.default_rng(1)
    alpha = problem.feasible(rng.standard_normal((60, 2)))
    W = problem.point(alpha).weights
    flat, weights = np.zeros(60 * held_width(problem)), np.zeros(6 * held_width(problem))
    held_alpha(problem, alpha, flat)
    held_weights(problem, W, weights)
    told = columns_of(problem, flat, weights)
    np.testing.assert_allclose(told[0], alpha, atol=1e-15)
    np.testing.assert_allclose(told[1], W, atol=1e-14)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("multiclass", JOINT)
def test_a_pass_solves_every_row_exactly_and_keeps_the_weights(multiclass, layout):
    """By hand, in the two-column form: b_i <- clip(b_i + h_i / (2 |x_i|^2)), row after row."""
    problem, solver = two_classes(multiclass, layout), DualBlockDescent(working_set=False, order="cyclic")
    state = solver.start(problem, None, np.random.default_rng(0))
    state = solver.step(problem, state)
    X = np.hstack([problem.X.toarray() if sp.issparse(problem.X) else problem.X, np.full((60, 1), problem.bias)])
    W, b, found = np.zeros((6, 2)), np.zeros(60), 0.0
    for i, y in enumerate(problem.y):
        h = 1.0 + X[i] @ (W[:, 1 - y] - W[:, y])
        found += problem.C[i] * max(h, 0.0) - b[i] * h
        new = np.clip(b[i] + 0.5 * h / (X[i] @ X[i]), 0.0, problem.C[i])
        W[:, y] += (new - b[i]) * X[i]
        W[:, 1 - y] -= (new - b[i]) * X[i]
        b[i] = new
    point = solver.point(problem, state)
    np.testing.assert_allclose(point.alpha[np.arange(60), problem.y], b, atol=1e-12)
    np.testing.assert_allclose(point.weights, W, atol=1e-12)
    assert state.gap == pytest.approx(found, rel=1e-12)
    held = dual_value(np.zeros_like(problem.y), state.alpha, state.weights, 1)
    assert held == pytest.approx(problem.certificate(point).bound, rel=1e-12)


@pytest.mark.parametrize("multiclass", JOINT)
def test_it_goes_on_from_a_point_and_to_the_last_digits(multiclass):
    problem = two_classes(multiclass)
    first = solve(problem, DualBlockDescent(), stop=Stop(1e-2), rng=0)
    state = DualBlockDescent().start(problem, first.point, np.random.default_rng(0))
    np.testing.assert_allclose(DualBlockDescent().point(problem, state).weights, first.point.weights, atol=1e-12)
    assert solve(problem, DualBlockDescent(), init=first.point, stop=Stop(1e-10), rng=0).status.value == "converged"


def test_screened_rows_have_their_optimum():
    problem = two_classes()
    plain = solve(problem, DualBlockDescent(), stop=Stop(1e-9), rng=0)
    screened = solve(problem, DualBlockDescent(screening=True), stop=Stop(1e-9), rng=0)
    np.testing.assert_allclose(screened.point.weights, plain.point.weights, atol=1e-4)
    assert screened.certificate.residual <= 1e-9
