"""A quadratic model of the losses around W with its Hessian written out, for few entries of W in play.

    q(D) = <G, D> + 1/2 <D, H D> + g(W + D)
    H[(j, c), (l, e)] = sum_i C_i x_ij x_il ([c = e] (p_ic + damping_i) - p_ic p_ie)

The same q as in ``quadratic_passes``. Once H is there (parts/written_hessian) samples are no longer looked at: a pass
keeps the gradient of the model itself up to date, and an entry that does not move costs nothing. When some passes have
left the zeros alone, a jump goes to the least q over the other entries, by Cholesky.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from softmargin.backends.jit import jit
from softmargin.backends.lanes import keep, pointer
from softmargin.matrices.rows import as_rows
from softmargin.solvers.softmax._losses import stride_of, unpadded
from softmargin.solvers.softmax.quadratic_model.by_samples import floored
from softmargin.solvers.softmax.quadratic_model.hessian import (
    FAST,
    by_classes,
    by_pairs,
    fill_bends,
    fill_from_rows,
    is_looped,
    n_pairs,
)
from softmargin.solvers.softmax.quadratic_model.samples import Sample, density

__all__ = ["EXACT", "MOST_PASSES", "DenseModel", "affords_all", "forming", "is_worth_while"]

Array = NDArray[Any]
MOST_ENTRIES = 2000  # H of these is 32 MB
PASSES = 60  # over a model, usually
OVERHEAD = 30.0  # multiply-adds that a sample's losses are worth, a tile of classes
AFFORDED = 5.0  # how much longer than the rest of a step forming H of all samples may take
CALM, LONGEST = 30, 200  # passes that leave the zeros alone, or any, from one jump to the next
NEAR, APART = 1e-6, 1e-3  # where the derivatives of a penalty are taken, as shares of an entry
RIDGE = 1e-6  # share of its diagonal added to H: all classes may be shifted alike
TINY = 1e-300  # where an entry is zero
ROUNDING = 1e-12  # share of q that its differences cannot tell
EXACT = 1e-4  # change of the last pass over H of all samples, as a share of the first: passes are cheap, steps are not
MOST_PASSES = 2000  # over H of all samples


def forming(X: Any, m: int, k: int, has_pairs: bool) -> float:
    """Return how many multiply-adds of a loop over samples forming H of m entries is worth, for every sample."""
    if k == 1 and is_looped(X):
        own = density(X) * X.shape[1]
        return own + density(X) * m * own / 2.0
    size = n_pairs(X.shape[1] + 1) * n_pairs(k) if has_pairs else m * m / 2.0 if k == 1 else m * m
    return size / FAST + m


def is_worth_while(cost: float, m: int, X: Any, max_passes: int) -> bool:
    """Say whether H of m entries, and a pass over it, cost less than passes over the samples, 2 m density each."""
    by_samples = 2.0 * m * density(X)
    is_small = 0 < m <= MOST_ENTRIES and m * m <= FAST * X.shape[0] * by_samples
    return is_small and cost <= min(PASSES, max_passes) * by_samples


def affords_all(cost: float, X: Any, n_tiles: int) -> bool:
    """Say whether H may be summed over all samples, for a model that is better than with few."""
    return cost <= AFFORDED * n_tiles * (3.0 * density(X) * X.shape[1] + OVERHEAD)


@dataclass
class DenseModel:
    """A model in the entries (features[e], classes[e]) of W, ordered by class."""

    problem: Any
    sample: Sample
    W: Array
    G: Array
    features: Array
    classes: Array
    is_coupled: bool
    stretch: float
    V: Array = field(init=False)
    response: Array = field(init=False)  # (m,) H D

    def __post_init__(self) -> None:
        """Write out H; begin at D = 0."""
        problem, m = self.problem, len(self.features)
        self.rows = self.features if problem.n_columns == 1 else np.unique(self.features)
        self.V = self.W.copy()
        self.at = self.features * stride_of(problem) + self.classes
        self.is_free = self.features == problem.X.shape[1]
        self.table: Array | None = None  # (m, n) the columns, where H is made of them
        self.H = self._hessian()
        self.curvature = floored(self.H.diagonal(), self.sample.least[self.features], self.stretch)
        self.slopes, self.start = self.G[self.at], self.W[self.at]
        self.point, self.response = self.start.copy(), np.zeros(m)

    def _hessian(self) -> Array:
        """Return H, (m, m)."""
        problem, sample, m = self.problem, self.sample, len(self.features)
        (n, d), k = sample.X.shape, problem.n_columns
        P = unpadded(problem, sample.P)
        if k == 1:
            prices = sample.C * (P[:, 0] * (1.0 - P[:, 0]) + sample.damping)
            if is_looped(sample.X):
                place, H = np.full(d + 1, m), np.empty((m, m))
                place[self.features] = np.arange(m)
                fill_from_rows(as_rows(sample.X), place, prices, H)
                return H
            self.table = sample.table(self.features)
            Z = self.table * np.sqrt(prices)
            return Z @ Z.T
        if sample.pairs is not None:
            bends = np.empty((n, n_pairs(k)))
            fill_bends(sample.P, sample.C, sample.damping, stride_of(problem), k, bends)
            return by_pairs(sample.pairs, bends, self.features, self.classes, d + problem.fit_intercept, k)
        row_of = np.searchsorted(self.rows, self.features)
        table = sample.table(self.rows)
        return by_classes(table, row_of, self.classes, P, sample.C, sample.damping, self.is_coupled)

    def minimise(self, accuracy: float, max_passes: int) -> bool:
        """Pass over the entries until a pass changes less than ``accuracy`` times the first; say whether cut short."""
        first, n_passes, is_cut = -1.0, 0, True
        while is_cut and n_passes < max_passes:
            change, first, made = dense_passes(
                self.problem.penalty,
                self.H,
                self.curvature,
                self.slopes,
                self.is_free,
                self.point,
                self.response,
                accuracy,
                first,
                min(LONGEST, max_passes - n_passes),
                CALM,
            )
            n_passes += made
            is_cut = not change <= accuracy * first
            if is_cut and n_passes < max_passes:
                self._jump()
        self.V[self.at] = self.point
        return is_cut

    def _jump(self) -> None:
        """Go to the least q over the entries that are not zero, as if g were quadratic in each, if that lowers q.

        What would change its sign becomes zero instead, or the first of these does, and the way ends there.
        """
        used = np.flatnonzero(self.is_free | (self.point != 0.0))
        if len(used) == 0:
            return
        v, is_free = self.point[used], self.is_free[used]
        slope = self._penalty_slope(v)
        bend = (self._penalty_slope((1.0 + APART) * v) - slope) / (APART * v + TINY)
        slope, bend = np.where(is_free, 0.0, slope), np.where(is_free, 0.0, bend)
        H = self.H[np.ix_(used, used)]
        H[np.diag_indices(len(used))] += bend + RIDGE * self.curvature[used]
        _, step, trouble = dposv(H, -(self.slopes[used] + self.response[used] + slope), lower=True)
        if trouble:
            return
        crosses = ~is_free & (v * (v + step) < 0.0)
        share = np.min(-v[crosses] / step[crosses], initial=1.0)
        before, kept = self._value(), (self.point.copy(), self.response.copy())
        for new in (np.where(crosses, 0.0, v + step), v + share * step):
            new[crosses & (np.abs(new) <= ROUNDING * np.abs(v))] = 0.0
            self.point[used] = new
            self.response = kept[1] + (new - v) @ self.H[used]
            if self._value() < before - ROUNDING * abs(before):
                return
        self.point, self.response = kept

    def _penalty_slope(self, v: Array) -> Array:
        """Return g'(v) where v is not zero: that of its Moreau envelope, (v - prox_t(v)) / t, with a tiny t."""
        t = NEAR * np.abs(v) + TINY
        return (v - self.problem.penalty.prox(v[:, None], t[:, None])[:, 0]) / t

    def _value(self) -> float:
        """Return q(D)."""
        D = self.point - self.start
        penalty = self.problem.penalty.value(self.point[~self.is_free, None])
        return float(D @ self.slopes + 0.5 * (D @ self.response) + penalty)

    def bend(self) -> float:
        """Return <D, H D>."""
        return float((self.point - self.start) @ self.response)

    def scores_move(self) -> Array | None:
        """Return [X, 1] D of all samples, (n, k), where it is at hand."""
        if self.table is None or self.sample.rows is not None:
            return None
        return ((self.point - self.start) @ self.table)[:, None]


@jit
def dense_passes(
    penalty: Any,
    H: Array,
    curvature: Array,
    slopes: Array,
    is_free: Array,
    point: Array,
    response: Array,
    accuracy: float,
    first: float,
    most: int,
    calm: int,
) -> tuple[float, float, int]:
    """Minimise q over one entry after the other, in at most so many passes, or until ``calm`` of them leave the zeros.

    Returns sum h step^2 of the last pass and of the ``first`` one, which is not known if it is negative, and the number
    of passes.
    """
    v, r, entry = pointer(point), pointer(response), np.empty(1)
    new = pointer(entry)
    m = point.shape[0]
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
