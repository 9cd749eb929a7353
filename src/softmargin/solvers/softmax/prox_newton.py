"""Proximal Newton with a working set, for multinomial regression with any separable penalty.

    F(W, b) = sum_i C_i l_i(W' x_i + b) + g(W)                                                            spec 3.1, 3.7

One step: the exact gradient G tells which blocks of W are worth while; block descent minimises, over these, the
quadratic model q(D) = <G, D> + 1/2 <D, H D> + g(W + D), by samples (parts/quadratic_model) or, for few entries, with H
written out (parts/dense_model); a search along D ends it.

A block is one entry of W where the penalty is a sum over entries, else the row of a feature. Those that are not zero
are in the working set, and those that a step of proximal gradient would move most, as many again.

H is the Hessian of the losses plus a damping. Plain Newton steps overshoot: a sample that the model gets wrong looks
flat, though its loss bends on the way to being right. So sample i has damping rho (1 - p_own) in its scores; rho falls
where the model foretold the fall of F well, and rises where it did not. From 1 / 2 on all samples are damped, and at
rho = 1 by 1 / 2: then H is above the Hessian anywhere, and D itself lowers F. A penalty that is not convex relies on
that, for between W and W + D it may be higher than at both. Where losses fall like an exponential, as those of samples
that are right already, plain Newton steps are too short, and F falls by 2 (1 - 1 / e) = 1.26 times what was foretold:
the next model then has only a share of H.

    spec            here
    XD              state.move          scores of D
    h_jk            quadratic_passes    exact second derivative (entries), bound (rows)
    WS              _choose
    [not there]     damping; a share of H; Hessians of few samples; Anderson's extrapolation, jumps; exactness of models
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.lanes import WIDTH, zeros
from softmargin.core.protocols import CompositeProblem
from softmargin.matrices.rows import as_rows, weighted_squares
from softmargin.problems.composite import CompositePoint
from softmargin.solvers.softmax._losses import SoftmaxLosses, stride_of, unpadded, width_of
from softmargin.solvers.softmax.quadratic_model.by_samples import EntryModel, RowModel
from softmargin.solvers.softmax.quadratic_model.dense import (
    EXACT,
    MOST_PASSES,
    DenseModel,
    affords_all,
    forming,
    is_worth_while,
)
from softmargin.solvers.softmax.quadratic_model.loops import score_blocks
from softmargin.solvers.softmax.quadratic_model.row_shifts import centre
from softmargin.solvers.softmax.quadratic_model.samples import Layout, Sample, draw

__all__ = ["ProxNewton", "ProxNewtonState"]

Array = NDArray[Any]

FIRST_SET = 100  # rows, or as many entries as they have, in the smallest working set
GROWTH = 2  # the working set is at most so many times what is not zero
MANY = 2.0  # entries in play for every tile of the rows that hold them, from which descent goes by rows
FIRST_DAMPING = 0.05
LEAST_DAMPING = 1e-6  # below, there is none
RISEN_DAMPING = 1e-3  # where it rises from nothing
HEAVY_DAMPING = 0.2  # a model that is no good even so has too few samples
FALL, RISE = 3.0, 6.0  # by how much the damping changes
GOOD, BAD = 0.75, 0.25  # the fall of F, as a share of what the model foretold
FLAT, STILL_FLAT, BENT = 1.2, 0.8, 0.6  # the same, from which models get, or keep, only a share of H; that share
LEAST_EXACT, MOST_EXACT = 0.1, 1e-4  # change of the last pass over a model, as a share of the first
ENOUGH = 0.01  # share of the foretold fall that a step must bring
FLOOR = 1e-6  # share of the largest possible curvature that a block has at least
MAX_HALVINGS = 30
MAX_PASSES = 400  # over one model, where models are good and passes crawl
ROUNDING = 1e-14  # share of F that its computed differences cannot tell
CONCAVE = 1.1  # curvatures are raised so much where the penalty is not convex: spec 3.4


@dataclass
class ProxNewtonState:
    """Where the descent stands: arrays and plain numbers for a checkpoint, and scratch."""

    weights: Array  # ((d + 1) * k,)
    scores: Array  # (n * k,)
    probabilities: Array  # (n * k,)
    gradient: Array  # ((d + 1) * k,)
    lipschitz: Array  # (d + 1,) bound on the second derivative by an entry
    width: int  # entries in a block
    loss: float
    penalty: float
    damping: float
    accuracy: float
    max_passes: int
    seed: int
    more: float = 1.0  # times as many samples as usual
    bent: float = 1.0  # share of the Hessian that models have
    n_steps: int = 0
    losses: Any = field(init=False, repr=False)  # scratch from here on
    layout: Any = field(init=False, repr=False)
    move: Array = field(init=False, repr=False)  # (n * k,) scores of D
    trial: Array = field(init=False, repr=False)  # (n * k,) scores at the end of D

    def __post_init__(self) -> None:
        """Allocate the scratch."""
        self.losses = self.layout = None
        self.move = zeros(len(self.scores))
        self.trial = zeros(len(self.scores))


@dataclass(frozen=True)
class ProxNewton:
    """Settings of the descent; one step is one model.

    Parameters
    ----------
    max_passes : int
        Most passes over one model, at first.
    per_feature : float
        Samples drawn for every feature in play, at least; infinite for all samples.
    """

    max_passes: int = 50
    per_feature: float = 10.0

    needs: ClassVar[tuple[type, ...]] = (CompositeProblem,)

    def start(self, problem: Any, init: CompositePoint | None, rng: np.random.Generator) -> ProxNewtonState:
        """Begin at zero or at ``init``; compute its gradient."""
        point = problem.checked_point(init)
        if not np.isfinite(problem.penalty.value(point.weights)):
            nearest = problem.penalty.prox(point.weights, np.finfo(float).tiny)
            point = CompositePoint(nearest, point.intercept)
        (n, d), k = problem.X.shape, stride_of(problem)
        lipschitz = np.empty(d + 1)
        weighted_squares(as_rows(problem.X), 0.25 * problem.C, lipschitz[:d])
        lipschitz[d] = 0.25 * problem.C.sum()
        state = ProxNewtonState(
            weights=SoftmaxLosses(problem, is_compact=True).pack(point),
            scores=zeros(n * k),
            probabilities=zeros(n * k),
            gradient=zeros((d + 1) * k),
            lipschitz=lipschitz,
            width=1 if problem.is_pinned or problem.penalty.is_entrywise else problem.n_columns,
            loss=0.0,
            penalty=float(problem.penalty.value(point.weights)),
            damping=FIRST_DAMPING,
            accuracy=LEAST_EXACT,
            max_passes=self.max_passes,
            seed=int(rng.integers(2**32)),
        )
        losses = _awake(problem, state)
        losses.fill_scores(state.weights, state.trial)
        state.loss, _, _ = losses.along(state.trial, state.move, 0.0, state.scores, state.probabilities)
        losses.fill_gradient(state.probabilities, state.move, state.gradient)
        return state

    def step(self, problem: Any, state: ProxNewtonState) -> ProxNewtonState:
        """Choose blocks, minimise the model over them, and go there as far as F falls."""
        losses = _awake(problem, state)
        model = self._model(problem, state, *_choose(problem, state))
        is_cheap = isinstance(model, DenseModel) and model.sample.rows is None
        limits = (EXACT, MOST_PASSES) if is_cheap else (state.accuracy, state.max_passes)
        is_cut = model.minimise(*limits)
        length, ratio = _go(problem, state, model)
        _adapt(problem, state, length, ratio, model.sample.rows is not None, is_cut)
        if length > 0.0 and problem.penalty.is_convex and not problem.is_pinned:
            rows = model.rows[model.rows < problem.X.shape[1]]
            state.penalty -= centre(problem.penalty, state.weights, stride_of(problem), problem.n_columns, rows)
        if length == 0.0:
            losses.along(state.scores, state.move, 0.0, state.trial, state.probabilities)
        state.n_steps += 1
        losses.fill_gradient(state.probabilities, state.move, state.gradient)
        return state

    def point(self, problem: Any, state: ProxNewtonState) -> CompositePoint:
        """Return the weights; intercepts of all classes have mean zero."""
        return SoftmaxLosses(problem, is_compact=True).unpack(state.weights)

    def estimate(self, problem: Any, state: ProxNewtonState) -> float:
        """Guess the residual from the gradient at hand."""
        W, G = unpadded(problem, state.weights)[:-1], unpadded(problem, state.gradient)[:-1]
        return float(problem.rough_residual(W, state.loss + state.penalty, G))

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> ProxNewtonState:
        """Rebuild the state from a checkpoint."""
        aligned: dict[str, Any] = {name: zeros(array.size) for name, array in arrays.items()}
        for name, array in aligned.items():
            array[:] = arrays[name]
        return ProxNewtonState(**aligned, **plain)

    def _hessian(self, problem: Any, P: Array, damping: Array) -> tuple[Array, Array, bool]:
        """Return the parts of the Hessian by the scores: probabilities, damping, and whether classes meet in it."""
        return P, damping, True

    def _model(
        self, problem: Any, state: ProxNewtonState, features: Array, classes: Array
    ) -> DenseModel | EntryModel | RowModel:
        """Build the model of some entries (j, c), or of the rows that hold them where they are many."""
        d, k = problem.X.shape[1], problem.n_columns
        own = rows = features if k == 1 else np.unique(features)
        n_tiles = width_of(problem) // WIDTH
        by_rows = state.width > 1 or len(features) > MANY * len(rows) * n_tiles
        if problem.fit_intercept:
            rows = np.append(rows, d)
            features, classes = np.append(features, np.full(k, d)), np.append(classes, np.arange(k))
        m, X = len(features), state.layout.X
        cost = forming(X, m, k, state.layout.has_pairs)
        is_dense = state.width == 1 and is_worth_while(cost, m, problem.X, state.max_passes)
        sample, is_coupled = self._sample(problem, state, own, is_dense, is_dense and affords_all(cost, X, n_tiles))
        W, G = state.weights, state.gradient
        stretch = 1.0 if problem.penalty.is_convex else CONCAVE
        if by_rows and k > 1 and not is_dense:
            return RowModel(problem, sample, W, G, rows, state.width, is_coupled, stretch)
        if k > 1:
            order = np.argsort(classes, kind="stable")
            features, classes = features[order], classes[order]
        if is_dense:
            return DenseModel(problem, sample, W, G, features, classes, is_coupled, stretch)
        bounds = np.searchsorted(classes, np.arange(k + 1))
        return EntryModel(problem, sample, W, G, features, bounds[:-1].copy(), bounds[1:].copy(), stretch)

    def _sample(
        self, problem: Any, state: ProxNewtonState, features: Array, is_dense: bool, takes_all: bool
    ) -> tuple[Sample, bool]:
        """Gather the samples of a model of some features."""
        P, layout, rho = state.probabilities, state.layout, state.damping
        damping = np.minimum(rho * (1.0 - state.losses.own(P)) + max(rho - 0.5, 0.0), 0.5)
        hessian, damping, is_coupled = self._hessian(problem, P, damping)
        drawn = None
        if not takes_all:
            rng = np.random.default_rng([state.seed, state.n_steps])
            drawn = draw(problem, P, features, self.per_feature, state.more, rng)
        every = Sample(None, layout.X, None, problem.C, hessian, damping, FLOOR * state.lipschitz)
        sample = layout.gather(every, drawn, is_dense)
        sample.C = state.bent * sample.C
        return sample, is_coupled


def _awake(problem: Any, state: ProxNewtonState) -> SoftmaxLosses:
    """Return the losses; make the scratch, anew after a checkpoint."""
    if state.losses is None:
        state.layout = Layout(problem)
        state.losses = SoftmaxLosses(problem, state.layout.X, is_compact=True)
    return state.losses


def _choose(problem: Any, state: ProxNewtonState) -> tuple[Array, Array]:
    """Return the working set as (features, classes)."""
    d, k = problem.X.shape[1], problem.n_columns
    per_row = k // state.width
    scores = np.empty(d * per_row)
    W, G, L = state.weights, state.gradient, state.lipschitz[:d]
    n_support = score_blocks(problem.penalty, W, G, L, stride_of(problem), k, state.width, scores)
    blocks = np.flatnonzero(scores > 0.0)
    most = max(FIRST_SET * per_row, GROWTH * n_support)
    if len(blocks) > most:
        blocks = np.sort(blocks[np.argpartition(-scores[blocks], most)[:most]])
    return blocks // per_row, blocks % per_row


def _go(problem: Any, state: ProxNewtonState, model: Any) -> tuple[float, float]:
    """Go to W + D, or less far, so that F falls; return how far, and how well the model foretold F(W + D).

    Probabilities are then those at the new scores, unless nothing was good enough.
    """
    rows, losses = model.rows, state.losses
    W, V, G = (unpadded(problem, flat)[rows] for flat in (state.weights, model.V, state.gradient))
    D, own = V - W, rows < problem.X.shape[1]
    before, after = problem.penalty.value(W[own]), problem.penalty.value(V[own])
    foretold = before - after - float(np.vdot(G, D)) - 0.5 * model.bend()
    move = model.scores_move()
    if move is None:
        losses.fill_move(model.V - state.weights, state.move)
    else:
        unpadded(problem, state.move)[:] = move
    rounding = ROUNDING * abs(state.loss + state.penalty)
    length, ratio = 1.0, 1.0
    for _ in range(MAX_HALVINGS if problem.penalty.is_convex else 1):
        loss, _, _ = losses.along(state.scores, state.move, length, state.trial, state.probabilities)
        value = after if length == 1.0 else problem.penalty.value((W + length * D)[own])
        fall = (state.loss - loss) + (before - value)
        if length == 1.0 and foretold > rounding:
            ratio = fall / foretold
        if fall >= ENOUGH * length * foretold or (foretold <= rounding and fall >= -rounding):
            unpadded(problem, state.weights)[rows] = V if length == 1.0 else W + length * D
            state.scores, state.trial = state.trial, state.scores
            state.loss, state.penalty = loss, state.penalty + value - before
            return length, ratio
        length /= 2.0
    return 0.0, ratio


def _adapt(problem: Any, state: ProxNewtonState, length: float, ratio: float, is_drawn: bool, is_cut: bool) -> None:
    """Set the next model's damping, exactness and number of samples by how this one did."""
    if ratio > GOOD:
        state.damping = state.damping / FALL if state.damping > LEAST_DAMPING else 0.0
        if is_cut:
            state.max_passes = min(2 * state.max_passes, MAX_PASSES)
    elif not ratio >= BAD:
        state.damping = min(max(RISE * state.damping, RISEN_DAMPING), 1.0)
    if length < 1.0 and is_drawn and state.damping > HEAVY_DAMPING:
        state.more *= 2.0
    miss = abs(1.0 - ratio) if state.bent == 1.0 else 1.0 - BENT
    state.accuracy = min(max(LEAST_EXACT * miss, MOST_EXACT), LEAST_EXACT)
    if problem.penalty.is_convex:
        state.bent = BENT if ratio > (FLAT if state.bent == 1.0 else STILL_FLAT) else 1.0
