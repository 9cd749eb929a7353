"""Line searches for a hinge objective: the step along a direction d.

    phi(t) = lam / 2 |w + t d|^2 + sum_i p_i [1 - y_i (u_i + t v_i)]_+ ,     u, v the scores of w and of d
    phi'(t) = lam (<d, w> + t <d, d>) - sum_i p_i y_i v_i [ 1 - y_i (u_i + t v_i) > 0 ]

phi is convex and piecewise quadratic: its slope jumps up where a margin reaches zero. ``exact_search`` sorts these
places and finds where the slope changes sign (maths: sampled kernel, section 4); ``wolfe_search`` is paper 002's
Algorithm 2 with the constants the right way round (maths: errata 002.4).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.core.protocols import Array


class HingeSearchTuning(NamedTuple):
    """Constants of Wolfe's search."""

    # The first trial is at most half of it, in units of 1 / sqrt(lam): delta_0 of maths: sampled kernel, section 7
    first_length: float = 0.3
    n_trials: int = 20  # give up below radius / n_trials: n_ls of maths: sampled kernel, section 7
    max_trials: int = 60  # guard against an endless search; by hand


class HingeLine(NamedTuple):
    """A hinge objective along a direction."""

    lam: float
    slope: float  # <d, w>
    bend: float  # <d, d>
    margins: Array  # (m,) 1 - y u
    falls: Array  # (m,) y v: by how much margins fall
    shares: Array  # (m,) p

    def value(self, t: float) -> float:
        """Return phi(t) without the constant lam / 2 |w|^2."""
        quadratic = self.lam * t * (self.slope + 0.5 * t * self.bend)
        return quadratic + float(self.shares @ np.maximum(self.margins - t * self.falls, 0.0))

    def derivative(self, t: float) -> float:
        """Return phi'(t) from the right."""
        active = active_losses(self.margins - t * self.falls, self.falls)
        return self.lam * (self.slope + t * self.bend) - float(self.shares[active] @ self.falls[active])


def active_losses(margins: Array, falls: Array) -> NDArray[np.bool_]:
    """Return which losses are active just ahead on the line: one at its corner is, if its margin is about to rise."""
    active: NDArray[np.bool_] = (margins > 0.0) | ((margins == 0.0) & (falls < 0.0))
    return active


def exact_search(line: HingeLine, most: float) -> tuple[float, Array]:
    """Return the minimiser of phi over [0, most], and which losses are active there.

    At a kink the loss with its corner there is active in part: the next subgradient is orthogonal to the direction.
    """
    margins, falls, shares = line.margins, line.falls, line.shares
    active = active_losses(margins, falls)
    slope = line.lam * line.slope - float(shares[active] @ falls[active])
    if slope >= 0.0:
        return 0.0, active.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        corners = margins / falls
    passed = np.flatnonzero((falls != 0.0) & (corners > 0.0) & (corners < most) & np.isfinite(corners))
    order = passed[np.argsort(corners[passed], kind="stable")]
    jumps = shares[order] * np.abs(falls[order])
    curvature = line.lam * line.bend
    slopes_after = slope + curvature * corners[order] + np.cumsum(jumps)
    turn = int(np.searchsorted(slopes_after >= 0.0, True)) if len(order) else 0
    base = slope + (float(jumps[:turn].sum()) if turn else 0.0)
    t = -base / curvature if curvature > 0.0 else np.inf
    at_kink = turn < len(order) and t >= corners[order[turn]]
    t = min(float(corners[order[turn]]) if at_kink else t, most)
    result = (margins - t * falls > 0.0).astype(np.float64)
    if at_kink and t < most:
        i = order[turn]
        # The loss at the corner was active if its margin falls; the share that stays active makes the slope zero.
        share = -(base + curvature * t) / jumps[turn]
        result[i] = float(np.clip(1.0 - share if falls[i] > 0.0 else share, 0.0, 1.0))
    return float(t), result


class WolfeSlopes(NamedTuple):
    """How much a step must fall, m_L, and how flat it must end, m_R: maths: sampled kernel, eq. 14."""

    m_L: float = 0.2
    m_R: float = 0.4


def wolfe_search(
    line: HingeLine,
    first: float,
    most: float,
    least: float,
    square: float,
    slopes: WolfeSlopes,
    tuning: HingeSearchTuning,
) -> float:
    """Return a step from ``least`` to ``most`` that falls enough and is not too short, or 0 (Algorithm 2).

    ``first`` is the step that is tried first, ``square`` is |d|^2 in the geometry of the directions.
    """
    start, t = line.value(0.0), first
    low, high = 0.0, np.inf
    for _ in range(tuning.max_trials):
        if line.value(t) - start <= -slopes.m_L * square * t:
            if line.derivative(t) >= -slopes.m_R * square:
                return t
            low = t
            t = 2.0 * t if np.isinf(high) else 0.5 * (low + high)
            if t > most:
                return low
        else:
            high = t
            t = 0.5 * (low + high)
            if low == 0.0 and t < least:
                return 0.0
    return low
