"""Multiclass hinge losses, two joint ones and the sum of one-vs-rest, and their dual sets.

    margin     h_ij = 1 + s_ij - s_iy   (j != y),  h_iy = 0          s = scores of sample i
    Weston-Watkins    l_i = sum_j [h_ij]_+          dual rows: -C <= alpha_ij <= 0 (j != y), sum_j alpha_ij = 0
    Crammer-Singer    l_i = max_j h_ij              dual rows: alpha_ij <= 0 (j != y), alpha_iy <= C, sum_j alpha_ij = 0
    one-vs-rest       l_i = [1 - s_iy]_+ + sum_{j != y} [1 + s_ij]_+     dual rows: |alpha_ij| <= C, of the label's sign

Everything here is NumPy on whole blocks of rows, for certificates: they share no code with the compiled solvers.
"""

from typing import NamedTuple

import numpy as np

from softmargin.core.protocols import Array
from softmargin.losses.labels import at_labels

__all__ = ["CrammerSinger", "OneVsRestHinge", "WestonWatkins", "margins"]


def margins(scores: Array, y: Array) -> Array:
    """Return h_ij = 1 + s_ij - s_iy, with h_iy = 0; shape (n, k)."""
    h = np.array(scores)
    flat, labels = at_labels(h, y)
    h -= (flat[labels] - 1.0)[:, None]
    flat[labels] = 0.0
    return h


def _differences(scores: Array, y: Array) -> Array:
    """Return s_ij - s_iy, with minus infinity at the label; shape (n, k)."""
    d = np.array(scores)
    flat, labels = at_labels(d, y)
    d -= flat[labels][:, None]
    flat[labels] = -np.inf
    return d


def _n_near(scores: Array, y: Array, errors: Array) -> Array:
    """Return how many margins of wrong classes are positive, or may be where scores change so much; shape (n,)."""
    least = scores[np.arange(len(y)), y] - 1.0 - 2.0 * errors
    return np.asarray((scores >= least[:, None]).sum(axis=1) - 1)  # the label itself is always among them


def _off_label(alpha: Array, y: Array) -> Array:
    """Return a copy of alpha with the label's own entry set to zero."""
    rest = np.array(alpha, dtype=np.float64)
    flat, labels = at_labels(rest, y)
    flat[labels] = 0.0
    return rest


def _balanced(rest: Array, y: Array) -> Array:
    """Set the label's own entry, which is zero, so that the row sums to zero."""
    rest[np.arange(len(y)), y] = -rest.sum(axis=1)
    return rest


class _Pieces(NamedTuple):
    """Equal samples by their labels: a piece has those of one set and one label."""

    of_row: Array  # (m,) piece of each sample
    sets: Array  # (p,) of each piece
    labels: Array  # (p,)
    others: Array  # (p, k) the piece of the same set and that label
    is_other: Array  # (p, k) whether there is one, of another label


def _pieces(y: Array, sets: Array, k: int) -> _Pieces:
    """Find the pieces of samples with labels y, in sets 0, 1, ... of equal ones."""
    keys, of_row = np.unique(sets * k + y, return_inverse=True)
    own, labels = keys // k, keys % k
    known = np.full((int(own.max(initial=-1)) + 1, k), -1)
    known[own, labels] = np.arange(len(keys))
    others = known[own]
    return _Pieces(of_row, own, labels, others, (others >= 0) & (labels[:, None] != np.arange(k)))


class WestonWatkins:
    """Sum of the hinge of every wrong class."""

    name = "weston_watkins"

    def value(self, scores: Array, y: Array) -> Array:
        """Return l_i; shape (n,)."""
        h = margins(scores, y)
        return np.asarray(np.maximum(h, 0.0, out=h).sum(axis=1))

    def slopes(self, scores: Array, y: Array) -> Array:
        """Return d with l_i = sum_j [1 + t d_ij]_+ at the scores t s_i, t > 0; shape (n, k)."""
        return _differences(scores, y)

    def change(self, scores: Array, y: Array, errors: Array) -> Array:
        """Bound by how much l_i changes where no score of row i changes by more than errors_i; shape (n,)."""
        return np.asarray(2.0 * errors * _n_near(scores, y, errors))

    def project(self, alpha: Array, y: Array, C: Array) -> Array:
        """Return a feasible point near alpha (it need not be the nearest)."""
        return _balanced(np.clip(_off_label(alpha, y), -C[:, None], 0.0), y)

    def at_zero_scores(self, y: Array, C: Array, k: int) -> Array:
        """Return the optimal dual rows of samples whose scores are zero for all W (x_i = 0)."""
        alpha = np.repeat(-C[:, None], k, axis=1)
        alpha[np.arange(len(y)), y] = (k - 1) * C
        return alpha

    def raised(self, alpha: Array, y: Array, C: Array, sets: Array) -> Array:
        """Return dual rows with the same sum in each set of equal samples, and larger entries at their labels."""
        # maths: linear SVM, eq. 35.
        pieces, room = _pieces(y, sets, alpha.shape[1]), C[:, None] + alpha
        rooms = np.zeros(pieces.others.shape)
        np.add.at(rooms, pieces.of_row, room)
        flow = np.minimum(rooms, rooms[pieces.others, pieces.labels[:, None]])
        share = np.divide(flow, rooms, out=np.zeros_like(rooms), where=pieces.is_other & (rooms > 0.0))
        return self.project(alpha - room * share[pieces.of_row], y, C)

    def screened(self, scores: Array, y: Array, C: Array, radius: Array) -> tuple[Array, Array]:
        """Return (rows, alpha): dual rows that are optimal for all score differences within ``radius``."""
        # maths: linear SVM, section 5.
        h = margins(scores, y)
        h[np.arange(len(y)), y] = np.inf
        rows = np.flatnonzero((np.abs(h) > radius[:, None]).all(axis=1))
        violated = (h[rows] > 0) & np.isfinite(h[rows])
        return rows, _balanced(np.where(violated, -C[rows, None], 0.0), y[rows])


