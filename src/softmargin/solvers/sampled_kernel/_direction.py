"""What conjugate subgradient methods share: a sample with its kernel matrix, the direction, and the step along it.

    g = lam alpha - p y act ,     d = the shortest vector of the segment from d_last to -g
                                                                                     maths: sampled kernel, eqs. 6 and 7

Lengths are those of the kernel's space, <a, b> = a'Qb, or Euclidean lengths of the coefficients, in which the
subgradient is Q g.
"""

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from softmargin.core.certificate import relative_gap
from softmargin.core.errors import IncompatibleError
from softmargin.core.parameters import Number, OneOf
from softmargin.core.protocols import Array, SampledProblem
from softmargin.problems.kernel_hinge import ExpansionPoint
from softmargin.solvers.common.resumable import Resumable
from softmargin.solvers.sampled_kernel._line_search import (
    HingeLine,
    HingeSearchTuning,
    WolfeSlopes,
    active_losses,
    exact_search,
    wolfe_search,
)

KERNEL, EUCLIDEAN = "kernel", "euclidean"


@dataclass
class SampleState:
    """The sample, the iterate, the direction.

    The kernel matrix of the sample is scratch: it is recomputed in the blocks in which the sample grew, which gives the
    same bits.
    """

    index: Array  # (m,)
    alpha: Array  # (m,)
    u: Array  # (m,) Q alpha
    d: Array  # (m,)
    v: Array  # (m,) Q d
    act: Array  # (m,) how far each loss is active in the next subgradient, 0 to 1
    dual: Array  # (m,) mean of act
    dual_scores: Array  # (m,) Q (p y dual)
    radius: float
    seed: int
    sizes: list[int]  # of the sample, from the first one on
    n_steps: int = 0
    Q: Any = field(default=None, init=False, repr=False)  # (m, m)
    points: Any = field(default=None, init=False, repr=False)

    grows: ClassVar[dict[str, tuple[str, int]]] = dict.fromkeys(
        ("index", "alpha", "u", "d", "v", "act", "dual", "dual_scores"), ("m", 0)
    )


class SubgradientMethod(Resumable):
    """The parts of the methods; a method has these settings."""

    geometry: str
    search: str
    m_L: float
    m_R: float
    tuning: HingeSearchTuning

    allowed: ClassVar = {
        "geometry": (OneOf(KERNEL, EUCLIDEAN),),
        "search": (OneOf("exact", "wolfe"),),
        "m_L": (Number(above=0.0, below=0.5),),
        "m_R": (Number(above=0.0, below=0.5),),
    }
    needs: ClassVar[tuple[type, ...]] = (SampledProblem,)
    state_type: ClassVar = SampleState

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        super().__post_init__()
        if not self.m_L < self.m_R:
            raise IncompatibleError(
                f"m_L must be below m_R, or no step may satisfy both; found m_L={self.m_L:g} and m_R={self.m_R:g}."
            )

    def start_at(self, problem: SampledProblem, index: Array, alpha: Array, *, radius: float, seed: int) -> SampleState:
        """Return the state at some coefficients, with no direction yet."""
        y, zero = problem.y[index], np.zeros(len(index))
        points, Q = _kernel_matrix(problem, index, [len(index)])
        u = Q @ alpha
        act = (1.0 - y * u > 0.0).astype(np.float64)
        scores = Q @ (problem.shares(index) * y * act)
        state = SampleState(index, alpha, u, zero, zero.copy(), act, act.copy(), scores, radius, seed, [len(index)])
        state.Q, state.points = Q, points
        return state

    def update_direction(self, problem: SampledProblem, state: SampleState) -> None:
        """Replace d by the shortest vector between it and -g; update v and the dual variables."""
        if state.Q is None:  # a checkpoint leaves it out
            state.points, state.Q = _kernel_matrix(problem, state.index, state.sizes)
        y, shares = problem.y[state.index], problem.shares(state.index)
        h = problem.lam * state.alpha - shares * y * state.act
        Qh = state.Q @ h
        if self.geometry == KERNEL:
            g, Qg = h, Qh
            gg, gd, dd = float(h @ Qh), float(state.d @ Qh), float(state.d @ state.v)
        else:
            g, Qg = Qh, state.Q @ Qh
            gg, gd, dd = float(g @ g), float(g @ state.d), float(state.d @ state.d)
        square = gg + 2.0 * gd + dd  # |g + d|^2
        # The weight of d_last; zero where there is none.
        keep = min(max((gg + gd) / square, 0.0), 1.0) if dd > 0.0 and square > 0.0 else 0.0
        state.d = keep * state.d - (1.0 - keep) * g
        state.v = keep * state.v - (1.0 - keep) * Qg
        state.dual = keep * state.dual + (1.0 - keep) * state.act
        # Q (p y act) = lam u - Q h.
        state.dual_scores = keep * state.dual_scores + (1.0 - keep) * (problem.lam * state.u - Qh)

    def direction_length(self, state: SampleState) -> float:
        """Return |d|."""
        return math.sqrt(max(float(state.d @ (state.v if self.geometry == KERNEL else state.d)), 0.0))

    def search_along(self, problem: SampledProblem, state: SampleState, radius: float) -> tuple[float, Array]:
        """Return the step along d, and which losses are active after it."""
        y, shares = problem.y[state.index], problem.shares(state.index)
        margins, falls, length = 1.0 - y * state.u, y * state.v, self.direction_length(state)
        if length == 0.0:
            return 0.0, active_losses(margins, falls).astype(np.float64)
        line = HingeLine(problem.lam, float(state.d @ state.u), float(state.d @ state.v), margins, falls, shares)
        most = radius / length
        if self.search == "exact":
            return exact_search(line, most)
        first = 0.5 * min(most, self.tuning.first_length / math.sqrt(problem.lam * line.bend))
        least = most / self.tuning.n_trials if math.isfinite(most) else 0.0
        t = wolfe_search(line, first, most, least, length**2, WolfeSlopes(self.m_L, self.m_R), self.tuning)
        return t, active_losses(margins - t * falls, falls).astype(np.float64)

    def point(self, problem: SampledProblem, state: SampleState) -> ExpansionPoint:
        """Return the expansion with the dual variables of its sample."""
        return ExpansionPoint(state.index.copy(), state.alpha.copy(), state.dual.copy())

    def estimate(self, problem: SampledProblem, state: SampleState) -> float:
        """Return the relative gap on S, by the current dual variables."""
        y, shares = problem.y[state.index], problem.shares(state.index)
        primal = problem.value(float(state.alpha @ state.u), state.u, y, shares)
        square = float((shares * y * state.dual) @ state.dual_scores)
        bound = problem.best_bound(float(shares @ state.dual), square, float(state.dual.max(initial=0.0)))
        return relative_gap(primal, bound)


def bordered(problem: SampledProblem, Q: Array, points: Any, fresh: Any) -> tuple[Array, Array]:
    """Return the kernel matrix Q of some points extended by fresh ones, and the kernel values between the two."""
    cross, own = problem.block(fresh, points), problem.block(fresh, fresh)
    return np.block([[Q, cross.T], [cross, own]]), cross


def _kernel_matrix(problem: SampledProblem, index: Array, sizes: list[int]) -> tuple[Any, Array]:
    """Return the points of a sample that had these sizes, and their kernel matrix."""
    points = problem.points(index[: sizes[0]])
    Q = problem.block(points, points)
    for size, following in pairwise(sizes):
        Q, _ = bordered(problem, Q, points, problem.points(index[size:following]))
        points = problem.points(index[:following])
    return points, Q
