"""Newton's method for smooth losses summed over blocks of rows, with any penalty or over a ball, on a working set.

    minimise over W:   F(W) = L(W) + g(W) ,     L = sum_i p_i f(W' x_i)                   maths: blocks, eq. 5
    one step:          D = argmin of  <G, D> + 1/2 <D, H D> + g(W + D) ,    W <- W + t D

D moves the features of a working set: those with weights, and those that a step of length 1 / curvature along the
gradient would give one, the largest first. Their part of H is one sum over the blocks, and the model is minimised here,
by accelerated steps. Where that part has too many numbers, D is such a step of all features along the gradient, with
the momentum of the last ones: one pass each.

Source: Lee, Sun and Saunders (2014) for the step; Beck and Teboulle (2009), O'Donoghue and Candes (2015) for the model.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import SummedProblem
from softmargin.problems.summed_losses import SummedPoint
from softmargin.solvers.common.resumable import Resumable
from softmargin.solvers.summed.sampled_start import SampleTuning, from_sample, objective

__all__ = ["SummedProxNewton", "SummedProxState", "SummedProxTuning"]

Array = NDArray[Any]
ROUNDING = 1e-13  # share of F that rounding hides


class SummedProxTuning(NamedTuple):
    """How large models are, and how exactly they are minimised."""

    most_unknowns: int = 2048  # of a model: its matrix of 32 MB travels from every block; by hand
    max_inner: int = 3000  # steps on a model; a guard
    exact: float = 0.02  # share of its first step to which those on a model fall, less as F converges; by hand
    floor: float = 1e-3  # share of its bound that the curvature of a model has at least; by hand
    enough: float = 1e-4  # share of the predicted decrease that a step must reach; the usual one
    shortest: int = 12  # lengths 1/2, 1/4, ... of a step that is too long; by hand


@dataclass
class SummedProxState:
    """The weights and the losses there, and the last move."""

    weights: Array  # (d + 1, k)
    values: Array  # (4,) as a pass returns them
    gradient: Array  # (d + 1, k)
    scale: Array  # (d + 1, 1) bound on the curvature of the losses by rows of W
    last: Array  # (d + 1, k) the weights before
    momentum: float = 1.0  # of steps along the gradient
    steep: float = 1.0  # factor of the scale that bounds the curvature along them


@dataclass(frozen=True)
class SummedProxNewton(Resumable):
    """Newton's method with a prox; it has no settings. One step is one model, or one step along the gradient.

    Examples
    --------
    >>> import numpy as np
    >>> from softmargin import SummedProxNewton, penalties, solve
    >>> from softmargin.losses.joint import JOINT
    >>> from softmargin.problems.block_rows import Block, Form
    >>> from softmargin.problems.blocks import LocalBlocks
    >>> from softmargin.problems.summed import PenalizedSum
    >>> rows, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 2])
    >>> blocks = LocalBlocks([Block(rows[:2], y[:2], np.ones(2)), Block(rows[2:], y[2:], np.ones(2))])
    >>> problem = PenalizedSum(blocks, Form(JOINT["multinomial"], 3, 1.0, True), penalties.L1(0.5))
    >>> solve(problem, SummedProxNewton(), rng=0).status.value
    'converged'
    """

    tuning: SummedProxTuning = SummedProxTuning()
    sample: SampleTuning = SampleTuning()

    needs: ClassVar[tuple[type, ...]] = (SummedProblem,)
    state_type: ClassVar[type] = SummedProxState

    def start(self, problem: SummedProblem, init: SummedPoint | None, rng: np.random.Generator) -> SummedProxState:
        """Begin at ``init``, at the optimum of a sample of many rows, or at zero."""
        if not problem.is_smooth:
            raise IncompatibleError("SummedProxNewton needs a smooth loss; SummedNewton takes hinges with a ridge.")
        begun: SummedProxState | None = from_sample(self, problem, rng) if init is None else None
        if begun is not None:
            return begun
        W = problem.prox(problem.checked_point(init).weights, 0.0)  # inside its set, and no shorter
        scale = problem.largest_curvature()
        scale = np.where(scale > 0.0, scale, 1.0)
        if not problem.takes_scales:
            problem.form.penalised(scale)[:] = problem.form.penalised(scale).max()
        values, gradient, _ = problem.scored(W, 0.0)
        return SummedProxState(W, values, gradient, scale, W.copy())

    def step(self, problem: SummedProblem, state: SummedProxState) -> SummedProxState:
        """Minimise a model on a working set, and go there; or go along the gradient."""
        features = self._working_set(problem, state)
        if features is None:
            return self._gradient_step(problem, state)
        H = problem.curvature(state.weights, 0.0, features).hessian
        D = self._minimised(problem, state, features, H)
        W, before = state.weights, objective(problem, state)
        fall = float(np.vdot(state.gradient, D)) + problem.value(W + D) - problem.value(W)
        new = self._at(problem, state, W + D)
        if not objective(problem, new) <= before + self.tuning.enough * fall + ROUNDING * abs(before):
            lengths = 0.5 ** np.arange(1.0, self.tuning.shortest + 1.0)
            losses = problem.along(W, D, lengths, 0.0)
            values = [loss + problem.value(W + t * D) for t, loss in zip(lengths, losses, strict=True)]
            best = int(np.argmin(values))
            new = self._at(problem, state, W + lengths[best] * D) if values[best] < before else state
        return new

    def _at(self, problem: SummedProblem, state: SummedProxState, W: Array) -> SummedProxState:
        """Return the state at other weights: one pass."""
        values, gradient, _ = problem.scored(W, 0.0)
        return SummedProxState(W, values, gradient, state.scale, state.weights, state.momentum, state.steep)

    def _working_set(self, problem: SummedProblem, state: SummedProxState) -> Array | None:
        """Return some rows of W, ascending, that of the constant among them; None where too many have weights."""
        W, k = state.weights, state.weights.shape[1]
        most = self.tuning.most_unknowns // k - 1
        moved = problem.prox(W - state.gradient / state.scale, 1.0 / state.scale) - W
        has_weights = W[:-1].any(axis=1)
        n_weights = int(has_weights.sum())
        sizes = np.abs(moved[:-1]).max(axis=1) * np.sqrt(state.scale[:-1, 0])
        sizes[has_weights] = math.inf
        if n_weights + bool((np.isfinite(sizes) & (sizes > 0.0)).any()) > most:
            return None
        wanted = min(most, max(2 * n_weights, n_weights + 16), int(np.count_nonzero(sizes)))
        chosen = np.argsort(-sizes, kind="stable")[:wanted]
        return np.append(np.sort(chosen), len(W) - 1)

    def _minimised(self, problem: SummedProblem, state: SummedProxState, features: Array, H: Array) -> Array:
        """Return the D that minimises the model: accelerated steps with restarts."""
        W, k = state.weights, state.weights.shape[1]
        G, least = state.gradient[features], self.tuning.floor * state.scale[features]

        def times(D: Array) -> Array:
            if H.ndim == 2:
                return np.asarray(H @ D.ravel()).reshape(D.shape) + least * D
            return np.stack([H[c] @ D[:, c] for c in range(k)], axis=1) + least * D

        scale = self._scale(problem, features, H, k) + least
        full, steps = W.copy(), np.ones((len(W), 1))
        steps[:] = 1.0 / scale.max()
        steps[features] = 1.0 / scale

        def prox(V: Array) -> Array:
            full[features] = V
            moved: Array = problem.prox(full, steps)[features]
            full[features] = W[features]
            return moved

        start = W[features]
        V, Y, momentum, target = start.copy(), start.copy(), 1.0, 0.0
        for inner in range(self.tuning.max_inner):
            new = prox(Y - (G + times(Y - start)) / scale)
            size = float(np.sqrt((scale * (new - Y) ** 2).sum()))
            target = max(target, self.tuning.exact * size) if inner == 0 else target
            if size <= target and inner > 0:
                V = new
                break
            is_back = float(np.vdot(scale * (Y - new), new - V)) > 0.0
            later = 1.0 if is_back else 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum**2))
            Y = new + (0.0 if is_back else (momentum - 1.0) / later) * (new - V)
            V, momentum = new, later
        D = np.zeros(W.shape)
        D[features] = V - start
        return D

    def _scale(self, problem: SummedProblem, features: Array, H: Array, k: int) -> Array:
        """Return a diagonal above H, one number per row; the rows of a ball share theirs; (m, 1)."""
        m = len(features)
        blocks = H if H.ndim == 3 else np.stack([H[c::k, c::k] for c in range(k)])
        scale = np.maximum(np.stack([np.diag(block) for block in blocks]).max(axis=0), 0.0)[:, None]
        scale = np.maximum(scale, 1e-12 * (float(scale.max()) or 1.0))
        if not problem.takes_scales:
            rows = scale if problem.form.is_penalised else scale[:-1]
            rows[:] = rows.max(initial=0.0)
        root = 1.0 / np.sqrt(scale)
        if H.ndim == 3:
            largest = max(float(np.linalg.eigvalsh(root * block * root.T)[-1]) for block in blocks)
        else:
            flat = np.repeat(root, k, axis=0)
            largest = float(np.linalg.eigvalsh(flat * H * flat.T)[-1])
        return np.asarray(scale * max(largest, 1e-3)).reshape(m, 1)

    def _gradient_step(self, problem: SummedProblem, state: SummedProxState) -> SummedProxState:
        """Go along the gradient from a point ahead of W, by momentum; two passes."""
        W, later = state.weights, 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * state.momentum**2))
        ahead = W + (state.momentum - 1.0) / later * (W - state.last)
        values, gradient, _ = problem.scored(ahead, 0.0)
        while True:
            scale = state.steep * state.scale
            new = problem.prox(ahead - gradient / scale, 1.0 / scale)
            move = new - ahead
            there = self._at(problem, state, new)
            model = float(values[0] + np.vdot(gradient, move) + 0.5 * (scale * move**2).sum())
            if there.values[0] <= model + ROUNDING * abs(model) or not move.any():
                break
            state.steep *= 2.0
        is_back = float(np.vdot(scale * (ahead - new), new - W)) > 0.0
        there.momentum, there.steep = 1.0 if is_back else later, 0.9 * state.steep
        return there

    def point(self, problem: SummedProblem, state: SummedProxState) -> SummedPoint:
        """Return the weights."""
        return SummedPoint(state.weights.copy())

    def estimate(self, problem: SummedProblem, state: SummedProxState) -> float:
        """Estimate the residual from the last pass."""
        return problem.rough_residual(state.weights, state.values, state.gradient, 0.0)
