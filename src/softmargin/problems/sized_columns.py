"""[X, bias] by groups of columns of like size: bounds on the errors of scores and of weights that dates do not spoil.

    scores      |error of s_ic| <= gamma sum_g |x_ig| |w_gc|                                    maths: rounding, eq. 9a
    weights     v_jc = sum_i (x_ij - m_j) alpha_ic + m_j S_c ,   S_c = sum_i alpha_ic           maths: rounding, eq. 9b

There is one group, and nothing is shifted, but where some columns are many million times as long as others.
"""

import math
from functools import cached_property, reduce
from itertools import chain
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.core.rounding import (
    TINY,
    Rounded,
    ScoreErrors,
    gamma,
    norms,
    piece_roundings,
    pieces,
    squared_norm,
)
from softmargin.matrices.operator import Operator, column_norms, rmatmul, row_norms, score_roundings, sum_roundings

__all__ = ["SizedColumns"]

Array = NDArray[Any]
NOTHING = 1e-150  # a column shorter than this has no entries, or squares of them underflow
LIKE, GROUPS = 2.0**24, 4  # how many times as long columns of one size may be as others; groups of them: by hand


class SizedColumns:
    """The columns of [X, bias].

    Parameters
    ----------
    X : array, CSR matrix or operator of shape (n, d)
    bias : float
        Value of the constant feature.
    """

    def __init__(self, X: Any, bias: float) -> None:
        self.X, self.bias = X, bias

    @cached_property
    def groups(self) -> list[Any]:
        """Which columns are of like size: one slice, or arrays of their numbers; d is that of the constant feature."""
        if isinstance(self.X, Operator):
            return [slice(None)]
        lengths = np.append(column_norms(self.X), np.sqrt(self.bias**2 * self.X.shape[0] + TINY))
        longest = lengths.max()
        lengths[lengths < NOTHING] = longest  # columns of zeros need no group of their own
        if not longest > LIKE * lengths.min() or not np.isfinite(longest):
            return [slice(None)]
        group = np.minimum(np.log2(longest / lengths) // np.log2(LIKE), GROUPS - 1)
        return [np.flatnonzero(group == name) for name in np.unique(group)]

    @cached_property
    def norms(self) -> Array:
        """The norms of [x_i, bias]; shape (n,)."""
        return row_norms(self.X, self.bias)

    @cached_property
    def _lengths(self) -> Array:
        """The same by groups; shape (n, groups)."""
        if len(self.groups) == 1:
            return self.norms[:, None]
        d = self.X.shape[1]
        return np.column_stack([row_norms(self.X[:, g[g < d]], self.bias if d in g else 0.0) for g in self.groups])

    @cached_property
    def _means(self) -> Array:
        """The means of the columns of an array X, with the constant one; zeros of a sparse X; (d + 1,)."""
        is_dense = isinstance(self.X, np.ndarray) and len(self.X) > 0
        return np.append(self.X.mean(axis=0, dtype=np.float64) if is_dense else np.zeros(self.X.shape[1]), self.bias)

    def _shifted(self, rows: slice) -> Any:
        """Return some rows of X less the means."""
        return self.X[rows] - self._means[:-1] if isinstance(self.X, np.ndarray) else self.X[rows]

    @cached_property
    def _reaches(self) -> Array:
        """The norms of these rows by groups; shape (n, groups)."""
        d = self.X.shape[1]
        parts = ([row_norms(X[:, g[g < d]]) for g in self.groups] for X in map(self._shifted, pieces(self.X.shape[0])))
        return np.vstack([np.column_stack(part) for part in parts])

    def score_errors(self, weights: Array) -> ScoreErrors:
        """Bound the errors of the scores of weights, (d + 1, k), with twelve operations beside their sums."""
        if len(self.groups) == 1:
            sizes = norms(weights, axis=0)[None, :]
        else:
            sizes = np.stack([norms(weights[group], axis=0) for group in self.groups])
        return ScoreErrors(self._lengths, gamma(score_roundings(self.X) + 12) * sizes, np.zeros(weights.shape[1]))

    def weights(self, alpha: Array, operations: int, labels: Array | None = None) -> tuple[Array, Array]:
        """Return W = [X, bias]' alpha, and how far its columns may be from it, by groups of features; (groups, k).

        Entries of alpha have so many roundings. With labels, their entries stand for minus the sums of the others.
        """
        if len(self.groups) == 1:
            share = gamma(sum_roundings(self.X, alpha.shape[1]) + operations)
            return rmatmul(self.X, alpha, self.bias), share * (self.norms @ np.abs(alpha))[None, :]
        sums, n = _exact_sums(alpha, labels), len(alpha)
        weights = np.outer(self._means, sums)
        weights[:-1] += reduce(add, (np.asarray(self._shifted(rows).T @ alpha[rows]) for rows in pieces(n)))
        means = np.array([np.linalg.norm(self._means[group]) for group in self.groups])
        errors = gamma(piece_roundings(n) + 4 + operations) * (self._reaches.T @ np.abs(alpha))
        return weights, errors + gamma(4) * np.outer(means, np.abs(sums))

    def square(self, weights: Array, errors: Array) -> Rounded:
        """Return |W|^2, where groups of features have these errors."""
        if len(self.groups) == 1:
            return squared_norm(weights, math.sqrt(float(np.vdot(errors, errors))))
        parts = zip(self.groups, errors, strict=True)
        return reduce(add, (squared_norm(weights[group], float(np.linalg.norm(error))) for group, error in parts))


def _exact_sums(alpha: Array, labels: Array | None) -> Array:
    """Return the sums of columns, rounded once; with labels their entries are minus the sums of the others; (k,)."""
    if labels is None:
        return np.array([math.fsum(column) for column in alpha.T])
    others = alpha.copy()
    others[np.arange(len(alpha)), labels] = 0.0
    return np.array([math.fsum(chain(others[:, c], -others[labels == c].ravel())) for c in range(alpha.shape[1])])
