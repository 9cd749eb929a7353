"""Conjugate gradients against solutions of NumPy, within a ball and without, and where a system has none."""

import math

import numpy as np
import pytest

from softmargin.solvers.common.conjugate_gradients import conjugate_gradients

D = 30


def system(rng, spread=3.0):
    """Return a positive definite matrix with eigenvalues from 1 to 10^spread, and a right side."""
    basis = np.linalg.qr(rng.standard_normal((D, D)))[0]
    return (basis * np.logspace(0.0, spread, D)) @ basis.T, rng.standard_normal(D)


def solved(H, right, exactness, **settings):
    def product(v, out):
        out[:] = H @ v

    scale = settings.pop("scale", np.ones(len(right)))
    return conjugate_gradients(product, right, lambda r: r / scale, exactness, **settings)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("is_euclidean", [True, False])
@pytest.mark.parametrize("exactness", [1e-2, 1e-10])
def test_the_residual_falls_to_the_share_asked_for(rng, is_euclidean, exactness):
    H, right = system(rng)
    scale = np.diag(H).copy()
    found = solved(H, right, exactness, is_euclidean=is_euclidean, scale=scale)
    np.testing.assert_allclose(found.residual, right - H @ found.x, atol=1e-9)
    weights = np.ones(D) if is_euclidean else 1.0 / scale
    assert found.residual**2 @ weights <= 1.01 * exactness**2 * (right**2 @ weights)
    assert not found.at_edge
    if exactness < 1e-6:
        np.testing.assert_allclose(found.x, np.linalg.solve(H, right), rtol=1e-6)


def test_products_are_no_more_than_asked_for(rng):
    H, right = system(rng)
    made = []

    def product(v, out):
        made.append(0)
        out[:] = H @ v

    conjugate_gradients(product, right, np.copy, 1e-12, max_products=7)
    assert len(made) == 7


def test_a_ball_is_met_where_the_solution_lies_outside(rng):
    H, right = system(rng)
    radius = 0.5 * float(np.linalg.norm(np.linalg.solve(H, right)))
    found = solved(H, right, 1e-10, radius=radius)
    assert found.at_edge
    assert np.linalg.norm(found.x) == pytest.approx(radius)
    np.testing.assert_allclose(found.residual, right - H @ found.x, atol=1e-9)
    assert 0.5 * found.x @ H @ found.x < right @ found.x


def test_a_direction_without_curvature_is_not_gone():
    assert not solved(np.zeros((D, D)), np.ones(D), 1e-3).x.any()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0])
def test_products_that_are_no_numbers_end_it(bad):
    found = solved(np.diag(np.full(D, bad)), np.ones(D), 1e-3)
    assert not found.x.any()
