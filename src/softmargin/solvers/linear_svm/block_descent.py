"""Block descent on the dual of a joint multiclass SVM: one sample's row of dual variables at a time, solved exactly.

    visit sample i:   s = W'x_i;   alpha_i <- argmax of the dual over row i, the others fixed;   W += x_i (new - old)'

    plain          every sample in turn, in a fresh random order each pass          paper 004, Algorithm 1
    working set    passes over the samples (and classes) that still move            spec 2.6

The working set lives between two full passes. A full pass visits every sample and class and sums the gap of each row as
it finds it; rows that moved and carry more than 1 / 100 of the mean gap form the set, each with the tiles of classes
that are in play. Passes over the set follow until their gap has fallen to 1 / 5 of the full one; rows that stand
still twice in a row leave early, so do tiles. Then a full pass looks at everything again. What was left out can thus
never be forgotten, and no visit lowers the dual value: the bound only rises.

    spec            here
    alpha, W        state.alpha, state.weights      rows padded to whole tiles (backends.lanes)
    act             state.order[:state.n_active]
    tot             state.full_gap
"""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.lanes import WIDTH, padded, zeros
from softmargin.blocks import NOTHING, find_block, new_workspace
from softmargin.core.errors import DataError, IncompatibleError
from softmargin.core.protocols import BlockDualProblem
from softmargin.matrices.rows import as_rows
from softmargin.solvers.linear_svm._block_loop import choose_active, descend, dual_value, open_first

__all__ = ["DescentState", "DualBlockDescent"]

Array = NDArray[Any]

# spec 2.6: what makes a row active, how long a working set is worth keeping, and how far its gap is driven down.
ACTIVE_SHARE = 0.01
LARGEST_SET = 0.7
MAX_SET_PASSES = 40
SET_TARGET = 0.2
STALE = 0.8  # gaps are summed row by row while W still improves: the gap at the end of a pass is about this share
SCREEN_AGAIN = 0.1  # screen when the gap has fallen to this share of what it was at the last screening


@dataclass
class DescentState:
    """Everything a run needs to go on: arrays and plain numbers, so that a checkpoint can hold it, and scratch."""

    n_classes: int
    alpha: Array  # (n * k,)      k padded
    weights: Array  # ((d + 1) * k,)
    order: Array  # (n,) samples; the first n_open are in the game, the first n_active in the working set
    gaps: Array  # (n,) gap of each row when last visited, 0 where it did not move
    idle: Array  # (n,) visits without a move
    live: Array  # (n * words,) bit t of a row: tile t is in play
    sqnorms: Array  # (n,)
    random: Array  # (1,) state of the shuffle
    n_open: int
    n_active: int = 0  # 0: the next pass is a full one
    visits_left: int = 0
    full_gap: float = math.inf
    gap: float = math.inf  # summed over the last pass
    screened: float = math.inf  # gap at the last screening
    work: Any = field(init=False, repr=False)  # scratch of the block steps, made anew
    rows: Any = field(init=False, repr=False)  # X as the block steps see it, made anew

    def __post_init__(self) -> None:
        """Allocate the scratch."""
        self.work, self.rows = new_workspace(self.n_classes), None


