"""The Weston-Watkins block: one scalar equation.

    minimise over 0 <= b <= C:   1/2 b'(I + 11')b - v'b                                        paper 004, eq. (4)
    v_j = h_j / q + b_j + sum b   at the old b,   h_j = 1 + s_j - s_y,   q = |x_i|^2           Proposition 3.5
    solution: b = clip(v - gamma, 0, C)  where  gamma = sum clip(v - gamma, 0, C)              KKT, section 4.1

    paper           here
    b_j             -alpha[i, j]     off-label entries
    gamma           gamma            also alpha[i, y]: the row sums to zero
    n_u, n_m, S     n_up, n_mid, sum_mid

Three ways to gamma, all on the same v:
    WestonWatkinsNewton   safeguarded Newton, warm-started at the old sum; no sort; C may differ by class
                                                                                               maths: linear SVM, eq. 13
    WestonWatkinsSort     the paper's Algorithm 2 (Walrus), Subroutine 4 line 3 corrected            maths: errata 004.1
    WestonWatkinsGreedy   Shark's greedy coordinate descent, the paper's baseline: inexact by design
"""

from typing import Any, NamedTuple

import numpy as np

from softmargin.backends.jit import compiled_struct, inline
from softmargin.backends.lanes import WIDTH, any_nonzero, largest, load, maximum, splat, store, total, where_greater

__all__ = ["ROUNDING", "WestonWatkinsGreedy", "WestonWatkinsNewton", "WestonWatkinsSort", "write_tile"]

ROUNDING = 1e-15  # a gap below this share of C is zero but for rounding
EQUAL = 4e-16  # relative distance at which two gammas are the same number
MAX_PASSES = 200  # bisection alone needs fewer than 64; NaN would never end


@inline
def _margins(G: Any, y: int, q: float, alpha: Any, first: int, tiles: Any, m: int, work: Any) -> float:
    """Write v into work.step; return the row's gap, sum_j C_j [h_j]_+ - b_j h_j."""
    zero = splat(0.0)
    inverse = splat(1.0 / q)
    gamma = splat(alpha[first + y])
    own = splat(G[y])
    gap = zero
    for t in range(m):
        o = tiles[t]
        h = load(G, o) - own
        a = load(alpha, first + o)
        store(work.step, o, (h * inverse - a) + gamma)
        gap = gap + (load(work.bound, o) * maximum(h, zero) + a * h)
    return total(gap)


@inline
def write_tile(
    o: int, new_row: Any, is_near: bool, y: int, alpha: Any, first: int, work: Any, n_changed: int, n_kept: int
) -> tuple[int, int]:
    """Replace one tile of a row; list it if it moved, and if it may move soon. The tile of the label always may."""
    is_own = o == y - y % WIDTH
    step = new_row - load(alpha, first + o)
    store(work.step, o, step)
    store(alpha, first + o, new_row)
    if is_own or any_nonzero(step):
        work.changed[n_changed] = o
        n_changed += 1
    if is_own or is_near:
        work.kept[n_kept] = o
        n_kept += 1
    return n_changed, n_kept


@inline
def _clip(gamma: float, y: int, q: float, alpha: Any, first: int, tiles: Any, m: int, work: Any, slack: float) -> Any:
    """Set the row to b = clip(v - gamma, 0, C); list what moved and what may move soon."""
    zero = splat(0.0)
    shift = splat(gamma)
    old_sum = alpha[first + y]
    new_sum = zero
    n_changed = 0
    n_kept = 0
    for t in range(m):
        o = tiles[t]
        over = load(work.step, o) - shift
        b = maximum(over, zero)
        cap = load(work.bound, o)
        b = where_greater(b, cap, cap, b)
        new_sum = new_sum + b
        is_near = largest(over) * q > -slack
        n_changed, n_kept = write_tile(o, zero - b, is_near, y, alpha, first, work, n_changed, n_kept)
    # The label's entry is the sum of what was really stored, so that the row sums to zero exactly.
    alpha[first + y] = total(new_sum)
    work.step[y] = alpha[first + y] - old_sum
    return n_changed, n_kept


