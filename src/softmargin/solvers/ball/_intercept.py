"""The best intercept for given scores, searched by one compiled loop.

    slope_c(b) = sum_i p_i f'(s_ic + b_c, t_ic) = 0 ,    one equation a column, rising in b_c

Newton's method inside a bracket that every pass over the scores narrows, as ``LinearLosses.best_intercept`` does it in
NumPy for certificates: here a search is one call, which counts where fits are small. Losses without a compiled form,
and losses of whole rows, are left to the problem.
"""

from typing import Any, NamedTuple

import numpy as np

from softmargin.backends.jit import jit
from softmargin.backends.lanes import WIDTH, load, maximum, pointer, splat, store
from softmargin.core.deadline import alarm
from softmargin.core.protocols import Array, ConstrainedProblem
from softmargin.solvers.ball._objective import compiled_loss, entries_by_part, tile_weights
from softmargin.solvers.ball._products import fresh_lanes, tile_at

_NOTHING: list[Array] = [np.zeros(0), np.zeros(0), np.zeros(0)]


class InterceptTuning(NamedTuple):
    """Constants of the search."""

    most_passes: int = 100  # a guard, not a target
    level: float = 1e-13  # share of the sizes of slopes below which their sum is rounding
    close: float = 1e-7  # the same from which on a Newton step is the last: what it leaves is of second order
    rounding: float = 1e-15  # a step of this share of b ends the search
    far: float = 1e100  # an intercept this large comes from a step without curvature
    # Entries of a block, and the fewest rows: its tiles share cache lines, still in the cache when read again; by hand
    block: int = 4096
    fewest_rows: int = 4 * WIDTH


_TUNING = InterceptTuning()


def best_intercept(problem: ConstrainedProblem, scores: Array, start: Array) -> Array:
    """Return the b that minimises the losses of these scores; zero without an intercept."""
    loss = compiled_loss(problem)
    if loss is None or not (problem.fit_intercept and problem.weights.any()):
        return problem.best_intercept(scores, start)
    b = np.array(start, dtype=np.float64)
    parts = entries_by_part(problem, scores)
    search(loss, b, *parts[0], *(parts[1] if len(parts) > 1 else _NOTHING), alarm())
    return b


@jit
def search(
    loss: Any, b: Array, p: Array, T: Array, S: Array, last_p: Array, last_T: Array, last_S: Array, alarm: Array
) -> int:
    """Move b to where the slopes of both parts sum to zero; return the passes made. The alarm ends it where it is."""
    k = b.shape[0]
    width = k if k >= WIDTH else k * WIDTH  # of a row of the passes
    shift, sums = np.empty(width), np.empty(3 * width)
    low, high = np.full(k, -np.inf), np.full(k, np.inf)
    n_passes, has_moved = 0, True
    while has_moved and n_passes < _TUNING.most_passes:
        n_passes += 1
        for o in range(width):
            shift[o] = b[o % k]
        sums[:] = 0.0
        add_sums(loss, shift, p, T, S, sums)
        if last_S.shape[0] > 0:
            add_sums(loss, shift, last_p, last_T, last_S, sums)
        has_moved = False
        for c in range(k):
            slope, size, bend = 0.0, 0.0, 0.0
            for o in range(c, width, k):
                slope += sums[o]
                size += sums[width + o]
                bend += sums[2 * width + o]
            if not abs(slope) > _TUNING.level * size:
                continue
            if slope < 0.0:
                low[c] = b[c]
            else:
                high[c] = b[c]
            new = b[c] - slope / bend if bend > 0.0 else np.inf
            is_last = abs(slope) <= _TUNING.close * size
            if not (low[c] < new < high[c] and abs(new) < _TUNING.far):
                is_last = False
                if low[c] > -np.inf and high[c] < np.inf:
                    new = 0.5 * (low[c] + high[c])
                else:
                    new = b[c] - np.sign(slope) * (1.0 + 2.0 * abs(b[c]))
            has_moved = has_moved or not (is_last or abs(new - b[c]) <= _TUNING.rounding * (1.0 + abs(b[c])))
            b[c] = new
        has_moved = has_moved and alarm[0] == 0
    return n_passes


@jit
def add_sums(loss: Any, b: Array, p: Array, T: Array, S: Array, out: Array) -> None:
    """Add the sums over rows of p f', p |f'| and p f'', one after the other; (3 * k,)."""
    p_, T_, S_, b_, out_ = pointer(p), pointer(T), pointer(S), pointer(b), pointer(out)
    k, is_by_entry = b.shape[0], p.shape[0] == S.shape[0]
    n, rows = S.shape[0] // k, max(_TUNING.block // k, _TUNING.fewest_rows)
    for first in range(0, n, rows):
        for c in range(0, k, WIDTH):
            o, fresh = tile_at(c, k), fresh_lanes(c, k)
            shift = load(b_, o)
            sum_slopes, sum_sizes, sum_bends = splat(0.0), splat(0.0), splat(0.0)
            for i in range(first, min(first + rows, n)):
                slope, bend = loss.slope_and_bend(load(S_, i * k + o) + shift, load(T_, i * k + o))
                weight = fresh * tile_weights(p_, i, o, k, is_by_entry)
                slope = weight * slope
                sum_slopes = sum_slopes + slope
                sum_sizes = sum_sizes + maximum(slope, splat(0.0) - slope)
                sum_bends = sum_bends + weight * bend
            store(out_, o, load(out_, o) + sum_slopes)
            store(out_, k + o, load(out_, k + o) + sum_sizes)
            store(out_, 2 * k + o, load(out_, 2 * k + o) + sum_bends)
