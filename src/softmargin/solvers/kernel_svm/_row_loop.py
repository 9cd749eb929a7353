"""Passes over the samples of a kernel multiclass SVM in random order, with one cheap step on the row of each.

The scores F = K alpha are updated after every step and stored by class, so that a step on entry c of row i adds a
multiple of K[i] to F[c]: contiguous, and only for the entries that moved. How a row moves is a *rule*, a compiled
struct:

    rule.row_step(h, y, q, C, row, corner, share)
        Change the off-label entries of ``row``. h_j = 1 + F_ij - F_iy, h_y = 0; q = K_ii; ``corner`` is scratch;
        share = 2 n / (t + 2 n), t counting the steps made.

    Crammer-Singer corners      0 (written as class y, h_y = 0, weight C - alpha_y), C (e_y - e_j) (weight -alpha_j)
    Weston-Watkins corners      off-label entries 0 or -C each

Maths: kernel SVM, sections 2 and 3.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import compiled_struct, inline, jit
from softmargin.core.deadline import is_time_up
from softmargin.core.protocols import KernelBlockProblem
from softmargin.solvers.kernel_svm._dual_rows import DualRowSolver, first_rows, open_rows

__all__ = ["AWAY_RULES", "CORNER_RULES", "ORDERS", "PAIR_RULES", "RowSolver", "RowState"]

Array = NDArray[Any]
MOST_ROWS = 64  # of K at once: enough for a fast GEMM, few enough to stay in the cache until they are used


def _towards_corner(self: Any, h: Any, y: int, q: float, C: float, row: Any, corner: Any, share: float) -> None:
    """Move towards the best corner, by ``share`` or as far as the dual value rises."""
    self.find_corner(h, y, C, corner)
    gap = 0.0
    length = 0.0
    for c in range(len(h)):
        away = corner[c] - row[c]
        gap -= away * h[c]
        length += away * away
    if not self.is_oblivious:
        if not gap > 0.0:
            return
        share = 1.0 if q * length <= gap else gap / (q * length)
    for c in range(len(h)):
        row[c] = (1.0 - share) * row[c] + share * corner[c]


@compiled_struct("find_corner", row_step=_towards_corner)
class CrammerSingerCorner(NamedTuple):
    """Frank-Wolfe on a Crammer-Singer row."""

    is_oblivious: bool

    def find_corner(self, h: Any, y: int, C: float, corner: Any) -> None:
        """Write C (e_y - e_j) for the largest h_j, or 0 where none is positive."""
        best = y
        for c in range(len(h)):
            corner[c] = 0.0
            if h[c] > h[best]:
                best = c
        corner[y] = C
        corner[best] -= C


@compiled_struct("find_corner", row_step=_towards_corner)
class WestonWatkinsCorner(NamedTuple):
    """Frank-Wolfe on a Weston-Watkins row."""

    is_oblivious: bool

    def find_corner(self, h: Any, y: int, C: float, corner: Any) -> None:
        """Write -C where h_j > 0, and the sum at the label."""
        n_bound = 0
        for c in range(len(h)):
            corner[c] = -C if h[c] > 0.0 else 0.0
            n_bound += h[c] > 0.0
        corner[y] = n_bound * C


@inline
def _gain(h: Any, row: Any, corner: Any) -> float:
    """Return what the dual value gains per share of the way to a corner, at first."""
    gain = 0.0
    for c in range(len(h)):
        gain -= (corner[c] - row[c]) * h[c]
    return gain


def _towards_or_away(self: Any, h: Any, y: int, q: float, C: float, row: Any, corner: Any, share: float) -> None:
    """Move towards the best corner, or away from the worst one in use where that gains more at first."""
    self.find_corner(h, y, C, corner)
    gain = _gain(h, row, corner)
    limit = self.find_worst(h, y, C, row, corner)
    away = -_gain(h, row, corner)
    sign = -1.0
    if gain >= away:
        self.find_corner(h, y, C, corner)
        away, limit, sign = gain, 1.0, 1.0
    if not away > 0.0:
        return
    length = 0.0
    for c in range(len(h)):
        length += (corner[c] - row[c]) ** 2
    move = sign * (limit if q * length * limit <= away else away / (q * length))
    for c in range(len(h)):
        row[c] = (1.0 - move) * row[c] + move * corner[c]
    self.stay_inside(y, C, row)


@compiled_struct("find_worst", "stay_inside", find_corner=CrammerSingerCorner.find_corner, row_step=_towards_or_away)
class CrammerSingerAway(NamedTuple):
    """Frank-Wolfe with away steps on a Crammer-Singer row."""

    rounding: float = 1e-15  # a corner with less than this share of C is not in use
    alone: float = (
        1e-8  # a corner that leaves this share to all others stays: a step away would scale up their rounding
    )

    def find_worst(self, h: Any, y: int, C: float, row: Any, corner: Any) -> float:
        """Write the corner in use with the smallest h; return how far its weight allows to go away from it."""
        worst = -1
        weight = 0.0
        for c in range(len(h)):
            corner[c] = 0.0
            mine = C - row[y] if c == y else -row[c]
            if mine > self.rounding * C and (worst < 0 or h[c] < h[worst]):
                worst = c
                weight = mine
        corner[y] = C
        corner[worst] -= C
        return weight / (C - weight) if weight < (1.0 - self.alone) * C else 0.0

    def stay_inside(self, y: int, C: float, row: Any) -> None:
        """Undo what rounding led beyond the bounds; the label's entry is set after the step."""
        own = 0.0
        for c in range(len(row)):
            row[c] = min(row[c], 0.0) if c != y else 0.0
            own -= row[c]
        if own > C:
            for c in range(len(row)):
                row[c] *= C / own