@inline
def newton(v: Any, bound: Any, tiles: Any, m: int, start: float) -> float:
    """Return the gamma of sum clip(v - gamma, 0, C) = gamma: Newton, kept inside a shrinking bracket."""
    zero = splat(0.0)
    one = splat(1.0)
    low, high = -1.0, np.inf
    gamma = start
    for _ in range(MAX_PASSES):
        shift = splat(gamma)
        sums = zero
        counts = zero
        for t in range(m):
            o = tiles[t]
            v_tile = load(v, o)
            cap = load(bound, o)
            over = v_tile - shift
            inside = where_greater(cap, over, v_tile, cap)
            sums = sums + where_greater(over, zero, inside, zero)
            counts = counts + where_greater(over, zero, where_greater(cap, over, one, zero), zero)
        new = total(sums) / (1.0 + total(counts))
        if abs(gamma - new) <= EQUAL * max(gamma, new):
            return new
        if gamma > new:
            high = gamma
        else:
            low = gamma
        if new <= low or new >= high:
            new = 0.5 * (low + high)
        if new == gamma:
            return new
        gamma = new
    return gamma


def _block_step(
    self: Any, G: Any, y: int, q: float, C: float, alpha: Any, first: int, tiles: Any, m: int, work: Any, slack: float
) -> Any:
    """Minimise with one C for all classes."""
    bound = splat(C)
    for t in range(m):
        store(work.bound, tiles[t], bound)
    return self.within_bounds(G, y, q, alpha, first, tiles, m, work, slack)


def _within_bounds(
    self: Any, G: Any, y: int, q: float, alpha: Any, first: int, tiles: Any, m: int, work: Any, slack: float
) -> Any:
    """Minimise with the bounds of work.bound."""
    gap = _margins(G, y, q, alpha, first, tiles, m, work)
    if gap <= ROUNDING * alpha[first + y]:
        return gap, 0, 0
    work.step[y] = -1.0  # the label is no variable: below every gamma >= 0 it never counts
    gamma = self.find_gamma(work.step, y, q, alpha, first, tiles, m, work)
    n_changed, n_kept = _clip(gamma, y, q, alpha, first, tiles, m, work, slack)
    return gap, n_changed, n_kept


@compiled_struct("find_gamma", block_step=_block_step, within_bounds=_within_bounds)
class WestonWatkinsNewton(NamedTuple):
    """Safeguarded Newton on the scalar equation (maths: linear SVM, eq. 13): one or two passes over the classes."""

    per_class_C: bool = True  # may C differ by class?

    def find_gamma(self, v: Any, y: int, q: float, alpha: Any, first: int, tiles: Any, m: int, work: Any) -> float:
        """Solve the scalar equation, warm-started at the old sum."""
        return newton(v, work.bound, tiles, m, alpha[first + y])


