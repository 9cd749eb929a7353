"""A quadratic function over the l1 ball, by its path from zero to the radius.

    v(theta) = argmin of 1/2 <v, H v> - <right, v> + theta |v|_1 ,      H has a block H_c for every column of v
    where v is not zero, with signs s:   v = a - theta b ,   H_c a = right ,   H_c b = s     on these entries alone
    elsewhere:                           |right - H v| = |p + theta q| <= theta               maths: ball, eqs. 34 to 36

theta falls from max |right|, where v = 0. v is linear in it from one event to the next: an entry gets to zero and
leaves, or |p + theta q| gets to theta and an entry enters. The path ends where |v|_1 is the radius, or at theta = 0.
An event changes one column, and costs a factor of its entries.

Source: Osborne, Presnell and Turlach (2000), for one column.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from softmargin.core.deadline import check_time
from softmargin.core.protocols import Array

__all__ = ["PathTuning", "least_in_l1_ball"]


class PathTuning(NamedTuple):
    """Constants of the path."""

    # An entry whose pivot is a smaller share of its H_jj repeats others: it stays zero. By hand.
    repeated: float = 1e-9
    most_events: int = 10  # times the number of entries; a guard: paths have 1 to 1.7 for one that is not zero


_TUNING = PathTuning()


def least_in_l1_ball(H: Sequence[Array], right: Array, radius: float, tuning: PathTuning = _TUNING) -> Array:
    """Return the v with the least 1/2 <v, H v> - <right, v> over |v|_1 <= radius; (d, k)."""
    path, theta = _Path(H, right, tuning), float(np.abs(right).max(initial=0.0))
    for _ in range(tuning.most_events * right.size):
        check_time()
        end, event = path.theta_at(radius), path.next_event()
        if max(end, 0.0) >= event.theta:
            break
        theta = min(theta, event.theta)
        path.pass_by(event)
    v = path.at(min(max(path.theta_at(radius), 0.0), theta))
    size = float(np.abs(v).sum())
    return v if size <= radius else v * (radius / size)


class _Event(NamedTuple):
    """An entry enters, with this sign, or leaves, with sign 0."""

    theta: float
    entry: tuple[int, int]
    sign: float


class _Path:
    """The path between two events."""

    def __init__(self, H: Sequence[Array], right: Array, tuning: PathTuning) -> None:
        self.H, self.right, self.tuning = H, right, tuning
        self.signs, self.a, self.b, self.q = np.zeros((4, *right.shape))
        self.p = right.copy()
        self.order: list[list[int]] = [[] for _ in H]  # of every column the entries, as they entered
        self.is_shut = np.zeros(right.shape, dtype=bool)

    def at(self, theta: float) -> Array:
        """Return v(theta)."""
        v = self.a - theta * self.b
        return np.asarray(np.where(v * self.signs > 0.0, v, 0.0))

    def theta_at(self, radius: float) -> float:
        """Return the theta at which |v|_1 would be the radius, if no event came before."""
        growth = float(np.vdot(self.signs, self.b))
        return (float(np.vdot(self.signs, self.a)) - radius) / growth if growth > 0.0 else 0.0

    def next_event(self) -> _Event:
        """Return the event at the largest theta; at 0 where none is left."""
        a, b, p, q, is_zero = self.a, self.b, self.p, self.q, self.signs == 0.0
        is_open = is_zero & ~self.is_shut
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            rises = np.where(is_open & (q < 1.0), p / (1.0 - q), 0.0)
            falls = np.where(is_open & (q > -1.0), -p / (1.0 + q), 0.0)
            leaves = np.where(~is_zero & (self.signs * b < 0.0), a / b, 0.0)
        enters = np.maximum(rises, falls)
        thetas = np.where(is_zero, enters, leaves)
        j, c = np.unravel_index(int(thetas.argmax()), thetas.shape)
        sign = 0.0 if not is_zero[j, c] else 1.0 if rises[j, c] >= falls[j, c] else -1.0
        return _Event(float(thetas[j, c]), (int(j), int(c)), sign)

    def pass_by(self, event: _Event) -> None:
        """Let an entry enter or leave."""
        (j, c), self.signs[event.entry] = event.entry, event.sign
        if event.sign == 0.0:
            self.order[c].remove(j)
        else:
            self.order[c].append(j)
        if not self._solve(c) and event.sign != 0.0:
            self.order[c].pop()
            self.signs[event.entry], self.is_shut[event.entry] = 0.0, True
            self._solve(c)

    def _solve(self, c: int) -> bool:
        """Find a, b, p and q of a column; return whether the last entry does not repeat the others."""
        used, H = self.order[c], self.H[c]
        self.a[:, c], self.b[:, c], self.p[:, c], self.q[:, c] = 0.0, 0.0, self.right[:, c], 0.0
        if not used:
            return True
        factor, failure = dpotrf(H[np.ix_(used, used)], lower=True, clean=False)
        last = used[-1]
        if failure or factor[-1, -1] ** 2 <= self.tuning.repeated * H[last, last]:
            return False
        found = dpotrs(factor, np.stack([self.right[used, c], self.signs[used, c]], axis=1), lower=True)[0]
        self.a[used, c], self.b[used, c] = found.T
        pulls = H[:, used] @ found
        self.p[:, c] -= pulls[:, 0]
        self.q[:, c] = pulls[:, 1]
        return True