@compiled_struct("find_worst", "stay_inside", find_corner=WestonWatkinsCorner.find_corner, row_step=_towards_or_away)
class WestonWatkinsAway(NamedTuple):
    """Frank-Wolfe with away steps on a Weston-Watkins row: a product of segments, each with two corners."""

    rounding: float = 1e-15  # a corner with less than this share of C is not in use

    def find_worst(self, h: Any, y: int, C: float, row: Any, corner: Any) -> float:
        """Write the worse end of every segment, if it is in use; return how far one may go away from all of them."""
        limit = np.inf
        for c in range(len(h)):
            used, left = -row[c], C + row[c]
            corner[c] = row[c]
            if c != y and used > self.rounding * C and left > self.rounding * C:
                corner[c] = 0.0 if h[c] > 0.0 else -C
                limit = min(limit, left / used if h[c] > 0.0 else used / left)
        corner[y] = 0.0
        own = 0.0
        for c in range(len(h)):
            own -= corner[c]
        corner[y] = own
        return limit

    def stay_inside(self, y: int, C: float, row: Any) -> None:
        """Undo what rounding led beyond the bounds; the label's entry is set after the step."""
        for c in range(len(row)):
            row[c] = min(max(row[c], -C), 0.0)


@compiled_struct("row_step")
class CrammerSingerPair(NamedTuple):
    """Move weight from the worst corner in use to the best one, by min(weight, (h_+ - h_-) / (2 K_ii))."""

    rounding: float = 1e-15  # a corner with less than this share of C is not in use

    def row_step(self, h: Any, y: int, q: float, C: float, row: Any, corner: Any, share: float) -> None:
        """Make one exchange."""
        best = y
        worst = -1
        weight = 0.0
        for c in range(len(h)):
            if h[c] > h[best]:
                best = c
            mine = C - row[y] if c == y else -row[c]
            if mine > self.rounding * C and (worst < 0 or h[c] < h[worst]):
                worst = c
                weight = mine
        move = min(weight, (h[best] - h[worst]) / (2.0 * q))
        row[best] -= move
        row[worst] += move


@compiled_struct("row_step")
class WestonWatkinsPair(NamedTuple):
    """Move the one entry that gains most: b_j = clip(b_j + h_j / (2 K_ii), 0, C), b_j = -alpha_j."""

    rounding: float = 1e-15  # a gain below this share of C is none

    def row_step(self, h: Any, y: int, q: float, C: float, row: Any, corner: Any, share: float) -> None:
        """Make one coordinate step."""
        chosen = y
        value = 0.0
        most = self.rounding * C
        for c in range(len(h)):
            if c != y:
                moved = min(max(h[c] / (2.0 * q) - row[c], 0.0), C)
                move = moved + row[c]
                gain = move * (h[c] - q * move)
                if gain > most:
                    chosen, value, most = c, moved, gain
        row[chosen] = -value


