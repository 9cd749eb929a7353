"""The three ways to the nearest balanced point agree with each other and with a QP."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference.l2_optimum import nearest_balanced
from softmargin.sets import BALANCERS, project_balanced

every_balancer = pytest.mark.parametrize("method", sorted(BALANCERS))
numbers = st.one_of(
    st.sampled_from([0.0, 1.0, -1.0, 0.5]),  # ties
    st.floats(-5, 5),
    st.floats(-1e8, 1e8),
    st.floats(-1e-8, 1e-8),
)


@st.composite
def cases(draw, values=numbers, least=1):
    n = draw(st.integers(least, 9))
    beta = np.array(draw(st.lists(values, min_size=n, max_size=n)))
    y = np.array(draw(st.lists(st.sampled_from([-1.0, 1.0]), min_size=n, max_size=n)))
    return beta, y


def slope(root, z, y, w):
    """g(root): what the positives still have above the root, less what the negatives have below it."""
    return float((w * np.where(y > 0, np.maximum(z - root, 0.0), np.minimum(z - root, 0.0))).sum())


@every_balancer
@given(case=cases())
def test_projection_is_feasible_and_idempotent(method, case):
    beta, y = case
    size = np.abs(beta).max() + 1e-300
    a, _ = project_balanced(beta, y, method=method)
    assert (a >= 0).all()
    assert abs(y @ a) <= 1e-14 * len(y) * size
    again, _ = project_balanced(a, y, method=method)
    np.testing.assert_allclose(again, a, atol=1e-13 * len(y) * size)


@given(case=cases())
def test_all_balancers_find_the_same_point(case):
    beta, y = case
    points = [project_balanced(beta, y, method=method)[0] for method in BALANCERS]
    for point in points[1:]:
        np.testing.assert_allclose(point, points[0], rtol=1e-12, atol=1e-14 * len(y) * np.abs(beta).max())


@given(case=cases(), other=cases(least=9))
def test_no_feasible_point_is_nearer(case, other):
    """The distance to the projection makes an obtuse angle with the way to every other feasible point."""
    beta, y = case
    a, _ = project_balanced(beta, y)
    candidate, _ = project_balanced(other[0][: len(y)], y, method="sort")
    scale = (np.abs(beta).max() + np.abs(candidate).max() + 1e-300) ** 2
    assert (beta - a) @ (candidate - a) <= 1e-13 * len(y) * scale


@every_balancer
@pytest.mark.parametrize("seed", range(4))
def test_projection_agrees_with_a_qp(method, seed):
    rng = np.random.default_rng(seed)
    beta, y = rng.standard_normal(12).round(seed), np.where(rng.random(12) < 0.4, 1.0, -1.0)
    np.testing.assert_allclose(project_balanced(beta, y, method=method)[0], nearest_balanced(beta, y), atol=1e-6)


@every_balancer
@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_single_class_has_only_the_origin(method, label):
    a, _ = project_balanced(np.array([3.0, -1.0, 2.0, 2.0]), np.full(4, label), method=method)
    np.testing.assert_array_equal(a, 0.0)


@every_balancer
@given(case=cases(), start=st.floats(-1e9, 1e9), seed=st.integers(0, 99))
def test_weighted_root_balances_both_sides_from_any_start(method, case, start, seed):
    """Where no root is exact in floating point, g changes its sign within rounding of the root."""
    z, y = case
    w = np.random.default_rng(seed).exponential(size=len(z)) + 0.01
    root = BALANCERS[method](z, y, w, start)
    near = 1e-14 * (len(z) + 1) * np.abs(z).max() + 1e-300
    assert slope(root - near, z, y, w) >= -1e-15
    assert slope(root + near, z, y, w) <= 1e-15


def test_weight_two_is_the_point_twice():
    rng = np.random.default_rng(0)
    z, y = rng.standard_normal(20), np.where(rng.random(20) < 0.5, 1.0, -1.0)
    w = np.where(np.arange(20) % 3 == 0, 2, 1)
    for balance in BALANCERS.values():
        assert balance(z, y, w) == pytest.approx(balance(np.repeat(z, w), np.repeat(y, w)), abs=1e-14)
