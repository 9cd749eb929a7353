"""Compiled passes over all entries of the scores, for the losses of ``losses.entrywise``.

No array of the size of the scores is made on the way. Any other loss is left to the problem's own methods.

    best_intercept(problem, S, start)     argmin over b of the losses; the problem's method, with a compiled look
    fill_slopes(problem, S, b, out)       out = p f'(S + b)
    slope_rise(problem, S, b, U, S0)      < p f'(S + b) - U , S - S0 >
    losses(problem, S, b)                 sum p f(S + b)
    conjugates(problem, S, b)             sum p f*(f'(S + b))

A loss is folded as in ``ball_duals``: with z = S + b and w = sign z, f is quadratic around m between two kinks and
linear beyond.

    loss             sign, m     f'(z) = sign g                          low, high
    smooth hinge     t, 1        g = clip(w, m + low, m + high) - m      -1, 0
    squared hinge    t, 1                                                -inf, 0
    squared          1, t                                                -inf, inf
    logistic         t           g = -expit(-w)

An entry without a target (NaN) costs nothing, as in ``losses.observed``. Tiles of classes are those of
``ball_columns``; what the last one repeats has no weight in sums. With fewer than four classes, four samples make a
row. Sums are taken in blocks of rows: the best intercept is where a sum over all samples is zero up to rounding.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import inline, jit
from softmargin.backends.lanes import WIDTH, exp, load, maximum, pointer, splat, store, total, where_greater
from softmargin.losses.entrywise import Logistic, SmoothHinge, Squared, SquaredHinge
from softmargin.losses.observed import Observed
from softmargin.solvers.ball._l1_loops import fresh_lanes, tile_at

__all__ = ["best_intercept", "conjugates", "fill_slopes", "losses", "slope_rise"]

Array = NDArray[Any]
_BLOCK = 4096  # entries whose tiles are read one after the other: both halves of a line, while it is near
_FEWEST = 4 * WIDTH  # rows in a block
_ODD = tuple(2.0 / odd for odd in range(33, 0, -2))  # of the series of log((1 + r) / (1 - r)), the last one first


class Folded(NamedTuple):
    """What the compiled passes know of a loss."""

    is_logistic: bool
    is_margin: bool
    low: float
    high: float


_FOLDED = {
    SmoothHinge: Folded(False, True, -1.0, 0.0),
    SquaredHinge: Folded(False, True, -np.inf, 0.0),
    Squared: Folded(False, False, -np.inf, np.inf),
    Logistic: Folded(True, True, -1.0, 0.0),
}


def best_intercept(problem: Any, scores: Array, start: Array) -> Array:
    """Return the b that minimises the losses of these scores; zero without an intercept."""
    folded = _folded(problem)
    if folded is None or not problem.fit_intercept:
        return np.asarray(problem.best_intercept(scores, start))
    parts = _parts(problem, scores)

    def look(b: Array) -> Array:
        shift = _shift(b)
        out, total = np.empty((3, len(shift))), np.zeros((3, len(b)))
        for part in parts:
            _look(folded, shift, *part, out.reshape(-1))
            total += out.reshape(3, -1, len(b)).sum(axis=1)
        return total

    return np.asarray(problem.best_intercept(scores, start, look))


def fill_slopes(problem: Any, scores: Array, intercept: Array, out: Array) -> None:
    """Write p_i f'(s_ic + b_c, t_ic); (n, k)."""
    folded = _folded(problem)
    if folded is None:
        out[:] = problem.slopes(scores, intercept)
        return
    parts = _parts(problem, scores, out)
    for part in parts:
        _slopes(folded, _shift(intercept), *part)
    rest = len(out) % WIDTH
    if rest and out.shape[1] < WIDTH:
        out[-rest:] = parts[-1][-1].reshape(WIDTH, -1)[:rest]


def slope_rise(problem: Any, scores: Array, intercept: Array, U: Array, before: Array) -> float:
    """Return the product of how the slopes differ from U and how the scores differ from those ``before``."""
    folded = _folded(problem)
    if folded is None:
        return float(np.vdot(problem.slopes(scores, intercept) - U, scores - before))
    shift = _shift(intercept)
    return sum(float(_rise(folded, shift, *part)) for part in _parts(problem, scores, U, before))


def losses(problem: Any, scores: Array, intercept: Array) -> float:
    """Return sum_i p_i sum_c f(s_ic + b_c, t_ic)."""
    folded = _folded(problem)
    return problem.losses(scores, intercept) if folded is None else _both_sums(folded, problem, scores, intercept)[0]


