"""Block descent on the dual of ridge multinomial regression: the probabilities of one sample at a time.

    F(W, b) = ridge/2 |W|^2 + sum_i C_i l(W'x_i + b)                                           maths: softmax, section 9
    D(q)    = sum_i C_i H(q_i) - ridge/2 |W|^2,    W = sum_i x_i alpha_i' / ridge,    alpha_i = C_i (e_y - q_i)

    visit sample i:   s = W'x_i + b;   q_i <- argmax of D over q_i alone;   W += x_i (new - old alpha_i)' / ridge

Rows of q start at e_y: W = 0. There is no step size, and each visit gives the gap of its row: their sum is F - D.

Intercept. It is the multiplier of sum_i alpha_i = 0. Every sample has a constant feature v, which subtracts
rho / 2 |sum alpha|^2 / ridge (rho = v^2) from the dual; after a step the multiplier takes over the gradient of this
term: b += rho sum alpha / ridge. Relative to |x_i|^2 + 4 ridge / C_i, the curvature of one row, a large rho slows the
descent and a small one slows b.

Working set. Most rows soon have little of the gap. Between two full passes only rows with more than half the mean gap
are visited, each with the tiles of classes that still move, until their gap has fallen to a fifth.

Equal samples. Before every step those of different labels get the mean of their q: W stays the same and D rises, where
visits would take C |x|^2 / ridge passes (_equal_samples).

    maths           here
    log q           state.alpha                     rows padded to whole tiles; of two classes, a logit
    W, b            state.weights                   its last row is b / v
    b before rho    state.multiplier                divided by v

Source: Yu, Huang and Lin (2011), dual coordinate descent for maximum entropy. We differ: Newton's method in log q for
the whole row, a free intercept, a working set.
"""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.lanes import WIDTH, zeros
from softmargin.blocks import LogisticBlock, SoftmaxBlock, Workspace, new_workspace
from softmargin.blocks.softmax import SURE
from softmargin.core.certificate import relative_gap
from softmargin.core.deadline import alarm
from softmargin.core.errors import IncompatibleError
from softmargin.core.parameters import OneOf
from softmargin.core.protocols import RidgeProblem
from softmargin.matrices.rows import as_rows, squared_norms
from softmargin.problems.composite import CompositePoint
from softmargin.solvers.common.contradictions import slow_contradictions
from softmargin.solvers.common.resumable import Resumable
from softmargin.solvers.linear_svm._block_loop import BlockDual, Visits, demand_finite, descend
from softmargin.solvers.softmax._equal_samples import level, probabilities
from softmargin.solvers.softmax._losses import SoftmaxLosses, width_of

__all__ = ["SoftmaxDescentState", "SoftmaxDualDescent", "SoftmaxDualDescentTuning"]

Array = NDArray[Any]
ALIKE = 1e-10  # relative difference of weights by rounding


class SoftmaxDualDescentTuning(NamedTuple):
    """The constants of the descent; those of the working set but the first are as for the linear SVM."""

    rho_share: float = 0.1  # rho as a share of a row's curvature: by hand
    active_share: float = 0.5  # a row is active above this share of the mean gap: by hand
    # Share of all rows above which a full pass costs little more than the set: maths: linear SVM, section 6
    largest_set: float = 0.7
    set_target: float = 0.2  # share of its first gap at which a set is done: maths: linear SVM, section 6
    max_set_passes: int = 40  # over one set: maths: linear SVM, section 6
    patience: int = 2  # visits without a move before a row leaves the set: by hand


@dataclass
class SoftmaxDescentState:
    """Arrays and plain numbers, which a checkpoint holds, and scratch."""

    n_columns: int
    alpha: Array  # (n * k,)      log q
    weights: Array  # ((d + 1) * k,)
    multiplier: Array  # (k,)
    first: Array  # ((d + 1) * k,) the point where the run began; empty after the first step
    prices: Array  # (n,) C / ridge
    sqnorms: Array  # (n,) |x_i|^2 + rho
    order: Array  # (n,) samples; the first n_open have a price, the first n_active are in the working set
    gaps: Array  # (n,) gap of each row when last visited, in units of the ridge
    idle: Array  # (n,) visits without a move
    live: Array  # (n * words,) bit t of a row: tile t is in play
    random: Array  # (1,) state of the shuffle
    constant: float  # v
    n_open: int
    n_active: int = 0  # 0: the next pass is a full one
    visits_left: int = 0
    target: float = 0.0  # the gap of the set at which it is done
    gap: float = math.inf  # summed over the last pass, in units of the ridge
    outside: float = 0.0  # gap of the rows outside the set at the last full pass
    dual: float = 0.0  # D after the last full pass
    U: Array = field(init=False, repr=False)  # (n * k,) scratch for C (q - Y)
    loop: tuple[BlockDual, Visits, Workspace] | None = field(
        init=False, repr=False, default=None
    )  # made by a first step
    equals: tuple[Array, Array] | None = field(init=False, repr=False, default=None)  # samples and sets; as the loop

    empties: ClassVar[tuple[str, ...]] = ("first",)
    fixed: ClassVar[tuple[str, ...]] = ("n_columns",)
    positions: ClassVar[dict[str, str]] = {"order": "gaps", "n_open": "order", "n_active": "order"}
    tiles: ClassVar[dict[str, tuple[str, str]]] = {"live": ("gaps", "alpha")}

    def __post_init__(self) -> None:
        """Allocate the scratch."""
        self.U = zeros(len(self.alpha))


