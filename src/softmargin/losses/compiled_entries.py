"""Entrywise losses inside compiled loops: one struct per shape of loss, which a loss offers as ``compiled``.

Scores z and targets t are folded: w = sign z, y = sign u, so that f'(z) = sign g(w) and one struct serves all targets.

    struct               g = f'(w)                   f*(y)                                       on
    PiecewiseQuadratic   clip(w - m, low, high)      y^2 / 2 + m y                               [low, high]
    LogisticEntropy      -expit(-w)                  -y log(-y) + (1 + y) log(1 + y)             [-1, 0]

    folded(t)                     sign and m of a target: t and 1 for margin losses, else 1 and t
    slope_and_bend(z, t)          f' and f'' of four entries (``backends.lanes``)
    loss_and_conjugate(z, t)      f and f*(f') of four entries
    dual_entry(w, m, y, q)        argmax over y' of  w y' - f*(y') - q (y' - y)^2 / 2 ,  q = 1 / r: maths: ball, eq. 6
    loss_entry(w, m)              f(w) of one entry
    slack_entry(w, m, y)          f(w) + f*(y) - w y >= 0: the share of one entry in the duality gap

The methods for four entries take f = 0 where the target is missing (NaN, ``losses.observed``); those for one entry need
all targets.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from softmargin.backends.jit import compiled_struct, inline
from softmargin.backends.lanes import exp, log1p_exp, maximum, splat, where_greater

__all__ = ["MAX_STEPS", "ROUNDING", "LogisticEntropy", "PiecewiseQuadratic"]

MAX_STEPS = 60  # of Newton's method in a bracket, which halves at worst
ROUNDING = 4e-16
_ODD = tuple(2.0 / odd for odd in range(33, 0, -2))  # terms of the series of log((1 + r) / (1 - r)), the last one first
_METHODS = ("folded", "slope_and_bend", "loss_and_conjugate", "dual_entry", "loss_entry", "slack_entry")


@compiled_struct(*_METHODS)
class PiecewiseQuadratic(NamedTuple):
    """Losses that are quadratic between two kinks and linear beyond them."""

    low: float
    high: float
    is_margin: bool

    def folded(self, t: Any) -> tuple[Any, Any]:
        """Return sign and m."""
        return (t, 1.0) if self.is_margin else (1.0, t)

    def slope_and_bend(self, z: Any, t: Any) -> Any:
        """Return f' and f'' of four entries."""
        sign, _, w, low, high, g = _clipped(self, z, t)
        bend = where_greater(w, low, where_greater(high, w, splat(1.0), splat(0.0)), splat(0.0))
        return _where_observed(t, sign * g, bend)

    def loss_and_conjugate(self, z: Any, t: Any) -> Any:
        """Return f and f*(f') of four entries."""
        _, m, w, _, _, g = _clipped(self, z, t)
        return _where_observed(t, g * (w - m - splat(0.5) * g), g * (m + splat(0.5) * g))

    def dual_entry(self, w: float, m: float, y: float, q: float) -> float:
        """Return the dual step from y."""
        return min(max((q * y + w - m) / (1.0 + q), self.low), self.high)

    def loss_entry(self, w: float, m: float) -> Any:
        """Return f(w)."""
        g = min(max(w - m, self.low), self.high)
        # A linear piece has f = g w - f*(g); where g is 0 beyond the kink that is 0.
        return g * (w - m - 0.5 * g)

    def slack_entry(self, w: float, m: float, y: float) -> Any:
        """Return f(w) + f*(y) - w y."""
        g = min(max(w - m, self.low), self.high)
        return (g - y) * (w - m - 0.5 * (g + y))


