"""The compiled loop of dual coordinate ascent over the l1 ball, and what it asks of a loss.

A loss is folded: w = sign * score, y = sign * u, f(w) with the conjugate f*(y), so that one struct serves all targets.

    dual.dual_entry(w, m, y, q)      argmax over y' of  w y' - f*(y') - q (y' - y)^2 / 2 ,   q = 1 / r of spec 1.1
    dual.loss_entry(w, m)            f(w)
    dual.slack_entry(w, m, y)        f(w) + f*(y) - w y >= 0: the share of one entry in the duality gap

    struct       f*(y)                                        on             sign, m
    Clipped      y^2 / 2 + m y                                [low, high]    the target and 1, or 1 and the target
    Entropy      -y log(-y) + (1 + y) log(1 + y)              [-1, 0]        the target; m is unused
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import compiled_struct, jit
from softmargin.backends.loops import shuffle
from softmargin.core.errors import IncompatibleError
from softmargin.losses.entrywise import Logistic, SmoothHinge, Squared, SquaredHinge
from softmargin.sets import L1Ball
from softmargin.solvers.ball._l1_loops import nearest_level

__all__ = ["Clipped", "Entropy", "ascend", "check_dual", "folded"]

Array = NDArray[Any]
_MAX_STEPS = 60
_ROUNDING = 4e-16


@compiled_struct("dual_entry", "loss_entry", "slack_entry")
class Clipped(NamedTuple):
    """Losses that are quadratic between two kinks and linear beyond them."""

    low: float
    high: float

    def dual_entry(self, w: float, m: float, y: float, q: float) -> float:
        """Return the dual step from y."""
        return min(max((q * y + w - m) / (1.0 + q), self.low), self.high)

    def loss_entry(self, w: float, m: float) -> float:
        """Return f(w)."""
        g = min(max(w - m, self.low), self.high)
        # A linear piece has f = g w - f*(g); where g is 0 beyond the kink that is 0.
        return g * (w - m - 0.5 * g)

    def slack_entry(self, w: float, m: float, y: float) -> float:
        """Return f(w) + f*(y) - w y."""
        g = min(max(w - m, self.low), self.high)
        return (g - y) * (w - m - 0.5 * (g + y))


@compiled_struct("dual_entry", "loss_entry", "slack_entry")
class Entropy(NamedTuple):
    """The logistic loss."""

    low: float = -1.0

    def dual_entry(self, w: float, m: float, y: float, q: float) -> float:
        """Return the dual step from y: y' = -expit(-v) with v - w = q (expit(-v) + y), by Newton inside a bracket."""
        low, high = w + y * q, w + (1.0 + y) * q
        v = min(max(w, low), high)
        e = 1.0 / (1.0 + math.exp(v))
        for _ in range(_MAX_STEPS):
            g = v - w - q * (e + y)
            if g < 0.0:
                low = v
            else:
                high = v
            new = v - g / (1.0 + q * e * (1.0 - e))
            if not low <= new <= high:
                new = 0.5 * (low + high)
            is_done = abs(new - v) <= _ROUNDING * (1.0 + abs(v))
            v = new
            e = 1.0 / (1.0 + math.exp(v))
            if is_done:
                break
        return -e

    def loss_entry(self, w: float, m: float) -> float:
        """Return f(w)."""
        return math.log1p(math.exp(-abs(w))) + max(-w, 0.0)

    def slack_entry(self, w: float, m: float, y: float) -> float:
        """Return f(w) + f*(y) - w y."""
        value = math.log1p(math.exp(-abs(w))) + max(-w, 0.0) - w * y
        value += -y * math.log(-y) if y < 0.0 else 0.0
        return value + ((1.0 + y) * math.log1p(y) if y > -1.0 else 0.0)


_DUALS: dict[type, Any] = {
    SmoothHinge: Clipped(-1.0, 0.0),
    SquaredHinge: Clipped(-np.inf, 0.0),
    Squared: Clipped(-np.inf, np.inf),
    Logistic: Entropy(),
}


def check_dual(name: str, problem: Any) -> None:
    """Refuse what has no smooth dual in U alone."""
    if not isinstance(problem.ball, L1Ball):
        raise IncompatibleError(f"{name} needs an l1 ball; the set is {problem.ball!r}. Use BallGradient.")
    if problem.l2 == 0.0:
        raise IncompatibleError(f"{name} needs l2 > 0; found 0. Use BallGradient or BallWorkingSet.")
    if problem.fit_intercept:
        raise IncompatibleError(
            f"{name} fits no intercept; fit_intercept is True. Use BallGradient or BallWorkingSet, or centre the data."
        )


def folded(problem: Any) -> tuple[Any, Array, Array]:
    """Return the compiled dual of the problem's loss, the signs and the offsets m of all entries, flat."""
    dual = _DUALS.get(type(problem.loss))
    if dual is None:
        raise IncompatibleError(
            f"dual coordinate ascent knows {', '.join(loss.__name__ for loss in _DUALS)}; the loss is "
            f"{type(problem.loss).__name__}. Use BallGradient."
        )
    target = problem.target.reshape(-1)
    ones = np.ones_like(target)
    return (dual, target, ones) if problem.loss.is_margin else (dual, ones, target)


@jit
def ascend(
    rows: Any,
    dual: Any,
    signs: Array,
    offsets: Array,
    weights: Array,
    U: Array,
    Z: Array,
    theta: float,
    l2: float,
    radius: float,
    order: Array,
    random: Array,
    chunk: int,
    most: float,
) -> tuple[float, float, float]:
    """Visit every sample once; return theta, the sum of all losses, and that of all slacks, as they were met.

    The weights are W = -sign(Z) [|Z| - theta]_+ / l2 and never stored. A dual variable moves by at most ``most``: only
    entries of Z within reach of theta can then become weights, and only those make the step shorter.
    """
    bare = rows.bare()
    n, size = order.shape[0], l2 * radius
    k = U.shape[0] // n
    losses, slacks = 0.0, 0.0
    shuffle(order, n, random)
    for a in range(n):
        i = order[a]
        begin, end = bare.entries(i)
        price = weights[i]
        for c in range(k):
            score, square = 0.0, 0.0
            for p in range(begin, end):
                z, x = Z[bare.column(i, p) * k + c], bare.value(p)
                rest = abs(z) - theta
                score -= x * math.copysign(max(rest, 0.0), z)
                square += x * x * (rest + price * most * abs(x) > 0.0)
            e = i * k + c
            y, w, m = signs[e] * U[e], signs[e] * score / l2, offsets[e]
            losses += price * dual.loss_entry(w, m)
            slacks += price * dual.slack_entry(w, m, y)
            new = dual.dual_entry(w, m, y, price * square / l2)
            new = min(max(new, y - most), y + most)
            if new != y:
                U[e] = signs[e] * new
                step = price * signs[e] * (new - y)
                for p in range(begin, end):
                    Z[bare.column(i, p) * k + c] += step * bare.value(p)
        if (a + 1) % chunk == 0 or a + 1 == n:
            theta = nearest_level(Z, size, theta)
    return theta, losses, slacks
