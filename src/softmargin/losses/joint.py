"""Losses of a whole row of scores against one label: the multinomial loss and the two joint hinges.

    h_c = 1 + s_c - s_y  (c != y),   h_y = 0

    loss              f(s, y)                        f*(u, y)                              domain, besides (1)
    multinomial       log sum_c exp(s_c) - s_y       sum_c q_c log q_c ,  q = u + e_y      -u_y <= 1
    Crammer-Singer    max_c h_c                      u_y                                   -u_y <= 1
    Weston-Watkins    sum_c [h_c]_+                  u_y                                   u_c <= 1 for c != y

    u_c >= 0  for c != y ,     u_y = -sum of the others                                                         (1)

They have the verbs of an entrywise loss (``losses.entrywise``): targets are rows e_y, shape (n, k), and what belongs to
a row has the shape (n, 1), so that sums over a row serve both. A row of dual variables is known by its entries off the
label; the label's own is minus their sum, in real arithmetic. Errors: maths: rounding, section 6.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from softmargin.backends.jit import jit
from softmargin.core.errors import DataError
from softmargin.core.protocols import Array
from softmargin.core.rounding import UNIT, gamma
from softmargin.losses.multiclass_hinge import CrammerSinger, WestonWatkins, margins
from softmargin.losses.multinomial import (
    best_intercept,
    cross_entropy,
    entropy,
    loss_errors,
    losses_and_softmax,
    off_label,
    softmax,
)

__all__ = ["JOINT", "JointHinge", "Multinomial", "checked_rows", "labels_of", "with_labels"]

_MAX_PASSES = 100  # of Newton's method in a bracket, which halves at worst
_ROUNDING = 4e-16


def labels_of(target: Array) -> Array:
    """Return the labels of rows e_y; (n,)."""
    return np.asarray(target.argmax(axis=1))


def checked_rows(target: Array) -> None:
    """Refuse targets that are no rows e_y of two classes or more."""
    is_one = target == 1.0
    if target.shape[1] < 2 or not ((is_one | (target == 0.0)).all() and (is_one.sum(axis=1) == 1).all()):
        raise DataError("a joint loss needs one 1 in every row of the target, at the label, and zeros elsewhere.")


class _Joint:
    """What losses of rows share."""

    is_margin: ClassVar[bool] = False
    is_joint: ClassVar[bool] = True
    dual_curvature: ClassVar[float] = np.inf
    sums_to_one: Any  # are the dual variables off the label at most 1 together, or each?

    def feasible(self, u: Array, target: Array) -> Array:
        """Return dual variables near u that are in the domain, zeros at labels; (n, k)."""
        off, _ = off_label(np.clip(u, 0.0, 1.0), labels_of(target))
        if self.sums_to_one:
            most = 1.0 - gamma(2 * u.shape[1] + 8)
            rest = off.sum(axis=1)
            off *= np.where(rest > most, most / np.maximum(rest, most), 1.0)[:, None]
        return off


class Multinomial(_Joint):
    """The multinomial logistic loss."""

    curvature: ClassVar[float] = 0.5  # diag(p) - p p' has no larger eigenvalue
    sums_to_one = True

    def __repr__(self) -> str:
        """Name the loss: fingerprints hold it."""
        return "Multinomial()"

    def value(self, scores: Array, target: Array) -> Array:
        """Return f; (n, 1)."""
        return cross_entropy(scores, labels_of(target))[:, None]

    def slope(self, scores: Array, target: Array) -> Array:
        """Return df/ds; (n, k). The label's own is minus the sum of the others: no digits cancel."""
        return with_labels(*off_label(softmax(scores), labels_of(target)), target)

    def bend_along(self, scores: Array, target: Array, move: Array) -> Array:
        """Return <move, f'' move>; (n, 1)."""
        P = softmax(scores)
        mean = np.einsum("ic,ic->i", P, move)[:, None]
        return np.asarray(np.einsum("ic,ic->i", P, (move - mean) ** 2)[:, None])

    def conjugate(self, u: Array, target: Array) -> Array:
        """Return f*; inf outside its domain; (n, 1)."""
        off, rest = off_label(u, labels_of(target))
        is_inside = (off >= 0.0).all(axis=1) & (rest <= 1.0 + _ROUNDING * u.shape[1])
        values = -entropy(np.maximum(off, 0.0), np.minimum(rest, 1.0 - UNIT))[0]
        return np.where(is_inside, values, np.inf)[:, None]

    def conjugate_of(self, off: Array, rest: Array) -> tuple[Array, Array]:
        """Return f* of feasible rows, and bounds on its errors; (n,)."""
        values, errors = entropy(off, rest)
        return -values, errors

    def best_intercept(self, scores: Array, target: Array, weights: Array) -> Array:
        """Return the intercepts that minimise the weighted losses of these scores; (k,)."""
        y = labels_of(target)
        losses, P = losses_and_softmax(scores, y)
        return best_intercept(scores, y, weights, P, float(weights @ losses))[0]

    def errors(self, values: Array, scores: Array, target: Array, away: Array) -> Array:
        """Bound the errors of the values, where no score of a row is further from an exact one than ``away``; (n,)."""
        return loss_errors(values[:, 0], 2.0 * away, scores.shape[1])


