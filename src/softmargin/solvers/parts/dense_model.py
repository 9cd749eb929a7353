"""A quadratic model of the losses around W with its Hessian written out, for few entries of W in play.

    q(D) = <G, D> + 1/2 <D, H D> + g(W + D)
    H[(j, c), (l, e)] = sum_i C_i x_ij x_il ([c = e] (p_ic + damping_i) - p_ic p_ie)

The same q as in ``quadratic_passes``. H is a product Z Z' for what couples the classes, one row of Z for every entry in
play, and one product a class for the rest. After that samples are no longer looked at: a pass keeps the gradient of
the model itself up to date, and an entry that does not move costs nothing.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import jit
from softmargin.backends.lanes import keep, pointer
from softmargin.matrices.products import times
from softmargin.solvers.parts.model_samples import Sample
from softmargin.solvers.parts.quadratic_model import DEPTH, combination, floored
from softmargin.solvers.parts.softmax_steps import matrix_of, width_of

__all__ = ["DenseModel", "affords_all", "is_worth_while"]

Array = NDArray[Any]
FAST = 5.0  # multiply-adds of a matrix product in the time of one in a loop over samples
PASSES = 60  # over a model, usually
FORMED = 1e7  # multiply-adds of a product that the rest of a step is worth
BLOCK = 1 << 19  # numbers of Z at a time
LOOKED_BACK = 2e5  # multiply-adds that one extrapolation is worth: so many are passed first
LONGEST = 40  # passes from one extrapolation to the next


def is_worth_while(m: int, density: float, max_passes: int) -> bool:
    """Say whether forming H of m entries, S m^2 / 2, costs less than passes over S samples, 2 S m density each."""
    return 0.0 < m / 2.0 <= FAST * min(PASSES, max_passes) * 2.0 * density


def affords_all(m: int, n: int) -> bool:
    """Say whether H of m entries may be summed over all n samples, for a model that is better than with few."""
    return n * m * m / 2.0 <= FORMED


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
        self.rows = np.unique(self.features)
        self.V = self.W.copy()
        self.at = self.features * width_of(problem) + self.classes
        self.is_free = self.features == problem.X.shape[1]
        self.H = self._hessian()
        self.curvature = floored(self.H.diagonal(), self.sample.least[self.features], self.stretch)
        self.slopes, self.start = self.G[self.at], self.W[self.at]
        self.point, self.response = self.start.copy(), np.zeros(m)
        self.stride = int(max(DEPTH + 1, min(LOOKED_BACK / (m * m), LONGEST)))
        self.points, self.responses = np.zeros((DEPTH + 1, m)), np.zeros((DEPTH + 1, m))

    def _hessian(self) -> Array:
        """Return H, (m, m)."""
        sample, m, k = self.sample, len(self.features), self.problem.n_columns
        P, X = np.ascontiguousarray(matrix_of(self.problem, sample.P).T), sample.table(self.rows)
        root = np.sqrt(sample.C)
        coupling, roots = P * root, np.sqrt(P + sample.damping) * root
        bounds = np.searchsorted(self.classes, np.arange(k + 1)).tolist()
        row_of = np.searchsorted(self.rows, self.features)
        H, size = np.zeros((m, m)), max(BLOCK // m, 1)
        for begin in range(0, len(root), size):
            part = slice(begin, begin + size)
            some = X[row_of, part]
            if self.is_coupled:
                Z = some * coupling[self.classes, part]
                H -= Z @ Z.T
            for c, (first, end) in enumerate(pairwise(bounds)):
                Z = some[first:end] * roots[c, part]
                H[first:end, first:end] += Z @ Z.T
        return H

    def minimise(self, accuracy: float, max_passes: int) -> bool:
        """Pass over the entries until a pass changes less than ``accuracy`` times the first; say whether cut short."""
        first, n_passes, is_cut = -1.0, 0, True
        while is_cut and n_passes < max_passes:
            most = min(self.stride, max_passes - n_passes)
            change, first = dense_passes(
                self.problem.penalty,
                self.H,
                self.curvature,
                self.slopes,
                self.is_free,
                self.point,
                self.response,
                accuracy,
                first,
                most,
                self.points,
                self.responses,
            )
            n_passes += most
            is_cut = not change <= accuracy * first
            if is_cut and most > DEPTH:
                self._extrapolate()
        self.V[self.at] = self.point
        return is_cut

    def _extrapolate(self) -> None:
        """Replace the point by the combination of the last ones whose steps nearly cancel, if that lowers q."""
        share = combination(np.diff(self.responses, axis=0))
        before = self._value()
        # As differences to the last point: what did not change stays as it is, to the last bit.
        self.point += share[:-1] @ (self.points[1:-1] - self.points[-1])
        self.response += share[:-1] @ (self.responses[1:-1] - self.responses[-1])
        if not self._value() < before:
            self.point[:], self.response[:] = self.points[-1], self.responses[-1]

    def _value(self) -> float:
        """Return q(D)."""
        D = self.point - self.start
        penalty = self.problem.penalty.value(self.point[~self.is_free, None])
        return float(D @ self.slopes + 0.5 * (D @ self.response) + penalty)

    def bend(self) -> float:
        """Return <D, H D>."""
        return float((self.point - self.start) @ self.response)

    def fill_scores_move(self, out: Array) -> None:
        """Write [X, 1] D to ``out``, for all samples."""
        times(self.problem.X, self.V - self.W, self.problem.bias, width_of(self.problem), out)


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
    points: Array,
    responses: Array,
) -> tuple[float, float]:
    """Minimise q over one entry after the other, in at most so many passes; keep where the last ones ended.

    Returns sum h step^2 of the last pass and of the ``first`` one, which is not known if it is negative.
    """
    v, r, entry = pointer(point), pointer(response), np.empty(1)
    new = pointer(entry)
    m, kept = point.shape[0], points.shape[0]
    change = 0.0
    for n_passes in range(most):
        change = 0.0
        for e in range(m):
            old, h = v[e], curvature[e]
            new[0] = old - (slopes[e] + r[e]) / h
            if not is_free[e]:
                penalty.prox_row(new, 0, 1, 1.0 / h)
            step = new[0] - old
            if step != 0.0:
                v[e] = new[0]
                for f in range(m):
                    r[f] += step * H[e, f]
                change += h * step * step
        if first < 0.0:
            first = change
        if change <= accuracy * first:
            break
        slot = n_passes - most + kept
        if slot >= 0:
            points[slot, :] = point
            responses[slot, :] = response
    keep(entry)
    return change, first
