"""A quadratic function of some entries plus a penalty of each, with its matrix written out: passes, and jumps.

    q(x) = <slopes, x> + 1/2 x'H x + g(start + x)

A pass minimises over one entry after the other and keeps H x up to date: an entry that does not move costs nothing.
When some passes have left the zeros unchanged, a jump goes to the least q over the other entries, by Cholesky.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from softmargin.backends.jit import jit
from softmargin.backends.lanes import keep, pointer
from softmargin.core.deadline import is_time_up

__all__ = ["JumpTuning", "WrittenOut"]

Array = NDArray[Any]
NEAR, APART = 1e-6, 1e-3  # where differences give the derivatives of a penalty, as shares of an entry
TINY = 1e-300  # where an entry is zero
ROUNDING = 1e-12  # share of q that its differences cannot resolve


class JumpTuning(NamedTuple):
    """When there is a jump."""

    calm: int = 30  # passes that leave the zeros unchanged before a jump; by hand
    longest: int = 200  # passes from one jump to the next; by hand
    ridge: float = 1e-6  # share of its diagonal added to H for a jump: all classes may be shifted alike; by hand


class WrittenOut:
    """q of m entries, at ``point``."""

    def __init__(
        self, penalty: Any, H: Array, curvature: Array, slopes: Array, is_free: Array, start: Array, jumps: JumpTuning
    ) -> None:
        self.penalty, self.H, self.jumps = penalty, H, jumps
        self.curvature = curvature  # the diagonal of H, floored
        self.slopes, self.is_free, self.start = slopes, is_free, start
        self.point, self.response = start.copy(), np.zeros(len(start))  # start + x, and H x

    def descend(self, accuracy: float, max_passes: int) -> bool:
        """Pass over the entries until a pass changes less than ``accuracy`` times the first; return whether cut off."""
        first, n_passes, is_cut = -1.0, 0, True
        while is_cut and n_passes < max_passes and not is_time_up():
            budget = min(self.jumps.longest, max_passes - n_passes)
            system = _System(self.H, self.curvature, self.slopes, self.is_free, self.point, self.response)
            change, first, made = _passes(self.penalty, system, accuracy, first, budget, self.jumps.calm)
            n_passes += made
            is_cut = not change <= accuracy * first
            if is_cut and n_passes < max_passes:
                self.jump()
        return is_cut

    def jump(self) -> None:
        """Go to the least q over the nonzero entries, as if g were quadratic in each, if that lowers q.

        Entries that would change their sign become zero instead; or the step ends where the first of them is zero.
        """
        used = np.flatnonzero(self.is_free | (self.point != 0.0))
        if len(used) == 0:
            return
        v, is_free = self.point[used], self.is_free[used]
        slope = self._penalty_slope(v)
        curvature = (self._penalty_slope((1.0 + APART) * v) - slope) / (APART * v + TINY)
        slope, curvature = np.where(is_free, 0.0, slope), np.where(is_free, 0.0, curvature)
        H = self.H[np.ix_(used, used)].astype(np.float64, copy=False)
        H[np.diag_indices(len(used))] += curvature + self.jumps.ridge * self.curvature[used]
        _, step, trouble = dposv(H, -(self.slopes[used] + self.response[used] + slope), lower=True)
        if trouble:
            return
        crosses = ~is_free & (v * (v + step) < 0.0)
        share = np.min(-v[crosses] / step[crosses], initial=1.0)
        before, kept = self._point_value(), (self.point.copy(), self.response.copy())
        for new in (np.where(crosses, 0.0, v + step), v + share * step):
            new[crosses & (np.abs(new) <= ROUNDING * np.abs(v))] = 0.0
            self.point[used] = new
            self.response = kept[1] + (new - v) @ self.H[used]
            if self._point_value() < before - ROUNDING * abs(before):
                return
        self.point, self.response = kept

    def _penalty_slope(self, v: Array) -> Array:
        """Return g'(v) where v is not zero: that of its Moreau envelope, (v - prox_t(v)) / t, with a tiny t."""
        t = NEAR * np.abs(v) + TINY
        return np.asarray((v - self.penalty.prox(v[:, None], t[:, None])[:, 0]) / t)

    def _point_value(self) -> float:
        """Return q at ``point``."""
        D = self.point - self.start
        penalty = self.penalty.value(self.point[~self.is_free, None])
        return float(D @ self.slopes + 0.5 * (D @ self.response) + penalty)


class _System(NamedTuple):
    """The model in its entries, for compiled passes."""

    H: Array  # (m, m)
    curvature: Array  # (m,) its diagonal, floored
    slopes: Array  # (m,) G
    is_free: Array  # (m,) unpenalised
    point: Array  # (m,) W + D
    response: Array  # (m,) H D


@jit
def _passes(
    penalty: Any, system: _System, accuracy: float, first: float, most: int, calm: int
) -> tuple[float, float, int]:
    """Minimise q over one entry after the other, for ``most`` passes, or until ``calm`` of them leave the zeros alone.

    Returns sum h step^2 of the last pass and of the ``first`` one, which is unknown if negative, and the number of
    passes.
    """
    H, curvature, slopes, is_free = system.H, system.curvature, system.slopes, system.is_free
    v, r, entry = pointer(system.point), pointer(system.response), np.empty(1)
    new = pointer(entry)
    m = system.point.shape[0]
    change, n_passes, n_calm = 0.0, 0, 0
    while n_passes < most and n_calm < calm:
        change, n_calm = 0.0, n_calm + 1
        n_passes += 1
        for e in range(m):
            old, t = v[e], 1.0 / curvature[e]
            new[0] = old - t * (slopes[e] + r[e])
            if not is_free[e]:
                penalty.prox_row(new, 0, 1, t)
            step = new[0] - old
            if step != 0.0:
                if old == 0.0 or new[0] == 0.0:
                    n_calm = 0
                v[e] = new[0]
                for f in range(m):
                    r[f] += step * H[e, f]
                change += curvature[e] * step * step
        if first < 0.0:
            first = change
        if change <= accuracy * first:
            break
    keep(entry)
    return change, first, n_passes