def conjugates(problem: Any, scores: Array, intercept: Array) -> float:
    """Return sum_i p_i sum_c f*(u_ic, t_ic) at the slopes u of these scores."""
    folded = _folded(problem)
    if folded is not None:
        return _both_sums(folded, problem, scores, intercept)[1]
    U = problem.loss.slope(scores + intercept, problem.target)
    return float(problem.weights @ problem.loss.conjugate(U, problem.target).sum(axis=1))


def _both_sums(folded: Folded, problem: Any, scores: Array, intercept: Array) -> Array:
    return np.sum([_sums(folded, _shift(intercept), *part) for part in _parts(problem, scores)], axis=0)


def _folded(problem: Any) -> Folded | None:
    loss = problem.loss.inner if isinstance(problem.loss, Observed) else problem.loss
    return _FOLDED.get(type(loss))


def _shift(b: Array) -> Array:
    """Return the intercepts of the classes of a row."""
    return b if len(b) >= WIDTH else np.tile(b, WIDTH)


def _parts(problem: Any, scores: Array, *more: Array) -> list[list[Array]]:
    """Return weights, targets, scores and more arrays, flat, in one or two parts whose rows hold a tile at least.

    With fewer than four classes, the second part has the samples that are left over, and zeros.
    """
    n, k = scores.shape
    arrays = (problem.target, scores, *more)
    if k >= WIDTH:
        return [[problem.weights, *(array.reshape(-1) for array in arrays)]]
    rest = n % WIDTH
    by_entry = (np.repeat(problem.weights, k).reshape(n, k), *arrays)
    parts = [[array[: n - rest].reshape(-1) for array in by_entry]] if n > rest else []
    if rest:
        parts.append([np.zeros(WIDTH * k) for _ in by_entry])
        for room, array in zip(parts[-1], by_entry, strict=True):
            room[: rest * k] = array[n - rest :].reshape(-1)
    return parts


@inline
def _prices(p: Any, i: int, o: int, k: int, is_by_entry: bool) -> Any:
    """Return the weights of a tile."""
    return load(p, i * k + o) if is_by_entry else splat(p[i])


@inline
def _clipped(folded: Any, z: Any, t: Any) -> tuple[Any, Any, Any, Any, Any, Any]:
    """Return sign, m, w, the two kinks and g."""
    sign = t if folded.is_margin else splat(1.0)
    m = splat(1.0) if folded.is_margin else t
    w = sign * z
    low, high = m + splat(folded.low), m + splat(folded.high)
    # Comparisons that a NaN fails: it stays.
    inside = where_greater(low, w, low, w)
    return sign, m, w, low, high, where_greater(inside, high, high, inside) - m


@inline
def _inverse(x: Any) -> Any:
    """Return 1 / x for x in [1, 2]: Newton's iterations from a line that is off by 1/17 at most."""
    y = splat(24.0 / 17.0) - splat(8.0 / 17.0) * x
    for _ in range(4):
        y = y + y * (splat(1.0) - x * y)
    return y


@inline
def _log_of_one_and(e: Any) -> Any:
    """Return log(1 + e) for e in [0, 1]: with r = e / (2 + e), it is log((1 + r) / (1 - r))."""
    r = splat(0.5) * e * _inverse(splat(1.0) + splat(0.5) * e)
    square, series = r * r, splat(0.0)
    for term in _ODD:
        series = series * square + splat(term)
    return r * series


@inline
def _sigmoids(z: Any, t: Any) -> tuple[Any, Any, Any, Any]:
    """Return w, exp(-|w|), and expit of |w| and of -|w|."""
    w, zero = t * z, splat(0.0)
    e = exp(zero - maximum(w, zero - w))
    large = _inverse(splat(1.0) + e)
    return w, e, large, e * large


@inline
def _slope_and_bend(folded: Any, z: Any, t: Any) -> tuple[Any, Any]:
    """Return f' and f'' of a tile."""
    zero = splat(0.0)
    if folded.is_logistic:
        w, _, large, small = _sigmoids(z, t)
        slope = zero - t * where_greater(w, zero, small, large)
        bend = small * large
    else:
        sign, _, w, low, high, g = _clipped(folded, z, t)
        slope = sign * g
        bend = where_greater(w, low, where_greater(high, w, splat(1.0), zero), zero)
    lowest = splat(-np.inf)
    return where_greater(t, lowest, slope, zero), where_greater(t, lowest, bend, zero)


