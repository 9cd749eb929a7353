"""Stochastic variance reduced gradient with a prox, on samples: a baseline of paper 003.

    minimise over W:   f(W) + g(W) ,     f = sum_i f_i ,  f_i(W) = C_i loss(W' x_i, y_i)

    W <- prox_{eta g}(W - eta (G~ + 1/b sum over a batch of (grad f_i(W) - grad f_i(W~)) / p_i))

W~ is where the last full gradient G~ was computed, at the end of the step before; samples are drawn with chances p_i in
proportion to C_i |x_i|^2, so that no single one bounds eta. G~ and the prox touch all of W in every inner step: a
batch is so large that it has about as many entries as there are features. The intercept is an unpenalised constant
feature, and takes a Newton step at every W~.

    Xiao, Zhang     here                shape
    eta             length              ()         1 / (3 L)
    L                                   ()         (1 - 1/b) |sqrt(C) X|_2^2 / 2 + 1/b sum_i C_i |x_i|^2 / 2
    p_i             chances             (n,)
    x~, v~          W and G at a step's start

Source: Johnson and Zhang (2013); Xiao and Zhang (2014), with the last inner point kept. The objective may rise within
a run: only its expectation falls.
"""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import jit
from softmargin.backends.lanes import WIDTH, load, pointer, splat, store, zeros
from softmargin.core.deadline import alarm
from softmargin.core.parameters import NONE, Whole
from softmargin.core.protocols import CompositeProblem
from softmargin.matrices.rows import as_rows, squared_norms
from softmargin.problems.composite import CompositePoint
from softmargin.solvers.softmax._feature_loop import SoftmaxData, softmax_data, spectral_square
from softmargin.solvers.softmax._losses import NEVER, CompositeSolver, SoftmaxLosses, softmax_row

__all__ = ["Svrg", "SvrgState", "SvrgTuning"]

Array = NDArray[Any]


class SvrgTuning(NamedTuple):
    """Constants of stochastic variance reduced gradient."""

    caution: float = 3.0  # eta is 1 / (caution L); by hand


@dataclass
class SvrgState:
    """Everything a run needs to go on: arrays and plain numbers, so that a checkpoint can hold it, and scratch."""

    W: Array  # ((d + 1) * k,)
    U: Array  # (n * k,) C (P - Y) at W
    G: Array  # ((d + 1) * k,) the gradient at W
    chances: Array  # (n,)
    batch: int
    length: float
    seed: int
    loss: float = math.inf
    n_steps: int = 0
    S: Array = field(init=False, repr=False)  # scratch

    def __post_init__(self) -> None:
        """Allocate the scratch."""
        self.S = zeros(self.U.size)


@dataclass(frozen=True)
class Svrg(CompositeSolver[SvrgState]):
    """Settings of stochastic variance reduced gradient. One step is a full gradient and n samples.

    Parameters
    ----------
    batch : int, optional
        Samples of one inner step; by default as many as have about d entries in all.
    """

    batch: int | None = None
    tuning: SvrgTuning = SvrgTuning()

    allowed: ClassVar = {"batch": (NONE, Whole(1))}
    state_type: ClassVar[type[Any]] = SvrgState

    def start(self, problem: CompositeProblem, init: CompositePoint | None, rng: np.random.Generator) -> SvrgState:
        """Allocate, from a first point or from zero; choose the batch and the step size."""
        self._demand_convex(problem)
        n, d = problem.X.shape
        losses = SoftmaxLosses(problem)
        W = losses.pack(problem.checked_point(init))
        squares = np.empty(n)
        squared_norms(as_rows(problem.X, problem.bias), squares)
        squares *= problem.C
        total = float(squares.sum())
        batch = min(n, self.batch or max(1, round(n * d / max(problem.X.size, 1))))
        spread = (1.0 - 1.0 / batch) * spectral_square(problem, problem.bias, rng) + total / batch
        state = SvrgState(
            W=W,
            U=zeros(n * losses.k),
            G=zeros(W.size),
            chances=squares / total if total > 0.0 else np.full(n, 1.0 / n),
            batch=batch,
            length=1.0 / (self.tuning.caution * (0.25 if problem.is_pinned else 0.5) * (spread or 1.0)),
            seed=int(rng.integers(1 << 62)),
        )
        return _refresh(problem, state)

    def step(self, problem: CompositeProblem, state: SvrgState) -> SvrgState:
        """Make inner steps with n samples, then compute the gradient of all."""
        n, data = len(problem.y), softmax_data(problem)
        state.n_steps += 1
        rng = np.random.default_rng([state.seed, state.n_steps])
        drawn = rng.choice(n, size=-(-n // state.batch) * state.batch, p=state.chances)
        work = zeros(3 + state.batch, data.k)
        work[0, problem.n_columns :] = NEVER
        rows = as_rows(problem.X, problem.bias)
        drawn_at = (drawn, state.chances, state.length)
        _inner_steps(rows, problem.penalty, data, *drawn_at, state.W, state.U, state.G, work, alarm())
        return _refresh(problem, state)


def _refresh(problem: CompositeProblem, state: SvrgState) -> SvrgState:
    """Improve the intercept and compute the gradient of all samples."""
    losses = SoftmaxLosses(problem)
    losses.fill_scores(state.W, state.S)
    state.loss = losses.improve_intercept(state.W, state.S, state.U)
    losses.fill_gradient(state.U, state.U, state.G)
    return state


@jit
def _inner_steps(
    rows: Any,
    penalty: Any,
    data: SoftmaxData,
    drawn: Array,
    chances: Array,
    length: float,
    W: Array,
    U: Array,
    G: Array,
    work: Array,
    alarm: Array,
) -> None:
    """Update W by an inner step with every batch of the samples drawn, until the alarm; ``work`` is (3 + batch, k)."""
    k, C, target, tiles, batch = data.k, data.C, data.target, data.tiles, work.shape[0] - 3
    rows_, W_, U_, G_, moves_ = rows.bare(), pointer(W), pointer(U), pointer(G), pointer(work[3])
    tiles_, start, scores, move = pointer(tiles), pointer(work[0]), pointer(work[1]), pointer(work[2])
    m = tiles.shape[0]
    for first in range(0, drawn.shape[0], batch):
        if alarm[0] != 0:
            break
        for t in range(batch):
            i = drawn[first + t]
            rows_.scores(i, W_, k, start, tiles_, m, scores)
            softmax_row(scores, 0, k, data.is_pinned, scores, 0)
            if target[i] >= 0:
                scores[target[i]] -= 1.0
            scale = splat(-length / (batch * chances[i]))
            for o in range(0, k, WIDTH):
                store(moves_, t * k + o, scale * (splat(C[i]) * load(scores, o) - load(U_, i * k + o)))
        for q in range(0, W.shape[0], WIDTH):
            store(W_, q, load(W_, q) - splat(length) * load(G_, q))
        for t in range(batch):
            for o in range(0, k, WIDTH):
                store(move, o, load(moves_, t * k + o))
            rows_.add(drawn[first + t], move, tiles_, m, W_, k)
        for j in range(rows_.d):
            penalty.prox_row(W_, j * k, data.n_columns, length)
