"""Block proximal gradient for penalised multinomial regression: by features, by classes, or the matrix as a whole.

    minimise over W (d, k), b (k,):   sum_i C_i loss(W' x_i + b, y_i) + sum_j g(W_j)

One step visits every block once and replaces it by prox_{g / L}(block - gradient / L); the unpenalised intercept
follows with a Newton step.

    paper 003       here                shape
    W               W                   (d, k)     row j: the weights of feature j; k padded, the intercept last
    w^j, L_j        W_j, lipschitz[j]   (k,), ()   sum_i C_i x_ij^2 / 2                           maths: softmax, eq. 12
    L_k, L          lipschitz[0]        ()         |sqrt(C) X|_2^2 / 4 by classes, / 2 for the matrix, Appendices E, F
    F-CBPG          blocks="features", order="cyclic", constants="paper", working_set=False             Algorithm 1
    F-RBPG          the same with order="random" or "lipschitz"                                         Algorithm 2
    C-CBPG, matrix  blocks="classes", blocks="matrix"                                                   Figure 1

With one column (two classes) all constants halve to 1/4. Scores and probabilities are kept up to date: a feature costs
its nonzero entries times k, and no exponential unless its row moves. Source: paper 003; maths: softmax, sections 3 to
5. We differ: all classes have weights, samples have prices, there is an intercept; local constants and the working set
are ours. Penalties that are not convex take steps of 0.9 / L (maths: softmax, section 4).
"""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.lanes import padded, zeros
from softmargin.core.deadline import alarm, check_time, is_time_up
from softmargin.core.errors import IncompatibleError
from softmargin.core.parameters import OneOf
from softmargin.core.protocols import CompositeProblem
from softmargin.matrices.products import adjoint, times
from softmargin.matrices.rows import as_rows, transposed
from softmargin.problems.composite import CompositePoint
from softmargin.solvers.softmax._feature_loop import (
    LEAST_CONSTANT,
    FeatureIterate,
    StepRule,
    descend,
    feature_constants,
    softmax_data,
    spectral_square,
)
from softmargin.solvers.softmax._losses import CompositeSolver, SoftmaxLosses

__all__ = ["BlockProxGradient", "BlockProxGradientTuning", "BlockState"]

Array = NDArray[Any]

CHOICES = {
    "blocks": ("features", "classes", "matrix"),
    "order": ("shuffled", "cyclic", "random", "lipschitz"),
    "constants": ("local", "paper"),
}
COMPLETE = ("shuffled", "cyclic")  # orders that visit every block
HALF = 0.5  # share of |D|^2 / step that the prox of a penalty that is not convex guarantees


class BlockProxGradientTuning(NamedTuple):
    """Constants of block proximal gradient."""

    refresh: int = 20  # steps after which the cached scores are computed anew; maths: softmax, section 10
    largest_set: float = 0.7  # share of the features that a working set may have; by hand
    max_set_passes: int = 20  # over one working set; by hand
    set_target: float = 0.2  # progress of a pass, as a share of the full pass, that ends a working set; by hand
    concave_step: float = 0.9  # step times L where the penalty is not convex; maths: softmax, section 10
    gershgorin: float = 1.25  # local constant over max_c h_c: 2 is proven, 1 needed, a test decides; by hand
    flattest: float = 1e-4  # share of the constant that holds anywhere below which a local one is not used; by hand
    shrink: float = 0.8  # factor on the local constant of column blocks in every step; maths: softmax, section 10
    grow: float = 2.0  # factor on it where the descent test fails; maths: softmax, section 10