@inline
def _loss_and_conjugate(folded: Any, z: Any, t: Any) -> tuple[Any, Any]:
    """Return f and f*(f') of a tile."""
    zero = splat(0.0)
    if folded.is_logistic:
        w, e, large, small = _sigmoids(z, t)
        loss = maximum(zero - w, zero) + _log_of_one_and(e)
        conjugate = zero - w * where_greater(w, zero, small, large) - loss
    else:
        _, m, w, _, _, g = _clipped(folded, z, t)
        loss = g * (w - m - splat(0.5) * g)
        conjugate = g * (m + splat(0.5) * g)
    lowest = splat(-np.inf)
    return where_greater(t, lowest, loss, zero), where_greater(t, lowest, conjugate, zero)


@jit
def _look(folded: Any, b: Array, p: Array, T: Array, S: Array, out: Array) -> None:
    """Write the sums over rows of p f', p |f'| and p f'', one after the other; (3 * k,)."""
    p_, T_, S_, b_, out_ = pointer(p), pointer(T), pointer(S), pointer(b), pointer(out)
    k, is_by_entry = b.shape[0], p.shape[0] == S.shape[0]
    n, rows = S.shape[0] // k, max(_BLOCK // k, _FEWEST)
    out[:] = 0.0
    for first in range(0, n, rows):
        for c in range(0, k, WIDTH):
            o, fresh = tile_at(c, k), fresh_lanes(c, k)
            shift = load(b_, o)
            slopes, sizes, bends = splat(0.0), splat(0.0), splat(0.0)
            for i in range(first, min(first + rows, n)):
                slope, bend = _slope_and_bend(folded, load(S_, i * k + o) + shift, load(T_, i * k + o))
                weight = fresh * _prices(p_, i, o, k, is_by_entry)
                slope = weight * slope
                slopes = slopes + slope
                sizes = sizes + maximum(slope, splat(0.0) - slope)
                bends = bends + weight * bend
            store(out_, o, load(out_, o) + slopes)
            store(out_, k + o, load(out_, k + o) + sizes)
            store(out_, 2 * k + o, load(out_, 2 * k + o) + bends)


@jit
def _slopes(folded: Any, b: Array, p: Array, T: Array, S: Array, out: Array) -> None:
    """Write p f'."""
    p_, T_, S_, b_, out_ = pointer(p), pointer(T), pointer(S), pointer(b), pointer(out)
    k, is_by_entry = b.shape[0], p.shape[0] == S.shape[0]
    for i in range(S.shape[0] // k):
        for c in range(0, k, WIDTH):
            o = tile_at(c, k)
            slope, _ = _slope_and_bend(folded, load(S_, i * k + o) + load(b_, o), load(T_, i * k + o))
            store(out_, i * k + o, _prices(p_, i, o, k, is_by_entry) * slope)


@jit
def _rise(folded: Any, b: Array, p: Array, T: Array, S: Array, U: Array, S0: Array) -> float:
    """Return < p f' - U , S - S0 >."""
    p_, T_, S_, b_, U_, S0_ = pointer(p), pointer(T), pointer(S), pointer(b), pointer(U), pointer(S0)
    k, is_by_entry = b.shape[0], p.shape[0] == S.shape[0]
    rise = 0.0
    for i in range(S.shape[0] // k):
        rises = splat(0.0)
        for c in range(0, k, WIDTH):
            o = tile_at(c, k)
            s = load(S_, i * k + o)
            slope, _ = _slope_and_bend(folded, s + load(b_, o), load(T_, i * k + o))
            change = _prices(p_, i, o, k, is_by_entry) * slope - load(U_, i * k + o)
            rises = rises + fresh_lanes(c, k) * change * (s - load(S0_, i * k + o))
        rise += total(rises)
    return rise


@jit
def _sums(folded: Any, b: Array, p: Array, T: Array, S: Array) -> tuple[float, float]:
    """Return the sums of p f and p f*(f')."""
    p_, T_, S_, b_ = pointer(p), pointer(T), pointer(S), pointer(b)
    k, is_by_entry = b.shape[0], p.shape[0] == S.shape[0]
    losses, conjugates = 0.0, 0.0
    for i in range(S.shape[0] // k):
        row_losses, row_conjugates = splat(0.0), splat(0.0)
        for c in range(0, k, WIDTH):
            o = tile_at(c, k)
            loss, conjugate = _loss_and_conjugate(folded, load(S_, i * k + o) + load(b_, o), load(T_, i * k + o))
            weight = fresh_lanes(c, k) * _prices(p_, i, o, k, is_by_entry)
            row_losses = row_losses + weight * loss
            row_conjugates = row_conjugates + weight * conjugate
        losses += total(row_losses)
        conjugates += total(row_conjugates)
    return losses, conjugates