@dataclass(frozen=True)
class DualBlockDescent:
    """Settings of the descent.

    Parameters
    ----------
    block : {"auto", "newton", "sort", "greedy", "projection"}
        How one row is solved; "auto" is Newton for Weston-Watkins and the projection for Crammer-Singer. "sort" is the
        paper's Algorithm 2, "greedy" Shark's scheme.
    working_set : bool
        Pass over the samples and classes that still move; False is the paper's plain Algorithm 1.
    order : {"permuted", "cyclic"}
        A fresh random order every pass, or 0, 1, 2, ...
    screening : bool
        Remove rows for good once the gap proves their optimum (spec 2.9).
    """

    block: str = "auto"
    working_set: bool = True
    order: str = "permuted"
    screening: bool = False

    needs: ClassVar[tuple[type, ...]] = (BlockDualProblem,)

    def __post_init__(self) -> None:
        """Refuse settings that do not exist."""
        if self.order not in ("permuted", "cyclic"):
            raise IncompatibleError(f"order={self.order!r} is unknown; choose permuted or cyclic.")

    def start(self, problem: BlockDualProblem, init: Any, rng: np.random.Generator) -> DescentState:
        """Allocate; put in a warm start; settle the rows whose optimum needs no descent."""
        find_block(problem.multiclass, self.block)
        n, k = len(problem.y), problem.n_classes
        size = padded(k)
        X, sqnorms, order = as_rows(problem.X, problem.bias), np.empty(n), np.empty(n, dtype=np.int64)
        n_open = open_first(X, problem.C, NOTHING, sqnorms, order)
        if not np.isfinite(sqnorms).all():
            i = int(np.argmin(np.isfinite(sqnorms)))
            raise DataError(
                f"sample {i} has squared length {sqnorms[i]}; remove NaN, and scale the features to modest ranges."
            )
        numbers = zeros((n + problem.X.shape[1] + 1) * size)
        alpha, weights = numbers[: n * size], numbers[n * size :]
        rows = alpha.reshape(n, size)[:, :k]
        if init is not None:
            rows[:] = problem.feasible(init.alpha)
        closed = order[n_open:]
        if len(closed):
            empty = closed[sqnorms[closed] < NOTHING]
            rows[empty] = problem.loss.at_zero_scores(problem.y[empty], problem.C[empty], k)
        if init is not None:
            weights.reshape(-1, size)[:, :k] = problem.point(rows).weights
        words = -(-(size // WIDTH) // 64)
        state = DescentState(
            n_classes=k,
            alpha=alpha,
            weights=weights,
            order=order,
            gaps=np.zeros(n),
            idle=np.zeros(n, dtype=np.uint8),
            live=np.zeros(n * words if self.working_set else words, dtype=np.uint64),
            sqnorms=sqnorms,
            random=rng.integers(1, 2**63, size=1, dtype=np.uint64),
            n_open=n_open,
        )
        state.rows = X
        return state

    def step(self, problem: BlockDualProblem, state: DescentState) -> DescentState:
        """Make one full pass, or passes over the working set that cost about as much."""
        if state.n_active == 0:
            state.gap, _, _ = self._descend(problem, state, state.n_open, full=True, target=math.inf, budget=0)
            state.full_gap = state.gap
            if self.screening and state.gap <= SCREEN_AGAIN * state.screened:
                self._screen(problem, state)
            if self.working_set:
                threshold = ACTIVE_SHARE * state.full_gap / max(state.n_open, 1)
                m = choose_active(state.order, state.n_open, state.gaps, threshold, state.idle)
                largest = LARGEST_SET if self._words(problem, state) == 0 else 1.0
                # Beyond that share a full pass costs little more, and sees everything.
                state.n_active = m if m <= largest * state.n_open else 0
                state.visits_left = MAX_SET_PASSES * state.n_active
            return state
        target = SET_TARGET * state.full_gap
        state.gap, state.n_active, visits = self._descend(
            problem,
            state,
            state.n_active,
            full=False,
            target=target,
            budget=min(state.visits_left, state.n_open),
        )
        state.visits_left -= visits
        if state.gap <= target or state.visits_left <= 0:
            state.n_active = 0
        return state

    def point(self, problem: BlockDualProblem, state: DescentState) -> Any:
        """Return the dual rows with weights recomputed from them: what the descent accumulated has drifted."""
        n, k = len(problem.y), problem.n_classes
        return problem.point(state.alpha.reshape(n, -1)[:, :k].copy())

    def estimate(self, problem: BlockDualProblem, state: DescentState) -> float:
        """Guess the relative gap from the rows' gaps, summed as the last pass met them."""
        primal = dual_value(problem.y, state.alpha, state.weights, padded(problem.n_classes)) + state.gap
        return STALE * state.gap / primal if primal > 0 else math.inf

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> DescentState:
        """Rebuild the state from a checkpoint."""
        aligned = {name: zeros(arrays[name].size) for name in ("alpha", "weights")}
        for name, array in aligned.items():
            array[:] = arrays[name]
        return DescentState(**{**arrays, **aligned}, **plain)

    def _words(self, problem: BlockDualProblem, state: DescentState) -> int:
        """Return the number of words that hold a row's tiles; 0 where there are too few classes to leave any out."""
        return len(state.live) // len(problem.y) if self.working_set and padded(problem.n_classes) > 2 * WIDTH else 0

    def _descend(
        self, problem: BlockDualProblem, state: DescentState, m: int, *, full: bool, target: float, budget: int
    ) -> tuple[float, int, int]:
        if state.rows is None:
            state.rows = as_rows(problem.X, problem.bias)
        return descend(
            state.rows,
            find_block(problem.multiclass, self.block),
            problem.y,
            problem.C,
            state.sqnorms,
            state.alpha,
            state.weights,
            padded(problem.n_classes),
            state.order,
            m,
            state.gaps,
            state.idle,
            state.live,
            self._words(problem, state),
            state.work,
            state.random,
            self.order == "permuted",
            full,
            target,
            budget,
        )

    def _screen(self, problem: BlockDualProblem, state: DescentState) -> None:
        """Fix the rows whose optimum is proven, with its value, and take them out of the game."""
        state.screened = state.gap
        rows, values = problem.settled(self.point(problem, state))
        fixed = np.zeros(len(problem.y), dtype=bool)
        fixed[rows] = True
        n, k = len(problem.y), problem.n_classes
        state.alpha.reshape(n, -1)[rows, :k] = values
        alpha = state.alpha.reshape(n, -1)[:, :k].copy()
        state.weights.reshape(-1, padded(k))[:, :k] = problem.point(alpha).weights
        inside = state.order[: state.n_open]
        kept = inside[~fixed[inside]]
        state.order[: state.n_open] = np.concatenate([kept, inside[fixed[inside]]])
        state.n_open = len(kept)