@compiled_struct("find_gamma", block_step=_block_step, within_bounds=_within_bounds)
class WestonWatkinsSort(NamedTuple):
    """Algorithm 2 of paper 004: sweep gamma down over the sorted break points until the KKT conditions hold."""

    per_class_C: bool = False  # may C differ by class?

    def find_gamma(self, v: Any, y: int, q: float, alpha: Any, first: int, tiles: Any, m: int, work: Any) -> float:
        """Sweep the sorted break points."""
        C = work.bound[tiles[0]]
        ordered = work.scratch
        n_positive = 0
        for t in range(m):
            for o in range(tiles[t], tiles[t] + WIDTH):
                if v[o] > 0.0:
                    ordered[n_positive] = v[o]
                    n_positive += 1
        _sort_descending(ordered, n_positive)
        n_up = 0
        n_mid = 0
        sum_mid = 0.0
        n_in = 0  # break points v_j passed ("dn"); the break points v_j - C passed ("up") number n_up
        for _ in range(2 * n_positive):
            # Subroutine 3: of two equal break points the "up" comes first.
            next_in = ordered[n_in] if n_in < n_positive else 0.0
            next_up = ordered[n_up] - C if n_up < n_positive else 0.0
            if next_up > 0.0 and next_up >= next_in:
                n_up += 1
                n_mid -= 1
                sum_mid -= ordered[n_up - 1]  # the erratum: v_<n_u^t>, not v_<n_u^{t-1}>
            elif next_in > 0.0:
                n_in += 1
                n_mid += 1
                sum_mid += ordered[n_in - 1]
            if n_mid < 0:
                break
            gamma: float = (C * n_up + sum_mid) / (n_mid + 1.0)
            # Subroutine 5, the KKT conditions of the sorted order.
            holds = n_up == 0 or C + gamma <= ordered[n_up - 1]
            holds = holds and (n_mid == 0 or (ordered[n_up] <= C + gamma and gamma <= ordered[n_up + n_mid - 1]))
            holds = holds and (n_up + n_mid >= n_positive or ordered[n_up + n_mid] <= gamma)
            if holds:
                return gamma
        # Rounding at ties, or C far below the last digit of v, can miss every exact comparison (maths: errata 004.2).
        return newton(v, work.bound, tiles, m, alpha[first + y])


@compiled_struct("find_gamma", block_step=_block_step, within_bounds=_within_bounds)
class WestonWatkinsGreedy(NamedTuple):
    """Shark's scheme: move the coordinate that violates its KKT condition most, until none does by ``accuracy``."""

    accuracy: float = 1e-6  # largest KKT violation that is left; linear.cpp of paper 004: a tenth of 1e-5
    steps_per_class: int = 10
    per_class_C: bool = True  # may C differ by class?

    def find_gamma(self, v: Any, y: int, q: float, alpha: Any, first: int, tiles: Any, m: int, work: Any) -> float:
        """Turn v into b by coordinate steps."""
        gradient = work.scratch  # v - (I + 11') b, the direction of descent
        gamma = alpha[first + y]
        for t in range(m):
            for o in range(tiles[t], tiles[t] + WIDTH):
                gradient[o] = v[o] + alpha[first + o] - gamma
                v[o] = -alpha[first + o]  # v now holds b
        v[y] = -1.0
        for _ in range(self.steps_per_class * m * WIDTH):
            worst = self.accuracy / q
            chosen = -1
            for t in range(m):
                for o in range(tiles[t], tiles[t] + WIDTH):
                    if o != y:
                        g = gradient[o]
                        if (g > worst and v[o] < work.bound[o]) or (-g > worst and v[o] > 0.0):
                            worst = abs(g)
                            chosen = o
            if chosen < 0:
                break
            old = v[chosen]
            v[chosen] = min(max(old + 0.5 * gradient[chosen], 0.0), work.bound[chosen])
            step = v[chosen] - old
            for t in range(m):
                for o in range(tiles[t], tiles[t] + WIDTH):
                    gradient[o] -= step
            gradient[chosen] -= step
        return 0.0  # clip(b - 0, 0, C) = b


@inline
def _sort_descending(values: Any, n: int) -> None:
    """Heap sort in place: O(n log n) whatever the data, nothing allocated."""
    for phase in range(2 * n):
        # The first n/2 phases build a heap with the smallest on top; the others take the top off, last place first.
        building = phase < n // 2
        end = n if building else n - 1 - (phase - n // 2)
        if end < 1:
            break
        root = n // 2 - 1 - phase if building else 0
        if not building:
            values[0], values[end] = values[end], values[0]
        moving = values[root]
        child = 2 * root + 1
        while child < end:
            if child + 1 < end and values[child + 1] < values[child]:
                child += 1
            if not values[child] < moving:
                break
            values[root] = values[child]
            root = child
            child = 2 * root + 1
        values[root] = moving