@dataclass(frozen=True)
class JointHinge(_Joint):
    """A joint hinge of ``losses.multiclass_hinge``. It is not smooth: only primal-dual methods apply."""

    inner: WestonWatkins | CrammerSinger
    sums_to_one: bool

    curvature: ClassVar[float] = np.inf

    def __repr__(self) -> str:
        """Name the loss: fingerprints hold it."""
        return f"JointHinge({self.inner.name})"

    def value(self, scores: Array, target: Array) -> Array:
        """Return f; (n, 1)."""
        return self.inner.value(scores, labels_of(target))[:, None]

    def slope(self, scores: Array, target: Array) -> Array:
        """Return a subgradient; (n, k)."""
        h = margins(scores, labels_of(target))
        off = np.where(h > 0.0, 1.0, 0.0)
        if self.sums_to_one:
            best = h.argmax(axis=1)
            off = np.zeros_like(h)
            off[np.arange(len(h)), best] = h.max(axis=1) > 0.0
        return with_labels(off, off.sum(axis=1), target)

    def conjugate(self, u: Array, target: Array) -> Array:
        """Return f*; inf outside its domain; (n, 1)."""
        off, rest = off_label(u, labels_of(target))
        room = 1.0 + _ROUNDING * u.shape[1]
        is_inside = (off >= 0.0).all(axis=1) & ((rest if self.sums_to_one else off.max(axis=1)) <= room)
        return np.where(is_inside, -rest, np.inf)[:, None]

    def conjugate_of(self, off: Array, rest: Array) -> tuple[Array, Array]:
        """Return f* of feasible rows, and bounds on its errors; (n,)."""
        return -rest, gamma(off.shape[1]) * rest

    def dual_step(self, u: Array, scores: Array, target: Array, r: Array | float) -> Array:
        """Return argmax over v of <s, v> - f*(v) - |v - u|^2 / (2 r): the point of the domain nearest to a."""
        a, y = u + r * (scores - target), labels_of(target)
        if self.sums_to_one:
            a += target
            top = a.max(axis=1)
            _shifted(a, np.full(len(a), -1), np.inf, 0.0, np.ones(len(a)), top - 1.0, top)
        else:
            own = a[np.arange(len(a)), y]
            _shifted(a, y, 1.0, 1.0, -own, own, own + (a.shape[1] - 1.0))
        return with_labels(*off_label(a, y), target)

    def best_intercept(self, scores: Array, target: Array, weights: Array) -> Array:
        """Return zero: no search is made where slopes jump; a solver's own intercept and dual point count."""
        return np.zeros(scores.shape[1])

    def errors(self, values: Array, scores: Array, target: Array, away: Array) -> Array:
        """Bound the errors of the values, where no score of a row is further from an exact one than ``away``; (n,)."""
        # The 1 in a margin is added with two more roundings.
        change = self.inner.change(scores, labels_of(target), away + 4.0 * UNIT)
        return np.asarray(change + gamma(scores.shape[1] + 2) * values[:, 0])


def with_labels(off: Array, rest: Array, target: Array) -> Array:
    """Return rows with minus the sum of the others at the label, where they are zero."""
    return np.ascontiguousarray(off - rest[:, None] * target)


@jit
def _shifted(a: Array, y: Array, most: float, slope: float, level: Array, low: Array, high: Array) -> None:
    """Replace every row by clip(a_c - theta, 0, most), of which the sum is slope theta + level; the label's stays out.

    theta lies in [low, high]. The difference of both sides falls with it: Newton's method inside a bracket.
    """
    k = a.shape[1]
    for i in range(a.shape[0]):
        below, above = low[i], high[i]
        theta, small = below, _ROUNDING * (1.0 + abs(below) + abs(above))
        for _ in range(_MAX_PASSES):
            total, fall = -slope * theta - level[i], slope
            for c in range(k):
                t = a[i, c] - theta
                if c != y[i] and t > 0.0:
                    total += min(t, most)
                    fall += t < most
            if total > 0.0:
                below = theta
            else:
                above = theta
            new = theta + total / fall if fall > 0.0 else above
            if abs(new - theta) <= small:
                break
            # Strictly inside: Newton's method may return to an end of the bracket, and cycle.
            theta = new if below < new < above else 0.5 * (below + above)
        for c in range(k):
            a[i, c] = min(max(a[i, c] - theta, 0.0), most)


JOINT: dict[str, Any] = {
    "multinomial": Multinomial(),
    "crammer_singer": JointHinge(CrammerSinger(), sums_to_one=True),
    "weston_watkins": JointHinge(WestonWatkins(), sums_to_one=False),
}
