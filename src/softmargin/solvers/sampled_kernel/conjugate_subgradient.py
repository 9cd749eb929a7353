"""Stochastic conjugate subgradients for the kernel hinge SVM: a direction of least norm, on a sample that grows.

    f(w) = lam / 2 |w|^2 + sum_i p_i [1 - y_i <w, phi_i>]_+ ,   w = sum_{i in S} alpha_i phi_i                spec 2.1

    g = lam alpha - p y act                subgradient at w, by its coefficients;  act_i in [0, 1] where the margin is 1
    d = the shortest of the segment from d_last to -g;     alpha_new = alpha + t d,  t |d| <= radius          spec 2.2
    S grows as the radius shrinks: |S| = first_size (first_radius / radius)^4
    a fresh sample T must confirm the fall of f, or the step is not made and the radius shrinks

By default all lengths are those of the kernel's space (<a, b> = a'Qb), the search along d is exact, d starts anew when
S grows, and T has at most ``test_size`` samples: spec 2.4. ``geometry="euclidean"``, ``search="wolfe"``,
``reset=False``, ``test_size=None`` is the paper's own method, its errata mended.

    paper 002           here                shape
    S_k, T_k            index, test sample  (m,)
    alpha, Q alpha      alpha, u            (m,)
    d, Q d              d, v                (m,)
    delta, gamma        radius, change

Source: paper 002, Algorithms 1 and 2; spec 2.2 to 2.4. The dual variables that prove the gap on S are the same mean of
act as d is of -g: a sample gap for nothing.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from softmargin.core.protocols import SampledProblem
from softmargin.problems.kernel_hinge import ExpansionPoint
from softmargin.solvers.sampled_kernel._direction import (
    FIRST_RADIUS,
    KERNEL,
    SampleState,
    active,
    awake,
    begun,
    check,
    go_along,
    sample_gap,
    square_of,
    turn,
)

__all__ = ["ConjugateSubgradient"]

Array = NDArray[Any]
LARGEST_RADIUS, LEAST_RADIUS = 3.0, 1e-4  # in units of 1 / sqrt(lam), as the first
CHANGE = 2.0**0.25  # of the radius: a failure doubles the sample
CONFIRMED = 1e-4  # eta_1
LONG = 1e-6  # eta_2


@dataclass(frozen=True)
class ConjugateSubgradient:
    """Settings of stochastic conjugate subgradients. One step is one iteration.

    Parameters
    ----------
    first_size, most : int
        Samples in S at the start, and at the end.
    test_size : int or None
        Most samples in T; as many as S has by None.
    geometry : {"kernel", "euclidean"}
    search : {"exact", "wolfe"}
    reset : bool
        Begin with -g whenever S has grown.
    """

    first_size: int = 64
    most: int = 2000
    test_size: int | None = 256
    geometry: str = KERNEL
    search: str = "exact"
    reset: bool = True

    needs: ClassVar[tuple[type, ...]] = (SampledProblem,)

    def start(self, problem: SampledProblem, init: Any, rng: np.random.Generator) -> SampleState:
        """Draw the first sample; a first point brings its own."""
        check(self.geometry, self.search)
        if init is None:
            size = min(self.first_size, problem.n)
            index, alpha = rng.choice(problem.n, size, replace=False), np.zeros(size)
        else:
            index, alpha = np.array(init.samples), np.array(init.alpha, dtype=np.float64)
        return begun(problem, index, alpha, seed=int(rng.integers(2**32)))

    def step(self, problem: SampledProblem, state: SampleState) -> SampleState:
        """Turn, go, grow, and ask a fresh sample whether that was good."""
        awake(problem, state)
        turn(problem, state, self.geometry)
        t, act = go_along(problem, state, self.geometry, self.search, state.radius)
        rng = np.random.default_rng([state.seed, state.n_steps])
        state.n_steps += 1
        self._grow(problem, state, rng)
        grown = len(state.alpha) - len(act)
        if t > 0.0 and self._is_confirmed(problem, state, t, rng):
            state.alpha += t * state.d
            state.u += t * state.v
            state.radius = min(CHANGE * state.radius, LARGEST_RADIUS / math.sqrt(problem.lam))
        else:
            state.radius = max(state.radius / CHANGE, LEAST_RADIUS / math.sqrt(problem.lam))
            act = active(1.0 - problem.y[state.index] * state.u, problem.y[state.index] * state.v)[: len(act)]
        fresh = state.index[len(act) :]
        new = active(1.0 - problem.y[fresh] * state.u[len(act) :], problem.y[fresh] * state.v[len(act) :])
        state.act = np.concatenate([act, new])
        if grown:
            state.dual[len(act) :] = new
            shares = problem.shares(state.index)
            state.dual_scores = state.Q @ (shares * problem.y[state.index] * state.dual)
            if self.reset:
                state.d[:], state.v[:] = 0.0, 0.0
        return state

    def point(self, problem: SampledProblem, state: SampleState) -> ExpansionPoint:
        """Return the expansion with the dual variables of its sample."""
        return ExpansionPoint(state.index.copy(), state.alpha.copy(), state.dual.copy())

    def estimate(self, problem: SampledProblem, state: SampleState) -> float:
        """Return the sample gap by the dual variables at hand, once S grows no more."""
        if len(state.index) < min(self.most, problem.n) and state.radius > LEAST_RADIUS / math.sqrt(problem.lam):
            return math.inf
        return sample_gap(problem, state)

    def restore(self, arrays: dict[str, Any], plain: dict[str, Any]) -> SampleState:
        """Rebuild the state from a checkpoint."""
        return SampleState(**arrays, **plain)

    def _grow(self, problem: SampledProblem, state: SampleState, rng: np.random.Generator) -> None:
        """Add fresh samples to S; u, v and Q follow."""
        first = FIRST_RADIUS / math.sqrt(problem.lam)
        wanted = self.first_size * (first / state.radius) ** 4
        size = int(min(max(wanted, len(state.index)), self.most, problem.n))
        more = size - len(state.index)
        if more <= 0:
            return
        fresh = draw_outside(problem.n, state.index, more, rng)
        points = problem.points(fresh)
        cross, own = problem.block(points, state.points), problem.block(points, points)
        state.u = np.concatenate([state.u, cross @ state.alpha])
        state.v = np.concatenate([state.v, cross @ state.d])
        state.Q = np.block([[state.Q, cross.T], [cross, own]])
        state.index = np.concatenate([state.index, fresh])
        state.points = problem.points(state.index)
        nothing = np.zeros(more)
        state.alpha, state.d = np.concatenate([state.alpha, nothing]), np.concatenate([state.d, nothing])
        state.dual = np.concatenate([state.dual, nothing])

    def _is_confirmed(self, problem: SampledProblem, state: SampleState, t: float, rng: np.random.Generator) -> bool:
        """Say whether f falls on a fresh sample at least a little of what it falls on S (spec 2.2, step 4)."""
        y, shares = problem.y[state.index], problem.shares(state.index)
        length = math.sqrt(max(square_of(state, self.geometry), 0.0))
        if length <= LONG * state.radius:
            return False
        quadratic = 0.5 * problem.lam * t * (2.0 * float(state.d @ state.u) + t * float(state.d @ state.v))
        moved = state.u + t * state.v
        fall = quadratic + float(shares @ (np.maximum(1.0 - y * moved, 0.0) - np.maximum(1.0 - y * state.u, 0.0)))
        size = min(len(state.index) if self.test_size is None else self.test_size, problem.n)
        test = rng.choice(problem.n, size, replace=False)
        K = problem.block(problem.points(test), state.points)
        before, along, signs = K @ state.alpha, K @ state.d, problem.y[test]
        losses = np.maximum(1.0 - signs * (before + t * along), 0.0) - np.maximum(1.0 - signs * before, 0.0)
        seen = quadratic + float(problem.shares(test) @ losses)
        return fall < 0.0 and seen <= CONFIRMED * fall


def draw_outside(n: int, index: Array, size: int, rng: np.random.Generator) -> Array:
    """Return fresh samples, none of them in ``index``."""
    found: Array = np.empty(0, dtype=np.intp)
    taken = set(index.tolist())
    if n - len(taken) <= 2 * size:
        rest = np.setdiff1d(np.arange(n), index)
        return rng.choice(rest, min(size, len(rest)), replace=False)
    while len(found) < size:
        drawn = rng.choice(n, 2 * size, replace=False)
        fresh = np.array([i for i in drawn.tolist() if i not in taken], dtype=np.intp)[: size - len(found)]
        taken.update(fresh.tolist())
        found = np.concatenate([found, fresh])
    return found