CORNER_RULES: dict[str, Any] = {"crammer_singer": CrammerSingerCorner, "weston_watkins": WestonWatkinsCorner}
PAIR_RULES: dict[str, Any] = {"crammer_singer": CrammerSingerPair, "weston_watkins": WestonWatkinsPair}
AWAY_RULES: dict[str, Any] = {"crammer_singer": CrammerSingerAway, "weston_watkins": WestonWatkinsAway}
ORDERS = ("permutation", "uniform")


class _Rows(NamedTuple):
    """The dual rows and what their steps need."""

    y: Array  # (n,)
    C: Array  # (n,)
    diagonal: Array  # (n,) K_ii
    alpha: Array  # (n, k)
    F: Array  # (k, n) scores
    work: Array  # (3, k) scratch


@jit
def visit_rows(rule: Any, rows: _Rows, values: Array, index: Array, n_done: int, n_blocks: int) -> None:
    """Visit the samples ``index`` in turn; values[t] = K[index[t]]."""
    y, C, diagonal, alpha, scores, work = rows
    k, n = scores.shape
    h, old, corner = work[0], work[1], work[2]
    for t in range(len(index)):
        i = index[t]
        label = y[i]
        row = alpha[i]
        own = scores[label, i] - 1.0
        for c in range(k):
            h[c] = scores[c, i] - own
            old[c] = row[c]
        h[label] = 0.0
        share = 2.0 * n_blocks / (n_done + t + 2.0 * n_blocks)
        rule.row_step(h, label, diagonal[i], C[i], row, corner, share)
        # The label's entry is the sum of what was really stored, so that the row sums to zero.
        row[label] = 0.0
        others = 0.0
        for c in range(k):
            others += row[c]
        row[label] = -others
        for c in range(k):
            step = row[c] - old[c]
            if step != 0.0:
                for m in range(n):
                    scores[c, m] += step * values[t, m]


@dataclass
class RowState:
    """Arrays and plain numbers, which a checkpoint holds."""

    alpha: Array  # (n, k)
    scores: Array  # (k, n)      K alpha, transposed
    index: Array  # samples whose rows can move
    seed: int  # of the orders; each pass draws its own from (seed, n_done)
    n_done: int = 0  # steps made, one row each

    positions: ClassVar[dict[str, str]] = {"index": "alpha"}


class RowSolver(DualRowSolver[RowState]):
    """A solver that visits as many rows per step as can move, by the rule that a subclass gives."""

    order = "permutation"  # or "uniform"

    state_type = RowState
    runs_on_device = True

    def rule(self, problem: KernelBlockProblem) -> Any:
        """Return how a row moves."""
        raise NotImplementedError

    def start(self, problem: KernelBlockProblem, init: Any, rng: np.random.Generator) -> RowState:
        """Allocate, from a first point or from nothing."""
        alpha = first_rows(problem, init)
        scores = np.ascontiguousarray(problem.gram.scores(alpha).T)
        return RowState(alpha, scores, open_rows(problem), seed=int(rng.integers(2**62)))

    def step(self, problem: KernelBlockProblem, state: RowState) -> RowState:
        """Visit every row that can move once, in a fresh random order, or as many rows that are drawn."""
        gram, rule = problem.gram, self.rule(problem)
        work = np.empty((3, problem.n_classes))
        rows = _Rows(problem.y, problem.C, gram.diagonal, state.alpha, state.scores, work)
        rng = np.random.default_rng((state.seed, state.n_done))
        is_drawn, n_rows = self.order == "uniform", len(state.index)
        order = rng.choice(state.index, n_rows) if is_drawn and n_rows else rng.permutation(state.index)
        size = min(MOST_ROWS, gram.largest_rows)
        for first in range(0, len(order), size):
            if is_time_up():
                break
            index = order[first : first + size]
            visit_rows(rule, rows, gram.rows(index), index, state.n_done, len(order))
            state.n_done += len(index)
        return state

    def estimate(self, problem: KernelBlockProblem, state: RowState) -> float:
        """Return the relative gap by the updated scores."""
        return problem.relative_gap(state.alpha, state.scores.T)
