"""A quadratic function of some entries plus a penalty of each, with its matrix written out: passes, and jumps.

    q(x) = <slopes, x> + 1/2 x'H x + g(start + x)

A pass minimises over one entry after the other and keeps H x up to date: an entry that does not move costs nothing.
When some passes have left the zeros unchanged, a jump goes to the least q over the other entries, by Cholesky.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from softmargin.backends.jit import inline, jit
from softmargin.backends.lanes import keep, pointer
from softmargin.core.deadline import is_time_up

__all__ = ["FAST", "JumpTuning", "WrittenOut"]

Array = NDArray[Any]
FAST = 10.0  # multiply-adds of a matrix product in the time of one in a loop
NEAR, APART = 1e-6, 1e-3  # where differences give the derivatives of a penalty, as shares of an entry
NOISE = 4.0 * np.finfo(float).eps / NEAR  # rounding of a difference of two slopes
ROUNDING = 1e-12  # share of q that its differences cannot resolve


class JumpTuning(NamedTuple):
    """When there is a jump."""

    calm: int = 30  # passes that leave the zeros unchanged before a jump; by hand
    longest: int = 200  # passes from one jump to the next; by hand
    rounds: int = 20  # of one jump, at most; by hand
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
        self.visits = 0.0  # of numbers of H by passes, about: those of entries that are not zero

    def descend(self, accuracy: float, max_passes: int) -> bool:
        """Pass over the entries until a pass changes less than ``accuracy`` times the first; return whether cut off."""
        first, n_passes, is_cut = -1.0, 0, True
        while is_cut and n_passes < max_passes and not is_time_up():
            budget = min(self.jumps.longest, max_passes - n_passes)
            change, first, made = _passes(self.penalty, self._system(), accuracy, first, budget, self.jumps.calm)
            n_passes += made
            self.visits += float(made) * len(self.point) * max(1, int(np.count_nonzero(self.point)))
            is_cut = not change <= accuracy * first
            if is_cut and n_passes < max_passes:
                self.jump()
        return is_cut

    def jump(self) -> None:
        """Go to the least q over the nonzero entries, as if g were quadratic in each, if that lowers q.

        The way is folded where entries arrive at zero, and goes on without these: maths: softmax, eqs. 49 and 50.
        """
        before, kept, m = self._point_value(), (self.point, self.response), len(self.point)
        for _ in range(self.jumps.rounds):
            used, matrix, pull = _nonzero_part(self.penalty, self._system(), self.jumps.ridge)
            if len(used) == 0 or is_time_up():
                break
            _, step, trouble = dposv(matrix.T, pull, lower=True, overwrite_a=True)
            if trouble:
                break
            self.point, self.response, n_arrived = _folded(self._system(), used, pull, step)
            # Another factor, u^3 / 3, is to cost no more than the passes that lead to a jump.
            if n_arrived == 0 or len(used) ** 2 > 3.0 * FAST * self.jumps.calm * m:
                break
        if not self._point_value() < before - ROUNDING * abs(before):
            self.point, self.response = kept

    def _system(self) -> "_System":
        return _System(self.H, self.curvature, self.slopes, self.is_free, self.point, self.response)

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


@jit
def _nonzero_part(penalty: Any, system: _System, ridge: float) -> tuple[Array, Array, Array]:
    """Return which entries are free or not zero, the curvature of q in these, and minus its slopes there.

    The derivatives of g are those of its Moreau envelope, (v - prox_t(v)) / t with a tiny t. ``ridge`` is the share of
    its diagonal that the matrix gets.
    """
    H, v, entry = system.H, system.point, np.empty(1)
    new = pointer(entry)
    used = np.flatnonzero(system.is_free | (v != 0.0))
    matrix, pull = np.empty((used.shape[0], used.shape[0])), np.empty(used.shape[0])
    for a in range(used.shape[0]):
        e = used[a]
        for b in range(used.shape[0]):
            matrix[a, b] = H[e, used[b]]
        matrix[a, a] += ridge * system.curvature[e]
        pull[a] = -(system.slopes[e] + system.response[e])
        if not system.is_free[e]:
            slope = _penalty_slope(penalty, v[e], new)
            pull[a] -= slope
            change = _penalty_slope(penalty, (1.0 + APART) * v[e], new) - slope
            if abs(change) > NOISE:
                matrix[a, a] += change / (APART * v[e])
    keep(entry)
    return used, matrix, pull


@inline
def _penalty_slope(penalty: Any, v: float, work: Any) -> float:
    """Return g'(v), v not zero; ``work`` has room for a number."""
    t = NEAR * abs(v)
    work[0] = v
    penalty.prox_row(work, 0, 1, t)
    return float((v - work[0]) / t)


@jit
def _folded(system: _System, used: Array, pull: Array, step: Array) -> tuple[Array, Array, int]:
    """Return where q is least along the folded way of a step of the ``used`` entries, H x there, and how many arrived.

    Between two entries that arrive at zero, and stay there, q is quadratic along the way. maths: softmax, eq. 50
    """
    H, is_free, size = system.H, system.is_free, used.shape[0]
    x, D, slopes, bends = system.point[used], step.copy(), -pull, pull.copy()  # the matrix times D is the pull
    n_arrived = 0
    for _ in range(size + 1):
        fall, bend = 0.0, 0.0
        for a in range(size):
            fall -= D[a] * slopes[a]
            bend += D[a] * bends[a]
        if not (fall > 0.0 and bend > 0.0):
            break
        length, first = fall / bend, -1
        for a in range(size):
            if not is_free[used[a]] and x[a] * D[a] < 0.0 and -x[a] / D[a] < length:
                length, first = -x[a] / D[a], a
        for a in range(size):
            x[a] += length * D[a]
            slopes[a] += length * bends[a]
        if first < 0:
            break
        for a in range(size):
            bends[a] -= D[first] * H[used[first], used[a]]
        x[first] = D[first] = 0.0
        n_arrived += 1
    point, response = system.point.copy(), system.response.copy()
    for a in range(size):
        moved = x[a] - point[used[a]]
        point[used[a]] = x[a]
        if moved != 0.0:
            for f in range(response.shape[0]):
                response[f] += moved * H[used[a], f]
    return point, response, n_arrived