class CrammerSinger:
    """The largest hinge among the wrong classes."""

    name = "crammer_singer"

    def value(self, scores: Array, y: Array) -> Array:
        """Return l_i; shape (n,)."""
        return np.asarray(margins(scores, y).max(axis=1))

    def slopes(self, scores: Array, y: Array) -> Array:
        """Return d with l_i = [1 + t d_i1]_+ at the scores t s_i, t > 0; shape (n, 1)."""
        return np.asarray(_differences(scores, y).max(axis=1, keepdims=True))

    def change(self, scores: Array, y: Array, errors: Array) -> Array:
        """Bound by how much l_i changes where no score of row i changes by more than errors_i; shape (n,)."""
        return np.asarray(2.0 * errors * np.minimum(_n_near(scores, y, errors), 1))

    def project(self, alpha: Array, y: Array, C: Array) -> Array:
        """Return a feasible point near alpha (it need not be the nearest)."""
        rest = _off_label(alpha, y)
        np.minimum(rest, 0.0, out=rest)
        own = -rest.sum(axis=1)
        over = np.flatnonzero(own > C)
        if len(over):
            rest[over] *= (C[over] / own[over])[:, None]
            own[over] = -rest[over].sum(axis=1)
        flat, labels = at_labels(rest, y)
        flat[labels] = own
        return rest

    def at_zero_scores(self, y: Array, C: Array, k: int) -> Array:
        """Return optimal dual rows of samples whose scores are zero for all W (x_i = 0)."""
        alpha = np.zeros((len(y), k))
        rows = np.arange(len(y))
        alpha[rows, y] = C
        alpha[rows, (y + 1) % k] = -C
        return alpha

    def raised(self, alpha: Array, y: Array, C: Array, sets: Array) -> Array:
        """Return dual rows with the same sum in each set of equal samples, and larger entries at their labels."""
        # maths: linear SVM, eq. 36: all wrong classes of a row share its room.
        pieces, room = _pieces(y, sets, alpha.shape[1]), C - alpha[np.arange(len(y)), y]
        rooms = np.bincount(pieces.of_row, room)
        sums = np.bincount(pieces.sets, rooms)
        least = np.full_like(sums, np.inf)
        np.minimum.at(least, pieces.sets, np.where(rooms > 0.0, rooms, np.inf))
        rest = (sums - least)[pieces.sets, None]
        flow = np.where(pieces.is_other, rooms[pieces.others], 0.0)
        share = np.divide(flow, rest, out=np.zeros_like(flow), where=rest > 0.0)
        return self.project(alpha - room[:, None] * share[pieces.of_row], y, C)

    def screened(self, scores: Array, y: Array, C: Array, radius: Array) -> tuple[Array, Array]:
        """Return (rows, alpha): dual rows that are optimal for all score differences within ``radius``."""
        # maths: linear SVM, section 5.
        h = margins(scores, y)
        best = h.argmax(axis=1)
        ordered = np.partition(h, -2, axis=1)
        rows = np.flatnonzero(ordered[:, -1] - ordered[:, -2] > radius)
        alpha = np.zeros((len(rows), h.shape[1]))
        inner = np.arange(len(rows))
        alpha[inner, y[rows]] += C[rows]
        alpha[inner, best[rows]] -= C[rows]
        return rows, alpha


class OneVsRestHinge:
    """Sum of the hinges of every class against all others."""

    name = "one_vs_rest"

    def value(self, scores: Array, y: Array) -> Array:
        """Return l_i; shape (n,)."""
        h = self._violations(scores, y)
        return np.asarray(np.maximum(h, 0.0, out=h).sum(axis=1))

    def change(self, scores: Array, y: Array, errors: Array) -> Array:
        """Bound by how much l_i changes where no score of row i changes by more than errors_i; shape (n,)."""
        return np.asarray(errors * (self._violations(scores, y) >= -errors[:, None]).sum(axis=1))

    def project(self, alpha: Array, y: Array, C: Array) -> Array:
        """Return the feasible point nearest to alpha."""
        inside = np.clip(alpha, -C[:, None], 0.0)
        flat, labels = at_labels(inside, y)
        flat[labels] = np.clip(alpha[np.arange(len(y)), y], 0.0, C)
        return inside

    def at_zero_scores(self, y: Array, C: Array, k: int) -> Array:
        """Return the optimal dual rows of samples whose scores are zero for all W (x_i = 0)."""
        alpha = np.repeat(-C[:, None], k, axis=1)
        alpha[np.arange(len(y)), y] = C
        return alpha

    def screened(self, scores: Array, y: Array, C: Array, radius: Array) -> tuple[Array, Array]:
        """Return (rows, alpha): dual rows that are optimal for all scores within ``radius``."""
        h = self._violations(scores, y)
        rows = np.flatnonzero((np.abs(h) > radius[:, None]).all(axis=1))
        return rows, np.where(h[rows] > 0.0, self.at_zero_scores(y[rows], C[rows], h.shape[1]), 0.0)

    def _violations(self, scores: Array, y: Array) -> Array:
        """Return 1 + s_ij, and 1 - s_iy at the label; shape (n, k)."""
        h = np.array(scores)
        flat, labels = at_labels(h, y)
        flat[labels] *= -1.0
        h += 1.0
        return h