@dataclass(frozen=True)
class SoftmaxDualDescent(Resumable):
    """Settings of the descent; it needs a ridge > 0.

    Parameters
    ----------
    working_set : bool
        Between full passes, visit only the samples and classes that still move.
    order : {"permuted", "cyclic"}
        A fresh random order every pass, or 0, 1, 2, ...
    """

    working_set: bool = True
    order: str = "permuted"
    tuning: SoftmaxDualDescentTuning = SoftmaxDualDescentTuning()

    allowed: ClassVar = {"order": (OneOf("permuted", "cyclic"),)}
    needs: ClassVar[tuple[type, ...]] = (RidgeProblem,)
    state_type: ClassVar[type[Any]] = SoftmaxDescentState

    def start(
        self, problem: RidgeProblem, init: CompositePoint | None, rng: np.random.Generator
    ) -> SoftmaxDescentState:
        """Begin at W = 0, or at dual variables whose weights are near those of ``init``."""
        if not problem.ridge > 0.0:
            raise IncompatibleError(
                f"SoftmaxDualDescent needs a ridge > 0, to divide by; found {problem.ridge}. Use Lbfgs."
            )
        n, k = len(problem.y), width_of(problem)
        sqnorms = np.empty(n)
        squared_norms(as_rows(problem.X), sqnorms)
        demand_finite(sqnorms)
        prices = problem.C / problem.ridge
        is_open = prices > 0.0
        constant = 0.0
        if problem.fit_intercept and is_open.any():
            curvature = sqnorms[is_open].mean() + 4.0 / prices[is_open].mean()
            constant = math.sqrt(self.tuning.rho_share * curvature)
        point = problem.checked_point(init)
        alpha, weights, first = _first_rows(problem, point, is_cold=init is None)
        words = -(-(k // WIDTH) // 64) if self.working_set and k > 2 * WIDTH else 0
        state = SoftmaxDescentState(
            n_columns=problem.n_columns,
            alpha=alpha,
            weights=weights,
            multiplier=np.zeros(k),
            first=first,
            prices=prices,
            sqnorms=sqnorms + constant**2,
            order=np.concatenate([np.flatnonzero(is_open), np.flatnonzero(~is_open)]),
            gaps=np.zeros(n),
            idle=np.zeros(n, dtype=np.uint8),
            live=np.zeros(n * words, dtype=np.uint64),
            random=rng.integers(1, 2**63, size=1, dtype=np.uint64),
            constant=constant,
            n_open=int(is_open.sum()),
        )
        if constant > 0.0:
            carrier = state.weights[-k:]
            balance = constant * carrier
            carrier[: problem.n_columns] = point.intercept / constant
            state.multiplier[:] = carrier - balance
        return state

    def step(self, problem: RidgeProblem, state: SoftmaxDescentState) -> SoftmaxDescentState:
        """Make one full pass, or passes over the working set that cost about as much; then move the multiplier."""
        state.first, k = np.empty(0), width_of(problem)
        loop = state.loop = state.loop or self.structs(problem, state)
        if state.equals is None:
            state.equals = slow_contradictions(problem.X, problem.y, state.prices, state.sqnorms)
        level(SoftmaxLosses(problem), state.alpha, *state.equals)
        if state.n_active == 0:
            state.gap, _, _ = descend(*loop, state.n_open, True, math.inf, 0, alarm())
            state.outside = 0.0
            weights, entropy = state.weights[:-k], _entropy(SoftmaxLosses(problem), state.alpha, state.U)
            state.dual = entropy - 0.5 * problem.ridge * float(weights @ weights)
            if self.working_set:
                _choose_active(state, self.tuning)
        else:
            budget = min(state.visits_left, state.n_open)
            passes = (state.n_active, False, state.target, budget, alarm())
            state.gap, state.n_active, visits = descend(*loop, *passes)
            state.visits_left -= visits
            if state.gap <= state.target or state.visits_left <= 0:
                state.n_active = 0
        carrier = state.weights[-k:]
        pull = carrier - state.multiplier
        state.multiplier += pull
        carrier += pull
        return state

    def point(self, problem: RidgeProblem, state: SoftmaxDescentState) -> CompositePoint:
        """Return q and weights recomputed from it: the updated ones have drifted."""
        losses, W = SoftmaxLosses(problem), state.first
        if len(W) > 0:
            return losses.unpack(W)
        W = _weights_of(losses, problem.ridge, state.alpha, state.U)
        W[-losses.k :] = state.constant * state.weights[-losses.k :]
        return losses.unpack(W)._replace(dual=probabilities(losses, state.alpha))

    def estimate(self, problem: RidgeProblem, state: SoftmaxDescentState) -> float:
        """Estimate the relative gap from the gaps of the rows, summed as the last passes found them."""
        gap = problem.ridge * (state.gap + state.outside)
        return relative_gap(state.dual + gap, state.dual)

    def structs(self, problem: RidgeProblem, state: SoftmaxDescentState) -> tuple[BlockDual, Visits, Workspace]:
        """Return the arguments of the compiled passes that stay the same; the blocks have no use for a slack."""
        block = LogisticBlock() if problem.is_pinned else SoftmaxBlock()
        rows, is_permuted = as_rows(problem.X, state.constant), self.order == "permuted"
        fixed, visits = (rows, block, problem.y, state.prices, state.sqnorms), (state.order, state.gaps, state.idle)
        return (
            BlockDual(*fixed, state.alpha, state.weights),
            Visits(*visits, state.live, state.random, is_permuted, self.tuning.patience, slack=0.0),
            new_workspace(state.n_columns),
        )


def _first_rows(problem: RidgeProblem, point: CompositePoint, *, is_cold: bool) -> tuple[Array, Array, Array]:
    """Return alpha, its weights (last row: sum alpha / ridge), and the point itself; none where it is cold.

    The rows of a warm start are its dual point where that has its weights. Else they are q = Y + s (P - Y), P its
    probabilities: their weights are s times those of P, and nearest to the weights of the point. A point of another C
    thus keeps about its weights.
    """
    losses, own = SoftmaxLosses(problem), (np.arange(len(problem.y)), problem.y)
    if is_cold:
        logs = np.full((len(problem.y), problem.n_classes), SURE)
        logs[own] = 0.0
        return _padded_rows(losses, logs), zeros((problem.X.shape[1] + 1) * losses.k), np.empty(0)
    first, inside = losses.pack(point), slice(0, -losses.k)
    if point.dual is not None:
        logs = np.full_like(point.dual, SURE)
        alpha = _padded_rows(losses, np.log(point.dual, out=logs, where=point.dual > 0.0))
        weights = _weights_of(losses, problem.ridge, alpha, np.empty_like(alpha))
        if np.allclose(weights[inside], first[inside], rtol=ALIKE, atol=ALIKE * float(np.abs(first).max())):
            return alpha, weights, np.empty(0)
    logs = problem.scores(point)
    logs -= logs.max(axis=1, keepdims=True)
    logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
    alpha = _padded_rows(losses, logs)
    weights = _weights_of(losses, problem.ridge, alpha, np.empty_like(alpha))
    size = float(weights[inside] @ weights[inside])
    share = float(np.clip(weights[inside] @ first[inside] / size, 0.0, 1.0)) if size > 0.0 else 1.0
    with np.errstate(divide="ignore"):
        logs += np.log(share)
        logs[own] = np.logaddexp(logs[own], np.log1p(-share))
    weights *= share
    return _padded_rows(losses, np.maximum(logs, SURE)), weights, first


def _padded_rows(losses: SoftmaxLosses, logs: Array) -> Array:
    """Return log-probabilities of all classes as the rows of alpha, flat."""
    alpha = zeros(len(logs) * losses.k)
    alpha[:] = SURE
    losses.matrix(alpha)[:] = logs[:, 1:] - logs[:, :1] if losses.problem.is_pinned else logs
    return alpha


def _entropy(losses: SoftmaxLosses, alpha: Array, U: Array) -> float:
    """Return sum_i C_i H(q_i): the losses at the scores log q, less <q - e_y, log q>; write C (q - Y) to U."""
    loss = losses.fill_probabilities(alpha, U)
    losses.fill_residuals(U, U)
    return loss - float(U @ alpha)


def _weights_of(losses: SoftmaxLosses, ridge: float, alpha: Array, U: Array) -> Array:
    """Return X' C (Y - q) / ridge, flat and padded, the sums over all samples last; U is scratch."""
    W = zeros((losses.X.shape[1] + 1) * losses.k)
    losses.fill_probabilities(alpha, U)
    losses.fill_gradient(U, U, W)
    W /= -ridge
    return W


def _choose_active(state: SoftmaxDescentState, tuning: SoftmaxDualDescentTuning) -> None:
    """Move the rows with most of the gap to the front of the order."""
    inside = state.order[: state.n_open]
    active = state.gaps[inside] > tuning.active_share * state.gap / max(state.n_open, 1)
    m = int(active.sum())
    if m > tuning.largest_set * state.n_open:
        return
    state.order[: state.n_open] = np.concatenate([inside[active], inside[~active]])
    state.n_active = m
    state.visits_left = tuning.max_set_passes * m
    state.idle[inside[active]] = 0
    state.outside = float(state.gaps[inside[~active]].sum())
    state.target = tuning.set_target * (state.gap - state.outside)
    state.gap -= state.outside
