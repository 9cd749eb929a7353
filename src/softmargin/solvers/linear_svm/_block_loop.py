"""The compiled passes of dual block descent over linear samples.

Classes come in tiles of ``WIDTH``. A sample keeps one bit per tile: passes over a working set look only at the tiles
whose bits are set, those with a nonzero variable or a class about to enter.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import jit
from softmargin.backends.lanes import pointer
from softmargin.backends.loops import keep_tiles, shuffle, tiles_of
from softmargin.core.errors import DataError

__all__ = [
    "BlockDual",
    "Pace",
    "Stand",
    "Visits",
    "choose_active",
    "demand_finite",
    "descend",
    "dual_value",
    "make_rounds",
    "open_first",
]

Array = NDArray[Any]


class BlockDual(NamedTuple):
    """The dual as the passes see it: what stays fixed, the dual variables, and the weights they imply."""

    rows: Any  # X (``matrices.rows``)
    block: Any  # minimiser of one row of alpha (``softmargin.blocks``)
    y: Array  # (n,)
    C: Array  # (n,)
    sqnorms: Array  # (n,) |x_i|^2
    alpha: Array  # (n * k,)      k padded to whole tiles
    weights: Array  # ((d + 1) * k,)


class Visits(NamedTuple):
    """Which samples are visited, in which order, and what the visits found."""

    order: Array  # (n,) samples
    gaps: Array  # (n,) gap of each row when last visited, 0 where it did not move
    idle: Array  # (n,) consecutive visits without a move
    live: Array  # (n * words,) bit t of a sample: tile t is in play; empty: all tiles always are
    random: Array  # (1,) state of the shuffle
    is_permuted: bool  # shuffle before every pass
    patience: int  # visits without a move before a row leaves the working set
    slack: float  # a class whose margin is violated by more than -slack stays in play


class Stand(NamedTuple):
    """Where the descent stands between two rounds."""

    n_active: int  # samples in the working set; 0: the next round is a full one
    visits_left: int  # to the set
    full_gap: float  # of the last full pass


class Pace(NamedTuple):
    """When rounds end, and what they end at."""

    set_target: float  # share of the gap of a full pass at which a set is done
    max_set_passes: int
    least_visits: int  # of a step, and of a round where no set is smaller
    share: float  # of the mean gap, above which a sample is in the set
    largest: float  # set, as a share of all samples
    stale: float  # gap at the end of a pass, as a share of the gaps added up
    wanted: float  # relative gap


def demand_finite(sqnorms: Array) -> None:
    """Refuse samples whose squared length is no number: no step could be divided by it."""
    if not np.isfinite(sqnorms).all():
        i = int(np.argmin(np.isfinite(sqnorms)))
        raise DataError(
            f"sample {i} has squared length {sqnorms[i]}; remove NaN, and scale the features to modest ranges."
        )


@jit
def descend(
    dual: BlockDual, visits: Visits, work: Any, m: int, is_full: bool, target: float, budget: int, alarm: Array
) -> tuple[float, int, int]:
    """Pass over order[:m] until the gap found in one pass is at most ``target`` or ``budget`` visits are spent.

    A full pass evaluates every class; other passes only a sample's live tiles, and samples that do not move drop to
    the back of the order. The alarm ends a pass early. Returns the gap summed over the last pass, what is left of m,
    and the number of visits.
    """
    # Pointers, because arrays that pass through calls are reference-counted at every visit.
    rows_, block, w = dual.rows.bare(), dual.block, work.bare_workspace()
    y_, C_, q_ = pointer(dual.y), pointer(dual.C), pointer(dual.sqnorms)
    a_, W_ = pointer(dual.alpha), pointer(dual.weights)
    order_, gaps_ = pointer(visits.order), pointer(visits.gaps)
    idle_, live_, alarm_ = pointer(visits.idle), pointer(visits.live), pointer(alarm)
    k, n_tiles, words = work.numbers.shape[1], work.lists.shape[1], visits.live.shape[0] // dual.y.shape[0]
    done = 0
    while True:
        if visits.is_permuted:
            shuffle(order_, m, visits.random)
        total = 0.0
        t = 0
        while t < m:
            if alarm_[0] != 0:
                break
            i = order_[t]
            label = np.int64(y_[i])
            tiles, n_mine = w.tiles, n_tiles
            if words > 0 and not is_full:
                n_mine = tiles_of(live_, i * words, words, w.mine)
                tiles = w.mine
            w.start[label] = -1.0
            rows_.scores(i, W_, k, w.start, tiles, n_mine, w.G)
            w.start[label] = 0.0
            gap, n_changed, n_kept = block.block_step(
                w.G, label, q_[i], C_[i], a_, i * k, tiles, n_mine, w, visits.slack
            )
            total += gap
            done += 1
            if n_changed > 0:
                rows_.add(i, w.step, w.changed, n_changed, W_, k)
                gaps_[i] = gap
                idle_[i] = 0
                if words > 0:
                    keep_tiles(live_, i * words, words, w.kept, n_kept)
            else:
                gaps_[i] = 0.0
                if not is_full:
                    idle_[i] += 1
                    if idle_[i] >= visits.patience:
                        m -= 1
                        order_[t], order_[m] = order_[m], i
                        continue
            t += 1
        if total <= target or done >= budget or m == 0 or alarm_[0] != 0:
            return total, m, done


@jit
def make_rounds(
    dual: BlockDual, visits: Visits, work: Any, at: Stand, pace: Pace, n_open: int, most: int, alarm: Array
) -> tuple[float, Stand, int]:
    """Make up to ``most`` rounds, until few visits are left to make: of full passes, or over the working set.

    Full passes go on until one finds a working set of at most ``largest`` samples: those whose gap is above a share of
    the mean. Without such a set their round ends where their gap is at most the target, or no visits are left. Rounds
    end earlier where the gap of one is as small as is wanted. Returns the gap summed over the last pass, where the
    descent stands then, and the number of rounds.
    """
    n_active, visits_left, full_gap = at
    n_rounds, in_round, done = 0, 0, 0
    while True:
        is_full, target = n_active == 0, pace.set_target * full_gap
        m, budget = (n_open, 0) if is_full else (n_active, min(visits_left, max(n_open, pace.least_visits)))
        gap, n_active, visited = descend(dual, visits, work, m, is_full, np.inf if is_full else target, budget, alarm)
        in_round, done = in_round + visited, done + visited
        if is_full:
            n_active = choose_active(visits.order, m, visits.gaps, pace.share * gap / max(m, 1), visits.idle)
            if n_active > pace.largest * m:
                n_active = 0
                if gap > target and in_round < pace.least_visits and alarm[0] == 0:
                    continue
            visits_left, full_gap = pace.max_set_passes * n_active, gap
        else:
            visits_left -= visited
            if gap <= target or visits_left <= 0:
                n_active = 0
        n_rounds, in_round = n_rounds + 1, 0
        is_end = n_rounds >= most or done >= pace.least_visits or alarm[0] != 0
        if is_end or is_near(dual, gap, work.numbers.shape[1], pace):
            return gap, Stand(n_active, visits_left, full_gap), n_rounds


@jit
def is_near(dual: BlockDual, gap: float, k: int, pace: Pace) -> bool:
    """Say whether the estimated relative gap is no longer above the wanted one."""
    primal = dual_value(dual.y, dual.alpha, dual.weights, k) + gap
    return primal > 0.0 and not pace.stale * gap > pace.wanted * primal


@jit
def open_first(rows: Any, C: Array, nothing: float, sqnorms: Array, order: Array) -> int:
    """Write |x_i|^2, and list first the samples that can move, |x_i|^2 >= nothing and C_i > 0; return their number."""
    bare, n = rows.bare(), C.shape[0]
    n_open = 0
    for i in range(n):
        sqnorms[i] = bare.sqnorm(i)
        n_open += sqnorms[i] >= nothing and C[i] > 0.0
    t, closed = 0, n_open
    for i in range(n):
        if sqnorms[i] >= nothing and C[i] > 0.0:
            order[t] = i
            t += 1
        else:
            order[closed] = i
            closed += 1
    return n_open


@jit
def choose_active(order: Array, m: int, gaps: Array, threshold: float, idle: Array) -> int:
    """Put the samples of order[:m] with a gap above the threshold first, not idle; return their number."""
    n_active = 0
    for t in range(m):
        i = order[t]
        if gaps[i] > threshold:
            order[t], order[n_active] = order[n_active], i
            idle[i] = 0
            n_active += 1
    return n_active


@jit
def dual_value(y: Array, alpha: Array, weights: Array, k: int) -> float:
    """Return the dual value of rows alpha (k each, padded) and their weights, both flat."""
    y_, alpha_, weights_ = pointer(y), pointer(alpha), pointer(weights)
    own, square = 0.0, 0.0
    for i in range(y.shape[0]):
        own += alpha_[i * k + y_[i]]
    for p in range(weights.shape[0]):
        square += weights_[p] * weights_[p]
    return own - 0.5 * square
