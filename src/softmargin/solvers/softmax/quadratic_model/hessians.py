"""The Hessian of softmax losses on some entries of W, formed from samples in one of three ways.

    H[(j, c), (l, e)] = sum_i B_i[c, e] x_ij x_il ,      B_i[c, e] = C_i ([c = e] (p_ic + damping_i) - p_ic p_ie)

    fill_from_rows       one column of W: from pairs of nonzeros of every row, in a compiled loop
    hessian_by_classes   one product for what couples the classes, and one per class for the rest
    hessian_by_pairs     many entries: pair of classes by pair, from the samples that may confuse the two

A fourth, from all products of two features, is in _feature_pairs.
"""

from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmargin.backends.jit import jit
from softmargin.backends.lanes import keep, pointer
from softmargin.core.deadline import check_time
from softmargin.solvers.softmax.quadratic_model.samples import Samples

__all__ = ["LITTLE", "fill_from_rows", "hessian_by_classes", "hessian_by_pairs"]

Array = NDArray[Any]
BLOCK = 1 << 19  # numbers of Z at a time: 4 MB
LITTLE = 0.1  # multiply-adds of H by pairs of classes, as a share of n m^2: 0.1 to 0.2 on mnist


@jit
def fill_from_rows(rows: Any, place: Array, prices: Array, H: Array) -> None:
    """Write H = sum_i prices_i x_i x_i'; place[j] is the row of feature j in H, or m, its size, if not in the model.

    Places ascend; the last one is that of the constant feature. Rows of price zero are skipped.
    """
    bare, m, constant = rows.bare(), H.shape[0], place[place.shape[0] - 1]
    sums = np.zeros((m + 1) * (m + 1))  # the upper triangle, and a dummy row and column m: no branch inside
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


def hessian_by_classes(X: Array, row_of: Array, classes: Array, P: Array, samples: Samples) -> Array:
    """Return H of the entries (row_of, classes), ordered by class, in the precision of X, (r, n); P is (n, k).

    The squares of single classes are made of p (1 - p): a difference of sums would lose the digits of p next to 1.
    """
    m, root = len(classes), np.sqrt(samples.C)
    P = np.ascontiguousarray(P.T)
    coupling, roots = (W.astype(X.dtype) for W in (P * root, np.sqrt(P * (1.0 - P) + samples.damping) * root))
    ends = np.searchsorted(classes, np.arange(len(P) + 1)).tolist()
    parts = [slice(*pair) for pair in pairwise(ends)]
    H, squares = np.zeros((m, m), dtype=X.dtype), [np.zeros((len(row_of[part]),) * 2, dtype=X.dtype) for part in parts]
    size = max(BLOCK // m, m)  # no fewer numbers than H has, as each block adds to all of it
    for begin in range(0, len(root), size):
        check_time()
        block = slice(begin, begin + size)
        some = X[row_of, block]
        for c, part in enumerate(parts):
            Z = some[part] * roots[c, block]
            squares[c] += Z @ Z.T
        if samples.is_coupled:
            some *= coupling[classes, block]
            H -= some @ some.T
    for part, square in zip(parts, squares, strict=True):
        H[part, part] = square
    return H


def hessian_by_pairs(X: Array, row_of: Array, classes: Array, P: Array, samples: Samples, faint: float) -> Array:
    """Return the same from the samples that may confuse two classes; X is (n, r) here.

    diag p - p p' is the sum over pairs of classes of p_c p_e (e_c - e_e) (e_c - e_e)'. Near the optimum few samples
    give a pair more than a faint weight; without the others H is smaller, and still has no negative eigenvalue.
    """
    k, P = P.shape[1], np.ascontiguousarray(P.T)
    ends = np.searchsorted(classes, np.arange(k + 1)).tolist()
    parts, columns = [slice(*pair) for pair in pairwise(ends)], np.split(row_of, ends[1:-1])
    H, own = np.zeros((len(classes), len(classes)), dtype=X.dtype), np.tile(samples.C * samples.damping, (k, 1))
    if not samples.is_coupled:
        own += samples.C * P
    for c, e in combinations(range(k), 2) if samples.is_coupled else ():
        check_time()
        weights = samples.C * P[c] * P[e]
        both = np.flatnonzero(weights > faint * weights.max())
        weights = weights[both]
        own[c, both] += weights
        own[e, both] += weights
        some = X[both]
        Z = some[:, columns[c]] * weights.astype(X.dtype)[:, None]
        H[parts[c], parts[e]] = -Z.T @ some[:, columns[e]]
        H[parts[e], parts[c]] = H[parts[c], parts[e]].T
    for c, part in enumerate(parts):
        check_time()
        seen = np.flatnonzero(own[c])
        Z = X[seen][:, columns[c]] * np.sqrt(own[c, seen]).astype(X.dtype)[:, None]
        H[part, part] = Z.T @ Z
    return H