@dataclass
class BlockState:
    """Everything a run needs to go on: arrays and plain numbers, so that a checkpoint can hold it, and scratch."""

    W: Array  # ((d + 1) * k,)
    S: Array  # (n * k,) scores
    U: Array  # ((n + 1) * k,) C (P - Y), and a row of zeros
    seen: Array  # ((d + 1) * k,) every block of W as it was when its gradient was computed
    G: Array  # ((d + 1) * k,) these gradients
    lipschitz: Array  # (d,) by features, else (1,)
    ceiling: float  # a constant that holds anywhere for all of W
    seed: int
    active: Array  # the working set; empty: the next pass is a full one
    loss: float = math.inf
    full_fall: float = math.inf  # sum of |D|^2 / step in the last full pass
    saw_all: bool = False  # whether the last step was a full pass
    n_passes: int = 0
    n_set_passes: int = 0  # since the last full one
    n_steps: int = 0
    moved: Array = field(init=False, repr=False)  # scratch from here on
    work: Array = field(init=False, repr=False)
    columns: Any = field(init=False, repr=False, default=None)  # made when first used, as is ``spare``
    spare: Any = field(init=False, repr=False, default=None)

    grows: ClassVar[dict[str, tuple[str, int]]] = {"active": ("active", 0)}
    positions: ClassVar[dict[str, str]] = {"active": "lipschitz"}

    def __post_init__(self) -> None:
        """Allocate the scratch of the compiled loop."""
        k = len(self.U) - len(self.S)
        self.moved = np.zeros(len(self.W) // k - 1, dtype=bool)
        self.work = zeros(6, k)


@dataclass(frozen=True)
class BlockProxGradient(CompositeSolver[BlockState]):
    """Settings of block proximal gradient.

    Parameters
    ----------
    blocks : {"features", "classes", "matrix"}
        What one prox step changes: a row of W, a column, or all of it. Columns need a penalty of single entries.
    order : {"shuffled", "cyclic", "random", "lipschitz"}
        Every block once, in a fresh random order or in turn; or as many draws as there are blocks, with equal chances
        or in proportion to their constants.
    constants : {"local", "paper"}
        The curvature at the point, with a descent test; or the paper's, which hold anywhere.
    working_set : bool
        Between two full passes, visit the features that moved in the last one. Orders that draw do without.
    """

    blocks: str = "features"
    order: str = "shuffled"
    constants: str = "local"
    working_set: bool = True
    tuning: BlockProxGradientTuning = BlockProxGradientTuning()

    allowed: ClassVar = {name: (OneOf(*known),) for name, known in CHOICES.items()}
    state_type: ClassVar[type[Any]] = BlockState

    def start(self, problem: CompositeProblem, init: CompositePoint | None, rng: np.random.Generator) -> BlockState:
        """Allocate, from a first point or from zero."""
        losses = SoftmaxLosses(problem)
        n, k = problem.X.shape[0], losses.k
        if self.blocks == "classes" and problem.n_columns > 1 and not problem.penalty.is_entrywise:
            raise IncompatibleError(
                f"BlockProxGradient(blocks='classes') needs a penalty of single entries; {problem.penalty!r} ties the "
                "classes together. Use blocks='features' or 'matrix'."
            )
        lipschitz = feature_constants(problem)
        ceiling = float(lipschitz.sum())
        if self.blocks != "features":
            share = 0.25 if problem.is_pinned or self.blocks == "classes" else 0.5
            is_local = self.constants == "local"
            lipschitz = np.array([lipschitz.max() if is_local else share * spectral_square(problem, 0.0, rng)])
        point = problem.checked_point(init)
        if math.isinf(problem.penalty.value(point.weights)):  # a pass that draws its blocks may leave some outside
            point = point._replace(weights=problem.penalty.prox(point.weights, 1.0))
        W = losses.pack(point)
        state = BlockState(
            W=W,
            S=zeros(n * k),
            U=zeros((n + 1) * k),
            seen=W.copy(),
            G=zeros(W.size),
            lipschitz=lipschitz,
            ceiling=ceiling,
            seed=int(rng.integers(1 << 62)),
            active=np.zeros(0, dtype=np.int64),
        )
        _update_losses(problem, state, recompute=True)
        if self.order not in COMPLETE:
            adjoint(problem.X, state.U[:-k], 0.0, k, state.G)  # for blocks that are not drawn at first
        return state

    def step(self, problem: CompositeProblem, state: BlockState) -> BlockState:
        """Pass over all blocks, or over the working set until that has cost as much; then improve the intercept."""
        d = problem.X.shape[1]
        state.saw_all = len(state.active) == 0
        if self.blocks != "features":
            m = problem.n_columns if self.blocks == "classes" else 1
            for c in self._ordered(state, np.arange(m)):
                check_time()
                self._change_columns(problem, state, slice(c, c + 1) if m > 1 else slice(0, problem.n_columns))
        elif state.saw_all:
            state.full_fall = self._pass(problem, state, np.arange(d))
            moved = np.flatnonzero(state.moved)
            if self.working_set and self.order in COMPLETE and len(moved) <= self.tuning.largest_set * d:
                state.active, state.n_set_passes = moved, 0
        else:
            columns = _columns(problem, state)
            cost, lengths = 0, np.diff(getattr(columns, "indptr", np.arange(d + 1) * problem.X.shape[0]))
            while len(state.active) > 0 and cost < problem.X.size and not is_time_up():
                fall = self._pass(problem, state, state.active)
                state.n_set_passes += 1
                cost += lengths[state.active].sum()
                is_done = fall <= self.tuning.set_target * state.full_fall
                if is_done or state.n_set_passes >= self.tuning.max_set_passes:
                    state.active = state.active[:0]
        state.n_steps += 1
        _update_losses(problem, state, recompute=state.n_steps % self.tuning.refresh == 0)
        return state

    def estimate(self, problem: CompositeProblem, state: BlockState) -> float:
        """Estimate the residual from the gradients that the last full pass computed."""
        if not state.saw_all:
            return math.inf
        matrix = SoftmaxLosses(problem).matrix
        primal = state.loss + problem.penalty.value(matrix(state.W)[:-1])
        return problem.rough_residual(matrix(state.seen)[:-1], primal, matrix(state.G)[:-1])

    def _ordered(self, state: BlockState, blocks: Array) -> Array:
        """Return these blocks in the order of this pass; the same in a resumed run."""
        state.n_passes += 1
        rng = np.random.default_rng([state.seed, state.n_passes])
        if self.order == "shuffled":
            return rng.permutation(blocks)
        if self.order == "random":
            return rng.choice(blocks, len(blocks))
        if self.order == "lipschitz":
            chances = state.lipschitz if len(state.lipschitz) == len(blocks) else np.ones(len(blocks))
            return rng.choice(blocks, len(blocks), p=chances / chances.sum())
        return blocks

    def _pass(self, problem: CompositeProblem, state: BlockState, features: Array) -> float:
        """Make a prox step in each of these features; return the sum of |D|^2 / step."""
        by, is_local = self.tuning, self.constants == "local"
        rule = StepRule(state.lipschitz, is_local, *self._caution(problem), by.gershgorin, by.flattest)
        iterate = FeatureIterate(state.W, state.S, state.U, state.seen, state.G, state.moved)
        order, data = self._ordered(state, features), softmax_data(problem)
        columns = _columns(problem, state)
        return float(descend(columns, problem.penalty, order, rule, data, iterate, state.work, alarm()))

    def _caution(self, problem: CompositeProblem) -> tuple[float, float]:
        """Return step times L, and the share of |D|^2 / step that the curvature may take."""
        return (1.0, 1.0) if problem.penalty.is_convex else (self.tuning.concave_step, HALF)

    def _change_columns(self, problem: CompositeProblem, state: BlockState, block: slice) -> None:
        """Make a prox step in these columns of W, with the descent test of ``_feature_loop.descend``."""
        losses = SoftmaxLosses(problem)
        n, k, m = problem.X.shape[0], losses.k, block.stop - block.start
        if state.spare is None:
            w = padded(m)
            state.spare = _Spare(zeros(n * w), zeros(len(state.W) // k * w), state.S.copy(), state.U.copy())
        spare, w = state.spare, padded(m)
        images, moves = spare.images.reshape(-1, w)[:, :m], spare.moves.reshape(-1, w)[:, :m]
        W, U = losses.matrix(state.W)[:-1, block], losses.matrix(state.U)[:-1, block]
        images[:] = U
        adjoint(problem.X, spare.images, 0.0, w, spare.moves)
        G = losses.matrix(state.G)[:-1, block]
        G[:], losses.matrix(state.seen)[:-1, block] = moves[:-1], W
        scale, share = self._caution(problem)
        if self.constants == "local":
            state.lipschitz[0] = max(self.tuning.shrink * state.lipschitz[0], LEAST_CONSTANT * state.ceiling)
        while True:
            check_time()
            step = scale / state.lipschitz[0]
            new = problem.penalty.prox(W - step * G, step)
            moves[:-1], moves[-1] = new - W, 0.0
            times(problem.X, spare.moves, 0.0, w, spare.images)
            spare.S[:] = state.S
            losses.matrix(spare.S)[:, block] += images
            losses.fill_probabilities(spare.S, spare.U[:-k])
            losses.fill_residuals(spare.U[:-k], spare.U[:-k])
            rise = float(np.vdot(losses.matrix(spare.U)[:-1, block] - U, images))
            if not rise > share * float(np.vdot(moves, moves)) / step or state.lipschitz[0] >= state.ceiling:
                break
            state.lipschitz[0] = min(self.tuning.grow * state.lipschitz[0], state.ceiling)
        W[:] = new
        state.S, spare.S = spare.S, state.S
        state.U, spare.U = spare.U, state.U


@dataclass
class _Spare:
    """Scratch of a step in some columns, w of them with padding."""

    images: Array  # (n * w,) part of U, then scores of the move
    moves: Array  # ((d + 1) * w,) its gradient, then the move
    S: Array  # (n * k,)
    U: Array  # ((n + 1) * k,)


def _columns(problem: CompositeProblem, state: BlockState) -> Any:
    """Return the columns of X; make them anew after a checkpoint."""
    if state.columns is None:
        state.columns = as_rows(transposed(problem.X))
    return state.columns


def _update_losses(problem: CompositeProblem, state: BlockState, *, recompute: bool) -> None:
    """Improve the intercept; update U and the losses; ``recompute`` the scores too, which drift by rounding."""
    losses = SoftmaxLosses(problem)
    P = state.U[: -losses.k]
    if recompute:
        losses.fill_scores(state.W, state.S)
    state.loss = losses.improve_intercept(state.W, state.S, P)
    losses.fill_residuals(P, P)
