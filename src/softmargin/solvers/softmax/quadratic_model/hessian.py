"""The Hessian of the losses by some entries (j, c) of W, written out.

H[(j, c), (l, e)] = sum_i B_i[c, e] x_ij x_il ,      B_i[c, e] = C_i ([c = e] (p_ic + damping_i) - p_ic p_ie)

one column, thin rows       pair by pair of a row's own numbers, in a compiled loop
one column                  Z Z', with Z the columns times sqrt(B_i)
few features                the sums of all products of two features with all products of two classes, one matrix
product; those of features do not change from one model to the next
else                        a product for what couples the classes, and one a class for the rest
"""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import jit
from softmargin.backends.lanes import keep, pointer

__all__ = ["FAST", "by_classes", "by_pairs", "fill_bends", "fill_from_rows", "is_looped", "n_pairs", "pairs_of"]

Array = NDArray[Any]
BLOCK = 1 << 19  # numbers of Z at a time
FAST = 10.0  # multiply-adds of a matrix product in the time of one in a loop over samples


def is_looped(X: Any) -> bool:
    """Say whether the pairs of sparse rows are best summed one by one."""
    if isinstance(X, np.ndarray):
        return False
    own, d = X.nnz / max(X.shape[0], 1), X.shape[1]
    return bool(own * own / 2.0 <= d * d / (2.0 * FAST) + d)


def n_pairs(size: int) -> int:
    """Return the number of pairs a <= b < size."""
    return size * (size + 1) // 2


def pairs_of(columns: Array) -> Array:
    """Return x_ij x_il for all features j <= l; (n_pairs, n) of (d, n)."""
    first, second = np.triu_indices(len(columns))
    return np.asarray(columns[first] * columns[second], dtype=np.float64)


@jit
def fill_bends(P: Array, C: Array, damping: Array, k: int, n_columns: int, out: Array) -> None:
    """Write B_i[c, e] of all classes c <= e, one sample after the other; out is (n, n_pairs), P is (n * k,)."""
    for i in range(C.shape[0]):
        b = 0
        for c in range(n_columns):
            p = C[i] * P[i * k + c]
            out[i, b] = p + C[i] * damping[i] - p * P[i * k + c]
            b += 1
            for e in range(c + 1, n_columns):
                out[i, b] = -p * P[i * k + e]
                b += 1


@jit
def fill_from_rows(rows: Any, place: Array, prices: Array, H: Array) -> None:
    """Write H = sum_i prices_i x_i x_i'; place[j] is the row of feature j in H, or m, its size, if not in play.

    Places ascend; the last one is that of the constant feature. Rows with no price are not touched.
    """
    bare, m, constant = rows.bare(), H.shape[0], place[place.shape[0] - 1]
    sums = np.zeros((m + 1) * (m + 1))  # the upper triangle, and a place for all that is not in play: no branch inside
    sums_, place_ = pointer(sums), pointer(place)
    for i in range(prices.shape[0]):
        if prices[i] != 0.0:
            begin, end = bare.entries(i)
            for p in range(begin, end):
                at = place_[bare.column(i, p)]
                if at < m:
                    scaled, line = prices[i] * bare.value(p), at * (m + 1)
                    for q in range(p, end):
                        sums_[line + place_[bare.column(i, q)]] += scaled * bare.value(q)
                    sums_[line + constant] += scaled
            sums_[constant * (m + 2)] += prices[i]
    for a in range(m):
        for b in range(a, m):
            H[a, b] = H[b, a] = sums_[a * (m + 1) + b]
    keep(sums)


def by_pairs(pairs: Array, bends: Array, row_of: Array, classes: Array, d: int, k: int) -> Array:
    """Return H of the entries (row_of, classes), from sums of pairs of d features and of k classes."""
    H = np.empty((len(classes), len(classes)))
    _spread(pairs @ bends, row_of, classes, d, k, H)
    return H


@jit
def _spread(sums: Array, row_of: Array, classes: Array, d: int, k: int, H: Array) -> None:
    """Write the sums, of pairs a <= b, to where they belong in H."""
    for a in range(H.shape[0]):
        for b in range(a + 1):
            i, j = min(row_of[a], row_of[b]), max(row_of[a], row_of[b])
            c, e = min(classes[a], classes[b]), max(classes[a], classes[b])
            H[a, b] = sums[i * d - i * (i - 1) // 2 + j - i, c * k - c * (c - 1) // 2 + e - c]
            H[b, a] = H[a, b]


def by_classes(X: Array, row_of: Array, classes: Array, P: Array, C: Array, damping: Array, is_coupled: bool) -> Array:
    """Return H of the entries (row_of, classes), ordered by class; X is (r, n), P is (n, k)."""
    m, root = len(classes), np.sqrt(C)
    P = np.ascontiguousarray(P.T)
    coupling, roots = P * root, np.sqrt(P + damping) * root
    bounds = np.searchsorted(classes, np.arange(len(P) + 1)).tolist()
    H, size = np.zeros((m, m)), max(BLOCK // m, 1)
    for begin in range(0, len(root), size):
        part = slice(begin, begin + size)
        some = X[row_of, part]
        if is_coupled:
            Z = some * coupling[classes, part]
            H -= Z @ Z.T
        for c, (first, end) in enumerate(pairwise(bounds)):
            Z = some[first:end] * roots[c, part]
            H[first:end, first:end] += Z @ Z.T
    return H
