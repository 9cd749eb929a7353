"""Stochastic conjugate subgradients for the kernel hinge SVM: directions of least norm, on a sample that grows.

    g = lam alpha - p y act                subgradient at w, by its coefficients;  act_i in [0, 1] where the margin is 1
    d = the shortest vector of the segment from d_last to -g;   alpha_new = alpha + t d,  t |d| <= radius
                                                                                            maths: sampled kernel, eq. 7
    S grows as the radius shrinks: |S| = first_size (first_radius / radius)^4
    a fresh sample T must confirm the decrease of f, or the step is rejected and the radius shrinks

By default all lengths are those of the kernel's space (<a, b> = a'Qb), the line search is exact, d is reset when S
grows, T has at most ``test_size`` samples, and a full S is solved to its end: maths: sampled kernel, section 3.
``geometry="euclidean"``, ``search="wolfe"``, ``reset=False``, ``settle=False``, ``test_size=None`` is the paper's own
method, with its errata corrected.

Source: paper 002, Algorithms 1 and 2, with S, Q alpha, Q d and delta as index, u, v and radius; maths: sampled kernel,
sections 3 and 4. The dual variables that prove the gap on S are the same mean of act as d is of -g, so
that the gap on the sample costs nothing more.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from softmargin.core.errors import IncompatibleError
from softmargin.core.parameters import NONE, NOT_NEGATIVE, POSITIVE, Number, Whole
from softmargin.core.protocols import Array, SampledProblem
from softmargin.problems.kernel_hinge import ExpansionPoint
from softmargin.solvers.sampled_kernel._direction import KERNEL, SampleState, SubgradientMethod, bordered
from softmargin.solvers.sampled_kernel._line_search import HingeSearchTuning, WolfeSlopes, active_losses

__all__ = ["ConjugateSubgradient"]


@dataclass(frozen=True)
class ConjugateSubgradient(SubgradientMethod):
    """Settings of stochastic conjugate subgradients, by the letters of the paper. One step is one iteration.

    Parameters
    ----------
    first_size, most : int
        Samples in S at the start, and at the end.
    test_size : int or None
        Most samples in T; None for as many as S has.
    geometry : {"kernel", "euclidean"}
    search : {"exact", "wolfe"}
    reset : bool
        Restart with d = -g whenever S has grown.
    settle : bool
        Once S has all its samples, accept every step that lowers f on S: the run then ends at the optimum of S, with
        its proof. Otherwise fresh samples go on to reject steps that fit S alone, and the gap on S stays open: f on all
        rows may then be lower where S has few of them.
    delta_0, delta_min, delta_max : float
        First, least and largest radius, in units of 1 / sqrt(lam): |w*| <= sqrt(2 / lam).
    gamma : float
        Factor of the radius after a step; at the default a rejected one doubles S.
    eta_1 : float
        Share of the decrease on S that T must confirm.
    eta_2 : float
        d must be longer than this share of the radius.
    m_L, m_R : float
        Of Wolfe's search, 0 < m_L < m_R < 1/2 (the paper's m_1 and m_2: maths: errata 002.4).
    eps : float
        The paper's rule: the run stops where |d| < eps and the radius is at its least, or S has settled. It proves
        nothing (maths: errata 002.6), and is off at 0.
    tuning : HingeSearchTuning
    """

    first_size: int = 64
    most: int = 2000
    test_size: int | None = 256
    geometry: str = KERNEL
    search: str = "exact"
    reset: bool = True
    settle: bool = True
    delta_0: float = 0.3  # this and all below: maths: sampled kernel, section 7
    delta_min: float = 1e-4
    delta_max: float = 3.0
    gamma: float = 2.0**0.25
    eta_1: float = 1e-4
    eta_2: float = 1e-6
    m_L: float = WolfeSlopes().m_L
    m_R: float = WolfeSlopes().m_R
    eps: float = 0.0
    tuning: HingeSearchTuning = HingeSearchTuning()

    allowed: ClassVar = {
        "first_size": (Whole(1),),
        "most": (Whole(1),),
        "test_size": (NONE, Whole(1)),
        **dict.fromkeys(("delta_0", "delta_min", "delta_max"), (POSITIVE,)),
        "gamma": (Number(above=1.0),),
        "eta_1": (Number(above=0.0, below=1.0),),
        "eta_2": (POSITIVE,),
        "eps": (NOT_NEGATIVE,),
        **SubgradientMethod.allowed,
    }

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        super().__post_init__()
        if not self.delta_min <= self.delta_0 <= self.delta_max:
            raise IncompatibleError(
                f"the radii must be in order; found delta_min={self.delta_min:g}, delta_0={self.delta_0:g} and "
                f"delta_max={self.delta_max:g}."
            )

    def start(self, problem: SampledProblem, init: ExpansionPoint | None, rng: np.random.Generator) -> SampleState:
        """Draw the first sample; a first point has its own."""
        if init is None:
            size = min(self.first_size, problem.n)
            index, alpha = rng.choice(problem.n, size, replace=False), np.zeros(size)
        else:
            index, alpha = np.array(init.samples), np.array(init.alpha, dtype=np.float64)
        radius = self.delta_0 / math.sqrt(problem.lam)
        return self.start_at(problem, index, alpha, radius=radius, seed=int(rng.integers(2**32)))

    def step(self, problem: SampledProblem, state: SampleState) -> SampleState:
        """Find direction and step, grow S, and accept the step where a fresh sample confirms it."""
        root, is_settling = math.sqrt(problem.lam), self.settle and self._is_full(problem, state)
        self.update_direction(problem, state)
        t, act = self.search_along(problem, state, math.inf if is_settling else state.radius)
        rng = np.random.default_rng([state.seed, state.n_steps])
        state.n_steps += 1
        self._grow(problem, state, rng)
        is_accepted = t > 0.0 and (is_settling or self._is_confirmed(problem, state, t, rng))
        if is_accepted:
            state.alpha += t * state.d
            state.u += t * state.v
            state.radius = min(self.gamma * state.radius, self.delta_max / root)
        else:
            state.radius = max(state.radius / self.gamma, self.delta_min / root)
        m, y = len(act), problem.y[state.index]
        ahead = active_losses(1.0 - y * state.u, y * state.v).astype(np.float64)
        state.act = np.concatenate([act if is_accepted else ahead[:m], ahead[m:]])
        if len(y) > m:
            state.dual[m:] = ahead[m:]
            state.dual_scores = state.Q @ (problem.shares(state.index) * y * state.dual)
            if self.reset:
                state.d[:], state.v[:] = 0.0, 0.0
        return state

    def estimate(self, problem: SampledProblem, state: SampleState) -> float:
        """Return the sample gap by the current dual variables, once S no longer grows."""
        if not (self._is_full(problem, state) or self._is_least(problem, state)):
            return math.inf
        return super().estimate(problem, state)

    def is_over(self, problem: SampledProblem, state: SampleState) -> bool:
        """Say whether the paper's rule ends the run."""
        is_last = self._is_least(problem, state) or (self.settle and self._is_full(problem, state))
        return is_last and 0.0 < self.direction_length(state) < self.eps

    def _is_full(self, problem: SampledProblem, state: SampleState) -> bool:
        return len(state.index) >= min(self.most, problem.n)

    def _is_least(self, problem: SampledProblem, state: SampleState) -> bool:
        return state.radius <= self.delta_min / math.sqrt(problem.lam)

    def _grow(self, problem: SampledProblem, state: SampleState, rng: np.random.Generator) -> None:
        """Add fresh samples to S, and extend u, v and Q."""
        first = self.delta_0 / math.sqrt(problem.lam)
        wanted = self.first_size * (first / state.radius) ** 4
        size = int(min(max(wanted, len(state.index)), self.most, problem.n))
        more = size - len(state.index)
        if more <= 0:
            return
        fresh = draw_outside(problem.n, state.index, more, rng)
        points = problem.points(fresh)
        state.Q, cross = bordered(problem, state.Q, state.points, points)
        state.u = np.concatenate([state.u, cross @ state.alpha])
        state.v = np.concatenate([state.v, cross @ state.d])
        state.index = np.concatenate([state.index, fresh])
        state.points = problem.points(state.index)
        state.sizes.append(len(state.index))
        state.alpha, state.d, state.dual = (np.pad(a, (0, more)) for a in (state.alpha, state.d, state.dual))

    def _is_confirmed(self, problem: SampledProblem, state: SampleState, t: float, rng: np.random.Generator) -> bool:
        """Say whether f falls on a fresh sample at least a little of what it falls on S."""
        # maths: sampled kernel, eq. 10.
        if self.direction_length(state) <= self.eta_2 * state.radius:
            return False
        quadratic = 0.5 * problem.lam * t * (2.0 * float(state.d @ state.u) + t * float(state.d @ state.v))

        def change(index: Array, before: Array, along: Array) -> float:
            y, shares = problem.y[index], problem.shares(index)
            after = before + t * along
            return quadratic + float(shares @ (np.maximum(1.0 - y * after, 0.0) - np.maximum(1.0 - y * before, 0.0)))

        fall = change(state.index, state.u, state.v)
        n_fresh = problem.n - problem.first_fresh
        size = min(len(state.index) if self.test_size is None else self.test_size, n_fresh)
        test = problem.first_fresh + rng.choice(n_fresh, size, replace=False)
        K = problem.block(problem.points(test), state.points)
        return fall < 0.0 and change(test, K @ state.alpha, K @ state.d) <= self.eta_1 * fall


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
