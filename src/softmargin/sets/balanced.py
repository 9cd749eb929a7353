"""The dual set of an SVM with a free bias: {a >= 0, <a, y> = 0}, y in {-1, +1}. Maths: squared hinge, section 4.

    nearest point to beta:   a = [beta - lambda y]_+ ,   lambda the root of
    g(lambda) = sum_{y=+1} w_i [z_i - lambda]_+ - sum_{y=-1} w_i [lambda - z_i]_+ ,   z = y * beta,  w = 1

g is piecewise linear and non-increasing. The same root, with w = C, is the best bias for given scores: z = y - scores.

    sort        O(n log n), exact
    newton      O(n) per pass, 2 to 7 passes, warm start
    bisection   O(n) per pass, about 53 passes: the method of paper 000

With a hinge that is not squared the set is bounded, {0 <= a <= C, <a, y> = 0}. Over it, <a, 1 - y F> is largest at

    a_i = C_i where 1 - y_i (F_i + b) > 0, else 0 ,   b minimises sum_i C_i [1 - y_i (F_i + b)]_+

and the two values agree. b is a quantile of z = y - F with weights C: the mass of z below it is that of the positive
samples. At b itself a_i lies between 0 and C_i, so that <a, y> = 0. Maths: kernel SVM, section 9.
"""

from collections.abc import Callable

import numpy as np

from softmargin.core.protocols import Array

__all__ = [
    "BALANCERS",
    "balance_by_bisection",
    "balance_by_newton",
    "balance_by_sort",
    "balanced_corner",
    "balanced_quantile",
    "project_balanced",
]

_ROUNDING = 4e-16
_MAX_PASSES = 200  # bisection alone needs fewer


def balance_by_sort(z: Array, y: Array, weights: Array | float = 1.0, start: float = 0.0) -> float:
    """Return the root of g, exactly; the middle of an interval of roots. ``start`` is not used."""
    order = np.argsort(z, kind="stable")
    z, w = z[order], np.broadcast_to(np.asarray(weights, dtype=np.float64), z.shape)[order]
    upper = np.where(y[order] > 0, w, 0.0)
    lower = w - upper
    # Mass and moment of the positives from each break point on, and of the negatives up to it.
    upper_mass, upper_sum = _from_the_right(upper), _from_the_right(upper * z)
    lower_mass, lower_sum = np.cumsum(lower), np.cumsum(lower * z)
    g = (upper_sum[:-1] - upper_mass[:-1] * z) + (lower_sum - lower_mass * z)
    last = int(np.flatnonzero(g >= 0)[-1]) if (g >= 0).any() else 0
    mass = upper_mass[last + 1] + lower_mass[last]
    if mass > 0:
        return float((upper_sum[last + 1] + lower_sum[last]) / mass)
    return float((z[last] + z[min(last + 1, len(z) - 1)]) / 2.0)


def _from_the_right(values: Array) -> Array:
    """Return the sums of values[j:], for j = 0 .. n; shape (n + 1,)."""
    return np.concatenate([np.cumsum(values[::-1])[::-1], [0.0]])


def balance_by_newton(z: Array, y: Array, weights: Array | float = 1.0, start: float = 0.0) -> float:
    """Return the root of g by Newton steps kept inside a shrinking bracket."""
    positive = y > 0
    w = np.broadcast_to(np.asarray(weights, dtype=np.float64), z.shape)
    width = float(np.abs(z).max(initial=0.0))
    # The bracket is wider than the break points: between the outermost two of them Newton can cycle.
    low, high = float(z.min()) - width, float(z.max()) + width
    root = float(np.clip(start, low, high))
    for _ in range(_MAX_PASSES):
        t = z - root
        inside = np.where(positive, t > 0, t < 0)
        g = float((w[inside] * t[inside]).sum())
        # Tested before the safeguard, which would jump away from a root that has been found.
        if g == 0.0 or abs(g) <= _ROUNDING * float(w[inside].sum()) * width:
            break
        if g > 0:
            low = root
            slope = float(w[np.where(positive, t > 0, t <= 0)].sum())
        else:
            high = root
            slope = float(w[np.where(positive, t >= 0, t < 0)].sum())
        new = root + g / slope if slope > 0 else np.inf
        if not low < new < high:
            new = 0.5 * (low + high)
        if new in (root, low, high):
            break
        root = new
    return root


def balance_by_bisection(z: Array, y: Array, weights: Array | float = 1.0, start: float = 0.0) -> float:
    """Return the root of g by halving [min z, max z] until no number lies between; ``start`` is not used."""
    positive = y > 0
    w = np.broadcast_to(np.asarray(weights, dtype=np.float64), z.shape)
    low, high = float(z.min()), float(z.max())
    for _ in range(_MAX_PASSES):
        root = 0.5 * (low + high)
        if root in (low, high):
            break
        t = z - root
        if float((w * np.where(positive, np.maximum(t, 0.0), np.minimum(t, 0.0))).sum()) > 0:
            low = root
        else:
            high = root
    return 0.5 * (low + high)


BALANCERS: dict[str, Callable[..., float]] = {
    "newton": balance_by_newton,
    "sort": balance_by_sort,
    "bisection": balance_by_bisection,
}


def project_balanced(beta: Array, y: Array, *, method: str = "newton", start: float = 0.0) -> tuple[Array, float]:
    """Return the nearest point of {a >= 0, <a, y> = 0} to beta, and the multiplier lambda."""
    multiplier = BALANCERS[method](y * beta, y, 1.0, start)
    return np.maximum(beta - multiplier * y, 0.0), multiplier


def balanced_corner(z: Array, y: Array, C: Array) -> Array:
    """Return the a in {0 <= a <= C, <a, y> = 0} that maximises <a, y z>."""
    order = np.argsort(z, kind="stable")
    prices = C[order]
    # The mass of the positives, laid on the samples from the smallest z on: below b all of it, above b none.
    below = np.zeros_like(prices)
    below[order] = np.clip(C[y > 0].sum() - (np.cumsum(prices) - prices), 0.0, prices)
    return np.where(y > 0, C - below, below)


def balanced_quantile(z: Array, y: Array, C: Array) -> float:
    """Return the b that minimises sum_i C_i [y_i (z_i - b)]_+; the middle of an interval of minimisers."""
    inside = np.flatnonzero(C > 0.0)
    if len(inside) == 0:
        return 0.0
    order = inside[np.argsort(z[inside], kind="stable")]
    mass, reached = C[y > 0].sum(), np.cumsum(C[order])
    slack = _ROUNDING * len(order) * reached[-1]
    # Where one class alone has a price, its margins can be met with room to spare.
    if mass <= slack:
        return float(z[order[0]]) - 1.0
    if mass >= reached[-1] - slack:
        return float(z[order[-1]]) + 1.0
    first = min(int(np.searchsorted(reached, mass - slack)), len(order) - 1)
    last = min(int(np.searchsorted(reached, mass + slack, side="right")), len(order) - 1)
    # Where the mass is used up by whole samples, any b up to the next one will do.
    return float(z[order[first]] + z[order[last]]) / 2.0
