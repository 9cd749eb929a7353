"""Entrywise losses: slopes, bends, conjugates and dual steps agree with each other, also where numbers are huge."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from softmargin.losses.entrywise import ENTRYWISE
from softmargin.testing import check_loss

every_loss = pytest.mark.parametrize("loss", ENTRYWISE.values(), ids=ENTRYWISE)
margin_losses = pytest.mark.parametrize(
    "loss", [loss for loss in ENTRYWISE.values() if loss.is_margin], ids=lambda loss: type(loss).__name__
)
numbers = st.one_of(st.sampled_from([0.0, 1.0, -1.0, 0.5]), st.floats(-6, 6), st.floats(-40, 40))
signs = st.sampled_from([-1.0, 1.0])


def target_for(loss, sign, number):
    return sign if loss.is_margin else number


def one(function, *arguments):
    """Call a function of arrays with numbers."""
    return float(function(*(np.array([x]) for x in arguments))[0])


@every_loss
@given(s=numbers, sign=signs, t=numbers)
def test_bend_is_the_difference_of_slopes_away_from_corners(loss, s, sign, t):
    t, h = target_for(loss, sign, t), 1e-4
    assume(not loss.is_margin or min(abs(t * s), abs(t * s - 1.0)) >= 2 * h)
    difference = (one(loss.slope, s + h, t) - one(loss.slope, s - h, t)) / (2.0 * h)
    assert one(loss.bend, s, t) == pytest.approx(difference, abs=1e-7)


@every_loss
def test_curvature_is_reached(loss):
    scores = np.linspace(-3.0, 3.0, 601)
    assert loss.bend(scores, np.ones(601)).max() == pytest.approx(loss.curvature)


@every_loss
@given(u=st.floats(-2.0, 2.0), sign=signs, t=st.floats(-2, 2))
def test_conjugate_is_the_largest_value_over_scores(loss, u, sign, t):
    t = target_for(loss, sign, t)
    values = [
        (u * scores - loss.value(scores, np.full(len(scores), t))).max()
        for scores in (np.linspace(-30.0, 30.0, 12001), np.linspace(-60.0, 60.0, 24001))
    ]
    conjugate = one(loss.conjugate, u, t)
    if np.isfinite(conjugate):
        assert conjugate == pytest.approx(values[1], abs=1e-4)
    elif min(abs(u), abs(abs(u) - 1.0)) > 0.01:  # well outside, the values grow with the scores
        assert values[1] > values[0] + 0.2


@margin_losses
def test_conjugate_is_infinite_outside_its_domain_and_finite_on_its_edge(loss):
    for t in (-1.0, 1.0):
        assert one(loss.conjugate, 0.0, t) == 0.0
        assert one(loss.conjugate, t * 1e-12, t) == np.inf
        assert np.isfinite(one(loss.conjugate, -t, t))
        is_bounded = type(loss).__name__ != "SquaredHinge"
        assert np.isinf(one(loss.conjugate, -t * (1.0 + 1e-12), t)) == is_bounded


@every_loss
@given(s=numbers, sign=signs, t=numbers)
def test_long_dual_step_ends_at_the_slope_and_a_short_one_where_it_began(loss, s, sign, t):
    t = target_for(loss, sign, t)
    assert one(loss.dual_step, 0.0, s, t, 1e14) == pytest.approx(one(loss.slope, s, t), rel=1e-6, abs=1e-9)
    assert one(loss.dual_step, -0.5 * sign, s, t, 1e-14) == pytest.approx(-0.5 * sign, abs=1e-10)


@every_loss
def test_shapes_broadcast_and_nothing_is_written_in_place(loss):
    rng = np.random.default_rng(0)
    scores, target = rng.standard_normal((6, 3)), np.where(rng.random((6, 3)) < 0.5, -1.0, 1.0)
    u = loss.slope(scores, target)
    kept = scores.copy(), target.copy(), u.copy()
    lengths = np.geomspace(0.1, 10.0, 6)[:, None]
    together = loss.dual_step(u, 0.0 * scores, target, lengths)
    for i in range(6):
        one_row = loss.dual_step(u[i], 0.0 * scores[i], target[i], lengths[i, 0])
        np.testing.assert_allclose(together[i], one_row, rtol=1e-12, atol=1e-15)
    for function in (loss.value, loss.slope, loss.bend, loss.conjugate):
        assert function(u, target).shape == (6, 3)
        np.testing.assert_array_equal(function(u, 1.0), function(u, np.ones((6, 3))))
    for now, then in zip((scores, target, u), kept, strict=True):
        np.testing.assert_array_equal(now, then)


@every_loss
@pytest.mark.parametrize("seed", range(5))
def test_loss_keeps_the_contract(loss, seed):
    check_loss(loss, seed=seed)


BREAKS = {
    "value": (lambda loss: lambda s, t: 1.001 * loss.value(s, t), "slope is not the derivative"),
    "slope": (lambda loss: lambda s, t: loss.slope(s, t) + 1e-4, "slope is not the derivative"),
    "bend": (lambda loss: lambda s, t: 0.99 * loss.bend(s, t), "bend is not the derivative"),
    "curvature": (lambda loss: 0.9 * loss.curvature, "curvature"),
    "steepest": (lambda loss: 0.5, "steepest"),
    "conjugate": (lambda loss: lambda u, t: loss.conjugate(u, t) + 1e-9, "is not u s at"),
    "dual_step": (lambda loss: lambda u, s, t, r: 0.999 * loss.dual_step(u, s, t, r), "dual_step"),
}


@every_loss
@pytest.mark.parametrize("verb", BREAKS)
def test_a_broken_loss_is_caught(loss, verb):
    make, sentence = BREAKS[verb]
    names = ("value", "slope", "bend", "conjugate", "dual_step", "curvature", "steepest", "is_margin")
    broken = SimpleNamespace(**{name: getattr(loss, name) for name in names})
    setattr(broken, verb, make(loss))
    with pytest.raises(AssertionError, match=sentence):
        check_loss(broken)