@compiled_struct(*_METHODS)
class LogisticEntropy(NamedTuple):
    """The logistic loss, whose conjugate is an entropy."""

    low: float = -1.0  # of the domain of f*; a struct needs a field

    def folded(self, t: Any) -> tuple[Any, Any]:
        """Return sign and m, which is not used."""
        return t, 1.0

    def slope_and_bend(self, z: Any, t: Any) -> Any:
        """Return f' and f'' of four entries."""
        w, _, large, small = _sigmoids(z, t)
        return _where_observed(t, splat(0.0) - t * where_greater(w, splat(0.0), small, large), small * large)

    def loss_and_conjugate(self, z: Any, t: Any) -> Any:
        """Return f and f*(f') of four entries."""
        w, e, large, small = _sigmoids(z, t)
        zero = splat(0.0)
        loss = maximum(zero - w, zero) + _log1p(e)
        return _where_observed(t, loss, zero - w * where_greater(w, zero, small, large) - loss)

    def dual_entry(self, w: float, m: float, y: float, q: float) -> float:
        """Return the dual step from y: y' = -expit(-v) with v - w = q (expit(-v) + y), by Newton inside a bracket."""
        low, high = w + y * q, w + (1.0 + y) * q
        v = min(max(w, low), high)
        e = 1.0 / (1.0 + math.exp(v))
        for _ in range(MAX_STEPS):
            g = v - w - q * (e + y)
            if g < 0.0:
                low = v
            else:
                high = v
            new = v - g / (1.0 + q * e * (1.0 - e))
            if not low <= new <= high:
                new = 0.5 * (low + high)
            is_done = abs(new - v) <= ROUNDING * (1.0 + abs(v))
            v = new
            e = 1.0 / (1.0 + math.exp(v))
            if is_done:
                break
        return -e

    def loss_entry(self, w: float, m: float) -> Any:
        """Return f(w)."""
        return log1p_exp(-w)

    def slack_entry(self, w: float, m: float, y: float) -> Any:
        """Return f(w) + f*(y) - w y."""
        value = log1p_exp(-w) - w * y
        value += -y * math.log(-y) if y < 0.0 else 0.0
        return value + ((1.0 + y) * math.log1p(y) if y > -1.0 else 0.0)


@inline
def _where_observed(t: Any, one: Any, other: Any) -> tuple[Any, Any]:
    """Return both where there is a target, else zero: comparisons with NaN are false."""
    lowest, zero = splat(-np.inf), splat(0.0)
    return where_greater(t, lowest, one, zero), where_greater(t, lowest, other, zero)


@inline
def _clipped(loss: Any, z: Any, t: Any) -> tuple[Any, Any, Any, Any, Any, Any]:
    """Return sign, m, w, the two kinks and g."""
    sign = t if loss.is_margin else splat(1.0)
    m = splat(1.0) if loss.is_margin else t
    w = sign * z
    low, high = m + splat(loss.low), m + splat(loss.high)
    # NaN fails both comparisons and stays.
    inside = where_greater(low, w, low, w)
    return sign, m, w, low, high, where_greater(inside, high, high, inside) - m


@inline
def _sigmoids(z: Any, t: Any) -> tuple[Any, Any, Any, Any]:
    """Return w, exp(-|w|), and expit of |w| and of -|w|."""
    w, zero = t * z, splat(0.0)
    e = exp(zero - maximum(w, zero - w))
    large = _inverse(splat(1.0) + e)
    return w, e, large, e * large


@inline
def _inverse(x: Any) -> Any:
    """Return 1 / x for x in [1, 2]: Newton's iterations from a line that is off by 1/17 at most."""
    y = splat(24.0 / 17.0) - splat(8.0 / 17.0) * x
    for _ in range(4):
        y = y + y * (splat(1.0) - x * y)
    return y


@inline
def _log1p(e: Any) -> Any:
    """Return log(1 + e) for e in [0, 1]: with r = e / (2 + e), it is log((1 + r) / (1 - r))."""
    r = splat(0.5) * e * _inverse(splat(1.0) + splat(0.5) * e)
    square, series = r * r, splat(0.0)
    for term in _ODD:
        series = series * square + splat(term)
    return r * series
