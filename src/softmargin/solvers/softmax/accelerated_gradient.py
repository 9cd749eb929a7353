"""Accelerated proximal gradient (FISTA) on the whole matrix, with adaptive restart, for a convex penalty.

    minimise over W (d, k):   f(W) + g(W) ,     f(W) = min over b of sum_i C_i loss(W' x_i + b, y_i)

    Z = W_t + beta (W_t - W_{t-1});   W_{t+1} = prox_{g / L}(Z - G(Z) / L);   beta as in common/momentum

The intercept is not a coordinate of the descent: a constant column beside features of another scale would spoil L. A
Newton step improves it at every Z, and while W moves by D it moves by -<mean, D>, as if the columns were centred.
Scores are linear in W, so those of Z are combined from those of two points: an iteration makes one product with X and
one with X'.

L shrinks a little every time and doubles where <G(W_{t+1}) - G(Z), D> > L |D|^2, D = W_{t+1} - Z: the curvature along
the step, measured in the scores.

    Beck, Teboulle      here
    x_k, y_k, t_k       W, Z, momentum

Source: Beck and Teboulle (2009), restarted as in O'Donoghue and Candes (2015) where <Z - W_{t+1}, W_{t+1} - W_t> > 0.
Maths: softmax, section 6.
"""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.lanes import zeros
from softmargin.core.deadline import check_time
from softmargin.core.protocols import CompositeProblem
from softmargin.matrices.operator import rmatmul
from softmargin.problems.composite import CompositePoint
from softmargin.solvers.common.momentum import extrapolate, next_momentum
from softmargin.solvers.softmax._feature_loop import LEAST_CONSTANT, feature_constants
from softmargin.solvers.softmax._losses import CompositeSolver, SoftmaxLosses

__all__ = ["AcceleratedGradient", "AcceleratedGradientTuning", "AcceleratedState"]

Array = NDArray[Any]


class AcceleratedGradientTuning(NamedTuple):
    """Constants of accelerated gradient."""

    shrink: float = 0.95  # factor on L that every iteration tries; by hand
    grow: float = 2.0  # factor on L where the descent test fails; by hand


@dataclass
class AcceleratedState:
    """Everything a run needs to go on: arrays and plain numbers, so that a checkpoint can hold it, and scratch."""

    W: Array  # ((d + 1) * k,)
    S: Array  # (n * k,) scores
    last_W: Array  # one iteration ago
    last_S: Array
    G: Array  # ((d + 1) * k,) gradient at the last Z
    mean: Array  # (d,) of the columns, weighted by C; zero without an intercept
    lipschitz: float
    ceiling: float  # a constant that holds anywhere
    momentum: float = 1.0
    loss: float = math.inf
    Z: Array = field(init=False, repr=False)  # scratch from here on
    Z_scores: Array = field(init=False, repr=False)
    U: Array = field(init=False, repr=False)
    new_U: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Allocate the scratch."""
        self.Z = zeros(self.W.size)
        self.Z_scores, self.U, self.new_U = (zeros(self.S.size) for _ in range(3))


@dataclass(frozen=True)
class AcceleratedGradient(CompositeSolver[AcceleratedState]):
    """Settings of accelerated gradient. One step is one iteration.

    Parameters
    ----------
    restart : bool
        Drop the momentum when a step turns back.
    """

    restart: bool = True
    tuning: AcceleratedGradientTuning = AcceleratedGradientTuning()

    state_type: ClassVar[type[Any]] = AcceleratedState

    def start(
        self, problem: CompositeProblem, init: CompositePoint | None, rng: np.random.Generator
    ) -> AcceleratedState:
        """Allocate, from a first point or from zero."""
        self._demand_convex(problem)
        losses = SoftmaxLosses(problem)
        W = losses.pack(problem.checked_point(init))
        S = zeros(problem.X.shape[0] * losses.k)
        losses.fill_scores(W, S)
        constants = feature_constants(problem)
        mean = np.zeros(len(constants))
        if problem.fit_intercept and problem.C.any():
            mean = rmatmul(problem.X, problem.C[:, None], 0.0)[:-1, 0] / problem.C.sum()
        return AcceleratedState(
            W, S, W.copy(), S.copy(), zeros(W.size), mean, float(constants.max()), float(constants.sum())
        )

    def step(self, problem: CompositeProblem, state: AcceleratedState) -> AcceleratedState:
        """Make one iteration."""
        losses, last_lipschitz = SoftmaxLosses(problem), state.lipschitz
        state.lipschitz = max(self.tuning.shrink * state.lipschitz, LEAST_CONSTANT * state.ceiling)
        momentum, beta = next_momentum(state.momentum, state.lipschitz / last_lipschitz)
        Z, S, U = state.Z, state.Z_scores, state.U
        extrapolate(state.W, state.last_W, beta, Z)
        extrapolate(state.S, state.last_S, beta, S)
        losses.improve_intercept(Z, S, U)
        losses.fill_gradient(U, U, state.G)
        # The new point overwrites the last one.
        new, new_S = state.last_W, state.last_S
        rows, G, moved = (losses.matrix(flat) for flat in (Z, state.G, new))
        while True:
            check_time()
            length = 1.0 / state.lipschitz
            moved[:-1] = problem.penalty.prox(rows[:-1] - length * G[:-1], length)
            D = moved[:-1] - rows[:-1]
            moved[-1] = rows[-1] - problem.bias * (state.mean @ D)
            losses.fill_scores(new, new_S)
            state.loss = losses.fill_probabilities(new_S, state.new_U)
            losses.fill_residuals(state.new_U, state.new_U)
            rise = float(np.vdot(state.new_U - U, new_S - S))
            if not rise > state.lipschitz * float(np.vdot(D, D)) or state.lipschitz >= state.ceiling:
                break
            state.lipschitz = min(self.tuning.grow * state.lipschitz, state.ceiling)
        turned = float(np.vdot(D, moved[:-1] - losses.matrix(state.W)[:-1])) < 0.0
        state.momentum = 1.0 if self.restart and turned else momentum
        state.W, state.last_W = new, state.W
        state.S, state.last_S = new_S, state.S
        return state
