"""What conjugate subgradient methods share: a sample with its kernel matrix, the turn of the direction, the way on it.

    g = lam alpha - p y act ,     d = the shortest of the segment from d_last to -g                     spec 2.2, 2.4

Lengths are those of the kernel's space, <a, b> = a'Qb, or Euclidean ones of the coefficients, where -g is Q times as
much.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.core.certificate import duality_gap
from softmargin.core.errors import IncompatibleError
from softmargin.core.protocols import SampledProblem
from softmargin.solvers.sampled_kernel._line_search import Line, exact, wolfe

__all__ = [
    "EUCLIDEAN",
    "FIRST_RADIUS",
    "KERNEL",
    "SampleState",
    "active",
    "awake",
    "begun",
    "check",
    "go_along",
    "sample_gap",
    "square_of",
    "turn",
]

Array = NDArray[Any]
FIRST_RADIUS = 0.3  # in units of 1 / sqrt(lam): |w*| <= sqrt(2 / lam)
N_TRIALS = 20  # Wolfe's search gives up below this share of the radius
KERNEL, EUCLIDEAN = "kernel", "euclidean"


@dataclass
class SampleState:
    """The sample, the iterate, the direction; the kernel matrix of the sample is scratch that is made again."""

    index: Array  # (m,)
    alpha: Array  # (m,)
    u: Array  # (m,) Q alpha
    d: Array  # (m,)
    v: Array  # (m,) Q d
    act: Array  # (m,) the next subgradient's share of every loss
    dual: Array  # (m,) mean of act
    dual_scores: Array  # (m,) Q (p y dual)
    radius: float
    seed: int
    n_steps: int = 0
    Q: Array | None = field(default=None, init=False, repr=False)
    points: Any = field(default=None, init=False, repr=False)


def check(geometry: str, search: str) -> None:
    """Refuse unknown settings."""
    if geometry not in (KERNEL, EUCLIDEAN) or search not in ("exact", "wolfe"):
        raise IncompatibleError(
            f"geometry={geometry!r}, search={search!r}: choose geometry kernel or euclidean, search exact or wolfe."
        )


def begun(problem: SampledProblem, index: Array, alpha: Array, seed: int) -> SampleState:
    """Return the state at some coefficients, with no direction yet."""
    points = problem.points(index)
    Q = problem.block(points, points)
    u, y = Q @ alpha, problem.y[index]
    act = (1.0 - y * u > 0.0).astype(np.float64)
    scores = Q @ (problem.shares(index) * y * act)
    zero = np.zeros(len(index))
    radius = FIRST_RADIUS / math.sqrt(problem.lam)
    state = SampleState(index, alpha, u, zero, zero.copy(), act, act.copy(), scores, radius, seed)
    state.Q, state.points = Q, points
    return state


def awake(problem: SampledProblem, state: SampleState) -> None:
    """Compute the kernel matrix of the sample again, where a checkpoint has left it out."""
    if state.Q is None:
        state.points = problem.points(state.index)
        state.Q = problem.block(state.points, state.points)


def square_of(state: SampleState, geometry: str) -> float:
    """Return |d|^2."""
    return float(state.d @ (state.v if geometry == KERNEL else state.d))


def turn(problem: SampledProblem, state: SampleState, geometry: str) -> None:
    """Replace d by the shortest vector between it and -g; v and the dual variables follow."""
    y, shares = problem.y[state.index], problem.shares(state.index)
    h = problem.lam * state.alpha - shares * y * state.act
    Qh = state.Q @ h
    if geometry == KERNEL:
        g, Qg = h, Qh
        gg, gd, dd = float(h @ Qh), float(state.d @ Qh), float(state.d @ state.v)
    else:
        g, Qg = Qh, state.Q @ Qh
        gg, gd, dd = float(g @ g), float(g @ state.d), float(state.d @ state.d)
    apart = gg + 2.0 * gd + dd
    # The weight of d_last; nothing of it where there is none.
    keep = min(max((gg + gd) / apart, 0.0), 1.0) if dd > 0.0 and apart > 0.0 else 0.0
    state.d = keep * state.d - (1.0 - keep) * g
    state.v = keep * state.v - (1.0 - keep) * Qg
    state.dual = keep * state.dual + (1.0 - keep) * state.act
    # Q (p y act) = lam u - Q h.
    state.dual_scores = keep * state.dual_scores + (1.0 - keep) * (problem.lam * state.u - Qh)


def go_along(
    problem: SampledProblem, state: SampleState, geometry: str, search: str, radius: float
) -> tuple[float, Array]:
    """Return how far to go along d, and which losses are active there."""
    y, shares = problem.y[state.index], problem.shares(state.index)
    margins, falls = 1.0 - y * state.u, y * state.v
    length = math.sqrt(max(square_of(state, geometry), 0.0))
    if length == 0.0:
        return 0.0, active(margins, falls)
    line = Line(problem.lam, float(state.d @ state.u), float(state.d @ state.v), margins, falls, shares)
    if search == "exact":
        return exact(line, radius / length)
    most = radius / length
    first = 0.5 * min(most, FIRST_RADIUS / math.sqrt(problem.lam * line.bend))
    t = wolfe(line, first, most, most / N_TRIALS if math.isfinite(most) else 0.0, length**2)
    return t, active(margins - t * falls, falls)


def active(margins: Array, falls: Array) -> Array:
    """Return which losses are active, seen along the direction: one at its corner is, if its margin rises."""
    return ((margins > 0.0) | ((margins == 0.0) & (falls < 0.0))).astype(np.float64)


def sample_gap(problem: SampledProblem, state: SampleState) -> float:
    """Return the relative gap on S, by the dual variables at hand and by those that alpha suggests."""
    y, shares = problem.y[state.index], problem.shares(state.index)
    primal = problem.value(float(state.alpha @ state.u), state.u, y, shares)
    square = float((shares * y * state.dual) @ state.dual_scores)
    bound = problem.best_bound(float(shares @ state.dual), square, float(state.dual.max(initial=0.0)))
    return duality_gap(primal, bound).residual
