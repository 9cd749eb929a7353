"""The compiled loops of one-vs-one: working sets of many pairs of classes chosen, and descended on, in one call each.

entry t      a sample in one of its pairs; those of pair p are starts[p] .. starts[p + 1] - 1, its first class first
S = y - F - r u ,   F = K u within the pair ,   u = y a                            maths: squared hinge, section 6
gap at b     hinge: sum_t max(s (C - a), -s a) ;   squared: C/2 s^2 where z > 0, else r a^2 / 2 - a z
             s = y (S - b) ,   z = s + r a = 1 - y (F + b)
D            1/2 sum_t a (1 + y S)                                                  as u'F + r a^2 = a (1 - y S)
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import inline, jit
from softmargin.backends.lanes import pointer
from softmargin.backends.loops import CHUNK
from softmargin.solvers.common.smo_loop import DualVariables, descend_pairs, descend_singles
from softmargin.solvers.kernel_svm._pair_loop import Square, descend_free_pairs

__all__ = ["Entries", "Found", "Layout", "Rules", "Sets", "choose_sets", "descend_sets"]

Array = NDArray[Any]


class Layout(NamedTuple):
    """Which samples the entries are."""

    starts: Array  # (n_pairs + 1,)
    classes: Array  # (n_pairs, 2)
    first: Array  # (k + 1,) samples are counted class by class
    order: Array  # (n,) the samples of every class, shuffled


class Entries(NamedTuple):
    """Dual variables and what belongs to them; (N,) each."""

    u: Array
    S: Array
    y: Array
    upper: Array  # 0 where C is
    ridge: Array  # r


class Sets(NamedTuple):
    """Working sets: that of pair p are the first sizes[p] numbers from starts[p] on."""

    chosen: Array  # (N,) entries
    sizes: Array  # (n_pairs,)
    marks: Array  # (N,) scratch


class Found(NamedTuple):
    """What is known of every pair after its descent; (n_pairs,) each."""

    gaps: Array
    duals: Array
    biases: Array  # at which the gaps are


class Rules(NamedTuple):
    """How far a round goes."""

    has_bias: bool
    is_bounded: bool  # hinge: without a bias two variables move at a time; those of its square, one
    far: float  # violations above this share of the worst come first
    near: float  # those below this share do not count
    target: float  # share of its violation that a set keeps
    passes: int  # updates per sample of a set, at most
    check_every: int


@inline
def _rooms(a: float, y: float, upper: float) -> tuple[float, float]:
    """Return how far u may rise and fall."""
    left = upper - a
    return (left, -a) if y > 0.0 else (a, -left)


@inline
def _extremes(entries: Entries, begin: int, end: int) -> tuple[float, float]:
    """Return the largest S that may rise, and the smallest that may fall."""
    top, bottom = -np.inf, np.inf
    for t in range(begin, end):
        rise, fall = _rooms(abs(entries.u[t]), entries.y[t], entries.upper[t])
        if rise > 0.0:
            top = max(top, entries.S[t])
        if fall < 0.0:
            bottom = min(bottom, entries.S[t])
    return top, bottom


@inline
def _level(top: float, bottom: float, has_bias: bool) -> tuple[float, float]:
    """Return the bias, and how far the worst entry is from it.

    Where one class has no price nothing can move, and the bias meets all margins of the other.
    """
    if not has_bias:
        return 0.0, max(top, -bottom)
    if np.isfinite(top) and np.isfinite(bottom):
        return 0.5 * (top + bottom), 0.5 * (top - bottom)
    if np.isfinite(top):
        return top, 0.0
    return bottom if np.isfinite(bottom) else 0.0, 0.0


@jit
def choose_sets(
    pairs: Array, layout: Layout, entries: Entries, quota: Array, most: Array, rules: Rules, sets: Sets, wanted: Array
) -> None:
    """Choose the entries inside their bounds, and on either side of the bias those at a bound that violate most.

    At most ``quota`` on a side of those, and ``most`` in all. ``wanted`` says which cells of the kernel matrix they
    need.
    """
    starts, classes, first, order = layout
    u, S, y, upper, _ = entries
    chosen, sizes, marks = sets
    for p in pairs:
        begin, end, c, e = starts[p], starts[p + 1], classes[p, 0], classes[p, 1]
        at = begin
        n_first = first[c + 1] - first[c]
        top, bottom = _extremes(entries, begin, end)
        middle, worst = _level(top, bottom, rules.has_bias)
        n_free = 0
        for t in range(begin, end):
            marks[t] = 0
            if 0.0 < abs(u[t]) < upper[t]:
                n_free += 1
        # Where too many are free, those that violate most take turns, as those at bounds do.
        n_free = n_free if 2 * n_free <= most[p] else 0
        if n_free > 0:
            for t in range(begin, end):
                if 0.0 < abs(u[t]) < upper[t]:
                    marks[t] = 1
                    chosen[at] = t
                    at += 1
        side_most = min(quota[p], (most[p] - n_free) // 2)
        n_up, n_low = 0, 0
        for turn in range(2):
            least = (rules.far if turn == 0 else rules.near) * worst
            for side in range(2):
                own = c if side == 0 else e
                base = begin + side * n_first - first[own]
                for q in range(first[own], first[own + 1]):
                    t = base + order[q]
                    if marks[t] == 1:
                        continue
                    rise, fall = _rooms(abs(u[t]), y[t], upper[t])
                    if rise > 0.0 and S[t] - middle > least and n_up < side_most:
                        n_up += 1
                    elif fall < 0.0 and middle - S[t] > least and n_low < side_most:
                        n_low += 1
                    else:
                        continue
                    marks[t] = 1
                    chosen[at] = t
                    at += 1
        sizes[p] = at - begin
        for position in range(begin, at):
            t = chosen[position]
            s = first[c] + t - begin if t - begin < n_first else first[e] + t - begin - n_first
            wanted[c, s] = True
            wanted[e, s] = True


@inline
def _descend(K: Array, m: int, vectors: Array, top: float, bottom: float, rules: Rules, alarm: Array) -> None:
    """Descend on one set; rows of ``vectors`` are S, rise, fall, up, low, the diagonal, r, scratch."""
    S, rise, fall, up, low, diagonal, ridge, gain = (
        vectors[0],
        vectors[1],
        vectors[2],
        vectors[3],
        vectors[4],
        vectors[5],
        vectors[6],
        vectors[7],
    )
    budget, every = rules.passes * m, rules.check_every
    if rules.has_bias or not rules.is_bounded:
        variables = DualVariables(K, m, S, rise, fall, up, low, diagonal, ridge, gain)
        if rules.has_bias:
            descend_pairs(variables, budget, rules.target * (top - bottom), every, alarm)
        else:
            descend_singles(variables, budget, rules.target * max(top, -bottom), every, alarm)
        return
    gap = 0.0
    for i in range(m):
        gap += max(S[i] * rise[i], S[i] * fall[i])
    descend_free_pairs(Square(K.reshape(m, m), diagonal, S, rise, fall, gain), budget, rules.target * gap, every, alarm)


@jit
def descend_sets(
    pairs: Array,
    layout: Layout,
    entries: Entries,
    sets: Sets,
    rules: Rules,
    values: Array,
    place: Array,
    diagonal: Array,
    found: Found,
    alarm: Array,
) -> None:
    """Descend on the set of each pair, then update S of all its entries."""
    starts, classes, first, _ = layout
    u, S, y, upper, ridge = entries
    chosen, sizes, _ = sets
    values_, S_ = pointer(values), pointer(S)
    largest = 0
    for p in pairs:
        largest = max(largest, sizes[p])
    wide = (largest + CHUNK - 1) // CHUNK * CHUNK
    K = np.empty(largest * largest, dtype=values.dtype)
    side, cell, change = np.empty(largest, np.int64), np.empty((largest, 2), np.int64), np.empty(largest)
    vectors = np.empty((8, wide))
    for p in pairs:
        begin, end, c, e = starts[p], starts[p + 1], classes[p, 0], classes[p, 1]
        n_first = first[c + 1] - first[c]
        m = sizes[p]
        if m > 0:
            padded = (m + CHUNK - 1) // CHUNK * CHUNK
            fills = (0.0, 0.0, 0.0, -np.inf, np.inf, 1.0, 1.0, 0.0)
            for v in range(8):
                vectors[v, m:padded] = fills[v]
            best_up, best_low = -np.inf, np.inf
            for i in range(m):
                t = chosen[begin + i]
                is_second = t - begin >= n_first
                s = first[e] + t - begin - n_first if is_second else first[c] + t - begin
                side[i] = t - begin
                cell[i, 0], cell[i, 1] = place[c, s], place[e, s]
                rise, fall = _rooms(abs(u[t]), y[t], upper[t])
                vectors[0, i], vectors[1, i], vectors[2, i] = S[t], rise, fall
                vectors[3, i], vectors[4, i] = 0.0 if rise > 0.0 else -np.inf, 0.0 if fall < 0.0 else np.inf
                vectors[5, i], vectors[6, i], vectors[7, i] = diagonal[s], ridge[t], 0.0
                best_up = max(best_up, vectors[0, i] + vectors[3, i])
                best_low = min(best_low, vectors[0, i] + vectors[4, i])
            for i in range(m):
                own, others = cell[i, 0], cell[i, 1] - n_first
                for j in range(m):
                    K[i * m + j] = values_[(own if side[j] < n_first else others) + side[j]]
            _descend(K[: m * m], m, vectors[:, :padded], best_up, best_low, rules, alarm)
            for i in range(m):
                t = chosen[begin + i]
                used, left = -vectors[2, i], vectors[1, i]
                if y[t] < 0.0:
                    used, left = left, used
                new = y[t] * (upper[t] if left == 0.0 else min(used, upper[t]))
                change[i] = new - u[t]
                u[t] = new
                S[t] -= ridge[t] * change[i]
            for i in range(m):
                step = change[i]
                if step != 0.0:
                    own, others = cell[i, 0], cell[i, 1]
                    for q in range(n_first):
                        S_[begin + q] -= step * np.float64(values_[own + q])
                    for q in range(end - begin - n_first):
                        S_[begin + n_first + q] -= step * np.float64(values_[others + q])
        found.gaps[p], found.duals[p], found.biases[p] = _gap(entries, begin, end, rules.has_bias)


@inline
def _gap_at(entries: Entries, begin: int, end: int, bias: float) -> float:
    u, S, y, upper, ridge = entries
    gap = 0.0
    for t in range(begin, end):
        a = abs(u[t])
        s = y[t] * (S[t] - bias)
        if ridge[t] == 0.0:
            gap += max(s * (upper[t] - a), -s * a)
        else:
            z = s + ridge[t] * a
            gap += 0.5 * s * s / ridge[t] if z > 0.0 else 0.5 * ridge[t] * a * a - a * z
    return gap


@inline
def _gap(entries: Entries, begin: int, end: int, has_bias: bool) -> tuple[float, float, float]:
    """Return the gap of a pair, its dual value, and its bias.

    The bias is the middle of the violations, or the mean of S over the entries inside their bounds: the better one.
    """
    u, S, y, upper, _ = entries
    dual, total, n_free = 0.0, 0.0, 0
    for t in range(begin, end):
        a = abs(u[t])
        dual += 0.5 * a * (1.0 + y[t] * S[t])
        if 0.0 < a < upper[t]:
            total += S[t]
            n_free += 1
    top, bottom = _extremes(entries, begin, end)
    middle, _ = _level(top, bottom, has_bias)
    gap = _gap_at(entries, begin, end, middle)
    if has_bias and n_free > 0:
        mean = total / n_free
        other = _gap_at(entries, begin, end, mean)
        if other < gap:
            return other, dual, mean
    return gap, dual, middle
