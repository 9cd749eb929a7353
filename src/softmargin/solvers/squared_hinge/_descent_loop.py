"""Compiled passes of coordinate descent on the duals of several binary SVMs of the same rows.

Classes come in tiles of ``WIDTH``; one class alone is a tile of its own width. A sample keeps one bit per tile: it
is visited as long as one of its variables may have something to do, and the sample as long as it has a tile.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import inline, jit
from softmargin.backends.lanes import WIDTH, pointer, pointer_to
from softmargin.backends.loops import keep_tiles, shuffle, tiles_of

__all__ = ["Duals", "Visits", "descend_coordinates"]

Array = NDArray[Any]


class Duals(NamedTuple):
    """The duals as the passes see them; k is padded to whole tiles, or 1."""

    rows: Any  # of X
    squares: Array  # (n,) |x_i|^2
    signs: Array  # (n * k,) labels -1 and +1, int8
    C: Array  # (n,), or (n * k,) where classes have prices of their own
    is_squared: bool  # the loss: C / 2 xi^2, or C xi
    alpha: Array  # (n * k,)
    weights: Array  # ((d + 1) * k,) sums of alpha_i y_i x_i
    bias: Array  # (k,) b
    multiplier: Array  # (k,) beta
    theta: Array  # (k,)
    pull: Array  # (k,) theta rho: what b gains where y'a grows by one


class Visits(NamedTuple):
    """Which samples and tiles are visited, and what the visits found."""

    order: Array  # (n,) samples
    live: Array  # (n * words,) bit t of a sample: tile t is visited; empty where there is one tile
    steepest: Array  # (k,) the largest gradient of the right sign with which a variable stays
    gaps: Array  # (k,) gap found in the last pass
    random: Array  # (1,) state of the shuffle
    beyond: float  # times the largest violation: a gradient of the right sign beyond it lets a variable leave
    scratch: Array  # (3 * k,)
    lists: Array  # (3 * number of tiles,) int64


@inline
def _row_scores(rows: Any, i: int, W: Any, k: int, start: Any, tiles: Any, m: int, out: Any) -> None:
    """Write start + W' x_i, on the given tiles."""
    if k > 1:
        rows.scores(i, W, k, start, tiles, m, out)
        return
    out[0] = start[0] + rows.dot(i, W)


@inline
def _add_row(rows: Any, i: int, step: Any, tiles: Any, m: int, W: Any, k: int) -> None:
    """Add x_i step' to W, on the given tiles."""
    if k > 1:
        rows.add(i, step, tiles, m, W, k)
        return
    rows.push(i, step[0], W)


@jit
def descend_coordinates(
    duals: Duals, visits: Visits, n_classes: int, m: int, every: int, budget: int, target: float, alarm: Array
) -> tuple[int, int, float, float, float]:
    """Pass over order[:m] until the gap found in one pass is at most ``target`` or ``budget`` tiles were visited.

    After every so many tiles, and at the end, the multipliers follow their biases. A variable at a bound leaves it only
    by a gradient of the right sign; where that is wrong by more than ``steepest`` for all variables of a tile, the tile
    leaves the set. Returns what is left of m, the number of tiles visited, the gap of the last pass and of the one
    before, infinite where there is none, and the rise of the dual values.
    """
    rows, squares_, signs_, C_ = duals.rows.bare(), pointer(duals.squares), pointer(duals.signs), pointer(duals.C)
    alpha_, W_, b_, pull_ = pointer(duals.alpha), pointer(duals.weights), pointer(duals.bias), pointer(duals.pull)
    order_, live_, alarm_ = pointer(visits.order), pointer(visits.live), pointer(alarm)
    beta_, theta_ = pointer(duals.multiplier), pointer(duals.theta)
    k, n_tiles, words = duals.bias.shape[0], visits.lists.shape[0] // 3, visits.live.shape[0] // duals.squares.shape[0]
    width, by_class = min(WIDTH, k), duals.C.shape[0] > duals.squares.shape[0]
    steepest_, gaps_, largest_ = pointer(visits.steepest), pointer(visits.gaps), pointer(visits.scratch)
    scores_, step_ = pointer_to(visits.scratch, k), pointer_to(visits.scratch, 2 * k)
    mine_, changed_, kept_ = (
        pointer(visits.lists),
        pointer_to(visits.lists, n_tiles),
        pointer_to(visits.lists, 2 * n_tiles),
    )
    done, due, rise = 0, every, 0.0
    total, before = math.inf, math.inf
    mine_[0] = 0
    for c in range(k):
        step_[c] = 0.0
    while True:
        shuffle(order_, m, visits.random)
        for c in range(k):
            largest_[c] = 0.0
            gaps_[c] = 0.0
        t = 0
        while t < m and alarm_[0] == 0:
            i = order_[t]
            n_mine, n_changed, n_kept = 1, 0, 0
            if words > 0:
                n_mine = tiles_of(live_, i * words, words, mine_)
            done += n_mine
            _row_scores(rows, i, W_, k, b_, mine_, n_mine, scores_)
            for q in range(n_mine):
                first = mine_[q]
                is_kept, has_moved = False, False
                for c in range(first, min(first + width, n_classes)):
                    step_[c] = 0.0
                    price = C_[i * k + c] if by_class else C_[i]
                    if price == 0.0:
                        continue
                    ridge = 1.0 / price if duals.is_squared else 0.0
                    a, sign = alpha_[i * k + c], np.float64(signs_[i * k + c])
                    ahead = sign * scores_[c] - 1.0
                    slack = max(-ahead, 0.0)
                    if duals.is_squared:
                        short = slack - a * ridge
                        gaps_[c] += 0.5 * short * (short * price) + a * (ahead + slack)
                    else:
                        gaps_[c] += max(-ahead * (price - a), ahead * a)
                    slope = ahead + a * ridge
                    is_high = not duals.is_squared and a >= price
                    if (a == 0.0 and slope >= 0.0) or (is_high and slope <= 0.0):
                        is_kept |= abs(slope) <= steepest_[c]
                        continue
                    is_kept = True
                    largest_[c] = max(largest_[c], abs(slope))
                    curvature = squares_[i] + pull_[c] + ridge
                    new = max(a - slope / curvature, 0.0)
                    if not duals.is_squared:
                        new = min(new, price)
                    if new == a:
                        continue
                    has_moved = True
                    alpha_[i * k + c] = new
                    move = new - a
                    step_[c] = move * sign
                    plain = ahead - sign * b_[c]
                    rise -= move * (plain + 0.5 * move * squares_[i] + ridge * (a + 0.5 * move))
                    b_[c] += pull_[c] * step_[c]
                if has_moved:
                    changed_[n_changed] = first
                    n_changed += 1
                if is_kept:
                    kept_[n_kept] = first
                    n_kept += 1
            if n_changed > 0:
                _add_row(rows, i, step_, changed_, n_changed, W_, k)
            if n_kept < n_mine and words > 0:
                keep_tiles(live_, i * words, words, kept_, n_kept)
            if n_kept == 0:
                m -= 1
                order_[t], order_[m] = order_[m], i
                continue
            t += 1
        before, total = total, 0.0
        for c in range(k):
            steepest_[c] = visits.beyond * largest_[c]
        for c in range(k):
            total += gaps_[c]
        is_over = total <= target or done >= budget or m == 0 or alarm_[0] != 0
        if is_over or done >= due:
            due = done + every
            for c in range(k):
                off = b_[c] - theta_[c] * beta_[c]
                beta_[c] = b_[c]
                b_[c] = theta_[c] * beta_[c] + off
        if is_over:
            return m, done, total, before, rise
